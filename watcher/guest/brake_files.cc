// SPDX-License-Identifier: LGPL-2.1-or-later
// BrakeFiles: reading and setting the files of a workload's cgroup. Reporter calls it with what
// Brake decided; it decides nothing.
#include "watcher/guest/brake_files.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>

#include "watcher/guest/cgroup.h"
#include "watcher/guest/proc_text.h"

namespace xenpack::guest {
namespace {

constexpr std::uint64_t kBytesPerKib = 1024;

// Where the limit before the brake is kept while the brake is on: at the cgroup itself, so that it
// lives as long as the limit does, whoever is killed. (cgroup v2 has extended attributes.)
constexpr char kOwnLimitAttribute[] = "trusted.xenpack.memory.high";

// Runs in the forked process. Only system calls: it must work with no memory left.
[[noreturn]] void guard(int pipe, int high, const std::string& own_limit,
                        const std::string& directory) {
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) {
        ::signal(number, SIG_IGN);
    }
    ::prctl(PR_SET_NAME, "xenpack-brake");
    char byte = 0;
    ssize_t r = 0;
    do {
        r = ::read(pipe, &byte, 1);
    } while (r < 0 && errno == EINTR);
    // A byte dismisses; the pipe's end means that the reporter is gone.
    if (r == 0) {
        r = ::pwrite(high, own_limit.data(), own_limit.size(), 0);
        if (r >= 0) {
            ::removexattr(directory.c_str(), kOwnLimitAttribute);
        }
    }
    ::_exit(r < 0 ? 1 : 0);
}

}  // namespace

BrakeFiles::BrakeFiles(std::string directory, TextFile high, TextFile current, TextFile events)
    : directory_(std::move(directory)),
      high_(std::move(high)),
      current_(std::move(current)),
      events_(std::move(events)) {}

BrakeFiles::BrakeFiles(BrakeFiles&& other) noexcept
    : directory_(std::move(other.directory_)),
      high_(std::move(other.high_)),
      current_(std::move(other.current_)),
      events_(std::move(other.events_)),
      own_limit_(std::move(other.own_limit_)),
      set_kib_(other.set_kib_),
      guardian_pipe_(std::move(other.guardian_pipe_)),
      guardian_(std::exchange(other.guardian_, -1)) {}

BrakeFiles::~BrakeFiles() {
    if (guardian_ > 0 && set_limit(std::nullopt)) {
        dismiss_guardian();
        ::removexattr(directory_.c_str(), kOwnLimitAttribute);
    }
}

Expected<BrakeFiles> BrakeFiles::open(const std::string& directory, std::string_view own_cgroup) {
    const auto fit = check_workload("--brake", directory, own_cgroup);
    if (!fit) {
        return tl::unexpected(fit.error());
    }
    // Without O_NONBLOCK, kernels that know it reclaim in the writer when the limit is below the
    // usage.
    auto high = TextFile::open(directory + "/memory.high", O_RDWR | O_NONBLOCK);
    auto current = TextFile::open(directory + "/memory.current", O_RDONLY);
    auto events = TextFile::open(directory + "/memory.events.local", O_RDONLY);
    if (!events) {
        events = TextFile::open(directory + "/memory.events", O_RDONLY);
    }
    for (const auto* const file : {&high, &current, &events}) {
        if (!*file) {
            return tl::unexpected(file->error().during("--brake"));
        }
    }
    BrakeFiles files(directory, std::move(*high), std::move(*current), std::move(*events));
    auto ready = files.remember_own_limit();
    if (ready) {
        ready = files.start_guardian();
    }
    if (!ready) {
        return tl::unexpected(ready.error().during("--brake"));
    }
    return files;
}

std::optional<std::uint64_t> BrakeFiles::own_limit_kib() const {
    const auto bytes = parse_single(own_limit_);
    return bytes ? std::optional(*bytes / kBytesPerKib) : std::nullopt;
}

Expected<BrakeFiles::Readings> BrakeFiles::read() {
    Readings readings;
    const auto current = current_.read(buffer_);
    const auto usage_bytes = current ? parse_single(*current) : std::nullopt;
    if (!usage_bytes) {
        return current ? fail("{} is not a number", current_.path())
                       : tl::unexpected(current.error());
    }
    readings.usage_kib = *usage_bytes / kBytesPerKib;
    const auto events = events_.read(buffer_);
    const auto high = events ? number_of(*events, "high") : std::nullopt;
    if (!high) {
        return events ? fail("{} has no `high`", events_.path()) : tl::unexpected(events.error());
    }
    readings.high_events = *high;
    return readings;
}

Expected<void> BrakeFiles::set_limit(std::optional<std::uint64_t> limit_kib) {
    if (limit_kib == set_kib_) {
        return {};
    }
    std::array<char, 24> digits{};
    std::string_view text = own_limit_;
    if (limit_kib) {
        const auto [end, status] =
            std::to_chars(digits.data(), digits.data() + digits.size(), *limit_kib * kBytesPerKib);
        text = std::string_view(digits.data(), static_cast<std::size_t>(end - digits.data()));
    }
    auto written = high_.write(text);
    if (written) {
        set_kib_ = limit_kib;
    }
    return written;
}

Expected<void> BrakeFiles::remember_own_limit() {
    const auto text = high_.read(buffer_);
    if (!text) {
        return tl::unexpected(text.error());
    }
    own_limit_ = *text;
    // One that is kept already is of a reporter that was killed together with its guardian: what
    // stands in memory.high is that one's, not the owner's.
    std::array<char, 64> kept{};
    const ssize_t n = ::getxattr(directory_.c_str(), kOwnLimitAttribute, kept.data(), kept.size());
    const std::string_view before(kept.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
    if (before.starts_with("max") || parse_single(before)) {
        own_limit_ = before;
    }
    // Where it cannot be kept the guardian alone puts it back.
    (void)::setxattr(directory_.c_str(), kOwnLimitAttribute, own_limit_.data(), own_limit_.size(),
                     0);
    return {};
}

Expected<void> BrakeFiles::start_guardian() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        const int code = errno;
        return fail_with(code, "cannot make a pipe: {}", std::strerror(code));
    }
    Fd reading(ends[0]);
    Fd writing(ends[1]);
    guardian_ = ::fork();
    if (guardian_ == 0) {
        ::close(writing.get());
        guard(reading.get(), high_.fd(), own_limit_, directory_);
    }
    if (guardian_ < 0) {
        const int code = errno;
        return fail_with(code, "cannot fork: {}", std::strerror(code));
    }
    guardian_pipe_ = std::move(writing);
    return {};
}

void BrakeFiles::dismiss_guardian() {
    const char byte = 'x';
    if (::write(guardian_pipe_.get(), &byte, 1) == 1) {
        ::waitpid(guardian_, nullptr, 0);
    }
    guardian_ = -1;
}

}  // namespace xenpack::guest
