# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of all tests: a server, a client, a fresh database.

Most tests take `srv` (in memory, one per file), `client` and `db` and thereby also run against
another server: `pytest --uri mongodb://...`. Those that kill or restart their server take
`disk_srv` or make a Server themselves, and are skipped with --uri.
A file chooses its server's options by SERVER_OPTIONS = dict(...) at its top.
"""

import pathlib
import re
import uuid

import pymongo
import pytest

from raw import RawClient
from server import Server

SPECS = pathlib.Path(__file__).resolve().parent.parent.parent / "shared" / "specs"


class OutsideServer:
    """A server that somebody else started."""

    def __init__(self, uri):
        self.uri = uri
        self.memory = False
        self.port = int(re.search(r":(\d+)", uri.split("://", 1)[1]).group(1))


def pytest_addoption(parser):
    parser.addoption("--uri", help="run against this server instead of starting one")
    parser.addoption("--oracle-seconds", type=float, default=10.0,
                     help="roughly how long each randomised test of events/test_oracle.py may take")
    parser.addoption("--bank-seconds", type=float, default=12.0,
                     help="roughly how long the transfers of transactions/test_bank.py go on")
    parser.addoption("--crash-kills", type=int, default=24, help="deaths in crash/test_crash.py")
    parser.addoption("--crash-seed", type=int, help="repeats the deaths of an earlier run")
    parser.addoption("--fault-step", type=int, default=9,
                     help="crash/test_disk_faults.py, test_out_of_memory.py: one failing call in so many; 1: each")
    parser.addoption("--soak-seconds", type=float, default=12.0,
                     help="how long the mixed load of process/test_soak.py runs")
    parser.addoption("--hostile-seconds", type=float, default=5.0,
                     help="how long the client of wire/test_hostile.py goes on")
    parser.addoption("--hostile-seed", type=int, default=1,
                     help="what wire/test_hostile.py sends; another number, other messages")
    parser.addoption("--oracle-seed", type=int, help="repeats the operations of an earlier run")


@pytest.fixture(scope="module")
def srv(request):
    uri = request.config.getoption("--uri")
    if uri:
        yield OutsideServer(uri)
        return
    options = {"memory": True, **getattr(request.module, "SERVER_OPTIONS", {})}
    with Server(**options) as server:
        yield server


@pytest.fixture(scope="module")
def client(srv):
    with pymongo.MongoClient(srv.uri, serverSelectionTimeoutMS=20000) as c:
        yield c


@pytest.fixture
def db(client, request):
    """A database of its own name, dropped afterwards."""
    name = re.sub(r"\W", "_", request.node.originalname or request.node.name)[:30]
    database = client[f"{name}_{uuid.uuid4().hex[:8]}"]
    yield database
    client.drop_database(database.name)


@pytest.fixture
def disk_srv(request, tmp_path):
    """A server on disk of one test, which may kill and restart it."""
    if request.config.getoption("--uri"):
        pytest.skip("starts its own server")
    options = getattr(request.module, "SERVER_OPTIONS", {})
    with Server(**{**options, "path": tmp_path / "data", "memory": False}) as server:
        yield server


@pytest.fixture
def raw(srv):
    """One socket to the server, speaking the wire protocol by hand."""
    with RawClient(srv.port) as r:
        yield r


def spec_files(area):
    """The driver specification tests of an area; skips where they are not at hand."""
    folder = SPECS / area
    if not folder.is_dir():
        pytest.skip(f"no specification tests of {area} beside this repository",
                    allow_module_level=True)
    return sorted(folder.rglob("*.json"))
