// SPDX-License-Identifier: LGPL-2.1-or-later
// The texts of forking; see fork_text.h. No input or output here.
#include "watcher/guest/fork_text.h"

#include <algorithm>
#include <charconv>

namespace xenpack::guest {
namespace {

constexpr std::string_view kFirstLine = "xenpack-guest fork state 1\n";

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_printable(char c) {
    return c >= ' ' && c <= '~';
}

std::optional<std::uint8_t> hex_value(char c) {
    if (is_digit(c)) {
        return static_cast<std::uint8_t>(c - '0');
    }
    if (c >= 'a' && c <= 'f') {
        return static_cast<std::uint8_t>(c - 'a' + 10);
    }
    if (c >= 'A' && c <= 'F') {
        return static_cast<std::uint8_t>(c - 'A' + 10);
    }
    return std::nullopt;
}

std::string_view name_of(Outcome outcome) {
    switch (outcome) {
        case Outcome::pending:
            return "pending";
        case Outcome::done:
            return "done";
        case Outcome::failed:
            return "failed";
    }
    return "pending";  // unreachable: the switch names every value
}

std::optional<Outcome> outcome_of(std::string_view name) {
    for (const Outcome outcome : {Outcome::pending, Outcome::done, Outcome::failed}) {
        if (name == name_of(outcome)) {
            return outcome;
        }
    }
    return std::nullopt;
}

// Takes the line "KEY VALUE\n" off the text's beginning.
std::optional<std::string_view> take_line(std::string_view& text, std::string_view key) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos || !text.starts_with(key) || key.size() >= end ||
        text[key.size()] != ' ') {
        return std::nullopt;
    }
    const auto value = text.substr(key.size() + 1, end - key.size() - 1);
    text.remove_prefix(end + 1);
    return value;
}

bool is_sentence(std::string_view text) {
    return as_sentence(text) == text;
}

// A failure has a sentence, and nothing else has one.
bool fits(Outcome outcome, std::string_view why) {
    return outcome == Outcome::failed ? is_sentence(why) : why.empty();
}

bool is_consistent(const ForkKept& kept) {
    const bool quiesce = kept.token.empty()
                             ? kept.quiesce == Outcome::pending && kept.quiesce_why.empty() &&
                                   kept.quiesced_in.empty()
                             : is_word(kept.token) && fits(kept.quiesce, kept.quiesce_why) &&
                                   (kept.quiesced_in.empty() || is_generation(kept.quiesced_in));
    const bool identity =
        kept.generation.empty()
            ? kept.identity == Outcome::pending && kept.identity_why.empty()
            : is_generation(kept.generation) && fits(kept.identity, kept.identity_why);
    return quiesce && identity;
}

// Digits as a person writes a number: no zero before others.
std::optional<unsigned> parse_number(std::string_view text, unsigned most) {
    unsigned number = 0;
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, number);
    const bool whole = error == std::errc() && stopped == end && number <= most;
    return whole && (text.size() == 1 || text[0] != '0') ? std::optional(number) : std::nullopt;
}

// What is before the first blank, which is taken off the text with it.
std::string_view take_word(std::string_view& text) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return word;
}

}  // namespace

bool is_word(std::string_view text) {
    return !text.empty() && text.size() <= kHostnameMaxBytes &&
           std::all_of(text.begin(), text.end(), [](char c) {
               return is_digit(c) || is_letter(c) || c == '.' || c == '_' || c == '-';
           });
}

bool is_generation(std::string_view text) {
    constexpr std::string_view kForm = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    return text.size() == kForm.size() &&
           std::equal(text.begin(), text.end(), kForm.begin(), [](char c, char form) {
               return form == '-' ? c == '-' : is_digit(c) || (c >= 'a' && c <= 'f');
           });
}

bool is_address(std::string_view text) {
    return text.size() <= kAddressMaxBytes && std::all_of(text.begin(), text.end(), is_printable);
}

std::string machine_id_of(std::string_view generation) {
    std::string id(generation);
    std::erase(id, '-');
    return id + '\n';
}

bool parse_seed(std::string_view text, std::array<std::uint8_t, kSeedBytes>& seed) {
    seed.fill(0);
    bool ok = text.size() == 2 * kSeedBytes;
    for (std::size_t i = 0; ok && i < kSeedBytes; ++i) {
        const auto high = hex_value(text[2 * i]);
        const auto low = hex_value(text[2 * i + 1]);
        ok = high && low;
        seed[i] = ok ? static_cast<std::uint8_t>(*high << 4U | *low) : std::uint8_t{0};
    }
    if (!ok) {
        seed.fill(0);
    }
    return ok;
}

std::string as_sentence(std::string_view text) {
    std::string sentence(text.substr(0, kSentenceMaxBytes));
    std::replace_if(
        sentence.begin(), sentence.end(), [](char c) { return !is_printable(c); }, ' ');
    return sentence.empty() ? "for no known reason" : sentence;
}

bool is_pattern(std::string_view text) {
    constexpr std::string_view kMark = "%d";
    const std::size_t at = text.find(kMark);
    if (at == std::string_view::npos || text.size() > kHostnameMaxBytes) {
        return false;
    }
    std::string bare(text);
    bare.erase(at, kMark.size());
    return is_word(bare);
}

std::string format_wish(const ForkWish& wish) {
    return wish.id + " " + std::to_string(wish.count) +
           (wish.pattern.empty() ? "" : " " + wish.pattern);
}

std::optional<ForkWish> parse_wish(std::string_view text) {
    const std::string_view whole = text;
    ForkWish wish;
    wish.id = take_word(text);
    const auto count = parse_number(take_word(text), kMostWished);
    wish.count = count.value_or(0);
    wish.pattern = text;
    const bool good = is_word(wish.id) && wish.count > 0 &&
                      (wish.pattern.empty() || is_pattern(wish.pattern)) &&
                      format_wish(wish) == whole;
    return good ? std::optional(std::move(wish)) : std::nullopt;
}

std::string format_answer(const WishAnswer& answer) {
    switch (answer.word) {
        case WishAnswer::Word::accepted:
            return answer.id + " accepted";
        case WishAnswer::Word::refused:
            return answer.id + " refused " + as_sentence(answer.why);
        case WishAnswer::Word::not_now:
            return answer.id + " not-now " + as_sentence(answer.why);
        case WishAnswer::Word::index:
            return answer.id + " " + std::to_string(answer.index);
    }
    return {};  // unreachable: the switch names every value
}

std::optional<WishAnswer> parse_answer(std::string_view text) {
    const std::string_view whole = text;
    WishAnswer answer;
    answer.id = take_word(text);
    const std::string_view word = take_word(text);
    if (word == "refused" || word == "not-now") {
        answer.word = word == "refused" ? WishAnswer::Word::refused : WishAnswer::Word::not_now;
        answer.why = text;
    } else if (const auto index = parse_number(word, kMostWished)) {
        answer.word = WishAnswer::Word::index;
        answer.index = *index;
    }
    const bool good = is_word(answer.id) && format_answer(answer) == whole;
    return good ? std::optional(std::move(answer)) : std::nullopt;
}

std::string format_kept(const ForkKept& kept) {
    std::string text(kFirstLine);
    const auto line = [&text](std::string_view key, std::string_view value) {
        text.append(key).append(" ").append(value).append("\n");
    };
    line("token", kept.token);
    line("quiesce", name_of(kept.quiesce));
    line("quiesce-why", kept.quiesce_why);
    line("quiesced-in", kept.quiesced_in);
    line("generation", kept.generation);
    line("identity", name_of(kept.identity));
    line("identity-why", kept.identity_why);
    return text;
}

std::optional<ForkKept> parse_kept(std::string_view text) {
    if (!text.starts_with(kFirstLine)) {
        return std::nullopt;
    }
    text.remove_prefix(kFirstLine.size());
    const auto token = take_line(text, "token");
    const auto quiesce = outcome_of(take_line(text, "quiesce").value_or(""));
    const auto quiesce_why = take_line(text, "quiesce-why");
    const auto quiesced_in = take_line(text, "quiesced-in");
    const auto generation = take_line(text, "generation");
    const auto identity = outcome_of(take_line(text, "identity").value_or(""));
    const auto identity_why = take_line(text, "identity-why");
    if (!token || !quiesce || !quiesce_why || !quiesced_in || !generation || !identity ||
        !identity_why || !text.empty()) {
        return std::nullopt;
    }
    ForkKept kept;
    kept.token = *token;
    kept.quiesce = *quiesce;
    kept.quiesce_why = *quiesce_why;
    kept.quiesced_in = *quiesced_in;
    kept.generation = *generation;
    kept.identity = *identity;
    kept.identity_why = *identity_why;
    return is_consistent(kept) ? std::optional(std::move(kept)) : std::nullopt;
}

}  // namespace xenpack::guest
