#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# Files for a web server and a client that asks for them, for the traces "webserver" and "idle".
# Called by ../record. usage: web.py fill DIR MB | ask DIR PORT SECONDS | check PORT
import os
import random
import socket
import sys
import threading
import time
import urllib.request


def fill(folder, megabytes):
    os.makedirs(folder)
    chance = random.Random(1)
    left, number = megabytes * 1_000_000, 0
    while left > 0:
        size = min(left, int(chance.paretovariate(1.1) * 20_000), 8_000_000)
        with open(os.path.join(folder, f"{number}.bin"), "wb") as file:
            file.write(chance.randbytes(size))
        left -= size
        number += 1


def get(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
        while answer.read(65536):
            pass


def await_server(port):
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit(f"nothing listens on port {port}")


def ask(folder, port, seconds):
    count = len(os.listdir(folder))
    await_server(port)
    begun = time.monotonic()

    def one(seed):
        chance = random.Random(seed)
        while (now := time.monotonic() - begun) < seconds:
            get(port, f"{int(count * chance.random() ** 3)}.bin")
            # Two waves of visitors; between them hardly any.
            busy = abs((now / seconds * 2) % 1 - 0.5) < 0.3
            time.sleep(chance.expovariate(30 if busy else 1))

    threads = [threading.Thread(target=one, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if sys.argv[1] == "fill":
    fill(sys.argv[2], int(sys.argv[3]))
elif sys.argv[1] == "ask":
    ask(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
else:
    get(sys.argv[2], "0.bin")
