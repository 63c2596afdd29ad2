// SPDX-License-Identifier: LGPL-2.1-or-later
// Turns a message of libxl or libxc into one line of the watcher's log, at the watcher's level.
// Called by the libraries, possibly with libxl's lock held: it must not call libxl.
#include "plugin/libxl/tool_log.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <type_traits>

namespace xenpack {
namespace {

static_assert(std::is_standard_layout_v<ToolLog>);

// Longer messages are cut. libxl's longest are file paths and command lines.
constexpr std::size_t kMessageBytes = 1024;

xenpack_log_level watcher_level(xentoollog_level level) noexcept {
    if (level >= XTL_ERROR) {
        return XENPACK_LOG_ERROR;
    }
    if (level >= XTL_WARN) {
        return XENPACK_LOG_WARNING;
    }
    return level >= XTL_NOTICE ? XENPACK_LOG_INFO : XENPACK_LOG_DEBUG;
}

}  // namespace

ToolLog::ToolLog(const xenpack_watcher_ops& watcher) noexcept
    : table_{&ToolLog::message, nullptr, nullptr}, watcher_{&watcher} {}

void ToolLog::message(xentoollog_logger* logger, xentoollog_level level, int errnoval,
                      const char* context, const char* format, va_list args) noexcept {
    // At XTL_DEBUG libxl writes several lines per domain whenever any domain ends.
    if (level <= XTL_DEBUG) {
        return;
    }
    const auto* self = reinterpret_cast<ToolLog*>(logger);
    std::array<char, kMessageBytes> text{};
    int used =
        std::snprintf(text.data(), text.size(), "%s: ", context != nullptr ? context : "xen");
    if (used < 0 || static_cast<std::size_t>(used) >= text.size()) {
        return;
    }
    auto at = static_cast<std::size_t>(used);
    used = std::vsnprintf(text.data() + at, text.size() - at, format, args);
    at += used > 0 ? static_cast<std::size_t>(used) : 0;
    if (errnoval >= 0 && at < text.size()) {
        std::snprintf(text.data() + at, text.size() - at, ": %s", std::strerror(errnoval));
    }
    for (char* c = text.data(); (c = std::strpbrk(c, "\r\n")) != nullptr;) {
        *c = ' ';
    }
    self->watcher_->log(self->watcher_->user, watcher_level(level), text.data());
}

}  // namespace xenpack
