// SPDX-License-Identifier: LGPL-2.1-or-later
// What watermark_boost.h promises: one file, read once, written twice.
#include "watcher/guest/watermark_boost.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <utility>

namespace xenpack::guest {

Expected<std::optional<NoWatermarkBoost>> NoWatermarkBoost::begin(const std::string& file) {
    auto factor = TextFile::open(file, O_RDWR);
    if (!factor) {
        return factor.error().code == ENOENT
                   ? Expected<std::optional<NoWatermarkBoost>>(std::nullopt)
                   : tl::unexpected(factor.error());
    }
    std::array<char, 64> buffer{};
    const auto before = factor->read(buffer);
    if (!before) {
        return tl::unexpected(before.error());
    }
    if (const auto set = factor->write("0\n"); !set) {
        return tl::unexpected(set.error());
    }
    return NoWatermarkBoost(std::move(*factor), std::string(*before));
}

NoWatermarkBoost::NoWatermarkBoost(NoWatermarkBoost&& other) noexcept
    : factor_(std::exchange(other.factor_, std::nullopt)), before_(std::move(other.before_)) {}

NoWatermarkBoost::~NoWatermarkBoost() {
    if (factor_) {
        (void)factor_->write(before_);
    }
}

}  // namespace xenpack::guest
