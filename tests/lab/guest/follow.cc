// SPDX-License-Identifier: LGPL-2.1-or-later
// A tick of the trace after the other: what it asks for is touched or read until the tick is over,
// and what was not done then is left to the next. Called by zone-workload.
#include "tests/lab/guest/follow.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

namespace xenpack::lab {
namespace {

constexpr std::uint64_t kPageKib = 4;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kWordsPerPage = kPageBytes / sizeof(std::uint64_t);
constexpr std::int64_t kTickUs = 100'000;
constexpr std::int64_t kPublishUs = 250'000;
// So much is touched or read between two looks at the clock.
constexpr std::uint64_t kChunkKib = 64;
constexpr std::uint64_t kChunkPages = kChunkKib / kPageKib;
// A tick that did less does not tell how quick it could be.
constexpr std::uint64_t kTellingKib = 1024;
// The stream is read behind any file set.
constexpr std::uint64_t kStreamFromKib = 1024 * 1024;
constexpr std::uint64_t kStreamKib = 4096 * 1024;

std::int64_t now_us() {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return std::int64_t{t.tv_sec} * 1'000'000 + t.tv_nsec / 1000;
}

void sleep_until(std::int64_t at_us) {
    const timespec due{static_cast<time_t>(at_us / 1'000'000),
                       static_cast<long>(at_us % 1'000'000) * 1000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr) == EINTR) {
    }
}

class File {
  public:
    explicit File(const char* path) : fd_(open(path, O_RDONLY | O_CLOEXEC)) {}
    ~File() { close(fd_); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    [[nodiscard]] bool good() const { return fd_ >= 0; }
    [[nodiscard]] int fd() const { return fd_; }

  private:
    int fd_;
};

std::string text_of(const char* path) {
    std::string text;
    const File file(path);
    char buffer[8192];
    for (ssize_t r = 0; file.good() && (r = read(file.fd(), buffer, sizeof buffer)) > 0;) {
        text.append(buffer, static_cast<std::size_t>(r));
    }
    return text;
}

// The number that follows `key` where that is first found; 0 where it is not.
std::uint64_t number_after(const std::string& text, std::string_view key) {
    const std::size_t at = text.find(key);
    return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + key.size(), nullptr, 10);
}

// The middle of some rates.
class Rates {
  public:
    void add(std::uint64_t kib, std::int64_t us) {
        if (kib >= kTellingKib && us > 0) {
            rates_.push_back(kib * 1'000'000 / static_cast<std::uint64_t>(us));
        }
    }
    [[nodiscard]] std::uint64_t middle() {
        if (rates_.empty()) {
            return 0;
        }
        const auto half = rates_.begin() + static_cast<std::ptrdiff_t>(rates_.size() / 2);
        std::nth_element(rates_.begin(), half, rates_.end());
        return *half;
    }

  private:
    std::vector<std::uint64_t> rates_;
};

// Anonymous memory: a range of addresses of which the first so many pages are in use. A page in use
// holds its own number in its first word.
class Anon {
  public:
    explicit Anon(std::uint64_t most_kib) : bytes_(most_kib * 1024 + kPageBytes) {
        void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        words_ = at == MAP_FAILED ? nullptr : static_cast<std::uint64_t*>(at);
        if (good()) {
            madvise(at, bytes_, MADV_NOHUGEPAGE);  // so that what is given back is free at once
        }
    }
    ~Anon() {
        if (good()) {
            munmap(words_, bytes_);
        }
    }
    Anon(const Anon&) = delete;
    Anon& operator=(const Anon&) = delete;

    [[nodiscard]] bool good() const { return words_ != nullptr; }
    [[nodiscard]] std::uint64_t pages() const { return pages_; }

    void shrink(std::uint64_t pages) {
        if (pages < pages_) {
            madvise(page(pages), (pages_ - pages) * kPageBytes, MADV_DONTNEED);
            pages_ = pages;
        }
    }
    // Touches new pages until there are so many or it is `due_us`; returns how many.
    std::uint64_t grow(std::uint64_t pages, std::int64_t due_us) {
        const std::uint64_t before = pages_;
        while (pages_ < pages && now_us() < due_us) {
            const std::uint64_t end = std::min(pages, pages_ + kChunkPages);
            for (; pages_ < end; ++pages_) {
                *page(pages_) = pages_;
            }
        }
        return pages_ - before;
    }
    // Reads and rewrites the next so many of the first `active` pages. False: one was wrong.
    bool walk(std::uint64_t active, std::uint64_t count, std::int64_t due_us) {
        active = std::min(active, pages_);
        for (std::uint64_t i = 0; i < count && active > 0; ++i, ++hand_) {
            hand_ = hand_ < active ? hand_ : 0;
            volatile std::uint64_t* const word = page(hand_);
            if (*word != hand_) {
                return false;
            }
            *word = hand_;
            if (i % kChunkPages == 0 && now_us() >= due_us) {
                break;
            }
        }
        return true;
    }

  private:
    [[nodiscard]] std::uint64_t* page(std::uint64_t number) const {
        return words_ + number * kWordsPerPage;
    }

    std::size_t bytes_;
    std::uint64_t* words_ = nullptr;
    std::uint64_t pages_ = 0;
    std::uint64_t hand_ = 0;
};

// The file set and the stream, both on one disk, whose pages are in the page cache.
class Files {
  public:
    explicit Files(const char* path) : file_(path), buffer_(kChunkKib * 1024) {
        // Only what is asked for: the kernel's guesses would be cache that the trace has not.
        posix_fadvise(file_.fd(), 0, 0, POSIX_FADV_RANDOM);
    }
    [[nodiscard]] bool good() const { return file_.good(); }
    [[nodiscard]] std::uint64_t read_kib() const { return read_kib_; }

    // Reads what of a set of this size was never read; returns how much. False in `ok`: errno says.
    std::uint64_t grow(std::uint64_t size_kib, std::int64_t due_us, bool& ok) {
        const std::uint64_t before = read_kib_;
        while (ok && read_kib_ + kChunkKib <= size_kib && now_us() < due_us) {
            ok = read_at(read_kib_, kChunkKib);
            read_kib_ += ok ? kChunkKib : 0;
        }
        return read_kib_ - before;
    }
    // Reads pages anywhere in the part of the set that was read once.
    void read_again(std::uint64_t size_kib, std::uint64_t kib, std::int64_t due_us, bool& ok) {
        const std::uint64_t pages = std::min(size_kib, read_kib_) / kPageKib;
        for (std::uint64_t done = 0; ok && pages > 0 && done < kib; done += kPageKib) {
            ok = read_at(random_() % pages * kPageKib, kPageKib);
            if (now_us() >= due_us) {
                return;
            }
        }
    }
    void stream(std::uint64_t kib, std::int64_t due_us, bool& ok) {
        for (std::uint64_t done = 0; ok && done < kib && now_us() < due_us; done += kChunkKib) {
            ok = read_at(kStreamFromKib + stream_kib_ % kStreamKib, kChunkKib);
            stream_kib_ += kChunkKib;
        }
    }

  private:
    bool read_at(std::uint64_t at_kib, std::uint64_t kib) {
        const ssize_t r =
            pread(file_.fd(), buffer_.data(), kib * 1024, static_cast<off_t>(at_kib * 1024));
        errno = r >= 0 && r < static_cast<ssize_t>(kib * 1024) ? ENOSPC : errno;
        return r == static_cast<ssize_t>(kib * 1024);
    }

    File file_;
    std::vector<char> buffer_;
    std::uint64_t read_kib_ = 0;
    std::uint64_t stream_kib_ = 0;
    std::minstd_rand random_;
};

bool reads_files(const sim::Trace& trace) {
    return std::any_of(trace.rows.begin(), trace.rows.end(), [](const sim::TraceRow& row) {
        return row.demand.cache_kib > 0 || row.demand.stream_kib_per_s > 0;
    });
}

std::uint64_t peak_anon_kib(const sim::Trace& trace) {
    std::uint64_t peak = 0;
    for (const sim::TraceRow& row : trace.rows) {
        peak = std::max(peak, row.demand.anon_kib);
    }
    return peak;
}

class Follower {
  public:
    Follower(const sim::Trace& trace, const FollowConfig& config)
        : trace_(trace), config_(config), anon_(peak_anon_kib(trace)) {
        if (reads_files(trace)) {
            files_ = std::make_unique<Files>(config.disk);
        }
    }

    Expected<Followed> run() {
        if (!anon_.good() || (files_ && !files_->good())) {
            return fail("{}: {}", anon_.good() ? config_.disk : "mapping the peak",
                        std::strerror(errno));
        }
        begin_us_ = now_us();
        stall_before_us_ = total_stall_us();
        while (place_ms() <= trace_.length_ms()) {
            const std::int64_t due_us = next_tick();
            if (const auto done = tick(due_us); !done) {
                return tl::unexpected<Error>(done.error());
            }
            sleep_until(due_us);
            stall_us_ = total_stall_us() - stall_before_us_;
            publish();
        }
        return Followed{static_cast<std::uint64_t>(now_us() - begin_us_) / 1000, stall_us_,
                        touching_.middle(), reading_.middle()};
    }

  private:
    [[nodiscard]] std::uint64_t total_stall_us() const {
        return number_after(text_of(config_.pressure), "total=");
    }
    [[nodiscard]] std::int64_t place_ms() const {
        return (now_us() - begin_us_ - static_cast<std::int64_t>(stall_us_)) / 1000;
    }
    // When the tick that begins now is over: one that was overrun is not made up for.
    [[nodiscard]] std::int64_t next_tick() const {
        return now_us() + kTickUs - (now_us() - begin_us_) % kTickUs;
    }

    Expected<void> tick(std::int64_t due_us) {
        const sim::Demand demand = trace_.at(place_ms() + kTickUs / 1000, row_);
        anon_.shrink(demand.anon_kib / kPageKib);
        if (!anon_.walk(demand.active_kib / kPageKib, demand.active_kib / kPageKib / 10, due_us)) {
            return fail("a page does not hold what was written to it");
        }
        const std::int64_t start_us = now_us();
        const std::uint64_t touched = anon_.grow(demand.anon_kib / kPageKib, due_us);
        note_rate(touching_, touched * kPageKib, start_us);
        if (files_ && !read_files(demand, due_us)) {
            return fail("{}: reading: {}", config_.disk, std::strerror(errno));
        }
        return {};
    }

    bool read_files(const sim::Demand& demand, std::int64_t due_us) {
        bool ok = true;
        const std::int64_t start_us = now_us();
        note_rate(reading_, files_->grow(demand.cache_kib, due_us, ok), start_us);
        files_->read_again(demand.cache_kib, demand.read_kib_per_s / 10, due_us, ok);
        files_->stream(demand.stream_kib_per_s / 10, due_us, ok);
        return ok;
    }

    // What stalled does not tell how quick the machine is.
    void note_rate(Rates& rates, std::uint64_t kib, std::int64_t start_us) {
        const std::uint64_t stall_us = total_stall_us() - stall_before_us_;
        if (kib >= kTellingKib && stall_us == stall_us_) {
            rates.add(kib, now_us() - start_us);
        }
    }

    void publish() {
        if (now_us() < publish_at_us_) {
            return;
        }
        publish_at_us_ = now_us() + kPublishUs - kTickUs / 2;
        const std::string meminfo = text_of("/proc/meminfo");
        const std::string vmstat = text_of("/proc/vmstat");
        config_.publish(fmt::format(
            "ms={} anon={} file={} stall_us={} total={} free={} available={} refaults={} kills={} "
            "held={} high={}",
            place_ms(), anon_.pages() * kPageKib, files_ ? files_->read_kib() : 0, stall_us_,
            number_after(meminfo, "MemTotal:"), number_after(meminfo, "MemFree:"),
            number_after(meminfo, "MemAvailable:"), number_after(vmstat, "workingset_refault_file"),
            number_after(vmstat, "oom_kill "), number_after(text_of(config_.group_held), "") / 1024,
            number_after(text_of(config_.group_high), "") / 1024));
    }

    const sim::Trace& trace_;
    const FollowConfig& config_;
    Anon anon_;
    std::unique_ptr<Files> files_;
    std::size_t row_ = 0;
    std::int64_t begin_us_ = 0;
    std::int64_t publish_at_us_ = 0;
    std::uint64_t stall_before_us_ = 0;
    std::uint64_t stall_us_ = 0;
    Rates touching_;
    Rates reading_;
};

}  // namespace

Expected<Followed> follow(const sim::Trace& trace, const FollowConfig& config) {
    return Follower(trace, config).run();
}

}  // namespace xenpack::lab
