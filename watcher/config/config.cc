// SPDX-License-Identifier: LGPL-2.1-or-later
// Reads xenpack.conf: inih splits "key = value", this file decides what may be written where, and
// collects every problem before it answers. xenpackd and `xenpack check-config` call it.
// It must not return a configuration that differs from what a person reads in the file.
//
// inih by itself joins indented lines to the value before, cuts long lines and long section names,
// ends a section name at its first "]", tells its handler no line number, and goes on after errors.
// How a distribution built it decides which of these can be switched off, so none is relied on:
// inih is fed through a reader of ours, which hands it one trimmed line at a time and nothing but
// lines that must hold a value.
#include "watcher/config/config.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <ini.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "watcher/config/domain_name.h"
#include "watcher/config/keys.h"
#include "watcher/config/lines.h"

namespace xenpack {

namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Whether `text` has a '#' where a person would expect a comment, and inih does not.
bool has_hash_comment(std::string_view text) {
    for (std::size_t at = 1; at < text.size(); ++at) {
        if (text[at] == '#' && kBlank.find(text[at - 1]) != std::string_view::npos) {
            return true;
        }
    }
    return false;
}

// What is wrong with a pattern that fnmatch(3) would take literally without a word, or nullptr.
const char* flaw_in_pattern(std::string_view pattern) {
    for (std::size_t at = 0; at < pattern.size(); ++at) {
        if (pattern[at] == '\\') {
            if (++at == pattern.size()) {
                return "ends in a \\ that escapes nothing";
            }
        } else if (pattern[at] == '[') {
            std::size_t member = at + 1;
            if (member < pattern.size() && (pattern[member] == '!' || pattern[member] == '^')) {
                ++member;
            }
            at = pattern.find(']', member + 1);
            if (at == std::string_view::npos) {
                return "has a [ without its ]";
            }
        }
    }
    return nullptr;
}

bool matches(const std::string& pattern, const std::string& name) {
    return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool is_literal(std::string_view pattern) {
    return pattern.find_first_of("*?[\\") == std::string_view::npos;
}

std::optional<SectionKind> kind_called(std::string_view name) {
    for (const SectionKind kind :
         {SectionKind::host, SectionKind::daemon, SectionKind::zone, SectionKind::pool}) {
        if (name == name_of(kind)) {
            return kind;
        }
    }
    return std::nullopt;
}

// The values of `over`, and those of `under` where `over` sets none.
ZoneConfig merged(ZoneConfig over, const ZoneConfig& under) {
    const auto fill = [](auto& value, const auto& inherited) {
        if (!value) {
            value = inherited;
        }
    };
    fill(over.manage, under.manage);
    fill(over.floor_kib, under.floor_kib);
    fill(over.ceiling_kib, under.ceiling_kib);
    fill(over.weight, under.weight);
    fill(over.headroom_percent, under.headroom_percent);
    fill(over.self_forks, under.self_forks);
    return over;
}

// One reading of one text.
class Parser {
  public:
    Parser(std::string_view text, std::string name) : rest_(text), name_(std::move(name)) {}

    Expected<Config> parse();

  private:
    // The section that lines belong to at present.
    struct Section {
        enum class State { none, refused, open } state = State::none;
        SectionKind kind = SectionKind::host;
        std::string title;  // what stands between the brackets
        std::map<std::string, int, std::less<>> lines_of_keys;
        bool refused_a_value = false;
        std::size_t zone = 0;  // index in config_.sections, where the title has a pattern
        bool has_pattern = false;
    };

    static char* on_reader(char* buffer, int size, void* parser);
    static int on_value(void* parser, const char* section, const char* key, const char* value);

    void report_unanswered();
    bool next_line(std::string_view& line);
    bool accept_line(std::string_view line, std::size_t room);
    void open_section(std::string_view line);
    void open_zone_section(std::string_view pattern);
    void open_pool_section(std::string_view name);
    void take(std::string_view key, std::string_view value);
    void refuse_value(std::string text);
    void close_section();
    void check_floors();
    void check_pool();
    void check_pools();
    void check_floor(const std::string& title, const ZoneConfig& values, int line);
    void report(int line, std::string text);

    std::string_view rest_;
    std::string name_;
    int line_ = 0;
    bool awaits_value_ = false;  // inih was handed a line and has not called on_value yet
    Section section_;
    std::map<std::string, int, std::less<>> lines_of_sections_;
    std::map<std::string, int, std::less<>> floor_lines_;  // by title: where to report its floor
    Config config_;
    std::vector<std::pair<int, std::string>> problems_;
};

void Parser::report(int line, std::string text) {
    problems_.emplace_back(line, fmt::format("{}:{}: {}", name_, line, text));
}

// inih asks for the next line, or ends, without having found a value in the last.
void Parser::report_unanswered() {
    if (std::exchange(awaits_value_, false)) {
        report(line_,
               "neither [section] nor \"key = value\": correct it, or begin the line with #");
    }
}

bool Parser::next_line(std::string_view& line) {
    report_unanswered();
    if (rest_.empty()) {
        return false;
    }
    const std::size_t end = rest_.find('\n');
    line = trim(rest_.substr(0, end));
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    ++line_;
    return true;
}

// Whether the line is one for inih, which has `room` bytes for it.
bool Parser::accept_line(std::string_view line, std::size_t room) {
    if (line.empty() || line[0] == ';' || line[0] == '#') {
        return false;
    }
    if (has_control_character(line)) {
        report(line_, "holds a control character: remove it");
        return false;
    }
    if (line[0] == '[') {
        open_section(line);
        return false;
    }
    switch (section_.state) {
        case Section::State::none:
            report(line_,
                   "stands before any section: put it below [host], [daemon], [zone] or "
                   "[pool NAME]");
            return false;
        case Section::State::refused:
            return false;
        case Section::State::open:
            break;
    }
    if (line.size() > room) {
        report(line_, fmt::format("longer than {} bytes: shorten it", room));
        return false;
    }
    return true;
}

char* Parser::on_reader(char* buffer, int size, void* parser) {
    auto& self = *static_cast<Parser*>(parser);
    const std::size_t room = static_cast<std::size_t>(std::max(size, 2)) - 2;
    std::string_view line;
    while (self.next_line(line)) {
        if (self.accept_line(line, room)) {
            std::memcpy(buffer, line.data(), line.size());
            buffer[line.size()] = '\n';
            buffer[line.size() + 1] = '\0';
            self.awaits_value_ = true;
            return buffer;
        }
    }
    return nullptr;
}

void Parser::open_section(std::string_view line) {
    close_section();
    section_ = {};
    section_.state = Section::State::refused;
    line = without_comment(line);
    if (has_hash_comment(line)) {
        report(line_, "a comment behind other text begins with ; and not with #");
        return;
    }
    if (!line.ends_with(']')) {
        report(line_, "a section without its closing ]: write it as in [zone web-*]");
        return;
    }
    const std::string_view title = trim(line.substr(1, line.size() - 2));
    const std::size_t blank = title.find_first_of(kBlank);
    const std::string_view pattern =
        blank == std::string_view::npos ? std::string_view{} : trim(title.substr(blank));
    const auto kind = kind_called(title.substr(0, blank));
    const bool may_have_pattern =
        kind && (*kind == SectionKind::zone || *kind == SectionKind::pool);
    if (!kind || (!may_have_pattern && !pattern.empty())) {
        report(line_, fmt::format("no section is called [{}]: there are [host], [daemon], [zone], "
                                  "[zone PATTERN] and [pool NAME]",
                                  title));
        return;
    }
    section_.kind = *kind;
    section_.title = fmt::format("{}{}{}", name_of(*kind), pattern.empty() ? "" : " ", pattern);
    const auto [first, is_new] = lines_of_sections_.emplace(section_.title, line_);
    if (!is_new) {
        report(line_, fmt::format("section [{}] is given twice, first in line {}: join the two",
                                  section_.title, first->second));
        return;
    }
    section_.state = Section::State::open;
    if (*kind == SectionKind::pool) {
        open_pool_section(pattern);
    } else if (!pattern.empty()) {
        open_zone_section(pattern);
    }
}

void Parser::open_pool_section(std::string_view name) {
    if (!is_domain_name(name) || name.size() > kMaxPatternBytes - 3) {
        section_.state = Section::State::refused;
        report(line_, fmt::format("'{}' is no name for a pool: write [pool NAME], with up to {} "
                                  "letters, digits, '.', '_' and '-', a letter or digit first, "
                                  "and not digits alone",
                                  name, kMaxPatternBytes - 3));
        return;
    }
    PoolConfig pool;
    pool.name = name;
    pool.pattern = pool.name + "-%d";
    pool.line = line_;
    config_.pools.push_back(std::move(pool));
}

void Parser::open_zone_section(std::string_view pattern) {
    if (const char* flaw = flaw_in_pattern(pattern)) {
        section_.state = Section::State::refused;
        report(line_, fmt::format("pattern '{}' {}: correct it, or escape with \\", pattern, flaw));
        return;
    }
    for (const ZoneSection& earlier : config_.sections) {
        if (earlier.pattern == "*" ||
            (is_literal(pattern) && matches(earlier.pattern, std::string(pattern)))) {
            report(line_,
                   fmt::format("[zone {}] never applies, because [zone {}] in line {} matches "
                               "first: put it above that line",
                               pattern, earlier.pattern, earlier.line));
            break;
        }
    }
    section_.has_pattern = true;
    section_.zone = config_.sections.size();
    config_.sections.push_back({std::string(pattern), {}, line_});
}

int Parser::on_value(void* parser, const char*, const char* key, const char* value) {
    auto& self = *static_cast<Parser*>(parser);
    self.awaits_value_ = false;
    self.take(key, value == nullptr ? std::string_view{} : std::string_view(value));
    return 1;
}

void Parser::take(std::string_view key, std::string_view value) {
    const auto keys = config_keys();
    const auto known = std::find_if(keys.begin(), keys.end(), [&](const ConfigKey& k) {
        return k.section == section_.kind && k.name == key;
    });
    if (known == keys.end()) {
        std::string names;
        for (const ConfigKey& k : keys) {
            if (k.section == section_.kind) {
                names += fmt::format("{}{}", names.empty() ? "" : ", ", k.name);
            }
        }
        report(line_, fmt::format("[{}] has no key '{}': it has {}", section_.title, key, names));
        return;
    }
    const auto [first, is_new] = section_.lines_of_keys.emplace(std::string(key), line_);
    if (!is_new) {
        report(line_, fmt::format("{} is given twice in [{}], first in line {}: remove one", key,
                                  section_.title, first->second));
        return;
    }
    if (value.empty()) {
        refuse_value(fmt::format("{} has no value: give one, or remove the line", key));
        return;
    }
    if (has_hash_comment(value)) {
        refuse_value(fmt::format("{}: a comment behind a value begins with ; and not with #", key));
        return;
    }
    ZoneConfig& zone =
        section_.has_pattern ? config_.sections[section_.zone].values : config_.zone_defaults;
    if (const auto set = known->set(config_, zone, value); !set) {
        refuse_value(fmt::format("{}: {}", key, set.error().what));
    }
}

void Parser::refuse_value(std::string text) {
    section_.refused_a_value = true;
    report(line_, std::move(text));
}

void Parser::close_section() {
    if (section_.state == Section::State::open && section_.kind == SectionKind::pool) {
        check_pool();
    }
    for (const char* key : {"ceiling", "floor"}) {
        if (const auto found = section_.lines_of_keys.find(key);
            found != section_.lines_of_keys.end()) {
            floor_lines_[section_.title] = found->second;
        }
    }
}

void Parser::check_floor(const std::string& title, const ZoneConfig& values, int line) {
    if (values.floor_kib && values.ceiling_kib && *values.floor_kib > *values.ceiling_kib) {
        report(line, fmt::format("[{}] has a floor of {}K above its ceiling of {}K, where [zone] "
                                 "gives what it does not set itself: lower one or raise the other",
                                 title, *values.floor_kib, *values.ceiling_kib));
    }
}

// A zone's values come from one section and [zone], so these are all the pairs there can be.
void Parser::check_floors() {
    const auto line_of = [this](const std::string& title, int otherwise) {
        const auto found = floor_lines_.find(title);
        return found == floor_lines_.end() ? otherwise : found->second;
    };
    check_floor("zone", config_.zone_defaults, line_of("zone", 0));
    for (const ZoneSection& section : config_.sections) {
        if (section.values.floor_kib || section.values.ceiling_kib) {
            const std::string title = "zone " + section.pattern;
            check_floor(title, merged(section.values, config_.zone_defaults),
                        line_of(title, section.line));
        }
    }
}

// The one whose section ends here. What follows from a value that was refused is not said as well.
void Parser::check_pool() {
    const PoolConfig& pool = config_.pools.back();
    if (!section_.lines_of_keys.contains("template")) {
        report(pool.line, fmt::format("[pool {}] has no template: say of which one its forks are, "
                                      "as in template = web",
                                      pool.name));
    }
    if (!section_.refused_a_value && pool.most && *pool.most < pool.ready) {
        report(pool.line, fmt::format("[pool {}] shall have {} ready and {} at the most, so they "
                                      "never are: lower ready or raise most",
                                      pool.name, pool.ready, *pool.most));
    }
}

// Of a name nobody could tell which pool it is of.
void Parser::check_pools() {
    for (auto pool = config_.pools.begin(); pool != config_.pools.end(); ++pool) {
        const auto earlier = std::find_if(config_.pools.begin(), pool, [&](const PoolConfig& each) {
            return each.pattern == pool->pattern;
        });
        if (earlier != pool) {
            report(pool->line,
                   fmt::format("[pool {}] names its forks {}, as [pool {}] in line {} does: give "
                               "one of them another name",
                               pool->name, pool->pattern, earlier->name, earlier->line));
        }
    }
}

Expected<Config> Parser::parse() {
    if (rest_.starts_with(kByteOrderMark)) {
        rest_.remove_prefix(kByteOrderMark.size());
    }
    const int refused = ini_parse_stream(on_reader, this, on_value, this);
    report_unanswered();
    close_section();
    check_floors();
    check_pools();
    if (problems_.empty() && (refused != 0 || !rest_.empty())) {
        report(line_, "the INI parser stopped here without saying why: simplify the line");
    }
    if (problems_.empty()) {
        return std::move(config_);
    }
    std::stable_sort(problems_.begin(), problems_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::string all;
    for (const auto& problem : problems_) {
        all += fmt::format("{}{}", all.empty() ? "" : "\n", problem.second);
    }
    return fail("{}", all);
}

// Closes a descriptor when it goes out of scope.
struct OpenFile {
    explicit OpenFile(const std::string& path)
        : fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
    ~OpenFile() {
        if (fd >= 0) {
            close(fd);
        }
    }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;

    int fd;
};

Expected<std::string> read_file(const std::string& path) {
    const OpenFile file(path);
    if (file.fd < 0) {
        const int code = errno;
        return fail_with(code, "cannot open {}: {}", path, std::strerror(code));
    }
    struct stat status {};
    if (fstat(file.fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        return fail_with(EINVAL, "{} is not a regular file: name the configuration file", path);
    }
    std::string text;
    char buffer[4096];
    for (;;) {
        const ssize_t r = read(file.fd, buffer, sizeof buffer);
        if (r < 0 && errno == EINTR) {
            continue;
        }
        if (r < 0) {
            const int code = errno;
            return fail_with(code, "cannot read {}: {}", path, std::strerror(code));
        }
        if (r == 0) {
            return text;
        }
        text.append(buffer, static_cast<std::size_t>(r));
        if (text.size() > kMaxFileBytes) {
            return fail_with(EFBIG, "{} is larger than {} bytes: is it the configuration file?",
                             path, kMaxFileBytes);
        }
    }
}

}  // namespace

ZoneConfig Config::zone(const std::string& name) const {
    for (const ZoneSection& section : sections) {
        if (matches(section.pattern, name)) {
            return merged(section.values, zone_defaults);
        }
    }
    return zone_defaults;
}

Expected<Config> parse_config(const std::string& text, const std::string& name) {
    return Parser(text, name).parse();
}

Expected<Config> load_config(const std::string& path) {
    const auto text = read_file(path);
    if (!text) {
        return tl::unexpected<Error>(text.error());
    }
    return parse_config(*text, path);
}

}  // namespace xenpack
