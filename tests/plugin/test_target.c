/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * set_target() and set_limit(): which steps in which order, which are undone where one fails, and
 * for which domains nothing at all is done. Domain 5 holds 100000 KiB and is limited to 101024.
 */
#include <time.h>

#include "tests/plugin/cmocka_tests.h"

#define VM "/vm/55000000-0000-0000-0000-000000000000"
#define GUARD "guard /local/domain/5/vm " VM "\n"
#define TARGET "/local/domain/5/memory/target"

static const uint64_t kStaticMax = 400000;
enum { KEEP = 1 };

static int target(void* ts, uint64_t kib, int keep_limit) {
    return fake_host_plugin()->set_target(ts, 5, UUID(0x55), kib, kStaticMax, keep_limit,
                                          XENPACK_TARGET_SHORT);
}

static int target_by_libxl(void* ts, uint64_t kib, int keep_limit) {
    return fake_host_plugin()->set_target(ts, 5, UUID(0x55), kib, kStaticMax, keep_limit,
                                          XENPACK_TARGET_LIBXL);
}

static const char* last_error(void* ts) {
    return fake_host_plugin()->last_error(ts);
}

static int domain_up(void** state) {
    plugin_up(state);
    fake_domain_add(0, 0);
    fake_domain_add(5, 0x55);
    fake_store_set("/local/domain/5/vm", VM);
    fake_store_set(TARGET, "100000");
    calls_clear();
    return 0;
}

static void a_grow_raises_the_limit_before_it_is_published(void** state) {
    assert_int_equal(target(*state, 200000, 0), 0);
    assert_string_equal(calls_text(),
                        "setmaxmem 5 201024\n"
                        "pod 5 50256\n" GUARD "write " TARGET
                        " 200000\n"
                        "write " VM "/memory 195\n");
}

static void a_shrink_does_the_same(void** state) {
    assert_int_equal(target(*state, 50000, 0), 0);
    assert_string_equal(calls_text(),
                        "setmaxmem 5 51024\n"
                        "pod 5 12756\n" GUARD "write " TARGET
                        " 50000\n"
                        "write " VM "/memory 48\n");
}

static void a_shrink_that_keeps_the_limit_leaves_it(void** state) {
    assert_int_equal(target(*state, 50000, KEEP), 0);
    assert_string_equal(calls_text(), "pod 5 12756\n" GUARD "write " TARGET
                                      " 50000\n"
                                      "write " VM "/memory 48\n");
    assert_int_equal(fake_domain(5)->max_pages, 25256);
}

static void a_grow_that_keeps_the_limit_still_raises_it(void** state) {
    assert_int_equal(target(*state, 200000, KEEP), 0);
    assert_int_equal(fake_domain(5)->max_pages, 201024 / 4);
}

static void a_pvh_domain_costs_one_store_call(void** state) {
    fake_store_set("/local/domain/5/memory/videoram", "8192"); /* not to be looked at */
    assert_int_equal(target(*state, 200000, 0), 0);
    assert_int_equal(watcher.reads, 0);
    assert_string_equal(fake_store_get(TARGET), "200000");
}

static void videoram_is_not_the_balloons(void** state) {
    fake_domain(5)->arch_config.emulation_flags |= XEN_X86_EMU_VGA;
    fake_store_set("/local/domain/5/memory/videoram", "8192");
    assert_int_equal(target(*state, 200000, 0), 0);
    assert_string_equal(calls_text(),
                        "read /local/domain/5/memory/videoram\n"
                        "setmaxmem 5 201024\n"
                        "pod 5 48208\n" GUARD "write " TARGET
                        " 191808\n"
                        "write " VM "/memory 187\n");
}

static void a_target_within_the_videoram_is_refused(void** state) {
    fake_domain(5)->arch_config.emulation_flags |= XEN_X86_EMU_VGA;
    fake_store_set("/local/domain/5/memory/videoram", "8192");
    assert_int_equal(target(*state, 8192, 0), -ERANGE);
    fake_store_set("/local/domain/5/memory/videoram", "8192x");
    assert_int_equal(target(*state, 200000, 0), -EINVAL);
    assert_null(strstr(calls_text(), "setmaxmem"));
}

static void a_target_of_nothing_is_refused(void** state) {
    assert_int_equal(target(*state, 0, 0), -ERANGE);
    assert_string_equal(calls_text(), "");
}

static void a_pv_domain_has_no_populate_on_demand(void** state) {
    fake_domain(5)->flags &= ~XEN_DOMINF_hvm_guest;
    assert_int_equal(target(*state, 200000, 0), 0);
    assert_null(strstr(calls_text(), "pod"));
}

static void a_refused_limit_ends_it(void** state) {
    xen.fail_setmaxmem = EPERM;
    assert_int_equal(target(*state, 200000, 0), -EPERM);
    assert_string_equal(calls_text(), "setmaxmem 5 201024\n");
    assert_non_null(strstr(last_error(*state), "limit domain 5"));
}

static void a_refused_pod_target_restores_the_limit(void** state) {
    xen.fail_pod = ENOMEM;
    assert_int_equal(target(*state, 200000, 0), -ENOMEM);
    assert_string_equal(calls_text(),
                        "setmaxmem 5 201024\n"
                        "pod 5 50256\n"
                        "setmaxmem 5 101024\n");
}

static void a_lost_store_restores_both(void** state) {
    watcher.fail_write = -EIO;
    assert_int_equal(target(*state, 200000, 0), -EIO);
    assert_string_equal(calls_text(),
                        "setmaxmem 5 201024\n"
                        "pod 5 50256\n" GUARD
                        "pod 5 25000\n"
                        "setmaxmem 5 101024\n");
    assert_string_equal(fake_store_get(TARGET), "100000");
}

static void what_was_kept_is_not_restored(void** state) {
    watcher.fail_write = -EIO;
    assert_int_equal(target(*state, 50000, KEEP), -EIO);
    assert_null(strstr(calls_text(), "setmaxmem"));
}

static void a_domain_gone_from_the_store_is_not_written(void** state) {
    fake_store_set("/local/domain/5/vm", "/vm/66000000-0000-0000-0000-000000000000");
    assert_int_equal(target(*state, 200000, 0), -ESRCH);
    assert_string_equal(fake_store_get(TARGET), "100000");
    assert_null(fake_store_get(VM "/memory"));
    assert_int_equal(fake_domain(5)->max_pages, 25256);
}

static void a_gone_domain_is_left_alone(void** state) {
    fake_domain_remove(5);
    assert_int_equal(target(*state, 200000, 0), -ESRCH);
    assert_int_equal(target_by_libxl(*state, 200000, 0), -ESRCH);
    assert_string_equal(calls_text(), "");
}

static void a_domain_of_another_uuid_is_left_alone(void** state) {
    fake_domain(5)->handle[15] = 1;
    assert_int_equal(target(*state, 200000, 0), -ESRCH);
    assert_int_equal(target_by_libxl(*state, 200000, 0), -ESRCH);
    assert_string_equal(calls_text(), "");
}

static void a_dying_domain_is_gone(void** state) {
    fake_domain(5)->flags |= XEN_DOMINF_dying;
    assert_int_equal(target(*state, 200000, 0), -ESRCH);
    assert_string_equal(calls_text(), "");
}

static void a_domain_that_has_shut_down_is_left_alone(void** state) {
    fake_domain_shut_down(5, SHUTDOWN_suspend);
    assert_int_equal(target(*state, 200000, 0), -EBUSY);
    assert_string_equal(calls_text(), "");
}

static void a_domain_being_saved_is_left_alone(void** state) {
    fake_host_save_helper(4711, "--save-domain", 5);
    assert_int_equal(target(*state, 200000, 0), -EBUSY);
    assert_int_equal(target_by_libxl(*state, 200000, 0), -EBUSY);
    assert_int_equal(fake_host_plugin()->set_limit(*state, 5, UUID(0x55), 300000), -EBUSY);
    assert_string_equal(calls_text(), "");
    assert_non_null(strstr(last_error(*state), "saved"));
}

static void a_domain_being_restored_is_left_alone(void** state) {
    fake_host_save_helper(4711, "--restore-domain", 5);
    assert_int_equal(target(*state, 200000, 0), -EBUSY);
    assert_string_equal(calls_text(), "");
}

static void another_domain_being_saved_does_not_matter(void** state) {
    fake_host_save_helper(4711, "--save-domain", 55);
    assert_int_equal(target(*state, 200000, 0), 0);
}

static void only_the_helper_with_its_arguments_counts(void** state) {
    static const char other[] =
        "/bin/other\0--save-domain\0"
        "11\0-1\0"
        "5";
    static const char odd[] =
        "helper\0--odd\0"
        "11\0-1\0"
        "5";
    static const char cut[] =
        "helper\0--save-domain\0"
        "11";

    fake_host_write("proc/100/comm", "other\n", 6);
    fake_host_write("proc/100/cmdline", other, sizeof other);
    fake_host_write("proc/101/comm", "libxl-save-help\n", 16);
    fake_host_write("proc/101/cmdline", odd, sizeof odd);
    fake_host_write("proc/102/comm", "libxl-save-help\n", 16);
    fake_host_write("proc/102/cmdline", cut, sizeof cut);
    fake_host_write("proc/103/comm", "libxl-save-help\n", 16); /* has just ended: no cmdline */
    fake_host_write("proc/self/comm", "libxl-save-help\n", 16);
    assert_int_equal(target(*state, 200000, 0), 0);
}

/* What was learnt from /proc is good for a moment, then it must be noticed. */
static int target_until_busy(void* ts) {
    const clock_t end = clock() + 2 * CLOCKS_PER_SEC;
    int r = 0;

    while (r == 0 && clock() < end) {
        calls_clear(); /* they are many */
        r = target(ts, 200000, 0);
    }
    return r;
}

static void a_helper_that_starts_later_is_noticed(void** state) {
    assert_int_equal(target(*state, 200000, 0), 0);
    fake_host_save_helper(4711, "--save-domain", 5);
    fake_host_start_helper();
    assert_int_equal(target_until_busy(*state), -EBUSY);
}

static void nothing_is_read_from_proc_while_no_helper_starts(void** state) {
    const clock_t end = clock() + CLOCKS_PER_SEC / 10;

    assert_int_equal(target(*state, 200000, 0), 0);
    fake_host_save_helper(4711, "--save-domain", 5); /* there, but never started: unseen */
    while (clock() < end) {
        calls_clear();
        assert_int_equal(target(*state, 200000, 0), 0);
    }
}

static void after_an_upgrade_of_the_helper_it_is_looked_for_each_time(void** state) {
    assert_int_equal(target(*state, 200000, 0), 0);
    fake_host_upgrade_helper();
    fake_host_save_helper(4711, "--save-domain", 5);
    assert_int_equal(target_until_busy(*state), -EBUSY);
}

static void a_target_over_the_static_maximum_is_refused(void** state) {
    assert_int_equal(target(*state, kStaticMax + 1, 0), -ERANGE);
    assert_int_equal(target_by_libxl(*state, kStaticMax + 1, 0), -ERANGE);
    assert_int_equal(target(*state, UINT64_MAX, 0), -ERANGE);
    assert_string_equal(calls_text(), "");
    assert_int_equal(target(*state, kStaticMax, 0), 0);
}

static void the_control_domain_goes_libxls_way(void** state) {
    assert_int_equal(fake_host_plugin()->set_target(*state, 0, UUID(0), 200000, kStaticMax, 0,
                                                    XENPACK_TARGET_SHORT),
                     -EINVAL);
    assert_string_equal(calls_text(), "");
    assert_int_equal(fake_host_plugin()->set_target(*state, 0, UUID(0), 200000, kStaticMax, 0,
                                                    XENPACK_TARGET_LIBXL),
                     0);
}

static void libxls_way_is_libxls_call_and_a_check(void** state) {
    assert_int_equal(target_by_libxl(*state, 200000, 0), 0);
    assert_string_equal(calls_text(),
                        "libxl_set_memory_target 5 200000 relative 0 enforce 1\n"
                        "read " TARGET "\n");
}

static void libxls_way_can_keep_the_limit(void** state) {
    assert_int_equal(target_by_libxl(*state, 50000, KEEP), 0);
    assert_non_null(strstr(calls_text(), "enforce 0"));
    calls_clear();
    assert_int_equal(target_by_libxl(*state, 200000, KEEP), 0);
    assert_non_null(strstr(calls_text(), "enforce 1"));
}

static void libxls_failure_restores_the_limit(void** state) {
    xen.fail_target = ERROR_JSON_CONFIG_EMPTY;
    assert_int_equal(target_by_libxl(*state, 200000, 0), -ENODATA);
    assert_int_equal(fake_domain(5)->max_pages, 25256);
    xen.fail_target = ERROR_FAIL;
    assert_int_equal(target_by_libxl(*state, 200000, 0), -EIO);
}

static void libxls_success_is_not_believed_without_the_store(void** state) {
    xen.target_not_committed = true;
    assert_int_equal(target_by_libxl(*state, 200000, 0), -EIO);
    assert_int_equal(fake_domain(5)->max_pages, 25256);
}

static void lose_domain(void) {
    fake_domain_remove(5);
}

static void a_domain_that_goes_during_libxls_call_is_gone(void** state) {
    xen.fail_target = ERROR_FAIL;
    xen.during_target = lose_domain;
    assert_int_equal(target_by_libxl(*state, 200000, 0), -ESRCH);
    assert_null(strstr(calls_text(), "setmaxmem"));
}

static void a_limit_gets_libxls_constant(void** state) {
    assert_int_equal(fake_host_plugin()->set_limit(*state, 5, UUID(0x55), 300000), 0);
    assert_string_equal(calls_text(), "setmaxmem 5 301024\n");
    assert_int_equal(fake_host_plugin()->set_limit(*state, 5, UUID(0x56), 300000), -ESRCH);
    assert_string_equal(calls_text(), "setmaxmem 5 301024\n");
}

static void targets_report_no_events(void** state) {
    fake_domain_add(9, 9);
    assert_int_equal(target(*state, 200000, 0), 0);
    assert_int_equal(target_by_libxl(*state, 100000, 0), 0);
    assert_string_equal(fake_events(), "");
}

int main(void) {
#define TARGET_TEST(test) cmocka_unit_test_setup_teardown(test, domain_up, plugin_down)
    const struct CMUnitTest tests[] = {
        TARGET_TEST(a_grow_raises_the_limit_before_it_is_published),
        TARGET_TEST(a_shrink_does_the_same),
        TARGET_TEST(a_shrink_that_keeps_the_limit_leaves_it),
        TARGET_TEST(a_grow_that_keeps_the_limit_still_raises_it),
        TARGET_TEST(a_pvh_domain_costs_one_store_call),
        TARGET_TEST(videoram_is_not_the_balloons),
        TARGET_TEST(a_target_within_the_videoram_is_refused),
        TARGET_TEST(a_target_of_nothing_is_refused),
        TARGET_TEST(a_pv_domain_has_no_populate_on_demand),
        TARGET_TEST(a_refused_limit_ends_it),
        TARGET_TEST(a_refused_pod_target_restores_the_limit),
        TARGET_TEST(a_lost_store_restores_both),
        TARGET_TEST(what_was_kept_is_not_restored),
        TARGET_TEST(a_domain_gone_from_the_store_is_not_written),
        TARGET_TEST(a_gone_domain_is_left_alone),
        TARGET_TEST(a_domain_of_another_uuid_is_left_alone),
        TARGET_TEST(a_dying_domain_is_gone),
        TARGET_TEST(a_domain_that_has_shut_down_is_left_alone),
        TARGET_TEST(a_domain_being_saved_is_left_alone),
        TARGET_TEST(a_domain_being_restored_is_left_alone),
        TARGET_TEST(another_domain_being_saved_does_not_matter),
        TARGET_TEST(only_the_helper_with_its_arguments_counts),
        TARGET_TEST(a_helper_that_starts_later_is_noticed),
        TARGET_TEST(nothing_is_read_from_proc_while_no_helper_starts),
        TARGET_TEST(after_an_upgrade_of_the_helper_it_is_looked_for_each_time),
        TARGET_TEST(a_target_over_the_static_maximum_is_refused),
        TARGET_TEST(the_control_domain_goes_libxls_way),
        TARGET_TEST(libxls_way_is_libxls_call_and_a_check),
        TARGET_TEST(libxls_way_can_keep_the_limit),
        TARGET_TEST(libxls_failure_restores_the_limit),
        TARGET_TEST(libxls_success_is_not_believed_without_the_store),
        TARGET_TEST(a_domain_that_goes_during_libxls_call_is_gone),
        TARGET_TEST(a_limit_gets_libxls_constant),
        TARGET_TEST(targets_report_no_events),
    };

    return cmocka_run_group_tests_name("plugin/libxl targets", tests, NULL, NULL);
}
