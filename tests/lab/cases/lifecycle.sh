# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091
# lab: memory=2304 dom0=700M store=both timeout=600
# Domains come, reboot, pause, crash, are saved, destroyed and killed at the worst moment, and the
# daemon is killed and started again: nothing wrong is written, no ghost is left, and it goes on.
. /lab/lab.sh
. /lab/daemon.sh

xenstore_of() { xenstore-ls "/local/domain/$1" 2>/dev/null; }
target_is() { is "$(xenstore-read "/local/domain/$1/memory/target")" = "$2"; }
unchanged_for() { # SECONDS DOMID: its target does not move while others would have it
    local before
    before=$(xenstore-read "/local/domain/$2/memory/target")
    sleep "$1" # that nothing happens is what is to be seen
    target_is "$2" "$before"
}

printf '[host]\nreserve = 160M\nstart-reserve = 0M\nemergency = 40M\ndom0-floor = 640M\n[zone]\nfloor = 128M\n[zone plain]\nmanage = no\n' >/etc/xenpack/xenpack.conf

# ---- The wrong hypervisor
minor=$(</sys/hypervisor/version/minor)
printf '%s\n' 99 >/run/lab/minor && mount --bind /run/lab/minor /sys/hypervisor/version/minor
wrong_version() {
    local said status=0
    said=$(timeout 20 /usr/sbin/xenpackd 2>&1) || status=$?
    umount /sys/hypervisor/version/minor
    printf '%s\n' "$said"
    is "$status" -eq 78 && is "$(wc -l <<<"$said")" -eq 1 && grep -q "4.99" <<<"$said" && grep -q "4.$minor" <<<"$said"
}
check "another hypervisor's version is one clear line and exit status 78" wrong_version

# ---- The plugin's own short way to a target, beside libxl's
plugin=/usr/lib/xenpack/xenpack-libxl.so
[[ -e $plugin ]] || plugin=$(echo /usr/lib/*/xenpack/xenpack-libxl.so)
check "a zone to compare with is created" zone_create p memory=160 maxmem=256 xenpack.guest=off
check "and up" zone_up p
for kib in 200000 150000; do
    check "the short way to $kib KiB leaves all as libxl's way does" plugin_probe "$plugin" compare "$(zone_domid p)" $kib
done
check "the zone follows" eventually 20 at_rest p
xl destroy p

# ---- Coming and going
check "the daemon starts" daemon_start
check "a zone is created" zone_create a memory=256 maxmem=512 xenpack.heartbeat=5 on_crash=destroy
check "it is up" zone_up a
check "it is found" eventually 30 state_is a "steady growing shrinking"
check "a domain without a range is created" zone_create plain memory=128 maxmem=256 xenpack.guest=off
check "it is left alone, and the reason told" eventually 20 named plain "manage = no"
first=$(zone_domid a)
check "the zone reboots" zone_say a reboot
check "and is up again" zone_up a
second=$(zone_domid a)
check "as another domain" is "$second" -ne "$first"
check "which is found" eventually 30 state_is a "steady growing shrinking"
check "its old self is gone from status" is "$(field a domid)" = "$second"
check "and from xenstore" no_ghosts

# ---- Paused: left alone
xl pause a
check "a paused zone is seen as such" state_is a paused
xenstore-write "/local/domain/$second/data/xenpack/report" "1 why=low n=9000 up=99999999 hb=5 tot=250000 av=1000"
check "and left alone, whatever it reports" unchanged_for 2 "$second"
xl unpause a
check "unpaused, it is taken up again" eventually 30 state_is a "steady growing shrinking waiting"
check "it is told to grow" xenpack set a --pin 480M
xl pause a
check "paused on its way, it is not told anything else" unchanged_for 8 "$second"
xl unpause a
check "unpaused, it goes on" eventually 30 holds a -ge 475
check "it is let go again" xenpack set a --auto

# ---- Two of one name, one after the other
xl destroy a
check "a destroyed zone is forgotten" eventually 10 forgotten a
check "another of its name is created" zone_create a memory=256 maxmem=512 xenpack.heartbeat=5 on_crash=destroy
check "and up" zone_up a
third=$(zone_domid a)
check "it is found under its own domid" eventually 30 field_is a domid "$third"

# ---- Killed between an event and its handling
kill -STOP "$(daemon_pid)"
check "its report waits while the daemon is held" zone_do a alloc 150
xl destroy a
kill -CONT "$(daemon_pid)"
check "a report of a domain that has been killed since does no harm" xenpack status
check "it leaves no ghost" no_ghosts

# ---- A domid used again for another domain, while the daemon does not look
check "a zone whose domid will be used again is created" zone_create a memory=256 maxmem=512 xenpack.heartbeat=5
check "and up" zone_up a
check "and found" eventually 30 state_is a "steady growing shrinking"
fourth=$(zone_domid a)
kill -STOP "$(daemon_pid)"
check "its report waits while the daemon is held" zone_do a alloc 150
xl destroy a
check "another domain takes the same domid" bare_domain "$fourth" reused 131072
kill -CONT "$(daemon_pid)"
xenstore-write "/local/domain/$fourth/data/xenpack/report" "1 why=low n=9001 up=99999999 hb=5 tot=120000 av=1000"
check "it is not taken for the one before" eventually 10 forgotten a
check "but for what it is" named reused '"why"'
check "and its target is not written" unchanged_for 2 "$fourth"
check "which is as it was made" target_is "$fourth" 131072
xl destroy "$fourth"
xenstore-rm "/local/domain/$fourth" # libxl forgets only what it has made
check "no ghost of it" no_ghosts

# ---- The configuration
cp /etc/xenpack/xenpack.conf /run/lab/good.conf
printf '[host]\nreserve = lots\n' >/etc/xenpack/xenpack.conf
bad_reload() {
    local said status=0
    said=$(xenpack reload 2>&1) || status=$?
    printf '%s\n' "$said"
    is "$status" -ne 0 && grep -q 'xenpack.conf:2: ' <<<"$said"
}
check "a bad configuration is refused, with its line" bad_reload
check "and the last good one stays" daemon_said 'the last good one stays'
cp /run/lab/good.conf /etc/xenpack/xenpack.conf
check "a good one is taken" xenpack reload

# ---- dom0 keeps its floor
dom0_mib() { is "$(($(zone_current_kib Domain-0) / 1024))" "$@"; }
xl mem-set 0 560
check "dom0, told by someone to go under its floor, is told otherwise" eventually 20 daemon_said 'dom0 was told to go under its floor'
check "and has its floor again" eventually 20 dom0_mib -ge 638

# ---- Crash
check "a zone that will crash is created" zone_create c memory=256 maxmem=512 xenpack.heartbeat=5 on_crash=destroy
check "and up" zone_up c
check "and found" eventually 30 state_is c "steady growing shrinking"
zone_say c panic
check "a crashed zone is forgotten" eventually 40 forgotten c
check "no ghost of it either" no_ghosts

# ---- The daemon is killed in the middle
check "a zone for the daemon's restart is created" zone_create d memory=256 maxmem=640 xenpack.heartbeat=5
check "and up" zone_up d
check "and found" eventually 30 state_is d "steady growing shrinking"
check "a setting is made" xenpack set d --weight 300
check "the work begins" zone_say d alloc 350 20
check "the daemon grows it" eventually 30 holds d -ge 300
check "the daemon is killed in the middle" daemon_kill
check "it starts again" daemon_start
check "the work is done" zone_expect d '^work: alloc ok' 120
check "no byte is lost" zone_do d check
check "it has its zone again" eventually 20 state_is d "steady growing shrinking"
check "and what it was told" is "$(field d weight)" -eq 300
check "nothing was killed" never_killed d
check "it goes on growing it" holds d -ge 400

# ---- Saved: left alone, and itself again afterwards
xl destroy d
check "a zone to be saved is created" zone_create s memory=160 maxmem=256 xenpack.heartbeat=5
check "and up" zone_up s
check "and found" eventually 30 state_is s "steady growing shrinking"
check "it works" zone_do s alloc 20
check "its target comes to rest" eventually 20 state_is s steady
size=$(zone_target_kib s)
check "it is saved" xl save s /run/lab/s.save
check "a saved zone is gone" eventually 10 forgotten s
check "no ghost is left of it" no_ghosts
check "it is restored" xl restore /run/lab/s.save
check "with the size it had" is "$(zone_target_kib s)" -eq "$size"
check "it has lost no byte" zone_do s check
check "and is found again" eventually 30 state_is s "steady growing shrinking"
check "no ghosts in the end" no_ghosts
check "the daemon ends when told" daemon_stop
