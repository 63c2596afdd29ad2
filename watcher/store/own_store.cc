// SPDX-License-Identifier: LGPL-2.1-or-later
// C's results into Expected, C's callbacks into Changed. Called like any Store; it keeps nothing of
// what the store holds.
#include "watcher/store/own_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace xenpack {
namespace {

constexpr std::size_t kUsualValueBytes = 512;
// Far above what a store holds in one node (xenstored's limit is 4 KiB): beyond it the plugin errs.
constexpr std::size_t kMostValueBytes = std::size_t{1} << 20;

class OwnWatch final : public Store::Watch {
  public:
    OwnWatch(const xenpack_own_store& ops, void* store, Store::Changed changed)
        : ops_(ops),
          store_(store),
          changed_(std::make_shared<const Store::Changed>(std::move(changed))) {}
    ~OwnWatch() override {
        if (handle_ != nullptr) {
            ops_.unwatch(store_, handle_);
        }
    }
    OwnWatch(const OwnWatch&) = delete;
    OwnWatch& operator=(const OwnWatch&) = delete;

    [[nodiscard]] int begin(const std::string& path) {
        return ops_.watch(store_, path.c_str(), &OwnWatch::fired, this, &handle_);
    }

  private:
    // The callback may destroy this watch, and must not be destroyed itself while it runs.
    static void fired(void* self) {
        const std::shared_ptr<const Store::Changed> changed =
            static_cast<OwnWatch*>(self)->changed_;
        (*changed)();
    }

    const xenpack_own_store& ops_;
    void* store_;
    std::shared_ptr<const Store::Changed> changed_;
    void* handle_ = nullptr;
};

class OwnStore final : public Store {
  public:
    OwnStore(const xenpack_own_store& ops, void* store, std::function<void(void*)> close)
        : ops_(ops), store_(store), close_(std::move(close)) {}
    ~OwnStore() override { close_(store_); }
    OwnStore(const OwnStore&) = delete;
    OwnStore& operator=(const OwnStore&) = delete;

    Expected<std::optional<std::string>> read(const std::string& path) override {
        std::string value(kUsualValueBytes, '\0');
        int r = -ENOBUFS;
        for (;;) {
            r = ops_.ops.read(store_, path.c_str(), value.data(), value.size());
            if (r != -ENOBUFS || value.size() >= kMostValueBytes) {
                break;
            }
            value.resize(value.size() * 4);
        }
        if (r == -ENOENT) {
            return std::nullopt;
        }
        if (r < 0) {
            return broken(r, "reading", path);
        }
        value.resize(static_cast<std::size_t>(r));
        return value;
    }

    Expected<void> write_guarded(
        const std::string& guard_path, const std::string& guard_value,
        const std::vector<std::pair<std::string, std::string>>& writes) override {
        std::vector<xenpack_store_write> list;
        list.reserve(writes.size());
        for (const auto& [path, value] : writes) {
            list.push_back({path.c_str(), value.c_str()});
        }
        const int r = ops_.ops.write_guarded(store_, guard_path.c_str(), guard_value.c_str(),
                                             list.data(), list.size());
        if (r == -ESRCH) {
            return fail_with(ESRCH, "the plugin's store: {} is no longer {}", guard_path,
                             guard_value);
        }
        if (r < 0) {
            return broken(r, "writing, guarded by", guard_path);
        }
        return {};
    }

    Expected<void> make(const std::vector<Node>& nodes) override {
        std::vector<xenpack_store_node> list;
        list.reserve(nodes.size());
        for (const Node& node : nodes) {
            list.push_back({node.path.c_str(), node.value.c_str(), node.access, node.domid});
        }
        const int r = ops_.ops.make(store_, list.data(), list.size());
        if (r < 0) {
            return broken(r, "making", nodes.front().path);
        }
        return {};
    }

    Expected<void> remove(const std::string& path) override {
        if (const int r = ops_.ops.remove(store_, path.c_str()); r < 0) {
            return broken(r, "removing", path);
        }
        return {};
    }

    Expected<std::vector<std::string>> list(const std::string& path) override {
        std::string names;
        int r = 0;
        do {
            names.resize(static_cast<std::size_t>(r));
            r = ops_.list(store_, path.c_str(), names.data(), names.size());
        } while (r > static_cast<int>(names.size()));
        if (r < 0 && r != -ENOENT) {
            return broken(r, "listing", path);
        }
        names.resize(static_cast<std::size_t>(std::max(r, 0)));
        std::vector<std::string> list;
        for (std::size_t at = 0; at < names.size(); at += list.back().size() + 1) {
            list.emplace_back(names.c_str() + at);
        }
        return list;
    }

    Expected<void> introduce(std::uint32_t domid, std::uint64_t gfn, std::uint32_t port) override {
        if (const int r = ops_.ops.introduce(store_, domid, gfn, port); r < 0) {
            return broken(r, "introducing", domain_path(domid, ""));
        }
        return {};
    }

    Expected<WatchHandle> watch(const std::string& path, Changed changed) override {
        auto watch = std::make_unique<OwnWatch>(ops_, store_, std::move(changed));
        if (const int r = watch->begin(path); r < 0) {
            return broken(r, "watching", path);
        }
        return watch;
    }

    [[nodiscard]] ForPlugin for_plugin() override { return {&ops_.ops, store_}; }

  private:
    static tl::unexpected<Error> broken(int r, std::string_view doing, const std::string& path) {
        return fail_with(-r, "the plugin's store: {} {}: {}", doing, path, std::strerror(-r));
    }

    const xenpack_own_store& ops_;
    void* store_;
    std::function<void(void*)> close_;
};

}  // namespace

std::unique_ptr<Store> make_own_store(const xenpack_own_store& ops, void* store,
                                      std::function<void(void*)> close) {
    return std::make_unique<OwnStore>(ops, store, std::move(close));
}

}  // namespace xenpack
