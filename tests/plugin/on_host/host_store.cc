// SPDX-License-Identifier: LGPL-2.1-or-later
// libxenstore behind the two calls that the probed plugin makes; it forks nothing. Called by
// plugin_probe.
#include "tests/plugin/on_host/host_store.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
#include <xenstore.h>
}

struct HostStore::Table {
    enum class Attempt { kDone, kAgain };

    static Attempt attempt(xs_handle* xs, const char* guard_path, const char* guard_value,
                           const xenpack_store_write* writes, std::size_t n, int& result) {
        const xs_transaction_t t = xs_transaction_start(xs);
        if (t == XBT_NULL) {
            result = -EIO;
            return Attempt::kDone;
        }
        unsigned length = 0;
        void* guard = xs_read(xs, t, guard_path, &length);
        const bool holds = guard != nullptr && length == std::strlen(guard_value) &&
                           std::memcmp(guard, guard_value, length) == 0;
        std::free(guard);
        result = holds ? 0 : -ESRCH;
        for (std::size_t i = 0; result == 0 && i < n; ++i) {
            const auto bytes = static_cast<unsigned>(std::strlen(writes[i].value));
            if (!xs_write(xs, t, writes[i].path, writes[i].value, bytes)) {
                result = -EIO;
            }
        }
        if (xs_transaction_end(xs, t, result != 0)) {
            return Attempt::kDone;
        }
        if (errno == EAGAIN) {
            return Attempt::kAgain;
        }
        result = -EIO;
        return Attempt::kDone;
    }

    static int write_guarded(void* store, const char* guard_path, const char* guard_value,
                             const xenpack_store_write* writes, std::size_t n) noexcept {
        xs_handle* xs = static_cast<HostStore*>(store)->xs_;
        int result = 0;
        while (attempt(xs, guard_path, guard_value, writes, n, result) == Attempt::kAgain) {
        }
        return result;
    }

    static int read(void* store, const char* path, char* buf, std::size_t size) noexcept {
        unsigned length = 0;
        void* value = xs_read(static_cast<HostStore*>(store)->xs_, XBT_NULL, path, &length);
        if (value == nullptr) {
            return errno == ENOENT ? -ENOENT : -EIO;
        }
        const bool fits = length < size;
        if (fits) {
            std::memcpy(buf, value, length);
            buf[length] = '\0';
        }
        std::free(value);
        return fits ? static_cast<int>(length) : -ENOBUFS;
    }

    static constexpr xenpack_store_ops kOps{write_guarded, read, nullptr, nullptr, nullptr};
};

HostStore::HostStore() : xs_{xs_open(0)} {
    if (xs_ == nullptr) {
        std::perror("cannot connect to xenstored");
        std::exit(1);
    }
}

HostStore::~HostStore() {
    xs_close(xs_);
}

const xenpack_store_ops* HostStore::ops() noexcept {
    return &Table::kOps;
}

std::optional<std::string> HostStore::read(const std::string& path) {
    char value[4096];
    const int length = Table::read(this, path.c_str(), value, sizeof value);
    return length < 0 ? std::nullopt : std::optional<std::string>(value);
}
