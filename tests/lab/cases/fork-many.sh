# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: by-hand=1 xen=memshr memory=5120 dom0=1200M timeout=1800
# Two hundred forks of one template and back to none: every page and every node is returned. On the
# way, what a fork takes of the host's memory, all overhead counted.
. /lab/lab.sh
. /lab/daemon.sh
. /lab/forks.sh

count=200
printf '[host]\nreserve = 200M\nstart-reserve = 0M\nemergency = 60M\ndom0-floor = 900M\n[zone]\nmanage = no\n' >/etc/xenpack/xenpack.conf

free_pages() { host_pages | value_of free; }
no_jobs() { is "$(xl list | grep -c '^job-')" -eq 0; }

check "the daemon starts" daemon_start
check "a zone is created" zone_create web memory=96
check "and up" zone_up web
check "it becomes a template" template_made web base
check "one fork before it is counted" xenpack fork base --name first --until ready
xl destroy first
check "a picture of the host is taken" picture "$lab_state/with-template"
before=$(free_pages)
start=$(now_ms)
check "$count zones are forked" xenpack fork base -n $count --name 'job-%d'
note "$count forks in $(seconds_since "$start") s"
check "there are $count" is "$(xl list | grep -c '^job-')" -eq $count
check "one in the middle works" zone_do job-100 ping
check "and the last" zone_do job-$count ping
note "$(((before - $(free_pages)) * 4 / count)) KiB of the host's memory for each fork"
start=$(now_ms)
mapfile -t jobs < <(fork_names job $count)
printf '%s\n' "${jobs[@]}" | xargs -n 1 -P 4 xl destroy
note "$count forks destroyed in $(seconds_since "$start") s"
check "none is left" eventually 120 no_jobs
check "every page and every node is back" eventually 120 as_before "$lab_state/with-template"
check "the template can be removed" xenpack template rm base
check "the daemon ends" daemon_stop
