// SPDX-License-Identifier: LGPL-2.1-or-later
// Journal: where the daemon's lines go: systemd's journal with fields where standard error is
// connected to it, standard error otherwise, never both. xenpackd owns one. It must not decide what
// is worth a line.
#pragma once

#include <string_view>

#include "watcher/publish/decision.h"

namespace xenpack {

enum class LogLevel {
    error = 3,
    warning = 4,
    notice = 5,
    info = 6,
    debug = 7
};  // syslog's numbers

class Journal {
  public:
    explicit Journal(LogLevel most);

    // One line per decision. Fields under systemd: MESSAGE_ID by kind, XENPACK_KIND, XEN_DOMID,
    // XEN_DOMAIN_NAME, XEN_DOMAIN_UUID, XENPACK_FROM_KIB, XENPACK_TO_KIB, XENPACK_REASON.
    void decision(const Decision& decision) const;
    void log(LogLevel level, std::string_view text) const;

  private:
    LogLevel most_;
    bool to_journald_;
};

}  // namespace xenpack
