// SPDX-License-Identifier: LGPL-2.1-or-later
// libxl's names and defaults for the few figures that count; the sum is the host's, so that a start
// costs what was said. Called by the toolstack's table.
#include "plugin/sim/start_cost.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "plugin/sim/host.h"
#include "watcher/config/config.h"

namespace xenpack::sim {

namespace {

using nlohmann::json;

// LIBXL_MEMKB_DEFAULT of libxl.h: not set.
constexpr std::uint64_t kNotSet = ~std::uint64_t{0};
constexpr std::uint64_t kMostVcpus = 4096;

tl::unexpected<Error> no_configuration(std::string_view what) {
    return fail_with(EINVAL, "this is no configuration that xl create --dryrun prints: {}", what);
}

// nullopt: not set.
Expected<std::optional<std::uint64_t>> number(const json& object, const char* key,
                                              std::uint64_t most) {
    const auto at = object.find(key);
    if (at == object.end()) {
        return std::optional<std::uint64_t>{};
    }
    if (!at->is_number_unsigned()) {
        return no_configuration(fmt::format("b_info.{} is no number", key));
    }
    const auto value = at->get<std::uint64_t>();
    if (value == kNotSet) {
        return std::optional<std::uint64_t>{};
    }
    if (value > most) {
        return no_configuration(fmt::format("b_info.{} is over {}", key, most));
    }
    return std::optional(value);
}

// "6f1a...-...", or nothing where it is not of that form.
bool read_uuid(std::string_view text, std::uint8_t (&uuid)[16]) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < sizeof uuid; ++i) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            if (at >= text.size() || text[at] != '-') {
                return false;
            }
            ++at;
        }
        const std::string_view pair = text.substr(std::min(at, text.size()), 2);
        const auto [stop, status] =
            std::from_chars(pair.data(), pair.data() + pair.size(), uuid[i], 16);
        if (pair.size() != 2 || status != std::errc() || stop != pair.data() + 2) {
            return false;
        }
        at += 2;
    }
    return at == text.size();
}

Expected<void> read_name(const json& config, xenpack_start_cost& cost) {
    const auto c_info = config.find("c_info");
    if (c_info == config.end() || !c_info->is_object()) {
        return no_configuration("it has no c_info");
    }
    const auto uuid = c_info->find("uuid");
    if (uuid != c_info->end() &&
        (!uuid->is_string() || !read_uuid(uuid->get_ref<const std::string&>(), cost.uuid))) {
        return no_configuration("c_info.uuid is no uuid");
    }
    return {};
}

}  // namespace

Expected<xenpack_start_cost> start_cost(std::string_view config_json) {
    const json config = json::parse(config_json, nullptr, false);
    if (!config.is_object()) {
        return no_configuration("it is no JSON object");
    }
    xenpack_start_cost cost{};
    if (auto ok = read_name(config, cost); !ok) {
        return tl::unexpected(ok.error());
    }
    const auto b_info = config.find("b_info");
    if (b_info == config.end() || !b_info->is_object()) {
        return no_configuration("it has no b_info");
    }
    const auto max_kib = number(*b_info, "max_memkb", kMaxSizeKib);
    const auto target_kib = number(*b_info, "target_memkb", kMaxSizeKib);
    const auto shadow_kib = number(*b_info, "shadow_memkb", kMaxSizeKib);
    const auto vcpus = number(*b_info, "max_vcpus", kMostVcpus);
    for (const auto* read : {&max_kib, &target_kib, &shadow_kib, &vcpus}) {
        if (!*read) {
            return tl::unexpected(read->error());
        }
    }
    if (!*max_kib || **max_kib == 0 || target_kib->value_or(0) > **max_kib) {
        return no_configuration("b_info.max_memkb is missing, or under target_memkb");
    }
    DomainConfig domain;
    domain.max_memory_kib = **max_kib;
    domain.memory_kib = target_kib->value_or(**max_kib);
    domain.vcpus = static_cast<unsigned>(vcpus->value_or(1));
    const std::uint64_t all_kib = Host::start_cost_kib(domain);
    cost.memory_kib = domain.memory_kib / 4 * 4;
    // A paging pool that was set, and larger than all that libxl would add, is what is taken.
    cost.overhead_kib = std::max(all_kib - cost.memory_kib, shadow_kib->value_or(0));
    return cost;
}

}  // namespace xenpack::sim
