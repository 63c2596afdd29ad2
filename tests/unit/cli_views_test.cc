// SPDX-License-Identifier: LGPL-2.1-or-later
// How the command line shows the daemon's JSON: status_view.h, event_view.h and config_view.h, and
// what it makes of the options of `xenpack set`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "watcher/cli/account_view.h"
#include "watcher/cli/config_view.h"
#include "watcher/cli/event_view.h"
#include "watcher/cli/start_request.h"
#include "watcher/cli/status_view.h"
#include "watcher/cli/zone_settings.h"

namespace xenpack {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

json sample_status() {
    return json::parse(R"json({
      "version": "0.1.0",
      "host": {"total_kib": 16777216, "free_kib": 1258291, "spendable_kib": 921600,
               "reserve_kib": 1677721, "state": "tight", "toolstack": "libxl (Xen 4.17)",
               "faults": ["dom0 is below its floor"]},
      "dom0": {"current_kib": 1048576, "floor_kib": 524288},
      "zones": [
        {"name": "web", "domid": 3, "state": "growing", "target_kib": 786432,
         "current_kib": 524288, "demand_kib": 800000, "pressure_percent": 12.5,
         "floor_kib": 262144, "ceiling_kib": 2097152, "reason": "uses 600 MiB of 512",
         "reason_age_ms": 3200, "faults": []},
        {"name": "db\u001b[2J", "domid": 4, "state": "garbled", "target_kib": null,
         "current_kib": 524288, "demand_kib": null, "pressure_percent": null,
         "floor_kib": 262144, "ceiling_kib": 2097152, "reason": "", "reason_age_ms": null,
         "faults": ["its report is\nno report"]}],
      "reservations": [
        {"id": 7, "owner": "mail\u001b[2J", "pid": 812, "uuid": null, "size_kib": 626688,
         "overhead_kib": 0, "state": "granted", "held_kib": 524288, "deadline_in_ms": 540000}],
      "unmanaged": [{"name": "old", "domid": 5, "current_kib": 1048576,
                     "why": "maxmem is not above memory"}]
})json");
}

json sample_account() {
    return json::parse(R"json({
      "host": {"total_kib": 4194304, "dom0_kib": 819200, "zones_kib": 524288, "forks_kib": 3072,
               "templates_kib": 51200, "others_kib": 0, "shared_kib": 204800, "saved_kib": 102400,
               "paging_kib": 4096, "records_kib": 369, "map_kib": 40960, "free_kib": 2545535,
               "claimed_kib": 0, "promised_to_starts_kib": 65536, "remainder_kib": 784,
               "at_rest": true},
      "nodes": [{"node": 0, "size_kib": 2097152, "free_kib": 1272767, "cpus": 2,
                 "distances": [10, 20]},
                {"node": 2, "size_kib": 2097152, "free_kib": 1272768, "cpus": 2,
                 "distances": [20, 10]}],
      "domains": [
        {"name": "base\u001b[2J", "domid": 3, "kind": "template", "own_kib": 51200,
         "shared_kib": 204800, "paging_kib": 1024, "records_kib": 123, "takes_kib": 52347,
         "frees_kib": null, "sized_kib": 262144, "nodes": [0, 2]}],
      "families": [{"template": "base\u001b[2J", "domid": 3, "forks": 1, "shared_kib": 204800,
                    "takes_kib": 261120, "sized_kib": 524288}]
})json");
}

json sample_families() {
    return json::parse(R"json({
      "templates": [{"name": "base\u001b[2J", "domid": 3, "state": "sealed", "identity": "guest",
                     "children": 2, "memory_kib": 65536, "shared_kib": 1024}],
      "unmanaged": [
        {"name": "job-1", "domid": 4, "current_kib": 2048, "why": "a fork", "template": "base",
         "fork_state": "complete", "ready": true, "shared_kib": 63488},
        {"name": "job-2", "domid": 5, "current_kib": 3072, "why": "a fork", "template": "base",
         "fork_state": "complete", "ready": false, "shared_kib": 62464}]
})json");
}

TEST(StatusView, ShowsTemplatesAndForksApartFromWhatIsNotManaged) {
    json status = sample_status();
    status["templates"] = sample_families()["templates"];
    const json forks = sample_families()["unmanaged"];
    for (const json& fork : forks) {
        status["unmanaged"].push_back(fork);
    }
    const std::string text = render_status(status, {});
    EXPECT_THAT(text, HasSubstr("\ntemplates:\n  base\\x1b[2J (3)  sealed  64M  forks: 2\n"
                                "\nforks:\n"
                                "  job-1 (4)  2M of its own  ready, of base\n"
                                "  job-2 (5)  3M of its own  not ready, of base\n"));
    EXPECT_THAT(text, HasSubstr("not managed:\n  old (5)  1G  maxmem is not above memory\n"));
}

TEST(AccountView, ShowsWhoHasWhatAndWhatThatAddsUpTo) {
    EXPECT_EQ(render_account(sample_account(), {}),
              "DOMAIN       DOMID  KIND      OWN  SHARED  PAGING   XEN  TAKES  FREES  NODES\n"
              "base\\x1b[2J      3  template  50M    200M      1M  123K  51.1M      -  0,2\n"
              "\nfamilies:\n"
              "  base\\x1b[2J and 1 of its forks  255M for 512M, 200M of it shared\n"
              "\nNODE  SIZE     FREE  CPUS  DISTANCES\n"
              "   0    2G  1242.9M     2  10,20\n"
              "   2    2G  1242.9M     2  20,10\n"
              "\nhost  4G\n"
              "        800M   19.53%  dom0\n"
              "        512M   12.50%  zones\n"
              "          3M    0.07%  forks, their own pages\n"
              "         50M    1.22%  templates, their own pages\n"
              "        200M    4.88%  shared by templates and forks: 100M more without sharing\n"
              "          4M    0.10%  the domains' page tables\n"
              "        369K    0.01%  Xen's records of domains, estimated\n"
              "         40M    0.98%  Xen's tables of the host's pages\n"
              "     2485.9M   60.69%  free: 64M promised to starts\n"
              "        784K    0.02%  not explained: Xen itself\n");
}

TEST(AccountView, SaysWhereMemoryMovedWhileItWasCounted) {
    json account = sample_account();
    account["host"]["remainder_kib"] = -2048;
    account["host"]["at_rest"] = false;
    account["nodes"].erase(1);
    const std::string text = render_account(account, {});
    EXPECT_THAT(text, HasSubstr("-2M   -0.05%  not explained: Xen itself, and what moved"));
    EXPECT_THAT(text, Not(HasSubstr("NODE "))) << "of one node there is nothing to tell";
}

TEST(DensityView, SaysWhatIsSavedAndWhatFits) {
    const json account = json::parse(R"json({"density":
      {"zones": 4, "sized_kib": 2097152, "takes_kib": 524288, "overhead_kib": 4096,
       "saved_by_ballooning_kib": 1048576, "saved_by_sharing_kib": -2048,
       "kinds": [{"template": "a\u001b", "sized_kib": 262144, "count": 3, "each_kib": 3072,
                  "fit_now": 20, "fit_more": 70},
                 {"template": null, "sized_kib": 524288, "count": 1, "each_kib": 257024,
                  "fit_now": 0, "fit_more": 1}]}})json");
    EXPECT_EQ(render_density(account, {}),
              "4 zones were made for 2G and take 512M: 1 to 4.00\n"
              "  ballooning saves 1G, sharing -2M; page tables and Xen's records cost 4M, 1M a "
              "zone\n\n"
              "KIND            ZONES  EACH  FIT NOW  FIT MORE\n"
              "forks of a\\x1b      3    3M       20        70\n"
              "made for 512M       1  251M        0         1\n");
}

TEST(DensityView, AHostWithoutZonesIsNotDividedBy) {
    const auto text = [](int takes) {
        return render_density({{"density",
                                {{"zones", 0},
                                 {"sized_kib", 0},
                                 {"takes_kib", takes},
                                 {"overhead_kib", 0},
                                 {"kinds", json::array()}}}},
                              {});
    };
    EXPECT_EQ(text(0), "no zones\n");
    EXPECT_EQ(text(2048), "no zones; templates take 2M\n");
}

TEST(AccountView, ACostIsALine) {
    EXPECT_EQ(render_cost({{"size_kib", 5632}, {"memory_kib", 4096}, {"overhead_kib", 1536}}),
              "5.5M: 4M of memory, 1.5M beside it\n");
}

TEST(StatusView, TemplatesAreATable) {
    EXPECT_EQ(render_templates(sample_families()["templates"], {}),
              "TEMPLATE     DOMID  STATE   MEMORY  FORKS  IDENTITY  OF\n"
              "base\\x1b[2J      3  sealed     64M      2  guest     -\n");
    EXPECT_THAT(render_templates(json::array(), {}), HasSubstr("xenpack template create"));
}

TEST(StatusView, AForkThatWaitsForMemorySaysWhy) {
    json fork{{"name", "job-1"},  {"domid", 4},         {"current_kib", 2048},
              {"ready", true},    {"template", "base"}, {"held", true},
              {"starved", false}, {"waits_ms", 3200},   {"waits_why", "no\x1b room"}};
    EXPECT_EQ(render_fork(fork),
              "  job-1 (4)  2M of its own  ready, of base  held for 3s: no\\x1b room\n");
    fork["starved"] = true;
    EXPECT_THAT(render_fork(fork), HasSubstr("  starved for 3s: "));
    fork["waits_why"] = nullptr;
    EXPECT_EQ(render_fork(fork), "  job-1 (4)  2M of its own  ready, of base\n");
}

TEST(StatusView, AForkOfAPoolIsShownAsSuch) {
    json fork{{"name", "job-1"}, {"domid", 4},     {"current_kib", 2048},
              {"ready", false},  {"paused", true}, {"template", "base"}};
    const auto shown_as = [&fork](const char* state) {
        const std::string line = "  job-1 (4)  2M of its own  " + std::string(state) + ", of base";
        EXPECT_EQ(render_fork(fork), line + "\n");
    };
    shown_as("paused");
    fork.update({{"pool", "jobs"}, {"taken", false}, {"stands_ready", true}});
    shown_as("stands ready in jobs");
    fork.update({{"paused", false}, {"stands_ready", false}});
    shown_as("not ready, for jobs");
    fork["ready"] = true;
    shown_as("ready, for jobs");
    fork["taken"] = true;
    shown_as("ready, taken from jobs");
}

TEST(StatusView, AForkThatWasMadeIsALine) {
    json fork{{"name", "job-1"},
              {"domid", 4},
              {"made_ms", 152.7},
              {"unpaused_ms", 152.7},
              {"ready_ms", 812}};
    EXPECT_EQ(render_made(fork), "job-1 (4)  running after 153 ms, ready after 812 ms\n");
    fork["ready_ms"] = nullptr;
    EXPECT_EQ(render_made(fork), "job-1 (4)  running after 153 ms\n");
    fork["unpaused_ms"] = nullptr;
    EXPECT_EQ(render_made(fork), "job-1 (4)  left paused, made in 153 ms\n");
    EXPECT_EQ(render_taken({{"name", "a\x1b"}, {"domid", 4U}, {"ready_ms", 12U}}),
              "a\\x1b (4)  ready after 12 ms\n");
    EXPECT_EQ(render_taken({{"name", "a"}, {"domid", 4U}, {"ready_ms", nullptr}}),
              "a (4)  running\n");
}

TEST(StatusView, ShowsHostZonesFaultsAndTheUnmanaged) {
    EXPECT_EQ(render_status(sample_status(), {}),
              "host  total 16G  free 1228.8M  spendable 900M  reserve 1638.4M  tight  "
              "(libxl (Xen 4.17))\n"
              "dom0  1G, floor 512M\n"
              "\n"
              "ZONE       STATE    TARGET  ACTUAL  DEMAND  PRESSURE  FLOOR  CEILING  AGO  LAST "
              "REASON\n"
              "web        growing    768M    512M  781.3M     12.5%   256M       2G   3s  uses "
              "600 MiB of 512\n"
              "db\\x1b[2J  garbled       -    512M       -         -   256M       2G    -\n"
              "\n"
              "faults:\n"
              "  host: dom0 is below its floor\n"
              "  db\\x1b[2J (4): its report is\\x0ano report\n"
              "\n"
              "reservations:\n"
              "  mail\\x1b[2J (process 812)  612M  granted, 512M kept free for it, ends in 9m\n"
              "\n"
              "not managed:\n"
              "  old (5)  1G  maxmem is not above memory\n");
}

TEST(StatusView, CutsTheReasonToTheScreen) {
    const std::string text = render_zones(sample_status()["zones"], {.width = 92});
    EXPECT_THAT(text, HasSubstr("uses 600 MiB o..."));
    EXPECT_THAT(text, Not(HasSubstr("of 512")));
}

TEST(StatusView, ColoursStatesOnlyWhereAsked) {
    EXPECT_THAT(render_status(sample_status(), {.colours = true}),
                HasSubstr("\033[31mgarbled\033[0m"));
    EXPECT_THAT(render_status(sample_status(), {}), Not(HasSubstr("\033")));
}

TEST(StatusView, SaysHowDomainsBecomeZones) {
    json status = sample_status();
    status["zones"] = json::array();
    EXPECT_THAT(render_status(status, {}), HasSubstr("no zones: a domain becomes one"));
}

TEST(StatusView, BearsAnOlderDaemonThatSaysLess) {
    EXPECT_THAT(render_status(json::object(), {}), HasSubstr("total -"));
    EXPECT_THAT(render_zones(json::array({{{"name", "web"}}}), {}), HasSubstr("web"));
}

TEST(StatusView, RefusesAnotherTypeThanTheApis) {
    json status = sample_status();
    status["zones"][0]["target_kib"] = "many";
    EXPECT_THROW((void)render_status(status, {}), json::exception);
}

TEST(EventView, IsOneLine) {
    EXPECT_EQ(render_event(json::parse(R"({"time":"2026-01-02T03:04:05.678Z","kind":"grow",
        "zone":"web","domid":3,"uuid":"x","from_kib":524288,"to_kib":786432,
        "reason":"uses\n600 MiB"})")),
              "2026-01-02T03:04:05.678Z grow   web (3)  512M -> 768M  uses\\x0a600 MiB");
    EXPECT_EQ(render_event(json::parse(R"({"time":"T","kind":"host","reason":"short of memory"})")),
              "T host    short of memory");
    EXPECT_EQ(render_event(json::object()), "- -     ");
}

TEST(ConfigView, ListsEachProblem) {
    const json result = check_result("f", parse_config("x\n[zone]\ny\n", "f"));
    EXPECT_EQ(result["ok"], false);
    ASSERT_EQ(result["errors"].size(), 2u);
    EXPECT_THAT(result["errors"][1].get<std::string>(), HasSubstr("f:3: "));
}

TEST(ConfigView, ShowsValuesInKib) {
    const json result =
        check_result("f", parse_config("[host]\nreserve = 1G\n[zone a]\nfloor = 1M\n", "f"));
    EXPECT_EQ(result["ok"], true);
    EXPECT_EQ(result["config"]["host"]["reserve_kib"], 1024 * 1024);
    EXPECT_TRUE(result["config"]["host"]["reserve_percent"].is_null());
    EXPECT_EQ(result["config"]["zones"][0]["pattern"], "a");
    EXPECT_EQ(result["config"]["zones"][0]["floor_kib"], 1024);
    EXPECT_TRUE(result["config"]["zone"]["floor_kib"].is_null());
}

TEST(ZoneSettings, BecomeTheRequestsMembers) {
    EXPECT_EQ(
        request_body({.floor = "256M", .ceiling = "default", .weight = "7", .pin = "1G"}).value(),
        json::parse(R"({"floor_kib":262144,"ceiling_kib":null,"weight":7,"pin_kib":1048576})"));
    EXPECT_EQ(request_body({.automatic = true}).value(), json::parse(R"({"pin_kib":null})"));
    EXPECT_EQ(request_body({.weight = "default"}).value(), json::parse(R"({"weight":null})"));
}

TEST(ZoneSettings, RefuseWhatIsNoSettingAndNameTheOption) {
    const std::pair<ZoneSettings, const char*> refused[] = {
        {{}, "nothing to set"},
        {{.floor = "256"}, "--floor"},
        {{.ceiling = "-1M"}, "--ceiling"},
        {{.weight = "0"}, "--weight"},
        {{.weight = "1x"}, "--weight"},
        {{.pin = "default"}, "--pin"},
        {{.pin = "1G", .automatic = true}, "--pin and --auto"},
    };
    for (const auto& [settings, sentence] : refused) {
        const auto body = request_body(settings);
        ASSERT_FALSE(body) << sentence;
        EXPECT_EQ(body.error().status, ExitStatus::usage);
        EXPECT_THAT(body.error().what, HasSubstr(sentence));
    }
}

TEST(StartRequest, WaitsAMinuteUnlessToldOtherwise) {
    const json body = reservation_body({}, "{}").value();
    EXPECT_EQ(body["wait_ms"], 60'000);
    EXPECT_EQ(body["deadline_ms"], 660'000);
    EXPECT_EQ(body["config"], "{}");
    EXPECT_EQ(reservation_body({.no_wait = true}, "").value()["wait_ms"], 0);
    EXPECT_EQ(reservation_body({.wait = "90s"}, "").value()["wait_ms"], 90'000);
    EXPECT_EQ(reservation_body({.wait = "1h", .no_wait = true}, "").error().status,
              ExitStatus::usage);
}

TEST(StartRequest, TakesTimesWithTheirUnitOnly) {
    EXPECT_EQ(parse_wait_ms("5m").value(), 300'000);
    EXPECT_EQ(parse_wait_ms("1d").value(), 86'400'000);
    EXPECT_EQ(parse_wait_ms("250ms").value(), 250);
    EXPECT_EQ(parse_wait_ms("168h").value(), 604'800'000);
    for (const char* bad : {"", "5", "m", "0s", "-1s", "1.5h", "5 m", "5mm", "169h", "8d",
                            "99999999999999999999s", "9223372036854775807h"}) {
        const auto refused = parse_wait_ms(bad);
        ASSERT_FALSE(refused) << bad;
        EXPECT_EQ(refused.error().status, ExitStatus::usage);
        EXPECT_THAT(refused.error().what, HasSubstr("--wait"));
    }
}

TEST(StartRequest, PassesEverythingOnAndTheUuidLast) {
    EXPECT_EQ(
        create_command({"web.cfg", "-c", "memory=3"}, "u-1"),
        (std::vector<std::string>{"xl", "create", "web.cfg", "-c", "memory=3", "uuid=\"u-1\""}));
    EXPECT_EQ(create_command({"web.cfg"}, ""),
              (std::vector<std::string>{"xl", "create", "web.cfg"}));
    EXPECT_TRUE(creates_nothing({"web.cfg", "-n"}));
    EXPECT_FALSE(creates_nothing({"web.cfg", "-p"}));
}

}  // namespace
}  // namespace xenpack
