// SPDX-License-Identifier: LGPL-2.1-or-later
// ForkSteps: see fork_steps.h. Each step records first what must not be forgotten: before freezing
// that it is about to, before thawing a fork that its identity is given.
#include "watcher/guest/fork_steps.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "watcher/files/whole_file.h"
#include "watcher/guest/cgroup.h"
#include "watcher/guest/hooks.h"
#include "watcher/guest/say.h"

namespace xenpack::guest {
namespace {

constexpr char kRunDirectory[] = "/run/xenpack";

// More than any sequence of events needs at once; a bound on a mistake of ours.
constexpr int kStepsAtOnce = 8;

}  // namespace

ForkSteps::ForkSteps(ForkSetup setup) : setup_(std::move(setup)) {
    const auto text = read_file(kept_path());
    if (!text) {
        if (text.error().code != ENOENT) {
            say("forks: {}; going on as if nothing had been done before", text.error().what);
        }
        return;
    }
    if (auto kept = parse_kept(*text)) {
        kept_ = started_anew(std::move(*kept));
    } else {
        say("forks: {} is damaged; going on as if nothing had been done before", kept_path());
    }
}

Expected<void> ForkSteps::look(Nodes& nodes) {
    for (int i = 0; i < kStepsAtOnce; ++i) {
        const auto seen = see(nodes);
        if (!seen) {
            return tl::unexpected(seen.error());
        }
        const ForkStep step = next_step(*seen, kept_);
        if (step == ForkStep::none) {
            return answer(*seen, nodes);
        }
        auto done = carry_out(step, *seen, nodes);
        // Also between steps: a template's host waits for its answer.
        if (done) {
            done = answer(*seen, nodes);
        }
        if (!done) {
            return done;
        }
    }
    return fail("forks: {} and {} change faster than they can be followed", kQuiescePath,
                kGenerationPath);
}

// In this order: see ForkSeen.
Expected<ForkSeen> ForkSteps::see(Nodes& nodes) {
    ForkSeen seen;
    auto token = nodes.read(kQuiescePath);
    if (!token) {
        return tl::unexpected(token.error());
    }
    auto generation = nodes.read(kGenerationPath);
    if (!generation) {
        return tl::unexpected(generation.error());
    }
    if (*token && !is_word(**token)) {
        return fail("forks: {} is no token; nothing is done about it", kQuiescePath);
    }
    if (*generation && !is_generation(**generation)) {
        return fail("forks: {} is no uuid; this fork gets no identity", kGenerationPath);
    }
    seen.token = std::move(*token);
    seen.generation = std::move(*generation);
    return seen;
}

Expected<void> ForkSteps::carry_out(ForkStep step, const ForkSeen& seen, Nodes& nodes) {
    switch (step) {
        case ForkStep::none:
            return {};
        case ForkStep::quiesce:
            quiesce(seen);
            return {};
        case ForkStep::resume:
            return resume();
        case ForkStep::identity:
            return give_identity(*seen.generation, nodes);
        case ForkStep::thaw:
            return thaw_workload();
    }
    return {};  // unreachable: the switch names every value
}

void ForkSteps::quiesce(const ForkSeen& seen) {
    quiesced_written_.reset();
    kept_.token = *seen.token;
    kept_.quiesce = Outcome::pending;
    kept_.quiesce_why.clear();
    kept_.quiesced_in = seen.generation.value_or("");
    // Not known to be frozen it would never be thawed.
    auto quiet = save();
    if (quiet) {
        quiet = be_quiet(kept_.token);
    }
    if (quiet) {
        kept_.quiesce = Outcome::done;
        quiet = save();
    }
    if (quiet) {
        say("forks: quiet, ready to be suspended");
        return;
    }
    kept_.quiesce = Outcome::failed;
    kept_.quiesce_why = as_sentence(quiet.error().what);
    say("forks: cannot be quiet: {}", quiet.error().what);
    if (const auto saved = save(); !saved) {
        say("forks: {}", saved.error().what);
    }
    // It is not suspended now; no need to stand still until the host takes its request back.
    if (!setup_.workload.empty()) {
        if (const auto thawed = thaw(setup_.workload); !thawed) {
            say("forks: {}", thawed.error().what);
        }
    }
}

Expected<void> ForkSteps::be_quiet(const std::string& token) const {
    const std::vector<std::string> environment{"XENPACK_TOKEN=" + token};
    auto done = run_hooks(hooks("quiesce.d"), environment, setup_.patience_ms);
    if (done && !setup_.workload.empty()) {
        done = freeze(setup_.workload, setup_.patience_ms);
    }
    if (done) {
        ::sync();
    }
    return done;
}

Expected<void> ForkSteps::resume() {
    auto thawed = thaw_workload();
    if (!thawed) {
        return thawed;
    }
    say("forks: going on, this zone was not forked");
    const auto found = list_hooks(hooks("resume.d"));
    if (!found) {
        say("forks: {}", found.error().what);
        return {};
    }
    // One that fails does not keep the others from undoing what they must.
    for (const auto& hook : *found) {
        if (const auto ended = run_hook(hook, {}, setup_.patience_ms); !ended) {
            say("forks: {}", ended.error().what);
        }
    }
    return {};
}

Expected<void> ForkSteps::thaw_workload() {
    if (!setup_.workload.empty()) {
        auto thawed = thaw(setup_.workload);
        if (!thawed) {
            return thawed;
        }
    }
    kept_.token.clear();
    kept_.quiesce = Outcome::pending;
    kept_.quiesce_why.clear();
    kept_.quiesced_in.clear();
    // Forgotten, it is thawed once more.
    if (const auto saved = save(); !saved) {
        say("forks: {}", saved.error().what);
    }
    return {};
}

// What dom0 says about this fork, as it stands there. The seed is wiped when it goes.
struct ForkSteps::Given {
    std::optional<std::string> seed_hex;
    std::optional<std::string> name;
    std::optional<std::string> address;

    Given() = default;
    Given(const Given&) = delete;
    Given& operator=(const Given&) = delete;
    ~Given() {
        if (seed_hex) {
            wipe(*seed_hex);
        }
    }

    [[nodiscard]] Expected<void> read(Nodes& nodes) {
        using Node = std::pair<const char*, std::optional<std::string>*>;
        for (const auto& [path, to] :
             {Node{kNamePath, &name}, Node{kAddressPath, &address}, Node{kSeedPath, &seed_hex}}) {
            auto value = nodes.read(path);
            if (!value) {
                return tl::unexpected(value.error());
            }
            *to = std::move(*value);
        }
        return {};
    }
};

Expected<void> ForkSteps::give_identity(const std::string& generation, Nodes& nodes) {
    fork_written_.reset();
    kept_.generation = generation;
    kept_.identity = Outcome::pending;
    kept_.identity_why.clear();
    Given given;
    auto is_itself = given.read(nodes);
    if (!is_itself) {
        return is_itself;  // pending: tried again
    }
    is_itself = become(generation, given);
    if (is_itself) {
        kept_.identity = Outcome::done;
        say("forks: this is {} now", generation);
    } else {
        kept_.identity = Outcome::failed;
        kept_.identity_why = as_sentence(is_itself.error().what);
        say("forks: no identity for {}: {}; what was frozen stays so until xenpack-guest is "
            "started anew",
            generation, is_itself.error().what);
    }
    // Forgotten, all of it is done once more.
    if (const auto saved = save(); !saved) {
        say("forks: {}", saved.error().what);
    }
    return {};
}

Expected<void> ForkSteps::become(const std::string& generation, const Given& given) const {
    const std::string name = given.name.value_or("");
    const std::string address = given.address.value_or("");
    if (!is_word(name)) {
        return fail("{} cannot be a host's name: 1 to {} letters, digits, '.', '_' and '-'",
                    kNamePath, kHostnameMaxBytes);
    }
    if (!is_address(address)) {
        return fail("{} is not one line of up to {} printable characters", kAddressPath,
                    kAddressMaxBytes);
    }
    Seed seed;
    if (!given.seed_hex || !parse_seed(*given.seed_hex, seed.bytes)) {
        return fail("{} is not {} hexadecimal digits", kSeedPath, 2 * kSeedBytes);
    }
    // Before any hook: those draw random numbers.
    auto done = reseed(setup_.random_device, seed, generation, setup_.ioctl);
    if (done) {
        done = set_hostname(setup_.root, name);
    }
    if (done) {
        done = set_machine_id(setup_.root, generation);
    }
    if (done) {
        const std::vector<std::string> environment{"XENPACK_NAME=" + name,
                                                   "XENPACK_GENERATION=" + generation,
                                                   "XENPACK_ADDRESS=" + address};
        done = run_hooks(hooks("fork.d"), environment, setup_.patience_ms);
    }
    return done;
}

Expected<void> ForkSteps::answer(const ForkSeen& seen, Nodes& nodes) {
    const auto write = [&nodes](const char* path, std::optional<std::string> text,
                                std::optional<std::string>& written) -> Expected<void> {
        if (!text || text == written) {
            return {};
        }
        auto taken = nodes.write(path, *text);
        if (taken) {
            written = std::move(text);
        }
        return taken;
    };
    auto done = write(kQuiescedPath, quiesced_answer(seen, kept_), quiesced_written_);
    if (done) {
        done = write(kForkPath, fork_answer(seen, kept_), fork_written_);
    }
    return done;
}

Expected<void> ForkSteps::save() const {
    const std::string directory = setup_.root + kRunDirectory;
    constexpr mode_t kForAllToSee = 0755;
    if (::mkdir(directory.c_str(), kForAllToSee) != 0 && errno != EEXIST) {
        const int code = errno;
        return fail_with(code, "cannot make {}: {}", directory, std::strerror(code));
    }
    return replace_file(kept_path(), format_kept(kept_), Readers::owner_only);
}

std::string ForkSteps::hooks(const char* name) const {
    return setup_.root + "/etc/xenpack/" + name;
}

std::string ForkSteps::kept_path() const {
    return setup_.root + kRunDirectory + "/guest-fork";
}

}  // namespace xenpack::guest
