/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Each change of a domain is reported exactly once, whichever way it is learnt. */
#include "tests/plugin/cmocka_tests.h"

static struct xenpack_domain domains[FAKE_DOMAINS];

static int refresh(void* ts) {
    return fake_host_plugin()->refresh(ts, domains, FAKE_DOMAINS);
}

/* Domains 0 and 5 exist and have been reported. */
static int known_up(void** state) {
    plugin_up(state);
    fake_domain_add(0, 0);
    fake_domain_add(5, 0x55);
    refresh(*state);
    fake_events();
    xen.lists = 0;
    return 0;
}

static void the_first_refresh_reports_every_domain_in_order(void** state) {
    fake_domain_add(7, 7);
    fake_domain_add(0, 0);
    fake_domain_add(5, 5);
    assert_int_equal(refresh(*state), 3);
    assert_string_equal(fake_events(), "created 0, created 5, created 7");
    assert_int_equal(domains[0].domid, 0);
    assert_int_equal(domains[1].domid, 5);
    assert_int_equal(domains[2].domid, 7);
}

static void a_domain_is_described_in_kib_and_flags(void** state) {
    xc_domaininfo_t* d = fake_domain_add(5, 0xaa);

    d->flags |= XEN_DOMINF_paused;
    d->cpu_time = 0;
    d->outstanding_pages = 3;
    assert_int_equal(refresh(*state), 1);
    assert_int_equal(domains[0].uuid[0], 0xaa);
    assert_int_equal(domains[0].flags,
                     XENPACK_DOMAIN_IS_PAUSED | XENPACK_DOMAIN_NEVER_RAN | XENPACK_DOMAIN_IS_HVM);
    assert_int_equal(domains[0].shutdown_reason, -1);
    assert_int_equal(domains[0].current_kib, 100000);
    assert_int_equal(domains[0].limit_kib, 101024);
    assert_int_equal(domains[0].claimed_kib, 12);
    assert_int_equal(domains[0].vcpus_online, 1);

    /* Let run, it is no longer being built, though its vcpu has not had its turn. */
    d->flags &= ~(uint32_t)XEN_DOMINF_paused;
    assert_int_equal(refresh(*state), 1);
    assert_int_equal(domains[0].flags, XENPACK_DOMAIN_IS_HVM);
}

static void every_domain_of_a_large_host_is_listed(void** state) {
    uint32_t i;

    for (i = 0; i < 513; i++)
        fake_domain_add(i, 1);
    watcher.n_events = 0;
    assert_int_equal(fake_host_plugin()->refresh(*state, domains, 2), 513);
    assert_int_equal(domains[1].domid, 1);
    assert_int_equal(xen.watched, 512); /* all but the control domain */
}

static void nothing_changed_is_no_event(void** state) {
    refresh(*state);
    assert_string_equal(fake_events(), "");
}

static void a_pause_and_its_end_are_one_event_each(void** state) {
    fake_domain(5)->flags |= XEN_DOMINF_paused;
    refresh(*state);
    refresh(*state);
    assert_string_equal(fake_events(), "paused 5");
    fake_domain(5)->flags &= ~XEN_DOMINF_paused;
    refresh(*state);
    refresh(*state);
    assert_string_equal(fake_events(), "unpaused 5");
}

static void a_shutdown_seen_by_refresh_is_not_repeated_by_libxl(void** state) {
    fake_domain_shut_down(5, SHUTDOWN_crash);
    refresh(*state);
    assert_string_equal(fake_events(), "shut_down 5 reason 3");
    fake_xl_event(LIBXL_EVENT_TYPE_DOMAIN_SHUTDOWN, 5);
    fake_loop_round();
    refresh(*state);
    assert_string_equal(fake_events(), "");
}

static void a_shutdown_told_by_libxl_is_not_repeated_by_refresh(void** state) {
    fake_domain_shut_down(5, SHUTDOWN_poweroff);
    fake_xl_event(LIBXL_EVENT_TYPE_DOMAIN_SHUTDOWN, 5);
    assert_string_equal(fake_events(), ""); /* not while libxl is on the stack */
    fake_loop_round();
    assert_string_equal(fake_events(), "shut_down 5 reason 0");
    refresh(*state);
    assert_string_equal(fake_events(), "");
}

static void a_death_told_by_libxl_is_reported_once(void** state) {
    fake_domain_remove(5);
    fake_xl_event(LIBXL_EVENT_TYPE_DOMAIN_DEATH, 5);
    fake_loop_round();
    refresh(*state);
    assert_string_equal(fake_events(), "died 5");
}

static void many_of_libxls_events_are_one_look(void** state) {
    int i;

    (void)state;
    for (i = 0; i < 10; i++)
        fake_xl_event(LIBXL_EVENT_TYPE_DOMAIN_DEATH, 5);
    fake_loop_round();
    fake_loop_round();
    assert_int_equal(xen.lists, 1);
    assert_int_equal(xen.events_freed, 10);
}

static void a_suspend_is_a_shutdown_with_its_reason(void** state) {
    fake_domain_shut_down(5, SHUTDOWN_suspend);
    refresh(*state);
    assert_string_equal(fake_events(), "shut_down 5 reason 2");
}

static void a_dying_domain_dies_once(void** state) {
    fake_domain(5)->flags |= XEN_DOMINF_dying;
    assert_int_equal(refresh(*state), 2);
    refresh(*state);
    assert_string_equal(fake_events(), "died 5");
    fake_domain_remove(5);
    refresh(*state);
    assert_string_equal(fake_events(), "");
}

static void a_domid_with_another_uuid_is_a_death_and_a_creation(void** state) {
    fake_domain_remove(5);
    fake_domain_add(5, 0x56);
    refresh(*state);
    assert_int_equal(watcher.events[0].uuid[0], 0x55);
    assert_int_equal(watcher.events[1].uuid[0], 0x56);
    assert_string_equal(fake_events(), "died 5, created 5");
    assert_int_equal(xen.watched, 1);
}

static void a_reboot_is_a_death_and_a_creation_with_the_same_uuid(void** state) {
    fake_domain_remove(5);
    fake_domain_add(6, 0x55);
    refresh(*state);
    assert_string_equal(fake_events(), "died 5, created 6");
}

static void a_domain_found_shut_down_or_dying_says_so(void** state) {
    fake_domain_add(8, 8);
    fake_domain_shut_down(8, SHUTDOWN_crash);
    fake_domain_add(9, 9)->flags |= XEN_DOMINF_dying;
    refresh(*state);
    assert_string_equal(fake_events(), "created 8, shut_down 8 reason 3, created 9, died 9");
    assert_int_equal(xen.watched, 2); /* 5 and 8 */
}

/* libxl tells of one shutdown per watch: the second would go unnoticed between refreshes. */
static void a_resumed_domain_is_unpaused_and_watched_anew(void** state) {
    int before = xen.watches_made;

    fake_domain_shut_down(5, SHUTDOWN_suspend);
    refresh(*state);
    fake_domain(5)->flags &= ~XEN_DOMINF_shutdown;
    refresh(*state);
    assert_string_equal(fake_events(), "shut_down 5 reason 2, unpaused 5");
    assert_int_equal(xen.watches_made, before + 1);
    assert_int_equal(xen.watched, 1);
}

static void a_second_shutdown_for_another_reason_is_another(void** state) {
    fake_domain_shut_down(5, SHUTDOWN_suspend);
    refresh(*state);
    fake_domain_shut_down(5, SHUTDOWN_crash); /* resumed and crashed between two looks */
    refresh(*state);
    assert_string_equal(fake_events(), "shut_down 5 reason 2, shut_down 5 reason 3");
}

static void* reentrant;

static void pause_and_refresh(const struct xenpack_event* event) {
    if (event->type == XENPACK_DOMAIN_DIED) {
        fake_domain(7)->flags |= XEN_DOMINF_paused;
        refresh(reentrant);
    }
}

static void a_refresh_inside_an_event_is_reported_after_it(void** state) {
    fake_domain_add(7, 7);
    fake_domain_remove(5);
    reentrant = *state;
    watcher.during_event = pause_and_refresh;
    refresh(*state);
    assert_string_equal(fake_events(), "died 5, created 7, paused 7");
    assert_int_equal(watcher.deepest_event, 1);
}

static void a_failed_listing_reports_nothing_and_loses_nothing(void** state) {
    fake_domain_remove(5);
    xen.fail_list = EACCES;
    assert_int_equal(refresh(*state), -EACCES);
    assert_non_null(strstr(fake_host_plugin()->last_error(*state), "list"));
    assert_string_equal(fake_events(), "");
    xen.fail_list = 0;
    assert_int_equal(refresh(*state), 1);
    assert_string_equal(fake_host_plugin()->last_error(*state), "");
    assert_string_equal(fake_events(), "died 5");
}

static void without_libxls_notice_refresh_still_reports(void** state) {
    xen.fail_register = ERROR_FAIL;
    fake_domain_add(8, 8);
    refresh(*state);
    fake_domain_remove(8);
    refresh(*state);
    assert_string_equal(fake_events(), "created 8, died 8");
    assert_true(watcher.messages[XENPACK_LOG_WARNING] > 0);
}

static void one_domain_is_found_by_domid_and_uuid(void** state) {
    const struct xenpack_toolstack_ops* ops = fake_host_plugin();
    struct xenpack_domain d;

    assert_int_equal(ops->domain(*state, 5, UUID(0x55), &d), 0);
    assert_int_equal(d.current_kib, 100000);
    assert_int_equal(ops->domain(*state, 5, UUID(0x56), &d), -ESRCH);
    assert_int_equal(ops->domain(*state, 4, UUID(0x55), &d), -ESRCH);
    assert_int_equal(ops->domain(*state, 6, UUID(0x55), &d), -ESRCH);
    assert_string_equal(fake_events(), "");
}

int main(void) {
#define FRESH_TEST(test) cmocka_unit_test_setup_teardown(test, plugin_up, plugin_down)
#define KNOWN_TEST(test) cmocka_unit_test_setup_teardown(test, known_up, plugin_down)
    const struct CMUnitTest tests[] = {
        FRESH_TEST(the_first_refresh_reports_every_domain_in_order),
        FRESH_TEST(a_domain_is_described_in_kib_and_flags),
        FRESH_TEST(every_domain_of_a_large_host_is_listed),
        KNOWN_TEST(nothing_changed_is_no_event),
        KNOWN_TEST(a_pause_and_its_end_are_one_event_each),
        KNOWN_TEST(a_shutdown_seen_by_refresh_is_not_repeated_by_libxl),
        KNOWN_TEST(a_shutdown_told_by_libxl_is_not_repeated_by_refresh),
        KNOWN_TEST(a_death_told_by_libxl_is_reported_once),
        KNOWN_TEST(many_of_libxls_events_are_one_look),
        KNOWN_TEST(a_suspend_is_a_shutdown_with_its_reason),
        KNOWN_TEST(a_dying_domain_dies_once),
        KNOWN_TEST(a_domid_with_another_uuid_is_a_death_and_a_creation),
        KNOWN_TEST(a_reboot_is_a_death_and_a_creation_with_the_same_uuid),
        KNOWN_TEST(a_domain_found_shut_down_or_dying_says_so),
        KNOWN_TEST(a_resumed_domain_is_unpaused_and_watched_anew),
        KNOWN_TEST(a_second_shutdown_for_another_reason_is_another),
        KNOWN_TEST(a_refresh_inside_an_event_is_reported_after_it),
        KNOWN_TEST(a_failed_listing_reports_nothing_and_loses_nothing),
        KNOWN_TEST(without_libxls_notice_refresh_still_reports),
        KNOWN_TEST(one_domain_is_found_by_domid_and_uuid),
    };

    return cmocka_run_group_tests_name("plugin/libxl events", tests, NULL, NULL);
}
