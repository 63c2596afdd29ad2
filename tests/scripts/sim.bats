#!/usr/bin/env bats
# SPDX-License-Identifier: LGPL-2.1-or-later
# xenpackd as it is, on a simulated host: found, grown, set, reloaded, gone, taken from, ended; and
# what it says of a bad scenario. One daemon serves the first tests, in their order: the scenario's
# clock runs through them. They wait for events, and must not need Xen or root.
# XENPACK, XENPACKD and PLUGIN name what to test.

load daemon

setup_file() {
    what_to_test "$BATS_FILE_TMPDIR"
    scenario >"$dir/host.sim"
    printf '%s\n' 'xenpack-trace 1' '0 20480 20480 0 0 0' '3000 20480 20480 0 0 0' \
        '3500 81920 81920 0 0 0' '11500 81920 81920 0 0 0' '13000 256000 256000 0 0 0' \
        '60000 256000 256000 0 0 0' >"$dir/bursts.trace"
    configuration 100 >"$dir/xenpack.conf"
    start_daemon "$dir/host.sim"
    await "$dir/log" 'busy (2): found' 5
    "$XENPACK" events >"$dir/events" 2>&1 3>&- &
    echo $! >"$dir/events.pid"
}

teardown_file() {
    kill -KILL "$(<"$dir/pid")" "$(<"$dir/events.pid")" 2>/dev/null || :
}

setup() { cd "$BATS_TEST_DIRNAME/../.." || return; }

# 1 GiB with 480 MiB for zones: enough for all at their start, and for the first burst.
scenario() {
    cat <<'END'
[host]
memory = 1G
xen = 32M
dom0 = 512M

[zone lazy]
memory = 200M
maxmem = 512M
boot = 200ms
heartbeat = 2s ; nothing is taken on a first word alone
generate = idle
base = 30M

[zone busy]
memory = 128M
maxmem = 512M
boot = 200ms
brake = yes
trace = bursts.trace ; beside this file

[zone brief]
memory = 48M
maxmem = 96M
boot = 200ms
start = 1s
end = 6s
generate = ramp
base = 8M
peak = 8M
END
}

# configuration WEIGHT
configuration() {
    printf '%s\n' '[host]' 'reserve = 16M' 'emergency = 16M' '[daemon]' "toolstack = $PLUGIN" \
        "socket = $XENPACK_SOCKET" '[zone]' 'floor = 48M' "weight = $1"
}

@test "zones of the scenario are found, and said to be simulated" {
    run "$XENPACK" status
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"total 1G"*"sim (a simulated host)"* ]]
    [[ $output == *"lazy"*"512M"*"busy"*"512M"* ]]
    grep -F 'simulating a host of 1024 MiB with 3 zones' "$dir/log"
    # By now the scenario's clock may have gone on, and memory with it.
    grep -F 'lazy (1): found: managed between 48 and 512 MiB, holds 200 MiB' "$dir/log"
    grep -F 'busy (2): found: managed between 48 and 512 MiB, holds 128 MiB' "$dir/log"
    [ "$(field lazy floor_kib)" -eq $((48 * 1024)) ]
}

@test "a zone that starts later is found" {
    await "$dir/events" 'found  brief (3)' 5
    [ "$(field brief domid)" -eq 3 ]
}

@test "memory goes to the zone that bursts" {
    await "$dir/events" 'grow   busy (2)' 6
    [ "$(field busy target_kib)" -gt $((128 * 1024)) ]
}

@test "a reload takes a good configuration and refuses a bad one" {
    configuration 300 >"$dir/xenpack.conf"
    "$XENPACK" reload
    await "$dir/events" 'config' 3
    [ "$(field busy weight)" -eq 300 ]
    configuration none >"$dir/xenpack.conf"
    run "$XENPACK" reload
    echo "$output"
    [ "$status" -ne 0 ]
    [[ $output == *"weight"* ]]
    [ "$(field busy weight)" -eq 300 ]
    configuration 300 >"$dir/xenpack.conf"
}

@test "a zone that ends disappears" {
    await "$dir/events" 'gone   brief (3)' 6
    [ "$(field brief state)" == "no such zone" ]
}

@test "xenpack set holds a zone where it is told, until it is undone" {
    run "$XENPACK" set lazy --pin 210M
    echo "$output"
    [ "$status" -eq 0 ]
    await "$dir/events" 'grow   lazy (1)  200M -> 210M' 15
    [ "$(field lazy target_kib)" -eq $((210 * 1024)) ]
    "$XENPACK" set lazy --auto
    [ "$(field lazy pin_kib)" == null ]
}

@test "what free memory cannot give comes from the zone that does not need it" {
    await "$dir/events" 'shrink lazy (1).*other zones wait' 15
    await "$dir/events" 'grow   busy (2).*from other zones' 3
    [ "$(field lazy target_kib)" -lt $((200 * 1024)) ]
}

@test "SIGTERM ends it with status 0, and frees the socket" {
    stop_daemon
    [ "$(<"$dir/status")" -eq 0 ]
    [ ! -e "$XENPACK_SOCKET" ]
    run grep -c 'simulated host is lost' "$dir/log"
    [ "$output" -eq 0 ]
}

@test "a reporter that lies harms no other zone, and one that dies is said once" {
    configuration 100 >"$dir/xenpack.conf"
    cat >"$dir/rogues.sim" <<'END'
[host]
memory = 1G
xen = 32M
dom0 = 512M

[zone liar]
memory = 64M
maxmem = 160M
boot = 200ms
heartbeat = 1s
reporter = lying
generate = idle
base = 10M

[zone mute]
memory = 64M
maxmem = 128M
boot = 200ms
heartbeat = 1s
reporter = dying
generate = idle
base = 10M

[zone busy]
memory = 64M
maxmem = 256M
boot = 200ms
brake = yes
generate = ramp
base = 20M
peak = 150M
rise-from = 1s
rise-to = 3s
END
    start_daemon "$dir/rogues.sim"
    await "$dir/log" 'mute (2): fault: its reporter (xenpack) has been silent for' 15
    await "$dir/log" 'liar (1): fault: its report cannot be read' 15
    run "$XENPACK" status --json
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$(field mute state)" == stale ]
    [ "$(field busy target_kib)" -gt $((150 * 1024)) ]
    [ "$(field liar current_kib)" -le $((160 * 1024)) ]
    stop_daemon
    cat "$dir/log"
    [ "$(<"$dir/status")" -eq 0 ]
    [ "$(grep -c 'mute (2): fault' "$dir/log")" -eq 1 ]
}

@test "the example of a template in xenpack-sim(7) does what it says" {
    configuration 100 >"$dir/xenpack.conf"
    awk '/^```/ { inside = !inside; if (!inside && block ~ /fork-writes/) exit; block = ""; next }
        { block = block $0 "\n" } END { printf "%s", block }' \
        etc/man/xenpack-sim.7.scd >"$dir/forks.sim"
    start_daemon "$dir/forks.sim"
    await "$dir/log" 'base (1): found' 15
    run "$XENPACK" template create base --name job
    echo "$output"
    [ "$status" -eq 0 ]
    run "$XENPACK" fork job -n 3
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *job-1*job-2*job-3* ]]
    run "$XENPACK" status
    echo "$output"
    [[ $output == *job-3* ]]
    stop_daemon
}

@test "xenpackd --help names what each option takes" {
    run "$XENPACKD" --help
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"--config FILE"* && $output == *"--log-level LEVEL "* ]]
    [[ $output != *ENUM* && $output != *"->"* ]]
    run "$XENPACKD" --log-level loud
    echo "$output"
    [ "$status" -eq 64 ]
}

@test "without XENPACK_SIM a small host is simulated" {
    configuration 100 >"$dir/xenpack.conf"
    start_daemon ""
    await "$dir/log" 'cat (3): found' 5
    run "$XENPACK" status
    echo "$output"
    [[ $output == *"total 4G"*ant*bee*cat* ]]
    stop_daemon
    [ "$(<"$dir/status")" -eq 0 ]
}

@test "a bad scenario is one line with its file and line, and the status of a bad configuration" {
    printf '%s\n' '[host]' 'memory = 1G' '[zone web]' 'memory = 64' >"$dir/bad.sim"
    configuration 100 >"$dir/xenpack.conf"
    XENPACK_SIM=$dir/bad.sim run "$XENPACKD" --config "$dir/xenpack.conf"
    echo "$output"
    [ "$status" -eq 78 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"$dir/bad.sim:4: memory = '64' is not a size"* ]]
}

@test "a scenario that is not there is said, with the same status" {
    XENPACK_SIM=$dir/none.sim run "$XENPACKD" --config "$dir/xenpack.conf"
    echo "$output"
    [ "$status" -eq 78 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"XENPACK_SIM"*"$dir/none.sim"*"No such file"* ]]
}
