# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold after a crash: `History` keeps what every check found durable, and compares it with
the data, the indexes, the catalog, the writers' logs and the watchers' events.
"""

import bson
from bson import Timestamp

from crash_load import DB, consistent

EVENT_OF = {
    "create": "create",
    "drop": "drop",
    "renameCollection": "rename",
    "dropDatabase": "dropDatabase",
    "collMod": "modify",
    "createIndexes": "createIndexes",
    "commitIndexBuild": "createIndexes",
    "dropIndexes": "dropIndexes",
}


def first_field(entry):
    return next(iter(entry["o"]))


def unwound(entry):
    """The operations of a transaction as entries of their own."""
    if entry["op"] == "c" and "applyOps" in entry["o"]:
        return [{**one, "ts": entry["ts"]} for one in entry["o"]["applyOps"]]
    return [entry]


def operation(entry):
    """What an entry of crash.c says, in the terms of the writers' logs."""
    if entry["op"] == "i":
        return "i", entry["o"]["_id"], entry["o"]["v"]
    if entry["op"] == "d":
        return "d", entry["o"]["_id"], None
    key, o = entry["o2"]["_id"], entry["o"]
    return ("u", key, o["diff"]["u"]["v"]) if "$v" in o else ("r", key, o["v"])


def shown(entry):
    """The type of the event that an expanded stream shows for an entry; None: it shows none."""
    if entry["op"] == "c":
        return EVENT_OF.get(first_field(entry))
    kinds = {"i": "insert", "d": "delete"}
    replaces = entry["op"] == "u" and "$v" not in entry["o"]
    return "replace" if replaces else kinds.get(entry["op"], "update")


class History:
    """The durable oplog since the run began, entry by entry, and what follows from it."""

    def __init__(self, start):
        self.operations = []  # (ts, operation) on crash.c
        self.shown = []  # (ts, type of event) of what a stream of everything shows
        self.upto = start
        self.told = Timestamp(0, 0)  # the highest of all times that any client was ever told
        self.highest = self.told  # the same, up to the last check
        self.docs = {}  # _id -> v, of crash.c
        self.catalog = {}  # name -> indexes
        self.seen = {}  # ts -> bytes, of what tailers read, durable or not

    # --- reading on -----------------------------------------------------------------------------

    def read(self, raw):
        """Takes in what the oplog holds by now. Entries that a crash took back must never have been
        shown; optimes must be new ones."""
        entries = all_of(raw, "local", {"find": "oplog.rs", "filter": {"ts": {"$gte": self.upto}}})
        assert entries and entries[0]["ts"] == self.upto, "the log was cut behind the last check"
        new = entries[1:]
        stamps = [e["ts"] for e in new]
        assert stamps == sorted(set(stamps)), "optimes grow and are used once"
        self.check_against_seen(new)
        for entry in new:
            for one in unwound(entry):
                if one["ns"].split(".")[0] == DB:
                    self.add(one)
                    self.fold(one)
        self.upto = stamps[-1]
        return [one for entry in new for one in unwound(entry)]

    def add(self, entry):
        if entry["op"] != "c" and entry["ns"] == f"{DB}.c":
            self.operations.append((entry["ts"], operation(entry)))
        event = shown(entry)
        if event:
            self.shown.append((entry["ts"], event))

    def check_against_seen(self, new):
        """An optime that somebody saw before the crash means the same entry or none at all, and the
        new life begins above all of them."""
        for entry in new:
            seen = self.seen.get(entry["ts"])
            assert seen is None or seen == bson.encode(entry), ("an optime is used twice", entry)
        begins = [e["ts"] for e in new if e["op"] == "n" and e["o"].get("msg") == "new primary"]
        assert begins, "each life begins with an entry"
        # The first of several may have had no clients; those that told `told` lived in the last but one.
        assert begins[0] > self.highest and begins[-1] > self.told, "a new life begins above all optimes of the old"
        self.highest = self.told
        self.seen.clear()

    def fold(self, entry):
        if entry["op"] == "c":
            self.fold_command(entry)
        elif entry["ns"] == f"{DB}.c":
            kind, key, v = operation(entry)
            if kind == "d":
                del self.docs[key]
            else:
                assert (kind == "i") == (key not in self.docs), entry
                self.docs[key] = v

    def fold_command(self, entry):
        kind, o = first_field(entry), entry["o"]
        if kind == "create":
            self.catalog[o["create"]] = {"_id_"}
        elif kind == "drop":
            del self.catalog[o["drop"]]
        elif kind == "renameCollection":
            old, new = (o[f].split(".", 1)[1] for f in ("renameCollection", "to"))
            self.catalog[new] = self.catalog.pop(old)
        elif kind == "createIndexes":
            self.catalog[o["createIndexes"]].add(o["name"])
        elif kind == "commitIndexBuild":
            self.catalog[o["commitIndexBuild"]].update(ix["name"] for ix in o["indexes"])
        elif kind == "dropIndexes":
            self.catalog[o["dropIndexes"]].discard(o["index"])

    # --- the state of the server ----------------------------------------------------------------

    def check_data(self, raw):
        found = all_of(raw, DB, {"find": "c", "projection": {"pad": 0}})
        assert all(consistent(d) for d in found)
        assert {d["_id"]: d["v"] for d in found} == self.docs, "data and oplog agree"
        by_u = all_of(raw, DB, {"find": "c", "filter": {"u": {"$gt": ""}}, "hint": "u_1", "projection": {"u": 1}})
        assert {(d["_id"], d["u"]) for d in by_u} == {(d["_id"], d["u"]) for d in found}, "the unique index agrees"
        for tag in range(5):
            by_tag = all_of(raw, DB, {"find": "c", "filter": {"tags": tag}, "hint": "tags_v", "projection": {"_id": 1}})
            assert {d["_id"] for d in by_tag} == {k for k, v in self.docs.items() if v % 5 == tag}

    def check_count(self, raw):
        """What the segments add up to is what the oplog holds; old entries may go in between."""
        counts = []
        while len(counts) < 3 or counts[-3] != counts[-1]:
            counts.append(raw.command({"count": "oplog.rs"}, "local")["n"])
            found = all_of(raw, "local", {"aggregate": "oplog.rs", "pipeline": [{"$count": "n"}], "cursor": {}})
            counts.append(found[0]["n"])
        assert counts[-1] == counts[-2], counts

    def check_catalog(self, raw):
        found = {}
        for info in all_of(raw, DB, {"listCollections": 1}):
            name = info["name"]
            found[name] = {ix["name"] for ix in all_of(raw, DB, {"listIndexes": name})}
            result = raw.command({"validate": name, "full": True}, DB)
            assert result["ok"] == 1 and result["valid"], result
            count = raw.command({"count": name}, DB)["n"]
            assert count == result["nrecords"], (name, count, result)
        assert found == self.catalog, "catalog and oplog agree"

    # --- what clients were told -----------------------------------------------------------------

    def check_writer(self, writer, new):
        """The acknowledged operations are in the log in their order, each once; behind them comes at
        most a beginning of what was under way."""
        prefix = f"{writer.name}."
        found = [operation(e) for e in new if e["ns"] == f"{DB}.c" and e["op"] != "c"]
        found = [o for o in found if o[1].startswith(prefix)]
        if writer.extra:  # not acknowledged as durable: holes, but no other order and nothing twice
            rest = iter(writer.log + writer.doubt)
            assert all(o in rest for o in found), (writer.name, writer.log, found)
            return
        n = len(writer.log)
        assert found[:n] == writer.log, (writer.name, "acknowledged and lost", first_difference(found, writer.log))
        assert found[n:] == writer.doubt[: len(found) - n], (writer.name, found[n:], writer.doubt)
        assert not writer.whole or len(found) in (n, n + len(writer.doubt)), (writer.name, found[n:], writer.doubt)

    def check_definer(self, definer, new):
        found = [first_field(e) for e in new if e["op"] == "c" and e["ns"] == f"{DB}.$cmd"]
        found = ["createIndexes" if k == "commitIndexBuild" else k for k in found if k in EVENT_OF]
        n = len(definer.log)
        assert found[:n] == definer.log, ("acknowledged and lost", found, definer.log)
        assert found[n:] == definer.doubt[: len(found) - n], (found[n:], definer.doubt)

    def check_stream(self, stream, whole=False):
        """The events so far are the first of those that there should be; with `whole`, all."""
        should = self.operations if isinstance(stream.target, str) else self.shown
        at, n = stream.checked, len(stream.events)
        assert stream.events[at:n] == should[at:n], first_difference(stream.events[at:n], should[at:n])
        assert not whole or n == len(should), ("events are missing", n, should[n:n + 5])
        stream.checked = n


def first_difference(a, b):
    for i, (x, y) in enumerate(zip(a, b)):
        if x != y:
            return i, x, y
    return len(a), len(b), (a + [None])[min(len(a), len(b)):][:2], (b + [None])[min(len(a), len(b)):][:2]


def all_of(raw, db, command):
    """Every document of a cursor."""
    reply = raw.command({**command}, db)
    assert reply["ok"] == 1, (command, reply)
    found = list(reply["cursor"]["firstBatch"])
    while reply["cursor"]["id"]:
        ns = reply["cursor"]["ns"].split(".", 1)[1]
        reply = raw.command({"getMore": bson.Int64(reply["cursor"]["id"]), "collection": ns}, db)
        assert reply["ok"] == 1, (command, reply)
        found += reply["cursor"]["nextBatch"]
    return found
