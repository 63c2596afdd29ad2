// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A zone's workload: takes memory, fills it with a pattern, gives it back, and later proves that
// no byte of it was lost. Runs inside the lab's guests as the only program on their console: one
// command per line on standard input, one answer per command, a line that begins with "work: ".
// It must stay static, start no thread of its own, and not guess: whatever it prints was measured.

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

extern "C" {
#include <xen/io/xs_wire.h>
#include <xenstore.h>
}

#include "tests/lab/guest/follow.h"
#include "tests/lab/guest/machine.h"

namespace {

constexpr std::size_t kMib = 1024 * 1024;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kPagesPerMib = kMib / kPageBytes;
constexpr std::size_t kWordsPerPage = kPageBytes / sizeof(std::uint64_t);
constexpr std::uint64_t kMaxMib = 1 << 20;
constexpr std::uint64_t kPatternsApart = 4096;
constexpr const char* kReporterPidFile = "/run/xenpack-guest.pid";
constexpr const char* kFreezer = "/run/freezer";
constexpr const char* kFrozen = "/run/freezer/balloon";

// One MiB of anonymous memory and what its pages were last filled from.
struct Block {
    std::uint64_t* words;
    std::uint64_t seed;
};

std::vector<Block> blocks;
std::uint64_t next_seed = 1;

[[gnu::format(printf, 1, 2)]] void answer(const char* format, ...) {
    std::fputs("work: ", stdout);
    va_list arguments;
    va_start(arguments, format);
    std::vprintf(format, arguments);
    va_end(arguments);
    std::fputc('\n', stdout);
    std::fflush(stdout);
}

std::uint64_t now_ms() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1000 +
           static_cast<std::uint64_t>(t.tv_nsec) / 1000000;
}

void wait_until_ms(std::uint64_t due_ms) {
    const timespec due{static_cast<time_t>(due_ms / 1000),
                       static_cast<long>(due_ms % 1000) * 1000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr) == EINTR) {
    }
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        return std::nullopt;
    }
    return value;
}

// ---- Memory with a pattern in it.

// A page's first word depends on its address and the block's seed, and every further word on its
// place in the page: a page that was zeroed, swapped with another, or left from an earlier filling
// differs in every word. (The finalizer's constants are those of MurmurHash3.)
std::uint64_t page_base(const std::uint64_t* page, std::uint64_t seed) {
    std::uint64_t mixed = reinterpret_cast<std::uintptr_t>(page) ^ (seed << 48) ^ seed;
    mixed = (mixed ^ (mixed >> 33)) * 0xff51afd7ed558ccdULL;
    mixed = (mixed ^ (mixed >> 33)) * 0xc4ceb9fe1a85ec53ULL;
    return mixed ^ (mixed >> 33);
}

void fill_block(const Block& block) {
    for (std::size_t page = 0; page < kPagesPerMib; ++page) {
        std::uint64_t* words = block.words + page * kWordsPerPage;
        const std::uint64_t base = page_base(words, block.seed);
        for (std::size_t i = 0; i < kWordsPerPage; ++i) {
            words[i] = base + i;
        }
    }
}

// Returns the first page that does not hold its pattern, or nothing.
const std::uint64_t* first_bad_page(const Block& block) {
    for (std::size_t page = 0; page < kPagesPerMib; ++page) {
        const std::uint64_t* words = block.words + page * kWordsPerPage;
        const std::uint64_t base = page_base(words, block.seed);
        std::uint64_t difference = 0;
        for (std::size_t i = 0; i < kWordsPerPage; ++i) {
            difference |= words[i] ^ (base + i);
        }
        if (difference != 0) {
            return words;
        }
    }
    return nullptr;
}

void alloc(std::uint64_t mib, std::uint64_t rate_mib_per_s) {
    const std::uint64_t start_ms = now_ms();
    for (std::uint64_t done = 0; done < mib; ++done) {
        void* memory =
            mmap(nullptr, kMib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            answer("alloc FAILED after MiB=%llu: %s", static_cast<unsigned long long>(done),
                   std::strerror(errno));
            return;
        }
        blocks.push_back({static_cast<std::uint64_t*>(memory), next_seed++});
        fill_block(blocks.back());
        if (rate_mib_per_s != 0) {
            wait_until_ms(start_ms + (done + 1) * 1000 / rate_mib_per_s);
        }
    }
    answer("alloc ok MiB=%llu held=%zu ms=%llu", static_cast<unsigned long long>(mib),
           blocks.size(), static_cast<unsigned long long>(now_ms() - start_ms));
}

void check() {
    const std::uint64_t start_ms = now_ms();
    for (const Block& block : blocks) {
        if (const std::uint64_t* page = first_bad_page(block)) {
            answer("check FAILED page=%p word=%llx expected=%llx", static_cast<const void*>(page),
                   static_cast<unsigned long long>(page[0]),
                   static_cast<unsigned long long>(page_base(page, block.seed)));
            return;
        }
    }
    answer("check ok MiB=%zu ms=%llu", blocks.size(),
           static_cast<unsigned long long>(now_ms() - start_ms));
}

void rewrite() {
    const std::uint64_t start_ms = now_ms();
    for (Block& block : blocks) {
        block.seed = next_seed++;
        fill_block(block);
    }
    answer("rewrite ok MiB=%zu ms=%llu", blocks.size(),
           static_cast<unsigned long long>(now_ms() - start_ms));
}

void release(std::uint64_t mib) {
    std::uint64_t freed = 0;
    for (; freed < mib && !blocks.empty(); ++freed) {
        munmap(blocks.back().words, kMib);
        blocks.pop_back();
    }
    answer("free ok MiB=%llu held=%zu", static_cast<unsigned long long>(freed), blocks.size());
}

// ---- What the kernel says of itself.

std::string read_file(const char* path) {
    std::string text;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return text;
    }
    char buffer[4096];
    for (ssize_t r; (r = read(fd, buffer, sizeof buffer)) > 0;) {
        text.append(buffer, static_cast<std::size_t>(r));
    }
    close(fd);
    return text;
}

bool write_file(const char* path, std::string_view text) {
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    const ssize_t r = write(fd, text.data(), text.size());
    const int write_errno = errno;
    close(fd);
    errno = write_errno;
    return r == static_cast<ssize_t>(text.size());
}

// The first word after `key` where that starts a line of `text`; "absent" if there is none.
std::string field(const std::string& text, std::string_view key) {
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string_view line = std::string_view(text).substr(at, end - at);
        if (line.starts_with(key)) {
            const std::size_t first = line.find_first_not_of(" \t", key.size());
            if (first != std::string_view::npos) {
                return std::string(line.substr(first, line.find_first_of(" \t", first) - first));
            }
        }
        at = end + 1;
    }
    return "absent";
}

void print_stat() {
    const std::string meminfo = read_file("/proc/meminfo");
    const std::string vmstat = read_file("/proc/vmstat");
    std::string pressure = read_file("/proc/pressure/memory");
    std::replace(pressure.begin(), pressure.end(), '\n', ';');
    std::replace(pressure.begin(), pressure.end(), ' ', ',');
    answer(
        "stat MemTotal=%s MemFree=%s MemAvailable=%s oom_kill=%s pswpin=%s refault_anon=%s "
        "refault_file=%s held=%zu psi=%s",
        field(meminfo, "MemTotal:").c_str(), field(meminfo, "MemFree:").c_str(),
        field(meminfo, "MemAvailable:").c_str(), field(vmstat, "oom_kill ").c_str(),
        field(vmstat, "pswpin ").c_str(), field(vmstat, "workingset_refault_anon ").c_str(),
        field(vmstat, "workingset_refault_file ").c_str(), blocks.size(),
        pressure.empty() ? "absent" : pressure.c_str());
}

// For a person, and for who studies a guest: what a file of /proc or /sys says.
void show(const std::string& path) {
    const std::string text = read_file(path.c_str());
    std::fputs(text.c_str(), stdout);
    answer("show ok %s bytes=%zu", path.c_str(), text.size());
}

// ---- Page cache: the guest's files are in its initramfs, so a tmpfs file stands in. Its pages are
// counted as shared memory, can not be dropped without swap, and are filled by write(2).

void cache(std::uint64_t mib) {
    const int fd = open("/run/cache", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        answer("cache FAILED open: %s", std::strerror(errno));
        return;
    }
    const std::vector<char> chunk(kMib, 'x');
    for (std::uint64_t done = 0; done < mib; ++done) {
        if (write(fd, chunk.data(), chunk.size()) != static_cast<ssize_t>(chunk.size())) {
            answer("cache FAILED after MiB=%llu: %s", static_cast<unsigned long long>(done),
                   std::strerror(errno));
            close(fd);
            return;
        }
    }
    close(fd);
    answer("cache ok MiB=%llu (tmpfs)", static_cast<unsigned long long>(mib));
}

// ---- xenstore, as this guest.

xs_handle* store() {
    static xs_handle* handle = xs_open(0);
    return handle;
}

// \xNN in a value stands for that byte, so that any byte can be sent over a line of text.
std::string unescape(std::string_view text) {
    std::string bytes;
    for (std::size_t i = 0; i < text.size(); ++i) {
        unsigned value = 0;
        if (text.substr(i).starts_with("\\x") && i + 3 < text.size() &&
            std::from_chars(text.data() + i + 2, text.data() + i + 4, value, 16).ptr ==
                text.data() + i + 4) {
            bytes.push_back(static_cast<char>(value));
            i += 3;
        } else {
            bytes.push_back(text[i]);
        }
    }
    return bytes;
}

void store_write(const std::string& key, std::string_view value) {
    const std::string bytes = unescape(value);
    if (store() == nullptr) {
        answer("store FAILED open: %s", std::strerror(errno));
    } else if (!xs_write(store(), XBT_NULL, key.c_str(), bytes.data(),
                         static_cast<unsigned>(bytes.size()))) {
        answer("store FAILED %s: %s", key.c_str(), std::strerror(errno));
    } else {
        answer("store ok %s bytes=%zu", key.c_str(), bytes.size());
    }
}

void store_remove(const std::string& key) {
    if (store() == nullptr || !xs_rm(store(), XBT_NULL, key.c_str())) {
        answer("remove FAILED %s: %s", key.c_str(), std::strerror(errno));
    } else {
        answer("remove ok %s", key.c_str());
    }
}

// Answers in each zone that comes of it, and not in the one that becomes the template.
void fork_itself(std::uint64_t count) {
    const std::string command = "/bin/xenpack-guest fork " + std::to_string(count) + " 2>&1";
    std::FILE* const call = popen(command.c_str(), "r");
    if (call == nullptr) {
        answer("fork-itself FAILED %s", std::strerror(errno));
        return;
    }
    std::array<char, 300> line{};
    if (std::fgets(line.data(), line.size(), call) == nullptr) {
        line[0] = '\0';
    }
    line[std::strcspn(line.data(), "\n")] = '\0';
    if (pclose(call) == 0) {
        answer("fork-itself ok index=%s", line.data());
    } else {
        answer("fork-itself FAILED %s", line.data());
    }
}

// A value of `size` bytes, for what does not fit on a console line.
void store_fill(const std::string& key, std::uint64_t size) {
    store_write(key,
                std::string(static_cast<std::size_t>(std::min<std::uint64_t>(size, 4096)), 'x'));
}

void flood(const std::string& key, std::uint64_t count) {
    const std::uint64_t start_ms = now_ms();
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::string value = std::to_string(i);
        if (store() == nullptr || !xs_write(store(), XBT_NULL, key.c_str(), value.data(),
                                            static_cast<unsigned>(value.size()))) {
            answer("flood FAILED %s after=%llu: %s", key.c_str(),
                   static_cast<unsigned long long>(i), std::strerror(errno));
            return;
        }
    }
    answer("flood ok %s count=%llu ms=%llu", key.c_str(), static_cast<unsigned long long>(count),
           static_cast<unsigned long long>(now_ms() - start_ms));
}

// ---- A trace, sent line by line, then followed.

constexpr const char* kWorkloadKey = "data/workload";
std::string trace_text;

void add_trace_line(std::string_view line) {
    trace_text.append(line).append("\n");
}

void follow_trace() {
    const auto trace = xenpack::sim::parse_trace(trace_text, "");
    trace_text.clear();
    if (!trace || store() == nullptr) {
        answer("follow FAILED: %s", trace ? std::strerror(errno) : trace.error().what.c_str());
        return;
    }
    xenpack::lab::FollowConfig config;
    config.publish = [](const std::string& text) {
        (void)xs_write(store(), XBT_NULL, kWorkloadKey, text.data(),
                       static_cast<unsigned>(text.size()));
    };
    const auto followed = xenpack::lab::follow(*trace, config);
    if (!followed) {
        answer("follow FAILED: %s", followed.error().what.c_str());
        return;
    }
    answer("follow ok ms=%llu stall_us=%llu touch_kib_per_s=%llu disk_kib_per_s=%llu",
           static_cast<unsigned long long>(followed->wall_ms),
           static_cast<unsigned long long>(followed->stall_us),
           static_cast<unsigned long long>(followed->touch_kib_per_s),
           static_cast<unsigned long long>(followed->disk_kib_per_s));
}

// ---- Reports as xenpack-guest would write them, for measuring what they cause.

std::uint64_t meminfo_kib(const char* name) {
    return parse_number(field(read_file("/proc/meminfo"), name)).value_or(0);
}

// A report that says `used_kib` of what the zone has.
std::string report(std::uint64_t sequence, std::uint64_t used_kib) {
    const std::uint64_t total_kib = meminfo_kib("MemTotal:");
    std::array<char, 200> text{};
    std::snprintf(text.data(), text.size(), "1 why=change n=%llu up=%llu hb=600 tot=%llu av=%llu",
                  static_cast<unsigned long long>(sequence),
                  static_cast<unsigned long long>(now_ms()),
                  static_cast<unsigned long long>(total_kib),
                  static_cast<unsigned long long>(total_kib - std::min(total_kib, used_kib)));
    return text.data();
}

bool write_report(const std::string& key, const std::string& text) {
    return store() != nullptr && xs_write(store(), XBT_NULL, key.c_str(), text.data(),
                                          static_cast<unsigned>(text.size()));
}

// A watch on memory/target, spoken to the kernel's xenbus device in the wire protocol itself:
// libxenstore would start a thread for it, with a stack too small for a static program.
class TargetWatch {
  public:
    TargetWatch() : fd_(open("/dev/xen/xenbus", O_RDWR | O_CLOEXEC)) {
        constexpr std::string_view kBody("memory/target\0react\0", 20);
        const xsd_sockmsg header{XS_WATCH, 0, 0, static_cast<std::uint32_t>(kBody.size())};
        std::string message(reinterpret_cast<const char*>(&header), sizeof header);
        message += kBody;
        good_ = fd_ >= 0 &&
                write(fd_, message.data(), message.size()) == static_cast<ssize_t>(message.size());
    }
    ~TargetWatch() { close(fd_); }
    TargetWatch(const TargetWatch&) = delete;
    TargetWatch& operator=(const TargetWatch&) = delete;

    [[nodiscard]] bool good() const { return good_; }
    [[nodiscard]] const timespec& told() const { return told_; }

    // The target once it is another than `before`; "" when none comes in `timeout_ms`. told() is
    // then when the guest was told of it.
    std::string await(const std::string& before, int timeout_ms) {
        pollfd ready{fd_, POLLIN, 0};
        while (poll(&ready, 1, timeout_ms) > 0) {
            if (next_message() != XS_WATCH_EVENT) {
                continue;
            }
            clock_gettime(CLOCK_MONOTONIC, &told_);
            char* value = static_cast<char*>(xs_read(store(), XBT_NULL, "memory/target", nullptr));
            const std::string now = value == nullptr ? "" : value;
            std::free(value);
            if (!now.empty() && now != before) {
                return now;
            }
        }
        return "";
    }

  private:
    void take(char* to, std::size_t size) {
        for (std::size_t done = 0; done < size;) {
            const ssize_t r = read(fd_, to + done, size - done);
            if (r <= 0) {
                good_ = false;
                return;
            }
            done += static_cast<std::size_t>(r);
        }
    }
    std::uint32_t next_message() {
        xsd_sockmsg header{};
        std::array<char, XENSTORE_PAYLOAD_MAX> body{};
        take(reinterpret_cast<char*>(&header), sizeof header);
        take(body.data(), std::min<std::size_t>(header.len, body.size()));
        return header.type;
    }

    int fd_;
    bool good_;
    timespec told_{};
};

// Reports each time that hardly any of what it has by then is left, and takes the time to each new
// memory/target. Reports less than 5 s apart would be taken for a rise, and be answered ahead.
void react(const std::string& key, std::uint64_t count) {
    constexpr unsigned kApartS = 6;
    constexpr std::uint64_t kLeftKib = 2 * 1024;
    TargetWatch watch;
    if (store() == nullptr || !watch.good()) {
        answer("react FAILED: %s", std::strerror(errno));
        return;
    }
    std::string target = watch.await("", 1000);
    for (std::uint64_t i = 0; i < count; ++i) {
        sleep(kApartS);
        const std::uint64_t total_kib = meminfo_kib("MemTotal:");
        const std::string text = report(1'000'000 + i, total_kib - std::min(total_kib, kLeftKib));
        timespec begin{};
        clock_gettime(CLOCK_MONOTONIC, &begin);
        const bool ok = write_report(key, text);
        target = ok ? watch.await(target, 10'000) : "";
        if (target.empty()) {
            answer("react FAILED after=%llu", static_cast<unsigned long long>(i));
            return;
        }
        const timespec& end = watch.told();
        const long long us =
            (end.tv_sec - begin.tv_sec) * 1'000'000LL + (end.tv_nsec - begin.tv_nsec) / 1000;
        std::printf("react: us=%lld target=%s\n", us, target.c_str());
        std::fflush(stdout);
    }
    answer("react ok count=%llu", static_cast<unsigned long long>(count));
}

// Reports the same over and over, 15 times a second.
void pulse(const std::string& key, std::uint64_t count) {
    const std::uint64_t used_kib = meminfo_kib("MemTotal:") - meminfo_kib("MemAvailable:");
    for (std::uint64_t i = 0; i < count; ++i) {
        if (!write_report(key, report(2'000'000 + i, used_kib))) {
            answer("pulse FAILED: %s", std::strerror(errno));
            return;
        }
        usleep(1'000'000 / 15);
    }
    answer("pulse ok count=%llu", static_cast<unsigned long long>(count));
}

// ---- Misbehaviour on demand.

void signal_reporter(const char* command, int signal_number) {
    std::string text = read_file(kReporterPidFile);
    while (!text.empty() && text.back() == '\n') {
        text.pop_back();
    }
    const auto pid = parse_number(text);
    if (!pid || *pid == 0) {
        answer("%s FAILED: no reporter runs (%s)", command, kReporterPidFile);
    } else if (kill(static_cast<pid_t>(*pid), signal_number) != 0) {
        answer("%s FAILED: %s", command, std::strerror(errno));
    } else {
        answer("%s ok pid=%llu", command, static_cast<unsigned long long>(*pid));
    }
}

// The thread of Linux's balloon driver, or nothing if this kernel runs none.
std::optional<std::string> balloon_thread() {
    DIR* const proc = opendir("/proc");
    std::optional<std::string> found;
    while (const dirent* entry = proc != nullptr ? readdir(proc) : nullptr) {
        const std::string comm =
            read_file((std::string("/proc/") + entry->d_name + "/comm").c_str());
        if (comm == "xen-balloon\n") {
            found = entry->d_name;
        }
    }
    if (proc != nullptr) {
        closedir(proc);
    }
    return found;
}

// The balloon thread is freezable (cgroup v1's freezer, unlike v2's, takes kernel threads that
// are): frozen it stays where it is, and the guest ignores its target in both directions.
bool enter_freezer() {
    if (access(kFrozen, F_OK) == 0) {
        return true;
    }
    const auto thread = balloon_thread();
    mkdir(kFreezer, 0755);
    return thread && mount("cgroup", kFreezer, "cgroup", 0, "freezer") == 0 &&
           mkdir(kFrozen, 0755) == 0 &&
           write_file((std::string(kFrozen) + "/cgroup.procs").c_str(), *thread);
}

void set_balloon(const char* command, const char* state) {
    const std::string state_file = std::string(kFrozen) + "/freezer.state";
    if (!enter_freezer() || !write_file(state_file.c_str(), state)) {
        answer("%s FAILED: %s", command, std::strerror(errno));
        return;
    }
    answer("%s ok state=%s", command, field(read_file(state_file.c_str()), "").c_str());
}

void leave(int how) {
    answer("leaving");
    tcdrain(STDOUT_FILENO);
    sync();
    reboot(how);
    answer("reboot FAILED: %s", std::strerror(errno));
}

void crash() {
    answer("panicking");
    tcdrain(STDOUT_FILENO);
    write_file("/proc/sysrq-trigger", "c");
    answer("panic FAILED: %s", std::strerror(errno));
}

// ---- The command line.

std::vector<std::string> split(std::string_view line, std::size_t most) {
    std::vector<std::string> words;
    while (!line.empty()) {
        const std::size_t start = line.find_first_not_of(' ');
        if (start == std::string_view::npos) {
            break;
        }
        line.remove_prefix(start);
        const std::size_t end =
            words.size() + 1 == most ? line.size() : std::min(line.find(' '), line.size());
        words.emplace_back(line.substr(0, end));
        line.remove_prefix(end);
    }
    return words;
}

bool run_sized(const std::string& name, const std::vector<std::string>& words) {
    if (words.size() < 2) {
        return false;
    }
    const auto mib = name == "free" && words[1] == "all" ? kMaxMib : parse_number(words[1]);
    const auto rate = words.size() > 2 ? parse_number(words[2]) : 0;
    if (!mib || *mib > kMaxMib || !rate) {
        return false;
    }
    if (name == "alloc") {
        alloc(*mib, *rate);
    } else if (name == "free") {
        release(*mib);
    } else if (name == "cache") {
        cache(*mib);
    } else if (name == "rewrite") {  // so that no other has the same there that was told another
        next_seed += *mib * kPatternsApart;
        rewrite();
    } else {
        return false;
    }
    return true;
}

bool run_store(const std::string& name, const std::vector<std::string>& words) {
    if (name == "store" && words.size() >= 2) {
        store_write(words[1], words.size() > 2 ? words[2] : "");
        return true;
    }
    if (name == "show" && words.size() == 2) {
        show(words[1]);
        return true;
    }
    if (name == "remove" && words.size() == 2) {
        store_remove(words[1]);
        return true;
    }
    if (const auto count = words.size() == 2 ? parse_number(words[1]) : std::nullopt;
        count && name == "fork-itself") {
        fork_itself(*count);
        return true;
    }
    const auto number = words.size() == 3 ? parse_number(words[2]) : std::nullopt;
    if (!number) {
        return false;
    }
    if (name == "flood") {
        flood(words[1], *number);
    } else if (name == "react") {
        react(words[1], *number);
    } else if (name == "pulse") {
        pulse(words[1], *number);
    } else if (name == "store-fill") {
        store_fill(words[1], *number);
    } else {
        return false;
    }
    return true;
}

bool run_disk(const std::string& name, const std::vector<std::string>& words) {
    const auto block = words.size() >= 2 ? parse_number(words[1]) : std::nullopt;
    if (block && name == "disk-write" && words.size() == 3) {
        answer("%s", xenpack::lab::disk_write(*block, words[2]).c_str());
    } else if (block && name == "disk-read" && words.size() == 2) {
        answer("%s", xenpack::lab::disk_read(*block).c_str());
    } else {
        return false;
    }
    return true;
}

bool run_plain(const std::string& name) {
    const struct {
        const char* name;
        void (*run)();
    } commands[] = {
        {"check", check},
        {"rewrite", rewrite},
        {"follow", follow_trace},
        {"stat", print_stat},
        {"ping", [] { answer("pong"); }},
        {"who", [] { answer("%s", xenpack::lab::who().c_str()); }},
        {"stop-reporter", [] { signal_reporter("stop-reporter", SIGSTOP); }},
        {"start-reporter", [] { signal_reporter("start-reporter", SIGCONT); }},
        {"kill-reporter", [] { signal_reporter("kill-reporter", SIGKILL); }},
        {"freeze-balloon", [] { set_balloon("freeze-balloon", "FROZEN"); }},
        {"thaw-balloon", [] { set_balloon("thaw-balloon", "THAWED"); }},
        {"panic", crash},
        {"reboot", [] { leave(RB_AUTOBOOT); }},
        {"poweroff", [] { leave(RB_POWER_OFF); }},
    };
    for (const auto& command : commands) {
        if (name == command.name) {
            command.run();
            return true;
        }
    }
    return false;
}

void run(std::string_view line) {
    if (constexpr std::string_view kTrace = "trace "; line.starts_with(kTrace)) {
        add_trace_line(line.substr(kTrace.size()));
        return;
    }
    const std::vector<std::string> words = split(line, 3);
    if (words.empty()) {
        return;
    }
    if (!run_sized(words[0], words) && !run_plain(words[0]) && !run_store(words[0], words) &&
        !run_disk(words[0], words)) {
        answer("unknown command or argument: %.*s",
               static_cast<int>(std::min<std::size_t>(line.size(), 60)), line.data());
    }
}

void make_terminal_raw() {
    termios settings{};
    if (tcgetattr(STDIN_FILENO, &settings) == 0) {
        cfmakeraw(&settings);
        tcsetattr(STDIN_FILENO, TCSANOW, &settings);
    }
}

}  // namespace

int main() {
    make_terminal_raw();
    answer("ready MiB=0");
    std::string pending;
    char buffer[4096];
    for (ssize_t r; (r = read(STDIN_FILENO, buffer, sizeof buffer)) > 0;) {
        pending.append(buffer, static_cast<std::size_t>(r));
        for (std::size_t end; (end = pending.find_first_of("\r\n")) != std::string::npos;) {
            const std::string line = pending.substr(0, end);
            pending.erase(0, end + 1);
            run(line);
        }
    }
    return 0;
}
