#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# Prints lines to be sorted, for the trace "sort". Called by ../record. Random, but the same each
# time. usage: lines.py MB
import random
import sys

chance = random.Random(1)
left = int(sys.argv[1]) * 1_000_000
while left > 0:
    block = "".join(f"{chance.getrandbits(64):016x} {chance.getrandbits(48):012x} "
                    f"{chance.randrange(10**9)} some words that are the same in each of them\n"
                    for _ in range(5000))
    sys.stdout.write(block)
    left -= len(block)
