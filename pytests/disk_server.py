# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures for files whose tests need a server of their own, on disk: in memory all is durable at once.

    from disk_server import client, raw, server  # noqa: F401
"""

import contextlib

import pymongo
import pytest

from raw import RawClient
from server import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(path=tmp_path_factory.mktemp("server") / "data", test_commands=True) as s:
        yield s


@pytest.fixture(scope="module")
def client(server):
    with pymongo.MongoClient(server.uri) as c:
        yield c


@pytest.fixture
def raw(server):
    with RawClient(server.port) as r:
        yield r


@contextlib.contextmanager
def stuck_sync(client):
    """Within it the log is not synced. The clock goes back, so that there are optimes for an hour: else
    there are two seconds before writes have to wait for the disk."""
    client.admin.command("runnelClock", -3600 * 1000)
    client.admin.command("runnelFault", "flushBefore:wait")
    try:
        yield
    finally:
        client.admin.command("runnelFault", "off")
        client.admin.command("runnelClock", 3600 * 1000)
