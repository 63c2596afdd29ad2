# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC2154
# What cases about templates and forks ask of the host: who is a template, what a fork says of
# itself, and that nothing is left of what was undone. Sourced by cases after lab.sh and daemon.sh.

forks_state=/var/lib/xenpack/forks      # an intent file for each fork under way
forks_overlays=/var/lib/xenpack/overlays # the forks' own disk blocks

# fork_node NAME NODE: what stands below the domain's xenpack/ in the store.
fork_node() { xenstore-read "/local/domain/$(zone_domid "$1")/xenpack/$2" 2>/dev/null; }

is_sealed() { is "$(fork_node "$1" template)" = sealed; }
is_whole() { is "$(fork_node "$1" fork/state)" = complete; }
gone() { ! zone_domid "$1" || return 1; }

# fork_names PREFIX COUNT: PREFIX-1 to PREFIX-COUNT, a line each.
fork_names() { local i; for ((i = 1; i <= $2; i++)); do printf '%s-%s\n' "$1" "$i"; done; }

# destroy_all PREFIX: every domain named PREFIX-something. none_of PREFIX: none is left.
destroy_all() { xl list | awk -v p="^$1-" '$1 ~ p { print $1 }' | xargs -r -n 1 -P 4 xl destroy; }
none_of() { is "$(xl list | grep -c "^$1-")" -eq 0; }

# template_made ZONE TEMPLATE [WORD...]: the zone becomes a template of that name, sealed.
template_made() {
    local zone=$1 template=$2
    shift 2
    xenpack template create "$zone" --name "$template" "$@" && is_sealed "$template"
}

# Words that xl and the other toolstack programs know a fork by: it is listed, with its configuration.
xl_knows() {
    local said
    said=$(xl list -l "$1") || return 1
    grep -q "\"name\": \"$1\"" <<<"$said" || { printf '%s\n' "$said" && return 1; }
}

# ask_all COMMAND NAME...: sends one workload command to all of them, {} in it being their names, then
# takes their answers, each with its zone's name before it. Fails if one does not answer well.
ask_all() {
    local command=$1 name answer status=0
    shift
    local told=()
    for name in "$@"; do
        if zone_skip "$name" && zone_say "$name" "${command//\{\}/$name}"; then told+=("$name"); else status=1; fi
    done
    for name in "${told[@]}"; do
        if answer=$(zone_expect "$name" '^work: ' 120) && [[ ! $answer =~ FAILED|unknown ]]; then
            printf '%s %s\n' "$name" "$answer"
        else
            printf '%s: %s\n' "$name" "$answer"
            status=1
        fi
    done
    return "$status"
}

# all_differ FIELD FILE: in every line of FILE the field has another value, and has one.
all_differ() {
    local lines values
    lines=$(wc -l <"$2")
    values=$(value_of "$1" <"$2" | grep -vx -- '-' | sort -u | wc -l)
    is "$lines" -gt 0 || return 1
    is "$values" -eq "$lines" || { cat "$2" && return 1; }
}

# own_names FILE: every zone calls itself by its domain's name.
own_names() {
    awk '{ split($5, f, "="); if (f[1] != "name" || f[2] != $1) { print; bad = 1 } } END { exit bad }' "$1"
}

# refused TEXT COMMAND...: the command fails, with one line that has TEXT in it.
refused() {
    local text=$1 said status=0
    shift
    said=$("$@" 2>&1) || status=$?
    printf '%s\n' "$said"
    is "$status" -ne 0 && is "$status" -lt 126 && is "$(wc -l <<<"$said")" -eq 1 && grep -qi -- "$text" <<<"$said"
}

# dies_at POINT COMMAND...: with the daemon killed at that point the command fails, and it is the point
# that killed it.
dies_at() {
    local point=$1 status=0
    shift
    XENPACK_FAULT=$point daemon_start || return 1
    "$@" && printf 'it has succeeded\n' && return 1
    eventually 30 daemon_ended || { printf 'the daemon lives\n' && return 1; }
    status=$(<"$lab_state/xenpackd.status")
    is "$status" -eq 137
}

# ---- The store: what libxl makes for a restored domain, and what the plugin makes for a fork.

# tree NAME: the domain's nodes and who may do what with them, without what is its own. (dom0 may
# read all there is, whether it is named or not.)
tree() {
    local domid uuid
    domid=$(zone_domid "$1")
    uuid=$(basename "$(xenstore-read "/local/domain/$domid/vm")")
    xenstore-ls -fp / | grep -E "^/(local/domain/(0/backend/[a-z]*/)?|libxl/)${domid}[/ ]|^/vm/$uuid" |
        sed -E "s/$uuid/UUID/g; s#/$domid([/\" ])#/N\1#g; s/[nr]$domid\b/&/g; s/\b([nrwb])$domid\b/\1N/g; s/(domid|frontend-id) = \"$domid\"/\1 = \"N\"/; s/\(nN,r0\)/(nN)/" |
        sed -E 's/^(.*\/(mac|ring-ref|event-channel(-[rt]x)?|[rt]x-ring-ref|physical-device|physical-device-path|node|params)) = "[^"]*"/\1/' |
        grep -vE '/xenpack[/ ]|/data/|/(tty|start_time|name|port|vm|state) ' | sort
}

# many_forks_host: dom0 as xenpackd(8) has it for many forks with disks.
many_forks_host() {
    modprobe dm-mod kcopyd_subjob_size_kb=64 && modprobe xen-blkback feature_persistent=0 &&
        is "$(cat /sys/module/dm_mod/parameters/kcopyd_subjob_size_kb /sys/module/xen_blkback/parameters/feature_persistent)" = $'64\nN'
}

# ---- What forks take. memory_before; then, with N forks made, memory_of_each N AIM_KIB MOST_KIB: tells what
# each takes of the host's memory and of dom0's, and whether that is the aim; more than the most is a failure.
free_kib() { host_pages | awk '{ sub("free=", "", $2); print $2 * 4 }'; }
dom0_kib() { awk '/^MemAvailable/ { print $2 }' /proc/meminfo; }
memory_before() { free_before=$(free_kib) dom0_before=$(dom0_kib); }
memory_of_each() {
    local host=$(((free_before - $(free_kib)) / $1)) dom0=$(((dom0_before - $(dom0_kib)) / $1)) verdict=met
    ((host + dom0 <= $2)) || verdict=missed
    note "each fork: $host KiB of the host's memory, and $dom0 KiB of dom0's; the aim is $2 KiB for both: $verdict"
    check "each takes $3 KiB at most, dom0's share included" is $((host + dom0)) -le "$3"
}

# ---- Leaks. A picture of the host is what a case holds another against.

settled() {
    local now
    now=$(host_pages)
    is "$(value_of scrub <<<"$now")" -eq 0 && is "$(value_of domains <<<"$now")" -eq "$(($(xl list | wc -l) - 1))"
}

# picture FILE: domains, store, devices, files and free pages, once Xen has given back what is dying.
# What changes by itself is left out: dom0's own memory, the daemon's nodes, guests' reports; and the two that
# libxl makes with its first domain, and leaves.
picture() {
    eventually 60 settled || return 1
    {
        xl list | awk 'NR > 1 { print "domain", $1, $2 }' | sort
        xenstore-ls -f / | sed 's/ = .*//' | grep -vE '^/tool/xenpack|^/(libxl|vm)$|/data/xenpack/report$' | sort
        find /sys/block -maxdepth 1 -name 'dm-*' 2>/dev/null
        losetup -a 2>/dev/null | sed 's/:.*//; s/^/loop /' | sort
        find /sys/class/net -maxdepth 1 -name 'vif*' 2>/dev/null
        find "$forks_state" "$forks_overlays" -type f 2>/dev/null | sort
    } >"$1"
    host_pages >"$1.pages"
}

# as_before FILE [PAGES]: the host is as in that picture, and lacks no more than PAGES (64) free pages.
as_before() {
    local lacks
    picture "$lab_state/now" && diff "$1" "$lab_state/now" || return 1
    lacks=$(($(value_of free <"$1.pages") - $(value_of free <"$lab_state/now.pages")))
    is "$lacks" -le "${2:-64}"
}
