# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests of change streams share."""

import time

import pymongo
from bson import Timestamp


def drain(stream, n=None, seconds=10.0):
    """The next n events; or, without n, all until one empty batch. Fails when n do not come."""
    events = []
    end = time.monotonic() + seconds
    while n is None or len(events) < n:
        event = stream.try_next()
        if event is not None:
            events.append(event)
        elif n is None or not stream.alive:
            break
        elif time.monotonic() > end:
            break
    assert n is None or len(events) == n, f"expected {n} events, got {events}"
    return events


def kinds(events):
    return [e["operationType"] for e in events]


def open_raw(db, coll, stage=None, stages=(), cursor=None):
    """The aggregate reply of a stream on a collection (name or 1)."""
    pipeline = [{"$changeStream": stage or {}}, *stages]
    return db.command("aggregate", coll, pipeline=pipeline, cursor=cursor or {})


def get_more(db, reply, max_time_ms=100, **kwargs):
    ns = reply["cursor"]["ns"]
    return db.command(
        "getMore", reply["cursor"]["id"], collection=ns.split(".", 1)[1], maxTimeMS=max_time_ms, **kwargs
    )


def token_time(token):
    """The clusterTime inside a token: bytes 1 to 8, big-endian seconds and increment."""
    raw = bytes.fromhex(token["_data"])
    assert raw[0] == 0x82
    return Timestamp(int.from_bytes(raw[1:5], "big"), int.from_bytes(raw[5:9], "big"))


def error_of(call):
    """The OperationFailure that the call raises."""
    try:
        call()
    except pymongo.errors.OperationFailure as e:
        return e
    raise AssertionError("no error was raised")
