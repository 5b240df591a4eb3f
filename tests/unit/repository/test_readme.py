"""README's first screen: what it shows is in the repository, converts as it says, and was measured."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest
import sqlglot
import yaml

from scripts import overview
from sluicegate import definition
from sluicegate.settings import Settings
from sluicegate.tools.migrate.create import create
from tests.conftest import ROOT

pytestmark = pytest.mark.unit

PIPELINE = ROOT / "pipelines" / "heart_rate"
FIRST = (ROOT / "README.md").read_text().partition("\n## From there\n")[0]
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", FIRST, re.MULTILINE | re.DOTALL)

# Words that people search for. The pages have many more; the first one they see should have these.
TRADE = (
    "Auto Loader", "COPY INTO", "Delta Live Tables", "Exactly-once", "Data quality", "Schema evolution", "quarantine",
    "Late-arriving", "backfill", "reprocess", "idempotent", "CDC", "upsert", "SCD", "deduplicate", "reconcile",
    "lineage",
)  # fmt: skip


def block(language: str, number: int = 0) -> str:
    return [text for one, text in BLOCKS if one == language][number]


def same(query: str, other: str) -> bool:
    return sqlglot.parse_one(query, dialect="spark") == sqlglot.parse_one(other, dialect="spark")


def lacking(part: Any, whole: Any, at: str = "") -> list[str]:
    """The places of a definition where a part of it says something else than the whole."""
    if not isinstance(part, dict) or not isinstance(whole, dict):
        return [] if part == whole else [at]
    return [place for key, value in part.items() for place in lacking(value, whole.get(key), f"{at}.{key}")]


def test_the_definition_is_an_excerpt_of_the_pipeline_s() -> None:
    shown = yaml.safe_load(block("yaml"))
    there = yaml.safe_load((PIPELINE / "pipeline.yaml").read_text())
    assert lacking(shown, there) == []
    assert len(block("yaml").splitlines()) == 15
    shown["gold"]["daily_patient_avg"]["sql"] = "another.sql"
    assert lacking(shown, there) == [".gold.daily_patient_avg.sql"]


def test_the_query_is_the_pipeline_s() -> None:
    name = re.search(r"and in `(\w+\.sql)`", FIRST)
    assert name is not None
    assert same(block("sql"), (PIPELINE / name[1]).read_text())
    assert len(block("sql").splitlines()) == 4


def test_the_source_of_delta_live_tables_becomes_what_stands_beside_it(tmp_path: Path) -> None:
    settings = Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path / "pipelines")
    (tmp_path / "source.sql").write_text(block("sql", 1))
    made = create(tmp_path / "source.sql", "heart_rate", settings)
    assert made.draft.missing == {}
    ours = definition.load("heart_rate", Settings.of(str(tmp_path), "/landing", ROOT / "pipelines"))
    theirs = made.draft
    shown = {"recordings_bronze", "recordings_enriched", "daily_patient_avg"}
    assert {*theirs.silver, *theirs.gold, "recordings_bronze"} == shown
    bronze = theirs.bronze["recordings_bronze"]
    assert (bronze["path"], bronze["format"]) == ("${landing}/recordings", ours.bronze["recordings_bronze"].format)
    assert bronze["options"] == ours.bronze["recordings_bronze"].options
    for table, query in theirs.queries.items():
        assert same(query, (PIPELINE / f"{table}.sql").read_text()), table
    [rule] = theirs.silver["recordings_enriched"]["expectations"].items()
    assert rule == ("valid_heartrate", {"expect_or_drop": "heartrate > 0"})
    assert "valid_heartrate:\n        expect_or_quarantine: heartrate > 0" in block("yaml")


@pytest.mark.parametrize(
    ("said", "point", "side"),
    [
        (r"files to gold takes ([\d.]+) s", "first load", "one run"),
        (r"notebook as people set it up takes ([\d.]+) s", "first load", "notebook as people set it"),
        (r"nothing to do\s+takes ([\d.]+) s", "nothing new", "one run"),
    ],
)
def test_what_is_said_to_be_measured_is_in_the_bench(said: str, point: str, side: str) -> None:
    cases = json.loads((ROOT / "docs" / "bench" / "results.json").read_text())["cases"]
    figures = next(case["figures"] for case in cases if case["name"] == "files")
    seconds = statistics.median(one["seconds"] for one in figures if (one["point"], one["side"]) == (point, side))
    found = re.search(said, FIRST)
    assert found is not None
    digits = len(found[1].partition(".")[2])
    assert float(found[1]) == round(seconds, digits), f"docs/bench says {seconds:.2f} s"


def test_the_first_screen_has_the_words_that_people_search_for() -> None:
    assert [word for word in TRADE if word.lower() not in FIRST.lower()] == []


def test_a_word_that_people_search_for_is_on_the_page_of_the_site() -> None:
    site = (ROOT / "mkdocs.yml").read_text()
    listed = re.findall(r"^    ([\w/.-]+\.md): (.+)$", site[site.index("  synonyms:") :], re.MULTILINE)
    assert [page for page, _ in listed if not (ROOT / "docs" / page).is_file()] == []
    words = " ".join(words for _, words in listed).lower()
    for word in ("medallion", "schema evolution", "cdc", "upsert", "late-arriving", "data quality", "deduplication",
                 "idempotent", "lineage", "reconciliation"):  # fmt: skip
        assert word in words


def test_the_overview_is_what_its_source_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [file.name for file in overview.outdated_pictures()] == [], "run `make docs`"
    (tmp_path / "overview-light.svg").write_text(overview.picture("light"))
    (tmp_path / "overview-dark.svg").write_text(overview.picture("light"))
    monkeypatch.setattr(overview, "IMAGES", tmp_path)
    assert overview.main(["--check"]) == 1
    told = capsys.readouterr().err
    assert "overview-dark.svg" in told
    assert "overview-light.svg" not in told
    assert overview.main([]) == 0
    assert overview.main(["--check"]) == 0


def test_boxes_of_the_overview_are_inside_and_apart() -> None:
    for number, box in enumerate(overview.BOXES):
        assert box.x >= 16, box
        assert box.x + box.width <= overview.WIDTH - 16, box
        assert box.y + box.height <= overview.HEIGHT - 32, box
        for other in overview.BOXES[:number]:
            across = box.x < other.x + other.width and other.x < box.x + box.width
            down = box.y < other.y + other.height and other.y < box.y + box.height
            assert not (across and down), (box, other)
