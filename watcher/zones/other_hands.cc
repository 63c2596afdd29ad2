// SPDX-License-Identifier: LGPL-2.1-or-later
// Counting, and looking through /proc by the names of programs.
#include "watcher/zones/other_hands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace xenpack {
namespace {

// As their projects name them; the kernel keeps 15 letters of a process's name.
constexpr std::array<std::string_view, 12> kBalancers{
    "qmemman",  "qubesd", "squeezed",    "xenopsd",  "xenopsd-xc", "xend",
    "libvirtd", "momd",   "xenballoond", "pvestatd", "kratad",     "xenpackd"};

struct Process {
    int pid = 0;
    std::string name;
    std::vector<std::string> arguments;
};

std::string contents(const std::filesystem::path& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::istringstream rest(text);
    for (std::string part; std::getline(rest, part, separator);) {
        parts.push_back(part);
    }
    return parts;
}

// Processes come and go meanwhile: what cannot be read is none.
std::vector<Process> processes(const std::string& proc) {
    std::vector<Process> list;
    std::error_code error;
    for (auto it = std::filesystem::directory_iterator(proc, error);
         !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
        const std::string name = it->path().filename();
        Process process;
        const auto parsed = std::from_chars(name.data(), name.data() + name.size(), process.pid);
        if (parsed.ec != std::errc() || parsed.ptr != name.data() + name.size()) {
            continue;
        }
        process.name = contents(it->path() / "comm");
        process.name.erase(std::ranges::find(process.name, '\n'), process.name.end());
        process.arguments = split(contents(it->path() / "cmdline"), '\0');
        list.push_back(std::move(process));
    }
    std::ranges::sort(list, {}, &Process::pid);
    return list;
}

}  // namespace

OtherHands::Verdict OtherHands::note(std::int64_t now_ms) {
    const bool alone = changes_.empty() || now_ms - changes_.back() >= kBalancerWithinMs;
    changes_.push_back(now_ms);
    while (changes_.size() > kBalancerChanges) {
        changes_.pop_front();
    }
    const bool many =
        changes_.size() == kBalancerChanges && now_ms - changes_.front() < kBalancerWithinMs;
    if (many) {
        const bool known = balancer(now_ms);
        balancer_ms_ = now_ms;
        return known ? Verdict::nothing : Verdict::balancer;
    }
    return alone && !balancer(now_ms) ? Verdict::person : Verdict::nothing;
}

std::string known_balancers(const std::string& proc) {
    std::string names;
    for (const Process& process : processes(proc)) {
        if (process.pid != getpid() &&
            std::ranges::find(kBalancers, process.name) != kBalancers.end()) {
            names += fmt::format("{}{} (process {})", names.empty() ? "" : ", ", process.name,
                                 process.pid);
        }
    }
    return names;
}

bool xl_is_starting(const std::string& proc) {
    static constexpr std::array<std::string_view, 4> kStarting{"create", "restore",
                                                               "migrate-receive", "migrate"};
    return std::ranges::any_of(processes(proc), [](const Process& process) {
        return process.name == "xl" && std::ranges::any_of(process.arguments, [](const auto& word) {
                   return std::ranges::find(kStarting, word) != kStarting.end();
               });
    });
}

}  // namespace xenpack
