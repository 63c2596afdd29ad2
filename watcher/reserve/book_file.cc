// SPDX-License-Identifier: LGPL-2.1-or-later
// JSON: an object with the boot it is of, the next id, and the entries in order of arrival.
#include "watcher/reserve/book_file.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "watcher/files/whole_file.h"

namespace xenpack {
namespace {

using nlohmann::json;

// A book has a few entries of some 300 bytes; what is larger was not written by store_book.
constexpr std::uintmax_t kMostBytes = std::uintmax_t{64} << 20;
// More than any host has, so that no sum of sizes overflows.
constexpr std::uint64_t kMostKib = std::uint64_t{1} << 40;
constexpr std::uint64_t kMostIds = std::numeric_limits<std::uint64_t>::max() / 2;

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

struct Damage : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The JSON library would turn any number into any other type, and cut off what does not fit.
std::uint64_t whole_number(const json& entry, const char* name, std::uint64_t most) {
    const json& value = entry.at(name);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > most) {
        throw Damage(fmt::format("{} is no whole number from 0 to {}", name, most));
    }
    return value.get<std::uint64_t>();
}

// Throws json::exception where a member is missing or of another type, and Damage.
Reservation from_json(const json& entry) {
    constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
    constexpr std::uint64_t kMostMs = std::numeric_limits<std::int64_t>::max();
    Reservation r;
    r.id = whole_number(entry, "id", kAny);
    r.size_kib = whole_number(entry, "size_kib", kMostKib);
    r.overhead_kib = whole_number(entry, "overhead_kib", kMostKib);
    entry.at("owner").get_to(r.owner);
    r.pid = static_cast<int>(whole_number(entry, "pid", std::numeric_limits<int>::max()));
    r.pid_started = whole_number(entry, "pid_started", kAny);
    entry.at("uuid").get_to(r.uuid);
    r.wait_until_ms = static_cast<std::int64_t>(whole_number(entry, "wait_until_ms", kMostMs));
    r.deadline_ms = static_cast<std::int64_t>(whole_number(entry, "deadline_ms", kMostMs));
    r.state = state_called(entry.at("state").get<std::string>());
    r.taken_kib = whole_number(entry, "taken_kib", kMostKib);
    entry.at("owner_gone").get_to(r.owner_gone);
    return r;
}

tl::unexpected<Error> damaged(const std::string& path, const char* how) {
    return fail(
        "{} is damaged ({}): what was promised to starts before is forgotten, and starts "
        "that are under way may find too little",
        path, how);
}

Expected<Book> parse(const std::string& text, const std::string& path) {
    try {
        const json whole = json::parse(text);
        if (whole.at("boot").get<std::string>() != this_boot()) {
            return Book{};
        }
        std::vector<Reservation> entries;
        std::uint64_t last_id = 0;
        for (const json& entry : whole.at("reservations")) {
            Reservation r = from_json(entry);
            if (!entries.empty() && r.id <= last_id) {
                throw Damage("ids do not ascend");
            }
            last_id = r.id;
            entries.push_back(std::move(r));
        }
        const std::uint64_t next_id = whole_number(whole, "next_id", kMostIds);
        if (next_id <= last_id) {
            throw Damage(fmt::format("next_id, {}, is in use", next_id));
        }
        return Book(std::move(entries), next_id);
    } catch (const json::exception& error) {
        return damaged(path, error.what());
    } catch (const Damage& damage) {
        return damaged(path, damage.what());
    }
}

}  // namespace

Expected<Book> load_book(const std::string& path) {
    // Opening a pipe would wait for its writer, and a device may never end.
    std::error_code unknown;
    const auto type = std::filesystem::status(path, unknown).type();
    if (type != std::filesystem::file_type::not_found) {
        if (type != std::filesystem::file_type::regular) {
            return damaged(path, "it is no regular file");
        }
        if (std::filesystem::file_size(path, unknown) > kMostBytes) {
            return damaged(path, "it is too large");
        }
    }
    const auto text = read_file(path);
    if (!text) {
        return text.error().code == ENOENT ? Expected<Book>(Book{})
                                           : tl::unexpected<Error>(text.error());
    }
    return parse(*text, path);
}

Expected<void> store_book(const std::string& path, const Book& book) {
    json whole{{"boot", this_boot()}, {"next_id", book.next_id()}, {"reservations", json::array()}};
    for (const Reservation& r : book.entries()) {
        whole["reservations"].push_back(to_json(r));
    }
    const std::string text = whole.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
    return replace_file(path, text, Readers::owner_only);
}

bool book_is_there(const std::string& path) {
    std::error_code unknown;
    const auto type = std::filesystem::symlink_status(path, unknown).type();
    return type != std::filesystem::file_type::not_found;
}

}  // namespace xenpack
