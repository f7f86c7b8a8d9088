# SPDX-License-Identifier: GPL-3.0-or-later
"""The one-member replica set as commands show it, and commands on the oplog."""

import datetime

import pymongo
import pytest
from bson import ObjectId, Timestamp
from bson.int64 import Int64
from pymongo.errors import OperationFailure

from server import Server


def code_of(client, command, value=1, **fields):
    with pytest.raises(OperationFailure) as error:
        client.admin.command(command, value, **fields)
    return error.value.code


def test_get_status(client, srv):
    status = client.admin.command("replSetGetStatus")
    assert list(status)[:15] == [
        "set",
        "date",
        "myState",
        "term",
        "syncSourceHost",
        "syncSourceId",
        "heartbeatIntervalMillis",
        "majorityVoteCount",
        "writeMajorityCount",
        "votingMembersCount",
        "writableVotingMembersCount",
        "optimes",
        "lastStableRecoveryTimestamp",
        "electionCandidateMetrics",
        "members",
    ]
    assert status["set"] == "rs0"
    assert status["myState"] == 1
    assert type(status["term"]) is Int64 and status["term"] >= 1
    assert type(status["heartbeatIntervalMillis"]) is Int64
    assert status["writeMajorityCount"] == 1
    assert list(status["optimes"]) == [
        "lastCommittedOpTime",
        "lastCommittedWallTime",
        "readConcernMajorityOpTime",
        "appliedOpTime",
        "durableOpTime",
        "lastAppliedWallTime",
        "lastDurableWallTime",
    ]
    (member,) = status["members"]
    assert member["_id"] == 0
    assert member["name"] == f"127.0.0.1:{srv.port}"
    assert type(member["health"]) is float and member["health"] == 1.0
    assert (member["state"], member["stateStr"], member["self"]) == (1, "PRIMARY", True)
    assert type(member["optime"]["ts"]) is Timestamp
    assert isinstance(member["optimeDate"], datetime.datetime)
    assert type(member["electionTime"]) is Timestamp


def test_status_follows_writes(client, db):
    before = client.admin.command("replSetGetStatus")["optimes"]
    written = db.command("insert", "c", documents=[{"_id": 1}])["operationTime"]
    after = client.admin.command("replSetGetStatus")["optimes"]
    assert before["appliedOpTime"]["ts"] < written <= after["appliedOpTime"]["ts"]
    assert after["durableOpTime"]["ts"] >= written, "the default write concern is journaled"
    assert after["lastCommittedOpTime"] == after["durableOpTime"]


def test_get_config(client, srv):
    config = client.admin.command("replSetGetConfig")["config"]
    assert list(config) == [
        "_id",
        "version",
        "term",
        "members",
        "protocolVersion",
        "writeConcernMajorityJournalDefault",
        "settings",
    ]
    assert config["_id"] == "rs0"
    assert config["version"] == 1
    assert config["members"] == [
        {
            "_id": 0,
            "host": f"127.0.0.1:{srv.port}",
            "arbiterOnly": False,
            "buildIndexes": True,
            "hidden": False,
            "priority": 1,
            "tags": {},
            "secondaryDelaySecs": 0,
            "votes": 1,
        }
    ]
    assert type(config["protocolVersion"]) is Int64
    assert type(config["settings"]["replicaSetId"]) is ObjectId
    assert client.local["system.replset"].find_one() == config
    answer = client.admin.command("replSetGetConfig", commitmentStatus=True)
    assert answer["commitmentStatus"] is True


def test_stored_config_is_not_for_writing(client):
    for write in (
        lambda c: c.insert_one({"_id": "x"}),
        lambda c: c.update_one({}, {"$set": {"version": 5}}),
        lambda c: c.delete_many({}),
        lambda c: c.drop(),
        lambda c: c.create_index("x"),
    ):
        with pytest.raises(OperationFailure):
            write(client.local["system.replset"])
    assert client.local["system.replset"].count_documents({}) == 1


def test_what_a_set_of_one_refuses(client):
    config = client.admin.command("replSetGetConfig")["config"]
    assert code_of(client, "replSetInitiate", {}) == 23
    assert code_of(client, "replSetReconfig", config) == 103
    assert code_of(client, "replSetStepDown", 10) == 262
    assert code_of(client, "replSetStepDown", 10, force=True) == 238
    assert code_of(client, "replSetStepDown", "x") == 14
    assert code_of(client, "replSetFreeze", 0) == 95
    assert client.admin.command("ping")["ok"] == 1.0


@pytest.mark.parametrize("command", ["replSetGetStatus", "replSetGetConfig", "pruneOplog"])
def test_only_on_admin(client, command):
    with pytest.raises(OperationFailure) as error:
        client.test.command(command)
    assert error.value.code == 13


def test_append_oplog_note(client):
    answer = client.admin.command("appendOplogNote", data={"backup": 7})
    entry = client.local["oplog.rs"].find_one({"ts": answer["operationTime"]})
    assert entry["op"] == "n"
    assert entry["o"] == {"backup": 7}
    assert code_of(client, "appendOplogNote") == 40414
    assert code_of(client, "appendOplogNote", data=5) == 14


def test_prune_oplog():
    with Server(memory=True) as server, pymongo.MongoClient(server.uri) as client:
        oplog = client.local["oplog.rs"]
        client.test.c.insert_many([{"_id": i} for i in range(50)])
        assert client.admin.command("pruneOplog")["removed"] == 0, "no limit is reached"
        entries = oplog.count_documents({})
        assert entries >= 50

        client.admin.command("setParameter", 1, oplogRetentionSeconds=600)
        assert client.admin.command("pruneOplog")["removed"] == 0, "nothing is that old"
        later = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
        answer = client.admin.command("pruneOplog", now=later)
        assert type(answer["removed"]) is Int64
        assert answer["removed"] >= entries - 1
        assert oplog.count_documents({}) == 1, "the newest entry stays"
        assert oplog.find_one()["ts"] == answer["oldest"]

        client.admin.command("setParameter", 1, oplogRetentionSeconds=0, oplogMaxEntries=10)
        client.test.c.insert_many([{"_id": 100 + i} for i in range(30)])
        answer = client.admin.command("pruneOplog")
        assert oplog.count_documents({}) == 10, "exact to the entry"
        assert oplog.find_one(sort=[("$natural", 1)])["ts"] == answer["oldest"]
        assert code_of(client, "pruneOplog", now=5) == 14


def test_without_an_oplog():


    with Server(memory=True, no_oplog=True) as server, pymongo.MongoClient(server.uri) as client:
        assert code_of(client, "pruneOplog") == 76
        assert code_of(client, "appendOplogNote", data={}) == 76
        assert "oplog" not in client.admin.command("serverStatus")
