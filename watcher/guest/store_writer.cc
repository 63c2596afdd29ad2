// SPDX-License-Identifier: LGPL-2.1-or-later
// StoreWriter: the thread that talks to xenstore, and what it shares with Reporter, who calls it.
// Nothing but reports and two reads of the zone's own directory happens here.
#include "watcher/guest/store_writer.h"

// xenstore.h of Xen 4.17 does not say extern "C" by itself.
extern "C" {
#include <xenstore.h>
}

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "watcher/guest/proc_text.h"
#include "watcher/guest/say.h"
#include "watcher/pressure/report.h"

namespace xenpack::guest {
namespace {

constexpr std::chrono::milliseconds kFirstRetry(100);
constexpr std::chrono::milliseconds kLastRetry(5000);

// One connection, used by the thread alone.
class Connection {
  public:
    Connection() : handle_(xs_open(0)) {}
    ~Connection() { close(); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    [[nodiscard]] bool is_open() const { return handle_ != nullptr; }

    void reopen() {
        close();
        handle_ = xs_open(0);
    }

    // 0 or an errno value.
    [[nodiscard]] int write(const char* path, std::string_view value) {
        if (handle_ == nullptr) {
            return ENOTCONN;
        }
        const bool ok = xs_write(handle_, XBT_NULL, path, value.data(),
                                 static_cast<unsigned int>(value.size()));
        return ok ? 0 : errno;
    }

    [[nodiscard]] std::optional<std::uint64_t> read_number(const char* path) {
        unsigned int size = 0;
        void* const value = handle_ == nullptr ? nullptr : xs_read(handle_, XBT_NULL, path, &size);
        if (value == nullptr) {
            return std::nullopt;
        }
        const auto number = parse_single({static_cast<const char*>(value), size});
        std::free(value);
        return number;
    }

  private:
    void close() {
        if (handle_ != nullptr) {
            xs_close(handle_);
        }
        handle_ = nullptr;
    }

    xs_handle* handle_;
};

}  // namespace

struct StoreWriter::Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::string report;  // the newest not yet written; empty for none
    bool ceiling_asked = false;
    bool closing = false;
    bool ended = false;
    std::atomic<Ceiling> ceiling = Ceiling::unknown;
    Connection connection;

    void run();

  private:
    void write_one(const std::string& text);
    void read_ceiling();

    // The thread's own.
    std::chrono::milliseconds retry_after_{0};  // 0: the last write succeeded
};

void StoreWriter::Shared::run() {
    std::unique_lock lock(mutex);
    while (!closing) {
        if (report.empty() && !ceiling_asked) {
            changed.wait(lock);
            continue;
        }
        const std::string text = std::exchange(report, {});
        const bool asked = std::exchange(ceiling_asked, false);
        lock.unlock();
        if (asked) {
            read_ceiling();
        }
        if (!text.empty()) {
            write_one(text);
        }
        lock.lock();
        if (retry_after_.count() > 0 && !text.empty()) {
            changed.wait_for(lock, retry_after_, [this] { return closing; });
            report = report.empty() ? text : report;
        }
    }
    ended = true;
    changed.notify_all();
}

void StoreWriter::Shared::write_one(const std::string& text) {
    const std::string path(kReportPath);
    const int code = connection.write(path.c_str(), text);
    if (code == 0) {
        if (retry_after_.count() > 0) {
            say("xenstore takes reports again");
        }
        retry_after_ = std::chrono::milliseconds(0);
        return;
    }
    if (retry_after_.count() == 0) {
        say("cannot write {} to xenstore: {}; trying again until it succeeds", path,
            std::strerror(code));
        retry_after_ = kFirstRetry;
    } else {
        retry_after_ = std::min(retry_after_ * 2, kLastRetry);
    }
    connection.reopen();
}

void StoreWriter::Shared::read_ceiling() {
    const auto target_kib = connection.read_number("memory/target");
    const auto static_max_kib = connection.read_number("memory/static-max");
    ceiling = ceiling_of(target_kib, static_max_kib);
}

Expected<std::unique_ptr<StoreWriter>> StoreWriter::open() {
    auto shared = std::make_shared<Shared>();
    if (!shared->connection.is_open()) {
        const int code = errno;
        return fail_with(code,
                         "cannot reach xenstore: {}; this must run as root in a Xen guest whose "
                         "kernel offers /dev/xen/xenbus",
                         std::strerror(code));
    }
    return std::unique_ptr<StoreWriter>(new StoreWriter(std::move(shared)));
}

StoreWriter::StoreWriter(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {
    std::thread([kept = shared_] { kept->run(); }).detach();
}

StoreWriter::~StoreWriter() {
    close(0);
}

void StoreWriter::post(std::string report) {
    const std::lock_guard lock(shared_->mutex);
    shared_->report = std::move(report);
    shared_->changed.notify_all();
}

void StoreWriter::ask_ceiling() {
    const std::lock_guard lock(shared_->mutex);
    shared_->ceiling_asked = true;
    shared_->changed.notify_all();
}

Ceiling StoreWriter::ceiling() const {
    return shared_->ceiling;
}

void StoreWriter::close(std::uint64_t patience_ms) {
    std::unique_lock lock(shared_->mutex);
    shared_->closing = true;
    shared_->changed.notify_all();
    shared_->changed.wait_for(lock, std::chrono::milliseconds(patience_ms),
                              [this] { return shared_->ended; });
}

}  // namespace xenpack::guest
