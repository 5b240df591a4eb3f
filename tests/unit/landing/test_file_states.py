from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from jinja2 import Environment

from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.file_states import OPENED, RENEWING, UNREAD, FileStatus, LedgerAction, RemovalMode
from sluicegate.storage.listings import FILES

pytestmark = pytest.mark.unit

WORDS = ["waiting", "settling", "changed", "ingested", "archived", "failed", "replaced", "dropped", "skipped", "moved",
         "refused"]  # fmt: skip


def test_the_words_that_a_lake_and_scripts_have_of_a_file_stay() -> None:
    assert json.dumps([*FileStatus]) == json.dumps(WORDS)
    assert json.dumps([*LedgerAction]) == json.dumps(["read", "replace", "skip", "reset", "drop", "moved"])
    assert json.dumps([*RemovalMode]) == json.dumps(["MOVE", "DELETE", "GONE"])


def test_each_action_is_of_files_that_are_opened_or_of_others() -> None:
    assert sorted([*OPENED, *UNREAD]) == sorted(LedgerAction)
    assert {*RENEWING} - {*OPENED} == {LedgerAction.DROP}


@pytest.mark.parametrize("action", LedgerAction)
def test_a_ledger_stores_the_word_of_an_action(action: LedgerAction, tmp_path: Any) -> None:
    files = pa.Table.from_pylist([{"path": "/a", "size": 1, "modification_time": 0}], FILES)
    entries = landing_ledger.stamp_rows(landing_ledger.add_action(action, files), 0)
    uri = str(tmp_path / "ledger")
    landing_ledger.create(uri, entries, {})
    [stored] = DeltaTable(uri).to_pyarrow_table(columns=["action"])["action"].to_pylist()
    assert (type(stored), stored) == (str, action.value)


@pytest.mark.parametrize("status", FileStatus)
def test_a_status_goes_out_as_its_word(status: FileStatus) -> None:
    word = status.value
    assert pa.repeat(pa.scalar(status), 1).to_pylist() == [word]
    assert pc.is_in(pa.array([word]), value_set=pa.array([status])).to_pylist() == [True]
    assert Environment(autoescape=True).from_string("{{ it }}").render(it=status) == f"{status}" == word
