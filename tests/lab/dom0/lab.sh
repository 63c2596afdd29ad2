# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# What a case has at hand inside the lab's dom0: zones with workloads, the daemon, and checks.
# Sourced by every case and by the interactive shell. A check never ends a case; the exit status
# tells whether one failed, and then everything that was heard is printed for whoever reads it.

lab_state=/run/lab
lab_consoles=/var/log/xen/console
lab_daemon_log=/var/log/xenpackd.log
lab_failures=0

# ---- Checks.

now_ms() { printf '%s' "$((${EPOCHREALTIME/[.,]/} / 1000))"; }

seconds_since() {
    local ms=$(($(now_ms) - $1))
    printf '%d.%02d' "$((ms / 1000))" "$((ms % 1000 / 10))"
}

# check "promise" command...: holds if the command succeeds; what it printed explains a failure.
check() {
    local promise=$1 start output
    shift
    start=$(now_ms)
    if output=$("$@" 2>&1); then
        printf 'ok - %s (%s s)\n' "$promise" "$(seconds_since "$start")"
    else
        printf 'FAILED - %s (%s s)\n' "$promise" "$(seconds_since "$start")"
        printf '    tried: %s\n' "$*"
        [[ -z $output ]] || printf '    saw: %s\n' "${output//$'\n'/$'\n    saw: '}"
        lab_failures=$((lab_failures + 1))
        return 1
    fi
}

# A figure worth reading in the report; not a check.
note() { printf 'note - %s\n' "$*"; }

# eventually SECONDS command...: succeeds as soon as the command does. For facts that no event tells.
eventually() {
    local due output
    due=$(($(now_ms) + $1 * 1000))
    shift
    until output=$("$@" 2>&1); do
        if (($(now_ms) >= due)); then
            printf '%s\n' "$output"
            return 1
        fi
        sleep 0.1
    done
    [[ -z $output ]] || printf '%s\n' "$output"
}

# is NUMBER OPERATOR NUMBER, with what it saw when it is not so: is "$a" -ge 5
is() { test "$@" || { printf 'it is not so that %s\n' "$*" && return 1; }; }

# ---- Zones. NAME is the domain's name; a name may be used again when its domain is gone.

zone_domid() { xl domid "$1" 2>/dev/null; }
zone_log() { printf '%s/guest-%s.log' "$lab_consoles" "$1"; }

# (Native TSC: emulated, as Xen prefers on this processor, every clock reading leaves the guest.)
# zone_create NAME WORD...: creates a PVH zone. memory=, maxmem=, vcpus=, on_crash=, on_reboot=,
# on_poweroff=, cpus= go to xl's configuration, "-p" and the like to xl, and other words to its kernel.
# disk=FILE: the file is its disk, read-only. xdisk=PARAMS: a disk that it may write to, by
# block-xenpack. bridge=NAME: a network there, by vif-xenpack; its address is for xenpack.net= to say.
zone_create() {
    local name=$1 word config=$lab_state/$1.cfg options=()
    local extra="console=hvc0 ${ZONE_LOG:-quiet loglevel=4} mitigations=off init_on_alloc=0 rcupdate.rcu_expedited=1"
    extra+=' cryptomgr.notests audit=0 lsm= pci=noearly xen_scrub_pages=0'
    shift
    printf '%s\n' 'type = "pvh"' "name = \"$name\"" 'kernel = "/lab/guest/vmlinux"' \
        "ramdisk = \"$lab_state/guest.cpio\"" 'tsc_mode = "native"' 'pool = "zones"' >"$config"
    for word in "$@"; do
        case $word in
            memory=* | maxmem=* | vcpus=*) printf '%s = %s\n' "${word%%=*}" "${word#*=}" >>"$config" ;;
            disk=*)
                modprobe loop && modprobe xen-blkback
                printf "disk = ['format=raw,vdev=xvda,access=ro,backendtype=phy,script=/lab/disk.sh,target=%s']\n" \
                    "${word#*=}" >>"$config"
                extra+=' xenpack.disk'
                ;;
            xdisk=*)
                modprobe -a loop dm-snapshot xen-blkback
                printf "disk = ['format=raw,vdev=xvda,access=rw,backendtype=phy,script=block-xenpack,target=%s']\n" \
                    "${word#*=}" >>"$config"
                extra+=' xenpack.disk'
                ;;
            bridge=*)
                modprobe xen-netback
                printf "vif = ['bridge=%s,script=vif-xenpack']\n" "${word#*=}" >>"$config"
                ;;
            on_*=* | cpus=*) printf '%s = "%s"\n' "${word%%=*}" "${word#*=}" >>"$config" ;;
            -*) options+=("$word") ;;
            *) extra+=" $word" ;;
        esac
    done
    printf 'extra = "%s"\n' "$extra" >>"$config"
    zone_skip "$name"
    # To a file: xl stays to watch the domain, and would hold a pipe open.
    local status=0
    xl create -q "${options[@]}" "$config" 2>"$lab_state/$name.xl" || status=$?
    grep -v '^got a tsc mode' "$lab_state/$name.xl" >&2
    return $status
}

# bridge_make NAME ADDRESS: a bridge of dom0's, as 10.9.0.254/16.
bridge_make() {
    modprobe bridge && brctl addbr "$1" && ip address add "$2" dev "$1" && ip link set "$1" up
}

# Forget what the zone's console has said so far.
zone_skip() {
    local size=0
    [[ ! -e $(zone_log "$1") ]] || size=$(stat -c %s "$(zone_log "$1")")
    printf '%s' "$size" >"$lab_state/$1.offset"
}

# zone_expect NAME REGEX SECONDS: the next line of the console that matches; what is before it is passed over.
zone_expect() {
    local found offset=0
    [[ ! -e $lab_state/$1.offset ]] || offset=$(<"$lab_state/$1.offset")
    if ! found=$(await-line "$(zone_log "$1")" "$offset" "$(($3 * 1000))" "$2"); then
        printf '%s said nothing like "%s" in %s s; its last words:\n' "$1" "$2" "$3"
        tail -n 5 "$(zone_log "$1")" 2>/dev/null
        return 1
    fi
    printf '%s' "${found%%$'\t'*}" >"$lab_state/$1.offset"
    printf '%s\n' "${found#*$'\t'}"
}

# zone_up NAME [SECONDS]: waits until the workload takes commands.
zone_up() { zone_expect "$1" '^work: ready' "${2:-120}"; }

# zone_say NAME COMMAND...: sends one command to the workload and does not wait.
zone_say() {
    local domid terminal
    domid=$(zone_domid "$1") || { printf 'there is no zone %s\n' "$1" && return 1; }
    terminal=$(xenstore-read "/local/domain/$domid/console/tty") || return 1
    shift
    printf '%s\n' "$*" >"$terminal"
}

# zone_do NAME COMMAND...: sends a command, waits for the answer (ZONE_TIMEOUT seconds, 120), prints it;
# fails if the workload says that it could not, or was killed.
zone_do() {
    local answer
    zone_say "$@" || return 1
    answer=$(zone_expect "$1" '^work: ' "${ZONE_TIMEOUT:-120}") || { printf '%s\n' "$answer" && return 1; }
    printf '%s\n' "$answer"
    [[ ! $answer =~ FAILED|KILLED|ENDED|unknown ]]
}

# value_of NAME in "... NAME=VALUE ...": the value in the line on standard input.
value_of() { sed -n "s/.*[ ^]$1=\([^ ]*\).*/\1/p"; }

# What Xen has given to the zone, and what it is allowed, in KiB, by xentop.
zone_current_kib() { xentop -b -f -i 1 | awk -v name="$1" '$1 == name { print $(NF - 14) }'; }
zone_target_kib() { xenstore-read "/local/domain/$(zone_domid "$1")/memory/target"; }
xen_free_mib() { xl info free_memory; }

zone_destroy() {
    local name
    for name in "$@"; do xl destroy "$name"; done
}

# ---- The daemon.

# daemon_launch [ARGUMENT...]: starts it. Its exit status will be in a file.
# daemon_start [ARGUMENT...]: starts it and waits until it answers.
daemon_launch() {
    rm -f "$lab_state/xenpackd.status"
    {
        /usr/sbin/xenpackd "$@" &
        printf '%s' $! >"$lab_state/xenpackd.pid"
        wait $!
        printf '%s' $? >"$lab_state/xenpackd.ended" && mv "$lab_state/xenpackd.ended" "$lab_state/xenpackd.status"
    } >>"$lab_daemon_log" 2>&1 </dev/null &
}
daemon_start() {
    daemon_launch "$@"
    eventually 30 xenpack status >/dev/null || { printf 'xenpackd does not answer\n' && tail "$lab_daemon_log" && return 1; }
}

daemon_pid() { cat "$lab_state/xenpackd.pid"; }
daemon_ended() { [[ -e $lab_state/xenpackd.status ]]; }

# Ends it as an administrator would, and returns its exit status.
daemon_stop() {
    kill "$(daemon_pid)" && eventually 10 daemon_ended && return "$(<"$lab_state/xenpackd.status")"
}

daemon_kill() { kill -KILL "$(daemon_pid)" && eventually 10 daemon_ended; }

# ---- The end of a case.

lab_tell_all() {
    local log
    printf -- '---- xl list\n'
    timeout 10 xl list
    for log in "$lab_daemon_log" "$lab_consoles"/*.log; do
        [[ -s $log ]] || continue
        printf -- '---- the last 200 lines of %s\n' "$log"
        tail -n 200 "$log" | tr -d '\r'
    done
}

lab_finish() {
    local status=$?
    trap - EXIT TERM
    if ((status)); then
        printf 'FAILED - the case runs to its end (exit status %s)\n' "$status"
    elif ((lab_failures)); then
        status=1
    fi
    ((!status)) || lab_tell_all
    exit "$status"
}
trap lab_finish EXIT
trap 'exit 124' TERM
