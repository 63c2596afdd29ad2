# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: xen=memshr memory=2304 dom0=800M timeout=900
# The plugin's half of templates and forks where the zone has a disk and a network, without the
# daemon: each fork has its own of both, by the same numbers, its template's disk is nobody's to
# write to, and nothing is left.
. /lab/lab.sh
. /lab/forks.sh

sealed() { fork_probe seal "$(zone_domid "$1")" "$2" && is_sealed "$2"; }
scripts=/etc/xen/scripts
image=$lab_state/base.img
mkdir -p /var/lib/xenpack
truncate -s 16M "$image"
tag_is() { is "$(zone_do "$1" disk-read "$2" | value_of tag)" = "$3"; }
vif() { printf 'vif%s.0' "$(zone_domid "$1")"; }
port_of() { is "$(basename "$(readlink "/sys/class/net/$1/brport/bridge")")" = "$2"; }
no_port() { [[ -e /sys/class/net/$1 && ! -e /sys/class/net/$1/brport ]]; }
mac() { xl network-list "$1" | awk 'NR == 2 { print $3 }'; }
backends() { xenstore-ls -f /local/domain/0/backend | grep -cE "/(vbd|vif)/$(zone_domid "$1")/"; }
check "a bridge is made" bridge_make xenbr0 10.9.0.254/16
check "a picture of the host is taken" picture "$lab_state/bridge"
check "a zone with a disk and a network is created" zone_create db memory=128 "xdisk=$image" bridge=xenbr0 xenpack.net=10.9.0.1/16 xenpack.guest=off
check "and up" zone_up db
check "it writes to its disk" zone_do db disk-write 7 first
domid=$(zone_domid db)
check "it is sealed" sealed db dbbase
check "its backends are gone" is "$(backends dbbase)" -eq 0
sum=$(md5sum <"$image")
check "a fork is made" fork_probe fork "$domid" a
note "$(fork_probe fork "$domid" b)"
check "it answers" zone_do a ping
check "so does another" zone_do b ping
check "each has one disk" is "$(xl block-list a | wc -l) $(xl block-list b | wc -l)" = "2 2"
check "and one network" is "$(xl network-list a | wc -l) $(xl network-list b | wc -l)" = "2 2"
check "with an address of its own" is "$(mac a)" != "$(mac b)"
note "$(mac a) $(mac b)"
check "it reads its template's disk" tag_is a 7 first
check "so does the other" tag_is b 7 first
check "it writes to it" zone_do a disk-write 9 own
check "and has what it wrote" tag_is a 9 own
check "which the other has not" tag_is b 9 ''
check "its network is on no bridge yet" no_port "$(vif a)"
check "it joins when told so" "$scripts/vif-xenpack" join "$(vif a)" xenbr0
check "and is on it" port_of "$(vif a)" xenbr0
check "and is reached" eventually 30 ping -c 1 -w 5 10.9.0.1
check "xl list -l knows its devices" grep -q block-xenpack <(xl list -l a)
check "xl save takes one with devices" xl save a "$lab_state/a.save"
check "nothing of its disk is left" is "$(find /var/lib/xenpack/overlays -type f | wc -l)" -eq 1
rm -f "$lab_state/a.save"
fork_probe fork "$domid" many 4 | sed 's/^/note - /'
mapfile -t many < <(fork_names many 4)
check "four more, at once" ask_all ping "${many[@]}"
check "the base is as it was" is "$(md5sum <"$image")" = "$sum"
for name in b "${many[@]}"; do xl destroy "$name"; done
check "the template can be destroyed" fork_probe destroy "$domid"
check "every page, node, device and file is back" as_before "$lab_state/bridge" 256
