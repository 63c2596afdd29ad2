// SPDX-License-Identifier: LGPL-2.1-or-later
// Zones: which domains there are and what is known of each, kept true by watches. xenpackd owns
// one. It learns and records; it must not decide or change a domain.
//
// A handler re-reads what its watch points to, records it, and says "changed"; the decision comes
// after it has returned.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "watcher/store/store.h"
#include "watcher/zones/zone.h"

namespace xenpack {

class Loop;

// Reports listened to from one zone: so many at once, and so many a second in the long run. A zone
// over that is not listened to for a while, which doubles each time it goes on.
inline constexpr double kReportBurst = 40;
inline constexpr double kReportsPerS = 20;
inline constexpr std::int64_t kFloodPenaltyMs = 2'000;
inline constexpr std::int64_t kFloodPenaltyMaxMs = 60'000;

class Zones {
  public:
    class Mediator {
      public:
        virtual ~Mediator() = default;
        // Something about a zone is new: look and decide, soon.
        virtual void zones_changed() = 0;
        // For the journal: a zone appeared, went, or has or has lost a fault. A sentence.
        virtual void zone_found(const Zone& zone) = 0;
        virtual void zone_gone(Zone& zone) = 0;
        virtual void zone_fault(Zone& zone, const std::string& sentence) = 0;
        // memory/target is not what it was, and not by us: the watcher records what it sets. Also
        // for dom0.
        virtual void target_was_changed(Zone& zone, std::uint64_t from_kib,
                                        std::uint64_t to_kib) = 0;
        [[nodiscard]] virtual ZoneConfig config_for(const std::string& name) = 0;
    };

    Zones(Loop& loop, Store& store, Toolstack& toolstack, Mediator& mediator);
    ~Zones();

    // Has the store tell when domains come and go; until then only looking does.
    [[nodiscard]] Expected<void> listen();

    // Takes over a fresh list of all domains: new ones are watched, gone ones forgotten.
    void sync(const std::vector<xenpack_domain>& domains);
    // Reads a domain's name and family at once: who has just changed them need not wait to be told.
    void read_again(const ZoneKey& key);
    // Reads names' configuration again and decides anew which domains are managed.
    void reconfigure();

    // All domains but dom0, managed or not, by domid. Valid until the next sync().
    [[nodiscard]] std::vector<Zone*> all();
    [[nodiscard]] Zone* find(const ZoneKey& key);
    // By name, else by domid. Null where there is none; an error where a name is not unique.
    [[nodiscard]] Expected<Zone*> find(const std::string& name_or_domid);

    // Never managed. Empty until the first sync().
    [[nodiscard]] Zone& dom0();

  private:
    struct Watched;
    void add(const xenpack_domain& domain, std::int64_t now_ms);
    void classify(Watched& watched);

    Loop& loop_;
    Store& store_;
    Toolstack& toolstack_;
    Mediator& mediator_;
    std::vector<Store::WatchHandle> watches_;
    std::map<ZoneKey, std::unique_ptr<Watched>> zones_;
    Zone no_dom0_;  // before it was seen
    std::unique_ptr<Watched> dom0_watched_;
};

}  // namespace xenpack
