# SPDX-License-Identifier: GPL-3.0-or-later
"""The servers that the benchmark drives: ours, the skeleton, peers. Each on a fresh directory."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

START_SECONDS = 30
STOP_SECONDS = 30


class NotAvailable(Exception):
    """A peer that this machine does not have; the text says why."""


def read_status(pid, field):
    """A number of /proc/PID/status, in bytes."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Process:
    """A server process and its directory, both gone at the end of the `with`."""

    name = "server"

    def __init__(self, keep_directory=None):
        self._work = tempfile.TemporaryDirectory(prefix="runnel-bench-", dir=keep_directory)
        self.path = os.path.join(self._work.name, "data")
        self.process = None
        self.uri = None

    def command(self, port):
        raise NotImplementedError

    def __enter__(self):
        os.makedirs(self.path)
        port = free_port()
        with open(os.path.join(self._work.name, "log"), "wb") as log:
            self.process = subprocess.Popen(
                self.command(port), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.uri = f"mongodb://127.0.0.1:{port}"
        try:
            self._await_port(port)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _await_port(self, port):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                log = pathlib.Path(self._work.name, "log").read_text(errors="replace")
                raise NotAvailable(f"{self.name} ended at once: {log[-300:].strip()}")
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.002)
        raise NotAvailable(f"{self.name} does not listen")

    def __exit__(self, *exc):
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._work.cleanup()

    @property
    def pid(self):
        return self.process.pid

    def rss(self):
        return read_status(self.pid, "VmRSS")


class Runnel(Process):
    """runneld, or the skeleton, which takes the same options."""

    def __init__(self, binary, *options):
        super().__init__()
        self.name = binary.name
        self._binary = binary
        self._options = options

    def command(self, port):
        return [self._binary, "--port", str(port), "--dbpath", self.path, *self._options]


class Secantus(Process):
    """SecantusDB: its Rust server where it is installed, else the Python one of the package.

    synced: told to sync what it acknowledges. Else a crash would take it back, as with w:1 here.
    """

    def __init__(self, build, synced=True):
        super().__init__()
        self._synced = synced
        rust = build.parent / "bench-peers/bin/secantusd-rs"
        package = build.parent / "bench-venv/bin/secantusd-py"
        if rust.exists():
            self.name, self._binary = "SecantusDB (Rust)", rust
        elif package.exists():
            self.name, self._binary = "SecantusDB (Python)", package
        else:
            raise NotAvailable("SecantusDB is not installed (make bench-peers)")
        if not synced:
            self.name += " without syncs"

    def command(self, port):
        sync = ["--sync-on-commit"] if self._synced else []
        return [self._binary, "--port", str(port), "--storage-path", self.path, *sync]


class Mongod(Process):
    """A mongod on the PATH, as a replica set of one."""

    name = "mongod"

    def __init__(self, synced=True):
        super().__init__()
        del synced  # its clients tell it
        self._binary = shutil.which("mongod")
        if self._binary is None:
            raise NotAvailable("no mongod on the PATH")

    def command(self, port):
        return [self._binary, "--port", str(port), "--dbpath", self.path, "--replSet", "rs0"]

    def __enter__(self):
        super().__enter__()
        shell = shutil.which("mongosh")
        if shell is None:
            self.__exit__(None, None, None)
            raise NotAvailable("mongod without mongosh, which makes it a replica set")
        subprocess.run([shell, "--quiet", self.uri, "--eval", "rs.initiate()"], check=True)
        time.sleep(3)
        return self


class Remote:
    """A server that runs already."""

    pid = 0

    def __init__(self, uri):
        self.name = self.uri = uri

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass


def peer_factory(build, choice):
    """A function of `synced` that makes the peer server named by --peer, or None."""
    if choice == "none":
        return None
    if choice.startswith("mongodb://"):
        return lambda synced=True: Remote(choice)
    if choice == "mongod":
        return Mongod
    return lambda synced=True: Secantus(build, synced)
