# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# What prepare, boot, run and shell share: where things are, and how they complain.
# Sourced by them on the developer's machine, never inside the lab; it starts nothing.

lab_source=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034  # for the scripts that source this file
lab_top=$(cd "$lab_source/../.." && pwd)
# shellcheck disable=SC2034
lab_cache=${XENPACK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/xenpack}/lab

lab_say() { printf 'lab: %s\n' "$*" >&2; }
lab_die() {
    lab_say "$*"
    exit 1
}

# Fails unless every named command is there; the second word of each pair is the package that has it.
lab_need() {
    local pair
    for pair in "$@"; do
        command -v "${pair%%=*}" >/dev/null ||
            lab_die "'${pair%%=*}' is missing: apt-get install ${pair#*=}"
    done
}

# Prints the libraries, as absolute paths, that the given programs load. A library that cannot be
# found ends the script: a lab that lacks one would fail later and far from the cause.
# Environment: LD_LIBRARY_PATH decides where ldd looks besides the system.
lab_libraries() {
    local program listing missing
    for program in "$@"; do
        listing=$(ldd "$program" 2>&1) || continue # a static program has none
        missing=$(sed -n 's/^[[:space:]]*\(.*\) => not found$/\1/p' <<<"$listing" | sort -u)
        [[ -z $missing ]] || lab_die "$program needs libraries that are nowhere to be found: ${missing//$'\n'/ }"
        sed -n -e 's/.* => \(\/[^ ]*\) .*/\1/p' -e 's/^[[:space:]]*\(\/[^ ]*\) (.*/\1/p' <<<"$listing"
    done | sort -u
}

# Packs the directory $1 as a newc archive on standard output, owned by root whoever runs this.
lab_cpio() {
    (cd "$1" && find . -mindepth 1 -print0 | LC_ALL=C sort -z |
        cpio --null --create --format=newc --owner=0:0 --reproducible --quiet)
}

# lab_cached NAME COMMAND [ARGUMENT...]: runs "COMMAND DIR ARGUMENT..." unless cache directory NAME is complete.
lab_cached() {
    local name=$1 command=$2
    shift 2
    [[ -d $lab_cache/$name ]] && touch "$lab_cache/$name" && return
    lab_say "making $lab_cache/$name"
    temporary=$(mktemp -d "$lab_cache/making.XXXXXX")
    chmod 0755 "$temporary"
    # A failure must end the script here, which "||" would prevent: hence the trap.
    trap 'rm -rf "${temporary:?}"' EXIT
    "$command" "$temporary" "$@"
    mv "$temporary" "$lab_cache/$name"
    trap - EXIT
}
