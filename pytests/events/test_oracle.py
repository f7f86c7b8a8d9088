# SPDX-License-Identifier: GPL-3.0-or-later
"""No change is lost, repeated, reordered or taken back: random traffic against a model.

Several writers do random operations (CRUD in all forms, DDL) while streams of every scope and shape
are opened, killed and resumed at random tokens. Then: a replay of the log must give the collections
as they are; every stream must have shown exactly its part of the log; and tokens, those of events
and those of batches, must resume to the exact rest. See ../oracle.py for the model.

    pytest pytests/events/test_oracle.py --oracle-seconds 600 --oracle-seed 7

The seed is printed when a test fails. It repeats the operations, not the interleaving. Of a short
history every token ever issued is resumed from, to its very end; of longer ones as many as there is
time for, a few events each.
"""

import random
import threading
import time
from collections import Counter

import pymongo
import pytest
from pymongo.errors import OperationFailure

from oracle import EXACT, Model, Replica, canonical, decode, key_of, sort_key
from oracle_traffic import DATABASES, RAW, Master, Stream, Watcher, Writer, random_options
from server import Server
from streamutil import token_time

WRITERS = 4
WATCHERS = 3
DDL = 0.06
WINDOW = 5  # events compared behind a token ...
ONE_IN = 25  # ... and for one token in so many, the whole rest
SHAPES = 16
LONGEST_TRAFFIC_S = 8
AT_LEAST = 200  # tokens that are tried
SHORT = 250  # operations of a history of which every token is tried


@pytest.fixture
def seed(request):
    chosen = request.config.getoption("--oracle-seed")
    chosen = random.randrange(1 << 30) if chosen is None else chosen
    print(f"--oracle-seed {chosen}")
    return chosen


@pytest.fixture
def seconds(request):
    return request.config.getoption("--oracle-seconds")


def traffic_seconds(seconds, share):
    """More time goes to more tokens, so that in the end all are tried."""
    return min(seconds * share, LONGEST_TRAFFIC_S)


# --- traffic ----------------------------------------------------------------------------------------


class Traffic:
    """What writers, watchers and the master stream did, over one or more lives of the server."""

    def __init__(self, seed, lossy=False, short=False):
        self.rng = random.Random(seed)
        self.lossy, self.short = lossy, short
        self.writers, self.watchers, self.events, self.tokens = [], [], [], []
        self.start = None
        self.shapes = [random_options(self.rng) for _ in range(6 if short else SHAPES)]

    def run(self, srv, seconds, end=None):
        """Traffic for a while, then quiet; or the server's `kill` or `stop` in the midst of it."""
        stop = threading.Event()
        life = len(self.writers)
        with pymongo.MongoClient(srv.uri) as client:
            if self.start is None:
                self.begin = client.admin.command("ping")["operationTime"]
                self.start = {"startAtOperationTime": self.begin}
        master = Master(srv.uri, self.start)
        paced_by = master if self.lossy else None
        writers = [Writer(srv.uri, self._rng(), f"w{life + i}", stop, DDL, master=paced_by)
                   for i in range(WRITERS)]
        watchers = [Watcher(srv.uri, self._rng(), stop, self.shapes, self.lossy) for _ in range(WATCHERS)]
        self.writers += writers
        self.watchers += watchers
        for thread in (master, *writers, *watchers):
            thread.start()
        if self.short:
            while all(w.is_alive() for w in writers) and sum(w.count for w in writers) < SHORT:
                stop.wait(0.01)
        else:
            stop.wait(seconds)
        if end:
            getattr(srv, end)()
            stop.set()
        else:
            stop.set()
            for thread in (*writers, *watchers):
                thread.join()
            with pymongo.MongoClient(srv.uri) as client:
                self.until = end_of_log(client)
            master.until = self.until
        for thread in (master, *writers, *watchers):
            thread.join()
            assert not thread.faults, thread.faults
            assert end or not thread.dead, "the server hung up"
        self.events += master.events
        self.tokens += master.tokens
        if master.tokens:
            self.start = {"startAfter": master.tokens[-1]}

    def run_through(self, srv, seconds, kills):
        """Writers whose driver retries, while the server is killed and started again."""
        with pymongo.MongoClient(srv.uri) as client:
            self.begin = client.admin.command("ping")["operationTime"]
        stop = threading.Event()
        self.writers = [Writer(srv.uri, self._rng(), f"w{i}", stop, DDL, patient=True) for i in range(WRITERS)]
        for writer in self.writers:
            writer.start()
        for _ in range(kills):
            stop.wait(seconds / kills * self.rng.uniform(0.5, 1.5))
            srv.kill()
            srv.start()
        stop.wait(1.0)
        stop.set()
        for writer in self.writers:
            writer.join()
            assert not writer.faults, writer.faults
        with pymongo.MongoClient(srv.uri) as client:
            self.until = end_of_log(client)
            self.events = read_all(client, Master.OPTIONS, {"startAtOperationTime": self.begin}, self.until).events

    def _rng(self):
        return random.Random(self.rng.randrange(1 << 62))

    @property
    def parts(self):
        return [part for watcher in self.watchers for part in watcher.parts]


def end_of_log(client):
    """A token behind which nothing has happened; there is an entry behind it that no stream shows."""
    now = client.admin.command("ping")["operationTime"]
    client.admin.command("appendOplogNote", 1, data={"end": 1})
    return f"82{now.time:08X}{now.inc:08X}FF"


def oldest_entry(client):
    return client.local["oplog.rs"].find_one(sort=[("$natural", 1)])["ts"]


def read_all(client, options, start, until, batch=None):
    """All events up to the end of the log, or of the stream."""
    stream = Stream(client, options, start, batch)
    while not stream.part.ended and stream.token <= until:
        stream.more(50)
    stream.kill()
    return stream.part


# --- checks -----------------------------------------------------------------------------------------


def replay(log):
    model = Model()
    for event in log:
        try:
            model.replay(event)
        except (AssertionError, KeyError, IndexError, TypeError) as e:
            raise AssertionError(f"{type(e).__name__} {e} at {event}") from e
    return model


def check_collections(client, model):
    """The model's state and the server's are the same."""
    found = {}
    for name in DATABASES:
        for info in client[name].list_collections():
            found[name, info["name"]] = info
    assert set(found) == set(model.collections)
    for (db, coll), info in found.items():
        wanted = model.collections[db, coll]
        assert bytes(info["info"]["uuid"]) == bytes(wanted.uuid)
        images = info["options"].get("changeStreamPreAndPostImages", {}).get("enabled", False)
        assert images == wanted.images
        assert set(client[db][coll].index_information()) == wanted.indexes
        docs = {key_of(d["_id"]): canonical(d) for d in client[db].get_collection(coll, EXACT).find()}
        assert docs == {key: canonical(d) for key, d in wanted.docs.items()}
        assert client[db].command("validate", coll, full=True)["valid"]


def check_oplog(client, begin):
    """A replay of the oplog gives the collections, byte for byte."""
    replica = Replica()
    query = {"ts": {"$gte": begin}, "$or": [{"ns": {"$regex": "^oracle_"}}, {"o.applyOps": {"$exists": True}}]}
    for entry in client.local.get_collection("oplog.rs", EXACT).find(query):
        replica.replay(entry)
    assert sorted(replica.collections) == sorted(
        f"{db}.{name}" for db in DATABASES for name in client[db].list_collection_names())
    for ns, (_, docs) in replica.collections.items():
        db, coll = ns.split(".", 1)
        found = client[db].get_collection(coll, RAW).find()
        assert {key_of(decode(d.raw)["_id"]): d.raw for d in found} == docs


def check_told(traffic, log, crashed):
    """What was acknowledged has its events, each once."""
    shown, deletes = {}, 0
    for event in log:
        kind = event["operationType"]
        deletes += kind == "delete"
        if kind == "update":
            marker = event["updateDescription"]["updatedFields"].get("m")
        else:
            marker = event.get("fullDocument", {}).get("m")
        if marker is not None and not event["ns"]["coll"].startswith("tmp"):  # copies of a rename
            marker = marker.split(".")[0]
            shown[marker] = shown.get(marker, 0) + 1
    for writer in traffic.writers:
        for marker, told in writer.told.items():
            count = shown.pop(marker, 0)
            exact = marker not in writer.unsure
            assert count == told if exact else count >= told, f"{marker}: {told} told, {count} shown"
    unsure = set().union(*(w.unsure for w in traffic.writers))
    assert set(shown) <= unsure, f"events of writes that nobody made: {set(shown) - unsure}"
    told = sum(w.deleted for w in traffic.writers)
    assert deletes >= told if crashed else deletes == told


def check_parts(traffic, known, model):
    """Every life of every watcher showed exactly what it had to."""
    for part in traffic.parts:
        if part.initial is None:
            continue
        tokens = [sort_key(t) for t in part.tokens]
        assert tokens == sorted(tokens), "a token went back"
        expected = known[repr(part.options)]
        first = first_of(expected, part.start, part.initial)
        expected.check(model, part, first, part.ended)
        # the last token tells how far the stream has got: no event at or before it is missing
        upto = expected.first_after(tokens[-1])
        run = len([s for s in expected.shown[first:upto] if s.visible])
        assert len(part.events) >= run, f"{part.options}: the token passed an event"


def first_of(expected, start, initial=None):
    if "startAtOperationTime" in start:
        return expected.first_at(start["startAtOperationTime"])
    token = start.get("startAfter") or start.get("resumeAfter")
    return expected.first_after(sort_key(token or {"_data": initial}))


def check_tokens(client, traffic, known, model, budget_s, rng):
    """Resumes at every token that was, or would be, issued, in random order, until the time is up.

    What comes must be exactly the rest, or 286 where the oplog does not reach back so far.
    """
    jobs = {}
    for shape, expected in known.items():
        for shown in expected.shown:
            if shown.visible:
                jobs[shape, shown.token] = shown.event["_id"]
    for part in traffic.parts:
        jobs.update(((repr(part.options), t["_data"]), t) for t in part.tokens)
    jobs.update(((repr(Master.OPTIONS), t["_data"]), t) for t in traffic.tokens)
    order = list(jobs.items())
    rng.shuffle(order)
    end = None if traffic.short else time.monotonic() + budget_s
    done = lost = 0
    for (shape, _), token in order:
        if not traffic.short and done >= AT_LEAST and time.monotonic() > end:
            break
        try:
            whole = traffic.short or done % ONE_IN == 0
            check_resume(client, model, known[shape], token, traffic.until, rng, whole)
        except OperationFailure as e:
            assert traffic.lossy and e.code == 286, f"{shape} resumed at {token}: {e}"
            assert token_time(token) < oldest_entry(client), f"{token} is within the oplog"
            lost += 1
        done += 1
    return done, lost, len(order)


def check_resume(client, model, expected, token, until, rng, whole):
    invalid = sort_key(token).endswith("6F")
    start = {"startAfter" if invalid or rng.random() < 0.5 else "resumeAfter": token}
    first = first_of(expected, start)
    if whole:
        part = read_all(client, expected.options, start, until, rng.choice((None, 3, 50)))
        expected.check(model, part, first, True)
        return
    stream = Stream(client, expected.options, start, WINDOW)
    expected.check(model, stream.part, first, False)
    there = len(expected.run(first)[0])
    fails = there < WINDOW and expected.fails(first)
    where = f"{expected.options} resumed at {token}"
    assert stream.part.failed == fails, f"{where}: failed: {stream.part.failed}, wanted: {fails}"
    assert fails or len(stream.part.events) == min(WINDOW, there), f"{where}: too few"
    stream.kill()


def check_everything(srv, traffic, seconds, crashed=False):
    rng = random.Random(1)
    with pymongo.MongoClient(srv.uri) as client:
        begin = oldest_entry(client) if traffic.lossy else traffic.begin
        again = read_all(client, Master.OPTIONS, {"startAtOperationTime": begin}, traffic.until)
        shared = traffic.events[-len(again.events) :] if traffic.lossy else traffic.events
        assert shared == again.events, "live and later, the log is not the same"
        log = [decode(raw) for raw in traffic.events]
        order = [sort_key(e["_id"]) for e in log]
        assert all(a < b for a, b in zip(order, order[1:])), "tokens do not grow"
        model = replay(log)
        check_collections(client, model)
        if not traffic.lossy:
            check_oplog(client, traffic.begin)
        check_told(traffic, log, crashed)
        known = {repr(o): o.expected(log) for o in (Master.OPTIONS, *traffic.shapes)}
        check_parts(traffic, known, model)
        done, lost, total = check_tokens(client, traffic, known, model, seconds, rng)
    kinds = dict(Counter(e["operationType"] for e in log))
    together = sum("txnNumber" in e for e in log)
    failed = sum(part.failed for part in traffic.parts)
    print(f"{len(log)} events {kinds}, {together} in transactions; {len(traffic.parts)} streams, {failed} without"
          f" a required image; resumed at {done} of {total} tokens, {lost} of them lost")
    return log


# --- tests ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.concurrent
@pytest.mark.timeout(0)
def test_random_traffic(request, seed, seconds):
    if request.config.getoption("--uri"):
        pytest.skip("starts its own server")
    traffic = Traffic(seed)
    with Server(memory=True) as srv:
        traffic.run(srv, traffic_seconds(seconds, 0.15))
        log = check_everything(srv, traffic, seconds * 0.4)
    assert len(log) > 200, "too little traffic to show anything"


@pytest.mark.slow
@pytest.mark.concurrent
@pytest.mark.timeout(0)
def test_every_token_of_a_short_history(request, seed):
    if request.config.getoption("--uri"):
        pytest.skip("starts its own server")
    traffic = Traffic(seed, short=True)
    with Server(memory=True) as srv:
        traffic.run(srv, None)
        check_everything(srv, traffic, None)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_random_traffic_over_restarts(tmp_path, request, seed, seconds):
    if request.config.getoption("--uri"):
        pytest.skip("starts its own server")
    traffic = Traffic(seed)
    with Server(path=tmp_path / "data") as srv:
        for end in ("kill", "stop", "kill", None):
            traffic.run(srv, traffic_seconds(seconds, 0.05), end)
            if end:
                srv.start()
        check_everything(srv, traffic, seconds * 0.4, crashed=True)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_retries_across_sigkill(tmp_path, request, seed, seconds):
    """What the driver sent again, because the server had died before it answered, is done once."""
    if request.config.getoption("--uri"):
        pytest.skip("starts its own server")
    traffic = Traffic(seed)
    with Server(path=tmp_path / "data") as srv:
        traffic.run_through(srv, seconds * 0.2, kills=max(3, int(seconds / 4)))
        check_everything(srv, traffic, seconds * 0.1, crashed=True)
    cut = sum(w.kinds["cut off"] for w in traffic.writers)
    print(f"{cut} operations were cut off in spite of retries")


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_random_traffic_over_a_short_oplog(request, seed, seconds):
    if request.config.getoption("--uri"):
        pytest.skip("starts its own server")
    traffic = Traffic(seed, lossy=True)
    with Server(memory=True, oplog_max_entries=400) as srv:
        traffic.run(srv, traffic_seconds(seconds, 0.15))
        check_everything(srv, traffic, seconds * 0.2)
        with pymongo.MongoClient(srv.uri) as client:
            assert oldest_entry(client) > traffic.begin, "the oplog was not short enough"
    print(f"{sum(w.lost for w in traffic.watchers)} streams lost their place")
