# SPDX-License-Identifier: GPL-3.0-or-later
"""The clients of the crash harness that watch: change streams, which go on from life to life by their
tokens, and one that tails the oplog.
"""

import bson
from bson import Int64

from crash_load import DB, OTHER, Client, consistent


def summary(event):
    """What an event says about a document, in the terms of the writers' logs."""
    key = event["documentKey"]["_id"]
    kind = event["operationType"]
    if kind == "delete":
        return "d", key, None
    if kind == "update":
        return "u", key, event["updateDescription"]["updatedFields"]["v"]
    return {"insert": "i", "replace": "r"}[kind], key, event["fullDocument"]["v"]


class Watcher(Client):
    """One change stream, from life to life: `events` and `tokens` belong to the whole run."""

    def __init__(self, port, stream):
        super().__init__(port)
        self.stream = stream

    def work(self):
        s = self.stream
        reply = self.sure(s.aggregate(), s.db)
        while True:
            s.take(reply["cursor"])
            self.ready.set()
            if reply["cursor"]["id"] == 0:  # invalidated
                reply = self.sure(s.aggregate(), s.db)
                continue
            reply = self.sure({
                "getMore": Int64(reply["cursor"]["id"]),
                "collection": s.cursor_collection,
                "maxTimeMS": 500,
            }, s.db)


class Stream:
    """What a watcher saw, briefly, and where it goes on. `how`: which token it resumes by; `scope`: a
    collection of DB, a database or "cluster"."""

    def __init__(self, scope, how, options):
        self.scope, self.how, self.options = scope, how, options
        self.db = {"cluster": "admin", OTHER: OTHER}.get(scope, DB)
        target = 1 if scope in ("cluster", DB, OTHER) else scope
        self.target = target
        self.cursor_collection = target if isinstance(target, str) else "$cmd.aggregate"
        self.events, self.token, self.batch_token = [], None, None
        self.start = None
        self.checked = 0  # so many events are known to be right
        self.expiring = False  # images may be missing

    def aggregate(self):
        token = self.token if self.how == "event" and self.token else self.batch_token
        where = {"startAtOperationTime": self.start} if token is None else {
            "startAfter" if self.how == "after" else "resumeAfter": token
        }
        return {
            "aggregate": self.target,
            "pipeline": [{"$changeStream": {**self.options, **where}}],
            "cursor": {},
        }

    def take(self, cursor):
        for event in cursor.get("firstBatch", cursor.get("nextBatch")):
            self.events.append((event["clusterTime"], self.brief(event)))
            self.token = event["_id"]
        self.batch_token = cursor["postBatchResumeToken"]

    def brief(self, event):
        if self.scope == OTHER:
            return self.with_image(event)
        if not isinstance(self.target, str):
            return event["operationType"]
        self.check_images(event)
        return summary(event)

    @staticmethod
    def with_image(event):
        """With the state that its image shows."""
        before = event.get("fullDocumentBeforeChange")
        assert before is None or consistent(before), event
        return event["operationType"], event.get("documentKey", {}).get("_id"), before and before["v"]

    def check_images(self, event):
        """Each image shows one state of the document, before and after."""
        before, after = event.get("fullDocumentBeforeChange"), event.get("fullDocument")
        kind = event["operationType"]
        if not self.expiring:
            assert (before is None) == (kind == "insert") and (after is None) == (kind == "delete"), event
        assert all(consistent(d) for d in (before, after) if d), event
        assert not (before and after) or after["v"] == before["v"] + 1, event


class Tailer(Client):
    """Reads the oplog as far as it is visible, durable or not: every optime that was ever used."""

    def __init__(self, port, after):
        super().__init__(port)
        self.after = after
        self.entries = {}

    def work(self):
        reply = self.sure({
            "find": "oplog.rs",
            "filter": {"ts": {"$gt": self.after}},
            "tailable": True,
            "awaitData": True,
        }, "local")
        while True:
            self.ready.set()
            cursor = reply["cursor"]
            for entry in cursor.get("firstBatch", cursor.get("nextBatch")):
                self.entries[entry["ts"]] = bson.encode(entry)
            reply = self.sure({"getMore": Int64(cursor["id"]), "collection": "oplog.rs", "maxTimeMS": 500}, "local")
