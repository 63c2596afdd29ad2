// SPDX-License-Identifier: LGPL-2.1-or-later
// The store over libxenstore. Two connections: libxenstore gives a connection that watches a reader
// thread, and every request on it then waits for that thread; requests go on the other, without
// one. A third takes many requests at once. A fourth, on which nothing is ever said, ends when
// xenstored does: libxenstore 4.17 closes its own without waking anyone.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <unordered_map>

extern "C" {
#include <xenstore.h>
#include <xenstore_lib.h>

#include <xen/io/xs_wire.h>
}

#include "watcher/loop/loop.h"
#include "watcher/store/request_pipe.h"
#include "watcher/store/store.h"

namespace xenpack {
namespace {

// A transaction is retried this often when others write what it has read. Xen's own tools retry
// without end; a bound turns a misbehaving writer into an error that is logged.
constexpr int kTransactionTries = 64;

// Watch events handled in one round, so that a flood leaves the loop room for everything else.
constexpr int kEventsPerRound = 128;

struct HandleDeleter {
    void operator()(xs_handle* h) const noexcept { xs_close(h); }
};
struct FreeDeleter {
    void operator()(void* p) const noexcept { std::free(p); }
};
using Value = std::unique_ptr<char, FreeDeleter>;

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    ~Descriptor() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    [[nodiscard]] int get() const { return fd_; }
    [[nodiscard]] int release() { return std::exchange(fd_, -1); }

  private:
    int fd_;
};

// A connection to xenstored's socket, without libxenstore.
Descriptor connect_socket() {
    const char* path = xs_daemon_socket();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (std::strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return Descriptor(-1);
    }
    std::strcpy(address.sun_path, path);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return Descriptor(-1);
    }
    return socket;
}

// As the protocol has them: the first is of the owner, who may do all, and says what everyone may;
// the next says what that domain may.
std::string permissions_of(const Store::Node& node) {
    if (node.access == XENPACK_STORE_GUEST_OWNS) {
        return fmt::format("n{}", node.domid) + '\0';
    }
    std::string text = std::string("n0") + '\0';
    if (node.access == XENPACK_STORE_GUEST_READS) {
        text += fmt::format("r{}", node.domid) + '\0';
    }
    return text;
}

// A node that is made has its parent's permissions: what is to have those costs one request.
std::vector<RequestPipe::Request> requests_of(const std::vector<Store::Node>& nodes) {
    std::vector<RequestPipe::Request> requests;
    requests.reserve(nodes.size());
    for (const Store::Node& node : nodes) {
        requests.push_back({XS_WRITE, node.path + '\0' + node.value});
        if (node.access != XENPACK_STORE_AS_PARENT) {
            requests.push_back({XS_SET_PERMS, node.path + '\0' + permissions_of(node)});
        }
    }
    return requests;
}

class XenStore;

// Held by the caller. Its id is the watch's token and is never used again, so that an event still
// under way for a watch that has ended finds nothing.
class XenWatch final : public Store::Watch {
  public:
    XenWatch(XenStore& store, std::string path, std::string token)
        : store_(store), path_(std::move(path)), token_(std::move(token)) {}
    ~XenWatch() override;

  private:
    XenStore& store_;
    std::string path_;
    std::string token_;
};

class XenStore final : public Store {
  public:
    XenStore(Loop& loop, xs_handle* requests, xs_handle* watches, Descriptor pipe,
             Descriptor lifeline, std::function<void()> lost)
        : requests_(requests),
          watches_(watches),
          pipe_(pipe.release()),
          lifeline_(std::move(lifeline)),
          lost_(std::move(lost)) {
        readable_ = loop.watch_readable(xs_fileno(watches_.get()), [this] { drain(); });
        ended_ = loop.watch_readable(lifeline_.get(), [this] {
            ended_.reset();
            report_lost();
        });
    }

    Expected<std::optional<std::string>> read(const std::string& path) override {
        return read_in(XBT_NULL, path);
    }

    Expected<void> write_guarded(
        const std::string& guard_path, const std::string& guard_value,
        const std::vector<std::pair<std::string, std::string>>& writes) override {
        return in_transaction(guard_path, [&](xs_transaction_t t) {
            return write_in(t, guard_path, guard_value, writes);
        });
    }

    Expected<void> make(const std::vector<Node>& nodes) override {
        if (nodes.empty()) {
            return {};
        }
        const std::vector<RequestPipe::Request> requests = requests_of(nodes);
        for (int i = 0; i < kTransactionTries; ++i) {
            auto made = pipe_.transaction(requests);
            if (made || made.error().code != EAGAIN) {
                if (!made && made.error().code == EPIPE) {
                    report_lost();
                }
                return made;
            }
        }
        return conflict(nodes.front().path);
    }

    Expected<void> remove(const std::string& path) override {
        if (!xs_rm(requests_.get(), XBT_NULL, path.c_str()) && errno != ENOENT) {
            return broken("removing", path);
        }
        return {};
    }

    Expected<std::vector<std::string>> list(const std::string& path) override {
        unsigned count = 0;
        const std::unique_ptr<char*, FreeDeleter> names(
            xs_directory(requests_.get(), XBT_NULL, path.c_str(), &count));
        if (names) {
            return std::vector<std::string>(names.get(), names.get() + count);
        }
        if (errno == ENOENT) {
            return std::vector<std::string>();
        }
        return broken("listing", path);
    }

    Expected<void> introduce(std::uint32_t domid, std::uint64_t gfn, std::uint32_t port) override {
        if (!xs_introduce_domain(requests_.get(), domid, gfn, port)) {
            return broken("introducing", fmt::format("domain {}", domid));
        }
        return {};
    }

    Expected<WatchHandle> watch(const std::string& path, Changed changed) override {
        const std::string token = std::to_string(++last_token_);
        callbacks_.emplace(token, std::make_shared<Changed>(std::move(changed)));
        if (!xs_watch(watches_.get(), path.c_str(), token.c_str())) {
            callbacks_.erase(token);
            return broken("watching", path);
        }
        return std::make_unique<XenWatch>(*this, path, token);
    }

    void unwatch(const std::string& path, const std::string& token) noexcept {
        callbacks_.erase(token);
        xs_unwatch(watches_.get(), path.c_str(), token.c_str());
    }

  private:
    // Also tells the owner when it is the connection that has failed.
    tl::unexpected<Error> broken(std::string_view doing, const std::string& path) {
        const int code = errno;
        if (code == EBADF || code == EPIPE || code == ECONNRESET || code == EIO) {
            report_lost();
        }
        return fail_with(code, "xenstore: {} {}: {}", doing, path, std::strerror(code));
    }

    void report_lost() {
        if (lost_) {
            std::exchange(lost_, nullptr)();
        }
    }

    Expected<std::optional<std::string>> read_in(xs_transaction_t t, const std::string& path) {
        unsigned length = 0;
        const Value value(static_cast<char*>(xs_read(requests_.get(), t, path.c_str(), &length)));
        if (value) {
            return std::string(value.get(), length);
        }
        if (errno == ENOENT || errno == EISDIR) {
            return std::nullopt;
        }
        return broken("reading", path);
    }

    // `work` is done anew where others have changed what it has read.
    template <class Work>
    Expected<void> in_transaction(const std::string& path, Work&& work) {
        for (int i = 0; i < kTransactionTries; ++i) {
            const xs_transaction_t t = xs_transaction_start(requests_.get());
            if (t == XBT_NULL) {
                return broken("starting a transaction", path);
            }
            Expected<void> done = work(t);
            const bool ended = xs_transaction_end(requests_.get(), t, !done);
            if (!done || ended) {
                return done;
            }
            if (errno != EAGAIN) {
                return broken("ending a transaction", path);
            }
        }
        return conflict(path);
    }

    static tl::unexpected<Error> conflict(const std::string& path) {
        return fail_with(EBUSY, "xenstore: writing below {}: others kept changing it in {} tries",
                         path, kTransactionTries);
    }

    Expected<void> write_in(xs_transaction_t t, const std::string& guard_path,
                            const std::string& guard_value,
                            const std::vector<std::pair<std::string, std::string>>& writes) {
        const auto guard = read_in(t, guard_path);
        if (!guard) {
            return tl::unexpected(guard.error());
        }
        if (!*guard || **guard != guard_value) {
            return fail_with(ESRCH, "xenstore: {} is no longer {}", guard_path, guard_value);
        }
        for (const auto& [path, value] : writes) {
            if (!xs_write(requests_.get(), t, path.c_str(), value.data(),
                          static_cast<unsigned>(value.size()))) {
                return broken("writing", path);
            }
        }
        return {};
    }

    void drain() {
        for (int i = 0; i < kEventsPerRound; ++i) {
            const std::unique_ptr<char*, FreeDeleter> event(xs_check_watch(watches_.get()));
            if (!event) {
                if (errno != EAGAIN) {
                    report_lost();
                }
                return;
            }
            const auto it = callbacks_.find(event.get()[XS_WATCH_TOKEN]);
            if (it != callbacks_.end()) {
                const std::shared_ptr<Changed> callback = it->second;
                (*callback)();
            }
        }
    }

    std::unique_ptr<xs_handle, HandleDeleter> requests_;
    std::unique_ptr<xs_handle, HandleDeleter> watches_;
    RequestPipe pipe_;
    Descriptor lifeline_;
    std::function<void()> lost_;
    std::unordered_map<std::string, std::shared_ptr<Changed>> callbacks_;
    std::uint64_t last_token_ = 0;
    Loop::Handle readable_;
    Loop::Handle ended_;
};

XenWatch::~XenWatch() {
    store_.unwatch(path_, token_);
}

int plugin_write_guarded(void* store, const char* guard_path, const char* guard_value,
                         const xenpack_store_write* writes, size_t n) noexcept try {
    std::vector<std::pair<std::string, std::string>> list;
    list.reserve(n);
    for (size_t i = 0; i < n; ++i) {
        list.emplace_back(writes[i].path, writes[i].value);
    }
    const auto written = static_cast<Store*>(store)->write_guarded(guard_path, guard_value, list);
    if (written) {
        return 0;
    }
    return written.error().code == ESRCH || written.error().code == EBUSY ? -written.error().code
                                                                          : -EIO;
} catch (const std::bad_alloc&) {
    return -ENOMEM;
}

// Codes that say more than that the store is broken.
int failure_code(const Error& error) {
    const int code = error.code;
    return code == EBUSY || code == EINVAL || code == ENOSPC ? code : EIO;
}

int plugin_read(void* store, const char* path, char* buf, size_t size) noexcept try {
    const auto value = static_cast<Store*>(store)->read(path);
    if (!value) {
        return -EIO;
    }
    if (!*value) {
        return -ENOENT;
    }
    const std::string& text = **value;
    if (text.size() >= size) {
        return -ENOBUFS;
    }
    std::memcpy(buf, text.c_str(), text.size() + 1);
    return static_cast<int>(text.size());
} catch (const std::bad_alloc&) {
    return -ENOMEM;
}

int plugin_make(void* store, const xenpack_store_node* nodes, size_t n) noexcept try {
    std::vector<Store::Node> list;
    list.reserve(n);
    for (const xenpack_store_node& node : std::span(nodes, n)) {
        list.push_back({node.path, node.value, node.access, node.domid});
    }
    const auto made = static_cast<Store*>(store)->make(list);
    return made ? 0 : -failure_code(made.error());
} catch (const std::bad_alloc&) {
    return -ENOMEM;
}

int plugin_remove(void* store, const char* path) noexcept try {
    const auto removed = static_cast<Store*>(store)->remove(path);
    return removed ? 0 : -failure_code(removed.error());
} catch (const std::bad_alloc&) {
    return -ENOMEM;
}

int plugin_introduce(void* store, std::uint32_t domid, std::uint64_t gfn,
                     std::uint32_t port) noexcept try {
    const auto introduced = static_cast<Store*>(store)->introduce(domid, gfn, port);
    return introduced ? 0 : -failure_code(introduced.error());
} catch (const std::bad_alloc&) {
    return -ENOMEM;
}

}  // namespace

Expected<std::unique_ptr<Store>> Store::connect(Loop& loop, std::function<void()> lost) {
    std::unique_ptr<xs_handle, HandleDeleter> requests(xs_open(0));
    std::unique_ptr<xs_handle, HandleDeleter> watches(xs_open(0));
    Descriptor pipe = connect_socket();
    Descriptor lifeline = connect_socket();
    if (!requests || !watches || pipe.get() < 0 || lifeline.get() < 0) {
        return fail_with(errno,
                         "cannot connect to xenstored: {}. Is this a Xen host's dom0, and is "
                         "xen.service running?",
                         std::strerror(errno));
    }
    return std::make_unique<XenStore>(loop, requests.release(), watches.release(), std::move(pipe),
                                      std::move(lifeline), std::move(lost));
}

Expected<std::optional<Untrusted<std::string>>> Store::read_untrusted(const std::string& path) {
    return read(path).map([](std::optional<std::string>&& value) {
        return value ? std::optional(Untrusted(std::move(*value))) : std::nullopt;
    });
}

Store::ForPlugin Store::for_plugin() {
    static constexpr xenpack_store_ops kOps{plugin_write_guarded, plugin_read, plugin_make,
                                            plugin_remove, plugin_introduce};
    return {&kOps, this};
}

std::string domain_path(std::uint32_t domid, std::string_view below) {
    return fmt::format("/local/domain/{}/{}", domid, below);
}

}  // namespace xenpack
