// SPDX-License-Identifier: LGPL-2.1-or-later
// The overrides' file: JSON, an object by uuid.
#include "watcher/zones/overrides.h"

#include <cerrno>
#include <nlohmann/json.hpp>

#include "watcher/files/whole_file.h"

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

}  // namespace

Expected<OverridesFile> OverridesFile::load(std::string path) {
    OverridesFile file;
    file.path_ = std::move(path);
    const auto text = read_file(file.path_);
    if (!text) {
        return text.error().code == ENOENT ? Expected<OverridesFile>(std::move(file))
                                           : tl::unexpected<Error>(text.error());
    }
    const json whole = json::parse(*text, nullptr, false);
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
    if (auto written = replace_file(path_, to_json(changed).dump(2) + "\n", Readers::owner_only);
        !written) {
        return written;
    }
    by_uuid_ = std::move(changed);
    return {};
}

}  // namespace xenpack
