"""The gallery has a page for each pipeline, with all of its tables, its graph, three answers and a chart.

That the answers are right is held by tests/e2e/test_gallery.py.
"""

from __future__ import annotations

import itertools
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from scripts import gallery
from sluicegate import definition
from sluicegate.definition.tables.table import LAYERS
from sluicegate.monitor import graph
from sluicegate.settings import Settings
from tests.conftest import ROOT
from tests.support.pages import steps

pytestmark = pytest.mark.unit

FOLDER = ROOT / gallery.GALLERY
PIPELINES = sorted(file.parent.name for file in (ROOT / "pipelines").glob("*/pipeline.yaml"))
PARTS = ["Data", "Graph", "Tables", "Three questions", "A chart of gold"]


def page(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text()


def pipeline(name: str, folder: Path) -> definition.Pipeline:
    return definition.load(name, Settings.of(str(folder / "lake"), str(folder / "landing"), ROOT / "pipelines"))


def test_every_pipeline_has_a_page_and_a_chart_and_is_listed() -> None:
    assert sorted(file.stem for file in FOLDER.glob("[a-z]*.md")) == PIPELINES
    assert sorted(file.stem for file in FOLDER.glob("*.svg")) == PIPELINES
    listed = re.findall(r"^\| \[(\w+)\]\((\w+)\.md\)", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert sorted(name for name, _ in listed) == PIPELINES
    assert [pair for pair in listed if len(set(pair)) > 1] == []


@pytest.mark.parametrize("name", PIPELINES)
def test_a_page_names_all_tables_by_their_layers(tmp_path: Path, name: str) -> None:
    tables = page(name).partition("\n## Tables\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (bronze|silver|gold) (.+?) \|", tables, re.MULTILINE)
    named = {
        layer: [one for of, cell in rows if of == layer for one in re.findall(r"`(\w+)`", cell)] for layer in LAYERS
    }
    there = pipeline(name, tmp_path)
    assert {layer: sorted(its) for layer, its in named.items()} == {
        layer: sorted(there.names(layer)) for layer in LAYERS
    }


@pytest.mark.parametrize("name", PIPELINES)
def test_a_page_shows_the_graph_of_its_pipeline(tmp_path: Path, name: str) -> None:
    shown = page(name).partition("each table with what it reads:\n")[2].partition("…\n")[0]
    assert shown == "".join(f"  {line}\n" for line in graph.graph_lines(pipeline(name, tmp_path)))


@pytest.mark.parametrize("name", PIPELINES)
def test_a_page_answers_three_questions_by_queries(name: str) -> None:
    text = page(name)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == PARTS
    questions = text.partition("\n## Three questions\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"^\*\*[^*]+\?\*\*", questions, re.MULTILINE)) == 3
    asked = steps(questions)
    answers = [
        after.text for one, after in itertools.pairwise(asked)
        if one.kind == "sh" and one.text.startswith("sluicegate sql") and after.kind == "shows"
    ]  # fmt: skip
    assert len(answers) == 3
    assert [answer for answer in answers if not re.search(r"^[1-9]\d* rows?$", answer, re.MULTILINE)] == []


@pytest.mark.parametrize("name", PIPELINES)
def test_a_chart_has_the_title_of_its_page_and_bars(name: str) -> None:
    title, query = gallery.page_chart(name, page(name))
    assert f"{name}." in query
    drawn = ET.fromstring((FOLDER / f"{name}.svg").read_text())
    of = "{http://www.w3.org/2000/svg}"
    assert drawn.findtext(f"{of}title") == title
    assert len([bar for bar in drawn.iter(f"{of}rect") if "bar" in bar.get("class", "")]) > 2


def test_a_chart_is_drawn_by_one_scale() -> None:
    rows = [
        {"day": "A", "name": "x", "n": 10.0},
        {"day": "A", "name": "y < z", "n": 5.0},
        {"day": "B", "name": "x", "n": 2},
    ]
    drawn = gallery.picture("Title", ["day", "name", "n"], rows)
    lengths = [float(width) for width in re.findall(r'class="bar against" x="\d+" y="\d+" width="([\d.]+)"', drawn)]
    assert [round(length / lengths[0], 2) for length in lengths] == [1, 0.5, 0.2]
    assert re.findall(r'class="name"[^>]*>([^<]+)', drawn) == ["A", "B"]
    assert ">y &lt; z<" in drawn
    assert ">10.0<" in drawn
    assert ">2<" in drawn
    assert "rect" in gallery.picture("Empty", ["day", "name", "n"], [])


def test_a_missing_table_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gallery.main(["retail", "--lake", str(tmp_path)]) == 2
    assert "error[SG206]" in capsys.readouterr().err


def test_the_two_forms_of_a_transform_are_those_of_the_pipelines() -> None:
    text = page("online_school_python")
    [shown] = re.findall(r"^```py\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert shown in (ROOT / "pipelines" / "online_school_python" / "transforms.py").read_text()
    query = re.findall(r"^```sql\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0]
    assert query == (ROOT / "pipelines" / "online_school" / "daily_student_courses.sql").read_text()
