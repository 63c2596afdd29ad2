# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: xen=memshr memory=3072 dom0=800M timeout=900
# What a fork takes beside xl create and xl restore of the same zone, with its disk and its network,
# in one run: "make bench-fork" with fewer rounds, and what it must not fall behind.
# shellcheck disable=SC2034
rounds=3 at_once=20
. /lab/bench_fork.sh

check "a fork is unpaused fifteen times sooner than xl restore does it" is $((15 * unpaused_ms)) -le "$restore_ms"
note "$((restore_ms * 10 / unpaused_ms)) tenths of the aim of 50 times: $restore_ms ms and $unpaused_ms ms"
check "$at_once at once are ready in less than five times the time of one" is "$at_once_ms" -lt $((5 * ready_ms))
check "the daemon ends" daemon_stop
