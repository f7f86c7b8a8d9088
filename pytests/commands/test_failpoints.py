# SPDX-License-Identifier: GPL-3.0-or-later
"""configureFailPoint: what drivers' test suites use to make a server fail at will."""

import itertools
import os
import time

import pymongo
import pytest
from bson import Binary
from bson.int64 import Int64

from raw import Closed, RawClient, op_msg, op_query
from server import Server

SERVER_OPTIONS = dict(test_commands=True)
TEXT = "Failing command via 'failCommand' failpoint"
POINTS = ("failCommand", "failGetMoreAfterCursorCheckout", "maxTimeAlwaysTimeOut",
          "maxTimeNeverTimeOut", "onPrimaryTransactionalWrite")


@pytest.fixture
def arm(srv):
    """Sets a fail point over a connection of its own; all are off again after the test."""
    with RawClient(srv.port) as control:
        def set_point(mode, name="failCommand", **data):
            answer = control.command({"configureFailPoint": name, "mode": mode, "data": data})
            assert answer["ok"] == 1, answer
            return answer["count"]

        yield set_point
        for name in POINTS:
            set_point("off", name)


def lsid():
    return {"id": Binary(os.urandom(16), 4)}


_numbers = itertools.count(1)


def retryable_insert(raw, db, doc, **more):
    return raw.command({"insert": "c", "documents": [doc], "lsid": lsid(),
                        "txnNumber": Int64(next(_numbers)), **more}, db.name)


# --- the command itself ---------------------------------------------------------------------------


def test_only_with_test_commands():
    with Server(memory=True) as plain, RawClient(plain.port) as raw:
        refused = raw.command({"configureFailPoint": "failCommand", "mode": "off"})
        assert refused["code"] == 59
        assert "enableTestCommands" not in raw.command({"getCmdLineOpts": 1})["parsed"].get(
            "setParameter", {})


def test_suites_can_see_that_test_commands_are_on(raw):
    assert raw.command({"getParameter": "*"})["enableTestCommands"] is True
    parsed = raw.command({"getCmdLineOpts": 1})["parsed"]
    assert parsed["setParameter"]["enableTestCommands"] == "1"


@pytest.mark.parametrize("command, code, text", [
    ({"configureFailPoint": "noSuchPoint", "mode": "off"}, 266, "noSuchPoint not found"),
    ({"configureFailPoint": "failCommand", "mode": "on"}, 2, "unknown mode: on"),
    ({"configureFailPoint": "failCommand", "mode": 1}, 14, "'mode' must be a string or JSON object"),
    ({"configureFailPoint": "failCommand", "mode": {"often": 1}}, 2, "'mode' must be one of"),
    ({"configureFailPoint": "failCommand", "mode": {}}, 2, "'mode' must be one of"),
    ({"configureFailPoint": "failCommand", "mode": {"times": "x"}}, 14, "must be numeric"),
    ({"configureFailPoint": "failCommand", "mode": {"times": -1}}, 2, "between 0 and"),
    ({"configureFailPoint": "failCommand", "mode": {"activationProbability": 2}}, 2,
     "between 0 and 1"),
    ({"configureFailPoint": "failCommand"}, 40414, "mode"),
    ({"configureFailPoint": "failCommand", "mode": "off", "data": 1}, 14, "data"),
])
def test_what_is_refused(raw, command, code, text):
    answer = raw.command(command)
    assert answer["code"] == code and text in answer["errmsg"]


def test_only_on_admin(raw):
    answer = raw.command({"configureFailPoint": "failCommand", "mode": "off"}, "test")
    assert answer["code"] == 13


def test_count_says_how_often_it_fired(raw, arm):
    before = arm("off")
    arm({"times": 2}, failCommands=["ping"], errorCode=7)
    assert [raw.command({"ping": 1})["ok"] for _ in range(3)] == [0, 0, 1]
    assert arm("off") == before + 2


# --- modes ----------------------------------------------------------------------------------------


def pings(raw, n):
    return [int(raw.command({"ping": 1})["ok"]) for _ in range(n)]


@pytest.mark.parametrize("mode, replies", [
    ("alwaysOn", [0, 0, 0, 0]),
    ("off", [1, 1, 1, 1]),
    ({"times": 0}, [1, 1, 1, 1]),
    ({"times": 3}, [0, 0, 0, 1]),
    ({"skip": 3}, [1, 1, 1, 0]),
    ({"activationProbability": 1}, [0, 0, 0, 0]),
    ({"activationProbability": 0}, [1, 1, 1, 1]),
])
def test_modes(raw, arm, mode, replies):
    arm(mode, failCommands=["ping"], errorCode=7)
    assert pings(raw, 4) == replies


def test_only_matches_count(raw, arm):
    arm({"times": 1}, failCommands=["ping"], errorCode=7)
    assert raw.command({"buildInfo": 1})["ok"] == 1
    assert pings(raw, 2) == [0, 1]


def test_what_would_do_nothing_does_not_count(raw, arm):
    arm({"times": 1}, failCommands=["ping"], errorLabels=["x"])
    assert pings(raw, 1) == [1]
    arm({"times": 1}, failCommands=["ping", "insert"], writeConcernError={"code": 91})
    assert pings(raw, 2) == [1, 1]


# --- errors, labels -------------------------------------------------------------------------------


def test_error_code(raw, arm):
    arm({"times": 1}, failCommands=["find"], errorCode=10107)
    answer = raw.command({"find": "c"}, "test")
    assert (answer["ok"], answer["code"], answer["codeName"], answer["errmsg"]) == (
        0, 10107, "NotWritablePrimary", TEXT)
    assert "errorLabels" not in answer and "operationTime" in answer


@pytest.mark.parametrize("labels", [["A", "B"], []])
def test_labels_replace_the_computed_ones(raw, db, arm, labels):
    arm({"times": 1}, failCommands=["insert"], errorCode=91, errorLabels=labels)
    answer = retryable_insert(raw, db, {"_id": 1})
    assert answer["code"] == 91 and answer.get("errorLabels", []) == labels
    assert ("errorLabels" in answer) == bool(labels)


def test_computed_labels(raw, db, arm):
    arm({"times": 3}, failCommands=["insert", "aggregate"], errorCode=91)
    answer = retryable_insert(raw, db, {"_id": 1})
    assert answer["errorLabels"] == ["RetryableWriteError", "NoWritesPerformed"]
    aggregate = {"aggregate": "c", "cursor": {}}
    answer = raw.command({**aggregate, "pipeline": [{"$changeStream": {}}]}, db.name)
    assert answer["errorLabels"] == ["ResumableChangeStreamError"]
    answer = raw.command({**aggregate, "pipeline": []}, db.name)
    assert answer["code"] == 91 and "errorLabels" not in answer
    assert db.c.count_documents({}) == 0


def test_write_concern_error(raw, db, arm):
    given = {"code": 91, "codeName": "ShutdownInProgress", "errmsg": "x"}
    arm({"times": 2}, failCommands=["insert"], writeConcernError=given)
    answer = retryable_insert(raw, db, {"_id": 1})
    assert answer["ok"] == 1 and answer["n"] == 1 and answer["writeConcernError"] == given
    assert answer["errorLabels"] == ["RetryableWriteError"]
    answer = raw.command({"insert": "c", "documents": [{"_id": 2}]}, db.name)
    assert answer["writeConcernError"] == given and "errorLabels" not in answer
    assert [d["_id"] for d in db.c.find()] == [1, 2]


def test_write_concern_error_with_labels(raw, db, arm):
    arm({"times": 1}, failCommands=["insert"], writeConcernError={"code": 100},
        errorLabels=["RetryableWriteError"])
    answer = raw.command({"insert": "c", "documents": [{"_id": 1}]}, db.name)
    assert answer["writeConcernError"] == {"code": 100}
    assert answer["errorLabels"] == ["RetryableWriteError"]


@pytest.mark.parametrize("code, tells", [(10107, True), (13436, True), (91, False), (11600, False), (7, False)])
def test_state_errors_tell_the_topology_version(raw, db, arm, code, tells):
    """So that a driver knows it for no news, instead of waiting for the next hello."""
    arm({"times": 1}, failCommands=["find"], errorCode=code)
    version = raw.command({"hello": 1})["topologyVersion"]
    answer = raw.command({"find": "c"}, db.name)
    assert answer.get("topologyVersion") == (version if tells else None)
    assert raw.ping() == 1
    arm({"times": 1}, failCommands=["insert"], writeConcernError={"code": code, "errmsg": "x"})
    answer = raw.command({"insert": "c", "documents": [{"_id": 1}]}, db.name)
    assert answer.get("topologyVersion") == (version if tells else None)


def test_close_connection(srv, db, raw, arm):
    arm({"times": 1}, failCommands=["insert"], closeConnection=True, errorCode=91)
    with RawClient(srv.port) as lost, pytest.raises(Closed):
        lost.command({"insert": "c", "documents": [{"_id": 1}]}, db.name)
    assert raw.command({"count": "c"}, db.name)["n"] == 0


# --- who is chosen --------------------------------------------------------------------------------


def test_second_spellings_and_all_commands(raw, arm):
    arm({"times": 2}, failCommands=["findandmodify"], errorCode=7)
    for name in ("findAndModify", "findandmodify"):
        assert raw.command({name: "c", "query": {}, "remove": True}, "test")["code"] == 7
    arm({"times": 2}, failAllCommands=True, errorCode=7)
    assert raw.command({"ping": 1})["code"] == 7
    assert raw.command({"endSessions": [lsid()]})["code"] == 7


def test_never_the_command_that_ends_it(arm):
    arm("alwaysOn", failAllCommands=True, errorCode=7)
    arm("off")


def test_namespace(raw, arm):
    arm("alwaysOn", failCommands=["find", "getMore"], namespace="test.a", errorCode=7)
    assert raw.command({"find": "a"}, "test")["code"] == 7
    assert raw.command({"find": "b"}, "test")["ok"] == 1
    assert raw.command({"find": "a"}, "test2")["ok"] == 1
    assert raw.command({"getMore": Int64(1), "collection": "a"}, "test")["code"] == 7
    assert raw.command({"getMore": Int64(1), "collection": "b"}, "test")["code"] == 43


def test_thread_name(srv, raw, arm):
    mine = raw.command({"hello": 1})["connectionId"]
    arm("alwaysOn", failCommands=["ping"], errorCode=7, threadName=f"conn{mine}")
    assert raw.command({"ping": 1})["code"] == 7
    with RawClient(srv.port) as other:
        assert other.ping() == 1


def test_error_extra_info(raw, arm):
    info = {"keyPattern": {"a": 1}, "keyValue": {"a": 5}}
    arm({"times": 1}, failCommands=["ping"], errorCode=11000, errorExtraInfo=info)
    reply = raw.command({"ping": 1})
    assert (reply["code"], reply["errmsg"]) == (11000, TEXT)
    assert {k: reply[k] for k in info} == info
    assert raw.ping() == 1


def client_document(app):
    return {"application": {"name": app}, "driver": {"name": "t", "version": "1"},
            "os": {"type": "Linux"}}


def test_app_name_of_the_first_hello_and_of_the_connection(srv, arm):
    arm("alwaysOn", failCommands=["hello", "isMaster", "ping"], appName="mine", errorCode=91)
    with RawClient(srv.port) as raw:
        assert raw.call(op_query({"isMaster": 1, "client": client_document("mine")})).doc[
            "code"] == 91
    with RawClient(srv.port) as raw:
        assert raw.command({"hello": 1, "client": client_document("theirs")})["ok"] == 1
        assert raw.command({"ping": 1})["ok"] == 1
    arm("off")
    with RawClient(srv.port) as raw:
        assert raw.command({"hello": 1, "client": client_document("mine")})["ok"] == 1
        arm("alwaysOn", failCommands=["ping"], appName="mine", errorCode=7)
        assert raw.command({"ping": 1})["code"] == 7


def test_every_hello_of_an_exhaust_series(srv, arm):
    with RawClient(srv.port) as raw:
        version = raw.command({"hello": 1})["topologyVersion"]
        arm({"skip": 1}, failCommands=["hello"], blockConnection=False, errorCode=7)
        raw.send(op_msg({"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 10,
                         "$db": "admin"}, flags=1 << 16))
        first, second = raw.receive(), raw.receive()
        assert first.doc["ok"] == 1 and first.more_to_come
        assert second.doc["code"] == 7 and not second.more_to_come


# --- waiting --------------------------------------------------------------------------------------


def test_block_delays_and_then_runs(raw, db, arm):
    arm({"times": 1}, failCommands=["insert"], blockConnection=True, blockTimeMS=150)
    begin = time.monotonic()
    assert raw.command({"insert": "c", "documents": [{"_id": 1}]}, db.name)["n"] == 1
    assert time.monotonic() - begin >= 0.15
    assert db.c.find_one() == {"_id": 1}


def test_block_then_error_and_ddl(raw, db, arm):
    arm({"times": 2}, failCommands=["create"], blockConnection=True, blockTimeMS=20, errorCode=7)
    assert [raw.command({"create": "c"}, db.name).get("code") for _ in range(3)] == [7, 7, None]


def test_block_is_cut_short_by_max_time(raw, arm):
    arm({"times": 1}, failCommands=["find"], blockConnection=True, blockTimeMS=60000)
    answer = raw.command({"find": "c", "maxTimeMS": 50}, "test")
    assert answer["code"] == 50


@pytest.mark.parametrize("command, op", [
    ({"find": "c"}, "query"), ({"insert": "c", "documents": [{}]}, "insert"),
    ({"update": "c", "updates": [{"q": {}, "u": {"$set": {"x": 1}}}]}, "update"),
    ({"delete": "c", "deletes": [{"q": {}, "limit": 1}]}, "remove"),
    ({"getMore": Int64(1), "collection": "c"}, "getmore"), ({"count": "c"}, "command"),
    ({"aggregate": "c", "pipeline": [], "cursor": {}}, "command"),
])
def test_current_op_names_what_is_blocked(client, raw, arm, command, op):
    """Before it has done anything: a getMore has no cursor yet."""
    arm({"times": 1}, failCommands=[next(iter(command))], blockConnection=True, blockTimeMS=60000)
    raw.send(op_msg({**command, "comment": "blocked", "$db": "test"}))
    until = time.monotonic() + 30
    while not (found := [o for o in client.admin.aggregate([{"$currentOp": {}}])
                         if o.get("command", {}).get("comment") == "blocked"]):
        assert time.monotonic() < until
    assert found[0]["op"] == op
    client.admin.command("killOp", op=found[0]["opid"])
    assert raw.receive().doc["code"] == 11601


@pytest.mark.parametrize("ms", [{}, {"blockTimeMS": -1}])
def test_block_needs_a_time(raw, arm, ms):
    arm({"times": 1}, failCommands=["ping"], blockConnection=True, **ms)
    assert "blockTimeMS" in raw.command({"ping": 1})["errmsg"]


def test_blocked_requests_hold_no_thread_and_end_with_their_client(srv, raw, arm):
    waiting = [RawClient(srv.port) for _ in range(200)]
    clients = {"%s:%d" % w.sock.getsockname() for w in waiting}
    arm("alwaysOn", failCommands=["find"], blockConnection=True, blockTimeMS=600000)
    for w in waiting:
        w.send(op_msg({"find": "c", "$db": "test"}))

    def until(n):
        deadline = time.monotonic() + 30
        blocked = None
        while blocked != n:
            assert time.monotonic() < deadline, f"{blocked} are blocked, not {n}"
            ops = raw.command({"currentOp": 1})["inprog"]
            blocked = sum(o["client"] in clients for o in ops)

    until(200)
    for w in waiting:
        w.close()
    until(0)


# --- the other points -----------------------------------------------------------------------------


def test_get_more_after_checkout(raw, db, arm):
    db.c.insert_many([{"_id": i} for i in range(5)])
    arm({"times": 1}, "failGetMoreAfterCursorCheckout", errorCode=96)
    cursor = raw.command({"find": "c", "batchSize": 1}, db.name)["cursor"]["id"]
    more = {"getMore": cursor, "collection": "c"}
    assert raw.command(more, db.name)["code"] == 96
    assert raw.command(more, db.name)["code"] == 43


def test_get_more_of_a_stream_has_the_stream_labels(raw, db, arm):
    arm({"times": 1}, "failGetMoreAfterCursorCheckout", errorCode=262)
    cursor = raw.command({"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}},
                         db.name)["cursor"]["id"]
    answer = raw.command({"getMore": cursor, "collection": "c"}, db.name)
    assert answer["code"] == 262 and answer["errorLabels"] == ["ResumableChangeStreamError"]


def test_a_stream_survives_both(srv, db, arm):
    # Told 91, a driver waits for the next heartbeat.
    with (pymongo.MongoClient(srv.uri, heartbeatFrequencyMS=500) as own,
          own[db.name].c.watch() as stream):
        db.c.insert_one({"_id": 1})
        arm({"times": 1}, failCommands=["getMore"], closeConnection=True)
        assert next(stream)["documentKey"] == {"_id": 1}
        db.c.insert_one({"_id": 2})
        arm({"times": 1}, "failGetMoreAfterCursorCheckout", errorCode=91)
        assert next(stream)["documentKey"] == {"_id": 2}


def test_max_time_points(raw, db, arm):
    db.c.insert_many([{"_id": i} for i in range(5)])
    find = {"find": "c", "maxTimeMS": 60000, "batchSize": 1}
    cursor = raw.command(find, db.name)["cursor"]["id"]
    arm("alwaysOn", "maxTimeAlwaysTimeOut")
    assert raw.command({"find": "c"}, db.name)["ok"] == 1
    assert raw.command(find, db.name)["code"] == 50
    assert raw.command({"getMore": cursor, "collection": "c"}, db.name)["code"] == 50
    arm("off", "maxTimeAlwaysTimeOut")
    arm("alwaysOn", "maxTimeNeverTimeOut")
    arm("alwaysOn", failCommands=["find"], blockConnection=True, blockTimeMS=50)
    assert raw.command({**find, "maxTimeMS": 1}, db.name)["ok"] == 1


def test_lost_reply_of_a_retryable_write(srv, raw, db, arm):
    db.create_collection("c")
    arm({"times": 1}, "onPrimaryTransactionalWrite")
    assert raw.command({"insert": "c", "documents": [{"_id": 0}]}, db.name)["n"] == 1
    command = {"insert": "c", "documents": [{"_id": 1}], "lsid": lsid(), "txnNumber": Int64(1)}
    with RawClient(srv.port) as lost, pytest.raises(Closed):
        lost.command(command, db.name)
    assert db.c.count_documents({"_id": 1}) == 1
    answer = raw.command(command, db.name)
    assert answer["n"] == 1 and answer["retriedStmtIds"] == [0]


@pytest.mark.parametrize("command", [
    {"insert": "c", "documents": [{"_id": 9}]},
    {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}}}]},
    {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
    {"findAndModify": "c", "query": {"_id": 1}, "remove": True},
])
def test_refused_commit_of_a_retryable_write(raw, db, arm, command):
    db.c.insert_one({"_id": 1})
    arm({"times": 1}, "onPrimaryTransactionalWrite", closeConnection=False,
        failBeforeCommitExceptionCode=83)
    command = {**command, "lsid": lsid(), "txnNumber": Int64(1)}
    answer = raw.command(command, db.name)
    error = answer["writeErrors"][0] if "writeErrors" in answer else answer
    assert error["code"] == 83 and "must not be reflected" in error["errmsg"]
    assert list(db.c.find()) == [{"_id": 1}]
    answer = raw.command(command, db.name)
    assert answer["ok"] == 1 and "retriedStmtIds" not in answer and "writeErrors" not in answer
    assert list(db.c.find()) != [{"_id": 1}]


def test_a_driver_retries(srv, db, arm):
    arm({"times": 1}, failCommands=["insert"], closeConnection=True)
    with pymongo.MongoClient(srv.uri) as own:
        own[db.name].c.insert_one({"_id": 1})
    assert db.c.find_one() == {"_id": 1}
