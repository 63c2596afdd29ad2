/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* host_books(), domain_books(), fork_cost(): what is counted besides pages that domains hold.
 * topology(): how the host is built, with holes in its numbers. */
#include "tests/plugin/cmocka_tests.h"

#include "tests/plugin/fake_books.h"
#include "tests/plugin/fake_fork.h"

enum { NODES = 3, CPUS = 3 };

static int domain_up(void** state) {
    plugin_up(state);
    fake_books_reset();
    fake_domain_add(5, 0x55);
    return 0;
}

/* A template, sealed, with a disk and a network. */
static int template_up(void** state) {
    domain_up(state);
    forking.disks = forking.nics = 1;
    xen.record = "{template}";
    xen.record_type = LIBXL_DOMAIN_TYPE_PVH;
    xen.record_target_kib = xen.record_max_kib = 131072;
    xen.record_vcpus = 1;
    fake_store_set("/local/domain/5/name", "base");
    fake_store_set("/local/domain/5/vm", "/vm/55000000-0000-0000-0000-000000000000");
    fake_store_set("/local/domain/5/xenpack/template", "sealed");
    fake_userdata_set(5, "xenpack-template", xen.record);
    return 0;
}

static struct xenpack_host_books host(void* ts) {
    struct xenpack_host_books b;

    assert_int_equal(fake_host_plugin()->host_books(ts, &b), 0);
    return b;
}

static int domain(void* ts, struct xenpack_domain_books* b) {
    return fake_host_plugin()->domain_books(ts, 5, UUID(0x55), b);
}

static void what_is_claimed_and_unscrubbed_is_free(void** state) {
    struct xenpack_host_books b;

    xen.physinfo.outstanding_pages = 100;
    xen.physinfo.scrub_pages = 10;
    b = host(*state);
    assert_int_equal(b.total_kib, 1048576);
    assert_int_equal(b.free_kib, 524288 + 40);
    assert_int_equal(b.claimed_kib, 400);
    assert_int_equal(b.map_kib, 10240); /* 40 bytes for each of 262144 pages */
}

static void shared_pages_are_counted_once(void** state) {
    books.shared_pages = 50;
    books.saved_pages = 200;
    assert_int_equal(host(*state).shared_kib, 200);
    assert_int_equal(host(*state).saved_kib, 800);
}

static void a_xen_that_shares_nothing_has_none(void** state) {
    books.shared_pages = books.saved_pages = -1;
    assert_int_equal(host(*state).shared_kib, 0);
    assert_int_equal(host(*state).saved_kib, 0);
}

static void a_domain_has_page_tables_records_and_nodes(void** state) {
    struct xenpack_domain_books b;

    forking.nodes = 5;
    fake_domain(5)->max_vcpu_id = 1;
    assert_int_equal(domain(*state, &b), 0);
    assert_int_equal(b.paging_kib, 3072);
    assert_int_equal(b.records_kib, 86 + 2 * 37);
    assert_int_equal(b.nodes, 5);
}

static void a_pv_domain_has_no_paging_pool(void** state) {
    struct xenpack_domain_books b;

    fake_domain(5)->flags &= ~(uint32_t)XEN_DOMINF_hvm_guest;
    assert_int_equal(domain(*state, &b), 0);
    assert_int_equal(b.paging_kib, 0);
}

static void a_domain_that_went_is_gone(void** state) {
    struct xenpack_domain_books b;

    fake_domain(5)->handle[3] = 1;
    assert_int_equal(domain(*state, &b), -ESRCH);
}

static void what_xen_refuses_is_said(void** state) {
    struct xenpack_domain_books b;

    forking.fail_with = EPERM;
    forking.fail = "xc_domain_node_getaffinity";
    assert_int_equal(domain(*state, &b), -EPERM);
    assert_non_null(strstr(fake_host_plugin()->last_error(*state), "domain 5"));
    forking.fail = "xc_get_paging_mempool_size";
    assert_int_equal(domain(*state, &b), -EPERM);
}

struct host_map {
    struct xenpack_node nodes[NODES];
    uint32_t distances[NODES * NODES];
    struct xenpack_cpu cpus[CPUS];
    struct xenpack_topology topology;
};

static int map(void* ts, struct host_map* m, size_t nodes, size_t cpus) {
    memset(m, 0, sizeof *m);
    m->topology.nodes = m->nodes;
    m->topology.distances = m->distances;
    m->topology.nodes_capacity = nodes;
    m->topology.cpus = m->cpus;
    m->topology.cpus_capacity = cpus;
    return fake_host_plugin()->topology(ts, &m->topology);
}

static void the_topology_has_the_holes_of_the_host(void** state) {
    struct host_map m;

    assert_int_equal(map(*state, &m, NODES, CPUS), 0);
    assert_int_equal(m.nodes[0].size_kib, 1048576);
    assert_int_equal(m.nodes[0].free_kib, 1024);
    assert_int_equal(m.nodes[1].size_kib, 0);
    assert_int_equal(m.nodes[2].size_kib, 3145728);
    assert_int_equal(m.distances[2], 21);
    assert_int_equal(m.distances[1], 0);
    assert_int_equal(m.cpus[0].node, 0);
    assert_int_equal(m.cpus[0].core, 7);
    assert_int_equal(m.cpus[1].node, XENPACK_NONE);
    assert_int_equal(m.cpus[0].pool, 0);
    assert_int_equal(m.cpus[1].pool, XENPACK_NONE);
    assert_int_equal(m.cpus[2].pool, 4);
}

static void without_room_the_topology_says_how_much_there_is(void** state) {
    struct host_map m;

    assert_int_equal(map(*state, &m, NODES - 1, CPUS), 1);
    assert_int_equal(m.topology.nodes_n, NODES);
    assert_int_equal(m.topology.cpus_n, CPUS);
    assert_int_equal(m.nodes[0].size_kib, 0);
    assert_int_equal(map(*state, &m, NODES, CPUS - 1), 1);
}

static void a_topology_that_xen_keeps_to_itself_is_said(void** state) {
    const char* const calls[] = {"xc_numainfo", "xc_cputopoinfo", "xc_cpupool_getinfo"};
    struct host_map m;
    size_t i;

    for (i = 0; i < sizeof calls / sizeof *calls; i++) {
        books.fail = calls[i];
        assert_int_equal(map(*state, &m, NODES, CPUS), -EPERM);
    }
}

static void a_fork_costs_what_it_writes_and_its_templates_page_tables(void** state) {
    struct xenpack_fork_cost c;

    assert_int_equal(fake_host_plugin()->fork_cost(*state, 5, UUID(0x55), &c), 0);
    assert_int_equal(c.memory_kib, 2816 + 2 * 1792);
    assert_int_equal(c.overhead_kib, 3072 + 86 + 37);
}

static void what_is_no_template_has_no_forks_to_cost(void** state) {
    struct xenpack_fork_cost c;

    assert_int_equal(fake_host_plugin()->fork_cost(*state, 5, UUID(0x55), &c), -EINVAL);
}

int main(void) {
#define BOOKS_TEST(test) cmocka_unit_test_setup_teardown(test, domain_up, plugin_down)
    const struct CMUnitTest tests[] = {
        BOOKS_TEST(what_is_claimed_and_unscrubbed_is_free),
        BOOKS_TEST(shared_pages_are_counted_once),
        BOOKS_TEST(a_xen_that_shares_nothing_has_none),
        BOOKS_TEST(a_domain_has_page_tables_records_and_nodes),
        BOOKS_TEST(a_pv_domain_has_no_paging_pool),
        BOOKS_TEST(a_domain_that_went_is_gone),
        BOOKS_TEST(what_xen_refuses_is_said),
        BOOKS_TEST(the_topology_has_the_holes_of_the_host),
        BOOKS_TEST(without_room_the_topology_says_how_much_there_is),
        BOOKS_TEST(a_topology_that_xen_keeps_to_itself_is_said),
        cmocka_unit_test_setup_teardown(a_fork_costs_what_it_writes_and_its_templates_page_tables,
                                        template_up, plugin_down),
        BOOKS_TEST(what_is_no_template_has_no_forks_to_cost),
    };

    return cmocka_run_group_tests_name("plugin/libxl books", tests, NULL, NULL);
}
