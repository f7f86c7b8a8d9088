# SPDX-License-Identifier: GPL-3.0-or-later
"""A session whose transactions are spoken by hand."""

import uuid

from bson import Binary, Int64


def lsid():
    return {"id": Binary(uuid.uuid4().bytes, 4)}


class RawSession:
    def __init__(self, raw, db, session=None):
        self.raw = raw
        self.db = db
        self.lsid = session or lsid()
        self.number = 0

    def fields(self, **more):
        return {"lsid": self.lsid, "txnNumber": Int64(self.number), "autocommit": False, **more}

    def start(self, command, number=None, **more):
        """The first command of a new transaction."""
        self.number = self.number + 1 if number is None else number
        return self.run(command, startTransaction=True, **more)

    def run(self, command, db=None, **more):
        return self.raw.command({**command, **self.fields(**more)}, db or self.db)

    def commit(self, **more):
        return self.run({"commitTransaction": 1}, db="admin", **more)

    def abort(self, **more):
        return self.run({"abortTransaction": 1}, db="admin", **more)

    def retryable(self, command, number):
        """Outside of a transaction, as a retryable write."""
        return self.raw.command({**command, "lsid": self.lsid, "txnNumber": Int64(number)}, self.db)


def insert(i, coll="c"):
    return {"insert": coll, "documents": [{"_id": i}]}


def labels(reply):
    return reply.get("errorLabels", [])
