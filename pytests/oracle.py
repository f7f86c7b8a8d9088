# SPDX-License-Identifier: GPL-3.0-or-later
"""An independent model of what change streams promise, for the randomised tests.

Truth is the log of one stream of the whole server that asks for everything (`Log`). `Model` replays
it and checks each event against the state so far: pre- and post-images, namespaces, identities.
`expected()` derives from it, field by field and byte by byte, what a stream of any scope and any
options must show. Nothing here talks to the server.
"""

import bisect
from decimal import Decimal

import bson
from bson import Decimal128, Int64
from bson.codec_options import CodecOptions, DatetimeConversion

# Decoding and encoding again gives the same bytes.
EXACT = CodecOptions(datetime_conversion=DatetimeConversion.DATETIME_MS)

CLASSIC = {"insert", "update", "replace", "delete", "drop", "rename", "dropDatabase"}


def decode(raw):
    return bson.decode(raw, EXACT)


def encode(document):
    # at the top PyMongo would move _id to the front
    return bson.encode({"d": document}, codec_options=EXACT)[7:-1]


def canonical(document):
    """Bytes that do not depend on the order of fields."""

    def ordered(value):
        if isinstance(value, dict):
            return {k: ordered(value[k]) for k in sorted(value)}
        if isinstance(value, list):
            return [ordered(v) for v in value]
        return value

    return encode(ordered(document))


def key_of(value):
    """A dictionary key for an _id (numbers are whole): what compares equal is one key."""
    if isinstance(value, Decimal128):
        value = value.to_decimal()
    if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool):
        value = Int64(value)
    return encode({"": value})


def sort_key(token):
    """The place that a token names, the same for tokens of both versions: time, kind, index in a
    transaction, and whether it is an invalidate's. (UUID and key add nothing: a place has one event.)"""
    data = token["_data"]
    at = 24 if data[22:24] == "29" else 28  # behind the kind: 0, or 128 in two bytes
    numbers = int(data[at : at + 2], 16)  # 29: index 0; 2B: one byte follows; 2C: two ...
    end = at + 2 + 2 * max(0, numbers - 0x2A) + 2
    return data[:18] + "2B04" + data[22:end]


def version_of(token):
    return int(token["_data"][20:22], 16) // 2


def invalidate_of(event):
    """The event that follows one which ends its stream's scope."""
    data = event["_id"]["_data"]
    assert data[30:32] == "6E", "time, version, type, index: then the bit of an invalidate"
    token = {**event["_id"], "_data": data[:30] + "6F" + data[32:]}
    return {
        "_id": token,
        "operationType": "invalidate",
        "clusterTime": event["clusterTime"],
        "wallTime": event["wallTime"],
    }


# --- applying update descriptions -------------------------------------------------------------------


def _path(description, name):
    return description.get("disambiguatedPaths", {}).get(name) or name.split(".")


def _parent(document, path):
    for part in path[:-1]:
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def _put(document, path, value):
    at, last = _parent(document, path), path[-1]
    if isinstance(at, list):
        at.extend([None] * (int(last) + 1 - len(at)))
        at[int(last)] = value
    else:
        at[last] = value


def apply_description(document, description):
    """Changes the document as an update event says."""
    for cut in description["truncatedArrays"]:
        path = _path(description, cut["field"])
        array = _parent(document, [*path, None])
        assert isinstance(array, list) and len(array) > cut["newSize"], cut
        del array[cut["newSize"] :]
    for name, value in description["updatedFields"].items():
        _put(document, _path(description, name), value)
    for name in description["removedFields"]:
        path = _path(description, name)
        del _parent(document, path)[path[-1]]


def describe(diff, path=(), told=None):
    """The updateDescription that a diff of the oplog stands for."""
    told = told or {"updatedFields": {}, "removedFields": [], "truncatedArrays": []}

    def name(part):
        return ".".join((*path, part))

    if diff.get("a"):
        if "l" in diff:
            told["truncatedArrays"].append({"field": ".".join(path), "newSize": diff["l"]})
        for key, part in diff.items():
            if key[0] == "u":
                told["updatedFields"][name(key[1:])] = part
            elif key[0] == "s":
                describe(part, (*path, key[1:]), told)
        return told
    for section in ("u", "i"):
        told["updatedFields"].update((name(key), value) for key, value in diff.get(section, {}).items())
    told["removedFields"] += [name(key) for key in diff.get("d", {})]
    for key, part in diff.items():
        if key[0] == "s":
            describe(part, (*path, key[1:]), told)
    return told


# --- the model --------------------------------------------------------------------------------------


class Collection:
    def __init__(self, uuid, images):
        self.uuid = uuid
        self.images = images
        self.docs = {}
        self.indexes = {"_id_"}


class Model:
    """Replays the events of a stream of everything (expanded, both images whenAvailable)."""

    def __init__(self):
        self.collections = {}
        self.versions = {}  # (uuid, key): [(token, canonical document or None)]
        self.ended = {}  # uuid: token of its drop or newest rename

    def replay(self, event):
        getattr(self, "_" + event["operationType"])(event)

    def _at(self, event):
        found = self.collections[event["ns"]["db"], event["ns"]["coll"]]
        assert found.uuid == event["collectionUUID"], "the event is of another collection"
        return found

    def _version(self, collection, event, document):
        key = (collection.uuid, key_of(event["documentKey"]["_id"]))
        kept = None if document is None else canonical(document)
        self.versions.setdefault(key, []).append((sort_key(event["_id"]), kept))

    def _before(self, collection, event):
        """The document as it was, which the pre-image must show when there is one."""
        before = collection.docs[key_of(event["documentKey"]["_id"])]
        image = event["fullDocumentBeforeChange"]
        assert (image is not None) == collection.images, "an image where none is kept, or none"
        assert image is None or canonical(image) == canonical(before), "a pre-image is wrong"
        return before

    def _insert(self, event):
        collection = self._at(event)
        key = key_of(event["documentKey"]["_id"])
        assert key not in collection.docs, "an insert of what is there"
        collection.docs[key] = event["fullDocument"]
        self._version(collection, event, event["fullDocument"])

    def _update(self, event):
        collection = self._at(event)
        after = decode(encode(self._before(collection, event)))
        apply_description(after, event["updateDescription"])
        image = event["fullDocument"]
        assert (image is not None) == collection.images
        if image is not None:
            assert canonical(image) == canonical(after), "a post-image or its description is wrong"
            after = image
        collection.docs[key_of(event["documentKey"]["_id"])] = after
        self._version(collection, event, after)

    def _replace(self, event):
        collection = self._at(event)
        self._before(collection, event)
        collection.docs[key_of(event["documentKey"]["_id"])] = event["fullDocument"]
        self._version(collection, event, event["fullDocument"])

    def _delete(self, event):
        collection = self._at(event)
        self._before(collection, event)
        del collection.docs[key_of(event["documentKey"]["_id"])]
        self._version(collection, event, None)

    def _create(self, event):
        ns = (event["ns"]["db"], event["ns"]["coll"])
        assert ns not in self.collections
        images = event["operationDescription"].get("changeStreamPreAndPostImages", {})
        self.collections[ns] = Collection(event["collectionUUID"], images.get("enabled", False))

    def _drop(self, event):
        self.ended[self._at(event).uuid] = sort_key(event["_id"])
        del self.collections[event["ns"]["db"], event["ns"]["coll"]]

    def _rename(self, event):
        to = (event["to"]["db"], event["to"]["coll"])
        collection = self._at(event)
        over = self.collections.get(to)
        assert event["operationDescription"].get("dropTarget") == (over and over.uuid)
        if over:
            self.ended[over.uuid] = sort_key(event["_id"])
        del self.collections[event["ns"]["db"], event["ns"]["coll"]]
        self.collections[to] = collection
        # a lookup goes by the name in the event, so a rename ends what can be looked up
        self.ended[collection.uuid] = sort_key(event["_id"])

    def _dropDatabase(self, event):
        assert not [ns for ns in self.collections if ns[0] == event["ns"]["db"]]

    def _modify(self, event):
        collection = self._at(event)
        images = event["operationDescription"].get("changeStreamPreAndPostImages")
        if images is not None:
            collection.images = images["enabled"]

    def _createIndexes(self, event):
        for spec in event["operationDescription"]["indexes"]:
            assert spec["name"] not in self._at(event).indexes
            self._at(event).indexes.add(spec["name"])

    def _dropIndexes(self, event):
        for spec in event["operationDescription"]["indexes"]:
            self._at(event).indexes.remove(spec["name"])

    def looked_up(self, event, document):
        """Whether an updateLookup of this event may have given the document (None: null)."""
        uuid = event["collectionUUID"]
        key = (uuid, key_of(event["documentKey"]["_id"]))
        token = sort_key(event["_id"])
        kept = None if document is None else canonical(document)
        later = [v for at, v in self.versions[key] if at >= token]
        return kept in later or (kept is None and self.ended.get(uuid, "") > token)


# --- replaying the oplog ----------------------------------------------------------------------------


def apply_diff(value, diff):
    """Changes a document or an array as the diff of an oplog entry says, order of fields included."""
    if diff.get("a"):
        del value[diff.get("l", len(value)) :]
        for name, part in diff.items():
            if name in ("a", "l"):
                continue
            index = int(name[1:])
            if name[0] == "s":
                apply_diff(value[index], part)
                continue
            value.extend([None] * (index + 1 - len(value)))
            value[index] = part
        return
    for name in diff.get("d", {}):
        del value[name]
    for name, new in diff.get("u", {}).items():
        assert name in value, "u is for fields that are there"
        value[name] = new
    for name, new in diff.get("i", {}).items():
        value.pop(name, None)
        value[name] = new
    for name, part in diff.items():
        if name[0] == "s":
            apply_diff(value[name[1:]], part)


class Replica:
    """Collections, byte for byte, by replaying local.oplog.rs."""

    def __init__(self):
        self.collections = {}  # "db.coll": (uuid, {key: bytes})
        self.parts = {}  # of transactions that are not yet committed: {prevOpTime: operations}

    def replay(self, entry):
        if "applyOps" in entry["o"] and entry["op"] == "c":
            before = entry.get("prevOpTime", {}).get("ts")
            operations = self.parts.pop(before, []) + entry["o"]["applyOps"]
            if entry["o"].get("partialTxn"):
                self.parts[entry["ts"]] = operations
                return
            for operation in operations:
                self.replay(operation)
        elif entry["op"] == "c":
            self._command(entry["ns"].split(".")[0], entry)
        elif entry["op"] in "iud":
            self._change(entry)

    def _change(self, entry):
        uuid, docs = self.collections[entry["ns"]]
        assert uuid == entry["ui"]
        o = entry["o"]
        key = key_of(entry["o2" if entry["op"] == "u" else "o"]["_id"])
        assert (key in docs) == (entry["op"] != "i")
        if entry["op"] == "d":
            del docs[key]
        elif entry["op"] == "i" or "$v" not in o:
            docs[key] = encode(o)
        else:
            document = decode(docs[key])
            apply_diff(document, o["diff"])
            docs[key] = encode(document)

    def _command(self, db, entry):
        o = entry["o"]
        if "create" in o:
            assert f"{db}.{o['create']}" not in self.collections
            self.collections[f"{db}.{o['create']}"] = (entry["ui"], {})
        elif "drop" in o:
            assert self.collections.pop(f"{db}.{o['drop']}")[0] == entry["ui"]
        elif "renameCollection" in o:
            over = self.collections.pop(o["to"], (None,))[0]
            assert over == o.get("dropTarget")
            self.collections[o["to"]] = self.collections.pop(o["renameCollection"])
            assert self.collections[o["to"]][0] == entry["ui"]
        elif "dropDatabase" in o:
            assert not [ns for ns in self.collections if ns.startswith(db + ".")]


# --- filters ----------------------------------------------------------------------------------------


def _number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# name: ($match, the same in Python); some are tested on oplog entries, some on events.
FILTERS = {
    "kind": (
        {"operationType": {"$in": ["insert", "delete", "rename", "invalidate"]}},
        lambda e: e["operationType"] in ("insert", "delete", "rename", "invalidate"),
    ),
    "not kind": (
        {"operationType": {"$nin": ["update", "create"]}},
        lambda e: e["operationType"] not in ("update", "create"),
    ),
    "name": ({"ns.coll": "x"}, lambda e: e.get("ns", {}).get("coll") == "x"),
    "no name": ({"ns.coll": {"$ne": "x"}}, lambda e: e.get("ns", {}).get("coll") != "x"),
    "key": (
        {"documentKey._id": {"$lt": 12}},
        lambda e: _number(_id := e.get("documentKey", {}).get("_id")) and _id < 12
        or isinstance(_id, Decimal128) and _id.to_decimal() < 12,
    ),
    "document": (
        {"fullDocument.n": {"$gt": 50}},
        lambda e: _number(n := (e.get("fullDocument") or {}).get("n")) and n > 50,
    ),
    "no document": ({"fullDocument": None}, lambda e: e.get("fullDocument") is None),
    "change": (
        {"updateDescription.updatedFields.n": {"$exists": True}},
        lambda e: "n" in e.get("updateDescription", {}).get("updatedFields", {}),
    ),
    "either": (
        {"$or": [{"to.coll": "y"}, {"operationType": "replace", "ns.db": "oracle_a"}]},
        lambda e: e.get("to", {}).get("coll") == "y"
        or e["operationType"] == "replace" and e["ns"]["db"] == "oracle_a",
    ),
    "removed": (
        {"updateDescription.removedFields.0": {"$exists": True}, "clusterTime": {"$type": "timestamp"}},
        lambda e: bool(e.get("updateDescription", {}).get("removedFields")),
    ),
    "neither document": (
        {"$nor": [{"fullDocument.n": {"$lt": 50}}, {"documentKey._id": {"$type": "string"}}]},
        lambda e: not (_number(n := (e.get("fullDocument") or {}).get("n")) and n < 50)
        and not isinstance(e.get("documentKey", {}).get("_id"), str),
    ),
    "expression": (
        {"$expr": {"$eq": [{"$type": "$documentKey._id"}, "string"]}},
        lambda e: isinstance(e.get("documentKey", {}).get("_id"), str),
    ),
}


# --- what streams must show -------------------------------------------------------------------------


class Options:
    """What a stream watches and how: scope (), (db,) or (db, coll), and its options."""

    def __init__(self, scope, expanded=False, full="default", before="off", filter=None, raw=False,
                 split=False, version=2):
        self.scope = scope
        self.expanded = expanded
        self.full = full
        self.before = before
        self.filter = filter
        self.raw = raw  # rawUpdateDescription
        self.split = split  # the pipeline ends with $changeStreamSplitLargeEvent
        self.version = version  # of tokens

    def __repr__(self):
        return f"Options{tuple(vars(self).values())}"

    def stage(self, **start):
        stage = dict(start)
        if not self.scope:
            stage["allChangesForCluster"] = True
        if self.expanded:
            stage["showExpandedEvents"] = True
        if self.full != "default":
            stage["fullDocument"] = self.full
        if self.before != "off":
            stage["fullDocumentBeforeChange"] = self.before
        if self.raw:
            stage["showRawUpdateDescription"] = True
        return stage

    def pipeline(self, **start):
        match = [{"$match": FILTERS[self.filter][0]}] if self.filter else []
        split = [{"$changeStreamSplitLargeEvent": {}}] if self.split else []
        return [{"$changeStream": self.stage(**start)}, *match, *split]

    def _in_scope(self, event):
        names = [tuple(event["ns"].values())]
        if "to" in event:
            names.append(tuple(event["to"].values()))
        return any(name[: len(self.scope)] == self.scope for name in names)

    def _ends(self, event):
        kind = event["operationType"]
        if len(self.scope) == 2:
            return kind in ("drop", "rename", "dropDatabase")
        return len(self.scope) == 1 and kind == "dropDatabase"

    def shape(self, event):
        """The event as these options show it."""
        e = dict(event)
        if not self.expanded:
            e.pop("collectionUUID", None)
            e.pop("operationDescription", None)
            if "updateDescription" in e:
                description = dict(e["updateDescription"])
                description.pop("disambiguatedPaths", None)
                e["updateDescription"] = description
        if self.before == "off":
            e.pop("fullDocumentBeforeChange", None)
        if e["operationType"] == "update":
            if self.full == "default":
                e.pop("fullDocument", None)
        return e

    def fails(self, event):
        """Whether the event ends the stream with error 47: an image that must be there is not."""
        kind = event["operationType"]
        if self.before == "required" and kind in ("update", "replace", "delete"):
            return event["fullDocumentBeforeChange"] is None
        return self.full == "required" and kind == "update" and event["fullDocument"] is None

    def expected(self, log):
        """All that a stream of these options would show of the log, whatever ended in between."""
        shown = []
        for event in log:
            if not self._in_scope(event) or not (self.expanded or event["operationType"] in CLASSIC):
                continue
            found = [event]
            if self._ends(event):
                found.append(invalidate_of(event))
            for e in found:
                accepted = self.filter is None or FILTERS[self.filter][1](self.shape(e))
                if accepted or e["operationType"] == "invalidate":
                    shown.append(Shown(self, e, event, accepted))
        return Expected(self, shown)


class Shown:
    """An event as a stream shows it, or the silent end of a stream that filters `invalidate`."""

    def __init__(self, options, event, source, visible):
        self.options, self.event, self.source = options, event, source
        self.token = sort_key(event["_id"])
        self.fails = visible and event is source and options.fails(source)
        self.ends = event["operationType"] == "invalidate" or self.fails
        self.visible = visible and not self.fails
        self._bytes = None

    def check(self, model, raw, where):
        """Asserts that these are the bytes of the event."""
        update = self.source["operationType"] == "update"
        looks_up = update and self.options.full == "updateLookup"
        if self.options.version == 1 or looks_up or update and self.options.raw:
            event = self._like(model, decode(raw), looks_up, where)
            assert raw == encode(event), f"{where}: expected {event}, got {decode(raw)}"
            return
        if self._bytes is None:
            self._bytes = encode(self.options.shape(self.event))
        if raw != self._bytes:
            raise AssertionError(f"{where}: expected {decode(self._bytes)}, got {decode(raw)}")

    def _like(self, model, got, looks_up, where):
        """The event with what only the server knows, which is checked first."""
        event = self.options.shape(self.event)
        if self.options.version == 1:
            assert version_of(got["_id"]) == 1 and sort_key(got["_id"]) == self.token, where
            event["_id"] = got["_id"]
        if looks_up:
            assert model.looked_up(self.source, got["fullDocument"]), f"{where}: lookup {got}"
            event["fullDocument"] = got["fullDocument"]
        if self.options.raw and "updateDescription" in event:
            told = {k: v for k, v in event["updateDescription"].items() if k != "disambiguatedPaths"}
            raw = got["rawUpdateDescription"]
            assert list(raw) == ["$v", "diff"] and describe(raw["diff"]) == told, f"{where}: {raw} for {told}"
            event = {"rawUpdateDescription" if k == "updateDescription" else k: v for k, v in event.items()}
            event["rawUpdateDescription"] = raw
        return event


class Expected:
    """What streams of the same options show, each from its place on."""

    def __init__(self, options, shown):
        self.options = options
        self.shown = shown
        self.tokens = [s.token for s in shown]
        self._ends = [i for i, s in enumerate(shown) if s.ends]

    def first_after(self, token):
        return bisect.bisect_right(self.tokens, token)

    def first_at(self, time):
        """The first at or after a clusterTime."""
        return bisect.bisect_left(self.tokens, f"82{time.time:08X}{time.inc:08X}")

    def run(self, first, limit=None):
        """The events from there to the end of the log or of the stream; and whether that ends."""
        at = bisect.bisect_left(self._ends, first)
        ends = at < len(self._ends)
        last = self._ends[at] + 1 if ends else len(self.shown)
        if limit is not None and last - first > limit:
            last, ends = first + limit, False
        return [s for s in self.shown[first:last] if s.visible], ends

    def fails(self, first):
        """Whether the stream from there ends with an error."""
        at = bisect.bisect_left(self._ends, first)
        return at < len(self._ends) and self.shown[self._ends[at]].fails

    def check(self, model, part, first, whole):
        """Compares what a stream gave with the run from `first`; `whole`: to its end."""
        got = part.events
        events, ends = self.run(first, None if whole or part.failed else len(got) + 1)
        where = f"{self.options} from {first}"
        assert len(got) <= len(events), f"{where}: too many events: {decode(got[len(events)])}"
        for raw, event in zip(got, events):
            event.check(model, raw, where)
        if part.failed:  # what was in the batch already is not shown
            assert self.fails(first), f"{where}: no image is missing"
        elif whole:
            missing = events[len(got) :]
            assert not missing, f"{where}: {len(missing)} events are missing, first {missing[0].token}"
            assert not self.fails(first), f"{where}: an image is missing"
            assert part.ended == ends, f"{where}: ended {part.ended}, wanted {ends}"
