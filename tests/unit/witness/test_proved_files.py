"""What a verification since the last one looks at in bronze: what came, what changed in place, and no more."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyarrow import parquet

from sluicegate.flow.verification import proofs as proofs_module
from sluicegate.flow.verification.finding import Finding
from sluicegate.flow.verification.proofs import Proofs
from sluicegate.lake import log, offsets, tables
from sluicegate.landing import file_status, intake
from sluicegate.witness import landed_files
from tests.conftest import Workspace
from tests.support.bronze_by_hand import ingested

pytestmark = pytest.mark.unit

DEFINITION = """name: heart_rate
bronze:
  lines: {path: "${landing}/lines", format: json, allowOverwrites: true, schemaHints: "id BIGINT, text STRING"}
"""
LINES = {"id": pa.int64(), "text": pa.string()}


@pytest.fixture
def lake(workspace: Workspace) -> Workspace:
    """Two landed files, of two records each, that bronze has read in one ledger batch."""
    workspace.define(DEFINITION)
    ingested(workspace, "lines", LINES, dict(landed(workspace, "a", "b")))
    return workspace


def landed(workspace: Workspace, *names: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for name in names:
        rows = [{"id": number, "text": name * number} for number in (1, 2)]
        yield str(workspace.land(f"lines/{name}.json", rows)), rows


def come(workspace: Workspace, name: str, text: str | None = None) -> None:
    """Lets a file land, and bronze read it in a ledger batch of its own, with ``text`` in place of what it has."""
    [(path, rows)] = landed(workspace, name)
    table = workspace.definition.bronze["lines"]
    intake.enter("lines", table, workspace.lake)
    ledger = DeltaTable(workspace.lake.ledger("lines"))
    [entry] = [row for row in tables.dataset(ledger).to_table().to_pylist() if row["path"] == path]
    uri, chunk = workspace.uri("lines"), entry["chunk"]
    made = [
        {**row, "text": text or row["text"], "source_file": f"file://{path}", "_chunk": chunk, "_pos": number,
         "receipt_time": datetime(2024, 5, 1, tzinfo=UTC), "_file_modification_time": entry["modification_time"]}
        for number, row in enumerate(rows)
    ]  # fmt: skip
    facts = {"chunk": chunk, "until": chunk, "files": 1, "definition": table.fingerprint}
    marks = [Transaction(offsets.app_id("bronze", "lines", ledger), chunk)]
    said = CommitProperties({"userMetadata": json.dumps({log.METADATA: facts})}, app_transactions=marks)
    schema = DeltaTable(uri).to_pyarrow_table().schema
    write_deltalake(uri, pa.Table.from_pylist(made, schema), mode="append", commit_properties=said)
    file_status.copy(workspace.lake, "lines")


def verified(workspace: Workspace, *, since_last: bool = True) -> list[Finding]:
    """Findings, and that the proof of a table of which something is wrong is not there afterwards."""
    proofs = Proofs(workspace.lake, since_last=since_last)
    found = list(landed_files.findings(workspace.definition, workspace.settings, proofs=proofs))
    wrong = any(one.kind == "wrong" for one in found)
    assert Path(workspace.lake.proof("bronze", "lines")).exists() != wrong
    return found


def in_place(path: str | Path, old: bytes, new: bytes) -> None:
    """Changes a file as a disk or a careless hand does: Delta's log does not know."""
    data = Path(path).read_bytes()
    assert old in data
    Path(path).write_bytes(data.replace(old, new))
    later = Path(path).stat().st_mtime + 5
    os.utime(path, (later, later))


def kinds(found: list[Finding]) -> list[tuple[str, str]]:
    return [(one.kind, one.reason) for one in found]


BEFORE = ("unseen", "proved-before")


def test_what_was_proved_is_not_looked_at_again_and_is_not_said_to_be_verified(lake: Workspace) -> None:
    assert kinds(verified(lake, since_last=False)) == [("proved", "")]
    again = verified(lake)
    assert kinds(again) == [BEFORE]
    today = datetime.now(UTC).date()
    assert again[0].what == f"the values of 2 of 2 files, proved at version 0 on {today} and not looked at again"
    come(lake, "c")
    left, proved = verified(lake)
    assert kinds([left, proved]) == [BEFORE, ("proved", "")]
    assert left.what.startswith("the values of 2 of 3 files, proved at version 0")
    assert proved.what.startswith("each value of 2 records equals that of 1 of 3 files")
    assert proved.version == 1
    assert [one.what.split(",")[0] for one in verified(lake)] == ["the values of 3 of 3 files"]


def test_the_first_verification_since_the_last_is_whole(lake: Workspace) -> None:
    assert kinds(verified(lake)) == [("proved", "")]
    assert kinds(verified(lake)) == [BEFORE]


def test_damage_in_a_new_file_is_found_and_its_table_is_not_remembered_as_proved(lake: Workspace) -> None:
    verified(lake)
    come(lake, "c", text="other")
    for _ in range(2):
        wrong = [one for one in verified(lake) if one.kind == "wrong"]
        assert [one.what.split(":")[0] for one in wrong] == [str(lake.folder / "landing/lines/c.json")]


def test_a_data_file_that_is_changed_in_place_is_looked_at_again(lake: Workspace) -> None:
    come(lake, "c")
    verified(lake)
    [old] = [uri for uri in DeltaTable(lake.uri("lines"), version=0).file_uris()]
    rows = parquet.read_table(old)
    changed = rows.set_column(rows.schema.get_field_index("text"), "text", pa.array(["x"] * len(rows)))
    parquet.write_table(changed, old)
    found = verified(lake)
    assert {one.kind for one in found} == {"wrong"}
    assert len(found) == 2


def test_a_landed_file_that_is_changed_is_looked_at_again(lake: Workspace) -> None:
    verified(lake)
    in_place(lake.folder / "landing/lines/a.json", b"aa", b"zz")
    left, proved, *more = sorted(verified(lake), key=lambda one: one.kind, reverse=True)
    assert not more
    assert (left.kind, left.what) == (
        "unseen", f"{lake.folder}/landing/lines/a.json: it has changed since it was read"
    )  # fmt: skip
    assert proved.what.startswith("each value of 2 records equals that of 1 file")
    found = verified(lake)  # it is told of each time, and what was proved is left out
    assert sorted(kinds(found)) == sorted([("unseen", ""), BEFORE])
    assert any(one.what.startswith("the values of 1 of 2 files, proved") for one in found)


def test_rows_that_another_program_has_written_again_are_looked_at(lake: Workspace) -> None:
    verified(lake)
    rows = DeltaTable(lake.uri("lines")).to_pyarrow_table().to_pylist()
    for row in rows:
        row["text"] = "other" if row["text"] == "aa" else row["text"]
    schema = DeltaTable(lake.uri("lines")).to_pyarrow_table().schema
    write_deltalake(lake.uri("lines"), pa.Table.from_pylist(rows, schema), mode="overwrite")
    assert [one.kind for one in verified(lake)] == ["wrong"]


@pytest.mark.parametrize("change", ["restored", "put back", "definition", "a week"])
def test_a_proof_that_may_not_hold_any_more_is_void(lake: Workspace, change: str) -> None:
    come(lake, "c")
    verified(lake)
    uri = lake.uri("lines")
    if change == "restored":
        DeltaTable(uri).restore(0)
        DeltaTable(uri).restore(1)
    elif change == "put back":
        entry = Path(uri, "_delta_log", f"{1:020}.json")
        entry.write_text(entry.read_text().replace('"operation"', ' "operation"'))
    elif change == "definition":
        lake.edit("pipeline.yaml", "text STRING", "text STRING, more STRING")
    else:
        days = timedelta(proofs_module.WHOLE_AFTER)
        path = Path(lake.lake.proof("bronze", "lines"))
        facts = json.loads(path.read_text())
        whole = datetime.now(UTC).date() - days
        path.write_text(json.dumps({**facts, "whole": (whole + timedelta(1)).isoformat()}))
        assert kinds(verified(lake)) == [BEFORE]
        facts = json.loads(path.read_text())
        assert facts["whole"] == (whole + timedelta(1)).isoformat()  # a proof of a part makes nothing younger
        path.write_text(json.dumps({**facts, "whole": whole.isoformat()}))
    found = verified(lake)
    assert kinds(found) == [("proved", "")], found
    assert "3 files" in found[0].what


@pytest.mark.parametrize("text", ["", "{", "[]", '{"form": 99}', '{"form": 1, "by": "0"}'])
def test_a_proof_that_cannot_be_read_is_none(lake: Workspace, text: str) -> None:
    verified(lake)
    Path(lake.lake.proof("bronze", "lines")).write_text(text)
    assert kinds(verified(lake)) == [("proved", "")]


def test_a_lake_that_cannot_be_written_is_verified_as_a_whole(lake: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(proofs_module.durable, "write", refused)
    told: list[str] = []
    proofs = Proofs(lake.lake, since_last=True, tell=told.append)
    found = list(landed_files.findings(lake.definition, lake.settings, proofs=proofs))
    assert kinds(found) == [("proved", "")]
    assert told == ["  cannot record the proof of lines, so the next one compares everything: Permission denied"]
