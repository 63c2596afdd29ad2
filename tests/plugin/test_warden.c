/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The process that pauses forks when the watcher ends: whom it pauses, when it leaves them alone,
 * what it leaves for the next watcher, and what becomes of that. It is a real one, and sees the
 * fake Xen as it was when it was started: with the first fork.
 */
#define _GNU_SOURCE
#include "tests/plugin/cmocka_tests.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/plugin/fake_fork.h"

enum { FORK = FAKE_NEW_DOMID };

static const char record[] = "run/paused-forks";
static const char line[] = "9 99000000-0000-0000-0000-000000000000\n";
static const uint8_t uuid[16] = {0x99};

/* A host with a fork that another run of the watcher made, with little free. */
static int fork_up(void** state) {
    fake_host_make();
    fake_host_write("run/xenpackd.lock", "", 0); /* the directory is there */
    *state = fake_host_opened();
    fake_domain_add(FORK, 0x99);
    xen.physinfo.free_pages = 4096; /* what is never given */
    return 0;
}

/* No process is left to write where the next test looks. */
static int fork_down(void** state) {
    if (*state)
        fake_host_plugin()->close(*state);
    *state = NULL;
    while (waitpid(-1, NULL, 0) > 0)
        ;
    return plugin_down(state);
}

static int adopt(void* ts) {
    return fake_host_plugin()->adopt(ts, FORK, uuid);
}

static pid_t process(void) {
    const char* text = fake_host_read("run/paused-forks.warden");

    return text ? atoi(text) : 0;
}

/* The watcher ends; how the process did. */
static int ended(void** state) {
    const pid_t pid = process();
    int status = -1;

    fake_host_plugin()->close(*state);
    *state = NULL;
    if (pid <= 0 || waitpid(pid, &status, 0) <= 0)
        return -1;
    assert_int_equal(process(), 0); /* nothing is left to wait for */
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static unsigned lines(const char* text) {
    unsigned n = 0;

    for (; text && *text; text++)
        n += *text == '\n';
    return n;
}

/* Killed, and seen to be dead; the loop has not said so yet. */
static void killed(pid_t process) {
    assert_true(process > 0);
    assert_int_equal(kill(process, SIGKILL), 0);
    while (waitid(P_PID, (id_t)process, &(siginfo_t){0}, WEXITED | WNOWAIT) != 0)
        ;
}

static void forks_that_could_write_more_than_is_free_are_paused(void** state) {
    assert_int_equal(adopt(*state), 0);
    assert_int_equal(ended(state), 0);
    assert_string_equal(fake_host_read(record), line);
}

static void with_memory_for_all_nobody_is(void** state) {
    xen.physinfo.free_pages += 256;
    assert_int_equal(adopt(*state), 0);
    assert_int_equal(ended(state), 0);
    assert_null(fake_host_read(record));
}

static void what_is_no_fork_is_left_alone(void** state) {
    fake_domain_add(FORK + 1, 0x98);
    assert_int_equal(adopt(*state), 0);
    assert_int_equal(ended(state), 0);
    assert_string_equal(fake_host_read(record), line);
}

static void who_does_not_run_is_left_alone(void** state) {
    fake_domain(FORK)->flags |= XEN_DOMINF_paused;
    assert_int_equal(adopt(*state), 0);
    fake_domain(FORK)->flags |= XEN_DOMINF_paused;
    assert_int_equal(ended(state), 0);
    assert_null(fake_host_read(record));
}

static void a_fork_that_has_ended_is_forgotten(void** state) {
    assert_int_equal(adopt(*state), 0);
    fake_domain_remove(FORK);
    assert_int_equal(fake_host_plugin()->refresh(*state, NULL, 0), (int)xen.n_domains);
    assert_int_equal(ended(state), 0);
    assert_null(fake_host_read(record));
}

static void the_next_watcher_lets_them_go(void** state) {
    assert_int_equal(adopt(*state), 0);
    assert_int_equal(ended(state), 0);
    fake_domain(FORK)->flags |= XEN_DOMINF_paused; /* in this process' Xen too */
    *state = fake_host_opened();
    assert_int_equal(adopt(*state), 1);
    assert_int_equal(adopt(*state), 1); /* until it is let go */
    assert_string_equal(fake_host_read(record), line);
    assert_int_equal(fake_host_plugin()->let_go(*state, FORK, uuid), 0);
    assert_null(fake_host_read(record));
    assert_int_equal(adopt(*state), 0);
    assert_int_equal(fake_domain(FORK)->flags & XEN_DOMINF_paused, 0);
}

static void one_that_somebody_else_has_unpaused_is_paused_no_more(void** state) {
    assert_int_equal(adopt(*state), 0);
    assert_int_equal(ended(state), 0);
    *state = fake_host_opened();
    assert_true(fake_host_plugin()->refresh(*state, NULL, 0) > 0);
    assert_null(fake_host_read(record));
    assert_int_equal(adopt(*state), 0);
}

/* Not by that process: its ring could not be replaced, and its watcher has ended before it was. */
static void one_without_a_ring_is_known_to_the_next_watcher(void** state) {
    xen.physinfo.free_pages += 256;
    forking.fail = "xc_memshr_ring_enable";
    forking.fail_with = ENOMEM;
    assert_int_equal(adopt(*state), -ENOMEM);
    forking.fail = NULL;
    assert_string_equal(fake_host_read(record), line);
    assert_int_equal(ended(state), 0);
    *state = fake_host_opened();
    assert_int_equal(adopt(*state), 1);
    assert_int_not_equal(fake_domain(FORK)->flags & XEN_DOMINF_paused, 0);
    assert_int_equal(fake_host_plugin()->let_go(*state, FORK, uuid), 0);
    assert_int_equal(fake_domain(FORK)->flags & XEN_DOMINF_paused, 0);
    assert_null(fake_host_read(record));
}

static void one_that_is_killed_is_said_and_another_started(void** state) {
    pid_t first;

    assert_int_equal(adopt(*state), 0);
    first = process();
    killed(first);
    fake_domain_remove(FORK); /* which cannot be told to it any more */
    assert_true(fake_host_plugin()->refresh(*state, NULL, 0) >= 0);
    fake_domain_add(FORK, 0x99);
    assert_int_equal(adopt(*state), 0);
    assert_int_not_equal(process(), first);
    assert_int_equal(ended(state), 0);
    assert_string_equal(fake_host_read(record), line);
}

/* Many more than a socket holds messages. */
static void another_knows_of_all_there_are(void** state) {
    enum { MANY = 500 };
    uint8_t each[16] = {0};
    unsigned i;

    for (i = 1; i <= MANY; i++) {
        each[0] = (uint8_t)(i % 255 + 1);
        fake_domain_add(FORK + i, each[0]);
        if (i == MANY)
            killed(process());
        calls_clear();
        assert_int_equal(fake_host_plugin()->adopt(*state, FORK + i, each), 0);
    }
    assert_int_equal(ended(state), 0);
    assert_int_equal(lines(fake_host_read(record)), MANY);
}

static void who_forgets_a_fork_starts_another_for_the_rest(void** state) {
    uint8_t other[16] = {0x98};
    pid_t first;

    fake_domain_add(FORK + 1, other[0]);
    assert_int_equal(adopt(*state), 0);
    assert_int_equal(fake_host_plugin()->adopt(*state, FORK + 1, other), 0);
    first = process();
    killed(first);
    fake_domain_remove(FORK + 1);
    assert_true(fake_host_plugin()->refresh(*state, NULL, 0) >= 0);
    assert_int_not_equal(process(), first);
    assert_int_equal(ended(state), 0);
    assert_string_equal(fake_host_read(record), line);
}

/* By its number a predecessor is another program now: nobody waits for that. */
static void a_number_that_is_another_programs_is_not_waited_for(void** state) {
    char text[16];
    struct timespec began, now;

    fake_host_plugin()->close(*state);
    snprintf(text, sizeof text, "%d\n", (int)getpid());
    fake_host_write("run/paused-forks.warden", text, 0);
    clock_gettime(CLOCK_MONOTONIC, &began);
    *state = fake_host_opened();
    clock_gettime(CLOCK_MONOTONIC, &now);
    assert_true((now.tv_sec - began.tv_sec) * 1000 + (now.tv_nsec - began.tv_nsec) / 1000000 < 900);
}

static void the_signals_that_end_a_service_do_not_end_it(void** state) {
    assert_int_equal(adopt(*state), 0);
    assert_int_equal(kill(process(), SIGTERM), 0);
    assert_int_equal(ended(state), 0);
    assert_string_equal(fake_host_read(record), line);
}

int main(void) {
#define WARDEN_TEST(test) cmocka_unit_test_setup_teardown(test, fork_up, fork_down)
    const struct CMUnitTest tests[] = {
        WARDEN_TEST(forks_that_could_write_more_than_is_free_are_paused),
        WARDEN_TEST(with_memory_for_all_nobody_is),
        WARDEN_TEST(what_is_no_fork_is_left_alone),
        WARDEN_TEST(who_does_not_run_is_left_alone),
        WARDEN_TEST(a_fork_that_has_ended_is_forgotten),
        WARDEN_TEST(the_next_watcher_lets_them_go),
        WARDEN_TEST(one_that_somebody_else_has_unpaused_is_paused_no_more),
        WARDEN_TEST(one_without_a_ring_is_known_to_the_next_watcher),
        WARDEN_TEST(one_that_is_killed_is_said_and_another_started),
        WARDEN_TEST(another_knows_of_all_there_are),
        WARDEN_TEST(who_forgets_a_fork_starts_another_for_the_rest),
        WARDEN_TEST(a_number_that_is_another_programs_is_not_waited_for),
        WARDEN_TEST(the_signals_that_end_a_service_do_not_end_it),
    };

    return cmocka_run_group_tests_name("plugin/libxl warden", tests, NULL, NULL);
}
