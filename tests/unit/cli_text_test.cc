// SPDX-License-Identifier: LGPL-2.1-or-later
// What watcher/cli/text.h, quantity.h and table.h promise: nothing from outside steers a terminal,
// and columns stay columns.
#include "watcher/cli/text.h"

#include <gtest/gtest.h>

#include "watcher/cli/quantity.h"
#include "watcher/cli/table.h"

namespace xenpack {
namespace {

TEST(Escaped, LeavesReadableTextAlone) {
    EXPECT_EQ(escaped("web-1 is 100% \"idle\""), "web-1 is 100% \"idle\"");
    EXPECT_EQ(escaped("büro-日本-😀"), "büro-日本-😀");
    EXPECT_EQ(escaped(""), "");
}

TEST(Escaped, ShowsControlCharactersInsteadOfObeyingThem) {
    EXPECT_EQ(escaped("a\x1b[2Jb"), "a\\x1b[2Jb");
    EXPECT_EQ(escaped("a\r\n\tb\x7f"), "a\\x0d\\x0a\\x09b\\x7f");
    EXPECT_EQ(escaped(std::string_view("a\0b", 3)), "a\\x00b");
    EXPECT_EQ(escaped("\xc2\x9b"
                      "2J"),
              "\\u{009b}2J");
}

TEST(Escaped, ShowsWhatIsInvisibleOrTurnsTheDirection) {
    EXPECT_EQ(escaped("a\u202e\u200b\u2066\ufeffb"), "a\\u{202e}\\u{200b}\\u{2066}\\u{feff}b");
    EXPECT_EQ(escaped("a\U000e0041"), "a\\u{e0041}");
}

TEST(Escaped, CannotBeMistakenForAnEscape) {
    EXPECT_EQ(escaped("\\x1b"), "\\\\x1b");
}

TEST(Escaped, ShowsBytesThatAreNotUtf8) {
    EXPECT_EQ(escaped("\xff\xc3"), "\\xff\\xc3");
    EXPECT_EQ(escaped("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
    EXPECT_EQ(escaped("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
    EXPECT_EQ(escaped("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
    EXPECT_EQ(escaped("\xe2\x82"
                      "a"),
              "\\xe2\\x82a");  // cut short
}

TEST(Escaped, KeepsTheLinesOfSeveral) {
    EXPECT_EQ(escaped_lines("a\tb\nc\x1b\n"), "a\\x09b\nc\\x1b\n");
}

TEST(CutTo, LosesNothingThatFits) {
    EXPECT_EQ(cut_to("abcdef", 6), "abcdef");
    EXPECT_EQ(cut_to("büro", 4), "büro");
}

TEST(CutTo, SaysThatSomethingIsLost) {
    EXPECT_EQ(cut_to("abcdefgh", 6), "abc...");
    EXPECT_EQ(cut_to("äöüäöüäö", 6), "äöü...");
    EXPECT_EQ(cut_to("abcdef", 3), "...");
    EXPECT_EQ(cut_to("abcdef", 1), ".");
    EXPECT_EQ(cut_to("abcdef", 0), "");
}

TEST(ShowSize, HasAUnitAndADecimalOnlyIfNeeded) {
    EXPECT_EQ(show_size(0), "0M");
    EXPECT_EQ(show_size(40), "40K");
    EXPECT_EQ(show_size(1024), "1M");
    EXPECT_EQ(show_size(512 * 1024), "512M");
    EXPECT_EQ(show_size(512 * 1024 + 512), "512.5M");
    EXPECT_EQ(show_size(512 * 1024 + 4), "512M");
    EXPECT_EQ(show_size(512 * 1024 - 4), "512M");
    EXPECT_EQ(show_size(1536 * 1024), "1536M");
    EXPECT_EQ(show_size(2 * 1024 * 1024), "2G");
    EXPECT_EQ(show_size(32'890'000), "31.4G");
    EXPECT_EQ(show_size(std::uint64_t{1} << 40), "1048576G");
}

TEST(ShowAge, HasOneUnit) {
    EXPECT_EQ(show_age(999), "0s");
    EXPECT_EQ(show_age(59'999), "59s");
    EXPECT_EQ(show_age(60'000), "1m");
    EXPECT_EQ(show_age(7'199'999), "1h");
    EXPECT_EQ(show_age(3 * 86'400'000), "3d");
}

Table sample() {
    Table table(
        {{"NAME", Table::Align::left}, {"SIZE", Table::Align::right}, {"WHY", Table::Align::left}});
    table.add_row({{"web"}, {"512M"}, {"it uses more than it has"}});
    table.add_row({{"database"}, {"2G"}, {""}});
    return table;
}

TEST(TableTest, AlignsColumnsAndEndsLinesWithoutBlanks) {
    EXPECT_EQ(sample().render({}),
              "NAME      SIZE  WHY\n"
              "web       512M  it uses more than it has\n"
              "database    2G\n");
}

TEST(TableTest, CutsOnlyTheLastColumnToTheScreen) {
    EXPECT_EQ(sample().render({.width = 24}),
              "NAME      SIZE  WHY\n"
              "web       512M  it us...\n"
              "database    2G\n");
    EXPECT_EQ(sample().render({.width = 5}),
              "NAME      SIZE  WHY\n"
              "web       512M  ...\n"
              "database    2G\n");
}

TEST(TableTest, ColoursTakeNoWidth) {
    Table table({{"A", Table::Align::left}, {"B", Table::Align::left}});
    table.add_row({{"x", Colour::red}, {"y"}});
    EXPECT_EQ(table.render({.colours = true}),
              "\033[2mA\033[0m  \033[2mB\033[0m\n\033[31mx\033[0m  y\n");
    EXPECT_EQ(table.render({.colours = false}), "A  B\nx  y\n");
}

}  // namespace
}  // namespace xenpack
