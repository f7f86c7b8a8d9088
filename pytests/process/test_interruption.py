# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that end early: by their time, by killOp, by a client that goes away."""

import threading
import time

import pymongo
import pytest

from raw import MORE_TO_COME, RawClient, op_msg
from server import Server
from streamutil import error_of

pytestmark = pytest.mark.concurrent


@pytest.fixture(scope="module")
def server():
    with Server(memory=True, test_commands=True) as s:
        yield s


@pytest.fixture(scope="module")
def client(server):
    with pymongo.MongoClient(server.uri) as c:
        yield c


def until(look, seconds=30.0):
    """The first true result of look()."""
    end = time.monotonic() + seconds
    while True:
        found = look()
        if found or time.monotonic() > end:
            assert found, "it did not come true in time"
            return found


# --- writes of many documents ------------------------------------------------------------------


def logged(client, db, op):
    """How many entries of this kind the oplog has of the collection."""
    return client.local["oplog.rs"].count_documents({"ns": f"{db.name}.c", "op": op})


@pytest.mark.parametrize("ms", [1, 10, 40, 120])
def test_multi_update_out_of_time(client, db, ms):
    """What it has done by then is done, each document once, and logged; nothing else."""
    db.c.insert_many([{"_id": i, "x": 0} for i in range(60000)])
    statement = {"q": {}, "u": {"$inc": {"x": 1}}, "multi": True}
    command = {"update": "c", "updates": [statement], "maxTimeMS": ms}
    error = error_of(lambda: db.command(command))
    assert error.code == 50
    changed = db.c.count_documents({"x": 1})
    assert db.c.count_documents({"x": 0}) + changed == 60000
    assert logged(client, db, "u") == changed


def test_multi_delete_out_of_time(client, db):
    db.c.insert_many([{"_id": i} for i in range(60000)])
    command = {"delete": "c", "deletes": [{"q": {}, "limit": 0}], "maxTimeMS": 40}
    assert error_of(lambda: db.command(command)).code == 50
    assert db.c.count_documents({}) + logged(client, db, "d") == 60000


def test_killed_multi_update(server, client, db):
    db.c.insert_many([{"_id": i, "x": 0} for i in range(60000)])
    statement = {"q": {}, "u": {"$inc": {"x": 1}}, "multi": True}
    with RawClient(server.port) as writer:
        mine = "%s:%d" % writer.sock.getsockname()
        writer.send(op_msg({"update": "c", "updates": [statement], "$db": db.name}))
        until(lambda: logged(client, db, "u") > 0)
        for row in client.admin.command("currentOp")["inprog"]:
            if row["client"] == mine:
                client.admin.command("killOp", op=row["opid"])
        reply = writer.receive().doc
    changed = db.c.count_documents({"x": 1})
    assert reply.get("code") == 11601 or reply["nModified"] == 60000
    assert logged(client, db, "u") == changed
