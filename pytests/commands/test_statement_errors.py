# SPDX-License-Identifier: GPL-3.0-or-later
"""A statement that fails, even by our own fault, does not hide what the other statements did."""

import uuid

import pytest
from bson import Binary, Int64

SERVER_OPTIONS = {"test_commands": True}
INTERNAL, NO_MEMORY, NO_SUCH_TRANSACTION = 1, 146, 251
DOCS = [{"_id": i, "v": 0} for i in range(4)]
NEW = [{"_id": 10 + i, "v": 1} for i in range(4)]

# name: a command of four statements
COMMANDS = {
    "insert": lambda ordered: {"insert": "c", "documents": NEW, "ordered": ordered},
    "update": lambda ordered: {"update": "c", "ordered": ordered, "updates": [
        {"q": {"_id": i}, "u": {"$set": {"v": 1}}} for i in range(4)]},
    "delete": lambda ordered: {"delete": "c", "ordered": ordered, "deletes": [
        {"q": {"_id": i}, "limit": 1} for i in range(4)]},
}


@pytest.fixture
def bench(raw):
    """A collection with DOCS; runs a command with the n-th passing of a point failing."""
    db = f"statements_{uuid.uuid4().hex[:8]}"
    assert raw.command({"insert": "c", "documents": DOCS}, db)["n"] == 4

    def run(command, point="commitBefore", nth=2, code=INTERNAL, where=db):
        raw.command({"runnelFault": f"{point}:fail={code}:{nth}"})
        try:
            return raw.command(command, where)
        finally:
            raw.command({"runnelFault": f"{point}:off"})

    run.found = lambda: raw.command({"find": "c", "sort": {"_id": 1}}, db)["cursor"]["firstBatch"]
    run.db = db
    yield run
    raw.command({"dropDatabase": 1}, db)


def effect(name, done):
    """What is there after these of the four statements."""
    if name == "insert":
        return DOCS + [NEW[i] for i in done]
    if name == "update":
        return [{"_id": i, "v": int(i in done)} for i in range(4)]
    return [d for i, d in enumerate(DOCS) if i not in done]


@pytest.mark.parametrize("code", [INTERNAL, NO_MEMORY])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("name", ["update", "delete"])
def test_one_statement_fails(bench, name, ordered, code):
    reply = bench(COMMANDS[name](ordered), code=code)
    done = [0] if ordered else [0, 2, 3]
    assert reply["ok"] == 1 and reply["n"] == len(done), reply
    assert [(e["index"], e["code"]) for e in reply["writeErrors"]] == [(1, code)]
    assert reply["writeErrors"][0]["errmsg"]
    assert bench.found() == effect(name, done)


@pytest.mark.parametrize("ordered", [True, False])
def test_one_document_fails(bench, ordered):
    """Inserts commit in groups; what is told is what is there."""
    reply = bench(COMMANDS["insert"](ordered), point="storageWrite", nth=6)
    assert reply["ok"] == 1, reply
    (error,) = reply["writeErrors"]
    assert error["code"] == INTERNAL
    done = [i for i in range(4) if i < error["index"] or (i > error["index"] and not ordered)]
    assert reply["n"] == len(done), reply
    assert bench.found() == effect("insert", done)


@pytest.mark.parametrize("ordered", [True, False])
def test_one_operation_of_bulk_write_fails(raw, bench, ordered):
    ops = [{"update": 0, "filter": {"_id": 0}, "updateMods": {"$set": {"v": 1}}},
           {"delete": 0, "filter": {"_id": 1}},
           {"insert": 0, "document": NEW[0]}]
    command = {"bulkWrite": 1, "ops": ops, "nsInfo": [{"ns": f"{bench.db}.c"}], "ordered": ordered,
               "lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(1)}
    reply = bench(command, where="admin")
    assert reply["ok"] == 1 and reply["nErrors"] == 1 and reply["nModified"] == 1, reply
    results = reply["cursor"]["firstBatch"]
    assert [(r["idx"], r["ok"]) for r in results] == [(0, 1), (1, 0)] + ([] if ordered else [(2, 1)])
    assert results[1]["code"] == INTERNAL
    assert bench.found() == [{"_id": 0, "v": 1}, *DOCS[1:]] + ([] if ordered else NEW[:1])
    again = raw.command(command)  # the rest is done, nothing twice
    assert again["ok"] == 1 and again["nErrors"] == 0, again
    assert again["retriedStmtIds"] == ([0] if ordered else [0, 2])
    assert bench.found() == [{"_id": 0, "v": 1}, *DOCS[2:], NEW[0]]


def test_in_a_transaction_all_of_it_is_gone(raw, bench):
    ids = {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(1), "autocommit": False}
    reply = bench({**COMMANDS["update"](False), **ids, "startTransaction": True}, point="storageWrite", nth=2)
    assert reply["ok"] == 1 and reply["n"] == 1, reply
    assert [(e["index"], e["code"]) for e in reply["writeErrors"]] == [(1, INTERNAL)]
    reply = raw.command({"commitTransaction": 1, **ids})
    assert reply["code"] == NO_SUCH_TRANSACTION, reply
    assert bench.found() == DOCS
