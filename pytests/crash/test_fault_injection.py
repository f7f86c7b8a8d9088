# SPDX-License-Identifier: GPL-3.0-or-later
"""The n-th failing call of the storage layer and of the commit path, for n = 1, 2, 3 ... until a run
passes untouched: an error reply that has changed nothing, or no failure at all."""

import pytest

from fault_bench import BULK, COMMANDS, CONFLICT, INTERNAL, RETRYABLE, Bench, check_events, check_one
from server import Server

POINTS = ("allocLarge", "commitBefore", "indexBuild", "optimeTaken", "retryRecord", "storageBegin",
          "storageCommit", "storageOpen", "storageRead", "storageWrite", "tableCreate", "tableDrop",
          "txnCommitBefore")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", COMMANDS)
def test_storage_calls_fail_one_by_one(inject_srv, name):
    """An error reply and nothing changed, whichever call it is; the server stays up."""
    with Bench(inject_srv) as bench:
        start = bench.raw.command({"appendOplogNote": 1, "data": {}})["operationTime"]
        before, after = bench.expected(name)
        failures = 0
        for point in POINTS:
            n = 1
            while check_one(bench, name, point, INTERNAL, n, before, after):
                n += 1
            failures += n - 1
        assert failures > 0
        check_events(bench.raw, start)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(RETRYABLE - BULK - {"transaction"} | {"updateMulti", "deleteMulti"}))
def test_conflicts_are_tried_again(inject_srv, name):
    with Bench(inject_srv) as bench:
        before, after = bench.expected(name)
        for point in ("storageWrite", "commitBefore"):
            n = 1
            while check_one(bench, name, point, CONFLICT, n, before, after):
                n += 1
            assert n > 1, point


@pytest.fixture(scope="module")
def inject_srv(request):
    """In memory: the same calls, and each round makes eight tables."""
    if request.config.getoption("--uri"):
        pytest.skip("needs fault points")
    with Server(memory=True, test_commands=True) as server:
        yield server
