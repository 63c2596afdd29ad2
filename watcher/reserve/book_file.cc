// SPDX-License-Identifier: LGPL-2.1-or-later
// JSON: an object with the boot it is of, the next id, and the entries in order of arrival.
#include "watcher/reserve/book_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace xenpack {
namespace {

using nlohmann::json;

std::string this_boot() {
    std::string id;
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
    return id;
}

json to_json(const Reservation& r) {
    return {{"id", r.id},
            {"size_kib", r.size_kib},
            {"overhead_kib", r.overhead_kib},
            {"owner", r.owner},
            {"pid", r.pid},
            {"pid_started", r.pid_started},
            {"uuid", r.uuid},
            {"wait_until_ms", r.wait_until_ms},
            {"deadline_ms", r.deadline_ms},
            {"state", name_of(r.state)},
            {"taken_kib", r.taken_kib},
            {"owner_gone", r.owner_gone}};
}

ReservationState state_called(const std::string& name) {
    for (const ReservationState state :
         {ReservationState::granted, ReservationState::in_transfer}) {
        if (name == name_of(state)) {
            return state;
        }
    }
    return ReservationState::waiting;
}

// Throws json::exception where a member is missing or of another type.
Reservation from_json(const json& entry) {
    Reservation r;
    entry.at("id").get_to(r.id);
    entry.at("size_kib").get_to(r.size_kib);
    entry.at("overhead_kib").get_to(r.overhead_kib);
    entry.at("owner").get_to(r.owner);
    entry.at("pid").get_to(r.pid);
    entry.at("pid_started").get_to(r.pid_started);
    entry.at("uuid").get_to(r.uuid);
    entry.at("wait_until_ms").get_to(r.wait_until_ms);
    entry.at("deadline_ms").get_to(r.deadline_ms);
    r.state = state_called(entry.at("state").get<std::string>());
    entry.at("taken_kib").get_to(r.taken_kib);
    entry.at("owner_gone").get_to(r.owner_gone);
    return r;
}

Expected<Book> parse(const std::string& text, const std::string& path) {
    try {
        const json whole = json::parse(text);
        if (whole.at("boot").get<std::string>() != this_boot()) {
            return Book{};
        }
        std::vector<Reservation> entries;
        for (const json& entry : whole.at("reservations")) {
            entries.push_back(from_json(entry));
        }
        return Book(std::move(entries), whole.at("next_id").get<std::uint64_t>());
    } catch (const json::exception& error) {
        return fail("{} is damaged ({}): what was promised to starts is forgotten", path,
                    error.what());
    }
}

tl::unexpected<Error> failed(const char* doing, const std::string& path) {
    const int code = errno;
    return fail_with(code, "{} {}: {}", doing, path, std::strerror(code));
}

Expected<void> write_all(int fd, const std::string& text, const std::string& path) {
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t r = ::write(fd, text.data() + done, text.size() - done);
        if (r < 0 && errno != EINTR) {
            return failed("writing", path);
        }
        done += r > 0 ? static_cast<std::size_t>(r) : 0;
    }
    if (::fsync(fd) != 0) {
        return failed("writing", path);
    }
    return {};
}

}  // namespace

Expected<Book> load_book(const std::string& path) {
    std::ifstream in(path);
    if (!in) {
        if (errno == ENOENT) {
            return Book{};
        }
        return failed("reading", path);
    }
    std::ostringstream text;
    text << in.rdbuf();
    return parse(text.str(), path);
}

Expected<void> store_book(const std::string& path, const Book& book) {
    json whole{{"boot", this_boot()}, {"next_id", book.next_id()}, {"reservations", json::array()}};
    for (const Reservation& r : book.entries()) {
        whole["reservations"].push_back(to_json(r));
    }
    const std::string text = whole.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
    const std::string aside = path + ".new";
    const int fd = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return failed("writing", aside);
    }
    Expected<void> written = write_all(fd, text, aside);
    ::close(fd);
    if (written && ::rename(aside.c_str(), path.c_str()) != 0) {
        written = failed("replacing", path);
    }
    if (!written) {
        ::unlink(aside.c_str());
    }
    return written;
}

}  // namespace xenpack
