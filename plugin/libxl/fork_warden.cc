// SPDX-License-Identifier: LGPL-2.1-or-later
// The two ends of a socket: the watcher's, which tells of forks, and the process's, for which its
// end says that the watcher has gone. The process is a copy of the watcher's that runs nothing of
// it but what is here: it has its own way to Xen, open from the start, and none of its descriptors.
#include "plugin/libxl/fork_warden.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <new>

#include "plugin/libxl/paused_forks.h"

namespace xenpack {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPredecessorMs = 1'000;
// One that ends sooner is not to be started without end.
constexpr Clock::duration kStartsAgainAfter = std::chrono::seconds(1);
constexpr const char* kName = "xenpack-warden";  // 15 characters at the most: TASK_COMM_LEN

struct Message {
    std::uint32_t domid;
    std::uint32_t watched;
    DomainUuid uuid;
};

std::string pid_file(const std::string& record) {
    return record + ".warden";
}

bool is_warden(pid_t pid) {
    std::string name;
    return std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name) && name == kName;
}

// Of the file's process: its number, where it still runs after all that time; else 0.
pid_t wait_for_predecessor(const std::string& record) {
    pid_t pid = 0;
    if (!(std::ifstream(pid_file(record)) >> pid) || pid <= 0) {
        return 0;
    }
    const auto process = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (process < 0) {
        return 0;
    }
    pollfd ended{process, POLLIN, 0};
    // The number can be another's by now.
    const bool runs_on = is_warden(pid) && ::poll(&ended, 1, kPredecessorMs) == 0;
    ::close(process);
    return runs_on ? pid : 0;
}

// ---- the process --------------------------------------------------------------------------------

// All signals are blocked until those of the watcher's handlers are gone, which know its
// descriptors.
void be_alone(int fd) {
    static_cast<void>(::prctl(PR_SET_NAME, kName));
    for (int signal = 1; signal <= SIGRTMAX; ++signal) {
        static_cast<void>(::signal(signal, SIG_DFL));
    }
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) {
        static_cast<void>(::signal(signal, SIG_IGN));
    }
    sigset_t none;
    ::sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
    const auto mine = static_cast<unsigned>(fd);
    if (mine > 3) {
        ::close_range(3, mine - 1, 0);
    }
    ::close_range(mine + 1, ~0U, 0);
}

// Returns when the watcher has gone.
std::set<ForkWarden::Key> listen(int fd, std::set<ForkWarden::Key> watched) {
    for (;;) {
        Message message{};
        const ssize_t n = ::recv(fd, &message, sizeof message, 0);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n != static_cast<ssize_t>(sizeof message)) {
            return watched;
        }
        if (message.watched != 0) {
            watched.emplace(message.domid, message.uuid);
        } else {
            watched.erase({message.domid, message.uuid});
        }
    }
}

Expected<void> pause_them(Hypervisor& xen, const std::set<ForkWarden::Key>& watched,
                          const std::string& record) {
    const auto host = xen.host();
    const auto all = xen.list();
    if (!host || !all) {
        return tl::unexpected(host ? all.error() : host.error());
    }
    const auto whom = whom_to_pause(*all, watched, host->free_kib);
    if (whom.empty()) {
        return {};
    }
    // First, so that the next watcher knows; but better paused for ever than corrupted.
    const auto recorded = PausedForks::add(record, whom);
    Expected<void> result = recorded;
    std::string names;
    for (const xenpack_domain& domain : whom) {
        if (auto ok = xen.pause(domain.domid); !ok) {
            result = ok;
        }
        names += fmt::format(" {}", domain.domid);
    }
    std::fprintf(stderr,
                 "xenpackd: it has ended, and what is free is less than its forks could write: "
                 "paused until it runs again: domains%s\n",
                 names.c_str());
    return result;
}

[[noreturn]] void run(int fd, const std::string& record,
                      const std::set<ForkWarden::Key>& watched) noexcept {
    int status = 1;
    try {
        be_alone(fd);
        auto xen = Hypervisor::open(nullptr);
        Expected<void> done;
        if (xen) {
            done = pause_them(*xen, listen(fd, watched), record);
        } else {
            done = tl::unexpected(xen.error());
        }
        if (done) {
            status = 0;
        } else {
            std::fprintf(stderr, "xenpackd: what keeps its forks when it ends: %s\n",
                         done.error().what.c_str());
        }
    } catch (const std::exception&) {
        status = 1;  // no memory
    }
    ::_exit(status);
}

}  // namespace

std::vector<xenpack_domain> whom_to_pause(const std::vector<xenpack_domain>& all,
                                          const std::set<ForkWarden::Key>& watched,
                                          std::uint64_t free_kib) {
    constexpr std::uint32_t kStill =
        XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_IS_SHUTDOWN | XENPACK_DOMAIN_IS_DYING;
    std::vector<xenpack_domain> run;
    std::uint64_t could_write_kib = 0;
    for (const xenpack_domain& domain : all) {
        if (watched.contains({domain.domid, copy_uuid(domain.uuid)}) &&
            (domain.flags & kStill) == 0) {
            run.push_back(domain);
            could_write_kib += domain.limit_kib - std::min(domain.limit_kib, domain.current_kib);
        }
    }
    if (could_write_kib + kWardenLeavesKib <= free_kib) {
        run.clear();
    }
    return run;
}

ForkWarden::ForkWarden(const xenpack_watcher_ops& watcher, std::string record)
    : watcher_{watcher}, record_{std::move(record)} {
    const pid_t pid = wait_for_predecessor(record_);
    if (pid == 0) {
        remove_pid_file();
    } else {
        say(fmt::format(
            "process {}, which keeps an earlier xenpackd's forks, does not end: what it "
            "pauses now stays paused until somebody unpauses it",
            pid));
    }
}

ForkWarden::~ForkWarden() {
    take_over();
}

void ForkWarden::take_over() noexcept {
    has_taken_over_ = true;
    if (registration_ != nullptr) {
        watcher_.loop_ops->fd_deregister(watcher_.loop, registration_);
        registration_ = nullptr;
    }
    if (fd_ >= 0) {
        ::close(fd_);
        fd_ = -1;
    }
}

Expected<void> ForkWarden::start() {
    std::error_code failed;  // seen when it is written
    std::filesystem::create_directories(std::filesystem::path(record_).parent_path(), failed);
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
        return fail_with(errno, "cannot make a socket: {}", std::strerror(errno));
    }
    // None is to come before it ignores them.
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t pid = ::fork();
    if (pid == 0) {
        run(ends[1], record_, watched_);
    }
    const int code = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::close(ends[1]);
    if (pid < 0) {
        ::close(ends[0]);
        return fail_with(code, "cannot start a process: {}", std::strerror(code));
    }
    pid_ = pid;
    fd_ = ends[0];
    started_ = Clock::now();
    std::ofstream(pid_file(record_), std::ios::trunc) << pid << '\n';
    if (const int r = watcher_.loop_ops->fd_register(watcher_.loop, fd_, XENPACK_IN,
                                                     &ForkWarden::ready, this, &registration_);
        r != 0) {
        registration_ = nullptr;
        lost();
        return fail_with(-r, "the event loop cannot watch it");
    }
    return {};
}

// It never says anything but that it has ended.
void ForkWarden::ready(void* arg, int /*fd*/, short /*events*/) noexcept {
    auto* self = static_cast<ForkWarden*>(arg);
    const bool at_once =
        !self->watched_.empty() && Clock::now() - self->started_ >= kStartsAgainAfter;
    self->lost();
    self->attempt([&] {
        self->say(fmt::format(
            "the process that keeps forks whole should xenpackd end has ended itself; {}",
            at_once ? "another is started" : "the next fork starts another"));
        return at_once ? self->start() : Expected<void>();
    });
}

void ForkWarden::lost() noexcept {
    if (registration_ != nullptr) {
        watcher_.loop_ops->fd_deregister(watcher_.loop, registration_);
        registration_ = nullptr;
    }
    // Or it would take this for the watcher's end.
    static_cast<void>(::kill(pid_, SIGKILL));
    ::close(fd_);
    fd_ = -1;
    static_cast<void>(::waitpid(pid_, nullptr, 0));
    remove_pid_file();
    pid_ = 0;
}

bool ForkWarden::send(const Key& key, bool watched) const noexcept {
    const Message message{key.first, watched ? 1U : 0U, key.second};
    return ::send(fd_, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<ssize_t>(sizeof message);
}

void ForkWarden::watch(const Key& key) noexcept {
    attempt([&] { return watched_.insert(key).second ? tell(key, true) : Expected<void>(); });
}

void ForkWarden::forget(const Key& key) noexcept {
    attempt([&] { return watched_.erase(key) != 0 ? tell(key, false) : Expected<void>(); });
}

// What cannot be told to one is what the next one begins with.
Expected<void> ForkWarden::tell(const Key& key, bool watched) {
    if (fd_ >= 0) {
        if (send(key, watched)) {
            return {};
        }
        lost();
    }
    return watched_.empty() || has_taken_over_ ? Expected<void>() : start();
}

template <class Action>
void ForkWarden::attempt(Action action) noexcept {
    try {
        if (const Expected<void> ok = action(); !ok) {
            say(fmt::format("forks are not kept whole should xenpackd end: {}", ok.error().what));
        }
    } catch (const std::bad_alloc&) {
        watcher_.log(watcher_.user, XENPACK_LOG_WARNING,
                     "out of memory: forks are not kept whole should xenpackd end");
    }
}

void ForkWarden::say(const std::string& text) const {
    watcher_.log(watcher_.user, XENPACK_LOG_WARNING, text.c_str());
}

void ForkWarden::remove_pid_file() const noexcept {
    try {
        static_cast<void>(::unlink(pid_file(record_).c_str()));
    } catch (const std::bad_alloc&) {
        return;  // whoever reads it asks whether that process is one
    }
}

}  // namespace xenpack
