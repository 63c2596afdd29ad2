#!/usr/bin/env bats
# SPDX-License-Identifier: LGPL-2.1-or-later
# The lab's entry for a person, tests/lab/shell: what it hands to boot. Boot here is a script that says
# how it was called; the lab itself is for tests/lab/run.

@test "the shell's payloads are found from where it was called" {
    mkdir "$BATS_TEST_TMPDIR/lab" "$BATS_TEST_TMPDIR/stage"
    cp "$BATS_TEST_DIRNAME/../lab/shell" "$BATS_TEST_TMPDIR/lab/shell"
    cat >"$BATS_TEST_TMPDIR/lab/boot" <<'END'
#!/bin/bash
printf '%s|' "$@" "limit=$LAB_TIMEOUT"
[[ -d $3 ]]
END
    chmod +x "$BATS_TEST_TMPDIR/lab/boot"
    cd "$BATS_TEST_TMPDIR"
    run lab/shell --payload stage
    [ "$status" -eq 0 ]
    [ "$output" = "--shell|--payload|stage|limit=0|" ]
}
