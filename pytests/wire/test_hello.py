# SPDX-License-Identifier: GPL-3.0-or-later
"""hello and its old names: fields, awaitable and exhaust forms, client metadata."""

import datetime
import time

import bson
import pytest
from bson import ObjectId
from bson.int64 import Int64

from raw import EXHAUST_ALLOWED, OP_REPLY, Closed, RawClient, op_msg, op_query

FIELDS = {
    "topologyVersion": dict,
    "hosts": list,
    "setName": str,
    "setVersion": int,
    "secondary": bool,
    "primary": str,
    "me": str,
    "electionId": ObjectId,
    "lastWrite": dict,
    "maxBsonObjectSize": int,
    "maxMessageSizeBytes": int,
    "maxWriteBatchSize": int,
    "localTime": datetime.datetime,
    "logicalSessionTimeoutMinutes": int,
    "minWireVersion": int,
    "maxWireVersion": int,
    "readOnly": bool,
    "ok": float,
    "$clusterTime": dict,
    "operationTime": bson.Timestamp,
}


def check_primary(doc, name):
    for field, kind in FIELDS.items():
        assert type(doc[field]) is kind, field
    assert doc[name] is True
    other = {"isWritablePrimary": "ismaster", "ismaster": "isWritablePrimary"}[name]
    assert other not in doc
    assert doc["helloOk"] is True
    assert doc["setName"] == "rs0"
    assert doc["hosts"] == [doc["me"]]
    assert doc["primary"] == doc["me"]
    assert doc["secondary"] is False
    assert doc["maxBsonObjectSize"] == 16777216
    assert doc["maxMessageSizeBytes"] == 48000000
    assert doc["maxWriteBatchSize"] == 100000
    assert doc["logicalSessionTimeoutMinutes"] == 30
    assert (doc["minWireVersion"], doc["maxWireVersion"]) == (0, 25)
    assert str(doc["electionId"]).startswith("7fffffff00000000")
    assert doc["connectionId"] > 0
    assert type(doc["topologyVersion"]["processId"]) is ObjectId
    assert type(doc["topologyVersion"]["counter"]) is Int64
    last = doc["lastWrite"]
    assert set(last) >= {"opTime", "lastWriteDate", "majorityOpTime", "majorityWriteDate"}
    assert type(last["opTime"]["ts"]) is bson.Timestamp
    assert type(last["opTime"]["t"]) is Int64
    assert doc["$clusterTime"]["signature"] == {"hash": b"\0" * 20, "keyId": 0}
    for absent in ("msg", "isreplicaset", "serviceId", "hidden", "arbiterOnly", "compression"):
        assert absent not in doc
    assert doc["ok"] == 1.0


@pytest.mark.parametrize(
    "command, name",
    [("hello", "isWritablePrimary"), ("isMaster", "ismaster"), ("ismaster", "ismaster")],
)
def test_wp_01_fields_by_op_msg(raw, command, name):
    check_primary(raw.command({command: 1, "helloOk": True}), name)


@pytest.mark.parametrize("command", ["isMaster", "ismaster"])
def test_wp_01_fields_by_op_query(raw, command):
    reply = raw.call(op_query({command: 1, "helloOk": True}))
    assert reply.opcode == OP_REPLY
    assert (reply.cursor_id, reply.start, reply.count) == (0, 0, 1)
    assert reply.flags & 8, "AwaitCapable"
    check_primary(reply.doc, "ismaster")


def test_hello_by_op_query_wrapped_and_other_commands_refused(raw):
    doc = raw.call(op_query({"$query": {"hello": 1}, "$readPreference": {"mode": "primary"}})).doc
    assert doc["isWritablePrimary"] is True
    doc = raw.call(op_query({"ping": 1})).doc
    assert (doc["ok"], doc["code"], doc["codeName"]) == (0.0, 352, "UnsupportedOpQueryCommand")
    reply = raw.call(op_query({"x": 1}, ns="test.c"))
    assert reply.flags & 2, "QueryFailure"
    assert reply.doc["code"] == 5739101
    assert raw.ping() == 1.0


def test_hello_ok_is_echoed_only_when_asked(raw):
    assert "helloOk" not in raw.command({"hello": 1})


@pytest.mark.parametrize("command", ["Hello", "ISMASTER", "IsMaster", "HELLO"])
def test_other_casings_are_unknown(raw, command):
    doc = raw.command({command: 1})
    assert (doc["ok"], doc["code"], doc["codeName"]) == (0.0, 59, "CommandNotFound")
    assert doc["errmsg"] == f"no such command: '{command}'"


def test_compression_of_unknown_names_is_left_out(raw):
    assert "compression" not in raw.command({"hello": 1, "compression": ["none"]})


def awaitable(topology_version, wait_ms):
    return {
        "hello": 1,
        "topologyVersion": topology_version,
        "maxAwaitTimeMS": wait_ms,
        "$db": "admin",
    }


def timed(function):
    begin = time.monotonic()
    result = function()
    return time.monotonic() - begin, result


def test_wp_03_same_topology_waits(raw):
    version = raw.command({"hello": 1})["topologyVersion"]
    took, reply = timed(lambda: raw.call(op_msg(awaitable(version, 500))))
    assert 0.45 <= took < 10
    assert not reply.more_to_come
    assert reply.doc["topologyVersion"] == version
    assert reply.doc["isWritablePrimary"] is True


def test_wp_03_other_process_answers_at_once(raw):
    version = raw.command({"hello": 1})["topologyVersion"]
    version["processId"] = ObjectId()
    took, reply = timed(lambda: raw.call(op_msg(awaitable(version, 30000))))
    assert took < 15
    assert reply.doc["topologyVersion"]["processId"] != version["processId"]


def test_wp_03_older_counter_answers_at_once(raw):
    version = raw.command({"hello": 1})["topologyVersion"]
    version["counter"] = Int64(version["counter"] - 1)
    took, _ = timed(lambda: raw.call(op_msg(awaitable(version, 30000))))
    assert took < 15


def test_wp_03_exhaust_keeps_coming(raw):
    version = raw.command({"hello": 1})["topologyVersion"]
    raw.send(op_msg(awaitable(version, 300), flags=EXHAUST_ALLOWED, request_id=7777))
    expected = 7777
    for _ in range(3):
        took, reply = timed(raw.receive)
        assert 0.25 <= took < 10
        assert reply.more_to_come
        assert reply.response_to == expected
        expected = reply.request_id
        assert reply.doc["ok"] == 1.0


def test_wp_03_exhaust_flag_without_topology_version_is_an_error_or_single(raw):
    reply = raw.call(op_msg({"hello": 1, "$db": "admin"}, flags=EXHAUST_ALLOWED))
    assert not reply.more_to_come


@pytest.mark.parametrize(
    "change, code",
    [
        ({"maxAwaitTimeMS": 100}, 31368),
        ({"topologyVersion": {"processId": ObjectId(), "counter": Int64(1)}}, 31368),
        (
            {
                "topologyVersion": {"processId": ObjectId(), "counter": Int64(-1)},
                "maxAwaitTimeMS": 100,
            },
            31372,
        ),
        (
            {
                "topologyVersion": {"processId": ObjectId(), "counter": Int64(1)},
                "maxAwaitTimeMS": -1,
            },
            31373,
        ),
    ],
)
def test_awaitable_errors(raw, change, code):
    doc = raw.command({"hello": 1, **change})
    assert (doc["ok"], doc["code"]) == (0.0, code)


def test_counter_from_the_future_is_an_error(raw):
    version = raw.command({"hello": 1})["topologyVersion"]
    version["counter"] = Int64(version["counter"] + 1000)
    assert raw.call(op_msg(awaitable(version, 100))).doc["code"] == 31382


CLIENT = {
    "driver": {"name": "raw", "version": "1"},
    "os": {"type": "Linux"},
    "application": {"name": "tests"},
}


@pytest.mark.parametrize(
    "client, code",
    [
        (5, 14),
        ({"os": {"type": "Linux"}}, 183),
        ({"driver": {"name": "x"}, "os": {"type": "Linux"}}, 183),
        ({"driver": {"name": "x", "version": "1"}}, 183),
        ({**CLIENT, "application": {"name": 1}}, 14),
        ({**CLIENT, "application": {"name": "x" * 129}}, 184),
        ({**CLIENT, "padding": "x" * 1024}, 185),
    ],
)
def test_client_metadata_errors(raw, client, code):
    doc = raw.command({"hello": 1, "client": client})
    assert (doc["ok"], doc["code"]) == (0.0, code)
    assert raw.ping() == 1.0


def test_client_metadata_is_given_once(raw):
    assert raw.command({"hello": 1, "client": CLIENT})["ok"] == 1.0
    assert raw.command({"hello": 1, "client": CLIENT})["code"] == 186
    assert raw.command({"hello": 1})["ok"] == 1.0


def test_connection_ids_differ(srv, raw):
    with RawClient(srv.port) as other:
        ids = {c.command({"hello": 1})["connectionId"] for c in (raw, other)}
    assert len(ids) == 2


def test_exhaust_is_ended_by_hanging_up(srv, raw):
    version = raw.command({"hello": 1})["topologyVersion"]
    with RawClient(srv.port) as other:
        other.send(op_msg(awaitable(version, 10000), flags=EXHAUST_ALLOWED))
    assert raw.ping() == 1.0


def test_bytes_during_an_exhaust_stream_close_it(raw):
    version = raw.command({"hello": 1})["topologyVersion"]
    raw.send(op_msg(awaitable(version, 10000), flags=EXHAUST_ALLOWED))
    raw.send(op_msg({"ping": 1, "$db": "admin"}))
    with pytest.raises(Closed):
        while True:
            raw.receive()
