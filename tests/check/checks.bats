# SPDX-License-Identifier: LGPL-2.1-or-later
# Tests of the checks themselves: each is shown a tree that breaks its rule and must name file and
# line, and one that keeps it and must say nothing. Run by make check-scripts.
# They work in a temporary tree and must not touch this one.

setup() {
    check=$BATS_TEST_DIRNAME
    tree=$BATS_TEST_TMPDIR/tree
    mkdir -p "$tree"
    export XENPACK_CHECK_TREE=$tree XENPACK_RESULTS=$BATS_TEST_TMPDIR/results
    unset MAKEFLAGS MAKELEVEL
}

# put FILE LINE...: a file of the tree.
put() {
    local file=$tree/$1
    shift
    mkdir -p "$(dirname "$file")"
    printf '%s\n' "$@" >"$file"
}

# The check $1 fails and prints a line that begins with $2.
finds() {
    run "$check/$1"
    [ "$status" -ne 0 ]
    [[ $'\n'$output == *$'\n'"$2"* ]] || { echo "$output"; return 1; }
}

accepts() {
    run "$check/$1"
    [ "$status" -eq 0 ] || { echo "$output"; return 1; }
    [ -z "$output" ]
}

@test "includes: what each room may include is accepted" {
    put watcher/loop/loop.cc '#include "watcher/loop/loop.h"' '#include <event2/event.h>'
    put watcher/loop/loop.h '#include "plugin/toolstack.h"'
    put plugin/toolstack.h '#include <stdint.h>'
    put plugin/libxl/a.cc '#include <libxl.h>' '#include <xenctrl.h>'
    put watcher/balance/balance.h '#include <vector>' '#include "watcher/error.h"'
    put tests/unit/loop_test.cc '#include "watcher/loop/loop.h"'
    accepts includes
}

@test "includes: libxl, libxc and xenguest outside the plugin are found" {
    put watcher/zones/zones.cc '' '#include <libxl.h>'
    finds includes 'watcher/zones/zones.cc:2: <libxl.h>'
    put watcher/zones/zones.cc '#  include <xenctrl.h>'
    finds includes 'watcher/zones/zones.cc:1: <xenctrl.h>'
    put watcher/zones/zones.cc '#include "xenguest.h"'
    finds includes 'watcher/zones/zones.cc:1: <xenguest.h>'
}

@test "includes: xenstore outside the store, libevent outside the loop are found" {
    put watcher/zones/a.cc '#include <xenstore.h>'
    finds includes 'watcher/zones/a.cc:1: <xenstore.h>'
    put watcher/zones/a.cc '#include <event2/http.h>'
    finds includes 'watcher/zones/a.cc:1: <event2/http.h>'
}

@test "includes: an arrow that points up is found" {
    put watcher/store/store.cc '#include "watcher/zones/zones.h"'
    finds includes 'watcher/store/store.cc:1: watcher/store/ may not include "watcher/zones/zones.h"'
}

@test "includes: a clock or a file in a pure room is found" {
    put watcher/balance/balance.cc '#include <vector>' '#include <chrono>'
    finds includes 'watcher/balance/balance.cc:2: <chrono>'
    put watcher/pressure/pressure.cc '#include <fstream>'
    rm "$tree/watcher/balance/balance.cc"
    finds includes 'watcher/pressure/pressure.cc:1: <fstream>'
}

@test "includes: a room that the table does not know is found" {
    put watcher/attic/a.cc '#include <vector>'
    finds includes 'watcher/attic/a.cc:1: no room'
}

@test "includes: a relative path, and a header of one's own that is not first, are found" {
    put watcher/loop/loop.h '#include <cstdint>'
    put watcher/loop/loop.cc '#include <vector>' '#include "watcher/loop/loop.h"'
    finds includes 'watcher/loop/loop.cc:1: the first include'
    put watcher/loop/loop.cc '#include "loop.h"'
    finds includes 'watcher/loop/loop.cc:1: "loop.h": includes are written from the top'
}

@test "includes: a mistake in the table itself is found" {
    put watcher/loop/loop.cc '#include <vector>'
    put table.txt '# fine' 'rooom watcher/loop/ :'
    XENPACK_CHECK_TABLE=$tree/table.txt finds includes "$tree/table.txt:2: not a line"
}

@test "spdx: a head as it must be is accepted" {
    put a.cc '// SPDX-License-Identifier: LGPL-2.1-or-later' '// One.' '// Two.' '#include <a>'
    put a.h '/* SPDX-License-Identifier: LGPL-2.1-or-later */' '/*' ' * One.' ' * Two.' ' */'
    put run '#!/bin/bash' '# SPDX-License-Identifier: LGPL-2.1-or-later' '# One.' '# Two.' 'x=1'
    put notes.md 'no head'
    accepts spdx
}

@test "spdx: a missing or another licence line is found, in scripts after the first line" {
    put a.cc '// One.' '// Two.'
    finds spdx 'a.cc:1: must be the line'
    put a.cc '// SPDX-License-Identifier: MIT' '// One.' '// Two.' 'x'
    finds spdx 'a.cc:1: must be the line'
    rm "$tree/a.cc"
    put run '#!/bin/bash' '# One.'
    finds spdx 'run:2: must be the line'
}

@test "spdx: a missing opening comment is found" {
    put a.cc '// SPDX-License-Identifier: LGPL-2.1-or-later' '#pragma once'
    finds spdx 'a.cc:2: an opening comment'
    put a.cc '// SPDX-License-Identifier: LGPL-2.1-or-later' '// Only one line.' 'int x;'
    finds spdx 'a.cc:3: an opening comment'
}

@test "own-words: paths of the tree, of a host and of the system are accepted" {
    put a.md 'See watcher/loop, build/work/x, /etc/xenpack, /tmp/file and /run/xenpack; a workload.'
    put b.cc '// LICENSE: https://www.gnu.org/licenses/' '// $top/work is a variable path'
    accepts own-words
}

@test "own-words: a path of one machine is found" {
    put a.md 'fine' "see /$(echo work)/main"
    finds own-words 'a.md:2:'
    put a.md "in /$(echo home)/someone/src"
    finds own-words 'a.md:1:'
    put a.md "/tmp/$(echo xp)/lab"
    finds own-words 'a.md:1:'
    put a.md "in $(echo shared)/design"
    finds own-words 'a.md:1:'
}

@test "own-words: a host that packages come from is found" {
    put a.sh "curl http://deb.$(echo example).org/x"
    finds own-words 'a.sh:1:'
    put a.sh "registry.$(echo example).org"
    finds own-words 'a.sh:1:'
}

@test "whitespace: each rule is kept" {
    put good.cc 'int x;' '' 'int y;'
    put Makefile 'all:' $'\techo'
    accepts whitespace
    put a.cc 'int x; ' 'int y;'
    finds whitespace 'a.cc:1: space'
    put a.cc 'x' $'\tint y;'
    finds whitespace 'a.cc:2: a tab'
    put a.cc $'int x;\r'
    finds whitespace 'a.cc:1: a carriage return'
    put a.cc 'x' ''
    finds whitespace 'a.cc:2: a blank line'
    printf 'x\ny' >"$tree/a.cc"
    finds whitespace 'a.cc:1: no newline'
    : >"$tree/a.cc"
    finds whitespace 'a.cc:1: an empty file'
}

@test "shell: a script with a fault fails by name" {
    # shellcheck disable=SC2016
    put bad '#!/bin/bash' 'rm -rf $1/x'
    run "$check/shell"
    [ "$status" -ne 0 ]
    [[ $output == *'FAIL bad'* ]]
}

@test "suite: counts what googletest, cmocka and TAP say" {
    run "$check/suite" g printf '[  PASSED  ] 7 tests.\n'
    [ "$status" -eq 0 ]
    read -r p f _ <"$XENPACK_RESULTS/g"
    [ "$p $f" = '7 0' ]
    run "$check/suite" c printf '[  PASSED  ] 2 test(s).\n[  FAILED  ] 1 test(s), listed below:\n'
    [ "$status" -ne 0 ]
    read -r p f _ <"$XENPACK_RESULTS/c"
    [ "$p $f" = '2 1' ]
    run "$check/suite" t printf '1..3\nok 1 a\nnot ok 2 b\nok 3 c\n'
    [ "$status" -ne 0 ]
    read -r p f _ <"$XENPACK_RESULTS/t"
    [ "$p $f" = '2 1' ]
}

@test "suite: a closing total counts alone" {
    run "$check/suite" l printf 'PASS a\nPASS b\n5 passed, 2 failed\n'
    [ "$status" -ne 0 ]
    read -r p f _ <"$XENPACK_RESULTS/l"
    [ "$p $f" = '5 2' ]
}

@test "shards: every part runs, all is shown, and one that fails fails the whole" {
    run "$check/shards" sh -c 'echo "part $GTEST_SHARD_INDEX of $GTEST_TOTAL_SHARDS"'
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq "$(nproc)" ]
    [ "${lines[0]}" = "part 0 of $(nproc)" ]
    run "$check/shards" sh -c 'exit $((GTEST_SHARD_INDEX == 0))'
    [ "$status" -ne 0 ]
}

@test "suite: a crash, a run of no test and a bare failure all count as one failure" {
    run "$check/suite" a sh -c 'echo "[  PASSED  ] 3 tests."; kill -SEGV $$'
    [ "$status" -ne 0 ]
    read -r p f _ <"$XENPACK_RESULTS/a"
    [ "$p $f" = '3 1' ]
    run "$check/suite" b echo '[  PASSED  ] 0 tests.'
    [ "$status" -ne 0 ]
    run "$check/suite" c false
    [ "$status" -ne 0 ]
    run "$check/suite" d true
    [ "$status" -eq 0 ]
    read -r p f _ <"$XENPACK_RESULTS/d"
    [ "$p $f" = '1 0' ]
}

@test "summary: adds up parts, and counts a suite without a result as failed" {
    mkdir -p "$XENPACK_RESULTS"
    echo '3 0 1.0' >"$XENPACK_RESULTS/unit"
    echo '2 0 1.0' >"$XENPACK_RESULTS/plugin.one"
    echo '4 0 1.0' >"$XENPACK_RESULTS/plugin.two"
    run "$check/summary" unit plugin
    [ "$status" -eq 0 ]
    [ "${lines[-1]}" = '9 passed, 0 failed' ]
    run "$check/summary" unit plugin lab
    [ "$status" -ne 0 ]
    [ "${lines[-1]}" = '9 passed, 1 failed' ]
}

@test "deps: lists the build's packages without versions, and never a hypervisor or a kernel" {
    run "$check/../deps" --list
    [ "$status" -eq 0 ]
    [[ $'\n'$output$'\n' == *$'\nlibxen-dev\n'* ]]
    [[ $'\n'$output$'\n' == *$'\nqemu-system-x86\n'* ]]
    ! grep -E '[(<|,]|^debhelper|^(xen-|linux-)' <<<"$output"
}
