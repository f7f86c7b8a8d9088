# SPDX-License-Identifier: GPL-3.0-or-later
"""`make demo` shows what it promises and ends by itself."""

import os
import pathlib
import subprocess
import sys

import pytest

from server import binary

DEMO = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts" / "demo.py"


def test_demo(request):
    if request.config.getoption("--uri"):
        pytest.skip("starts its own server")
    done = subprocess.run([sys.executable, DEMO, "--pause", "0.01"], text=True, timeout=90,
                          env=dict(os.environ, RUNNELD=binary(), COLUMNS="100"),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    before, after = "\n".join(lines).split("kill -9")
    for kind in ("insert _id=1", "update _id=1 cups=1", "update _id=1 -leaf", "replace _id=1",
                 "delete _id=4"):
        assert kind in before
    assert after.count("delete _id=") == 4
    assert lines[-1] == "15 events seen, 5 of them again after the crash."
    tokens = [line.split()[-1] for line in lines if " 82" in line]
    assert len(tokens) == 20
    assert tokens[:15] == sorted(tokens[:15]), "tokens sort as the events came"
    assert tokens[15:] == tokens[10:15]
