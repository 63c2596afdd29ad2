// SPDX-License-Identifier: LGPL-2.1-or-later
// The overrides' file: JSON, an object by uuid.
#include "watcher/zones/overrides.h"

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

template <class T>
void put(json& object, const char* name, const std::optional<T>& value) {
    if (value) {
        object[name] = *value;
    }
}

template <class T>
std::optional<T> take(const json& object, const char* name) {
    const auto it = object.find(name);
    return it != object.end() && it->is_number_unsigned() ? std::optional(it->get<T>())
                                                          : std::nullopt;
}

json to_json(const std::map<std::string, ZoneOverrides>& by_uuid) {
    json whole = json::object();
    for (const auto& [uuid, o] : by_uuid) {
        json& entry = whole[uuid] = json::object();
        put(entry, "floor_kib", o.floor_kib);
        put(entry, "ceiling_kib", o.ceiling_kib);
        put(entry, "weight", o.weight);
        put(entry, "pin_kib", o.pin_kib);
    }
    return whole;
}

Expected<void> write_all(int fd, const std::string& text, const std::string& path) {
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t r = ::write(fd, text.data() + done, text.size() - done);
        if (r < 0) {
            return fail_with(errno, "writing {}: {}", path, std::strerror(errno));
        }
        done += static_cast<std::size_t>(r);
    }
    return {};
}

Expected<void> replace_file(const std::string& path, const std::string& text) {
    const std::string aside = path + ".new";
    const int fd = ::open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return fail_with(errno, "writing {}: {}", aside, std::strerror(errno));
    }
    Expected<void> written = write_all(fd, text, aside);
    ::close(fd);
    if (!written) {
        ::unlink(aside.c_str());
        return written;
    }
    if (::rename(aside.c_str(), path.c_str()) != 0) {
        return fail_with(errno, "replacing {}: {}", path, std::strerror(errno));
    }
    return {};
}

}  // namespace

Expected<OverridesFile> OverridesFile::load(std::string path) {
    OverridesFile file;
    file.path_ = std::move(path);
    std::ifstream in(file.path_);
    if (!in) {
        if (errno == ENOENT) {
            return file;
        }
        return fail_with(errno, "reading {}: {}", file.path_, std::strerror(errno));
    }
    std::ostringstream text;
    text << in.rdbuf();
    const json whole = json::parse(text.str(), nullptr, false);
    if (!whole.is_object()) {
        return fail(
            "{} is damaged: it is not a JSON object. Remove it to start with what the "
            "configuration says",
            file.path_);
    }
    for (const auto& [uuid, entry] : whole.items()) {
        file.by_uuid_[uuid] = {
            take<std::uint64_t>(entry, "floor_kib"), take<std::uint64_t>(entry, "ceiling_kib"),
            take<unsigned>(entry, "weight"), take<std::uint64_t>(entry, "pin_kib")};
    }
    return file;
}

ZoneOverrides OverridesFile::get(const Uuid& uuid) const {
    const auto it = by_uuid_.find(to_string(uuid));
    return it == by_uuid_.end() ? ZoneOverrides{} : it->second;
}

Expected<void> OverridesFile::set(const Uuid& uuid, const ZoneOverrides& o) {
    auto changed = by_uuid_;
    if (o.floor_kib || o.ceiling_kib || o.weight || o.pin_kib) {
        changed[to_string(uuid)] = o;
    } else {
        changed.erase(to_string(uuid));
    }
    if (auto written = replace_file(path_, to_json(changed).dump(2) + "\n"); !written) {
        return written;
    }
    by_uuid_ = std::move(changed);
    return {};
}

}  // namespace xenpack
