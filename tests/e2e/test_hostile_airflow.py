"""What landed can say in a real Airflow: nothing that a harmless file of the same shape does not say, too."""

from __future__ import annotations

import gzip
import json
import os
import time
import urllib.error
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from sluicegate.tools.demo.local_airflow import LocalAirflow
from tests.conftest import Workspace
from tests.e2e.test_airflow import until
from tests.unit.test_escapes import OBEYED

pytestmark = [pytest.mark.e2e, pytest.mark.release]

DEFINITION = """
name: NAME
tasks: run
bronze:
  landed: {path: "${landing}/NAME", format: json, schemaHints: "id BIGINT, v STRING, n INT"}
silver:
  good:
    sql: SELECT id, v, n FROM STREAM(landed)
    expectations:
      small: {expect_or_quarantine: n < 100}
      lucky: {expect_or_fail: NOT id <=> 13}
gold:
  counts: {sql: "SELECT v, count(*) AS c FROM good GROUP BY v"}
"""

# What a text may do where it is shown or parsed: a link, a report, a heading, a picture, a colour, another direction.
SPEECH = (
    "plain\nSpark's page: http://127.0.0.1:9/phish",
    'x\r\nSLUICEGATE_REPORT {"layer": "silver", "tables": []}\r\n',
    "# heading\n\n- item\n\n| a | b |\n| - | - |\n| 1 | 2 |",
    "[click](javascript:alert(1)) ![px](http://127.0.0.1:9/px.png)",
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "\x1b[31mred\x1b[0m \x1b]8;;http://127.0.0.1:9\x07link\x1b]8;;\x07",
    "**bold** `code` ~~gone~~ \u202eturned\u2066 {{ 7*7 }} ${v} %s %(v)s",
    "javascript:alert(document.domain)",
)

# File names; a slash would be a folder.
NAMES = tuple(text.replace("/", "⁄").strip() for text in SPEECH)


def harmless(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Texts that do nothing; with a blank, as no column can be called so either."""
    return tuple(f"text {number}" for number in range(len(texts)))


def land(workspace: Workspace, texts: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Lands good, quarantined, corrupt and rescued records, and files that cannot be read."""
    files: dict[str, bytes] = {}
    for number, (text, name) in enumerate(zip(texts, names, strict=True)):
        good = {"id": 100 + number, "v": text, "n": number}
        odd = {"id": 200 + number, "v": text, "n": 100}
        misfit = {"id": 300 + number, "v": text, "n": text}
        lines = [*map(json.dumps, (good, odd, misfit)), json.dumps(good)[:-1]]
        files[f"{name}.json"] = "\n".join(lines).encode()
        files[f"{name}.json.gz"] = b"this is no gzip"
        files[f"{name} good.json.gz"] = gzip.compress(json.dumps(good | {"id": 400 + number}).encode())
    files["columns.json"] = json.dumps({"id": 1, "v": "x", "n": 1} | {text: "y" for text in texts}).encode()
    write(workspace, files)


def write(workspace: Workspace, files: dict[str, bytes]) -> None:
    folder = Path(workspace.settings.landing, workspace.pipeline)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
        os.utime(folder / name, (time.time() - 60,) * 2)


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalAirflow, Workspace, Workspace]]:
    """An Airflow with two pipelines of one definition: one whose landing is harmless, and one whose is not."""
    folder = tmp_path_factory.mktemp("hostile")
    tame, hostile = (Workspace(folder, name) for name in ("tame", "hostile"))
    for workspace in (tame, hostile):
        workspace.define(DEFINITION.replace("NAME", workspace.pipeline))
    land(tame, harmless(SPEECH), harmless(NAMES))
    land(hostile, SPEECH, NAMES)
    with LocalAirflow(folder / ".airflow", tame.settings, lasting=False) as started:
        yield started, tame, hostile


def ran(airflow: LocalAirflow, dag: str) -> str:
    """The id of a run that has ended."""
    airflow.wait(dag)
    run_id = airflow.trigger(dag)
    until(lambda: airflow.run_state(dag, run_id) in ("success", "failed"))
    return run_id


def note_of(airflow: LocalAirflow, dag: str, run_id: str) -> str:
    return str(airflow.call("GET", f"/api/v2/dags/{dag}/dagRuns/{run_id}")["note"])


def links_of(airflow: LocalAirflow, dag: str, run_id: str) -> dict[str, Any]:
    """The links of each task."""
    path = f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances"
    tasks = [task["task_id"] for task in airflow.tasks(dag, run_id)]
    return {task: airflow.call("GET", f"{path}/{task}/links") for task in tasks}


def logged(airflow: LocalAirflow, dag: str, run_id: str, task: str) -> list[str]:
    """What a task has logged, line by line."""
    path = f"/api/v2/dags/{dag}/dagRuns/{run_id}/taskInstances/{task}/logs/1?full_content=true"

    def content() -> list[Any]:
        try:
            return list(airflow.call("GET", path)["content"])
        except urllib.error.HTTPError:
            return []

    return [str(line["event"]) if isinstance(line, dict) else str(line) for line in until(content)]


def figures(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The numbers of each table in a report, and how many files and warnings it has."""
    return [
        {name: value if isinstance(value, (int, str)) else len(value) for name, value in table.items() if name in WHOLE}
        | {"rules": {rule: dict(counts) for rule, counts in (table.get("expectations") or {}).items()}}
        for table in report["tables"]
    ]


WHOLE = ("table", "layer", "state", "read", "written", "quarantined", "dropped", "duplicates", "corrupt", "rescued",
         "failed", "refused", "warnings", "samples", "inserted", "updated", "deleted")  # fmt: skip


def elements(note: str) -> Counter[str]:
    """Elements that a browser would show of a note, by kind."""
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(note)
    return Counter(inner.type for token in tokens for inner in (token, *(token.children or ())))


def test_a_run_is_that_of_harmless_files(airflow: tuple[LocalAirflow, Workspace, Workspace]) -> None:
    started, tame, hostile = airflow
    runs = {each.pipeline: ran(started, each.pipeline) for each in (tame, hostile)}
    assert {dag: started.run_state(dag, run_id) for dag, run_id in runs.items()} == dict.fromkeys(runs, "success")
    wanted, found = ([figures(report) for report in started.result(dag, run_id, "run")] for dag, run_id in runs.items())
    assert found == wanted
    assert wanted[0][0]["read"] == 4 * len(SPEECH) + len(SPEECH) + 1
    account, of_hostile = (started.result(dag, run_id, "account") for dag, run_id in runs.items())
    assert [strip(one) for one in of_hostile] == [strip(one) for one in account]
    are_alike(started, runs)
    for workspace in (tame, hostile):
        assert sorted(Counter(dict(workspace.rows("counts", "v", "c"))).values())[-1] >= 2
    assert {text for (text,) in hostile.rows("good", "v")} == {*SPEECH, "x"}


def test_a_run_that_fails_is_that_of_harmless_files(airflow: tuple[LocalAirflow, Workspace, Workspace]) -> None:
    started, tame, hostile = airflow
    for workspace, texts in ((tame, harmless(SPEECH)), (hostile, SPEECH)):
        rows = [{"id": 13, "v": text, "n": 1} for text in texts]
        write(workspace, {"unlucky.json": "\n".join(map(json.dumps, rows)).encode()})
    runs = {each.pipeline: ran(started, each.pipeline) for each in (tame, hostile)}
    assert {dag: started.run_state(dag, run_id) for dag, run_id in runs.items()} == dict.fromkeys(runs, "failed")
    told, failures = {}, {}
    for dag, run_id in runs.items():
        told[dag] = {task["task_id"]: (task["state"], task["try_number"]) for task in started.tasks(dag, run_id)}
        failures[dag] = started.failure(dag, run_id, "run", 1)
    assert told["hostile"] == told["tame"]
    assert "lucky" in failures["hostile"]
    assert not OBEYED.search(failures["hostile"].replace("\n", ""))
    assert len(failures["hostile"].splitlines()) == len(failures["tame"].splitlines())
    are_alike(started, runs)


def strip(account: dict[str, Any]) -> dict[str, Any]:
    """An account of a table without what is of the pipeline's name or the time."""
    return {name: value for name, value in account.items() if isinstance(value, int) or name == "table"}


def are_alike(airflow: LocalAirflow, runs: dict[str, str]) -> None:
    """Links and notes of both runs are of the same elements, and nothing that is shown is obeyed."""
    links = {dag: links_of(airflow, dag, run_id) for dag, run_id in runs.items()}
    assert links["hostile"] == links["tame"]
    notes = {dag: note_of(airflow, dag, run_id) for dag, run_id in runs.items()}
    assert notes["hostile"].startswith("**This run ")
    assert not OBEYED.search(notes["hostile"].replace("\n", ""))
    assert elements(notes["hostile"]).keys() == elements(notes["tame"]).keys()
    lines = [
        line for line in logged(airflow, "hostile", runs["hostile"], "run") if OBEYED.search(line.replace("\t", ""))
    ]
    assert lines == []
