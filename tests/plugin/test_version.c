/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* open(): which hosts it accepts, what it says of the others, and what it leaves behind. */
#include "tests/plugin/cmocka_tests.h"

static char error[512];

/* One sentence for a person: begins and goes on without a line break, and says all of `parts`. */
static void assert_sentence(const char* const* parts) {
    assert_true(strlen(error) > 20);
    assert_null(strchr(error, '\n'));
    for (; *parts; parts++)
        if (!strstr(error, *parts))
            fail_msg("\"%s\" does not say \"%s\"", error, *parts);
}

static int opened(void) {
    struct xenpack_toolstack* ts = (void*)1;
    int r = fake_host_open(&ts, error, sizeof error);

    if (r == 0)
        fake_host_plugin()->close(ts);
    else
        assert_null(ts);
    return r;
}

static void accepts_the_version_it_was_built_for(void** state) {
    (void)state;
    assert_int_equal(opened(), 0);
}

static void refuses_another_version_in_one_sentence(void** state) {
    (void)state;
    fake_host_write("sys/hypervisor/version/minor", "99\n", 3);
    assert_int_equal(opened(), -ENOEXEC);
    assert_sentence((const char* const[]){fake_host_plugin()->built_for, ".99", "install", NULL});
    assert_int_equal(xen.interfaces + xen.contexts, 0);
}

static void refuses_a_version_it_only_begins_with(void** state) {
    (void)state;
    fake_host_write("sys/hypervisor/version/minor", "170\n", 4);
    assert_int_equal(opened(), -ENOEXEC);
}

static void refuses_a_guest(void** state) {
    (void)state;
    fake_host_write("proc/xen/capabilities", "", 0);
    assert_int_equal(opened(), -ENODEV);
    assert_sentence((const char* const[]){"guest", "dom0", NULL});
}

static void refuses_a_machine_without_xen(void** state) {
    (void)state;
    fake_host_unlink("sys/hypervisor/type");
    assert_int_equal(opened(), -ENODEV);
    assert_sentence((const char* const[]){"Xen", "boot", NULL});
}

static void refuses_a_host_that_hides_its_version(void** state) {
    (void)state;
    fake_host_unlink("sys/hypervisor/version/major");
    assert_int_equal(opened(), -ENODEV);
}

static void asks_libxl_where_xenfs_is_not_mounted(void** state) {
    (void)state;
    fake_host_unlink("proc/xen/capabilities");
    assert_int_equal(opened(), 0);
    xen.fail_ctx = ERROR_FAIL;
    assert_true(opened() < 0);
}

static void leaves_nothing_behind_where_libxl_cannot_start(void** state) {
    (void)state;
    xen.fail_ctx = ERROR_FAIL;
    assert_true(opened() < 0);
    assert_sentence((const char* const[]){"libxl", NULL});
    assert_int_equal(fake_loop_registered() + xen.interfaces, 0);
}

static void leaves_nothing_behind_where_the_loop_takes_no_child_hook(void** state) {
    (void)state;
    watcher.fail_loop = -ENOMEM;
    assert_int_equal(opened(), -ENOMEM);
    assert_int_equal(fake_loop_registered() + xen.interfaces + xen.contexts, 0);
}

static void refuses_a_watcher_of_another_interface(void** state) {
    (void)state;
    watcher.ops.version++;
    assert_int_equal(opened(), -EPROTO);
    assert_sentence((const char* const[]){"version", "same release", NULL});
}

static void closes_nothing(void** state) {
    (void)state;
    fake_host_plugin()->close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(accepts_the_version_it_was_built_for, host_up, host_down),
        cmocka_unit_test_setup_teardown(refuses_another_version_in_one_sentence, host_up,
                                        host_down),
        cmocka_unit_test_setup_teardown(refuses_a_version_it_only_begins_with, host_up, host_down),
        cmocka_unit_test_setup_teardown(refuses_a_guest, host_up, host_down),
        cmocka_unit_test_setup_teardown(refuses_a_machine_without_xen, host_up, host_down),
        cmocka_unit_test_setup_teardown(refuses_a_host_that_hides_its_version, host_up, host_down),
        cmocka_unit_test_setup_teardown(asks_libxl_where_xenfs_is_not_mounted, host_up, host_down),
        cmocka_unit_test_setup_teardown(leaves_nothing_behind_where_libxl_cannot_start, host_up,
                                        host_down),
        cmocka_unit_test_setup_teardown(leaves_nothing_behind_where_the_loop_takes_no_child_hook,
                                        host_up, host_down),
        cmocka_unit_test_setup_teardown(refuses_a_watcher_of_another_interface, host_up, host_down),
        cmocka_unit_test_setup_teardown(closes_nothing, host_up, host_down),
    };

    return cmocka_run_group_tests_name("plugin/libxl open", tests, NULL, NULL);
}
