#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Makes docs/performance.md and its plots from a result of the benchmark.

    gen_performance.py                    from docs/performance/result.json
    gen_performance.py build/bench.json   takes that result over first
    gen_performance.py --check            fails when the files are not what the result makes them
"""

import argparse
import json
import pathlib
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/bench"))

from plot import plot  # noqa: E402
from results import show  # noqa: E402

FOLDER = ROOT / "docs/performance"
PAGE = ROOT / "docs/performance.md"
RESULT = FOLDER / "result.json"

TEXT = """# Performance

<!-- Made by scripts/gen_performance.py from performance/result.json: do not edit. -->

    {command}

{machine}. Client and servers share these cores. A figure is the median of interleaved repeats; only
ratios within one run are worth comparing. {verdict}.

- *skeleton*: our executor, connections and group commit around the same WiredTiger rows, with nothing
  parsed (`tests/bench/skeleton.c`); *echo*: the skeleton answering finds out of memory.
- *bare WiredTiger*: the same rows through WiredTiger alone (`tests/bench/bare.c`); *bare sockets*: the
  same bytes over loopback.
- A delivery latency counts from when the insert was due to be sent until its event is there; the sync that it
  is judged by counts from when it was due, too. Both then have what the machine adds, be it of ours or not.
- The host of a virtual machine can take a processor away for tens of milliseconds ("stolen" time). Of the
  100 hot watchers, whose p99 is judged as it is, a run in which it did so for more than 20 ms is made again,
  twice at most; a section that lost more than 0.5 % of a processor is noted below the table.
- Finds, updates and deletes are of new servers in each repeat: two alike ones differ by up to a tenth for as long
  as they live, by where in memory their rows came to lie.
- Beside watchers: two servers in turn, which change roles half-way, since of two alike one is a little faster.
- Peer: {peer}, told to sync what it acknowledges, as we do (but for w:1, which syncs on neither
  side); on smaller data where the full size would take it minutes.

## Targets

{table}
{notes}
## What limits a find by _id

After many inserts the rows lie in WiredTiger's skip lists, whose nodes are far apart in memory: with
160,000 documents 42 to 47 % of the server's time goes to `__wt_search_insert` (perf); with 3,000 it is
a tenth of the instructions. The same finds after a restart, when the pages are compact, took 11.7 us of
CPU instead of 17.1, and the process 51 MB instead of 179 (32 connections, on a busy machine). Part of that
is gained back by jemalloc, which keeps blocks of one size together and which the release build is linked
to. Of 20 runs each, in turn and on a busy machine, median and least: 22.9 and 19.2 us with glibc's
allocator, 16.6 and 11.8 with jemalloc, 17.0 and 12.2 with tcmalloc. Smaller pages (`memory_page_max`)
gave nothing that could be told from noise; huge pages cost inserts more than they gave finds
([0006](decisions/0006-edges.md)). Of the time that is left, WiredTiger has 35 to 46 % (the search in its skip
lists alone 19 to 29 %), the kernel 39 to 47 %, our code 8 %, the C library 6 % (perf, 32 connections, 160,000
documents; the more of the memory's time other virtual machines take, the larger WiredTiger's part).

A find of one _id goes past filter, plan and cursor (`query/find_by_id.c`): 17,100 instructions instead of 19,700,
and 757 lines of code of 64 bytes instead of 904, 276 of them WiredTiger's; the echo touches 132 (callgrind with
`--dump-instr=yes`). Where requests come one by one and the processor's caches are cold, lines weigh more than
instructions do.

## What limits a delivery

Half of the events come as fast as a sync is made. Of the slow ones (4 ms and more, one in a hundred) a trace of
the scheduler and the disk shows that no request to the disk took longer than 0.5 ms: a thread of the
kernel (DAMON, which looks for memory that is not used) kept one of the two cores for 4 ms, and whoever was
to run there, the client or the server, waited.

With 100 hot watchers both cores are in use for four fifths of the time. Of 40 runs of 2.4 s, one behind the other
on a machine that had its cores for itself, the p99 was 2.2 to 6.6 ms, in one 11.1. A stop of the whole machine
makes all that was due meanwhile late by as much: two of 40 ms in one run are a p99 of 27 ms.

## How cost grows

{plots}"""


def row_line(row):
    verdict = {True: "met", False: "**missed**", None: ""}[row["met"]]
    ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
    cells = [str(row["number"]), f"{row['name']} ({row['unit']})", show(row["measured"]),
             show(row["ceiling"]) + (f" ({row['ceiling_name']})" if row["ceiling_name"] else ""),
             ratio, show(row["peer"]), row["target"] or "", verdict]
    return "| " + " | ".join(cells) + " |"


def table(rows):
    head = ["| # | workload | measured | ceiling | ratio | peer | target | |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |"]
    return "\n".join(head + [row_line(r) for r in rows]) + "\n"


def plots(result):
    """{file name: (caption, SVG text)}"""
    series = result["series"]
    out = {}
    if series.get("insert"):
        points = series["insert"]
        lines = [(name, [(p[0], p[i]) for p in points])
                 for i, name in ((1, "runneld"), (2, "skeleton"), (3, result["peer"] or "peer"))]
        out["insert.svg"] = ("Single durable inserts by connections",
                             plot("Durable inserts of 200 B", "connections", "inserts a second", lines))
    if series.get("parked"):
        points = series["parked"]
        lines = [("writes a second", [(p[0], p[1]) for p in points]),
                 ("CPU per write", [(p[0], p[2]) for p in points])]
        out["parked.svg"] = ("Writers beside watchers that are parked on other collections",
                             plot("Beside parked watchers, relative to none", "parked watchers",
                                  "times as without", lines))
    if series.get("resume"):
        out["resume.svg"] = ("Resuming with foreign entries behind the token, 100 matching at the end",
                             plot("Far resume: time to the first event", "foreign entries",
                                  "milliseconds", [("runneld", series["resume"])]))
    return out


def series_table(name, points):
    heads = {"insert.svg": ("connections", "runneld /s", "skeleton /s", "peer /s"),
             "parked.svg": ("parked watchers", "writes, × none", "CPU per write, × none"),
             "resume.svg": ("foreign entries", "first event, ms")}[name]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    lines += ["| " + " | ".join([f"{p[0]:g}"] + [show(x) for x in p[1:]]) + " |" for p in points]
    return "\n".join(lines)


def page(result, drawn):
    parts = []
    for name, (caption, _) in drawn.items():
        points = result["series"][name.split(".")[0]]
        parts.append(f"{caption}:\n\n![{caption}](performance/{name})\n\n{series_table(name, points)}\n")
    notes = "\n".join(f"- {n}" for n in result["notes"])
    verdict = result["verdict"]
    return TEXT.format(command=result["command"], machine=result["machine"],
                       verdict=verdict[0].upper() + verdict[1:],
                       peer=result["peer"] or "none at hand", table=table(result["rows"]),
                       notes=notes + "\n" if notes else "", plots="\n".join(parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result", nargs="?", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    if args.result is not None:
        shutil.copyfile(args.result, RESULT)
    result = json.loads(RESULT.read_text())
    drawn = plots(result)
    files = {FOLDER / name: svg for name, (_, svg) in drawn.items()}
    files[PAGE] = page(result, drawn)
    if args.check:
        stale = [str(p.relative_to(ROOT)) for p, new in files.items()
                 if not p.exists() or p.read_text() != new]
        if stale:
            print("not what performance/result.json makes of them: " + ", ".join(stale))
        return 1 if stale else 0
    for path, new in files.items():
        path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
