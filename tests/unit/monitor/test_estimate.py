"""What ``plan`` says that a run would read and touch for a gold table, told from logs that real writers wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from typer.testing import CliRunner

from sluicegate.cli import app
from sluicegate.cli.inspecting import history
from sluicegate.definition import load
from sluicegate.errors import UserError
from sluicegate.flow import flows, refresh_cost, thresholds
from sluicegate.flow.refresh_cost import Rates, Technique, TechniqueChoice, Work
from sluicegate.lake import layout, offsets
from sluicegate.lake import log as lake_log
from sluicegate.lake.commits import commit_stats
from sluicegate.monitor import estimate, event_log, plan
from sluicegate.settings import Settings

pytestmark = pytest.mark.unit

# Rates by which it is cheaper to follow changes, and to read all.
CHANGES = {"partial": Rates(0.1), "restart": Rates(1.0), "groups": Rates(0.5), "whole": Rates(1.0)}
ALL = {"partial": Rates(1.0), "restart": Rates(0.1), "groups": Rates(0.5), "whole": Rates(0.1)}

FEED = {"delta.enableChangeDataFeed": "true"}


class World:
    """A lake with a silver table ``t`` and a gold table ``g`` over it."""

    def __init__(self, folder: Path) -> None:
        self.where = Settings.of(str(folder / "lake"), str(folder), folder / "pipelines")
        self.at = layout.Lake(self.where.lake, "w")
        self.silver, self.gold = self.at.table("silver", "t"), self.at.table("gold", "g")
        (folder / "raw").mkdir()

    def define(self, sql: str, refresh: str = "auto") -> None:
        text = (
            f"name: w\nbronze:\n  raw: {{path: '{self.where.landing}/raw', format: json}}\n"
            f'silver:\n  t:\n    sql: "SELECT * FROM STREAM(raw) AS r"\n'
            f'gold:\n  g:\n    {{sql: "{sql}", refresh: {refresh}}}\n'
        )
        path = self.where.pipelines / "w" / "pipeline.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.pipeline = load("w", self.where)

    def add(self, *rows: tuple[Any, ...]) -> None:
        columns = dict(zip("gkx", map(list, zip(*rows, strict=True)), strict=True))
        write_deltalake(self.silver, pa.table(columns), mode="append", configuration=FEED)

    def run(self, groups: int, since: int = -1, **facts: Any) -> None:
        """Commits to the gold table as a run up to now would, with so many rows."""
        source = DeltaTable(self.silver)
        [flow] = flows.flows(self.pipeline, self.at, "gold").values()
        ours = {
            "layer": "gold", "table": "g", "fingerprint": flow.fingerprint, "inputs": {},
            "mode": "whole" if since < 0 else "incremental", "since": since, "until": source.version(), **facts,
        }  # fmt: skip
        about = CommitProperties(
            custom_metadata={"userMetadata": json.dumps({lake_log.METADATA: ours})},
            app_transactions=[Transaction(offsets.app_id("gold", "g", source), source.version())],
        )
        mode = "append" if Path(self.gold).exists() else "error"
        write_deltalake(self.gold, pa.table({"n": list(range(groups))}), mode=mode, commit_properties=about)

    def foreseen(self) -> dict[str, estimate.Touched]:
        return estimate.estimate_refreshes(self.pipeline, plan.pending(self.pipeline, self.where))


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.add(*[(f"g{i % 4}", i, 0.5) for i in range(40)])
    return made


KEPT = "SELECT g, sum(x) AS s FROM t GROUP BY g"


def change(world: World) -> None:
    """Two rows come, one in a new group, 10 change, 10 go, and nothing is lost by putting files together."""
    world.add(("g0", 100, 1.0), ("new", 101, 1.0))
    DeltaTable(world.silver).update(updates={"x": "x + 1"}, predicate="g = 'g1'")
    DeltaTable(world.silver).delete("g = 'g2'")
    DeltaTable(world.silver).optimize.compact()


def test_rows_bytes_and_groups_of_what_changed(world: World) -> None:
    world.define(KEPT, "incremental")
    world.run(4)
    assert world.foreseen() == {}
    change(world)
    folder = Path(world.silver)
    [added] = [a["add"]["size"] for a in lake_log.actions(world.silver, 1) if "add" in a]
    feed = sum(file.stat().st_size for file in folder.glob("_change_data/*.parquet"))
    found = world.foreseen()["g"]
    assert replace(found, choice=None) == estimate.Touched(rows=22, reads=added + feed, groups=4, exact=True)
    assert str(found).startswith(f"22 rows changed, reads {(added + feed) / 1000:.1f} kB of changes, touches 4 groups")
    assert found.choice is not None
    assert (found.choice.technique, found.choice.work) == ("partial", Work(changed=32, all=32, held=4, touched=4))
    assert f"takes some {found.choice.estimates['partial']:.1f} s by partial" in str(found)
    world.run(4, 0)
    assert world.foreseen() == {}


@pytest.mark.parametrize(
    ("sql", "groups", "exact"),
    [
        ("SELECT T.`G` AS h, k, sum(x) AS s FROM t GROUP BY t.g, K", 22, True),
        ("SELECT g, count(DISTINCT k) AS n FROM t GROUP BY g", 4, True),
        ("SELECT g, sum(x) AS s FROM t WHERE k > 0 GROUP BY g", 4, False),
        ("SELECT upper(g) AS u, sum(x) AS s FROM t GROUP BY upper(g)", 4 + 2 + 10, False),  # each may begin a new one
        ("SELECT upper(g) AS u, sum(x) AS s FROM t GROUP BY upper(g) HAVING s > 1", 32, False),  # or leave one
        ("SELECT x, sum(k) AS s FROM t GROUP BY x", 4 + 2 + 10, False),
        ("SELECT count(*) AS n FROM t", 1, True),
    ],
)
def test_groups_that_cannot_be_counted_are_bounded(world: World, sql: str, groups: int | None, exact: bool) -> None:
    world.define(sql)
    world.run(4)
    change(world)
    found = world.foreseen()["g"]
    assert (found.rows, found.groups, found.exact) == (22, groups, exact)
    assert (found.all_of, found.reads) == (("t",), commit_stats.size(world.silver))  # it is small


def test_why_all_of_the_source_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def why(sql: str) -> str:
        world.define(sql)
        return world.foreseen()["g"].why

    world.define(KEPT)
    world.run(4)
    assert world.foreseen() == {}
    change(world)
    assert why(KEPT) == "it is small"
    monkeypatch.setattr(thresholds, "SMALL", 10)
    monkeypatch.setattr(refresh_cost, "RATES", CHANGES)
    assert why(KEPT) == ""
    world.define("SELECT g, sum(x) AS s FROM t GROUP BY g, k")
    found = world.foreseen()["g"]  # another definition: what changed since does not matter
    assert (found.all_of, found.rows, found.groups) == (("t",), 22, None)
    monkeypatch.setattr(refresh_cost, "RATES", ALL)
    assert why(KEPT) == "which is faster"


def test_what_a_run_would_do_with_ten_times_the_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows change as in the last run that followed changes; the tables have LARGER times the rows."""

    def larger() -> TechniqueChoice | None:
        [flow] = flows.flows(world.pipeline, world.at, "gold").values()
        return estimate.larger(world.pipeline.gold["g"], flow)

    def cost(technique: Technique, work: Work) -> dict[str, Any]:
        return TechniqueChoice(technique, {technique: 0.5}, work).commit_facts()

    world.define(KEPT)
    assert larger() is None
    world.run(4, **cost("restart", Work(changed=40, all=40, held=0, touched=0)))
    assert larger() is None  # a first load tells nothing of changes
    world.run(4, 0, **cost("whole", Work(changed=2, all=40, held=4, touched=4)))
    choice = larger()
    assert choice is not None
    assert (choice.technique, choice.work) == ("whole", Work(changed=2, all=400, held=40, touched=2))
    monkeypatch.setattr(refresh_cost, "RATES", CHANGES)
    for small, technique in ((400, "whole"), (399, "partial")):
        monkeypatch.setattr(thresholds, "SMALL", small)
        choice = larger()
        assert choice is not None
        assert choice.technique == technique
    [fact] = [fact for fact in plan_facts(world) if fact["layer"] == "gold"]
    assert fact["how"].endswith(f"; with ten times the rows: {choice}")


def plan_facts(world: World) -> list[dict[str, Any]]:
    """What `plan` says of each table, as JSON."""
    where = world.where
    places = [f"--lake={where.lake}", f"--landing={where.landing}", f"--pipelines={where.pipelines}"]
    done = CliRunner().invoke(app.app, ["plan", "w", "--json", *places])
    assert done.exit_code == 0, done.output
    tables: list[dict[str, Any]] = json.loads(done.output)["tables"]
    return tables


def test_groups_are_made_of_all_of_their_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "SMALL", 10)
    monkeypatch.setattr(refresh_cost, "RATES", CHANGES)
    world.define("SELECT g, count(DISTINCT x) AS s FROM t GROUP BY g")
    world.run(4)
    change(world)
    assert world.foreseen()["g"].why == "for the rows of the groups"


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_all_is_read_of_what_is_SMALL_and_state_is_made_again_where_more_than_FEW_rows_changed(
    world: World, monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    """The source has 32 rows, and as many came, went or changed, of which each is two."""

    def why(small: float, few: float) -> str:
        for name, value in {"SMALL": small, "FEW": few}.items():
            monkeypatch.setattr(thresholds, name, value)
        return world.foreseen()["g"].why

    world.define(KEPT)
    world.run(4)
    change(world)
    monkeypatch.setattr(refresh_cost, "RATES", CHANGES)
    assert why(32 - beyond, 100) == ("it is small" if beyond <= 0 else "")
    monkeypatch.setattr(refresh_cost, "RATES", ALL)
    world.define(KEPT, "incremental")
    assert why(0, 32 - beyond) == ("which is faster" if beyond > 0 else "")


def test_the_first_run_reads_all(world: World) -> None:
    world.define(KEPT)
    found = world.foreseen()["g"]
    assert found == estimate.Touched(None, commit_stats.size(world.silver), ("t",))
    assert str(found).startswith("reads all ")


def test_changes_that_cannot_be_read_are_bounded_too(world: World) -> None:
    world.define(KEPT, "incremental")
    world.run(4)
    change(world)
    for file in Path(world.silver).glob("_change_data/*.parquet"):
        file.unlink()
    found = world.foreseen()["g"]
    assert (found.groups, found.exact) == (16, False)


@pytest.mark.parametrize(("beyond", "groups"), [(-1, 4), (0, 4), (1, 16)])
def test_groups_are_counted_of_no_more_than_BYTES_COUNTED(
    world: World, monkeypatch: pytest.MonkeyPatch, beyond: int, groups: int
) -> None:
    world.define(KEPT, "incremental")
    world.run(4)
    change(world)
    changed = commit_stats.change_volume(world.silver, 0, DeltaTable(world.silver).version())
    assert changed is not None
    monkeypatch.setattr(estimate, "BYTES_COUNTED", changed.changed - beyond)
    found = world.foreseen()["g"]
    assert (found.groups, found.exact, found.reads) == (groups, groups == 4, changed.changed)


def command(world: World, *arguments: str) -> str:
    """What a command prints, without the space between columns."""
    done = CliRunner().invoke(
        app.app, [*arguments, "--lake", world.where.lake, "--pipelines", str(world.where.pipelines)]
    )
    assert done.exit_code == 0, (done.output, done.exception)
    return " ".join(done.output.split())


def test_the_command_says_so_to_people_and_to_programs(world: World) -> None:
    def said(*more: str) -> str:
        return command(world, "plan", "w", "--landing", world.where.landing, *more)

    world.define("SELECT g, sum(x) AS s FROM t GROUP BY g ORDER BY abs(s)", "incremental")
    world.run(4)
    assert "touches" not in said("--json")
    change(world)
    [told] = [fact["touches"] for fact in json.loads(said("--json"))["tables"] if "touches" in fact]
    seconds = refresh_cost.RATES["partial"].fixed  # there was no run yet that says how long it takes here
    assert told == {
        "rows_changed": 22, "bytes_read": world.foreseen()["g"].reads, "reads_all_of": [], "groups": 4,
        "groups_exact": True,
        "cost": {"technique": "partial", "estimated": seconds, "estimates": {"partial": seconds},
                 "rows": {"changed": 32, "all": 32, "held": 4, "touched": 4}},
    }  # fmt: skip
    text = said()
    assert "22 rows changed" in text
    assert "ABS(s)" in text


def test_commits_of_delta_rs_and_a_log_that_is_gone(world: World) -> None:
    change(world)
    table = DeltaTable(world.silver)
    rows = pa.table({"g": ["g0", "fresh"], "k": [100, 1], "x": [0.0, 0.0]})
    merge = table.merge(rows, "t.g = s.g AND t.k = s.k", source_alias="s", target_alias="t")
    merge.when_matched_delete().when_not_matched_insert_all().execute()
    counted = [commit_stats.commit_volume(world.silver, version) for version in range(table.version() + 1)]
    rows_of = [(one.inserted, one.updated, one.deleted) for one in counted if one]
    assert rows_of == [(40, 0, 0), (2, 0, 0), (0, 10, 0), (0, 0, 10), (0, 0, 0), (1, 0, 1)]
    assert counted[4] is not None
    assert (counted[4].changed, counted[4].written > 0) == (0, True)  # files put together are no change
    (Path(world.silver) / "_delta_log" / f"{2:020d}.json").unlink()
    assert commit_stats.change_volume(world.silver, 0, 5) is None
    assert commit_stats.change_volume(world.silver, 2, 5) == sum(filter(None, counted[3:]), commit_stats.ChangeVolume())


def test_the_history_of_files_that_were_read_has_no_bytes_of_gold() -> None:
    details = {"chunk": 0, "files": 1, "bytes": 83_100, "failed": 0}
    event = {"layer": "bronze", "table": "b", "version": 0, "written": 1000, "details": details}
    assert history._row(event, ["table", "written", "bytes written"]) == ["b", 1000, None]


def test_the_event_log_has_the_bytes_written_for_each_that_changed(world: World) -> None:
    world.define(KEPT)
    world.run(4)
    change(world)
    world.run(5, 0)
    event_log.copy_events(world.pipeline, world.at)
    log = DeltaTable(world.at.events).to_pyarrow_table().to_pylist()
    told = [json.loads(event["details"])["bytes"] for event in sorted(log, key=lambda event: int(event["version"]))]
    changed = commit_stats.change_volume(world.silver, 0, 4)
    assert changed is not None
    files = [next(a["add"]["size"] for a in lake_log.actions(world.gold, version) if "add" in a) for version in (0, 1)]
    assert told == [
        {"written": files[0], "changed": None, "written_per_byte_changed": None},
        {"written": files[1], "changed": changed.changed,
         "written_per_byte_changed": round(files[1] / changed.changed, 3)},
    ]  # fmt: skip
    [first, second] = json.loads(command(world, "history", "w", "--json"))
    assert (first["version"], second["version"], second["details"]["bytes"]) == (0, 1, told[1])
    shown = command(world, "history", "w", "g", "--newest", "1")
    assert f"{told[1]['written_per_byte_changed']} incremental 1 commit" in shown
    assert command(world, "history", "w", "t").endswith("0 commits")
    with pytest.raises(UserError, match="table u"):
        CliRunner().invoke(
            app.app,
            ["history", "w", "u", "--pipelines", str(world.where.pipelines)],
            catch_exceptions=False,
        )
