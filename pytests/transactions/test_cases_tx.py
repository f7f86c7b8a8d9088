# SPDX-License-Identifier: GPL-3.0-or-later
"""Cases of transactions, by id, that other servers got wrong. tx-01 and tx-06 are in
commands/test_cases_sessions.py."""

import threading

import pymongo
import pytest
from pymongo.errors import BulkWriteError, DuplicateKeyError, OperationFailure

from streamutil import drain


def test_tx_03_a_write_conflict_is_transient_and_at_once(client, db):
    db.c.insert_one({"_id": 1, "n": 0})
    with client.start_session() as a, client.start_session() as b:
        a.start_transaction()
        b.start_transaction()
        db.c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=a)
        with pytest.raises(OperationFailure) as e:
            db.c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=b)
        assert e.value.code == 112 and e.value.details["codeName"] == "WriteConflict"
        assert e.value.details["errorLabels"] == ["TransientTransactionError"]
        with pytest.raises(OperationFailure) as e:
            db.c.find_one({}, session=b)
        assert e.value.code == 251
        b.abort_transaction()
        # The callback meets the conflict until the other transaction is over.
        attempts = []

        def work(session):
            attempts.append(1)
            if len(attempts) == 2:
                a.commit_transaction()
            db.c.update_one({"_id": 1}, {"$inc": {"n": 1}}, session=session)

        b.with_transaction(work)
    assert len(attempts) >= 2
    assert db.c.find_one({"_id": 1})["n"] == 2


@pytest.mark.parametrize("error", [DuplicateKeyError, BulkWriteError])
def test_tx_04_an_ordinary_error_aborts(client, db, error):
    db.c.insert_one({"_id": 1})
    with db.c.watch() as stream, client.start_session() as session:
        session.start_transaction()
        db.c.insert_one({"_id": 2}, session=session)
        with pytest.raises(error) as e:
            if error is DuplicateKeyError:
                db.c.insert_one({"_id": 1}, session=session)
            else:
                db.c.insert_many([{"_id": 1}], session=session)
        assert not e.value.has_error_label("TransientTransactionError")
        details = e.value.details
        assert details.get("code", details.get("writeErrors", [{}])[0].get("code")) == 11000
        with pytest.raises(OperationFailure) as e:
            session.commit_transaction()
        assert e.value.code == 251
        db.c.insert_one({"_id": 3})
        assert [event["documentKey"]["_id"] for event in drain(stream, 1)] == [3]
    assert db.c.find_one({"_id": 2}) is None


def test_many_clients_count_together(srv, client, db):
    """with_transaction() comes through however many want the same document."""
    db.c.insert_one({"_id": 1, "n": 0})

    def add(failures):
        try:
            with pymongo.MongoClient(srv.uri) as own, own.start_session() as session:
                coll = own[db.name].c
                for _ in range(10):
                    session.with_transaction(lambda s: coll.update_one(
                        {"_id": 1}, {"$set": {"n": coll.find_one({"_id": 1}, session=s)["n"] + 1}},
                        session=s))
        except BaseException as e:
            failures.append(e)

    failures = []
    threads = [threading.Thread(target=add, args=(failures,)) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert db.c.find_one({"_id": 1})["n"] == 40
