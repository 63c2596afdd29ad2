// SPDX-License-Identifier: LGPL-2.1-or-later
// The plugin interface's read with a buffer that takes any value of interest here.
#include "plugin/libxl/store_read.h"

#include <array>
#include <cerrno>
#include <cstring>

namespace xenpack {
namespace {

// Names and states; longer values are none that this plugin or libxl has written.
constexpr std::size_t kValueBytes = 1024;

}  // namespace

Expected<std::string> read_node(const xenpack_watcher_ops& watcher, const std::string& path) {
    std::array<char, kValueBytes> text{};
    const int length =
        watcher.store_ops->read(watcher.store, path.c_str(), text.data(), text.size());
    if (length == -ENOENT) {
        return std::string();
    }
    if (length < 0) {
        return fail_with(-length, "cannot read {}: {}", path, std::strerror(-length));
    }
    return std::string(text.data());
}

}  // namespace xenpack
