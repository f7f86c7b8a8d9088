#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may include whom: layers, restricted headers, and the one wall of each library. Who may allocate.

base <- wire; base <- storage <- oplog <- query; server includes all; wire and storage never meet.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

LAYERS = {
    "base": {"base"},
    "wire": {"base", "wire"},
    "storage": {"base", "storage"},
    "oplog": {"base", "storage", "oplog"},
    "query": {"base", "storage", "oplog", "query"},
    "server": {"base", "wire", "storage", "oplog", "query", "server"},
}

# Headers that change records or append to the oplog: "no change without its oplog entry".
WRITERS = (r"query/(write|ddl|txn)\w*\.[ch]", r"oplog/\w+\.[ch]", r"storage/\w+\.[ch]")
RESTRICTED = {
    "storage/record_write.h": (r"query/(write|ddl|txn)\w*\.[ch]", r"storage/\w+\.[ch]"),
    "storage/table_write.h": (*WRITERS, r"query/spill\w*\.[ch]"),
    "storage/catalog_write.h": (r"query/ddl\w*\.[ch]", r"storage/\w+\.[ch]",
                                r"server/open\.c"),
    "oplog/append.h": WRITERS[:2],
}

LIBRARIES = {
    r"wiredtiger(_ext)?\.h": (r"storage/.*",),
    r"openssl/.*": (r"wire/.*", r"server/.*"),
    r"pcre2\.h": (r"query/regex\.c",),
    r"bid_(conf|functions)\.h": (r"base/decimal\.c",),
    r"yaml\.h": (r"server/\w+\.c",),
    r"(bson/)?bson\.h": (r"base/.*", r"server/.*"),
    r"unicode/.*": (r"query/collate\.c",),
    r"(snappy-c|zlib|zstd)\.h": (r"wire/compress\.c",),
    r"mongoc/.*": (),
}

# Only this file calls malloc and its kin: what happens when memory is out is decided in one place.
ALLOCATOR = "base/mem.c"
ALLOCATES = re.compile(r"\b(malloc|calloc|realloc|reallocarray|strn?dup|aligned_alloc|posix_memalign|memalign|v?asprintf)\s*\(")
# What an allocation gives is never looked at by aborting.
ABORTS = re.compile(r"== NULL\)\s*abort\(\);")

INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')


def matches_any(patterns, text):
    return any(re.fullmatch(p, text) for p in patterns)


def problems_of(path, text):
    """What is wrong with the includes of one file, given by its path inside the repository."""
    folder = path.split("/")[0]
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        quote, header = found.groups()
        where = f"{path}:{number}"
        if quote == '"':
            owner = header.split("/")[0]
            if "/" not in header:
                yield f"{where}: \"{header}\": paths carry their folder"
            elif owner in LAYERS and owner not in LAYERS[folder]:
                yield f"{where}: {folder}/ may not include {header}"
            if header in RESTRICTED and not matches_any(RESTRICTED[header], path):
                yield f"{where}: {header} is restricted (see tests/lint/check_layers.py)"
        for library, allowed in LIBRARIES.items():
            if re.fullmatch(library, header) and not matches_any(allowed, path):
                yield f"{where}: <{header}> stops at its wall (see tests/lint/check_layers.py)"


def allocations_in(path, text):
    """Calls of the system's allocator, and allocations that abort by themselves."""
    text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment.group().count("\n"), text, flags=re.DOTALL)
    for number, line in enumerate(text.splitlines(), 1):
        found = ALLOCATES.search(line)
        if found and path != ALLOCATOR:
            yield f"{path}:{number}: {found.group(1)}() is called by {ALLOCATOR} only (see base/mem.h)"
    for found in ABORTS.finditer(text):
        yield f"{path}:{text.count(chr(10), 0, found.start()) + 1}: memory that is out ends in mem_out() or an error"


def self_test():
    """The rules bite: each of these must be found."""
    wrong = {
        "base/x.c": '#include "storage/txn.h"',
        "wire/x.c": '#include "storage/txn.h"',
        "storage/x.c": '#include "wire/message.h"',
        "oplog/x.c": '#include "query/match.h"',
        "query/find.c": '#include "storage/record_write.h"',
        "query/other.c": '#include "oplog/append.h"',
        "server/x.c": "#include <wiredtiger.h>",
        "query/match.c": "#include <pcre2.h>",
        "storage/y.c": '#include "txn.h"',
    }
    for path, text in wrong.items():
        assert list(problems_of(path, text)), f"not found: {text} in {path}"
    for text in ("p = malloc(n);", "p = (char *)strdup (s);", "    if (p == NULL)\n        abort();"):
        assert list(allocations_in("query/x.c", text)), f"not found: {text}"
    assert not list(allocations_in("query/x.c", "p = mem_try(n); /* as malloc()\n * and realloc() */"))
    assert not list(problems_of("query/write_one.c", '#include "storage/record_write.h"'))


def main():
    self_test()
    problems = []
    for folder in LAYERS:
        for path in sorted((ROOT / folder).rglob("*.[ch]")):
            problems += problems_of(str(path.relative_to(ROOT)), path.read_text())
            problems += allocations_in(str(path.relative_to(ROOT)), path.read_text())
            if not path.read_text().startswith("/* SPDX-License-Identifier: GPL-3.0-or-later */"):
                problems.append(f"{path.relative_to(ROOT)}:1: no SPDX line")
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
