# SPDX-License-Identifier: GPL-3.0-or-later
"""Random $match filters on change events: all operators, all fields, values that events have."""

from bson import Regex

PATHS = (
    "operationType", "operationType", "ns", "ns.db", "ns.coll", "documentKey", "documentKey._id",
    "documentKey._id", "documentKey._id.k", "fullDocument", "fullDocument._id", "fullDocument.n",
    "fullDocument.n", "fullDocument.list", "fullDocument.list.0", "fullDocument.docs.v",
    "fullDocument.docs.1", "fullDocument.a", "fullDocument.a.0.b", "updateDescription",
    "updateDescription.updatedFields", "updateDescription.updatedFields.n",
    "updateDescription.updatedFields.m", "updateDescription.updatedFields.list",
    "updateDescription.updatedFields.list.1", "updateDescription.removedFields",
    "updateDescription.removedFields.0", "updateDescription.truncatedArrays",
    "updateDescription.truncatedArrays.field", "updateDescription.truncatedArrays.0.newSize",
    "updateDescription.disambiguatedPaths", "rawUpdateDescription.diff.u.n", "clusterTime",
    "wallTime", "to", "to.db", "to.coll", "_id", "_id._data", "txnNumber", "lsid",
    "collectionUUID", "operationDescription", "operationDescription.to.coll",
    "operationDescription.indexes.name", "stateBeforeChange", "fullDocumentBeforeChange",
    "fullDocumentBeforeChange.n", "splitEvent", "nothing", "nothing.at.all",
)
TYPES = ("string", "object", "array", "number", "null", "date", "timestamp", "binData", 16)


def lookup(event, path):
    for part in path.split("."):
        if isinstance(event, list) and part.isdigit() and int(part) < len(event):
            event = event[int(part)]
        elif isinstance(event, dict) and part in event:
            event = event[part]
        else:
            return None
    return event


class Filters:
    """Filters whose values are taken from the given events (or are near them)."""

    def __init__(self, rng, events):
        self.rng, self.events = rng, events

    def stages(self):
        """One to three stages, mostly $match alone."""
        stages = [{"$match": self.filter(2)}]
        while self.rng.random() < 0.25:
            stages.append({"$match": self.filter(1)})
        if self.rng.random() < 0.1:
            stages.insert(self.rng.randrange(2), {"$set": {"extra": "$ns"}})
        return stages

    def filter(self, depth):
        rng, out = self.rng, {}
        for _ in range(1 + rng.randrange(3)):
            form = rng.random()
            if form < 0.1:
                out["$expr"] = self.expression(2)
            elif form < 0.35 and depth > 0:
                out[rng.choice(("$and", "$or", "$nor"))] = [
                    self.filter(depth - 1) for _ in range(1 + rng.randrange(3))]
            else:
                path = rng.choice(PATHS)
                out[path] = self.condition(path)
        return out

    def value(self, path):
        rng = self.rng
        if rng.random() < 0.75:
            return lookup(rng.choice(self.events), path)
        return rng.choice((None, 1, "x", [], {}, "insert", {"k": 3}, [1, 2], 5.0, True))

    def condition(self, path):
        rng = self.rng
        if rng.random() < 0.3:
            return self.value(path)
        if rng.random() < 0.1:
            return self.regex()
        operators = self.operators(path)
        return {"$not": operators} if rng.random() < 0.15 else operators

    def regex(self):
        return Regex(self.rng.choice(("^u", "e", "S", "[xy]$", "^w0-1")), self.rng.choice(("", "i")))

    def operators(self, path):
        rng = self.rng
        values = [self.value(path) for _ in range(1 + rng.randrange(4))]
        return rng.choice((
            {rng.choice(("$eq", "$ne", "$lt", "$lte", "$gt", "$gte")): values[0]},
            {"$gt": values[0], "$lte": values[-1]},
            {"$in": [*values, *([self.regex()] if rng.random() < 0.3 else [])]},
            {"$nin": [*values, *([self.regex()] if rng.random() < 0.3 else [])]},
            {"$exists": rng.random() < 0.5},
            {"$type": rng.choice(TYPES)},
            {"$size": rng.randrange(4)},
            {"$mod": [3, rng.randrange(3)]},
            {"$regex": self.regex()},
            {"$all": values},
            {"$elemMatch": {"$gte": rng.randrange(10)}},
            {"$elemMatch": {"v": {"$lt": 2}}},
            {"$elemMatch": {"field": {"$exists": True}}},
            {"$bitsAnySet": rng.randrange(16)},
        ))

    def expression(self, depth):
        rng = self.rng
        path = rng.choice(PATHS)
        if depth == 0 or rng.random() < 0.3:
            return rng.choice((f"${path}", f"$$ROOT.{path}", {"$literal": self.value(path)}))
        one, two = self.expression(depth - 1), self.expression(depth - 1)
        return rng.choice((
            {rng.choice(("$eq", "$ne", "$gt", "$lte")): [f"${path}", {"$literal": self.value(path)}]},
            {"$and": [one, two]}, {"$or": [one, two]}, {"$not": [one]}, {"$ifNull": [one, two]},
            {"$eq": [{"$type": one}, "missing"]}, {"$isArray": [one]},
            {"$eq": [{"$getField": rng.choice(("ns", "_id"))}, one]},
            {"$let": {"vars": {"v": one}, "in": {"$eq": ["$$v", two]}}},
            # these fail on values of other types
            {"$gt": [{"$add": [one, 1]}, 3]}, {"$gt": [{"$size": f"${path}"}, 0]},
            {"$in": [1, f"${path}"]}, {"$gt": [{"$strLenCP": f"${path}"}, 3]},
        ))
