# SPDX-License-Identifier: GPL-3.0-or-later
"""Death at every step of a rename across databases: one name has all documents, and no copy is left."""

import itertools
import signal
import time

import pytest

from crash_history import all_of
from raw import Closed, RawClient, op_msg
from server import Server, ServerError

DOCS = [{"_id": i, "a": i % 5} for i in range(30)]
NAMES = ("from.c", "to.c")


@pytest.fixture
def server(request, tmp_path):
    if request.config.getoption("--uri"):
        pytest.skip("kills its own server")
    with Server(path=tmp_path / "data", test_commands=True) as s:
        with RawClient(s.port) as raw:
            for command in (
                {"create": "c", "changeStreamPreAndPostImages": {"enabled": True}},
                {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]},
                {"insert": "c", "documents": DOCS},
            ):
                reply = raw.command(command, "from")
                assert reply["ok"] == 1, reply
        yield s


def rename(raw, old, new):
    return raw.command({"renameCollection": old, "to": new}, "admin")


def there(raw):
    """The names under which there is a collection."""
    return [f"{db}.{info['name']}" for db in ("from", "to") for info in all_of(raw, db, {"listCollections": 1})]


def check(raw, name):
    """All is there, and it is what it was."""
    db, coll = name.split(".")
    assert all_of(raw, db, {"find": coll, "sort": {"_id": 1}}) == DOCS
    assert raw.command({"validate": coll, "full": True}, db)["valid"]
    assert raw.command({"count": coll, "query": {"a": 3}, "hint": "a_1"}, db)["n"] == 6
    info = all_of(raw, db, {"listCollections": 1})[0]
    assert info["options"] == {"changeStreamPreAndPostImages": {"enabled": True}}


def temporaries(raw):
    """How many were made, renamed and dropped, by the oplog."""
    entries = all_of(raw, "local", {"find": "oplog.rs", "filter": {"op": "c"}})
    o = [e["o"] for e in entries]
    made = [d["create"] for d in o if d.get("temp")]
    renamed = [d["renameCollection"] for d in o if ".tmp" in d.get("renameCollection", "")]
    dropped = [d["drop"] for d in o if d.get("drop", "").startswith("tmp")]
    return len(made), len(renamed), len(dropped)


def die_at(server, point, n, old, new):
    """True when the point was come to so often."""
    with RawClient(server.port) as raw:
        raw.command({"runnelFault": f"{point}:kill:{n}"}, "admin")
        try:
            reply = rename(raw, old, new)
        except (Closed, OSError):
            assert server.wait() == -signal.SIGKILL
            return True
        assert reply["ok"] == 1, reply
    server.kill()
    return False


def make_durable(raw):
    """What is committed by now."""
    reply = raw.command({"appendOplogNote": 1, "data": {}, "writeConcern": {"w": "majority"}})
    assert reply["ok"] == 1 and "writeConcernError" not in reply, reply


def die_durably(server, n, old, new):
    """Behind the n-th change of the catalog, when all that was done is durable. True when it came to that."""
    with RawClient(server.port) as raw, RawClient(server.port) as renamer:
        wait = {"runnelFault": f"ddlCommitted:wait:{n}"}
        raw.command(wait)
        renamer.send(op_msg({"renameCollection": old, "to": new, "$db": "admin"}))
        end = time.monotonic() + 20
        while raw.command(wait)["hits"] < n:
            if not renamer.silent(0):
                assert renamer.receive().doc["ok"] == 1
                break
            assert time.monotonic() < end
        else:
            make_durable(raw)
            server.kill()
            return True
    server.kill()
    return False


@pytest.mark.parametrize("way", ["lost", "durable"])
def test_one_name_has_everything(server, way):
    """At the first, second, third ... step, until the rename comes through."""
    old, new = NAMES
    for n in itertools.count(1):
        died = die_at(server, "storageCommit", n, old, new) if way == "lost" else die_durably(server, n, old, new)
        server.start()
        with RawClient(server.port) as raw:
            names = there(raw)
            assert names == [new] if not died else names in ([old], [new]), (n, names)
            check(raw, names[0])
            made, renamed, dropped = temporaries(raw)
            assert made == renamed + dropped, n
        if names == [new]:
            old, new = new, old
        if not died:
            assert n > 3
            break


def test_death_again_while_the_copy_is_dropped(server):
    """The copy goes with an entry, and a stream of the database shows what happened to it."""
    old, new = NAMES
    with RawClient(server.port) as raw:
        start = raw.command({"ping": 1})["operationTime"]
    assert die_at(server, "ddlRenameBeforeCommit", 1, old, new)
    for point in ("dropTemporary", "ddlCommitted", "startOpened"):
        with pytest.raises(ServerError):
            server.start({"RUNNEL_FAULT": f"{point}:kill"})
    server.start()
    with RawClient(server.port) as raw:
        assert there(raw) == [old]
        check(raw, old)
        assert temporaries(raw) == (1, 0, 1)
        make_durable(raw)
        pipeline = [{"$changeStream": {"startAtOperationTime": start, "showExpandedEvents": True}}]
        events = all_of_stream(raw, {"aggregate": 1, "pipeline": pipeline, "cursor": {}}, "to")
        kinds = [e["operationType"] for e in events]
        assert kinds[0] == "create" and kinds[-1] == "drop", kinds
        assert set(kinds[1:-1]) <= {"createIndexes", "insert"} and events[0]["ns"] == events[-1]["ns"], events
        assert rename(raw, old, new)["ok"] == 1
        check(raw, new)


def all_of_stream(raw, command, db):
    """The events so far."""
    reply = raw.command(command, db)
    events = []
    while reply["cursor"].get("nextBatch") != []:
        events += reply["cursor"].get("firstBatch", reply["cursor"].get("nextBatch"))
        more = {"getMore": reply["cursor"]["id"], "collection": "$cmd.aggregate", "maxTimeMS": 1}
        reply = raw.command(more, db)
    return events


def test_not_into_or_out_of_local(server):
    """Nothing in "local" is logged, so a copy would appear or vanish without entries."""
    with RawClient(server.port) as raw:
        assert rename(raw, "from.c", "local.c")["code"] == 20
        assert raw.command({"create": "x"}, "local")["ok"] == 1
        assert rename(raw, "local.x", "from.x")["code"] == 20
        assert rename(raw, "local.x", "local.y")["ok"] == 1
