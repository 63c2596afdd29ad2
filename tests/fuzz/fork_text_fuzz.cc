// SPDX-License-Identifier: LGPL-2.1-or-later
// Fuzz target: the texts of forking in a guest. A record that is taken comes back the same, and a
// seed that is refused leaves nothing behind.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "watcher/guest/fork_text.h"
#include "watcher/guest/forking.h"

namespace {

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace xenpack::guest;
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    std::array<std::uint8_t, kSeedBytes> seed{};
    if (!parse_seed(text, seed)) {
        require(std::all_of(seed.begin(), seed.end(), [](auto byte) { return byte == 0; }));
    }
    require(!is_generation(text) || machine_id_of(text).size() == 33);
    require(as_sentence(as_sentence(text)) == as_sentence(text));
    if (const auto wish = parse_wish(text)) {
        require(format_wish(*wish) == text);
        require(is_word(wish->id) && wish->count >= 1 && wish->count <= kMostWished);
        require(wish->pattern.empty() || is_pattern(wish->pattern));
    }
    if (const auto answered = parse_answer(text)) {
        require(format_answer(*answered) == text);
        require(answered->index <= kMostWished && answered->why.size() <= kSentenceMaxBytes);
    }
    const auto kept = parse_kept(text);
    if (kept) {
        require(format_kept(*kept) == text);
        // Whatever was done before: a fork without identity thaws nothing.
        const ForkSeen fork{std::nullopt, "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"};
        const bool is_given =
            kept->generation == *fork.generation && kept->identity == Outcome::done;
        const ForkStep step = next_step(fork, *kept);
        require(is_given || (step != ForkStep::thaw && step != ForkStep::resume));
    }
    return 0;
}
