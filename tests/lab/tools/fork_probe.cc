// SPDX-License-Identifier: LGPL-2.1-or-later
// fork_probe: seals domains, forks and destroys them through the libxl plugin, as the daemon would
// but without what the daemon knows: no quiescing, no intents, no identities. For the lab's cases,
// as root in dom0.
//
//   fork_probe missing
//   fork_probe seal DOMID NAME [TIMEOUT_MS]
//   fork_probe fork DOMID NAME [COUNT] [paused]     several at once, named NAME-1, NAME-2...
//   fork_probe destroy DOMID
//   fork_probe serve      does as the lines of standard input say, until it ends, and tells of
//                         forks that starve and of memory that runs low:
//                           fork DOMID NAME
//                           adopt DOMID, feed DOMID, hold DOMID, let_go DOMID
//
// prints "sealed ms=N", "fork NAME domid=N create_us=N memory_us=N store_us=N device_us=N
// whole_us=N", "destroyed ms=N", or "failed CODE SENTENCE", and then exits with 1. serve
// prints "serving", "adopt DOMID ok us=N", with "paused" where it is, or "adopt DOMID failed CODE
// SENTENCE", and "event starved DOMID", "event died DOMID", "event low". XENPACK_PLUGIN names
// another plugin; XENPACK_FORK_CLOSE=MS ends after that time, whatever is under way.
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "watcher/loop/loop.h"
#include "watcher/store/store.h"
#include "watcher/toolstack/toolstack.h"

namespace {

using xenpack::Expected;
using xenpack::Uuid;
using Clock = std::chrono::steady_clock;

[[noreturn]] void die(const std::string& what) {
    std::fprintf(stderr, "fork_probe: %s\n", what.c_str());
    std::exit(2);
}

std::uint32_t number(const std::string& text) {
    try {
        return static_cast<std::uint32_t>(std::stoul(text));
    } catch (const std::exception&) {
        die(text + " is not a number");
    }
}

Uuid random_uuid() {
    Uuid uuid{};
    std::ifstream random("/dev/urandom", std::ios::binary);
    if (!random.read(reinterpret_cast<char*>(uuid.data()), uuid.size())) {
        die("cannot read /dev/urandom");
    }
    uuid[6] = static_cast<std::uint8_t>((uuid[6] & 0x0f) | 0x40);  // RFC 4122: version 4,
    uuid[8] = static_cast<std::uint8_t>((uuid[8] & 0x3f) | 0x80);  // its variant
    return uuid;
}

template <class T>
T need(Expected<T> result) {
    if (!result) {
        die(result.error().what);
    }
    return std::move(*result);
}

// The plugin's table and what it has opened: the watcher's Toolstack is opened through it, and some
// calls are made past that.
struct Plugin {
    xenpack_toolstack_ops ops;
    decltype(xenpack_toolstack_ops::open) open;
    xenpack_toolstack* opened;
};
Plugin the_plugin{};

int open_and_keep(const xenpack_watcher_ops* watcher, xenpack_toolstack** ts_r, char* error,
                  std::size_t size) {
    const int r = the_plugin.open(watcher, ts_r, error, size);
    the_plugin.opened = *ts_r;
    return r;
}

void print_event(const xenpack_event& event) {
    switch (event.type) {
        case XENPACK_FORK_STARVED:
            fmt::print("event starved {}\n", event.domid);
            break;
        case XENPACK_DOMAIN_DIED:
            fmt::print("event died {}\n", event.domid);
            break;
        case XENPACK_HOST_LOW:
            fmt::print("event low\n");
            break;
        case XENPACK_DOMAIN_CREATED:
        case XENPACK_DOMAIN_PAUSED:
        case XENPACK_DOMAIN_UNPAUSED:
        case XENPACK_DOMAIN_SHUT_DOWN:
        case XENPACK_HOST_LOST:
            break;
    }
    std::fflush(stdout);
}

class Probe {
  public:
    Probe() {
        const char* name = std::getenv("XENPACK_PLUGIN");
        const auto loaded = need(xenpack::PluginObject::load(name != nullptr ? name : "libxl"));
        the_plugin = {loaded.ops(), loaded.ops().open, nullptr};
        the_plugin.ops.open = &open_and_keep;
        const xenpack::PluginObject plugin(the_plugin.ops);
        store_ = need(plugin.open_store(loop_, [] { die("xenstored is gone"); }));
        toolstack_ = need(xenpack::Toolstack::open(plugin, loop_, *store_,
                                                   {[this](const xenpack_event& event) {
                                                        if (is_serving_) {
                                                            print_event(event);
                                                        }
                                                    },
                                                    [](xenpack_log_level level, const char* text) {
                                                        if (level <= XENPACK_LOG_WARNING) {
                                                            std::fprintf(stderr, "log %s\n", text);
                                                        }
                                                    }}));
        if (const char* ms = std::getenv("XENPACK_FORK_CLOSE"); ms != nullptr) {
            close_ = loop_.make_timer([this] { loop_.stop(); });
            close_->start(number(ms));
        }
    }

    int missing() {
        for (const std::string& sentence : need(toolstack_->fork_missing())) {
            fmt::print("missing {}\n", sentence);
        }
        return 0;
    }

    int seal(std::uint32_t domid, const std::string& name, std::uint64_t timeout_ms) {
        return run(toolstack_->seal(domid, uuid_of(domid), name, timeout_ms, ended("sealed")));
    }

    int destroy(std::uint32_t domid) {
        return run(toolstack_->destroy(domid, uuid_of(domid), ended("destroyed")));
    }

    int fork(std::uint32_t domid, const std::string& name, std::uint32_t count, bool paused) {
        for (std::uint32_t i = 1; i <= count; ++i) {
            begin_fork(domid, count > 1 ? fmt::format("{}-{}", name, i) : name, paused);
        }
        return wait();
    }

    int serve() {
        is_serving_ = true;
        under_way_ = 1;  // this itself
        need(toolstack_->refresh());
        commands_ = loop_.watch_readable(STDIN_FILENO, [this] { read_commands(); });
        fmt::print("serving\n");
        std::fflush(stdout);
        return wait();
    }

  private:
    void begin_fork(std::uint32_t domid, const std::string& name, bool paused) {
        xenpack::ForkRequest request;
        request.template_domid = domid;
        request.template_uuid = uuid_of(domid);
        request.name = name;
        request.uuid = random_uuid();
        request.identity = {{"generation", xenpack::to_string(request.uuid)},
                            {"name", request.name}};
        request.paused = paused;
        begun(toolstack_->fork(request, [this, request](const auto& made) {
            if (made) {
                fmt::print(
                    "fork {} domid={} create_us={} memory_us={} store_us={} "
                    "device_us={} whole_us={}\n",
                    request.name, made->domid, made->create_us, made->memory_us, made->store_us,
                    made->device_us, made->whole_us);
            }
            over(made ? Expected<void>() : tl::unexpected(made.error()));
        }));
    }

    void read_commands() {
        std::array<char, 256> some{};
        const ssize_t n = read(STDIN_FILENO, some.data(), some.size());
        if (n <= 0) {
            commands_.reset();
            over({});
            return;
        }
        pending_.append(some.data(), static_cast<std::size_t>(n));
        for (std::size_t end = 0; (end = pending_.find('\n')) != std::string::npos;) {
            std::istringstream line(pending_.substr(0, end));
            pending_.erase(0, end + 1);
            std::string what;
            std::string domid;
            std::string name;
            line >> what >> domid >> name;
            if (what == "fork") {
                begin_fork(number(domid), name, false);
            } else {
                call(what, number(domid));
            }
        }
    }

    void call(const std::string& what, std::uint32_t domid) {
        const xenpack_toolstack_ops& ops = the_plugin.ops;
        const auto ring_call = what == "adopt"    ? ops.adopt
                               : what == "feed"   ? ops.feed
                               : what == "hold"   ? ops.hold
                               : what == "let_go" ? ops.let_go
                                                  : nullptr;
        if (ring_call == nullptr) {
            die("there is no command " + what);
        }
        const Uuid uuid = uuid_of(domid);
        const auto start = Clock::now();
        const int r = ring_call(the_plugin.opened, domid, uuid.data());
        const auto took =
            std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
        if (r < 0) {
            fmt::print("{} {} failed {} {}\n", what, domid, strerrorname_np(-r),
                       ops.last_error(the_plugin.opened));
        } else {
            fmt::print("{} {} ok us={}{}\n", what, domid, took.count(), r > 0 ? " paused" : "");
        }
        std::fflush(stdout);
    }

    xenpack::Toolstack::Done ended(const char* word) {
        return [this, word](const Expected<void>& result) {
            if (result) {
                const auto took =
                    std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_);
                fmt::print("{} ms={}\n", word, took.count());
            }
            over(result);
        };
    }

    void over(const Expected<void>& result) {
        if (!result) {
            fmt::print("failed {} {}\n", strerrorname_np(result.error().code), result.error().what);
            status_ = 1;
        }
        std::fflush(stdout);
        if (--under_way_ == 0) {
            loop_.stop();
        }
    }

    void begun(const Expected<void>& result) {
        ++under_way_;
        if (!result) {
            loop_.defer([this, result] { over(result); });
        }
    }

    int run(const Expected<void>& result) {
        begun(result);
        return wait();
    }

    int wait() {
        loop_.run();
        toolstack_.reset();
        return status_;
    }

    Uuid uuid_of(std::uint32_t domid) {
        const auto* domains = need(toolstack_->refresh());
        const auto found = std::find_if(domains->begin(), domains->end(),
                                        [&](const auto& d) { return d.domid == domid; });
        Uuid uuid{};
        if (found == domains->end()) {
            die(fmt::format("there is no domain {}", domid));
        }
        std::copy_n(found->uuid, uuid.size(), uuid.begin());
        return uuid;
    }

    xenpack::Loop loop_;
    std::unique_ptr<xenpack::Store> store_;
    std::unique_ptr<xenpack::Toolstack> toolstack_;
    std::unique_ptr<xenpack::Loop::Timer> close_;
    Clock::time_point start_ = Clock::now();
    int under_way_ = 0;
    int status_ = 0;
    bool is_serving_ = false;
    xenpack::Loop::Handle commands_;
    std::string pending_;  // of a line
};

int run(const std::vector<std::string>& words) {
    const auto is = [&](const char* name, std::size_t least) {
        return words.size() > least && words[0] == name;
    };
    Probe probe;
    if (is("missing", 0)) {
        return probe.missing();
    }
    if (is("seal", 2)) {
        return probe.seal(number(words[1]), words[2], words.size() > 3 ? number(words[3]) : 60'000);
    }
    if (is("fork", 2)) {
        return probe.fork(number(words[1]), words[2], words.size() > 3 ? number(words[3]) : 1,
                          words.back() == "paused");
    }
    if (is("destroy", 1)) {
        return probe.destroy(number(words[1]));
    }
    if (is("serve", 0)) {
        return probe.serve();
    }
    die("say what to do: missing, seal, fork, destroy or serve");
}

}  // namespace

int main(int argc, char** argv) {
    return run({argv + 1, argv + argc});
}
