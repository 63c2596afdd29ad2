#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# A training job in small, for the trace "training": in each epoch many short workers read and
# prepare the data, the model steps, and a checkpoint is written. Called by ../record.
# usage: training.py fill DIR MB | work DIR SECONDS
import multiprocessing
import os
import sys
import time

import numpy

SHARD_MB = 25
WIDTH = 1024


def fill(folder, megabytes):
    os.makedirs(folder)
    random = numpy.random.default_rng(1)
    for number in range(megabytes // SHARD_MB):
        rows = SHARD_MB * 1_000_000 // (WIDTH * 4)
        numpy.save(os.path.join(folder, f"{number:03}.npy"),
                   random.random((rows, WIDTH), dtype=numpy.float32))


def prepare(path):
    shard = numpy.load(path).astype(numpy.float64)
    shard -= shard.mean(axis=0)
    shard /= shard.std(axis=0)
    order = numpy.argsort(shard[:, 0])
    return shard[order][::8].astype(numpy.float32)


def work(folder, seconds):
    random = numpy.random.default_rng(2)
    weights = random.random((WIDTH, WIDTH)).astype(numpy.float32)
    moments = [numpy.zeros_like(weights) for _ in range(40)]
    shards = sorted(os.path.join(folder, n) for n in os.listdir(folder) if n[0].isdigit())
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        random.shuffle(shards)
        with multiprocessing.Pool(3, maxtasksperchild=2) as pool:
            for batch in pool.imap_unordered(prepare, shards):
                step = batch.T @ (batch @ weights)
                for moment in moments:
                    moment *= 0.9
                    moment += step
                    weights -= 1e-9 * moment
        target = os.path.join(folder, "checkpoint.npz")
        numpy.savez(target + ".new.npz", weights=weights, moments=numpy.array(moments))
        os.replace(target + ".new.npz", target)
        time.sleep(4)  # evaluation elsewhere


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        fill(sys.argv[2], int(sys.argv[3]))
    else:
        work(sys.argv[2], float(sys.argv[3]))
