# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: xen=memshr memory=3072 dom0=800M timeout=600
# A pool keeps three forks ready, each with a disk and a network: they wait for their template, stand
# there without running, are taken, destroyed and replaced, and outlive the daemon without one too many,
# whenever it dies. And a zone with a disk forks itself: one fork takes its place and its name, the others
# have names of their own, and the template goes with the last of them.
. /lab/lab.sh
. /lab/daemon.sh
. /lab/forks.sh

image=$lab_state/base.img
mkdir -p /var/lib/xenpack
truncate -s 16M "$image"

configuration() {
    printf '[host]\nreserve = 200M\nstart-reserve = 0M\nemergency = 60M\ndom0-floor = 700M\n[zone]\nmanage = no\n' >/etc/xenpack/xenpack.conf
    printf '%s\n' "$@" >>/etc/xenpack/xenpack.conf
}

pool_field() { xenpack pool list --json | sed -nE "s/^ *\"$1\": \"?([^,\"]*)\"?,?\$/\\1/p"; }
pool_is() { is "$(pool_field "$1")" = "$2"; }
# Domains of the pool's names, by Xen.
jobs() { xl list | awk '$1 ~ /^job-/ { print $1 }' | sort -t- -k2n; }
jobs_are() { is "$(jobs | tr '\n' ' ')" = "$1 "; }
domains() { xl list | awk 'NR > 1 { print $1, $2 }' | sort; }
# stand NAME...: forks of the pool's that are complete, paused, and have had no processor time.
stand() {
    local list name
    list=$(xl list)
    for name in "$@"; do
        is_whole "$name" && is "$(fork_node "$name" pool)" = jobs || return 1
        is "$(awk -v name="$name" '$1 == name { print substr($5, 1, 3), $6 }' <<<"$list")" = '--p 0.0' || return 1
    done
}
# xenconsoled calls a log as the domain was called when it found it.
log_moved() { ln -sf "$(zone_log "$1")" "$(zone_log "$2")"; }

configuration '[pool jobs]' 'template = base' 'ready = 3' 'most = 6' 'name = job-%d'
check "the daemon starts" daemon_start
check "the pool waits for its template" daemon_said 'the pool jobs is not full: there is no template base'
check "nothing is taken of it" refused 'there is no template base' xenpack take jobs
check "a bridge is made" bridge_make xenbr0 10.9.0.254/16
check "a picture of the host before is taken" picture "$lab_state/empty"
check "a zone is created" zone_create web memory=128 "xdisk=$image" bridge=xenbr0 xenpack.net=10.9.0.200/16
check "and up" zone_up web
check "it has something in its memory" zone_do web alloc 24
check "and on its disk" zone_do web disk-write 7 first
check "it becomes the template" template_made web base

# ---- Filled
start=$(now_ms)
check "the pool fills" eventually 60 pool_is ready 3 || exit 1
note "three stand ready, $(seconds_since "$start") s after their template"
check "with three forks" jobs_are 'job-1 job-2 job-3'
check "each is whole, and has not run" stand job-1 job-2 job-3
check "the wait for the template was said once" is "$(grep -c 'pool jobs is not full' "$lab_daemon_log")" -eq 1
check "a template that a pool stands on is not removed" refused '3' xenpack template rm base

# ---- Taken, and replaced
zone_skip job-1
start=$(now_ms)
check "one is taken" xenpack take jobs --until running
note "taken and running in $(($(now_ms) - start)) ms, the command and all; $(grep -o 'handed out of the pool jobs, in .*' "$lab_daemon_log")"
check "it is up" eventually 60 daemon_said '^.*job-1 .*ready after'
check "and knows its own name" own_names <(ask_all who job-1)
check "it has its template's memory, to the byte" zone_do job-1 check
check "and its disk" grep -q 'tag=first' <(zone_do job-1 disk-read 7)
check "it is reached" eventually 30 ping -c 1 -w 5 10.9.0.1
check "its place is filled again" eventually 30 pool_is ready 3
check "with a new one" jobs_are 'job-1 job-2 job-3 job-4'
zone_skip job-2
log_moved job-2 build
zone_skip build
start=$(now_ms)
check "one is taken by another name and address" xenpack take jobs --name build --address 10.9.0.77/16
note "taken, and ready with its identity, in $(($(now_ms) - start)) ms, the command and all"
check "and calls itself so" own_names <(ask_all who build)
check "xl list -l knows it by that name" xl_knows build
check "it has its template's memory" zone_do build check
check "and is reached" eventually 30 ping -c 1 -w 5 10.9.0.77
check "its place is filled again" eventually 30 pool_is ready 3
check "no name that is taken is given" refused 'base' xenpack take jobs --name base
check "which takes nothing" pool_is ready 3

# ---- Destroyed, and replaced
standing=$(jobs | tail -n 1)
uuid=$(fork_node "$standing" fork/generation)
replaced() { pool_is ready 3 && ! is "$(fork_node "$standing" fork/generation)" = "$uuid"; }
check "one that stands ready is destroyed by hand" xl destroy "$standing"
check "and replaced" eventually 60 replaced
check "one that was taken is destroyed" xl destroy job-1
check "which is noticed" eventually 30 pool_is taken 1
check "and changes nothing of those that stand ready" pool_is ready 3
check "one that was taken ends by itself" zone_say build poweroff
check "and is taken away" eventually 60 gone build
check "which is noticed too" eventually 30 pool_is taken 0

# ---- The daemon
check "one is taken" xenpack take jobs --name kept-31 --until running
check "its place is filled again" eventually 30 pool_is ready 3
check "it is up" eventually 60 daemon_said 'kept-31 .*ready after'
before=$(domains)
check "the daemon is killed" daemon_kill
check "and started again" daemon_start
check "the pool is full" eventually 30 pool_is ready 3
check "one is taken still" pool_is taken 1
check "and none was made or taken away" is "$(domains)" = "$before"
check "what was taken runs" grep -qE '^kept-31 .* (r|-b)' <(xl list)
check "one is taken of the next daemon" xenpack take jobs --name after-32
check "its place is filled again" eventually 30 pool_is ready 3

# ---- The daemon dies while it hands one out, which nobody has got then
for point in marked renamed unpaused; do
    check "the daemon ends" daemon_stop
    check "it dies at take.$point" dies_at "take.$point" xenpack take jobs --name lost-33
    check "it starts again" daemon_start
    check "the one that was being handed out at take.$point is gone" eventually 60 gone lost-33
    check "the pool is full" eventually 60 pool_is ready 3
    mapfile -t standing < <(jobs)
    check "with three forks" is "${#standing[@]}" -eq 3
    check "each is whole, and has not run" stand "${standing[@]}"
    check "nothing else is taken or lost" pool_is taken 2
done
check "no intent is left" is "$(find "$forks_state" -type f | wc -l)" -eq 0

# ---- Fewer, and no pool any more
configuration '[pool jobs]' 'template = base' 'ready = 1' 'name = job-%d' '[zone lone]' 'self-forks = 3'
one_job() { is "$(jobs | wc -l)" -eq 1; }
check "the pool shall have one" xenpack reload
check "and the others go" eventually 60 one_job
configuration '[zone lone]' 'self-forks = 3'
no_jobs() { is "$(jobs | wc -l)" -eq 0; }
check "the pool is taken out of the configuration" xenpack reload
check "and what stood ready goes" eventually 60 no_jobs
check "what was taken stays" is "$(fork_node after-32 fork/state)" = complete
xl destroy kept-31
xl destroy after-32
check "the template can be removed" eventually 30 xenpack template rm base
check "every page and every node is back" eventually 60 as_before "$lab_state/empty"

# ---- A zone forks itself
truncate -s 16M "$lab_state/lone.img"
check "a zone is created" zone_create lone memory=128 "xdisk=$lab_state/lone.img"
check "and up" zone_up lone
check "it has something in its memory" zone_do lone alloc 24
check "and on its disk" zone_do lone disk-write 7 first
domid=$(zone_domid lone)
for name in lone lone-1 lone-2; do zone_skip "$name"; done
said() { printf '%s\n' "$2" && grep -q "$1" <<<"$2"; }
check "more forks than it may have are refused, in its own words" said 'FAILED.*the host allows this zone 3 forks' "$(zone_do lone fork-itself 4)"
check "and it runs on" zone_do lone check
start=$(now_ms)
zone_say lone fork-itself 2
check "one goes on in its place" zone_expect lone '^work: fork-itself ok index=0' 120
check "another returns with its number" zone_expect lone-1 '^work: fork-itself ok index=1' 60
check "and the other" zone_expect lone-2 '^work: fork-itself ok index=2' 60
note "one zone is three in $(seconds_since "$start") s"
check "the zone is a template now" is "$(zone_domid lone.template)" -eq "$domid"
ask_all who lone lone-1 lone-2 >"$lab_state/who"
check "each calls itself by its name" own_names "$lab_state/who"
check "no two have the same random numbers" all_differ random "$lab_state/who"
check "each has all of its memory" ask_all check lone lone-1 lone-2
check "a fork cannot fork itself" said 'FAILED.*this zone is a fork' "$(zone_do lone fork-itself 1)"
disk_before=$(sha1sum "$lab_state/lone.img")
ask_all 'disk-read 7' lone lone-1 lone-2 >"$lab_state/read"
check "each has what was on its disk" is "$(grep -c 'tag=first' "$lab_state/read")" -eq 3
check "each writes to its own" ask_all 'disk-write 7 {}' lone lone-1 lone-2
ask_all 'disk-read 7' lone lone-1 lone-2 >"$lab_state/read"
own_tags() { awk '$0 !~ "tag=" $1 "$" { print; bad = 1 } END { exit bad || NR != 3 }' "$lab_state/read"; }
check "and finds it there" own_tags
check "the disk itself is as it was" is "$(sha1sum "$lab_state/lone.img")" = "$disk_before"
for name in lone lone-1 lone-2; do xl destroy "$name"; done
check "the template goes with the last of them" eventually 60 gone lone.template
check "every page and every node is back" eventually 60 as_before "$lab_state/empty"
check "no ghosts" no_ghosts
check "the daemon ends" daemon_stop
