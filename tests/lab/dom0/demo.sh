# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# The demonstration inside dom0: starts xenpackd and three zones, lets one after the other need
# most of its ceiling, and draws what each holds. Started by tests/lab/demo.
. /lab/lab.sh
. /lab/daemon.sh

width=32 # characters that stand for a ceiling
ceiling=768
began=$(now_ms)
exec 4>&1 # for what is to be seen at once, also from inside a check

say() { printf '\n%s\n' "$*"; }

# bar HELD TARGET: what it holds, and up to where it may grow now.
bar() {
    local held=$(($1 * width / ceiling)) target=$(($2 * width / ceiling)) i text=
    for ((i = 0; i < width; i++)); do
        if ((i < held)); then text+='#'; elif ((i < target)); then text+='+'; else text+='.'; fi
    done
    printf '%s' "$text"
}

# One line a look: seconds, free memory, and the three bars with MiB held.
draw() {
    local zone held target line
    line=$(printf '%4d s  free %4d ' "$((($(now_ms) - began) / 1000))" "$(xen_free_mib)")
    for zone in web db batch; do
        held=$(($(zone_current_kib "$zone") / 1024))
        target=$(($(zone_target_kib "$zone") / 1024))
        line+=$(printf ' %s [%s] %3d' "$zone" "$(bar "$held" "$target")" "$held")
    done
    printf '%s\n' "$line"
}

# Draws until the zone's workload has answered.
draw_until() { # NAME REGEX
    local status=0
    zone_expect "$1" "$2" 90 >"$lab_state/answer" &
    while kill -0 $! 2>/dev/null; do draw; done
    wait $! || status=$?
    printf '        %s says: %s\n' "$1" "$(<"$lab_state/answer")"
    return $status
}

turn() {
    local name=$1
    say "$name needs 500 MiB, at 40 MiB/s ..."
    zone_say "$name" alloc 500 40
    check "$name gets them" draw_until_ok "$name"
    draw
    check "$name has lost no byte" zone_do "$name" check
    zone_do "$name" free all >/dev/null
    say "... and is done with them. Why each size changed, in the daemon's words:"
    sed -n "$((shown + 1)),\$p" "$lab_daemon_log" | grep -E ': (grow|shrink) ' | cut -c1-150 | tail -n 8
    shown=$(wc -l <"$lab_daemon_log")
}
draw_until_ok() { draw_until "$1" '^work: ' >&4 && grep -q 'alloc ok' "$lab_state/answer"; }

printf '[host]\nreserve = 160M\nstart-reserve = 0M\nemergency = 40M\n[zone]\nfloor = 160M\n' >/etc/xenpack/xenpack.conf
say "dom0 is up. Starting xenpackd, then three zones of 320 MiB that may grow to $ceiling MiB each."
check "the daemon runs" daemon_start
for zone in web db batch; do
    check "$zone is created" zone_create "$zone" memory=320 maxmem=$ceiling xenpack.heartbeat=5
done
for zone in web db batch; do check "$zone is up" zone_up "$zone"; done
say "Free in Xen: $(xen_free_mib) MiB. Together the zones may ask for $((3 * ceiling)) MiB;
they and the free memory are $((3 * 320 + $(xen_free_mib))) MiB. # is held, + is on its way."
draw
shown=$(wc -l <"$lab_daemon_log")
turn web
turn db
say "What xenpack status says now:"
xenpack status
for zone in web db batch; do check "nothing was killed in $zone" never_killed "$zone"; done
