"""Which changes of a silver definition leave stored rows comparable, by what the last commit records. No Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluicegate.flow.definitions import former_definition
from sluicegate.flow.definitions.definition_changes import StoredRows
from sluicegate.lake.commits.commit_info import CommitInfo, SilverFacts
from sluicegate.lake.log import Commit
from tests.conftest import Workspace

pytestmark = pytest.mark.unit

DEFINED = """
name: heart_rate
bronze:
  raw: {path: "${landing}/raw", format: json, schemaHints: "id BIGINT, at TIMESTAMP, at2 TIMESTAMP, v INT"}
silver:
  t:
"""
BY_QUERY = """\
    sql: "SELECT r.id, upper(r.d) AS d, r.at, CAST(r.v AS {kind}) AS v FROM STREAM(raw) AS r {where}"
"""
QUERY = BY_QUERY.format(kind="INT", where="")
CHANGED = "    from: raw\n    apply_changes: {{keys: [{}], sequence_by: {}, stored_as_scd_type: {}}}\n"


def stored(folder: Path, text: str) -> StoredRows:
    workspace = Workspace(folder)
    workspace.define(DEFINED + text)
    return StoredRows(workspace.definition.silver["t"], "the command")


def commit(of: StoredRows, **others: Any) -> Commit:
    flows = {"definitions": {name: one.fingerprint for name, one in of.table.flows_or_branches.items()}}
    ours = {"definition": of.table.fingerprint, SilverFacts.stored.key: of.facts(), **flows, **others}
    return Commit(1, 0, "WRITE", CommitInfo(ours), None, overwrites=False, partly=False)


KEYED, SEQUENCED = f"{QUERY}    keys: [id]\n", f"{QUERY}    keys: [id]\n    sequence_by: at\n"
UNION = '    sql: "SELECT id, {} AS d FROM STREAM(raw) UNION ALL SELECT id, {} FROM STREAM(raw2)"\n    keys: [id, d]\n'

BY_D = f"{QUERY}    keys: [d]\n"
FIRST, SECOND = CHANGED.format("id", "at", 1), CHANGED.format("id", "at", 2)

CASES = [
    ("the same", KEYED, KEYED, ""),
    ("WHERE", KEYED, BY_QUERY.format(kind="INT", where="WHERE id > 1") + "    keys: [id]\n", ""),
    ("a star in place of the columns", f"{QUERY}    keys: [id]\n",
     "    sql: \"SELECT * FROM STREAM(raw)\"\n    keys: [id]\n", ""),
    ("keys come", QUERY, KEYED, "it now has keys, id"),
    ("keys go", KEYED, QUERY, "it no longer has keys (before: id)"),
    ("one key more", KEYED, f"{QUERY}    keys: [id, at]\n", "its keys change from id to id, at"),
    ("another order", f"{QUERY}    keys: [at, id]\n", f"{QUERY}    keys: [id, at]\n",
     "its keys change from at, id to id, at"),
    ("a sequence comes", KEYED, SEQUENCED, "it now has a sequence_by, at"),
    ("a sequence goes", SEQUENCED, KEYED, "it no longer has a sequence_by"),
    ("another sequence", SEQUENCED, SEQUENCED.replace("by: at", "by: v"), "its sequence_by changes from at to v"),
    ("a key by another expression", BY_D, BY_D.replace("upper", "lower"),
     "the expression of d, by which its rows are compared, changed"),
    ("a sequence by another expression", SEQUENCED, SEQUENCED.replace("r.at", "r.at2 AS at"),
     "the expression of at, by which its rows are compared, changed"),
    ("another column by another expression", KEYED, KEYED.replace("upper", "lower"), ""),
    ("a key from its neighbour's column", BY_D, BY_D.replace("upper(r.d) AS d", "d"),
     "the expression of d, by which its rows are compared, changed"),
    ("type 2", FIRST, SECOND, "its stored_as_scd_type changes from 1 to 2"),
    ("type 1", SECOND, FIRST, "its stored_as_scd_type changes from 2 to 1"),
    ("snapshots", FIRST, FIRST.replace("changes:", "changes_from_snapshot:"),
     "its records are now snapshots"),
    ("changes in place of keys", SEQUENCED, FIRST, ""),
    ("a deleting condition", FIRST,
     FIRST.replace("keys:", "apply_as_deletes: \"v = 1\", keys:"), ""),
    ("rescued values that are kept", KEYED, f"{KEYED}    rescued: keep\n", ""),
    ("the type of a cast", KEYED, BY_QUERY.format(kind="DECIMAL(10, 2)", where="") + "    keys: [id]\n",
     "v changes from INT to DECIMAL(10,2)"),
    ("another word for the type", KEYED, BY_QUERY.format(kind="INTEGER", where="") + "    keys: [id]\n", ""),
    ("a length of text", KEYED, KEYED.replace("upper(r.d) AS d", "CAST(r.d AS VARCHAR(9)) AS d"), ""),
    ("a declared type", KEYED, f"{KEYED}    schema: v bigint\n", "v changes from INT to BIGINT"),
    ("a declared type that the cast differs from", KEYED,
     BY_QUERY.format(kind="BIGINT", where="") + "    keys: [id]\n    schema: v INT\n", ""),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "why"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_what_makes_stored_rows_incomparable(tmp_path: Path, before: str, after: str, why: str) -> None:
    was, now = stored(tmp_path / "was", before), stored(tmp_path / "now", after)
    columns = {"id": "bigint", "d": "string", "at": "string", "v": "int"}
    found = now.why_incomparable(commit(was), columns)
    assert found == why
    assert was.why_incomparable(commit(was), columns) == ""


def test_types_are_looked_at_after_an_edit_only(tmp_path: Path) -> None:
    """Else a type that is written in another way than it is stored would call for a full refresh in each run."""
    now = stored(tmp_path, KEYED)
    assert now.why_incomparable(commit(now), {"v": "string"}) == ""


def test_expressions_are_looked_at_after_an_edit_only(tmp_path: Path) -> None:
    """Another version of the program may write the text of the same expression in another way."""
    table = stored(tmp_path, BY_D)
    in_other_words = {SilverFacts.stored.key: table.facts() | {"expressions": {"": {"d": "ucase(r.d)"}}}}
    assert table.why_incomparable(commit(table, **in_other_words), {}) == ""
    edited = table.why_incomparable(commit(table, **in_other_words, definition="another"), {})
    assert "d, by which its rows are compared" in edited


@pytest.mark.parametrize(
    ("facts", "mixed"),
    [({}, False), ({"mixed": True}, True), ({"mixed": False}, False), ({"definition": "another"}, True)],
)
def test_rows_of_another_definition_stay_until_a_commit_says_that_none_is_left(
    tmp_path: Path, facts: dict[str, Any], mixed: bool
) -> None:
    table = stored(tmp_path, KEYED)
    assert former_definition.has_former_rows(table.table, commit(table, **facts), []) is mixed
    assert not former_definition.has_former_rows(table.table, None, [])


def test_commits_of_the_version_before_do_not_tell_the_keys(tmp_path: Path) -> None:
    """An edited table with keys is rebuilt once; one that was not edited, or has no keys, goes on."""
    was, now = stored(tmp_path / "was", KEYED), stored(tmp_path / "now", SEQUENCED)
    bare = stored(tmp_path / "bare", QUERY)
    unrecorded = {SilverFacts.stored.key: None}
    assert was.why_incomparable(commit(was, **unrecorded), {}) == ""
    assert "does not record the keys" in now.why_incomparable(commit(was, **unrecorded), {})
    assert bare.why_incomparable(commit(was, **unrecorded), {}) == ""


BRANCHES = {"x": "SELECT id FROM STREAM(raw) WHERE v = 1", "y": "SELECT id FROM STREAM(raw) WHERE v = 2",
            "z": "SELECT id FROM STREAM(raw) WHERE v = 3", "b": "SELECT id FROM STREAM(raw_2)",
            "c": "SELECT id FROM STREAM(raw2)"}  # fmt: skip


@pytest.mark.parametrize(("before", "now", "renumbered"), [
    ("xyb", "yb", True), ("xb", "zxb", True), ("xyb", "xzyb", True), ("xyb", "bzx", True), ("xyb", "by", True),
    ("xyc", "xc", False), ("xyc", "xyzc", False), ("xyb", "xzb", False), ("xb", "zb", False), ("xbc", "xc", False),
    ("xb", "cxb", False), ("xyb", "yxb", False), ("xyb", "xb", True), ("xb", "xyb", True), ("xyc", "yc", True),
])  # fmt: skip
def test_branches_of_a_union_all_that_get_the_names_of_others(
    tmp_path: Path, before: str, now: str, renumbered: bool
) -> None:
    """Reordered ones read the same records to the same place: together they make the rows that are there."""

    def union(folder: str, branches: str) -> StoredRows:
        workspace, sql = Workspace(tmp_path / folder), " UNION ALL ".join(BRANCHES[name] for name in branches)
        bronze = "".join(
            f"  {name}: {{path: '${{landing}}/{name}', format: json}}\n" for name in ("raw", "raw2", "raw_2")
        )
        workspace.define(f"name: heart_rate\nbronze:\n{bronze}silver:\n  t: {{sql: {sql}}}\n")
        return StoredRows(workspace.definition.silver["t"], "the command")

    was = union("was", before)
    streams = {name: {"source_id": flow.stream, "until": 1} for name, flow in was.table.flows_or_branches.items()}
    assert bool(union("now", now).why_incomparable(commit(was, streams=streams), {})) == renumbered


def test_flows_have_names_of_their_own_and_are_no_branches(tmp_path: Path) -> None:
    """One that is new or taken out brings or takes its records, and an edited one keeps its rows."""
    flows = "    flows:\n      {}: {{sql: SELECT id FROM STREAM(raw) WHERE v = {}}}\n"
    flows += "      {}: {{sql: SELECT id FROM STREAM(raw)}}\n"
    was, now = stored(tmp_path / "was", flows.format("x", 1, "y")), stored(tmp_path / "now", flows.format("x", 2, "z"))
    streams = {name: {"source_id": flow.stream, "until": 1} for name, flow in was.table.flows_or_branches.items()}
    assert now.why_incomparable(commit(was, streams=streams), {}) == ""
