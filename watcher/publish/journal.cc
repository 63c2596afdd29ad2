// SPDX-License-Identifier: LGPL-2.1-or-later
// Lines to journald (sd_journal_sendv) or to standard error.
#include "watcher/publish/journal.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#ifdef XENPACK_HAVE_SYSTEMD
#include <systemd/sd-journal.h>
#endif

namespace xenpack {
namespace {

// One per kind of decision, for journalctl MESSAGE_ID=...; listed in xenpackd(8). Never change one.
std::string_view message_id(DecisionKind kind) {
    switch (kind) {
        case DecisionKind::grow:
            return "9e5090edd80346979ae4000a98a244e9";
        case DecisionKind::shrink:
            return "adfc006ad7aa45d586268c66be0aaf78";
        case DecisionKind::found:
            return "0e8b512b97324d3596499f315b905d07";
        case DecisionKind::gone:
            return "dfeebbd9fad042f898787025032c8f5e";
        case DecisionKind::fault:
            return "f6c64697949d46cabae570f33bd1ddf2";
        case DecisionKind::host:
            return "06fd70f7c1d84fe1a8bb2ad816922306";
        case DecisionKind::config:
            return "1c7af153b949428d820650a0a46b3315";
        case DecisionKind::start:
            return "9644d5f931f44bdfad0bafa510d8a577";
        case DecisionKind::sealed:
            return "01f5845b4dc045c08c80f30416c8f1a8";
        case DecisionKind::fork:
            return "663d96c981664719957b95f1e77699fd";
    }
    return "";
}

LogLevel level_of(DecisionKind kind) {
    switch (kind) {
        case DecisionKind::grow:
        case DecisionKind::shrink:
        case DecisionKind::found:
        case DecisionKind::gone:
        case DecisionKind::start:
        case DecisionKind::fork:
            return LogLevel::info;
        case DecisionKind::host:
        case DecisionKind::config:
        case DecisionKind::sealed:
            return LogLevel::notice;
        case DecisionKind::fault:
            return LogLevel::warning;
    }
    return LogLevel::info;
}

// systemd sets JOURNAL_STREAM to the device and inode of the standard error it connected, as
// systemd.exec(5) describes; a standard error redirected since is no longer that one.
bool stderr_is_journald() {
#ifdef XENPACK_HAVE_SYSTEMD
    const char* stream = std::getenv("JOURNAL_STREAM");
    struct stat st {};
    return stream != nullptr && fstat(STDERR_FILENO, &st) == 0 &&
           fmt::format("{}:{}", st.st_dev, st.st_ino) == stream;
#else
    return false;
#endif
}

void send_to_journald([[maybe_unused]] const std::vector<std::string>& fields) {
#ifdef XENPACK_HAVE_SYSTEMD
    std::vector<iovec> parts;
    parts.reserve(fields.size());
    for (const std::string& field : fields) {
        parts.push_back({const_cast<char*>(field.data()), field.size()});
    }
    sd_journal_sendv(parts.data(), static_cast<int>(parts.size()));
#endif
}

// A full disk or a reader that has gone must not end the daemon: the line is lost, nothing else.
void send_to_stderr(std::string_view text) {
    const std::string line = fmt::format("xenpackd: {}\n", text);
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
}

std::vector<std::string> fields_of(const Decision& d, const std::string& line) {
    std::vector<std::string> fields{
        fmt::format("MESSAGE={}", line),
        fmt::format("PRIORITY={}", static_cast<int>(level_of(d.kind))),
        fmt::format("MESSAGE_ID={}", message_id(d.kind)),
        "SYSLOG_IDENTIFIER=xenpackd",
        fmt::format("XENPACK_KIND={}", name_of(d.kind)),
        fmt::format("XENPACK_REASON={}", d.reason),
    };
    if (!d.uuid.empty()) {
        fields.push_back(fmt::format("XEN_DOMID={}", d.domid));
        fields.push_back(fmt::format("XEN_DOMAIN_NAME={}", d.zone));
        fields.push_back(fmt::format("XEN_DOMAIN_UUID={}", d.uuid));
    }
    if (d.from_kib) {
        fields.push_back(fmt::format("XENPACK_FROM_KIB={}", *d.from_kib));
    }
    if (d.to_kib) {
        fields.push_back(fmt::format("XENPACK_TO_KIB={}", *d.to_kib));
    }
    return fields;
}

}  // namespace

Journal::Journal(LogLevel most) : most_(most), to_journald_(stderr_is_journald()) {}

void Journal::decision(const Decision& decision) const {
    if (level_of(decision.kind) > most_) {
        return;
    }
    const std::string line = to_line(decision);
    if (to_journald_) {
        send_to_journald(fields_of(decision, line));
    } else {
        send_to_stderr(line);
    }
}

void Journal::log(LogLevel level, std::string_view text) const {
    if (level > most_) {
        return;
    }
    if (to_journald_) {
        send_to_journald({fmt::format("MESSAGE={}", text),
                          fmt::format("PRIORITY={}", static_cast<int>(level)),
                          "SYSLOG_IDENTIFIER=xenpackd"});
    } else {
        send_to_stderr(text);
    }
}

}  // namespace xenpack
