// SPDX-License-Identifier: LGPL-2.1-or-later
// Store: a connection of its own, for the seconds that the program runs, or for a worker's life.
#include "hotplug/store.h"

#include <poll.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

extern "C" {
#include <xenstore.h>
}

namespace xenpack::hotplug {

void Store::Close::operator()(xs_handle* handle) const {
    xs_close(handle);
}

Expected<Store> Store::open() {
    xs_handle* const handle = xs_open(0);
    if (handle == nullptr) {
        return fail_with(errno, "cannot connect to xenstored: {}: is it running, and is this root?",
                         std::strerror(errno));
    }
    return Store(handle);
}

std::optional<std::string> Store::read(const std::string& path) {
    unsigned size = 0;
    const std::unique_ptr<void, decltype(&std::free)> value(
        xs_read(handle_.get(), XBT_NULL, path.c_str(), &size), &std::free);
    if (value == nullptr) {
        return std::nullopt;
    }
    return std::string(static_cast<const char*>(value.get()), size);
}

Expected<std::string> Store::need(const std::string& path) {
    auto value = read(path);
    if (!value) {
        return fail_with(errno, "cannot read {} in xenstore: {}", path, std::strerror(errno));
    }
    return *std::move(value);
}

Expected<void> Store::write(const std::string& path, const std::string& value) {
    if (!xs_write(handle_.get(), XBT_NULL, path.c_str(), value.data(),
                  static_cast<unsigned>(value.size()))) {
        return fail_with(errno, "cannot write {} in xenstore: {}", path, std::strerror(errno));
    }
    return {};
}

Expected<void> Store::wait_until(
    const std::string& path, const std::function<bool(const std::optional<std::string>&)>& is_so,
    std::chrono::milliseconds longest) {
    using Clock = std::chrono::steady_clock;
    static constexpr char kToken[] = "wait";
    if (is_so(read(path))) {
        return {};
    }
    if (!xs_watch(handle_.get(), path.c_str(), kToken)) {
        return fail_with(errno, "cannot watch {} in xenstore: {}", path, std::strerror(errno));
    }
    const auto end = Clock::now() + longest;
    Expected<void> done = fail_with(ETIMEDOUT, "{} did not change in {} ms", path, longest.count());
    for (auto left = longest; left.count() > 0;
         left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now())) {
        pollfd event{xs_fileno(handle_.get()), POLLIN, 0};
        const int ready = ::poll(&event, 1, static_cast<int>(left.count()));
        if (ready < 0 && errno != EINTR) {
            done = fail_with(errno, "cannot wait for {}: {}", path, std::strerror(errno));
            break;
        }
        while (ready > 0) {  // all that is there: the next poll is for what is new
            const std::unique_ptr<char*, decltype(&std::free)> changed(
                xs_check_watch(handle_.get()), &std::free);
            if (changed == nullptr) {
                break;
            }
        }
        if (is_so(read(path))) {
            done = {};
            break;
        }
    }
    xs_unwatch(handle_.get(), path.c_str(), kToken);
    return done;
}

std::vector<std::string> Store::list(const std::string& path) {
    unsigned count = 0;
    const std::unique_ptr<char*, decltype(&std::free)> names(
        xs_directory(handle_.get(), XBT_NULL, path.c_str(), &count), &std::free);
    return names == nullptr ? std::vector<std::string>()
                            : std::vector<std::string>(names.get(), names.get() + count);
}

}  // namespace xenpack::hotplug
