# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of results: measured, ceiling, peer, and whether a target is met."""

import os
import platform
import statistics

HEAD = f"{'':52} {'measured':>12} {'ceiling':>12} {'ratio':>6} {'peer':>12}  target"


def median(xs):
    xs = [x for x in xs if x is not None]
    return statistics.median(xs) if xs else None


def show(x):
    if x is None:
        return "-"
    return f"{x:.0f}" if abs(x) >= 100 else f"{x:.3g}"


class Results:
    """Collects rows; each is printed when it is known."""

    def __init__(self, peer_name):
        self.rows = []
        self.series = {}
        self.notes = []
        self.peer_name = peer_name
        print(HEAD, flush=True)

    def add(self, number, name, unit, measured, ceiling=None, ceiling_name=None, peer=None,
            at_least=None, at_most=None, text=None):
        """
        One row. With a ceiling, at_least bounds the ratio to it; without one, at_least and at_most
        bound the figure. Neither: the row is told, not judged. A peer makes a row of its own below.
        """
        ratio = measured / ceiling if measured is not None and ceiling else None
        figure = ratio if at_least is not None and ceiling is not None else measured
        met = None
        if at_least is not None:
            met = figure is not None and figure >= at_least
            text = text or (f"≥ {at_least:.0%} of {ceiling_name}" if ceiling else f"≥ {at_least:g}")
        elif at_most is not None:
            met = figure is not None and figure <= at_most
            text = text or f"≤ {at_most:g}"
        self._append(dict(number=number, name=name, unit=unit, measured=measured, ceiling=ceiling,
                          ceiling_name=ceiling_name, ratio=ratio, peer=peer, target=text, met=met))

    def against_peer(self, name, unit, ours, peer, more_is_better=True):
        """Target 11: ahead of the peer. Only where the peer could do it."""
        if peer is None or ours is None:
            return
        met = ours >= peer if more_is_better else ours <= peer
        self._append(dict(number=11, name=f"{name}, against {self.peer_name}", unit=unit,
                          measured=ours, ceiling=None, ceiling_name=None, ratio=None, peer=peer,
                          target="ahead", met=met))

    def failed(self, number, name, why):
        self._append(dict(number=number, name=name, unit="", measured=None, ceiling=None,
                          ceiling_name=None, ratio=None, peer=None, target=f"failed: {why}",
                          met=False))

    def note(self, text):
        self.notes.append(text)
        print(f"    {text}", flush=True)

    def _append(self, row):
        self.rows.append(row)
        verdict = {True: "met", False: "missed", None: ""}[row["met"]]
        label = f"{row['number']:>2}. {row['name']} ({row['unit']})"
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        print(f"{label:52} {show(row['measured']):>12} {show(row['ceiling']):>12} {ratio:>6} "
              f"{show(row['peer']):>12}  {row['target'] or ''}  {verdict}".rstrip(), flush=True)

    def verdict(self):
        judged = [row["met"] for row in self.rows if row["met"] is not None]
        return f"targets: {sum(judged)} met, {len(judged) - sum(judged)} missed"

    def as_json(self, command):
        return dict(command=command, machine=machine(), peer=self.peer_name, rows=self.rows,
                    series=self.series, notes=self.notes, verdict=self.verdict())


def stolen_seconds():
    """Processor time that the host of a virtual machine has kept from it so far, all cores together."""
    try:
        with open("/proc/stat") as f:
            return int(f.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return 0.0


def machine():
    model = cores = memory = "?"
    try:
        with open("/proc/cpuinfo") as f:
            models = [line.split(":")[1].strip() for line in f if line.startswith("model name")]
        model, cores = models[0], len(models)
        with open("/proc/meminfo") as f:
            memory = f"{int(f.readline().split()[1]) / 2**20:.0f} GiB"
    except (OSError, IndexError):
        pass
    return f"{cores} × {model}, {memory}, Linux {platform.release()}"
