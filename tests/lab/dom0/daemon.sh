# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC2020,SC2154
# What cases ask of a running xenpackd: a zone's fields in its status, and the promises that hold
# for every case: no ghost in xenstore, no lost byte. Sourced by cases after lab.sh.

# status_line NAME: the object of that zone in `xenpack status --json`, on one line.
status_line() {
    xenpack status --json | tr -d '\n' | sed 's/"faults": *\[\([^]]*\)\]/"faults":"\1"/g' |
        tr '{}' '\n\n' | grep "\"name\": *\"$1\""
}

# field NAME FIELD: e.g. field web state; of every zone of that name, a line each.
field() { status_line "$1" | sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",]*\).*/\1/p"; }

state_is() {
    local state
    state=$(field "$1" state)
    [[ " $2 " == *" $state "* ]] || { printf '%s is %s: %s\n' "$1" "$state" "$(status_line "$1")" && return 1; }
}

field_is() { is "$(field "$1" "$2")" = "$3"; }
forgotten() { field_is "$1" domid ""; }

# at_rest NAME: its target is what it holds, within a MiB.
at_rest() {
    local apart=$(($(zone_target_kib "$1") - $(zone_current_kib "$1")))
    is "${apart#-}" -le 1024
}

# told_the_same NAME: the target in xenstore is the one in status.
told_the_same() { is "$(zone_target_kib "$1")" -eq "$(field "$1" target_kib)"; }

# named NAME TEXT: status says what is wrong with that zone.
named() { status_line "$1" | grep -q "$2" || { status_line "$1" && return 1; }; }

current_mib() { printf '%s' "$(($(zone_current_kib "$1") / 1024))"; }

# holds NAME OPERATOR MIB
holds() { is "$(current_mib "$1")" "$2" "$3"; }

# Directories below /local/domain are exactly those of the domains there are.
no_ghosts() {
    local dirs domains
    dirs=$(xenstore-list /local/domain | sort -n | tr '\n' ' ')
    domains=$(xl list | awk 'NR > 1 { print $2 }' | sort -n | tr '\n' ' ')
    [[ $dirs == "$domains" ]] || { printf 'xenstore has %s, Xen has %s\n' "$dirs" "$domains" && return 1; }
}

# never_killed NAME: the kernel has killed nothing in it.
never_killed() {
    local stat
    stat=$(zone_do "$1" stat)
    [[ $(value_of oom_kill <<<"$stat") == 0 ]] || { printf '%s\n' "$stat" && return 1; }
}

# daemon_said REGEX: the daemon's log has such a line.
daemon_said() { grep -qE -- "$1" "$lab_daemon_log" || { tail -n 5 "$lab_daemon_log" && return 1; }; }
