# SPDX-License-Identifier: GPL-3.0-or-later
"""Death at a named place of a schema change or checkpoint: afterwards it happened or it did not."""

import signal

import pymongo
import pytest
from pymongo.errors import ConnectionFailure

from server import Server

BEFORE = [{"_id": i, "a": i % 5} for i in range(50)]


def create(db):
    db.create_collection("new")


def drop(db):
    db.c.drop()


def index(db):
    db.c.create_index("a")


def checkpoint(db):
    db.client.admin.command("fsync")


# fault, what runs into it, what of the collections and indexes is there afterwards
DEATHS = [
    ("ddlCreateBeforeCommit", create, {"c": ["_id_"]}),
    ("ddlDropAfterCommit", drop, None),  # either: the drop was not acknowledged
    ("indexBuild", index, {"c": ["_id_"]}),
    ("checkpointBefore", checkpoint, {"c": ["_id_"]}),
]


@pytest.mark.parametrize("fault, change, expected", DEATHS, ids=[d[0] for d in DEATHS])
def test_death_at(request, tmp_path, fault, change, expected):
    if request.config.getoption("--uri"):
        pytest.skip("kills its own server")
    with Server(path=tmp_path / "data", test_commands=True) as server:
        with pymongo.MongoClient(server.uri, serverSelectionTimeoutMS=500) as client:
            client.test.c.insert_many(BEFORE)
            client.admin.command("runnelFault", f"{fault}:kill")
            with pytest.raises(ConnectionFailure):
                change(client.test)
                client.admin.command("fsync")  # the drop's table goes a little later
                client.test.command("ping")
                server.wait(20)
                raise AssertionError(f"the server outlived {fault}")
            assert server.wait(20) == -signal.SIGKILL
        server.start()
        with pymongo.MongoClient(server.uri) as client:
            db = client.test
            found = {name: list(db[name].index_information()) for name in db.list_collection_names()}
            if expected is None:
                assert found in ({}, {"c": ["_id_"]})
            else:
                assert found == expected
            if "c" in found:
                assert list(db.c.find(sort=[("_id", 1)])) == BEFORE
                assert db.validate_collection("c")["valid"] is True
            entries = client.local["oplog.rs"].find({"op": "c", "ns": "test.$cmd"})
            kinds = [next(iter(entry["o"])) for entry in entries]
            assert ("drop" in kinds) == ("c" not in found), "the catalog and the oplog agree"
            # and the same change works now
            change(db)
