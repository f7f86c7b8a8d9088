# SPDX-License-Identifier: GPL-3.0-or-later
"""What a parked watcher costs: the server's resident memory per change stream that waits.

    build/venv/bin/python tests/bench/watchers.py [--watchers 10000]

Sockets are connected, and have said something, before the first measurement: they are not counted.
"""

import argparse
import pathlib
import resource
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "pytests"))

from raw import RawClient, body, op_msg  # noqa: E402
from server import Server  # noqa: E402


def watch(raw):
    stream = raw.command({"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "t"})
    more = {"getMore": stream["cursor"]["id"], "collection": "c", "maxTimeMS": 600_000, "$db": "t"}
    raw.send(op_msg(body(more)))


def parked(raw):
    return raw.command({"serverStatus": 1, "$db": "admin"})["metrics"]["changeStreams"]["parked"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--watchers", default=10_000, type=int)
    n = parser.parse_args().watchers
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with Server(memory=True) as srv:
        control = RawClient(srv.port)
        clients = [RawClient(srv.port) for _ in range(n)]
        for raw in clients:
            raw.ping()
        before = srv.rss()
        for raw in clients:
            watch(raw)
        while parked(control) < n:
            time.sleep(0.05)
        print(f"{n} parked watchers: {(srv.rss() - before) / n:.0f} bytes each")
        for raw in (control, *clients):
            raw.close()


if __name__ == "__main__":
    main()
