// SPDX-License-Identifier: LGPL-2.1-or-later
// Control: what the daemon answers on its Unix socket (HTTP and JSON), for root only.
// xenpackd owns one. It turns requests into calls of its Mediator and knows nothing else of the
// daemon; it must not decide, and it must not touch Xen.
//
//   GET  /v1/status               the whole view, as written in xenpack-api(7)
//   GET  /v1/events               decisions as they happen: one JSON object a line, chunked,
//   open-ended POST /v1/zones/ZONE/settings
//   {"floor_kib":N|null,"ceiling_kib":N|null,"weight":N|null,"pin_kib":N|null} POST /v1/reload
//   reads the configuration again
//
// ZONE is a domain's name or domid, percent-encoded. A member that is missing from the settings
// stays as it is; null takes it back to what the configuration says, and a null pin ends the pin.
// A failure is a 4xx or 5xx with {"error":"a sentence"}; the status follows Error::code. Settings:
// ENOENT and ESRCH 404, EBUSY and EPERM 409, 0, EINVAL and ERANGE 400, others 500. Reload: 0, which
// is a file refused for what it says, 422, EBUSY 409, others 500.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "watcher/error.h"

namespace xenpack {

class Loop;

class Control {
  public:
    class Mediator {
      public:
        virtual ~Mediator() = default;
        [[nodiscard]] virtual nlohmann::json status() = 0;
        // `settings` is an object, its members checked by the callee. Returns the zone as in
        // status.
        [[nodiscard]] virtual Expected<nlohmann::json> set_zone(const std::string& zone,
                                                                const nlohmann::json& settings) = 0;
        [[nodiscard]] virtual Expected<void> reload() = 0;
    };

    // `mediator` must outlive the Control; it is called in the loop, never inside publish().
    // Makes the socket (mode 0600, its directory 0755 if missing) and listens. A socket left by a
    // daemon that died is replaced; one that answers is an error ("xenpackd is already running").
    [[nodiscard]] static Expected<std::unique_ptr<Control>> listen(Loop& loop,
                                                                   const std::string& socket_path,
                                                                   Mediator& mediator);
    virtual ~Control() = default;

    // Sends one event to every listener of /v1/events. A listener that does not read is cut off
    // once 1 MiB waits for it.
    virtual void publish(const nlohmann::json& event) = 0;
};

}  // namespace xenpack
