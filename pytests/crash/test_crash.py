# SPDX-License-Identifier: GPL-3.0-or-later
"""Death at every named place, and what must hold afterwards.

A cycle: writers log what was acknowledged, watchers log events and tokens, the server dies at a fault
point, in some cycles it dies again while it starts, a new one starts, every watcher goes on from its
token. Then: what was acknowledged is in data, indexes and oplog, once and in order; every event is that
of an entry, every entry had its event; no optime came twice; `validate` is clean; a retried write is
answered as the first time.

    make crash CRASH_KILLS=1000 CRASH_SEED=7

A run of four cycles works on one directory. Every third run is on WiredTiger's own files (SIGKILL:
the kernel keeps what was written); the others are on a disk that forgets what was not synced
(tests/crash/disk.h: a power cut), one of them with some of it leaking out early.
"""

import collections
import contextlib
import pathlib
import random
import re
import signal
import subprocess
import threading
import time

import pytest
from bson import Binary, Int64

from crash_history import Collection, History, all_of
from crash_load import (
    DB, IMAGES, INDEXES, OTHER, Checkpointer, Definer, Retrier, Sider, Transactor, Unsynced, Writer, db_of,
)
from crash_watch import Stream, Tailer, Watcher
from raw import Closed, RawClient, op_msg
from server import Server, ServerError, binary

TRANSACTION_TOO_OLD, NO_SUCH_TRANSACTION = 225, 251
CYCLES = 4  # with one directory
DISKS = ("files", "forgetful", "leaking")
OPLOG_ENTRIES = 10_000  # so that old entries are removed all the time
GIVE_UP_S = 3  # a point that is not reached in so long is not reached

# Every fault point of base/faults.def: the process dies at a passing up to this one.
POINTS = {
    "allocLarge": 200,
    "allocate": 5000,
    "ceilingWritten": 2,
    "checkpointAfter": 4,
    "checkpointBefore": 4,
    "collMod": 2,
    "commitAfter": 500,
    "commitBefore": 500,
    "cursorRegistered": 2,
    "ddlCommitted": 8,
    "ddlCreateBeforeCommit": 3,
    "ddlDropAfterCommit": 2,
    "ddlRenameBeforeCommit": 3,
    "ddlTxnMeta": 3,
    "dropDatabase": 2,
    "flushAfter": 100,
    "flushBefore": 100,
    "imagesExpire": 3,
    "imagesExpired": 2,
    "indexBuild": 2,
    "indexBuildAbort": 1,
    "indexBuildScan": 2,
    "indexBuildStart": 1,
    "multikeySet": 2,
    "oplogRow": 1000,
    "optimeTaken": 500,
    "parkLooked": 20,
    "renameCopy": 2,
    "replyBefore": 500,
    "retryRecord": 150,
    "scanSnapshot": 200,
    "segmentSeal": 2,
    "segmentStored": 2,
    "sessionReap": 1,
    "socketRead": 3000,
    "socketShort": 3000,
    "socketWrite": 1500,
    "storageBegin": 2000,
    "storageCommit": 1000,
    "storageOpen": 60,
    "storageRead": 8000,
    "storageWrite": 4000,
    "tableCreate": 6,
    "tableDrop": 3,
    "truncateAfter": 2,
    "truncateBefore": 2,
    "truncateCommit": 2,
    "txnCommitAfter": 20,
    "txnCommitBefore": 20,
}
# What the definer does there.
STEPS_TO = {"collMod": "images", "ddlCreateBeforeCommit": "create", "ddlDropAfterCommit": "drop",
            "ddlRenameBeforeCommit": "rename", "dropDatabase": "drop_database", "indexBuild": "index_under_writers",
            "indexBuildAbort": "bad_index", "indexBuildScan": "index_under_writers",
            "indexBuildStart": "index_under_writers", "renameCopy": "copy_out", "tableDrop": "drop"}
# The same for points that are armed before the server starts ("start:name").
START_POINTS = {"startClaimed": 1, "startMarker": 1, "startOpened": 1, "startSizes": 1, "storageCommit": 6,
                "storageWrite": 12, "flushBefore": 2, "flushAfter": 2, "tableCreate": 5, "commitAfter": 2}
# While a leftover is dropped at the start, behind a death at the other point.
DROP, COPY = "dropTemporary", "renameCopy"
# After SIGTERM ("stop:name"), and any time after it.
STOP_POINTS = ("stopBegin", "stopClosed", "stopLast", "stopSegments", "stopSizes")
STOP_ANY = "stop:(any time)"
STOP_S, START_S = 0.03, 0.08  # a clean stop and a start take about so long
ANY_TIME = "(any time)"  # killed from outside
ANY_STEP = "(any step)"  # of the disk: the power goes between two writes to it
STEPS, START_STEPS = 1500, 40
HELD = 0.3  # of the deaths at a point that is come to while running, but for those where a wait stops the sync
UNHELD = {"allocLarge", "allocate", "ceilingWritten", "flushAfter", "flushBefore", "replyBefore"}  # or us
SYNC_MS = 200  # no commit is unsynced for so long
AGAIN = 0.5  # of the deaths are followed by up to three while the next process starts
HOUR_MS = 3_600_000


class Plan:
    """Where the process dies in each cycle: every place once, in random order, then again."""

    def __init__(self, rng, disk):
        self.rng = rng
        places = [*POINTS, DROP, STOP_ANY]
        places += [f"start:{p}" for p in START_POINTS] + [f"stop:{p}" for p in STOP_POINTS]
        places += [ANY_TIME] if disk == "files" else [ANY_STEP, ANY_STEP]
        self.places, self.left = places, []

    def next(self):
        if not self.left:
            self.left = self.rng.sample(self.places, len(self.places))
        return self.left.pop()


class Run:
    """Cycles of load, death and checks on one directory."""

    def __init__(self, path, disk, plan, rng, tally):
        self.disk, self.plan, self.rng, self.tally = disk, plan, rng, tally
        options = {"path": path, "test_commands": True, "oplog_max_entries": OPLOG_ENTRIES}
        program = None if disk == "files" else crashfs()
        self.server = Server(**options, program=program)
        self.life = 0
        self.streams = [
            Stream("c", "resume", {"fullDocument": "whenAvailable", "fullDocumentBeforeChange": "whenAvailable"}),
            Stream(DB, "event", {"showExpandedEvents": True}),
            Stream(OTHER, "after", {"showExpandedEvents": True, "fullDocumentBeforeChange": "whenAvailable"}),
            Stream("cluster", "after", {"showExpandedEvents": True, "allChangesForCluster": True}),
        ]

    # --- a life of the server -------------------------------------------------------------------

    def environment(self, place=""):
        env = {}
        if self.disk != "files":
            words = [f"seed={self.rng.randrange(1 << 30)}"]
            if self.disk == "leaking":
                words.append("leak=200")
            if place == ANY_STEP:
                words.append(f"cut={self.rng.randint(1, STEPS)}")
            env["RUNNEL_CRASHFS"] = " ".join(words)
        if place.startswith("start:"):
            point = place.split(":")[1]
            env["RUNNEL_FAULT"] = f"{point}:kill:{self.rng.randint(1, START_POINTS.get(point, 1))}"
        if place == "sessionReap":  # the records of earlier lives are too old
            env["RUNNEL_CLOCK_SHIFT_MS"] = str(HOUR_MS)
        return env

    def begin(self):
        self.server.start(self.environment())
        session = {"lsid": {"id": Binary(self.rng.randbytes(16), 4)}, "txnNumber": Int64(1)}
        with RawClient(self.server.port) as raw:
            for command in ({"create": "c", **IMAGES}, {"createIndexes": "c", "indexes": INDEXES}, {"create": "k"},
                            *[{"insert": "c", "documents": [{}] * 1000, "$db": "filler"}] * (OPLOG_ENTRIES // 1000),
                            {"insert": "c", "documents": [{}], "$db": "filler", **session}):
                reply = raw.command(command, None if "$db" in command else DB)
                assert reply["ok"] == 1 and "writeErrors" not in reply, reply
            start = raw.command({"appendOplogNote": 1, "data": {"the": "start"}})["operationTime"]
            self.history = History(start)
            for info in all_of(raw, DB, {"listCollections": 1}):
                coll = Collection(f"{DB}.{info['name']}", info["name"] == "c", False)
                self.history.collections[info["info"]["uuid"]] = coll
        self.history.named(f"{DB}.c").indexes |= {"u_1", "tags_v"}
        for stream in self.streams:
            stream.start = start

    def clients(self):
        port, rng, names = self.server.port, self.rng, self.history.names()
        docs = {**names[f"{DB}.c"].docs, **names[f"{DB}.k"].docs}
        self.life += 1
        self.writers = []
        for name, kind in (("a", Writer), ("b", Writer), ("r", Retrier), ("s", Retrier), ("t", Transactor),
                           ("w", Unsynced), ("e", Sider)):
            own = {k: v for k, v in docs.items() if k.startswith(f"{name}.")}
            self.writers.append(kind(port, name, self.life, random.Random(rng.random()), own))
        mine = {ns.split(".")[1]: k.indexes for ns, k in names.items() if re.match(rf"{DB}\.(c|d\d)$", ns)}
        self.definer = Definer(port, self.life, random.Random(rng.random()), mine)
        self.tailer = Tailer(port, self.history.upto)
        self.watchers = [Watcher(port, s) for s in self.streams]
        return [*self.writers, self.definer, self.tailer, Checkpointer(port), *self.watchers]

    def term(self):
        with RawClient(self.server.port) as raw:
            newest = all_of(raw, "local", {"find": "oplog.rs", "sort": {"$natural": -1}, "limit": 1})
            return newest[0]["t"]

    def cycle(self):
        """One death, or some in a row, and the checks behind them."""
        place = self.plan.next()
        died = False
        if place.startswith("start:") or place in (ANY_STEP, "sessionReap"):
            self.server.kill()
            died = not self.start(place)
        if died:
            self.server.start(self.environment())
            self.check([])
        term, clients = self.term(), self.clients()
        running = COPY if place == DROP else place
        self.definer.wanted = STEPS_TO.get(running)
        for client in clients:
            client.start()
        for client in clients:
            client.ready.wait(20)
        self.die(running, died)
        for client in clients:
            client.join(60)
            assert client.fault is None and not client.is_alive(), client.fault
        self.recover(place)
        self.check(clients, term)

    def start(self, place):
        """With a death waiting; False when it came before the server listened."""
        try:
            self.server.start(self.environment(place))
        except ServerError:
            self.tally[place] += 1
            return False
        return True

    def recover(self, place):
        """Starts anew; sometimes only after deaths on the way, at points, steps of the disk or any time."""
        if place == DROP and self.start(f"start:{DROP}"):
            self.server.kill()
            self.tally[f"{DROP}, not reached"] += 1
        if self.rng.random() < AGAIN:
            for _ in range(self.rng.randint(1, 3)):
                outside = ANY_TIME if self.disk == "files" else ANY_STEP
                self.die_at_start(self.rng.choice([outside, outside, *START_POINTS]))
        self.server.start(self.environment())

    def die_at_start(self, place):
        env = self.environment(f"start:{place}" if place in START_POINTS else place)
        if place == ANY_STEP:
            env["RUNNEL_CRASHFS"] = re.sub(r"cut=\d+", f"cut={self.rng.randint(1, START_STEPS)}", env["RUNNEL_CRASHFS"])
        after = self.rng.uniform(0, START_S) if place == ANY_TIME else HOUR_MS
        timer = threading.Timer(after, self.server.kill_process)
        timer.start()
        try:
            self.server.start(env)
            self.tally["again, not reached"] += 1
        except ServerError:
            self.tally["again, while starting"] += 1
        timer.cancel()
        timer.join()
        self.server.kill()

    def die(self, place, died):
        """Kills the server at the place, or from outside when that is not to be."""
        time.sleep(self.rng.uniform(0.03, 0.2))
        held = place == COPY or self.rng.random() < HELD
        if place in POINTS and place not in UNHELD and held and not died:
            self.die_held(place)
            return
        self.arm(place, "kill")
        if place.startswith("stop:"):
            self.server.process.send_signal(signal.SIGTERM)
        if place == STOP_ANY:
            time.sleep(self.rng.uniform(0, STOP_S))
        if place in (ANY_TIME, STOP_ANY) or died:
            self.server.kill()
            self.tally[place if place == STOP_ANY else ANY_TIME] += 1
            return
        try:
            code = self.server.wait(GIVE_UP_S)
            assert code == -signal.SIGKILL, (place, code, self.server.log_tail())
            self.tally[place] += 1
        except subprocess.TimeoutExpired:
            self.server.kill()
            self.tally[f"{place}, not reached"] += 1

    def arm(self, place, action):
        """The passing at which it happens."""
        point = place.removeprefix("stop:")
        nth = self.rng.randint(1, POINTS.get(point, 1))
        if point not in POINTS and point not in STOP_POINTS:
            return nth
        with contextlib.suppress(Closed, OSError), RawClient(self.server.port, timeout=GIVE_UP_S) as raw:
            if place.startswith("imagesExpire"):
                self.let_images_expire(raw)
            raw.command({"runnelFault": f"{point}:{action}:{nth}"})
            if place == "sessionReap":
                raw.send(op_msg({"reapLogicalSessionCacheNow": 1, "$db": "admin"}))
                raw.silent(0.01)
        return nth

    def die_held(self, point):
        """Who comes there waits, while all that was done before becomes durable: a step that a death alone
        would lose with the one before it."""
        nth, hits = self.arm(point, "wait"), 0
        end = time.monotonic() + GIVE_UP_S
        with contextlib.suppress(Closed, OSError), RawClient(self.server.port, timeout=GIVE_UP_S) as raw:
            while hits < nth and time.monotonic() < end:
                reply = raw.command({"runnelFault": f"{point}:wait:{nth}"})
                assert reply["ok"] == 1, reply
                hits = reply["hits"]
                time.sleep(0.005)
        with contextlib.suppress(Closed, OSError), RawClient(self.server.port, timeout=2 * SYNC_MS / 1000) as raw:
            concern = {"w": "majority", "wtimeout": SYNC_MS}  # it may come to the point itself
            raw.command({"appendOplogNote": 1, "data": {}, "writeConcern": concern})
        self.server.kill()
        self.tally[f"{point}, held" if hits >= nth else f"{point}, not reached"] += 1

    def let_images_expire(self, raw):
        """From now on, for the rest of the run, images live for a second."""
        for stream in self.streams:
            stream.expiring = True
        after = {"preAndPostImages": {"expireAfterSeconds": Int64(1)}}
        reply = raw.command({"setClusterParameter": {"changeStreamOptions": after}})
        assert reply["ok"] == 1, reply

    # --- checks ---------------------------------------------------------------------------------

    def check(self, clients, term=None):
        h = self.history
        if clients:
            h.seen.update(self.tailer.entries)
            h.told[term] = max([*(c.newest for c in clients), *self.tailer.entries])
        with RawClient(self.server.port, timeout=60) as raw:
            for retrier in [w for w in clients if isinstance(w, Retrier)]:
                self.send_again(raw, retrier)
            for transactor in [w for w in clients if isinstance(w, Transactor)]:
                self.commit_again(raw, transactor)
            reply = raw.command({"appendOplogNote": 1, "data": {"life": self.life}})
            assert reply["ok"] == 1, reply
            flat = h.read(raw)
            if clients:
                for writer in self.writers:
                    h.check_writer(writer, flat)
                h.check_definer(self.definer, flat)
            h.check_data(raw)
            h.check_catalog(raw)
            h.check_count(raw)
        for stream in self.streams:
            h.check_stream(stream)

    def send_again(self, raw, retrier):
        """The newest two writes of a session, as a driver would that got no reply."""
        for command, reply in retrier.sent:
            again = raw.command({**command, "$db": db_of(command)})
            if reply is None:
                assert again["ok"] == 1 and "writeErrors" not in again and not again.get("nErrors"), again
                retrier.log, retrier.doubt = retrier.log + retrier.doubt, []
            elif again.get("code") != TRANSACTION_TOO_OLD:  # the session is past it: the newer one was durable
                assert essence(again) == essence(reply), (command, reply, again)
            else:
                assert command is not retrier.sent[-1][0], (command, again)

    def commit_again(self, raw, transactor):
        """The newest commit once more: it is done, or it never happened."""
        if transactor.commit is None:
            return
        reply = raw.command(transactor.commit)
        if reply["ok"] == 1:
            transactor.log, transactor.doubt = transactor.log + transactor.doubt, []
        else:
            assert reply["code"] == NO_SUCH_TRANSACTION and transactor.doubt, (transactor.commit, reply)
            transactor.doubt = []

    def end(self):
        """Quiet: every stream must come to the end of the log; a clean stop and start change nothing."""
        watchers = [Watcher(self.server.port, s) for s in self.streams]
        for watcher in watchers:
            watcher.start()
        end = time.monotonic() + 30
        for stream in self.streams:
            while True:
                with contextlib.suppress(AssertionError):
                    self.history.check_stream(stream, whole=True)
                    break
                if time.monotonic() > end:
                    self.history.check_stream(stream, whole=True)
                time.sleep(0.02)
        self.server.stop()
        for watcher in watchers:
            watcher.join(30)
        self.server.start(self.environment())
        self.check([])
        self.server.stop()
        if self.disk == "files":
            self.check_tables()

    def check_tables(self):
        """No table outlives its collection or index."""
        files = [p.stem for p in pathlib.Path(self.server.path).glob("*.wt")]
        tables = [f for f in files if f.startswith(("coll-", "index-"))]
        filler = 2
        assert len(tables) == filler + sum(1 + len(k.indexes) for k in self.history.collections.values()), tables


def essence(reply):
    ignored = ("operationTime", "$clusterTime", "retriedStmtIds", "retriedStmtId")
    return {k: v for k, v in reply.items() if k not in ignored}


def crashfs():
    """The server on a disk that forgets, beside the one under test."""
    program = pathlib.Path(binary()).parent / "tests" / "crash" / "runneld-crashfs"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    return str(program)


def run_all(tmp_path, kills, seed):
    rng = random.Random(seed)
    tallies = {disk: collections.Counter() for disk in DISKS}
    plans = {disk: Plan(rng, disk) for disk in DISKS}
    started, number = time.monotonic(), 0

    def count():
        return sum(sum(t.values()) for t in tallies.values())

    try:
        while count() < kills or number < len(DISKS):
            disk = DISKS[number % len(DISKS)]
            run = Run(tmp_path / f"data{number}", disk, plans[disk], rng, tallies[disk])
            number += 1
            with contextlib.closing(run.server):
                run.begin()
                for _ in range(CYCLES):
                    run.cycle()
                run.end()
    finally:
        report(tallies, seed, number, time.monotonic() - started)
    return tallies


def report(tallies, seed, runs, seconds):
    total = sum(tallies.values(), collections.Counter())
    print(f"\nseed {seed}: {sum(total.values())} deaths in {runs} runs, {seconds:.0f} s")
    for disk, tally in tallies.items():
        print(f"  {disk}: {sum(tally.values())}")
    for place, n in sorted(total.items()):
        print(f"    {n:5} {place}")


def test_every_point_has_its_deaths():
    table = pathlib.Path(__file__).resolve().parents[2] / "base" / "faults.def"
    named = set(re.findall(r'FAULT_POINT\(\w+, "(\w+)"', table.read_text()))
    assert named == {*POINTS, *START_POINTS, *STOP_POINTS, DROP}


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_deaths(request, tmp_path):
    if request.config.getoption("--uri"):
        pytest.skip("kills its own server")
    kills = request.config.getoption("--crash-kills")
    seed = request.config.getoption("--crash-seed")
    tallies = run_all(tmp_path, kills, random.randrange(1 << 30) if seed is None else seed)
    total = sum(tallies.values(), collections.Counter())
    reached = {p for p in total if "not reached" not in p}
    assert len(reached) >= min(10, kills // 2) and sum(total[p] for p in reached) >= kills * 0.8
