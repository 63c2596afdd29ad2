# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# What a decision costs, measured inside dom0: prints "figure NAME VALUE" lines, which tests/lab/bench
# makes a table of. Everything is measured in this one run, beside xl on the same machine.
. /lab/lab.sh
. /lab/daemon.sh

rounds=${BENCH_ROUNDS:-24}
figure() { printf 'figure %s %s\n' "$1" "$2"; }

# percentile P: of the numbers on standard input.
percentile() { sort -n | awk -v p="$1" '{ v[NR] = $1 } END { i = int((NR * p + 99) / 100); print v[i < 1 ? 1 : i] }'; }

# Processor time the daemon has used, in clock ticks of 10 ms.
ticks() { awk '{ print $14 + $15 }' "/proc/$(daemon_pid)/stat"; }
# How often any of its threads has gone to sleep and woken up again.
wakeups() { cat /proc/"$(daemon_pid)"/task/*/status | awk '/^voluntary_ctxt_switches/ { n += $2 } END { print n }'; }
memory_kib() { awk -v name="$1:" '$1 == name { print $2 }' "/proc/$(daemon_pid)/status"; }

printf '[host]\nreserve = 64M\nstart-reserve = 0M\nemergency = 16M\n' >/etc/xenpack/xenpack.conf
check "the daemon starts" daemon_start --log-level warning
for zone in z other; do
    check "$zone is created" zone_create $zone memory=256 maxmem=1024 xenpack.heartbeat=600
done
for zone in z other; do
    check "$zone is up" zone_up $zone
    check "$zone is found" eventually 30 state_is $zone steady
done

# ---- xl, as the measure
for ((i = 0; i < 20; i++)); do
    start=${EPOCHREALTIME/[.,]/}
    xl mem-set other $((256 + i % 2))
    printf '%s\n' $((${EPOCHREALTIME/[.,]/} - start))
done >"$lab_state/xl"
figure xl_mem_set_us_p50 "$(percentile 50 <"$lab_state/xl")"
figure xl_mem_set_us_p99 "$(percentile 99 <"$lab_state/xl")"

# ---- From a guest's write to its new memory/target
check "the reporter makes room" zone_do z kill-reporter
check "$rounds reports bring $rounds targets" env ZONE_TIMEOUT=$((rounds * 12)) bash -c \
    '. /lab/lab.sh; trap - EXIT; zone_do z react data/xenpack/report '"$rounds"
tr -d '\r' <"$(zone_log z)" | sed -n 's/^react: us=\([0-9]*\) .*/\1/p' >"$lab_state/react"
figure reaction_us_p50 "$(percentile 50 <"$lab_state/react")"
figure reaction_us_p99 "$(percentile 99 <"$lab_state/react")"

# ---- Processor time for reports that change nothing
before=$(ticks)
check "600 reports are sent" zone_do z pulse data/xenpack/report 600
figure cpu_ms_per_1000_events $((($(ticks) - before) * 10 * 1000 / 600))

# ---- A minute in which nothing happens
check "all is at rest" eventually 20 state_is z steady
sleep 5 # the last looks of what has just happened
before=$(wakeups)
sleep 60 # the minute itself
figure wakeups_in_a_quiet_minute $(($(wakeups) - before))
figure resident_kib "$(memory_kib VmRSS)"
figure resident_own_kib "$(memory_kib RssAnon)"
