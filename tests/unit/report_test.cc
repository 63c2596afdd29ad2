// SPDX-License-Identifier: LGPL-2.1-or-later
// What report.h promises of a report's text form: each refusal by its own test, and the way back.
#include "watcher/pressure/report.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace xenpack {
namespace {

// The least a report may say. Tests put their own fields behind it.
const std::string kLeast = "1 why=psi n=17 up=93412 hb=30 tot=498112 av=81234";

std::string refusal(std::string_view text) {
    const auto report = parse_report(text);
    return report ? "accepted" : report.error().what;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(Report, ReadsTheExampleOfItsHeader) {
    const auto report = parse_report(
        "1 why=psi n=17 up=93412 hb=30 tot=498112 av=81234 swt=0 swf=0 si=0 rf=12 some=120034 "
        "full=900");
    ASSERT_TRUE(report) << report.error().what;
    EXPECT_EQ(report->why, ReportWhy::psi);
    EXPECT_EQ(report->sequence, 17U);
    EXPECT_EQ(report->uptime_ms, 93412U);
    EXPECT_EQ(report->heartbeat_s, 30U);
    EXPECT_EQ(report->total_kib, 498112U);
    EXPECT_EQ(report->available_kib, 81234U);
    EXPECT_EQ(report->swap_total_kib, 0U);
    EXPECT_EQ(report->swap_free_kib, 0U);
    EXPECT_EQ(report->swap_ins, 0U);
    EXPECT_EQ(report->refaults, 12U);
    EXPECT_EQ(report->some_us, 120034U);
    EXPECT_EQ(report->full_us, 900U);
}

TEST(Report, OptionalFieldsMayBeAbsent) {
    const auto report = parse_report(kLeast);
    ASSERT_TRUE(report) << report.error().what;
    EXPECT_EQ(report->swap_total_kib, 0U);
    EXPECT_EQ(report->refaults, 0U);
    EXPECT_FALSE(report->some_us);
    EXPECT_FALSE(report->full_us);
}

TEST(Report, FieldsComeInAnyOrder) {
    const auto report = parse_report("1 av=1 tot=2 hb=600 up=3 n=4 why=calm");
    ASSERT_TRUE(report) << report.error().what;
    EXPECT_EQ(report->why, ReportWhy::calm);
    EXPECT_EQ(report->total_kib, 2U);
}

TEST(Report, SkipsUnknownFields) {
    const auto report = parse_report("1 zz_9=word/with:marks " + kLeast.substr(2) + " later=5");
    ASSERT_TRUE(report) << report.error().what;
    EXPECT_EQ(report->sequence, 17U);
}

TEST(Report, ReadsEveryReason) {
    for (const ReportWhy why : {ReportWhy::start, ReportWhy::psi, ReportWhy::low, ReportWhy::change,
                                ReportWhy::calm, ReportWhy::heartbeat}) {
        const std::string text =
            replaced(kLeast, "why=psi", std::string("why=").append(name_of(why)));
        const auto report = parse_report(text);
        ASSERT_TRUE(report) << text;
        EXPECT_EQ(report->why, why);
    }
}

TEST(Report, LargestNumbersComeBackAndFitTheLimit) {
    constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
    const Report report{ReportWhy::heartbeat,
                        most,
                        most,
                        kHeartbeatMaxS,
                        most,
                        most,
                        most,
                        most,
                        most,
                        most,
                        most,
                        most,
                        most,
                        most};
    const std::string text = format_report(report);
    EXPECT_LE(text.size(), kReportMaxBytes);
    const auto again = parse_report(text);
    ASSERT_TRUE(again) << again.error().what;
    EXPECT_EQ(format_report(*again), text);
    EXPECT_EQ(again->total_kib, most);
    EXPECT_EQ(again->some_us, most);
    EXPECT_EQ(again->full_us, most);
}

TEST(Report, WithoutPressureNothingIsSaidOfIt) {
    Report report;
    report.heartbeat_s = 30;
    report.total_kib = 10;
    EXPECT_EQ(format_report(report),
              "1 why=start n=0 up=0 hb=30 tot=10 av=0 swt=0 swf=0 si=0 rf=0");
}

TEST(Report, AcceptsTheLongestTextAllowed) {
    std::string text = kLeast + " pad=";
    text.append(kReportMaxBytes - text.size(), 'x');
    EXPECT_TRUE(parse_report(text));
}

TEST(Report, AcceptsAsManyFieldsAsFit) {
    std::string text = kLeast;
    for (char a = 'a'; a <= 'z'; ++a) {
        for (char b = '0'; b <= '9' && text.size() + 5 <= kReportMaxBytes; ++b) {
            text.append({' ', a, b, '=', '1'});
        }
    }
    EXPECT_GT(text.size(), kReportMaxBytes - 5);
    EXPECT_TRUE(parse_report(text)) << refusal(text);
}

TEST(Report, RefusesOneByteTooMany) {
    std::string text = kLeast + " pad=";
    text.append(kReportMaxBytes + 1 - text.size(), 'x');
    EXPECT_EQ(refusal(text), "513 bytes long, the most allowed is 512");
}

TEST(Report, RefusesTwoKibibytesOfText) {
    EXPECT_EQ(refusal(std::string(2048, 'a')), "2048 bytes long, the most allowed is 512");
}

TEST(Report, RefusesEmptyText) {
    EXPECT_NE(refusal("").find("does not begin with"), std::string::npos);
}

TEST(Report, RefusesVersionAlone) {
    EXPECT_NE(refusal("1").find("does not begin with"), std::string::npos);
    EXPECT_EQ(refusal("1 "), "field 1 is not of the form name=value");
}

TEST(Report, RefusesOtherVersions) {
    EXPECT_NE(refusal(replaced(kLeast, "1 ", "2 ")).find("version"), std::string::npos);
    EXPECT_NE(refusal(replaced(kLeast, "1 ", "10 ")).find("version"), std::string::npos);
    EXPECT_NE(refusal(kLeast.substr(2)).find("version"), std::string::npos);
}

TEST(Report, RefusesSpaceBeforeVersion) {
    EXPECT_NE(refusal(" " + kLeast), "accepted");
}

TEST(Report, RefusesTrailingSpace) {
    EXPECT_EQ(refusal(kLeast + " "), "field 7 is not of the form name=value");
}

TEST(Report, RefusesTrailingNewline) {
    EXPECT_EQ(refusal(kLeast + "\n"), "field 6 is not of the form name=value");
}

TEST(Report, RefusesTwoSpaces) {
    EXPECT_EQ(refusal(replaced(kLeast, " n=", "  n=")), "field 2 is not of the form name=value");
}

TEST(Report, RefusesTabBetweenFields) {
    EXPECT_EQ(refusal(replaced(kLeast, " n=", "\tn=")), "field 1 is not of the form name=value");
}

TEST(Report, RefusesNulAtTheEnd) {
    EXPECT_EQ(refusal(kLeast + std::string(1, '\0')), "field 6 is not of the form name=value");
}

TEST(Report, RefusesNulInside) {
    EXPECT_EQ(refusal(kLeast + " x=" + std::string(1, '\0') + "1"),
              "field 7 is not of the form name=value");
    EXPECT_NE(refusal(std::string(64, '\0')), "accepted");
}

TEST(Report, RefusesBytesOutsideAscii) {
    EXPECT_EQ(refusal(kLeast + " x=\xc3\xa4"), "field 7 is not of the form name=value");
    EXPECT_EQ(refusal(kLeast + " x=\x7f"), "field 7 is not of the form name=value");
}

TEST(Report, RefusesWordWithoutEquals) {
    EXPECT_EQ(refusal(kLeast + " word"), "field 7 is not of the form name=value");
}

TEST(Report, RefusesEmptyName) {
    EXPECT_EQ(refusal(kLeast + " =1"), "field 7 is not of the form name=value");
}

TEST(Report, RefusesEmptyValue) {
    EXPECT_EQ(refusal(kLeast + " x="), "field 7 is not of the form name=value");
    EXPECT_EQ(refusal(replaced(kLeast, "n=17", "n=")), "field 2 is not of the form name=value");
}

TEST(Report, RefusesSecondEquals) {
    EXPECT_EQ(refusal(kLeast + " x=1=2"), "field 7 is not of the form name=value");
}

TEST(Report, RefusesCapitalNames) {
    EXPECT_EQ(refusal(kLeast + " X=1"), "field 7 is not of the form name=value");
}

TEST(Report, RefusesDuplicateField) {
    EXPECT_EQ(refusal(kLeast + " tot=498112"), "field 7 has the name of an earlier one");
}

TEST(Report, RefusesDuplicateUnknownField) {
    EXPECT_EQ(refusal(kLeast + " new=1 new=1"), "field 8 has the name of an earlier one");
}

TEST(Report, RefusesMissingReason) {
    EXPECT_EQ(refusal(replaced(kLeast, "why=psi ", "")), "why= is missing");
}

TEST(Report, RefusesUnknownReason) {
    EXPECT_EQ(refusal(replaced(kLeast, "why=psi", "why=greed")),
              "why= is none of start, psi, low, change, calm, heartbeat");
}

TEST(Report, RefusesReasonCutShort) {
    EXPECT_NE(refusal(replaced(kLeast, "why=psi", "why=ps")), "accepted");
}

TEST(Report, RefusesMissingSequence) {
    EXPECT_EQ(refusal(replaced(kLeast, "n=17 ", "")), "n= is missing");
}

TEST(Report, RefusesMissingUptime) {
    EXPECT_EQ(refusal(replaced(kLeast, "up=93412 ", "")), "up= is missing");
}

TEST(Report, RefusesMissingHeartbeat) {
    EXPECT_EQ(refusal(replaced(kLeast, "hb=30 ", "")), "hb= is missing");
}

TEST(Report, RefusesMissingTotal) {
    EXPECT_EQ(refusal(replaced(kLeast, "tot=498112 ", "")), "tot= is missing");
}

TEST(Report, RefusesMissingAvailable) {
    EXPECT_EQ(refusal(replaced(kLeast, " av=81234", "")), "av= is missing");
}

TEST(Report, RefusesNegativeNumbers) {
    EXPECT_EQ(refusal(replaced(kLeast, "av=81234", "av=-1")), "av= is not a decimal number");
}

TEST(Report, RefusesPlusSign) {
    EXPECT_EQ(refusal(replaced(kLeast, "av=81234", "av=+1")), "av= is not a decimal number");
}

TEST(Report, RefusesHexadecimal) {
    EXPECT_EQ(refusal(replaced(kLeast, "av=81234", "av=0x10")), "av= is not a decimal number");
}

TEST(Report, RefusesFractions) {
    EXPECT_EQ(refusal(replaced(kLeast, "av=81234", "av=8.5")), "av= is not a decimal number");
}

TEST(Report, RefusesUnitsBehindNumbers) {
    EXPECT_EQ(refusal(replaced(kLeast, "av=81234", "av=81234k")), "av= is not a decimal number");
}

TEST(Report, RefusesWordsForNumbers) {
    EXPECT_EQ(refusal(kLeast + " some=much"), "some= is not a decimal number");
    EXPECT_EQ(refusal(kLeast + " some=1 full=nan"), "full= is not a decimal number");
    EXPECT_EQ(refusal(kLeast + " rf=inf"), "rf= is not a decimal number");
}

TEST(Report, RefusesOverflow) {
    EXPECT_TRUE(parse_report(replaced(kLeast, "n=17", "n=18446744073709551615")));
    EXPECT_EQ(refusal(replaced(kLeast, "n=17", "n=18446744073709551616")), "n= is above 2^64-1");
    EXPECT_EQ(refusal(kLeast + " full=" + std::string(40, '9') + " some=1"),
              "full= is above 2^64-1");
}

TEST(Report, RefusesHeartbeatOutOfRange) {
    EXPECT_EQ(refusal(replaced(kLeast, "hb=30", "hb=0")), "hb=0 is outside of 1 to 600 seconds");
    EXPECT_EQ(refusal(replaced(kLeast, "hb=30", "hb=601")),
              "hb=601 is outside of 1 to 600 seconds");
    EXPECT_TRUE(parse_report(replaced(kLeast, "hb=30", "hb=1")));
    EXPECT_TRUE(parse_report(replaced(kLeast, "hb=30", "hb=600")));
}

TEST(Report, RefusesTotalOfZero) {
    EXPECT_EQ(refusal(replaced(kLeast, "tot=498112 av=81234", "tot=0 av=0")), "tot= is 0");
}

TEST(Report, RefusesMoreAvailableThanTotal) {
    EXPECT_EQ(refusal(replaced(kLeast, "av=81234", "av=498113")), "av=498113 is above tot=498112");
    EXPECT_TRUE(parse_report(replaced(kLeast, "av=81234", "av=498112")));
}

TEST(Report, RefusesMoreFreeThanTotal) {
    EXPECT_EQ(refusal(kLeast + " fr=498113"), "fr=498113 is above tot=498112");
    EXPECT_EQ(parse_report(kLeast + " fr=498112")->free_kib, 498112U);
    EXPECT_FALSE(parse_report(kLeast)->free_kib);
}

TEST(Report, RefusesABrakeThatKeepsMoreThanThereIs) {
    EXPECT_EQ(refusal(kLeast + " brk=498113"), "brk=498113 is above tot=498112");
    EXPECT_EQ(parse_report(kLeast + " brk=31132")->brake_kib, 31132U);
}

TEST(Report, RefusesMoreFreeSwapThanSwap) {
    EXPECT_EQ(refusal(kLeast + " swt=4 swf=5"), "swf=5 is above swt=4");
    EXPECT_EQ(refusal(kLeast + " swf=5"), "swf=5 is above swt=0");
    EXPECT_TRUE(parse_report(kLeast + " swt=5 swf=5"));
}

TEST(Report, RefusesFullWithoutSome) {
    EXPECT_EQ(refusal(kLeast + " full=0"), "full= without some=");
    EXPECT_TRUE(parse_report(kLeast + " some=0"));
}

TEST(Report, RefusalsRepeatNoGuestText) {
    const std::string escape = "\x1b[2J";
    for (const std::string& text : {escape, "1 " + escape, kLeast + " x=" + escape,
                                    replaced(kLeast, "why=psi", "why=evil\"text")}) {
        EXPECT_EQ(refusal(text).find('\x1b'), std::string::npos);
        EXPECT_EQ(refusal(text).find("evil"), std::string::npos);
        EXPECT_NE(refusal(text), "accepted");
    }
}

}  // namespace
}  // namespace xenpack
