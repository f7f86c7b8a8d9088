# SPDX-License-Identifier: GPL-3.0-or-later
"""What transactions see of each other and of other writes, and who waits for whom."""

import threading
import time

import pymongo
import pytest
from pymongo.errors import DuplicateKeyError, OperationFailure

from streamutil import error_of


@pytest.fixture
def two(client):
    with client.start_session() as a, client.start_session() as b:
        a.start_transaction()
        b.start_transaction()
        yield a, b


@pytest.fixture
def txn(client):
    with client.start_session() as session:
        session.start_transaction()
        yield session


def ids(coll, session=None):
    return [d["_id"] for d in coll.find({}, session=session).sort("_id")]


def transient(call):
    """The code of a failure after which the whole transaction may be tried again."""
    e = error_of(call)
    assert e.has_error_label("TransientTransactionError")
    return e.code


def test_reads_its_own_writes_in_many_collections(client, db, txn):
    other = client[db.name + "_2"]
    db.a.insert_one({"_id": 1})
    other.b.insert_one({"_id": 1, "n": 1})
    db.a.insert_one({"_id": 2}, session=txn)
    other.b.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=txn)
    other.b.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}}, session=txn)
    db.a.delete_one({"_id": 1}, session=txn)
    assert ids(db.a, txn) == [2]
    assert other.b.find_one({}, session=txn)["n"] == 3
    assert db.a.distinct("_id", session=txn) == [2]
    assert list(other.b.aggregate([{"$match": {"n": 3}}, {"$count": "n"}], session=txn)) == [{"n": 1}]
    assert ids(db.a) == [1] and other.b.find_one({})["n"] == 1
    txn.commit_transaction()
    assert ids(db.a) == [2] and other.b.find_one({})["n"] == 3
    assert db.command("collStats", "a")["count"] == 1
    client.drop_database(other.name)


def test_sees_one_snapshot_of_all_collections(db, txn):
    db.a.insert_one({"_id": 1})
    db.b.insert_one({"_id": 1})
    assert ids(db.a, txn) == [1]
    db.a.insert_one({"_id": 2})
    db.b.insert_one({"_id": 2})
    assert ids(db.a, txn) == [1] and ids(db.b, txn) == [1]
    txn.commit_transaction()
    assert ids(db.a) == [1, 2]


def test_a_cursor_goes_on_in_the_snapshot(db, txn):
    db.c.insert_many([{"_id": i} for i in range(10)])
    cursor = db.c.find({}, batch_size=3, session=txn)
    got = [next(cursor)["_id"]]
    db.c.delete_many({"_id": {"$gt": 4}})
    db.c.insert_one({"_id": 20})
    db.c.insert_one({"_id": 30}, session=txn)
    got += [d["_id"] for d in cursor]
    assert got == [*range(10), 30]
    txn.abort_transaction()
    assert ids(db.c) == [0, 1, 2, 3, 4, 20]


def test_an_index_is_read_in_the_snapshot(db, txn):
    db.c.create_index("a")
    db.c.insert_many([{"_id": i, "a": i % 3} for i in range(9)])
    assert db.c.count_documents({"a": 1}, session=txn) == 3
    db.c.update_many({"a": 1}, {"$set": {"a": 2}})
    db.c.update_one({"_id": 0}, {"$set": {"a": 1}}, session=txn)
    assert sorted(d["_id"] for d in db.c.find({"a": 1}, session=txn)) == [0, 1, 4, 7]
    txn.commit_transaction()
    assert [d["_id"] for d in db.c.find({"a": 1})] == [0]


def test_write_skew_is_allowed(db, two):
    a, b = two
    db.c.insert_many([{"_id": 1, "on": True}, {"_id": 2, "on": True}])
    for session, i in ((a, 1), (b, 2)):
        assert db.c.count_documents({"on": True}, session=session) == 2
        db.c.update_one({"_id": i}, {"$set": {"on": False}}, session=session)
    a.commit_transaction()
    b.commit_transaction()
    assert db.c.count_documents({"on": True}) == 0


@pytest.mark.parametrize("write", [
    lambda c, s: c.update_one({"_id": 1}, {"$set": {"x": 2}}, session=s),
    lambda c, s: c.update_many({}, {"$set": {"x": 2}}, session=s),
    lambda c, s: c.delete_one({"_id": 1}, session=s),
    lambda c, s: c.delete_many({}, session=s),
    lambda c, s: c.find_one_and_delete({"_id": 1}, session=s),
    lambda c, s: c.replace_one({"_id": 1}, {"x": 2}, upsert=True, session=s),
    lambda c, s: c.insert_one({"_id": 5}, session=s),
])
def test_a_write_that_meets_a_newer_one_conflicts(db, two, write):
    a, b = two
    db.c.insert_one({"_id": 1, "x": 1})
    assert ids(db.c, a) == [1] and ids(db.c, b) == [1]
    db.c.update_one({"_id": 1}, {"$set": {"x": 3}}, session=a)
    db.c.insert_one({"_id": 5}, session=a)
    # Against one in progress, and against one that has committed since the snapshot.
    assert transient(lambda: write(db.c, b)) == 112
    b.abort_transaction()
    b.start_transaction()
    assert ids(db.c, b) == [1]
    a.commit_transaction()
    assert transient(lambda: write(db.c, b)) == 112
    assert ids(db.c) == [1, 5]


def test_unique_keys_hold_across_transactions(db, two):
    a, b = two
    db.c.create_index("u", unique=True)
    db.c.insert_one({"_id": 0, "u": 0})
    assert ids(db.c, a) == [0] and ids(db.c, b) == [0]
    db.c.insert_one({"_id": 1, "u": 7}, session=a)
    assert transient(lambda: db.c.insert_one({"_id": 2, "u": 7}, session=b)) == 112
    a.commit_transaction()
    b.abort_transaction()
    b.start_transaction()
    with pytest.raises(DuplicateKeyError):
        db.c.insert_one({"_id": 2, "u": 7}, session=b)


# --- writes outside ------------------------------------------------------------------------------


class Background(threading.Thread):
    """A call in a thread of its own; result() waits for it and gives its value or error."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call, self.value, self.error = call, None, None
        self.start()

    def run(self):
        try:
            self.value = self.call()
        except Exception as e:  # handed on by result()
            self.error = e

    def result(self):
        self.join(20)
        assert not self.is_alive()
        if self.error:
            raise self.error
        return self.value


def wait_until_waiting(client, before):
    """Until a write has met a conflict several times over: it waits."""
    end = time.monotonic() + 10
    while client.admin.command("serverStatus")["metrics"]["operation"]["writeConflicts"] < before + 6:
        assert time.monotonic() < end
        time.sleep(0.01)


def conflicts(client):
    return client.admin.command("serverStatus")["metrics"]["operation"]["writeConflicts"]


@pytest.mark.parametrize("end", ["commit_transaction", "abort_transaction"])
@pytest.mark.parametrize("write, expected", [
    (lambda c: c.update_one({"_id": 1}, {"$inc": {"x": 10}}).modified_count, 1),
    (lambda c: c.update_many({}, {"$inc": {"x": 10}}).modified_count, 2),
    (lambda c: c.bulk_write([pymongo.UpdateOne({"_id": 2}, {"$inc": {"x": 10}}),
                             pymongo.UpdateOne({"_id": 1}, {"$inc": {"x": 10}})]).modified_count, 2),
    (lambda c: c.find_one_and_update({"_id": 1}, {"$inc": {"x": 10}})["_id"], 1),
    (lambda c: c.delete_many({}).deleted_count, 2),
])
def test_a_write_outside_waits_for_the_end(client, db, txn, end, write, expected):
    db.c.insert_many([{"_id": 1, "x": 1}, {"_id": 2, "x": 1}])
    db.c.update_one({"_id": 1}, {"$set": {"x": 5}}, session=txn)
    before = conflicts(client)
    outside = Background(lambda: write(db.c))
    wait_until_waiting(client, before)
    assert outside.is_alive()
    assert db.c.find_one({"_id": 1})["x"] == 1
    getattr(txn, end)()
    assert outside.result() == expected
    doc = db.c.find_one({"_id": 1})
    assert doc is None or doc["x"] == (15 if end == "commit_transaction" else 11)


def test_a_waiting_write_minds_max_time(client, db, txn):
    db.c.insert_one({"_id": 1})
    db.c.update_one({"_id": 1}, {"$set": {"x": 5}}, session=txn)
    e = error_of(lambda: db.command("update", "c", updates=[{"q": {"_id": 1}, "u": {"$set": {"x": 1}}}],
                                    maxTimeMS=100))
    assert e.code == 50
    txn.commit_transaction()
    assert db.c.find_one({"_id": 1})["x"] == 5


# --- collections ---------------------------------------------------------------------------------


def test_creates_inside(client, db, txn):
    db.create_collection("explicit", session=txn, check_exists=False)
    db.explicit.create_index("x", unique=True, session=txn)
    db.explicit.insert_one({"_id": 1, "x": 1}, session=txn)
    db.implicit.insert_one({"_id": 1}, session=txn)
    db.upserted.update_one({"_id": 1}, {"$set": {"x": 1}}, upsert=True, session=txn)
    assert ids(db.explicit, txn) == ids(db.implicit, txn) == ids(db.upserted, txn) == [1]
    assert db.list_collection_names() == [] and ids(db.explicit) == []
    txn.commit_transaction()
    assert sorted(db.list_collection_names()) == ["explicit", "implicit", "upserted"]
    assert sorted(db.explicit.index_information()) == ["_id_", "x_1"]
    with pytest.raises(DuplicateKeyError):
        db.explicit.insert_one({"x": 1})


def test_one_command_writes_and_creates_in_many_collections(client, db, txn):
    """The second collection is made when the first one has been written already."""
    db.a.insert_one({"_id": 1})
    reply = client.admin.command(
        "bulkWrite", 1, session=txn,
        ops=[{"insert": 0, "document": {"_id": 2}},
             {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"n": 1}}},
             {"insert": 1, "document": {"_id": 1}},
             {"update": 0, "filter": {"_id": 1}, "updateMods": {"$inc": {"n": 1}}}],
        nsInfo=[{"ns": f"{db.name}.a"}, {"ns": f"{db.name}.b"}])
    assert (reply["nInserted"], reply["nModified"], reply["nErrors"]) == (2, 2, 0)
    assert ids(db.a) == [1] and db.list_collection_names() == ["a"]
    txn.commit_transaction()
    assert list(db.a.find().sort("_id")) == [{"_id": 1, "n": 2}, {"_id": 2}] and ids(db.b) == [1]


def test_looking_for_what_is_missing_keeps_nobody_from_making_it(db, txn):
    db.other.insert_one({"_id": 1})
    assert ids(db.c, txn) == []
    db.c.insert_one({"_id": 1})
    assert transient(lambda: db.c.find_one({}, session=txn)) == 246


def test_an_abort_takes_back_what_was_created(db, txn):
    db.create_collection("explicit", session=txn, check_exists=False)
    db.implicit.insert_one({"_id": 1}, session=txn)
    txn.abort_transaction()
    assert db.list_collection_names() == []
    db.implicit.insert_one({"_id": 2})
    assert ids(db.implicit) == [2]


def test_indexes_only_on_what_is_new(db, txn):
    db.c.insert_one({"_id": 1})
    e = error_of(lambda: db.c.create_index("x", session=txn))
    assert e.code == 263
    assert "Cannot create new indexes on existing collection" in str(e)


@pytest.mark.parametrize("change", [
    lambda db: db.c.drop(),
    lambda db: db.c.rename("d"),
    lambda db: db.c.create_index("x"),
    lambda db: db.command("collMod", "c", changeStreamPreAndPostImages={"enabled": True}),
])
def test_a_collection_that_changed_since_the_snapshot_is_unavailable(db, txn, change):
    db.c.insert_one({"_id": 1})
    db.other.insert_one({"_id": 1})
    assert ids(db.other, txn) == [1]
    change(db)
    e = error_of(lambda: db.c.find_one({}, session=txn))
    assert e.code == 246 and e.has_error_label("TransientTransactionError")
    assert "pending collection catalog changes" in str(e)


def test_ddl_waits_for_a_transaction(db, txn):
    db.c.insert_one({"_id": 1})
    db.c.update_one({"_id": 1}, {"$set": {"x": 1}}, session=txn)
    drop = Background(db.c.drop)
    drop.join(0.2)
    assert drop.is_alive()
    db.c.update_one({"_id": 1}, {"$set": {"x": 2}}, session=txn)
    txn.commit_transaction()
    drop.result()
    assert db.list_collection_names() == []


def test_a_transaction_does_not_wait_for_ddl_for_long(client, db, two):
    a, b = two
    db.c.insert_one({"_id": 1})
    db.other.insert_one({"_id": 1})
    db.c.update_one({"_id": 1}, {"$set": {"x": 1}}, session=a)
    assert ids(db.other, b) == [1]
    drop = Background(db.c.drop)
    drop.join(0.2)
    e = error_of(lambda: db.c.find_one({}, session=b))
    assert e.code == 24 and e.has_error_label("TransientTransactionError")
    a.commit_transaction()
    drop.result()


def test_the_wait_for_locks_is_a_parameter(client):
    name = "maxTransactionLockRequestTimeoutMillis"
    assert client.admin.command("getParameter", 1, **{name: 1})[name] == 5
    client.admin.command("setParameter", 1, **{name: 20})
    assert client.admin.command("getParameter", 1, **{name: 1})[name] == 20
    client.admin.command("setParameter", 1, **{name: 5})
    with pytest.raises(OperationFailure):
        client.admin.command("setParameter", 1, **{name: -2})
