/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* libxl's descriptors, timeouts, children and disasters on the watcher's loop. */
#include <poll.h>
#include <sys/time.h>

#include "tests/plugin/cmocka_tests.h"

static const int kFd = 1000; /* never opened: the loop is a fake */

static struct timeval in_seconds(long s) {
    struct timeval at;

    gettimeofday(&at, NULL);
    at.tv_sec += s;
    return at;
}

static void descriptor_events_reach_libxl(void** state) {
    struct fake_registration* r = fake_xl_fd_register(kFd, POLLIN);

    (void)state;
    assert_non_null(r);
    assert_int_equal(fake_loop_ready(kFd, XENPACK_OUT), 0);
    assert_int_equal(fake_loop_ready(kFd, XENPACK_IN), 1);
    assert_int_equal(r->occurred, 1);
}

static void a_registration_without_events_is_silent_until_modified(void** state) {
    struct fake_registration* r = fake_xl_fd_register(kFd, 0);

    (void)state;
    assert_non_null(r);
    assert_int_equal(fake_loop_ready(kFd, XENPACK_IN | XENPACK_OUT), 0);
    assert_int_equal(fake_xl_fd_modify(r, POLLOUT), 0);
    assert_int_equal(fake_loop_ready(kFd, XENPACK_OUT), 1);
    assert_int_equal(fake_xl_fd_modify(r, 0), 0);
    assert_int_equal(fake_loop_ready(kFd, XENPACK_IN | XENPACK_OUT), 0);
    assert_int_equal(r->occurred, 1);
}

static void one_descriptor_can_be_registered_twice(void** state) {
    struct fake_registration* in = fake_xl_fd_register(kFd, POLLIN);
    struct fake_registration* out = fake_xl_fd_register(kFd, POLLOUT);

    (void)state;
    fake_xl_fd_deregister(in);
    assert_int_equal(fake_loop_ready(kFd, XENPACK_IN | XENPACK_OUT), 1);
    assert_int_equal(out->occurred, 1);
}

static void deregister(struct fake_registration* self) {
    fake_xl_fd_deregister(self);
}

static void libxl_may_deregister_a_descriptor_while_told_of_it(void** state) {
    struct fake_registration* r = fake_xl_fd_register(kFd, POLLIN);
    int before = fake_loop_registered();

    (void)state;
    r->then = deregister;
    assert_int_equal(fake_loop_ready(kFd, XENPACK_IN), 1);
    assert_int_equal(fake_loop_registered(), before - 1);
}

static void a_loop_without_memory_is_told_to_libxl_and_changes_nothing(void** state) {
    struct fake_registration* r = fake_xl_fd_register(kFd, POLLIN);
    struct fake_registration* t = fake_xl_timeout_register(in_seconds(100));
    int before = fake_loop_registered();

    (void)state;
    watcher.fail_loop = -ENOMEM;
    assert_null(fake_xl_fd_register(kFd, POLLIN));
    assert_null(fake_xl_timeout_register(in_seconds(1)));
    assert_int_equal(fake_xl_fd_modify(r, POLLOUT), ERROR_OSEVENT_REG_FAIL);
    assert_int_equal(fake_xl_timeout_cancel(t), ERROR_OSEVENT_REG_FAIL);
    assert_int_equal(fake_loop_registered(), before);
    assert_int_equal(fake_loop_ready(kFd, XENPACK_IN), 1);
    assert_int_equal(fake_loop_round(), 0);
}

static void a_timeout_comes_once_after_its_delay(void** state) {
    struct fake_registration* r = fake_xl_timeout_register(in_seconds(100));

    (void)state;
    assert_non_null(fake_loop_timeout());
    assert_in_range(fake_loop_timeout()->delay_us, 99000000, 100000000);
    assert_int_equal(fake_loop_round(), 0);
    assert_int_equal(fake_loop_all_timeouts(), 1);
    assert_int_equal(r->occurred, 1);
    assert_int_equal(fake_loop_all_timeouts(), 0);
}

static void a_timeout_in_the_past_is_due_now(void** state) {
    struct fake_registration* r = fake_xl_timeout_register(in_seconds(-100));

    (void)state;
    assert_int_equal(fake_loop_timeout()->delay_us, 0);
    assert_int_equal(r->occurred, 0);
    assert_int_equal(fake_loop_round(), 1);
    assert_int_equal(r->occurred, 1);
}

static struct fake_registration* second;

static void register_another(struct fake_registration* self) {
    (void)self;
    second = fake_xl_timeout_register(in_seconds(100));
}

static void libxl_may_register_a_timeout_while_told_of_one(void** state) {
    struct fake_registration* r = fake_xl_timeout_register(in_seconds(-1));

    (void)state;
    r->then = register_another;
    assert_int_equal(fake_loop_round(), 1);
    assert_int_equal(fake_loop_all_timeouts(), 1);
    assert_int_equal(second->occurred, 1);
}

static void a_cancelled_timeout_comes_at_once_and_once(void** state) {
    struct fake_registration* r = fake_xl_timeout_register(in_seconds(100));

    (void)state;
    assert_int_equal(fake_xl_timeout_cancel(r), 0);
    assert_int_equal(r->occurred, 0);
    assert_int_equal(fake_loop_round(), 1);
    assert_int_equal(fake_loop_all_timeouts(), 0);
    assert_int_equal(r->occurred, 1);
}

static void a_cancelled_timeout_never_reaches_a_closed_libxl(void** state) {
    struct fake_registration* cancelled = fake_xl_timeout_register(in_seconds(100));
    struct fake_registration* waiting = fake_xl_timeout_register(in_seconds(100));

    fake_xl_timeout_cancel(cancelled);
    fake_host_plugin()->close(*state);
    *state = NULL;
    assert_int_equal(fake_loop_all_timeouts(), 0);
    assert_int_equal(cancelled->occurred + waiting->occurred, 0);
}

static void closing_gives_back_every_descriptor(void** state) {
    fake_xl_fd_register(kFd, POLLIN);
    fake_xl_fd_register(kFd, 0);
    fake_host_plugin()->close(*state);
    *state = NULL;
    assert_int_equal(fake_loop_registered(), 0);
}

static void children_are_the_main_loops_and_libxl_reaps_its_own(void** state) {
    (void)state;
    assert_int_equal(xen.children->chldowner, libxl_sigchld_owner_mainloop);
    assert_null(xen.children->reaped_callback);
    watcher.sigchld(watcher.sigchld_arg);
    assert_int_equal(xen.sigchlds, 1);
}

static void a_disaster_is_reported_once_from_the_loop(void** state) {
    fake_xl_disaster("cannot read watches", EIO);
    fake_xl_disaster("cannot read watches", EIO);
    assert_string_equal(fake_events(), "");
    fake_loop_round();
    fake_xl_disaster("cannot read watches", EIO);
    fake_loop_round();
    assert_string_equal(fake_events(), "host_lost 0");
    assert_int_equal(fake_host_plugin()->refresh(*state, NULL, 0), -EIO);
    assert_non_null(strstr(fake_host_plugin()->last_error(*state), "cannot read watches"));
}

static struct xenpack_toolstack* to_close;

static void close_it(const struct xenpack_event* event) {
    (void)event;
    fake_host_plugin()->close(to_close);
}

static void the_watcher_may_close_while_told_of_a_disaster(void** state) {
    to_close = *state;
    *state = NULL;
    watcher.during_event = close_it;
    fake_xl_disaster("no more watches", 0);
    assert_int_equal(fake_loop_round(), 1);
    assert_string_equal(fake_events(), "host_lost 0");
    assert_int_equal(fake_loop_registered(), 0);
}

static void a_disaster_without_loop_memory_still_ends_all_calls(void** state) {
    struct xenpack_host host;

    watcher.fail_loop = -ENOMEM;
    fake_xl_disaster("no more watches", 0);
    assert_int_equal(watcher.messages[XENPACK_LOG_ERROR], 1);
    assert_int_equal(fake_host_plugin()->host(*state, &host), -EIO);
}

int main(void) {
#define PLUGIN_TEST(test) cmocka_unit_test_setup_teardown(test, plugin_up, plugin_down)
    const struct CMUnitTest tests[] = {
        PLUGIN_TEST(descriptor_events_reach_libxl),
        PLUGIN_TEST(a_registration_without_events_is_silent_until_modified),
        PLUGIN_TEST(one_descriptor_can_be_registered_twice),
        PLUGIN_TEST(libxl_may_deregister_a_descriptor_while_told_of_it),
        PLUGIN_TEST(a_loop_without_memory_is_told_to_libxl_and_changes_nothing),
        PLUGIN_TEST(a_timeout_comes_once_after_its_delay),
        PLUGIN_TEST(a_timeout_in_the_past_is_due_now),
        PLUGIN_TEST(libxl_may_register_a_timeout_while_told_of_one),
        PLUGIN_TEST(a_cancelled_timeout_comes_at_once_and_once),
        PLUGIN_TEST(a_cancelled_timeout_never_reaches_a_closed_libxl),
        PLUGIN_TEST(closing_gives_back_every_descriptor),
        PLUGIN_TEST(children_are_the_main_loops_and_libxl_reaps_its_own),
        PLUGIN_TEST(a_disaster_is_reported_once_from_the_loop),
        PLUGIN_TEST(the_watcher_may_close_while_told_of_a_disaster),
        PLUGIN_TEST(a_disaster_without_loop_memory_still_ends_all_calls),
    };

    return cmocka_run_group_tests_name("plugin/libxl hooks", tests, NULL, NULL);
}
