# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# What a fork costs, measured inside dom0 beside what libxl does for the same zone, a disk and a
# network included: xl create, xl restore, and forks one by one and at once. Prints "figure NAME VALUE"
# lines, which tests/lab/bench-fork makes a table of. Sourced by the case fork-cost as well, which sets
# rounds and at_once, and holds the figures against what is promised.
. /lab/lab.sh
. /lab/daemon.sh
. /lab/forks.sh

rounds=${rounds:-9} at_once=${at_once:-20}
image=$lab_state/base.img
figure() { printf 'figure %s %s\n' "$1" "$2"; }
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
# timed FILE COMMAND...: adds its milliseconds to the file.
timed() {
    local file=$1 start
    shift
    start=${EPOCHREALTIME/[.,]/}
    "$@" >/dev/null 2>&1 || return
    printf '%s\n' $(((${EPOCHREALTIME/[.,]/} - start) / 1000)) >>"$file"
}
printf '[host]\nreserve = 200M\nstart-reserve = 0M\nemergency = 60M\ndom0-floor = 700M\n[zone]\nmanage = no\n' >/etc/xenpack/xenpack.conf
mkdir -p /var/lib/xenpack
truncate -s 16M "$image"
words=(memory=128 "xdisk=$image" bridge=xenbr0 xenpack.net=10.9.0.200/16)
check "a bridge is made" bridge_make xenbr0 10.9.0.254/16

# ---- libxl, as the measure: until the zone is unpaused
for ((i = 0; i < rounds; i++)); do
    timed "$lab_state/create" zone_create web "${words[@]}"
    check "it is up" zone_up web
    ((i == rounds - 1)) || xl destroy web
done
check "it is saved" xl save web "$lab_state/web.save"
for ((i = 0; i < rounds; i++)); do
    timed "$lab_state/restore" xl restore "$lab_state/web.save"
    ((i == rounds - 1)) || xl destroy web
done
rm -f "$lab_state/web.save"
check "the restored zone answers" zone_do web ping
restore_ms=$(median <"$lab_state/restore")
figure create_ms_p50 "$(median <"$lab_state/create")"
figure restore_ms_p50 "$restore_ms"

# ---- Forks
check "the daemon starts" daemon_start
start=$(now_ms)
check "it becomes a template" template_made web base
figure seal_ms $(($(now_ms) - start))
check "one fork before they are counted" xenpack fork base --name first-99
for ((i = 1; i <= rounds; i++)); do
    xenpack fork base --name "one-$i" --json >>"$lab_state/forks" || check "one-$i is forked" false
    xl destroy "one-$i"
done
for ((i = 1; i <= rounds; i++)); do
    timed "$lab_state/command" xenpack fork base --name "two-$i" --until running
    xl destroy "two-$i"
done
# of_forks NAME: the median of that number of the forks that were made one by one.
of_forks() { grep -o "\"$1\": *[0-9.]*" "$lab_state/forks" | sed 's/.*: *//' | median; }
unpaused_ms=$(of_forks unpaused_ms) ready_ms=$(of_forks ready_ms)
unpaused_ms=${unpaused_ms%.*} ready_ms=${ready_ms%.*}
figure fork_unpaused_ms_p50 "$unpaused_ms"
figure fork_ready_ms_p50 "$ready_ms"
figure fork_command_ms_p50 "$(median <"$lab_state/command")"
for phase in create memory store devices; do figure "fork_${phase}_us_p50" "$(of_forks $phase)"; done
dom0_cpu_ms() { xl list 0 | awk 'NR == 2 { printf "%d", $6 * 1000 }'; }
all_at_once() { timed "$lab_state/at-once" xenpack fork base -n "$at_once" --name 'job-%d' --timeout 5m; }
dom0_cpu_before=$(dom0_cpu_ms)
check "$at_once at once" all_at_once
at_once_ms=$(<"$lab_state/at-once")
figure forks_at_once "$at_once"
figure forks_at_once_ready_ms "$at_once_ms"
figure forks_at_once_dom0_cpu_ms $(($(dom0_cpu_ms) - dom0_cpu_before))
