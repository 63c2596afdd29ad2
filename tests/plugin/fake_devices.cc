// SPDX-License-Identifier: LGPL-2.1-or-later
// The plugin's worker for devices without a thread: what it is given is told to calls.h, and ends
// in the loop's next round, or when the test says so. It is linked in place of device_worker.cc.
#include <cstring>
#include <deque>
#include <utility>

#include "plugin/libxl/device_worker.h"
#include "tests/plugin/fake_fork.h"

extern "C" {
#include "tests/plugin/calls.h"
}

namespace xenpack {
namespace {

std::deque<DeviceWorker::Ended> held;

bool is(const char* text, const char* name) {
    return text != nullptr && std::strcmp(text, name) == 0;
}

class FakeWorker final : public DeviceWorker {
  public:
    explicit FakeWorker(const xenpack_watcher_ops& watcher) : watcher_{watcher} {}

    void attach(std::vector<hotplug::Device> devices, Ended ended) override {
        for (const hotplug::Device& device : devices) {
            calls_add("attach %s%s%s", device.path.c_str(), device.base.empty() ? "" : " ",
                      device.base.c_str());
        }
        held.push_back(std::move(ended));
        if (!is(forking.hold, "attach")) {
            void* handle = nullptr;
            watcher_.loop_ops->timeout_register(
                watcher_.loop, 0, [](void*) { fake_devices_end(); }, nullptr, &handle);
        }
    }
    void discard(std::string uuid, std::vector<std::string> backends, Ended ended) override {
        for (const std::string& backend : backends) {
            calls_add("discard %s %s", uuid.c_str(), backend.c_str());
        }
        ended({});
    }
    void finish() override {
        for (const Ended& ended : std::exchange(held, {})) {
            ended(fail_with(ECANCELED, "the toolstack was closed"));
        }
    }

  private:
    const xenpack_watcher_ops& watcher_;
};

}  // namespace

std::unique_ptr<DeviceWorker> make_device_worker(const xenpack_watcher_ops& watcher) {
    return std::make_unique<FakeWorker>(watcher);
}

}  // namespace xenpack

extern "C" bool fake_devices_end(void) {
    using namespace xenpack;
    if (held.empty()) {
        return false;
    }
    const DeviceWorker::Ended ended = std::move(held.front());
    held.pop_front();
    if (is(forking.fail, "attach")) {
        ended(fail_with(forking.fail_with, "the disk cannot be attached"));
    } else {
        ended({});
    }
    return true;
}
