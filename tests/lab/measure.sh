# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
# What bench and bench-fork share: a script is run in dom0, its figures are made a table of and kept.
# Sourced by them, in the settings that boot takes from the environment; it knows no figure.

measure_top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
figures=$(mktemp)
trap 'rm -f "$figures"' EXIT

# measure SCRIPT [--payload DIR]...: runs dom0/SCRIPT with that in dom0; its lines "figure NAME VALUE"
# are for get, the others are shown as they come. A failed check ends all.
measure() {
    local script=$measure_top/tests/lab/dom0/$1
    shift
    (($#)) || set -- --payload "$measure_top/build/lab-stage"
    "$measure_top/tests/lab/boot" "$@" --live --entry "$script" | tee "$figures" | grep --line-buffered -v '^figure '
    if grep -q '^FAILED' "$figures"; then exit 1; fi
    printf '\n'
}

get() { sed -n "s/^figure $1 //p" "$figures"; }
row() { printf '  %-58s %12s   %s\n' "$1" "$2" "$3"; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", a / b }'; }

# keep NAME [MEMBER VALUE]...: all figures, and these, as build/bench/NAME.json.
keep() {
    local out=build/bench/$1.json
    shift
    mkdir -p "$measure_top/build/bench"
    {
        sed -n 's/^figure \([^ ]*\) \(.*\)/"\1": \2/p' "$figures"
        if (($#)); then printf '"%s": %s\n' "$@"; fi
    } | sed '$!s/$/,/; s/^/  /; 1s/^/{\n/; $s/$/\n}/' >"$measure_top/$out"
    printf '\nwritten to %s\n' "$out"
}
