// SPDX-License-Identifier: LGPL-2.1-or-later
// UnixSocket: a listening socket in the file system, made and removed without races.
// Control owns one. It must not read from it, and it knows nothing of HTTP.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "watcher/error.h"

namespace xenpack {

class UnixSocket {
  public:
    // Makes `path` (mode 0600; its directory 0755 if missing) and listens, without blocking.
    // A socket there that nobody answers is replaced. One that answers is an error with code
    // EADDRINUSE, anything that is no socket one with EEXIST: neither is touched.
    [[nodiscard]] static Expected<std::unique_ptr<UnixSocket>> listen(const std::string& path);

    // Closes, and removes the path if it is still this socket.
    ~UnixSocket();
    UnixSocket(const UnixSocket&) = delete;
    UnixSocket& operator=(const UnixSocket&) = delete;

    [[nodiscard]] int fd() const { return fd_; }

  private:
    UnixSocket(std::string path, int fd, dev_t device, ino_t inode);

    std::string path_;
    int fd_;
    dev_t device_;  // with the inode: which file the path named when it was made
    ino_t inode_;
};

}  // namespace xenpack
