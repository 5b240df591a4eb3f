"""Rules of tables in a definition: what each layer takes, and each mistake with its line and a mend."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate import definition
from sluicegate.definition import Expectation, Pipeline
from sluicegate.definition.tables.threshold import Threshold
from sluicegate.errors import DefinitionError, Mistake
from sluicegate.settings import Settings

pytestmark = pytest.mark.unit

HEAD = "name: p\nbronze:\n  raw:\n    path: /x\n    format: json\n    schema: id INT, x DOUBLE, name STRING\n"
SILVER = "silver:\n  s:\n    sql: SELECT id, x FROM STREAM(raw)\n"


def load(tmp_path: Path, text: str) -> Pipeline:
    folder = tmp_path / "pipelines" / "p"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pipeline.yaml").write_text(text)
    return definition.load("p", Settings.of(str(tmp_path / "lake"), str(tmp_path), tmp_path / "pipelines"))


def mistakes(tmp_path: Path, text: str) -> list[Mistake]:
    with pytest.raises(DefinitionError) as raised:
        load(tmp_path, text)
    return raised.value.mistakes


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


def test_records_of_bronze_are_expected_and_none_is_dropped(tmp_path: Path) -> None:
    rules = (
        "    expectations: {positive: {expect: X > 0, warn_above: 10, fail_above: 5%}}\n"
        "    expect_all: {named: name IS NOT NULL, sound: _corrupt_record IS NULL}\n"
        "    expect_all_or_fail: {known: id > 0}\n"
    )
    table = load(tmp_path, HEAD + rules).bronze["raw"]
    assert {name: rule.action for name, rule in table.expectations.items()} == {
        "positive": "keep",
        "named": "keep",
        "sound": "keep",
        "known": "fail",
    }
    assert table.fingerprint == load(tmp_path, HEAD).bronze["raw"].fingerprint  # files are read as before


BRONZE = [
    ("expectations:\n      odd: {expect_or_drop: x > 0}", "odd", "not-allowed", "use expect"),
    ("expectations:\n      odd: {expect_or_quarantine: x > 0}", "odd", "not-allowed", "use expect"),
    ("expectations:\n      odd: {expect: unique(id)}", "odd", "unique", "write expect_table: {odd: {unique: [id]}}"),
    ("expectations:\n      odd: {expect: y > 0}", "odd", "unknown-column", "did you mean x?|its columns are id"),
    ("expectations:\n      odd: {expect: x >}", "odd", "condition", ""),
    ("expect_all:\n      odd: y > 0", "odd", "unknown-column", ""),
    ("expect_all: {one: x > 0}\n    expect_all_or_fail:\n      one: id > 0", "one: id", "duplicate-name", ""),
    ("expect_all_or_drop: {one: x > 0}", "expect_all_or_drop", "unknown-field", "expect_all_or_fail"),
]


@pytest.mark.parametrize(("rules", "part", "code", "hint"), BRONZE)
def test_mistakes_in_rules_of_bronze(tmp_path: Path, rules: str, part: str, code: str, hint: str) -> None:
    text = f"{HEAD}    {rules}\n"
    [found] = mistakes(tmp_path, text)
    assert (found.code, found.line) == (code, line_of(text, part))
    assert not hint or any(one in found.hint for one in hint.split("|")), found.hint


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ("expect: x > 0, warn_above: -1", "threshold", "neither a number"),
        ("expect: x > 0, warn_above: 0.5", "threshold", "as 0.5%"),
        ("expect: x > 0, fail_above: 101%", "threshold", "share"),
        ("expect: x > 0, fail_above: many", "threshold", "neither a number"),
        ("expect: x > 0, fail_above: true", "threshold", "neither a number"),
        ("expect_or_fail: x > 0, fail_above: 5", "threshold", "expect with fail_above"),
        ("expect_or_fail: x > 0, warn_above: 5", "threshold", "expect with fail_above"),
        ("expect: x > 0, warn_above: 5, fail_above: 5", "threshold", "warn_above"),
        ("expect: x > 0, warn_above: 6%, fail_above: 5%", "threshold", "warn_above"),
    ],
)
def test_mistakes_in_thresholds(tmp_path: Path, fields: str, code: str, words: str) -> None:
    text = f"{HEAD}{SILVER}    expectations:\n      rule: {{{fields}}}\n"
    [found] = mistakes(tmp_path, text)
    assert (found.code, found.line) == (code, line_of(text, "rule:"))
    assert words in f"{found.message}; {found.hint}"


@pytest.mark.parametrize(
    ("text", "failed", "rows", "exceeded"),
    [
        (2, 2, 5, False),
        (2, 3, 5, True),
        (0, 0, 5, False),
        (0, 1, 5, True),
        ("10%", 1, 10, False),
        ("10%", 2, 10, True),
        ("0.1 %", 1, 1000, False),
        ("0.1%", 2, 1000, True),
        ("0%", 0, 0, False),
    ],
)
def test_a_threshold_is_exceeded_by_more_than_it_says(text: int | str, failed: int, rows: int, exceeded: bool) -> None:
    rule = Expectation.model_validate({"expect": "x > 0", "fail_above": text})
    assert isinstance(rule.fail_above, Threshold)
    assert rule.fail_above.is_exceeded(failed, rows) is exceeded


def test_thresholds_change_no_row(tmp_path: Path) -> None:
    """So that no table is said to have rows of a former definition when only they were changed."""
    plain, strict = (
        load(tmp_path, f"{HEAD}{SILVER}    expectations: {{rule: {{expect: x > 0{more}}}}}\n").silver["s"]
        for more in ("", ", warn_above: 1, fail_above: 10%")
    )
    assert plain.fingerprint == strict.fingerprint


def test_a_name_of_rejected_rows_is_no_table(tmp_path: Path) -> None:
    [found] = mistakes(tmp_path, HEAD + "  raw_rejected: {path: /y, format: json}\n")
    assert (found.code, found.line) == ("name", 7)


# --- gold ------------------------------------------------------------------------------------------------------------

GOLD = "gold:\n  g:\n    sql: SELECT id, count(*) AS n FROM s GROUP BY id\n"


def test_gold_expects_drops_and_fails(tmp_path: Path) -> None:
    rules = (
        "    expectations: {many: {expect: n > 1, warn_above: 10%}}\n"
        "    expect_all_or_drop: {known: id IS NOT NULL}\n"
        "    expect_all_or_fail: {sound: N > 0}\n"
        "    expect_table: {filled: {rows: {min: 1}}}\n"
    )
    plain = load(tmp_path, HEAD + SILVER + GOLD).gold["g"]
    table = load(tmp_path, HEAD + SILVER + GOLD + rules).gold["g"]
    assert [rule.action for rule in table.expectations.values()] == ["keep", "drop", "fail"]
    assert (plain.rules_fingerprint, plain.drop_conditions) == ("", [])
    assert (len(table.rules_fingerprint), table.drop_conditions) == (16, ["id IS NOT NULL"])
    for old, new in (("10%", "11%"), ("N > 0", "N > 1"), ("min: 1", "min: 2"), ("many:", "more:")):
        other = load(tmp_path, HEAD + SILVER + GOLD + rules.replace(old, new)).gold["g"]
        assert other.rules_fingerprint != table.rules_fingerprint, new
    dropped = load(tmp_path, HEAD + SILVER + GOLD + rules.replace("NOT NULL", "NULL")).gold["g"]
    assert dropped.rules_fingerprint == table.rules_fingerprint  # what is dropped is a part of what makes the rows
    assert dropped.drop_conditions != table.drop_conditions


@pytest.mark.parametrize(
    ("rules", "part", "code", "words"),
    [
        ("expectations:\n      odd: {expect_or_quarantine: n > 0}", "odd", "not-allowed", "use expect_or_drop"),
        ("expectations:\n      odd: {expect_or_drop: n > 0, fail_above: 1}", "odd", "threshold", "use expect"),
        ("expectations:\n      odd: {expect_or_drop: n > 0, warn_above: 1}", "odd", "threshold", "use expect"),
        ("expectations:\n      odd: {expect: m > 0}", "odd", "unknown-column", "did you mean n?|id, n"),
        ("expectations:\n      odd: {expect: unique(id)}", "odd", "unique", "{unique: [id]}"),
        ("expect_all_or_quarantine: {odd: n > 0}", "expect_all_or_quarantine", "unknown-field", ""),
    ],
)
def test_mistakes_in_rules_of_gold(tmp_path: Path, rules: str, part: str, code: str, words: str) -> None:
    text = f"{HEAD}{SILVER}{GOLD}    {rules}\n"
    [found] = mistakes(tmp_path, text)
    assert (found.code, found.line) == (code, line_of(text, part))
    assert any(one in found.hint for one in words.split("|")), found.hint


# --- rules about whole tables ----------------------------------------------------------------------------------------


def test_rules_about_whole_tables(tmp_path: Path) -> None:
    text = HEAD + (
        "    expect_table: {filled: {rows: {min: 1, max: 9}}}\n  known: {path: /y, format: json, schema: id INT}\n"
        "silver:\n  s:\n    sql: SELECT id, x FROM STREAM(raw)\n"
        "    expect_table:\n      here: {foreign_key: [id], references: known}\n      once: {unique: [ID, x]}\n"
        "gold:\n  g:\n    sql: SELECT id, count(*) AS n FROM s GROUP BY id\n"
        "    expect_table:\n      all: {sql: SELECT id FROM s EXCEPT SELECT id FROM g}\n"
        "      there: {foreign_key: [n], references: known (id)}\n  h: {sql: SELECT count(*) AS n FROM s}\n"
    )
    loaded = load(tmp_path, text)
    assert str(loaded.bronze["raw"].expect_table["filled"]) == "it has at least 1 and at most 9 rows"
    assert [rule.kind for rule in loaded.silver["s"].expect_table.values()] == ["foreign_key", "unique"]
    assert loaded.gold["g"].expect_table["there"].foreign_key_target == ("known", ["id"])
    assert loaded.gold["g"].rules_read("g") == ["s", "known"]
    assert loaded.ruled == ["raw", "s", "g"]


def test_a_table_is_made_after_those_that_its_rules_read(tmp_path: Path) -> None:
    gold = GOLD + "    expect_table: {r: {foreign_key: [n], references: h}}\n  h: {sql: SELECT id AS n FROM s}\n"
    assert load(tmp_path, HEAD + SILVER + gold).in_order("gold") == ["h", "g"]


TABLE_RULES = [
    ("{}", "one-of", "exactly one of rows, unique, foreign_key, sql, and this"),
    ("{rows: {min: 1}, unique: [id]}", "one-of", "rows and unique"),
    ("{rows: {}}", "missing-field", "min, max or both"),
    ("{rows: {min: 2, max: 1}}", "out-of-range", "min 2 exceeds max 1"),
    ("{rows: {min: -1}}", "out-of-range", "min is -1"),
    ("{rows: {least: 1}}", "unknown-field", "field least"),
    ("{unique: []}", "empty", "needs at least one"),
    ("{unique: [m]}", "unknown-column", "column m"),
    ("{foreign_key: [id]}", "missing-field", "references"),
    ("{unique: [id], references: s}", "missing-field", "references"),
    ('{foreign_key: [id], references: "s (id, x)"}', "foreign-key", "references"),
    ("{foreign_key: [id], references: s id}", "wrong-type", "a table"),
    ("{foreign_key: [id], references: s (m)}", "unknown-column", "column m"),
    ("{foreign_key: [m], references: s (id)}", "unknown-column", "column m"),
    ("{foreign_key: [id], references: t}", "unknown-table", "table t"),
    ("{sql: SELECT id FROM t}", "unknown-table", "table t"),
    ("{sql: SELECT id FROM STREAM(s)}", "sql", "STREAM"),
    ("{sql: SELECT FROM WHERE}", "sql", ""),
    ("{sql: nothing.sql}", "sql-file", "file"),
    ("{unqiue: [id]}", "unknown-field", "did you mean unique?"),
]


@pytest.mark.parametrize(("rule", "code", "words"), TABLE_RULES)
def test_mistakes_in_rules_about_whole_tables(tmp_path: Path, rule: str, code: str, words: str) -> None:
    text = f"{HEAD}{SILVER}{GOLD}    expect_table:\n      rule: {rule}\n"
    found = mistakes(tmp_path, text)[0]
    assert (found.code, found.line) == (code, line_of(text, "rule:"))
    assert words in f"{found.message}; {found.hint}"


@pytest.mark.parametrize(
    ("text", "part", "code", "words"),
    [
        (
            SILVER + "    expect_table:\n      r: {foreign_key: [id], references: g}\n" + GOLD,
            "r: {foreign",
            "wrong-layer",
            "g is a gold table, which is",
        ),
        (
            "    expect_table:\n      r: {sql: SELECT * FROM s}\n" + SILVER,
            "r: {sql",
            "wrong-layer",
            "s is a silver table, which is",
        ),
        (
            SILVER + GOLD + "    expect_all: {r: n > 0}\n    expect_table:\n      r: {unique: [n]}\n",
            "r: {unique",
            "duplicate-name",
            "in expect_all",
        ),
        (
            SILVER + GOLD + "    expect_table:\n      r: {foreign_key: [n], references: h}\n"
            "  h: {sql: SELECT n FROM g}\n",
            "r: {foreign",
            "cycle",
            "g reads h reads g, with what their rules read",
        ),
    ],
)  # fmt: skip
def test_what_rules_read_is_made_before(tmp_path: Path, text: str, part: str, code: str, words: str) -> None:
    [found] = mistakes(tmp_path, HEAD + text)
    assert (found.code, found.line) == (code, line_of(HEAD + text, part))
    assert words in found.message


def test_a_rule_in_a_file_is_located_there(tmp_path: Path) -> None:
    folder = tmp_path / "pipelines" / "p"
    folder.mkdir(parents=True)
    (folder / "lost.sql").write_text("SELECT id\nFROM t")
    [found] = mistakes(tmp_path, f"{HEAD}{SILVER}{GOLD}    expect_table: {{lost: {{sql: lost.sql}}}}\n")
    assert (found.code, found.file, found.line) == ("unknown-table", str(folder / "lost.sql"), 2)
