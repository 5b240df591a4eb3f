"""Normalized names of columns: what they are made of, and what a definition may say beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.definition.tables.column_names import normalize_name
from sluicegate.spark_sql.engine_columns import RESERVED
from sluicegate.spark_sql.types import REFUSED, UNNAMED
from tests.unit.definition.reading.test_loader import Folder, bronze

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("field", "column"),
    [
        ("US Gross", "us_gross"), ("usGross", "us_gross"), ("US-Gross", "us_gross"), ("USGross", "us_gross"),
        ("us_gross", "us_gross"), ("  US  Gross (net) ", "us_gross_net"), ("a.b", "a_b"), ("2024 ü", "c_2024_u"),
        ("orderID2Old", "order_id2_old"), ("Größe", "grosse"), ("prix d'été", "prix_d_ete"), ("価格 (円)", "価格_円"),
        ("_c0", "c0"), ("__", ""), ("%", ""), ("", ""), pytest.param(UNNAMED, "", id="unnamed"),
        ("source file", "source_file_"),
        ("İd", "id"), ("x\ty\n", "x_y"), ("`tick`", "tick"), ("²", "c_2"), ("GRÖẞE", "grosse"),
    ],
)  # fmt: skip
def test_a_field_has_its_name(field: str, column: str) -> None:
    assert normalize_name(field) == column


@given(st.text())
def test_a_name_is_one_that_every_tool_can_say(field: str) -> None:
    name = normalize_name(field)
    assert normalize_name(name) == name
    assert not REFUSED & set(name)
    assert name not in RESERVED
    assert name == name.lower()
    assert not name or name[0].isalpha()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.mark.parametrize(
    ("fields", "code", "hint"),
    [
        ("columnNames: normalised", "not-allowed", "did you mean normalized?"),
        ("columnNames: normalized, schemaHints: usGross INT", "name", "write us_gross"),
        ("columnNames: normalized, schema: 'us_gross INT, Id INT'", "name", "write id"),
        ("columnNames: normalized, schemaHints: Profile.zip STRING", "name", "write profile"),
        ("columnNames: normalized, schemaHints: __ INT", "name", "rename it with letters"),
    ],
)
def test_a_name_that_no_column_will_have_is_told(folder: Folder, fields: str, code: str, hint: str) -> None:
    found = folder.mistake(bronze(fields))
    assert (found.code, found.line, found.hint) == (code, 3, hint)


def test_a_table_of_a_delta_table_has_the_names_of_that(folder: Folder) -> None:
    text = "name: shop\nbronze:\n  raw: {path: /in, format: delta, columnNames: normalized}\n"
    assert folder.mistake(text).code == "not-allowed"


def test_landed_names_are_the_definition_of_before(folder: Folder) -> None:
    first, said, other = (
        folder.load(bronze(fields)).bronze["raw"]
        for fields in ("", "columnNames: landed", "columnNames: normalized, schemaHints: 'profile.Zip STRING'")
    )
    assert first.fingerprint == said.fingerprint != other.fingerprint
    assert (first.normalizes, other.normalizes) == (False, True)
