# SPDX-License-Identifier: GPL-3.0-or-later
"""bulkWrite: many collections in one command."""

import uuid

import pymongo
import pytest
from bson import Binary, Int64
from pymongo import DeleteMany, DeleteOne, InsertOne, ReplaceOne, UpdateMany, UpdateOne
from pymongo.errors import ClientBulkWriteException

from raw import RawClient, op_msg, sequence
from streamutil import drain, error_of

SERVER_OPTIONS = dict(test_commands=True)


def lsid():
    return {"id": Binary(uuid.uuid4().bytes, 4)}


def bulk(client, ops, *colls, **options):
    return client.admin.command({
        "bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": c.full_name} for c in colls], **options})


def raw_bulk(raw, ops, *colls, **options):
    """With an lsid and numbers of one's own, and as long as a message may be."""
    return raw.call(op_msg({"bulkWrite": 1, "nsInfo": [{"ns": c.full_name} for c in colls],
                            "$db": "admin", **options}, sequence("ops", ops))).doc


def test_every_kind_of_operation_over_two_databases(client, db):
    a, b = db.a, client[db.name + "_2"].b
    reply = bulk(client, [
        {"insert": 0, "document": {"_id": 1, "v": 1}},
        {"insert": 0, "document": {"_id": 2, "v": 1}},
        {"insert": 1, "document": {"_id": 3, "v": 1}},
        {"update": 0, "filter": {"v": 1}, "updateMods": {"$inc": {"v": 1}}, "multi": True},
        {"update": 0, "filter": {"_id": 1}, "updateMods": [{"$set": {"w": "$v"}}]},
        {"update": 1, "filter": {"_id": 9}, "updateMods": {"x": 1}, "upsert": True},
        {"update": 1, "filter": {"_id": 8}, "updateMods": {"$set": {"x": 1}}},
        {"delete": 0, "filter": {"_id": 2}},
        {"delete": 1, "filter": {}, "multi": True},
    ], a, b)
    client.drop_database(b.database.name)
    assert reply["cursor"] == {"id": 0, "ns": "admin.$cmd.bulkWrite", "firstBatch": [
        {"ok": 1.0, "idx": 0, "n": 1},
        {"ok": 1.0, "idx": 1, "n": 1},
        {"ok": 1.0, "idx": 2, "n": 1},
        {"ok": 1.0, "idx": 3, "n": 2, "nModified": 2},
        {"ok": 1.0, "idx": 4, "n": 1, "nModified": 1},
        {"ok": 1.0, "idx": 5, "n": 1, "nModified": 0, "upserted": {"_id": 9}},
        {"ok": 1.0, "idx": 6, "n": 0, "nModified": 0},
        {"ok": 1.0, "idx": 7, "n": 1},
        {"ok": 1.0, "idx": 8, "n": 2},
    ]}
    assert {k: v for k, v in reply.items() if k[0] == "n"} == {
        "nErrors": 0, "nInserted": 3, "nMatched": 3, "nModified": 3, "nUpserted": 1, "nDeleted": 3}
    assert list(db.a.find()) == [{"_id": 1, "v": 2, "w": 2}]


def test_through_the_driver(client, db):
    ns = db.c.full_name
    with db.watch() as stream:
        result = client.bulk_write([
            InsertOne({"_id": 1, "a": [1, 5]}, namespace=ns),
            InsertOne({"_id": 2}, namespace=ns),
            UpdateOne({"_id": 1}, {"$set": {"a.$[big]": 0}}, array_filters=[{"big": {"$gt": 3}}],
                      namespace=ns),
            ReplaceOne({"_id": 7}, {"x": 1}, upsert=True, namespace=ns),
            UpdateMany({}, {"$set": {"y": "$$v"}}, namespace=ns),
            DeleteOne({"_id": 2}, namespace=ns),
            DeleteMany({"x": 1}, namespace=ns),
        ], verbose_results=True)
        assert [e["operationType"] for e in drain(stream, 9)] == [
            "insert", "insert", "update", "insert", "update", "update", "update", "delete",
            "delete"]
    assert (result.inserted_count, result.matched_count, result.modified_count,
            result.upserted_count, result.deleted_count) == (2, 4, 4, 1, 2)
    assert result.update_results[3].upserted_id == 7
    assert list(db.c.find()) == [{"_id": 1, "a": [1, 0], "y": "$$v"}]


def test_let_hint_sort(client, db):
    db.c.insert_many([{"_id": i, "v": -i} for i in range(3)])
    db.c.create_index("v")
    reply = bulk(client, [
        {"update": 0, "filter": {"$expr": {"$eq": ["$v", "$$x"]}}, "updateMods": {"$set": {"l": 1}},
         "hint": "v_1"},
        {"update": 0, "filter": {}, "updateMods": {"$set": {"s": 1}}, "sort": {"v": 1}},
        {"delete": 0, "filter": {"_id": 0}, "hint": {"v": 1}},
        {"delete": 0, "filter": {}, "hint": "nope"},
    ], db.c, let={"x": -1})
    assert list(db.c.find()) == [{"_id": 1, "v": -1, "l": 1}, {"_id": 2, "v": -2, "s": 1}]
    assert (reply["nErrors"], reply["cursor"]["firstBatch"][3]["code"]) == (1, 2)


@pytest.mark.parametrize("ordered, batch, left", [
    (True, [0], [1]), (False, [0, 1, 2], [1, 2])], ids=["ordered", "unordered"])
def test_errors(client, db, ordered, batch, left):
    db.c.insert_one({"_id": 1})
    reply = bulk(client, [
        {"insert": 0, "document": {"_id": 1}},
        {"insert": 0, "document": {"_id": 2}},
        {"update": 0, "filter": {}, "updateMods": {"$nope": 1}},
    ], db.c, ordered=ordered)
    items = reply["cursor"]["firstBatch"]
    assert [i["idx"] for i in items] == batch
    assert items[0] == {
        "ok": 0.0, "idx": 0, "code": 11000, "n": 0, "keyPattern": {"_id": 1}, "keyValue": {"_id": 1},
        "errmsg": f"E11000 duplicate key error collection: {db.c.full_name} index: _id_ dup key: "
                  "{ _id: 1 }"}
    assert list(items[0]) == ["ok", "idx", "code", "errmsg", "keyPattern", "keyValue", "n"]
    if not ordered:
        assert items[2]["code"] == 9 and (items[2]["n"], items[2]["nModified"]) == (0, 0)
    assert reply["nErrors"] == (1 if ordered else 2)
    assert [d["_id"] for d in db.c.find()] == left


def test_errors_only(client, db):
    reply = bulk(client, [{"insert": 0, "document": {"_id": i % 2}} for i in range(4)], db.c,
                 errorsOnly=True, ordered=False)
    assert [i["idx"] for i in reply["cursor"]["firstBatch"]] == [2, 3]
    assert (reply["nInserted"], reply["nErrors"]) == (2, 2)


def test_driver_reports_errors(client, db):
    with pytest.raises(ClientBulkWriteException) as caught:
        client.bulk_write([InsertOne({"_id": 1}, namespace=db.c.full_name)] * 2)
    assert caught.value.write_errors[0]["code"] == 11000
    assert caught.value.partial_result.inserted_count == 1


def test_a_failure_makes_no_collection_behind_it(client, db):
    reply = bulk(client, [
        {"insert": 0, "document": {"_id": 1}},
        {"insert": 0, "document": {"_id": 1}},
        {"insert": 1, "document": {"_id": 1}},
        {"update": 2, "filter": {}, "updateMods": {"$set": {"a": 1}}, "upsert": True},
    ], db.a, db.b, db.c)
    assert (reply["nInserted"], reply["nErrors"]) == (1, 1)
    assert db.list_collection_names() == ["a"]


def test_collections_are_made_in_the_middle(raw, client, db):
    """Each missing collection is made where the first operation needs it, with the events in order,
    and what was written before it is written once."""
    db.a.insert_one({"_id": 0, "n": 0})
    with db.watch(show_expanded_events=True) as stream:
        reply = raw_bulk(raw, [
            {"update": 0, "filter": {}, "updateMods": {"$inc": {"n": 1}}},
            {"insert": 1, "document": {"_id": 1}},
            {"update": 0, "filter": {}, "updateMods": {"$inc": {"n": 1}}},
            {"update": 2, "filter": {"_id": 2}, "updateMods": {"$bad": 1}, "upsert": True},
            {"update": 3, "filter": {"_id": 2}, "updateMods": {"$inc": {"n": 1}}, "upsert": True},
            {"update": 4, "filter": {"_id": 2}, "updateMods": {"$inc": {"n": 1}}},
            {"delete": 4, "filter": {}},
            {"update": 0, "filter": {}, "updateMods": {"$inc": {"n": 1}}},
        ], db.a, db.b, db.c, db.d, db.e, ordered=False, lsid=lsid(), txnNumber=Int64(1))
        assert [e["operationType"] for e in drain(stream, 7)] == [
            "update", "create", "insert", "update", "create", "insert", "update"]
    assert db.a.find_one() == {"_id": 0, "n": 3}
    assert sorted(db.list_collection_names()) == ["a", "b", "d"]
    assert (reply["nInserted"], reply["nUpserted"], reply["nModified"]) == (1, 1, 3)
    assert [i["ok"] for i in reply["cursor"]["firstBatch"]] == [1, 1, 1, 0, 1, 1, 1, 1]
    assert "retriedStmtIds" not in reply
    assert reply["operationTime"] == client.local["oplog.rs"].find_one(
        {"ns": db.a.full_name}, sort=[("$natural", -1)])["ts"]


# --- namespaces -----------------------------------------------------------------------------------


def test_one_namespace_may_stand_twice(client, db):
    reply = bulk(client, [{"insert": i % 2, "document": {"_id": i}} for i in range(6)], db.c, db.c)
    assert reply["nInserted"] == 6 and db.c.count_documents({}) == 6


def test_namespaces_that_are_refused(client, db):
    ops = [{"insert": 0, "document": {}}, {"update": 1, "filter": {}, "updateMods": {"a": 1}},
           {"delete": 1, "filter": {}}, {"insert": 2, "document": {"_id": 1}}]
    reply = bulk(client, ops, db["system.profile"], db["system.views"], db.c, ordered=False)
    assert [i.get("code") for i in reply["cursor"]["firstBatch"]] == [73, 73, 73, None]
    e = error_of(lambda: bulk(client, ops, db.c, db.c, client.local["oplog.rs"]))
    assert e.code == 13 and db.c.count_documents({}) == 1


def test_collection_uuid(client, db):
    db.c.insert_one({"_id": 1})
    db.create_collection("other")
    uuids = {c["name"]: c["info"]["uuid"] for c in db.list_collections()}
    op = [{"insert": 0, "document": {"_id": 2}}]

    def entry(name, identity):
        return client.admin.command({"bulkWrite": 1, "ops": op, "nsInfo": [
            {"ns": f"{db.name}.{name}", "collectionUUID": Binary(identity, 4)}]})

    assert entry("c", uuids["c"])["nInserted"] == 1
    for name, identity, actual in (("c", uuids["other"], "other"), ("missing", uuids["c"], "c"),
                                   ("c", uuid.uuid4().bytes, None)):
        item = entry(name, identity)["cursor"]["firstBatch"][0]
        assert (item["code"], item["db"], item["expectedCollection"], item["actualCollection"],
                bytes(item["collectionUUID"])) == (361, db.name, name, actual, bytes(identity))
    assert sorted(db.list_collection_names()) == ["c", "other"]


# --- bad input ------------------------------------------------------------------------------------


INSERT = {"insert": 0, "document": {"_id": 1}}


@pytest.mark.parametrize("fields, code, text", [
    ({"ops": []}, 16, "Write batch sizes must be between 1 and 100000. Got 0 operations."),
    ({"ops": [{**INSERT, "insert": 1}]}, 2, "has an invalid nsInfo index."),
    ({"ops": [{**INSERT, "insert": 2**40}]}, 2, "has an invalid nsInfo index."),
    ({"ops": [{**INSERT, "insert": -1}]}, 2,
     "BSON field 'insert' value must be >= 0, actual value '-1'"),
    ({"ops": [{**INSERT, "insert": "0"}]}, 14,
     "BSON field 'bulkWrite.ops.insert' is the wrong type 'string', expected types "
     "'[long, int, decimal, double]'"),
    ({"ops": [{"insert": 0}]}, 40414,
     "BSON field 'bulkWrite.ops.document' is missing but a required field"),
    ({"ops": [{"update": 0, "filter": {}}]}, 40414, "'bulkWrite.ops.updateMods' is missing"),
    ({"ops": [{"update": 0, "updateMods": {}}]}, 40414, "'bulkWrite.ops.filter' is missing"),
    ({"ops": [{"delete": 0}]}, 40414, "'bulkWrite.ops.filter' is missing"),
    ({"ops": [{"insert": 0, "document": 5}]}, 14, "'bulkWrite.ops.document' is the wrong type"),
    ({"ops": [{"frob": 0}]}, 40415, "BSON field 'bulkWrite.frob' is an unknown field."),
    ({"ops": [{}]}, 40415, "is an unknown field."),
    ({"ops": [{**INSERT, "x": 1}]}, 40415, "BSON field 'bulkWrite.ops.x' is an unknown field."),
    ({"ops": [5]}, 14, "BSON field 'bulkWrite.ops.0' is the wrong type 'int', expected type "
     "'object'"),
    ({"ops": 5}, 14, "BSON field 'bulkWrite.ops' is the wrong type 'int', expected type 'array'"),
    ({"ops": None}, 14, "'bulkWrite.ops'"),
    ({"nsInfo": 5, "ops": []}, 14, "BSON field 'bulkWrite.nsInfo' is the wrong type 'int'"),
    ({"nsInfo": [5]}, 14, "BSON field 'bulkWrite.nsInfo.0' is the wrong type 'int'"),
    ({"nsInfo": [{"x": 1}]}, 40415, "BSON field 'bulkWrite.nsInfo.x' is an unknown field."),
    ({"nsInfo": [{}]}, 40414, "'bulkWrite.nsInfo.ns' is missing"),
    ({"nsInfo": [{"ns": "nodot"}]}, 73, "Invalid namespace specified for bulkWrite: 'nodot'"),
    ({"nsInfo": [{"ns": "."}]}, 73, "Invalid namespace specified for bulkWrite: ''"),
    ({"nsInfo": [{"ns": "a.b$"}]}, 73, "Invalid namespace specified for bulkWrite: 'a.b$'"),
    ({"nsInfo": [{"ns": "a." + "b" * 254}]}, 73, "Invalid namespace"),
    ({"nsInfo": []}, 2, "has an invalid nsInfo index."),
    ({"nsInfo": [{"ns": "a.b"}] * 100001}, 16, "nsInfo must have at most 100000 entries"),
    ({"bogus": 1}, 40415, "BSON field 'bulkWrite.bogus' is an unknown field."),
    ({"ordered": "x"}, 14, "'bulkWrite.ordered'"),
    ({"cursor": {"batchSize": -1}}, 51024, "must be >= 0"),
    ({"stmtIds": [1, 2]}, 16, "Number of statement ids must match"),
    ({"stmtIds": [1], "stmtId": 1}, 72, "May not specify both stmtId and stmtIds"),
    ({"ops": [{"delete": 0, "filter": {}, "collation": {"locale": "de"}}]}, 238, "collation"),
])
def test_bad_commands(raw, db, fields, code, text):
    reply = raw.command({"bulkWrite": 1, "ops": [INSERT], "nsInfo": [{"ns": db.c.full_name}],
                         **fields})
    assert reply["code"] == code and text in reply["errmsg"], reply
    assert db.list_collection_names() == []


@pytest.mark.parametrize("field", ["ops", "nsInfo"])
def test_missing_arrays(raw, field):
    command = {"bulkWrite": 1, "ops": [INSERT], "nsInfo": [{"ns": "a.b"}]}
    del command[field]
    reply = raw.command(command)
    assert reply["code"] == 40414
    assert reply["errmsg"] == f"BSON field 'bulkWrite.{field}' is missing but a required field"


def test_only_on_admin(db):
    e = error_of(lambda: db.command({"bulkWrite": 1, "ops": [INSERT], "nsInfo": [{"ns": "a.b"}]}))
    assert e.code == 13
    assert e.details["errmsg"] == "bulkWrite may only be run against the admin database."


def test_too_many_operations(srv, db):
    ops = [{"insert": 0, "document": {}}] * 100001
    with RawClient(srv.port) as raw:
        reply = raw.call(op_msg({"bulkWrite": 1, "nsInfo": [{"ns": db.c.full_name}],
                                 "$db": "admin"}, sequence("ops", ops))).doc
    assert reply["code"] == 16 and "Got 100001 operations" in reply["errmsg"]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)])
def test_sequences_in_any_order(raw, db, order):
    sections = ({"bulkWrite": 1, "$db": "admin"},
                sequence("ops", [{"insert": 1, "document": {"_id": i}} for i in range(12)]),
                sequence("nsInfo", [{"ns": db.a.full_name}, {"ns": db.b.full_name}]))
    reply = raw.call(op_msg(*(sections[i] for i in order))).doc
    assert reply["nInserted"] == 12 and [d["_id"] for d in db.b.find()] == list(range(12))


# --- large results --------------------------------------------------------------------------------


def test_results_in_several_batches(client, db):
    ops = [{"insert": 0, "document": {"_id": i}} for i in range(25)]
    with client.start_session() as session:
        reply = client.admin.command({"bulkWrite": 1, "ops": ops, "cursor": {"batchSize": 10},
                                      "nsInfo": [{"ns": db.c.full_name}]}, session=session)
        got = [i["idx"] for i in reply["cursor"]["firstBatch"]]
        assert len(got) == 10 and reply["nInserted"] == 25
        cursor = reply["cursor"]
        while cursor["id"] != 0:
            assert cursor["ns"] == "admin.$cmd.bulkWrite"
            cursor = client.admin.command("getMore", Int64(cursor["id"]), batchSize=10,
                                          collection="$cmd.bulkWrite", session=session)["cursor"]
            got += [i["idx"] for i in cursor["nextBatch"]]
    assert got == list(range(25))


def dup_inserts(n):
    return [{"insert": 0, "document": {"_id": "x" * 3000}} for _ in range(n)]


def test_results_beyond_one_reply(client, db):
    db.c.insert_one({"_id": "x" * 3000})
    with client.start_session() as session:
        reply = client.admin.command({"bulkWrite": 1, "ops": dup_inserts(5000), "ordered": False,
                                      "nsInfo": [{"ns": db.c.full_name}]}, session=session)
        first = reply["cursor"]["firstBatch"]
        assert reply["nErrors"] == 5000 and 1000 < len(first) < 5000
        rest = client.admin.command("getMore", Int64(reply["cursor"]["id"]),
                                    collection="$cmd.bulkWrite", session=session)["cursor"]
    assert [i["idx"] for i in first + rest["nextBatch"]] == list(range(5000))
    assert rest["id"] == 0


def test_results_have_a_bound(raw, db):
    db.c.insert_one({"_id": "x" * 3000})
    reply = raw_bulk(raw, dup_inserts(10000), db.c, ordered=False)
    assert 5000 < reply["nErrors"] < 10000
    more = raw.command({"getMore": reply["cursor"]["id"], "collection": "$cmd.bulkWrite"})
    last = more["cursor"]["nextBatch"][-1]
    assert (last["code"], last["idx"], more["cursor"]["id"]) == (146, reply["nErrors"] - 1, 0)
    assert last["errmsg"] == "BulkWrite response size exceeded limit (31457280 bytes)"


# --- retries --------------------------------------------------------------------------------------


OPS = [
    {"insert": 0, "document": {"_id": 1}},
    {"insert": 0, "document": {"_id": 2}},
    {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"n": 1}}},
    {"update": 0, "filter": {"_id": 5}, "updateMods": {"$inc": {"n": 1}}, "upsert": True},
    {"delete": 0, "filter": {"_id": 2}},
    {"insert": 1, "document": {"_id": 1}},
]


@pytest.mark.parametrize("crash", [None, "stop", "kill"])
def test_a_retry_is_answered_as_the_first_time(disk_srv, crash):
    command = {"bulkWrite": 1, "ops": OPS, "nsInfo": [{"ns": "t.c"}, {"ns": "u.d"}],
               "lsid": lsid(), "txnNumber": Int64(1)}
    with RawClient(disk_srv.port) as raw:
        one = raw.command(command)
    if crash == "kill":
        disk_srv.kill()
        disk_srv.start()
    elif crash == "stop":
        disk_srv.restart()
    with RawClient(disk_srv.port) as raw:
        two = raw.command(command)
    assert one["ok"] == 1 and two.pop("retriedStmtIds") == list(range(6))
    for reply in (one, two):
        del reply["$clusterTime"], reply["operationTime"]
    assert one == two
    with pymongo.MongoClient(disk_srv.uri) as client:
        assert list(client.t.c.find()) == [{"_id": 1, "n": 1}, {"_id": 5, "n": 1}]
        assert client.local["oplog.rs"].count_documents({"txnNumber": 1}) == 6


def test_a_retry_does_only_the_rest(raw, db):
    db.c.create_index("k", unique=True)
    db.c.insert_one({"_id": 9, "k": 1})
    again = dict(lsid=lsid(), txnNumber=Int64(4))
    ops = [{"insert": 0, "document": {"_id": 1}},
           {"update": 0, "filter": {"_id": 1}, "updateMods": {"$set": {"k": 1}}},
           {"delete": 0, "filter": {"_id": 1}}]
    assert raw_bulk(raw, ops, db.c, **again)["nErrors"] == 1
    db.c.delete_one({"_id": 9})
    reply = raw_bulk(raw, ops, db.c, **again)
    assert (reply["nErrors"], reply["retriedStmtIds"]) == (0, [0])
    assert (reply["nInserted"], reply["nModified"], reply["nDeleted"]) == (1, 1, 1)
    assert db.c.count_documents({}) == 0


def test_multi_is_not_retryable(raw, db):
    reply = raw_bulk(raw, [
        {"update": 0, "filter": {}, "updateMods": {"$set": {"a": 1}}, "multi": True},
        {"delete": 0, "filter": {}, "multi": True},
    ], db.c, ordered=False, lsid=lsid(), txnNumber=Int64(1))
    assert [(i["code"], i["errmsg"]) for i in reply["cursor"]["firstBatch"]] == [
        (72, "Cannot use retryable writes with multi=true")] * 2


def test_statement_ids(raw, db):
    again = dict(lsid=lsid(), txnNumber=Int64(1))
    raw_bulk(raw, [INSERT], db.c, stmtId=7, **again)
    ops = [{"insert": 0, "document": {"_id": i}} for i in (1, 2, 3)]
    reply = raw_bulk(raw, ops, db.c, stmtIds=[7, 3, 9], **again)
    assert reply["retriedStmtIds"] == [7]
    assert [d["_id"] for d in db.c.find()] == [1, 2, 3]
    reply = raw_bulk(raw, ops, db.c, stmtIds=[9, 7, 3], **again)
    assert reply["retriedStmtIds"] == [9, 7, 3]


def test_connection_lost_behind_the_commit(client, db):
    """The driver sends it again; all is done once."""
    client.admin.command("configureFailPoint", "onPrimaryTransactionalWrite", mode={"times": 1})
    result = client.bulk_write([InsertOne({"_id": i}, namespace=db.c.full_name) for i in range(5)])
    assert result.inserted_count == 5 and db.c.count_documents({}) == 5


# --- counted and limited --------------------------------------------------------------------------


def test_counters(client, db):
    def counts():
        return client.admin.command("serverStatus")["opcounters"]

    def top():
        t = client.admin.command("top")["totals"]
        return {kind: t.get(db.c.full_name, {}).get(kind, {"count": 0})["count"]
                for kind in ("insert", "update", "remove")}

    before, top_before = counts(), top()
    bulk(client, [{"insert": 0, "document": {}}, {"insert": 0, "document": {}},
                  {"update": 0, "filter": {}, "updateMods": {"$set": {"a": 1}}, "multi": True},
                  {"delete": 0, "filter": {}, "multi": True}], db.c)
    after, top_after = counts(), top()
    assert [after[k] - before[k] for k in ("insert", "update", "delete")] == [2, 1, 1]
    assert {k: top_after[k] - top_before[k] for k in top_after} == {
        "insert": 1, "update": 1, "remove": 1}


def test_write_concern_error(client, db):
    reply = bulk(client, [INSERT], db.c, writeConcern={"w": 2, "wtimeout": 1})
    assert reply["nInserted"] == 1 and reply["writeConcernError"]["code"] == 100


def test_a_document_too_large(client, db):
    big = {"_id": 2, "x": "x" * (16 * 1024 * 1024)}
    reply = bulk(client, [INSERT, {"insert": 0, "document": big},
                          {"insert": 0, "document": {"_id": 3}}], db.c, ordered=False)
    assert (reply["nInserted"], reply["nErrors"]) == (2, 1)
    assert reply["cursor"]["firstBatch"][1]["idx"] == 1


def test_stable_api(srv, db):
    with pymongo.MongoClient(srv.uri, server_api=pymongo.server_api.ServerApi("1", strict=True)) as c:
        assert c.bulk_write([InsertOne({}, namespace=db.c.full_name)]).inserted_count == 1


# --- in transactions ------------------------------------------------------------------------------


def test_a_transaction_over_two_databases(client, db):
    a, b = db.a.full_name, f"{db.name}_2.b"
    db.a.insert_one({"_id": 0})
    with client.start_session() as session:
        with session.start_transaction():
            result = client.bulk_write([
                InsertOne({"_id": 1}, namespace=b), UpdateMany({}, {"$set": {"x": 1}}, namespace=a),
                UpdateOne({"_id": 5}, {"$set": {"x": 1}}, upsert=True, namespace=b),
                DeleteOne({"_id": 0}, namespace=a)], session=session)
            assert db.a.count_documents({}) == 1 and client[db.name + "_2"].b.find_one() is None
    left = list(client[db.name + "_2"].b.find())
    client.drop_database(db.name + "_2")
    assert (result.inserted_count, result.upserted_count, result.deleted_count) == (1, 1, 1)
    assert db.a.count_documents({}) == 0 and left == [{"_id": 1}, {"_id": 5, "x": 1}]
    entry = client.local["oplog.rs"].find_one({"op": "c", "o.applyOps.ns": b})
    assert [o["op"] for o in entry["o"]["applyOps"] if o["op"] != "c"] == ["i", "u", "i", "d"]


def test_a_failure_aborts_the_transaction(client, db):
    db.c.insert_one({"_id": 1})
    ops = [InsertOne({"_id": i}, namespace=db.c.full_name) for i in (0, 1, 2)]
    with client.start_session() as session:
        session.start_transaction()
        with pytest.raises(ClientBulkWriteException) as caught:
            client.bulk_write(ops, session=session, ordered=False)
        assert [e["idx"] for e in caught.value.write_errors] == [1]
        e = error_of(session.commit_transaction)
        assert e.code == 251 and e.has_error_label("TransientTransactionError")
    assert [d["_id"] for d in db.c.find()] == [1]


def test_a_conflict_fails_the_command(client, db):
    db.c.insert_one({"_id": 1})
    with client.start_session() as one, client.start_session() as two:
        one.start_transaction()
        two.start_transaction()
        db.c.find_one({}, session=two)
        db.c.update_one({}, {"$set": {"a": 1}}, session=one)
        with pytest.raises(ClientBulkWriteException) as caught:
            client.bulk_write([UpdateOne({}, {"$set": {"a": 2}}, namespace=db.c.full_name)],
                              session=two)
        assert caught.value.error.code == 112
        assert caught.value.error.has_error_label("TransientTransactionError")
        one.commit_transaction()
    assert db.c.find_one()["a"] == 1
