# SPDX-License-Identifier: GPL-3.0-or-later
"""What clients ask about the server: builds, hosts, parameters, logs, status."""

import datetime
import json
import os
import threading
import time
import uuid

import pymongo
import pytest
from bson import Binary, Timestamp
from bson.int64 import Int64
from pymongo.errors import AutoReconnect, OperationFailure

from raw import RawClient, op_msg
from sanitizers import SANITIZED
from server import Server


def code_of(client, command, value=1, db="admin", **fields):
    with pytest.raises(OperationFailure) as error:
        client[db].command(command, value, **fields)
    return error.value.code


@pytest.mark.parametrize("name", ["buildInfo", "buildinfo"])
def test_build_info(client, name):
    info = client.test.command(name)
    assert list(info)[:9] == [
        "version",
        "gitVersion",
        "modules",
        "allocator",
        "javascriptEngine",
        "sysInfo",
        "versionArray",
        "openssl",
        "buildEnvironment",
    ]
    assert info["version"].startswith("8.0.")
    assert info["versionArray"][:3] == [int(x) for x in info["version"].split(".")]
    assert len(info["versionArray"]) == 4
    assert info["maxBsonObjectSize"] == 16777216
    assert info["bits"] == 64
    assert info["debug"] is False
    assert info["modules"] == []
    assert info["storageEngines"] == ["wiredTiger"]
    assert info["openssl"]["running"].startswith("OpenSSL")
    assert "ferretdb" not in info


def test_wp_06_what_compass_asks(client):
    with pytest.raises(OperationFailure) as error:
        client.admin.command("atlasVersion")
    assert error.value.code == 59
    assert error.value.details["codeName"] == "CommandNotFound"
    assert error.value.details["errmsg"] == "no such command: 'atlasVersion'"
    for command in ("buildInfo", "hostInfo", "connectionStatus", "top", "getCmdLineOpts"):
        assert client.admin.command(command)["ok"] == 1.0
    answer = client.admin.command("getParameter", 1, featureCompatibilityVersion=1)
    assert answer["featureCompatibilityVersion"] == {"version": "8.0"}


def test_host_info(client):
    info = client.admin.command("hostInfo")
    assert list(info)[:3] == ["system", "os", "extra"]
    system = info["system"]
    assert system["hostname"] == os.uname().nodename
    assert system["cpuArch"] == os.uname().machine
    assert system["cpuAddrSize"] == 64
    assert 0 < system["memSizeMB"] <= 10**8
    assert type(system["memSizeMB"]) is Int64
    assert 1 <= system["numCores"] <= os.cpu_count()
    assert isinstance(system["currentTime"], datetime.datetime)
    assert info["os"]["type"] == "Linux"
    assert info["os"]["name"]
    assert info["extra"]["pageSize"] == os.sysconf("SC_PAGESIZE")


def test_connection_status(client):
    info = client.admin.command("connectionStatus")["authInfo"]
    assert info == {"authenticatedUsers": [], "authenticatedUserRoles": []}
    info = client.admin.command("connectionStatus", showPrivileges=True)["authInfo"]
    assert info["authenticatedUserPrivileges"] == []


def test_whatsmyuri(raw):
    host, port = raw.sock.getsockname()
    assert raw.command({"whatsmyuri": 1})["you"] == f"{host}:{port}"


def test_get_cmd_line_opts(client, srv):
    opts = client.admin.command("getCmdLineOpts")
    assert opts["argv"][0].endswith("runneld")
    assert "--memory" in opts["argv"]
    assert opts["parsed"]["net"] == {"bindIp": "127.0.0.1", "port": srv.port}
    assert opts["parsed"]["replication"]["replSet"] == "rs0"
    assert "dbPath" not in opts["parsed"]["storage"]
    assert "setParameter" not in opts["parsed"]


def test_features(client):
    assert client.admin.command("features")["ok"] == 1.0


def test_list_commands(client):
    commands = client.admin.command("listCommands")["commands"]
    assert list(commands) == sorted(commands, key=str.lower)
    assert commands["ping"]["requiresAuth"] is False
    assert commands["ping"]["apiVersions"] == ["1"]
    assert commands["getLog"]["adminOnly"] is True
    assert commands["insert"]["secondaryOk"] is False
    assert all(c["help"] for c in commands.values())
    assert client.admin.command("insert", "x", help=True)["help"]


def test_help_of_a_command(client):
    answer = client.admin.command("ping", help=True)
    assert answer["ok"] == 1.0
    assert "Answer" in answer["help"]


def test_default_rw_concern(client):
    answer = client.admin.command("getDefaultRWConcern")
    assert answer["defaultReadConcern"] == {"level": "local"}
    assert answer["defaultWriteConcern"] == {"w": "majority", "wtimeout": 0}
    assert answer["defaultWriteConcernSource"] == "implicit"


def test_get_cluster_parameter(client):
    expected = {
        "_id": "changeStreamOptions",
        "clusterParameterTime": Timestamp(0, 0),
        "preAndPostImages": {"expireAfterSeconds": "off"},
    }
    for asked in ("changeStreamOptions", "*", ["changeStreamOptions"]):
        answer = client.admin.command("getClusterParameter", asked)
        assert answer["clusterParameters"] == [expected]
    assert code_of(client, "getClusterParameter", "nope") == 4
    assert code_of(client, "getClusterParameter", 5) == 14
    assert code_of(client, "getClusterParameter", []) == 2


def test_set_feature_compatibility_version(client):
    assert client.admin.command("setFeatureCompatibilityVersion", "8.0", confirm=True)["ok"] == 1.0
    assert code_of(client, "setFeatureCompatibilityVersion", "4.4") == 2
    assert code_of(client, "setFeatureCompatibilityVersion", 7) == 14


# --- parameters --------------------------------------------------------------------------------


def test_get_parameter_all(client):
    answer = client.admin.command("getParameter", "*")
    assert answer["enableTestCommands"] is False
    assert answer["featureCompatibilityVersion"] == {"version": "8.0"}
    assert answer["authSchemaVersion"] == 5
    assert answer["authenticationMechanisms"] == []
    assert answer["requireApiVersion"] is False
    assert answer["cursorTimeoutMillis"] == 600000
    assert answer["localLogicalSessionTimeoutMinutes"] == 30
    assert type(answer["oplogRetentionSeconds"]) is float
    assert type(answer["oplogMaxEntries"]) is Int64
    assert answer["oplogSizeMB"] == 1024


def test_get_parameter_details(client):
    answer = client.admin.command("getParameter", {"showDetails": True}, oplogSizeMB=1)
    assert answer["oplogSizeMB"] == {
        "value": 1024,
        "settableAtRuntime": True,
        "settableAtStartup": False,
    }
    answer = client.admin.command("getParameter", {"showDetails": True, "allParameters": True})
    assert answer["logLevel"]["value"] == 0


@pytest.mark.parametrize("value, fields", [(1, {}), ("foo", {}), (1, {"noSuchThing": 1})])
def test_get_parameter_unknown(client, value, fields):
    with pytest.raises(OperationFailure, match="no option found to get") as error:
        client.admin.command("getParameter", value, **fields)
    assert error.value.code == 72
    assert "documentdb" not in str(error.value)


def test_get_parameter_only_on_admin(client):
    assert code_of(client, "getParameter", "*", db="test") == 13


@pytest.mark.parametrize(
    "name, new", [("oplogRetentionSeconds", 1.5), ("oplogMaxEntries", 500), ("oplogSizeMB", 77)]
)
def test_set_parameter_oplog_limits(client, name, new):
    old = client.admin.command("getParameter", 1, **{name: 1})[name]
    answer = client.admin.command("setParameter", 1, **{name: new})
    assert answer["was"] == old
    try:
        assert client.admin.command("getParameter", 1, **{name: 1})[name] == new
    finally:
        client.admin.command("setParameter", 1, **{name: old})


@pytest.mark.parametrize(
    "fields, code",
    [
        ({}, 72),
        ({"noSuchThing": 1}, 72),
        ({"enableTestCommands": True}, 20),
        ({"oplogRetentionSeconds": -1}, 2),
        ({"oplogRetentionSeconds": float("nan")}, 2),
        ({"oplogRetentionSeconds": "x"}, 14),
        ({"oplogMaxEntries": -1}, 2),
        ({"oplogMaxEntries": 1.5}, 2),
        ({"oplogSizeMB": 0}, 2),
        ({"oplogSizeMB": 2**60}, 2),
        ({"oplogSizeMB": None}, 14),
        ({"logLevel": 6}, 2),
        ({"logLevel": "x"}, 2),
        ({"oplogMaxEntries": 5, "noSuchThing": 1}, 72),
    ],
)
def test_set_parameter_errors_change_nothing(client, fields, code):
    before = client.admin.command("getParameter", "*")
    assert code_of(client, "setParameter", 1, **fields) == code
    after = client.admin.command("getParameter", "*")
    for reply in (before, after):
        reply.pop("$clusterTime"), reply.pop("operationTime")
    assert before == after


def test_log_level(client):
    assert client.admin.command("setParameter", 1, logLevel=1)["was"] == 0
    answer = client.admin.command("setParameter", 1, logComponentVerbosity={"verbosity": 0})
    assert answer["was"] == {"verbosity": 1}
    assert client.admin.command("getParameter", 1, logLevel=1)["logLevel"] == 0
    assert code_of(client, "setParameter", logComponentVerbosity={"query": {"verbosity": 1}}) == 238
    assert code_of(client, "setParameter", logComponentVerbosity=1) == 14


# --- logs --------------------------------------------------------------------------------------


def test_get_log(client):
    assert client.admin.command("getLog", "*")["names"] == ["global", "startupWarnings"]
    answer = client.admin.command("getLog", "global")
    assert answer["totalLinesWritten"] >= len(answer["log"]) > 0
    line = json.loads(answer["log"][0])
    datetime.datetime.fromisoformat(line["t"]["$date"].replace("Z", "+00:00"))
    assert line["s"] and line["c"] and line["msg"]
    assert client.admin.command("getLog", "startupWarnings")["log"] == []
    assert code_of(client, "getLog", "nope") == 96
    assert code_of(client, "getLog", 1) == 14


def test_log_rotate(client):
    assert client.admin.command("logRotate", 1)["ok"] == 1.0


# --- status ------------------------------------------------------------------------------------


def test_wp_07_server_status(client, srv):
    status = client.admin.command("serverStatus")
    assert list(status)[:8] == [
        "host",
        "version",
        "process",
        "pid",
        "uptime",
        "uptimeMillis",
        "uptimeEstimate",
        "localTime",
    ]
    assert status["process"] == "mongod"
    assert status["host"] == f"127.0.0.1:{srv.port}"
    assert status["version"] == client.server_info()["version"]
    assert status["repl"]["setName"] == "rs0"
    assert status["repl"]["hosts"] == [status["repl"]["me"]]
    assert status["repl"]["isWritablePrimary"] is True
    assert status["connections"]["current"] >= 1
    assert status["connections"]["available"] > 0
    assert status["storageEngine"]["name"] == "wiredTiger"
    assert status["storageEngine"]["persistent"] is False
    assert status["mem"]["resident"] > 0
    assert status["oplog"]["entries"] >= 1
    assert status["oplog"]["first"] <= status["oplog"]["last"]
    assert type(status["operationTime"]) is Timestamp
    assert {
        "bytes currently in the cache",
        "maximum bytes configured",
        "tracked dirty bytes in the cache",
    } <= set(status["wiredTiger"]["cache"])
    if hasattr(srv, "pid"):
        assert status["pid"] == srv.pid


def test_server_status_counts_each_command(client, db):
    def counts():
        status = client.admin.command("serverStatus")["metrics"]["commands"]
        assert list(status)[0] == "<UNKNOWN>" and "shutdown" not in status
        assert all(list(row) == ["failed", "total"] and type(row["total"]) is Int64
                   for name, row in status.items() if name != "<UNKNOWN>")
        return status

    def of(status, name):
        row = status.get(name, {"failed": 0, "total": 0})
        return row["failed"], row["total"]

    db.c.insert_one({"_id": 1})
    before = counts()
    assert code_of(client, "count", "c", db=db.name, query={"$no": 1}) == 2
    assert db.command("count", "c")["n"] == 1
    assert "writeErrors" in db.command("insert", "c", documents=[{"_id": 1}])
    assert code_of(client, "noSuchCommand") == 59
    after = counts()
    for name, more in (("count", (1, 2)), ("insert", (0, 1)), ("serverStatus", (0, 1))):
        was, now = of(before, name), of(after, name)
        assert (now[0] - was[0], now[1] - was[1]) == more, name
    assert after["<UNKNOWN>"] == before["<UNKNOWN>"] + 1


def test_server_status_counts_retried_writes(client, db, raw):
    session = {"id": Binary(uuid.uuid4().bytes, 4)}
    ns = db.c.full_name
    commands = [
        (db.name, {"insert": "c", "documents": [{"_id": 1}, {"_id": 2}]}, 2),
        (db.name, {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}}},
                                              {"q": {"_id": 9}, "u": {"$set": {"x": 1}}}]}, 1),
        (db.name, {"findAndModify": "c", "query": {"_id": 1}, "update": {"$set": {"x": 2}}}, 1),
        (db.name, {"delete": "c", "deletes": [{"q": {"_id": 2}, "limit": 1}]}, 1),
        ("admin", {"bulkWrite": 1, "nsInfo": [{"ns": ns}], "ops": [
            {"insert": 0, "document": {"_id": i}} for i in range(3, 6)]}, 3),
    ]

    def counts():
        status = client.admin.command("serverStatus")["transactions"]
        return status["retriedCommandsCount"], status["retriedStatementsCount"]

    for number, (database, command, done) in enumerate(commands, 1):
        command = {**command, "lsid": session, "txnNumber": Int64(number)}
        seen = []
        for _ in range(3):
            assert raw.command(command, db=database)["ok"] == 1
            seen.append(counts())
        (c, s), retried, again = seen
        assert retried == (c + 1, s + done) and again == (c + 2, s + 2 * done), command


def test_server_status_leaves_sections_out(client):
    status = client.admin.command("serverStatus", 1, repl=0, metrics=False)
    assert "repl" not in status
    assert "metrics" not in status
    assert "connections" in status


def test_server_status_tells_what_is_open_in_storage(client, db):
    db.c.insert_one({})
    sessions = [client.start_session() for _ in range(30)]
    for session in sessions:
        session.start_transaction()
        db.c.find_one({}, session=session)
    open_now = client.admin.command("serverStatus")["wiredTiger"]["session"]
    for session in sessions:
        session.end_session()
    assert open_now["open session count"] >= 30
    assert type(open_now["open cursor count"]) is Int64 and open_now["open cursor count"] > 0


def test_server_status_tells_who_waits(client, db):
    with db.c.watch() as stream:
        waiting = threading.Thread(target=lambda: next(stream, None))
        waiting.start()
        until = time.monotonic() + 30
        while (status := client.admin.command("serverStatus")["runnel"])["executor"]["parked"] == 0:
            assert time.monotonic() < until
            time.sleep(0.01)
        db.c.insert_one({})
        waiting.join()
    assert status["executor"]["workers"] > 0 and status["executor"]["stuck"] == 0
    memory = status["memory"]
    assert 0 <= memory["heapUsedBytes"] <= memory["heapBytes"] and memory["mappedBytes"] >= 0
    assert memory["allocator"] in ("jemalloc", "libc")
    assert memory["heapUsedBytes"] > 0 or SANITIZED, "a sanitizer has an allocator of its own"


def test_server_status_counts(client, db):
    def counters():
        return client.admin.command("serverStatus")["opcounters"]

    before = counters()
    db.c.insert_many([{"_id": i} for i in range(3)])
    db.c.update_one({"_id": 1}, {"$set": {"x": 1}})
    db.c.delete_one({"_id": 2})
    list(db.c.find())
    after = counters()
    assert after["insert"] - before["insert"] == 3
    assert after["update"] - before["update"] == 1
    assert after["delete"] - before["delete"] == 1
    assert after["query"] - before["query"] == 1
    assert after["command"] > before["command"]


def test_server_status_network(client):
    before = client.admin.command("serverStatus")["network"]
    client.admin.command("ping")
    after = client.admin.command("serverStatus")["network"]
    assert after["numRequests"] >= before["numRequests"] + 2
    assert after["bytesIn"] > before["bytesIn"]
    assert after["bytesOut"] > before["bytesOut"]


def test_top(client, db):
    db.c.insert_one({"_id": 1})
    list(db.c.find())
    list(db.c.find())
    totals = client.admin.command("top")["totals"]
    assert totals["note"] == "all times in microseconds"
    mine = totals[f"{db.name}.c"]
    assert list(mine) == [
        "total",
        "readLock",
        "writeLock",
        "queries",
        "getmore",
        "insert",
        "update",
        "remove",
        "commands",
    ]
    assert mine["insert"]["count"] == 1
    assert mine["queries"]["count"] == 2
    assert mine["total"]["count"] == 3
    assert mine["insert"]["time"] > 0
    db.c.drop()
    assert f"{db.name}.c" not in client.admin.command("top")["totals"]


def test_profile(client, db):
    answer = db.command("profile", -1)
    assert (answer["was"], answer["slowms"], answer["sampleRate"]) == (0, 100, 1.0)
    assert db.command("profile", 0)["was"] == 0
    assert code_of(client, "profile", 2, db=db.name) == 238
    assert code_of(client, "profile", 7, db=db.name) == 2
    assert code_of(client, "profile", "x", db=db.name) == 14


# --- running requests --------------------------------------------------------------------------


def test_current_op_and_kill_op(client, db, raw):
    watch = {"aggregate": 1, "pipeline": [{"$changeStream": {}}], "cursor": {}}
    stream = raw.command(watch, db=db.name)["cursor"]["id"]
    more = {"getMore": stream, "collection": "$cmd.aggregate", "maxTimeMS": 30000, "$db": db.name}
    raw.send(op_msg(more))
    host, port = raw.sock.getsockname()
    ops = []
    while not ops:
        listed = client.admin.command("currentOp")["inprog"]
        ops = [op for op in listed if op["client"] == f"{host}:{port}"]
    assert ops[0]["active"] is True
    assert ops[0]["desc"] == f"conn{ops[0]['connectionId']}"
    assert ops[0]["secs_running"] < 20
    answer = client.admin.command("killOp", op=ops[0]["opid"])
    assert answer["info"] == "attempting to kill op"
    assert raw.receive().doc["code"] == 11601
    assert raw.ping() == 1.0
    assert code_of(client, "killOp") == 40414
    assert client.admin.command("killOp", op=999999999)["ok"] == 1.0
    idle = client.admin.command({"currentOp": 1, "$all": True})["inprog"]
    assert [op["active"] for op in idle if op["client"] == f"{host}:{port}"] == [False]


def test_current_op_shows_commands(client, db, raw):
    """Those that run and those that wait; the long ones cut."""
    raw.command({"create": "c"}, db.name)
    stream = raw.command({"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}}, db.name)
    more = {"getMore": stream["cursor"]["id"], "collection": "c", "comment": "mine", "$db": db.name}
    raw.send(op_msg({**more, "maxTimeMS": 60000}))
    until = time.monotonic() + 30
    while not (found := [o for o in client.admin.command("currentOp")["inprog"]
                         if o.get("command", {}).get("comment") == "mine"]):
        assert time.monotonic() < until
        time.sleep(0.01)
    assert found[0]["command"] == {**more, "maxTimeMS": 60000} and found[0]["op"] == "getmore"
    for command, spec in (("currentOp", None), (None, {}), (None, {"truncateOps": True})):
        pad = "x" * 5000
        if command:
            mine = client.admin.command(command, comment=pad)["inprog"]
        else:
            mine = list(client.admin.aggregate([{"$currentOp": spec}], comment=pad))
        (mine,) = [o for o in mine if "currentOp" in str(o.get("command"))]
        if command or spec:
            text = mine["command"]["$truncated"]
            assert len(text) <= 1003 and text.endswith("...") and mine["command"]["comment"] == pad
        else:
            assert mine["command"]["comment"] == pad
        assert mine["ns"] == "admin.$cmd"
    client.admin.command("killOp", op=found[0]["opid"])
    assert raw.receive().doc["code"] == 11601


def test_current_op_shows_no_huge_commands(client, db, raw):
    stream = raw.command({"aggregate": 1, "pipeline": [{"$changeStream": {}}], "cursor": {}}, db.name)
    more = {"getMore": stream["cursor"]["id"], "collection": "$cmd.aggregate", "maxTimeMS": 60000}
    raw.send(op_msg({**more, "comment": "x" * 300_000, "$db": db.name}))
    until = time.monotonic() + 30
    while not (found := [o for o in client.admin.aggregate([{"$currentOp": {}}])
                         if o.get("command") == {"$truncated": "getMore"}]):
        assert time.monotonic() < until
        time.sleep(0.01)
    client.admin.command("killOp", op=found[0]["opid"])
    assert raw.receive().doc["code"] == 11601


@pytest.mark.concurrent
def test_current_op_beside_messages_that_come_and_go(srv, client, db):
    """Small ones lie in a worker's memory, large ones in the connection's, waiting ones in their own."""
    ended = threading.Event()

    def write(n):
        with RawClient(srv.port) as own:
            pads = ["", "x" * 100_000, "x" * 300]
            while not ended.is_set():
                for pad in pads:
                    one = {"insert": "c", "documents": [{"x": pad}], "writeConcern": {"w": n % 2}}
                    own.send(op_msg({**one, "$db": db.name}))
                for pad in pads:
                    assert own.receive().doc["n"] == 1

    writers = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for w in writers:
        w.start()
    seen, until = 0, time.monotonic() + 1
    while time.monotonic() < until or (not seen and time.monotonic() < until + 30):
        for op in client.admin.aggregate([{"$currentOp": {"truncateOps": bool(seen % 2)}}]):
            seen += op.get("ns") == f"{db.name}.c"
    ended.set()
    for w in writers:
        w.join()
    assert seen


def test_current_op_stage(client, raw):
    raw.ping()
    mine = "%s:%d" % raw.sock.getsockname()
    rows = list(client.admin.aggregate([{"$currentOp": {"idleConnections": True}}]))
    assert [row["active"] for row in rows if row["client"] == mine] == [False]
    rows = list(client.admin.aggregate([{"$currentOp": {}}, {"$match": {"active": True}}]))
    assert rows and mine not in {row["client"] for row in rows}
    with pytest.raises(OperationFailure) as error:
        list(client.test.aggregate([{"$currentOp": {}}]))
    assert error.value.code == 73


def test_fsync(client):
    assert client.admin.command("fsync")["ok"] == 1.0
    assert code_of(client, "fsync", lock=True) == 238
    assert code_of(client, "fsyncUnlock") == 20


def test_shutdown():


    with Server(memory=True) as server:
        with pymongo.MongoClient(server.uri) as c:
            with pytest.raises(AutoReconnect):
                c.admin.command("shutdown")
        assert server.wait() == 0
