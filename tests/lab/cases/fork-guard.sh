# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: xen=memshr memory=1664 dom0=800M timeout=600 alone=1
# Forks that together write more than the host has: they are held before memory runs out, and go on
# when some comes, be it that another domain ends, that a zone gives back what it does not use, or
# that one of them ends. None dies, and no byte is wrong, also where the daemon dies meanwhile, at
# whatever moment of the guard's, and starts again. Twenty rounds.
. /lab/lab.sh
. /lab/daemon.sh
. /lab/forks.sh

rounds=20
count=3
mib=40                   # what each fork writes, and then checks to the byte
room_kib=$((96 * 1024))  # what the host has left for all of them, what the guard keeps of it included
turn_kib=$((168 * 1024)) # enough for one of them to have all that it may, and not for all
printf '%s\n' '[host]' 'reserve = 32M' 'start-reserve = 0M' 'emergency = 16M' 'dom0-floor = 700M' \
    '[zone big]' 'manage = yes' 'floor = 64M' '[zone]' 'manage = no' >/etc/xenpack/xenpack.conf

# The daemon is asked how things are, and so hears of it: no toolstack tells of such a domain. Where it
# is to die when it holds a fork, it may do so before it answers.
hog_all_but() { host_memory hog "$1" >"$lab_state/hog" && cat "$lab_state/hog" && { xenpack status >/dev/null 2>&1 || :; }; }
hog_gone() { host_memory drop "$(value_of domid <"$lab_state/hog")"; }

# log_skip: forget what the daemon has said. log_expect REGEX SECONDS: the next line that matches.
log_skip() { stat -c %s "$lab_daemon_log" >"$lab_state/log.offset"; }
log_expect() {
    local found
    if ! found=$(await-line "$lab_daemon_log" "$(<"$lab_state/log.offset")" "$(($2 * 1000))" "$1"); then
        printf 'xenpackd said nothing like "%s" in %s s, but:\n' "$1" "$2" && tail -n 8 "$lab_daemon_log"
        return 1
    fi
    printf '%s' "${found%%$'\t'*}" >"$lab_state/log.offset"
    printf '%s\n' "${found#*$'\t'}"
}

# must "promise" COMMAND...: what comes after it would show nothing.
must() { check "$@" || exit 1; }

# ---- The forks of a round, by their names and on their terminals.
made() {
    xenpack fork base -n $count --name "$1-%d" --timeout 5m >"$lab_state/made" && cat "$lab_state/made" || return 1
    mapfile -t consoles < <(sed -n 's|^[^(]*(\([0-9]*\)).*|/local/domain/\1/console/tty|p' "$lab_state/made")
    eventually 20 have_terminals "${consoles[@]}"
}
have_terminals() { xenstore-read "$@" >"$lab_state/terminals"; }
# taken PREFIX: those that were made.
forks=() terminals=()
taken() {
    mapfile -t forks < <(fork_names "$1" $count)
    mapfile -t terminals <"$lab_state/terminals"
}
# told COMMAND...: all of them, all at once; nobody waits for an answer. Of what each writes no other has the like.
told() {
    local i
    for i in "${!forks[@]}"; do zone_skip "${forks[i]}"; done
    for i in "${!forks[@]}"; do printf '%s\n' "rewrite $((i + 1))" "$@" >"${terminals[i]}" || return 1; done
}
# answered REGEX: each has said so.
answered() { local name; for name in "${forks[@]}"; do zone_expect "$name" "$1" 120 || return 1; done; }
# In xl's list, by the state that it tells of each.
listed() { xl list | grep -cE "^${forks[0]%-*}-[0-9]+ .* $1 "; }
all_run() { is "$(listed '[r-][b-]----')" -eq $count && is "$(xenstore-ls -f /local/domain | grep -c '/xenpack/held ')" -eq 0; }
all_gone() { is "$(listed '[^ ]+')" -eq 0; }
destroyed() { printf '%s\n' "${forks[@]}" | xargs -n 1 -P $count xl destroy && eventually 60 settled; }
some_are_held() {
    xenpack status >"$lab_state/status" || return 1
    grep 'held for .*until there is room' "$lab_state/status" || { cat "$lab_state/status" && return 1; }
}

# ---- The daemon's death.
# daemon_again [POINT]: it ends, and starts, to die there.
daemon_again() { daemon_stop && XENPACK_FAULT=${1-} daemon_start; }
# killed [POINT]: it is killed, and starts, to die there; died: at its point, and starts.
killed() { daemon_kill && XENPACK_FAULT=${1-} daemon_start; }
died() { eventually 60 daemon_ended && is "$(<"$lab_state/xenpackd.status")" -eq 137 && XENPACK_FAULT='' daemon_start; }

must "this Xen shares memory" is "$(host_pages | value_of shared)" -ge 0
must "the daemon starts" daemon_start
must "a zone is created" zone_create web memory=128 xenpack.guest=off
must "and up" zone_up web
must "it has something in its memory" zone_do web alloc $mib
must "it becomes a template" template_made web base --identity none
must "a picture of the host with it is taken" picture "$lab_state/with-template"
note "$(value_of free <"$lab_state/with-template.pages") pages are free"
host_memory least >"$lab_state/least" &
watcher=$!

# ---- A fork that is paused for a new ring when the daemon dies
must "a fork is made" xenpack fork base --name ring
must "the daemon is killed" daemon_kill
XENPACK_FAULT=ring.stopped daemon_launch
must "the next one dies as it gives it a ring, and the one after that starts" died
check "the fork runs again" zone_do ring ping
check "nobody is known to be paused" is ! -e /run/xenpack/paused-forks
xl destroy ring
check "it is gone" eventually 30 gone ring

# ---- Memory that a zone gives back
must "a zone that may be shrunk is created" zone_create big memory=320
must "and up" zone_up big
must "the daemon gives it what it may have" eventually 30 at_rest big
full_kib=$(zone_current_kib big)
log_skip
must "$count forks are made" made zone
taken zone
must "nearly all of the host's memory is taken" hog_all_but $room_kib
must "they write, and check what they wrote" told check
check "some are held" log_expect 'held until there is room: ' 60
must "all end what they wrote, with what the zone gives back, and every byte is right" answered '^work: check ok'
check "it has given some" is "$(zone_current_kib big)" -lt $((full_kib - 32768))
note "the zone has $(current_mib big) MiB of $((full_kib / 1024))"
check "the memory is given back" hog_gone
check "none has died, and none is held" eventually 30 all_run
check "they are destroyed" destroyed
check "the zone works" zone_do big ping
xl destroy big
check "it is gone" eventually 30 gone big

# ---- Memory that they give back themselves, one after the other
log_skip
must "$count forks are made" made turn
taken turn
must "nearly all of the host's memory is taken" hog_all_but $turn_kib
must "they write, check and end" told check poweroff
check "some are held" log_expect 'held until there is room: ' 60
check "in turn all end what they wrote, and every byte was right" answered '^work: check ok'
check "and all end" eventually 60 all_gone
check "when none waits any more it is said" log_expect 'no fork has to be held for want of memory any more' 30
check "the memory is given back" hog_gone

# ---- Memory that another domain has, and the daemon's death at each moment of it
round() {
    local name=$1 way=$2 start
    start=$(now_ms)
    [[ $way != guard.noted && $way != guard.held ]] || must "the daemon is to die at $way" daemon_again "$way"
    log_skip
    must "$count forks are made" made "$name"
    taken "$name"
    must "nearly all of the host's memory is taken" hog_all_but $room_kib
    must "they write, and check what they wrote" told check
    case $way in
        writing) must "the daemon is killed, and starts" killed ;;
        guard.noted | guard.held) must "it dies, and starts" died ;;
    esac
    must "the journal tells of those that are held" \
        log_expect '(held until there is room: |(held for want of memory|paused) when xenpackd ended)' 60
    case $way in
        held) must "the daemon is killed, and starts" killed ;;
    esac
    must "so does status" eventually 30 some_are_held
    [[ $way != guard.let_go ]] || must "the daemon is killed" daemon_kill
    must "the memory is given back" hog_gone
    if [[ $way == guard.let_go ]]; then
        XENPACK_FAULT=$way daemon_launch # which dies as soon as it lets one of them go
        must "the daemon dies, and starts" died
    fi
    must "all end what they wrote, and every byte is right" answered '^work: check ok'
    must "none has died, and none is held" eventually 30 all_run
    must "they are destroyed" destroyed
    note "$name, $way: $(seconds_since "$start") s; never less than $(tail -n 1 "$lab_state/least") KiB were free"
}

ways=(none writing held guard.noted guard.held guard.let_go)
for ((n = 1; n <= rounds; n++)); do round r$n "${ways[n % ${#ways[@]}]}"; done

# ---- The end
kill "$watcher"
check "there was always some memory free" is "$(tail -n 1 "$lab_state/least")" -ge 1024
check "no fork has died" is "$(grep -cE 'it has shut down \((crash|reboot|watchdog)' "$lab_daemon_log")" -eq 0
check "Xen has ended none" is "$(xl dmesg | grep -cE 'domain_crash|ENOMEM and no helper')" -eq 0
check "the host is as it was with the template" eventually 60 as_before "$lab_state/with-template" 2048
check "the template can be removed" xenpack template rm base
check "no ghosts" no_ghosts
check "the daemon ends" daemon_stop
