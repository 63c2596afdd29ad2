// SPDX-License-Identifier: LGPL-2.1-or-later
// Control: what the daemon answers on its Unix socket (HTTP and JSON), for root only.
// xenpackd owns one. It turns requests into calls of its Mediator and knows nothing else of the
// daemon; it must not decide, and it must not touch Xen.
//
//   GET    /v1/status               the whole view, as written in xenpack-api(7)
//   GET    /v1/account              who holds every page of the host
//   POST   /v1/cost                 {"config":TEXT|"template":NAME}: what a start would take
//   GET    /v1/events               decisions as they happen: an object a line, chunked, open-ended
//   POST   /v1/zones/ZONE/settings  {"floor_kib":N|null,"ceiling_kib":..,"weight":..,"pin_kib":..}
//   POST   /v1/reload               reads the configuration again
//   POST   /v1/reservations         {"size_kib":N|"config":TEXT,...}: answered when granted
//   DELETE /v1/reservations/ID      releases it
//   POST   /v1/templates            {"zone":..,"name":..,..}: answered when sealed, or not
//   DELETE /v1/templates/NAME       removes it: answered when it is gone
//   POST   /v1/forks                {"template":..,"count":..,..}: answered when all are there
//   POST   /v1/pools/NAME/take      {"name":..,"until":..,..}: answered when one is handed out
//
// ZONE is a domain's name or domid, percent-encoded. A member that is missing from the settings
// stays as it is; null takes it back to what the configuration says, and a null pin ends the pin.
// A failure is a 4xx or 5xx with {"error":"a sentence"}; the status follows Error::code: ENOENT and
// ESRCH 404, EBUSY, EEXIST, ENOTSUP and EPERM 409, EAGAIN 503, ENOMEM 507, ENOSYS 501, EREMOTEIO
// (a guest has failed) 502, ETIMEDOUT 504, 0, EINVAL and ERANGE 400, others 500.
// Reload: 0, which is a file refused for what it says, 422, EBUSY 409, others 500.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "watcher/error.h"

namespace xenpack {

class Loop;

// The longest that a reservation may wait: a week.
inline constexpr std::int64_t kReservationWaitMostMs = 7LL * 24 * 3600 * 1000;

class Control {
  public:
    // Who waits for an answer that comes later.
    struct Caller {
        std::uint64_t request = 0;
        int pid = 0;  // 0: not known
    };

    class Mediator {
      public:
        virtual ~Mediator() = default;
        [[nodiscard]] virtual nlohmann::json status() = 0;
        [[nodiscard]] virtual Expected<nlohmann::json> account() = 0;
        // `asked` is an object.
        [[nodiscard]] virtual Expected<nlohmann::json> cost(const nlohmann::json& asked) = 0;
        // `settings` is an object, its members checked by the callee. Returns the zone as in
        // status.
        [[nodiscard]] virtual Expected<nlohmann::json> set_zone(const std::string& zone,
                                                                const nlohmann::json& settings) = 0;
        [[nodiscard]] virtual Expected<void> reload() = 0;
        // Memory for a start. An error refuses it at once; else Control::answer() is called with
        // `caller.request`, later and never inside this call.
        [[nodiscard]] virtual Expected<void> reserve(const nlohmann::json& asked,
                                                     const Caller& caller) = 0;
        // That caller has hung up, and gets no answer.
        virtual void caller_gone(std::uint64_t request) = 0;
        [[nodiscard]] virtual Expected<void> release(std::uint64_t reservation) = 0;
        // Templates and forks; `asked` is an object. Refused or answered as reserve() is.
        [[nodiscard]] virtual Expected<void> make_template(const nlohmann::json& asked,
                                                           const Caller& caller) = 0;
        [[nodiscard]] virtual Expected<void> remove_template(const std::string& name,
                                                             const Caller& caller) = 0;
        [[nodiscard]] virtual Expected<void> make_forks(const nlohmann::json& asked,
                                                        const Caller& caller) = 0;
        [[nodiscard]] virtual Expected<void> take_fork(const std::string& pool,
                                                       const nlohmann::json& asked,
                                                       const Caller& caller) = 0;
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

    // The answer to a request that waits. Nothing happens where its caller has hung up.
    virtual void answer(std::uint64_t request, const Expected<nlohmann::json>& result) = 0;
};

}  // namespace xenpack
