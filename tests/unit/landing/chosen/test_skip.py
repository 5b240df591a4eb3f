"""Files that another pipeline has read are entered once, and only those: what it does not list is read."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import sluicegate as sg
from sluicegate.cli import app
from sluicegate.definition import load
from sluicegate.errors import LakeLocked, LandingMissing, TargetConflict, UserError
from sluicegate.lake import tables
from sluicegate.lake.exclusion import lock
from sluicegate.lake.exclusion.target_ownership import take_ownership
from sluicegate.lake.layout import Lake
from sluicegate.landing import intake
from sluicegate.landing import ledger as landing_ledger
from sluicegate.landing.chosen import skip
from sluicegate.landing.chosen.reread import Reload
from sluicegate.landing.file_states import LedgerAction
from sluicegate.landing.moves import moved_files
from sluicegate.monitor import status
from sluicegate.monitor.plan import pending
from sluicegate.settings import Settings
from sluicegate.storage import listings
from sluicegate.storage.listings import FILES

pytestmark = pytest.mark.unit

THEN = 1_700_000_000


class CutOver:
    """A table whose landing folder another pipeline has read before."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "landing/x").mkdir(parents=True)
        self.settings = Settings.of(str(folder / "lake"), str(folder / "landing"), folder / "pipelines")
        self.lake = Lake(self.settings.lake, "p")
        self.define()

    def define(self, options: str = "") -> None:
        (self.folder / "pipelines/p").mkdir(parents=True, exist_ok=True)
        (self.folder / "pipelines/p/pipeline.yaml").write_text(
            f"name: p\nbronze:\n  things: {{path: '${{landing}}/x', format: json, settleSeconds: 5{options}}}\n"
        )
        self.pipeline = load("p", self.settings)

    def land(self, *names: str, data: str = "{}", seconds: float = 0) -> None:
        for name in names:
            path = self.folder / "landing/x" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(data)
            os.utime(path, (THEN + seconds,) * 2)

    def path(self, name: str) -> str:
        return f"{self.folder}/landing/x/{name}"

    def listed(self, *names: str, form: str = "file://{}") -> str:
        """A list of files, as Spark names them."""
        file = self.folder / "read before.csv"
        file.write_text("\n".join(["path", *(form.format(self.path(name)) for name in names)]))
        return str(file)

    def call(self, *words: str, answer: str | None = None) -> Result:
        own = self.settings
        places = ["--lake", own.lake, "--landing", own.landing, "--pipelines", str(own.pipelines)]
        return CliRunner().invoke(app.app, ["skip", "p", "things", *words, *places], input=answer)

    def preview(self, *names: str) -> skip.SkipPreview:
        return skip.preview(self.pipeline, skip.Skip("things", self.listed(*names)))

    def enter(self) -> list[str]:
        """What a run enters, as a run does."""
        return [Path(path).name for path in intake.enter("things", self.pipeline.bronze["things"], self.lake).paths]

    def states(self) -> dict[str, str]:
        rows = status.files("things", self.pipeline, self.settings).to_pylist()
        return {Path(row["path"]).name: row["state"] for row in rows}

    def move(self, name: str, place: str) -> None:
        """Moves a file within landing."""
        Path(self.path(place)).parent.mkdir(parents=True, exist_ok=True)
        Path(self.path(name)).rename(self.path(place))

    def entries(self) -> list[tuple[str, str]]:
        """Each entry of the ledger by its name in landing, with its state."""
        rows = status.files("things", self.pipeline, self.settings).to_pylist()
        return sorted((row["path"].removeprefix(self.path("")), row["state"]) for row in rows)

    def skipped(self) -> int:
        """Files that a plan counts as skipped."""
        return pending(self.pipeline, self.settings).tables[0].skipped

    def reload(self, name: str) -> list[tuple[str, str]]:
        """What a reload of one file enters."""
        table, reload = self.pipeline.bronze["things"], Reload(files=(name,))
        entered = intake.enter("things", table, self.lake, reload.discover).new.to_pylist()
        return [(entry["path"].removeprefix(self.path("")), entry["action"]) for entry in entered]

    def version(self) -> int | None:
        ledger = tables.delta_table(self.lake.ledger("things"))
        return None if ledger is None else ledger.version()


@pytest.fixture
def cut_over(tmp_path: Path) -> CutOver:
    """Three files that the old pipeline has read, one between, and one that came later."""
    cut_over = CutOver(tmp_path)
    cut_over.land("1.json", "day=1/2.json", "3 old.json")
    cut_over.land("between.json", seconds=60)
    cut_over.land("new.json", seconds=120)
    return cut_over


def test_only_what_is_not_listed_is_read(cut_over: CutOver) -> None:
    listed = cut_over.listed("1.json", "day=1/2.json", "3%20old.json", "gone.json")
    shown = json.loads(cut_over.call(listed, "--dry-run", "--json").stdout)
    counts = {key: shown[key] for key in ("listed", "to_skip", "already_skipped", "entered")}
    assert counts == {"listed": 4, "to_skip": 3, "already_skipped": 0, "entered": 0}
    assert shown["not_in_landing"] == [f"file://{cut_over.path('gone.json')}"]
    assert shown["to_read"] == [cut_over.path("between.json"), cut_over.path("new.json")]
    assert cut_over.version() is None
    done = cut_over.call(listed, "--yes")
    assert done.exit_code == 0, done.output
    assert "3 files entered as skipped" in done.output
    assert "sluicegate reload p things --files" in done.output
    assert cut_over.version() == 0  # one commit
    waiting = pending(cut_over.pipeline, cut_over.settings)
    assert (waiting.files, waiting.tables[0].skipped) == (2, 3)
    assert cut_over.states() == {
        "1.json": "skipped", "2.json": "skipped", "3 old.json": "skipped", "between.json": "waiting",
        "new.json": "waiting",
    }  # fmt: skip
    assert cut_over.enter() == ["between.json", "new.json"]
    assert cut_over.enter() == []


def test_the_reason_is_shown_beside_the_file(cut_over: CutOver) -> None:
    sg.skip(cut_over.pipeline, "things", cut_over.listed("1.json"))
    cut_over.enter()
    rows = sg.files(cut_over.pipeline, "things").to_pylist()
    errors = {Path(row["path"]).name: row["error"] for row in rows}
    assert "read before.csv" in errors.pop("1.json")
    assert set(errors.values()) == {None}


def test_a_repetition_enters_nothing(cut_over: CutOver) -> None:
    listed = cut_over.listed("1.json", "day=1/2.json")
    assert sg.skip(cut_over.pipeline, "things", listed) == 2
    assert sg.skip(cut_over.pipeline, "things", listed) == 0
    assert cut_over.version() == 0
    longer = cut_over.listed("1.json", "day=1/2.json", "3%20old.json")
    assert sg.skip(cut_over.pipeline, "things", longer) == 1
    assert cut_over.version() == 1
    assert cut_over.enter() == ["between.json", "new.json"]


def test_a_file_that_the_table_has_read_is_refused_and_nothing_is_entered(cut_over: CutOver) -> None:
    cut_over.enter()
    cut_over.land("late.json")
    before = cut_over.version()
    with pytest.raises(UserError) as refused:
        sg.skip(cut_over.pipeline, "things", cut_over.listed("late.json", "1.json", "between.json"))
    assert "2 files" in refused.value.message
    assert cut_over.path("between.json") in (refused.value.cause or "")
    assert "sluicegate reset p things --drop-missing" in (refused.value.hint or "")
    assert cut_over.version() == before
    assert sg.skip(cut_over.pipeline, "things", cut_over.listed("late.json")) == 1
    assert cut_over.states()["late.json"] == "skipped"
    assert cut_over.enter() == []


def test_a_file_that_is_gone_and_was_read_is_refused(cut_over: CutOver) -> None:
    cut_over.enter()
    Path(cut_over.path("1.json")).unlink()
    with pytest.raises(UserError, match="read 1 file"):
        sg.skip(cut_over.pipeline, "things", cut_over.listed("1.json"))


def test_a_list_of_another_place_is_refused_and_a_prefix_maps_it(cut_over: CutOver) -> None:
    listed = cut_over.listed("1.json", "3 old.json", form="dbfs:/mnt{}")
    with pytest.raises(LandingMissing) as refused:
        sg.skip(cut_over.pipeline, "things", listed)
    assert "--from-prefix" in (refused.value.hint or "")
    there, here = [f"dbfs:/mnt{cut_over.folder}/landing"], [f"{cut_over.folder}/landing"]
    assert sg.skip(cut_over.pipeline, "things", listed, from_prefix=there, to_prefix=here) == 2


def test_a_file_that_was_overwritten_since_is_not_entered_again(cut_over: CutOver) -> None:
    listed = cut_over.listed("1.json", "day=1/2.json")
    sg.skip(cut_over.pipeline, "things", listed)
    cut_over.land("1.json", data='{"id": 1}', seconds=300)
    assert sg.skip(cut_over.pipeline, "things", listed) == 0
    shown = cut_over.preview("1.json", "day=1/2.json")
    assert (shown.overwritten, shown.changed) == ([cut_over.path("1.json")], [])  # no run has been over the entry
    cut_over.define(", allowOverwrites: true")
    assert cut_over.enter() == ["3 old.json", "between.json", "new.json", "1.json"]


def test_a_skipped_file_is_read_by_a_reload(cut_over: CutOver) -> None:
    sg.skip(cut_over.pipeline, "things", cut_over.listed("1.json", "day=1/2.json"))
    cut_over.enter()
    table = cut_over.pipeline.bronze["things"]
    reload = Reload(files=("day=1/2.json",))
    discovered = intake.enter("things", table, cut_over.lake, reload.discover)
    assert discovered.new.select(["path", "action"]).to_pylist() == [
        {"path": cut_over.path("day=1/2.json"), "action": "read"}
    ]
    assert pending(cut_over.pipeline, cut_over.settings).tables[0].skipped == 1


@pytest.mark.parametrize("by_list", [True, False])
def test_a_skipped_file_that_moves_within_landing_is_one_file(tmp_path: Path, by_list: bool) -> None:
    cut_over = CutOver(tmp_path)
    cut_over.land("1.json", "eu/2.json", "us/2.json", seconds=0.25)
    if by_list:
        sg.skip(cut_over.pipeline, "things", cut_over.listed("1.json", "eu/2.json"))
        sg.skip(cut_over.pipeline, "things", cut_over.listed("us/2.json"))  # of the same size and time, and another
    else:
        cut_over.define(", includeExistingFiles: false")
    cut_over.enter()
    assert cut_over.skipped() == 3
    for former, place in (("1.json", "a/1.json"), ("a/1.json", "b/1.json")):
        cut_over.move(former, place)
        assert cut_over.enter() == []
        assert cut_over.skipped() == 3
    left = [("eu/2.json", "skipped"), ("us/2.json", "skipped")]
    gone = [("1.json", "replaced"), ("a/1.json", "replaced")]
    assert cut_over.entries() == sorted([*gone, ("b/1.json", "skipped"), *left])
    assert cut_over.reload("b/1.json") == [("b/1.json", "read")]
    assert cut_over.skipped() == 2
    assert cut_over.entries() == sorted([*gone, ("b/1.json", "replaced"), ("b/1.json", "waiting"), *left])


def test_a_skipped_file_that_was_read_after_all_is_followed_when_it_moves(tmp_path: Path) -> None:
    cut_over = CutOver(tmp_path)
    cut_over.land("1.json", seconds=0.25)
    sg.skip(cut_over.pipeline, "things", cut_over.listed("1.json"))
    cut_over.move("1.json", "a/1.json")
    cut_over.enter()
    cut_over.reload("a/1.json")
    entries = tables.dataset(tables.table_at(cut_over.lake.ledger("things"))).to_table().sort_by("chunk").to_pylist()
    entries.append({**entries[-1], "path": cut_over.path("b/1.json"), "action": "moved", "chunk": 9})
    paths = moved_files.aliases(pa.Table.from_pylist(entries), [cut_over.path("b/1.json")])
    assert paths == {cut_over.path("b/1.json"): cut_over.path("a/1.json")}  # which has its rows


def test_a_file_that_is_read_after_all_is_shown_as_skipped_no_more(cut_over: CutOver) -> None:
    sg.skip(cut_over.pipeline, "things", cut_over.listed("1.json"))
    cut_over.reload("1.json")
    assert cut_over.entries()[:2] == [("1.json", "replaced"), ("1.json", "waiting")]


def test_what_a_definition_would_skip_is_read_unless_it_is_listed(cut_over: CutOver) -> None:
    cut_over.define(", includeExistingFiles: false")
    done = cut_over.call(cut_over.listed("1.json"), "--yes")
    assert "includeExistingFiles" in done.output
    assert cut_over.enter() == ["3 old.json", "2.json", "between.json", "new.json"]


def test_a_file_that_is_being_written_is_refused(cut_over: CutOver) -> None:
    os.utime(cut_over.path("1.json"))
    with pytest.raises(UserError, match="may still be being written"):
        sg.skip(cut_over.pipeline, "things", cut_over.listed("1.json"))
    shown = cut_over.preview("day=1/2.json")
    assert cut_over.path("1.json") in shown.unlisted["path"].to_pylist()  # it is read once it has settled


def test_a_path_that_can_be_two_files_is_refused(cut_over: CutOver) -> None:
    cut_over.land("a b.json", "a%20b.json")
    with pytest.raises(UserError, match="matches two files"):
        sg.skip(cut_over.pipeline, "things", cut_over.listed("a%20b.json"))
    assert cut_over.version() is None


@pytest.mark.parametrize("listed", [("a%20b.json", "a%2520b.json"), ("a%20b.json", "a b.json")], ids=["encoded", "raw"])
def test_a_path_that_can_be_two_files_is_the_one_that_no_other_line_names(
    cut_over: CutOver, listed: tuple[str, ...]
) -> None:
    cut_over.land("a b.json", "a%20b.json")
    assert sg.skip(cut_over.pipeline, "things", cut_over.listed(*listed)) == 2
    assert {name for name, state in cut_over.states().items() if state == "skipped"} == {"a b.json", "a%20b.json"}


def test_what_the_definition_passes_over_is_not_in_landing(cut_over: CutOver) -> None:
    cut_over.define(", pathGlobFilter: '*.json'")
    cut_over.land("x.csv", "_hidden.json")
    missing = cut_over.preview("1.json", "x.csv", "_hidden.json").missing
    assert [Path(path).name for path in missing] == ["x.csv", "_hidden.json"]


def test_the_preview_names_the_newest_file_and_the_first_ten(cut_over: CutOver) -> None:
    cut_over.land("newest.json", seconds=3600)
    gone = [f"gone-{number:02}.json" for number in range(skip.SHOWN + 2)]
    said = cut_over.call(cut_over.listed("1.json", "newest.json", *gone), "--dry-run").output
    newest = datetime.fromtimestamp(THEN + 3600, UTC)
    assert f"{newest:%Y-%m-%d %H:%M:%S} UTC: {cut_over.path('newest.json')}" in said
    assert [name in said for name in gone] == [True] * skip.SHOWN + [False] * 2
    assert "and 2 more" in said
    assert "4 files" in said  # of landing, which the next run reads


def test_a_file_whose_rows_were_given_up_can_be_skipped(cut_over: CutOver) -> None:
    """It was read before, but of its entries the newest counts."""
    cut_over.enter()
    ledger = tables.delta_table(cut_over.lake.ledger("things"))
    assert ledger is not None
    entries = tables.dataset(ledger).to_table(FILES.names).to_pylist()
    given_up = pa.Table.from_pylist([entry for entry in entries if entry["path"].endswith("/1.json")], FILES)
    landing_ledger.append(ledger, landing_ledger.add_action(LedgerAction.DROP, given_up), {})
    preview = cut_over.preview("1.json")
    assert [Path(path).name for path in preview.files["path"].to_pylist()] == ["1.json"]


def test_files_that_were_skipped_stay_so_when_their_folder_is_called_otherwise(cut_over: CutOver) -> None:
    assert cut_over.call(cut_over.listed("1.json", "day=1/2.json"), "--yes").exit_code == 0
    (cut_over.folder / "landing/x").rename(cut_over.folder / "landing/y")
    definition = cut_over.folder / "pipelines/p/pipeline.yaml"
    definition.write_text(definition.read_text().replace("${landing}/x", "${landing}/y"))
    cut_over.pipeline = load("p", cut_over.settings)
    listed = cut_over.folder / "again.csv"
    listed.write_text(f"path\n{cut_over.folder}/landing/y/1.json\n")
    preview = skip.preview(cut_over.pipeline, skip.Skip("things", str(listed)))
    assert (preview.already, preview.files.num_rows) == (1, 0)


def test_a_file_that_was_read_and_is_written_again_is_none_that_waits(cut_over: CutOver) -> None:
    """It is being written at this moment, and no run reads it without allowOverwrites."""
    cut_over.enter()
    (cut_over.folder / "landing/x/new.json").write_text("written again")
    cut_over.land("late.json", seconds=180)
    (cut_over.folder / "landing/x/young.json").write_text("{}")
    waiting = cut_over.preview("late.json").unlisted["path"].to_pylist()
    assert [Path(path).name for path in waiting] == ["young.json"]


def test_a_preview_lists_the_landing_folder_once(cut_over: CutOver, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the files that it compares are those that it says will be read, whatever lands meanwhile."""
    folders: list[str] = []

    def counted(folder: str, *others: Any) -> pa.Table:
        folders.append(folder)
        return files(folder, *others)

    files = listings.files
    monkeypatch.setattr(listings, "files", counted)
    cut_over.preview("1.json")
    assert folders == [f"{cut_over.folder}/landing/x"]


def test_it_asks_first(cut_over: CutOver, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = cut_over.listed("1.json")
    refused = cut_over.call(listed)  # the input of a test is no terminal
    assert isinstance(refused.exception, UserError)
    assert "add --yes" in (refused.exception.hint or "")
    assert cut_over.version() is None


def test_it_waits_for_a_run_and_for_tables_of_its_own_target(
    cut_over: CutOver, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = cut_over.listed("1.json")
    waits: list[Any] = []

    def locked(*arguments: Any, **options: Any) -> Any:
        waits.append(arguments)
        raise LakeLocked("a run has the lock")

    monkeypatch.setattr(lock, "pipeline_lock", locked)
    with pytest.raises(LakeLocked):
        sg.skip(cut_over.pipeline, "things", listed)
    assert len(waits) == 1
    monkeypatch.undo()
    take_ownership(cut_over.lake, "prod")
    with pytest.raises(TargetConflict):
        sg.skip(cut_over.pipeline, "things", listed)
    assert cut_over.version() is None
