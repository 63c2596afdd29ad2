// SPDX-License-Identifier: LGPL-2.1-or-later
// From nodes to a Family; most domains have none of them, and cost one read.
#include "watcher/zones/family.h"

#include <charconv>
#include <cstdint>
#include <utility>

namespace xenpack {
namespace {

// The nodes of one domain, read one after the other until one cannot be.
class Nodes {
  public:
    explicit Nodes(const ReadNode& read) : read_(read) {}

    std::optional<std::string> get(std::string_view path) {
        if (failure_) {
            return std::nullopt;
        }
        auto value = read_(path);
        if (!value) {
            failure_ = std::move(value.error());
            return std::nullopt;
        }
        return std::move(*value);
    }
    [[nodiscard]] std::optional<Error>& failure() { return failure_; }

  private:
    const ReadNode& read_;
    std::optional<Error> failure_;
};

std::optional<std::uint64_t> number_in(const std::string& text) {
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number);
    return read.ec == std::errc{} && read.ptr == end ? std::optional(number) : std::nullopt;
}

void read_fork(Nodes& nodes, Family& family) {
    const auto state = nodes.get(kForkStatePath);
    if (state) {
        family.kind = *state == "complete" ? Family::Kind::fork : Family::Kind::fork_building;
        family.template_uuid = nodes.get(kForkTemplatePath).value_or("");
        family.generation = nodes.get(kForkGenerationPath).value_or("");
        family.pool = nodes.get(kPoolPath).value_or("");
    }
    if (!family.pool.empty()) {
        family.identity_name = nodes.get(kForkNamePath).value_or("");
        const std::string in_pool = nodes.get(kPoolStatePath).value_or("");
        family.in_pool = in_pool == "taken"    ? Family::InPool::taken
                         : in_pool == "taking" ? Family::InPool::taking
                                               : Family::InPool::stands;
    }
}

void read_template(Nodes& nodes, Family& family) {
    const auto seal = nodes.get(kTemplatePath);
    const auto name = nodes.get(kTemplateNamePath);
    if (!seal && !name) {
        return;
    }
    family.kind = !seal               ? Family::Kind::asked
                  : *seal == "sealed" ? Family::Kind::sealed
                                      : Family::Kind::sealing;
    family.has_reporter = nodes.get(kIdentityPath).value_or("") != "none";
    family.template_name = name.value_or("");
    family.pool.clear();
    family.identity_name.clear();
    if (family.kind == Family::Kind::sealed) {
        family.sealed_cpu_ns = number_in(nodes.get(kSealedCpuPath).value_or(""));
    }
}

Family read_any(Nodes& nodes) {
    Family family;
    if (!nodes.get(kFamilyPath)) {
        return family;
    }
    read_fork(nodes, family);
    if (family.kind != Family::Kind::fork_building) {
        read_template(nodes, family);
    }
    return family;
}

}  // namespace

Expected<Family> read_family(const ReadNode& read) {
    Nodes nodes(read);
    Family family = read_any(nodes);
    if (nodes.failure()) {
        return tl::unexpected(std::move(*nodes.failure()));
    }
    return family;
}

std::string_view left_alone_why(const Family& family) {
    switch (family.kind) {
        case Family::Kind::none:
            return {};
        case Family::Kind::asked:
        case Family::Kind::sealing:
            return "it is about to become a template";
        case Family::Kind::sealed:
            return "a template: it never runs again, and its forks have its memory";
        case Family::Kind::fork_building:
        case Family::Kind::fork:
            return "a fork: it takes memory only as it writes";
    }
    return {};
}

}  // namespace xenpack
