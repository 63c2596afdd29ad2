// SPDX-License-Identifier: LGPL-2.1-or-later
// DeviceWorker: a thread that gives forks' disks and networks what their backends wait for, one
// fork after the other: device-mapper, loop devices and interfaces take milliseconds each, in which
// the loop goes on, and a program for each would take longer than all of it. Owned by the
// toolstack; asked by ForkDevices. It writes to the store through a connection of its own, below
// those backends only; it must not touch anything that the loop's thread has.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "hotplug/attach.h"
#include "plugin/toolstack.h"
#include "watcher/error.h"

namespace xenpack {

class DeviceWorker {
  public:
    using Ended = std::function<void(Expected<void>)>;
    virtual ~DeviceWorker() = default;

    // Those of one domain. `ended` in the loop, later, once, with the first failure, after which
    // the rest is left as it is.
    virtual void attach(std::vector<hotplug::Device> devices, Ended ended) = 0;
    // What attach() has made for a fork of that uuid, where it has gone and its backends' nodes
    // with it, so that no hotplug script will come.
    virtual void discard(std::string uuid, std::vector<std::string> backends, Ended ended) = 0;
    // For the end, when there is no loop any more: waits for the device that is under way, up to
    // ten seconds for a network; attaches none after it (ECANCELED); calls every `ended` that is
    // due. From then on discard() does its work, and calls `ended`, before it returns.
    virtual void finish() = 0;
};

// The thread begins with the first work. `watcher` must outlive it.
std::unique_ptr<DeviceWorker> make_device_worker(const xenpack_watcher_ops& watcher);

}  // namespace xenpack
