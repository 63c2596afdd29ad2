# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091
# lab: memory=2560 dom0=700M store=both timeout=600
# Guests write anything anywhere, fall silent, flood, disobey: each is named in status, the daemon
# lives, and no other zone's memory is touched because of it.
. /lab/lab.sh
. /lab/daemon.sh

printf '[host]\nreserve = 160M\nstart-reserve = 0M\nemergency = 40M\n[zone]\nfloor = 128M\n' >/etc/xenpack/xenpack.conf
check "the daemon starts" daemon_start
check "a good zone is created" zone_create good memory=256 maxmem=512 xenpack.heartbeat=5
check "a bad zone is created" zone_create bad memory=256 maxmem=512 xenpack.heartbeat=5
check "the good one is up" zone_up good
check "the bad one is up" zone_up bad
check "the good one is found" eventually 30 state_is good "steady"
check "the bad one is found" eventually 30 state_is bad "steady"
good_target=$(zone_target_kib good)
bad_target=$(zone_target_kib bad)
bad_domid=$(zone_domid bad)

good_untouched() { is "$(zone_target_kib good)" -eq "$good_target" && state_is good steady; }

# ---- Garbage in every key, by the guest itself
check "the reporter makes room" zone_do bad stop-reporter
long=$(head -c 2000 /dev/zero | tr '\0' x)
spoken=1000000
garbage() { # KEY VALUE
    check "garbage in $1: ${2:0:24}" zone_do bad store "$1" "$2"
}
sane() { # a report that can be read, so that the next fault is seen to be new
    local total
    total=$(zone_do bad stat | value_of MemTotal)
    spoken=$((spoken + 1))
    zone_do bad store data/xenpack/report "1 why=change n=$spoken up=$((90000000 + spoken)) hb=60 tot=$total av=$((total / 2))" >/dev/null
    eventually 10 state_is bad "steady growing shrinking" >/dev/null
}
for value in '""' -1 99999999999999999999999 nonsense '1 why=psi' 'a\x00b' "$long" \
    '1 why=low n=1 up=1 hb=5 tot=-5 av=1' '1 why=low n=1 up=1 hb=5 tot=99999999999 av=1'; do
    check "a report that can be read is" sane
    garbage data/xenpack/report "$value"
    check "it is named in status" eventually 10 named bad "cannot be read"
    check "and left at its size" is "$(zone_target_kib bad)" -eq "$bad_target"
done
garbage data/xenpack/report/below "a directory where a value belongs"
garbage data/meminfo_total -1
garbage data/meminfo_free nonsense
xenstore-write "/local/domain/$bad_domid/memory/meminfo" "$long"
check "the daemon answers" xenpack status
check "the good zone was not touched" good_untouched

# ---- A thousand writes a second
check "a flood" zone_do bad flood data/xenpack/report 3000
check "it is named in status" eventually 10 state_is bad flooding
check "the good zone was not touched" good_untouched
check "the good zone is served meanwhile" zone_do good alloc 250
check "it has grown" eventually 10 holds good -ge 300
check "and nothing in it was killed" never_killed good
check "it gives its memory back" zone_do good free all
check "the reporter speaks again" zone_do bad start-reporter
check "and when the flood is over it is heard" eventually 60 state_is bad "steady growing shrinking"

# ---- Silence
check "the reporter falls silent" zone_do bad stop-reporter
check "it is named in status" eventually 40 named bad "has been silent"
check "and left at its size" state_is bad stale
check "the reporter wakes up" zone_do bad start-reporter
check "and is heard" eventually 30 state_is bad "steady growing shrinking"

# ---- Disobedience
check "the bad zone's balloon is frozen" zone_do bad freeze-balloon
check "it is told a size" xenpack set bad --pin 400M
check "that it does not follow is named in status" eventually 40 named bad "does not grow as told"
check "its target goes back to what it holds" eventually 10 at_rest bad
check "the good zone still gets what it needs" zone_do good alloc 250
check "and nothing in it was killed" never_killed good
check "the good zone has lost no byte" zone_do good check
check "the balloon thaws" zone_do bad thaw-balloon
check "after its penalty it is asked again, and follows" eventually 60 holds bad -ge 395

# ---- Other agents, and a kernel without PSI
check "a zone with another agent is created" zone_create other memory=256 maxmem=512 xenpack.guest=off
check "and up" zone_up other
check "it is booting until something speaks" state_is other booting
check "its agent speaks" zone_do other store data/meminfo_total 240000
check "all of it" zone_do other store data/meminfo_free 10000
check "it is heard" eventually 10 field_is other agent xen-guest-agent
check "and grown by what it says" eventually 20 holds other -ge 290
check "its agent turns to garbage" zone_do other store data/meminfo_free -1
check "which is named" eventually 10 named other "cannot be read: data/meminfo_free"
check "so is more free than there is" zone_do other store data/meminfo_free 240001
check "that is named too" eventually 10 named other "240001 KiB is not between"
other_domid=$(zone_domid other)
xenstore-write "/local/domain/$other_domid/memory/meminfo" 300000
check "Qubes' key is heard before it" eventually 10 field_is other agent qubes
xenstore-write "/local/domain/$other_domid/memory/meminfo" "$long"
check "and named when it is garbage" eventually 10 named other "cannot be read: memory/meminfo"
check "a zone without PSI is created" zone_create nopsi memory=256 maxmem=512 xenpack.psi=off xenpack.heartbeat=5
check "and up" zone_up nopsi
check "it reports without" eventually 30 state_is nopsi "steady growing shrinking"
check "and says so" is "$(field nopsi pressure_percent)" = null
check "it gets what it needs" zone_do nopsi alloc 250 40
check "without a kill" never_killed nopsi
check "no ghosts in xenstore" no_ghosts
check "the daemon ends when told" daemon_stop
