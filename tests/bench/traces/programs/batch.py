#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# Counts and joins compressed logs, for the trace "batch". Called by ../record. Random, but the same
# each time. usage: batch.py fill DIR FILES | work DIR SECONDS
import gzip
import json
import os
import random
import sys
import time

LINES = 150_000


def fill(folder, files):
    os.makedirs(folder)
    chance = random.Random(1)
    for number in range(files):
        with gzip.open(os.path.join(folder, f"{number:02}.gz"), "wt", compresslevel=1) as file:
            for _ in range(LINES):
                entry = {"user": chance.randrange(200_000), "path": f"/p/{chance.randrange(9000)}",
                         "ms": chance.randrange(900), "agent": "agent/%x" % chance.getrandbits(60)}
                file.write(json.dumps(entry) + "\n")


def work(folder, seconds):
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        users = {}
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".gz") or time.monotonic() - begun >= seconds:
                continue
            with gzip.open(os.path.join(folder, name), "rt") as file:
                entries = [json.loads(line) for line in file]
            entries.sort(key=lambda entry: entry["ms"])
            for entry in entries:
                users.setdefault(entry["user"], []).append((entry["path"], entry["ms"]))
        rows = sorted(((len(visits), user) for user, visits in users.items()), reverse=True)
        with open(os.path.join(folder, "report.json"), "w") as file:
            json.dump([{"user": user, "visits": users[user]} for _, user in rows], file)
        del users, rows
        time.sleep(15)  # until the next batch is there


if sys.argv[1] == "fill":
    fill(sys.argv[2], int(sys.argv[3]))
else:
    work(sys.argv[2], float(sys.argv[3]))
