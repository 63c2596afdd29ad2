// SPDX-License-Identifier: LGPL-2.1-or-later
// Plain sockets on the loop under test. Used by http_server_test.cc and control_test.cc.
#include "tests/unit/http_client_fixture.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace xenpack::testing {

TemporaryDirectory::TemporaryDirectory()
    : path_(std::filesystem::temp_directory_path() / "xenpack-test-XXXXXX") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr) << std::strerror(errno);
}

TemporaryDirectory::~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

bool run_until(Loop& loop, const std::function<bool()>& done, std::int64_t within_ms) {
    bool late = false;
    const auto deadline = loop.make_timer([&late] { late = true; });
    deadline->start(within_ms);
    while (!done() && !late) {
        loop.run_once();
    }
    return done();
}

RawClient::RawClient(Loop& loop, const std::string& socket_path)
    : loop_(loop), fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    EXPECT_GE(fd_, 0) << std::strerror(errno);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0)
        << socket_path << ": " << std::strerror(errno);
    read_on();
}

RawClient::~RawClient() {
    hang_up();
}

void RawClient::send(const std::string& bytes) const {
    const ssize_t r = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    EXPECT_EQ(r, static_cast<ssize_t>(bytes.size())) << std::strerror(errno);
}

void RawClient::read_on() {
    watch_ = loop_.watch_readable(fd_, [this] { on_readable(); });
}

void RawClient::hang_up() {
    watch_.reset();
    if (fd_ >= 0) {
        close(fd_);
        fd_ = -1;
    }
}

void RawClient::on_readable() {
    char buffer[65536];
    const ssize_t r = recv(fd_, buffer, sizeof buffer, MSG_DONTWAIT);
    if (r > 0) {
        received_.append(buffer, static_cast<std::size_t>(r));
    } else if (r == 0 || errno != EAGAIN) {
        closed_ = true;
        watch_.reset();
    }
}

int RawClient::status() const {
    const std::size_t head = received_.find("\r\n\r\n");
    if (head == std::string::npos || !received_.starts_with("HTTP/1.1 ")) {
        return 0;
    }
    const std::size_t length = received_.find("Content-Length: ");
    if (length < head && received_.size() < head + 4 + std::stoul(received_.substr(length + 16))) {
        return 0;
    }
    return std::stoi(received_.substr(9));
}

std::string RawClient::body() const {
    const std::size_t head = received_.find("\r\n\r\n");
    return head == std::string::npos ? "" : received_.substr(head + 4);
}

std::string get(const std::string& path) {
    return "GET " + path + " HTTP/1.1\r\nHost: xenpack\r\n\r\n";
}

std::string post(const std::string& path, const std::string& body) {
    return "POST " + path +
           " HTTP/1.1\r\nHost: xenpack\r\nContent-Length: " + std::to_string(body.size()) +
           "\r\n\r\n" + body;
}

std::string unchunked(const std::string& answer) {
    std::string content;
    std::size_t at = answer.find("\r\n\r\n");
    at = at == std::string::npos ? answer.size() : at + 4;
    while (at < answer.size()) {
        const std::size_t end = answer.find("\r\n", at);
        if (end == std::string::npos) {
            break;
        }
        const std::size_t size = std::stoul(answer.substr(at, end - at), nullptr, 16);
        content += answer.substr(end + 2, size);
        at = end + 2 + size + 2;
    }
    return content;
}

}  // namespace xenpack::testing
