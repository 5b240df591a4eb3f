"""``sluicegate plan``: of tables that have been filled, by a former version's lake; and the graph of the tables."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner

from sluicegate import api
from sluicegate.airflow.dags import doc_md
from sluicegate.cli import app
from sluicegate.cli.inspecting import plan
from sluicegate.definition import LAYERS, Pipeline, load, names
from sluicegate.flow import flows as flow_flows
from sluicegate.flow.model import Progress, StreamProgress
from sluicegate.lake import layout
from sluicegate.monitor import graph
from sluicegate.monitor.estimate import Plan
from sluicegate.monitor.plan import TableWork
from sluicegate.settings import Settings
from tests.conftest import ROOT, Workspace
from tests.support.archives import unpack

pytestmark = pytest.mark.unit

ARCHIVE = ROOT / "tests" / "spark" / "data" / "former_lake.tar.gz"


def test_a_streaming_aggregation_that_has_run_is_told_as_one(tmp_path: Path) -> None:
    """Its commits name the mode where those of other tables name the strategy: the command ended with a trace."""
    unpack(ARCHIVE, tmp_path)
    places = [f"--{name}={tmp_path / name}" for name in ("lake", "landing", "pipelines")]
    done = CliRunner().invoke(app.app, ["plan", "former", *places])
    assert done.exit_code == 0, done.output
    (told,) = [line for line in done.output.splitlines() if line.startswith("gold") and " hours " in line]
    assert "a streaming aggregation with a checkpoint: mode complete" in told


SHOP = """\
name: shop
bronze:
  raw: {path: "${landing}/in", format: json}
  alone: {path: "${landing}/alone", format: json}
silver:
  orders: {sql: "SELECT o.x, p.y FROM STREAM(raw) AS o LEFT JOIN prices AS p USING (x)", deidentified: {y: drop}}
  prices: {sql: SELECT x FROM STREAM(raw)}
gold:
  c: {sql: SELECT a.x FROM a JOIN b ON a.x = b.x JOIN raw ON a.x = raw.x}
  a: {sql: "SELECT x, count(*) AS n FROM orders GROUP BY x"}
  b: {sql: "SELECT x, max(n) AS n FROM a GROUP BY x"}
"""


@pytest.fixture
def shop(tmp_path: Path) -> Pipeline:
    folder = tmp_path / "pipelines" / "shop"
    folder.mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(SHOP)
    return load("shop", Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path / "pipelines"))


def test_the_graph_has_each_table_once_with_what_it_reads(shop: Pipeline) -> None:
    assert [*graph.graph_lines(shop)] == [
        "gold    c",
        "gold    ├─ a",
        "silver  │  └─ orders",
        "bronze  │     ├─ raw",
        "silver  │     └─ prices",
        "bronze  │        └─ raw",
        "gold    ├─ b",
        "gold    │  └─ a (above)",
        "bronze  └─ raw",
        "silver  orders_deidentified",
        "silver  └─ orders (above)",
        "bronze  alone",
    ]
    assert graph.reads(shop) == {
        "raw": [], "alone": [], "orders": ["raw", "prices"], "orders_deidentified": ["orders"], "prices": ["raw"],
        "c": ["a", "b", "raw"], "a": ["orders"], "b": ["a"],
    }  # fmt: skip


def test_the_graph_has_views_between_the_tables(tmp_path: Path) -> None:
    folder = tmp_path / "pipelines" / "shop"
    folder.mkdir(parents=True)
    (folder / "pipeline.yaml").write_text(
        SHOP.replace("FROM orders GROUP", "FROM paid GROUP")
        + "views: {paid: SELECT x FROM orders, idle: SELECT 1 AS x}\n"
    )
    where = Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path / "pipelines")
    shop = load("shop", where)
    assert [*graph.graph_lines(shop)][:5] == [
        "gold    c",
        "gold    ├─ a",
        "view    │  └─ paid",
        "silver  │     └─ orders",
        "bronze  │        ├─ raw",
    ]
    assert (graph.reads(shop)["a"], graph.reads(shop)["paid"], graph.reads(shop)["idle"]) == (["paid"], ["orders"], [])


@pytest.mark.parametrize("name", names(ROOT / "pipelines"))
def test_the_graphs_of_the_pipelines_fit_into_eighty_columns(name: str, tmp_path: Path) -> None:
    pipeline = load(name, Settings.of(str(tmp_path), str(tmp_path), ROOT / "pipelines"))
    lines = [*graph.graph_lines(pipeline)]
    assert max(map(len, lines)) + 2 <= 80
    drawn = {line.split("─ ")[-1].split()[-1] for line in lines if not line.endswith("(above)")}
    assert drawn == {table for layer in LAYERS for table in pipeline.names(layer)}


def test_the_command_prints_the_graph_and_hands_it_on(shop: Pipeline) -> None:
    for folder in ("in", "alone"):
        Path(shop.settings.landing, folder).mkdir(parents=True)
    where = shop.settings
    places = ["--lake", where.lake, "--landing", where.landing, "--pipelines", str(where.pipelines)]
    done = CliRunner().invoke(app.app, ["plan", "shop", *places])
    assert done.exit_code == 0, done.output
    assert "\neach table with what it reads:\n  gold    c\n  gold    ├─ a\n" in done.output
    assert "\nonly a run checks all of orders, prices, c: the columns of raw" in done.output
    done = CliRunner().invoke(app.app, ["plan", "shop", *places, "--json"])
    assert json.loads(done.output)["reads"] == graph.reads(shop)
    assert [*json.loads(done.output)["unchecked"]] == ["orders", "prices", "c"]


def test_a_table_follows_what_those_of_its_layer_will_write(shop: Pipeline, tmp_path: Path) -> None:
    flows = {name: flow for layer in LAYERS for name, flow in flow_flows.flows(shop, shop_lake(shop), layer).items()}
    work = [TableWork(flow, Progress("incremental", 0, 1) if name == "a" else Progress("idle"))
            for name, flow in flows.items()]  # fmt: skip
    waiting = Plan(work)
    news = plan._tables_with_work(shop, waiting)
    would = {one.table: plan._table_facts(shop, waiting, one, news, {})["a run would"] for one in work}
    assert (would["a"], would["b"], would["c"]) == (
        "process versions 1 to 1", "process the output of a", "process the output of a, b"
    )  # fmt: skip
    assert (would["raw"], would["orders"]) == ("do nothing", "do nothing")


def shop_lake(pipeline: Pipeline) -> layout.Lake:
    return layout.Lake(pipeline.settings.lake, pipeline.name)


@pytest.mark.parametrize(
    ("fields", "how"),
    [
        ("", "row for each record"),
        ("rows: many, ", "rows of"),
        ("rows: many, keys: [id, x], ", "one row for each id, x"),
    ],
)
def test_how_many_rows_a_record_gives(tmp_path: Path, fields: str, how: str) -> None:
    workspace = Workspace(tmp_path)
    made = "explode(xs) AS x" if fields else "x"
    query = f"SELECT id, {made} FROM STREAM(raw) AS r"
    workspace.define(
        "name: heart_rate\nbronze:\n  raw: {path: '${landing}/raw', format: json}\n"
        f"silver:\n  t: {{{fields}sql: '{query}'}}\n"
    )
    (tmp_path / "landing" / "raw").mkdir(parents=True)
    places = [f"--{name}={tmp_path / name}" for name in ("lake", "landing", "pipelines")]
    done = CliRunner().invoke(app.app, ["plan", "heart_rate", *places])
    assert done.exit_code == 0, done.output
    assert how in done.output


def test_flows_of_a_table_are_told_with_what_each_takes_in(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.define(
        "name: heart_rate\nbronze:\n  eu: {path: '${landing}/eu', format: json, schemaHints: at INT}\n"
        "  us: {path: '${landing}/us', format: json, schemaHints: at INT}\n"
        "silver:\n  t:\n    flows:\n      a: {from: eu}\n"
        "      b: {sql: 'SELECT u.id, e.x FROM STREAM(us) AS u JOIN eu AS e ON u.n = e.n'}\n"
        "  c:\n    flows: {a: {from: eu}, b: {from: us}}\n    apply_changes: {keys: [id], sequence_by: at}\n"
    )
    for folder in ("eu", "us"):
        (tmp_path / "landing" / folder).mkdir(parents=True)
        write_deltalake(workspace.uri(folder), pa.table({"id": [1]}))
    places = [f"--{name}={tmp_path / name}" for name in ("lake", "landing", "pipelines")]
    done = CliRunner().invoke(app.app, ["plan", "heart_rate", *places, "--json"])
    assert done.exit_code == 0, done.output
    eu, _, t, c = json.loads(done.output)["tables"]
    assert (t["reads"], t["a run would"]) == ("new rows of eu, us", "create it")
    assert "by the flows a, b; joins eu: a changed row re-evaluates the records that join to it, by n" in t["how"]
    assert c["reads"] == "new rows of eu, us"
    assert c["how"].startswith("latest row for each id by at; by the flows a, b; read by a query: ")
    assert (eu["trigger"], t["trigger"].partition(":")[0]) == ("availableNow", "query")
    streams = {"a": StreamProgress("x", -1, 0), "b": StreamProgress("y", 3, 5, known=True)}
    now = Progress("incremental", 1, 2, streams=streams, why="the flow a is new")
    definition = workspace.definition
    work = [TableWork(flow, now) for flow in flow_flows.flows(definition, workspace.lake, "silver").values()]
    [planned, _] = [plan._table_facts(definition, Plan(work), one, set(), {}) for one in work]
    assert planned["a run would"] == "process a: all rows, b: versions 4 to 5; the flow a is new"


def test_a_server_of_spark_connect_reads_by_queries(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.define(SHOP.replace("name: shop", "name: heart_rate"))
    places = [f"--{name}={tmp_path / name}" for name in ("lake", "landing", "pipelines")]
    plans = []
    for master in ("local[*]", "sc://localhost:1"):
        environment = {"SLUICEGATE_MASTER": master}
        as_json = CliRunner().invoke(app.app, ["plan", "heart_rate", *places, "--json"], env=environment)
        text = CliRunner().invoke(app.app, ["plan", "heart_rate", *places], env=environment)
        triggers = {table["trigger"].partition(":")[0] for table in json.loads(as_json.stdout)["tables"]}
        plans.append((triggers, "queries instead of streams" in text.stdout))
    assert plans == [({"availableNow"}, False), ({"query"}, True)]


def test_the_rules_of_each_table(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.define(
        'name: heart_rate\nbronze:\n  raw: {path: "${landing}/raw", format: json, expect_all: {there: id > 0}}\n'
        'silver:\n  t: {sql: "SELECT id FROM STREAM(raw)", pii: [id], deidentified: {id: mask}}\n'
        'gold:\n  g: {sql: "SELECT count(*) AS n FROM t", expect_all: {some: n > 1}, '
        "expect_table: {one: {rows: {max: 1}}}}\n"
    )
    (tmp_path / "landing" / "raw").mkdir(parents=True)
    waiting = api.plan(workspace.definition)
    facts = {one.table: plan._table_facts(workspace.definition, waiting, one, set(), {}) for one in waiting.tables}
    assert {name: fact["rules"] for name, fact in facts.items()} == {
        "raw": ["there"], "t": [], "t_deidentified": [], "g": ["some", "one"],
    }  # fmt: skip
    assert facts["g"]["how"].endswith("; rules: some, one")
    assert "rules: " not in facts["t"]["how"]
    assert "; rules: `some`, `one`" in doc_md.describe_layer(workspace.definition, "gold")
    assert "; rules: `there`" in doc_md.describe_layer(workspace.definition, "bronze")


def test_rules_that_deletes_are_not_held_to_are_told(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.define(
        "name: heart_rate\nbronze:\n  raw: {path: '${landing}/raw', format: json, schemaHints: at INT}\n"
        "silver:\n  t:\n    from: raw\n    apply_changes: {keys: [id], sequence_by: at, apply_as_deletes: op = 'D'}\n"
        "    expect_all_or_quarantine: {sane: v > 0, known: Id > 0 AND AT > 0, odd: id > v}\n"
    )
    (tmp_path / "landing" / "raw").mkdir(parents=True)
    write_deltalake(workspace.uri("raw"), pa.table({"id": [1]}))
    places = [f"--{name}={tmp_path / name}" for name in ("lake", "landing", "pipelines")]
    done = CliRunner().invoke(app.app, ["plan", "heart_rate", *places, "--json"])
    assert done.exit_code == 0, done.output
    assert "more than keys and sequence" in done.output
