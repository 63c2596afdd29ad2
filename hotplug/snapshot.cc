// SPDX-License-Identifier: LGPL-2.1-or-later
// libdevmapper's tasks, each run and waited for.
#include "hotplug/snapshot.h"

#include <libdevmapper.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <memory>

#include "hotplug/request.h"

namespace xenpack::hotplug {
namespace {

struct Destroy {
    void operator()(dm_task* task) const { dm_task_destroy(task); }
};
using Task = std::unique_ptr<dm_task, Destroy>;

// The library writes to standard error by itself; what fails is told in our own words instead.
void say_nothing(int /*level*/, const char* /*file*/, int /*line*/, int /*error*/,
                 const char* /*format*/, ...) {}

// udev, where it runs, must not look into a fork's disk: it would hold it open and find the
// template's labels a second time.
constexpr std::uint16_t kLeaveAlone = DM_UDEV_DISABLE_SUBSYSTEM_RULES_FLAG |
                                      DM_UDEV_DISABLE_DISK_RULES_FLAG |
                                      DM_UDEV_DISABLE_OTHER_RULES_FLAG;

// The kernel's reason, where the library kept one.
int reason(const Task& task) {
    const int error = task == nullptr ? 0 : dm_task_get_errno(task.get());
    return error != 0 ? error : EINVAL;
}

// Runs it, and waits until udev has heard of it.
bool run(const Task& task) {
    std::uint32_t cookie = 0;
    if (dm_task_set_cookie(task.get(), &cookie, kLeaveAlone) == 0) {
        return false;
    }
    const bool done = dm_task_run(task.get()) != 0;
    dm_udev_wait(cookie);
    return done;
}

}  // namespace

Expected<DeviceNumber> create_snapshot(const SnapshotRequest& request) {
    dm_log_with_errno_init(say_nothing);
    const Task task(dm_task_create(DM_DEVICE_CREATE));
    // N: what is where in the overlay stands in memory alone.
    const std::string table =
        fmt::format("{} {} N {}", request.base, request.overlay, kChunkSectors);
    dm_info info{};
    const bool made =
        task != nullptr && dm_task_set_name(task.get(), request.name.c_str()) != 0 &&
        dm_task_add_target(task.get(), 0, request.sectors, "snapshot", table.c_str()) != 0 &&
        run(task);
    if (!made) {
        const int error = reason(task);
        return fail_with(error,
                         "device-mapper cannot make {}, a snapshot of {}: {}: are the modules "
                         "dm-mod and dm-snapshot loaded, and is the disk in use?",
                         request.name, request.base, std::strerror(error));
    }
    if (dm_task_get_info(task.get(), &info) == 0 || info.exists == 0) {
        (void)remove_snapshot(request.name);
        return fail("device-mapper has made {} and does not know it", request.name);
    }
    return DeviceNumber{info.major, info.minor};
}

Expected<void> remove_snapshot(const std::string& name) {
    dm_log_with_errno_init(say_nothing);
    const Task task(dm_task_create(DM_DEVICE_REMOVE));
    if (task != nullptr && dm_task_set_name(task.get(), name.c_str()) != 0 &&
        dm_task_deferred_remove(task.get()) != 0 && run(task)) {
        return {};
    }
    const int error = reason(task);
    if (error == ENXIO) {
        return {};
    }
    return fail_with(error, "device-mapper cannot remove {}: {}", name, std::strerror(error));
}

}  // namespace xenpack::hotplug
