# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC2154
# xenpackd on a simulated host, for the tests that need one: started, waited for, ended. Loaded by
# them; XENPACK and XENPACKD name the programs, $dir is a folder of theirs, with xenpack.conf in it.

# what_to_test FOLDER: the programs, from the tree's top; all that they write is in the folder.
what_to_test() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    export XENPACK=${XENPACK:-build/xenpack} XENPACKD=${XENPACKD:-build/xenpackd}
    export PLUGIN=${PLUGIN:-$PWD/build/xenpack-sim.so}
    export dir=$1 XENPACK_SOCKET=$1/xenpack.sock
}

# refused STATUS TEXT ARGUMENT...: xenpack fails with that status, and one line that has TEXT in it.
refused() {
    local wanted=$1 text=$2
    shift 2
    run "$XENPACK" "$@"
    echo "$output"
    [ "$status" -eq "$wanted" ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"$text"* ]]
}

# start_daemon SCENARIO: its exit status will be in $dir/status.
start_daemon() {
    rm -f "$dir/status"
    : >"$dir/log"
    (
        XENPACK_SIM=$1 "$XENPACKD" --config "$dir/xenpack.conf" >"$dir/log" 2>&1 &
        echo $! >"$dir/pid"
        ended=0
        wait $! || ended=$?
        echo "$ended" >"$dir/status"
    ) 3>&- &
    echo $! >"$dir/keeper"
}

# await FILE PATTERN SECONDS [COUNT]: a line of the file matches, or so many, now or soon. Says what
# there was if none.
await() {
    local found=0 tail
    coproc FOLLOW { exec tail -n +1 -s 0.05 -F "$1" 2>/dev/null 3>&-; }
    # shellcheck disable=SC2153 # set by coproc
    tail=$FOLLOW_PID
    # Not to /dev/null, where grep stops at the first.
    timeout "$3" grep -m "${4:-1}" -- "$2" <&"${FOLLOW[0]}" >"$dir/awaited" || found=$?
    kill "$tail"
    wait "$tail" 2>/dev/null || :
    [ "$found" -eq 0 ] || { echo "no '$2' in $3 s in:"; cat "$1"; return 1; }
}

# stop_daemon: asks it to end, and waits until it has.
stop_daemon() {
    kill -TERM "$(<"$dir/pid")"
    timeout 5 tail -s 0.05 --pid="$(<"$dir/keeper")" -f /dev/null
}

# field ZONE NAME: of the zone in `xenpack status --json`.
field() {
    "$XENPACK" status --json | awk -v zone="$1" -v name="$2" '
        $1 == "{" { delete value }
        { key = $1; gsub(/[":]/, "", key); text = $2; gsub(/[",]/, "", text); value[key] = text }
        $1 ~ /^}/ && value["name"] == zone { print value[name]; found = 1; exit }
        END { if (!found) print "no such zone" }'
}
