# SPDX-License-Identifier: GPL-3.0-or-later
"""Counts the server's instructions per operation under callgrind and compares them with the limits.

    make perf-guard             compare; a count above its limit by more than HEAD_ROOM fails
    make perf-guard RENEW=1     write the counts of now into instructions.txt

Counts are of user space, from a real server on a fresh directory and a client with a fixed number of
requests over one connection, so they do not depend on how fast or busy the machine is. Without
valgrind there is nothing to measure and the guard says so.
"""

import argparse
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TABLE = HERE / "instructions.txt"
HEAD_ROOM = 0.15
START_SECONDS = 60

# name: what is done before, what is counted (workload and arguments), operations
PATHS = {
    "find by _id": (None, "find docs=3000 count=500 seconds=100", 500),
    "insert, w:1": (None, "insert w=1 count=500 seconds=100", 500),
    "insert, durable": (None, "insert count=500 seconds=100", 500),
    "insert in batches": (None, "batch batch=500 count=3000", 3000),
    "update by _id": (None, "update docs=3000 count=500 seconds=100", 500),
    "scan, per document": ("load docs=3000 coll=scanned", "scan docs=3000 once=1 coll=scanned", 3000),
    "event of a backlog": ("backlog events=5000", "replay events=5000", 5000),
    "insert and its event": (None, "fanout watchers=1 rate=0 burst=1 docs=300", 300),
    "delete by _id": (None, "delete docs=500 seconds=100", 500),
}


# Writes beside watchers of other collections, counted and compared with those beside none.
PARKED = 5000
PLAIN, BESIDE = "insert, w:1", "insert, w:1, beside"
BESIDE_MOST = 1.05


class Counted:
    """A server under callgrind. A dump has what was counted since the dump before."""

    def __init__(self, build, folder):
        self.build = build
        self.folder = pathlib.Path(folder)
        self.dumps = set()
        log = open(self.folder / "log", "wb")
        self.process = subprocess.Popen(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self.folder}/out", build / "runneld", "--port", "0",
             "--dbpath", self.folder / "data"],
            stdout=subprocess.PIPE, stderr=log, text=True)
        self.uri = self.process.stdout.readline().split()[1]

    def client(self, line):
        workload, *arguments = line.split()
        done = subprocess.run([self.build / "tests/bench/bench", workload, f"uri={self.uri}", *arguments],
                              capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            raise RuntimeError(f"{line}: {done.stderr.strip()}")
        return json.loads(done.stdout) if done.stdout.strip() else {}

    def count(self, line):
        self._dump()
        self.client(line)
        return self._dump()

    @contextlib.contextmanager
    def parked(self, n):
        """n watchers that wait, each for a collection of its own, for the time of the `with`."""
        with subprocess.Popen([self.build / "tests/bench/bench", "park", f"uri={self.uri}", f"watchers={n}"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as park:
            if park.stdout.readline().strip() != "parked":
                raise RuntimeError(f"cannot park {n} watchers")
            self.client("insert w=1 count=100 seconds=100")  # behind them: they are parked by now
            yield
            park.stdin.close()

    def _dump(self):
        """Callgrind takes its time with a command: the dump is there when its file is."""
        subprocess.run(["callgrind_control", "--dump", str(self.process.pid)], check=True,
                       capture_output=True, timeout=60)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for path in set(self.folder.glob("out.*")) - self.dumps:
                totals = re.search(r"^totals: (\d+)", path.read_text(), re.MULTILINE)
                if totals:
                    self.dumps.add(path)
                    return int(totals.group(1))
            time.sleep(0.05)
        raise RuntimeError("callgrind wrote no dump")

    def close(self):
        self.process.terminate()
        self.process.wait(60)


def measure(build):
    counts = {}
    with tempfile.TemporaryDirectory(prefix="runnel-guard-") as folder:
        server = Counted(build, folder)
        try:
            server.client("load docs=3000")
            for name, (before, line, n) in PATHS.items():
                if before is not None:
                    server.client(before)
                counts[name] = server.count(line) // n
            with server.parked(PARKED):
                counts[BESIDE] = server.count(PATHS[PLAIN][1]) // PATHS[PLAIN][2]
        finally:
            server.close()
    return counts


def read_table():
    limits = {}
    for line in TABLE.read_text().splitlines():
        if line and not line.startswith("#"):
            name, count = line.rsplit(None, 1)
            limits[name.strip()] = int(count)
    return limits


def write_table(counts):
    head = [line for line in TABLE.read_text().splitlines() if line.startswith("#")]
    rows = [f"{name:24}{count:>8}" for name, count in counts.items()]
    TABLE.write_text("\n".join(head + rows) + "\n")


def compare(counts, limits):
    failed = False
    for name, count in counts.items():
        known = limits.get(name, 0)
        over = count > known * (1 + HEAD_ROOM)
        failed |= over
        print(f"{name:24}{count:>8} instructions, {known} known{'  TOO MANY' if over else ''}")
    if counts[BESIDE] > counts[PLAIN] * BESIDE_MOST:
        print(f"{PARKED} parked watchers cost a writer more than {BESIDE_MOST - 1:.0%}")
        failed = True
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", type=pathlib.Path)
    parser.add_argument("--renew", action="store_true", help="write the counts into the table")
    args = parser.parse_args()
    if shutil.which("valgrind") is None or shutil.which("callgrind_control") is None:
        print("perf-guard: skipped, there is no valgrind here")
        return 0
    counts = measure(args.build.resolve())
    if args.renew:
        write_table(counts)
        return 0
    return 1 if compare(counts, read_table()) else 0


if __name__ == "__main__":
    sys.exit(main())
