# SPDX-License-Identifier: GPL-3.0-or-later
"""The workloads with their targets, in the order in which they are run."""

import contextlib
import subprocess
import tempfile
import time

from results import median
from servers import NotAvailable

INSERT_SHARE = 0.6
BATCH_SHARE = 0.4
FIND_SHARE = 0.5
SCAN_SHARE = 0.4
PARKED_LOSS = 0.05
MIX_TIMES = 2.0
DRAIN_PER_SECOND = 400_000
DRAIN_SHARE = 0.5
START_MS = {"disk": 50, "memory": 25}
ONE_INSERT = dict(count=1, seconds=30)
JUDGED_CONNECTIONS = (1, 8, 32, 256)


def field(runs, key):
    return median([r[key] for r in runs if r is not None])


@contextlib.contextmanager
def peer_of(bench, slow=False, synced=True):
    """The peer, or None; also None for work that takes peers long, when the run is to be quick."""
    try:
        server = None if slow and not bench.plan["slow_peers"] else bench.peer(synced)
    except NotAvailable:
        server = None
    if server is None:
        yield None
        return
    with server:
        yield server


def turns(bench, servers, workload, **arguments):
    """Ours, the ceiling (or None) and the peer (or None) in turn, repeated: runs of each."""
    ours, floor, peer = servers
    runs = ([], [], [])
    for _ in range(bench.plan["repeats"]):
        runs[0].append(bench.client(workload, ours, **arguments))
        runs[1].append(None if floor is None else bench.client(workload, floor, **arguments))
        runs[2].append(bench.try_client(workload, peer, **arguments))
    return runs


def start_up(bench):
    """9: from exec to the first acknowledged insert on a new directory; memory of an idle server."""
    for kind, most in START_MS.items():
        times = []
        for _ in range(bench.plan["starts"]):
            with tempfile.TemporaryDirectory(prefix="runnel-bench-") as path:
                where = ["--memory"] if kind == "memory" else ["--dbpath", path + "/data"]
                times.append(time_start(bench, where))
        name, theirs = f"start to first insert, {kind}", None
        if kind == "disk":
            theirs = median([time_peer_start(bench) for _ in range(min(5, bench.plan["starts"]))])
        bench.results.add(9, name, "ms", median(times), peer=theirs, at_most=most)
        bench.results.against_peer(name, "ms", median(times), theirs, False)
    with bench.ours() as server, peer_of(bench) as peer:
        bench.client("insert", server, **ONE_INSERT)
        theirs = None if bench.try_client("insert", peer, **ONE_INSERT) is None else peer.rss() / 1e6
        bench.results.add(9, "resident memory, idle", "MB", server.rss() / 1e6, peer=theirs, at_most=25)
        bench.results.against_peer("resident memory, idle", "MB", server.rss() / 1e6, theirs, False)


def time_peer_start(bench):
    """As time_start(); None without a peer, or if it cannot."""
    began = time.perf_counter()
    with peer_of(bench) as peer:
        if bench.try_client("insert", peer, **ONE_INSERT) is None:
            return None
        return (time.perf_counter() - began) * 1000


def time_start(bench, where):
    began = time.perf_counter()
    process = subprocess.Popen([bench.build / "runneld", "--port", "0", *where],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        uri = process.stdout.readline().split()[1]
        subprocess.run([bench.build / "tests/bench/bench", "insert", f"uri={uri}",
                        *(f"{k}={v}" for k, v in ONE_INSERT.items())], check=True, capture_output=True, timeout=60)
        return (time.perf_counter() - began) * 1000
    finally:
        process.terminate()
        process.wait(30)


def inserts(bench):
    """1: single inserts, durable and w:1, over connections."""
    series = []
    with (bench.ours() as ours, bench.skeleton() as floor, peer_of(bench) as synced,
          peer_of(bench, synced=False) as unsynced):
        for server in (ours, floor, synced, unsynced):
            bench.try_client("insert", server, conns=8, seconds=0.3)
        for w, label, counts, peer in (("", "durable", bench.plan["connections"], synced),
                                       ("1", "w:1", JUDGED_CONNECTIONS, unsynced)):
            for n in counts:
                a, b, p = turns(bench, [ours, floor, peer], "insert",
                                conns=n, seconds=bench.plan["seconds"], w=w)
                ops = field(a, "ops_per_second")
                theirs = field(p, "ops_per_second")
                if w == "":
                    series.append([n, ops, field(b, "ops_per_second"), theirs])
                if n in JUDGED_CONNECTIONS:
                    name = f"insert 200 B, {label}, {n} conn."
                    bench.results.add(1, name, "/s", ops, field(b, "ops_per_second"), "skeleton",
                                      theirs, at_least=INSERT_SHARE)
                    bench.results.against_peer(name, "/s", ops, theirs)
    bench.results.series["insert"] = series


def batches(bench):
    """2: inserts in batches of 1,000."""
    ours_runs, bare_runs, peer_runs = [], [], []
    seconds = bench.plan["seconds"] * 1.5
    with bench.ours() as ours, peer_of(bench) as peer:
        bench.client("batch", ours, seconds=0.2)
        for _ in range(bench.plan["repeats"]):
            ours_runs.append(bench.client("batch", ours, seconds=seconds))
            bare_runs.append(bench.bare("bare_batch", seconds=seconds))
            peer_runs.append(bench.try_client("batch", peer, seconds=seconds))
    docs, theirs = (field(r, "docs_per_second") for r in (ours_runs, peer_runs))
    name = "insert in batches of 1,000"
    bench.results.add(2, name, "doc/s", docs, field(bare_runs, "docs_per_second"),
                      "bare WiredTiger", theirs, at_least=BATCH_SHARE)
    bench.results.against_peer(name, "doc/s", docs, theirs)


STATEMENTS = ((3, "find", FIND_SHARE, 1), (3, "find", FIND_SHARE, 32), (4, "update", INSERT_SHARE, 32),
              (4, "delete", INSERT_SHARE, 32))


def statements(bench):
    """3 and 4: find, update, delete by _id. New servers for each repeat: two alike ones differ by up to a
    tenth for as long as they live, by where in memory their rows came to lie."""
    docs, peer_docs, repeats = bench.plan["docs"], bench.plan["peer_docs"], bench.plan["repeats"]
    runs = [([], [], []) for _ in STATEMENTS]
    with peer_of(bench) as peer:
        bench.try_client("load", peer, docs=peer_docs + peer_docs // 5 * repeats)
        for i in range(repeats):
            with bench.ours() as ours, bench.skeleton() as floor:
                for server in (ours, floor) if i % 2 == 0 else (floor, ours):
                    bench.client("load", server, docs=docs + docs // 5)
                for (_, workload, _, conns), to in zip(STATEMENTS, runs):
                    for server, n, first, out in zip((ours, floor, peer), (docs, docs, peer_docs),
                                                     (docs, docs, peer_docs + i * (peer_docs // 5)), to):
                        out.append(statement(bench, workload, server, conns, n, first))
    for (number, workload, share, conns), all_runs in zip(STATEMENTS, runs):
        add_statement(bench, number, workload, conns, share, all_runs)


def statement(bench, workload, server, conns, docs, first):
    """Of `docs` documents; what is deleted lies behind them, from `first` on."""
    if workload == "delete":
        return bench.try_client(workload, server, conns=conns, seconds=3, docs=first + docs // 5,
                                **{"from": first})
    return bench.try_client(workload, server, conns=conns, seconds=bench.plan["seconds"], docs=docs)


def add_statement(bench, number, workload, n, share, runs):
    ours, floor, theirs = (field(r, "ops_per_second") for r in runs)
    name = f"{workload} by _id, {n} conn."
    bench.results.add(number, name, "/s", ours, floor, "echo" if workload == "find" else "skeleton",
                      theirs, at_least=share)
    bench.results.against_peer(name, "/s", ours, theirs)


def scan(bench):
    """3: a range of _id over all documents."""
    docs, seconds = bench.plan["scan"], bench.plan["seconds"]
    runs = ([], [], [])
    with bench.ours() as ours, peer_of(bench) as peer:
        bench.client("load", ours, docs=docs)
        bench.try_client("load", peer, docs=bench.plan["peer_docs"])
        for _ in range(bench.plan["repeats"]):
            runs[0].append(bench.client("scan", ours, docs=docs, seconds=seconds))
            runs[1].append(bench.bare("bare_scan", docs=docs, seconds=seconds))
            runs[2].append(bench.try_client("scan", peer, docs=bench.plan["peer_docs"],
                                            seconds=seconds))
    docs, ceiling, theirs = (field(r, "docs_per_second") for r in runs)
    bench.results.add(3, "range scan", "doc/s", docs, ceiling, "bare scan and bytes", theirs,
                      at_least=SCAN_SHARE)
    bench.results.against_peer("range scan", "doc/s", docs, theirs)


def delivery(bench):
    """5: one watcher, 1,000 inserts a second. Counted from when the insert was due to be sent; and so are
    the syncs, 1,000 a second, that they are judged by: a machine that stops for 4 ms delays either."""
    runs, syncs, plain, theirs = [], [], [], []
    seconds = bench.plan["seconds"] * 3
    with bench.ours() as ours, peer_of(bench) as peer:
        for _ in range(bench.plan["delivery_repeats"]):
            runs.append(bench.client("delivery", ours, rate=1000, seconds=seconds))
            syncs.append(bench.bare("sync", rate=1000, seconds=seconds))
            plain.append(bench.bare("sync", seconds=0.5))
            theirs.append(bench.try_client("delivery", peer, rate=1000, seconds=seconds))
    for how, some in (("1,000 a second, from when it was due", syncs), ("one behind the other", plain)):
        bench.results.note(f"one sync of 4 KB, {how}: p50 {field(some, 'p50_us'):.0f} us, "
                           f"p99 {field(some, 'p99_us'):.0f} us, {field(some, 'ops_per_second'):.0f} /s")
    for point, beyond_us in (("p50", 300), ("p99", 2000)):
        us, sync = field(runs, f"delivery_{point}_us"), field(syncs, f"{point}_us")
        other = field(theirs, f"delivery_{point}_us")
        bench.results.add(5, f"delivery latency, {point}", "us", us, sync, "one sync", other,
                          at_most=beyond_us + sync,
                          text=f"≤ {beyond_us} us + one sync ({sync:.0f} us at {point})")
        bench.results.against_peer(f"delivery latency, {point}", "us", us, other, False)


# --- fan-out -------------------------------------------------------------------------------------


@contextlib.contextmanager
def parked(bench, server, n, idle=False):
    """n watchers that wait on collections of their own, or idle connections, for the time of the `with`."""
    process = subprocess.Popen([bench.build / "tests/bench/bench", "park", f"uri={server.uri}",
                                 f"watchers={n}", f"idle={int(idle)}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        if process.stdout.readline().strip() != "parked":
            raise RuntimeError(f"cannot park {n} watchers: {process.stderr.read()[:200]}")
        time.sleep(0.3)
        yield
    finally:
        process.stdin.close()
        process.wait(30)


def parked_pairs(bench, servers, n, pairs, idle=False):
    """Ratios, with n watchers to without, of writes a second and of CPU per write. A pair is four runs, as
    A B B A; and the servers change roles half-way, since one of two is always a little faster."""
    rates, costs = [], []
    for half, watched in enumerate(servers):
        alone = servers[1 - half]
        with parked(bench, watched, n, idle):
            for i in range((pairs + 1 - half) // 2):
                first, second = (alone, watched) if i % 2 == 0 else (watched, alone)
                runs = {alone: [], watched: []}
                for server in (first, second, second, first):
                    runs[server].append(bench.client("insert", server, conns=32, w=1,
                                                     seconds=bench.plan["seconds"] * 0.6))
                for key, ratios in (("ops_per_second", rates), ("server_cpu_us_per_op", costs)):
                    ratios.append(sum(r[key] for r in runs[watched]) / sum(r[key] for r in runs[alone]))
    return median(rates), median(costs)


def fanout_parked(bench):
    """6: what 100 to 10,000 watchers parked on other collections cost writers; and, to tell it from what
    so many sockets cost, as many connections that are idle."""
    series = []
    judged = bench.plan["parked"]
    with bench.ours() as one, bench.ours() as other:
        servers = (one, other)
        for server in servers:
            bench.client("insert", server, conns=8, seconds=0.3)
        for n in sorted(judged + bench.plan["parked_series"]):
            pairs = bench.plan["pairs"] if n in judged else min(4, bench.plan["pairs"])
            rate, cost = parked_pairs(bench, servers, n, pairs)
            series.append([n, rate, cost])
            if n in judged:
                bench.results.add(6, f"writes beside {n} parked watchers", "×", rate,
                                  at_least=1 - PARKED_LOSS, text="within 5 % of none")
                bench.results.add(6, f"CPU per write beside {n} parked", "×", cost,
                                  at_most=1 + PARKED_LOSS, text="within 5 % of none")
        rate, cost = parked_pairs(bench, servers, n, bench.plan["pairs"], idle=True)
        bench.results.add(6, f"writes beside {n} idle connections", "×", rate)
        bench.results.add(6, f"CPU per write beside {n} idle conn.", "×", cost)
    bench.results.series["parked"] = series
    parked_against_peer(bench)
    parked_memory(bench, n)


def parked_against_peer(bench):
    """Writes a second beside as many watchers of its own as the peer can hold of those judged."""
    for n in bench.plan["parked"]:
        try:
            with bench.ours() as ours, peer_of(bench) as peer:
                if peer is None:
                    return
                with parked(bench, ours, n), parked(bench, peer, n):
                    runs = turns(bench, [ours, None, peer], "insert", conns=32,
                                 seconds=bench.plan["seconds"])
        except (RuntimeError, subprocess.SubprocessError) as e:
            bench.results.note(f"{bench.results.peer_name} cannot hold {n} parked watchers: {str(e)[:160]}")
            return
        mine, theirs = (field(runs[i], "ops_per_second") for i in (0, 2))
        bench.results.against_peer(f"durable writes, {n} watchers parked", "/s", mine, theirs)


def parked_memory(bench, n):
    """Each with its connection and a collection of its own."""
    with bench.ours() as server:
        bench.client("insert", server, **ONE_INSERT)
        before = server.rss()
        with parked(bench, server, n):
            each = (server.rss() - before) / n
    bench.results.add(9, f"memory per parked watcher, of {n}", "bytes", each)


def fanout_hot(bench):
    """6: 100 watchers on the collection that is written; first at a fixed rate, then in bursts."""
    name = "100 hot watchers, 1,000 events/s, p99"
    seconds = bench.plan["seconds"] * 3
    with bench.ours() as ours, peer_of(bench, slow=True) as peer:
        runs, bare, theirs = [], [], []
        for _ in range(bench.plan["delivery_repeats"]):
            runs.append(bench.undisturbed("fanout", ours, watchers=100, rate=1000, seconds=seconds))
            bare.append(bench.undisturbed("bare_fanout", conns=100, rate=1000, seconds=seconds,
                                          bytes=int(runs[-1]["bytes_per_reply"])))
            theirs.append(bench.try_client("fanout", peer, watchers=100, rate=1000, seconds=seconds))
        p99, ceiling, other = (field(r, "delivery_p99_us") for r in (runs, bare, theirs))
        bench.results.add(6, name, "us", p99, ceiling, "bare sockets", other, at_most=20000)
        bench.results.against_peer(name, "us", p99, other, False)
        hot_bursts(bench, ours, peer)


def hot_bursts(bench, ours, peer):
    """The highest rate of events, all watchers together, and that of as many bytes by bare sockets."""
    name = "100 hot watchers, events delivered"
    runs, bare, theirs = [], [], []
    for _ in range(bench.plan["repeats"]):
        runs.append(bench.client("fanout", ours, watchers=100, rate=0, docs=20000))
        bare.append(bench.client("bare_fanout", conns=100, bytes=int(runs[-1]["bytes_per_reply"]),
                                 seconds=1))
        theirs.append(bench.try_client("fanout", peer, watchers=100, rate=0, docs=2000))
    rate, other = (field(r, "events_per_second") for r in (runs, theirs))
    ceiling = field(bare, "bytes_per_second") / field(runs, "bytes_per_event")
    bench.results.add(6, name, "/s", rate, ceiling, "bare sockets", other)
    bench.results.against_peer(name, "/s", rate, other)


# --- streams from the past -----------------------------------------------------------------------


def far_resume(bench):
    """7: a token with millions of foreign entries behind it."""
    plan = bench.plan
    with bench.ours("--oplog-size-mb", "16384") as ours:
        run = bench.client("resume", ours, timeout=400, entries=plan["entries"], steps=plan["steps"],
                           seconds=plan["load_seconds"])
    bench.results.series["resume"] = run["series"]
    bench.results.add(7, f"resume behind {run['entries'] / 1e6:g} M foreign entries", "ms",
                      run["first_event_ms"], at_most=50)
    if "spread_ms" in run:
        bench.results.add(7, "100 matches strewn over all of them", "ms", run["spread_ms"])
    with peer_of(bench, slow=True) as peer, bench.ours() as ours:
        arguments = dict(entries=plan["peer_entries"], steps=1)
        theirs = bench.try_client("resume", peer, **arguments)
        if theirs is not None:
            same = bench.client("resume", ours, **arguments)
            bench.results.against_peer(f"resume behind {plan['peer_entries']} entries", "ms",
                                       same["first_event_ms"], theirs["first_event_ms"], False)


def drain(bench):
    """8: a stream that reads what is there already."""
    n = bench.plan["drain"]
    runs, bare, theirs = [], [], []
    for _ in range(bench.plan["repeats"]):
        with bench.ours() as ours:
            runs.append(bench.client("drain", ours, events=n))
        bare.append(bench.bare("bare_drain", rows=n, row_bytes=193, event_bytes=434,
                               seconds=bench.plan["seconds"]))
    with peer_of(bench, slow=True) as peer:
        theirs.append(bench.try_client("drain", peer, events=n // 5))
    rate, ceiling = field(runs, "events_per_second"), field(bare, "events_per_second")
    other = field(theirs, "events_per_second")
    goal = min(DRAIN_PER_SECOND, DRAIN_SHARE * ceiling)
    name = f"drain of {n // 1000} k events"
    bench.results.add(8, name, "/s", rate, ceiling, "bare rows and bytes", other,
                      at_least=goal / ceiling, text=f"≥ {goal:.0f} /s (400 k, or half the ceiling)")
    bench.results.against_peer(name, "/s", rate, other)


def mix(bench):
    """10: 70/20/10 at 4,000 a second, across checkpoints and retention."""
    runs, bare, theirs = [], [], []
    arguments = dict(rate=4000, seconds=bench.plan["mix_seconds"], docs=50_000)
    with bench.ours("--oplog-size-mb", "8") as ours, peer_of(bench, slow=True) as peer:
        bench.client("load", ours, docs=50_000)
        bench.try_client("load", peer, docs=5_000)
        for _ in range(bench.plan["repeats"]):
            runs.append(bench.client("mix", ours, conns=32, **arguments))
            bare.append(bench.bare("bare_mix", threads=32, **arguments))
        theirs.append(bench.try_client("mix", peer, conns=32, **{**arguments, "docs": 5_000}))
    for point in ("p50", "p99"):
        key = f"{point}_us"
        bench.results.add(10, f"mix, {point}", "us", field(runs, key), field(bare, key),
                          "bare WiredTiger", field(theirs, key))
        bench.results.against_peer(f"mix, {point}", "us", field(runs, key), field(theirs, key), False)
    us, ceiling = field(runs, "p999_us"), field(bare, "p999_us")
    bench.results.add(10, "mix, p99.9", "us", us, ceiling, "bare WiredTiger",
                      field(theirs, "p999_us"), at_most=MIX_TIMES * ceiling,
                      text="≤ 2 × bare WiredTiger")
    bench.results.against_peer("mix, p99.9", "us", us, field(theirs, "p999_us"), False)


ALL = {"start": start_up, "insert": inserts, "batch": batches, "statement": statements,
       "scan": scan, "delivery": delivery, "parked": fanout_parked, "hot": fanout_hot,
       "resume": far_resume, "drain": drain, "mix": mix}
