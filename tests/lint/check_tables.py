#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables that say so are sorted, each row has its function, and a test names what it offers."""

import re
import sys

import tables
from tables import FOLDERS, ROOT

# Tables whose order is not that of their first column, ASCII with case ignored.
SORT_KEY = {"base/errors.def": lambda row: int(row.args[1])}
# Where the functions of a table carry a prefix that the rows leave out.
PREFIX = {"query/match_ops.def": "match_", "query/stages.def": ""}
# Rows that no test needs to name; refused ones (UNBUILT_*) need none either.
UNTESTED_TABLES = {"base/errors.def"}


def is_unbuilt(row):
    return "UNBUILT" in " ".join([row.macro, *row.args[1:]])


def name_of(row):
    """What clients and tests call it: the first argument, or the string behind an identifier."""
    strings = [i for i, a in enumerate(row.args[:2]) if a.startswith('"')]
    return row.text(strings[0]) if strings else row.name


def functions_of(path, row):
    """The C functions that a row names."""
    if path == "server/commands.def":
        return [f"cmd_{row.name}"]
    if is_unbuilt(row):
        return []
    prefix = PREFIX.get(path, "")
    names = [a for a in row.args[1:] if re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)+", a)]
    return [n if n.startswith(prefix) else prefix + n for n in names]


def check_unique(path, rows):
    seen = set()
    for row in rows:
        if (row.macro, row.name) in seen:
            yield f"{path}:{row.line}: {row.name} is there twice"
        seen.add((row.macro, row.name))


def check_order(path, rows):
    key = SORT_KEY.get(path, lambda row: row.name.lower())
    last = {}
    for row in rows:
        before = last.get(row.macro)
        if before is not None and key(before) > key(row):
            yield f"{path}:{row.line}: {row.name} stands after {before.name}"
        last[row.macro] = row


def check_functions(path, rows, sources):
    for row in rows:
        for function in functions_of(path, row):
            # a definition, or a macro that makes one: NAME(function, ...)
            if not re.search(rf"^[a-z][\w \*]*\b{function}\(|^[A-Z_]+\({function}\b", sources, re.M):
                yield f"{path}:{row.line}: {row.name}: no function {function}"


def check_tests(path, rows, tests):
    if path in UNTESTED_TABLES:
        return
    for row in rows:
        if is_unbuilt(row):
            continue
        name = name_of(row)
        name = re.escape(name).replace(r"\$", "[$%]")  # tests in C write % for $ inside JSON
        if not re.search(rf"(?<![\w$%]){name}(?!\w)", tests):
            yield f"{path}:{row.line}: no test mentions {name_of(row)}"


def self_test():
    rows = tables.parse('A("b", f_x, 1)\nA("a", "x" /* , */ ", y", { 1, 2 })')
    assert [r.name for r in rows] == ["b", "a"] and rows[1].line == 2
    assert rows[1].text(1) == "x, y" and rows[1].args[2] == "{ 1, 2 }"
    assert list(check_order("x", rows)) == ["x:2: a stands after b"]
    assert list(check_functions("x", rows, "static int\nint f_y(void)\n"))
    assert not list(check_functions("x", rows, "int f_x(void)\n"))
    assert len(list(check_tests("x", rows, "ab $b b_"))) == 2


def text_of(folders, suffixes):
    files = [p for f in folders for s in suffixes for p in sorted((ROOT / f).rglob(f"*{s}"))]
    return "\n".join(p.read_text() for p in files)


def main():
    self_test()
    sources = text_of(FOLDERS, (".c", ".h"))
    tests = text_of(("tests/unit", "tests/integration", "pytests"), (".c", ".py"))
    problems = []
    for path, rows in tables.all_tables().items():
        problems += check_unique(path, rows)
        if re.search(r"\bsorted\b", (ROOT / path).read_text(), re.I):
            problems += check_order(path, rows)
        problems += check_functions(path, rows, sources)
        problems += check_tests(path, rows, tests)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
