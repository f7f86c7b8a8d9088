# SPDX-License-Identifier: GPL-3.0-or-later
"""Atlas search: refused as a MongoDB outside Atlas does, so that clients can tell."""

import pytest
from pymongo.errors import OperationFailure

INDEX = {"name": "default", "definition": {"mappings": {"dynamic": True}}}


@pytest.mark.parametrize("command", [
    {"createSearchIndexes": "c", "indexes": [INDEX]},
    {"dropSearchIndex": "c", "name": "default"},
    {"listSearchIndexes": "c"},
    {"updateSearchIndex": "c", **INDEX},
])
def test_commands(db, command):
    with pytest.raises(OperationFailure) as e:
        db.command(command)
    assert e.value.code == 31082 and e.value.details["codeName"] == "SearchNotEnabled"
    assert "Atlas" in e.value.details["errmsg"] and next(iter(command)) in e.value.details["errmsg"]


@pytest.mark.parametrize("stage", ["$listSearchIndexes", "$search", "$searchMeta", "$vectorSearch"])
def test_stages(db, stage):
    with pytest.raises(OperationFailure) as e:
        list(db.c.aggregate([{stage: {}}]))
    assert e.value.code == 31082 and "Atlas" in e.value.details["errmsg"]


@pytest.mark.parametrize("stage", ["$search", "$listSearchIndexes"])
def test_not_in_change_streams(db, stage):
    with pytest.raises(OperationFailure) as e:
        db.c.watch([{stage: {}}])
    assert e.value.code == 20
