# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the benchmarks and prints one line per target: measured, ceiling, ratio.

    make bench            (BENCH_ARGS="--seconds 2 --repeats 5")

Server and ceiling (the skeleton, tests/bench/skeleton.c) take turns, each on a fresh directory of the same
disk; a figure is the median of the repeats. Nothing but ratios within one run is worth comparing.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "pytests"))

import server as harness  # noqa: E402

CONNECTIONS = (1, 8, 32, 256)
INSERT_TARGET = 0.5
START_TARGETS_MS = {"disk": 50, "memory": 25}


def insert_load(build, binary, connections, seconds, w):
    os.environ["RUNNELD"] = str(build / binary)
    with tempfile.TemporaryDirectory(prefix="runnel-bench-") as path:
        with harness.Server(path=os.path.join(path, "data")) as srv:
            command = [build / "tests/bench/bench_insert", str(srv.port), str(connections), "0.3", *w]
            subprocess.run(command, check=True, capture_output=True)  # warms up; makes the collection
            command[3] = str(seconds)
            out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out)


def inserts(build, args, rows):
    for w, label in (([], "durable"), (["1"], "w:1")):
        for n in CONNECTIONS if label == "durable" else (32,):
            ours, floor = [], []
            for _ in range(args.repeats):
                ours.append(insert_load(build, "runneld", n, args.seconds, w))
                floor.append(insert_load(build, "tests/bench/skeleton", n, args.seconds, w))
            a = statistics.median(r["ops_per_second"] for r in ours)
            b = statistics.median(r["ops_per_second"] for r in floor)
            p99 = statistics.median(r["p99_us"] for r in ours)
            target = INSERT_TARGET if label == "durable" else None
            rows.append((f"insert 200 B, {label}, {n} connections", a, b, a / b, target, p99))
            print_row(rows[-1])


def start_up(build, args, rows):
    """From exec to the first acknowledged insert, on a new directory."""
    del args
    os.environ["RUNNELD"] = str(build / "runneld")
    once = [build / "tests/bench/bench_insert", None, "1", "0.000001"]
    for kind, target in START_TARGETS_MS.items():
        times = []
        for _ in range(20):
            with tempfile.TemporaryDirectory(prefix="runnel-bench-") as path:
                where = ["--memory"] if kind == "memory" else ["--dbpath", os.path.join(path, "data")]
                begun = time.perf_counter()
                process = subprocess.Popen(
                    [build / "runneld", "--port", "0", *where],
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                )
                port = process.stdout.readline().rsplit(":", 1)[1].split("/")[0]
                once[1] = port
                subprocess.run(once, check=True, capture_output=True)
                times.append((time.perf_counter() - begun) * 1000)
                process.terminate()
                process.wait(30)
        ms = statistics.median(times)
        rows.append((f"start to first insert, {kind} (ms, client's start included)", ms, target, ms / target, None, 0))
        verdict = "met" if ms <= target else "missed"
        print(f"{rows[-1][0]:60} {ms:10.1f} {target:10} {'':>6} {verdict}", flush=True)
        rows[-1] = (*rows[-1], verdict)


def print_row(row):
    name, ours, ceiling, ratio, target, p99 = row
    verdict = "" if target is None else ("met" if ratio >= target else "missed")
    print(f"{name:60} {ours:10.0f} {ceiling:10.0f} {ratio:6.2f} {verdict}  p99 {p99:.0f} us", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build/release", type=pathlib.Path)
    parser.add_argument("--seconds", default=2.0, type=float)
    parser.add_argument("--repeats", default=3, type=int)
    args = parser.parse_args()
    build = args.build.resolve()
    rows = []
    print(f"{'':60} {'measured':>10} {'ceiling':>10} {'ratio':>6}")
    start_up(build, args, rows)
    inserts(build, args, rows)
    judged = [r[6] == "met" if len(r) > 6 else r[3] >= r[4] for r in rows if len(r) > 6 or r[4] is not None]
    print(f"targets: {sum(judged)} met, {len(judged) - sum(judged)} missed")


if __name__ == "__main__":
    main()
