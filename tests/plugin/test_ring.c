/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Forks that lack memory: who hears of it and how often, what feeding answers, what becomes of a
 * ring when its fork or its watcher ends, and that adopting one loses nobody and leaves nothing,
 * also where the watcher dies in the middle of it.
 */
#define _GNU_SOURCE
#include "tests/plugin/cmocka_tests.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/plugin/fake_fork.h"

enum { FORK = FAKE_NEW_DOMID, PLACES = 8 };

static const uint8_t uuid[16] = {0x99};
static const char record[] = "run/paused-forks";
static const char line[] = "9 99000000-0000-0000-0000-000000000000\n";

/* A host with a fork that another run of the watcher made, with two processors. */
static int fork_up(void** state) {
    if (plugin_up(state))
        return -1;
    fake_domain_add(FORK, 0x99)->max_vcpu_id = 1;
    calls_clear();
    return 0;
}

/* The same on a host where it is recorded who is paused. */
static int recorded_up(void** state) {
    fake_host_make();
    fake_host_write(record, "", 0);
    *state = fake_host_opened();
    fake_domain_add(FORK, 0x99);
    return 0;
}

static const struct xenpack_toolstack_ops* plugin(void) {
    return fake_host_plugin();
}

static int adopt(struct xenpack_toolstack* ts) {
    return plugin()->adopt(ts, FORK, uuid);
}

/* Adopted, and all that it said meanwhile heard. */
static void adopted(struct xenpack_toolstack* ts) {
    assert_int_equal(adopt(ts), 0);
    fake_ring_deliver();
    fake_events();
    calls_clear();
}

static void restart(void** state) {
    plugin()->close(*state);
    *state = fake_host_opened();
    calls_clear();
}

static bool is_paused(void) {
    return (fake_domain(FORK)->flags & XEN_DOMINF_paused) != 0;
}

static int waiting(void) {
    int i, n = 0;

    for (i = 0; i < FAKE_VCPUS; i++)
        n += ring.waiting[i];
    return n;
}

/* ---- starving and feeding ----------------------------------------------------------------------
 */

static void it_is_told_once_until_it_is_fed(void** state) {
    adopted(*state);
    fake_ring_starve(0);
    assert_int_equal(fake_ring_deliver(), 1);
    assert_int_equal(watcher.n_events, 1);
    assert_memory_equal(watcher.events[0].uuid, uuid, 16);
    assert_int_equal(watcher.events[0].shutdown_reason, -1);
    assert_string_equal(fake_events(), "starved 9");
    fake_ring_starve(1);
    assert_int_equal(fake_ring_deliver(), 1);
    assert_string_equal(fake_events(), "");
    assert_int_equal(waiting(), 2);
    assert_int_equal(plugin()->feed(*state, FORK, uuid), 0);
    assert_int_equal(waiting(), 0);
    assert_string_equal(calls_text(), "notify\n");
    fake_ring_starve(1);
    fake_ring_deliver();
    assert_string_equal(fake_events(), "starved 9");
    assert_int_equal(plugin()->feed(*state, FORK, uuid), 0);
    assert_int_equal(waiting(), 0);
    assert_int_equal(ring.unasked_answers, 0);
}

static void nothing_is_answered_before_it_is_fed(void** state) {
    adopted(*state);
    fake_ring_starve(0);
    fake_ring_deliver();
    assert_string_equal(calls_text(), "");
    assert_int_equal(waiting(), 1);
}

static void what_waits_for_nothing_is_not_answered(void** state) {
    adopted(*state);
    assert_int_equal(plugin()->feed(*state, FORK, uuid), 0);
    assert_string_equal(calls_text(), "");
}

static void feeding_answers_what_was_not_heard_yet(void** state) {
    adopted(*state);
    fake_ring_starve(0);
    assert_int_equal(plugin()->feed(*state, FORK, uuid), 0);
    assert_int_equal(waiting(), 0);
    assert_int_equal(fake_ring_deliver(), 1);
    assert_string_equal(fake_events(), "");
}

static struct xenpack_toolstack* fed_at_once;
static void feed_at_once(const struct xenpack_event* event) {
    if (event->type == XENPACK_FORK_STARVED)
        plugin()->feed(fed_at_once, event->domid, event->uuid);
}

static void it_can_be_fed_in_the_event(void** state) {
    int i;

    adopted(*state);
    fed_at_once = *state;
    watcher.during_event = feed_at_once;
    for (i = 0; i < 3 * PLACES; i++) {
        fake_ring_starve(i % 2);
        fake_ring_deliver();
        assert_int_equal(waiting(), 0);
    }
    assert_int_equal(watcher.n_events, 3 * PLACES);
    assert_int_equal(ring.unasked_answers, 0);
}

static void processors_without_a_place_come_again(void** state) {
    int i;

    adopted(*state);
    for (i = 0; i < PLACES + 3; i++)
        fake_ring_starve(i);
    fake_ring_deliver();
    assert_int_equal(waiting(), PLACES);
    assert_int_equal(plugin()->feed(*state, FORK, uuid), 0);
    assert_int_equal(waiting(), 0);
    for (i = 0; i < 3; i++)
        fake_ring_starve(PLACES + i);
    fake_ring_deliver();
    assert_string_equal(fake_events(), "starved 9, starved 9");
    assert_int_equal(waiting(), 3);
    assert_int_equal(plugin()->feed(*state, FORK, uuid), 0);
    assert_int_equal(waiting(), 0);
}

static void what_dom0_asked_for_keeps_no_place(void** state) {
    int i;

    adopted(*state);
    fake_ring_starve(1);
    fake_ring_deliver();
    fake_events();
    for (i = 0; i < 2 * PLACES; i++) {
        fake_ring_starve_dom0();
        fake_ring_deliver();
    }
    assert_string_equal(fake_events(), "");
    assert_int_equal(ring.foreign_answers, 2 * PLACES);
    assert_int_equal(waiting(), 1);
    assert_int_equal(plugin()->feed(*state, FORK, uuid), 0);
    assert_int_equal(waiting(), 0);
    assert_int_equal(ring.unasked_answers, 0);
}

static void who_is_not_served_is_not_fed(void** state) {
    assert_int_equal(plugin()->feed(*state, FORK, uuid), -EINVAL);
    assert_non_null(strstr(plugin()->last_error(*state), "adopt"));
}

/* ---- adopting ----------------------------------------------------------------------------------
 */

static void a_ring_is_replaced_in_this_order(void** state) {
    assert_int_equal(adopt(*state), 0);
    assert_string_equal(calls_text(),
                        "pause 9\n"
                        "take page 9 fe01d\n" /* what the fork may have there */
                        "page 9 fe01d\n"
                        "map 9 fe01d\n"
                        "no ring 9\n"
                        "ring 9\n" /* one to let go those that wait, */
                        "bind 9 7\n"
                        "notify\n"
                        "notify\n"
                        "no ring 9\n"
                        "ring 9\n" /* and one that counts well */
                        "bind 9 7\n"
                        "take page 9 fe01d\n"
                        "unpause 9\n");
    assert_true(ring.is_enabled);
    assert_false(ring.is_page_visible);
    assert_false(is_paused());
}

static void who_waited_when_the_watcher_ended_goes_on(void** state) {
    adopted(*state);
    fake_ring_starve(0);
    fake_ring_deliver();
    assert_string_equal(fake_events(), "starved 9");
    restart(state);
    assert_true(ring.is_enabled);
    assert_int_equal(ring.mapped, 0);
    assert_int_equal(waiting(), 1);
    fake_ring_starve(1); /* nobody hears of it */
    fake_ring_starve(1); /* as in a hypercall: it is paused twice */
    fake_ring_starve(1);
    assert_int_equal(fake_ring_deliver(), 0);
    assert_int_equal(adopt(*state), 0);
    assert_int_equal(waiting(), 0);
    assert_int_equal(ring.mapped, 1);
    assert_int_equal(ring.unasked_answers, 0);
    fake_ring_deliver();
    assert_string_equal(fake_events(), "");
    feeding_answers_what_was_not_heard_yet(state);
    it_is_told_once_until_it_is_fed(state);
}

static void one_that_is_served_is_left_alone(void** state) {
    adopted(*state);
    fake_ring_starve(0);
    assert_int_equal(adopt(*state), 0);
    assert_string_equal(calls_text(), "");
    assert_int_equal(waiting(), 1);
}

struct failure {
    const char* function;
    int with, result, after;
};

/* A fork that waits, and whose watcher has ended. */
static void fails_to_adopt(void** state, const struct failure* f) {
    adopted(*state);
    fake_ring_starve(0);
    restart(state);
    forking.fail = f->function;
    forking.fail_with = f->with;
    forking.fail_after = f->after;
    if (adopt(*state) != f->result || !*plugin()->last_error(*state))
        fail_msg("%s: \"%s\"", f->function, plugin()->last_error(*state));
    forking.fail = NULL;
    forking.fail_after = 0;
}

static void what_fails_before_the_old_ring_is_gone_changes_nothing(void** state) {
    static const struct failure failures[] = {
        {"xc_hvm_param_get", EPERM, -EPERM, 0},
        {"xc_domain_populate_physmap_exact", ENOMEM, -ENOMEM, 0},
        {"xenforeignmemory_map", ENOMEM, -ENOMEM, 0},
        {"xc_memshr_ring_disable", EBUSY, -EBUSY, 0},
    };
    size_t i;

    for (i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        fails_to_adopt(state, &failures[i]);
        assert_int_equal(ring.mapped, 0);
        assert_false(ring.is_page_visible);
        assert_true(ring.is_enabled);
        assert_int_equal(waiting(), 1);
        assert_false(is_paused());
        assert_int_equal(adopt(*state), 0);
        assert_int_equal(waiting(), 0);
    }
}

static void without_a_ring_it_stays_paused_until_it_has_one(void** state) {
    static const struct failure failures[] = {
        {"xc_memshr_ring_enable", ENOMEM, -ENOMEM, 0},
        {"xenevtchn_bind_interdomain", ENOSPC, -ENOSPC, 0},
        {"xenevtchn_notify", EINVAL, -EINVAL, 0},
        {"xc_memshr_ring_enable", ENOMEM, -ENOMEM, 1},
        {"xc_domain_decrease_reservation_exact", EINVAL, -EINVAL, 0},
    };
    size_t i;

    for (i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        fails_to_adopt(state, &failures[i]);
        assert_int_equal(ring.mapped, 0);
        assert_false(ring.is_page_visible);
        assert_false(ring.is_enabled);
        assert_true(is_paused());
        assert_non_null(strstr(plugin()->last_error(*state), "stays paused"));
        assert_int_equal(plugin()->feed(*state, FORK, uuid), -EINVAL);
        calls_clear();
        assert_int_equal(adopt(*state), 0);
        assert_null(strstr(calls_text(), "\npause")); /* Xen counts */
        assert_false(strncmp(calls_text(), "pause", 5) == 0);
        assert_non_null(strstr(calls_text(), "unpause 9\n"));
        assert_int_equal(waiting(), 0);
        assert_false(is_paused());
    }
}

static void what_cannot_be_unpaused_can_be_tried_again(void** state) {
    const struct failure failure = {"xc_domain_unpause", EINVAL, -EINVAL, 0};

    fails_to_adopt(state, &failure);
    calls_clear();
    assert_int_equal(adopt(*state), 0);
    assert_string_equal(calls_text(), "unpause 9\n");
    assert_int_equal(ring.mapped, 1);
}

static void one_that_is_paused_is_not_paused_again(void** state) {
    fake_domain(FORK)->flags |= XEN_DOMINF_paused;
    assert_int_equal(adopt(*state), 0);
    assert_null(strstr(calls_text(), "pause")); /* Xen counts: neither is its pause taken away */
    assert_true(is_paused());
    assert_int_equal(ring.mapped, 1);
}

static void one_that_is_held_is_not_let_go_without_a_ring(void** state) {
    assert_int_equal(plugin()->hold(*state, FORK, uuid), 0);
    forking.fail = "xc_memshr_ring_enable";
    forking.fail_with = ENOMEM;
    assert_int_equal(adopt(*state), -ENOMEM);
    forking.fail = NULL;
    assert_int_equal(plugin()->let_go(*state, FORK, uuid), -EAGAIN);
    assert_true(is_paused());
    assert_int_equal(adopt(*state), 0);
    assert_true(is_paused());
    assert_int_equal(plugin()->let_go(*state, FORK, uuid), 0);
    assert_string_equal(strstr(calls_text(), "unpause"), "unpause 9\n");
}

/* A watcher of its own process adopts it, and dies with the fork paused for that. */
static void die_while_it_is_stopped(struct xenpack_toolstack* ts) {
    int status;
    const pid_t pid = fork();

    if (pid == 0) {
        setenv("XENPACK_FAULT", "ring.stopped", 1);
        adopt(ts);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    fake_domain(FORK)->flags |= XEN_DOMINF_paused; /* in this process' Xen too */
}

static void one_that_an_adoption_left_paused_can_be_let_go(void** state) {
    die_while_it_is_stopped(*state);
    assert_string_equal(fake_host_read(record), line);
    restart(state);
    assert_int_equal(adopt(*state), 1);
    assert_null(strstr(calls_text(), "pause"));
    assert_int_equal(ring.mapped, 1);
    assert_int_equal(plugin()->let_go(*state, FORK, uuid), 0);
    assert_false(is_paused());
    assert_null(fake_host_read(record));
    assert_int_equal(adopt(*state), 0);
}

static bool was_recorded;
static void look_at_record(void) {
    was_recorded = fake_host_read(record) && !strcmp(fake_host_read(record), line);
}

static void it_is_recorded_only_while_it_is_stopped(void** state) {
    was_recorded = false;
    forking.during_pause = look_at_record;
    assert_int_equal(adopt(*state), 0);
    assert_true(was_recorded); /* before it was paused */
    assert_null(fake_host_read(record));
    restart(state);
    forking.fail = "xc_memshr_ring_disable";
    forking.fail_with = EBUSY;
    assert_int_equal(adopt(*state), -EBUSY);
    assert_false(is_paused());
    assert_null(fake_host_read(record));
    forking.fail = "xc_domain_pause";
    assert_int_equal(adopt(*state), -EBUSY);
    assert_null(fake_host_read(record));
    forking.fail = "xc_memshr_ring_enable";
    assert_int_equal(adopt(*state), -EBUSY);
    assert_true(is_paused());
    assert_string_equal(fake_host_read(record), line);
    forking.fail = NULL;
    assert_int_equal(adopt(*state), 0); /* it is nobody's to let go */
    assert_false(is_paused());
    assert_null(fake_host_read(record));
}

static void one_that_waits_for_a_ring_is_let_go_by_the_next_watcher(void** state) {
    forking.fail = "xc_memshr_ring_enable";
    forking.fail_with = ENOMEM;
    assert_int_equal(adopt(*state), -ENOMEM);
    forking.fail = NULL;
    restart(state);
    assert_int_equal(adopt(*state), 1);
    assert_null(strstr(calls_text(), "pause"));
    assert_int_equal(plugin()->let_go(*state, FORK, uuid), 0);
    assert_false(is_paused());
    assert_null(fake_host_read(record));
}

static void a_domain_without_a_place_for_a_ring(void** state) {
    forking.has_no_ring_place = true;
    assert_int_equal(adopt(*state), -EOPNOTSUPP);
    assert_false(is_paused());
}

/* ---- ends --------------------------------------------------------------------------------------
 */

static void refresh(struct xenpack_toolstack* ts) {
    struct xenpack_domain domains[8];

    assert_true(plugin()->refresh(ts, domains, 8) >= 0);
}

static void nothing_is_kept_of_a_dead_one(void** state) {
    adopted(*state);
    refresh(*state);
    fake_events();
    assert_int_equal(ring.mapped, 1);
    fake_ring_starve(0); /* its last words */
    fake_domain_remove(FORK);
    refresh(*state);
    assert_string_equal(fake_events(), "died 9");
    assert_int_equal(ring.mapped, 0);
    fake_ring_deliver();
    assert_string_equal(fake_events(), "");
}

static void nothing_is_kept_of_a_dying_one(void** state) {
    adopted(*state);
    fake_domain(FORK)->flags |= XEN_DOMINF_dying;
    fake_xl_event(LIBXL_EVENT_TYPE_DOMAIN_DEATH, FORK);
    fake_loop_round();
    assert_int_equal(ring.mapped, 0);
}

static void a_successor_by_its_number_is_another(void** state) {
    const uint8_t other[16] = {0x98};

    adopted(*state);
    fake_domain_remove(FORK);
    fake_domain_add(FORK, 0x98);
    assert_int_equal(plugin()->feed(*state, FORK, uuid), -ESRCH);
    assert_int_equal(plugin()->feed(*state, FORK, other), -EINVAL);
    refresh(*state);
    assert_int_equal(ring.mapped, 0);
    assert_int_equal(plugin()->adopt(*state, FORK, other), 0);
    assert_int_equal(ring.mapped, 1);
}

static void nobody_is_answered_by_a_watcher_that_ends(void** state) {
    adopted(*state);
    fake_ring_starve(0);
    fake_ring_deliver();
    calls_clear();
    plugin()->close(*state);
    *state = NULL;
    assert_string_equal(calls_text(), "");
    assert_true(ring.is_enabled);
    assert_int_equal(waiting(), 1);
    assert_int_equal(fake_ring_left(), 0);
}

/* ---- holding -----------------------------------------------------------------------------------
 */

static void each_hold_is_a_pause_of_its_own(void** state) {
    assert_int_equal(plugin()->hold(*state, FORK, uuid), 0);
    assert_int_equal(plugin()->hold(*state, FORK, uuid), 0);
    assert_int_equal(plugin()->let_go(*state, FORK, uuid), 0);
    assert_string_equal(calls_text(), "pause 9\npause 9\nunpause 9\n");
}

static void nothing_is_done_to_who_is_gone(void** state) {
    const struct xenpack_toolstack_ops* p = plugin();
    int (*const calls[])(struct xenpack_toolstack*, uint32_t, const uint8_t[16]) = {
        p->adopt, p->feed, p->hold, p->let_go};
    size_t i;

    for (i = 0; i < sizeof calls / sizeof calls[0]; i++)
        assert_int_equal(calls[i](*state, FORK, UUID(0x98)), -ESRCH);
    fake_domain(FORK)->flags |= XEN_DOMINF_dying;
    for (i = 0; i < sizeof calls / sizeof calls[0]; i++)
        assert_int_equal(calls[i](*state, FORK, uuid), -ESRCH);
    assert_string_equal(calls_text(), "");
}

/* ---- the host ----------------------------------------------------------------------------------
 */

static void low_memory_is_told_each_time(void** state) {
    (void)state;
    fake_ring_memory_low();
    fake_ring_deliver();
    assert_string_equal(fake_events(), "low 0");
    fake_ring_memory_low();
    fake_ring_deliver();
    assert_string_equal(fake_events(), "low 0");
}

static void another_listener_is_said_once(void** state) {
    plugin()->close(*state);
    ring.interrupt_taken = true;
    *state = fake_host_opened();
    assert_int_equal(watcher.messages[XENPACK_LOG_WARNING], 1);
    adopted(*state);
    fake_ring_starve(0);
    fake_ring_deliver();
    assert_string_equal(fake_events(), "starved 9");
    assert_int_equal(watcher.messages[XENPACK_LOG_WARNING], 1);
}

static void a_host_without_event_channels_has_no_forks(void** state) {
    static const char* const functions[] = {"xenevtchn_open", "xenforeignmemory_open"};
    struct xenpack_host host;
    size_t i;

    for (i = 0; i < 2; i++) {
        plugin()->close(*state);
        forking.fail = functions[i];
        forking.fail_with = ENOENT;
        *state = fake_host_opened();
        forking.fail = NULL;
        assert_int_equal(watcher.messages[XENPACK_LOG_WARNING], i + 1);
        assert_int_equal(plugin()->host(*state, &host), 0);
        assert_int_equal(adopt(*state), -ENOENT);
        assert_false(is_paused());
        assert_int_equal(plugin()->hold(*state, FORK, uuid), 0);
        assert_int_equal(plugin()->let_go(*state, FORK, uuid), 0);
    }
}

static void a_loop_without_room_leaves_nothing_open(void** state) {
    char error[256];

    plugin()->close(*state);
    watcher.fail_loop = -ENOMEM;
    assert_int_not_equal(fake_host_open((struct xenpack_toolstack**)state, error, sizeof error), 0);
    watcher.fail_loop = 0;
    *state = NULL;
}

static void nothing_is_told_after_the_end(void** state) {
    adopted(*state);
    fake_xl_disaster("it is broken", 0);
    fake_ring_memory_low();
    fake_ring_starve(0);
    fake_ring_deliver();
    fake_loop_round();
    assert_string_equal(fake_events(), "host_lost 0");
}

int main(void) {
#define RING_TEST(test) cmocka_unit_test_setup_teardown(test, fork_up, plugin_down)
#define RECORD_TEST(test) cmocka_unit_test_setup_teardown(test, recorded_up, plugin_down)
    const struct CMUnitTest tests[] = {
        RING_TEST(it_is_told_once_until_it_is_fed),
        RING_TEST(nothing_is_answered_before_it_is_fed),
        RING_TEST(what_waits_for_nothing_is_not_answered),
        RING_TEST(feeding_answers_what_was_not_heard_yet),
        RING_TEST(it_can_be_fed_in_the_event),
        RING_TEST(processors_without_a_place_come_again),
        RING_TEST(what_dom0_asked_for_keeps_no_place),
        RING_TEST(who_is_not_served_is_not_fed),
        RING_TEST(a_ring_is_replaced_in_this_order),
        RING_TEST(who_waited_when_the_watcher_ended_goes_on),
        RING_TEST(one_that_is_served_is_left_alone),
        RING_TEST(what_fails_before_the_old_ring_is_gone_changes_nothing),
        RING_TEST(without_a_ring_it_stays_paused_until_it_has_one),
        RING_TEST(what_cannot_be_unpaused_can_be_tried_again),
        RING_TEST(one_that_is_paused_is_not_paused_again),
        RING_TEST(one_that_is_held_is_not_let_go_without_a_ring),
        RECORD_TEST(one_that_an_adoption_left_paused_can_be_let_go),
        RECORD_TEST(it_is_recorded_only_while_it_is_stopped),
        RECORD_TEST(one_that_waits_for_a_ring_is_let_go_by_the_next_watcher),
        RING_TEST(a_domain_without_a_place_for_a_ring),
        RING_TEST(nothing_is_kept_of_a_dead_one),
        RING_TEST(nothing_is_kept_of_a_dying_one),
        RING_TEST(a_successor_by_its_number_is_another),
        RING_TEST(nobody_is_answered_by_a_watcher_that_ends),
        RING_TEST(each_hold_is_a_pause_of_its_own),
        RING_TEST(nothing_is_done_to_who_is_gone),
        RING_TEST(low_memory_is_told_each_time),
        RING_TEST(another_listener_is_said_once),
        RING_TEST(a_host_without_event_channels_has_no_forks),
        RING_TEST(a_loop_without_room_leaves_nothing_open),
        RING_TEST(nothing_is_told_after_the_end),
    };

    return cmocka_run_group_tests_name("plugin/libxl rings", tests, NULL, NULL);
}
