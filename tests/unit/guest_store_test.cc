// SPDX-License-Identifier: LGPL-2.1-or-later
// StoreWriter against a small xenstore daemon of the test's own, on a Unix socket: what arrives,
// what is tried again, and that a silent xenstore stops nobody.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include <xen/io/xs_wire.h>
}

#include "watcher/guest/store_writer.h"
#include "watcher/pressure/report.h"

namespace xenpack::guest {
namespace {

namespace fs = std::filesystem;
constexpr std::uint64_t kPatienceMs = 10'000;

// Serves one connection after another until it is destroyed.
class FakeXenstore {
  public:
    FakeXenstore() {
        std::string name = (fs::temp_directory_path() / "xenpack-store-XXXXXX").string();
        directory_ = ::mkdtemp(name.data());
        const std::string path = (directory_ / "socket").string();
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, sizeof address.sun_path - 1);
        listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(::listen(listener_, 4), 0);
        ::setenv("XENSTORED_PATH", path.c_str(), 1);
        thread_ = std::thread([this] { serve(); });
    }
    ~FakeXenstore() {
        {
            const std::lock_guard lock(mutex_);
            silent_ = false;
            changed_.notify_all();
            ::shutdown(connection_, SHUT_RDWR);
        }
        ::shutdown(listener_, SHUT_RDWR);
        thread_.join();
        ::close(listener_);
        fs::remove_all(directory_);
    }
    FakeXenstore(const FakeXenstore&) = delete;
    FakeXenstore& operator=(const FakeXenstore&) = delete;

    void refuse_writes(int how_many) {
        const std::lock_guard lock(mutex_);
        refusals_ = how_many;
    }
    void stay_silent(bool silent) {
        const std::lock_guard lock(mutex_);
        silent_ = silent;
        changed_.notify_all();
    }
    void hold(const std::string& path, const std::string& value) {
        const std::lock_guard lock(mutex_);
        nodes_.emplace_back(path, value);
    }

    // The requests seen so far, once there are this many: "path=value" for a write, "path" for a
    // read.
    std::vector<std::string> requests(std::size_t at_least) {
        std::unique_lock lock(mutex_);
        EXPECT_TRUE(changed_.wait_for(lock, std::chrono::milliseconds(kPatienceMs),
                                      [&] { return requests_.size() >= at_least; }));
        return requests_;
    }
    int connections() {
        const std::lock_guard lock(mutex_);
        return connections_;
    }

  private:
    void serve() {
        for (;;) {
            const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
            if (connection < 0) {
                return;
            }
            {
                const std::lock_guard lock(mutex_);
                connection_ = connection;
                ++connections_;
            }
            while (serve_one(connection)) {
            }
            const std::lock_guard lock(mutex_);
            connection_ = -1;
            ::close(connection);
        }
    }

    bool serve_one(int connection) {
        xsd_sockmsg head{};
        if (::recv(connection, &head, sizeof head, MSG_WAITALL) != sizeof head) {
            return false;
        }
        std::string body(head.len, '\0');
        if (::recv(connection, body.data(), body.size(), MSG_WAITALL) !=
            static_cast<ssize_t>(body.size())) {
            return false;
        }
        const std::string answer = handle(head.type, body, head);
        head.len = static_cast<std::uint32_t>(answer.size());
        std::string packet(reinterpret_cast<const char*>(&head), sizeof head);
        packet += answer;
        return ::send(connection, packet.data(), packet.size(), MSG_NOSIGNAL) ==
               static_cast<ssize_t>(packet.size());
    }

    std::string handle(std::uint32_t type, const std::string& body, xsd_sockmsg& head) {
        std::unique_lock lock(mutex_);
        const std::string path = body.substr(0, body.find('\0'));
        const bool write = type == XS_WRITE;
        requests_.push_back(write ? path + "=" + body.substr(path.size() + 1) : path);
        changed_.notify_all();
        changed_.wait(lock, [this] { return !silent_; });
        if (write && refusals_ > 0) {
            --refusals_;
            head.type = XS_ERROR;
            return std::string("EAGAIN", 7);
        }
        if (write) {
            return std::string("OK", 3);
        }
        for (const auto& [node, value] : nodes_) {
            if (node == path) {
                return value;
            }
        }
        head.type = XS_ERROR;
        return std::string("ENOENT", 7);
    }

    fs::path directory_;
    int listener_ = -1;
    std::thread thread_;
    std::mutex mutex_;
    std::condition_variable changed_;
    int connection_ = -1;
    int connections_ = 0;
    int refusals_ = 0;
    bool silent_ = false;
    std::vector<std::pair<std::string, std::string>> nodes_;
    std::vector<std::string> requests_;
};

std::string report_request(const std::string& text) {
    return std::string(kReportPath) + "=" + text;
}

TEST(StoreWriter, AReportArrivesAtItsPath) {
    FakeXenstore xenstore;
    auto writer = StoreWriter::open();
    ASSERT_TRUE(writer) << writer.error().what;
    (*writer)->post("one");
    EXPECT_EQ(xenstore.requests(1), std::vector<std::string>{report_request("one")});
    (*writer)->close(kPatienceMs);
}

TEST(StoreWriter, ARefusedReportIsTriedAgainOnANewConnection) {
    FakeXenstore xenstore;
    xenstore.refuse_writes(2);
    auto writer = StoreWriter::open();
    ASSERT_TRUE(writer);
    (*writer)->post("one");
    EXPECT_EQ(xenstore.requests(3), std::vector<std::string>(3, report_request("one")));
    EXPECT_EQ(xenstore.connections(), 3);
    (*writer)->close(kPatienceMs);
}

TEST(StoreWriter, PostingNeverWaitsAndTheNewestReportWins) {
    FakeXenstore xenstore;
    xenstore.stay_silent(true);
    auto writer = StoreWriter::open();
    ASSERT_TRUE(writer);
    (*writer)->post("one");
    EXPECT_EQ(xenstore.requests(1).size(), 1U);
    (*writer)->post("two");
    (*writer)->post("three");
    xenstore.stay_silent(false);
    const std::vector<std::string> expected{report_request("one"), report_request("three")};
    EXPECT_EQ(xenstore.requests(2), expected);
    (*writer)->close(kPatienceMs);
}

TEST(StoreWriter, ClosingDoesNotWaitForASilentXenstoreForEver) {
    FakeXenstore xenstore;
    xenstore.stay_silent(true);
    auto writer = StoreWriter::open();
    ASSERT_TRUE(writer);
    (*writer)->post("one");
    EXPECT_EQ(xenstore.requests(1).size(), 1U);
    (*writer)->close(10);
    SUCCEED();
}

TEST(StoreWriter, ReadsTheCeilingWhenAsked) {
    FakeXenstore xenstore;
    xenstore.hold("memory/target", "262144");
    xenstore.hold("memory/static-max", "524288");
    auto writer = StoreWriter::open();
    ASSERT_TRUE(writer);
    EXPECT_EQ((*writer)->ceiling(), Ceiling::unknown);
    (*writer)->ask_ceiling();
    const std::vector<std::string> expected{"memory/target", "memory/static-max"};
    EXPECT_EQ(xenstore.requests(2), expected);
    (*writer)->close(kPatienceMs);
    EXPECT_EQ((*writer)->ceiling(), Ceiling::room);
}

TEST(StoreWriter, AnUnreadableCeilingIsUnknown) {
    FakeXenstore xenstore;
    xenstore.hold("memory/target", "much");
    xenstore.hold("memory/static-max", "524288");
    auto writer = StoreWriter::open();
    ASSERT_TRUE(writer);
    (*writer)->ask_ceiling();
    xenstore.requests(2);
    (*writer)->close(kPatienceMs);
    EXPECT_EQ((*writer)->ceiling(), Ceiling::unknown);
}

TEST(StoreWriter, WithoutXenstoreItSaysWhatIsMissing) {
    ::setenv("XENSTORED_PATH", "/nonexistent/socket", 1);
    if (::access("/dev/xen/xenbus", F_OK) == 0 || ::access("/proc/xen/xenbus", F_OK) == 0) {
        GTEST_SKIP() << "this machine is a Xen domain";
    }
    const auto writer = StoreWriter::open();
    ASSERT_FALSE(writer);
    EXPECT_NE(writer.error().what.find("/dev/xen/xenbus"), std::string::npos);
}

}  // namespace
}  // namespace xenpack::guest
