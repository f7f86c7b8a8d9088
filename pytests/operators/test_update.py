# SPDX-License-Identifier: GPL-3.0-or-later
"""Updates and inserts as a client sees them: results, errors, oplog entries and events."""

import random
import threading

import bson
import pytest
from bson import Int64, Regex, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo import DESCENDING, MongoClient, ReturnDocument
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure, WriteError

LONG = "x" * 128


def stored(coll, id_):
    """The document with its field order."""
    return list(coll.find_one({"_id": id_}).items())


def refused(code, call, *args, **kwargs):
    """The call fails as a write error of one statement."""
    with pytest.raises(WriteError) as e:
        call(*args, **kwargs)
    assert e.value.code == code, e.value.details
    return e.value


def until_marker(stream, coll):
    """All events before that of a marker document, so that the absence of an event is seen."""
    coll.insert_one({"_id": "marker"})
    events = []
    for event in stream:
        if event["documentKey"]["_id"] == "marker":
            return events
        events.append(event)
    return events


def oplog_entries(client, ns):
    return list(client.local["oplog.rs"].find({"ns": ns}).sort("$natural", 1))


def test_cr_01_push_slice_zero(db):
    db.c.insert_one({"_id": 1, "a": {"b": [3, 1, 2]}})
    r = db.c.update_one({"_id": 1}, {"$push": {"a.b": {"$each": [9], "$sort": -1, "$slice": 0}}})
    assert r.modified_count == 1
    assert db.c.find_one() == {"_id": 1, "a": {"b": []}}


@pytest.mark.parametrize("modifier", ["$position", "$slice", "$sort"])
def test_cr_03_add_to_set_takes_no_push_modifiers(db, modifier):
    db.c.insert_one({"_id": 1, "k": [5]})
    refused(2, db.c.update_one, {"_id": 1}, {"$addToSet": {"k": {"$each": [1], modifier: 1}}})
    assert db.c.find_one() == {"_id": 1, "k": [5]}


@pytest.mark.parametrize("rename", [{"b": "a.0.2"}, {"a.0": "c"}])
def test_cr_04_rename_and_array_elements(db, rename):
    before = {"_id": 1, "a": [[[5]]], "b": 7}
    db.c.insert_one(before)
    refused(2, db.c.update_one, {"_id": 1}, {"$rename": rename})
    assert db.c.find_one() == before


def test_cr_06_order_of_added_fields(db):
    db.c.insert_many([{"_id": 1}, {"_id": 2}])
    db.c.update_one({"_id": 1}, {"$set": {"b": 1, "a": 1, "c": 1}})
    db.c.update_one({"_id": 2}, {"$set": {"10": 1, "2": 1, "x": 1}})
    assert [k for k, _ in stored(db.c, 1)] == ["_id", "a", "b", "c"]
    assert [k for k, _ in stored(db.c, 2)] == ["_id", "2", "10", "x"]


def test_cr_07_upsert_takes_equalities_only(db):
    for filter_, update, want in (
        ({"v": {"$gt": 3}}, {"$set": {"f": True}}, {"f": True}),
        ({"$or": [{"n": "a"}, {"n": "b"}]}, {"$set": {"g": 1}}, {"g": 1}),
        ({"$and": [{"p": 1}, {"q": {"$eq": 2}}]}, {"$set": {"h": 1}}, {"p": 1, "q": 2, "h": 1}),
    ):
        reply = db.command(
            "update", "c", updates=[{"q": filter_, "u": update, "upsert": True, "multi": True}]
        )
        (upserted,) = reply["upserted"]
        assert (reply["n"], reply["nModified"], upserted["index"]) == (1, 0, 0)
        assert stored(db.c, upserted["_id"]) == list({"_id": upserted["_id"], **want}.items())


def test_cr_09_find_and_modify_fails_as_a_command(db):
    db.c.insert_one({"_id": 1, "a": [1, 2]})
    with pytest.raises(OperationFailure) as e:
        db.command("findAndModify", "c", query={"_id": 1}, update={"$set": {"a.b": 1}})
    assert e.value.details["ok"] == 0
    assert (e.value.code, e.value.details["codeName"]) == (28, "PathNotViable")
    reply = db.command("update", "c", updates=[{"q": {"_id": 1}, "u": {"$set": {"a.b": 1}}}])
    assert reply["ok"] == 1 and reply["n"] == 0
    (error,) = reply["writeErrors"]
    assert (error["index"], error["code"]) == (0, 28)
    assert error["errmsg"] == "Cannot create field 'b' in element {a: [ 1, 2 ]}"
    assert db.c.find_one() == {"_id": 1, "a": [1, 2]}


def test_cr_10_find_and_modify_upsert_reply(db):
    set_v = {"$set": {"v": 1}}
    reply = db.command("findAndModify", "c", query={"_id": 5}, update=set_v, upsert=True)
    assert reply["value"] is None
    assert reply["lastErrorObject"] == {"n": 1, "updatedExisting": False, "upserted": 5}
    reply = db.command("findAndModify", "c", query={"_id": 6}, update=set_v, upsert=True, new=True)
    assert reply["value"] == {"_id": 6, "v": 1}
    reply = db.command("findAndModify", "c", query={"_id": 7}, remove=True)
    assert reply["value"] is None
    assert reply["lastErrorObject"] == {"n": 0}


def test_cr_12_match_through_an_array(db):
    db.c.insert_one({"_id": 1, "t": [{"id": "x"}], "on": True})
    assert db.c.find_one({"t.id": "x"})["_id"] == 1
    after = db.c.find_one_and_update(
        {"t.id": "x"}, {"$set": {"m": 1}}, return_document=ReturnDocument.AFTER
    )
    assert after == {"_id": 1, "t": [{"id": "x"}], "on": True, "m": 1}


def test_cr_13_updates_that_change_nothing(db, client):
    db.c.insert_one({"_id": 1, "a": 1, "s": [1]})
    with db.c.watch() as stream:
        entries = len(oplog_entries(client, f"{db.name}.c"))
        for update in (
            {"$set": {"a": 1}},
            {"$addToSet": {"s": 1}},
            {"$unset": {"zz": ""}},
            {"$max": {"a": 0}},
        ):
            r = db.c.update_one({"_id": 1}, update)
            assert (r.matched_count, r.modified_count) == (1, 0), update
        r = db.c.replace_one({"_id": 1}, {"_id": 1, "a": 1, "s": [1]})
        assert (r.matched_count, r.modified_count) == (1, 0)
        assert len(oplog_entries(client, f"{db.name}.c")) == entries
        # From int to double the stored type changes.
        r = db.c.update_one({"_id": 1}, {"$set": {"a": 1.0}})
        assert (r.matched_count, r.modified_count) == (1, 1)
        (event,) = until_marker(stream, db.c)
    assert event["operationType"] == "update"
    assert isinstance(event["updateDescription"]["updatedFields"]["a"], float)


@pytest.mark.concurrent
def test_cr_15_concurrent_upserts_of_one_id(db, srv):
    keys = range(200)
    meet = threading.Barrier(2)
    failures = []

    def writer(update):
        with MongoClient(srv.uri) as mine:
            coll = mine[db.name].c
            for k in keys:
                meet.wait(60)
                try:
                    coll.update_one({"_id": k}, update, upsert=True)
                except DuplicateKeyError as e:
                    failures.append(e)

    db.create_collection("c")
    with db.c.watch() as stream:
        threads = [
            threading.Thread(target=writer, args=(u,))
            for u in ({"$set": {"p": 1}}, {"$addToSet": {"s": 1}})
        ]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        events = until_marker(stream, db.c)
    assert not failures
    for k in keys:
        assert db.c.find_one({"_id": k}) == {"_id": k, "p": 1, "s": [1]}
        kinds = [e["operationType"] for e in events if e["documentKey"]["_id"] == k]
        assert kinds == ["insert", "update"], k


def test_cr_16_duplicates_of_a_batch(db):
    db.c.insert_many([{"_id": 1}, {"_id": 3}])
    with pytest.raises(BulkWriteError) as e:
        db.c.insert_many([{"_id": i} for i in (1, 2, 3, 4)], ordered=False)
    details = e.value.details
    assert details["nInserted"] == 2
    assert [(w["index"], w["code"]) for w in details["writeErrors"]] == [(0, 11000), (2, 11000)]
    assert [w["keyValue"] for w in details["writeErrors"]] == [{"_id": 1}, {"_id": 3}]
    assert all(w["keyPattern"] == {"_id": 1} for w in details["writeErrors"])
    with pytest.raises(BulkWriteError) as e:
        db.c.insert_many([{"_id": i} for i in (5, 1, 6)])
    details = e.value.details
    assert details["nInserted"] == 1
    assert [(w["index"], w["code"]) for w in details["writeErrors"]] == [(1, 11000)]
    assert sorted(d["_id"] for d in db.c.find()) == [1, 2, 3, 4, 5]


def test_bi_03_id_checks_are_for_the_top_level(db):
    nested = {"_id": 1, "v": {"_id": ["a", "b"]}}
    db.c.insert_one(nested)
    assert db.c.find_one({"_id": 1}) == nested
    db.c.insert_one({"_id": None})
    assert db.c.count_documents({"_id": None}) == 1
    refused(53, db.c.insert_one, {"_id": ["a"]})
    refused(53, db.c.insert_one, {"_id": Regex("x")})
    refused(52, db.c.insert_one, {"_id": {"$a": 1}})
    assert db.c.count_documents({}) == 2


def test_bi_04_dots_and_dollars_in_names(db):
    doc = {"_id": 1, "a.b": 1, "p": {"$q": 2, "10.0.0.0": 3}}
    db.c.insert_one(doc)
    assert stored(db.c, 1) == list(doc.items())
    assert db.c.find_one({"a.b": 1}) is None
    assert db.c.find_one({"$expr": {"$eq": [{"$getField": "a.b"}, 1]}}) == doc


def test_op_04_update_entries_are_diffs(db, client):
    db.c.insert_one({"_id": 1, "a": 1, "s": {"x": 1}})
    for update in (
        {"$set": {"a": 2}},
        {"$set": {"new": 1}},
        {"$unset": {"a": ""}},
        {"$set": {"s.x": 2}},
    ):
        db.c.update_one({"_id": 1}, update)
    db.c.replace_one({"_id": 1}, {"whole": True})
    entries = oplog_entries(client, f"{db.name}.c")
    assert [e["op"] for e in entries] == ["i", "u", "u", "u", "u", "u"]
    assert [e["o"] for e in entries[1:]] == [
        {"$v": 2, "diff": {"u": {"a": 2}}},
        {"$v": 2, "diff": {"i": {"new": 1}}},
        {"$v": 2, "diff": {"d": {"a": False}}},
        {"$v": 2, "diff": {"ss": {"u": {"x": 2}}}},
        {"_id": 1, "whole": True},
    ]
    for entry in entries:
        assert isinstance(entry["ts"], Timestamp)
        assert entry["v"] == 2 and isinstance(entry["t"], Int64)
        assert entry["wall"] is not None and entry["ui"].subtype == 4
    assert all(e["o2"] == {"_id": 1} for e in entries[1:])


def test_cs_07_truncated_arrays(db):
    # The element that stays is long: MongoDB logs whatever is shorter, and the truncation of a
    # short array in a short document is longer than the new document.
    db.c.insert_one({"_id": 1, "arr": [LONG, "b", "c"], "keep": "x"})
    with db.c.watch() as stream:
        db.c.update_one({"_id": 1}, [{"$set": {"arr": {"$slice": ["$arr", 1]}}}])
        db.c.update_one({"_id": 1}, {"$set": {"keep": "y"}})
        truncated, plain = next(stream), next(stream)
    assert truncated["operationType"] == "update"
    assert truncated["updateDescription"] == {
        "updatedFields": {},
        "removedFields": [],
        "truncatedArrays": [{"field": "arr", "newSize": 1}],
    }
    assert plain["updateDescription"] == {
        "updatedFields": {"keep": "y"},
        "removedFields": [],
        "truncatedArrays": [],
    }
    assert db.c.find_one() == {"_id": 1, "arr": [LONG], "keep": "y"}


# --- operators through the whole server -----------------------------------------------------------


@pytest.mark.parametrize(
    "before, update, after",
    [
        ({"a": 1}, {"$inc": {"a": 2}, "$mul": {"b": 3}}, {"a": 3, "b": 0}),
        ({"a": 5}, {"$min": {"a": 3}, "$max": {"b": 3}}, {"a": 3, "b": 3}),
        ({"a": 13}, {"$bit": {"a": {"and": 10}}}, {"a": 8}),
        ({"a": 1}, {"$rename": {"a": "b.c"}}, {"b": {"c": 1}}),
        ({"a": [1, 2]}, {"$push": {"a": {"$each": [9], "$position": 1}}}, {"a": [1, 9, 2]}),
        ({"a": [1, 2, 3]}, {"$pull": {"a": {"$gte": 2}}}, {"a": [1]}),
        ({"a": [1, 2, 3]}, {"$pullAll": {"a": [1, 3]}}, {"a": [2]}),
        ({"a": [1, 2, 3]}, {"$pop": {"a": -1}}, {"a": [2, 3]}),
        ({"a": [1]}, {"$addToSet": {"a": {"$each": [1, 2]}}}, {"a": [1, 2]}),
        ({"a": [1, 2]}, {"$unset": {"a.0": 1}, "$setOnInsert": {"b": 1}}, {"a": [None, 2]}),
    ],
)
def test_operators(db, before, update, after):
    db.c.insert_one({"_id": 1, **before})
    assert db.c.update_one({"_id": 1}, update).modified_count == 1
    assert db.c.find_one() == {"_id": 1, **after}


def test_current_date(db):
    db.c.insert_one({"_id": 1})
    db.c.update_one({"_id": 1}, {"$currentDate": {"d": True, "t": {"$type": "timestamp"}}})
    doc = db.c.find_one()
    assert isinstance(doc["t"], Timestamp) and doc["t"].time > 0
    assert abs(doc["d"].timestamp() - doc["t"].time) < 86400


def test_positional_operators(db):
    db.c.insert_one({"_id": 1, "a": [{"k": 1, "v": 1}, {"k": 2, "v": 2}]})
    db.c.update_one({"a.k": 2}, {"$inc": {"a.$.v": 10}})
    db.c.update_one({"_id": 1}, {"$inc": {"a.$[].v": 1}})
    db.c.update_one({"_id": 1}, {"$set": {"a.$[e].w": 0}}, array_filters=[{"e.k": {"$lt": 2}}])
    assert db.c.find_one()["a"] == [{"k": 1, "v": 2, "w": 0}, {"k": 2, "v": 13}]


def test_update_many_and_its_errors(db):
    db.c.insert_many([{"_id": i, "n": i} for i in range(5)])
    r = db.c.update_many({"n": {"$gte": 2}}, {"$inc": {"n": 10}})
    assert (r.matched_count, r.modified_count) == (3, 3)
    reply = db.command("update", "c", updates=[{"q": {}, "u": {"n": 1}, "multi": True}])
    assert reply["writeErrors"][0]["code"] == 9
    refused(66, db.c.update_one, {"_id": 1}, {"$set": {"_id": 7}})
    refused(66, db.c.replace_one, {"_id": 1}, {"_id": 7})
    refused(40, db.c.update_one, {"_id": 1}, {"$set": {"a": 1}, "$inc": {"a": 1}})
    refused(14, db.c.update_one, {"_id": 1}, {"$inc": {"n": "x"}})
    assert sorted(d["n"] for d in db.c.find()) == [0, 1, 12, 13, 14]


def test_update_past_the_size_limit(db):
    db.c.insert_one({"_id": 1, "b": b"x" * (16 * 1024 * 1024 - 100)})
    refused(17419, db.c.update_one, {"_id": 1}, {"$set": {"c": b"x" * 200}})
    assert len(db.c.find_one(projection={"c": 1})) == 1


def test_insert_keeps_order_and_puts_the_id_first(db):
    db.c.insert_one(RawBSONDocument(bson.encode({"z": 1, "_id": 1, "a": 2})))
    assert [k for k, _ in stored(db.c, 1)] == ["_id", "z", "a"]
    newest = db.client.local["oplog.rs"].find_one({"ns": f"{db.name}.c"},
                                                  sort=[("$natural", DESCENDING)])
    assert list(newest["o"]) == ["_id", "z", "a"]


# --- events of random updates ---------------------------------------------------------------------


def random_value(rnd, depth=2):
    kind = rnd.randrange(7 if depth else 4)
    if kind < 4:
        return rnd.choice([rnd.randrange(5), rnd.random(), "x" * rnd.randrange(40), None])
    if kind < 6:
        return [random_value(rnd, depth - 1) for _ in range(rnd.randrange(4))]
    return {k: random_value(rnd, depth - 1) for k in rnd.sample("abc1", rnd.randrange(4))}


def random_update(rnd):
    path = ".".join([rnd.choice("abcd"), *rnd.choices(["a", "b", "0", "1", "3"],
                                                      k=rnd.randrange(3))])
    value = random_value(rnd)
    return rnd.choice([
        {"$set": {path: value}},
        {"$set": {path: value, "n": rnd.randrange(3)}, "$unset": {"d.a": 1}},
        {"$unset": {path: 1}},
        {"$inc": {path: rnd.randrange(3)}},
        {"$push": {path: {"$each": [value, 1], "$slice": rnd.choice([2, -3])}}},
        {"$push": {path: value}},
        {"$pull": {path: 1}},
        {"$addToSet": {path: value}},
        {"$rename": {path: "moved"}},
        {"a": value, "b": random_value(rnd)},
        [{"$set": {path.replace(".0", ".a").replace(".1", ".b"): {"$literal": value}}}],
        [{"$unset": "a"}, {"$set": {"k": LONG}}],
    ])


def follow(doc, components):
    for c in components:
        doc = doc[c]
    return doc


def told(before, description):
    """The document after the update, made from what the event says of it."""
    doc = bson.decode(bson.encode(before))

    def components(path):
        given = description["disambiguatedPaths"].get(path)
        if given is not None:
            return given
        parts, at = [], doc
        for name in path.split("."):
            key = int(name) if isinstance(at, list) else name
            parts.append(key)
            at = at[key] if isinstance(at, list) and key < len(at) else (
                at.get(key) if isinstance(at, dict) else None)
        return parts

    for truncated in description["truncatedArrays"]:
        del follow(doc, components(truncated["field"]))[truncated["newSize"]:]
    for path, value in description["updatedFields"].items():
        *parent, last = components(path)
        parent = follow(doc, parent)
        if isinstance(parent, list):
            parent.extend([None] * (last + 1 - len(parent)))
        parent[last] = value
    for path in description["removedFields"]:
        *parent, last = components(path)
        del follow(doc, parent)[last]
    return doc


@pytest.mark.parametrize("seed", range(4))
def test_events_tell_what_updates_did(db, seed):
    rnd = random.Random(seed)
    db.create_collection("c", changeStreamPreAndPostImages={"enabled": True})
    db.c.insert_one({"_id": 1, "a": [1, {"a": 1}], "b": {"a": 1}, "k": LONG})
    states = [db.c.find_one()]
    with db.c.watch(full_document="required", full_document_before_change="required",
                    show_expanded_events=True) as stream:
        while len(states) < 150:
            try:
                r = db.c.update_one({"_id": 1}, random_update(rnd)) if rnd.random() < 0.9 else None
            except ValueError:  # a replacement is not for update_one
                r = db.c.replace_one({"_id": 1}, {"a": random_value(rnd)})
            except WriteError:
                continue
            if r is not None and r.modified_count:
                states.append(db.c.find_one())
        events = [next(stream) for _ in states[1:]]
    for before, after, event in zip(states, states[1:], events):
        assert event["fullDocumentBeforeChange"] == before
        assert event["fullDocument"] == after
        assert list(event["fullDocument"]) == list(after)
        if event["operationType"] == "update":
            assert told(before, event["updateDescription"]) == after
    assert {e["operationType"] for e in events} == {"update", "replace"}
