// SPDX-License-Identifier: LGPL-2.1-or-later
// What the tests of the daemon's socket share: a temporary directory, a loop that runs until
// something is so, and a client that sends raw bytes. It must not hide what goes over the socket.
#pragma once

#include <functional>
#include <string>

#include "watcher/loop/loop.h"

namespace xenpack::testing {

class TemporaryDirectory {
  public:
    TemporaryDirectory();
    ~TemporaryDirectory();
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

    [[nodiscard]] std::string operator/(const std::string& name) const {
        return path_ + "/" + name;
    }

  private:
    std::string path_;
};

// Runs the loop until `done`; false if that takes longer than `within_ms`.
bool run_until(Loop& loop, const std::function<bool()>& done, std::int64_t within_ms = 10'000);

// A connection that keeps all it receives, while reading is on. The loop drives it.
class RawClient {
  public:
    RawClient(Loop& loop, const std::string& socket_path);
    ~RawClient();
    RawClient(const RawClient&) = delete;
    RawClient& operator=(const RawClient&) = delete;

    void send(const std::string& bytes) const;
    void read_on();
    void read_off() { watch_.reset(); }
    void hang_up();

    [[nodiscard]] const std::string& received() const { return received_; }
    [[nodiscard]] bool closed() const { return closed_; }  // by the other side
    // The status of a whole answer of known length, 0 before it is there.
    [[nodiscard]] int status() const;
    [[nodiscard]] std::string body() const;

  private:
    void on_readable();

    Loop& loop_;
    int fd_;
    Loop::Handle watch_;
    std::string received_;
    bool closed_ = false;
};

[[nodiscard]] std::string get(const std::string& path);
[[nodiscard]] std::string post(const std::string& path, const std::string& body);

// What is inside the chunks of a chunked answer so far.
[[nodiscard]] std::string unchunked(const std::string& answer);

}  // namespace xenpack::testing
