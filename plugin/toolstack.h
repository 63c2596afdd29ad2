/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The plugin interface: everything the watcher may ask of a host, and everything a plugin may ask
 * of the watcher. A plugin is one loadable object for one kind of host; it exports one symbol,
 * xenpack_toolstack(). The watcher calls it; a plugin never calls a watcher's function by name.
 *
 * It must not: mention libxl, xenstore or libevent types, allocate for the caller, or throw.
 *
 * Rules for the whole interface
 *   Threads    one: every call in either direction is made on the thread that runs the loop.
 *   Memory     KiB, in 64 bits, unless a name says otherwise. A page is 4 KiB.
 *   Ownership  what a caller passes in stays the caller's and need only live until the call returns,
 *              except the ops tables and `user`, which live until close() has returned.
 *   Errors     0 is success; a failure is a negative errno value, and the plugin has stored a
 *              sentence for a person that last_error() returns until the next call.
 *              -ESRCH: that domain, with that uuid, is not there (any more): normal, not a fault.
 *              -EBUSY: the domain is being built, saved or migrated: leave it, look again later.
 *   Reentrance watcher ops may be called from inside plugin calls; on_event may be called from
 *              refresh() and from loop callbacks, never from other plugin calls.
 */
#ifndef XENPACK_TOOLSTACK_H
#define XENPACK_TOOLSTACK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised whenever a struct or a promise below changes. A plugin of another number is refused. */
#define XENPACK_TOOLSTACK_VERSION 4u
#define XENPACK_TOOLSTACK_SYMBOL "xenpack_toolstack"

/* Exit status of a program whose plugin does not fit this hypervisor (EX_CONFIG of sysexits.h). */
#define XENPACK_EXIT_WRONG_HYPERVISOR 78

/* ---- what the watcher gives a plugin -------------------------------------------------------- */

/* Bits of `events` and `revents`, as in poll(2). */
enum { XENPACK_IN = 0x1, XENPACK_OUT = 0x4 };

/*
 * The watcher's event loop. Registrations are handles owned by the loop until deregistered; after
 * deregistration (or, for a timeout, once it has fired) the handle is dead and no callback follows.
 * A registration with events 0 is legal and silent. All return 0 or -ENOMEM, unless said otherwise.
 */
struct xenpack_loop_ops {
    int (*fd_register)(void *loop, int fd, short events,
                       void (*ready)(void *arg, int fd, short revents), void *arg, void **handle_r);
    int (*fd_modify)(void *loop, void *handle, short events);
    void (*fd_deregister)(void *loop, void *handle);
    /* One shot, `delay_us` from now; 0 fires in the next round of the loop, never inside the call. */
    int (*timeout_register)(void *loop, uint64_t delay_us, void (*fired)(void *arg), void *arg,
                            void **handle_r);
    void (*timeout_deregister)(void *loop, void *handle);
    /* Called in the loop after SIGCHLD. The plugin reaps its own children only. One per plugin. */
    int (*child_register)(void *loop, void (*sigchld)(void *arg), void *arg);
    void (*child_deregister)(void *loop);
};

struct xenpack_store_write {
    const char *path; /* absolute */
    const char *value;
};

/* Who may do what with a node, beside dom0, which may do all. */
enum xenpack_store_access {
    XENPACK_STORE_AS_PARENT,   /* as the node above it */
    XENPACK_STORE_HOST_ONLY,   /* nobody else */
    XENPACK_STORE_GUEST_READS, /* the domain reads, nobody else */
    XENPACK_STORE_GUEST_OWNS   /* the domain reads and writes, nobody else */
};

struct xenpack_store_node {
    const char *path; /* absolute */
    const char *value;
    enum xenpack_store_access access;
    uint32_t domid; /* the domain, for the last two */
};

/* The watcher's connection to the host's store, for the few nodes that belong to an operation. */
struct xenpack_store_ops {
    /*
     * In one transaction: if `guard_path` exists and holds exactly `guard_value`, write all of
     * `writes`; else write nothing and return -ESRCH. Retries conflicts itself. -EIO: store lost.
     */
    int (*write_guarded)(void *store, const char *guard_path, const char *guard_value,
                         const struct xenpack_store_write *writes, size_t n);
    /* Copies the value, NUL terminated, into buf. Returns its length, -ENOENT, -ENOBUFS or -EIO. */
    int (*read)(void *store, const char *path, char *buf, size_t size);
    /*
     * Makes nodes, in the order given, as dom0; missing ones above them come into being as xenstore
     * makes them, with their parent's permissions. All of them or none: in one transaction.
     */
    int (*make)(void *store, const struct xenpack_store_node *nodes, size_t n);
    /* Removes a node and all below it. One that is not there is no failure. */
    int (*remove)(void *store, const char *path);
    /* Tells xenstored of a domain's ring: what its store says may be heard by that domain. */
    int (*introduce)(void *store, uint32_t domid, uint64_t gfn, uint32_t port);
};

enum xenpack_log_level { XENPACK_LOG_ERROR, XENPACK_LOG_WARNING, XENPACK_LOG_INFO, XENPACK_LOG_DEBUG };

/* What happens to a domain. CREATED is also sent by the first refresh() for each domain found. */
enum xenpack_event_type {
    XENPACK_DOMAIN_CREATED,
    XENPACK_DOMAIN_PAUSED,
    XENPACK_DOMAIN_UNPAUSED,
    XENPACK_DOMAIN_SHUT_DOWN, /* shutdown_reason is set; the domain still holds its memory */
    XENPACK_DOMAIN_DIED,      /* gone, or going: its memory is being given back */
    XENPACK_HOST_LOST,        /* the toolstack cannot go on; domid is 0. Only close() may follow. */
    /* A fork that is served wrote to a shared page and Xen had no memory for it: the processor that
     * wrote waits until feed(). Said once until it was fed. */
    XENPACK_FORK_STARVED,
    XENPACK_HOST_LOW /* free memory fell under Xen's own mark (VIRQ_ENOMEM); domid is 0 */
};

struct xenpack_event {
    enum xenpack_event_type type;
    uint32_t domid;
    uint8_t uuid[16];
    int shutdown_reason; /* SHUTDOWN_* of xen/sched.h, or -1 */
};

struct xenpack_watcher_ops {
    uint32_t version; /* XENPACK_TOOLSTACK_VERSION */
    const struct xenpack_loop_ops *loop_ops;
    void *loop;
    const struct xenpack_store_ops *store_ops;
    void *store;
    void (*on_event)(void *user, const struct xenpack_event *event);
    void (*log)(void *user, enum xenpack_log_level level, const char *message);
    void *user;
};

/* ---- what a plugin gives the watcher --------------------------------------------------------- */

struct xenpack_host {
    uint64_t total_kib;   /* all memory the hypervisor has, its own included */
    uint64_t free_kib;    /* usable at once: neither claimed nor waiting to be scrubbed */
    uint64_t scrub_kib;   /* free, but not yet scrubbed: usable soon */
    uint64_t claimed_kib; /* promised by Xen to domains being built; not contained in free_kib */
    uint32_t nodes;       /* NUMA nodes */
    uint32_t cpus;
};

enum xenpack_domain_flags {
    XENPACK_DOMAIN_IS_PAUSED = 1u << 0,
    XENPACK_DOMAIN_IS_SHUTDOWN = 1u << 1,
    XENPACK_DOMAIN_IS_DYING = 1u << 2,
    XENPACK_DOMAIN_NEVER_RAN = 1u << 3, /* held, and never ran: being built, or created paused */
    XENPACK_DOMAIN_IS_HVM = 1u << 4,    /* HVM or PVH: a hardware-assisted guest */
};

struct xenpack_domain {
    uint32_t domid;
    uint8_t uuid[16];
    uint32_t flags;      /* enum xenpack_domain_flags */
    int shutdown_reason; /* SHUTDOWN_* of xen/sched.h, or -1 */
    uint64_t current_kib; /* pages the domain holds now */
    uint64_t limit_kib;   /* the most Xen lets it hold now (what setmaxmem set) */
    uint64_t shared_kib;  /* pages it shares with its template or its forks: not in current_kib */
    uint64_t claimed_kib; /* claimed for it and not yet taken */
    uint64_t cpu_time_ns;
    uint32_t vcpus_online;
};

/* How the domain was configured when it was created, whatever has been done to it since. */
struct xenpack_domain_config {
    uint64_t memory_kib;     /* xl.cfg memory= */
    uint64_t max_memory_kib; /* xl.cfg maxmem=, or memory= where there is none */
};

/* Where the host's memory is, beside what its domains hold (xenpack_domain.current_kib). All of it,
 * what they hold and what is below in xenpack_domain_books is total_kib, but for what the hypervisor
 * took at its boot and tells nobody of. */
struct xenpack_host_books {
    uint64_t total_kib;   /* as in xenpack_host */
    uint64_t free_kib;    /* in no use: with what is claimed, and what waits to be scrubbed */
    uint64_t claimed_kib; /* of that: promised by Xen to domains being built */
    uint64_t map_kib;     /* the hypervisor's tables with an entry for each page of the host */
    uint64_t shared_kib;  /* pages that several domains share, each counted once: in no current_kib */
    uint64_t saved_kib;   /* what more it would be if each domain had a page of its own for them */
};

/* What a domain takes besides current_kib. */
struct xenpack_domain_books {
    uint64_t paging_kib;  /* set aside for its page tables, in use or not */
    uint64_t records_kib; /* what the hypervisor keeps of it; estimated */
    uint64_t nodes;       /* bit N: new memory of it is taken from NUMA node N */
};

/* Of a processor that is not there, or is offline; of one in no pool. */
#define XENPACK_NONE UINT32_MAX

struct xenpack_node {
    uint64_t size_kib; /* what its addresses span, holes among them; 0: it has no memory, or is none */
    uint64_t free_kib;
};

struct xenpack_cpu {
    uint32_t node;
    uint32_t socket;
    uint32_t core; /* within its socket: two with the same are threads of one */
    uint32_t pool; /* whose domains may run on it */
};

/* The caller gives the arrays and how much room they have; the call says how much there is. Numbers
 * may have holes: the index is the number. Node N's distances begin at N * nodes_n; 10 is its own,
 * 0 that none is known. */
struct xenpack_topology {
    struct xenpack_node *nodes;
    uint32_t *distances; /* room for the square of nodes_capacity */
    size_t nodes_capacity;
    size_t nodes_n;
    struct xenpack_cpu *cpus;
    size_t cpus_capacity;
    size_t cpus_n;
};

/* What the start of a domain takes from the host's free memory, from first to last. */
struct xenpack_start_cost {
    uint64_t memory_kib;   /* its pages at start */
    uint64_t overhead_kib; /* beside them: paging pool (by its ceiling), build, Xen's own records */
    uint8_t uuid[16];      /* zero where the configuration names none */
};

/* What a fork of a template takes of it until it is ready, with next to nothing to do. */
struct xenpack_fork_cost {
    uint64_t memory_kib;   /* what it will have written to by then; by what others did */
    uint64_t overhead_kib; /* beside that: paging pool, the hypervisor's records */
};

/*
 * A store that comes with the host: a simulated one has no xenstored. As struct xenpack_store_ops,
 * and with watches as xenstore has them: `changed` is called in the loop, soon after the watch is
 * set and after each write or removal at or below `path`; "@introduceDomain" and "@releaseDomain"
 * are watched like paths. A watch may be ended inside `changed`; no call comes after that.
 */
struct xenpack_own_store {
    struct xenpack_store_ops ops;
    int (*watch)(void *store, const char *path, void (*changed)(void *arg), void *arg,
                 void **handle_r);
    void (*unwatch)(void *store, void *handle);
    /*
     * The names of the nodes just below `path`, each ended by a NUL, into names[0..size). Returns
     * how many bytes all of them take; where that is more than size, call again with more room.
     * -ENOENT: there is no such node.
     */
    int (*list)(void *store, const char *path, char *names, size_t size);
};

enum xenpack_target_way {
    /*
     * A few hypercalls and one guarded transaction, taking no lock and never blocking on another
     * process. Leaves Xen and the store as XENPACK_TARGET_LIBXL would.
     */
    XENPACK_TARGET_SHORT,
    /* libxl_set_memory_target(). Waits for any other toolstack process that holds the domain. */
    XENPACK_TARGET_LIBXL
};

/*
 * ---- templates and forks ----
 *
 * A template is a domain that has been suspended and sealed: it never runs again, and others are
 * forked of it, which share its pages until they write. What is a template, and what is a fork of
 * which, stands in the store, so that it survives the watcher:
 *   /local/domain/N/xenpack/template          "sealing" or "sealed"
 *   /local/domain/N/xenpack/sealed-cpu-ns     of a template: its cpu_time_ns, which does not change
 *                                             unless somebody lets it run, which spoils its forks
 *   /local/domain/N/xenpack/fork/template     of a fork: its template's uuid
 *   /local/domain/N/xenpack/fork/state        "building" until all of it is there, then "complete"
 * All of them are dom0's; the domain reads what is below xenpack/fork, nobody else does.
 *
 * These calls return at once; `done` is called in the loop, later, once, never inside the call.
 * close() calls `done` with -ECANCELED for what is under way. `why` is a sentence for a person, ""
 * on success. What fails leaves the host as it was: a domain that was to be sealed runs on, of a
 * fork nothing is left.
 */
typedef void (*xenpack_done)(void *arg, int result, const char *why);

/* How long each part of a fork took, in microseconds, and what came of it. It runs as soon as there
 * is all that it reads; what its backends and other toolstacks want comes while it does. */
struct xenpack_fork_result {
    uint32_t domid;
    uint32_t create_us; /* the domain */
    uint32_t memory_us; /* its memory and processor state: Xen's fork */
    uint32_t store_us;  /* its nodes and its introduction */
    uint32_t device_us; /* since it runs: libxl's record of it, its disks and networks */
    uint32_t whole_us;  /* from the call until it was unpaused, or could have been */
};
typedef void (*xenpack_fork_done)(void *arg, int result, const char *why,
                                  const struct xenpack_fork_result *fork);

struct xenpack_fork_request {
    uint32_t template_domid;
    uint8_t template_uuid[16];
    const char *name;
    uint8_t uuid[16]; /* the domain's handle in Xen from the first moment on */
    /* Written below /local/domain/N/xenpack/fork before it runs; their paths are relative to that. */
    const struct xenpack_store_write *identity;
    size_t identity_n;
    int paused; /* leave it paused, and do not count that */
};

struct xenpack_toolstack;

struct xenpack_toolstack_ops {
    uint32_t version; /* XENPACK_TOOLSTACK_VERSION */
    const char *name; /* "libxl", "sim" */
    const char *built_for; /* for a person: "Xen 4.17" */

    /*
     * Attaches to this host. On failure *ts_r is NULL, a sentence is in error[0..size), and the
     * result is -ENODEV (no such host here), -EPERM, -ENOEXEC (hypervisor of another version than
     * the one built against: exit XENPACK_EXIT_WRONG_HYPERVISOR), -EINVAL (the plugin was told what
     * it cannot do, as by a bad file of its own: exit EX_CONFIG) or another negative errno.
     */
    int (*open)(const struct xenpack_watcher_ops *watcher, struct xenpack_toolstack **ts_r,
                char *error, size_t size);
    /* Deregisters everything from the loop. Accepts NULL. */
    void (*close)(struct xenpack_toolstack *ts);
    const char *(*last_error)(struct xenpack_toolstack *ts);

    int (*host)(struct xenpack_toolstack *ts, struct xenpack_host *host_r);
    /*
     * Lists all domains, the control domain included, in ascending domid, into domains[0..capacity).
     * Returns how many exist; where that is more than capacity, call again with more room.
     * Reports what has changed since the last call through on_event.
     */
    int (*refresh)(struct xenpack_toolstack *ts, struct xenpack_domain *domains, size_t capacity);
    /* One domain; no events. */
    int (*domain)(struct xenpack_toolstack *ts, uint32_t domid, const uint8_t uuid[16],
                  struct xenpack_domain *domain_r);
    /* -ENODATA where no toolstack recorded one (a domain not built by libxl). */
    int (*domain_config)(struct xenpack_toolstack *ts, uint32_t domid, const uint8_t uuid[16],
                         struct xenpack_domain_config *config_r);
    /* What only accounting asks for; not read together with anything else. */
    int (*host_books)(struct xenpack_toolstack *ts, struct xenpack_host_books *books_r);
    int (*domain_books)(struct xenpack_toolstack *ts, uint32_t domid, const uint8_t uuid[16],
                        struct xenpack_domain_books *books_r);
    /* 1: there is more than room for it; both numbers are set, and nothing else. */
    int (*topology)(struct xenpack_toolstack *ts, struct xenpack_topology *topology);
    /*
     * Sets the balloon target: the domain's limit in Xen, its populate-on-demand target, and its
     * memory/target, which its balloon driver follows. Nothing is changed if the domain is gone,
     * if target_kib is over static_max_kib (-ERANGE; the caller has read memory/static-max), or if
     * it is being saved or migrated (-EBUSY). Where a step fails the earlier ones are undone.
     * With `keep_limit` the limit in Xen is raised where needed but not lowered.
     */
    int (*set_target)(struct xenpack_toolstack *ts, uint32_t domid, const uint8_t uuid[16],
                      uint64_t target_kib, uint64_t static_max_kib, int keep_limit,
                      enum xenpack_target_way way);
    /* Lowers (or raises) only the limit in Xen to limit_kib, libxl's constant added by the plugin. */
    int (*set_limit)(struct xenpack_toolstack *ts, uint32_t domid, const uint8_t uuid[16],
                     uint64_t limit_kib);
    /*
     * What a domain of this configuration, as `xl create --dryrun` prints it (libxl's JSON), would
     * cost. -EINVAL where the text is no such configuration. NULL: this plugin cannot tell.
     */
    int (*start_cost)(struct xenpack_toolstack *ts, const char *config_json,
                      struct xenpack_start_cost *cost_r);

    /*
     * NULL: the host's store is xenstored's. Else called before open(), once; the store lives until
     * close_store(), which comes after close(), and is given back in xenpack_watcher_ops.
     */
    int (*open_store)(const struct xenpack_loop_ops *loop_ops, void *loop,
                      const struct xenpack_own_store **ops_r, void **store_r, char *error,
                      size_t size);
    void (*close_store)(void *store);

    /*
     * What is missing for forks on this host: returns how many requirements, and writes a sentence
     * for each, a line each, into missing[0..size). NULL, and the calls below with it: no forks here.
     */
    int (*fork_missing)(struct xenpack_toolstack *ts, char *missing, size_t size);
    /*
     * Suspends a domain and seals it, under a new name; its devices are taken away, and what they
     * were is kept for its forks. -ETIMEDOUT: it did not suspend in time, and runs on. -ENOTSUP: a
     * domain like this cannot be a template (the sentence says why). One whose seal was broken off
     * ("sealing", and suspended) is sealed to its end.
     */
    int (*seal)(struct xenpack_toolstack *ts, uint32_t domid, const uint8_t uuid[16],
                const char *name, uint64_t timeout_ms, xenpack_done done, void *arg);
    /* Of a sealed template. -EINVAL: it is none. */
    int (*fork_cost)(struct xenpack_toolstack *ts, uint32_t domid, const uint8_t uuid[16],
                     struct xenpack_fork_cost *cost_r);
    /* -ENOMEM: Xen has not enough memory. -EEXIST: the name is taken. */
    int (*fork)(struct xenpack_toolstack *ts, const struct xenpack_fork_request *request,
                xenpack_fork_done done, void *arg);
    /*
     * Ends a domain and takes away all that belongs to it, also of a fork that is half made: one
     * with that uuid which has nothing in the store yet.
     */
    int (*destroy)(struct xenpack_toolstack *ts, uint32_t domid, const uint8_t uuid[16],
                   xenpack_done done, void *arg);

    /*
     * ---- what keeps forks whole when memory runs out ----
     * Of a fork that writes to a page it shares while Xen has no memory, Xen stops the processor and
     * says so on the fork's sharing ring; a fork without a ring it crashes. A first
     * touch of a page not mapped yet finds wrong memory instead: so free memory must not run out.
     */
    /* Serves the ring of a fork that another run of the watcher made, and lets go what waits on it.
     * fork() does so from the start; nothing where it is served already. -ENOMEM: Xen has no page
     * for a ring; all is as it was. Where it fails later the fork stays paused until it succeeds.
     * 1: it is paused since that run ended, in the middle of this or with forks that could write
     * more than is free: the caller owes it a let_go(), as if it had called hold(). */
    int (*adopt)(struct xenpack_toolstack *ts, uint32_t domid, const uint8_t uuid[16]);
    /* All that a starved fork waits for is tried again; where there is still no memory it starves
     * again, and is said to. Nothing where it waits for nothing. -EINVAL: it is not served. */
    int (*feed)(struct xenpack_toolstack *ts, uint32_t domid, const uint8_t uuid[16]);
    /* One pause of the domain, and its end. Xen counts pauses: the caller pairs them, also over its
     * own end, as a pause outlives who made it. let_go(): -EAGAIN while adopt() owes it a ring. */
    int (*hold)(struct xenpack_toolstack *ts, uint32_t domid, const uint8_t uuid[16]);
    int (*let_go)(struct xenpack_toolstack *ts, uint32_t domid, const uint8_t uuid[16]);

    /*
     * ---- what hands out a fork that stands ready ----
     */
    /* Gives a domain another name. -EEXIST: another domain has it, or is about to. */
    int (*rename)(struct xenpack_toolstack *ts, uint32_t domid, const uint8_t uuid[16],
                  const char *name);
    /* Lets a fork run that was left paused. -EINVAL: it is not paused. */
    int (*unpause)(struct xenpack_toolstack *ts, uint32_t domid, const uint8_t uuid[16]);
};

/* The one exported symbol. The table is static and lives as long as the object is loaded. */
typedef const struct xenpack_toolstack_ops *(*xenpack_toolstack_fn)(void);

#ifdef __cplusplus
}
#endif
#endif
