// SPDX-License-Identifier: LGPL-2.1-or-later
// In the order of a wish: heard, judged, accepted, answered by Forks, tried again, ended; and taken
// up again by the next daemon, from what stands at the zone that has become a template:
//   xenpack/self-fork    "ID NAME NAME...": what is to be made, the zone's own name first, with a +
//                        before it once its place is taken for good; "done"
#include "watcher/fork/self_forks.h"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <utility>

#include "watcher/fork/callers.h"
#include "watcher/fork/names.h"

namespace xenpack {
namespace {

constexpr char kRecordPath[] = "xenpack/self-fork";
constexpr char kDone[] = "done";
constexpr char kTakenMark = '+';
// What the template is called.
constexpr char kSuffix[] = ".template";
constexpr std::size_t kWishMostBytes = 256;
// Beside the indexes of its forks: the one with its place was made alone.
constexpr unsigned kAlone = guest::kMostWished + 1;
static_assert(kMostSelfForks <= guest::kMostWished);
// Of what is noted of a wish: with its path it has to fit into one message of the store's
// (XENSTORE_PAYLOAD_MAX, 4096, xen/io/xs_wire.h).
constexpr std::size_t kRecordMostBytes = 4000;

std::vector<std::string> words_of(std::string_view text) {
    std::vector<std::string> words;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        words.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return words;
}

std::string vm_of(const Zone& zone) {
    return "/vm/" + to_string(zone.key.uuid);
}

std::string record_of(const std::string& id, const std::vector<std::string>& names,
                      bool place_taken = false) {
    std::string record = id;
    for (const std::string& name : names) {
        record += " ";
        if (place_taken && &name == &names.front()) {
            record += kTakenMark;
        }
        record += name;
    }
    return record;
}

struct Heard {
    std::string text;
    std::optional<guest::ForkWish> wish;  // nothing: the text is none
};

Heard read_wish(Store& store, const ZoneKey& key) {
    const auto value = store.read_untrusted(domain_path(key.domid, guest::kForkMePath));
    if (!value || !*value) {
        return {};
    }
    return (*value)->parse([](const std::string& untrusted_text) {
        return untrusted_text.size() > kWishMostBytes
                   ? Heard{"?", std::nullopt}
                   : Heard{untrusted_text, guest::parse_wish(untrusted_text)};
    });
}

std::vector<unsigned> first_indexes(std::size_t count) {
    std::vector<unsigned> indexes(count);
    std::iota(indexes.begin(), indexes.end(), 0U);
    return indexes;
}

// Not now: what it wishes may be had later, as it stands.
guest::WishAnswer refusal(const std::string& id, const Error& why) {
    const bool later =
        why.code == ENOMEM || why.code == EAGAIN || why.code == EBUSY || why.code == ETIMEDOUT;
    return {id, later ? guest::WishAnswer::Word::not_now : guest::WishAnswer::Word::refused,
            why.what};
}

// It is suspended, and not resumed any more.
bool is_past_return(const Zone& zone) {
    return zone.family.is_template();
}

// Forks are not listened to: a fork cannot fork itself, and a watch for each would be felt.
bool can_wish(const Zone& zone) {
    return zone.family.kind == Family::Kind::none &&
           (zone.domain.flags & (XENPACK_DOMAIN_NEVER_RAN | XENPACK_DOMAIN_IS_SHUTDOWN)) == 0;
}

}  // namespace

SelfForks::SelfForks(Loop& loop, Store& store, Zones& zones, Forks& forks, Mediator& mediator)
    : store_(store),
      zones_(zones),
      forks_(forks),
      mediator_(mediator),
      wake_(loop.make_timer([this] { mediator_.self_forks_changed(); })) {}

SelfForks::~SelfForks() = default;

bool SelfForks::is_own(std::uint64_t caller) {
    return (caller & kSelfCaller) != 0 && caller < 2 * kSelfCaller;
}

// ---- the look -----------------------------------------------------------------------------------

void SelfForks::follow() {
    const std::int64_t now_ms = Loop::now_ms();
    std::optional<std::int64_t> next_ms;
    const auto consider = [&](std::int64_t at_ms) {
        if (at_ms > now_ms && (!next_ms || at_ms < *next_ms)) {
            next_ms = at_ms;
        }
    };
    for (const Zone* zone : zones_.all()) {
        if (can_wish(*zone)) {
            listen(*zone, now_ms);
        } else if (is_past_return(*zone) && !forks_.is_being_sealed(*zone)) {
            ears_.erase(zone->key);
            look_at_template(*zone);
        }
    }
    for (auto& [key, wish] : wishes_) {
        if (wish.caller == 0 && now_ms >= wish.trouble.again_ms) {
            try_again(key, wish);
        }
        consider(wish.trouble.again_ms);
    }
    for (const auto& [key, ear] : ears_) {
        consider(ear.deaf_until_ms);
    }
    if (next_ms) {
        wake_->start(*next_ms - now_ms);
    } else {
        wake_->stop();
    }
}

void SelfForks::forget(const Zone& gone) {
    ears_.erase(gone.key);
    wishes_.erase(gone.key);
    looked_at_.erase(gone.key);
    ours_.erase(gone.key);
}

// ---- heard --------------------------------------------------------------------------------------

void SelfForks::listen(const Zone& zone, std::int64_t now_ms) {
    const auto [at, fresh] = ears_.try_emplace(zone.key);
    if (fresh && !wishes_.contains(zone.key)) {
        forget_record(zone);  // it was accepted and got no further: if it still stands it is heard
    }
    Ear& ear = at->second;
    if (ear.watch || now_ms < ear.deaf_until_ms) {
        return;
    }
    auto watch = store_.watch(domain_path(zone.key.domid, guest::kForkMePath),
                              [this, key = zone.key] { hear(key); });
    if (!watch) {
        mediator_.self_fork_said(zone, true, watch.error().what);
        ear.deaf_until_ms = now_ms + kWishPenaltyMs;
        return;
    }
    ear.watch = std::move(*watch);
}

// One that was accepted and is not known here is an earlier daemon's, which got no further.
bool SelfForks::has_answered(const ZoneKey& key, const guest::ForkWish& wish) const {
    const auto text = store_.read(domain_path(key.domid, guest::kForkMeAnswerPath));
    const auto answer = text && *text ? guest::parse_answer(**text) : std::nullopt;
    return answer && answer->id == wish.id && answer->word != guest::WishAnswer::Word::accepted;
}

// Its watch may be what has called this, so that nothing may follow.
void SelfForks::be_deaf(Ear& ear, std::int64_t until_ms) {
    ear.deaf_until_ms = until_ms;
    mediator_.self_forks_changed();
    ear.watch.reset();
}

void SelfForks::hear(const ZoneKey& key) {
    const Zone* zone = zones_.find(key);
    const auto ear = ears_.find(key);
    if (zone == nullptr || ear == ears_.end() || !can_wish(*zone)) {
        return;
    }
    const std::int64_t now_ms = Loop::now_ms();
    if (!ear->second.looks.admit(now_ms)) {
        be_deaf(ear->second,
                now_ms + ear->second.looks.penalty_ms(now_ms, kWishPenaltyMs, kWishPenaltyMaxMs));
        return;
    }
    if (wishes_.contains(key)) {
        return;  // one at a time
    }
    const Heard heard = read_wish(store_, key);
    if (heard.text.empty()) {
        return;  // withdrawn, or there was none
    }
    if (heard.wish && has_answered(key, *heard.wish)) {
        return;
    }
    const std::string id = heard.wish ? heard.wish->id : "unknown";
    if (!ear->second.wishes.admit(now_ms)) {
        const std::int64_t penalty_ms =
            ear->second.wishes.penalty_ms(now_ms, kWishPenaltyMs, kWishPenaltyMaxMs);
        answer(*zone, {id, guest::WishAnswer::Word::not_now,
                       fmt::format("it asks too often, and is not listened to for {}",
                                   show_ms(penalty_ms))});
        be_deaf(ear->second, now_ms + penalty_ms);
        return;
    }
    if (!heard.wish) {
        answer(*zone, {id, guest::WishAnswer::Word::refused,
                       "this is no wish: it is ID COUNT, or ID COUNT PATTERN"});
        return;
    }
    const auto names = judge(*zone, *heard.wish);
    if (!names) {
        answer(*zone, refusal(id, names.error()));
        return;
    }
    accept(*zone, *heard.wish, heard.text, *names);
}

// The names of the forks, its own first; or why there will be none. They begin with its own: it may
// not take another's, which others would trust.
Expected<std::vector<std::string>> SelfForks::judge(const Zone& zone,
                                                    const guest::ForkWish& wish) const {
    const unsigned most = zone.config.self_forks.value_or(0);
    if (most == 0) {
        return fail_with(EPERM,
                         "the host does not allow this zone to fork itself (self-forks in its "
                         "xenpack.conf)");
    }
    if (wish.count > most) {
        return fail_with(EPERM,
                         "the host allows this zone {} forks of itself (self-forks in its "
                         "xenpack.conf), not {}",
                         most, wish.count);
    }
    if (auto good = check_name(zone.name); !good) {
        return tl::unexpected(std::move(good.error()));
    }
    std::set<std::string, std::less<>> taken;
    for (const Zone* other : zones_.all()) {
        taken.insert(other->name);
    }
    const std::string own = zone.name + "-";
    const std::string pattern =
        wish.pattern.empty() ? fmt::format("{}{}", own, kNumberMark) : wish.pattern;
    if (!pattern.starts_with(own)) {
        return fail_with(EPERM, "the names of its forks have to begin with {}, as in {}job-{}", own,
                         own, kNumberMark);
    }
    auto names = choose_names(pattern, wish.count, taken);
    if (names) {
        names->insert(names->begin(), zone.name);
        if (record_of(wish.id, *names).size() > kRecordMostBytes) {
            return fail_with(E2BIG,
                             "the names of {} forks are too long together: wish for fewer, or for "
                             "shorter names",
                             wish.count);
        }
    }
    return names;
}

// Only if it has not been withdrawn; and so that the next daemon knows of it.
void SelfForks::accept(const Zone& zone, const guest::ForkWish& asked, const std::string& text,
                       const std::vector<std::string>& names) {
    const auto path = [&](std::string_view below) { return domain_path(zone.key.domid, below); };
    const auto written =
        store_.write_guarded(path(guest::kForkMePath), text,
                             {{path(guest::kForkMeAnswerPath),
                               guest::format_answer({asked.id, guest::WishAnswer::Word::accepted})},
                              {path(kRecordPath), record_of(asked.id, names)}});
    if (!written) {
        if (written.error().code != ESRCH) {
            answer(zone, refusal(asked.id, written.error()));
        }
        return;
    }
    Wish& wish = wishes_[zone.key] = {asked.id, zone.name, names};
    if (const auto begun = begin(zone.key, wish, first_indexes(names.size())); !begun) {
        wishes_.erase(zone.key);
        forget_record(zone);
        answer(zone, refusal(asked.id, begun.error()));
        return;
    }
    mediator_.self_fork_said(
        zone, false, fmt::format("it forks itself at its own wish: {} beside it", asked.count));
}

// In dom0's part of its directory, if it is still that zone.
void SelfForks::answer(const Zone& zone, const guest::WishAnswer& answer) {
    const auto written = store_.write_guarded(
        domain_path(zone.key.domid, "vm"), vm_of(zone),
        {{domain_path(zone.key.domid, guest::kForkMeAnswerPath), guest::format_answer(answer)}});
    if (!written && written.error().code != ESRCH) {
        mediator_.self_fork_said(zone, true, written.error().what);
    }
}

Expected<void> SelfForks::begin(const ZoneKey& key, Wish& wish,
                                const std::vector<unsigned>& which) {
    Forks::Itself asked{key, wish.name + kSuffix, {}, {}};
    for (const unsigned index : which) {
        guest::WishAnswer is{wish.id, guest::WishAnswer::Word::index, "", index};
        if (index == 0 && !wish.refused.empty()) {
            is.word = guest::WishAnswer::Word::refused;
            is.why = wish.refused;
        }
        asked.names.push_back(wish.names[index]);
        asked.indexes.push_back(guest::format_answer(is));
    }
    const std::uint64_t caller = kSelfCaller | ++last_caller_;
    auto begun = forks_.fork_itself(asked, caller);
    wish.caller = begun ? caller : 0;
    return begun;
}

// ---- what came of it ----------------------------------------------------------------------------

bool SelfForks::forks_answered(std::uint64_t caller, const Expected<std::vector<MadeFork>>& made) {
    const auto at =
        std::ranges::find(wishes_, caller, [](const auto& each) { return each.second.caller; });
    if (caller == 0 || at == wishes_.end()) {
        return is_own(caller);
    }
    mediator_.self_forks_changed();
    const ZoneKey key = at->first;
    Wish& wish = at->second;
    wish.caller = 0;
    const Zone* zone = zones_.find(key);
    if (zone == nullptr) {
        wishes_.erase(at);
        return true;
    }
    if (made) {
        finished(*zone);
        return true;
    }
    if (!is_past_return(*zone)) {
        const std::string id = wish.id;
        wishes_.erase(at);
        forget_record(*zone);
        answer(*zone, refusal(id, made.error()));
        if (const auto ear = ears_.find(key); ear != ears_.end()) {
            // Then what it has written meanwhile is heard.
            be_deaf(ear->second,
                    std::max(ear->second.deaf_until_ms, Loop::now_ms() + kRefusalStandsMs));
        }
        return true;
    }
    not_made(*zone, wish, made.error());
    return true;
}

// There is no way back: its place at least has to be taken, unless it is. Ends the wish where it
// is: who has it may have ended since, and must not come to be again. As long as the seal alone has
// failed all of them are tried for.
void SelfForks::not_made(const Zone& zone, Wish& wish, const Error& why) {
    if (wish.place_taken) {
        mediator_.self_fork_said(zone, true,
                                 fmt::format("{} goes on in its place, but the forks that are "
                                             "missing beside it cannot be made: {}",
                                             wish.name, why.what));
        finished(zone);
        return;
    }
    const bool alone = zone.family.kind == Family::Kind::sealed || why.code == ENOMEM;
    if (alone && wish.refused.empty()) {
        wish.refused = why.what;
        mediator_.self_fork_said(zone, true,
                                 fmt::format("its forks cannot be made, and {} is made alone, as "
                                             "often as that has to be tried: {}",
                                             wish.name, why.what));
    }
    wish.trouble = after_failure(wish.trouble, why.what, why.code == ENOMEM, Loop::now_ms());
}

void SelfForks::try_again(const ZoneKey& key, Wish& wish) {
    const std::size_t count = wish.refused.empty() ? wish.names.size() : 1;
    if (const auto begun = begin(key, wish, first_indexes(count)); !begun) {
        wish.trouble = after_failure(wish.trouble, begun.error().what, begun.error().code == ENOMEM,
                                     Loop::now_ms());
    }
}

void SelfForks::finished(const Zone& zone) {
    wishes_.erase(zone.key);
    ours_.try_emplace(zone.key);
    record(zone, kDone);
}

void SelfForks::forget_record(const Zone& zone) {
    const std::string path = domain_path(zone.key.domid, kRecordPath);
    const auto stands = store_.read(path);
    const auto removed = stands && *stands ? store_.remove(path) : Expected<void>();
    if (!stands || !removed) {
        mediator_.self_fork_said(zone, true, stands ? removed.error().what : stands.error().what);
    }
}

void SelfForks::record(const Zone& zone, const std::string& text) {
    const auto written = store_.write_guarded(domain_path(zone.key.domid, "vm"), vm_of(zone),
                                              {{domain_path(zone.key.domid, kRecordPath), text}});
    if (!written && written.error().code != ESRCH) {
        mediator_.self_fork_said(zone, true, written.error().what);
    }
}

// ---- templates that came of wishes --------------------------------------------------------------

void SelfForks::look_at_template(const Zone& zone) {
    if (!looked_at_.contains(zone.key)) {
        look_for_record(zone);
    }
    const auto own = ours_.find(zone.key);
    if (own == ours_.end() || !forks_.children_of(zone.key.uuid).empty()) {
        return;
    }
    const auto begun = forks_.remove_template(zone.name, kSelfCaller, false);
    if (begun) {
        ours_.erase(own);
        mediator_.self_fork_said(zone, false, "its last fork has gone, and so does it");
    } else if (begun.error().code != EBUSY && own->second != begun.error().what) {
        own->second = begun.error().what;
        mediator_.self_fork_said(zone, true, begun.error().what);
    }
}

// Once it is known of all of its forks whether they come to be.
void SelfForks::look_for_record(const Zone& zone) {
    if (wishes_.contains(zone.key)) {
        looked_at_.insert(zone.key);
        return;
    }
    const auto text = store_.read(domain_path(zone.key.domid, kRecordPath));
    if (!text) {
        return;
    }
    const auto children = *text && **text != kDone ? children_by_index(zone) : Children{};
    if (std::ranges::any_of(children,
                            [this](const auto& each) { return is_unsettled(*each.second); })) {
        return;
    }
    looked_at_.insert(zone.key);
    if (*text) {
        take_up(zone, **text, children);
    }
}

// What an earlier daemon has begun.
void SelfForks::take_up(const Zone& zone, const std::string& text, const Children& there) {
    if (text == kDone) {
        ours_.try_emplace(zone.key);
        return;
    }
    auto words = words_of(text);
    if (words.size() < 2) {
        mediator_.self_fork_said(zone, true, "what it is the template for is not known any more");
        return;
    }
    const bool was_taken = words[1].starts_with(kTakenMark);
    if (was_taken) {
        words[1].erase(0, 1);
    }
    Wish wish{words.front(), words[1], {words.begin() + 1, words.end()}};
    wish.place_taken = was_taken || there.contains(0);
    std::vector<unsigned> missing;
    for (unsigned i = wish.place_taken ? 1 : 0; i < wish.names.size(); ++i) {
        if (!there.contains(i)) {
            missing.push_back(i);
        }
    }
    if (missing.empty() || there.contains(kAlone)) {
        finished(zone);
        return;
    }
    if (wish.place_taken && !was_taken) {
        record(zone, record_of(wish.id, wish.names, true));
    }
    mediator_.self_fork_said(zone, false,
                             fmt::format("{} forks of it were to be made when xenpackd ended, "
                                         "which goes on",
                                         missing.size()));
    Wish& kept = wishes_[zone.key] = std::move(wish);
    if (const auto begun = begin(zone.key, kept, missing); !begun) {
        not_made(zone, kept, begun.error());
    }
}

// It may yet turn out that it cannot live: then it was never there.
bool SelfForks::is_unsettled(const Zone& fork) const {
    if (fork.family.kind == Family::Kind::fork_building) {
        return true;
    }
    if (fork.family.kind != Family::Kind::fork || forks_.is_ready(fork)) {
        return false;
    }
    const auto seed = store_.read(domain_path(fork.key.domid, kForkSeedPath));
    return !seed || *seed;
}

// Those that are there; also as kAlone the one whose place was taken alone.
SelfForks::Children SelfForks::children_by_index(const Zone& zone) const {
    Children children;
    for (const Zone* child : forks_.children_of(zone.key.uuid)) {
        const auto text = store_.read(domain_path(child->key.domid, guest::kForkIndexPath));
        const auto answer = text && *text ? guest::parse_answer(**text) : std::nullopt;
        if (!answer) {
            continue;
        }
        if (answer->word == guest::WishAnswer::Word::index) {
            children[answer->index] = child;
        } else {
            children[0] = children[kAlone] = child;
        }
    }
    return children;
}

}  // namespace xenpack
