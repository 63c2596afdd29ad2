// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/config/config.h promises, above all: no file is read as something else than it says.
// Also holds the sample file and the man page against the table of keys.
#include "watcher/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <algorithm>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "watcher/config/keys.h"

namespace xenpack {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::uint64_t kMib = 1024;
constexpr std::uint64_t kGib = 1024 * kMib;

Config parsed(const std::string& text) {
    const auto config = parse_config(text, "x.conf");
    EXPECT_TRUE(config) << (config ? "" : config.error().what);
    return config.value_or(Config{});
}

// The error of a text that must be refused.
std::string refusal(const std::string& text) {
    const auto config = parse_config(text, "x.conf");
    EXPECT_FALSE(config) << text;
    return config ? "" : config.error().what;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        lines.push_back(line);
    }
    return lines;
}

// A file of the source tree, from whose top the tests are run.
std::string tree_file(const std::string& path) {
    std::ifstream file(path);
    EXPECT_TRUE(file) << path << ": run the tests from the top of the tree";
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Size, IsANumberAndAUnit) {
    EXPECT_EQ(parse_size_kib("65536K").value(), 65536u);
    EXPECT_EQ(parse_size_kib("512M").value(), 512 * kMib);
    EXPECT_EQ(parse_size_kib("1.5G").value(), 1536 * kMib);
    EXPECT_EQ(parse_size_kib("0.25M").value(), 256u);
    EXPECT_EQ(parse_size_kib("1T").value(), 1024 * kGib);
    EXPECT_EQ(parse_size_kib("0M").value(), 0u);
    EXPECT_EQ(parse_size_kib("1024T").value(), kMaxSizeKib);
}

TEST(Size, RefusesWhatIsNotExactlyThat) {
    for (const char* text : {"",
                             "512",
                             "M",
                             "12abcM",
                             "512m",
                             "512MB",
                             "512 M",
                             " 512M",
                             "512M ",
                             "-1M",
                             "+1M",
                             "1.M",
                             ".5M",
                             "1.5K",
                             "1.2.3M",
                             "1,5G",
                             "0x10M",
                             "1e3M",
                             "1.2345G",
                             "1.-5M",
                             "1025T",
                             "18446744073709551616K",
                             "99999999999999999999999T",
                             "18014398509481985M"}) {
        EXPECT_FALSE(parse_size_kib(text)) << text;
    }
    EXPECT_FALSE(parse_size_kib(std::string_view("1\0M", 3)));
}

TEST(Config, AnEmptyFileMeansTheDefaults) {
    const Config config = parsed("");
    EXPECT_FALSE(config.reserve);
    EXPECT_EQ(config.emergency_kib, 72 * kMib);
    EXPECT_EQ(config.dom0_floor_kib, 512 * kMib);
    EXPECT_EQ(config.fork_reserve_kib, 8 * kMib);
    EXPECT_EQ(config.socket_path, "/run/xenpack/xenpack.sock");
    EXPECT_EQ(config.toolstack, "libxl");
    EXPECT_FALSE(config.zone("web").floor_kib);
}

TEST(Config, TakesEveryKey) {
    const Config config = parsed(
        "[host]\nreserve = 2G\nemergency = 64M\ndom0-floor = 1G\nfork-reserve = 12M\n"
        "[daemon]\ntoolstack = sim\nsocket = /run/other.sock\n"
        "[zone]\nfloor = 128M\nceiling = 4G\nweight = 50\nheadroom = 30%\nmanage = no\n"
        "[zone web-*]\nmanage = yes\nfloor = 256M\nceiling = 2G\nweight = 10000\nheadroom = 5%\n");
    EXPECT_EQ(config.reserve->of(100 * kGib), 2 * kGib);
    EXPECT_EQ(config.emergency_kib, 64 * kMib);
    EXPECT_EQ(config.dom0_floor_kib, kGib);
    EXPECT_EQ(config.fork_reserve_kib, 12 * kMib);
    EXPECT_EQ(config.toolstack, "sim");
    EXPECT_EQ(config.socket_path, "/run/other.sock");
    const ZoneConfig web = config.zone("web-1");
    EXPECT_EQ(web.manage, true);
    EXPECT_EQ(web.floor_kib, 256 * kMib);
    EXPECT_EQ(web.ceiling_kib, 2 * kGib);
    EXPECT_EQ(web.weight, 10000u);
    EXPECT_EQ(web.headroom_percent, 5u);
    const ZoneConfig other = config.zone("db");
    EXPECT_EQ(other.manage, false);
    EXPECT_EQ(other.floor_kib, 128 * kMib);
    EXPECT_EQ(other.weight, 50u);
}

TEST(Config, APoolHasATemplateAndDefaults) {
    const Config config = parsed(
        "[pool jobs]\ntemplate = base\n"
        "[pool db]\ntemplate = db.1\nready = 0\nmost = 4096\nname = x%d.y\nkeep = running\n");
    ASSERT_EQ(config.pools.size(), 2u);
    EXPECT_EQ(config.pools[0].name, "jobs");
    EXPECT_EQ(config.pools[0].template_name, "base");
    EXPECT_EQ(config.pools[0].ready, 1u);
    EXPECT_FALSE(config.pools[0].most);
    EXPECT_EQ(config.pools[0].pattern, "jobs-%d");
    EXPECT_FALSE(config.pools[0].running);
    EXPECT_EQ(config.pools[1].line, 3);
    EXPECT_EQ(config.pools[1].ready, 0u);
    EXPECT_EQ(config.pools[1].most, 4096u);
    EXPECT_EQ(config.pools[1].pattern, "x%d.y");
    EXPECT_TRUE(config.pools[1].running);
}

TEST(Config, RefusesAPoolThatCanNeverBeFull) {
    EXPECT_THAT(refusal("[pool a]\nready = 2\n"), HasSubstr("x.conf:1: [pool a] has no template"));
    EXPECT_THAT(refusal("[pool a]\ntemplate = t\nready = 3\nmost = 2\n"),
                HasSubstr("x.conf:1: [pool a] shall have 3 ready and 2 at the most"));
    for (const char* title :
         {"[pool]", "[pool a b]", "[pool 7]", "[pool a/b]", "[pool %d]", "[pool .]", "[pool -x]"}) {
        EXPECT_THAT(refusal(std::string(title) + "\ntemplate = t\n"),
                    HasSubstr("is no name for a pool"))
            << title;
    }
    EXPECT_THAT(refusal("[pool a]\ntemplate = t\n[pool a]\ntemplate = t\n"),
                HasSubstr("given twice"));
}

TEST(Config, RefusesPoolsThatNameTheirForksAlike) {
    EXPECT_THAT(refusal("[pool a]\ntemplate = t\nname = b-%d\n[pool b]\ntemplate = t\n"),
                "x.conf:4: [pool b] names its forks b-%d, as [pool a] in line 1 does: give one of "
                "them another name");
}

TEST(Config, OfAPoolsBadValueOneThingIsSaid) {
    for (const char* line :
         {"template = 12", "template =", "template = a #b", "template = t\nready = x\nmost = 0"}) {
        const std::string said = refusal(std::string("[pool p]\n") + line + "\n");
        EXPECT_EQ(std::ranges::count(said, '\n'), 0) << said;
    }
    EXPECT_THAT(refusal("[pool p]\ntemplate = 12\n"), HasSubstr("and not digits alone"));
    EXPECT_FALSE(parsed("[pool p]\ntemplate = t\nname = %d-x\n").pools.empty());
}

TEST(Config, RefusesBadValuesOfAPool) {
    for (const char* line : {"template = 12", "template = a/b", "template = -a", "name = -%d",
                             "ready = -1", "ready = 4097", "most = x", "name = job", "name = %d",
                             "name = a%d%d", "name = a%s%d", "name = a/%d", "keep = stopped"}) {
        EXPECT_THAT(refusal(std::string("[pool p]\n") + line + "\n"), HasSubstr("x.conf:2: "))
            << line;
    }
}

TEST(Config, AZoneMayNotForkItselfUnlessItIsSaid) {
    EXPECT_FALSE(parsed("").zone("web").self_forks);
    EXPECT_EQ(parsed("[zone]\nself-forks = 3\n").zone("web").self_forks, 3u);
    const Config config = parsed("[zone]\nself-forks = 3\n[zone web]\nself-forks = 0\n");
    EXPECT_EQ(config.zone("web").self_forks, 0u);
    EXPECT_THAT(refusal("[zone]\nself-forks = 257\n"), HasSubstr("from 0 to 256"));
}

TEST(Config, APercentageOfTheHostIsTakenFromItsSize) {
    EXPECT_EQ(parsed("[host]\nreserve = 25%\n").reserve->of(8 * kGib), 2 * kGib - 2 * kGib % 25);
    EXPECT_EQ(parsed("[host]\nreserve = 0%\n").reserve->of(8 * kGib), 0u);
    EXPECT_FALSE(parsed("[host]\nreserve = auto\n").reserve);
}

TEST(Config, OnlyTheFirstMatchingSectionAppliesOverTheDefaults) {
    const Config config = parsed(
        "[zone]\nweight = 7\n[zone web-1]\nfloor = 1G\n[zone web-*]\nweight = 9\nfloor = 2G\n");
    EXPECT_EQ(config.zone("web-1").floor_kib, kGib);
    EXPECT_EQ(config.zone("web-1").weight, 7u);
    EXPECT_EQ(config.zone("web-2").floor_kib, 2 * kGib);
    EXPECT_EQ(config.zone("web-2").weight, 9u);
    EXPECT_EQ(config.zone("xweb-2").weight, 7u);
}

TEST(Config, PatternsMayHoldBracketsBlanksAndLongNames) {
    const std::string long_name(120, 'n');
    const Config config = parsed("[zone web[0-9]]\nweight = 2\n[zone a b]\nweight = 3\n[zone " +
                                 long_name + "x]\nweight = 4\n[zone q\\[1]\nweight = 5\n");
    EXPECT_EQ(config.zone("web5").weight, 2u);
    EXPECT_EQ(config.zone("a b").weight, 3u);
    EXPECT_EQ(config.zone(long_name + "x").weight, 4u);
    EXPECT_FALSE(config.zone(long_name + "y").weight);
    EXPECT_EQ(config.zone("q[1").weight, 5u);
}

TEST(Config, TakesCommentsBlankLinesIndentationAndForeignLineEnds) {
    const Config config = parsed(
        "\xEF\xBB\xBF# head\r\n; head\r\n\r\n  [zone]  ; the others\r\n"
        "\tweight\t=  7 ; seven\r\n   floor=1G\r\n");
    EXPECT_EQ(config.zone_defaults.weight, 7u);
    EXPECT_EQ(config.zone_defaults.floor_kib, kGib);
}

TEST(Config, AnIndentedLineIsNeverPartOfTheValueBefore) {
    const Config config = parsed("[zone]\nweight = 7\n    floor = 1G\n");
    EXPECT_EQ(config.zone_defaults.floor_kib, kGib);
    EXPECT_THAT(refusal("[daemon]\nsocket = /run/a\n    and-more\n"), StartsWith("x.conf:3: "));
}

TEST(Config, RefusesNumbersWithATail) {
    EXPECT_THAT(refusal("[zone]\nweight = 12abc\n"), StartsWith("x.conf:2: weight: '12abc'"));
    EXPECT_THAT(refusal("[zone]\nheadroom = 12\n"), HasSubstr("'12' is not a percentage"));
    EXPECT_THAT(refusal("[zone]\nfloor = 512\n"), HasSubstr("'512' is not a size"));
    EXPECT_THAT(refusal("[zone]\nfloor = 512\n"), HasSubstr("as in 512M"));
    EXPECT_THAT(refusal("[host]\nstart-reserve = 0\n"), HasSubstr("'0' lacks its unit"));
    EXPECT_THAT(refusal("[host]\nreserve = 5\n"), HasSubstr("as in 5M, or"));
    EXPECT_THAT(refusal("[zone]\nmanage = maybe\n"), HasSubstr("neither yes nor no"));
}

TEST(Config, RefusesValuesOutOfRange) {
    for (const char* line : {"weight = 0", "weight = 10001", "weight = -1", "headroom = 4%",
                             "headroom = 101%", "ceiling = 0M", "floor = 2000T", "manage = Yes"}) {
        EXPECT_THAT(refusal(std::string("[zone]\n") + line + "\n"), StartsWith("x.conf:2: "))
            << line;
    }
    for (const char* line :
         {"reserve = 101%", "reserve = 5", "emergency = 10%", "dom0-floor = no"}) {
        EXPECT_THAT(refusal(std::string("[host]\n") + line + "\n"), StartsWith("x.conf:2: "))
            << line;
    }
    for (const char* line :
         {"socket = run/x", "socket = /run/", "toolstack = ../x.so", "toolstack = \"libxl\""}) {
        EXPECT_THAT(refusal(std::string("[daemon]\n") + line + "\n"), StartsWith("x.conf:2: "))
            << line;
    }
    EXPECT_THAT(refusal("[daemon]\nsocket = /" + std::string(107, 'x') + "\n"), HasSubstr("107"));
}

TEST(Config, RefusesUnknownSectionsAndKeys) {
    EXPECT_THAT(refusal("[hosts]\n"), HasSubstr("no section is called [hosts]"));
    EXPECT_THAT(refusal("[host web]\n"), HasSubstr("no section is called [host web]"));
    EXPECT_THAT(refusal("[]\n"), HasSubstr("no section is called []"));
    EXPECT_THAT(refusal("[zone]\nflor = 1G\n"),
                HasSubstr("no key 'flor': it has manage, floor, ceiling, weight, headroom"));
    EXPECT_THAT(refusal("[zone]\nreserve = 1G\n"), HasSubstr("no key 'reserve'"));
    EXPECT_THAT(refusal("[zone]\nFloor = 1G\n"), HasSubstr("no key 'Floor'"));
    EXPECT_THAT(refusal("floor = 1G\n"), StartsWith("x.conf:1: stands before any section"));
}

TEST(Config, RefusesWhatIsGivenTwice) {
    EXPECT_THAT(refusal("[zone]\nfloor = 1G\nfloor = 1G\n"),
                HasSubstr("x.conf:3: floor is given twice in [zone], first in line 2"));
    EXPECT_THAT(refusal("[host]\n[zone]\n[host]\n"), StartsWith("x.conf:3: section [host]"));
    EXPECT_THAT(refusal("[zone a]\n[zone  a ]\n"), StartsWith("x.conf:2: section [zone a]"));
}

TEST(Config, RefusesLinesThatAreNeitherSectionNorValue) {
    EXPECT_THAT(refusal("[zone]\nfloor 1G\n"), StartsWith("x.conf:2: neither"));
    EXPECT_THAT(refusal("[zone]\nfloor ; = 1G\n"), StartsWith("x.conf:2: neither"));
    EXPECT_THAT(refusal("[zone]\nfloor =\n"), StartsWith("x.conf:2: floor has no value"));
    EXPECT_THAT(refusal("[zone]\nfloor = ; 1G\n"), StartsWith("x.conf:2: floor has no value"));
    EXPECT_THAT(refusal("[zone web\n"), StartsWith("x.conf:1: a section without"));
    EXPECT_THAT(refusal("[zone web] weight = 3\n"), StartsWith("x.conf:1: a section without"));
    EXPECT_THAT(refusal("[zone]\n\nnonsense"), StartsWith("x.conf:3: neither"));
}

TEST(Config, RefusesHashCommentsBehindText) {
    EXPECT_THAT(refusal("[daemon]\nsocket = /run/x # here\n"), HasSubstr("begins with ; and not"));
    EXPECT_THAT(refusal("[zone web] # [1]\n"), HasSubstr("begins with ; and not"));
}

TEST(Config, RefusesLongLinesInsteadOfCuttingThem) {
    const std::string blanks(300, ' ');
    EXPECT_THAT(refusal("[daemon]\nsocket =" + blanks + "/run/x\n"),
                StartsWith("x.conf:2: longer than"));
    EXPECT_EQ(parsed("# " + std::string(5000, 'c') + "\n[zone]\nweight = 7\n").zone("a").weight,
              7u);
}

TEST(Config, RefusesControlCharactersAndNuls) {
    EXPECT_THAT(refusal(std::string("[zone]\nweight = 7\0 9\n", 21)),
                HasSubstr("x.conf:2: holds a control character"));
    EXPECT_THAT(refusal("[zone \x1b[31m]\n"), HasSubstr("control character"));
    EXPECT_THAT(refusal("[zone]\nfloor\r= 1G\n"), HasSubstr("control character"));
}

TEST(Config, RefusesPatternsThatCannotMeanWhatTheySay) {
    EXPECT_THAT(refusal("[zone web[0-9]\nweight = 2\n"), HasSubstr("a [ without its ]"));
    EXPECT_THAT(refusal("[zone web\\]\n"), HasSubstr("escapes nothing"));
    EXPECT_THAT(refusal("[zone *]\n[zone web]\n"), HasSubstr("[zone web] never applies"));
    EXPECT_THAT(refusal("[zone w*]\n[zone web]\n"), HasSubstr("[zone w*] in line 1 matches first"));
    parsed("[zone web]\n[zone w*]\n[zone *]\n");
}

TEST(Config, RefusesAFloorAboveTheCeiling) {
    EXPECT_THAT(refusal("[zone]\nfloor = 2G\nceiling = 1G\n"), StartsWith("x.conf:2: [zone]"));
    EXPECT_THAT(refusal("[zone a]\nceiling = 1G\nfloor = 1025M\n"),
                StartsWith("x.conf:3: [zone a]"));
    parsed("[zone a]\nceiling = 1G\nfloor = 1G\n");
}

TEST(Config, RefusesAFloorAboveAnInheritedCeiling) {
    EXPECT_THAT(refusal("[zone a]\nfloor = 2G\n[zone]\nceiling = 1G\n"),
                StartsWith("x.conf:2: [zone a] has a floor"));
    EXPECT_THAT(refusal("[zone]\nfloor = 2G\n[zone a]\nceiling = 1G\n"),
                StartsWith("x.conf:4: [zone a] has a floor"));
    EXPECT_EQ(lines_of(refusal("[zone]\nfloor = 2G\nceiling = 1G\n[zone a]\nweight = 3\n")).size(),
              1u);
}

TEST(Config, NamesEveryProblemInOneErrorInTheFilesOrder) {
    const auto problems = lines_of(
        refusal("[hots]\nanything\n[zone]\nfloor = 2\nweight = x\nnonsense\n[zone a]\nfloor = 3G\n"
                "ceiling = 1G\nlast"));
    ASSERT_EQ(problems.size(), 6u);
    const int expected[] = {1, 4, 5, 6, 8, 10};
    for (std::size_t i = 0; i < problems.size(); ++i) {
        EXPECT_THAT(problems[i], StartsWith(fmt::format("x.conf:{}: ", expected[i])));
    }
}

TEST(Config, LoadingSaysWhichFileCannotBeRead) {
    const auto missing = load_config("/nonexistent/xenpack.conf");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ENOENT);
    EXPECT_THAT(missing.error().what, HasSubstr("/nonexistent/xenpack.conf"));
    const auto directory = load_config("/");
    ASSERT_FALSE(directory);
    EXPECT_THAT(directory.error().what, HasSubstr("not a regular file"));
}

TEST(Config, LoadingReadsTheWholeFile) {
    const auto path = std::filesystem::temp_directory_path() /
                      ("xenpack-config-test-" + std::to_string(getpid()));
    std::ofstream(path) << std::string(20000, '\n') << "[zone]\nweight = 77\n";
    const auto config = load_config(path);
    std::filesystem::remove(path);
    ASSERT_TRUE(config);
    EXPECT_EQ(config->zone("any").weight, 77u);
}

// ---- the documentation ----

using Keys = std::set<std::pair<std::string, std::string>>;

Keys keys_of_parser() {
    Keys keys;
    for (const ConfigKey& key : config_keys()) {
        keys.emplace(name_of(key.section), key.name);
    }
    return keys;
}

// The sample file shows each key in lines "#key = value", below the section it belongs to.
struct Sample {
    Keys keys;
    std::string uncommented;
};

Sample read_sample() {
    Sample sample;
    std::string section;
    for (const std::string& line : lines_of(tree_file("etc/xenpack.conf"))) {
        const bool is_example = line.size() > 1 && line[0] == '#' && line[1] != ' ';
        const std::string bare = is_example ? line.substr(1) : line;
        if (bare.starts_with('[')) {
            const std::size_t end = bare.find_first_of(" ]");
            section = bare.substr(1, end - 1);
        } else if (const std::size_t at = bare.find(" ="); at != std::string::npos && is_example) {
            sample.keys.emplace(section, bare.substr(0, at));
        }
        sample.uncommented += bare + "\n";
    }
    return sample;
}

TEST(Documentation, TheSampleFileShowsEveryKeyAndNoOther) {
    EXPECT_EQ(read_sample().keys, keys_of_parser());
}

TEST(Documentation, TheSampleFileIsGoodAsItIsAndMeansTheDefaults) {
    const Config config = parsed(tree_file("etc/xenpack.conf"));
    const Config defaults;
    EXPECT_EQ(config.reserve.has_value(), defaults.reserve.has_value());
    EXPECT_EQ(config.emergency_kib, defaults.emergency_kib);
    EXPECT_EQ(config.socket_path, defaults.socket_path);
    EXPECT_TRUE(config.sections.empty());
}

TEST(Documentation, TheSampleFilesExamplesAreGoodAndShowTheDefaults) {
    const Config config = parsed(read_sample().uncommented);
    const Config defaults;
    EXPECT_EQ(config.reserve.has_value(), defaults.reserve.has_value());
    EXPECT_EQ(config.emergency_kib, defaults.emergency_kib);
    EXPECT_EQ(config.dom0_floor_kib, defaults.dom0_floor_kib);
    EXPECT_EQ(config.toolstack, defaults.toolstack);
    EXPECT_EQ(config.socket_path, defaults.socket_path);
    EXPECT_EQ(config.zone_defaults.weight, kDefaultWeight);
    EXPECT_EQ(config.zone_defaults.headroom_percent, kDefaultHeadroomPercent);
}

// The man page has a heading "## Section [zone]..." and each key as "*key* = _VALUE_".
TEST(Documentation, TheManPageDescribesEveryKeyAndNoOther) {
    Keys described;
    std::string section;
    for (const std::string& line : lines_of(tree_file("etc/man/xenpack.conf.5.scd"))) {
        if (line.starts_with("# ")) {
            section.clear();
            if (line.starts_with("# SECTION")) {
                section = line.substr(line.find('[') + 1);
                section = section.substr(0, section.find_first_of(" ]"));
            }
        } else if (line.starts_with('*') && !section.empty()) {
            const std::size_t end = line.find("* =");
            ASSERT_NE(end, std::string::npos) << line;
            described.emplace(section, line.substr(1, end - 1));
        }
    }
    EXPECT_EQ(described, keys_of_parser());
}

}  // namespace
}  // namespace xenpack
