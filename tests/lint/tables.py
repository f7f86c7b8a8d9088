# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading .def tables: one macro call per row, `NAME(arg, "text", ...)`, comments between."""

import pathlib
import re
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDERS = ("base", "wire", "storage", "oplog", "query", "server")

TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|[A-Za-z_]\w*|\s+|.',
                   re.DOTALL)


class Row(NamedTuple):
    macro: str
    args: list  # as written; strings keep their quotes
    line: int

    def text(self, i):
        """Argument i without quotes; adjacent string literals are joined."""
        literals = re.findall(r'"((?:\\.|[^"\\])*)"', self.args[i])
        return "".join(literals).replace('\\"', '"') if literals else self.args[i]

    @property
    def name(self):
        return self.text(0)


def parse(source):
    """The rows of a table's source text."""
    rows = []
    line = 1
    depth = 0
    macro = start = None
    args = []
    for token in TOKEN.findall(source):
        at = line
        line += token.count("\n")
        if token.startswith(("/*", "//")):
            continue
        if token == "#" and depth == 0:
            raise ValueError(f"line {at}: no preprocessor lines in a table")
        if depth == 0:
            if token == "(" and macro:
                depth, start, args = 1, at, [""]
            elif token.strip():
                macro = token
            continue
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
            if depth == 0:
                rows.append(Row(macro, [" ".join(a.split()) for a in args], start))
                macro = None
                continue
        if token == "," and depth == 1:
            args.append("")
        else:
            args[-1] += token
    if depth:
        raise ValueError("unfinished row at the end")
    return rows


def read(path):
    return parse((ROOT / path).read_text())


def all_tables():
    """Every table of the program, by its path inside the repository."""
    found = [p for folder in FOLDERS for p in (ROOT / folder).rglob("*.def")]
    return {str(p.relative_to(ROOT)): parse(p.read_text()) for p in sorted(found)}
