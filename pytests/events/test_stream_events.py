# SPDX-License-Identifier: GPL-3.0-or-later
"""What events look like: fields, their order and types; scopes; images; lookups; filters."""

import bson
import pymongo
import pytest
from bson import Binary, Int64
from bson.raw_bson import RawBSONDocument

from streamutil import drain, error_of, get_more, kinds, open_raw


@pytest.fixture
def raw_db(client, db):
    """The same database, whose documents come as bytes."""
    options = bson.codec_options.CodecOptions(document_class=RawBSONDocument)
    return client.get_database(db.name, codec_options=options)


def fields(event):
    return list(event.keys())


CRUD = ["_id", "operationType", "clusterTime", "wallTime"]


def test_fields_and_their_order(db, raw_db):
    db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    options = dict(full_document="required", full_document_before_change="required")
    with raw_db.c.watch(**options) as s:
        db.c.insert_one({"_id": 1})
        db.c.update_one({"_id": 1}, {"$set": {"x": 1}})
        db.c.replace_one({"_id": 1}, {"y": 1})
        db.c.delete_one({"_id": 1})
        db.c.rename("d")
        insert, update, replace, delete, rename, invalidate = drain(s, 6)
    before = ["fullDocumentBeforeChange"]
    assert fields(insert) == [*CRUD, "fullDocument", "ns", "documentKey"]
    assert fields(update) == [*CRUD, "fullDocument", "ns", "documentKey", "updateDescription", *before]
    assert fields(replace) == [*CRUD, "fullDocument", "ns", "documentKey", *before]
    assert fields(delete) == [*CRUD, "ns", "documentKey", *before]
    assert fields(rename) == ["to", *CRUD, "ns"]
    assert fields(invalidate) == CRUD
    assert fields(insert["ns"]) == ["db", "coll"]


def test_expanded_fields_and_their_order(client, db, raw_db):
    with raw_db.watch(show_expanded_events=True) as s:
        db.c.insert_one({"_id": 1})
        db.c.update_one({"_id": 1}, {"$set": {"x": 1}})
        db.c.create_index("x")
        db.command("collMod", "c", index={"name": "x_1", "hidden": True})
        db.c.drop_index("x_1")
        db.c.rename("d")
        client.drop_database(db.name)
        events = drain(s, 10)
    by = {e["operationType"]: e for e in events}
    head = ["_id", "operationType", "clusterTime", "collectionUUID", "wallTime"]
    assert fields(by["create"]) == [*head, "ns", "operationDescription"]
    assert fields(by["insert"]) == [*head, "fullDocument", "ns", "documentKey"]
    assert fields(by["update"]) == [*head, "ns", "documentKey", "updateDescription"]
    assert fields(by["createIndexes"]) == [*head, "ns", "operationDescription"]
    assert fields(by["modify"]) == [*head, "ns", "operationDescription", "stateBeforeChange"]
    assert fields(by["dropIndexes"]) == [*head, "ns", "operationDescription"]
    assert fields(by["rename"]) == ["to", *head, "ns", "operationDescription"]
    assert fields(by["drop"]) == [*head, "ns"]
    assert fields(by["dropDatabase"]) == [*CRUD, "ns"]
    assert fields(by["invalidate"]) == CRUD
    for e in events:
        if "collectionUUID" in e:
            assert isinstance(e["collectionUUID"], Binary) and e["collectionUUID"].subtype == 4


def test_expanded_descriptions(db):
    with db.watch(show_expanded_events=True) as s:
        db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
        db.c.create_indexes([pymongo.IndexModel("a"), pymongo.IndexModel("b", unique=True)])
        db.c.insert_one({"_id": 1})
        db.c.create_indexes([pymongo.IndexModel("c"), pymongo.IndexModel("d")])
        db.command("collMod", "c", index={"name": "a_1", "hidden": True})
        db.c.drop_indexes()
        events = drain(s)
    assert kinds(events) == [
        "create", "createIndexes", "createIndexes", "insert", "createIndexes", "modify",
        "dropIndexes", "dropIndexes", "dropIndexes", "dropIndexes",
    ]
    description = [e.get("operationDescription") for e in events]
    id_index = {"v": 2, "key": {"_id": 1}, "name": "_id_"}
    assert description[0] == {"changeStreamPreAndPostImages": {"enabled": True}, "idIndex": id_index}
    # on an empty collection an event per index, on one with data an event for all
    assert description[1] == {"indexes": [{"v": 2, "key": {"a": 1}, "name": "a_1"}]}
    assert description[2] == {"indexes": [{"v": 2, "key": {"b": 1}, "name": "b_1", "unique": True}]}
    assert [i["name"] for i in description[4]["indexes"]] == ["c_1", "d_1"]
    assert description[5] == {"index": {"name": "a_1", "hidden": True}}
    assert events[5]["stateBeforeChange"]["indexOptions"] == {"hidden": False}
    dropped = [d["indexes"][0]["name"] for d in description[6:]]
    assert sorted(dropped) == ["a_1", "b_1", "c_1", "d_1"]
    assert len({e["collectionUUID"] for e in events}) == 1


def test_hidden_without_expanded(db):
    with db.watch() as s:
        db.create_collection("c")
        db.c.create_index("x")
        db.c.insert_one({"_id": 1})
        db.c.drop_index("x_1")
        events = drain(s)
    assert kinds(events) == ["insert"]
    assert "collectionUUID" not in events[0]


def test_cs_04_rename_over_a_target(db):
    db.a.insert_one({"_id": 1})
    db.b.insert_one({"_id": 2})
    with db.watch(show_expanded_events=True) as s:
        db.a.rename("b", dropTarget=True)
        rename = drain(s, 1)[0]
        assert drain(s) == []
    description = rename["operationDescription"]
    assert list(description) == ["to", "dropTarget"]
    assert description["to"] == {"db": db.name, "coll": "b"} == rename["to"]
    assert description["dropTarget"].subtype == 4 != rename["collectionUUID"]


def test_update_descriptions(db):
    pad = "p" * 200
    db.c.insert_one({"_id": 1, "a": 1, "b": [1, 2, 3], "c": {"x": 1, "y": 2}, "pad": pad})
    with db.c.watch(show_expanded_events=True) as s:
        db.c.update_one({"_id": 1}, {"$set": {"a": 5, "b.1": 9, "c.x": 7, "z": 0}, "$unset": {"c.y": 1}})
        db.c.update_one({"_id": 1}, {"$push": {"b": 4}})
        db.c.update_one({"_id": 1}, {"$set": {"c": {"1": 1}}})
        db.c.update_one({"_id": 1}, {"$set": {"c.1": 2}})
        db.c.update_one({"_id": 1}, {"$set": {"a": 5}})  # changes nothing
        db.c.update_one({"_id": 1}, {"$inc": {"a": Int64(1)}})
        described = [e["updateDescription"] for e in drain(s)]
    empty = {"removedFields": [], "truncatedArrays": [], "disambiguatedPaths": {}}
    assert described == [
        {
            **empty,
            "updatedFields": {"a": 5, "z": 0, "b.1": 9, "c.x": 7},
            "removedFields": ["c.y"],
        },
        {**empty, "updatedFields": {"b.3": 4}},
        {**empty, "updatedFields": {"c": {"1": 1}}},
        {**empty, "updatedFields": {"c.1": 2}, "disambiguatedPaths": {"c.1": ["c", "1"]}},
        {**empty, "updatedFields": {"a": 6}},
    ]
    assert isinstance(described[-1]["updatedFields"]["a"], Int64)
    assert list(described[0]) == [
        "updatedFields", "removedFields", "truncatedArrays", "disambiguatedPaths",
    ]


def test_updates_are_told_by_path_not_by_place(db):
    """In the order in which paths are worked on: names as text, numbers by value, by level."""
    db.c.insert_one({"_id": 1, "z": 1, "b": {"y": 1, "x": 1, "10": 1, "9": 1}, "a": 1, "gone": 1, "away": 1})
    with db.c.watch() as stream:
        db.c.update_one({"_id": 1}, {
            "$set": {"z": 2, "b.y": 2, "b.x": 2, "b.10": 2, "b.9": 2, "a": 2, "n": 2, "m": 2},
            "$unset": {"gone": 1, "away": 1}})
        description = stream.next()["updateDescription"]
    assert list(description["updatedFields"]) == ["a", "z", "m", "n", "b.9", "b.10", "b.x", "b.y"]
    assert description["removedFields"] == ["away", "gone"]
    assert list(db.c.find_one()) == ["_id", "z", "b", "a", "m", "n"]


def test_raw_update_description(client, db):
    db.c.insert_one({"_id": 1})
    reply = open_raw(db, "c", {"showRawUpdateDescription": True})
    db.c.update_one({"_id": 1}, {"$set": {"x": 1}})
    event = get_more(db, reply, 5000)["cursor"]["nextBatch"][0]
    assert "updateDescription" not in event
    entry = client.local["oplog.rs"].find_one({"ts": event["clusterTime"]})
    assert event["rawUpdateDescription"] == entry["o"] == {"$v": 2, "diff": {"i": {"x": 1}}}


def test_retryable_writes_show_no_session(db):
    with db.c.watch() as s:
        db.c.insert_one({"_id": 1})
        event = drain(s, 1)[0]
    assert "lsid" not in event and "txnNumber" not in event


def test_scopes(client, db):
    other = client[db.name + "_x"]
    match = [{"$match": {"ns.db": {"$in": [db.name, other.name]}}}]
    with db.c.watch() as s1, db.watch() as s2, client.watch(match) as s3:
        db.c.insert_one({"_id": 1})
        db["c.d"].insert_one({"_id": 2})
        db["c2"].insert_one({"_id": 3})
        other.c.insert_one({"_id": 4})
        client.config.runnel_test.insert_one({"_id": 5})
        ids = [[e["documentKey"]["_id"] for e in drain(s)] for s in (s1, s2, s3)]
    client.drop_database(other.name)
    client.config.runnel_test.drop()
    assert ids == [[1], [1, 2, 3], [1, 2, 3, 4]]


def test_names_with_regex_characters(db):
    with db["a.b+"].watch() as s:
        db["a.b+"].insert_one({"_id": 1})
        db["a.bb"].insert_one({"_id": 2})
        db["axb+"].insert_one({"_id": 3})
        assert [e["documentKey"]["_id"] for e in drain(s)] == [1]


def test_lookup_of_what_is_gone(db):
    with db.c.watch(full_document="updateLookup") as s:
        db.c.insert_one({"_id": 1})
        db.c.update_one({"_id": 1}, {"$set": {"x": 1}})
        db.c.insert_one({"_id": 2})
        db.c.update_one({"_id": 2}, {"$set": {"x": 1}})
        db.c.delete_one({"_id": 2})
        events = {(e["operationType"], e["documentKey"]["_id"]): e for e in drain(s, 5)}
    assert events["update", 1]["fullDocument"] == {"_id": 1, "x": 1}
    assert events["update", 2]["fullDocument"] is None


@pytest.mark.parametrize("how", ["drop", "recreate", "rename"])
def test_lookup_goes_by_the_collection_not_its_name(db, how):
    with db.c.watch(full_document="updateLookup") as s:
        token = s.resume_token
    db.c.insert_one({"_id": 1})
    db.c.update_one({"_id": 1}, {"$set": {"x": 1}})
    if how == "rename":
        db.c.rename("d")
    else:
        db.c.drop()
    if how == "recreate":
        db.c.insert_one({"_id": 1, "other": True})
    with db.c.watch(full_document="updateLookup", resume_after=token) as s:
        update = drain(s, 2)[1]
    assert update["fullDocument"] is None


def test_images_are_those_in_force_at_the_write(db):
    db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    options = dict(full_document="whenAvailable", full_document_before_change="whenAvailable")
    with db.c.watch(**options) as s:
        token = s.resume_token
    db.c.insert_one({"_id": 1, "n": 0})
    db.c.update_one({"_id": 1}, {"$inc": {"n": 1}})
    db.command("collMod", "c", changeStreamPreAndPostImages={"enabled": False})
    db.c.update_one({"_id": 1}, {"$inc": {"n": 1}})
    with db.c.watch(resume_after=token, **options) as s:
        _, first, second = drain(s, 3)
    assert first["fullDocumentBeforeChange"] == {"_id": 1, "n": 0}
    assert first["fullDocument"] == {"_id": 1, "n": 1}
    assert second["fullDocumentBeforeChange"] is None and second["fullDocument"] is None


INC = {"$inc": {"n": 1}}
CHANGES = {
    "update_one": lambda c, **s: c.update_one({"_id": 1}, INC, **s),
    "update_many": lambda c, **s: c.update_many({}, INC, **s),
    "update_pipeline": lambda c, **s: c.update_one({"_id": 1}, [{"$set": {"n": 1}}], **s),
    "replace_one": lambda c, **s: c.replace_one({"_id": 1}, {"n": 1}, **s),
    "find_one_and_update": lambda c, **s: c.find_one_and_update({"_id": 1}, INC, return_document=True, **s),
    "find_one_and_replace": lambda c, **s: c.find_one_and_replace({"_id": 1}, {"n": 1}, **s),
    "bulk_write": lambda c, **s: c.bulk_write([pymongo.UpdateOne({"_id": 1}, INC)], **s),
    "delete_one": lambda c, **s: c.delete_one({"_id": 1}, **s),
    "delete_many": lambda c, **s: c.delete_many({}, **s),
    "find_one_and_delete": lambda c, **s: c.find_one_and_delete({"_id": 1}, **s),
}


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_images_of_every_way_to_change(client, db, change, in_transaction):
    """The document as it was before and as it is after, whatever becomes of it later."""
    db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    db.c.insert_one({"_id": 1, "n": 0})
    with db.c.watch(full_document_before_change="required", full_document="required") as stream:
        if in_transaction:
            with client.start_session() as session, session.start_transaction():
                CHANGES[change](db.c, session=session)
        else:
            CHANGES[change](db.c)
        db.c.replace_one({"_id": 1}, {"n": 99}, upsert=True)
        event = drain(stream, 1)[0]
    assert event["fullDocumentBeforeChange"] == {"_id": 1, "n": 0}
    assert event.get("fullDocument") == (None if "delete" in change else {"_id": 1, "n": 1})


def test_images_of_a_thousand_updates(db):
    """Read when the document is gone: each image is that of its own update."""
    db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    db.c.insert_one({"_id": 1, "n": 0, "a": []})
    with db.c.watch() as s:
        token = s.resume_token
    for i in range(1, 1001):
        db.c.update_one({"_id": 1}, {"$set": {"n": i}, "$push": {"a": {"$each": [i], "$slice": -5}}})
    db.c.delete_one({"_id": 1})
    options = dict(full_document="whenAvailable", full_document_before_change="required")
    with db.c.watch(resume_after=token, **options) as s:
        *updates, last = drain(s, 1001, seconds=60)
    states = [
        {"_id": 1, "n": i, "a": list(range(max(1, i - 4), i + 1))} for i in range(1001)
    ]
    assert [e["fullDocumentBeforeChange"] for e in updates] == states[:-1]
    assert [e["fullDocument"] for e in updates] == states[1:]
    assert last["operationType"] == "delete" and last["fullDocumentBeforeChange"] == states[-1]


def test_a_filter_spares_required_images(db):
    db.create_collection("c")
    stage = {"fullDocumentBeforeChange": "required"}
    reply = open_raw(db, "c", stage, [{"$match": {"operationType": "insert"}}])
    db.c.insert_one({"_id": 1})
    db.c.delete_one({"_id": 1})
    db.c.insert_one({"_id": 2})
    ids = []
    while len(ids) < 2:
        batch = get_more(db, reply, 5000)["cursor"]["nextBatch"]
        assert batch
        ids += [e["documentKey"]["_id"] for e in batch]
    assert ids == [1, 2]
    reply = open_raw(db, "c", stage, [{"$match": {"documentKey._id": 1}}])
    db.c.delete_one({"_id": 2})
    db.c.insert_one({"_id": 1})
    db.c.delete_one({"_id": 1})
    assert error_of(lambda: [get_more(db, reply, 5000) for _ in range(3)]).code == 47


FILTERS = [
    {"operationType": "insert"},
    {"operationType": {"$in": ["update", "drop"]}},
    {"operationType": {"$ne": "insert"}},
    {"ns.coll": "c"},
    {"ns": {"db": "DB", "coll": "c"}},
    {"ns.coll": {"$regex": "^c"}, "operationType": {"$nin": ["delete"]}},
    {"documentKey._id": {"$gt": 1}},
    {"documentKey": {"_id": 1}},
    {"documentKey": {"$exists": False}},
    {"to": {"$exists": True}},
    {"to.coll": "e"},
    {"$or": [{"operationType": "drop"}, {"documentKey._id": 2}]},
    {"$or": [{"operationType": "drop"}, {"fullDocument.x": 1}]},
    {"$nor": [{"operationType": "insert"}, {"ns.coll": "d"}]},
    {"$expr": {"$eq": ["$operationType", "update"]}},
    {"$expr": {"$eq": [{"$type": "$fullDocument"}, "missing"]}},
    {"wallTime": {"$type": "date"}, "operationType": "delete"},
    {"operationType": "update", "updateDescription.updatedFields.x": 2},
    {"collectionUUID": {"$exists": True}},
    {"lsid": None},
]


@pytest.mark.parametrize("expanded", [False, True])
def test_filters_give_the_same_as_without_push_down(db, expanded):
    """Behind a stage that changes nothing, the same filter is not pushed down."""
    token = open_raw(db, 1)["cursor"]["postBatchResumeToken"]
    db.c.insert_many([{"_id": 1, "x": 1}, {"_id": 2}])
    db.d.insert_one({"_id": 3, "x": 1})
    db.c.update_one({"_id": 1}, {"$set": {"x": 2}})
    db.c.replace_one({"_id": 2}, {"x": 2})
    db.c.delete_one({"_id": 1})
    db.d.rename("e")
    db.e.drop()
    stage = {"resumeAfter": token, "showExpandedEvents": expanded}
    total = len(open_raw(db, 1, stage)["cursor"]["firstBatch"])
    for f in FILTERS:
        if "ns" in f:
            f = {"ns": {"db": db.name, "coll": "c"}}
        pushed = open_raw(db, 1, stage, [{"$match": f}])["cursor"]["firstBatch"]
        behind = open_raw(db, 1, stage, [{"$addFields": {"_x": "$$REMOVE"}}, {"$match": f}])
        assert pushed == behind["cursor"]["firstBatch"], f
        if f not in ({"lsid": None}, {"collectionUUID": {"$exists": True}}):
            assert 0 < len(pushed) < total, f


def test_let_variables(db):
    pipeline = [{"$changeStream": {}}, {"$match": {"$expr": {"$eq": ["$documentKey._id", "$$wanted"]}}}]
    reply = db.command("aggregate", "c", pipeline=pipeline, cursor={}, let={"wanted": 2})
    db.c.insert_many([{"_id": 1}, {"_id": 2}])
    batch = get_more(db, reply, 5000)["cursor"]["nextBatch"]
    assert [e["documentKey"]["_id"] for e in batch] == [2]


def large_events(db):
    metrics = db.command("serverStatus")["metrics"]["changeStreams"]
    return metrics["largeEventsFailed"], metrics["largeEventsSplit"]


def test_cs_18_an_event_too_large(db):
    failed, splits = large_events(db)
    db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    big = 10 << 20
    db.c.insert_one({"_id": 1, "v": b"q" * big})
    stage = {"fullDocumentBeforeChange": "required"}
    plain = open_raw(db, "c", stage)
    split = open_raw(db, "c", stage, [{"$changeStreamSplitLargeEvent": {}}])
    db.c.update_one({"_id": 1}, {"$set": {"v": b"z" * big}})
    e = error_of(lambda: get_more(db, plain, 10000))
    assert e.code == 10334 and e.details["codeName"] == "BSONObjectTooLarge"
    assert large_events(db) == (failed + 1, splits)
    fragments = []
    while len(fragments) < 2:
        batch = get_more(db, split, 10000)["cursor"]["nextBatch"]
        assert batch
        fragments += batch
    assert [f["splitEvent"] for f in fragments] == [
        {"fragment": 1, "of": 2}, {"fragment": 2, "of": 2},
    ]
    assert large_events(db) == (failed + 1, splits + 1)
    whole = {k: v for f in fragments for k, v in f.items() if k not in ("_id", "splitEvent")}
    assert whole["fullDocumentBeforeChange"]["v"] == b"q" * big
    assert whole["updateDescription"]["updatedFields"]["v"] == b"z" * big
    assert whole["operationType"] == "update"
    again = open_raw(db, "c", {**stage, "resumeAfter": fragments[0]["_id"]},
                     [{"$changeStreamSplitLargeEvent": {}}])
    assert again["cursor"]["firstBatch"] == [fragments[1]]


def test_cs_19_the_split_stage_has_one_place(db):
    split = {"$changeStreamSplitLargeEvent": {}}
    assert error_of(lambda: open_raw(db, "c", stages=[split, {"$match": {}}])).code == 7182802
    assert error_of(lambda: open_raw(db, "c", stages=[split, split])).code == 7182802
    bad = {"$changeStreamSplitLargeEvent": {"x": 1}}
    assert error_of(lambda: open_raw(db, "c", stages=[bad])).code == 7182800
    e = error_of(lambda: list(db.c.aggregate([split])))
    assert e.code == 20
    with db.c.watch([split]) as s:
        db.c.insert_one({"_id": 1})
        assert "splitEvent" not in drain(s, 1)[0]


def test_refused_pipelines(db):
    for stage in ({"$limit": 1}, {"$group": {"_id": 1}}, {"$lookup": {}}, {"$out": "x"}, {"$sort": {"a": 1}}):
        assert error_of(lambda: open_raw(db, "c", stages=[stage])).code == 20
    assert error_of(lambda: open_raw(db, "c", stages=[{"$unsupported": 1}])).code == 40324
    e = error_of(lambda: list(db.c.aggregate([{"$match": {}}, {"$changeStream": {}}])))
    assert e.code == 40602
