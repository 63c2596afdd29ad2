#!/usr/bin/env bats
# SPDX-License-Identifier: LGPL-2.1-or-later
# Templates and forks as a person meets them: xenpack and xenpackd on a simulated host. One daemon
# serves the first tests, in their order. They wait for events, and must not need Xen or root.
# XENPACK, XENPACKD and PLUGIN name what to test.

load daemon

setup_file() {
    what_to_test "$BATS_FILE_TMPDIR"
    configuration 8M
    scenario >"$dir/host.sim"
    start_daemon "$dir/host.sim"
    await "$dir/log" 'slow (5): found' 5
}

teardown_file() { kill -KILL "$(<"$dir/pid")" 2>/dev/null || :; }

setup() { cd "$BATS_TEST_DIRNAME/../.." || return; }

# configuration FORK-RESERVE
configuration() {
    printf '%s\n' '[host]' 'reserve = 16M' 'emergency = 16M' "fork-reserve = $1" '[daemon]' \
        "toolstack = $PLUGIN" "socket = $XENPACK_SOCKET" >"$dir/xenpack.conf"
}

# zone NAME [KEY=VALUE...]
zone() {
    printf '%s\n' "[zone $1]" 'memory = 64M' 'boot = 100ms' 'generate = ramp' 'base = 4M' 'peak = 4M' "${@:2}"
}

scenario() {
    printf '%s\n' '[host]' 'memory = 2G' 'xen = 32M' 'dom0 = 512M'
    zone web
    zone brief 'fork-end = 2s'
    zone odd 'identity = fails'
    zone sick 'quiesce = fails'
    zone slow 'quiesce = hangs'
}

forks_of() { "$XENPACK" template show "$1" --json | grep -c '"fork_state"' || :; }

@test "a zone becomes a template, and is shown as one" {
    refused 1 'nosuch' template create nosuch
    refused 1 'Domain-0' template create web --name Domain-0
    refused 1 'web is no template' fork web
    run "$XENPACK" template list
    [[ $output == *"no templates"* ]]
    run "$XENPACK" template create web --name base
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output =~ ^base\ \(1\)\ \ sealed\ after\ [0-9]+\ ms$ ]]
    await "$dir/log" 'base (1): template: web is a template now' 3
    run "$XENPACK" template list
    echo "$output"
    [[ $output == *TEMPLATE*base*sealed*64M*guest* ]]
    run "$XENPACK" template show base --json
    [[ $output == *'"forks": []'*'"state": "sealed"'* ]]
    refused 1 'base is a template already' template create base
    refused 1 'there is no template nosuch' template show nosuch
}

@test "a zone that cannot be quiet says why and runs on" {
    refused 1 'a simulated hook has failed; it runs on' template create sick
    refused 1 'is xenpack-guest running in it?; it runs on' template create slow --timeout 300ms
    run "$XENPACK" status
    echo "$output"
    [[ $output == *"sick (4)"*"slow (5)"* ]]
}

@test "forks are made with names of their own, each on a line" {
    run "$XENPACK" fork base -n 3 --name 'job-%d'
    echo "$output"
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 3 ]
    [[ ${lines[2]} =~ ^job-3\ \([0-9]+\)\ \ running\ after\ [0-9]+\ ms,\ ready\ after\ [0-9]+\ ms$ ]]
    [ "$(forks_of base)" -eq 3 ]
    grep -E 'job-2 \([0-9]+\): fork: made of base in ' "$dir/log"
    grep -E 'job-2 \([0-9]+\): fork: ready after ' "$dir/log"
    run "$XENPACK" status
    echo "$output"
    [[ $output == *"templates:"*"base (1)  sealed  64M  forks: 3"*"forks:"*"job-1"*"ready, of base"* ]]
    "$XENPACK" status --json | grep -q '"template": "base"'
    run "$XENPACK" fork base --json --paused
    [ "$status" -eq 0 ]
    [[ $output == *'"name": "base-1"'*'"unpaused_ms": null'* ]]
}

@test "what is wrong is said in one line, and nothing comes of it" {
    refused 1 'there is no template nosuch' fork nosuch
    refused 1 'a domain is named base already' fork base --name base
    refused 1 '%d' fork base -n 2 --name same
    refused 1 '0 is no number of forks' fork base -n 0
    refused 1 'is no name' fork base --name a/b
    refused 1 'a domain is named job-1 already' fork base --name job-1
    refused 1 'all have the address' fork base -n 2 --address 10.0.0.1
    refused 1 'left paused does not become ready' fork base --paused --until ready
    refused 1 'base-1 is a fork and not ready yet' template create base-1
    [ "$(forks_of base)" -eq 4 ]
}

@test "a template with forks is not removed" {
    refused 1 '4 forks live: job-1, job-2, job-3, base-1' template rm base
    [ "$(forks_of base)" -eq 4 ]
}

@test "memory that is not there is status 75, before anything is made" {
    configuration 900M
    "$XENPACK" reload
    run "$XENPACK" fork base -n 2
    echo "$output"
    [ "$status" -eq 75 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"a set of 2 forks of base needs 1800 MiB"*"are missing"* ]]
    configuration 8M
    "$XENPACK" reload
    [ "$(forks_of base)" -eq 4 ]
}

@test "of forks that get no identity none is left" {
    "$XENPACK" template create odd
    refused 1 'a simulated hook has failed; of the 5 forks none is left' fork odd -n 5
    [ "$(forks_of odd)" -eq 0 ]
    await "$dir/log" 'odd-[1-5] .*fault: it is destroyed: it could not take its identity' 1
    [ -z "$(ls "$dir/forks")" ]
}

@test "who hangs up gives the forks up, and their names" {
    "$XENPACK" fork base -n 40 --name 'many-%d' >/dev/null 3>&- &
    local client=$!
    await "$dir/log" 'many-1 .*made of base' 5
    kill -TERM "$client" # SIGINT is ignored by what runs in the background
    await "$dir/log" 'base .*of 40 forks none is left: who asked for it has hung up' 10
    run "$XENPACK" fork base --name 'many-%d'
    echo "$output"
    [[ $output == "many-1 "* ]]
    [ "$(forks_of base)" -eq 5 ]
}

@test "a fork becomes a template too, and is its template's fork still" {
    "$XENPACK" fork base --name elder
    "$XENPACK" template create elder --name second
    "$XENPACK" fork second --name grandchild
    run "$XENPACK" template list
    echo "$output"
    [[ $output =~ second\ +[0-9]+\ +sealed.*guest\ +base ]]
    [[ $("$XENPACK" template show second) == *grandchild* ]]
    refused 1 '6 forks live' template rm base
    [[ $("$XENPACK" template show base) == *' a template itself'* ]]
    refused 1 '1 fork lives: grandchild' template rm second
}

@test "a fork that shuts down is taken away, and then its template can be" {
    "$XENPACK" template create brief
    "$XENPACK" fork brief --name job
    await "$dir/log" 'job .*fork: it has shut down (poweroff) and is taken away' 5
    await "$dir/log" 'job .*gone' 3
    run "$XENPACK" template rm brief
    echo "$output"
    [ "$status" -eq 0 ]
    run "$XENPACK" template list
    [[ $output != *brief* ]]
    await "$dir/log" 'brief .*template: the template was removed' 1
}

@test "the daemon ends while all of this lives" {
    stop_daemon
    [ "$(<"$dir/status")" -eq 0 ]
}

@test "a host that shares no memory says so" {
    { printf '%s\n' '[host]' 'sharing = no'; zone web; } >"$dir/plain.sim"
    start_daemon "$dir/plain.sim"
    await "$dir/log" 'web (1): found' 5
    refused 1 'cannot make templates and forks: the simulated hypervisor shares no memory' \
        template create web
    stop_daemon
}

@test "a daemon that dies before a fork is there leaves only its intent, which the next one removes" {
    scenario >"$dir/host.sim"
    XENPACK_FAULT=fork.intent start_daemon "$dir/host.sim"
    await "$dir/log" 'web (1): found' 5
    "$XENPACK" template create web
    run "$XENPACK" fork web
    echo "$output"
    [ "$status" -eq 69 ]
    [[ $output == *"xenpackd has ended while this was under way"* ]]
    timeout 5 tail -s 0.05 --pid="$(<"$dir/keeper")" -f /dev/null
    [ "$(<"$dir/status")" -eq 137 ]
    [ "$(find "$dir/forks" -type f | wc -l)" -eq 1 ]
    start_daemon "$dir/host.sim"
    await "$dir/log" 'web (1): found' 5
    [ "$(find "$dir/forks" -type f | wc -l)" -eq 0 ]
    stop_daemon
}
