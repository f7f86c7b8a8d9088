# SPDX-License-Identifier: GPL-3.0-or-later
"""Money moves between accounts, clients change their minds, the server is killed: none of it is ever
lost, made or moved twice, for whoever looks by a snapshot or by a change stream.

A transfer changes two accounts and writes one line into the ledger, of another database, in one
transaction. `pytest --bank-seconds 300` runs it for longer.
"""

import collections
import random
import threading
import time
import uuid

import pymongo
from bson import Int64
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from raw import RawClient

ACCOUNTS = 12
START = 1000
CLIENTS = 8
ACCOUNTS_NS = ("bank", "accounts")
LEDGER_NS = ("books", "ledger")


def connect(srv):
    return pymongo.MongoClient(srv.uri, serverSelectionTimeoutMS=20000, heartbeatFrequencyMS=500)


def coll(client, ns):
    return client[ns[0]][ns[1]]


class Transfer:
    def __init__(self, rng):
        self.id = uuid.uuid4().hex
        self.source, self.target = rng.sample(range(ACCOUNTS), 2)
        self.amount = rng.randrange(1, 50)

    def run(self, client, session):
        accounts = coll(client, ACCOUNTS_NS)
        assert accounts.find_one({"_id": self.source}, session=session)
        for account, by in ((self.source, -self.amount), (self.target, self.amount)):
            accounts.update_one({"_id": account}, {"$inc": {"balance": by}}, session=session)
        coll(client, LEDGER_NS).insert_one(
            {"_id": self.id, "source": self.source, "target": self.target, "amount": self.amount},
            session=session)


class Bank:
    """What the clients know, and the failures of their threads."""

    def __init__(self, srv, seed):
        self.srv = srv
        self.seed = seed
        self.stop = threading.Event()
        self.mx = threading.Lock()
        self.failures = []
        self.committed = {}  # transfer id: (lsid, txnNumber)
        self.started = {}  # id of lsid: newest txnNumber
        self.aborted = set()
        self.seen = []  # transfers, as the stream tells them
        self.counts = collections.Counter()

    def thread(self, target, *args):
        def body():
            try:
                with connect(self.srv) as client:
                    target(client, *args)
            except BaseException as e:
                self.failures.append(e)
                self.stop.set()
                raise

        t = threading.Thread(target=body)
        t.start()
        return t

    def note(self, what):
        with self.mx:
            self.counts[what] += 1

    # --- clients ---

    def customer(self, client, number):
        rng = random.Random(self.seed * 100 + number)
        while not self.stop.is_set():
            with client.start_session() as session:
                for _ in range(20):
                    if not self.stop.is_set():
                        self.transfer(client, session, rng)

    def transfer(self, client, session, rng):
        transfer = Transfer(rng)
        session.start_transaction()
        name = self.name(session)
        with self.mx:
            self.started[bytes(name[0]["id"])] = name[1]
        try:
            transfer.run(client, session)
        except (OperationFailure, ConnectionFailure) as e:
            assert e.has_error_label("TransientTransactionError"), e
            self.note(f"transient {getattr(e, 'code', None)}")
            self.abort(session, transfer)
            return
        if rng.random() < 0.15:
            self.note("changed its mind")
            self.abort(session, transfer)
            return
        self.commit(session, transfer)

    @staticmethod
    def name(session):
        return session.session_id, session._server_session.transaction_id

    def abort(self, session, transfer):
        session.abort_transaction()
        with self.mx:
            self.aborted.add(transfer.id)

    def commit(self, session, transfer):
        name = self.name(session)
        while True:
            try:
                session.commit_transaction()
                break
            except PyMongoError as e:
                if e.has_error_label("TransientTransactionError"):
                    # It is known not to have happened: the server has forgotten it.
                    self.note(f"commit {getattr(e, 'code', None)}")
                    with self.mx:
                        self.aborted.add(transfer.id)
                    return
                assert e.has_error_label("UnknownTransactionCommitResult"), e
                self.note("commit unknown")
        with self.mx:
            self.committed[transfer.id] = name

    # --- who looks ---

    def auditor(self, client):
        """Adds up in a transaction, which reads one snapshot over several batches."""
        while not self.stop.is_set():
            try:
                with client.start_session() as session, session.start_transaction():
                    rows = list(coll(client, ACCOUNTS_NS).find(session=session, batch_size=3))
                    lines = list(coll(client, LEDGER_NS).find(session=session))
            except (OperationFailure, ConnectionFailure) as e:
                assert e.has_error_label("TransientTransactionError"), e
                continue
            assert balances(rows) == replay(lines)
            self.note("audits")

    def follow(self, client, token, state, done):
        """Applies the events to `state`, whole transactions at a time; resumes after the crash."""
        accounts_name = ACCOUNTS_NS[1]
        group = None
        while not done.is_set():
            try:
                with client.watch(resume_after=token) as stream:
                    while not done.is_set():
                        event = stream.try_next()
                        if event is None:
                            continue
                        name = (bytes(event["lsid"]["id"]), event["txnNumber"])
                        if group is not None and name != group:
                            assert sum(state.values()) == ACCOUNTS * START
                            self.note("followed")
                        group, token = name, stream.resume_token
                        if event["ns"]["coll"] == accounts_name:
                            fields = event["updateDescription"]["updatedFields"]
                            state[event["documentKey"]["_id"]] = fields["balance"]
                        else:
                            self.seen.append(event["documentKey"]["_id"])
            except ConnectionFailure:
                pass


def balances(rows):
    return {r["_id"]: r["balance"] for r in rows}


def replay(lines):
    state = {i: START for i in range(ACCOUNTS)}
    for line in lines:
        state[line["source"]] -= line["amount"]
        state[line["target"]] += line["amount"]
    return state


def retry_commits(srv, names):
    """A client that has not heard asks again, with the same number."""
    with RawClient(srv.port) as raw:
        for lsid, number in names:
            reply = raw.command({"commitTransaction": 1, "lsid": lsid, "txnNumber": Int64(number),
                                 "autocommit": False, "writeConcern": {"w": "majority"}})
            assert reply["ok"] == 1, reply


def last_of_sessions(bank):
    """The commits that nothing has followed in their session: only these can be asked for again."""
    return [(lsid, number) for lsid, number in bank.committed.values()
            if bank.started[bytes(lsid["id"])] == number]


def test_bank(disk_srv, request):
    seconds = request.config.getoption("--bank-seconds")
    seed = random.randrange(1 << 30)
    print("seed", seed)
    bank = Bank(disk_srv, seed)
    with connect(disk_srv) as client:
        coll(client, ACCOUNTS_NS).insert_many(
            [{"_id": i, "balance": START} for i in range(ACCOUNTS)])
        client[LEDGER_NS[0]].create_collection(LEDGER_NS[1])
        token = client.watch().resume_token
    state, done, heard = {i: START for i in range(ACCOUNTS)}, threading.Event(), {}
    follower = bank.thread(bank.follow, token, state, done)
    threads = [bank.thread(bank.customer, i) for i in range(CLIENTS)]
    threads.append(bank.thread(bank.auditor))
    try:
        for kill in (True, False):
            bank.stop.wait(seconds / 2)
            if kill and not bank.stop.is_set():
                disk_srv.kill()
                with bank.mx:
                    heard = dict(bank.committed)
                disk_srv.start()
    finally:
        bank.stop.set()
        for t in threads:
            t.join()
    with connect(disk_srv) as client:
        check_books(client, bank, state, done, heard)
        retry_commits(disk_srv, last_of_sessions(bank))
        after = balances(coll(client, ACCOUNTS_NS).find())
        assert after == {i: state[i] for i in range(ACCOUNTS)}
        disk_srv.kill()
        disk_srv.start()
        retry_commits(disk_srv, last_of_sessions(bank))
        assert balances(coll(client, ACCOUNTS_NS).find()) == after
        check_oplog(client, bank)
    follower.join()
    print(dict(bank.counts))
    assert not bank.failures
    assert last_of_sessions(bank)
    assert bank.counts["audits"] and bank.counts["followed"] and bank.counts["changed its mind"]


def check_books(client, bank, state, done, heard):
    lines = list(coll(client, LEDGER_NS).find())
    ids = {line["_id"] for line in lines}
    assert balances(coll(client, ACCOUNTS_NS).find()) == replay(lines)
    assert set(heard) <= set(bank.committed) <= ids
    assert not ids & bank.aborted
    deadline = time.monotonic() + 30
    while len(bank.seen) < len(lines) and time.monotonic() < deadline and not bank.failures:
        time.sleep(0.05)
    done.set()
    assert len(bank.seen) == len(set(bank.seen)) and set(bank.seen) == ids
    assert {i: state[i] for i in range(ACCOUNTS)} == replay(lines)


def check_oplog(client, bank):
    """One entry for each transaction that has committed."""
    entries = collections.Counter(
        (bytes(e["lsid"]["id"]), e["txnNumber"])
        for e in client.local["oplog.rs"].find({"o.applyOps": {"$exists": True}}))
    for lsid, number in bank.committed.values():
        assert entries[(bytes(lsid["id"]), number)] == 1
