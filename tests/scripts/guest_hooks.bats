# SPDX-License-Identifier: LGPL-2.1-or-later
# The examples of a guest's hooks that give a fork its addresses, with an ip(8) that writes down what
# it is told. make check-scripts.

setup() {
    hooks=$BATS_TEST_DIRNAME/../../hotplug/guest
    told=$BATS_TEST_TMPDIR/told
    mkdir "$BATS_TEST_TMPDIR/bin"
    printf '#!/bin/sh\nprintf "%%s\\n" "$*" >>"%s"\n' "$told" >"$BATS_TEST_TMPDIR/bin/ip"
    chmod +x "$BATS_TEST_TMPDIR/bin/ip"
    PATH=$BATS_TEST_TMPDIR/bin:$PATH
}

# given ADDRESS LINE...: with that address ip is told these lines, after the old ones are flushed.
given() {
    local address=$1
    shift
    : >"$told"
    XENPACK_ADDRESS=$address "$hooks/fork.d/20-address"
    diff "$told" <(printf '%s\n' 'address flush dev eth0' "$@")
}

@test "an address and its gateway are given to the network" {
    given '192.0.2.7/24 192.0.2.1' 'link set eth0 up' 'address add 192.0.2.7/24 dev eth0' \
        'route replace default via 192.0.2.1 dev eth0'
}

@test "several addresses of both kinds are all given, and none is taken for a gateway" {
    given '192.0.2.7/24 2001:db8::7/64' 'link set eth0 up' 'address add 192.0.2.7/24 dev eth0' \
        'address add 2001:db8::7/64 dev eth0'
}

@test "an address that ip refuses fails the hook" {
    printf '#!/bin/sh\n[ "$2" != add ]\n' >"$BATS_TEST_TMPDIR/bin/ip"
    XENPACK_ADDRESS=192.0.2.7/24 run "$hooks/fork.d/20-address"
    [ "$status" -ne 0 ]
}
