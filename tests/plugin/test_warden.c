/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The process that pauses forks when the watcher ends: whom it pauses, when it leaves them alone,
 * what it leaves for the next watcher, and what becomes of that. It is a real one, and sees the
 * fake Xen as it was when it was started: with the first fork, or when it took another's place.
 */
#define _GNU_SOURCE
#include "tests/plugin/cmocka_tests.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/plugin/fake_fork.h"

enum { FORK = FAKE_NEW_DOMID, FIRST = 100, MANY = 1000 };

static const char record[] = "run/paused-forks";
static const char line[] = "9 99000000-0000-0000-0000-000000000000\n";
static const uint8_t uuid[16] = {0x99};

/* A host with a fork that another run of the watcher made, with little free. */
static int fork_up(void** state) {
    fake_host_make();
    fake_host_write(record, "", 0);
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

/* More than a socket holds messages. */
static void add_many(void) {
    uint32_t i;

    for (i = 0; i < MANY; i++)
        fake_domain_add(FIRST + i, 0x77);
}

static void adopt_many(void* ts) {
    uint32_t i;

    for (i = 0; i < MANY; i++) {
        assert_int_equal(fake_host_plugin()->adopt(ts, FIRST + i, UUID(0x77)), 0);
        calls_clear();
    }
}

/* How many are recorded to be paused. */
static int recorded(void) {
    const char* at = fake_host_read(record);
    int n = 0;

    for (; at && (at = strchr(at, '\n')); at++)
        n++;
    return n;
}

static pid_t process(void) {
    const char* text = fake_host_read("run/paused-forks.warden");

    return text ? atoi(text) : 0;
}

/* It is killed, and the watcher's loop hears of it. */
static void kill_it(void) {
    const pid_t pid = process();
    int i;

    assert_true(pid > 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    while (waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT) != 0)
        ;
    for (i = 0; i < FAKE_ENTRIES; i++) {
        const struct fake_entry* entry = &watcher.entries[i];
        int type = 0;
        socklen_t size = sizeof type;

        if (entry->live && entry->fd >= 0 &&
            getsockopt(entry->fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
            type == SOCK_SEQPACKET) {
            assert_int_equal(fake_loop_ready(entry->fd, XENPACK_IN), 1);
            return;
        }
    }
    fail_msg("nobody listens to it");
}

/* The watcher ends; how the process did. */
static int ended(void** state) {
    int status = -1;

    fake_host_plugin()->close(*state);
    *state = NULL;
    if (waitpid(process(), &status, 0) <= 0)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void forks_that_could_write_more_than_is_free_are_paused(void** state) {
    assert_int_equal(adopt(*state), 0);
    assert_int_equal(ended(state), 0);
    assert_string_equal(fake_host_read(record), line);
}

/* Called by what is undone while the watcher closes. */
static void warden_has_ended(void* arg, int result, const char* why) {
    siginfo_t info = {0};
    int tries;

    (void)result;
    (void)why;
    for (tries = 0; tries < 1000 && info.si_pid == 0; tries++) {
        assert_int_equal(waitid(P_PID, (id_t)process(), &info, WEXITED | WNOHANG | WNOWAIT), 0);
        poll(NULL, 0, 10);
    }
    *(bool*)arg = info.si_pid != 0;
}

/* Which may last, and nobody hears of a fork that starves. */
static void they_are_paused_before_what_is_under_way_is_undone(void** state) {
    static const uint8_t other[16] = {0x98};
    bool had_ended = false;

    fake_domain_add(FORK + 1, 0x98);
    assert_int_equal(adopt(*state), 0);
    assert_int_equal(
        fake_host_plugin()->destroy(*state, FORK + 1, other, warden_has_ended, &had_ended), 0);
    assert_int_equal(ended(state), 0);
    assert_true(had_ended);
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
    assert_string_equal(fake_host_read(record), "");
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

static void one_that_is_killed_is_said_and_another_started(void** state) {
    pid_t first;

    assert_int_equal(adopt(*state), 0);
    first = process();
    assert_true(first > 0);
    assert_int_equal(kill(first, SIGKILL), 0);
    fake_domain_remove(FORK); /* which cannot be told to it any more */
    while (waitid(P_PID, (id_t)first, &(siginfo_t){0}, WEXITED | WNOWAIT) != 0)
        ;
    assert_true(fake_host_plugin()->refresh(*state, NULL, 0) >= 0);
    fake_domain_add(FORK, 0x99);
    assert_int_equal(adopt(*state), 0);
    assert_int_not_equal(process(), first);
    assert_int_equal(ended(state), 0);
    assert_string_equal(fake_host_read(record), line);
}

static void one_that_is_killed_is_replaced_at_once(void** state) {
    pid_t first;

    assert_int_equal(adopt(*state), 0);
    first = process();
    poll(NULL, 0, 1100); /* one that ends within a second of its start is not */
    kill_it();
    assert_int_equal(watcher.messages[XENPACK_LOG_WARNING], 1);
    assert_true(process() > 0);
    assert_int_not_equal(process(), first);
    assert_int_equal(ended(state), 0);
    assert_string_equal(fake_host_read(record), line);
}

static int64_t now_ms(void) {
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void none_is_started_without_end(void** state) {
    const int64_t before_ms = now_ms();

    fake_domain_add(FORK + 1, 0x98);
    assert_int_equal(adopt(*state), 0);
    kill_it();
    assert_int_equal(watcher.messages[XENPACK_LOG_WARNING], 1);
    if (now_ms() - before_ms < 1000) /* a busy machine may take longer */
        assert_null(fake_host_read("run/paused-forks.warden"));
    assert_int_equal(fake_host_plugin()->adopt(*state, FORK + 1, UUID(0x98)), 0);
    assert_int_equal(ended(state), 0);
    assert_int_equal(recorded(), 2);
}

static void a_thousand_forks_are_paused(void** state) {
    add_many();
    assert_int_equal(adopt(*state), 0);
    assert_int_equal(kill(process(), SIGSTOP), 0); /* it takes no more */
    adopt_many(*state);
    assert_int_equal(watcher.messages[XENPACK_LOG_WARNING], 0);
    assert_int_equal(ended(state), 0);
    assert_int_equal(recorded(), 1 + MANY);
}

static void one_that_cannot_be_told_of_an_end_is_replaced(void** state) {
    uint32_t i;

    add_many();
    assert_int_equal(adopt(*state), 0);
    adopt_many(*state);
    assert_int_equal(kill(process(), SIGSTOP), 0);
    for (i = 0; i < MANY; i++)
        fake_domain_remove(FIRST + i);
    assert_true(fake_host_plugin()->refresh(*state, NULL, 0) > 0);
    assert_int_equal(watcher.messages[XENPACK_LOG_WARNING], 0);
    assert_int_equal(ended(state), 0);
    assert_string_equal(fake_host_read(record), line);
}

/* The watcher is opened again while the file names a process of that name; what it says of it. */
static int warnings_with(void** state, const char* name) {
    const int before = watcher.messages[XENPACK_LOG_WARNING];
    char text[16];
    int ready[2];
    pid_t pid;

    fake_host_plugin()->close(*state);
    *state = NULL;
    if (pipe(ready))
        abort();
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_NAME, name);
        close(ready[1]);
        close(ready[0]);
        for (;;)
            pause();
    }
    close(ready[1]);
    if (pid < 0 || read(ready[0], text, 1) != 0)
        abort();
    close(ready[0]);
    snprintf(text, sizeof text, "%d\n", pid);
    fake_host_write("run/paused-forks.warden", text, strlen(text));
    *state = fake_host_opened();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    return watcher.messages[XENPACK_LOG_WARNING] - before;
}

static void one_of_an_earlier_watcher_that_does_not_end_is_said(void** state) {
    assert_int_equal(warnings_with(state, "xenpack-warden"), 1);
}

static void another_process_by_its_number_is_none(void** state) {
    assert_int_equal(warnings_with(state, "sshd"), 0);
    assert_null(fake_host_read("run/paused-forks.warden"));
}

static void no_handler(int signal) {
    (void)signal;
}

/* What the watcher does with it, and that it is blocked while a process is started, is not its. */
static void other_signals_do_what_they_do_to_any(void** state) {
    int status = 0;
    pid_t pid;

    signal(SIGUSR1, no_handler);
    assert_int_equal(adopt(*state), 0);
    signal(SIGUSR1, SIG_DFL);
    pid = process();
    assert_int_equal(kill(pid, SIGUSR1), 0);
    fake_host_plugin()->close(*state);
    *state = NULL;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
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
        WARDEN_TEST(they_are_paused_before_what_is_under_way_is_undone),
        WARDEN_TEST(with_memory_for_all_nobody_is),
        WARDEN_TEST(what_is_no_fork_is_left_alone),
        WARDEN_TEST(who_does_not_run_is_left_alone),
        WARDEN_TEST(a_fork_that_has_ended_is_forgotten),
        WARDEN_TEST(the_next_watcher_lets_them_go),
        WARDEN_TEST(one_that_somebody_else_has_unpaused_is_paused_no_more),
        WARDEN_TEST(one_that_is_killed_is_said_and_another_started),
        WARDEN_TEST(one_that_is_killed_is_replaced_at_once),
        WARDEN_TEST(none_is_started_without_end),
        WARDEN_TEST(a_thousand_forks_are_paused),
        WARDEN_TEST(one_that_cannot_be_told_of_an_end_is_replaced),
        WARDEN_TEST(one_of_an_earlier_watcher_that_does_not_end_is_said),
        WARDEN_TEST(another_process_by_its_number_is_none),
        WARDEN_TEST(other_signals_do_what_they_do_to_any),
        WARDEN_TEST(the_signals_that_end_a_service_do_not_end_it),
    };

    return cmocka_run_group_tests_name("plugin/libxl warden", tests, NULL, NULL);
}
