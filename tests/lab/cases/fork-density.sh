# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: alone=1 xen=memshr memory=2304 dom0=900M timeout=1200
# How many zones of 256 MiB the host holds by xl create, and that it holds many times as many as idle
# forks of one of them; what each fork takes of the host's memory, all overhead counted. Two hundred
# forks, and back to none: every page, node, device and file is returned.
. /lab/lab.sh
. /lab/daemon.sh
. /lab/forks.sh

at_a_time=25 most=200
aim_times=25     # as many forks as zones
# Of each fork without devices. Idle kernels go on writing a little: the older the forks are when they are
# counted, the more, and that is a matter of how fast the machine makes two hundred.
aim_kib=3072 most_kib=3584
printf '[host]\nreserve = 64M\nstart-reserve = 0M\nemergency = 16M\ndom0-floor = 800M\n[zone]\nmanage = no\n' >/etc/xenpack/xenpack.conf

# ---- Zones, each with its own memory (they need not run: what they take is theirs from the start)
zones=0
while zone_create "zone-$((zones + 1))" memory=256 -p 2>"$lab_state/refused"; do zones=$((zones + 1)); done
check "the host holds some zones" is $zones -ge 3
check "the next is refused for want of memory" grep -qi 'memory' "$lab_state/refused"
destroy_all zone
check "they are gone" eventually 60 none_of zone

# ---- Forks
check "the daemon starts" daemon_start
check "a zone is created" zone_create web memory=256
check "and up" zone_up web
check "it becomes a template" template_made web base --identity none
check "one fork before they are counted" xenpack fork base --name first
xl destroy first
check "a picture of the host is taken" picture "$lab_state/with-template"
daemon_cpu_ms() { awk '{ print ($14 + $15) * 10 }' "/proc/$(daemon_pid)/stat"; } # Linux counts hundredths
memory_before
forks=0 start=$(now_ms) cpu_before=$(daemon_cpu_ms)
while ((forks < most)); do
    xenpack fork base -n $at_a_time --name 'job-%d' --timeout 3m >/dev/null 2>"$lab_state/refused" || { cat "$lab_state/refused" && break; }
    forks=$((forks + at_a_time))
done
took=$(seconds_since "$start")
check "there are as many as were made" is "$(xl list | grep -c '^job-')" -eq $forks
check "they are $most, and none was refused" is $forks -eq $most
memory_of_each $forks $aim_kib $most_kib
note "xenpackd itself used $(((($(daemon_cpu_ms) - cpu_before) + 500) / 1000)) s of dom0's processor for that"
note "$zones zones of 256 MiB by xl create; $forks idle forks of one of them, in $took s: $((forks / zones)) times as many; $(($(free_kib) / 1024)) MiB are still free"
check "which is $aim_times times as many" is $forks -ge $((aim_times * zones))
check "the first works" zone_do job-1 ping
check "and the last" zone_do "job-$forks" ping

# ---- And back. By themselves, and xenpackd takes them away.
all_end() {
    local terminals terminal
    mapfile -t terminals < <(xl list | awk '/^job-/ { print "/local/domain/" $2 "/console/tty" }' | xargs xenstore-read)
    is "${#terminals[@]}" -eq "$forks" || return 1
    for terminal in "${terminals[@]}"; do printf 'poweroff\n' >"$terminal" || return 1; done
}
start=$(now_ms)
check "all are told to end, at once" all_end
check "none is left" eventually 300 none_of job
note "$forks forks ended, and were taken away, in $(seconds_since "$start") s"
check "every page and every node is back" eventually 120 as_before "$lab_state/with-template" 4096
check "the template can be removed" xenpack template rm base
check "the daemon ends" daemon_stop
