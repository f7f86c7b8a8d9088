# SPDX-License-Identifier: GPL-3.0-or-later
"""Starting and stopping the process: settings, refusals, readiness, an orderly end."""

import os
import re
import socket
import stat
import subprocess
import threading

import pymongo
import pytest
from bson.int64 import Int64

from raw import EXHAUST_ALLOWED, Closed, RawClient, op_msg
from server import Server, binary


def run(*args, env=None):
    """Runs the binary to its end."""
    return subprocess.run(
        [binary(), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=60,
        env=dict(os.environ, **(env or {})),
    )


def test_version_and_help():
    assert re.match(r"runneld \d+\.\d+", run("--version").stdout)
    text = run("--help").stdout
    for name in (
        "advertise", "bind", "cache-mb", "config", "dbpath", "enable-test-commands", "memory",
        "no-oplog", "oplog-max-entries", "oplog-retention-seconds", "oplog-size-mb", "port",
        "repl-set", "unix-socket",
    ):
        assert f"--{name}" in text


@pytest.mark.parametrize(
    "args, message",
    [
        ((), "give either --dbpath DIR or --memory"),
        (("--memory", "--dbpath", "x"), "give either"),
        (("--memory", "--port", "70000"), "port: not a whole number"),
        (("--memory", "--oplog-size-mb", "0"), "oplog-size-mb: not a whole number"),
        (("--memory", "--cache-mb", "x"), "cache-mb: not a whole number"),
        (("--memory", "--config", "/no/such/file"), "cannot read /no/such/file"),
        (("--memory", "--advertise", "nowhere"), "advertise: not HOST:PORT"),
        (("--memory", "--nonsense"), "unrecognized option"),
        (("--memory", "stray"), "unexpected argument"),
    ],
)
def test_bad_usage(args, message):
    ended = run(*args)
    assert ended.returncode != 0
    assert ended.stdout == ""
    assert message in ended.stderr


def test_config_file(tmp_path):
    config = tmp_path / "runnel.yaml"
    config.write_text("memory: true\nport: 0\nrepl-set: fromfile\noplog-max-entries: 77\n")
    process = subprocess.Popen(
        [binary(), "--config", config, "--repl-set", "fromline"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    try:
        line = process.stdout.readline()
        assert re.fullmatch(r"listening mongodb://127\.0\.0\.1:\d+/\?replicaSet=fromline\n", line)
        with pymongo.MongoClient(line.split()[1]) as client:
            assert client.admin.command("hello")["setName"] == "fromline"
            answer = client.admin.command("getParameter", oplogMaxEntries=1)
            assert answer["oplogMaxEntries"] == 77
    finally:
        process.terminate()
        assert process.wait(60) == 0


def test_unknown_setting_in_the_config_file(tmp_path):
    config = tmp_path / "runnel.yaml"
    config.write_text("memory: true\nporrt: 0\n")
    ended = run("--config", config)
    assert ended.returncode != 0
    assert "unknown setting 'porrt'" in ended.stderr


def test_second_server_on_a_directory(tmp_path):
    with Server(path=tmp_path / "data") as first:
        ended = run("--dbpath", tmp_path / "data", "--port", 0)
        assert ended.returncode != 0
        assert "listening" not in ended.stdout
        assert "cannot open the database" in ended.stderr
        with pymongo.MongoClient(first.uri) as client:
            assert client.admin.command("ping")["ok"] == 1


def test_second_server_on_a_port(tmp_path):
    with Server(memory=True) as first:
        ended = run("--memory", "--port", first.port)
        assert ended.returncode != 0
        assert "cannot listen" in ended.stderr and "Address already in use" in ended.stderr


def test_directory_of_a_newer_format_is_left_alone(tmp_path):
    path = tmp_path / "data"
    with Server(path=path):
        pass
    (path / "RUNNEL").write_text("runnel-format 999\n")
    before = sorted((p.name, p.stat().st_size) for p in path.iterdir())
    ended = run("--dbpath", path, "--port", 0)
    assert ended.returncode != 0
    assert "999" in ended.stderr
    assert sorted((p.name, p.stat().st_size) for p in path.iterdir()) == before


def test_directory_that_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("dear reader")
    ended = run("--dbpath", tmp_path, "--port", 0)
    assert ended.returncode != 0
    assert [p.name for p in tmp_path.iterdir()] == ["letter.txt"]


def test_notify_socket(tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(path)
        sock.settimeout(60)
        with Server(memory=True, env={"NOTIFY_SOCKET": path}):
            assert sock.recv(100) == b"READY=1"
        assert sock.recv(100) == b"STOPPING=1"


def test_unix_socket(tmp_path):
    path = tmp_path / "runnel.sock"
    with Server(memory=True, args=("--unix-socket", path)) as srv:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        uri = "mongodb://" + str(path).replace("/", "%2F")
        with pymongo.MongoClient(uri, directConnection=True) as client:
            hello = client.admin.command("hello")
            assert hello["me"] == f"127.0.0.1:{srv.port}"
            client.t.c.insert_one({"_id": 1})
        with pymongo.MongoClient(srv.uri) as client:
            assert client.t.c.count_documents({}) == 1
    assert not path.exists()


def test_advertised_address():
    with Server(memory=True, args=("--advertise", "db.example.net:4444")) as srv:
        with RawClient(srv.port) as raw:
            hello = raw.command({"hello": 1})
            assert hello["hosts"] == ["db.example.net:4444"]
            assert hello["me"] == hello["primary"] == "db.example.net:4444"


def test_listening_beyond_this_machine_warns():
    with Server(memory=True, args=("--bind", "0.0.0.0")) as srv:
        with RawClient(srv.port) as raw:
            assert raw.command({"hello": 1})["me"] == f"127.0.0.1:{srv.port}"
        warnings = [e for e in srv.log_lines() if e.get("s") == "W"]
        assert any("no authentication" in e["msg"] for e in warnings)
    with Server(memory=True) as srv:
        assert not [e for e in srv.log_lines() if e.get("s") == "W"]


def test_fault_of_the_environment():
    ended = run("--memory", "--port", 0, env={"RUNNEL_FAULT": "noSuchPoint:kill"})
    assert ended.returncode != 0
    assert "noSuchPoint" in ended.stderr


# --- the end ----------------------------------------------------------------------------------


def pinned_cursors(raw):
    return raw.command({"serverStatus": 1})["metrics"]["cursor"]["open"]["pinned"]


def parked_get_more(srv, raw):
    raw.command({"create": "c"}, db="t")
    reply = raw.command({"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}}, "t")
    more = {"getMore": Int64(reply["cursor"]["id"]), "collection": "c", "maxTimeMS": 60000}
    raw.send(op_msg({**more, "$db": "t"}))
    with RawClient(srv.port) as other:
        while pinned_cursors(other) == 0:
            pass


def test_stop_answers_what_waits(tmp_path):
    with Server(path=tmp_path / "data") as srv:
        with RawClient(srv.port) as stream, RawClient(srv.port) as hello, RawClient(srv.port) as idle:
            parked_get_more(srv, stream)
            version = hello.command({"hello": 1})["topologyVersion"]
            version["counter"] = Int64(version["counter"] - 1)
            hello.send(op_msg(
                {"hello": 1, "topologyVersion": version, "maxAwaitTimeMS": 60000, "$db": "admin"},
                flags=EXHAUST_ALLOWED,
            ))
            assert hello.receive().more_to_come
            srv.stop()
            answer = stream.receive()
            assert answer.doc["code"] in (11600, 91)
            assert answer.doc["errorLabels"] == ["ResumableChangeStreamError"]
            answer = hello.receive()
            assert (answer.doc["ok"], answer.doc["code"]) == (0.0, 91)
            assert not answer.more_to_come
            for raw in (stream, hello, idle):
                with pytest.raises(Closed):
                    raw.receive()


@pytest.mark.concurrent
def test_stop_under_load_loses_nothing(tmp_path):
    with Server(path=tmp_path / "data") as srv:
        acknowledged = [[] for _ in range(4)]

        def write(n):
            with RawClient(srv.port) as raw:
                for i in range(100000):
                    try:
                        reply = raw.command({"insert": "c", "documents": [{"_id": f"{n}-{i}"}]}, "t")
                    except (Closed, ConnectionError):
                        return
                    if reply["ok"] != 1:
                        assert reply["code"] in (11600, 91)
                        return
                    acknowledged[n].append(f"{n}-{i}")

        threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
        for t in threads:
            t.start()
        while sum(map(len, acknowledged)) < 100:
            pass
        srv.stop()
        for t in threads:
            t.join()
        srv.start()
        with pymongo.MongoClient(srv.uri) as client:
            there = {d["_id"] for d in client.t.c.find()}
        assert there >= {i for ids in acknowledged for i in ids}


def test_sigint_ends_cleanly():
    process = subprocess.Popen(
        [binary(), "--memory", "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    assert process.stdout.readline().startswith("listening ")
    process.send_signal(2)
    assert process.wait(60) == 0
