# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash disable=SC1091,SC2020,SC2154
# lab: memory=2304 dom0=700M timeout=700
# Ten zones are started at once on a nearly full host, others have to give memory first: all run, and
# nothing that was promised is used twice. What cannot be served is refused with what is missing, and
# neither a killed daemon nor a killed client leaves a promise behind or loses one.
. /lab/lab.sh
. /lab/daemon.sh

plugin=/usr/lib/xenpack/xenpack-libxl.so
[[ -e $plugin ]] || plugin=$(echo /usr/lib/*/xenpack/xenpack-libxl.so)
printf '[host]\nreserve = 32M\nstart-reserve = 0M\nemergency = 40M\n[zone]\nfloor = 96M\n' >/etc/xenpack/xenpack.conf
mkdir -p /var/lock # xl's
# Ten xl at once, on one emulated processor: their consoles must answer within libxl's 10 s all the same.
xl sched-credit2 -d 0 -w 4096
renice -n -15 -p "$(pidof xenconsoled)" "$(pidof oxenstored xenstored)" >/dev/null
head -c 1 /dev/random >/dev/null # xl makes uuids, slowly where the kernel has no random numbers yet

host_kib() { plugin_probe "$plugin" host | value_of "$1"; }

# The object of that owner's reservation, on one line; and one of its fields.
reservation() {
    xenpack status --json | tr -d '\n' | tr '{}' '\n\n' | grep "\"owner\": *\"$1\"" || { xenpack status && return 1; }
}
reservation_field() { reservation "$1" | sed -n "s/.*\"$2\": *\"\{0,1\}\([^\",]*\).*/\1/p"; }
reserved_as() { reservation "$1" | grep -q "\"state\": *\"$2\""; }
not_reserved() { ! reservation "$1" >/dev/null; }

# ---- What a start costs, beside what Xen then lacks. (Nothing else may run: a guest that reboots gives
# its memory back and takes it again.)
settled() { # all freed pages are scrubbed
    is "$(host_kib scrub_kib)" -eq 0
}
cost_is_exact() { # MEMORY MAXMEM VCPUS
    local before lost predicted
    before=$(host_kib free_kib)
    zone_create shape memory="$1" maxmem="$2" vcpus="$3" -p || return 1
    lost=$((before - $(host_kib free_kib)))
    xl create -q --dryrun "$lab_state/shape.cfg" >"$lab_state/shape.json" 2>/dev/null
    predicted=$(plugin_probe "$plugin" cost <"$lab_state/shape.json" | value_of whole_kib)
    printf '%s' "$predicted KiB predicted, $lost KiB lost" >"$lab_state/shape.note"
    xl destroy shape
    eventually 10 settled && is "$predicted" -ge "$lost" && is "$predicted" -le $((lost + 2048))
}
for shape in "128 128 1" "128 1024 2" "200 400 4"; do
    # shellcheck disable=SC2086 # three arguments
    check "the cost of memory, maxmem and vcpus of $shape is predicted to 2 MiB and never too low" cost_is_exact $shape
    note "$shape: $(<"$lab_state/shape.note")"
done

# ---- Ten at once
for zone in donor1 donor2; do
    check "$zone is created" zone_create "$zone" memory=620 maxmem=700 xenpack.heartbeat=5
done
for zone in donor1 donor2; do check "$zone is up" zone_up "$zone"; done
as_its_unit_says() { renice -n -10 -p "$(daemon_pid)" >/dev/null; }
check "the daemon starts" daemon_start
as_its_unit_says
for zone in donor1 donor2; do
    check "$zone reports" eventually 30 state_is "$zone" "steady shrinking growing"
done
# One is a Linux; nine only sleep, as ten that boot would take the emulation minutes.
starts=(s0 s1 s2 s3 s4 s5 s6 s7 s8 s9)
for zone in "${starts[@]}"; do
    printf '%s\n' 'type = "pvh"' "name = \"$zone\"" 'kernel = "/usr/bin/idle_kernel"' 'memory = 112' 'maxmem = 128' \
        'tsc_mode = "native"' >"$lab_state/$zone.cfg"
done
printf '%s\n' 'kernel = "/lab/guest/vmlinux"' "ramdisk = \"$lab_state/guest.cpio\"" \
    'cpu_weight = 16' 'extra = "console=hvc0 quiet loglevel=4 mitigations=off init_on_alloc=0 pci=noearly xenpack.guest=off"' >>"$lab_state/s0.cfg"
zone_skip s0
note "free in Xen: $(xen_free_mib) MiB, for ten starts of 112 MiB and more"
check "there is not enough free for all" is "$(xen_free_mib)" -lt 900

# What is free and what is promised, each second.
xenpack status --watch --json >"$lab_state/monitor.json" &
monitor_pid=$!
renice -n -10 -p "$monitor_pid" >/dev/null
start=$(now_ms)
declare -A pids
for zone in "${starts[@]}"; do
    xenpack create --wait 5m -q "$lab_state/$zone.cfg" >"$lab_state/$zone.out" 2>&1 </dev/null &
    pids[$zone]=$!
done
created() { is "$status" -eq 0 || { cat "$lab_state/$1.out" && return 1; }; }
for zone in "${starts[@]}"; do
    status=0
    wait "${pids[$zone]}" || status=$?
    check "$zone is started" created "$zone"
done
note "ten starts in $(seconds_since "$start") s; free in Xen now: $(xen_free_mib) MiB"
kill "$monitor_pid"
sed -n 's/.*"free_kib":\([0-9]*\).*"promised_to_starts_kib":\([0-9]*\).*/\1 \2/p' "$lab_state/monitor.json" >"$lab_state/monitor.log"
most=$(sort -n -k 2 "$lab_state/monitor.log" | tail -n 1 | cut -d ' ' -f 2)
note "$(wc -l <"$lab_state/monitor.log") looks at what is free and what is promised; most promised at once: $most KiB"
check "promises were seen" is "$most" -gt 100000
# Twice in a row: between the daemon's look at the domains and at what is free, Xen goes on.
never_over_promised() { awk '$1 + 4096 < $2 { if (over++) { print; bad = 1 } next } { over = 0 } END { exit bad }' "$lab_state/monitor.log"; }
check "never was more promised than was free" never_over_promised
check "others had to give" daemon_said 'a start waits for'
check "some had to wait" daemon_said 'starts wait for'
check "nothing is promised any more" eventually 20 not_reserved '.*'
# Nothing in them reports: they have run, and that is all that is known.
for zone in "${starts[@]}"; do check "$zone runs" eventually 20 state_is "$zone" booting; done
check "the Linux among them is up" zone_up s0

# ---- What cannot be served
sed 's/^memory = .*/memory = 3000/; s/^maxmem = .*/maxmem = 3000/; s/"s1"/"vast"/' "$lab_state/s1.cfg" >"$lab_state/vast.cfg"
refused() {
    local said status=0
    said=$(xenpack create "$lab_state/vast.cfg" 2>&1) || status=$?
    printf '%s\n' "$said"
    is "$status" -eq 75 && [[ $said == *"vast needs 30"*" MiB are missing: "* ]]
}
quickest=100000
for try in first second third; do # the machine may be busy with others
    start=$(now_ms)
    check "a start that cannot be served is refused with what is missing, $try try" refused
    took=$(($(now_ms) - start))
    note "refused in $took ms, xl's own reading of the configuration included"
    ((took >= quickest)) || quickest=$took
done
check "in under a second" is "$quickest" -lt 1000

# ---- Left paused: it never runs, and has its memory all the same
zone_destroy s1
sed 's/"s1"/"still"/' "$lab_state/s1.cfg" >"$lab_state/still.cfg"
check "a start that xl leaves paused" xenpack create -q -p "$lab_state/still.cfg"
check "is there, paused" eventually 5 named still 'it is being built'
check "and holds no promise any more" eventually 10 not_reserved still
zone_destroy still

# ---- Killed daemon, killed client. A start that takes no memory: xl prints and sleeps.
mkdir -p "$lab_state/fake"
cat >"$lab_state/fake/xl" <<'END'
#!/bin/bash
last=${2/--dryrun/$3}
[[ $2 != --dryrun ]] || exec sed "s/@NAME@/$last/; s/@KIB@/$(<"/run/lab/$last.kib")/; s/@UUID@/$(printf '%012d' ${#last})/" /run/lab/fake.json
exec sleep 1000
END
chmod +x "$lab_state/fake/xl"
xl create -q --dryrun "$lab_state/s1.cfg" 2>/dev/null |
    sed 's/"name": "s1"/"name": "@NAME@"/; s/\("[a-z]*_memkb"\): [0-9]*/\1: @KIB@/
        s/\("uuid": ".*-\)[0-9a-f]*"/\1@UUID@"/' >"$lab_state/fake.json"
reserve_for() { # NAME KIB
    printf '%s' "$2" >"$lab_state/$1.kib"
    PATH=$lab_state/fake:$PATH xenpack create --wait 5m "$1" >"$lab_state/$1.out" 2>&1 </dev/null &
    printf '%s' $! >"$lab_state/$1.pid"
}
zone_destroy s0 s2 s3 s4 s5 s6 s7
# It speaks once, and not again until something happens in it: nothing is taken from it before that.
check "another donor is created" zone_create donor3 memory=400 maxmem=512 xenpack.heartbeat=600
check "and up" zone_up donor3
check "and reports" eventually 30 state_is donor3 "steady shrinking growing"
reserve_for now $((64 * 1024))
check "one is granted at once" eventually 30 reserved_as now granted || cat "$lab_state/now.out"
# More than there is with all that the first two donors could give.
reserve_for later $((($(xen_free_mib) + 90) * 1024))
check "another waits" eventually 30 reserved_as later waiting || cat "$lab_state/later.out"
ids="$(reservation_field now id) $(reservation_field later id)"
check "the daemon is killed" daemon_kill
check "it starts again" daemon_start
as_its_unit_says
check "what was granted is kept" reserved_as now granted
check "so is what waits" reserved_as later waiting
check "both as they were" is "$(reservation_field now id) $(reservation_field later id)" = "$ids"
check "the donor speaks" zone_do donor3 alloc 60
check "what waits is granted in the end" eventually 60 reserved_as later granted || cat "$lab_state/later.out"
kill -KILL "$(<"$lab_state/now.pid")"
check "a killed client's memory is released" eventually 5 not_reserved now
check "and that is said" daemon_said 'not kept for now \(process [0-9]+\) any more: its owner has ended'
kill -TERM "$(<"$lab_state/later.pid")"
check "and so is an interrupted one's" eventually 5 not_reserved later

# ---- Others that change memory
second_daemon() {
    local said status=0
    printf '[daemon]\nsocket = /run/elsewhere/x.sock\n' >"$lab_state/second.conf"
    said=$(timeout 20 /usr/sbin/xenpackd --config "$lab_state/second.conf" 2>&1) || status=$?
    printf '%s\n' "$said"
    is "$status" -eq 69 && [[ $said == *"already running on this host (process $(daemon_pid))"* ]]
}
check "a second daemon is refused, though its socket is another" second_daemon
xl mem-set donor3 300
check "a target set by a person is said" eventually 10 daemon_said 'donor3 .*-> 300 MiB: its target was set by something else'
for mib in 310 320 330; do
    xl mem-set donor3 $mib
    eventually 10 told_the_same donor3 >/dev/null
done
check "a target that is set again and again is another balancer's" eventually 10 daemon_said 'donor3 .*fault: something else keeps changing its target'
check "and status says so" named donor3 'another balancer'
printf 'autoballoon="on"\n' >/etc/xen/xl.conf
sed 's/"s1"/"plain"/; s/^memory = .*/memory = '$(($(xen_free_mib) + 8))'/; /^maxmem/d' "$lab_state/s1.cfg" >"$lab_state/plain.cfg"
autoballoon_named() {
    xl create -q "$lab_state/plain.cfg"
    daemon_said "dom0's target was lowered .*: xl's autoballoon shrinks dom0; set autoballoon"
}
check "xl's autoballoon is named" autoballoon_named
: >/etc/xen/xl.conf
check "the daemon ends when told" daemon_stop
