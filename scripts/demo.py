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

LEFT = 52


def show(left="", right=""):
    width = max(80, shutil.get_terminal_size().columns)
    print(f"{left[:LEFT]:<{LEFT}}  {right[:width - LEFT - 2]}", flush=True)


def writes(tea):
    """(what it looks like, how to do it)"""
    yield "insert_one({_id: 1, leaf: 'Assam', cups: 0})", lambda: tea.insert_one(
        {"_id": 1, "leaf": "Assam", "cups": 0})
    yield "insert_one({_id: 2, leaf: 'Sencha', cups: 0})", lambda: tea.insert_one(
        {"_id": 2, "leaf": "Sencha", "cups": 0})
    yield "update_one({_id: 1}, {$inc: {cups: 1}})", lambda: tea.update_one(
        {"_id": 1}, {"$inc": {"cups": 1}})
    yield "update_one({_id: 2}, {$push: {notes: 'grassy'}})", lambda: tea.update_one(
        {"_id": 2}, {"$push": {"notes": "grassy"}})
    yield "update_many({}, {$inc: {cups: 2}})", lambda: tea.update_many({}, {"$inc": {"cups": 2}})
    yield "update_one({_id: 1}, {$unset: {leaf: 1}})", lambda: tea.update_one(
        {"_id": 1}, {"$unset": {"leaf": 1}})
    yield "replace_one({_id: 1}, {leaf: 'Ceylon'})", lambda: tea.replace_one(
        {"_id": 1}, {"leaf": "Ceylon"})
    yield "insert_many([{_id: 3}, {_id: 4}])", lambda: tea.insert_many([{"_id": 3}, {"_id": 4}])
    yield "delete_one({_id: 3})", lambda: tea.delete_one({"_id": 3})
    yield "find_one_and_update({_id: 4}, {$set: {x: 1}})", lambda: tea.find_one_and_update(
        {"_id": 4}, {"$set": {"x": 1}})
    yield "delete_many({})", lambda: tea.delete_many({})


def describe(event):
    kind = event["operationType"]
    text = f"{kind} _id={event['documentKey']['_id']}"
    if kind == "update":
        change = event["updateDescription"]
        parts = [f"{k}={v}" for k, v in change["updatedFields"].items()]
        parts += [f"-{k}" for k in change["removedFields"]]
        text += " " + " ".join(parts)
    token = event["_id"]["_data"]
    return f"{text:<34} {token[:18]}..{token[-6:]}"


def watch(stream, events):
    try:
        for event in stream:
            events.append(event)
            show(right=describe(event))
    except pymongo.errors.PyMongoError:
        pass  # the server was killed, or the stream closed: the demo goes on elsewhere


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two writes")
    pause = parser.parse_args().pause

    with Server(port=0) as server:
        print(f"runneld serves {server.uri}\n")
        show("WRITES", "EVENTS                             RESUME TOKEN")
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

        show("\nkill -9, start again, resume after the 10th event:")
        server.kill()
        watcher.join(10)
        server.start()
        with tea.watch(resume_after=events[9]["_id"]) as resumed:
            for expected in events[10:]:
                event = next(resumed)
                show(right=describe(event))
                assert event["_id"] == expected["_id"]
        print(f"\n{len(events)} events seen, {len(events) - 10} of them again after the crash.")
        client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
