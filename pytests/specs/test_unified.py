# SPDX-License-Identifier: GPL-3.0-or-later
"""The drivers' specification tests, where they lie beside this repository.

Those that other servers run (by topology, version or authentication) are skipped by what their
files require. All others run. Those that must still fail stand in skips.txt, each under its reason:
one that passes while it stands there is a failure too, so that the list only shrinks.
"""

import fnmatch
import pathlib

import pytest

import unified
from conftest import SPECS

SERVER_OPTIONS = dict(test_commands=True)
AREAS = ("causal-consistency", "change-streams", "collection-management", "crud", "gridfs",
         "index-management", "read-write-concern", "retryable-reads", "retryable-writes",
         "run-command", "sessions", "transactions", "transactions-convenient-api", "versioned-api")

FILES = [f for area in AREAS for f in sorted((SPECS / area).rglob("*.json"))]
CASES = list(unified.cases(FILES))


def read_skips():
    """Patterns of names, with the reason that stands above them as [reason]."""
    reason, found = None, {}
    for line in (pathlib.Path(__file__).parent / "skips.txt").read_text().splitlines():
        if line.startswith("["):
            reason = line.strip("[]")
        elif line and not line.startswith("#"):
            found[line] = reason
    return found


SKIPS = read_skips()


def matches(name, pattern):
    return name == pattern or ("*" in pattern and fnmatch.fnmatchcase(name, pattern))


@pytest.fixture(scope="module")
def server_version(client):
    return tuple(client.server_info()["versionArray"][:3])


@pytest.fixture(scope="module")
def parameters(client):
    client.admin.command("setParameter", 1, acceptApiVersion2=True)
    return client.admin.command({"getParameter": "*"})


@pytest.mark.parametrize("name, data, test", CASES)
def test_specification(srv, server_version, parameters, name, data, test):
    reason = next((r for p, r in SKIPS.items() if matches(name, p)), None)
    if reason is None:
        unified.run_case(srv, data, test, server_version, parameters)
        return
    try:
        unified.run_case(srv, data, test, server_version, parameters)
    except Exception:
        pytest.skip(reason)
    pytest.fail("this passes now: take it out of skips.txt")


@pytest.mark.skipif(not CASES, reason="no specification tests beside this repository")
def test_skips_name_tests_that_exist():
    names = [case.values[0] for case in CASES]
    assert [p for p in SKIPS if not any(matches(n, p) for n in names)] == []
