# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: alone=1 xen=memshr memory=3072 dom0=800M timeout=900
# What a fork takes beside xl create and xl restore of the same zone, with its disk and its network,
# in one run: "make bench-fork" with fewer rounds, and what it must not fall behind.
# shellcheck disable=SC2034
rounds=3 at_once=20
. /lab/bench_fork.sh

check "a fork is unpaused fifteen times sooner than xl restore does it" is $((15 * unpaused_ms)) -le "$restore_ms"
tenths() { printf '%s.%s' $(($1 / 10)) $(($1 % 10)); }
note "$(tenths $((restore_ms * 10 / unpaused_ms))) times sooner ($restore_ms ms and $unpaused_ms ms); the aim is 50 times"
note "$at_once at once take $(tenths $((at_once_ms * 10 / ready_ms))) times as long as one ($at_once_ms ms and $ready_ms ms); the aim is 5 times"

# Fewer of them, by turns, and the shortest of each counts: what else the machine does only adds to a time.
destroy_all job
check "they are gone" eventually 60 none_of job
rm "$lab_state/at-once"
at_once=8
each_in_turn() { fork_names turn "$at_once" | timed "$lab_state/in-turn" xargs -n 1 xenpack fork base --name; }
for round in 1 2; do
    check "$at_once are made one after the other ($round)" each_in_turn
    destroy_all turn
    check "they are gone" eventually 60 none_of turn
    check "as many at once ($round)" all_at_once
    destroy_all job
    check "they are gone" eventually 60 none_of job
done
least_ms() { sort -n "$lab_state/$1" | head -n 1; }
at_once_ms=$(least_ms at-once) in_turn_ms=$(least_ms in-turn)
check "$at_once at once take no longer than one after the other, and half of that again" is "$at_once_ms" -lt $((in_turn_ms * 3 / 2))
note "at once $at_once_ms ms, one after the other $in_turn_ms ms"
check "the daemon ends" daemon_stop
