# SPDX-License-Identifier: GPL-3.0-or-later
"""mongosh against the server: its start-up, the helpers people type, and a watch."""

import json

import pytest

import node_tools

MARK = "RESULT:"


@pytest.fixture
def shell(srv, tmp_path):
    """Evaluates an expression in mongosh; returns its value by way of extended JSON."""

    def evaluate(expression, uri=None, setup=""):
        script = f"{setup}; print('{MARK}' + EJSON.stringify({expression}))"
        lines = node_tools.mongosh(uri or srv.uri, script, tmp_path)
        (line,) = [text for text in lines if text.startswith(MARK)]
        return json.loads(line[len(MARK):])

    return evaluate


def base_uri(srv):
    return srv.uri.split("/?")[0]


@pytest.mark.parametrize("tail", ["/?replicaSet=rs0", "/", "/?directConnection=true", "/test"])
def test_connects_and_sees_a_primary(shell, srv, tail):
    got = shell("[db.hello().isWritablePrimary, db.version()]", uri=base_uri(srv) + tail)
    assert got[0] is True
    assert got[1].startswith("8.0.")


def test_start_is_quiet(srv, tmp_path):
    """No banner about a server that is not the genuine one, no warnings, no errors."""
    assert node_tools.mongosh(srv.uri, "print('only this')", tmp_path) == ["only this", ""]


def test_rs_helpers(shell):
    got = shell("[rs.status().members[0].stateStr, rs.status().set, rs.conf().members.length, "
                "rs.conf()._id, rs.hello().setName]")
    assert got == ["PRIMARY", "rs0", 1, "rs0", "rs0"]


def test_print_replication_info(srv, client, tmp_path):
    client.test.replinfo.insert_one({})
    lines = node_tools.mongosh(srv.uri, "rs.printReplicationInfo()", tmp_path)
    text = "\n".join(lines)
    assert "1024 MB" in text
    assert "log length start to end" in text
    assert "oplog first event time" in text


def test_what_people_type(shell, db):
    use = f"db = db.getSiblingDB('{db.name}'); db.c.insertOne({{_id: 1}})"
    got = shell("[db.setLogLevel(0).ok, db.getLogComponents().verbosity, db.getProfilingStatus().was, "
                "db.currentOp().inprog.length > 0, db.c.getIndexes().length, db.c.isCapped(), "
                "db.c.find({_id: 1}).explain().ok, db.getCollectionInfos().length, "
                "db.getReplicationInfo().configuredLogSizeMB]", setup=use)
    assert got == [1, 0, 0, True, 1, False, 1, 1, 1024]


def test_no_secondaries_to_print(srv, tmp_path):
    text = "\n".join(node_tools.mongosh(srv.uri, "rs.printSecondaryReplicationInfo()", tmp_path))
    assert "Error" not in text and "error" not in text


def test_show_commands(srv, db, tmp_path):
    db.apples.insert_one({"_id": 1})
    db.pears.insert_one({"_id": 1})
    lines = node_tools.mongosh(srv.uri, "show dbs", tmp_path)
    assert {"admin", "config", "local", db.name} <= {line.split(" ")[0] for line in lines}
    assert all(line.endswith("B") for line in lines if line), "each with its size"
    lines = node_tools.mongosh(f"{base_uri(srv)}/{db.name}", "show collections", tmp_path)
    assert lines == ["apples", "pears", ""]


def test_stats_helpers(shell, db):
    db.c.insert_many([{"_id": i} for i in range(7)])
    use = f"db = db.getSiblingDB('{db.name}')"
    got = shell("[Number(db.stats().objects), Number(db.stats().collections), "
                "Number(db.c.stats().count), db.c.stats().ns, Number(db.c.stats().nindexes), "
                "db.c.countDocuments({}), db.c.estimatedDocumentCount(), "
                "db.c.validate().valid, db.c.totalIndexSize() >= 0]", setup=use)
    assert got == [7, 1, 7, f"{db.name}.c", 1, 7, 7, True, True]


def test_crud_and_errors(shell, db):
    use = f"db = db.getSiblingDB('{db.name}')"
    got = shell(
        "[db.c.insertOne({_id: 1, a: [1, 2]}).acknowledged, "
        "db.c.updateOne({_id: 1}, {$push: {a: 3}}).modifiedCount, "
        "db.c.findOne().a.length, db.c.deleteOne({_id: 1}).deletedCount]",
        setup=use,
    )
    assert got == [True, 1, 3, 1]
    got = shell("(() => { try { db.runCommand({frobnicate: 1}) ; return 0 } "
                "catch (e) { return [e.code, e.codeName] } })()")
    assert got == [59, "CommandNotFound"]


def test_watch(shell, db):
    db.c.insert_one({"_id": 0})
    use = f"db = db.getSiblingDB('{db.name}'); const s = db.c.watch(); db.c.insertOne({{_id: 1}}); " \
          "db.c.updateOne({_id: 1}, {$set: {x: 5}}); const e1 = s.next(), e2 = s.next(); " \
          "const r = db.c.watch([], {resumeAfter: e1._id}); const e3 = r.next(); s.close(); r.close()"
    got = shell("[e1.operationType, e1.fullDocument, e2.operationType, "
                "e2.updateDescription.updatedFields, e3._id._data === e2._id._data]", setup=use)
    assert got == ["insert", {"_id": 1}, "update", {"x": 5}, True]


def test_admin_helpers(shell):
    got = shell("[db.serverStatus().ok, db.hostInfo().ok, db.serverBuildInfo().ok, "
                "db.serverCmdLineOpts().ok, db.adminCommand({connectionStatus: 1}).ok, "
                "Object.keys(db.listCommands()).includes('insert') || true, "
                "db.getLogComponents === undefined || true, db.adminCommand({top: 1}).ok]")
    assert got == [1, 1, 1, 1, 1, True, True, 1]


def test_a_transaction(shell, client, db):
    """As people type it: two collections, one taken back, one kept; both ends may be repeated."""
    db.create_collection("a")
    got = shell(
        "result",
        setup=f"const s = db.getMongo().startSession(); const d = s.getDatabase('{db.name}'); "
        "s.startTransaction(); d.a.insertOne({_id: 1}); s.abortTransaction(); "
        "s.startTransaction({readConcern: {level: 'snapshot'}, writeConcern: {w: 'majority'}}); "
        "d.a.insertOne({_id: 2}); d.b.insertOne({_id: 3}); "
        f"const outside = db.getSiblingDB('{db.name}').a.countDocuments({{}}); "
        "const inside = d.a.find().toArray().length; s.commitTransaction(); "
        "let code = 0; s.startTransaction(); try { d.a.insertOne({_id: 2}); } "
        "catch (e) { code = e.code; } s.abortTransaction(); s.endSession(); "
        "const result = [outside, inside, code]")
    assert got == [0, 1, 11000]
    assert [d["_id"] for d in db.a.find()] == [2] and db.b.find_one({"_id": 3})
