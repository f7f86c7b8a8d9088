# SPDX-License-Identifier: GPL-3.0-or-later
"""Tokens of every kind of event, as mongodb-resumetoken-decoder reads them."""

import json

import pytest

import node_tools
from streamutil import drain

PROGRAM = """
const { decodeResumeToken } = require('mongodb-resumetoken-decoder');
const hex = process.argv.slice(2);
const plain = (key, value) => typeof value === 'bigint' ? String(value) : value;
for (const h of hex) console.log(JSON.stringify(decodeResumeToken(h), plain));
"""


def decoded(tokens, tmp_path):
    """What the decoder makes of tokens."""
    lines = node_tools.node(PROGRAM, tmp_path, *(t["_data"] for t in tokens),
                            package="mongodb-resumetoken-decoder")
    return [json.loads(line) for line in lines.splitlines()]


def every_kind(client, db):
    """Events of all kinds, and a token that is not an event's."""
    with db.watch(show_expanded_events=True) as s:
        mark = s.resume_token
        db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
        db.c.create_index("x")
        db.c.insert_one({"_id": "text"})
        db.c.create_index("y")
        db.c.update_one({"_id": "text"}, {"$set": {"x": 1}})
        db.c.replace_one({"_id": "text"}, {"x": 2})
        db.c.delete_one({"_id": "text"})
        db.command("collMod", "c", index={"name": "x_1", "hidden": True})
        db.c.drop_index("x_1")
        db.d.insert_one({"_id": 1})
        db.c.rename("d", dropTarget=True)
        client.drop_database(db.name)
        return mark, drain(s, 15)


KINDS = {"create", "createIndexes", "insert", "update", "replace", "delete", "modify", "dropIndexes",
         "rename", "drop", "dropDatabase", "invalidate"}


def test_tokens_of_every_kind(client, db, tmp_path):
    mark, events = every_kind(client, db)
    assert {e["operationType"] for e in events} == KINDS
    head, *tokens = decoded([mark, *(e["_id"] for e in events)], tmp_path)
    assert (head["version"], head["tokenType"], head["fromInvalidate"]) == (2, 0, False)
    assert "eventIdentifier" not in head
    for event, token in zip(events, tokens):
        kind = event["operationType"]
        time = event["clusterTime"]
        assert int(token["timestamp"]["$timestamp"]) == time.time << 32 | time.inc
        assert (token["version"], token["tokenType"], token["txnOpIndex"]) == (2, 128, 0)
        assert token["fromInvalidate"] == (kind == "invalidate")
        identifier = token["eventIdentifier"]
        assert identifier["operationType"] == ("dropDatabase" if kind == "invalidate" else kind)
        assert identifier.get("documentKey") == event.get("documentKey")
        assert ("operationDescription" in identifier) == ("operationDescription" in event)
        assert ("uuid" in token) == ("collectionUUID" in event)


@pytest.mark.parametrize("value", [7, -3, 1 << 40, 2.5, "ünï\0code", {"a": [1, {"b": None}]}, True])
def test_keys_of_documents(db, tmp_path, value):
    with db.c.watch() as s:
        db.c.insert_one({"_id": value})
        event = drain(s, 1)[0]
    token = decoded([event["_id"]], tmp_path)[0]
    assert token["eventIdentifier"]["documentKey"] == {"_id": value}
