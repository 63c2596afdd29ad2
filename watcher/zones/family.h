// SPDX-License-Identifier: LGPL-2.1-or-later
// Family: what dom0's nodes below /local/domain/N/xenpack say of a domain: that it is a template or
// about to be one, or whose fork it is. They outlive the watcher. Zones reads them, fork/ and the
// plugin write them (plugin/toolstack.h, "templates and forks"), and no guest can.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "watcher/error.h"

namespace xenpack {

inline constexpr char kFamilyPath[] = "xenpack";
inline constexpr char kQuiescePath[] = "xenpack/quiesce";
inline constexpr char kTemplatePath[] = "xenpack/template";
// Of a template, where its toolstack wrote it: its processor time as it was sealed, in ns.
inline constexpr char kSealedCpuPath[] = "xenpack/sealed-cpu-ns";
// "guest" or "none": whether forks of it have a reporter that takes their identity.
inline constexpr char kIdentityPath[] = "xenpack/identity";
// The name that a template-to-be shall have; there from the request on until it is sealed.
inline constexpr char kTemplateNamePath[] = "xenpack/template-name";
inline constexpr char kForkTemplatePath[] = "xenpack/fork/template";
inline constexpr char kForkStatePath[] = "xenpack/fork/state";
inline constexpr char kForkNamePath[] = "xenpack/fork/name";
inline constexpr char kForkSeedPath[] = "xenpack/fork/seed";
inline constexpr char kForkGenerationPath[] = "xenpack/fork/generation";
// Of a fork that was made for a pool: which one; and there once it is "taking", being handed out,
// or "taken".
inline constexpr char kPoolPath[] = "xenpack/pool";
inline constexpr char kPoolStatePath[] = "xenpack/pool-state";

struct Family {
    enum class Kind {
        none,
        asked,  // it is about to be suspended, and may have been told to be quiet
        sealing,
        sealed,         // a template
        fork_building,  // not all of it is there yet
        fork            // complete
    };

    Kind kind = Kind::none;
    bool has_reporter = true;     // of a template and of one to be: see kIdentityPath
    std::string template_name{};  // of one that is being sealed; empty: not known
    // Of a fork, and of one that has become a template itself: whose it is, and which.
    std::string template_uuid{};
    std::string generation{};
    // Of a template: its processor time when it was sealed; nothing: it is not known.
    std::optional<std::uint64_t> sealed_cpu_ns{};
    // Of a fork: which pool it was made for; empty: none.
    std::string pool{};
    // Of one in a pool: the name that it takes in itself, or has taken, whatever it is called now.
    std::string identity_name{};
    enum class InPool { stands, taking, taken } in_pool = InPool::stands;

    // Its pages are shared or another's: what it holds has nothing to do with its target.
    [[nodiscard]] bool shares() const {
        return is_template() || is_fork() || !template_uuid.empty();
    }
    // Or about to be one: it does not run any more.
    [[nodiscard]] bool is_template() const { return kind == Kind::sealing || kind == Kind::sealed; }
    [[nodiscard]] bool is_child_of(std::string_view uuid) const {
        return !template_uuid.empty() && template_uuid == uuid;
    }
    [[nodiscard]] bool is_fork() const { return kind == Kind::fork_building || kind == Kind::fork; }
    friend bool operator==(const Family&, const Family&) = default;
};

// `read` gives a node of the domain by its path below /local/domain/N.
using ReadNode = std::function<Expected<std::optional<std::string>>(std::string_view)>;
[[nodiscard]] Expected<Family> read_family(const ReadNode& read);

// Why the watcher does not manage its memory; empty: nothing here speaks against it.
[[nodiscard]] std::string_view left_alone_why(const Family& family);

}  // namespace xenpack
