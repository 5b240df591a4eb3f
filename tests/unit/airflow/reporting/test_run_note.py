"""The note of a run, as it is put together from what its tasks returned; that Airflow takes it, e2e tests show."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluicegate.flow import table_report
from sluicegate.flow.report import RunReport
from sluicegate.flow.table_report import TableReport
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.test_escapes import OBEYED

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]

KINDS = {
    "check_request": "CheckRequest", "wait_for_files": "LandedFilesSensor", "bronze": "SluicegateJob",
    "silver": "SluicegateJob", "gold": "SluicegateJob", "account": "Account",
}  # fmt: skip
ASKED = "ingests new data and reprocesses [2020-01-01 00:00:00, 2020-01-02 00:00:00) in silver, and gold follows"


def told(results: dict[str, Any], **failures: str) -> list[str]:
    from sluicegate.airflow.reporting.run_note import note

    return note(results, KINDS, failures).splitlines()


def silver(*tables: TableReport) -> dict[str, Any]:
    return RunReport("heart_rate", "silver", list(tables)).as_dict()


def test_a_backfill_says_what_it_rebuilt() -> None:
    again = TableReport(
        "recordings_enriched", "silver", state="again", read=4, written=1, quarantined=3, inserted=0, deleted=2,
        expectations={"valid_heartrate": {"passed": 1, "failed": 3}}, seconds=2.04,
        samples=[{"row": {"mrn": 7}, "file": "a.json", "rules": ["valid_heartrate"]}],
    )  # fmt: skip
    found = told(
        {
            "check_request": ASKED,
            "silver": silver(TableReport("patients", "silver"), again),
            "account": [
                {"table": "recordings_enriched", "quarantined": 3, "waits": "2 rows of recordings_bronze wait"},
                {"table": "patients", "quarantined": 0},
            ],
        }
    )
    assert found == [
        f"**This run {ASKED}**",
        "",
        "- silver recordings_enriched 4 read = 1 written + 3 quarantined + 0 dropped + 0 duplicates 2.0 s; "
        "0 inserted, 0 updated, 2 deleted; valid_heartrate: 3 of 4 rows failed",
        "- recordings_enriched: 3 rows in quarantine",
        "- recordings_enriched is behind: 2 rows of recordings_bronze wait",
        "",
        "Every file and every record is accounted for.",
    ]


def test_a_task_of_all_layers_tells_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {layer: TableReport(f"of_{layer}", layer, "written", read=2, written=2) for layer in ("bronze", "silver")}
    done = [RunReport("heart_rate", layer, [table]).as_dict() for layer, table in tables.items()]
    layered = told({"check_request": ASKED} | {report["layer"]: report for report in done})
    monkeypatch.setitem(KINDS, "run", "SluicegateJob")
    assert told({"check_request": ASKED, "run": done}) == layered
    assert [line.split()[2] for line in layered[2:]] == ["of_bronze", "of_silver"]


def test_a_run_that_failed_begins_with_where_and_why_and_says_what_was_requested() -> None:
    asked = {"check_request": "ingests new data"}
    why = "recordings_enriched: 12 of 1,500 rows broke known_patient"
    table = TableReport("patients", "bronze", "written", read=2, written=2)
    found = told({**asked, "bronze": silver(table)}, silver=why)
    assert found[:3] == [f"**This run failed in silver: {why}**", "", "Requested: it ingests new data"]
    assert found[4].startswith("- bronze patients 2 read")
    assert told(asked, bronze="") == ["**This run failed in bronze**", "", "Requested: it ingests new data"]
    assert told({}, check_request="unknown table x") == ["**This run failed in check_request: unknown table x**"]
    assert told(asked, account="late", gold="broken")[0] == "**This run failed in gold: broken**", (
        "the first of the DAG"
    )
    assert told(asked) == ["**This run ingests new data**"]
    left = [{"table": "patients", "waits": "2 files wait"}]
    assert told({**asked, "account": left}, silver=why)[3:] == ["", "- patients is behind: 2 files wait"]
    assert told({}) == []


def test_the_reason_of_a_failure_adds_no_line_and_no_link_and_leaves_room_for_the_rest() -> None:
    found = told(
        {"check_request": ASKED, "silver": silver(TableReport("s", "silver", "written", read=5))}, gold=HOSTILE
    )
    assert found[0].startswith("**This run failed in gold: a")
    assert found[2] == f"Requested: it {ASKED}"
    assert found[4].startswith("- silver s 5 read")
    for link in LINKS:
        [line, *_] = told({}, gold=f"{link} {'x' * 2000}")
        assert not re.search(r"\]\(|<|@|://|www\.", re.sub("`[^`]*`", "", line), re.IGNORECASE)
        assert len(line) < 500


def test_a_task_leaves_the_reason_of_its_failure_and_fails_as_it_did() -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowRescheduleException, AirflowSkipException

    from sluicegate.airflow.reporting.failure_reason import REASON, keep_failure_reason
    from sluicegate.airflow.run_request import failure
    from sluicegate.errors import UserError, Where

    class Instance:
        def __init__(self) -> None:
            self.pushed: dict[str, str] = {}

        def xcom_push(self, key: str, value: str) -> None:
            self.pushed[key] = value

    def of(error: Exception) -> dict[str, str]:
        @keep_failure_reason
        def execute(_task: None, _context: dict[str, Any]) -> None:
            raise error

        instance = Instance()
        with pytest.raises(type(error)) as raised:
            execute(None, {"ti": instance})
        assert raised.value is error
        return instance.pushed

    assert of(failure(UserError("no such day", where=Where(table="t")))) == {REASON: "t: no such day"}
    assert of(failure(UserError("t has no such day", where=Where(table="t")))) == {REASON: "t has no such day"}
    assert of(AirflowException("the job ended with exit code -9; its last output:\n    x")) == {
        REASON: "the job ended with exit code -9; its last output: x"
    }
    assert of(AirflowException("reconciliation failed:\n  t: a row is lost")) == {
        REASON: "reconciliation failed: t: a row is lost"
    }
    assert of(AirflowException("")) == {REASON: "AirflowException"}
    assert of(AirflowSkipException("nothing to do")) == {}
    assert of(ValueError("a value")) == {REASON: "ValueError; the log of the task has more"}
    assert of(AirflowRescheduleException(datetime.now(UTC))) == {}  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(("chosen", "word"), [("Approve", "approved"), ("Reject", "rejected")])
def test_a_full_refresh_says_what_was_answered(chosen: str, word: str) -> None:
    assert word in told({"check_request": {"chosen_options": [chosen], "params_input": {}}})[0]


def test_a_note_is_never_longer_than_airflow_keeps_nor_has_what_a_database_refuses() -> None:
    tables = [TableReport(f"t{i}", "silver", state="rebuilt", why="\x00" + "xx" * i, read=i) for i in range(60)]
    found = "\n".join(told({"check_request": ASKED, "silver": silver(*tables)}))
    assert 900 < len(found) <= 1000
    assert found.endswith("…")
    assert "\x00" not in found


def test_a_note_counts_the_files_that_are_in_no_table() -> None:
    account = [
        {"table": "a", "failed files": 6, "first failed file": "x.json", "skipped files": 1},
        {"table": "b", "failed files": 1}, {"table": "c"},
    ]  # fmt: skip
    found = told({"check_request": ASKED, "account": account})
    assert found[0] == f"**This run {ASKED}; 7 files could not be read, first: x.json**"
    assert found[2:] == [
        "- a: 6 files could not be read",
        "- a: 1 file skipped; `sluicegate reload` reads them",
        "- b: 1 file could not be read",
        "",
        "Every record that was read is accounted for, but 7 files could not be read, first: x.json.",
    ]


def test_the_first_line_counts_the_files_of_the_run() -> None:
    bad = {f"/landing/{name}.json": "it is no JSON" for name in "abcdef"}
    mixed = TableReport("r", "bronze", "written", read=6, written=6, files=10, failed=bad)
    whole = TableReport("s", "bronze", "written", read=2, written=2, files=2)
    account = [{"table": "r", "failed files": 7, "first failed file": "older.json"}]
    found = told({"check_request": ASKED, "bronze": silver(mixed, whole), "account": account})
    assert found[0] == f"**This run {ASKED}; 6 of 12 files read, 6 unreadable, the first: a.json**"
    long = replace(whole, failed={f"/landing/{'x' * 255}": "it is no JSON"})
    found = told({"check_request": ASKED, "bronze": silver(long)})
    assert found[0].startswith(f"**This run {ASKED}; 1 of 2 files read, 1 unreadable, the first: xxx")
    assert len(found[0]) < len(ASKED) + 250


HOSTILE = "a\nb\u2028c\x1b[31m\u202e\udc80"
LINKS = ("[x](javascript:alert(1))", "![](http://evil.example/p.png)", "<https://evil.example>", "www.evil.example",
         "`a`[b](http://evil.example)`", "me@evil.example", "HTTPS://evil.example", "[a b](c d)",
         "_www.evil.example_")  # fmt: skip


@given(st.one_of(st.text(max_size=15), st.sampled_from(LINKS), st.just(HOSTILE)), st.text(max_size=5))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_landed_adds_no_line_and_no_link_to_a_note(name: str, more: str) -> None:
    def of(name: str) -> list[str]:
        table = TableReport("t", "bronze", "written", read=3, written=3, failed={name: name}, refused={name: "x"})
        account = {"table": "t", "quarantined": 3, "waits": name}
        return told({"check_request": ASKED, "bronze": silver(table), "account": [account]})

    found = of(f"in {name}{more}")
    assert len(found) == len(of("a.json"))
    for line in found[2:]:
        assert not OBEYED.search(line)
        assert not re.search(r"\]\(|<|@|://|www\.", re.sub("`[^`]*`", "", line), re.IGNORECASE)
        assert line.count("`") % 2 == 0


def test_files_that_the_triggerer_did_not_report_are_noted() -> None:
    results = {"check_request": ASKED, "wait_for_files": {"files": 4, "bytes": 9}}
    assert told(results) == [f"**This run {ASKED}**"]
    results["wait_for_files"] = {"files": 4, "bytes": 9, "unreported": 4}
    assert told(results)[2:] == [
        "- files were waiting, but Airflow's **triggerer** did not report them: check that it is running"
    ]


def test_a_run_that_a_mistake_stopped_says_what_it_did_until_then() -> None:
    from sluicegate.airflow.reporting.run_note import note_of_mistakes

    why = "Does not run: pipeline.yaml has 1 mistake"
    table = silver(TableReport("patients", "silver", "written", read=2, written=2))
    found = note_of_mistakes({"check_request": ASKED, "silver": table}, KINDS, why).splitlines()
    assert found[0] == f"**This run {ASKED}**"
    assert found[2].startswith("- silver patients 2 read")
    assert found[-1] == f"The definition is invalid. {why}"
    assert note_of_mistakes({}, KINDS, why).splitlines()[0] == "**This run did nothing**"


def test_clearing_a_run_erases_nothing_of_its_note() -> None:
    from sluicegate.airflow.reporting.run_note import BEFORE, LONGEST, continue_note

    first = "**This run takes in what is new**\n\n- silver patients 4 read\n- patients: 1 rows stand in quarantine"
    again = "**This run takes in what is new**\n\n- patients: 1 rows stand in quarantine"
    whole = f"{again}\n\n{BEFORE}\n- silver patients 4 read"
    assert continue_note(again, first) == whole
    assert continue_note(again, whole) == whole  # cleared once more
    assert continue_note(first, first) == first
    assert continue_note(first, "") == first
    assert len(continue_note(again, f"{first}\n" + "- line\n- other\n" * 200)) <= LONGEST


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_a_note_is_whole_up_to_the_LONGEST_and_has_whole_lines_beyond(
    monkeypatch: pytest.MonkeyPatch, beyond: int
) -> None:
    from sluicegate.airflow.reporting import run_note

    results = {"check_request": ASKED, "account": [{"table": f"t{i}", "quarantined": i} for i in (1, 2)]}
    whole = told(results)
    monkeypatch.setattr(run_note, "LONGEST", len("\n".join(whole)) - beyond)
    found = told(results)
    assert found == (whole if beyond <= 0 else [*whole[:-1], "…"])
    # All that there is room for, with the sign that there is more.
    monkeypatch.setattr(run_note, "LONGEST", len("\n".join([*whole[:3], "…"])) - beyond)
    assert told(results) == [*(whole[:3] if beyond <= 0 else whole[:2]), "…"]


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_a_run_that_was_asked_for_more_than_a_note_holds_has_a_note_that_begins_as_ours(beyond: int) -> None:
    from sluicegate.airflow.reporting.run_note import BEGINS, LONGEST

    asked = "x" * (LONGEST - len(BEGINS) - len("**") + beyond)
    [found] = told({"check_request": asked})
    whole = f"{BEGINS}{asked}**"
    assert found == (whole if beyond <= 0 else f"{whole[: LONGEST - 1]}…")
    assert len(found) == min(LONGEST + beyond, LONGEST)


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_so_many_files_are_SHOWN_and_all_are_counted(beyond: int) -> None:
    count = table_report.SHOWN + beyond
    files = {f"f{number}.json": f"why {number}" for number in range(count)}
    for field in ("failed", "refused"):
        heading, *named = TableReport("t", "bronze", **{field: files}).remarks()  # type: ignore[arg-type]
        assert re.findall(r"\d+", heading) == [str(count)]
        assert named == [f"           {path}: {why}" for path, why in files.items()][: min(count, table_report.SHOWN)]


@pytest.mark.parametrize("link", ["", "[x](javascript:alert(1)) "])
def test_names_of_files_leave_room_for_other_tables_up_to_the_LONGEST_LINE(link: str) -> None:
    """A file with a long name hid the numbers of all tables."""
    from sluicegate.airflow.reporting.run_note import LONGEST_LINE

    files = {f"/in/{link * 40}{number}{'x' * 255}": f"no JSON in line {number}" for number in range(5)}
    bronze = RunReport("p", "bronze", [TableReport("b", "bronze", "written", read=7, written=7, failed=files)])
    found = told(
        {
            "check_request": ASKED,
            "bronze": bronze.as_dict(),
            "silver": silver(TableReport("s", "silver", "written", read=5)),
        }
    )
    [of_bronze, of_silver] = [line for line in found if line.startswith("- ")]
    assert of_bronze.startswith("- bronze b 7 read = 7 written")
    assert len(of_bronze.replace("`", "")) == len("- ") + LONGEST_LINE
    assert of_bronze.count("`") % 2 == 0
    assert of_silver.startswith("- silver s 5 read")
