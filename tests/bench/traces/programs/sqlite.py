#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# A small shop's database, for the trace "sqlite". usage: sqlite.py fill FILE MB | work FILE SECONDS
# Called by ../record. Random, but the same each time.
import random
import sqlite3
import sys
import time

TEXT = 700


def fill(path, megabytes):
    rows = megabytes * 1_000_000 // (TEXT + 60)
    db = sqlite3.connect(path)
    db.execute("create table orders (id integer primary key, customer int, amount int, note text)")
    letters = "abcdefghijklmnopqrstuvwxyz "
    chance = random.Random(1)
    with db:
        for i in range(rows):
            note = "".join(chance.choices(letters, k=50)) * (TEXT // 50)
            db.execute("insert into orders values (?, ?, ?, ?)",
                       (i, chance.randrange(rows // 20), chance.randrange(10_000), note))
    db.execute("create index by_customer on orders (customer)")
    db.commit()
    db.close()


def favoured(chance, rows):
    return min(rows - 1, int(rows * chance.random() ** 4))


def work(path, seconds):
    db = sqlite3.connect(path)
    db.execute("pragma cache_size = -64000")
    chance = random.Random(2)
    rows = db.execute("select max(id) from orders").fetchone()[0] + 1
    begun = time.monotonic()
    done = lambda: (time.monotonic() - begun) / seconds
    report_at, index_at = 0.25, 0.6
    while done() < 1:
        for _ in range(200):
            db.execute("select * from orders where id = ?", (favoured(chance, rows),)).fetchone()
        with db:
            for _ in range(5):
                db.execute("update orders set amount = amount + 1 where id = ?",
                           (favoured(chance, rows),))
        if done() > report_at:
            db.execute("select customer, sum(amount) s, max(note) from orders "
                       "group by customer order by s desc").fetchmany(100)
            report_at += 0.25
        if done() > index_at:
            db.execute("create index by_amount on orders (amount, customer)")
            index_at = 2
        time.sleep(0.05)  # what customers take to think


if sys.argv[1] == "fill":
    fill(sys.argv[2], int(sys.argv[3]))
else:
    work(sys.argv[2], float(sys.argv[3]))
