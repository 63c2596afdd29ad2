// SPDX-License-Identifier: LGPL-2.1-or-later
// One line at a time: blank, comment, section, or key and value; anything else is a problem. Called
// by scenario.cc. Nothing is guessed.
#include "plugin/sim/sections.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "watcher/config/lines.h"

namespace xenpack::sim {

namespace {

bool is_word(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '-' || c == '_' || c == '.';
    });
}

class Reader {
  public:
    explicit Reader(const std::string& file) : file_(file) {}

    Expected<void> read(std::string_view line) {
        ++line_;
        line = trim(line);
        if (line.empty() || line.front() == '#' || line.front() == ';') {
            return {};
        }
        if (has_control_character(line)) {
            return problem("a control character is in this line");
        }
        line = without_comment(line);
        return line.front() == '[' ? begin(line) : set(line);
    }

    std::vector<Section> take() { return std::move(sections_); }

  private:
    tl::unexpected<Error> problem(const std::string& what) const {
        return Section(file_, line_, "", "").problem(what);
    }

    Expected<void> begin(std::string_view line) {
        if (!line.ends_with(']')) {
            return problem("a section is written [host] or [zone NAME]");
        }
        const std::string_view inside = trim(line.substr(1, line.size() - 2));
        const std::size_t gap = inside.find_first_of(kBlank);
        const std::string_view kind = inside.substr(0, gap);
        const std::string_view name =
            gap == std::string_view::npos ? std::string_view{} : trim(inside.substr(gap));
        if (!is_word(kind) || (!name.empty() && !is_word(name))) {
            return problem(
                "a section is written [host] or [zone NAME], with a name of letters, digits, '-', "
                "'_' and '.'");
        }
        const bool again = std::ranges::any_of(sections_, [&](const Section& each) {
            return each.kind() == kind && each.name() == name;
        });
        if (again) {
            return problem(fmt::format("[{}] is there twice: join the two", inside));
        }
        sections_.emplace_back(file_, line_, std::string(kind), std::string(name));
        return {};
    }

    Expected<void> set(std::string_view line) {
        const std::size_t equals = line.find('=');
        const std::string_view key = trim(line.substr(0, equals));
        if (equals == std::string_view::npos || !is_word(key)) {
            return problem("a line is a section in brackets, or key = value");
        }
        const std::string_view value = trim(line.substr(equals + 1));
        if (value.empty()) {
            return problem(fmt::format("{} has no value", key));
        }
        if (sections_.empty()) {
            return problem(fmt::format("{} is above the first section", key));
        }
        if (!sections_.back().add({std::string(key), std::string(value), line_})) {
            return problem(fmt::format("{} is set twice in this section", key));
        }
        return {};
    }

    const std::string& file_;
    int line_ = 0;
    std::vector<Section> sections_;
};

}  // namespace

Section::Section(std::string file, int line, std::string kind, std::string name)
    : file_(std::move(file)), line_(line), kind_(std::move(kind)), name_(std::move(name)) {}

bool Section::add(Setting setting) {
    if (std::ranges::find(settings_, setting.key, &Setting::key) != settings_.end()) {
        return false;
    }
    settings_.push_back(std::move(setting));
    return true;
}

const Section::Setting* Section::take(std::string_view key) {
    const auto found = std::ranges::find(settings_, key, &Setting::key);
    if (found == settings_.end()) {
        return nullptr;
    }
    found->taken = true;
    return &*found;
}

Expected<void> Section::check_all_taken() const {
    const auto unknown = std::ranges::find(settings_, false, &Setting::taken);
    if (unknown == settings_.end()) {
        return {};
    }
    return problem(*unknown,
                   fmt::format("[{}{}{}] has no use for {}; xenpack-sim(7) lists the keys", kind_,
                               name_.empty() ? "" : " ", name_, unknown->key));
}

tl::unexpected<Error> Section::problem(const std::string& what) const {
    return fail_with(EINVAL, "{}:{}: {}", file_, line_, what);
}

tl::unexpected<Error> Section::problem(const Setting& at, const std::string& what) const {
    return fail_with(EINVAL, "{}:{}: {}", file_, at.line, what);
}

Expected<std::vector<Section>> parse_sections(std::string_view text, const std::string& file) {
    Reader reader(file);
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        if (auto ok = reader.read(text.substr(0, end)); !ok) {
            return tl::unexpected(ok.error());
        }
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return reader.take();
}

}  // namespace xenpack::sim
