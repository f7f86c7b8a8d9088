# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients that come in masses, stop halfway, flood, or never read: bounded, and others go on."""

import resource
import socket
import struct
import threading
import time

import bson
import pytest
from bson.int64 import Int64

from raw import MORE_TO_COME, Closed, RawClient as Client, message, op_msg
from sanitizers import SANITIZED
from server import Server

pytestmark = [pytest.mark.concurrent, pytest.mark.timeout(300)]

PING = {"ping": 1, "$db": "admin"}
DEADLINE_S = 100  # for what happens in an instant on a machine with nothing else to do
MB = 1 << 20
of_memory = pytest.mark.skipif(SANITIZED, reason="a sanitizer keeps memory of its own")
IN_FLIGHT_MAX = UNSENT_MAX = 512 * MB


class RawClient(Client):
    def __init__(self, port):
        super().__init__(port, timeout=DEADLINE_S)


@pytest.fixture(scope="module")
def server():
    """Clients that stop within a message are closed after a second."""
    with Server(memory=True, args=("--stall-seconds", 1)) as s:
        yield s


@pytest.fixture
def admin(server):
    with RawClient(server.port) as r:
        yield r


def status(admin, section, field):
    return admin.command({"serverStatus": 1})[section][field]


def wait_until(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


# --- counts -----------------------------------------------------------------------------------


def test_connections_past_the_limit():
    with Server(memory=True, args=("--max-connections", 20)) as s:
        held = [RawClient(s.port) for _ in range(20)]
        assert all(c.ping() == 1.0 for c in held)
        for _ in range(5):
            with RawClient(s.port) as late, pytest.raises(Closed):
                late.ping()
        counts = held[0].command({"serverStatus": 1})["connections"]
        assert (counts["current"], counts["available"], counts["rejected"]) == (20, 0, 5)
        held.pop().close()
        wait_until(lambda: status(held[0], "connections", "current") == 19)
        with RawClient(s.port) as next_one:
            assert next_one.ping() == 1.0
        for c in held:
            c.close()


def test_cursors_past_the_limit():
    with Server(memory=True, args=("--max-cursors", 50)) as s, RawClient(s.port) as c:
        c.command({"insert": "c", "documents": [{"_id": i} for i in range(3)]}, "t")
        find = {"find": "c", "batchSize": 1}
        ids = [c.command(find, "t")["cursor"]["id"] for _ in range(50)]
        assert c.command(find, "t")["code"] == 402
        assert c.command({"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}},
                         "t")["code"] == 402
        assert len(c.command({"find": "c"}, "t")["cursor"]["firstBatch"]) == 3, "needs no cursor"
        killed = c.command({"killCursors": "c", "cursors": ids[:1]}, "t")["cursorsKilled"]
        assert killed == ids[:1]
        assert c.command(find, "t")["cursor"]["id"] > 0


def lsid(n):
    return {"id": bson.Binary(struct.pack("<QQ", n, 0), 4)}


def test_sessions_past_the_limit():
    with Server(memory=True, args=("--max-sessions", 50)) as s, RawClient(s.port) as c:
        c.command({"insert": "c", "documents": [{}]}, "t")
        for n in range(50):
            assert c.command({"count": "c", "lsid": lsid(n)}, "t")["n"] == 1
        assert c.command({"count": "c", "lsid": lsid(50)}, "t")["code"] == 261
        assert c.command({"count": "c", "lsid": lsid(49)}, "t")["n"] == 1
        assert c.command({"count": "c"}, "t")["n"] == 1
        assert c.command({"endSessions": [lsid(3)]})["ok"] == 1
        assert c.command({"count": "c", "lsid": lsid(50)}, "t")["n"] == 1


# --- clients that stop ------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 15, 16, 21, -1])
def test_half_a_message_is_not_waited_for(server, admin, cut):
    with RawClient(server.port) as idle, RawClient(server.port) as half:
        assert idle.ping() == 1.0
        before = status(admin, "network", "stalledClients")
        half.send(op_msg(PING)[:cut])
        assert half.closed()
        assert status(admin, "network", "stalledClients") == before + 1
        wait_until(lambda: status(admin, "network", "inFlightBytes") == 0)
        assert idle.ping() == 1.0, "between two messages a client may rest"


def test_a_byte_at_a_time_does_not_keep_a_connection(server):
    data = message(2013, b"\0" * 5000)
    with RawClient(server.port) as drip:
        with pytest.raises(ConnectionError):
            for i in range(len(data)):
                drip.send(data[i : i + 1])
                time.sleep(0.05)
        assert drip.closed()


def test_a_slow_but_steady_client_is_served(server):
    """Longer than the time allowed, but always more than 1000 bytes a second."""
    data = op_msg({**PING, "comment": "x" * 30000})
    with RawClient(server.port) as slow:
        for at in range(0, len(data), 2000):
            slow.send(data[at : at + 2000])
            time.sleep(0.2)
        assert slow.receive().doc["ok"] == 1.0


def unread_client(port):
    """A client with little room for what it does not read."""
    client = RawClient.__new__(RawClient)
    client.sock = socket.socket()
    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.sock.settimeout(DEADLINE_S)
    client.sock.connect(("127.0.0.1", port))
    return client


def fill(client, size):
    for i in range(size // MB):
        client.command({"insert": "big", "documents": [{"_id": i, "x": "x" * (MB - 1000)}]}, "t")


FIND_BIG = op_msg({"find": "big", "batchSize": 16, "$db": "t"})


def test_a_client_that_never_reads_is_closed(server, admin):
    fill(admin, 16 * MB)
    with unread_client(server.port) as deaf:
        for _ in range(3):
            deaf.send(FIND_BIG)
        wait_until(lambda: status(admin, "network", "unsentBytes") > 8 * MB)
        assert status(admin, "network", "unsentBytes") < 17 * MB, "one reply at a time"
        wait_until(lambda: status(admin, "network", "unsentBytes") == 0)
        got = 0
        with pytest.raises((ConnectionError, EOFError)):
            while part := deaf.sock.recv(1 << 16):
                got += len(part)
            raise EOFError
        assert got < 16 * MB


@of_memory
@pytest.mark.slow
def test_unsent_bytes_of_all_clients_are_bounded():
    with Server(memory=True) as s, RawClient(s.port) as admin:
        fill(admin, 16 * MB)
        deaf = [unread_client(s.port) for _ in range(64)]
        for c in deaf:
            c.send(FIND_BIG)
        wait_until(lambda: status(admin, "connections", "current") < 65)
        assert 0 < status(admin, "network", "unsentBytes") <= UNSENT_MAX
        for c in deaf:
            c.close()
        wait_until(lambda: status(admin, "network", "unsentBytes") == 0)
        wait_until(lambda: s.rss() < 256 * MB)


@of_memory
@pytest.mark.slow
def test_bytes_of_half_messages_are_bounded():
    """Past the limit large messages are turned away; small ones are served as ever."""
    with Server(memory=True) as s, RawClient(s.port) as admin:
        part = message(2013, b"\0\0\0\0\0", length=48000000) + b"\0" * 47000000
        clients, turned_away = [], 0
        for _ in range(14):
            c = RawClient(s.port)
            try:
                c.send(part)
                clients.append(c)
            except ConnectionError:
                turned_away += 1
        wait_until(lambda: status(admin, "network", "inFlightBytes") > IN_FLIGHT_MAX - 100 * MB)
        assert status(admin, "network", "inFlightBytes") <= IN_FLIGHT_MAX
        assert turned_away + sum(not c.silent(0) for c in clients) >= 2
        assert admin.ping() == 1.0
        for c in clients:
            c.close()
        wait_until(lambda: status(admin, "network", "inFlightBytes") < MB)
        assert admin.command({"ping": 1, "comment": "x" * 10 * MB})["ok"] == 1.0


# --- masses -----------------------------------------------------------------------------------


def masses(record_property, server, clients, what, most):
    """Asserts what each of the clients costs the server, after `what` made them busy."""
    before = server.rss()
    what()
    each = (server.rss() - before) / clients
    record_property("bytes_each", round(each))
    print(f"{clients} clients: {each:.0f} bytes of server memory each")
    assert each < most


def raise_file_limit(n):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < n:
        pytest.skip(f"only {hard} open files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, n), hard))


@of_memory
@pytest.mark.slow
def test_10000_idle_connections(record_property):
    raise_file_limit(11000)
    clients = []
    with Server(memory=True) as s, RawClient(s.port) as admin:
        admin.ping()

        def connect():
            for _ in range(10000):
                clients.append(RawClient(s.port))
                assert clients[-1].ping() == 1.0

        masses(record_property, s, 10000, connect, 1024)
        assert status(admin, "connections", "current") == 10001
        assert all(c.ping() == 1.0 for c in clients[::100])
        for c in clients:
            c.close()
        wait_until(lambda: status(admin, "connections", "current") == 1)


@of_memory
@pytest.mark.slow
def test_half_messages_of_many_cost_little(record_property):
    raise_file_limit(4000)
    with Server(memory=True) as s, RawClient(s.port) as admin:
        admin.ping()
        clients = []

        def connect():
            for _ in range(3000):
                clients.append(RawClient(s.port))
                clients[-1].send(op_msg(PING)[:20])
            wait_until(lambda: status(admin, "network", "inFlightBytes") >= 3000 * 1000)

        masses(record_property, s, 3000, connect, 8192)
        assert status(admin, "network", "inFlightBytes") < 3000 * 4096
        for c in clients:
            c.close()


def watch(client, coll="w"):
    """Opens a stream and waits for its first event; returns the getMore."""
    reply = client.command({"aggregate": coll, "pipeline": [{"$changeStream": {}}], "cursor": {}}, "t")
    more = {"getMore": Int64(reply["cursor"]["id"]), "collection": coll, "$db": "t"}
    client.send(op_msg({**more, "maxTimeMS": 600000}))
    return more


@of_memory
@pytest.mark.slow
def test_10000_watchers_see_one_write_each(record_property):
    raise_file_limit(11000)
    clients = []
    with Server(memory=True) as s, RawClient(s.port) as admin:
        admin.command({"create": "w"}, "t")

        def open_all():
            for _ in range(10000):
                clients.append(RawClient(s.port))
                watch(clients[-1])
            wait_until(lambda: status(admin, "metrics", "cursor")["open"]["pinned"] == 10000)

        masses(record_property, s, 10000, open_all, 3072)
        assert admin.command({"insert": "w", "documents": [{"_id": 1}]}, "t")["n"] == 1
        for c in clients:
            [event] = c.receive().doc["cursor"]["nextBatch"]
            assert event["documentKey"] == {"_id": 1}
            c.close()


# --- floods -----------------------------------------------------------------------------------


def test_a_flood_of_getmores_on_one_cursor(server, admin):
    admin.command({"create": "g"}, "t")
    with RawClient(server.port) as owner, RawClient(server.port) as flood:
        more = watch(owner, "g")
        wait_until(lambda: status(admin, "metrics", "cursor")["open"]["pinned"] == 1)
        flood.send(op_msg(more) * 3000)
        for _ in range(3000):
            assert flood.receive().doc["code"] == 143
        admin.command({"insert": "g", "documents": [{"_id": 1}]}, "t")
        assert len(owner.receive().doc["cursor"]["nextBatch"]) == 1


def test_a_flood_of_one_client_does_not_stop_another(server, admin):
    """The other one's commands are answered while the flood still goes on."""
    stop = threading.Event()
    sent = [0]

    def flood():
        burst = op_msg({**PING}, flags=MORE_TO_COME) * 500
        with RawClient(server.port) as c:
            while not stop.is_set():
                c.send(burst)
                sent[0] += 500
            c.ping()

    threads = [threading.Thread(target=flood) for _ in range(4)]
    for t in threads:
        t.start()
    try:
        wait_until(lambda: sent[0] > 2000)
        for i in range(50):
            assert admin.command({"insert": "f", "documents": [{"_id": i}]}, "t")["n"] == 1
    finally:
        stop.set()
        for t in threads:
            t.join(DEADLINE_S)
    assert not any(t.is_alive() for t in threads)


def test_a_storm_of_connections(server, admin):
    """Connections that come, say little or nothing, and go, from many threads at once."""
    ping = op_msg(PING)

    def storm(seed):
        for i in range(150):
            try:
                with RawClient(server.port) as c:
                    c.send(ping[: (i * 7 + seed) % (len(ping) + 1)])
            except ConnectionError:
                pass

    threads = [threading.Thread(target=storm, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        assert admin.ping() == 1.0
    # Some of them may not have been accepted yet.
    wait_until(lambda: status(admin, "connections", "current") == 1
               and status(admin, "network", "inFlightBytes") == 0)
