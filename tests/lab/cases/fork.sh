# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: xen=memshr memory=3072 dom0=800M timeout=900
# A zone becomes a template, and twenty zones are forked of it: each has its own name, its own random
# numbers and its template's memory; xl works on them as on any; what is wrong is said in one line
# and changes nothing; and in the end every page and every node is back.
. /lab/lab.sh
. /lab/daemon.sh
. /lab/forks.sh

count=20
printf '[host]\nreserve = 200M\nstart-reserve = 0M\nemergency = 60M\ndom0-floor = 700M\n[zone]\nmanage = no\n' >/etc/xenpack/xenpack.conf

check "this Xen shares memory" is "$(host_pages | value_of shared)" -ge 0
check "the daemon starts" daemon_start
check "a picture of the host before is taken" picture "$lab_state/empty"

# ---- The template
check "a zone is created" zone_create web memory=128
check "and up" zone_up web
check "it has something in its memory" zone_do web alloc 24
domid=$(zone_domid web)
check "a zone that is not there becomes no template" refused 'nosuch' xenpack template create nosuch
check "nor does one take a name that is taken" refused 'Domain-0' xenpack template create web --name Domain-0
check "it runs on" zone_do web ping
check "it is no template yet" refused 'web' xenpack fork web --name never
check "no domain has come of that" is "$(xl list | wc -l)" -eq 3
check "it becomes a template" template_made web base
check "which is the same domain, by its new name" is "$(zone_domid base)" -eq "$domid"
check "its old name is free" gone web
check "it is listed" grep -q base <(xenpack template list)
check "and shown" grep -q sealed <(xenpack template show base)
check "it is paused and suspended" grep -qE '^base .* --ps?' <(xl list)
check "it cannot become one again" refused 'base' xenpack template create base
check "a picture of the host with it is taken" picture "$lab_state/with-template"

# ---- Bad input
check "no fork of what is not there" refused 'nosuch' xenpack fork nosuch --name x
check "no fork by a name that is taken" refused 'base' xenpack fork base --name base
check "no forks without a number in their names" refused '%d' xenpack fork base -n 2 --name same
check "none at all is no number of forks" refused '0' xenpack fork base -n 0 --name 'x-%d'
check "no fork by a name that is none" refused 'name' xenpack fork base --name 'a/b'
check "and nothing has come of it" as_before "$lab_state/with-template"

# ---- Twenty forks
start=$(now_ms)
check "$count zones are forked of it" xenpack fork base -n $count --name 'job-%d' --until ready
note "$count forks, each with its identity, in $(seconds_since "$start") s"
mapfile -t jobs < <(fork_names job $count)
for name in "${jobs[@]}"; do is_whole "$name" || check "$name is whole" is_whole "$name"; done
check "there are $count of them" is "$(xl list | grep -c '^job-')" -eq $count
check "all of them say who they are" ask_all who "${jobs[@]}"
ask_all who "${jobs[@]}" >"$lab_state/who"
check "each by its own name" own_names "$lab_state/who"
check "no two have the same random numbers" all_differ random "$lab_state/who"
check "nor the same machine-id" all_differ machine "$lab_state/who"
check "nor the same generation" all_differ generation "$lab_state/who"
sed -n '1,3s/^/note - /p' "$lab_state/who"
check "each has its template's memory, to the byte" ask_all check "${jobs[@]}"
check "one writes over it" zone_do job-1 rewrite
check "and has what it wrote" zone_do job-1 check
check "which no other sees" ask_all check job-2 job-3 "job-$count"
check "they share their memory" is "$(host_pages | value_of saved)" -gt $((count * 4096))
note "$(host_pages), $count forks of 128 MiB"
check "status names their template" grep -q '"template": *"base"' <(xenpack status --json)
check "the template counts them" grep -q "\"children\": *$count" <(xenpack status --json)
check "a template with forks is not removed" refused "$count" xenpack template rm base
check "and is still there" is_sealed base
check "a name that a fork has is not given twice" refused 'job-1' xenpack fork base --name job-1
check "%d passes over names that are taken" xenpack fork base -n 1 --name 'job-%d' --until ready
check "and takes the next" is_whole "job-$((count + 1))"

# ---- As any domain
total_under() { is "$(zone_do "$1" stat | value_of MemTotal)" -lt $(($2 * 1024)); }
check "xl list -l knows a fork" xl_knows job-2
check "xl vcpu-list" grep -q '^job-2 ' <(xl vcpu-list job-2)
check "xl network-list and block-list are empty" is "$(xl network-list job-2; xl block-list job-2)" = "$(xl network-list base; xl block-list base)"
zone_skip job-2
printf 'ping\r' | timeout 30 xl console job-2 >/dev/null 2>&1
check "xl console reaches it" zone_expect job-2 '^work: pong' 30
check "xl mem-set takes memory from it" xl mem-set job-2 100
check "and it follows" eventually 60 total_under job-2 100
check "xl pause" xl pause job-2
check "xl unpause" xl unpause job-2
check "it goes on" zone_do job-2 ping
check "one ends by itself" zone_say job-3 poweroff
check "and nothing is left of it" eventually 60 gone job-3
check "xl destroy takes one away" xl destroy job-4
check "and it is gone" eventually 20 gone job-4
check "xl save takes one" xl save job-5 "$lab_state/job-5.save"
check "xl restore brings it back" xl restore "$lab_state/job-5.save"
check "with all its memory" zone_do job-5 check
rm -f "$lab_state/job-5.save"

# ---- A fork that is left paused; the daemon ends and starts among forks
check "a fork is left paused when told so" xenpack fork base --name still --paused --until running
check "it is" grep -qE '^still .* --p' <(xl list)
check "the daemon ends when told" daemon_stop
check "and starts again" daemon_start
check "the forks have not noticed" ask_all check job-1 job-6 "job-$count"
check "it knows the template's forks" refused 'base' xenpack template rm base

# ---- And back
for name in $(xl list | awk 'NR > 1 && ($1 ~ /^job-/ || $1 == "still") { print $1 }'); do xl destroy "$name"; done
check "no fork is left, and no node of one" eventually 60 as_before "$lab_state/with-template"
check "Xen has no copies of shared pages left" is "$(host_pages | value_of saved)" -eq 0
check "now the template can be removed" xenpack template rm base
check "it is gone" eventually 30 gone base
check "every page and every node is back" eventually 60 as_before "$lab_state/empty"
check "no ghosts" no_ghosts
check "the daemon ends" daemon_stop
