# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: xen=memshr memory=2304 dom0=700M timeout=600
# The plugin's half of templates and forks, without the daemon: a zone is sealed, forks of it run, xl
# works on them as on any domain, their nodes are those of a restored domain, and nothing is left.
. /lab/lab.sh
. /lab/forks.sh

forks=4
sealed() { fork_probe seal "$(zone_domid "$1")" "$2" && is_sealed "$2"; }

check "this host can have forks" is "$(fork_probe missing)" = ''
check "asking leaves no domain" is "$(xl list | wc -l)" -eq 2
check "a picture of the host before is taken" picture "$lab_state/empty"

# ---- A zone, sealed
check "a zone is created" zone_create web memory=128 vcpus=1 xenpack.guest=off
check "and up" zone_up web
check "it has something in its memory" zone_do web alloc 24
domid=$(zone_domid web)
check "it does not take a name that is taken" refused 'Domain-0' fork_probe seal "$domid" Domain-0
check "and runs on" zone_do web ping
check "it is sealed" sealed web base
note "$(fork_probe seal "$domid" base)"
check "it is the same domain" is "$(zone_domid base)" -eq "$domid"
check "it is paused" grep -qE '^base .* --p' <(xl list)
check "it is sealed once" refused 'already' fork_probe seal "$domid" again
check "a picture of the host with it is taken" picture "$lab_state/with-template"

# ---- Forks
check "a fork is made" fork_probe fork "$domid" one
fork_probe fork "$domid" job $forks | sed 's/^/note - /'
check "it answers" zone_do one ping
check "with its template's memory" zone_do one check
mapfile -t jobs < <(fork_names job $forks)
check "$forks more, at once" ask_all ping "${jobs[@]}"
check "each with its template's memory" ask_all check "${jobs[@]}"
for name in "${jobs[@]}"; do is_whole "$name" || check "$name is whole" is_whole "$name"; done
check "a name that is taken is refused" refused 'job-1' fork_probe fork "$domid" job-1
check "what is no template is not forked" refused 'no template' fork_probe fork "$(zone_domid job-1)" x

# ---- As any domain
check "xl list -l knows a fork" xl_knows job-2
check "xl vcpu-list" grep -q '^job-2 ' <(xl vcpu-list job-2)
check "xl mem-set takes memory from it" xl mem-set job-2 100
total_under() { is "$(zone_do "$1" stat | value_of MemTotal)" -lt $(($2 * 1024)); }
check "and it follows" eventually 60 total_under job-2 100
# The guest's init does not heed it; its kernel must have heard of it.
taken_up() { is "$(xenstore-read "/local/domain/$(zone_domid "$1")/control/shutdown")" = ''; }
check "xl shutdown asks one" xl shutdown job-3
check "and it hears" eventually 20 taken_up job-3
check "it ends by itself" zone_say job-3 poweroff
is_down() { xl list | grep -qE "^$1 .* -.-s"; }
check "and is shut down" eventually 30 is_down job-3
check "and is destroyed" fork_probe destroy "$(zone_domid job-3)"
check "xl destroys one" xl destroy job-4
check "xl save takes one" xl save job-1 "$lab_state/job-1.save"

# ---- The store: what libxl makes for a restored domain, and what this plugin makes for a fork
# tree NAME: the domain's nodes and who may do what with them, without what is its own. (dom0 may
# read all there is, whether it is named or not.)
tree() {
    local domid uuid
    domid=$(zone_domid "$1")
    uuid=$(basename "$(xenstore-read "/local/domain/$domid/vm")")
    xenstore-ls -fp / | grep -E "^/(local/domain/(0/backend/[a-z]*/)?|libxl/)${domid}[/ ]|^/vm/$uuid" |
        sed -E "s/$uuid/UUID/g; s#/$domid([/\" ])#/N\1#g; s/[nr]$domid\b/&/g; s/\b([nrwb])$domid\b/\1N/g; s/\"$domid\"/\"N\"/; s/\(nN,r0\)/(nN)/" |
        grep -vE '/xenpack[/ ]|/data/|/(tty|start_time|name|port|vm|state) ' | sort
}
check "a fork is made to compare" fork_probe fork "$domid" twin
check "it answers" zone_do twin ping
check "xl restore brings the saved one back" xl restore "$lab_state/job-1.save"
check "with all its memory" zone_do job-1 check
tree twin >"$lab_state/fork.tree"
tree job-1 >"$lab_state/restored.tree"
check "their nodes are the same" diff "$lab_state/restored.tree" "$lab_state/fork.tree"
note "$(wc -l <"$lab_state/fork.tree") nodes"
diff <(xl list -l job-1 | tr -d ' ') <(xl list -l twin | tr -d ' ') | sed 's/^/note - /'

# ---- The end
for name in one twin job-1 job-2; do xl destroy "$name"; done
# Xen keeps some 100 bytes for each page that a template has ever shared, until it goes.
check "the host is as it was with the template" as_before "$lab_state/with-template" 1600
check "the template can be destroyed" fork_probe destroy "$domid"
check "every page and every node is back" as_before "$lab_state/empty"
