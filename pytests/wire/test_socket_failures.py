# SPDX-License-Identifier: GPL-3.0-or-later
"""The n-th read or write of a socket fails, or moves one byte only.

The connection is closed and nothing else happens: what was asked for is done once, however often it has
to be sent, and neither cursors nor requests stay behind.
"""

import errno
import time
import uuid

import pytest
from bson import Binary, Int64

from raw import Closed, RawClient

SERVER_OPTIONS = {"test_commands": True}
BIG = "x" * 150_000  # more than one read
LOST = (Closed, ConnectionError)


class Client:
    """Sends retryable writes again on a new connection, as a driver does."""

    def __init__(self, srv):
        self.db = f"sockets_{uuid.uuid4().hex[:8]}"
        self.raw = RawClient(srv.port, timeout=60)
        self.lsid, self.number = {"id": Binary(uuid.uuid4().bytes, 4)}, 0
        self.writes = self.lost = self.kills_lost = 0

    def call(self, command, db=None):
        """The reply; None: the connection is gone, and there is a new one."""
        try:
            return self.raw.command(command, db or self.db)
        except LOST:
            self.lost += 1
            self.raw.reconnect()
            return None

    def write(self, command):
        self.number += 1
        command = {**command, "lsid": self.lsid, "txnNumber": Int64(self.number)}
        reply = None
        for _ in range(5):
            reply = reply or self.call(command)
        assert reply["ok"] == 1 and reply["n"] == 1, reply
        self.writes += 1

    def work(self):
        """Writes that show how often they were done, and cursors that are left open."""
        self.write({"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"n": 1}, "$set": {"big": BIG}}}]})
        self.write({"insert": "c", "documents": [{"_id": self.number, "v": 1}]})
        cursor = self.call({"find": "c", "batchSize": 1})
        if cursor is not None:
            cursor = cursor["cursor"]["id"]
            self.call({"getMore": Int64(cursor), "collection": "c", "batchSize": 1})
            if self.call({"killCursors": "c", "cursors": [Int64(cursor)]}) is None:
                self.kills_lost += 1


@pytest.fixture
def client(srv):
    client = Client(srv)
    assert client.raw.command({"insert": "c", "documents": [{"_id": 0, "n": 0}]}, client.db)["n"] == 1
    yield client
    client.raw.command({"dropDatabase": 1}, client.db)
    client.raw.close()


@pytest.fixture
def control(srv):
    with RawClient(srv.port, timeout=60) as raw:
        yield raw
        arm(raw, "off")


def arm(control, spec):
    """How often the point was passed since it was armed before; its own reply may be lost as well."""
    for _ in range(5):
        try:
            return control.command({"runnelFault": spec}).get("hits")
        except LOST:
            control.reconnect()
    raise AssertionError("the server does not answer")


def left(control):
    """What must be as before when all is over, once nothing is under way: the bytes of a request are let
    go a moment after its reply."""
    end = time.monotonic() + 20
    while ((now := left_now(control))["inFlight"] or now["unsent"]) and time.monotonic() < end:
        time.sleep(0.01)
    assert now["inFlight"] == now["unsent"] == 0
    return now


def left_now(control):
    status = control.command({"serverStatus": 1})
    return {"cursors": status["metrics"]["cursor"]["open"]["total"], "connections": status["connections"]["current"],
            "inFlight": status["network"]["inFlightBytes"], "unsent": status["network"]["unsentBytes"]}


def settles(control, before):
    """Connections end a moment after their client has noticed."""
    end = time.monotonic() + 20
    while (now := left(control))["connections"] != before["connections"] and time.monotonic() < end:
        time.sleep(0.01)
    assert {**now, "cursors": 0} == {**before, "cursors": 0}
    return now["cursors"]


def check_done_once(client):
    counter = client.raw.command({"find": "c", "filter": {"_id": 0}}, client.db)["cursor"]["firstBatch"][0]
    inserted = client.raw.command({"count": "c", "query": {"v": 1}}, client.db)["n"]
    assert (counter["n"], inserted) == (client.writes // 2, client.writes // 2)


@pytest.mark.parametrize("code", [errno.EPIPE, errno.ECONNRESET], ids=errno.errorcode.get)
@pytest.mark.parametrize("point", ["socketRead", "socketWrite"])
def test_the_nth_call_fails(client, control, point, code):
    before = left(control)
    n = 2  # the first write is the reply to the arming
    while True:
        arm(control, f"{point}:fail={code}:{n}")
        client.work()
        hits = arm(control, f"{point}:off")
        check_done_once(client)
        if hits < n:
            break
        n += 1
    assert n >= 7 and client.lost >= 4
    # A cursor whose first reply was lost is gone; one whose kill never came is not.
    assert settles(control, before) - before["cursors"] <= (client.kills_lost if point == "socketRead" else 0)


@pytest.mark.parametrize("name", ["find", "aggregate"])
def test_a_cursor_that_nobody_knows_is_closed(srv, client, control, name):
    client.raw.command({"insert": "c", "documents": [{"_id": i} for i in range(10, 20)]}, client.db)
    command = {"find": "c", "batchSize": 1} if name == "find" else {
        "aggregate": "c", "pipeline": [], "cursor": {"batchSize": 1}}
    before = left(control)
    assert client.raw.command({"ping": 1})["ok"] == 1
    for _ in range(3):
        arm(control, f"socketWrite:fail={errno.EPIPE}:2")  # the first one is the reply of this
        assert client.call(command) is None
        arm(control, "socketWrite:off")
    assert settles(control, before) == before["cursors"]


def test_one_byte_at_a_time(client, control):
    """Messages and replies arrive whole, however they come."""
    arm(control, "socketShort:error=1")
    for _ in range(3):
        client.write({"insert": "c", "documents": [{"_id": client.number + 1, "v": 1, "text": "y" * 2000}]})
    reply = client.call({"find": "c", "filter": {"v": 1}, "sort": {"_id": 1}})
    assert [d["_id"] for d in reply["cursor"]["firstBatch"]] == [1, 2, 3]
    assert arm(control, "socketShort:off") > 4000
    assert client.lost == 0


def test_try_again_is_no_failure(client, control):
    """EAGAIN means to wait for the socket, nothing else. (A read has it only when nothing is left to be
    read: a read that had it with bytes there would never be told of them.)"""
    for n in range(2, 12):
        arm(control, f"socketWrite:fail={errno.EAGAIN}:{n}")
        client.work()
        arm(control, "socketWrite:off")
    assert client.lost == 0
    check_done_once(client)
