# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the benchmarks: one line per target with measured, ceiling, ratio and peer.

    make bench            (BENCH_ARGS="--quick", "--only fanout,drain", "--peer mongodb://...")

Servers and ceilings take turns on fresh directories of the same disk; a figure is the median of the
repeats. Only ratios within one run are worth comparing. The result also goes to build/bench.json, from
which `make bench-docs` makes docs/performance.md.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import sections  # noqa: E402
from results import Results, show, stolen_seconds  # noqa: E402
from servers import NotAvailable, Runnel, peer_factory  # noqa: E402

FULL = dict(seconds=0.8, repeats=5, delivery_repeats=7, connections=[1, 2, 4, 8, 16, 32, 64, 128, 256], docs=100_000,
            pairs=10, parked=[100, 1000, 10000], parked_series=[625, 1250, 2500, 5000],
            entries=5_000_000, steps=5, load_seconds=150, peer_entries=20_000, peer_docs=20_000, drain=100_000,
            scan=200_000, mix_seconds=9.0, starts=20, slow_peers=True)
QUICK = dict(FULL, seconds=0.4, repeats=1, delivery_repeats=3, connections=[1, 8, 32, 256], docs=20_000, pairs=3,
             parked=[1000, 10000], parked_series=[], entries=500_000, steps=3, load_seconds=20,
             peer_entries=20_000, peer_docs=5_000, drain=100_000, scan=50_000, mix_seconds=6.0, starts=5,
             slow_peers=False)


PEER_SECONDS, PEER_SECONDS_MOST = 15, 40
STOLEN_SHARE = 0.005  # of one processor: more is noted in the result
TRIES, DISTURBED_SECONDS = 3, 0.02


class Bench:
    """What the sections share: the plan, the binaries, the results."""

    def __init__(self, build, plan, peer):
        self.build = build
        self.plan = plan
        self.make_peer = peer
        self.results = None
        self.given_up = set()  # workloads that the peer failed or was slow at
        self.made_again = 0    # runs, in this section, of undisturbed()

    def client(self, workload, server=None, timeout=120, **arguments):
        """Runs one workload of the client; its result as a dict."""
        command = [self.build / "tests/bench/bench", workload]
        if server is not None:
            arguments = dict(uri=server.uri, pid=server.pid, **arguments)
        command += [f"{k}={v}" for k, v in arguments.items()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        if done.returncode != 0:
            raise RuntimeError(f"{workload}: {done.stderr.strip()[:300]}")
        return json.loads(done.stdout)

    def undisturbed(self, workload, server=None, **arguments):
        """As client(), for latencies that are judged as they are: when the host of a virtual machine takes
        processors away meanwhile, it is made again, twice at most; the least disturbed counts."""
        runs = []
        for i in range(TRIES):
            stolen = stolen_seconds()
            run = self.client(workload, server, **arguments)
            runs.append((stolen_seconds() - stolen, i, run))
            if runs[-1][0] <= DISTURBED_SECONDS:
                break
        self.made_again += len(runs) - 1
        return min(runs)[2]

    def bare(self, workload, **arguments):
        """A ceiling that needs a directory, a fresh one."""
        with tempfile.TemporaryDirectory(prefix="runnel-bench-") as path:
            return self.client(workload, dir=path, **arguments)

    def ours(self, *options):
        return Runnel(self.build / "runneld", *options)

    def skeleton(self):
        return Runnel(self.build / "tests/bench/skeleton")

    def peer(self, synced=True):
        if self.make_peer is None:
            raise NotAvailable("no peer")
        return self.make_peer(synced)

    def try_client(self, workload, server, **arguments):
        """For peers: None where it cannot do the workload. What takes long is done once."""
        if server is None or (server.name, workload) in self.given_up:
            return None
        began = time.monotonic()
        try:
            run = self.client(workload, server, timeout=PEER_SECONDS_MOST, **arguments)
            if time.monotonic() - began > PEER_SECONDS:
                self.given_up.add((server.name, workload))
            return run
        except (RuntimeError, subprocess.TimeoutExpired, json.JSONDecodeError) as e:
            self.given_up.add((server.name, workload))
            slow = isinstance(e, subprocess.TimeoutExpired)
            why = "it did not answer in time" if slow else str(e)[:160]
            self.results.note(f"{server.name} cannot do {workload}: {why}")
            return None


def name_of_peer(bench):
    try:
        with bench.peer() as peer:
            return peer.name
    except NotAvailable as e:
        print(f"peer not available: {e}")
        bench.make_peer = None
        return None


def run(bench, only):
    bench.results = Results(name_of_peer(bench))
    for name, section in sections.ALL.items():
        if only and name not in only:
            continue
        began, stolen = time.monotonic(), stolen_seconds()
        bench.made_again = 0
        try:
            section(bench)
        except (RuntimeError, NotAvailable, OSError, subprocess.SubprocessError,
                json.JSONDecodeError) as e:
            bench.results.failed(0, name, str(e)[:200])
        took, stolen = time.monotonic() - began, stolen_seconds() - stolen
        print(f"    {name}: {show(took)} s, {show(stolen * 1000)} ms of a processor stolen", flush=True)
        if stolen > took * STOLEN_SHARE:
            bench.results.note(f"{name}: the host kept {stolen:.1f} s of processor time from this machine; "
                               f"{bench.made_again} runs were made again for that")


def chosen(names):
    """The sections of --only; None: all."""
    unknown = set(names.split(",")) - set(sections.ALL) if names else set()
    if unknown:
        sys.exit(f"no section {', '.join(sorted(unknown))}: there are {', '.join(sections.ALL)}")
    return names.split(",") if names else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/release", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true", help="short runs: ratios are rough")
    parser.add_argument("--only", help="sections, comma-separated: " + ", ".join(sections.ALL))
    parser.add_argument("--peer", default="secantus",
                        help="secantus, mongod, a URI of a server that runs already, or none")
    parser.add_argument("--note", help="what a reader of the result should know")
    parser.add_argument("--json", default="build/bench.json", type=pathlib.Path)
    args = parser.parse_args()
    only = chosen(args.only)
    build = args.build.resolve()
    bench = Bench(build, QUICK if args.quick else FULL, peer_factory(build, args.peer))
    run(bench, only)
    if args.note:
        bench.results.note(args.note)
    command = "make bench" + (' BENCH_ARGS="--quick"' if args.quick else "")
    args.json.write_text(json.dumps(bench.results.as_json(command), indent=1) + "\n")
    print(bench.results.verdict())


if __name__ == "__main__":
    main()
