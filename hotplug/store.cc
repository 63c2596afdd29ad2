// SPDX-License-Identifier: LGPL-2.1-or-later
// Store: a connection of its own, for the seconds that the program runs, or for a worker's life.
#include "hotplug/store.h"

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

std::vector<std::string> Store::list(const std::string& path) {
    unsigned count = 0;
    const std::unique_ptr<char*, decltype(&std::free)> names(
        xs_directory(handle_.get(), XBT_NULL, path.c_str(), &count), &std::free);
    return names == nullptr ? std::vector<std::string>()
                            : std::vector<std::string>(names.get(), names.get() + count);
}

}  // namespace xenpack::hotplug
