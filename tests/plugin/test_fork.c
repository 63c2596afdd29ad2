/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Forks and destruction: the order of calls, when `done` comes, and that what fails leaves nothing.
 */
#include "tests/plugin/cmocka_tests.h"

#include <stdio.h>

#include "tests/plugin/fake_fork.h"

enum { TEMPLATE = 4, FORK = FAKE_NEW_DOMID };

static const uint8_t template_uuid[16] = {0x44};
static const uint8_t fork_uuid[16] = {0x99, 1, 2, 3, 4, 5};

static struct {
    int calls, result;
    char why[256];
    struct xenpack_fork_result fork;
} told;

static void forked(void* arg, int result, const char* why, const struct xenpack_fork_result* fork) {
    (void)arg;
    told.calls++;
    told.result = result;
    snprintf(told.why, sizeof told.why, "%s", why);
    if (fork)
        told.fork = *fork;
}

static void done(void* arg, int result, const char* why) {
    forked(arg, result, why, NULL);
}

static void turn(void) {
    int i;

    for (i = 0; i < 50 && fake_loop_round(); i++)
        ;
}

/* A host with a sealed template, domain 4. */
static int template_up(void** state) {
    memset(&told, 0, sizeof told);
    if (plugin_up(state))
        return -1;
    xen.record = "{template}";
    xen.record_type = LIBXL_DOMAIN_TYPE_PVH;
    xen.record_target_kib = xen.record_max_kib = 131072;
    xen.record_vcpus = 1;
    fake_domain_add(0, 0);
    fake_domain_add(TEMPLATE, 0x44);
    fake_store_set("/local/domain/0/name", "Domain-0");
    fake_store_set("/local/domain/4/name", "base");
    fake_store_set("/local/domain/4/vm", "/vm/44000000-0000-0000-0000-000000000000");
    fake_store_set("/local/domain/4/xenpack/template", "sealed");
    fake_userdata_set(TEMPLATE, "xenpack-template", xen.record);
    calls_clear();
    return 0;
}

static int ask(struct xenpack_toolstack* ts, const char* name, int paused) {
    static const struct xenpack_store_write identity[] = {{"generation", "g"}, {"name", "job"}};
    struct xenpack_fork_request request = {.template_domid = TEMPLATE,
                                           .name = name,
                                           .identity = identity,
                                           .identity_n = 2,
                                           .paused = paused};

    memcpy(request.template_uuid, template_uuid, 16);
    memcpy(request.uuid, fork_uuid, 16);
    return fake_host_plugin()->fork(ts, &request, forked, NULL);
}

static int destroy(struct xenpack_toolstack* ts, uint32_t domid, const uint8_t uuid[16]) {
    return fake_host_plugin()->destroy(ts, domid, uuid, done, NULL);
}

/* The calls since `first`, that call included; the whole text where there is none such. */
static const char* calls_from(const char* first) {
    const char* at = strstr(calls_text(), first);

    return at ? at : calls_text();
}

static bool is_left(uint32_t domid) {
    char path[64];
    int i;

    snprintf(path, sizeof path, "/local/domain/%u/", domid);
    for (i = 0; i < FAKE_NODES; i++)
        if (!strncmp(watcher.nodes[i].path, path, strlen(path)))
            return true;
    for (i = 0; i < (int)xen.n_domains; i++)
        if (xen.domains[i].domain == domid)
            return true;
    return fake_userdata(domid, "libxl-json") != NULL;
}

/* ---- what is done ------------------------------------------------------------------------------
 */

static const char bare_fork[] =
    "create 99 flags 3 vcpus 1\n"
    "fork 4 9\n"
    "pool 9 3145728\n"
    "port 9 0\n"
    "port 9 0\n"
    "param 9 2=1\n"
    "param 9 18=2\n"
    "clear 9 fe001\n"
    "clear 9 fe011\n"
    "grants 9 console fe011 0 store fe001 0\n"
    "place 9 vcpu 0 hard f soft 3\n"
    "take page 9 fe01d\n"
    "page 9 fe01d\n"
    "map 9 fe01d\n"
    "ring 9\n"
    "bind 9 7\n"
    "take page 9 fe01d\n"
    "make /local/domain/9\n"
    "introduce 9 gfn fe001 port 1\n"
    "%s" /* it runs */
    "make /local/domain/9/domid\n"
    "json job 99 disks 0 nics 0\n"
    "userdata 9 libxl-json\n"
    "guard /local/domain/9/vm /vm/99010203-0405-0000-0000-000000000000\n"
    "write /local/domain/9/xenpack/fork/state complete\n";

static void a_fork_is_made_in_this_order(void** state) {
    char expected[1024];

    assert_int_equal(ask(*state, "job", 0), 0);
    assert_string_equal(calls_text(), "");
    assert_int_equal(told.calls, 0);
    turn();
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.result, 0);
    assert_string_equal(told.why, "");
    assert_int_equal(told.fork.domid, FORK);
    snprintf(expected, sizeof expected, bare_fork, "unpause 9\n");
    assert_string_equal(calls_from("create"), expected);
    assert_string_equal(fake_store_get("/local/domain/9/xenpack/fork/state"), "complete");
}

static void paused_it_stays(void** state) {
    char expected[1024];

    snprintf(expected, sizeof expected, bare_fork, "");
    assert_int_equal(ask(*state, "job", 1), 0);
    turn();
    assert_int_equal(told.result, 0);
    assert_string_equal(calls_from("create"), expected);
}

static void its_nodes_are_those_of_a_restored_domain_and_its_own(void** state) {
    watcher.list_nodes = true;
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    assert_string_equal(fake_store_get("/local/domain/9/xenpack/fork/template"),
                        "44000000-0000-0000-0000-000000000000");
    assert_string_equal(fake_store_get("/local/domain/9/xenpack/fork/generation"), "g");
    assert_string_equal(fake_store_get("/local/domain/9/vm"),
                        "/vm/99010203-0405-0000-0000-000000000000");
    assert_string_equal(fake_store_get("/local/domain/9/memory/static-max"), "131072");
    assert_string_equal(fake_store_get("/local/domain/9/console/ring-ref"), "1040401");
    assert_string_equal(fake_store_get("/libxl/9/device/console/0/backend"),
                        "/local/domain/0/backend/console/9/0");
    assert_non_null(strstr(calls_text(), "node /local/domain/9= reads\n"));
    assert_non_null(strstr(calls_text(), "node /local/domain/9/data= owns\n"));
    assert_non_null(strstr(calls_text(), "node /libxl/9= host\n"));
    assert_non_null(strstr(calls_text(), "node /local/domain/9/xenpack/fork/state=building\n"));
}

static void a_template_is_read_once(void** state) {
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    fake_domain_remove(FORK);
    calls_clear();
    assert_int_equal(ask(*state, "other", 0), 0);
    turn();
    assert_int_equal(told.result, 0);
    assert_null(strstr(calls_text(), "read /tool/"));
}

static void a_templates_weight_is_its_forks(void** state) {
    forking.weight = 512;
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    assert_int_equal(told.result, 0);
    assert_non_null(strstr(calls_text(), "weight 9 512\n"));
}

static void devices_are_its_own_and_given_by_the_worker(void** state) {
    forking.disks = 2;
    forking.nics = 2;
    forking.hold = "attach";
    watcher.list_nodes = true;
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    assert_non_null(strstr(calls_text(), "json job 99 disks 2 nics 2\n"));
    assert_string_equal(calls_from("attach"),
                        "attach /local/domain/0/backend/vbd/9/51712\n"
                        "attach /local/domain/0/backend/vbd/9/51728\n"
                        "attach /local/domain/0/backend/vif/9/0\n"
                        "attach /local/domain/0/backend/vif/9/1\n");
    assert_string_equal(fake_store_get("/local/domain/0/backend/vbd/9/51712/params"),
                        "/srv/root.img;xenpack-99010203-0405-0000-0000-000000000000-51712");
    /* Only read: no overlay. */
    assert_string_equal(fake_store_get("/local/domain/0/backend/vbd/9/51728/params"),
                        "/srv/data.img");
    assert_non_null(
        strstr(fake_store_get("/libxl/9/device/vbd/51712/script"), "/scripts/block-xenpack"));
    assert_string_equal(fake_store_get("/local/domain/9/device/vif/0/mac"), "9a:01:02:03:04:05");
    assert_string_equal(fake_store_get("/local/domain/9/device/vif/1/mac"), "9a:01:02:03:04:04");
    assert_non_null(strstr(fake_store_get("/libxl/9/device/vif/1/script"), "/scripts/vif-xenpack"));
    assert_non_null(strstr(calls_text(), "node /local/domain/9/device/vif/0= owns\n"));
    assert_non_null(strstr(calls_text(), "node /local/domain/0/backend/vif/9/0= reads\n"));
    assert_int_equal(told.calls, 0); /* though it runs */
    assert_non_null(strstr(calls_text(), "unpause 9\n"));
    assert_true(fake_devices_end());
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.result, 0);
    assert_string_equal(fake_store_get("/local/domain/9/xenpack/fork/state"), "complete");
}

static void it_is_served_from_the_start(void** state) {
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    assert_int_equal(told.result, 0);
    calls_clear();
    assert_int_equal(fake_host_plugin()->adopt(*state, FORK, fork_uuid), 0);
    assert_string_equal(calls_text(), "");
    fake_events();
    fake_ring_starve(0);
    fake_ring_deliver();
    assert_string_equal(fake_events(), "starved 9");
    assert_int_equal(fake_host_plugin()->feed(*state, FORK, fork_uuid), 0);
    assert_int_equal(ring.waiting[0], 0);
}

static void destroyed_it_is_served_no_more(void** state) {
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    assert_int_equal(ring.mapped, 1);
    assert_int_equal(destroy(*state, FORK, fork_uuid), 0);
    turn();
    assert_int_equal(told.result, 0);
    assert_int_equal(ring.mapped, 0);
}

/* ---- what is refused ---------------------------------------------------------------------------
 */

static void refused(struct xenpack_toolstack* ts, const char* name, int code) {
    assert_int_equal(ask(ts, name, 0), 0);
    turn();
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.result, code);
    assert_null(strstr(calls_text(), "create"));
}

static void a_name_that_is_taken(void** state) {
    refused(*state, "base", -EEXIST);
    assert_non_null(strstr(told.why, "base"));
}

static void a_name_that_is_being_given(void** state) {
    struct xenpack_fork_request other = {.template_domid = TEMPLATE, .name = "job"};

    memcpy(other.template_uuid, template_uuid, 16);
    other.uuid[0] = 0x98;
    forking.nics = 1;
    forking.hold = "attach";
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    assert_int_equal(fake_host_plugin()->fork(*state, &other, forked, NULL), 0);
    turn();
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.result, -EEXIST);
    assert_true(fake_devices_end());
    turn();
    assert_int_equal(told.calls, 2);
    assert_int_equal(told.result, 0);
}

static void a_name_given_up_is_free_at_once(void** state) {
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    fake_store_set("/local/domain/9/name", "renamed");
    fake_domain_remove(FORK);
    memset(&told, 0, sizeof told);
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    assert_int_equal(told.result, 0);
}

static void what_is_no_template(void** state) {
    fake_store_set("/local/domain/4/xenpack/template", "sealing");
    refused(*state, "job", -EINVAL);
}

static void a_template_that_is_gone(void** state) {
    fake_domain(TEMPLATE)->handle[0] = 0x45;
    refused(*state, "job", -ESRCH);
}

static void no_name(void** state) {
    assert_int_equal(ask(*state, "", 0), -EINVAL);
    assert_string_not_equal(fake_host_plugin()->last_error(*state), "");
}

static void the_same_domain_twice(void** state) {
    assert_int_equal(ask(*state, "job", 0), 0);
    assert_int_equal(destroy(*state, FORK, fork_uuid), -EBUSY);
    turn();
    assert_int_equal(told.calls, 1);
}

/* ---- what fails --------------------------------------------------------------------------------
 */

struct failure {
    const char* function;
    int with, result;
    const char* undone_by; /* the last call but the nodes' */
};

static void fails_at(void** state, const struct failure* f) {
    memset(&told, 0, sizeof told);
    forking.fail = f->function;
    forking.fail_with = f->with;
    calls_clear();
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    forking.fail = NULL;
    if (told.calls != 1 || told.result != f->result || is_left(FORK) || ring.mapped ||
        (f->undone_by && !strstr(calls_text(), f->undone_by)))
        fail_msg("%s: %d answers, %d \"%s\", left %d, after\n%s", f->function, told.calls,
                 told.result, told.why, is_left(FORK), calls_text());
    assert_string_not_equal(told.why, "");
}

static void whatever_fails_leaves_nothing(void** state) {
    static const struct failure failures[] = {
        {"xc_domain_create", ENOMEM, -ENOMEM, NULL},
        {"xc_memshr_fork", ENOMEM, -ENOMEM, "\ndestroy 9\n"},
        {"xc_evtchn_alloc_unbound", ENOSPC, -ENOSPC, "\ndestroy 9\n"},
        {"xc_hvm_param_set", EPERM, -EPERM, "\ndestroy 9\n"},
        {"xc_clear_domain_pages", EINVAL, -EINVAL, "\ndestroy 9\n"},
        {"xc_dom_gnttab_seed", EINVAL, -EINVAL, "\ndestroy 9\n"},
        {"xc_vcpu_setaffinity", EINVAL, -EINVAL, "\ndestroy 9\n"},
        {"xc_domain_populate_physmap_exact", ENOMEM, -ENOMEM, "\ndestroy 9\n"},
        {"xenforeignmemory_map", ENOMEM, -ENOMEM, "\nmap 9 fe01d\ntake page 9 fe01d\n"},
        {"xc_memshr_ring_enable", EOPNOTSUPP, -EOPNOTSUPP, "\nring 9\ntake page 9 fe01d\n"},
        {"xenevtchn_bind_interdomain", ENOSPC, -ENOSPC, "\nno ring 9\ntake page 9 fe01d\n"},
        {"xc_domain_decrease_reservation_exact", EINVAL, -EINVAL,
         "\nno ring 9\ntake page 9 fe01d\n"},
        {"libxl_domain_config_to_json", 0, -EIO, "\nlibxl destroy 9\n"},
        {"libxl_userdata_store", ERROR_FAIL, -EIO, "\nlibxl destroy 9\n"},
        {"attach", ENODEV, -ENODEV, "\nlibxl destroy 9\n"},
        {"xc_domain_unpause", EINVAL, -EINVAL, "\nlibxl destroy 9\n"},
    };
    size_t i;

    forking.disks = forking.nics = 1;
    for (i = 0; i < sizeof failures / sizeof failures[0]; i++)
        fails_at(state, &failures[i]);
}

static void a_store_that_fails_leaves_nothing(void** state) {
    const struct failure in_make = {"", 0, -EIO, "\ndestroy 9\n"};
    const struct failure in_introduce = {"", 0, -EIO, "\ndestroy 9\n"};

    watcher.fail_make = -EIO;
    fails_at(state, &in_make);
    watcher.fail_make = 0;
    watcher.fail_introduce = -EIO;
    fails_at(state, &in_introduce);
}

static void xens_wish_to_be_asked_again_is_heeded(void** state) {
    forking.fail = "xc_hvm_param_set";
    forking.fail_with = EINTR;
    forking.fail_times = 3;
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    assert_int_equal(told.result, 0);
}

/* Its nodes went with it; what has been made since is left to nobody. */
static void one_that_others_destroy_meanwhile_leaves_nothing(void** state) {
    forking.disks = 1;
    forking.hold = "attach";
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    fake_domain_remove(FORK);
    assert_true(fake_devices_end());
    turn();
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.result, -ESRCH);
    assert_non_null(strstr(told.why, "destroyed"));
    assert_null(fake_store_get("/local/domain/9/name"));
    assert_null(fake_store_get("/libxl/9/type"));
    assert_null(fake_store_get("/local/domain/0/backend/vbd/9/51712/params"));
    assert_null(fake_store_get("/vm/99010203-0405-0000-0000-000000000000/name"));
    assert_non_null(strstr(calls_text(),
                           "discard 99010203-0405-0000-0000-000000000000 "
                           "/local/domain/0/backend/vbd/9/51712\n"));
}

/* As libxl does it: the nodes go first, and Xen has the domain for a while. */
static void one_whose_nodes_others_take_away_leaves_nothing(void** state) {
    forking.disks = 1;
    forking.hold = "attach";
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    fake_store_remove("/local/domain/9/vm");
    assert_true(fake_devices_end());
    turn();
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.result, -ESRCH);
    assert_non_null(strstr(told.why, "destroyed"));
    assert_null(fake_store_get("/local/domain/9/xenpack/fork/state"));
    assert_null(fake_store_get("/libxl/9/type"));
    assert_null(fake_store_get("/local/domain/0/backend/vbd/9/51712/params"));
    assert_non_null(strstr(calls_text(), "destroy 9\n"));
    assert_non_null(strstr(calls_text(),
                           "discard 99010203-0405-0000-0000-000000000000 "
                           "/local/domain/0/backend/vbd/9/51712\n"));
}

static void what_its_disk_was_is_told_to_who_attaches_it(void** state) {
    forking.disks = 1;
    fake_store_set("/local/domain/4/xenpack/template/disks/51712", "file 1 2 3 4");
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    assert_int_equal(told.result, 0);
    assert_non_null(
        strstr(calls_text(), "attach /local/domain/0/backend/vbd/9/51712 file 1 2 3 4\n"));
}

/* Not even where an earlier fork has made it known. */
static void a_template_that_has_run_is_not_forked(void** state) {
    fake_store_set("/local/domain/4/xenpack/sealed-cpu-ns", "1");
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    assert_int_equal(told.result, 0);
    fake_domain_remove(FORK);
    fake_domain(TEMPLATE)->cpu_time = 2;
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    assert_int_equal(told.calls, 2);
    assert_int_equal(told.result, -ESTALE);
    assert_non_null(strstr(told.why, "has run since it was sealed"));
}

static void what_cannot_be_undone_is_said(void** state) {
    forking.fail = "xc_memshr_fork";
    forking.fail_with = EBUSY;
    forking.fail_also = "xc_domain_destroy";
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    assert_int_equal(told.result, -EBUSY);
    assert_non_null(strstr(told.why, "cannot be taken away"));
}

/* ---- the end -----------------------------------------------------------------------------------
 */

static void a_fork_that_has_not_begun_is_cancelled(void** state) {
    assert_int_equal(ask(*state, "job", 0), 0);
    fake_host_plugin()->close(*state);
    *state = NULL;
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.result, -ECANCELED);
    assert_string_equal(calls_text(), "");
}

static void a_fork_under_way_is_cancelled_and_undone(void** state) {
    forking.nics = 1;
    forking.hold = "attach";
    assert_int_equal(ask(*state, "job", 0), 0);
    turn();
    assert_int_equal(told.calls, 0);
    fake_host_plugin()->close(*state);
    *state = NULL;
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.result, -ECANCELED);
    assert_false(is_left(FORK));
}

static void a_destruction_under_way_is_waited_for(void** state) {
    fake_store_set("/libxl/4/type", "pvh");
    assert_int_equal(destroy(*state, TEMPLATE, template_uuid), 0);
    fake_host_plugin()->close(*state);
    *state = NULL;
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.result, 0);
}

/* ---- destruction -------------------------------------------------------------------------------
 */

static void libxl_destroys_what_it_knows(void** state) {
    fake_store_set("/libxl/4/type", "pvh");
    assert_int_equal(destroy(*state, TEMPLATE, template_uuid), 0);
    assert_int_equal(told.calls, 0);
    turn();
    assert_int_equal(told.calls, 1);
    assert_int_equal(told.result, 0);
    assert_non_null(strstr(calls_text(), "libxl destroy 4\n"));
}

static void xen_destroys_what_nobody_else_knows(void** state) {
    fake_domain_add(FORK, 0x99);
    memcpy(fake_domain(FORK)->handle, fork_uuid, 16);
    assert_int_equal(destroy(*state, FORK, fork_uuid), 0);
    turn();
    assert_int_equal(told.result, 0);
    assert_string_equal(calls_from("destroy"), "destroy 9\n");
}

static void half_a_tree_goes_with_it(void** state) {
    fake_domain_add(FORK, 0x99);
    memcpy(fake_domain(FORK)->handle, fork_uuid, 16);
    fake_store_set("/local/domain/9/vm", "/vm/99010203-0405-0000-0000-000000000000");
    assert_int_equal(destroy(*state, FORK, fork_uuid), 0);
    turn();
    assert_int_equal(told.result, 0);
    assert_false(is_left(FORK));
}

static void another_with_its_number_is_left_alone(void** state) {
    assert_int_equal(destroy(*state, TEMPLATE, fork_uuid), 0);
    turn();
    assert_int_equal(told.result, -ESRCH);
    assert_null(strstr(calls_text(), "destroy"));
}

static void libxls_failure_is_said(void** state) {
    fake_store_set("/libxl/4/type", "pvh");
    forking.fail = "libxl_domain_destroy";
    forking.fail_with = ERROR_FAIL;
    assert_int_equal(destroy(*state, TEMPLATE, template_uuid), 0);
    turn();
    assert_int_equal(told.result, -EIO);
    assert_non_null(strstr(told.why, "may be left"));
}

/* ---- handed out --------------------------------------------------------------------------------
 */

static int rename_to(struct xenpack_toolstack* ts, const char* name) {
    return fake_host_plugin()->rename(ts, FORK, fork_uuid, name);
}

static void a_fork_that_was_left_paused_runs_once_told_to(void** state) {
    const struct xenpack_toolstack_ops* plugin = fake_host_plugin();

    assert_int_equal(ask(*state, "job", 1), 0);
    turn();
    calls_clear();
    fake_domain(FORK)->flags |= XEN_DOMINF_paused;
    assert_int_equal(plugin->unpause(*state, FORK, fork_uuid), 0);
    assert_string_equal(calls_text(), "unpause 9\n");
    assert_int_equal(plugin->unpause(*state, FORK, fork_uuid), -EINVAL);
    assert_non_null(strstr(plugin->last_error(*state), "not paused"));
    assert_int_equal(plugin->unpause(*state, FORK, template_uuid), -ESRCH);
    assert_string_equal(calls_text(), "unpause 9\n");
}

static void xens_refusal_to_let_it_run_is_said(void** state) {
    assert_int_equal(ask(*state, "job", 1), 0);
    turn();
    fake_domain(FORK)->flags |= XEN_DOMINF_paused;
    forking.fail = "xc_domain_unpause";
    forking.fail_with = EPERM;
    assert_int_equal(fake_host_plugin()->unpause(*state, FORK, fork_uuid), -EPERM);
}

static void a_fork_gets_another_name(void** state) {
    assert_int_equal(ask(*state, "job", 1), 0);
    turn();
    calls_clear();
    assert_int_equal(rename_to(*state, "web"), 0);
    assert_non_null(strstr(calls_text(), "libxl rename 9 job web\n"));
    calls_clear();
    assert_int_equal(rename_to(*state, "web"), 0);
    assert_null(strstr(calls_text(), "rename"));
    assert_int_equal(rename_to(*state, "base"), -EEXIST);
    assert_non_null(strstr(fake_host_plugin()->last_error(*state), "named base already"));
    assert_int_equal(rename_to(*state, ""), -EINVAL);
    assert_int_equal(fake_host_plugin()->rename(*state, FORK, template_uuid, "other"), -ESRCH);
    forking.fail = "libxl_domain_rename";
    forking.fail_with = ERROR_FAIL;
    assert_int_equal(rename_to(*state, "other"), -EIO);
}

static void a_fork_that_is_on_its_way_out_is_not_handed_out(void** state) {
    assert_int_equal(ask(*state, "job", 1), 0);
    turn();
    fake_domain(FORK)->flags |= XEN_DOMINF_paused;
    fake_store_set("/libxl/9/type", "pvh");
    assert_int_equal(destroy(*state, FORK, fork_uuid), 0);
    assert_int_equal(rename_to(*state, "web"), -EBUSY);
    assert_int_equal(fake_host_plugin()->unpause(*state, FORK, fork_uuid), -EBUSY);
    turn();
    assert_int_equal(rename_to(*state, "web"), -ESRCH);
}

static void a_name_that_a_fork_is_getting_is_taken(void** state) {
    static const uint8_t other_uuid[16] = {0x98};
    struct xenpack_fork_request other = {.template_domid = TEMPLATE, .name = "web", .paused = 1};

    assert_int_equal(ask(*state, "job", 1), 0);
    turn();
    memcpy(other.template_uuid, template_uuid, 16);
    memcpy(other.uuid, other_uuid, 16);
    assert_int_equal(fake_host_plugin()->fork(*state, &other, forked, NULL), 0);
    assert_int_equal(rename_to(*state, "web"), -EEXIST);
    assert_non_null(strstr(fake_host_plugin()->last_error(*state), "being given"));
}

/* ---- what a host needs -------------------------------------------------------------------------
 */

static void a_host_says_what_it_lacks(void** state) {
    const struct xenpack_toolstack_ops* plugin = fake_host_plugin();
    char text[256];

    xen.physinfo.capabilities = XEN_SYSCTL_PHYSCAP_hvm | XEN_SYSCTL_PHYSCAP_hap;
    forking.fail = "xc_memshr_control";
    forking.fail_with = ENOSYS;
    assert_int_equal(plugin->fork_missing(*state, text, sizeof text), 1);
    assert_non_null(strstr(text, "CONFIG_MEM_SHARING"));
    assert_string_equal(calls_text(), "create 00 flags 3 vcpus 1\nshare 9 1\ndestroy 9\n");
    forking.fail = NULL;
    assert_int_equal(plugin->fork_missing(*state, text, sizeof text), 0);
    assert_string_equal(text, "");
    calls_clear();
    assert_int_equal(plugin->fork_missing(*state, text, sizeof text), 0);
    assert_string_equal(calls_text(), "");
    assert_int_equal(xen.n_domains, 2);
}

static void what_is_missing_is_named_one_by_one(void** state) {
    char text[512];

    fake_domain(0)->flags |= XEN_DOMINF_hvm_guest;
    xen.physinfo.capabilities = XEN_SYSCTL_PHYSCAP_hvm | XEN_SYSCTL_PHYSCAP_hap;
    assert_int_equal(fake_host_plugin()->fork_missing(*state, text, sizeof text), 1);
    assert_non_null(strstr(text, "dom0=pvh"));
    forking.fail = "xc_memshr_control";
    forking.fail_with = ENOSYS;
    assert_int_equal(fake_host_plugin()->fork_missing(*state, text, sizeof text), 2);
    assert_non_null(strstr(text, "dom0=pvh"));
    assert_non_null(strstr(text, "CONFIG_MEM_SHARING"));
    fake_domain(0)->flags &= ~(uint32_t)XEN_DOMINF_hvm_guest;
    forking.fail = NULL;
    assert_int_equal(fake_host_plugin()->fork_missing(*state, text, sizeof text), 0);
}

static void what_cannot_be_asked_is_not_taken_for_there(void** state) {
    char text[256];

    xen.physinfo.capabilities = XEN_SYSCTL_PHYSCAP_hvm | XEN_SYSCTL_PHYSCAP_hap;
    xen.fail_list = EPERM;
    assert_int_equal(fake_host_plugin()->fork_missing(*state, text, sizeof text), -EPERM);
    assert_non_null(strstr(fake_host_plugin()->last_error(*state), "cannot ask Xen about dom0"));
    xen.fail_list = 0;
}

static void without_hardware_nothing_is_tried(void** state) {
    char text[256];

    xen.physinfo.capabilities = XEN_SYSCTL_PHYSCAP_hvm;
    assert_int_equal(fake_host_plugin()->fork_missing(*state, text, sizeof text), 1);
    assert_non_null(strstr(text, "EPT"));
    assert_string_equal(calls_text(), "");
}

int main(void) {
#define FORK_TEST(test) cmocka_unit_test_setup_teardown(test, template_up, plugin_down)
    const struct CMUnitTest tests[] = {
        FORK_TEST(a_fork_is_made_in_this_order),
        FORK_TEST(paused_it_stays),
        FORK_TEST(its_nodes_are_those_of_a_restored_domain_and_its_own),
        FORK_TEST(a_template_is_read_once),
        FORK_TEST(a_templates_weight_is_its_forks),
        FORK_TEST(devices_are_its_own_and_given_by_the_worker),
        FORK_TEST(it_is_served_from_the_start),
        FORK_TEST(destroyed_it_is_served_no_more),
        FORK_TEST(a_name_that_is_taken),
        FORK_TEST(a_name_that_is_being_given),
        FORK_TEST(a_name_given_up_is_free_at_once),
        FORK_TEST(what_is_no_template),
        FORK_TEST(what_its_disk_was_is_told_to_who_attaches_it),
        FORK_TEST(a_template_that_has_run_is_not_forked),
        FORK_TEST(a_template_that_is_gone),
        FORK_TEST(no_name),
        FORK_TEST(the_same_domain_twice),
        FORK_TEST(whatever_fails_leaves_nothing),
        FORK_TEST(a_store_that_fails_leaves_nothing),
        FORK_TEST(xens_wish_to_be_asked_again_is_heeded),
        FORK_TEST(one_that_others_destroy_meanwhile_leaves_nothing),
        FORK_TEST(one_whose_nodes_others_take_away_leaves_nothing),
        FORK_TEST(a_template_that_has_run_is_not_forked),
        FORK_TEST(what_cannot_be_undone_is_said),
        FORK_TEST(a_fork_that_has_not_begun_is_cancelled),
        FORK_TEST(a_fork_under_way_is_cancelled_and_undone),
        FORK_TEST(a_destruction_under_way_is_waited_for),
        FORK_TEST(libxl_destroys_what_it_knows),
        FORK_TEST(xen_destroys_what_nobody_else_knows),
        FORK_TEST(half_a_tree_goes_with_it),
        FORK_TEST(another_with_its_number_is_left_alone),
        FORK_TEST(libxls_failure_is_said),
        FORK_TEST(a_fork_that_was_left_paused_runs_once_told_to),
        FORK_TEST(xens_refusal_to_let_it_run_is_said),
        FORK_TEST(a_fork_gets_another_name),
        FORK_TEST(a_fork_that_is_on_its_way_out_is_not_handed_out),
        FORK_TEST(a_name_that_a_fork_is_getting_is_taken),
        FORK_TEST(a_host_says_what_it_lacks),
        FORK_TEST(what_is_missing_is_named_one_by_one),
        FORK_TEST(what_cannot_be_asked_is_not_taken_for_there),
        FORK_TEST(without_hardware_nothing_is_tried),
    };

    return cmocka_run_group_tests_name("plugin/libxl forks", tests, NULL, NULL);
}
