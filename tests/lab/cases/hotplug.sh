# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2154
# lab: memory=2304 dom0=800M timeout=600
# block-xenpack and vif-xenpack, without the daemon and without forks: disks with and without an
# overlay, and networks that join their bridge when they may. What is refused says why and leaves
# nothing, and so does what is destroyed.
. /lab/lab.sh

scripts=/etc/xen/scripts
overlays=/var/lib/xenpack/overlays
mkdir -p /var/lib/xenpack
image=$lab_state/base.img
backend() { xenstore-read "/local/domain/0/backend/$1/$(zone_domid "$2")/$3/$4"; }
tag_is() { is "$(zone_do "$1" disk-read "$2" | value_of tag)" = "$3"; }
devices() { find /sys/block -name 'dm-*' -o -name 'loop*' | while read -r d; do [[ $(<"$d/size") == 0 ]] || echo "$d"; done; }
no_devices() { is "$(devices)" = ''; }
no_overlays() { is "$(find "$overlays" -type f 2>/dev/null)" = ''; }
port_of() { is "$(basename "$(readlink "/sys/class/net/$1/brport/bridge")")" = "$2"; }
no_port() { [[ -e /sys/class/net/$1 && ! -e /sys/class/net/$1/brport ]]; }
is_up() { [[ $(ip link show dev "$1") == *[\<,]UP[\>,]* ]]; }
reaches() { ping -c 1 -w 20 "$1"; }
gone() { ! zone_domid "$1"; }

# A disk of 16 MiB whose block 7 says "base".
{ printf 'base %.0s' {1..820} | head -c 4096; } | dd of="$image" bs=4096 seek=7 2>/dev/null
truncate -s 16M "$image"
sum=$(md5sum <"$image")
check "a bridge is made" bridge_make xenbr0 10.9.0.254/16

# ---- Two zones on one base, and a network for each
start=$(now_ms)
check "a zone with an overlay and a network is created" zone_create a memory=96 "xdisk=$image;" bridge=xenbr0 xenpack.net=10.9.0.1/16 xenpack.guest=off
note "created in $(seconds_since "$start") s"
check "another" zone_create b memory=96 "xdisk=$image;other.cow" bridge=xenbr0 xenpack.net=10.9.0.2/16 xenpack.guest=off
check "the first is up" zone_up a
check "the second is up" zone_up b
check "the first's disk is connected" is "$(backend vbd a 51712 hotplug-status)" = connected
check "its network is connected" is "$(backend vif a 0 hotplug-status)" = connected
check "both see the base" tag_is a 7 base
check "both" tag_is b 7 base
check "the first writes" zone_do a disk-write 7 first
check "and another block" zone_do a disk-write 4095 last
check "the second writes" zone_do b disk-write 7 second
check "the first has what it wrote" tag_is a 7 first
check "on its disk's last block too" tag_is a 4095 last
check "the second has its own" tag_is b 7 second
check "which has nothing of the first's" tag_is b 4095 ''
check "the base is as it was, to the bit" is "$(md5sum <"$image")" = "$sum"
check "the overlays are files, by their names" is "$(find $overlays -type f | wc -l)" -eq 2
check "one as it was told" test -f $overlays/other.cow
check "one by its domain and its disk" test -f "$overlays/xenpack-$(basename "$(xenstore-read "/local/domain/$(zone_domid a)/vm")")-51712"
check "they take little" is "$(du -k $overlays | cut -f1)" -lt 512
check "the first's network is on the bridge" port_of "vif$(zone_domid a).0" xenbr0
check "and up" is_up "vif$(zone_domid a).0"
check "the bridge reaches the first" reaches 10.9.0.1
check "and the second" reaches 10.9.0.2
check "an overlay in use is refused" bash -c '. /lab/lab.sh; trap - EXIT; ! zone_create c memory=96 "xdisk='"$image"';other.cow"'
check "with the reason" grep -q "another disk uses it" "$lab_state/c.xl"
check "and is still there" tag_is b 7 second
check "its file too" test -f $overlays/other.cow
check "the first can be destroyed" xl destroy a
check "the other" xl destroy b
check "no device is left" eventually 20 no_devices
check "no overlay is left" no_overlays
check "the base is as it was" is "$(md5sum <"$image")" = "$sum"

# ---- Without an overlay
check "a zone on the file itself is created" zone_create d memory=96 "xdisk=$image" xenpack.guest=off
check "and up" zone_up d
check "it writes" zone_do d disk-write 9 itself
check "its disk is connected" is "$(backend vbd d 51712 hotplug-status)" = connected
loop=$(backend vbd d 51712 node)
in_use() { # NAME WORD: no zone of that name comes of the disk, as another has it
    ! zone_create "$1" memory=96 "xdisk=$2" || return 1
    grep -q "in use by domain $(zone_domid d)" "$lab_state/$1.xl" || { cat "$lab_state/$1.xl" && return 1; }
}
check "the file, in use, is given to no other to write" in_use e "$image"
check "nor as the base of an overlay, while it is written to" in_use e "$image;"
ln -s "$image" "$lab_state/same.img"
check "by another name neither" in_use e "$lab_state/same.img"
check "its loop device, in use, is given to no other to write" bash -c '. /lab/lab.sh; trap - EXIT; ! zone_create e memory=96 "xdisk='"$loop"'"'
check "and it is told who has it" grep -q "in use by domain" "$lab_state/e.xl"
check "it is destroyed" xl destroy d
check "it has written to the file" grep -q itself "$image"
check "no device is left of it" eventually 20 no_devices
modprobe loop && losetup /dev/loop5 "$image"
check "a zone on a block device is created" zone_create f memory=96 xdisk=/dev/loop5 xenpack.guest=off
check "and up" zone_up f
check "it reads it" tag_is f 9 itself
check "it has the device itself" is "$(backend vbd f 51712 physical-device)" = 7:5
xl destroy f
check "which stays when it goes" is "$(cat /sys/block/loop5/size)" -gt 0
check "and can be taken away" eventually 20 losetup -d /dev/loop5

# ---- Refused
refused() { # TEXT WORD...: no zone comes of it, xl says why, and nothing is left
    local text=$1
    shift
    ! zone_create no memory=96 "$@" || return 1
    grep -q -- "$text" "$lab_state/no.xl" || { cat "$lab_state/no.xl" && return 1; }
    gone no && no_overlays && eventually 10 no_devices
}
check "a base that is not there" refused 'No such file' "xdisk=$lab_state/nosuch;"
check "a base that is a directory" refused 'neither a block device nor a file' xdisk=/var/lib
mkfifo "$lab_state/pipe.img"
check "a base that nobody would ever answer on" refused 'neither a block device nor a file' "xdisk=$lab_state/pipe.img;"
mount -t tmpfs -o size=16M full "$overlays" && truncate -s 96M "$lab_state/large.img"
check "an overlay for which there is no room" refused 'there is no room for what it will write' "xdisk=$lab_state/large.img;"
umount "$overlays"
check "an overlay somewhere else" refused 'the name of a file in' "xdisk=$image;/etc/x"
check "a bridge that is not there" refused 'there is no bridge' bridge=nosuch

# ---- A fork's network: not before it says who it is
check "a zone that passes for a fork is created, paused" zone_create g -p memory=96 xenpack.net=10.9.0.3/16 xenpack.guest=off
home=/local/domain/$(zone_domid g)
xenstore-write "$home/xenpack/fork/state" building "$home/xenpack/fork/generation" here
check "a network is given to it" xl network-attach g bridge=xenbr0 script=vif-xenpack
vif=vif$(zone_domid g).0
check "it is connected" is "$(backend vif g 0 hotplug-status)" = connected
check "and on no bridge" no_port "$vif"
check "but up" is_up "$vif"
xl unpause g
check "it is up" zone_up g
check "it is not reached" bash -c '! ping -c 1 -w 3 10.9.0.3'
check "it is told to join" $scripts/vif-xenpack join "$vif" xenbr0
check "and is on the bridge" port_of "$vif" xenbr0
check "told twice it is no failure" $scripts/vif-xenpack join "$vif" xenbr0
check "it is reached" eventually 30 reaches 10.9.0.3
check "a bridge that is not there is refused" bash -c "! $scripts/vif-xenpack join $vif nosuch 2>$lab_state/said && grep -q 'there is no bridge nosuch' $lab_state/said"
xenstore-write "$home/data/xenpack/fork" "here ready"
check "another network of one that has said it is ready" xl network-attach g bridge=xenbr0 script=vif-xenpack
check "joins at once" port_of "vif$(zone_domid g).1" xenbr0
xl destroy g

# ---- How long they take
time_of() { # N COMMAND...: of N runs, one after the other, the mean in ms
    local n=$1 i start
    shift
    start=$(now_ms)
    for ((i = 0; i < n; i++)); do "$@" >/dev/null 2>&1; done
    printf '%s' "$((($(now_ms) - start) / n))"
}
note "starting vif-xenpack to no end takes $(time_of 20 $scripts/vif-xenpack) ms, xenstore-read $(time_of 20 xenstore-read /local/domain/0/name) ms, busybox true $(time_of 20 /bin/busybox true) ms, xl's own scripts' shell $(time_of 20 bash -c true) ms"
check "no device is left in the end" eventually 20 no_devices
check "no overlay either" no_overlays
