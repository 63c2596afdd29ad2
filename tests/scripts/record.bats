#!/usr/bin/env bats
# SPDX-License-Identifier: LGPL-2.1-or-later
# xenpack record on real programs, as far as this machine lets it (root, and cgroups that account for
# memory); and xenpack simulate on what was recorded. XENPACK names the program to test.

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    XENPACK=$(realpath "${XENPACK:-build/xenpack}")
    [[ -x $XENPACK ]] || { echo "there is no $XENPACK: build it first" >&2; return 1; }
    trace=$BATS_TEST_TMPDIR/a.trace
}

# Runs xenpack; $output is standard error alone, $status the exit status.
complaint() {
    run bash -c '"$@" 2>&1 >/dev/null' bash "$XENPACK" "$@"
}

# A machine where nothing can be recorded is told apart from a recorder that does not work by making
# a cgroup without it.
needs_cgroups() {
    [ "$(id -u)" -eq 0 ] || skip "RECORDING IS NOT TESTED: needs root"
    local folder
    for folder in /sys/fs/cgroup/memory /sys/fs/cgroup; do
        [[ $folder != /sys/fs/cgroup ]] || grep -qsw memory "$folder/cgroup.controllers" || continue
        if mkdir "$folder/xenpack-bats-$$" 2>/dev/null; then
            rmdir "$folder/xenpack-bats-$$"
            return
        fi
    done
    skip "RECORDING IS NOT TESTED: no cgroup that accounts for memory can be made here"
}

# The largest number of a column (1: t_ms, 2: anon_kib, ...) of a trace.
most() {
    awk -v column="$1" '/^[0-9]/ && $column > most { most = $column } END { print most + 0 }' "$trace"
}

program='import sys, time
held = bytearray(b"x") * (80 << 20)
end = time.monotonic() + 2.5
while time.monotonic() < end:
    open(sys.argv[1], "rb").read()
    time.sleep(0.05)'

@test "record finds the memory, the cache and the reads of a real program" {
    needs_cgroups
    command -v python3 >/dev/null || skip "RECORDING IS NOT TESTED: needs python3"
    run "$XENPACK" record -o "$trace" --interval 100ms --origin 'a test' -- sh -c \
        'head -c 20M /dev/zero >"$0" && exec python3 -c "$1" "$0"' "$BATS_TEST_TMPDIR/data" "$program"
    echo "$output"
    cat "$trace"
    [ "$status" -eq 0 ]
    [[ $output == *"$trace: "*" rows over "*"command ended"* ]]
    grep -qx '# name: a' "$trace"
    grep -qx '# origin: recorded, a test' "$trace"
    # 80 MiB of memory, 20 MiB while a file is read, and an interpreter.
    [ "$(most 2)" -gt $((80 * 1024)) ]
    [ "$(most 2)" -lt $((130 * 1024)) ]
    # The file was written, then read at least twice: 20 MiB of cache, and the interpreter's files.
    [ "$(most 4)" -ge $((20 * 1024)) ]
    [ "$(most 4)" -lt $((70 * 1024)) ]
    # 20 MiB each time, some times a second.
    [ "$(most 5)" -gt $((40 * 1024)) ]
    # It was written once.
    [ "$(most 6)" -gt 0 ]
    [ "$(most 1)" -ge 2000 ]
}

# A grandchild that is killed at the end, and takes a while to give back its memory; and one that
# goes on.
leaving='import os, signal, subprocess, sys, time
left = subprocess.Popen(["sleep", "60"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
open(sys.argv[1], "w").write(str(left.pid))
ready, say = os.pipe()
child = os.fork()
if child == 0:
    held = bytearray(b"x") * (400 << 20)
    os.write(say, b"x")
    time.sleep(60)
os.read(ready, 1)
os.kill(child, signal.SIGKILL)
os._exit(0)'

@test "record leaves no cgroup behind, and what the command left running goes on" {
    needs_cgroups
    command -v python3 >/dev/null || skip "RECORDING IS NOT TESTED: needs python3"
    "$XENPACK" record -o "$trace" -- python3 -c "$leaving" "$BATS_TEST_TMPDIR/pid" 3>&- &
    recorder=$!
    wait "$recorder"
    left=$(cat "$BATS_TEST_TMPDIR/pid")
    kill -0 "$left"
    [ "$(grep -c xenpack-record "/proc/$left/cgroup")" -eq 0 ]
    kill "$left"
    [ -z "$(find /sys/fs/cgroup -name "xenpack-record-$recorder" 2>/dev/null)" ]
}

@test "record keeps what it has when it is interrupted, and ends the command" {
    needs_cgroups
    mkfifo "$BATS_TEST_TMPDIR/ready"
    "$XENPACK" record -o "$trace" --json -- sh -c 'echo $$ >"$0" && exec sleep 60' \
        "$BATS_TEST_TMPDIR/ready" >"$BATS_TEST_TMPDIR/out" 3>&- &
    recorder=$!
    read -r child <"$BATS_TEST_TMPDIR/ready"
    kill -INT "$recorder"
    wait "$recorder"
    grep -q '"end": "interrupted"' "$BATS_TEST_TMPDIR/out"
    grep -qE '^0 [0-9]+ ' "$trace"
    [ ! -e "/proc/$child" ]
}

@test "record removes what a killed recorder left, and what runs in it goes on" {
    needs_cgroups
    mkfifo "$BATS_TEST_TMPDIR/ready" "$BATS_TEST_TMPDIR/alive"
    "$XENPACK" record -o "$BATS_TEST_TMPDIR/b.trace" -- sh -c 'echo >"$0" && exec sleep 60' \
        "$BATS_TEST_TMPDIR/alive" 3>&- &
    living=$!
    read -r <"$BATS_TEST_TMPDIR/alive"
    "$XENPACK" record -o "$trace" -- sh -c 'echo $$ >"$0" && exec sleep 60' \
        "$BATS_TEST_TMPDIR/ready" 3>&- &
    recorder=$!
    read -r child <"$BATS_TEST_TMPDIR/ready"
    kill -KILL "$recorder"
    wait "$recorder" || :
    [ -n "$(find /sys/fs/cgroup -name "xenpack-record-$recorder" 2>/dev/null)" ]
    "$XENPACK" record -o "$BATS_TEST_TMPDIR/c.trace" -- true
    [ -z "$(find /sys/fs/cgroup -name "xenpack-record-$recorder" 2>/dev/null)" ]
    [ -n "$(find /sys/fs/cgroup -name "xenpack-record-$living" 2>/dev/null)" ]
    [ "$(grep -c xenpack-record "/proc/$child/cgroup")" -eq 0 ]
    kill "$child"
    kill -INT "$living"
    wait "$living"
    rm "$BATS_TEST_TMPDIR/ready" "$BATS_TEST_TMPDIR/alive"
    ls "$BATS_TEST_TMPDIR"
    [ "$(ls "$BATS_TEST_TMPDIR")" = $'b.trace\nc.trace' ]
}

@test "record tells that the command failed, and keeps the recording" {
    needs_cgroups
    complaint record -o "$trace" -- sh -c 'exit 3'
    [ "$status" -eq 1 ]
    [[ $output == *"sh ended with status 3; the recording is in $trace"* ]]
    grep -q '^0 ' "$trace"
}

@test "record says that there is no such command, and writes nothing" {
    needs_cgroups
    complaint record -o "$trace" -- no-such-program-anywhere
    [ "$status" -eq 1 ]
    [[ $output == *"cannot run no-such-program-anywhere: No such file"* ]]
    [ -z "$(ls "$BATS_TEST_TMPDIR")" ]
}

@test "record takes all of the machine, and a cgroup that is there" {
    needs_cgroups
    run "$XENPACK" record -o "$trace" --machine --for 300ms --interval 100ms --name box
    [ "$status" -eq 0 ]
    [[ $output == *"time over"* ]]
    grep -qx '# name: box' "$trace"
    # Whatever runs here, it is more than this.
    [ "$(most 2)" -gt $((20 * 1024)) ]
    complaint record -o "$trace" --cgroup no/such/group --for 1s
    [ "$status" -eq 1 ]
    [[ $output == *"there is no cgroup no/such/group"* ]]
}

@test "record that cannot write says so, and leaves what was there" {
    needs_cgroups
    complaint record -o "$BATS_TEST_TMPDIR/nosuch/a.trace" -- true
    [ "$status" -eq 1 ]
    [[ $output == *"nosuch/a.trace: No such file"* ]]
    complaint record -o /dev/full -- true
    [ "$status" -eq 1 ]
    [[ $output == *"not a regular file"* ]]
    # A file system that is full by the time that the recording ends.
    small=$BATS_TEST_TMPDIR/small
    mkdir "$small"
    mount -t tmpfs -o size=64k none "$small" 2>/dev/null || skip "cannot mount a small file system"
    echo old >"$small/a.trace"
    complaint record -o "$small/a.trace" -- sh -c 'cat /dev/zero >"$0" 2>/dev/null || :' "$small/rest"
    listed=$(ls "$small")
    kept=$(cat "$small/a.trace")
    umount "$small"
    echo "$status $output; $listed"
    [ "$status" -eq 1 ]
    [[ $output == *"a.trace: No space left"* ]]
    [ "$kept" = old ]
    [ "$listed" = $'a.trace\nrest' ]
}

@test "record without permission is status 77" {
    [ "$(id -u)" -eq 0 ] || skip "needs root, to become somebody else"
    needs_cgroups
    cp "$XENPACK" "$BATS_TEST_TMPDIR/xenpack"
    chmod 755 "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR"/*
    chmod 777 "$BATS_TEST_TMPDIR"
    run setpriv --reuid=65534 --regid=65534 --clear-groups \
        "$BATS_TEST_TMPDIR/xenpack" record -o "$trace" -- true
    echo "$output"
    [ "$status" -eq 77 ]
    [[ $output == *"cgroup"*"try it as root"* ]]
}

@test "record refuses what makes no sense with status 2" {
    for arguments in "-o x" "-o x --machine -- true" "-o x --machine --cgroup y" "-- true" \
        "-o x --machine --for soon" "-o x --machine --interval 1ms" "-o x --machine --for 360d"; do
        # shellcheck disable=SC2086 # one string, several arguments
        complaint record $arguments
        echo "$arguments: $status $output"
        [ "$status" -eq 2 ]
        [ -n "$output" ]
        [ ! -e x ]
    done
}

@test "simulate tells how many fit, compares and draws" {
    run "$XENPACK" simulate --host 2G --for 1m --compare --svg "$BATS_TEST_TMPDIR/a.svg" \
        idle:64M bursts:256M
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output =~ zones\ that\ fit\ +([0-9]+)\ +([0-9]+) ]]
    [ "${BASH_REMATCH[1]}" -ge "${BASH_REMATCH[2]}" ]
    [ "${BASH_REMATCH[2]}" -ge 4 ]
    head -n 1 "$BATS_TEST_TMPDIR/a.svg" | grep -q '^<svg '
    tail -n 1 "$BATS_TEST_TMPDIR/a.svg" | grep -qx '</svg>'
    grep -q 'static sizes' "$BATS_TEST_TMPDIR/a.svg"
}

@test "simulate says so where zones are too many" {
    run "$XENPACK" simulate --host 1G --zones 30 --for 1m ramp:500M --json
    [ "$status" -eq 0 ]
    [[ $output == *'"fits": false'* ]]
    run "$XENPACK" simulate --host 1G --zones 30 --for 1m ramp:500M
    echo "$output"
    [[ $output == *"found no room to start within a minute: a zone takes up to "*" as it starts"* ]]
    run "$XENPACK" simulate --host 2G --zones 3 --for 2m --stalls 0 bursts:800M
    echo "$output"
    [[ $output == *"3 zones are too many for xenpack, if at most 0 %"* ]]
    run "$XENPACK" simulate --host 1G --for 1m bursts:4G
    echo "$output"
    [[ $output == *"zones that fit "*" 0"*"time lost to memory "*" -"* ]]
    [[ $output == *"Not one zone fits: a zone takes up to "*", and the host has "*" for zones."* ]]
}

@test "simulate follows the recordings that are shipped, and each says what it is" {
    for trace in tests/bench/traces/*.trace; do
        [ "$(stat -c %s "$trace")" -le 61440 ]
        grep -q '^# origin: recorded, ..*' "$trace"
        run "$XENPACK" simulate --host 4G --zones 1 --for 5m "$trace" --json
        echo "$output"
        [ "$status" -eq 0 ]
        [[ $output == *'"fits": true'* ]]
    done
}

@test "simulate refuses stalls that are no number" {
    run "$XENPACK" simulate --host 1G --zones 1 --for 1m --stalls nan idle
    echo "$output"
    [ "$status" -eq 2 ] && [[ $output == *--stalls* ]]
}

@test "simulate names the file and the line of a bad trace" {
    printf 'xenpack-trace 1\n0 100 200 0 0 0\n' >"$trace"
    complaint simulate --host 4G "$trace"
    [ "$status" -eq 1 ]
    [[ $output == *"$trace: line 2: active_kib, 200, is over anon_kib, 100"* ]]
    complaint simulate --host 4G "$BATS_TEST_TMPDIR/nosuch"
    [ "$status" -eq 1 ]
    [[ $output == *"nosuch: No such file"* ]]
    complaint simulate --host 4G burst:512M
    [ "$status" -eq 1 ]
    [[ $output == *"burst:512M: No such file"*"nor is it a kind"*bursts*day*idle*ramp*sawtooth*training* ]]
}

@test "simulate shows on a terminal how far it is, and nowhere else" {
    run script -qec "$XENPACK simulate --host 2G --zones 4 --for 5m bursts" /dev/null
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output =~ 4\ zones,\ [0-9]+\ % ]]
    complaint simulate --host 2G --zones 4 --for 5m bursts
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "simulate ends at once when it is interrupted, and leaves nothing" {
    # More than can be done in the time that is waited for it.
    run timeout --preserve-status -s INT 1 env --default-signal=INT \
        "$XENPACK" simulate --host 8T --zones 5000 --for 7d --svg "$BATS_TEST_TMPDIR/a.svg" bursts
    echo "$status $output"
    [ "$status" -eq 130 ]
    [ -z "$(ls "$BATS_TEST_TMPDIR")" ]
}

@test "simulate refuses what makes no sense with status 2" {
    for arguments in "idle" "--host 4G" "--host 1 idle" "--host 100M idle" "--host 4G idle:1K" \
        "--host 4G idle --zones 0" "--host 4G idle --for 59s" "--host 4G idle --dom0 4G" \
        "--host 4G idle --stalls 101" "--host 4G idle:"; do
        # shellcheck disable=SC2086 # one string, several arguments
        complaint simulate $arguments
        echo "$arguments: $status $output"
        [ "$status" -eq 2 ]
        [ -n "$output" ]
    done
}
