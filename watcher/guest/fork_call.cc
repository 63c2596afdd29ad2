// SPDX-License-Identifier: LGPL-2.1-or-later
// ForkCall: see fork_call.h. Everything is read anew at each look: what was read before may have
// been another domain's.
#include "watcher/guest/fork_call.h"

#include <poll.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "watcher/guest/say.h"

namespace xenpack::guest {
namespace {

// A watch may be lost where it is set anew in another domain.
constexpr int kLookAgainMs = 1000;

std::int64_t monotonic_ms() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

CallVerdict failed(std::string why, bool later = false) {
    return {CallVerdict::Word::failed, 0, std::move(why), later};
}

// This is a fork: once it is itself.
CallVerdict judge_fork(const CallSeen& seen, const CallState& state) {
    const std::string& generation = *seen.generation;
    const std::string said = seen.said.value_or("");
    if (said.starts_with(generation + " failed ")) {
        return failed("this fork has no identity of its own: " +
                      as_sentence(said.substr(generation.size() + 8)));
    }
    if (said != generation + " ready") {
        return {};
    }
    const auto index = parse_answer(seen.index.value_or(""));
    if (!index || index->id != state.id) {
        return failed("this zone was forked, but not at this wish");
    }
    if (index->word != WishAnswer::Word::index) {
        return failed("no other fork could be made: " + index->why);
    }
    return {CallVerdict::Word::forked, index->index};
}

Expected<std::string> new_id() {
    std::array<unsigned char, 8> bytes{};
    if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
        const int code = errno;
        return fail_with(code, "no random numbers: {}", std::strerror(code));
    }
    std::string id;
    for (const unsigned char byte : bytes) {
        constexpr std::string_view kDigits = "0123456789abcdef";
        id += kDigits[byte >> 4U];
        id += kDigits[byte & 15U];
    }
    return id;
}

Expected<void> read_into(Nodes& nodes, const char* path, std::optional<std::string>& value) {
    auto read = nodes.read(path);
    if (!read) {
        return tl::unexpected(read.error());
    }
    value = std::move(*read);
    return {};
}

Expected<CallSeen> look(Nodes& nodes) {
    CallSeen seen;
    Expected<void> done = read_into(nodes, kForkMeAnswerPath, seen.answer);
    for (const auto& [path, value] :
         {std::pair{kGenerationPath, &seen.generation}, std::pair{kForkIndexPath, &seen.index},
          std::pair{kForkPath, &seen.said}}) {
        if (done) {
            done = read_into(nodes, path, *value);
        }
    }
    return done ? Expected<CallSeen>(std::move(seen)) : tl::unexpected(done.error());
}

// A connection that is opened anew when it fails, as it does when the zone becomes another.
class Connection {
  public:
    Expected<StoreLink*> get() {
        if (link_) {
            auto taken = link_->take_events();
            return taken ? Expected<StoreLink*>(&*link_) : tl::unexpected(taken.error());
        }
        auto fd = StoreLink::open_device();
        if (!fd) {
            return tl::unexpected(fd.error());
        }
        link_.emplace(std::move(*fd));
        for (const char* path : {kForkMeAnswerPath, kGenerationPath, kForkPath}) {
            if (auto watched = link_->watch(path); !watched) {
                return tl::unexpected(watched.error());
            }
        }
        return &*link_;
    }
    void lose() { link_.reset(); }
    void wait() const {
        pollfd ready{link_ ? link_->fd() : -1, POLLIN, 0};
        ::poll(&ready, 1, kLookAgainMs);
    }

  private:
    std::optional<StoreLink> link_;
};

// What stands there stays there: it would be heard by a host that begins to listen anew.
Expected<void> take_back(Nodes& nodes, const std::string& wish) {
    std::optional<std::string> stands;
    auto done = read_into(nodes, kForkMePath, stands);
    return done && stands == wish ? nodes.write(kForkMePath, "") : done;
}

Expected<CallVerdict> step(Connection& connection, CallState& state) {
    const auto link = connection.get();
    return link ? look_at_call(**link, state, monotonic_ms()) : tl::unexpected(link.error());
}

Expected<CallState> ask(Connection& connection, unsigned count, const std::string& pattern) {
    auto id = new_id();
    const auto link = id ? connection.get() : tl::unexpected(id.error());
    if (!link) {
        return tl::unexpected(link.error());
    }
    CallState state{std::move(*id), monotonic_ms()};
    std::optional<std::string> generation;
    auto done = read_into(**link, kGenerationPath, generation);
    if (generation) {
        return fail("this zone is a fork, and a fork cannot fork itself");
    }
    state.wish = format_wish({state.id, count, pattern});
    if (done) {
        done = (*link)->write(kForkMePath, state.wish);
    }
    return done ? Expected<CallState>(std::move(state)) : tl::unexpected(done.error());
}

}  // namespace

CallVerdict judge_call(const CallSeen& seen, CallState& state, std::int64_t now_ms) {
    if (seen.generation) {
        return judge_fork(seen, state);
    }
    const auto answer = parse_answer(seen.answer.value_or(""));
    if (answer && answer->id == state.id) {
        if (answer->word != WishAnswer::Word::accepted) {
            return failed(answer->why, answer->word == WishAnswer::Word::not_now);
        }
        state.accepted = true;
        state.withdrawn = false;
        state.waits_since_ms = now_ms;
        return {};
    }
    if (state.withdrawn) {
        return failed(state.accepted ? "the host has given it up"
                                     : "the host does not answer: is xenpackd running there?");
    }
    const std::int64_t patience_ms = state.accepted ? kAbsencePatienceMs : kAnswerPatienceMs;
    if (now_ms - state.waits_since_ms < patience_ms) {
        return {};
    }
    return {CallVerdict::Word::withdraw};
}

Expected<CallVerdict> look_at_call(Nodes& nodes, CallState& state, std::int64_t now_ms) {
    const auto seen = look(nodes);
    if (!seen) {
        return tl::unexpected(seen.error());
    }
    CallVerdict verdict = judge_call(*seen, state, now_ms);
    const bool withdraws = verdict.word == CallVerdict::Word::withdraw;
    if (withdraws || verdict.word == CallVerdict::Word::failed) {
        if (auto taken = take_back(nodes, state.wish); !taken) {
            return tl::unexpected(taken.error());
        }
        state.withdrawn = withdraws;
    }
    return verdict;
}

Expected<unsigned> run_fork_call(unsigned count, const std::string& pattern) {
    Connection connection;
    auto state = ask(connection, count, pattern);
    if (!state) {
        return tl::unexpected(state.error());
    }
    std::string said;
    for (;;) {
        const auto verdict = step(connection, *state);
        if (!verdict) {
            if (verdict.error().what != said) {
                said = verdict.error().what;
                say("{}; trying again", said);
            }
            connection.lose();
        } else if (verdict->word == CallVerdict::Word::forked) {
            return verdict->index;
        } else if (verdict->word == CallVerdict::Word::failed) {
            return fail_with(verdict->later ? EAGAIN : 0, "{}", verdict->why);
        } else if (verdict->word == CallVerdict::Word::withdraw) {
            continue;
        }
        connection.wait();
    }
}

}  // namespace xenpack::guest
