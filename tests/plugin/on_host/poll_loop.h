// SPDX-License-Identifier: LGPL-2.1-or-later
// PollLoop: the smallest event loop that keeps the promises of xenpack_loop_ops, on poll(2).
// For programs that try a plugin on a real host without the watcher. Not for the product.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "plugin/toolstack.h"

class PollLoop {
  public:
    PollLoop();
    ~PollLoop();
    PollLoop(const PollLoop&) = delete;
    PollLoop& operator=(const PollLoop&) = delete;

    // The table to give a plugin, with this loop as its `loop`.
    static const xenpack_loop_ops* ops() noexcept;

    // Waits for one thing to happen, at most this long, and calls whoever asked for it.
    void round(std::chrono::milliseconds longest);

    // Descriptors and timeouts registered now, and whether SIGCHLD is.
    std::size_t registered() const noexcept;

  private:
    struct Table;
    struct Entry {
        int fd = -1;  // -1: a timeout
        short events = 0;
        void (*ready)(void*, int, short) = nullptr;
        std::chrono::steady_clock::time_point due;
        void (*fired)(void*) = nullptr;
        void* arg = nullptr;
        bool dead = false;
    };

    Entry* add();
    int wait_ms(std::chrono::milliseconds longest) const;
    void call_due();

    std::vector<std::unique_ptr<Entry>> entries_;
    void (*sigchld_)(void*) = nullptr;
    void* sigchld_arg_ = nullptr;
    int signal_fd_;
};
