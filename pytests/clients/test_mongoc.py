# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the C programs of tests/integration, which use libmongoc, against the server."""

import os
import pathlib
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("RUNNEL_BUILD", "build/release")).resolve()


@pytest.mark.parametrize(
    "tail", ["/?replicaSet=rs0", "/", "/?directConnection=true"], ids=["set", "bare", "direct"]
)
def test_basic(srv, tail):
    program = BUILD / "tests" / "integration" / "test_mongoc_basic"
    if not program.exists():
        pytest.skip("tests/integration is not built (make build-tests)")
    uri = srv.uri.split("/?")[0] + tail
    done = subprocess.run([program], env=dict(os.environ, RUNNEL_URI=uri), text=True, timeout=90,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
