// SPDX-License-Identifier: LGPL-2.1-or-later
// The nodes, the watches, and the queue of calls that are due; at the end the C table. Called on
// the loop's thread only. No exception leaves the table.
#include "plugin/sim/store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>
#include <set>

namespace xenpack::sim {

namespace {

// Calls in one round, so that a flood of writes leaves the loop room for everything else.
constexpr std::size_t kCallsPerRound = 128;

bool is_path(std::string_view path) {
    const auto allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '/' || c == '_' || c == '@';
    };
    return path.size() <= kMostPathBytes && path.starts_with('/') &&
           (path.size() == 1 || !path.ends_with('/')) &&
           path.find("//") == std::string_view::npos && std::ranges::all_of(path, allowed);
}

bool is_special(std::string_view path) {
    return path == "@introduceDomain" || path == "@releaseDomain";
}

// "/a/b" of "/a/b/c", "/" of "/a"; empty above "/".
std::string_view parent_of(std::string_view path) {
    if (path.size() <= 1) {
        return {};
    }
    return path.substr(0, std::max<std::size_t>(1, path.rfind('/')));
}

// Where what is below a path (not "/") begins in an ordered map, and where it ends: '0' follows
// '/'.
std::string below(std::string_view path) {
    return std::string(path) + "/";
}
std::string beyond(std::string_view path) {
    return std::string(path) + "0";
}

}  // namespace

struct Store::Watch {
    std::string path;
    void (*changed)(void*);
    void* arg;
    unsigned due = 0;
};

Store::Store(const xenpack_loop_ops& loop_ops, void* loop) : loop_ops_(loop_ops), loop_(loop) {}

Store::~Store() {
    if (timeout_ != nullptr) {
        loop_ops_.timeout_deregister(loop_, timeout_);
    }
}

// ---- nodes --------------------------------------------------------------------------------------

const std::string* Store::read(std::string_view path) const {
    const auto found = nodes_.find(path);
    return found == nodes_.end() ? nullptr : &found->second;
}

std::vector<std::string> Store::list(std::string_view path) const {
    std::set<std::string> names;  // "7-0" is between "7" and "7/0"
    const std::string prefix = path == "/" ? "/" : below(path);
    auto at = nodes_.lower_bound(prefix);
    while (at != nodes_.end() && at->first.starts_with(prefix)) {
        const std::size_t end = at->first.find('/', prefix.size());
        const std::string name = at->first.substr(prefix.size(), end - prefix.size());
        if (!name.empty()) {
            names.insert(name);
        }
        at = end == std::string::npos ? std::next(at) : nodes_.lower_bound(beyond(prefix + name));
    }
    return {names.begin(), names.end()};
}

int Store::check(const Writes& writes) const {
    for (const auto& [path, value] : writes) {
        if (!is_path(path)) {
            return -EINVAL;
        }
        if (value.size() > kMostValueBytes) {
            return -E2BIG;
        }
    }
    return 0;
}

// The node, and those of its parents that do not exist.
void Store::stage(std::string_view path, std::string value, Nodes& staged) const {
    staged.insert_or_assign(std::string(path), std::move(value));
    for (std::string_view above = parent_of(path);
         !above.empty() && !nodes_.contains(above) && !staged.contains(above);
         above = parent_of(above)) {
        staged.emplace(above, "");
    }
}

// Everything that may fail comes before the first change.
int Store::write(const Writes& writes) {
    if (const int r = check(writes); r != 0) {
        return r;
    }
    Nodes staged;
    std::vector<Watch*> found;
    for (const auto& [path, value] : writes) {
        stage(path, value, staged);
        find_watches_above(path, found);
    }
    if (nodes_.size() + staged.size() > kMostNodes) {
        return -ENOSPC;
    }
    tell(found);
    if (const int r = arm(); r != 0) {
        return r;
    }
    nodes_.merge(staged);
    for (auto& [path, value] : staged) {
        nodes_.find(path)->second.swap(value);
    }
    return 0;
}

int Store::write_guarded(std::string_view guard_path, std::string_view guard_value,
                         const Writes& writes) {
    const std::string* guard = read(guard_path);
    return guard != nullptr && *guard == guard_value ? write(writes) : -ESRCH;
}

void Store::remove(std::string_view path) {
    const auto node = nodes_.find(path);
    if (node == nodes_.end() || path == "/") {
        return;
    }
    std::vector<Watch*> found;
    find_watches_above(path, found);
    const auto first = nodes_.lower_bound(below(path));
    const auto last = nodes_.lower_bound(beyond(path));
    const auto watched_last = watches_.lower_bound(beyond(path));
    for (auto at = watches_.lower_bound(below(path)); at != watched_last; ++at) {
        if (nodes_.contains(at->first)) {
            for (const auto& watch : at->second) {
                found.push_back(watch.get());
            }
        }
    }
    nodes_.erase(first, last);
    nodes_.erase(node);
    tell(found);
    (void)arm();  // else with the next change
}

void Store::announce(std::string_view special) {
    const auto at = watches_.find(special);
    if (at == watches_.end()) {
        return;
    }
    std::vector<Watch*> found;
    for (const auto& watch : at->second) {
        found.push_back(watch.get());
    }
    tell(found);
    (void)arm();
}

// ---- watches ------------------------------------------------------------------------------------

// Those at the path and above it.
void Store::find_watches_above(std::string_view path, std::vector<Watch*>& found) const {
    for (; !path.empty(); path = parent_of(path)) {
        if (const auto at = watches_.find(path); at != watches_.end()) {
            for (const auto& watch : at->second) {
                found.push_back(watch.get());
            }
        }
    }
}

void Store::tell(std::span<Watch* const> watches) {
    for (Watch* watch : watches) {
        if (watch->due < kMostDue) {
            queue_.push_back(watch);
            ++watch->due;
        }
    }
}

Store::Watch* Store::watch(std::string_view path, void (*changed)(void*), void* arg, int* error_r) {
    if (!is_path(path) && !is_special(path)) {
        *error_r = -EINVAL;
        return nullptr;
    }
    auto owned = std::make_unique<Watch>(Watch{std::string(path), changed, arg});
    Watch* const watch = owned.get();
    watches_[watch->path].push_back(std::move(owned));
    try {
        tell({&watch, 1});
        if (const int r = arm(); r == 0) {
            return watch;
        }
    } catch (const std::bad_alloc&) {  // as where the loop has none
    }
    unwatch(watch);
    *error_r = -ENOMEM;
    return nullptr;
}

void Store::unwatch(Watch* watch) noexcept {
    if (watch->due > 0) {
        std::erase(queue_, watch);
    }
    const auto at = watches_.find(watch->path);
    std::erase_if(at->second, [watch](const auto& each) { return each.get() == watch; });
    if (at->second.empty()) {
        watches_.erase(at);
    }
}

int Store::arm() noexcept {
    if (timeout_ != nullptr || queue_.empty()) {
        return 0;
    }
    return loop_ops_.timeout_register(
        loop_, 0, [](void* self) { static_cast<Store*>(self)->deliver(); }, this, &timeout_);
}

// A callback may end this watch and any other, which takes their calls out of the queue.
void Store::deliver() noexcept {
    timeout_ = nullptr;
    const std::size_t calls = std::min(queue_.size(), kCallsPerRound);
    for (std::size_t i = 0; i < calls && !queue_.empty(); ++i) {
        Watch* const watch = queue_.front();
        queue_.pop_front();
        --watch->due;
        watch->changed(watch->arg);
    }
    (void)arm();
}

// ---- the table ----------------------------------------------------------------------------------

namespace {

Store& inside(void* store) {
    return *static_cast<Store*>(store);
}

int table_write_guarded(void* store, const char* guard_path, const char* guard_value,
                        const xenpack_store_write* writes, std::size_t n) noexcept try {
    Store::Writes list;
    list.reserve(n);
    for (const xenpack_store_write& each : std::span(writes, n)) {
        list.emplace_back(each.path, each.value);
    }
    return inside(store).write_guarded(guard_path, guard_value, list);
} catch (const std::bad_alloc&) {
    return -ENOMEM;
}

int table_read(void* store, const char* path, char* buf, std::size_t size) noexcept {
    const std::string* value = inside(store).read(path);
    if (value == nullptr) {
        return -ENOENT;
    }
    if (value->size() >= size) {
        return -ENOBUFS;
    }
    std::memcpy(buf, value->c_str(), value->size() + 1);
    return static_cast<int>(value->size());
}

int table_list(void* store, const char* path, char* names, std::size_t size) noexcept try {
    if (inside(store).read(path) == nullptr) {
        return -ENOENT;
    }
    std::size_t all = 0;
    for (const std::string& name : inside(store).list(path)) {
        if (all + name.size() + 1 <= size) {
            std::memcpy(names + all, name.c_str(), name.size() + 1);
        }
        all += name.size() + 1;
    }
    return static_cast<int>(all);
} catch (const std::bad_alloc&) {
    return -ENOMEM;
}

// Who may do what with a node is not simulated.
int table_make(void* store, const xenpack_store_node* nodes, std::size_t n) noexcept try {
    Store::Writes list;
    list.reserve(n);
    for (const xenpack_store_node& each : std::span(nodes, n)) {
        list.emplace_back(each.path, each.value);
    }
    return inside(store).write(list);
} catch (const std::bad_alloc&) {
    return -ENOMEM;
}

int table_remove(void* store, const char* path) noexcept try {
    inside(store).remove(path);
    return 0;
} catch (const std::bad_alloc&) {
    return -ENOMEM;
}

int table_introduce(void* store, std::uint32_t, std::uint64_t, std::uint32_t) noexcept try {
    inside(store).announce("@introduceDomain");
    return 0;
} catch (const std::bad_alloc&) {
    return -ENOMEM;
}

int table_watch(void* store, const char* path, void (*changed)(void*), void* arg,
                void** handle_r) noexcept try {
    int error = 0;
    *handle_r = inside(store).watch(path, changed, arg, &error);
    return error;
} catch (const std::bad_alloc&) {
    return -ENOMEM;
}

void table_unwatch(void* store, void* handle) noexcept {
    inside(store).unwatch(static_cast<Store::Watch*>(handle));
}

}  // namespace

const xenpack_own_store& own_store_ops() {
    static constexpr xenpack_own_store kOps{
        {table_write_guarded, table_read, table_make, table_remove, table_introduce},
        table_watch,
        table_unwatch,
        table_list};
    return kOps;
}

}  // namespace xenpack::sim
