// SPDX-License-Identifier: LGPL-2.1-or-later
// ToolLog: the logger libxl and libxc write to, handing their messages to the watcher's log.
// Created by the toolstack before either library is opened, and outlives both. It never logs
// itself.
#pragma once

#include "plugin/libxl/xen.h"
#include "plugin/toolstack.h"

namespace xenpack {

// Standard layout with the C table first: xentoollog hands back a pointer to that table.
class ToolLog {
  public:
    explicit ToolLog(const xenpack_watcher_ops& watcher) noexcept;
    ToolLog(const ToolLog&) = delete;
    ToolLog& operator=(const ToolLog&) = delete;

    xentoollog_logger* logger() noexcept { return &table_; }

  private:
    static void message(xentoollog_logger* logger, xentoollog_level level, int errnoval,
                        const char* context, const char* format, va_list args) noexcept;

    xentoollog_logger table_;
    const xenpack_watcher_ops* watcher_;
};

}  // namespace xenpack
