# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: alone=1 xen=memshr numa=1 memory=3072 dom0=800M timeout=900
# A mixed day of starts, forks, balloons and ends on a host of two NUMA nodes: after each step the
# parts of `xenpack df` are all that Xen says there is, and what a start was said to take, and an
# end to give back, is what Xen then had less, or more.
. /lab/lab.sh
. /lab/daemon.sh
. /lab/forks.sh

aim_percent=1 aim_kib=2048
printf '[host]\nreserve = 64M\nstart-reserve = 0M\nemergency = 16M\ndom0-floor = 700M\n[zone base]\nmanage = no\n[zone netbase]\nmanage = no\n' >/etc/xenpack/xenpack.conf

# ---- What the account says
take_account() { xenpack df --json >"$lab_state/account"; }
# host_part NAME: of the host, in KiB.
host_part() { awk -v name="\"$1\":" '/^  "host": \{/ { on = 1 } on && $1 == name { sub(",", "", $2); print $2; exit }' "$lab_state/account"; }
# of_domain NAME MEMBER
of_domain() {
    awk -v name="\"$1\"," -v member="\"$2\":" '/^    \{/ { value = ""; is = 0 } $1 == member { value = $2; sub(",", "", value) }
        $1 == "\"name\":" && $2 == name { is = 1 } /^    \}/ && is { print value; exit }' "$lab_state/account"
}
nodes_free() { awk '/^  "nodes": \[/ { on = 1 } on && $1 == "\"free_kib\":" { sum += $2 } END { print sum }' "$lab_state/account"; }
apart() { printf '%s' "$(($1 > $2 ? $1 - $2 : $2 - $1))"; }

# Counted again where something moved meanwhile: the three are not read at one moment.
agrees() {
    local sum=0 part total free counted
    take_account && counted=$(host_pages) || return 1
    for part in dom0 zones forks templates others shared paging records map free remainder; do
        sum=$((sum + $(host_part "${part}_kib")))
    done
    total=$(host_part total_kib) free=$(host_part free_kib)
    is "$sum" -eq "$total" && is "$((total / 1024))" -eq "$(xl info total_memory)" &&
        is "$free" -eq "$(($(value_of free <<<"$counted") * 4))" &&
        is "$(nodes_free)" -eq "$free" &&
        is "$(host_part shared_kib)" -eq "$(($(value_of shared <<<"$counted") * 4))" &&
        is "$(grep -c '"kind":' "$lab_state/account")" -eq "$(value_of domains <<<"$counted")"
}
worst_remainder=0
adds_up() { # STEP
    check "$1: the parts are all there is, as Xen counts it" eventually 30 agrees
    local rest total
    rest=$(host_part remainder_kib) total=$(host_part total_kib)
    rest=${rest#-}
    ((rest <= worst_remainder)) || worst_remainder=$rest
    check "$1: less than $aim_percent % of it is not explained" is $((rest * 100)) -lt $((total * aim_percent))
}

# ---- What is said before, and what Xen has less or more then
foretold() { # WHAT KIB TOOK
    printf '%s %s %s %s\n' "$(apart "$2" "$3")" "$1" "$2" "$3" | tee -a "$lab_state/foretold"
    is "$(apart "$2" "$3")" -le $aim_kib
}
cost_of() { xenpack df --json "$@" | awk '$1 == "\"size_kib\":" { print $2 }'; }
start() { # NAME WORD...
    local name=$1 before said
    zone_create "$@" -n >/dev/null # writes down its configuration
    eventually 60 settled
    before=$(free_kib) said=$(cost_of --start "$lab_state/$name.cfg")
    check "$name is created" zone_create "$@"
    check "$name is up" zone_up "$name"
    check "$name takes what was foretold" foretold "$name" "$said" $((before - $(free_kib)))
    adds_up "$name runs"
}
fork_one() { # TEMPLATE NAME
    local before said
    before=$(free_kib) said=$(cost_of --fork "$1")
    check "$2 is forked of $1" xenpack fork "$1" --name "$2"
    check "$2 takes what was foretold" foretold "$2" "$said" $((before - $(free_kib)))
    adds_up "$2 runs"
}
gave_back() { settled && foretold "the end of $1" "$2" $(($(free_kib) - $3)); } # NAME KIB FREE_BEFORE_KIB
end() { # NAME
    local before said
    take_account
    said=$(of_domain "$1" frees_kib) before=$(free_kib)
    check "$1 is destroyed" xl destroy "$1"
    check "$1 gives back what was foretold" eventually 60 gave_back "$1" "$said" "$before"
    adds_up "$1 is gone"
}
pinned() { # NAME MIB
    check "$1 is told to hold $2 MiB" xenpack set "$1" --pin "$2M"
    check "and does" eventually 60 holds "$1" -le $(($2 + 1))
    adds_up "$1 holds $2 MiB"
}

check "the daemon starts" daemon_start
adds_up "nothing runs"
bridge_make xenbr0 10.9.0.254
start web memory=128 maxmem=512
start db memory=256
start two memory=128 vcpus=2
pinned web 300
pinned web 140
start base memory=256
check "base becomes a template" template_made base image
adds_up "there is a template"
fork_one image job-1
fork_one image job-2
check "a template with forks is not said to free anything" is "$(of_domain image frees_kib)" = null
end two
truncate -s 8M "$lab_state/disk.img"
start netbase memory=256 "xdisk=$lab_state/disk.img" bridge=xenbr0
check "netbase becomes a template" template_made netbase netimage
fork_one netimage net-1
fork_one netimage net-2
end db
check "a fork writes" zone_do job-1 alloc 64
adds_up "a fork has pages of its own"
note "$(xenpack density)"
end job-1
end net-1
end job-2
end net-2
end web
check "the templates can be removed" xenpack template rm netimage
check "and the other" xenpack template rm image
adds_up "nothing is left"
note "$(xenpack df | sed -n '/^host/,$p')"
note "the most that was not explained: $worst_remainder KiB; and of what was foretold, in KiB: how far off, of what, foretold, and what it was:
$(sort -n "$lab_state/foretold")"
check "the daemon ends" daemon_stop
