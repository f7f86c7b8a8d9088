# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures for files whose tests need a server of their own, on disk: in memory all is durable at once.

    from disk_server import client, raw, server  # noqa: F401
"""

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
