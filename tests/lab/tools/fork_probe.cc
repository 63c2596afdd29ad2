// SPDX-License-Identifier: LGPL-2.1-or-later
// fork_probe: seals domains, forks and destroys them through the libxl plugin, as the daemon would
// but without what the daemon knows: no quiescing, no intents, no identities. For the lab's cases,
// as root in dom0.
//
//   fork_probe missing
//   fork_probe seal DOMID NAME [TIMEOUT_MS]
//   fork_probe fork DOMID NAME [COUNT] [paused]     several at once; their names are NAME-1,
//   NAME-2... fork_probe destroy DOMID
//
// prints "sealed ms=N", "fork NAME domid=N create_us=N memory_us=N store_us=N device_us=N
// whole_us=N", "destroyed ms=N", or "failed CODE SENTENCE", and then exits with 1.
// XENPACK_PLUGIN names another plugin; XENPACK_FORK_CLOSE=MS ends after that time, whatever is
// under way.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
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

class Probe {
  public:
    Probe() {
        const char* name = std::getenv("XENPACK_PLUGIN");
        auto plugin = need(xenpack::PluginObject::load(name != nullptr ? name : "libxl"));
        store_ = need(plugin.open_store(loop_, [] { die("xenstored is gone"); }));
        toolstack_ = need(xenpack::Toolstack::open(plugin, loop_, *store_,
                                                   {[](const xenpack_event&) {},
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
            xenpack::ForkRequest request;
            request.template_domid = domid;
            request.template_uuid = uuid_of(domid);
            request.name = count > 1 ? fmt::format("{}-{}", name, i) : name;
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
        return wait();
    }

  private:
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
    die("say what to do: missing, seal, fork or destroy");
}

}  // namespace

int main(int argc, char** argv) {
    return run({argv + 1, argv + argc});
}
