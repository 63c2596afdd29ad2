/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Sealing: the order of calls; who is refused; and that a domain whose sealing fails runs on. */
#include "tests/plugin/cmocka_tests.h"

#include <stdio.h>

#include "tests/plugin/fake_fork.h"

enum { ZONE = 5 };

static const uint8_t zone_uuid[16] = {0x55};
static const char state_node[] = "/local/domain/5/xenpack/template";
static const char request_node[] = "/local/domain/5/control/shutdown";

static struct {
    int calls, result;
    char why[256];
} told;

static void done(void* arg, int result, const char* why) {
    (void)arg;
    told.calls++;
    told.result = result;
    snprintf(told.why, sizeof told.why, "%s", why);
}

static void turn(void) {
    int i;

    for (i = 0; i < 50 && fake_loop_round(); i++)
        ;
}

/* A host that can have forks, with a running PVH domain, 5, "web". */
static int zone_up(void** state) {
    memset(&told, 0, sizeof told);
    if (plugin_up(state))
        return -1;
    xen.physinfo.capabilities = XEN_SYSCTL_PHYSCAP_hvm | XEN_SYSCTL_PHYSCAP_hap;
    forking.counts_pauses = true;
    xen.record = "{web}";
    xen.record_type = LIBXL_DOMAIN_TYPE_PVH;
    xen.record_target_kib = xen.record_max_kib = 131072;
    xen.record_vcpus = 1;
    fake_domain_add(0, 0);
    fake_domain_add(ZONE, 0x55);
    fake_store_set("/local/domain/0/name", "Domain-0");
    fake_store_set("/local/domain/5/name", "web");
    fake_store_set(request_node, "");
    fake_host_write("scripts/block-xenpack", "", 0);
    fake_host_write("scripts/vif-xenpack", "", 0);
    calls_clear();
    return 0;
}

static int ask(struct xenpack_toolstack* ts, const char* name) {
    const int r = fake_host_plugin()->seal(ts, ZONE, zone_uuid, name, 60000, done, NULL);

    calls_clear(); /* of the look for what the host lacks */
    return r;
}

static int seal(struct xenpack_toolstack* ts, const char* name) {
    const int r = ask(ts, name);

    if (told.calls)
        return -1;
    turn();
    return r;
}

static const char* calls_from(const char* first) {
    const char* at = strstr(calls_text(), first);

    return at ? at : calls_text();
}

static bool runs(void) {
    const uint32_t flags = fake_domain(ZONE)->flags;

    return !(flags & (XEN_DOMINF_paused | XEN_DOMINF_shutdown));
}

/* It failed with that code, and the domain is as it was. */
static void has_run_on(int code) {
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.result, code);
    assert_string_not_equal(told.why, "");
    assert_true(runs());
    assert_null(fake_store_get(state_node));
    assert_null(fake_userdata(ZONE, "xenpack-template"));
    assert_string_equal(fake_store_get("/local/domain/5/name"), "web");
}

static void is_sealed(const char* name) {
    assert_string_equal(told.why, "");
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.result, 0);
    assert_string_equal(fake_store_get(state_node), "sealed");
    assert_string_equal(fake_store_get("/local/domain/5/xenpack/sealed-cpu-ns"), "1");
    assert_null(fake_store_get("/local/domain/5/xenpack/template/name"));
    assert_string_equal(fake_store_get("/local/domain/5/name"), name);
    assert_non_null(fake_userdata(ZONE, "xenpack-template"));
    assert_true(fake_domain(ZONE)->flags & XEN_DOMINF_paused);
    assert_in_range(forking.more_pauses, 50, 200); /* which one xl unpause does not end */
}

/* ---- what is done ------------------------------------------------------------------------------
 */

static void a_zone_is_sealed_in_this_order(void** state) {
    forking.disks = forking.nics = 1;
    assert_int_equal(seal(*state, "base"), 0);
    is_sealed("base");
    assert_string_equal(calls_from("libxl retrieve"),
                        "libxl retrieve 5\n"
                        "make /local/domain/5/xenpack/template\n"
                        "libxl suspend 5\n"
                        "pause 5\n"
                        "json - 77 disks 1 nics 1\n"
                        "userdata 5 xenpack-template\n"
                        "libxl rename 5 web base\n"
                        "libxl take disk 5 xvda\n"
                        "libxl take nic 5 0\n"
                        "reset 5\n"
                        "pool 5 360448\n"
                        "make /local/domain/5/xenpack/template\n"
                        "remove /local/domain/5/xenpack/template/name\n");
}

static void without_a_name_it_keeps_its_own(void** state) {
    assert_int_equal(seal(*state, ""), 0);
    is_sealed("web");
    assert_null(strstr(calls_text(), "rename"));
}

static void a_device_that_stays_behind_is_no_reason(void** state) {
    forking.disks = 1;
    forking.disk_target = "/proc/self/exe";
    forking.fail = "libxl_device_disk_destroy";
    forking.fail_with = ERROR_FAIL;
    assert_int_equal(seal(*state, "base"), 0);
    is_sealed("base");
    assert_int_equal(watcher.messages[XENPACK_LOG_WARNING], 1);
}

static void what_its_disk_is_stands_in_the_store(void** state) {
    forking.disks = 1;
    forking.disk_target = "/proc/self/exe";
    assert_int_equal(seal(*state, "base"), 0);
    is_sealed("base");
    assert_non_null(fake_store_get("/local/domain/5/xenpack/template/disks/51712"));
    assert_memory_equal(fake_store_get("/local/domain/5/xenpack/template/disks/51712"), "file ", 5);
}

static void a_disk_that_cannot_be_looked_at_is_said(void** state) {
    forking.disks = 1;
    assert_int_equal(seal(*state, "base"), 0);
    is_sealed("base");
    assert_int_equal(watcher.messages[XENPACK_LOG_WARNING], 1);
    assert_null(fake_store_get("/local/domain/5/xenpack/template/disks/51712"));
}

static void sealed_it_is_not_sealed_again(void** state) {
    fake_store_set(state_node, "sealed");
    assert_int_equal(seal(*state, "base"), 0);
    assert_int_equal(told.result, -EINVAL);
    assert_string_equal(fake_store_get(state_node), "sealed");
}

/* ---- who is refused ----------------------------------------------------------------------------
 */

static void refused(struct xenpack_toolstack* ts, int code, const char* because) {
    assert_int_equal(seal(ts, "base"), 0);
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.result, code);
    if (!strstr(told.why, because))
        fail_msg("\"%s\" does not say \"%s\"", told.why, because);
    assert_null(strstr(calls_text(), "suspend 5"));
    assert_null(strstr(calls_text(), "make"));
}

static void another_domain(void** state) {
    fake_domain(ZONE)->handle[0] = 0x56;
    refused(*state, -ESRCH, "not there");
}

static void a_pv_domain(void** state) {
    fake_domain(ZONE)->flags &= ~(uint32_t)XEN_DOMINF_hvm_guest;
    refused(*state, -ENOTSUP, "PVH");
}

static void an_hvm_domain(void** state) {
    xen.record_type = LIBXL_DOMAIN_TYPE_HVM;
    refused(*state, -ENOTSUP, "PVH");
}

static void a_paused_domain(void** state) {
    fake_domain(ZONE)->flags |= XEN_DOMINF_paused;
    refused(*state, -EINVAL, "paused");
}

static void one_that_is_being_saved(void** state) {
    fake_host_save_helper(4711, "--save-domain", ZONE);
    refused(*state, -EBUSY, "saved");
}

static void one_with_pages_populated_on_demand(void** state) {
    forking.pod_pages = 12;
    refused(*state, -ENOTSUP, "maxmem");
}

static void one_that_cannot_suspend(void** state) {
    forking.no_drivers = true;
    refused(*state, -ENOTSUP, "not started");
}

static void a_name_that_is_taken(void** state) {
    assert_int_equal(seal(*state, "Domain-0"), 0);
    has_run_on(-EEXIST);
    assert_null(strstr(calls_text(), "suspend 5"));
}

static void one_whose_forks_could_have_no_disks(void** state) {
    forking.disks = 1;
    fake_host_unlink("scripts/block-xenpack");
    refused(*state, -ENOTSUP, "block-xenpack");
}

static void one_whose_disk_would_lose_what_it_has_written(void** state) {
    forking.disks = 1;
    forking.disk_target = "/srv/root.img;";
    refused(*state, -ENOTSUP, "laid over another");
}

static void one_whose_disk_is_nowhere(void** state) {
    forking.disks = 1;
    forking.disk_target = "root.img";
    refused(*state, -ENOTSUP, "whole path");
}

static void none_on_a_host_without_sharing(void** state) {
    forking.fail = "xc_memshr_control";
    forking.fail_with = EOPNOTSUPP;
    refused(*state, -ENOTSUP, "VT-x");
}

/* ---- what fails --------------------------------------------------------------------------------
 */

struct failure {
    const char* function;
    int with, result;
};

static void whatever_fails_it_runs_on(void** state) {
    static const struct failure failures[] = {
        {"libxl_retrieve_domain_configuration", ERROR_FAIL, -EIO},
        {"xc_domain_pause", EPERM, -EPERM},
        {"libxl_domain_config_to_json", 0, -EIO},
        {"libxl_userdata_store", ERROR_FAIL, -EIO},
        {"libxl_domain_rename", ERROR_FAIL, -EIO},
    };
    size_t i;

    for (i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        memset(&told, 0, sizeof told);
        forking.fail = failures[i].function;
        forking.fail_with = failures[i].with;
        assert_int_equal(seal(*state, "base"), 0);
        forking.fail = NULL;
        print_message("%s: %s\n", failures[i].function, told.why);
        has_run_on(failures[i].result);
    }
}

static void a_store_that_fails_is_no_harm(void** state) {
    watcher.fail_make = -EIO;
    assert_int_equal(seal(*state, "base"), 0);
    has_run_on(-EIO);
    assert_null(strstr(calls_text(), "suspend 5"));
}

static void what_was_suspended_is_resumed_as_it_was(void** state) {
    forking.fail = "libxl_userdata_store";
    forking.fail_with = ERROR_FAIL;
    assert_int_equal(seal(*state, "base"), 0);
    has_run_on(-EIO);
    assert_string_equal(calls_from("libxl resume"),
                        "libxl resume 5 1\n"
                        "unpause 5\n"
                        "remove /local/domain/5/xenpack/template\n");
}

static void after_its_devices_there_is_no_way_back(void** state) {
    forking.fail = "xc_domain_soft_reset";
    forking.fail_with = ENOMEM;
    assert_int_equal(seal(*state, "base"), 0);
    assert_int_equal(told.result, -ENOMEM);
    assert_non_null(strstr(told.why, "seal it again"));
    assert_string_equal(fake_store_get(state_node), "sealing");
    forking.fail = NULL;
    memset(&told, 0, sizeof told);
    assert_int_equal(seal(*state, ""), 0);
    is_sealed("base");
}

static void a_pool_that_stays_large_is_only_said(void** state) {
    forking.fail = "xc_set_paging_mempool_size";
    forking.fail_with = ENOMEM;
    assert_int_equal(seal(*state, "base"), 0);
    is_sealed("base");
    assert_int_equal(watcher.messages[XENPACK_LOG_WARNING], 1);
}

/* ---- a guest that is slow ----------------------------------------------------------------------
 */

static void begin_slow(void** state, const char* request) {
    forking.hold = "libxl_domain_suspend_only";
    forking.suspends = false;
    assert_int_equal(seal(*state, "base"), 0);
    assert_int_equal(told.calls, 0);
    fake_store_set(request_node, request);
    assert_non_null(fake_loop_timeout());
    assert_int_equal(fake_loop_timeout()->delay_us, 60000000);
}

static void a_request_not_taken_up_is_taken_back(void** state) {
    begin_slow(state, "suspend");
    fake_loop_all_timeouts();
    turn();
    assert_int_equal(forking.aborts, 1);
    has_run_on(-ETIMEDOUT);
    assert_string_equal(fake_store_get(request_node), "");
    assert_null(strstr(calls_text(), "resume"));
}

static void one_that_suspends_at_the_last_moment_is_resumed(void** state) {
    begin_slow(state, "");
    fake_domain_shut_down(ZONE, SHUTDOWN_suspend);
    fake_loop_all_timeouts();
    turn();
    has_run_on(-ETIMEDOUT);
    assert_non_null(strstr(calls_text(), "libxl resume 5 1\n"));
}

static void one_that_suspends_too_late_is_resumed(void** state) {
    begin_slow(state, "");
    fake_loop_all_timeouts();
    turn();
    assert_int_equal(told.calls, 0);
    assert_non_null(strstr(calls_text(), "watch 5\n"));
    fake_domain_shut_down(ZONE, SHUTDOWN_suspend);
    fake_xl_event(LIBXL_EVENT_TYPE_DOMAIN_SHUTDOWN, ZONE);
    turn();
    has_run_on(-ETIMEDOUT);
    assert_non_null(strstr(calls_text(), "libxl resume 5 1\n"));
}

static void one_that_never_does_is_given_up(void** state) {
    begin_slow(state, "");
    fake_loop_all_timeouts();
    turn();
    assert_int_equal(told.calls, 0);
    fake_loop_all_timeouts();
    turn();
    has_run_on(-ETIMEDOUT);
}

static void libxls_success_is_not_believed_without_xen(void** state) {
    forking.suspends = false;
    assert_int_equal(seal(*state, "base"), 0);
    has_run_on(-ETIMEDOUT);
    assert_null(strstr(calls_text(), "pause 5"));
}

static void the_end_of_the_toolstack_wakes_it(void** state) {
    begin_slow(state, "suspend");
    fake_host_plugin()->close(*state);
    *state = NULL;
    has_run_on(-ECANCELED);
    assert_string_equal(fake_store_get(request_node), "");
}

static void the_end_of_the_toolstack_after_the_devices_changes_nothing(void** state) {
    forking.disks = 1;
    forking.hold = "libxl_device_disk_destroy";
    assert_int_equal(seal(*state, "base"), 0);
    assert_int_equal(told.calls, 0);
    assert_true(fake_fork_end("libxl_device_disk_destroy", 0));
    fake_host_plugin()->close(*state);
    *state = NULL;
    is_sealed("base");
}

/* ---- what a daemon that died has left ----------------------------------------------------------
 */

static void broken_off(const char* name) {
    fake_store_set(state_node, "sealing");
    fake_store_set("/local/domain/5/xenpack/template/name", name);
}

static void suspended_it_is_sealed_to_its_end(void** state) {
    broken_off("base");
    fake_domain_shut_down(ZONE, SHUTDOWN_suspend);
    assert_int_equal(seal(*state, "web"), 0);
    is_sealed("base");
    assert_null(strstr(calls_text(), "suspend 5"));
}

static void recorded_its_record_is_kept(void** state) {
    broken_off("base");
    fake_domain_shut_down(ZONE, SHUTDOWN_suspend);
    fake_domain(ZONE)->flags |= XEN_DOMINF_paused;
    fake_userdata_set(ZONE, "xenpack-template", xen.record);
    assert_int_equal(seal(*state, "web"), 0);
    is_sealed("base");
    assert_null(strstr(calls_text(), "userdata"));
    assert_null(strstr(calls_text(), "pause 5"));
}

static void reset_it_only_wants_its_mark(void** state) {
    broken_off("web");
    fake_domain(ZONE)->flags |= XEN_DOMINF_paused;
    fake_userdata_set(ZONE, "xenpack-template", xen.record);
    assert_int_equal(seal(*state, "web"), 0);
    is_sealed("web");
    assert_null(strstr(calls_text(), "reset"));
}

static void not_suspended_yet_it_runs_on(void** state) {
    broken_off("base");
    fake_store_set(request_node, "suspend");
    assert_int_equal(seal(*state, "base"), 0);
    has_run_on(-EAGAIN);
    assert_string_equal(fake_store_get(request_node), "");
}

int main(void) {
#define SEAL_TEST(test) cmocka_unit_test_setup_teardown(test, zone_up, plugin_down)
    const struct CMUnitTest tests[] = {
        SEAL_TEST(a_zone_is_sealed_in_this_order),
        SEAL_TEST(without_a_name_it_keeps_its_own),
        SEAL_TEST(a_device_that_stays_behind_is_no_reason),
        SEAL_TEST(what_its_disk_is_stands_in_the_store),
        SEAL_TEST(a_disk_that_cannot_be_looked_at_is_said),
        SEAL_TEST(sealed_it_is_not_sealed_again),
        SEAL_TEST(another_domain),
        SEAL_TEST(a_pv_domain),
        SEAL_TEST(an_hvm_domain),
        SEAL_TEST(a_paused_domain),
        SEAL_TEST(one_that_is_being_saved),
        SEAL_TEST(one_with_pages_populated_on_demand),
        SEAL_TEST(one_that_cannot_suspend),
        SEAL_TEST(a_name_that_is_taken),
        SEAL_TEST(one_whose_forks_could_have_no_disks),
        SEAL_TEST(one_whose_disk_would_lose_what_it_has_written),
        SEAL_TEST(one_whose_disk_is_nowhere),
        SEAL_TEST(none_on_a_host_without_sharing),
        SEAL_TEST(whatever_fails_it_runs_on),
        SEAL_TEST(a_store_that_fails_is_no_harm),
        SEAL_TEST(what_was_suspended_is_resumed_as_it_was),
        SEAL_TEST(after_its_devices_there_is_no_way_back),
        SEAL_TEST(a_pool_that_stays_large_is_only_said),
        SEAL_TEST(a_request_not_taken_up_is_taken_back),
        SEAL_TEST(one_that_suspends_at_the_last_moment_is_resumed),
        SEAL_TEST(one_that_suspends_too_late_is_resumed),
        SEAL_TEST(one_that_never_does_is_given_up),
        SEAL_TEST(libxls_success_is_not_believed_without_xen),
        SEAL_TEST(the_end_of_the_toolstack_wakes_it),
        SEAL_TEST(the_end_of_the_toolstack_after_the_devices_changes_nothing),
        SEAL_TEST(suspended_it_is_sealed_to_its_end),
        SEAL_TEST(recorded_its_record_is_kept),
        SEAL_TEST(reset_it_only_wants_its_mark),
        SEAL_TEST(not_suspended_yet_it_runs_on),
    };

    return cmocka_run_group_tests_name("plugin/libxl templates", tests, NULL, NULL);
}
