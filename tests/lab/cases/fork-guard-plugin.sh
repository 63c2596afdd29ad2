# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: by-hand=1 xen=memshr memory=2304 dom0=700M timeout=900
# The plugin's half of the guard, without the daemon: a fork that finds no memory waits and is not
# crashed, goes on when it is fed, also by another watcher when its own has died, and no byte of it
# is wrong. Then what a balloon does in a fork, and what claiming memory for one does.
# By hand: it takes minutes, and what it shows of Xen and of Linux changes with their versions alone;
# what the plugin does with them, tests/plugin/test_ring.c and test_warden.c show as well.
. /lab/lab.sh
. /lab/forks.sh

probe_log=$lab_state/probe.log

# probe_start: a watcher that serves forks and does as it is told by probe_say.
probe_start() {
    rm -f "$lab_state/probe.in"
    mkfifo "$lab_state/probe.in"
    : >"$probe_log"
    printf 0 >"$lab_state/probe.offset"
    fork_probe serve <>"$lab_state/probe.in" >>"$probe_log" 2>&1 &
    printf '%s' $! >"$lab_state/probe.pid"
    probe_expect '^serving' 20
}

probe_gone() { ! kill -0 "$(<"$lab_state/probe.pid")" 2>/dev/null || return 1; }
probe_kill() { kill -KILL "$(<"$lab_state/probe.pid")" && eventually 10 probe_gone; }

# probe_expect REGEX SECONDS: the next line that it says which matches; what is before is passed over.
probe_expect() {
    local found
    if ! found=$(await-line "$probe_log" "$(<"$lab_state/probe.offset")" "$(($2 * 1000))" "$1"); then
        printf 'the probe said nothing like "%s" in %s s, but:\n' "$1" "$2" && tail -n 5 "$probe_log"
        return 1
    fi
    printf '%s' "${found%%$'\t'*}" >"$lab_state/probe.offset"
    printf '%s\n' "${found#*$'\t'}"
}

probe_say() { printf '%s\n' "$*" >"$lab_state/probe.in"; }
# probe_do COMMAND DOMID: fails unless it says that it has done so.
probe_do() { probe_say "$1 $2" && probe_expect "^$1 $2 (ok|failed)" 20 | tee "$lab_state/probe.said" && grep -q ok "$lab_state/probe.said"; }
fork_made() { probe_say "fork $(zone_domid base) $1" && probe_expect "^fork $1 domid=|^failed" 30 | grep -v '^failed'; }
# How often it has said this since the offset.
said_since() { tail -c "+$(($2 + 1))" "$probe_log" | grep -c "$1"; }

hog_all_but() { host_memory hog "$1" >"$lab_state/hog"; }
hog_gone() { host_memory drop "$(value_of domid <"$lab_state/hog")"; }
free_kib() { host_pages | awk '{ sub("free=", "", $2); print $2 * 4 }'; }
pages_of() { host_memory show "$(zone_domid "$1")" | value_of pages; }
is_starved() { probe_expect "^event starved $1\$" 60; }
is_waiting() { ! zone_expect "$1" '^work: ' 2 >/dev/null && runs "$1"; }
runs() { xl list "$1" | tail -n 1 | grep -qE ' (r|-)(b|-)(p|-)--- '; }
answers() { zone_expect "$1" '^work: rewrite ok' 120; }

# starves NAME: it writes what it shares until there is no memory for that, and waits.
starves() {
    local domid
    domid=$(zone_domid "$1")
    check "$1 has read all that it shares" zone_do "$1" check
    check "nearly all of the host's memory is taken" hog_all_but 12288
    zone_skip "$1"
    check "$1 writes" zone_say "$1" rewrite
    check "$1 starves" is_starved "$domid"
    note "free: $(free_kib) KiB"
    check "$1 has not crashed and waits" is_waiting "$1"
}
# thrives NAME: it has gone on, and is whole.
thrives() {
    check "$1 goes on and ends what it did" answers "$1"
    check "every byte of $1 is right" zone_do "$1" check
}

check "this host can have forks" is "$(fork_probe missing)" = ''
# Its balloon writes to what it gives away, as Debian's kernels have it. (The lab's other guests have it
# off, and their balloon dies in a fork: plugin/libxl/fork_rings.h says why.)
check "a zone is created" zone_create web memory=192 vcpus=1 xenpack.guest=off xen_scrub_pages=1
check "and up" zone_up web
check "it has something in its memory" zone_do web alloc 48
check "it is sealed" fork_probe seal "$(zone_domid web)" base
check "a picture of the host with it is taken" picture "$lab_state/with-template"
check "a watcher runs" probe_start

# ---- Starved, and fed
check "a fork is made" fork_made one
domid=$(zone_domid one)
check "another" fork_made two
# Its kernel writes as well, now and then.
two=$(zone_domid two)
check "which is held, so that it does not starve too" probe_do hold "$two"
offset=$(<"$lab_state/probe.offset")
starves one
check "low memory was told" is "$(said_since '^event low' "$offset")" -ge 1
check "fed with nothing it starves again" probe_do feed "$domid"
check "which is told again" is_starved "$domid"
check "it is held" probe_do hold "$domid"
check "and paused" grep -qE '^one .* (r|-)(b|-)p' <(xl list)
check "the memory is given back" hog_gone
check "it is fed" probe_do feed "$domid"
check "held it does not go on" is_waiting one
check "it is let go" probe_do let_go "$domid"
thrives one
check "it told of low memory $(said_since '^event low' "$offset") times" true
check "two is let go" probe_do let_go "$two"
check "and is whole" zone_do two check

# ---- Its watcher dies
check "one is held" probe_do hold "$domid"
starves two
check "the watcher is killed" probe_kill
check "the fork still waits" is_waiting two
is_paused() { xl list "$1" | tail -n 1 | grep -qE ' (r|-)(b|-)p--- '; }
check "and has been paused, as it could write more than is free" eventually 10 is_paused two
check "another watcher runs" probe_start
probe_say "adopt $two"
check "without a page of memory it is not adopted" probe_expect "^adopt $two failed ENOMEM" 20
check "and still waits" is_waiting two
check "the memory is given back" hog_gone
check "it is adopted" probe_do adopt "$two"
note "$(<"$lab_state/probe.said")"
check "which is told that it is paused" grep -q paused "$lab_state/probe.said"
check "it is let go" probe_do let_go "$two"
thrives two
check "the one that was held is adopted" probe_do adopt "$domid"
check "and let go by another than held it" probe_do let_go "$domid"
check "it is whole" zone_do one check
check "another fork is made" fork_made three
zone_destroy two one
check "the end of a fork is told" probe_expect "^event died ($domid|$two)\$" 20
check "and their memory is given back" eventually 30 settled
starves three
check "the memory is given back" hog_gone
check "it is fed" probe_do feed "$(zone_domid three)"
thrives three

# ---- Nobody serves it, and it starves
check "a fork is made" fork_made four
check "the watcher is killed" probe_kill
four=$(zone_domid four)
check "four has read all that it shares" zone_do four check
check "nearly all of the host's memory is taken" hog_all_but 12288
zone_skip four
check "four writes" zone_say four rewrite
check "until there is none" eventually 60 is_waiting four
check "the memory is given back" hog_gone
check "nobody has told it" is_waiting four
check "another watcher runs" probe_start
check "it adopts it" probe_do adopt "$four"
thrives four
zone_destroy three four

# ---- The balloon in a fork
facts() { note "$1: free=$(free_kib) KiB; fork: $(host_memory show "$(zone_domid bal)"); template: $(host_memory show "$(zone_domid base)"); $(host_pages)"; }
total_kib() { zone_do "$1" stat | value_of MemTotal; }
total_within() { local apart=$(($(total_kib "$1") - $2)) && is "${apart#-}" -le 1024; }
check "a fork for its balloon is made" fork_made bal
check "and its sibling" fork_made sib
check "it answers" zone_do bal ping
check "so does the sibling" zone_do sib ping
total=$(total_kib bal)
# balloon WHAT MIB KIB: told MIB, its guest has KIB within a minute; $gained is what the host has then more.
balloon() {
    local before
    before=$(free_kib)
    check "$1: it is told $2 MiB" xl mem-set bal "$2"
    check "and follows" eventually 60 total_within bal "$3"
    gained=$(($(free_kib) - before))
    facts "$1"
    note "the host has $gained KiB more"
}
facts 'before'
balloon 'down, of memory that it has not written' 152 $((total - 40960))
check "that gives nothing back" is "$gained" -le 2048
balloon 'up' 192 "$total"
check "that takes all of it from the host" is "$gained" -le -38912
check "it writes all that it has" zone_do bal alloc 80
check "and frees it" zone_do bal free 80
balloon 'down, of memory of its own' 152 $((total - 40960))
check "that gives back what it had written" is "$gained" -ge 20480
balloon 'up again' 192 "$total"
check "it can use it" zone_do bal alloc 60
check "it is whole" zone_do bal check
check "so is the sibling" zone_do sib check
check "and a new fork" fork_made late
check "of the same template" zone_do late check
facts 'at the end'
zone_destroy bal sib late

# ---- Claims
check "a fork is made" fork_made five
check "and its sibling" fork_made six
check "five has read all that it shares" zone_do five check
check "and six" zone_do six check
check "memory is claimed for five" host_memory claim "$(zone_domid five)" $((80 * 1024))
note "$(host_memory show "$(zone_domid five)")"
check "all other memory is taken" hog_all_but 0
note "$(host_pages)"
zone_skip six
check "six writes" zone_say six rewrite
check "and starves" is_starved "$(zone_domid six)"
check "five does not" zone_do five rewrite
check "it is whole" zone_do five check
note "$(host_memory show "$(zone_domid five)")"
check "its claim can be taken back" host_memory claim "$(zone_domid five)" 0
check "the memory is given back" hog_gone
check "six is fed" probe_do feed "$(zone_domid six)"
thrives six
zone_destroy five six

# ---- The end
check "the watcher is killed" probe_kill
check "the host is as it was with the template" as_before "$lab_state/with-template" 1600
check "the template can be destroyed" fork_probe destroy "$(zone_domid base)"
