# SPDX-License-Identifier: GPL-3.0-or-later
"""Reported cases of what tools and drivers send along: wp-04, wp-09."""

import pytest
from bson import Timestamp
from pymongo.errors import OperationFailure

EMPTY = Timestamp(0, 0)

WRITES = [
    lambda db, **o: db.command("insert", "c", documents=[{"_id": 1, "ts": EMPTY, "in": [EMPTY]}], **o),
    lambda db, **o: db.command(
        "update", "c", updates=[{"q": {"_id": 1}, "u": {"ts": EMPTY, "in": [EMPTY]}, "upsert": True}], **o),
    lambda db, **o: db.command(
        "findAndModify", "c", query={"_id": 1}, update={"ts": EMPTY, "in": [EMPTY]}, upsert=True, **o),
    lambda db, **o: db.client.admin.command(
        "bulkWrite", 1, ops=[{"insert": 0, "document": {"_id": 1, "ts": EMPTY, "in": [EMPTY]}}],
        nsInfo=[{"ns": f"{db.name}.c"}], **o),
    lambda db, **o: db.client.admin.command(
        "bulkWrite", 1, nsInfo=[{"ns": f"{db.name}.c"}], ops=[
            {"update": 0, "filter": {"_id": 1}, "updateMods": {"ts": EMPTY, "in": [EMPTY]}, "upsert": True}],
        **o),
]
NAMES = ["insert", "update", "findAndModify", "bulkInsert", "bulkUpdate"]


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("write", WRITES, ids=NAMES)
def test_wp_04_empty_timestamps(db, write, there, request):
    """A zero timestamp at the top level becomes the server's time, unless the command says not to."""
    inserts = "nsert" in request.node.name
    for bypass in (None, False, True):
        db.c.drop()
        if there and not inserts:
            db.c.insert_one({"_id": 1, "old": True})
        options = {} if bypass is None else {"bypassEmptyTsReplacement": bypass}
        before = db.client.admin.command("ping")["operationTime"]
        assert write(db, **options)["ok"] == 1
        doc = db.c.find_one()
        assert doc["_id"] == 1 and doc["in"] == [EMPTY] and "old" not in doc
        assert doc["ts"] == EMPTY if bypass else doc["ts"] >= before, (bypass, doc)


def test_wp_09_harmless_options_of_find(db):
    db.c.insert_one({"_id": 1})
    time = db.client.admin.command("ping")["$clusterTime"]
    for level in ("local", "majority"):
        reply = db.command({
            "find": "c", "noCursorTimeout": True, "allowPartialResults": True, "comment": {"by": "a tool"},
            "hint": "_id_", "let": {"a": 1}, "$readPreference": {"mode": "primaryPreferred"},
            "$clusterTime": time, "readConcern": {"level": level}, "maxTimeMS": 10000})
        assert reply["cursor"]["firstBatch"] == [{"_id": 1}]
    with pytest.raises(OperationFailure) as e:
        db.command({"find": "c", "bogusField": 1})
    assert e.value.code == 40415 and e.value.details["codeName"] == "IDLUnknownField"
