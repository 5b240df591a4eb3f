"""Which queries and fields a streaming aggregation takes, told without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate.definition import Pipeline, load
from sluicegate.definition.checks.streaming_query import Unkeyed, keys
from sluicegate.errors import DefinitionError, Mistake
from sluicegate.flow import flows
from sluicegate.flow.policies import QueryPolicy
from sluicegate.flow.streaming import stream_checkpoint
from sluicegate.monitor import plan
from sluicegate.settings import Settings
from sluicegate.spark_sql.query import Query

pytestmark = pytest.mark.unit

WINDOWED = "SELECT window.start AS w, g, count(*) AS n FROM t GROUP BY window(at, '5 minutes'), g"


def defined(folder: Path, gold: str) -> Pipeline:
    (folder / "p").mkdir(exist_ok=True)
    (folder / "p" / "pipeline.yaml").write_text(
        "name: p\nbronze:\n  raw: {path: /nowhere, format: json}\n"
        "silver:\n  t: {sql: SELECT * FROM STREAM(raw) AS r}\n  u: {sql: SELECT * FROM STREAM(raw) AS r}\n"
        f"gold:\n  of_t: {{{gold}}}\n"
    )
    return load("p", Settings.of(str(folder / "lake"), str(folder / "landing"), folder))


def mistakes(folder: Path, gold: str) -> list[Mistake]:
    with pytest.raises(DefinitionError) as caught:
        defined(folder, gold)
    return caught.value.mistakes


@pytest.mark.parametrize(
    ("fields", "place", "said"),
    [
        ("mode: append", "gold.of_t", "withWatermark"),
        ("withWatermark: {at: 1 hour}", "gold.of_t", "requires mode"),
        ("mode: complete, refresh: full", "gold.of_t", "refresh"),
        ("mode: complete, refresh: incremental", "gold.of_t", "refresh"),
        ("mode: append, withWatermark: {at: 1 hour, g: 1 hour}", "gold.of_t", "one column"),
        ("mode: append, withWatermark: {'a b': 1 hour}", "gold.of_t", "one column"),
        ("mode: append, withWatermark: {at: soon}", "gold.of_t.withWatermark.at", "duration"),
        ("mode: appended, withWatermark: {at: 1 hour}", "gold.of_t.mode", "complete, update and append"),
    ],
)
def test_a_mistake_in_the_fields(tmp_path: Path, fields: str, place: str, said: str) -> None:
    found = mistakes(tmp_path, f'sql: "{WINDOWED}", {fields}')
    assert [(one.path, said in one.message) for one in found] == [(place, True)], found


@pytest.mark.parametrize(
    ("query", "mode", "said"),
    [
        ("SELECT * FROM t ORDER BY at", "complete", "the query"),
        ("SELECT g, at FROM t", "update", "the query"),
        ("SELECT t.g, count(*) AS n FROM t JOIN u USING (g) GROUP BY t.g", "complete", "one table"),
        ("SELECT a.g, count(*) AS n FROM t AS a JOIN t AS b USING (g) GROUP BY a.g", "complete", "one table"),
        ("SELECT g, count(*) AS n FROM t GROUP BY g HAVING count(*) > 1", "update", "a HAVING"),
        ("SELECT count(*) AS n FROM t", "update", "GROUP BY"),
        ("SELECT g, count(*) AS n FROM t GROUP BY ALL", "update", "listed"),
        ("SELECT count(*) AS n FROM t GROUP BY g", "update", "SELECT list"),
    ],
)
def test_a_query_that_a_mode_cannot_keep(tmp_path: Path, query: str, mode: str, said: str) -> None:
    (one,) = mistakes(tmp_path, f'sql: "{query}", mode: {mode}')
    assert (one.code, one.path) == ("mode", "gold.of_t.mode")
    assert said in one.message


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (WINDOWED, ["w", "g"]),
        ("SELECT G, window.end AS e, avg(x) AS a FROM t GROUP BY t.g, window(at, '1 hour', '5 minutes')", ["G", "e"]),
        ("SELECT window(at, '1 hour') AS span, count(*) AS n FROM t GROUP BY window(At, '1 hour')", ["span"]),
        ("SELECT t.g AS a, count(*) AS n FROM t GROUP BY T.`G`", ["a"]),
        ("SELECT window(at, '1 hour').start AS s, count(*) AS n FROM t GROUP BY window(at, '1 hour')", ["s"]),
        ("SELECT date_trunc('DD', at) AS day, count(*) AS n FROM t GROUP BY 1", ["day"]),
        ("SELECT date_trunc('DD', at) AS day, count(*) AS n FROM t AS x GROUP BY date_trunc('DD', x.at)", ["day"]),
        ("SELECT upper(g) AS name, count(*) AS n FROM t GROUP BY name", ["name"]),
    ],
)
def test_the_keys_by_which_a_group_is_found(query: str, found: list[str]) -> None:
    assert keys(Query.parse(query)) == found


def test_a_name_in_group_by_is_a_column_first() -> None:
    query = Query.parse("SELECT upper(g) AS name, count(*) AS n FROM t GROUP BY name")
    with pytest.raises(Unkeyed, match="name is missing"):
        keys(query, ["g", "name"])
    query = Query.parse("SELECT substr(g, 'A') AS a, count(*) AS n FROM t GROUP BY substr(g, 'a')")
    with pytest.raises(Unkeyed):
        keys(query)


def test_the_plan_says_which_mode_and_a_definition_with_another_is_another(tmp_path: Path) -> None:
    seen = set()
    for fields in ("mode: complete", "mode: append, withWatermark: {at: 1 hour}",
                   "mode: append, withWatermark: {at: 2 hours}", "refresh: full"):  # fmt: skip
        pipeline = defined(tmp_path, f'sql: "{WINDOWED}", {fields}')
        settings = Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path)
        flow = flows.flows(pipeline, plan.layout.Lake(settings.lake, "p"), "gold")["of_t"]
        seen.add(flow.fingerprint)
        way = pipeline.gold["of_t"].refresh_strategy()
        assert isinstance(flow.policy, QueryPolicy)
        assert flow.policy.added is (way.kind == "stream") is ("mode" in fields)
        assert ("mode" not in fields) or f"mode {pipeline.gold['of_t'].mode}" in way.why
    assert len(seen) == 4


@pytest.mark.parametrize("left", ["", "v1", "{", "null", "v1\n{}\n{}", "\x00\x00"])
def test_what_a_machine_that_went_down_left_of_a_checkpoint_is_no_checkpoint(tmp_path: Path, left: str) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text(left)
    (tmp_path / "offsets" / "0").write_text(left)
    found = stream_checkpoint.Checkpoint(str(tmp_path))
    assert (found.query(), found.end(0), found.end(1)) == (None, None, None)
