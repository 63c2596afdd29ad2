#!/usr/bin/env bats
# SPDX-License-Identifier: LGPL-2.1-or-later
# xenpack create, as a script meets it: what xl is given, what is said when memory is not there, and
# that a promise ends with its xl. The daemon is the real one on a simulated host; xl is a script that
# prints what it was called with. XENPACK, XENPACKD and PLUGIN name what to test.

setup_file() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    export XENPACK=${XENPACK:-$PWD/build/xenpack} XENPACKD=${XENPACKD:-build/xenpackd}
    export dir=$BATS_FILE_TMPDIR XENPACK_SOCKET=$BATS_FILE_TMPDIR/xenpack.sock
    # 480 MiB for zones, of which one idle zone has 300. It is new for 10 s: nothing is taken from it.
    printf '%s\n' '[host]' 'memory = 1G' 'xen = 32M' 'dom0 = 512M' '[zone lazy]' 'memory = 300M' \
        'maxmem = 512M' 'boot = 200ms' 'heartbeat = 2s' 'generate = idle' 'base = 30M' >"$dir/host.sim"
    printf '%s\n' '[host]' 'reserve = 16M' 'start-reserve = 0M' 'emergency = 16M' '[daemon]' \
        "toolstack = ${PLUGIN:-$PWD/build/xenpack-sim.so}" "socket = $XENPACK_SOCKET" '[zone]' \
        'floor = 48M' >"$dir/xenpack.conf"
    mkdir "$dir/bin"
    cat >"$dir/bin/xl" <<'END'
#!/bin/bash
# Prints its arguments; the file says how much memory there is, what to do, and with which status to end.
for word in "$@"; do [[ $word != *.cfg ]] || . "$word"; done
if [[ $2 == --dryrun ]]; then
    [[ -z ${broken-} ]] || { echo "$broken" >&2; exit 7; }
    [[ -z ${sexp-} ]] || { echo "(domain)"; exit; }
    uuid=${no_uuid-"\"uuid\": \"01234567-89ab-cdef-0123-$(printf '%012x' "$memory")\", "}
    printf '{"c_info": {%s"type": "pvh", "name": "%s"}, "b_info": {"max_vcpus": 1, ' "${uuid#1}" "$name"
    printf '"max_memkb": %d, "target_memkb": %d, "type.pvh": {}}}\n' $((memory * 1024)) $((memory * 1024))
    exit
fi
printf '<%s>' "$@"
echo
eval "${run-}"
exit "${status-0}"
END
    chmod +x "$dir/bin/xl"
    export PATH=$dir/bin:$PATH
    XENPACK_SIM=$dir/host.sim "$XENPACKD" --config "$dir/xenpack.conf" >"$dir/log" 2>&1 3>&- &
    echo $! >"$dir/pid"
    await has_reported
}

teardown_file() { kill -KILL "$(<"$dir/pid")" 2>/dev/null || :; }

setup() {
    config small 'memory=64'
    config vast 'memory=4000'
}

# config NAME LINE...
config() {
    local name=$1
    shift
    printf '%s\n' "name=$name" "$@" >"$dir/$name.cfg"
}

# await COMMAND...: until it succeeds, for 10 s.
await() {
    local i
    for ((i = 0; i < 100; i++)); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.1
    done
    echo "not within 10 s: $*" && "$XENPACK" status && cat "$dir/log" && return 1
}

has_reported() { "$XENPACK" status --json | grep -q '"agent": "xenpack"'; }
reserved() { "$XENPACK" status | grep -q "^  $1 .*$2"; }
gone() { ! kill -0 "$1" || grep -q '^State:.Z' "/proc/$1/status"; }
not_reserved() { ! reserved "$1" ""; }

@test "a start that has to wait does so, and Ctrl-C takes it out of the queue" {
    config large 'memory=250'
    "$XENPACK" create "$dir/large.cfg" 3>&- &
    pid=$!
    await reserved large waiting
    kill -INT $pid || kill -TERM $pid
    # A job of a script ignores SIGINT.
    kill -TERM $pid
    await not_reserved large
    run cat "$dir/log"
    [[ $output == *"waits for"*"no more"* ]]
}

@test "xl gets its arguments as they are, and the uuid that was reserved for" {
    run "$XENPACK" create -pc "$dir/small.cfg" --no-wait -f x 'disk=["phy:a,b"]' --vncviewer -- -q
    echo "$output"
    [ "$status" -eq 0 ]
    [ "$output" = "<create><-pc><$dir/small.cfg><-f><x><disk=[\"phy:a,b\"]><--vncviewer><--><-q><uuid=\"01234567-89ab-cdef-0123-000000000040\">" ]
}

@test "a configuration without a uuid gets none" {
    config nameless 'memory=64' 'no_uuid=1'
    run "$XENPACK" create "$dir/nameless.cfg"
    [ "$status" -eq 0 ]
    [ "$output" = "<create><$dir/nameless.cfg>" ]
}

@test "it ends with xl's status, and xl has its standard input and output" {
    config small 'memory=64' 'status=42' 'run="cat; echo to stderr >&2"'
    run bash -c 'echo typed | "$0" create "$1" 2>"$2"' "$XENPACK" "$dir/small.cfg" "$dir/err"
    [ "$status" -eq 42 ]
    [[ $output == *$'\ntyped' ]]
    [ "$(<"$dir/err")" = "to stderr" ]
}

@test "the promise stands while xl runs, is shown, and ends with it" {
    config small 'memory=64' "run='exec sleep 100'"
    "$XENPACK" create "$dir/small.cfg" >/dev/null 3>&- &
    pid=$!
    await reserved small "(process $pid) .*granted, 6.* kept free"
    kill -KILL $pid
    await not_reserved small
    run cat "$dir/log"
    [[ $output == *"not kept for small (process $pid) any more: its owner has ended"* ]]
}

@test "what cannot be served is refused with one line and status 75, and xl is not called" {
    run "$XENPACK" create "$dir/vast.cfg"
    echo "$output"
    [ "$status" -eq 75 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output =~ ^xenpack:\ vast\ needs\ 4[0-9]{3}\ MiB\;\ [0-9]+\ MiB\ are\ free\ to\ give,\ .*\ MiB\ are\ missing: ]]
}

@test "what is wrong with the file is xl's to say, with xl's status" {
    config bad 'broken="bad.cfg:3: syntax error"'
    run "$XENPACK" create "$dir/bad.cfg"
    [ "$status" -eq 7 ]
    [[ $output == *"bad.cfg:3: syntax error"* ]]
    config killed 'kill -KILL $$'
    run "$XENPACK" create "$dir/killed.cfg"
    [ "$status" -eq 137 ]
    [[ $output == *"says nothing"* ]]
    config sexp 'sexp=1'
    run "$XENPACK" create "$dir/sexp.cfg"
    [ "$status" -eq 1 ]
    [[ $output == *"output_format"* ]]
}

@test "an xl that hangs is ended with it, and nothing is reserved" {
    config hung 'echo $$ >"$dir/hung.pid"; exec sleep 1000'
    for signal in TERM KILL; do
        mkfifo "$dir/hung.pid"
        "$XENPACK" create "$dir/hung.cfg" 3>&- &
        pid=$!
        read -r xl <"$dir/hung.pid"
        kill -$signal $pid
        wait $pid || :
        await gone "$xl"
        not_reserved hung
        rm "$dir/hung.pid"
    done
}

@test "a dry run is xl's, and reserves nothing" {
    run "$XENPACK" create "$dir/vast.cfg" -n
    [ "$status" -eq 0 ]
    [ "$output" = "<create><$dir/vast.cfg><-n>" ]
}

@test "without a daemon it says so, and starts all the same only where it is told to" {
    run "$XENPACK" create "$dir/small.cfg" --socket "$dir/nobody.sock"
    [ "$status" -eq 69 ]
    [[ $output == *"xenpackd is not running"* ]]
    run "$XENPACK" create "$dir/vast.cfg" --socket "$dir/nobody.sock" --without-daemon
    [ "$status" -eq 0 ]
    [ "$output" = "<create><$dir/vast.cfg>" ]
}

@test "without xl it says what to do" {
    mkdir -p "$dir/empty"
    PATH=$dir/empty run "$XENPACK" create "$dir/small.cfg"
    [ "$status" -eq 1 ]
    [[ $output == *"cannot run xl"*"installed"* ]]
}
