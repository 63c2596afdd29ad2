// SPDX-License-Identifier: LGPL-2.1-or-later
// The texts of forking as values: what dom0 writes for a fork and for a template to be, what is
// answered, and what xenpack-guest keeps over its own end. Pure; ForkSteps reads and writes them.
//
// In the zone's xenstore directory, written by dom0 alone:
//   xenpack/quiesce            TOKEN: be quiet, this zone is about to be suspended
//   xenpack/fork/generation    a uuid that no other domain has
//   xenpack/fork/{name,seed,address}
// Answers:
//   data/xenpack/quiesced      "TOKEN ok" or "TOKEN failed SENTENCE"
//   data/xenpack/fork          "GENERATION ready" or "GENERATION failed SENTENCE"
//
// A zone's wish to be forked, where its host allows that:
//   data/xenpack/fork-me       by the zone: "ID COUNT", or "ID COUNT PATTERN" with names for the
//                              forks beside it; ID is the zone's, and new for each wish
//   xenpack/fork-me            dom0's answer: "ID accepted", "ID refused SENTENCE", or "ID not-now
//                              SENTENCE": refused too, but the same may be had later
//   xenpack/fork/index         dom0's, in each fork that came of it: "ID INDEX", 0 in the one that
//                              has the zone's place; or "ID refused SENTENCE" in that one, where
//                              the others could not be made
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace xenpack::guest {

inline constexpr char kQuiescePath[] = "xenpack/quiesce";
inline constexpr char kGenerationPath[] = "xenpack/fork/generation";
inline constexpr char kNamePath[] = "xenpack/fork/name";
inline constexpr char kSeedPath[] = "xenpack/fork/seed";
inline constexpr char kAddressPath[] = "xenpack/fork/address";
inline constexpr char kQuiescedPath[] = "data/xenpack/quiesced";
inline constexpr char kForkPath[] = "data/xenpack/fork";

inline constexpr char kForkMePath[] = "data/xenpack/fork-me";
inline constexpr char kForkMeAnswerPath[] = "xenpack/fork-me";
inline constexpr char kForkIndexPath[] = "xenpack/fork/index";

// Forks that a wish may be for; the host's limit is no higher.
inline constexpr unsigned kMostWished = 256;
inline constexpr std::size_t kSeedBytes = 32;
inline constexpr std::size_t kSentenceMaxBytes = 240;
inline constexpr std::size_t kAddressMaxBytes = 255;
// Linux: __NEW_UTS_LEN.
inline constexpr std::size_t kHostnameMaxBytes = 64;

enum class Outcome {
    pending,  // begun, and not ended yet: to be done again where it was broken off
    done,
    failed,
};

// What must be known after a crash of xenpack-guest, and in a fork, whose memory it came with.
struct ForkKept {
    // Quiesced for this token; empty: not quiesced, and nothing is frozen by us.
    std::string token;
    Outcome quiesce = Outcome::pending;
    std::string quiesce_why;  // a sentence, if it failed
    std::string quiesced_in;  // the generation that this domain had then; empty: none

    // The generation whose identity was given; empty: none yet.
    std::string generation;
    Outcome identity = Outcome::pending;
    std::string identity_why;

    friend bool operator==(const ForkKept&, const ForkKept&) = default;
};

// 1 to 64 letters, digits, '.', '_' and '-'. Also what a fork's name must be to be a host's name.
[[nodiscard]] bool is_word(std::string_view text);

// A uuid in its usual form, with small letters.
[[nodiscard]] bool is_generation(std::string_view text);

// Printable ASCII, at most kAddressMaxBytes, may be empty. It is for hooks to understand.
[[nodiscard]] bool is_address(std::string_view text);

// What /etc/machine-id holds for this generation: its 32 digits and a newline.
[[nodiscard]] std::string machine_id_of(std::string_view generation);

// Exactly 64 hexadecimal digits. The bytes go to `seed`, which is zero if this is false.
[[nodiscard]] bool parse_seed(std::string_view text, std::array<std::uint8_t, kSeedBytes>& seed);

// One line of printable ASCII, not empty and not too long, whatever it was.
[[nodiscard]] std::string as_sentence(std::string_view text);

struct ForkWish {
    std::string id;         // a word
    unsigned count = 0;     // 1 to kMostWished
    std::string pattern{};  // names, with one %d; empty: the host's choice

    friend bool operator==(const ForkWish&, const ForkWish&) = default;
};
// A host's name with one %d in it, where a number goes.
[[nodiscard]] bool is_pattern(std::string_view text);
[[nodiscard]] std::string format_wish(const ForkWish& wish);
// None for anything that format_wish would not have written.
[[nodiscard]] std::optional<ForkWish> parse_wish(std::string_view text);

struct WishAnswer {
    std::string id;
    enum class Word { accepted, refused, not_now, index } word = Word::accepted;
    std::string why{};   // it is refused, or not now: a sentence
    unsigned index = 0;  // 0 to kMostWished

    friend bool operator==(const WishAnswer&, const WishAnswer&) = default;
};
[[nodiscard]] std::string format_answer(const WishAnswer& answer);
// None for anything that format_answer would not have written.
[[nodiscard]] std::optional<WishAnswer> parse_answer(std::string_view text);

[[nodiscard]] std::string format_kept(const ForkKept& kept);
// None for anything that format_kept would not have written.
[[nodiscard]] std::optional<ForkKept> parse_kept(std::string_view text);

}  // namespace xenpack::guest
