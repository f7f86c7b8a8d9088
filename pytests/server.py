# SPDX-License-Identifier: GPL-3.0-or-later
"""Start, stop and crash a real runneld, in tests or in your own programs.

    with Server(port=0, memory=True) as srv:
        client = pymongo.MongoClient(srv.uri)

Nothing but the standard library is needed. The binary is the one named by the environment variable
RUNNELD, else build/release/runneld beside this folder, else the runneld on the PATH. Without `path`
and `memory` the data lives in a temporary directory that goes away with the server; stop(), kill()
and restart() keep it.
"""

import atexit
import json
import os
import pathlib
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import weakref

START_TIMEOUT_S = 60  # generous: sanitizers, two busy cores
STOP_TIMEOUT_S = 60

_running = weakref.WeakSet()


@atexit.register
def _kill_leftovers():
    for server in list(_running):
        server.kill()


class ServerError(Exception):
    """The server did not start, did not stop, or died by itself."""


def binary():
    """The runneld to run."""
    if "RUNNELD" in os.environ:
        return os.path.abspath(os.environ["RUNNELD"])
    built = pathlib.Path(__file__).resolve().parent.parent / "build" / "release" / "runneld"
    return str(built) if built.exists() else shutil.which("runneld") or str(built)


class Server:
    """One server process; the port stays the same over restarts."""

    def __init__(
        self,
        port=0,
        path=None,
        memory=False,
        oplog_size_mb=None,
        oplog_retention_seconds=None,
        oplog_max_entries=None,
        no_oplog=False,
        repl_set="rs0",
        test_commands=False,
        program=None,
        args=(),
        env=None,
    ):
        if path is not None and memory:
            raise ValueError("path and memory exclude each other")
        self.port = port
        self.memory = memory
        self.repl_set = repl_set
        self.uri = None
        self.process = None
        self._program = program
        self._env = dict(os.environ, **(env or {}))
        self._work = tempfile.TemporaryDirectory(prefix="runnel-")
        self.path = None if memory else str(path or os.path.join(self._work.name, "data"))
        self.log_path = os.path.join(self._work.name, "log")
        self._options = []
        for name, value in (
            ("--oplog-size-mb", oplog_size_mb),
            ("--oplog-retention-seconds", oplog_retention_seconds),
            ("--oplog-max-entries", oplog_max_entries),
            ("--repl-set", repl_set),
        ):
            if value is not None:
                self._options += [name, str(value)]
        if no_oplog:
            self._options.append("--no-oplog")
        if test_commands:
            self._options.append("--enable-test-commands")
        self._options += [str(a) for a in args]

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, exc_type, exc, tb):
        try:
            if self.process is not None and exc_type is None:
                self.stop()
        finally:
            self.close()

    # --- processes -----------------------------------------------------------------------------

    def start(self, env=None):
        """Starts the process, with this added to its environment; returns when it listens."""
        if self.process is not None:
            raise ServerError("already running")
        where = ["--memory"] if self.memory else ["--dbpath", self.path]
        command = [self._program or binary(), *where, "--port", str(self.port), *self._options]
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**self._env, **(env or {})},
                text=True,
            )
        _running.add(self)
        lines = queue.Queue()
        threading.Thread(target=_drain, args=(self.process.stdout, lines), daemon=True).start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                line = lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                line = None
            if not line:
                reason = "no listening line" if line is None else "exited at once"
                self._reap()
                raise ServerError(f"{reason}: {' '.join(command)}\n{self.log_tail()}")
            if line.startswith("listening "):
                self.uri = line.split()[1]
                self.port = int(self.uri.split("/")[2].rsplit(":", 1)[1])
                return self

    def stop(self):
        """SIGTERM, and waits for a clean end; anything but exit code 0 is an error."""
        process = self._alive()
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerError(f"did not stop on SIGTERM\n{self.log_tail()}") from None
        self.process = None
        if code != 0:
            raise ServerError(f"stopped with exit code {code}\n{self.log_tail()}")

    def kill(self):
        """SIGKILL: the crash that durability is about. Also fine for one that is dead already."""
        self._reap()

    def kill_process(self):
        """The same from another thread, while this one waits for the start or the end."""
        process = self.process
        if process is not None:
            process.kill()

    def restart(self):
        """Clean stop, then start on the same data and port."""
        self.stop()
        return self.start()

    def wait(self, timeout=STOP_TIMEOUT_S):
        """Waits for the process to end by itself; returns its exit code."""
        code = self.process.wait(timeout)
        self.process = None
        return code

    def close(self):
        """Kills what still runs and removes the temporary files."""
        self._reap()
        self._work.cleanup()

    @property
    def pid(self):
        return self._alive().pid

    def rss(self):
        """Resident memory in bytes."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) * 1024
        raise ServerError("no VmRSS")

    # --- logs ----------------------------------------------------------------------------------

    def log_lines(self):
        """The log so far: one dict per JSON line, {"raw": text} for others (sanitizer reports)."""
        events = []
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            for line in log:
                try:
                    event = json.loads(line)
                except ValueError:
                    event = None
                events.append(event if isinstance(event, dict) else {"raw": line.rstrip("\n")})
        return events

    def log_tail(self, size_bytes=8000):
        with open(self.log_path, "rb") as log:
            log.seek(max(0, os.path.getsize(self.log_path) - size_bytes))
            return log.read().decode("utf-8", "replace")

    def log_contains(self, text, timeout=0.0):
        """True when the log has the text, now or within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while True:
            with open(self.log_path, encoding="utf-8", errors="replace") as log:
                if text in log.read():
                    return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)

    # --- inside --------------------------------------------------------------------------------

    def _alive(self):
        if self.process is None:
            raise ServerError("not running")
        code = self.process.poll()
        if code is not None:
            self.process = None
            raise ServerError(f"died by itself, exit code {code}\n{self.log_tail()}")
        return self.process

    def _reap(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def _drain(stream, lines):
    """Keeps the pipe from filling up; an empty string marks its end."""
    with stream:
        for line in stream:
            lines.put(line)
    lines.put("")
