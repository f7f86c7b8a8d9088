# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the drivers' unified specification tests, as far as they say something about the server.

What a test's operations give, their errors, what the collections hold afterwards: checked. Which
commands the driver sent (expectEvents): not checked, that is PyMongo's business.
"""

import datetime
import inspect
import re
import time

import gridfs
import pymongo
import pytest
from bson import Binary, Decimal128, Int64, ObjectId, Regex, Timestamp, json_util
from pymongo import ReturnDocument, monitoring
from pymongo.cursor import Cursor
from pymongo.errors import (BulkWriteError, ClientBulkWriteException, ConnectionFailure,
                            OperationFailure, PyMongoError)
from pymongo.operations import (DeleteMany, DeleteOne, InsertOne, ReplaceOne, SearchIndexModel,
                                UpdateMany, UpdateOne)
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import make_read_preference, read_pref_mode_from_name
from pymongo.server_api import ServerApi
from pymongo.synchronous.client_session import TransactionOptions, _TxnState
from pymongo.write_concern import WriteConcern

JSON = json_util.JSONOptions(json_mode=json_util.JSONMode.RELAXED, tz_aware=True)
EVENT_TIMEOUT_S = 20
NOT_IMPLEMENTED = 238


class Unsupported(Exception):
    """The test needs something this runner or PyMongo does not do."""


def load(path):
    return json_util.loads(path.read_text(), json_options=JSON)


def version(text):
    return tuple(int(part) for part in text.split("."))


def unmet(requirements, server_version, parameters):
    """Why none of the requirements holds, or None."""
    if not requirements:
        return None
    for r in requirements:
        if not (version(r.get("minServerVersion", "0")) <= server_version
                <= version(r.get("maxServerVersion", "999"))):
            continue
        if any(parameters.get(k) != v for k, v in r.get("serverParameters", {}).items()):
            continue
        if "replicaset" in r.get("topologies", ["replicaset"]) and not r.get("auth") \
                and r.get("serverless") != "require":
            return None
    return "for other servers"


def snake(name):
    return re.sub(r"([A-Z])", lambda m: "_" + m.group(1).lower(), name)


# --- matching -------------------------------------------------------------------------------------

TYPES = {
    "double": float, "string": str, "object": dict, "array": list, "binData": (bytes, Binary),
    "objectId": ObjectId, "bool": bool, "date": datetime.datetime, "null": type(None),
    "regex": Regex, "int": int, "long": (int, Int64), "timestamp": Timestamp,
    "decimal": Decimal128, "number": (int, float, Decimal128),
}


def special(entities, expected, actual, present, where):
    (name, want), = expected.items()
    if name == "$$exists":
        assert present == want, f"{where}: present is {present}"
    elif name == "$$type":
        names = [want] if isinstance(want, str) else want
        assert present and any(isinstance(actual, TYPES[n]) for n in names), f"{where}: {actual!r}"
    elif name == "$$unsetOrMatches":
        if present and actual is not None:
            match(entities, want, actual, where)
    elif name == "$$matchesEntity":
        match(entities, entities[want], actual, where)
    elif name == "$$matchesHexBytes":
        assert actual == bytes.fromhex(want), where
    elif name == "$$sessionLsid":
        assert actual == entities[want].session_id, where
    else:
        raise Unsupported(name)


def is_special(v):
    return isinstance(v, dict) and len(v) == 1 and next(iter(v)).startswith("$$")


def match(entities, expected, actual, where="", root=True):
    if is_special(expected):
        special(entities, expected, actual, True, where)
    elif isinstance(expected, dict):
        assert isinstance(actual, dict), f"{where}: {actual!r} is no document"
        for key, want in expected.items():
            at = f"{where}.{key}"
            if is_special(want):
                special(entities, want, actual.get(key), key in actual, at)
            else:
                assert key in actual, f"{at} is missing in {actual!r}"
                match(entities, want, actual[key], at, False)
        assert root or set(actual) <= set(expected), f"{where}: {actual!r} has more fields"
    elif isinstance(expected, list):
        assert isinstance(actual, list) and len(actual) == len(expected), f"{where}: {actual!r}"
        for i, (want, got) in enumerate(zip(expected, actual)):
            match(entities, want, got, f"{where}[{i}]", root)
    else:
        assert isinstance(actual, bool) == isinstance(expected, bool), f"{where}: {actual!r}"
        assert actual == expected, f"{where}: {actual!r} is not {expected!r}"


# --- results as the specification names them ------------------------------------------------------


def bulk_result(details):
    return {
        "deletedCount": details["nRemoved"],
        "insertedCount": details["nInserted"],
        "matchedCount": details["nMatched"],
        "modifiedCount": details["nModified"],
        "upsertedCount": details["nUpserted"],
        "upsertedIds": {str(u["index"]): u["_id"] for u in details["upserted"]},
    }


def client_bulk_result(result):
    """Of MongoClient.bulk_write(), also the part of it that an error tells."""
    counts = {name: getattr(result, snake(name)) for name in (
        "insertedCount", "upsertedCount", "matchedCount", "modifiedCount", "deletedCount")}
    if not result.has_verbose_results:
        return counts
    each = {name: {str(i): plain(r) for i, r in getattr(result, snake(name)).items()}
            for name in ("insertResults", "updateResults", "deleteResults")}
    for updated in each["updateResults"].values():
        del updated["upsertedCount"]  # the specification counts them here for all together
    return {**counts, **each}


def plain(result):
    """A PyMongo result as a document."""
    name = type(result).__name__
    if not getattr(result, "acknowledged", True):
        return {"acknowledged": False}
    if name == "InsertOneResult":
        return {"insertedId": result.inserted_id}
    if name == "InsertManyResult":
        return {"insertedIds": {str(i): v for i, v in enumerate(result.inserted_ids)}}
    if name == "UpdateResult":
        out = {"matchedCount": result.matched_count, "modifiedCount": result.modified_count,
               "upsertedCount": 0 if result.upserted_id is None else 1}
        if result.upserted_id is not None:
            out["upsertedId"] = result.upserted_id
        return out
    if name == "DeleteResult":
        return {"deletedCount": result.deleted_count}
    if name == "BulkWriteResult":
        return bulk_result(result.bulk_api_result)
    if name == "ClientBulkWriteResult":
        return client_bulk_result(result)
    return result


# --- a test at work -------------------------------------------------------------------------------


def options(method, arguments):
    """Arguments as keywords of the method, with the values that PyMongo wants."""
    known = inspect.signature(method).parameters
    out = {}
    for key, value in arguments.items():
        if key == "rawData":
            raise Unsupported(key)
        if key in ("hint", "keys") and isinstance(value, dict):
            value = list(value.items())
        elif key == "returnDocument":
            value = ReturnDocument.AFTER if value == "After" else ReturnDocument.BEFORE
        # What the method does not name goes into the command as it is.
        name = {"fieldName": "key", "timeoutMS": "timeout_ms",
                "maxTimeMS": "max_time_ms"}.get(key, snake(key))
        out[name if name in known else key] = value
    return out


def write_request(request):
    (name, arguments), = request.items()
    kinds = {"insertOne": InsertOne, "updateOne": UpdateOne, "updateMany": UpdateMany,
             "replaceOne": ReplaceOne, "deleteOne": DeleteOne, "deleteMany": DeleteMany}
    return kinds[name](**options(kinds[name], arguments))


def server_api(spec):
    return ServerApi(spec["version"], strict=spec.get("strict"),
                     deprecation_errors=spec.get("deprecationErrors"))


class Commands(monitoring.CommandListener):
    """The lsids of what a client sent, in order."""

    def __init__(self):
        self.lsids = []

    def started(self, event):
        if event.command_name != "configureFailPoint":
            self.lsids.append(event.command.get("lsid"))

    def succeeded(self, event):
        pass

    def failed(self, event):
        pass


class Run:
    """The entities of one test."""

    def __init__(self, srv, data, test):
        self.srv = srv
        self.data = data
        self.test = test
        self.entities = {}
        self.opened = []
        self.failpoints = []
        self.commands = {}
        self.wants_secondary = "'secondary'" in repr(test)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for name in self.failpoints:
            self.own.admin.command("configureFailPoint", name, mode="off")
        for o in reversed(self.opened):
            o.close() if hasattr(o, "close") else o.end_session()

    def client(self, **kwargs):
        # A driver that took an error for news waits for the next heartbeat: let it come soon.
        c = pymongo.MongoClient(self.srv.uri, **{
            "serverSelectionTimeoutMS": 20000, "heartbeatFrequencyMS": 500, "tz_aware": True,
            **kwargs})
        self.opened.append(c)
        return c

    def run(self):
        self.own = self.client()
        # Transactions that an earlier test left open would hold up what makes the data.
        self.own.admin.command("killAllSessions", [])
        self.set_up_data()
        for entity in self.data["createEntities"]:
            self.create_entity(entity)
        for operation in self.test["operations"]:
            self.operation(operation)
        self.check_outcome()

    def set_up_data(self):
        for coll in self.data.get("initialData", []):
            db = self.own[coll["databaseName"]]
            db.drop_collection(coll["collectionName"])
            db.create_collection(coll["collectionName"], **coll.get("createOptions", {}))
            if coll["documents"]:
                db[coll["collectionName"]].insert_many(coll["documents"])

    def create_entity(self, entity):
        (kind, spec), = entity.items()
        if kind == "client":
            if "autoEncryptOpts" in spec:
                raise Unsupported("autoEncryptOpts")
            extra = {"server_api": server_api(spec["serverApi"])} if "serverApi" in spec else {}
            listener = self.commands[spec["id"]] = Commands()
            options_of_uri = spec.get("uriOptions", {})
            if self.wants_secondary:
                extra["serverSelectionTimeoutMS"] = 1000  # there is none
            made = self.client(event_listeners=[listener], **extra, **options_of_uri)
        elif kind == "database":
            made = self.entities[spec["client"]].get_database(
                spec["databaseName"], **self.concerns(spec.get("databaseOptions", {})))
        elif kind == "collection":
            made = self.entities[spec["database"]].get_collection(
                spec["collectionName"], **self.concerns(spec.get("collectionOptions", {})))
        elif kind == "session":
            made = self.entities[spec["client"]].start_session(
                **self.session_options(spec.get("sessionOptions", {})))
            self.opened.append(made)
        elif kind == "bucket":
            made = gridfs.GridFSBucket(self.entities[spec["database"]])
        else:
            raise Unsupported(f"entity {kind}")
        self.entities[spec["id"]] = made

    @classmethod
    def session_options(cls, spec):
        out = {}
        for key, value in spec.items():
            if key == "defaultTransactionOptions":
                value = TransactionOptions(**cls.transaction_options(value))
            elif key not in ("causalConsistency", "snapshot"):
                raise Unsupported(f"session option {key}")
            out[snake(key)] = value
        return out

    @classmethod
    def transaction_options(cls, spec):
        ready = {k: v for k, v in spec.items() if k == "read_preference"}
        if ready and ready["read_preference"].mode != 0:
            raise Unsupported("a secondary, which PyMongo looks for before it refuses it")
        if "maxCommitTimeMS" in spec:
            ready["max_commit_time_ms"] = spec["maxCommitTimeMS"]
        return {**cls.concerns({k: v for k, v in spec.items()
                                if k not in ("read_preference", "maxCommitTimeMS")}), **ready}

    @staticmethod
    def concerns(spec):
        out = {}
        for key, value in spec.items():
            if key == "readConcern":
                out["read_concern"] = ReadConcern(**value)
            elif key == "writeConcern":
                names = {"journal": "j", "wtimeoutMS": "wtimeout"}
                out["write_concern"] = WriteConcern(
                    **{names.get(k, k): v for k, v in value.items()})
            elif key == "readPreference":
                out["read_preference"] = make_read_preference(
                    read_pref_mode_from_name(value["mode"]), None)
            else:
                raise Unsupported(key)
        return out

    def operation(self, o, hand_on=False):
        """hand_on: an expected error is raised all the same, for the transaction around it."""
        expected = o.get("expectError")
        try:
            result = plain(self.perform(o))
        except (PyMongoError, ValueError, TypeError) as e:
            unbuilt = self.unbuilt(e)
            if unbuilt is not None:
                raise Unsupported(unbuilt) from None
            if o.get("ignoreResultAndError"):
                return
            if hand_on and expected is None:
                raise
            if expected is None or (isinstance(e, TypeError) and not expected.get("isClientError")):
                raise
            self.check_error(expected, e)
            if hand_on:
                raise
            return
        assert expected is None, f"{o['name']} gave {result!r} and should have failed"
        if "expectResult" in o:
            match(self.entities, o["expectResult"], result, o["name"])
        if "saveResultAsEntity" in o:
            self.entities[o["saveResultAsEntity"]] = result

    @staticmethod
    def unbuilt(e):
        """What the server said when it does not do something yet, or None."""
        if isinstance(e, ClientBulkWriteException):
            e = e.error
        return e.details["errmsg"] if getattr(e, "code", None) == NOT_IMPLEMENTED else None

    def check_client_bulk_error(self, expected, e):
        """Of MongoClient.bulk_write(): its parts; what is left is said of the error in it."""
        partial = e.partial_result
        if "expectResult" in expected:
            want = expected["expectResult"]
            if partial is None or not partial.acknowledged or not any(
                    client_bulk_result(partial).values()):
                assert "$$unsetOrMatches" in want, e.details
            else:
                match(self.entities, want, client_bulk_result(partial), "partial result")
        for index, want in expected.get("writeErrors", {}).items():
            got = next(w for w in e.write_errors if w["idx"] == int(index))
            match(self.entities, {"code": want["code"]}, got)
        assert len(e.write_errors) == len(expected.get("writeErrors", e.write_errors))
        if "writeConcernErrors" in expected:
            match(self.entities, expected["writeConcernErrors"],
                  [{"code": w["code"], "message": w["errmsg"]} for w in e.write_concern_errors])

    def check_error(self, expected, e):
        if isinstance(e, ClientBulkWriteException):
            self.check_client_bulk_error(expected, e)
            if e.error is None:
                return
            expected = {k: v for k, v in expected.items() if k != "expectResult"}
            e = e.error
        details = getattr(e, "details", None) or {}
        code = getattr(e, "code", None) or details.get("code")
        if isinstance(e, BulkWriteError) and details.get("writeErrors"):
            code = details["writeErrors"][0]["code"]
        from_client = not isinstance(e, (OperationFailure, ConnectionFailure))
        if "isClientError" in expected:
            assert (from_client or isinstance(e, ConnectionFailure)) == expected["isClientError"], e
        if "errorContains" in expected:
            assert expected["errorContains"].lower() in str(e).lower()
        if "errorCode" in expected:
            assert code == expected["errorCode"], e
        if "errorCodeName" in expected:
            assert details.get("codeName") == expected["errorCodeName"], e
        for label in expected.get("errorLabelsContain", []):
            assert e.has_error_label(label) or label in details.get("errorLabels", []), \
                f"{label} is not in {details}"
        for label in expected.get("errorLabelsOmit", []):
            assert not e.has_error_label(label), f"{label} is in {details}"
        if "expectResult" in expected and isinstance(e, BulkWriteError):
            match(self.entities, expected["expectResult"], bulk_result(details))
        if "errorResponse" in expected:
            match(self.entities, expected["errorResponse"], details)

    def perform(self, o):
        arguments = dict(o.get("arguments", {}))
        for key in ("session",):
            if key in arguments:
                arguments[key] = self.entities[arguments[key]]
        if "readPreference" in arguments:
            arguments.update(self.concerns({"readPreference": arguments.pop("readPreference")}))
        if o["object"] == "testRunner":
            method = getattr(self, f"runner_{snake(o['name'])}", None)
        else:
            method = getattr(self, f"do_{snake(o['name'])}", None)
            if method is not None:
                return method(self.entities[o["object"]], arguments)
            method = getattr(self.entities[o["object"]], snake(o["name"]), None)
            if not callable(method) or isinstance(method, pymongo.collection.Collection):
                raise Unsupported(o["name"])
            return method(**options(method, arguments))
        if method is None:
            raise Unsupported(o["name"])
        return method(arguments)

    # Operations whose PyMongo form differs from the specification's.

    def do_find(self, coll, a):
        return list(coll.find(**options(Cursor.__init__, a)))

    def do_aggregate(self, target, a):
        return list(target.aggregate(**options(target.aggregate, a)))

    def do_insert_many(self, coll, a):
        return coll.insert_many(**options(coll.insert_many, a))

    def do_drop_database(self, client, a):
        client.drop_database(a.pop("database"), **a)

    def do_create_search_index(self, coll, a):
        return coll.create_search_index(SearchIndexModel(**a["model"]))

    def do_create_search_indexes(self, coll, a):
        return coll.create_search_indexes([SearchIndexModel(**m) for m in a["models"]])

    def do_list_search_indexes(self, coll, a):
        return list(coll.list_search_indexes(a.pop("name", None), **a.pop("aggregationOptions", {})))

    def do_bulk_write(self, coll, a):
        requests = [write_request(r) for r in a.pop("requests")]
        return coll.bulk_write(requests, **options(coll.bulk_write, a))

    def do_client_bulk_write(self, client, a):
        models = [write_request(m) for m in a.pop("models")]
        a.update(self.concerns({"writeConcern": a.pop("writeConcern")})
                 if "writeConcern" in a else {})
        return client.bulk_write(models, **options(client.bulk_write, a))

    def do_count(self, coll, a):
        raise Unsupported("count")

    def do_run_command(self, db, a):
        command = a.pop("command")
        first = a.pop("commandName")
        ordered = {first: command.pop(first), **command}
        return db.command(ordered, **options(db.command, a))

    def do_create_command_cursor(self, db, a):
        command = a.pop("command")
        first = a.pop("commandName")
        if a.pop("cursorType", None) is not None:
            raise Unsupported("cursorType")
        batch_size = a.pop("batchSize", 0)
        a.pop("maxTimeMS", None)
        cursor = db.cursor_command({first: command.pop(first), **command},
                                   **options(db.cursor_command, a))
        self.opened.append(cursor)
        return cursor.batch_size(batch_size)

    def do_run_cursor_command(self, db, a):
        return list(self.do_create_command_cursor(db, a))

    def do_download(self, bucket, a):
        return bucket.open_download_stream(a["id"]).read()

    def do_download_by_name(self, bucket, a):
        return bucket.open_download_stream_by_name(a["filename"], a.get("revision", -1)).read()

    def do_delete(self, bucket, a):
        bucket.delete(a["id"])

    def do_upload(self, bucket, a):
        if "disableMD5" in a:
            raise Unsupported("disableMD5")
        return bucket.upload_from_stream(
            a["filename"], bytes.fromhex(a["source"]["$$hexBytes"]),
            chunk_size_bytes=a.get("chunkSizeBytes"), metadata=a.get("metadata"))

    def do_create_collection(self, db, a):
        db.create_collection(a.pop("collection"), **a)

    def do_drop_collection(self, db, a):
        db.drop_collection(a.pop("collection"), **options(db.drop_collection, a))

    def do_modify_collection(self, db, a):
        db.command({"collMod": a.pop("collection"), **a})

    def do_list_collections(self, db, a):
        return list(db.list_collections(**options(db.list_collections, a)))

    def do_list_databases(self, client, a):
        return list(client.list_databases(**options(client.list_databases, a)))

    def do_list_indexes(self, coll, a):
        return list(coll.list_indexes(**options(coll.list_indexes, a)))

    def do_drop_index(self, coll, a):
        coll.drop_index(a.pop("name"), **options(coll.drop_index, a))

    def do_create_index(self, coll, a):
        return coll.create_index(**options(coll.create_index, a))

    def do_rename(self, target, a):
        if isinstance(target, gridfs.GridFSBucket):
            return target.rename(a["id"], a["newFilename"])
        return target.rename(a.pop("to"), **a)

    def do_create_change_stream(self, target, a):
        stream = target.watch(**options(target.watch, a))
        self.opened.append(stream)
        return stream

    def do_iterate_until_document_or_error(self, stream, a):
        deadline = time.monotonic() + EVENT_TIMEOUT_S
        while time.monotonic() < deadline:
            if (event := stream.try_next() if hasattr(stream, "try_next") else next(stream)) \
                    is not None:
                return event
        raise AssertionError("no event")

    def do_iterate_once(self, stream, a):
        return stream.try_next()

    def do_close(self, entity, a):
        entity.close()

    def do_end_session(self, session, a):
        session.end_session()

    def do_start_transaction(self, session, a):
        session.start_transaction(**self.transaction_options(a))

    def do_with_transaction(self, session, a):
        operations = a.pop("callback")

        def run_all(_):
            for operation in operations:
                self.operation(operation, hand_on=True)

        session.with_transaction(run_all, **self.transaction_options(a))

    def runner_fail_point(self, a):
        command = a["failPoint"]
        self.entities[a["client"]].admin.command(command)
        self.failpoints.append(command["configureFailPoint"])

    def runner_targeted_fail_point(self, a):
        # The member that the session's transaction is pinned to: there is only one.
        a["session"].client.admin.command(a["failPoint"])
        self.failpoints.append(a["failPoint"]["configureFailPoint"])

    def runner_assert_session_transaction_state(self, a):
        assert a["session"]._transaction.state \
            == getattr(_TxnState, a["state"].upper())

    def runner_assert_session_unpinned(self, a):
        assert a["session"]._pinned_address is None

    def index_names(self, a):
        return [i["name"] for i in
                self.own[a["databaseName"]][a["collectionName"]].list_indexes()]

    def runner_assert_index_exists(self, a):
        assert a["indexName"] in self.index_names(a)

    def runner_assert_index_not_exists(self, a):
        assert a["indexName"] not in self.index_names(a)

    def runner_assert_collection_exists(self, a):
        assert a["collectionName"] in self.own[a["databaseName"]].list_collection_names()

    def runner_assert_collection_not_exists(self, a):
        assert a["collectionName"] not in self.own[a["databaseName"]].list_collection_names()

    def runner_create_entities(self, a):
        for entity in a["entities"]:
            self.create_entity(entity)

    def last_two_lsids(self, a):
        lsids = self.commands[a["client"]].lsids[-2:]
        assert len(lsids) == 2 and None not in lsids
        return lsids

    def runner_assert_same_lsid_on_last_two_commands(self, a):
        first, second = self.last_two_lsids(a)
        assert first == second

    def runner_assert_different_lsid_on_last_two_commands(self, a):
        first, second = self.last_two_lsids(a)
        assert first != second

    def runner_assert_session_dirty(self, a):
        assert a["session"]._server_session.dirty

    def runner_assert_session_not_dirty(self, a):
        assert not a["session"]._server_session.dirty

    def check_outcome(self):
        for coll in self.test.get("outcome", []):
            got = list(self.own[coll["databaseName"]][coll["collectionName"]].find(
                sort=[("_id", 1)]))
            assert got == coll["documents"]
            for one, want in zip(got, coll["documents"]):
                assert list(one) == list(want)


def cases(paths):
    """A pytest parameter for each test of the files: name, file, test."""
    for path in paths:
        data = load(path)
        if "createEntities" not in data:
            continue  # of an older format, or without a server
        for test in data["tests"]:
            name = f"{path.stem}: {test['description']}"
            yield pytest.param(name, data, test, id=name)


def run_case(srv, data, test, server_version, parameters):
    """Raises Unsupported for what the server or the runner does not do yet."""
    reason = test.get("skipReason") \
        or unmet(data.get("runOnRequirements"), server_version, parameters) \
        or unmet(test.get("runOnRequirements"), server_version, parameters)
    if reason:
        pytest.skip(reason)
    with Run(srv, data, test) as run:
        run.run()
