# SPDX-License-Identifier: GPL-3.0-or-later
"""Running mongosh and Node programs, where `make test` could install them (see node/versions)."""

import os
import pathlib
import shutil
import subprocess

import pytest

HOME = pathlib.Path(__file__).resolve().parent.parent / "build" / "node"
TIMEOUT_S = 90


def _need(package):
    if shutil.which("node") is None or not (HOME / "node_modules" / package).is_dir():
        pytest.skip(f"{package} is not installed in build/node (no Node, or no npm)")


def _run(command, cwd):
    env = dict(os.environ, HOME=str(cwd), NO_COLOR="1")  # settings of mongosh stay out of ~
    done = subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT_S)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def mongosh(uri, script, cwd, *options):
    """What mongosh prints for a script, its lines as a list."""
    _need("mongosh")
    program = HOME / "node_modules" / "mongosh" / "bin" / "mongosh.js"
    return _run(["node", program, "--quiet", *options, uri, "--eval", script], cwd).stdout.split("\n")


def node(script, cwd, *arguments, package="mongodb"):
    """The standard output of a Node program; require(package) works in it."""
    _need(package)
    program = cwd / "program.cjs"
    program.write_text(script)
    os.symlink(HOME / "node_modules", cwd / "node_modules")
    return _run(["node", program, *arguments], cwd).stdout
