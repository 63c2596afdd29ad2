#!/usr/bin/env bats
# SPDX-License-Identifier: LGPL-2.1-or-later
# Pools as a person meets them: xenpack and xenpackd on a simulated host. One daemon serves the
# tests, in their order. They wait for events, and must not need Xen or root.
# XENPACK, XENPACKD and PLUGIN name what to test.

load daemon

setup_file() {
    what_to_test "$BATS_FILE_TMPDIR"
    configuration 'ready = 2' 'most = 4'
    scenario >"$dir/host.sim"
    start_daemon "$dir/host.sim"
    await "$dir/log" 'web (1): found' 5
}

teardown_file() { kill -KILL "$(<"$dir/pid")" 2>/dev/null || :; }

setup() { cd "$BATS_TEST_DIRNAME/../.." || return; }

# configuration KEY=VALUE...: of the pool.
configuration() {
    printf '%s\n' '[host]' 'reserve = 16M' 'emergency = 16M' 'fork-reserve = 8M' '[daemon]' \
        "toolstack = $PLUGIN" "socket = $XENPACK_SOCKET" '[pool jobs]' 'template = base' \
        'name = job-%d' "$@" >"$dir/xenpack.conf"
}

scenario() {
    printf '%s\n' '[host]' 'memory = 2G' 'xen = 32M' 'dom0 = 512M' '[zone web]' 'memory = 64M' \
        'boot = 100ms' 'generate = ramp' 'base = 4M' 'peak = 4M'
}

# pool_field NAME: of the one pool.
pool_field() { "$XENPACK" pool list --json | sed -nE "s/^ *\"$1\": (.*[^,]),?\$/\\1/p"; }

@test "a pool without its template waits for it, and says so once" {
    await "$dir/log" 'fork: the pool jobs is not full: there is no template base' 3
    run "$XENPACK" pool list
    echo "$output"
    [[ $output == *POOL*TEMPLATE*READY*jobs*base*paused*"there is no template base"* ]]
    refused 75 'no fork of the pool jobs stands ready: there is no template base' take jobs
    refused 1 "there is no pool 'nosuch'" take nosuch
    [ "$(grep -c 'the pool jobs is not full' "$dir/log")" -eq 1 ]
}

@test "with the template it fills, and its forks stand there paused" {
    "$XENPACK" template create web --name base
    await "$dir/log" 'the pool jobs is full again' 5
    [ "$(grep -c 'the pool jobs is not full' "$dir/log")" -eq 1 ]
    grep -E 'job-2 \([0-9]+\): fork: made of base in .*left paused' "$dir/log"
    [ "$(pool_field ready)" = 2 ]
    [ "$(pool_field taken)" = 0 ]
    run "$XENPACK" status
    echo "$output"
    [[ $output == *"pools:"*"jobs  2 of 2 ready"*"forks:"*"job-1"*"stands ready in jobs, of base"* ]]
    refused 1 'job-1, job-2' template rm base
}

@test "one is taken, and its place is filled again" {
    run "$XENPACK" take jobs
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output =~ ^job-1\ \([0-9]+\)\ \ ready\ after\ [0-9]+\ ms$ ]]
    await "$dir/log" 'job-1 .*fork: handed out of the pool jobs, in [0-9]* ms' 1
    await "$dir/log" 'job-3 .*fork: made of base' 5
    [ "$(pool_field taken)" = 1 ]
}

@test "one is taken by another name, and only a good one" {
    refused 1 'a domain is named base already' take jobs --name base
    refused 1 'is no name' take jobs --name a/b
    refused 2 '--timeout' take jobs --timeout soon
    refused 2 "--timeout: '99d' is not between 100ms and 1h" take jobs --timeout 99d
    refused 1 "'banana' is no address" take jobs --address banana
    run "$XENPACK" take jobs --name build-17 --until running --json
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *'"name": "build-17"'*'"pool": "jobs"'*'"ready_ms": null'* ]]
    await "$dir/log" 'build-17 .*fork: handed out of the pool jobs, where it was job-2' 1
    await "$dir/log" 'build-17 .*fork: ready after' 5
}

@test "the taken ones count for the most" {
    "$XENPACK" take jobs
    "$XENPACK" take jobs
    refused 75 'no fork of the pool jobs stands ready: there are 4' take jobs
    [ "$(pool_field taken)" = 4 ]
    [ "$(pool_field ready)" = 0 ]
    [[ $(pool_field why) == *"there may be no more"* ]]
}

@test "a reload changes how many there may be" {
    configuration 'ready = 3'
    "$XENPACK" reload
    await "$dir/log" 'the pool jobs is full again' 5 2
    [ "$(pool_field ready)" = 3 ]
    configuration 'ready = 1'
    "$XENPACK" reload
    await "$dir/log" 'it is taken away: the pool jobs has more than it shall have' 3
    [ "$(pool_field ready)" = 1 ]
    [ "$(pool_field taken)" = 4 ]
}

@test "with none that stands ready one is made for who asks" {
    configuration 'ready = 0'
    "$XENPACK" reload
    await "$dir/log" 'config: reloaded' 1
    run "$XENPACK" take jobs --name extra
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == "extra ("* ]]
    [ "$(pool_field taken)" = 5 ]
}

@test "a pool that is not configured any more ends, and the taken forks stay" {
    local made
    made=$(grep -c 'left paused' "$dir/log")
    configuration 'ready = 2'
    "$XENPACK" reload
    await "$dir/log" 'left paused' 3 $((made + 2))
    sed -i '/^\[pool/,$d' "$dir/xenpack.conf"
    "$XENPACK" reload
    await "$dir/log" 'it is taken away: the pool jobs is not in the configuration' 3
    run "$XENPACK" pool list
    [[ $output == *"no pools"* ]]
    "$XENPACK" status | grep -q 'extra'
    stop_daemon
    [ "$(<"$dir/status")" -eq 0 ]
}

@test "a pool that runs hands out what is ready" {
    configuration 'keep = running'
    start_daemon "$dir/host.sim"
    await "$dir/log" 'web (1): found' 5
    "$XENPACK" template create web --name base
    await "$dir/log" 'job-1 .*fork: ready after' 5
    refused 1 'have their identity already' take jobs --address 10.0.0.7
    run "$XENPACK" take jobs --name now
    echo "$output"
    [[ $output =~ ^now\ \([0-9]+\)\ \ ready\ after\ 0\ ms$ ]]
    stop_daemon
}

@test "where no memory is shared a pool is a warning, and the host says why" {
    scenario | sed 's/^dom0 = .*/&\nsharing = no/' >"$dir/plain.sim"
    start_daemon "$dir/plain.sim"
    await "$dir/log" 'no templates and no forks on this host: the simulated hypervisor shares no memory' 5
    run "$XENPACK" status
    echo "$output"
    [[ $output == *"no forks on this host:"*"the simulated hypervisor shares no memory"* ]]
    refused 1 'cannot make templates and forks' template create web
    stop_daemon
}
