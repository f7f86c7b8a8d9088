# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters right behind $changeStream are tested on oplog entries: that must change nothing.

Random filters over a random history, each stream read twice: as it is, and with push-down switched
off by the fail point disablePipelineOptimization. Events, tokens and errors must be the same bytes.
Also what push-down is for: an event that a filter drops needs no image and is not built.
"""

import random
import threading
import time

import pymongo
import pytest
from bson import Timestamp
from pymongo.errors import OperationFailure

from oracle import decode
from oracle_traffic import COLLECTIONS, DATABASES, RAW, Writer
from random_filters import Filters
from streamutil import drain, error_of, kinds, token_time

SERVER_OPTIONS = {"test_commands": True}
OPERATIONS = 700  # of the history
AT_LEAST = 60  # filters


@pytest.fixture
def seed(request):
    chosen = request.config.getoption("--oracle-seed")
    chosen = random.randrange(1 << 30) if chosen is None else chosen
    print(f"--oracle-seed {chosen}")
    return chosen


def as_written(client, on):
    client.admin.command("configureFailPoint", "disablePipelineOptimization", mode="alwaysOn" if on else "off")


@pytest.fixture
def optimized(client):
    yield
    as_written(client, False)


def make_history(srv, client, seed):
    """Random traffic; the time of its begin, and one behind its end."""
    begin = client.admin.command("ping")["operationTime"]
    stop = threading.Event()
    writers = [Writer(srv.uri, random.Random(seed + i), f"w{i}", stop, ddl=0.05) for i in range(2)]
    for writer in writers:
        writer.start()
    while all(w.is_alive() for w in writers) and sum(w.count for w in writers) < OPERATIONS:
        stop.wait(0.02)
    stop.set()
    for writer in writers:
        writer.join()
        assert not writer.faults
    client.admin.command("appendOplogNote", 1, data={"end": 1})
    return begin, client.admin.command("ping")["operationTime"]


def random_stream(rng, filters):
    """(database, collection or 1, stage, stages): `required` is left out, since a dropped event may
    lack its image."""
    stage = {"showExpandedEvents": rng.random() < 0.5}
    stage["fullDocument"] = rng.choice(("default", "default", "updateLookup", "whenAvailable"))
    stage["fullDocumentBeforeChange"] = rng.choice(("off", "off", "whenAvailable"))
    if rng.random() < 0.15:
        stage["showRawUpdateDescription"] = True
    scope = rng.randrange(3)
    db, coll = rng.choice(DATABASES), 1
    if scope == 0:
        db, stage["allChangesForCluster"] = "admin", True
    elif scope == 1:
        coll = rng.choice(COLLECTIONS)
    stages = filters.stages()
    if rng.random() < 0.2:
        stages.append({"$changeStreamSplitLargeEvent": {}})
    return db, coll, stage, stages


def read(client, what, begin, end, batch):
    """(events, how it ended): to the end of the history or of the stream, or to its error."""
    db, coll, stage, stages = what
    events = []
    pipeline = [{"$changeStream": {**stage, "startAtOperationTime": begin}}, *stages]
    try:
        reply = client[db].command("aggregate", coll, pipeline=pipeline, cursor={"batchSize": batch}, codec_options=RAW)
        while True:
            cursor = decode(reply.raw)["cursor"]
            name = "firstBatch" if "firstBatch" in cursor else "nextBatch"
            got = [d.raw for d in reply["cursor"][name]]
            token = cursor["postBatchResumeToken"]
            if got:
                # what comes behind a batch that is not full moves the token on: noops, at least
                last = decode(got[-1])["_id"]
                assert token == last if len(got) == batch else token["_data"] >= last["_data"]
            events += got
            if cursor["id"] == 0:
                return events, "closed"
            if token_time(token) > end and not got:
                break
            reply = client[db].command("getMore", cursor["id"], collection=cursor["ns"].split(".", 1)[1],
                                       batchSize=batch, maxTimeMS=1, codec_options=RAW)
    except OperationFailure as e:
        return events, (e.code, e.details["errmsg"].split(" :: caused by :: ")[-1], e.details.get("errorLabels"))
    client[db].command("killCursors", "$cmd.aggregate" if coll == 1 else coll, cursors=[cursor["id"]])
    return events, "read"


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_random_filters(srv, client, optimized, seed, request):
    rng = random.Random(seed)
    begin, end = make_history(srv, client, seed)
    client.admin.command("appendOplogNote", 1, data={"end": 2})
    everything = ("admin", 1, {"allChangesForCluster": True, "showExpandedEvents": True}, [])
    events, ended = read(client, everything, begin, end, 1000)
    assert ended == "read"
    events = [decode(raw) for raw in events]
    assert len(events) > 300 and len({e["operationType"] for e in events}) > 6
    filters = Filters(rng, events)
    until = time.monotonic() + request.config.getoption("--oracle-seconds")
    shown = failed = done = 0
    while done < AT_LEAST or time.monotonic() < until:
        streams = [(random_stream(rng, filters), rng.choice((1000, 1000, 7))) for _ in range(10)]
        pushed = [read(client, what, begin, end, batch) for what, batch in streams]
        as_written(client, True)
        plain = [read(client, what, begin, end, batch) for what, batch in streams]
        as_written(client, False)
        for (what, _), one, two in zip(streams, pushed, plain):
            assert one == two, what
            shown += len(one[0])
            failed += one[1] not in ("read", "closed")
            done += 1
    print(f"{done} filters over {len(events)} events: {shown} shown; {failed} ended with an error")
    assert shown and failed < done / 2


def test_a_dropped_event_needs_no_image(db):
    db.c.insert_one({"_id": 1, "n": 1})
    with db.c.watch([{"$match": {"updateDescription.updatedFields.n": {"$gt": 5}}}],
                    full_document_before_change="required") as stream:
        db.c.update_one({"_id": 1}, {"$set": {"n": 2}})
        db.c.update_one({"_id": 1}, {"$set": {"n": 6}})
        assert error_of(stream.next).code == 47
        assert "updatedFields" not in str(stream.resume_token)
    with db.c.watch([{"$match": {"updateDescription.updatedFields.n": {"$gt": 5}}}, {"$match": {"ns.coll": "c"}}],
                    full_document_before_change="required") as stream:
        db.c.update_one({"_id": 1}, {"$set": {"n": 3}})
        db.c.insert_one({"_id": 2})
        assert drain(stream) == []


@pytest.mark.parametrize("match", [
    {"fullDocument.n": 1},
    {"fullDocument.n": {"$exists": False}, "operationType": {"$ne": "insert"}},
    {"updateDescription.updatedFields.n": None},
    {"$nor": [{"clusterTime": {"$lt": Timestamp(1, 1)}}, {"to.coll": {"$exists": True}}]},
    {"$expr": {"$ne": ["$wallTime", None]}},
])
def test_filters_on_every_field_keep_their_meaning(db, client, optimized, match):
    db.c.insert_one({"_id": 0})
    streams = [db.c.watch([{"$match": match}], full_document="updateLookup")]
    as_written(client, True)
    streams.append(db.c.watch([{"$match": match}], full_document="updateLookup"))
    as_written(client, False)
    db.c.insert_one({"_id": 1, "n": 1})
    db.c.update_one({"_id": 0}, {"$set": {"n": 1}})
    db.c.replace_one({"_id": 1}, {"m": 1})
    db.c.delete_one({"_id": 0})
    db.c.drop()
    seen = [drain(s) for s in streams]
    assert seen[0] == seen[1]
    assert 0 < len(seen[0]) <= 6, kinds(seen[0])


def test_switched_off_nothing_is_pushed(db, client, optimized):
    command = {"aggregate": "c", "cursor": {},
               "pipeline": [{"$changeStream": {}}, {"$match": {"fullDocument.x": 1}}]}

    def pushed():
        return db.command("explain", command)["stages"][0].get("pushedDown")

    assert pushed() == [{"fullDocument.x": {"$eq": 1}}]
    as_written(client, True)
    assert pushed() is None
