# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2034
# lab: memory=3072 dom0=700M timeout=420
# The lab itself: dom0 works, a zone comes up, its workload keeps its bytes, and its memory follows
# its target. Needs no daemon: if this fails, no other case means anything.
. /lab/lab.sh

# follows NAME MIB: MemTotal moves to the target less what the kernel never gave out.
total_kib() { zone_do z stat | value_of MemTotal; }
within() { is "$(zone_current_kib z)" -le "$1" && is "$(zone_current_kib z)" -ge "$2"; }

figures() {
    local target current total
    target=$(zone_target_kib z) current=$(zone_current_kib z) total=$(total_kib)
    note "target $target KiB, Xen $current KiB ($(((current - target) / 4)) pages more), MemTotal $total KiB ($((target - total)) less)"
}

# mem_set MIB: and how long until Xen has counted the pages in or out.
mem_set() {
    local start from=$(($(zone_current_kib z) / 1024))
    start=$(now_ms)
    xl mem-set z "$1"
    note "xl mem-set $1 took $(seconds_since "$start") s"
    check "the guest follows a target of $1 MiB" eventually 60 within $((($1 + 1) * 1024)) $((($1 - 1) * 1024))
    note "from $from to $1 MiB in $(seconds_since "$start") s"
    figures
}

check "xl works" xl list
check "Xen has memory left for zones" is "$(xen_free_mib)" -gt 1000
start=$(now_ms)
check "a zone is created" zone_create z memory=256 maxmem=512
note "created in $(seconds_since "$start") s"
check "its workload is up" zone_up z
note "up in $(seconds_since "$start") s"
check "pressure is measured in it" zone_do z stat
note "$(zone_do z stat)"
figures
check "it allocates memory" zone_do z alloc 100
check "it keeps every byte" zone_do z check
mem_set 400
check "it can use what it was given" zone_do z alloc 150
check "and keeps every byte of it" zone_do z check
note "$(zone_do z stat)"
check "it gives memory back" zone_do z free 200
mem_set 150
check "it keeps every byte in less memory" zone_do z check
note "$(zone_do z stat)"

check "a frozen balloon is reported" zone_do z freeze-balloon
xl mem-set z 300
sleep 3 # nothing happens, and nothing tells so
check "a zone with a frozen balloon ignores its target" within $((151 * 1024)) $((149 * 1024))
check "it thaws" zone_do z thaw-balloon
check "and follows again" eventually 60 within $((301 * 1024)) $((299 * 1024))

check "a guest writes to xenstore" zone_do z store data/hello world
check "dom0 reads it" is "$(xenstore-read "/local/domain/$(zone_domid z)/data/hello")" = world
check "any byte can be written" zone_do z store data/nul 'a\x00b'
check "it can write often" zone_do z flood data/flood 200

check "too large a workload is killed and started again" bash -c '. /lab/lab.sh; trap - EXIT
    zone_say z alloc 600 && zone_expect z "^work: KILLED" 120 && zone_up z 60'
check "the kill is counted" test "$(zone_do z stat | value_of oom_kill)" -ge 1
domid=$(zone_domid z)
check "it reboots as another domain" bash -c '. /lab/lab.sh; trap - EXIT
    zone_do z reboot; zone_up z 120'
check "with another number" is "$(zone_domid z)" -gt "$domid"
zone_destroy z
check "it is gone when destroyed" eventually 10 bash -c '! xl domid z'
