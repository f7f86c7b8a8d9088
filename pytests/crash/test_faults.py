# SPDX-License-Identifier: GPL-3.0-or-later
"""A crash inside DDL or a checkpoint: all of it is there after the restart, or nothing."""

import pymongo
import pytest
from pymongo.errors import PyMongoError

from server import Server


def entries(client, command):
    return client.local["oplog.rs"].count_documents({"ns": "t.$cmd", f"o.{command}": {"$exists": True}})


def tables(client):
    """Every collection can be written and is sound."""
    for name in client.t.list_collection_names():
        client.t[name].insert_one({"a": -1})
        assert client.t.command("validate", name, full=True)["valid"]


def crash_in(path, fault, prepare, act):
    with Server(path=path) as srv, pymongo.MongoClient(srv.uri) as client:
        prepare(client.t)
    with Server(path=path, env={"RUNNEL_FAULT": f"{fault}:kill"}) as srv:
        with pymongo.MongoClient(srv.uri, serverSelectionTimeoutMS=3000, retryWrites=False) as client:
            with pytest.raises(PyMongoError):
                act(client.t)
        srv.process.wait(30)
        srv.kill()


def test_create_before_its_commit(tmp_path):
    crash_in(
        tmp_path / "d", "ddlCreateBeforeCommit",
        lambda db: db.keep.insert_one({}), lambda db: db.create_collection("new"),
    )
    with Server(path=tmp_path / "d") as srv, pymongo.MongoClient(srv.uri) as client:
        assert client.t.list_collection_names() == ["keep"]
        assert entries(client, "create") == 1
        client.t.create_collection("new")
        assert entries(client, "create") == 2
        tables(client)


def test_drop_after_its_commit(tmp_path):
    crash_in(
        tmp_path / "d", "ddlDropAfterCommit",
        lambda db: [db.keep.insert_one({}), db.old.insert_one({})], lambda db: db.old.drop(),
    )
    with Server(path=tmp_path / "d") as srv, pymongo.MongoClient(srv.uri) as client:
        there = "old" in client.t.list_collection_names()
        assert entries(client, "drop") == (0 if there else 1), "data and event agree"
        assert client.t.old.count_documents({}) == (1 if there else 0)
        tables(client)


def test_drop_database_after_its_commit(tmp_path):
    crash_in(
        tmp_path / "d", "ddlDropAfterCommit",
        lambda db: [db[f"c{i}"].insert_one({}) for i in range(5)],
        lambda db: db.client.drop_database("t"),
    )
    with Server(path=tmp_path / "d") as srv, pymongo.MongoClient(srv.uri) as client:
        left = client.t.list_collection_names()
        assert len(left) in (0, 5), "one transaction"
        assert entries(client, "drop") == 5 - len(left)
        assert entries(client, "dropDatabase") == (0 if left else 1)


@pytest.mark.parametrize("documents", [0, 2500])
def test_index_build(tmp_path, documents):
    def prepare(db):
        db.create_collection("c")
        if documents:
            db.c.insert_many([{"_id": i, "a": i} for i in range(documents)])

    crash_in(tmp_path / "d", "indexBuild", prepare, lambda db: db.c.create_index("a"))
    with Server(path=tmp_path / "d") as srv, pymongo.MongoClient(srv.uri) as client:
        assert [i["name"] for i in client.t.c.list_indexes()] == ["_id_"]
        assert entries(client, "createIndexes") == entries(client, "commitIndexBuild") == 0
        client.t.c.create_index("a")
        assert client.t.c.find({"a": {"$gte": 0}}).hint("a_1").to_list() == list(client.t.c.find())
        tables(client)


def test_checkpoint(tmp_path):
    """Dying where a checkpoint begins costs nothing that was acknowledged."""
    crash_in(
        tmp_path / "d", "checkpointBefore",
        lambda db: db.c.insert_many([{"_id": i} for i in range(100)]),
        lambda db: [db.c.insert_one({"_id": 100}), db.client.admin.command("fsync")],
    )
    with Server(path=tmp_path / "d") as srv, pymongo.MongoClient(srv.uri) as client:
        assert client.t.c.count_documents({}) == 101
        tables(client)
