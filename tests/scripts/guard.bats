#!/usr/bin/env bats
# SPDX-License-Identifier: LGPL-2.1-or-later
# Forks that are promised more memory than there is, as a person meets them: xenpack and xenpackd on
# a simulated host, whose forks write over what they share. They wait for events, and must not need
# Xen or root. XENPACK, XENPACKD and PLUGIN name what to test.

load daemon

setup() {
    what_to_test "$BATS_TEST_TMPDIR"
    printf '%s\n' '[host]' 'reserve = 16M' 'emergency = 16M' 'start-reserve = 0M' '[daemon]' \
        "toolstack = $PLUGIN" "socket = $XENPACK_SOCKET" >"$dir/xenpack.conf"
}

teardown() { kill -KILL "$(<"$dir/pid")" 2>/dev/null || :; }

# begin HOG [KEY=VALUE...]: a host with a template whose forks write 50M each and end, and with
# another zone of that size, which has these keys. They write so slowly that, even where the whole
# simulation has to wait for a processor, they stay within what a look allows them.
begin() {
    {
        printf '%s\n' '[host]' 'memory = 1G' 'xen = 32M' 'dom0 = 512M' 'cpus = 4' \
            '[zone web]' 'memory = 64M' 'boot = 100ms' 'generate = ramp' 'base = 4M' 'peak = 4M' \
            'fork-writes = 10M' 'fork-end = 5s' \
            '[zone hog]' "memory = $1" 'boot = 100ms' 'generate = ramp' 'base = 4M' 'peak = 4M' "${@:2}"
    } >"$dir/host.sim"
    start_daemon "$dir/host.sim"
    await "$dir/log" 'hog (2): found' 10
    "$XENPACK" template create web --name base
}

# ended NUMBER SECONDS: that many forks come to their end by themselves, in that time.
ended() {
    ended_after_fault "$@" && run grep -E ': fault: ' "$dir/log"
    echo "$output"
    [ "$status" -eq 1 ]
}
# The same, though none could go on for a while.
ended_after_fault() {
    local n
    for ((n = 1; n <= $1; n++)); do
        await "$dir/log" "job-$n ([0-9]*): fork: it has shut down (poweroff)" "$2"
    done
    for ((n = 1; n <= $1; n++)); do
        await "$dir/log" "job-$n ([0-9]*): gone" 10
    done
    run grep -E '[(]crash|no memory left' "$dir/log"
    echo "$output"
    [ "$status" -eq 1 ]
}

@test "forks that fit only one after the other are held, and all end in turn" {
    begin 256M
    run "$XENPACK" fork base -n 5 --name 'job-%d' --until running
    echo "$output"
    [ "$status" -eq 0 ]
    await "$dir/log" 'fork: [0-9]* MiB are free for forks, .*; held until there is room: job-' 10
    ended 5 60
    await "$dir/log" 'fork: no fork has to be held for want of memory any more' 15
}

@test "forks that do not fit wait until another zone has gone, are shown to, and then all end" {
    begin 330M 'end = 15s'
    "$XENPACK" fork base -n 4 --name 'job-%d' --until running
    await "$dir/log" 'held until there is room: job-' 10
    run "$XENPACK" status
    echo "$output"
    [[ $output == *"held for "*": it is held until there is room for what it may write; "*" MiB are free for forks"* ]]
    "$XENPACK" status --json | grep -q '"held": true'
    run grep -c 'held until there is room' "$dir/log"
    [ "$output" -eq 1 ]
    await "$dir/log" 'hog (2): gone' 30
    ended_after_fault 4 30
}

@test "where none can go on it is said what to do, and who asks for more is told so" {
    begin 370M 'end = 25s'
    "$XENPACK" fork base -n 2 --name 'job-%d' --until running
    await "$dir/log" 'none of the 2 forks that are held for want of memory can go on: job-[12] is the next and needs [0-9]* MiB' 20
    run "$XENPACK" status
    echo "$output"
    [[ $output == *"host: none of the 2 forks that are held"*"end a fork or a zone"* ]]
    run "$XENPACK" fork base --name more --timeout 2s
    echo "$output"
    [ "$status" -ne 0 ]
    [[ $output == *"forks that are held come first with "* ]]
    await "$dir/log" 'hog (2): gone' 30
    ended_after_fault 2 30
    run "$XENPACK" status
    [[ $output != *"none of the 2 forks"* ]]
}

@test "a request's time is over too where one of its forks is held, and nothing of it is left" {
    begin 330M
    run "$XENPACK" fork base -n 6 --name 'late-%d' --timeout 3s
    echo "$output"
    [ "$status" -ne 0 ]
    [[ $output == *"late-"[1-6]": it has not said that it has its identity within 3.0 s: it is held for want of memory"* ]]
    run "$XENPACK" status
    echo "$output"
    [[ $output != *"late-"* ]]
}

@test "a daemon that is killed while it holds forks is as good as new" {
    begin 330M
    "$XENPACK" fork base -n 4 --name 'job-%d' --until running
    await "$dir/log" 'held until there is room: job-' 10
    kill -KILL "$(<"$dir/pid")"
    timeout 5 tail -s 0.05 --pid="$(<"$dir/keeper")" -f /dev/null
    [ "$(<"$dir/status")" -eq 137 ]
    begin 256M
    "$XENPACK" fork base -n 4 --name 'job-%d' --until running
    ended 4 60
}
