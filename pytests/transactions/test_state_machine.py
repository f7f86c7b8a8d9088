# SPDX-License-Identifier: GPL-3.0-or-later
"""Which message may follow which: states of a session's transaction, codes, texts and labels."""

import pytest
from bson import Int64, Timestamp

from raw import RawClient, op_msg
from txnutil import RawSession, insert, labels, lsid

SERVER_OPTIONS = dict(test_commands=True)

FIND = {"find": "c"}
COUNT = {"count": "c"}


@pytest.fixture
def s(raw, db):
    db.c.insert_one({"_id": "old"})
    session = RawSession(raw, db.name)
    yield session
    raw.command({"killSessions": [session.lsid]})


# --- fields ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("fields, code, text", [
    ({"txnNumber": Int64(1)}, 72, "Transaction number requires a session ID"),
    ({"autocommit": False}, 72, "'autocommit' field requires a transaction number"),
    ({"lsid": lsid(), "autocommit": False}, 72, "'autocommit' field requires a transaction number"),
    ({"lsid": lsid(), "txnNumber": Int64(1), "startTransaction": True}, 72,
     "'startTransaction' field requires 'autocommit'"),
    ({"lsid": lsid(), "txnNumber": Int64(1), "autocommit": True}, 72,
     "Specifying autocommit=true is not allowed."),
    ({"lsid": lsid(), "txnNumber": Int64(1), "autocommit": False, "startTransaction": False}, 72,
     "Specifying startTransaction=false is not allowed."),
    ({"lsid": lsid(), "txnNumber": Int64(-1), "autocommit": False}, 72,
     "Transaction number cannot be negative"),
    ({"lsid": lsid(), "txnNumber": 1, "autocommit": False}, 14, "wrong type 'int'"),
    ({"lsid": lsid(), "txnNumber": Int64(1)}, 50768, "find is not a retryable write command"),
])
def test_fields(raw, db, fields, code, text):
    reply = raw.command({**FIND, **fields}, db.name)
    assert reply["code"] == code and text in reply["errmsg"], reply


@pytest.mark.parametrize("command", ["hello", "ping", "isMaster", "buildInfo", "whatsmyuri"])
def test_commands_before_login_take_no_transaction(raw, command):
    fields = {"lsid": lsid(), "txnNumber": Int64(1)}
    reply = raw.command({command: 1, **fields, "autocommit": False, "startTransaction": True})
    assert (reply["code"], reply["errmsg"]) == (
        263, "This command is not supported in transactions")
    reply = raw.command({command: 1, **fields})
    assert (reply["code"], reply["errmsg"]) == (
        50889, "It is illegal to provide a txnNumber for this command")


# --- transitions ----------------------------------------------------------------------------------

# What happens, then the code of the last step (0: ok), a part of its text, and its labels.
TRANSIENT = ["TransientTransactionError"]
STEPS = {
    "find": lambda s: s.run(FIND),
    "insert": lambda s: s.run(insert(s.number)),
    "fail": lambda s: s.run({"find": "c", "filter": {"$nosuch": 1}}),
    "refused": lambda s: s.run(COUNT),
    "unknown": lambda s: s.run({"nosuchcommand": 1}),
    "start": lambda s: s.start(FIND),
    "start failing": lambda s: s.start({"find": "c", "filter": {"$nosuch": 1}}),
    "start refused": lambda s: s.start(COUNT),
    "start same": lambda s: s.start(FIND, number=s.number),
    "start older": lambda s: s.start(FIND, number=s.number - 1),
    "next number": lambda s: (setattr(s, "number", s.number + 1), s.run(FIND))[1],
    "commit": lambda s: s.commit(),
    "commit w1": lambda s: s.commit(writeConcern={"w": 1}),
    "abort": lambda s: s.abort(),
    "retryable newer": lambda s: s.retryable(insert("r"), s.number + 1),
    "retryable same": lambda s: s.retryable(insert("r"), s.number),
    "retryable older": lambda s: s.retryable(insert("r"), s.number - 1),
    "kill": lambda s: s.raw.command({"killSessions": [s.lsid]}),
    "end": lambda s: s.raw.command({"endSessions": [s.lsid]}),
}
CASES = [
    # none
    (["find"], 251, "Given transaction number 0 does not match any in-progress transactions. "
     "The active transaction number is -1", TRANSIENT),
    (["commit"], 251, "does not match any in-progress", TRANSIENT),
    (["abort"], 251, "does not match any in-progress", TRANSIENT),
    (["start"], 0, "", []),
    # in progress
    (["start", "insert"], 0, "", []),
    (["start", "next number"], 251, "The active transaction number is 1", TRANSIENT),
    (["start", "start same"], 117, "Only servers in a sharded cluster can start a new transaction "
     "at the active transaction number", []),
    (["start", "start older"], 225, "because a newer transaction with txnNumber 1", []),
    (["start", "start"], 0, "", []),
    (["start", "retryable older"], 225, "Retryable write with txnNumber 0 is prohibited", []),
    (["start", "retryable same"], 217, "converted into a transaction", []),
    (["start", "retryable newer"], 0, "", []),
    (["start", "retryable newer", "find"], 225, "newer retryable write with txnNumber 2", []),
    (["start", "commit"], 0, "", []),
    (["start", "abort"], 0, "", []),
    (["start", "refused", "find"], 0, "", []),
    (["start", "unknown", "find"], 0, "", []),
    (["start", "fail", "find"], 251, "Transaction with { txnNumber: 1 } has been aborted.",
     TRANSIENT),
    (["start failing", "find"], 251, "Transaction with { txnNumber: 1 } has been aborted.",
     TRANSIENT),
    (["start refused", "find"], 251, "does not match any in-progress", TRANSIENT),
    (["start", "kill", "find"], 251, "Transaction with { txnNumber: 1 } has been aborted.",
     TRANSIENT),
    (["start", "end", "find"], 251, "does not match any in-progress", TRANSIENT),
    # committed
    (["start", "insert", "commit", "commit"], 0, "", []),
    (["start", "insert", "commit w1", "commit"], 0, "", []),
    (["start", "commit", "commit"], 0, "", []),
    (["start", "insert", "commit", "find"], 256,
     "Transaction with { txnNumber: 1 } has been committed.", []),
    (["start", "insert", "commit", "abort"], 256, "has been committed", []),
    (["start", "insert", "commit", "start same"], 117, "Only servers in a sharded cluster", []),
    (["start", "insert", "commit", "start"], 0, "", []),
    (["start", "insert", "commit", "retryable same"], 217, "converted into a transaction", []),
    (["start", "insert", "commit", "end", "commit"], 0, "", []),
    (["start", "insert", "commit", "end", "find"], 256, "has been committed", []),
    # aborted
    (["start", "abort", "abort"], 251, "Transaction with { txnNumber: 1 } has been aborted.",
     TRANSIENT),
    (["start", "abort", "commit"], 251, "Transaction with { txnNumber: 1 } has been aborted.",
     TRANSIENT),
    (["start", "abort", "find"], 251, "Transaction with { txnNumber: 1 } has been aborted.",
     TRANSIENT),
    (["start", "abort", "start same"], 117, "Only servers in a sharded cluster", []),
    (["start", "abort", "start"], 0, "", []),
    (["start", "abort", "retryable newer"], 0, "", []),
    # retryable write
    (["retryable newer", "start", "find"], 251, "", TRANSIENT),
]


@pytest.mark.parametrize("steps, code, text, expected", CASES,
                         ids=[" - ".join(c[0]) for c in CASES])
def test_transitions(s, steps, code, text, expected):
    for step in steps:
        reply = STEPS[step](s)
    assert reply.get("code", 0) == code and text in reply.get("errmsg", ""), reply
    assert labels(reply) == expected, reply


def test_a_retryable_write_makes_the_number_old(s):
    assert s.retryable(insert("a"), 5)["ok"] == 1
    assert s.start(FIND, number=5)["code"] == 117
    assert s.start(FIND, number=4)["code"] == 225
    assert s.start(FIND, number=6)["ok"] == 1


def test_a_new_transaction_aborts_the_open_one(s, db):
    s.start(insert(1))
    s.start(insert(2))
    assert s.commit()["ok"] == 1
    assert [d["_id"] for d in db.c.find({"_id": {"$type": "int"}})] == [2]


def test_commit_and_abort_need_a_transaction(raw, db):
    for command in ("commitTransaction", "abortTransaction"):
        reply = raw.command({command: 1, "lsid": lsid()})
        assert (reply["code"], reply["errmsg"]) == (
            125, f"{command} must be run within a transaction")
        reply = raw.command({command: 1, "lsid": lsid(), "txnNumber": Int64(1)})
        assert reply["code"] == 50768 and f"{command} is not a retryable" in reply["errmsg"]
        assert raw.command({command: 1}, db.name)["code"] == 13


# --- what may run ---------------------------------------------------------------------------------


@pytest.mark.parametrize("command, text", [
    (COUNT, "Cannot run 'count' in a multi-document transaction. Please see "
     "http://dochub.mongodb.org/core/transaction-count for a recommended alternative."),
    ({"drop": "c"}, "Cannot run 'drop' in a multi-document transaction."),
    ({"dropDatabase": 1}, "Cannot run 'dropDatabase' in a multi-document transaction."),
    ({"dropIndexes": "c", "index": "*"}, "Cannot run 'dropIndexes' in a"),
    ({"collMod": "c"}, "Cannot run 'collMod' in a"),
    ({"listCollections": 1}, "Cannot run 'listCollections' in a"),
    ({"listIndexes": "c"}, "Cannot run 'listIndexes' in a"),
    ({"explain": FIND}, "Cannot run 'explain' in a"),
    ({"collStats": "c"}, "Cannot run 'collStats' in a"),
    ({"serverStatus": 1}, "Cannot run 'serverStatus' in a"),
])
def test_commands_that_may_not_run(s, command, text):
    assert s.start(FIND)["ok"] == 1
    reply = s.run(command)
    assert reply["code"] == 263 and text in reply["errmsg"], reply
    assert reply["codeName"] == "OperationNotSupportedInTransaction" and labels(reply) == []
    assert s.run(FIND)["ok"] == 1


@pytest.mark.parametrize("command, text", [
    ({"killCursors": "c", "cursors": [Int64(1)]}, "Cannot run killCursors as the first operation"),
    ({"commitTransaction": 1, "$db": "admin"}, "Cannot start a transaction with a commit"),
    ({"abortTransaction": 1, "$db": "admin"}, "Cannot start a transaction with an abort"),
])
def test_commands_that_may_not_begin(s, command, text):
    reply = s.start(command)
    assert reply["code"] == 263 and text in reply["errmsg"]
    assert s.run(FIND)["code"] == 251


@pytest.mark.parametrize("stage", ["$changeStream", "$collStats", "$indexStats", "$merge", "$out",
                                   "$planCacheStats"])
def test_stages_that_may_not_run(s, stage):
    s.start(FIND)
    value = {"$merge": {"into": "d"}, "$out": "d"}.get(stage, {})
    reply = s.run({"aggregate": "c", "pipeline": [{stage: value}], "cursor": {}})
    assert (reply["code"], reply["errmsg"]) == (
        263, f"Stage not supported inside of a multi-document transaction: {stage}")
    assert s.run(FIND)["code"] == 251


@pytest.mark.parametrize("name, coll, text", [
    ("local", "x", "Cannot run command against the 'local' database in a transaction."),
    ("config", "x", "Cannot run command against the 'config' database in a transaction."),
    ("d", "system.profile", "system.profile' namespace in a transaction."),
    ("d", "system.views", "system.views' namespace in a transaction."),
])
def test_namespaces(s, name, coll, text):
    for command in ({"find": coll}, insert(1, coll)):
        reply = s.start(command, **{"$db": name})
        assert reply["code"] == 263 and text in reply["errmsg"], reply


def bulk(*namespaces):
    return {"bulkWrite": 1, "ops": [{"insert": i, "document": {"_id": i}}
                                    for i in range(len(namespaces))],
            "nsInfo": [{"ns": n} for n in namespaces], "$db": "admin"}


def test_bulk_write(s, db):
    """Over several collections; the first failure ends it, also when it is unordered."""
    here = f"{db.name}."
    assert s.start(bulk(here + "c", here + "d"))["ok"] == 1
    assert s.commit()["ok"] == 1
    assert db.c.find_one({"_id": 0}) and db.d.find_one({"_id": 1})
    reply = s.start({**bulk(here + "e", here + "d", here + "f"), "ordered": False})
    assert (reply["nErrors"], reply["nInserted"]) == (1, 1), reply
    assert s.commit()["code"] == 251
    assert db.e.find_one() is None and db.f.find_one() is None
    for name in ("local.x", "config.x"):
        reply = s.start(bulk(here + "c", name))
        assert reply["code"] == 263 and "database in a transaction" in reply["errmsg"], reply


# --- concerns -------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["local", "majority", "snapshot"])
def test_read_concern_levels(s, level):
    assert s.start(FIND, readConcern={"level": level})["ok"] == 1
    assert s.run(FIND)["ok"] == 1
    reply = s.run(FIND, readConcern={"level": level})
    assert (reply["code"], reply["errmsg"]) == (
        72, "Only the first command in a transaction may specify a readConcern")
    assert s.run(FIND)["ok"] == 1


@pytest.mark.parametrize("level", ["available", "linearizable"])
def test_read_concern_levels_that_may_not(s, level):
    reply = s.start(FIND, readConcern={"level": level})
    assert (reply["code"], reply["errmsg"]) == (
        72, "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in "
        "order to run in a transaction")


def test_read_concern_with_any_first_command(s):
    assert s.start(insert(1), readConcern={"level": "snapshot"})["ok"] == 1
    assert s.commit()["ok"] == 1


def test_write_concern(s, db):
    reply = s.start(insert(1), writeConcern={"w": 1})
    assert (reply["code"], reply["errmsg"]) == (
        72, "writeConcern is not allowed within a multi-statement transaction")
    assert s.start(insert(1))["ok"] == 1
    assert s.run(insert(2), writeConcern={"w": "majority"})["code"] == 72
    assert s.commit(writeConcern={"w": "majority", "wtimeout": 10000})["ok"] == 1
    assert db.c.count_documents({"_id": 1}) == 1


def test_write_concern_error_of_a_commit(s, db):
    s.start(insert(1))
    for _ in range(2):  # the second commit waits for its own write concern too
        reply = s.commit(writeConcern={"w": "nosuch"})
        assert reply["ok"] == 1 and reply["writeConcernError"]["code"] == 79, reply
    assert db.c.find_one({"_id": 1})


def test_api_parameters_stay_the_same(s):
    first = {"apiVersion": "1", "apiStrict": True}
    assert s.start(FIND, **first)["ok"] == 1
    assert s.run(FIND, **first)["ok"] == 1
    reply = s.run(FIND)
    assert reply["code"] == 347 and "API parameter mismatch" in reply["errmsg"], reply
    assert s.start(FIND)["ok"] == 1
    assert s.commit(**first)["code"] == 347


# --- times and labels -----------------------------------------------------------------------------


def test_operation_time(s, db, client):
    opened = s.start(FIND)
    assert isinstance(opened["operationTime"], Timestamp)
    s.run(insert(1))
    other = db.c.insert_one({"_id": "other"})
    assert other.acknowledged
    committed = s.commit()
    entry = client.local["oplog.rs"].find_one({"lsid.id": s.lsid["id"]})
    assert committed["operationTime"] == entry["ts"]
    assert committed["$clusterTime"]["clusterTime"] >= entry["ts"]


def arm(raw, command, **data):
    raw.command({"configureFailPoint": "failCommand", "mode": {"times": 1},
                 "data": {"failCommands": [command], **data}})


@pytest.mark.parametrize("command, code, expected", [
    ("insert", 112, TRANSIENT),
    ("insert", 91, TRANSIENT),
    ("insert", 251, TRANSIENT),
    ("insert", 246, TRANSIENT),
    ("insert", 24, TRANSIENT),
    ("insert", 11000, []),
    ("insert", 256, []),
    ("find", 10107, TRANSIENT),
    ("find", 2, []),
    ("commitTransaction", 112, TRANSIENT),
    ("commitTransaction", 251, TRANSIENT),
    ("commitTransaction", 91, ["RetryableWriteError", "NoWritesPerformed"]),
    ("commitTransaction", 50, []),
    ("abortTransaction", 10107, ["RetryableWriteError", "NoWritesPerformed"]),
])
def test_labels_of_injected_errors(s, command, code, expected):
    s.start(FIND)
    arm(s.raw, command, errorCode=code)
    reply = {"insert": lambda: s.run(insert(1)), "find": lambda: s.run(FIND),
             "commitTransaction": s.commit, "abortTransaction": s.abort}[command]()
    assert reply["code"] == code and labels(reply) == expected, reply
    # Such an error comes before the command has the session, and leaves the transaction alone.
    assert s.run(FIND)["ok"] == 1


def test_labels_of_an_injected_write_concern_error(s):
    s.start(insert(1))
    arm(s.raw, "commitTransaction", writeConcernError={"code": 91, "errmsg": "x"})
    reply = s.commit()
    assert reply["ok"] == 1 and labels(reply) == ["RetryableWriteError"], reply


def test_errors_of_statements(s, db):
    """As writeErrors while the client may go on elsewhere; at the top when it is to start again."""
    s.start(insert(1))
    reply = s.run({"insert": "c", "ordered": False,
                   "documents": [{"_id": 2}, {"_id": "old"}, {"_id": 3}]})
    assert reply["ok"] == 1 and reply["n"] == 1 and labels(reply) == []
    assert [(e["index"], e["code"]) for e in reply["writeErrors"]] == [(1, 11000)]
    assert s.commit()["code"] == 251
    assert db.c.count_documents({}) == 1


def test_one_request_at_a_time(s, srv, client):
    """A request of a transaction waits while another has the session. One whose client goes while it
    waits changes nothing."""
    fault = "storageWrite:wait"
    s.start(FIND)
    before = client.admin.command("runnelFault", fault)["hits"]
    with RawClient(srv.port) as first, RawClient(srv.port) as second, RawClient(srv.port) as gone:
        try:
            first.send(op_msg({**insert(1), **s.fields(), "$db": s.db}))
            while client.admin.command("runnelFault", fault)["hits"] == before:
                pass
            for raw in (second, gone):
                raw.send(op_msg({"find": "c", "filter": {"_id": 1}, **s.fields(), "$db": s.db}))
            gone.close()
            assert second.silent(0.2)
            active = client.admin.command("serverStatus")["transactions"]
            assert active["currentActive"] == 1
        finally:
            client.admin.command("runnelFault", "off")
        assert first.receive().doc["ok"] == 1
        assert second.receive().doc["cursor"]["firstBatch"] == [{"_id": 1}]
    assert s.commit()["ok"] == 1


def test_create_of_what_is_there(s):
    """Outside of a transaction the same options are fine."""
    assert s.raw.command({"create": "c"}, s.db)["ok"] == 1
    reply = s.start({"create": "c"})
    assert reply["code"] == 48 and f"{s.db}.c already exists" in reply["errmsg"], reply
    assert s.commit()["code"] == 251
