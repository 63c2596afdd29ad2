#!/usr/bin/env bats
# SPDX-License-Identifier: LGPL-2.1-or-later
# The command line as a script meets it, without a daemon: help, exit statuses, sentences on standard
# error; and that the manual pages and the completion know the same options.
# XENPACK names the program to test.

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || return
    XENPACK=${XENPACK:-build/xenpack}
    [[ -x $XENPACK ]] || { echo "there is no $XENPACK: build it first" >&2; return 1; }
    unset XENPACK_SOCKET
    socket=$BATS_TEST_TMPDIR/no.sock
    conf=$BATS_TEST_TMPDIR/xenpack.conf
}

# Runs xenpack; $output is standard error alone, $status the exit status.
complaint() {
    run bash -c '"$@" 2>&1 >/dev/null' bash "$XENPACK" "$@"
}

commands() { commands_in; }

commands_in() {
    "$XENPACK" "$@" --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z-]*\) .*/\1/p'
}

# The verbs of a command that has some.
verbs_of() { commands_in "$1"; }

# The long options of a command, or of one of its verbs, one a line.
options_of() {
    "$XENPACK" "$@" --help | grep -oE '^  [^ ]*--[a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+'
}

@test "--help and --version succeed and say what they should" {
    run "$XENPACK" --help
    [ "$status" -eq 0 ]
    [[ $output == *"Exit status:"*"69"*"Examples:"* ]]
    run "$XENPACK" --version
    [ "$status" -eq 0 ]
    [[ $output =~ ^xenpack\ [0-9a-z.+~-]+$ ]]
}

@test "every command has help with an example" {
    [ "$(commands | wc -l)" -eq 14 ]
    for command in $(commands); do
        run "$XENPACK" "$command" --help
        [ "$status" -eq 0 ]
        [[ $output == *"Example"*"xenpack $command"* ]]
        [ "$command" = create ] || [[ $output == *"--json"* ]]
    done
}

@test "wrong usage is status 2 and a sentence on standard error" {
    for arguments in "" "nosuch" "status --nosuch" "set" "status extra" "set web --floor" "--nosuch" \
        template "template nosuch" "template create" "template rm" "template show" "fork" \
        "fork x --until gone" "fork x --timeout soon" "fork x -n some" "fork x -n -1" \
        "template create x --identity both" "template create x --timeout 1" \
        "set web" "set web --floor 12" "set web --weight 0" "set web --pin 1G --auto" "set --auto" \
        "check-config a b" "check-config --socket x" "create" "create --wait 5m" "create x --wait soon" \
        "create x --wait 1m --no-wait"; do
        # shellcheck disable=SC2086 # one string, several arguments
        complaint $arguments
        echo "$arguments: $status $output"
        [ "$status" -eq 2 ]
        [ -n "$output" ]
    done
    complaint nosuch
    [[ $output == *"no command nosuch"* ]]
}

@test "without a daemon every command says so with status 69 and what to do" {
    for arguments in status "status --watch" "status --json" events "set web --auto" reload \
        "template list" "template create web" "template show web" "template rm web" "fork web"; do
        # shellcheck disable=SC2086 # one string, several arguments
        complaint $arguments --socket "$socket"
        echo "$arguments: $status $output"
        [ "$status" -eq 69 ]
        [[ $output == *"xenpackd is not running"*"$socket"*"systemctl start xenpackd"* ]]
    done
}

@test "the socket may come from the environment, and the option goes before it" {
    XENPACK_SOCKET=/from/environment complaint status
    [[ $output == *"/from/environment"* ]]
    XENPACK_SOCKET=/from/environment complaint status --socket "$socket"
    [[ $output == *"$socket"* ]]
}

@test "a socket that is not ours to open is status 77" {
    if [ "$(id -u)" -eq 0 ]; then
        python=$(command -v python3) || skip "python3 makes the socket"
        cp "$XENPACK" "$BATS_TEST_TMPDIR/xenpack"
        chmod 755 "$BATS_TEST_TMPDIR" "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR"/*
        "$python" -c 'import socket,os,sys
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); os.chmod(sys.argv[1], 0o600)' "$socket"
        run setpriv --reuid=65534 --regid=65534 --clear-groups \
            "$BATS_TEST_TMPDIR/xenpack" status --socket "$socket"
    else
        skip "needs root, to become somebody else"
    fi
    echo "$output"
    [ "$status" -eq 77 ]
    [[ $output == *"not permitted"*"root"* ]]
}

@test "check-config takes a good file" {
    run "$XENPACK" check-config etc/xenpack.conf
    [ "$status" -eq 0 ]
    [ "$output" = "etc/xenpack.conf: good" ]
    run "$XENPACK" check-config etc/xenpack.conf --json
    [ "$status" -eq 0 ]
    [[ $output == *'"ok": true'* ]]
}

@test "check-config names every problem with its line, and status 78" {
    printf '[zone]\nfloor = 2G\nceiling = 1G\nwieght = 3\n[zone a' >"$conf"
    complaint check-config "$conf"
    [ "$status" -eq 78 ]
    [[ $output == *"$conf:3: [zone] has a floor"* || $output == *"$conf:2: [zone] has a floor"* ]]
    [[ $output == *"$conf:4: [zone] has no key 'wieght'"* ]]
    [[ $output == *"$conf:5: "* ]]
    run "$XENPACK" check-config "$conf" --json
    [ "$status" -eq 78 ]
    [[ $output == *'"ok": false'* ]]
}

@test "check-config prints nothing of a file that steers a terminal" {
    printf '[zone \033[2J]\n[\302\233]\n' >"$conf"
    complaint check-config "$conf"
    [ "$status" -eq 78 ]
    [[ $output != *$'\033'* && $output != *$'\302\233'* ]]
}

@test "check-config says that a file cannot be read, which is no bad configuration" {
    complaint check-config "$BATS_TEST_TMPDIR/missing"
    [ "$status" -eq 1 ]
    [[ $output == *"missing: No such file"* ]]
    complaint check-config "$BATS_TEST_TMPDIR"
    [ "$status" -eq 1 ]
    [[ $output == *"not a regular file"* ]]
}

@test "output that cannot be written is a failure" {
    [ -w /dev/full ] || skip "no /dev/full"
    run bash -c '"$1" check-config etc/xenpack.conf >/dev/full' bash "$XENPACK"
    [ "$status" -eq 1 ]
    [[ $output == *"standard output"* ]]
}

@test "xenpack(1) describes every command and option" {
    for command in $(commands); do
        grep -qE "^\*$command\*" etc/man/xenpack.1.scd || { echo "$command"; false; }
        for option in $(options_of "$command"); do
            [ "$option" = --help ] || grep -qE "^[[:space:]]*\*$option\*" etc/man/xenpack.1.scd ||
                { echo "$command $option"; false; }
        done
        for verb in $(verbs_of "$command"); do
            for option in $(options_of "$command" "$verb"); do
                [ "$option" = --help ] || grep -qE "^[[:space:]]*\*$option\*" etc/man/xenpack.1.scd ||
                    { echo "$command $verb $option"; false; }
            done
        done
    done
    for status in 0 1 2 69 75 77 78; do
        grep -qx "\*$status\*" etc/man/xenpack.1.scd
        "$XENPACK" --help | grep -qE "^  $status +"
    done
}

@test "xenpack(1) describes no option that there is not" {
    all=$(for command in $(commands); do
        options_of "$command"
        for verb in $(verbs_of "$command"); do options_of "$command" "$verb"; done
    done; echo "--help --version")
    for option in $(grep -oE '\*--[a-z0-9-]+' etc/man/xenpack.1.scd | tr -d '*' | sort -u); do
        grep -qwF -- "$option" <<<"$all" || { echo "$option"; false; }
    done
}

@test "the completion offers exactly the commands and options there are" {
    # shellcheck source=/dev/null
    source etc/completion/xenpack
    # What bash-completion's function of this name does, for lines without quotes.
    # shellcheck disable=SC2034 # the completion's variables
    _init_completion() {
        words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
        cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    }
    offered() {
        COMP_WORDS=(xenpack "$@") COMP_CWORD=$# COMPREPLY=()
        _xenpack
        printf '%s\n' "${COMPREPLY[@]}" | sort
    }
    diff <(offered "") <({ commands; printf '%s\n' --help --version; } | sort)
    for command in $(commands); do
        diff <(offered "$command" --) <(options_of "$command" | sort)
    done
    diff <(offered template "") <(verbs_of template | sort)
    diff <(offered template create web --) \
        <({ options_of template create; printf '%s\n' --json --socket; } | sort)
}

@test "xenpackd(8) lists the message ids that the journal gets" {
    ids=$(grep -oE '"[0-9a-f]{32}"' watcher/publish/journal.cc | tr -d '"' | sort)
    [ -n "$ids" ]
    diff <(echo "$ids") <(grep -oE '\b[0-9a-f]{32}\b' etc/man/xenpackd.8.scd | sort)
}

@test "xenpackd(8) and xenpack-guest(8) describe the options of their programs" {
    for option in $(grep -oE '"--[a-z0-9-]+"' watcher/xenpackd.cc | tr -d '"'); do
        [ "$option" = --version ] || grep -q "^\*$option\*" etc/man/xenpackd.8.scd ||
            { echo "xenpackd $option"; false; }
    done
    for option in $(grep -oE '"--[a-z]+"' watcher/guest/options.cc | tr -d '"' | sort -u); do
        grep -q "\*$option\*" etc/man/xenpack-guest.8.scd || { echo "xenpack-guest $option"; false; }
    done
}

@test "the manual pages are well-formed" {
    command -v scdoc >/dev/null || skip "no scdoc"
    for page in etc/man/*.scd; do
        scdoc <"$page" >/dev/null
    done
}
