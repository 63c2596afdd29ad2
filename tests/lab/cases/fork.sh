# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: alone=1 xen=memshr memory=3072 dom0=800M timeout=1200
# A zone with a disk and a network becomes a template, and twenty are forked of it: each has its own
# name, address and random numbers, its template's memory and disk, and writes to none but its own;
# xl works on them as on any; what is wrong is said in one line and changes nothing; and in the end
# every page, node, device and file is back.
. /lab/lab.sh
. /lab/daemon.sh
. /lab/forks.sh

count=20
# Of memory for each fork with a disk and a network, dom0's share included.
aim_kib=6144 most_kib=8704
image=$lab_state/base.img
printf '[host]\nreserve = 200M\nstart-reserve = 0M\nemergency = 60M\ndom0-floor = 700M\n[zone]\nmanage = no\n' >/etc/xenpack/xenpack.conf
mkdir -p /var/lib/xenpack
truncate -s 16M "$image"

check "this Xen shares memory" is "$(host_pages | value_of shared)" -ge 0
check "the daemon starts" daemon_start
check "dom0 is as it should be for many forks with disks" many_forks_host
check "a bridge is made" bridge_make xenbr0 10.9.0.254/16
check "a picture of the host before is taken" picture "$lab_state/empty"

# ---- The template
check "a zone is created" zone_create web memory=128 "xdisk=$image" bridge=xenbr0 xenpack.net=10.9.0.200/16
check "and up" zone_up web
check "it has something in its memory" zone_do web alloc 24
check "and on its disk" zone_do web disk-write 7 first
check "it is reached" eventually 30 ping -c 1 -w 5 10.9.0.200
domid=$(zone_domid web)
check "a zone that is not there becomes no template" refused 'nosuch' xenpack template create nosuch
check "nor does one take a name that is taken" refused 'Domain-0' xenpack template create web --name Domain-0
check "it runs on" zone_do web ping
check "it is no template yet" refused 'web' xenpack fork web --name never
check "no domain has come of that" is "$(xl list | wc -l)" -eq 3
start=$(now_ms)
check "it becomes a template" template_made web base
note "sealed in $(seconds_since "$start") s"
check "which is the same domain, by its new name" is "$(zone_domid base)" -eq "$domid"
check "its old name is free" gone web
check "it is listed" grep -q base <(xenpack template list)
check "and shown" grep -q sealed <(xenpack template show base)
check "it is paused and suspended" grep -qE '^base .* --ps?' <(xl list)
check "its disk and its network have gone from it" is "$( (xl network-list base; xl block-list base) | grep -cvE '^(Idx|Vdev)')" -eq 0
check "it cannot become one again" refused 'base' xenpack template create base
sum=$(md5sum <"$image")
check "a picture of the host with it is taken" picture "$lab_state/with-template"

# ---- Its disk is nobody's
thief() {
    ! zone_create thief memory=96 "xdisk=$image" || return 1
    grep -q 'is the one of template base' "$lab_state/thief.xl" || { cat "$lab_state/thief.xl" && return 1; }
}
check "no zone may write to its disk" thief
check "none is left that wanted to" eventually 20 gone thief
touch -r "$image" "$lab_state/written" && touch "$image"
check "over a disk that was written to since no fork is made" refused 'it has been written to' xenpack fork base --name x
touch -r "$lab_state/written" "$image"
check "and nothing is left of it" eventually 20 as_before "$lab_state/with-template"

# ---- Bad input
check "no fork of what is not there" refused 'nosuch' xenpack fork nosuch --name x
check "no fork by a name that is taken" refused 'base' xenpack fork base --name base
check "no forks without a number in their names" refused '%d' xenpack fork base -n 2 --name same
check "none at all is no number of forks" refused '0' xenpack fork base -n 0 --name 'x-%d'
check "no fork by a name that is none" refused 'name' xenpack fork base --name 'a/b'
check "and nothing has come of it" as_before "$lab_state/with-template"

# ---- Forks
memory_before
start=$(now_ms)
check "$count zones are forked of it" xenpack fork base -n $count --name 'job-%d' --timeout 5m || exit 1
note "$count forks, each with its identity, in $(seconds_since "$start") s"
memory_of_each $count $aim_kib $most_kib
daemon_log_of() { grep -E "$1" "$lab_daemon_log" | sed -n '1p;$p' | cut -c1-180 | sed 's/^/note - /'; }
daemon_log_of ': made of'
daemon_log_of ': ready after'
mapfile -t jobs < <(fork_names job $count)
for name in "${jobs[@]}"; do is_whole "$name" || check "$name is whole" is_whole "$name"; done
check "there are $count of them" is "$(xl list | grep -c '^job-')" -eq $count
check "all of them say who they are" ask_all who "${jobs[@]}"
ask_all who "${jobs[@]}" >"$lab_state/who"
check "each by its own name" own_names "$lab_state/who"
for field in random machine generation mac address; do
    check "no two have the same $field" all_differ $field "$lab_state/who"
done
sed -n '1,3s/^/note - /p' "$lab_state/who"
check "each has its template's memory, to the byte" ask_all check "${jobs[@]}"
check "one writes over it" zone_do job-1 rewrite
check "and has what it wrote" zone_do job-1 check
check "which no other sees" ask_all check job-2 job-3 "job-$count"
reached() { local i bad=0; for ((i = 1; i <= count; i++)); do ping -c 1 -w 10 "10.9.0.$i" >/dev/null || { printf '%s\n' "10.9.0.$i is not reached" && bad=1; }; done; return $bad; }
check "all are reached over the bridge" eventually 60 reached
check "all read their template's disk" ask_all 'disk-read 7' "${jobs[@]}"
check "and find what it had written" is "$(ask_all 'disk-read 7' "${jobs[@]}" | grep -c 'tag=first$')" -eq $count
check "each writes to its disk" ask_all 'disk-write 9 own-{}' "${jobs[@]}"
ask_all 'disk-read 9' "${jobs[@]}" | sed -E 's/^([^ ]*) .*tag=/\1 /' >"$lab_state/tags"
check "and has what it wrote, and none of another's" diff <(sed -E 's/(.*)/\1 own-\1/' <(fork_names job $count)) "$lab_state/tags"
check "the template's disk is as it was, to the bit" is "$(md5sum <"$image")" = "$sum"
check "they share their memory" is "$(host_pages | value_of saved)" -gt $((count * 4096))
note "$(host_pages), $count forks of 128 MiB"
check "status names their template" grep -q '"template": *"base"' <(xenpack status --json)
check "the template counts them" grep -q "\"children\": *$count" <(xenpack status --json)
check "a template with forks is not removed" refused "$count" xenpack template rm base
check "and is still there" is_sealed base
check "a name that a fork has is not given twice" refused 'job-1' xenpack fork base --name job-1
check "%d passes over names that are taken" xenpack fork base -n 1 --name 'job-%d'
check "and takes the next" is_whole "job-$((count + 1))"

# ---- As any domain
total_under() { is "$(zone_do "$1" stat | value_of MemTotal)" -lt $(($2 * 1024)); }
check "xl list -l knows a fork" xl_knows job-2
check "and its devices" is "$(xl list -l job-2 | grep -cE '"(block|vif)-xenpack"')" -eq 2
check "xl vcpu-list" grep -q '^job-2 ' <(xl vcpu-list job-2)
check "xl network-list and block-list name one of each" is "$(xl network-list job-2 | wc -l) $(xl block-list job-2 | wc -l)" = "2 2"
# Typed at xl's console, heard by the zone: on a terminal, as it only listens to one, and with a
# pipe that stays open, or it would end at once.
console_reaches() {
    local out=$lab_state/console.out
    zone_skip "$1"
    mkfifo "$lab_state/typed" && {
        script -qc "xl console $1" /dev/null <"$lab_state/typed" >"$out" 2>&1 &
    } && exec 9>"$lab_state/typed"
    printf 'ping\n' >&9
    local status=0
    zone_expect "$1" '^work: pong' 30 || status=1
    eventually 30 grep -q 'pong' "$out" || status=1
    cat "$out"
    exec 9>&-
    kill %% 2>/dev/null
    rm -f "$lab_state/typed"
    return $status
}
check "xl console reaches it" console_reaches job-2
check "xl mem-set takes memory from it" xl mem-set job-2 100
check "and it follows" eventually 60 total_under job-2 100
check "xl pause" xl pause job-2
check "xl unpause" xl unpause job-2
check "it goes on" zone_do job-2 ping
check "one ends by itself" zone_say job-3 poweroff
check "and nothing is left of it" eventually 60 gone job-3
check "xl destroy takes one away" xl destroy job-4
check "and it is gone" eventually 20 gone job-4
check "xl save takes one" xl save job-5 "$lab_state/job.save"
refused_by_xl() {
    local text=$1
    shift
    if "$@" >"$lab_state/said" 2>&1; then return 1; fi
    cat "$lab_state/said"
    grep -q "$text" "$lab_state/said"
}
check "xl cannot restore it with its disk, which has gone with it" refused_by_xl 'a fork with a disk cannot be restored' xl restore "$lab_state/job.save"
check "nothing is left of that" eventually 20 gone job-5
sed "s/^name = .*/name = \"job-5\"/; s#target=[^']*#target=$image;#" "$lab_state/web.cfg" >"$lab_state/job.cfg"
check "with another disk it can" xl restore "$lab_state/job.cfg" "$lab_state/job.save"
check "and has all its memory" zone_do job-5 check
rm -f "$lab_state/job.save"

# ---- The store: what libxl makes for a restored domain, and what is made for a fork
connected() { is "$(xenstore-ls -f /local/domain/0/backend | grep -E "/(vbd|vif)/$(zone_domid "$1")/" | grep -c '/state = "4"')" -eq 2; }
check "the devices of the restored one are connected" eventually 30 connected job-5
check "and those of a fork" eventually 30 connected job-6
tree job-5 >"$lab_state/restored.tree"
tree job-6 >"$lab_state/fork.tree"
check "their nodes are the same" diff "$lab_state/restored.tree" "$lab_state/fork.tree"
note "$(wc -l <"$lab_state/fork.tree") nodes"

# ---- A fork that is left paused; the daemon ends and starts among forks
check "a fork is left paused when told so" xenpack fork base --name still --paused --until running
check "it is" grep -qE '^still .* --p' <(xl list)
check "the daemon ends when told" daemon_stop
check "and starts again" daemon_start
check "the forks have not noticed" ask_all check job-1 job-2 "job-$count"
disks_made() { xenstore-list /local/domain/0/backend/vbd | wc -l; }
more_disks() { is "$(disks_made)" -gt "$1"; }
# The daemon is told to end while disks of forks are being made.
ends_while_making() {
    local before
    before=$(disks_made)
    xenpack fork base -n 6 --name 'late-%d' --until running >"$lab_state/late" 2>&1 &
    eventually 30 more_disks "$before" && daemon_stop
}
check "it ends within seconds while forks are made" ends_while_making
check "and takes them away first" eventually 10 none_of late
check "it starts once more" daemon_start
check "it knows the template's forks" refused 'base' xenpack template rm base

# ---- And back
for name in $(xl list | awk 'NR > 1 && ($1 ~ /^job-/ || $1 == "still") { print $1 }'); do xl destroy "$name"; done
# Xen keeps up to 256 bytes for each page that a template has ever shared, until it goes.
check "no fork is left, and no node, device or file of one" eventually 60 as_before "$lab_state/with-template" 2048
check "Xen has no copies of shared pages left" is "$(host_pages | value_of saved)" -eq 0
check "the template's disk is as it was" is "$(md5sum <"$image")" = "$sum"
check "now the template can be removed" xenpack template rm base
check "it is gone" eventually 30 gone base
check "every page, node, device and file is back" eventually 60 as_before "$lab_state/empty" 256
check "no ghosts" no_ghosts
check "the daemon ends" daemon_stop
