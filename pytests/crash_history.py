# SPDX-License-Identifier: GPL-3.0-or-later
"""What must hold after a crash: `History` keeps what every check found durable, and compares it with
the data, the indexes, the catalog, the writers' logs and the watchers' events.
"""

import bson
from bson import Timestamp

from crash_load import DB, DBS, MADE, OTHER, consistent

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


def unwound(entries):
    """Those of transactions as their operations, each with the time of its commit: of the last entry of
    its chain, which is there as a whole."""
    chain = []
    for entry in entries:
        if entry["op"] != "c" or "applyOps" not in entry["o"]:
            assert not chain, ("a chain of entries is cut short", chain[-1]["ts"], entry["ts"])
            yield entry
            continue
        chain.append(entry)
        if not entry["o"].get("partialTxn"):
            operations = [one for part in chain for one in part["o"]["applyOps"]]
            assert len(chain) == 1 or entry["o"]["count"] == len(operations), entry["ts"]
            yield from ({**one, "ts": entry["ts"]} for one in operations)
            chain = []
    assert not chain, ("a chain of entries is cut short", chain[-1]["ts"])


def database_of(entry):
    return entry["ns"].split(".", 1)[0]


def is_copy(name):
    """The name of what a rename across databases fills."""
    return name.startswith("tmp") and name.endswith(".renameCollection")


def operation(entry):
    """What an entry about a document says, in the terms of the writers' logs."""
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


class Collection:
    """What the oplog says of one, by its UUID."""

    def __init__(self, ns, images, temp):
        self.ns, self.images, self.temp = ns, images, temp
        self.indexes = {"_id_"}
        self.docs = {}  # _id -> v


class History:
    """The durable oplog since the run began, entry by entry, and what follows from it."""

    def __init__(self, start):
        self.events = {"c": [], DB: [], OTHER: [], "cluster": []}  # by scope: (ts, what a stream sees)
        self.upto = start
        self.told = {}  # term -> the highest of all times that any client was told in it
        self.collections = {}  # UUID -> Collection
        self.seen = {}  # ts -> bytes, of what tailers read, durable or not

    def named(self, ns):
        return next(k for k in self.collections.values() if k.ns == ns)

    def names(self):
        return {k.ns: k for k in self.collections.values()}

    # --- reading on -----------------------------------------------------------------------------

    def read(self, raw):
        """Takes in what the oplog holds by now. Entries that a crash took back must never have been
        shown; optimes must be new ones."""
        entries = all_of(raw, "local", {"find": "oplog.rs", "filter": {"ts": {"$gte": self.upto}}})
        assert entries and entries[0]["ts"] == self.upto, "the log was cut behind the last check"
        return self.take(entries[1:])

    def take(self, new):
        stamps = [e["ts"] for e in new]
        assert stamps == sorted(set(stamps)), "optimes grow and are used once"
        self.check_against_seen(new)
        flat = [one for one in unwound(new) if database_of(one) in DBS]
        for one in flat:
            before = self.fold(one)
            self.show(one, before)
        if stamps:
            self.upto = stamps[-1]
        return flat

    def show(self, entry, before):
        """Who sees it, and how."""
        ts, event = entry["ts"], shown(entry)
        if entry["op"] != "c" and entry["ns"] == f"{DB}.c":
            self.events["c"].append((ts, operation(entry)))
        if event:
            self.events["cluster"].append((ts, event))
        if event and database_of(entry) == DB:
            self.events[DB].append((ts, event))
        elif event:
            key = None if entry["op"] == "c" else operation(entry)[1]
            self.events[OTHER].append((ts, (event, key, before)))
            if event == "dropDatabase":
                self.events[OTHER].append((ts, ("invalidate", None, None)))

    def check_against_seen(self, new):
        """An optime that somebody saw before the crash means the same entry or none at all; and a life
        begins above all that was told in those before it."""
        for entry in new:
            seen = self.seen.get(entry["ts"])
            assert seen is None or seen == bson.encode(entry), ("an optime is used twice", entry)
        begins = [e for e in new if e["op"] == "n" and e["o"].get("msg") == "new primary"]
        assert begins, "each life begins with an entry"
        for entry in begins:
            told = [ts for term, ts in self.told.items() if term < entry["t"]]
            assert entry["ts"] > max(told, default=self.upto), "a new life begins above all optimes of the old"
        self.seen.clear()

    def fold(self, entry):
        """Does it again. For a document with an image: the state that the image shows."""
        if entry["op"] == "c":
            self.fold_command(entry)
            return None
        coll = self.collections[entry["ui"]]
        assert coll.ns == entry["ns"], entry
        kind, key, v = operation(entry)
        before = coll.docs.get(key)
        assert (kind == "i") == (before is None), entry
        if kind == "d":
            del coll.docs[key]
        else:
            coll.docs[key] = v
        return before if coll.images else None

    def fold_command(self, entry):
        kind, o = first_field(entry), entry["o"]
        ui, db = entry.get("ui"), database_of(entry)
        if kind == "create":
            assert f"{db}.{o['create']}" not in self.names(), entry
            images = o.get("changeStreamPreAndPostImages", {}).get("enabled", False)
            self.collections[ui] = Collection(f"{db}.{o['create']}", images, o.get("temp", False))
        elif kind == "drop":
            assert self.collections.pop(ui).ns == f"{db}.{o['drop']}", entry
        elif kind == "dropDatabase":
            assert not [ns for ns in self.names() if ns.startswith(f"{db}.")], "its collections go with it"
        elif kind == "renameCollection":
            if "dropTarget" in o:
                assert self.collections.pop(o["dropTarget"]).ns == o["to"], entry
            assert o["to"] not in self.names(), entry
            self.collections[ui].ns, self.collections[ui].temp = o["to"], False
        elif kind == "createIndexes":
            self.collections[ui].indexes.add(o["name"])
        elif kind == "commitIndexBuild":
            self.collections[ui].indexes.update(ix["name"] for ix in o["indexes"])
        elif kind == "dropIndexes":
            self.collections[ui].indexes.discard(o["index"])
        elif kind == "collMod":
            self.collections[ui].images = o["changeStreamPreAndPostImages"]["enabled"]

    @staticmethod
    def done(flat):
        """What the definer has done, in the terms of its log. A rename across databases is the end of a
        copy and, in the same commit, the drop of what was copied; a dropDatabase is one with the drops
        before it."""
        done, entries = [], iter([e for e in flat if e["op"] == "c"])
        for entry in entries:
            kind, o, db = first_field(entry), entry["o"], database_of(entry)
            kind = {"commitIndexBuild": "createIndexes"}.get(kind, kind)
            if kind == "renameCollection" and is_copy(o["renameCollection"].split(".", 1)[1]):
                drop = next(entries)
                assert "drop" in drop["o"] and drop["ts"] == successor(entry["ts"]), (entry, drop)
                done.append(("across", f"{database_of(drop)}.{drop['o']['drop']}", o["to"]))
            elif kind == "renameCollection":
                done.append(("rename", o["renameCollection"], o["to"]))
            elif kind == "dropDatabase":
                while done and done[-1][0] == "drop" and done[-1][1].startswith(f"{db}."):
                    done.pop()
                done.append((kind, db))
            elif kind in EVENT_OF and not is_copy(o[first_field(entry)]) and o[first_field(entry)] != MADE:
                if kind != "create" or "changeStreamPreAndPostImages" in o:  # else an insert made it
                    done.append((kind, f"{db}.{o[first_field(entry)]}"))
        return done

    # --- the state of the server ----------------------------------------------------------------

    def check_data(self, raw):
        for ns, coll in self.names().items():
            db, name = ns.split(".", 1)
            found = all_of(raw, db, {"find": name, "projection": {"pad": 0}})
            assert all(consistent(d) for d in found)
            assert {d["_id"]: d["v"] for d in found} == coll.docs, ("data and oplog agree", ns)
        self.check_indexes(raw)

    def check_indexes(self, raw):
        docs = self.named(f"{DB}.c").docs
        by_u = all_of(raw, DB, {"find": "c", "filter": {"u": {"$gt": ""}}, "hint": "u_1", "projection": {"u": 1}})
        assert {d["_id"]: d["u"] for d in by_u} == {k: f"{k}/{v}" for k, v in docs.items()}, "the unique index agrees"
        for tag in range(5):
            by_tag = all_of(raw, DB, {"find": "c", "filter": {"tags": tag}, "hint": "tags_v", "projection": {"_id": 1}})
            assert {d["_id"] for d in by_tag} == {k for k, v in docs.items() if v % 5 == tag}

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
        for db in DBS:
            for info in all_of(raw, db, {"listCollections": 1}):
                name, options = info["name"], info["options"]
                assert "temp" not in options, info
                indexes = {ix["name"] for ix in all_of(raw, db, {"listIndexes": name})}
                found[f"{db}.{name}"] = info["info"]["uuid"], indexes, "changeStreamPreAndPostImages" in options
                result = raw.command({"validate": name, "full": True}, db)
                assert result["ok"] == 1 and result["valid"], result
                count = raw.command({"count": name}, db)["n"]
                assert count == result["nrecords"], (name, count, result)
        should = {k.ns: (uuid, k.indexes, k.images) for uuid, k in self.collections.items()}
        assert found == should, "catalog and oplog agree"

    # --- what clients were told -----------------------------------------------------------------

    def check_writer(self, writer, flat):
        """The acknowledged operations are in the log in their order, each once; behind them comes at
        most a beginning of what was under way."""
        prefix = f"{writer.name}."
        found = [operation(e) for e in flat if e["op"] != "c" and not is_copy(e["ns"].split(".", 1)[1])]
        found = [o for o in found if o[1].startswith(prefix)]
        if writer.extra:  # not acknowledged as durable: holes, but no other order and nothing twice
            rest = iter(writer.log + writer.doubt)
            assert all(o in rest for o in found), (writer.name, writer.log, found)
            return
        n = len(writer.log)
        assert found[:n] == writer.log, (writer.name, "acknowledged and lost", first_difference(found, writer.log))
        assert found[n:] == writer.doubt[: len(found) - n], (writer.name, found[n:], writer.doubt)
        assert not writer.whole or len(found) in (n, n + len(writer.doubt)), (writer.name, found[n:], writer.doubt)

    def check_definer(self, definer, flat):
        found, n = self.done(flat), len(definer.log)
        assert found[:n] == definer.log, ("acknowledged and lost", first_difference(found, definer.log))
        assert found[n:] == definer.doubt[: len(found) - n], (found[n:], definer.doubt)

    def check_stream(self, stream, whole=False):
        """The events so far are the first of those that there should be; with `whole`, all."""
        should = self.events[stream.scope]
        at, n = stream.checked, len(stream.events)
        for got, wanted in zip(stream.events[at:n], should[at:n]):
            assert got == wanted or (stream.expiring and without_image(got, wanted)), (stream.scope, got, wanted)
        assert n <= len(should), (stream.scope, "events of nothing", stream.events[len(should):][:3])
        assert not whole or n == len(should), ("events are missing", stream.scope, n, should[n:n + 5])
        stream.checked = n


def without_image(got, wanted):
    """The same but for an image that has expired."""
    return got[0] == wanted[0] and isinstance(got[1], tuple) and got[1][:2] == wanted[1][:2] and got[1][2] is None


def successor(ts):
    return Timestamp(ts.time, ts.inc + 1)


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
