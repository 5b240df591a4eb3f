"""Targets: which one is chosen, which settings it gives, in which order they count, and each mistake with its line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate import pii_key
from sluicegate.cli import app
from sluicegate.definition import load, load_file
from sluicegate.errors import DefinitionError, UserError
from sluicegate.jobs import base
from sluicegate.settings import Settings
from sluicegate.spark import spark_submit
from sluicegate.tools.sqlshell.definitions import definitions_of_tables
from tests.unit.definition.reading.test_loader import Folder

pytestmark = pytest.mark.unit

TARGETS = """\
name: shop
schedule: "0 * * * *"
params:
  region: {type: string, default: eu}
  least: {type: int}
targets:
  dev: {lake: "${HERE}/dev", master: "local[1]", schedule: null, params: {least: 1}}
  prod: {lake: "s3://company/lake", landing: /in, params: {least: 5, region: us}}
bronze:
  raw: {path: "${landing}/${param:region}", format: json}
gold:
  some: {sql: "SELECT * FROM raw WHERE id > ${param:least}"}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folder:
    for name in ("TARGET", "LAKE", "LANDING", "MASTER"):
        monkeypatch.delenv(f"SLUICEGATE_{name}", raising=False)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setenv("HERE", "/here")
    made = Folder(tmp_path)
    made.settings = Settings.of(pipelines=tmp_path, target="dev")
    return made


def mistakes(folder: Folder, text: str, target: str = "dev") -> list[tuple[str, int | None, str, str]]:
    folder.settings = Settings.of(pipelines=folder.root, target=target)
    return [(m.code, m.line, m.message, m.hint) for m in folder.mistakes(text)]


class TestChoice:
    def test_a_target_says_where_things_are(self, folder: Folder) -> None:
        pipeline = folder.load(TARGETS)
        assert pipeline.settings == Settings(
            "/here/dev", str(Path("landing").absolute()), folder.root, "local[1]", "dev"
        )
        assert pipeline.schedule is None
        assert "id > 1" in pipeline.gold["some"].query.text
        folder.settings = Settings.of(pipelines=folder.root, target="prod")
        pipeline = folder.load(TARGETS)
        assert (pipeline.settings.lake, pipeline.settings.landing) == ("s3a://company/lake", "/in")
        assert (pipeline.settings.master, pipeline.schedule) == ("local[*]", "0 * * * *")
        assert pipeline.bronze["raw"].path == "/in/us"
        assert "id > 5" in pipeline.gold["some"].query.text

    def test_the_environment_chooses_where_nothing_else_does(
        self, folder: Folder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SLUICEGATE_TARGET", "prod")
        folder.settings = Settings.of(pipelines=folder.root)
        assert folder.load(TARGETS).settings.target == "prod"
        folder.settings = Settings.of(pipelines=folder.root, target="dev")
        assert folder.load(TARGETS).settings.target == "dev"

    def test_what_is_said_comes_before_the_target_and_that_before_the_environment(
        self, folder: Folder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("LAKE", "LANDING", "MASTER"):
            monkeypatch.setenv(f"SLUICEGATE_{name}", f"/env/{name.lower()}")
        folder.settings = Settings.of(lake="/said", pipelines=folder.root, target="prod")
        found = folder.load(TARGETS).settings
        assert (found.lake, found.landing, found.master) == ("/said", "/in", "/env/master")

    def test_another_process_gets_the_same_settings(self, folder: Folder) -> None:
        first = folder.load(TARGETS)
        arguments = spark_submit.job_arguments("shop", first.settings)
        assert arguments[arguments.index("--target") + 1] == "dev"
        again = load_file(first.folder / "pipeline.yaml", Settings.of(**first.settings.arguments))  # type: ignore[arg-type]
        assert again.settings == first.settings
        assert again.gold["some"].fingerprint == first.gold["some"].fingerprint

    def test_a_pipeline_without_targets_has_the_settings_as_they_are(
        self, folder: Folder, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        text = "name: shop\nbronze:\n  raw: {path: /in, format: json}\n"
        [(code, line, message, _)] = mistakes(folder, text)
        assert (code, line, message) == ("unknown-target", 1, "unknown target dev: this pipeline has no targets")
        assert load("shop", folder.settings, of_many=True).settings == replace(folder.settings, target="")
        assert definitions_of_tables(["raw"], folder.settings)[1] == {}
        monkeypatch.setenv("SLUICEGATE_TARGET", "dev")
        folder.settings = Settings.of(pipelines=folder.root)
        assert folder.load(text).settings.target == ""
        assert "--target" not in spark_submit.job_arguments("shop", folder.settings)

    def test_a_job_needs_no_variable_of_the_master_that_it_was_submitted_to(self, folder: Folder) -> None:
        folder.write(TARGETS.replace("local[1]", "spark://${NOT_SET}:7077"))
        said = ["--pipeline=shop", f"--pipelines={folder.root}", "--target=dev"]
        pipeline, at, _ = base.job_context(base.parser("silver").parse_args(said))
        assert (pipeline.settings.target, at.root) == ("dev", "/here/dev")

    def test_cases_need_no_variable_of_the_places_of_a_target(self, folder: Folder) -> None:
        folder.write(
            TARGETS.replace("s3://company/lake", "s3://${NOT_SET}/lake").replace(
                "landing: /in,", 'landing: "/${NOT_SET}",'
            )
        )
        said = ["test", "shop", "--pipelines", str(folder.root), "--target", "prod"]
        error = CliRunner().invoke(app.app, said).exception
        assert isinstance(error, UserError)
        assert not isinstance(error, DefinitionError)

    def test_a_command_takes_it(self, folder: Folder, tmp_path: Path) -> None:
        folder.write(TARGETS.replace("/in,", f"{tmp_path},").replace("s3://company/lake", str(tmp_path / "lake")))
        (tmp_path / "us").mkdir()
        done = CliRunner().invoke(app.app, ["plan", "shop", "--pipelines", str(tmp_path), "--target", "prod"])
        assert done.exit_code == 0, done.output
        assert "target: prod, tables in " in done.output
        assert "parameters: region = us, least = 5" in done.output

    def test_a_command_without_one_fails_with_the_choice(self, folder: Folder) -> None:
        folder.write(TARGETS)
        with pytest.raises(DefinitionError) as caught:
            load("shop", replace(folder.settings, target=""))
        assert caught.value.hint == "pass --target dev, or set SLUICEGATE_TARGET"


class TestMistakes:
    def test_no_target_was_chosen(self, folder: Folder) -> None:
        [(code, line, message, hint)] = mistakes(folder, TARGETS, target="")
        assert (code, line, message) == ("no-target", 6, "no target chosen (targets: dev, prod)")
        assert hint == "pass --target dev, or set SLUICEGATE_TARGET"

    def test_there_is_no_such_target(self, folder: Folder) -> None:
        assert mistakes(folder, TARGETS, target="prd") == [
            ("unknown-target", 6, "unknown target prd", "did you mean prod?")
        ]

    def test_two_targets_have_one_lake(self, folder: Folder) -> None:
        told = mistakes(folder, TARGETS.replace("s3://company/lake", "/here/other/../dev/"))
        assert [one[:2] for one in told] == [("same-lake", 8)]
        assert told[0][2].startswith("dev and prod ")

    def test_two_targets_have_one_lake_by_a_variable_that_is_not_set(self, folder: Folder) -> None:
        text = TARGETS.replace("s3://company/lake", "${NOT_SET}/lake").replace("${HERE}/dev", "${NOT_SET}/lake")
        assert "same-lake" in [one[0] for one in mistakes(folder, text)]

    def test_a_lake_is_missing(self, folder: Folder) -> None:
        told = mistakes(folder, TARGETS.replace('lake: "s3://company/lake", ', ""))
        assert [one[:2] for one in told] == [("missing-field", 8)]

    def test_a_lake_is_relative(self, folder: Folder) -> None:
        assert [one[:2] for one in mistakes(folder, TARGETS.replace("s3://company/lake", "lake"))] == [
            ("relative-path", 8)
        ]

    @pytest.mark.parametrize("name", ["lake", "landing"])
    def test_a_lake_is_said_by_a_place(self, folder: Folder, name: str) -> None:
        told = mistakes(folder, TARGETS.replace("s3://company/lake", f"${{{name}}}/prod"))
        assert [one[:2] for one in told] == [("not-allowed", 8)]

    def test_a_variable_is_needed_where_its_target_is_chosen(self, folder: Folder) -> None:
        text = TARGETS.replace("s3://company/lake", "s3://${BUCKET_OF_PROD}/lake")
        assert folder.load(text).settings.target == "dev"
        told = mistakes(folder, text, target="prod")
        assert [one[:3] for one in told] == [("unset-variable", 8, "${BUCKET_OF_PROD} has no value")]

    def test_a_schedule_is_none(self, folder: Folder) -> None:
        assert [one[:2] for one in mistakes(folder, TARGETS.replace("schedule: null", "schedule: often"))] == [
            ("schedule", 7)
        ]

    def test_a_field_is_unknown(self, folder: Folder) -> None:
        [(code, line, _, hint)] = mistakes(folder, TARGETS.replace("landing: /in", "laning: /in"))
        assert (code, line, hint) == ("unknown-field", 8, "did you mean landing?")

    def test_a_parameter_is_unknown(self, folder: Folder) -> None:
        told = mistakes(folder, TARGETS.replace("region: us", "regoin: us"))
        assert told == [("unknown-param", 8, "unknown parameter regoin", "did you mean region?")]

    def test_a_value_has_another_type_also_where_it_is_not_chosen(self, folder: Folder) -> None:
        told = mistakes(folder, TARGETS.replace("least: 5", "least: five"))
        assert [one[:3] for one in told] == [("param-value", 8, "expected an integer, got five")]

    def test_a_value_is_missing_also_where_it_is_not_chosen(self, folder: Folder) -> None:
        told = mistakes(folder, TARGETS.replace("least: 5, ", ""))
        assert told == [
            (
                "missing-param", 8, "prod sets no value for the parameter least, which has no default",
                "for example params: {least: …}",
            )
        ]  # fmt: skip

    def test_targets_are_names_with_fields(self, folder: Folder) -> None:
        text = "name: shop\ntargets: dev\nbronze:\n  raw: {path: /in, format: json}\n"
        assert ("wrong-type", 2) in [one[:2] for one in mistakes(folder, text, target="")]

    @pytest.mark.parametrize("value", ["", "lakes"])
    def test_a_variable_gives_a_lake_no_place(
        self, folder: Folder, monkeypatch: pytest.MonkeyPatch, value: str
    ) -> None:
        monkeypatch.setenv("LAKE_OF_PROD", value)
        told = mistakes(folder, TARGETS.replace("s3://company/lake", "${LAKE_OF_PROD}"), target="prod")
        assert [one[:2] for one in told] == [("relative-path" if value else "unset-variable", 8)]

    def test_a_variable_is_a_secret(self, folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(pii_key.VARIABLE, "c2VjcmV0")
        told = mistakes(folder, TARGETS.replace("company/lake", f"company/${{{pii_key.VARIABLE}}}"), target="prod")
        assert [one[:2] for one in told] == [("unset-variable", 8)]
        assert "c2VjcmV0" not in str(told)

    @pytest.mark.parametrize("name", ["--dev", "two words", '"line\\n"', "_dev"])
    def test_a_name_is_no_word_of_a_command_line(self, folder: Folder, name: str) -> None:
        told = mistakes(folder, TARGETS.replace("prod:", f"{name}:"))
        assert [one[:2] for one in told] == [("name", 8)]

    @pytest.mark.parametrize("targets", ["targets: {}", "targets:"])
    def test_a_value_is_missing_where_there_are_no_targets(self, folder: Folder, targets: str) -> None:
        head, _, rest = TARGETS.partition("targets:")
        told = mistakes(folder, f"{head}{targets}\n{rest[rest.index('bronze:') :]}", target="")
        assert [one[:3] for one in told] == [("missing-param", 5, "the parameter least has no value")]
