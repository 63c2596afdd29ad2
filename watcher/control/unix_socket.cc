// SPDX-License-Identifier: LGPL-2.1-or-later
// Makes the daemon's socket. Two daemons started at once are told apart by a lock on a file beside
// it that only root can open, held while one looks, removes and binds. Called by Control only.
#include "watcher/control/unix_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace xenpack {

namespace {

constexpr int kBacklog = 64;

class Descriptor {
  public:
    explicit Descriptor(int fd) : fd_(fd) {}
    ~Descriptor() {
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    [[nodiscard]] int get() const { return fd_; }
    int release() { return std::exchange(fd_, -1); }

  private:
    int fd_;
};

tl::unexpected<Error> fail_errno(const char* doing, const std::string& path) {
    const int code = errno;
    return fail_with(code, "cannot {} {}: {}", doing, path, std::strerror(code));
}

sockaddr_un address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
}

int make_socket() {
    return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int connect_to(int fd, const sockaddr_un& address) {
    return connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

// Sees to it that nothing is at `path`, or says what is.
Expected<void> clear_path(const std::string& path) {
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0) {
        if (errno == ENOENT) {
            return {};
        }
        return fail_errno("look at", path);
    }
    if (!S_ISSOCK(status.st_mode)) {
        return fail_with(EEXIST, "{} is there and is no socket: remove it, or set another socket",
                         path);
    }
    const Descriptor probe(make_socket());
    if (probe.get() < 0) {
        return fail_errno("make a socket to try", path);
    }
    // EAGAIN: somebody listens, and is behind with accepting.
    if (connect_to(probe.get(), address_of(path)) == 0 || errno == EAGAIN) {
        return fail_with(EADDRINUSE,
                         "xenpackd is already running: something answers on {}; stop it first",
                         path);
    }
    if (errno != ECONNREFUSED) {
        return fail_errno("find out who listens on", path);
    }
    if (unlink(path.c_str()) != 0 && errno != ENOENT) {
        return fail_errno("remove the dead socket", path);
    }
    return {};
}

// Makes the directory of `path` if it is missing, and opens and locks PATH.lock in it. (Whoever can
// open a directory can hold a lock on it; this file is for its owner alone.)
Expected<int> lock_beside(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    const std::string directory = slash == 0 ? "/" : path.substr(0, slash);
    // The umask cannot take bits from 0755 here that anybody but root needs.
    if (mkdir(directory.c_str(), 0755) != 0 && errno != EEXIST) {
        return fail_errno("make directory", directory);
    }
    const std::string file = path + ".lock";
    Descriptor fd(open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (fd.get() < 0) {
        return fail_errno("open", file);
    }
    while (flock(fd.get(), LOCK_EX) != 0) {
        if (errno != EINTR) {
            return fail_errno("lock", file);
        }
    }
    return fd.release();
}

}  // namespace

Expected<std::unique_ptr<UnixSocket>> UnixSocket::listen(const std::string& path) {
    const sockaddr_un address = address_of(path);
    if (!path.starts_with('/') || path.size() >= sizeof address.sun_path) {
        return fail_with(EINVAL, "socket '{}' is not an absolute path of at most {} bytes", path,
                         sizeof address.sun_path - 1);
    }
    const auto locked = lock_beside(path);
    if (!locked) {
        return tl::unexpected<Error>(locked.error());
    }
    const Descriptor lock(*locked);
    if (const auto cleared = clear_path(path); !cleared) {
        return tl::unexpected<Error>(cleared.error());
    }
    Descriptor fd(make_socket());
    // On Linux the file that bind() makes takes the mode of the socket, so that it is never open
    // to others, not even for a moment.
    if (fd.get() < 0 || fchmod(fd.get(), 0600) != 0) {
        return fail_errno("make a socket for", path);
    }
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return fail_errno("make socket", path);
    }
    struct stat status {};
    if (lstat(path.c_str(), &status) != 0 || ::listen(fd.get(), kBacklog) != 0) {
        return fail_errno("listen on", path);
    }
    return std::unique_ptr<UnixSocket>(
        new UnixSocket(path, fd.release(), status.st_dev, status.st_ino));
}

UnixSocket::UnixSocket(std::string path, int fd, dev_t device, ino_t inode)
    : path_(std::move(path)), fd_(fd), device_(device), inode_(inode) {}

UnixSocket::~UnixSocket() {
    struct stat status {};
    if (lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_) {
        unlink(path_.c_str());
    }
    close(fd_);
}

}  // namespace xenpack
