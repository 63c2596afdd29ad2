// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Waits for a line: await-line FILE OFFSET MILLISECONDS REGEX. Prints the first whole line of FILE
// that begins at or after byte OFFSET and matches the extended regular expression, preceded by the
// offset just behind it and a tab. Used by dom0/lab.sh to follow guests' consoles without polling.
// It must not consume more than it reports: the next wait starts at the offset printed.
// Exit status: 0 found, 1 time is up, 2 wrong use.

#include <fcntl.h>
#include <poll.h>
#include <regex.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

long long now_ms() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<long long>(t.tv_sec) * 1000 + t.tv_nsec / 1000000;
}

class Follower {
  public:
    Follower(const char* path, off_t offset) : path_(path), offset_(offset) {}

    // Reads what was added and returns true when a line in it matches; it is then in line().
    bool advance(const regex_t& wanted) {
        if (fd_ < 0) {
            fd_ = open(path_, O_RDONLY | O_CLOEXEC);
        }
        char buffer[65536];
        for (ssize_t r;
             fd_ >= 0 && (r = pread(fd_, buffer, sizeof buffer, offset_ + held())) > 0;) {
            pending_.append(buffer, static_cast<std::size_t>(r));
            if (take_match(wanted)) {
                return true;
            }
        }
        return false;
    }

    const std::string& line() const { return line_; }
    off_t offset() const { return offset_; }

  private:
    off_t held() const { return static_cast<off_t>(pending_.size()); }

    bool take_match(const regex_t& wanted) {
        std::size_t end;
        while ((end = pending_.find('\n')) != std::string::npos) {
            line_ = pending_.substr(0, end);
            pending_.erase(0, end + 1);
            offset_ += static_cast<off_t>(end + 1);
            while (!line_.empty() && line_.back() == '\r') {
                line_.pop_back();
            }
            if (regexec(&wanted, line_.c_str(), 0, nullptr, 0) == 0) {
                return true;
            }
        }
        return false;
    }

    const char* path_;
    off_t offset_;
    int fd_ = -1;
    std::string pending_;
    std::string line_;
};

// Sleeps until something happens in the directory of `path`, or the time is up.
bool wait_for_change(int notify, long long due_ms) {
    const long long left_ms = due_ms - now_ms();
    if (left_ms <= 0) {
        return false;
    }
    pollfd watched{notify, POLLIN, 0};
    if (poll(&watched, 1, static_cast<int>(left_ms)) <= 0) {
        return false;
    }
    char events[4096];
    return read(notify, events, sizeof events) > 0;
}

}  // namespace

int main(int argc, char** argv) {
    regex_t wanted;
    if (argc != 5 || regcomp(&wanted, argv[4], REG_EXTENDED | REG_NOSUB) != 0) {
        std::fprintf(stderr, "usage: await-line FILE OFFSET MILLISECONDS REGEX\n");
        return 2;
    }
    const long long due_ms = now_ms() + std::atoll(argv[3]);
    const std::string path = argv[1];
    const std::string directory = path.substr(0, path.rfind('/') + 1);
    const int notify = inotify_init1(IN_CLOEXEC);
    if (inotify_add_watch(notify, directory.empty() ? "." : directory.c_str(),
                          IN_MODIFY | IN_CREATE) < 0) {
        std::fprintf(stderr, "await-line: cannot watch the directory of %s: %s\n", argv[1],
                     std::strerror(errno));
        return 2;
    }
    Follower follower(argv[1], static_cast<off_t>(std::atoll(argv[2])));
    do {
        if (follower.advance(wanted)) {
            std::printf("%lld\t%s\n", static_cast<long long>(follower.offset()),
                        follower.line().c_str());
            return 0;
        }
    } while (wait_for_change(notify, due_ms));
    return 1;
}
