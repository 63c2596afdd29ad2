/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* host(): what is free. domain_config(): what a domain was created with. */
#include "tests/plugin/cmocka_tests.h"

static struct xenpack_host host(void* ts) {
    struct xenpack_host h;

    assert_int_equal(fake_host_plugin()->host(ts, &h), 0);
    return h;
}

static void memory_is_counted_in_kib(void** state) {
    struct xenpack_host h = host(*state);

    assert_int_equal(h.total_kib, 1048576);
    assert_int_equal(h.free_kib, 524288);
    assert_int_equal(h.nodes, 1);
    assert_int_equal(h.cpus, 4);
}

static void claimed_memory_is_not_free(void** state) {
    struct xenpack_host h;

    xen.physinfo.outstanding_pages = 131000;
    h = host(*state);
    assert_int_equal(h.free_kib, 72 * 4);
    assert_int_equal(h.claimed_kib, 524000);
}

static void claims_larger_than_what_is_free_leave_nothing(void** state) {
    struct xenpack_host h;

    xen.physinfo.outstanding_pages = 131073;
    h = host(*state);
    assert_int_equal(h.free_kib, 0);
    assert_int_equal(h.claimed_kib, 131073 * 4);
}

static void memory_to_be_scrubbed_is_counted_apart(void** state) {
    struct xenpack_host h;

    xen.physinfo.scrub_pages = 1000;
    h = host(*state);
    assert_int_equal(h.free_kib, 524288);
    assert_int_equal(h.scrub_kib, 4000);
}

static void a_refusal_is_said(void** state) {
    struct xenpack_host h;

    xen.fail_physinfo = EACCES;
    assert_int_equal(fake_host_plugin()->host(*state, &h), -EACCES);
    assert_non_null(strstr(fake_host_plugin()->last_error(*state), "version"));
}

static int config(void* ts, struct xenpack_domain_config* c) {
    return fake_host_plugin()->domain_config(ts, 5, UUID(0x55), c);
}

static int domain_up(void** state) {
    plugin_up(state);
    fake_domain_add(5, 0x55);
    return 0;
}

static void the_configuration_is_that_of_creation(void** state) {
    struct xenpack_domain_config c;

    xen.record = "{}";
    xen.record_target_kib = 262144;
    xen.record_max_kib = 524288;
    assert_int_equal(config(*state, &c), 0);
    assert_int_equal(c.memory_kib, 262144);
    assert_int_equal(c.max_memory_kib, 524288);
}

static void without_a_maximum_memory_is_the_maximum(void** state) {
    struct xenpack_domain_config c;

    xen.record = "{}";
    xen.record_target_kib = 262144;
    xen.record_max_kib = LIBXL_MEMKB_DEFAULT;
    assert_int_equal(config(*state, &c), 0);
    assert_int_equal(c.max_memory_kib, 262144);
}

static void a_domain_of_another_toolstack_has_none(void** state) {
    struct xenpack_domain_config c;

    assert_int_equal(config(*state, &c), -ENODATA);
    assert_non_null(strstr(fake_host_plugin()->last_error(*state), "toolstack"));
}

static void a_record_that_cannot_be_parsed_is_an_error(void** state) {
    struct xenpack_domain_config c;

    xen.record = "no json";
    assert_int_equal(config(*state, &c), -EIO);
}

static void a_gone_domain_has_no_configuration(void** state) {
    struct xenpack_domain_config c;

    xen.record = "{}";
    fake_domain(5)->handle[3] = 1;
    assert_int_equal(config(*state, &c), -ESRCH);
}

int main(void) {
#define HOST_TEST(test) cmocka_unit_test_setup_teardown(test, domain_up, plugin_down)
    const struct CMUnitTest tests[] = {
        HOST_TEST(memory_is_counted_in_kib),
        HOST_TEST(claimed_memory_is_not_free),
        HOST_TEST(claims_larger_than_what_is_free_leave_nothing),
        HOST_TEST(memory_to_be_scrubbed_is_counted_apart),
        HOST_TEST(a_refusal_is_said),
        HOST_TEST(the_configuration_is_that_of_creation),
        HOST_TEST(without_a_maximum_memory_is_the_maximum),
        HOST_TEST(a_domain_of_another_toolstack_has_none),
        HOST_TEST(a_record_that_cannot_be_parsed_is_an_error),
        HOST_TEST(a_gone_domain_has_no_configuration),
    };

    return cmocka_run_group_tests_name("plugin/libxl host", tests, NULL, NULL);
}
