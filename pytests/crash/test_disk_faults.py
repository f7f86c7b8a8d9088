# SPDX-License-Identifier: GPL-3.0-or-later
"""A disk whose n-th write, sync, read or change of a name fails, and a disk that is full.

Such a failure ends the process with a message, or is an error reply; nothing that was acknowledged is
gone at the next start. `--fault-step 1` tries every n, the default one in so many.
"""

import contextlib
import errno
import os
import pathlib
import signal
import subprocess
import time

import pytest

from crash_history import all_of
from raw import Closed, RawClient
from server import Server, ServerError, binary

FAILURES = [("fail-write", errno.EIO), ("fail-write", errno.ENOSPC), ("fail-sync", errno.EIO),
            ("fail-name", errno.EIO), ("fail-read", errno.EIO)]
OUT_OF_DISK_SPACE = 14031
MB = 1 << 20


class Work:
    """A little of everything; `acked` is what must survive, `doubt` what may."""

    def __init__(self, port):
        self.acked, self.doubt, self.refused = {}, {}, []
        try:
            with RawClient(port, timeout=60) as self.raw:
                self.run()
        except (Closed, OSError):
            pass

    def run(self):
        self.command({"create": "c"})
        self.command({"createIndexes": "c", "indexes": [{"key": {"v": 1}, "name": "v_1"}]})
        for i in range(6):
            self.write({"insert": "c", "documents": [{"_id": f"{i}.{k}", "v": i} for k in range(5)]},
                       {f"{i}.{k}": i for k in range(5)})
        self.command({"fsync": 1}, "admin")
        self.write({"update": "c", "updates": [{"q": {"_id": "0.0"}, "u": {"$set": {"v": 99}}}]}, {"0.0": 99})
        self.command({"create": "d"})
        self.command({"drop": "d"})
        self.write({"insert": "c", "documents": [{"_id": "last", "v": 0}]}, {"last": 0})
        self.command({"fsync": 1}, "admin")

    def command(self, command, db="t"):
        reply = self.raw.command(command, db)
        if reply["ok"] != 1 or "writeErrors" in reply:
            self.refused.append(reply)
            return False
        return True

    def write(self, command, effect):
        self.doubt = effect
        if self.command(command):
            self.acked |= effect
        self.doubt = {}


def check_survived(server, work):
    with RawClient(server.port, timeout=60) as raw:
        found = {d["_id"]: d["v"] for d in all_of(raw, "t", {"find": "c"})}
        sure = {k: v for k, v in work.acked.items() if k not in work.doubt}
        assert sure.items() <= found.items(), "acknowledged and lost"
        for info in all_of(raw, "t", {"listCollections": 1}):
            result = raw.command({"validate": info["name"], "full": True}, "t")
            assert result["valid"], result
        entries = all_of(raw, "local", {"find": "oplog.rs", "filter": {"ns": "t.c", "op": "i"}})
        assert sorted(e["o"]["_id"] for e in entries) == sorted(found), "data and oplog agree"
        assert raw.command({"insert": "c", "documents": [{"_id": "new", "v": 1}]}, "t")["n"] == 1


def one_failure(path, program, kind, code, n):
    """True when the n-th call was come to."""
    server = Server(path=path, program=program)
    work = None
    try:
        try:
            server.start({"RUNNEL_CRASHFS": f"{kind}={n} errno={code}"})
            work = Work(server.port)
            server.stop()
        except ServerError:  # did not start, died at work or at the end
            log = server.log_lines()
            assert any(e.get("s") == "F" and e.get("msg") for e in log), ("no message", server.log_tail())
        came = server.log_contains('{"disk":"failed"')
        server.kill()
        server.start({})
        if work is not None:
            assert came or not work.refused, work.refused
            check_survived(server, work)
        server.stop()
        return came
    finally:
        server.close()


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kind, code", FAILURES, ids=[f"{k}-{errno.errorcode[c]}" for k, c in FAILURES])
def test_the_nth_call_fails(request, tmp_path, kind, code):
    if request.config.getoption("--uri"):
        pytest.skip("needs a disk of its own")
    program = pathlib.Path(binary()).parent / "tests" / "crash" / "runneld-crashfs"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    step = request.config.getoption("--fault-step")
    n = 1
    while one_failure(tmp_path / str(n), str(program), kind, code, n):
        n += step
    print(f"{kind}: {n - 1} calls")
    assert n > step


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 128 MB, in memory."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=128m", "runnel-test", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("cannot mount a file system here")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


def insert(raw, key, acked):
    """None, or the code of the refusal."""
    reply = raw.command({"insert": "c", "documents": [{"_id": key, "pad": "x" * 50_000}]}, "t")
    if "writeErrors" not in reply and reply["ok"] == 1:
        acked.append(key)
        return None
    return reply.get("code") or reply["writeErrors"][0]["code"]


def fill(raw, acked):
    """Until no more is taken."""
    first = max(acked, default=0) + 1
    codes = (insert(raw, i, acked) for i in range(first, first + 3000))
    assert next(c for c in codes if c is not None) == OUT_OF_DISK_SPACE


def check_full(raw, acked):
    """All is there; reads and deletions go on."""
    found = all_of(raw, "t", {"find": "c", "projection": {"_id": 1}})
    assert sorted(d["_id"] for d in found) == sorted(acked)
    inserts = all_of(raw, "local", {"find": "oplog.rs", "filter": {"ns": "t.c", "op": "i"}, "projection": {"o._id": 1}})
    deletes = all_of(raw, "local", {"find": "oplog.rs", "filter": {"ns": "t.c", "op": "d"}})
    assert len(inserts) - len(deletes) == len(acked), "data and oplog agree"
    assert raw.command({"validate": "c", "full": True}, "t")["valid"]
    reply = raw.command({"delete": "c", "deletes": [{"q": {"_id": acked[0]}, "limit": 1}]}, "t")
    assert reply["n"] == 1, reply
    del acked[0]


def die_full(server, point, acked):
    """At a deletion, which is not made, or at a checkpoint, which is what makes room."""
    with RawClient(server.port, timeout=60) as raw:
        with contextlib.suppress(Closed, OSError):
            raw.command({"runnelFault": f"{point}:kill"})
            if point == "commitBefore":
                raw.command({"delete": "c", "deletes": [{"q": {"_id": acked[0]}, "limit": 1}]}, "t")
            raw.command({"fsync": 1})
    assert server.wait() == -signal.SIGKILL


@pytest.mark.slow
def test_full_disk(request, small_disk):
    """Writes stop with an error, reads and deletions go on, also behind a death; with space, writes do again."""
    if request.config.getoption("--uri"):
        pytest.skip("needs a disk of its own")
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(60 * MB))
    acked = []
    with Server(path=small_disk / "data", args=["--cache-mb", "32"], test_commands=True) as server:
        with RawClient(server.port, timeout=60) as raw:
            fill(raw, acked)
            assert len(acked) > 20
            check_full(raw, acked)
        for point in ("commitBefore", "checkpointBefore", "checkpointAfter"):
            die_full(server, point, acked)
            server.start()
            with RawClient(server.port, timeout=60) as raw:
                check_full(raw, acked)
                fill(raw, acked)  # a start makes room: the log that it has replayed goes
        with RawClient(server.port, timeout=60) as raw:
            ballast.unlink()
            end = time.monotonic() + 20
            while insert(raw, max(acked) + 1, acked) is not None:
                assert time.monotonic() < end, "writes do not go on"
                time.sleep(0.05)
        server.kill()
        server.start()
        with RawClient(server.port, timeout=60) as raw:
            found = {d["_id"] for d in all_of(raw, "t", {"find": "c", "projection": {"_id": 1}})}
            assert set(acked) <= found
