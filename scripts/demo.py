#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A watch, live: writes on the left, their events with resume tokens on the right.

Starts a throw-away server on a free port, shows a dozen writes, then kills the server with SIGKILL,
starts it again and resumes in the middle of what had been seen. Ends by itself.
"""

import argparse
import pathlib
import shutil
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "pytests"))

import pymongo  # noqa: E402

from server import Server  # noqa: E402

WIDTH = max(80, shutil.get_terminal_size().columns)
TOKEN = 18  # of a token's hex digits: its kind and its place in the oplog
EVENT = (WIDTH - TOKEN) * 2 // 5
WRITE = WIDTH - TOKEN - EVENT - 2


def show(write="", event="", token=""):
    print(f"{write[:WRITE]:<{WRITE}} {event[:EVENT]:<{EVENT}} {token[:TOKEN]}".rstrip(), flush=True)


def writes(tea):
    """(what it looks like, how to do it)"""
    inc, push, unset = {"$inc": {"cups": 1}}, {"$push": {"notes": "new"}}, {"$unset": {"leaf": 1}}
    yield "insert {_id: 1, leaf: 'Assam'}", lambda: tea.insert_one({"_id": 1, "leaf": "Assam"})
    yield "insert {_id: 2, leaf: 'Sencha'}", lambda: tea.insert_one({"_id": 2, "leaf": "Sencha"})
    yield "update 1 {$inc: {cups: 1}}", lambda: tea.update_one({"_id": 1}, inc)
    yield "update 2 {$push: {notes: 'new'}}", lambda: tea.update_one({"_id": 2}, push)
    yield "update all {$inc: {cups: 1}}", lambda: tea.update_many({}, inc)
    yield "update 1 {$unset: {leaf: 1}}", lambda: tea.update_one({"_id": 1}, unset)
    yield "replace 1 {leaf: 'Ceylon'}", lambda: tea.replace_one({"_id": 1}, {"leaf": "Ceylon"})
    yield "insert {_id: 3}, {_id: 4}", lambda: tea.insert_many([{"_id": 3}, {"_id": 4}])
    yield "delete 3", lambda: tea.delete_one({"_id": 3})
    yield "findAndModify 4 {$inc: {cups: 1}}", lambda: tea.find_one_and_update({"_id": 4}, inc)
    yield "delete all", lambda: tea.delete_many({})


def describe(event):
    kind = event["operationType"]
    text = f"{kind} _id={event['documentKey']['_id']}"
    if kind == "update":
        change = event["updateDescription"]
        parts = [f"{k}={v}" for k, v in change["updatedFields"].items()]
        parts += [f"-{k}" for k in change["removedFields"]]
        text += " " + " ".join(parts)
    return text


def watch(stream, events):
    try:
        for event in stream:
            events.append(event)
            show("", describe(event), event["_id"]["_data"])
    except pymongo.errors.PyMongoError:
        pass  # closed with its client


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two writes")
    pause = parser.parse_args().pause

    with Server(port=0) as server:
        print(f"runneld serves {server.uri}\n")
        show("WRITE", "EVENT", "RESUME TOKEN")
        client = pymongo.MongoClient(server.uri)
        tea = client.demo.tea
        events = []
        stream = tea.watch()
        watcher = threading.Thread(target=watch, args=(stream, events), daemon=True)
        watcher.start()
        for text, write in writes(tea):
            show(text)
            write()
            time.sleep(pause)
        deadline = time.monotonic() + 10
        while len(events) < 15 and time.monotonic() < deadline:
            time.sleep(0.05)

        print("\nkill -9, start again, resume after the 10th event:", flush=True)
        server.kill()
        server.start()
        with tea.watch(resume_after=events[9]["_id"]) as resumed:
            for expected in events[10:]:
                event = next(resumed)
                show("", describe(event), event["_id"]["_data"])
                assert event["_id"] == expected["_id"]
        print(f"\n{len(events)} events seen, {len(events) - 10} of them again after the crash.")
        client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
