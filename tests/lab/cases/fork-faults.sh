# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: alone=1 xen=memshr memory=2304 dom0=800M timeout=900
# The daemon is killed at every step of sealing and of forking. When it has started again no domain
# is half made, templates and forks are as they were, and no page, node or file is lost.
. /lab/lab.sh
. /lab/daemon.sh
. /lab/forks.sh

seal_points="suspended paused recorded devices reset renamed"
fork_points="intent created memory params ring store introduced unpaused known recorded devices complete"
printf '[host]\nreserve = 200M\nstart-reserve = 0M\nemergency = 60M\ndom0-floor = 700M\n[zone]\nmanage = no\n' >/etc/xenpack/xenpack.conf

# runs_or_sealed: the zone is what it was, or the template that it was to be; and nothing between.
runs_or_sealed() {
    if zone_domid base >/dev/null; then is_sealed base && gone zone; else
        is "$(fork_node zone template)" = '' && zone_do zone ping
    fi
}

no_intents() { is "$(find "$forks_state" -type f 2>/dev/null | wc -l)" -eq 0; }

check "a picture of the host before is taken" picture "$lab_state/empty"
for point in $seal_points; do
    check "a zone is created" zone_create zone memory=96
    check "and up" zone_up zone
    check "it has something in its memory" zone_do zone alloc 8
    check "the daemon dies at seal.$point" dies_at "seal.$point" xenpack template create zone --name base
    check "it starts again" daemon_start
    check "the zone runs as it did, or is sealed" eventually 60 runs_or_sealed
    if ! zone_domid base >/dev/null; then
        note "killed at seal.$point it ran on"
        check "its memory is whole" zone_do zone check
        check "it becomes a template all the same" template_made zone base
    else
        note "killed at seal.$point it was sealed"
    fi
    check "the template can be forked" xenpack fork base --name child --until ready
    check "its fork has its memory" zone_do child check
    xl destroy child
    check "the template can be removed" eventually 20 xenpack template rm base
    check "the daemon ends" daemon_stop
    check "every page and every node is back after seal.$point" eventually 60 as_before "$lab_state/empty"
done

check "the daemon starts" daemon_start
check "a zone for a template is created" zone_create zone memory=96
check "and up" zone_up zone
check "it has something in its memory" zone_do zone alloc 8
check "it becomes a template" template_made zone base
check "a fork that shall live through it all" xenpack fork base --name elder --until ready
check "the daemon ends" daemon_stop
check "a picture of the host with both is taken" picture "$lab_state/elder"
for point in $fork_points; do
    check "the daemon dies at fork.$point" dies_at "fork.$point" xenpack fork base --name child
    check "it starts again" daemon_start
    check "no intent is left" eventually 30 no_intents
    if [[ $point == complete ]] && zone_domid child >/dev/null; then
        check "killed at fork.$point the fork is there, and whole" is_whole child
        xl destroy child
    else
        check "killed at fork.$point there is no fork" eventually 30 gone child
    fi
    check "the daemon ends" daemon_stop
    check "nothing is left of it after fork.$point" eventually 60 as_before "$lab_state/elder" 256
    check "the template is as it was" is_sealed base
done
check "the elder fork has lived through it" zone_do elder check
check "the daemon starts" daemon_start
check "a fork is made after all that" xenpack fork base --name child --until ready
check "and works" zone_do child check
xl destroy child
xl destroy elder
check "the template can be removed" eventually 20 xenpack template rm base
check "the daemon ends" daemon_stop
check "every page and every node is back" eventually 60 as_before "$lab_state/empty"
