# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: alone=1 xen=memshr memory=2304 dom0=800M timeout=600
# Forks of forks, of a template with two processors: each has the memory of whom it was forked of,
# to the byte, and both processors; a template stays while anything below it lives; one that is
# destroyed by hand under its forks is named with them.
. /lab/lab.sh
. /lab/daemon.sh
. /lab/forks.sh

printf '[host]\nreserve = 200M\nstart-reserve = 0M\nemergency = 60M\ndom0-floor = 700M\n[zone]\nmanage = no\n' >/etc/xenpack/xenpack.conf
# both_work NAME: its kernel has brought up both processors, and both have run since.
both_work() {
    local seconds
    is "$(xl vcpu-list "$1" | awk 'NR > 1 && $4 ~ /^[0-9]+$/' | wc -l)" -eq 2 || return 1
    mapfile -t seconds < <(xl vcpu-list "$1" | awk 'NR > 1 { print $6 * 10 }')
    is "${seconds[0]}" -gt 0 && is "${seconds[1]}" -gt 0
}

check "the daemon starts" daemon_start
check "a picture of the host before is taken" picture "$lab_state/empty"
check "a zone with two processors is created" zone_create web memory=128 vcpus=2
check "and up" zone_up web
check "it has something in its memory" zone_do web alloc 24
check "it becomes a template" template_made web base
check "xl unpause does not let it run" bash -c 'for i in 1 2 3; do xl unpause base; done; ! xl list base | grep -q " [r-][b-]-[s-]--" && xl list base'
check "a picture of the host with it is taken" picture "$lab_state/with-template"
check "two zones are forked of it" xenpack fork base -n 2 --name 'child-%d'
check "both have its memory" ask_all check child-1 child-2
for name in child-1 child-2; do check "$name runs on both processors" eventually 20 both_work $name; done
check "each says who it is" ask_all who child-1 child-2

# ---- A fork becomes a template
check "one writes over its memory" zone_do child-1 rewrite
check "and is whole" zone_do child-1 check
check "it becomes a template itself" template_made child-1 second
check "its sibling has not noticed" zone_do child-2 check
check "two are forked of that" xenpack fork second -n 2 --name 'grand-%d'
ask_all who child-2 grand-1 grand-2 >"$lab_state/who"
for field in random machine generation; do
    check "no two of all have the same $field" all_differ $field "$lab_state/who"
done
check "they have its memory, as it was" ask_all check grand-1 grand-2
check "one of them writes over it" zone_do grand-1 rewrite
check "which the other does not see" ask_all check grand-1 grand-2
for name in grand-1 grand-2; do check "$name runs on both processors" eventually 20 both_work $name; done
check "the first template is not removed while the second is there" refused 'second' xenpack template rm base
check "the second is not while it has forks" refused 'grand-' xenpack template rm second
check "all are as they were" ask_all check child-2 grand-1 grand-2

# ---- A template that is destroyed by hand. (Its forks are paused first: what they have not touched
# is gone with it, and a kernel that runs into that ends.)
for name in grand-1 grand-2; do check "$name is paused" xl pause $name; done
check "xl destroys the second template" xl destroy second
check "the daemon says which forks have lost memory by it" eventually 30 daemon_said 'second .*destroyed, and not by xenpack template rm.*grand-1.*grand-2'
check "its own template's other fork has not noticed" zone_do child-2 check

# ---- And back
for name in grand-1 grand-2 child-2; do xl destroy $name; done
check "no fork is left, and no node, device or file of one" eventually 60 as_before "$lab_state/with-template" 2048
# Whoever insists lets it run.
insist() {
    local i
    for ((i = 0; i < 101; i++)); do xl unpause "$1" || return 1; done
}
check "who unpauses it a hundred times" insist base
check "has spoilt it: it is not forked" refused 'cannot be forked: it has run since it was sealed' xenpack fork base --name child-3
check "which is said" eventually 30 daemon_said 'base.*it has run since it was sealed'
check "and shown" grep -q spoilt <(xenpack template list)
check "the template can be removed" xenpack template rm base
check "every page, node, device and file is back" eventually 60 as_before "$lab_state/empty" 256
check "no ghosts" no_ghosts
check "the daemon ends" daemon_stop
