// SPDX-License-Identifier: LGPL-2.1-or-later
// Work goes to the thread by a list under a lock, and comes back by another, with an eventfd for
// the loop.
#include "plugin/libxl/device_worker.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace xenpack {
namespace {

struct Work {
    std::string gone;                   // the uuid of a fork whose devices are to be discarded
    std::vector<std::string> backends;  // of that one
    std::vector<hotplug::Device> devices;
    DeviceWorker::Ended ended;
    Expected<void> result;
};

// The daemon's signals are its own thread's.
class SignalsBlocked {
  public:
    SignalsBlocked() {
        sigset_t all;
        ::sigfillset(&all);
        ::pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked&) = delete;
    SignalsBlocked& operator=(const SignalsBlocked&) = delete;

  private:
    sigset_t before_{};
};

class ThreadedWorker final : public DeviceWorker {
  public:
    explicit ThreadedWorker(const xenpack_watcher_ops& watcher) : watcher_{watcher} {}
    ~ThreadedWorker() override {
        stop();
        if (handle_ != nullptr) {
            watcher_.loop_ops->fd_deregister(watcher_.loop, handle_);
        }
        if (done_fd_ >= 0) {
            ::close(done_fd_);
        }
    }
    ThreadedWorker(const ThreadedWorker&) = delete;
    ThreadedWorker& operator=(const ThreadedWorker&) = delete;

    void attach(std::vector<hotplug::Device> devices, Ended ended) override {
        add({"", {}, std::move(devices), std::move(ended), {}});
    }
    void discard(std::string uuid, std::vector<std::string> backends, Ended ended) override {
        add({std::move(uuid), std::move(backends), {}, std::move(ended), {}});
    }

    void finish() override {
        stop();
        is_finished_ = true;
        give_back();
        for (Work& work : std::exchange(todo_, {})) {
            end_without_thread(work);
        }
    }

  private:
    static void end_without_thread(const Work& work) {
        work.ended(work.gone.empty() ? closed() : discard_all(work.gone, work.backends));
    }

    static Expected<void> closed() {
        return fail_with(ECANCELED, "the toolstack was closed before its devices came");
    }

    void add(Work work) {
        if (is_finished_) {
            end_without_thread(work);
            return;
        }
        if (const auto ok = start(); !ok) {
            work.ended(tl::unexpected(ok.error()));
            return;
        }
        {
            const std::lock_guard lock(mutex_);
            todo_.push_back(std::move(work));
        }
        wake_.notify_one();
    }

    Expected<void> start() {
        if (thread_.joinable()) {
            return {};
        }
        if (done_fd_ < 0) {
            done_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
            if (done_fd_ < 0) {
                return fail_with(errno, "cannot make an eventfd: {}", std::strerror(errno));
            }
        }
        if (handle_ == nullptr) {
            const int r = watcher_.loop_ops->fd_register(watcher_.loop, done_fd_, XENPACK_IN,
                                                         &ThreadedWorker::ready, this, &handle_);
            if (r < 0) {
                return fail_with(-r, "no memory for the devices of forks");
            }
        }
        const SignalsBlocked blocked;
        try {
            thread_ = std::thread([this] { run(); });
        } catch (const std::system_error& e) {
            return fail_with(e.code().value(), "cannot start a thread for the devices of forks: {}",
                             e.what());
        }
        return {};
    }

    void stop() {
        if (!thread_.joinable()) {
            return;
        }
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        wake_.notify_one();
        thread_.join();
        stopping_ = false;
    }

    static void ready(void* arg, int /*fd*/, short /*events*/) noexcept {
        static_cast<ThreadedWorker*>(arg)->give_back();
    }

    // On the loop's thread.
    void give_back() {
        std::uint64_t count = 0;
        if (done_fd_ >= 0 && ::read(done_fd_, &count, sizeof count) < 0 && errno != EAGAIN) {
            return;
        }
        std::vector<Work> done;
        {
            const std::lock_guard lock(mutex_);
            done.swap(done_);
        }
        for (Work& work : done) {
            work.ended(std::move(work.result));
        }
    }

    // ---- on its own thread

    void run() {
        while (auto work = next()) {
            try {
                work->result = work->gone.empty() ? attach_all(work->devices)
                                                  : discard_all(work->gone, work->backends);
            } catch (const std::bad_alloc&) {
                work->result = fail_with(ENOMEM, "no memory for a fork's devices");
            }
            const std::lock_guard lock(mutex_);
            done_.push_back(std::move(*work));
            const std::uint64_t one = 1;
            (void)!::write(done_fd_, &one, sizeof one);
        }
    }

    std::optional<Work> next() {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stopping_ || !todo_.empty(); });
        if (stopping_) {
            return std::nullopt;
        }
        Work work = std::move(todo_.front());
        todo_.pop_front();
        return work;
    }

    bool is_stopping() {
        const std::lock_guard lock(mutex_);
        return stopping_;
    }

    Expected<void> attach_all(const std::vector<hotplug::Device>& devices) {
        if (!store_) {
            auto opened = hotplug::Store::open();
            if (!opened) {
                return tl::unexpected(opened.error());
            }
            store_.emplace(std::move(*opened));
        }
        for (const hotplug::Device& device : devices) {
            if (is_stopping()) {
                return closed();
            }
            if (auto done = hotplug::attach(*store_, device); !done) {
                store_.reset();  // where it is the connection that has failed
                return done;
            }
        }
        return {};
    }

    static Expected<void> discard_all(const std::string& uuid,
                                      const std::vector<std::string>& backends) {
        Expected<void> all;
        for (const std::string& backend : backends) {
            if (auto done = hotplug::discard(uuid, backend); !done && all) {
                all = std::move(done);
            }
        }
        return all;
    }

    const xenpack_watcher_ops& watcher_;
    std::optional<hotplug::Store> store_;  // the thread's
    bool is_finished_ = false;             // the loop's
    int done_fd_ = -1;
    void* handle_ = nullptr;
    std::mutex mutex_;  // for all that follows, while there is a thread
    std::condition_variable wake_;
    std::deque<Work> todo_;
    std::vector<Work> done_;
    bool stopping_ = false;
    std::thread thread_;
};

}  // namespace

std::unique_ptr<DeviceWorker> make_device_worker(const xenpack_watcher_ops& watcher) {
    return std::make_unique<ThreadedWorker>(watcher);
}

}  // namespace xenpack
