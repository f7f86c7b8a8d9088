# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers against changes of the catalog at the worst moment."""

import threading
import time

import pymongo
import pytest

from raw import RawClient
from server import Server

pytestmark = pytest.mark.concurrent


@pytest.fixture(scope="module")
def server():
    with Server(memory=True, test_commands=True) as s:
        yield s


@pytest.fixture(scope="module")
def client(server):
    with pymongo.MongoClient(server.uri) as c:
        yield c


@pytest.mark.parametrize("change", ["dropIndexes", "drop"])
def test_index_goes_while_a_scan_begins(server, client, db, change):
    """What is inserted after the drop has no key in the index that the plan chose. So the plan must
    be killed, whatever the snapshot holds; else the scan misses documents without a word."""
    db.c.create_index("x")
    db.c.insert_many([{"_id": i, "x": 1} for i in range(5)])
    client.admin.command("runnelFault", "scanSnapshot:wait")
    try:
        with RawClient(server.port) as reader:
            replies = []
            find = {"find": "c", "filter": {"x": 1}}
            reading = threading.Thread(target=lambda: replies.append(reader.command(find, db.name)))
            reading.start()
            while client.admin.command("runnelFault", "scanSnapshot:wait")["hits"] < 1:
                time.sleep(0.01)
            if change == "dropIndexes":
                db.command("dropIndexes", "c", index="x_1")
            else:
                db.c.drop()
            db.command("insert", "c", documents=[{"_id": 5, "x": 1}])
            client.admin.command("runnelFault", "off")
            reading.join()
    finally:
        client.admin.command("runnelFault", "off")
    assert replies[0]["ok"] == 0.0, replies[0]
    assert (replies[0]["code"], replies[0]["codeName"]) == (175, "QueryPlanKilled")
