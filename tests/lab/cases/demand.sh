# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091
# lab: memory=2304 dom0=700M store=both timeout=420
# The main job: three zones may grow to far more than the host has. The one whose workload needs
# most of its ceiling gets it, out of the two that are idle; then it is another's turn. No workload
# is killed, no byte is lost.
. /lab/lab.sh
. /lab/daemon.sh

printf '[host]\nreserve = 160M\nstart-reserve = 0M\nemergency = 40M\n[zone]\nfloor = 160M\n' >/etc/xenpack/xenpack.conf
check "the daemon starts" daemon_start
for zone in web db batch; do
    check "$zone is created" zone_create "$zone" memory=320 maxmem=768 xenpack.heartbeat=5
done
for zone in web db batch; do check "$zone is up" zone_up "$zone"; done
note "free in Xen: $(xen_free_mib) MiB; three ceilings of 768 MiB"
check "the ceilings are more than there is" is "$(($(xen_free_mib) + 3 * 320))" -lt $((3 * 768 - 700))
for zone in web db batch; do
    # Nobody has asked for status since: the daemon has noticed by itself.
    check "$zone was noticed" eventually 20 daemon_said "^xenpackd: $zone \([0-9]+\): found: managed"
done
for zone in web db batch; do
    check "$zone reports and is steady" eventually 30 state_is "$zone" "steady shrinking growing"
done

# turn NAME: its workload takes 500 MiB, keeps them, and gives them back.
turn() {
    local name=$1 start
    start=$(now_ms)
    check "$name's workload gets 500 MiB" zone_do "$name" alloc 500 40
    note "$name: 500 MiB in $(seconds_since "$start") s, holds $(current_mib "$name") MiB"
    check "$name holds most of its ceiling" eventually 20 holds "$name" -ge 590
    check "$name has lost no byte" zone_do "$name" check
    for zone in web db batch; do
        check "nothing was killed in $zone" never_killed "$zone"
        check "$zone was left its floor" holds "$zone" -ge 158
    done
    check "$name gives its memory back" zone_do "$name" free all
}

turn web
turn db
turn batch
check "no ghosts in xenstore" no_ghosts
check "each change has its reason in the log" daemon_said 'grow [0-9]+ -> [0-9]+ MiB: (uses|stalls)'
check "and so has each gift" daemon_said 'shrink [0-9]+ -> [0-9]+ MiB: needs only'
for zone in web db batch; do
    check "$zone's target in xenstore is the one in status" eventually 10 told_the_same "$zone"
done
check "the daemon ends when told" daemon_stop
