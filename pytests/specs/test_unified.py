# SPDX-License-Identifier: GPL-3.0-or-later
"""The drivers' specification tests, where they lie beside this repository."""

import pytest

import unified
from conftest import SPECS

SERVER_OPTIONS = dict(test_commands=True)
AREAS = ("change-streams", "crud", "retryable-reads", "retryable-writes", "run-command", "sessions",
         "collection-management")

FILES = [f for area in AREAS for f in sorted((SPECS / area).rglob("*.json"))]


@pytest.fixture(scope="module")
def server_version(client):
    return tuple(client.server_info()["versionArray"][:3])


@pytest.fixture(scope="module")
def fail_points(client):
    return "configureFailPoint" in client.admin.command("listCommands")["commands"]


@pytest.mark.parametrize("data, test", list(unified.cases(FILES)))
def test_specification(srv, server_version, fail_points, data, test):
    unified.run_case(srv, data, test, server_version, fail_points)
