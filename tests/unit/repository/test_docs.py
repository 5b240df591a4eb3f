"""The documents say what is so: they are compared with the program, the Makefile and the files they name."""

from __future__ import annotations

import functools
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlglot
import typer.main
import yaml
from typer.exceptions import TyperException

from scripts import reference
from scripts.reference_errors import error_classes
from sluicegate import errors
from sluicegate.cli import app
from sluicegate.definition import load_file
from sluicegate.definition.tables import kafka
from sluicegate.definition.tables.apply_changes import TRACKED
from sluicegate.definition.tables.bronze import BronzeTable
from sluicegate.errors import DefinitionError
from sluicegate.jobs import layer_job
from sluicegate.lake.exclusion import mounts
from sluicegate.lake.layout import LAYERS
from sluicegate.landing import file_names
from sluicegate.launch import warm_spark
from sluicegate.project_file import SETTINGS
from sluicegate.settings import TARGET, Settings
from sluicegate.spark import connect, metastore
from tests.conftest import ROOT
from tests.support.offenders import offenders

pytestmark = pytest.mark.unit

FOLDERS = [ROOT / name for name in ("docs", "data", "pipelines", "tests", "bench")]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(file for folder in FOLDERS for file in folder.rglob("*.md"))])
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][a-z0-9-]*):", MAKEFILE, re.MULTILINE))
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def named(file: Path) -> str:
    return str(file.relative_to(ROOT))


def prose(file: Path) -> str:
    return FENCED.sub("", file.read_text())


# The reference


def test_the_reference_is_what_the_program_says() -> None:
    assert [named(file) for file in reference.outdated_pages()] == [], "run `make docs`"


def test_the_reference_names_each_option_of_each_command() -> None:
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    sections = dict(re.findall(r"^## sluicegate (\S+)\n(.*?)(?=^## )", page, re.MULTILINE | re.DOTALL))
    commands = dict(reference._app())
    assert sections.keys() == commands.keys()
    missing = [
        f"{name} {option.opts[0]}"
        for name, command in commands.items()
        for option in command.params
        if option.opts[0].startswith("-") and not re.search(rf"`{option.opts[0]}[ ,`]", sections[name])
    ]
    assert missing == []


@pytest.mark.parametrize(("commands_with", "shared"), [(1, False), (2, True), (8, True)])
def test_an_option_that_a_quarter_of_the_commands_have_is_described_once(commands_with: int, shared: bool) -> None:
    lake = ["`--lake`", "Root of the tables."]
    tables = [[lake] * (number < commands_with) + [[f"`--{number}`", "Its own."]] for number in range(8)]
    assert reference.shared_rows(tables) == ([lake] if shared else [])


def test_check_says_which_file_is_out_of_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = reference.pages()
    for name, text in pages.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    page = tmp_path / "reference" / "errors.md"
    page.write_text(pages["reference/errors.md"] + "scribbled\n")
    monkeypatch.setattr(reference, "ROOT", tmp_path)
    monkeypatch.setattr(reference, "DOCS", tmp_path)
    assert reference.main(["--check"]) == 1
    told = capsys.readouterr().err
    assert "reference/errors.md is not" in told
    assert "commands.md" not in told
    assert "schema.json is not" in told
    assert "scribbled" in page.read_text()
    assert not (tmp_path / reference.SCHEMA).exists()
    assert reference.main([]) == 0
    assert "scribbled" not in page.read_text()
    assert reference.main(["--check"]) == 0


def check_error(error: type[errors.SluicegateError]) -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text()
    assert f"\n### {error.code}\n\n`{error.__name__}`, exit code {error.exit_code}. " in page
    line = re.search(rf"\b{error.__name__} +(SG\d+)(?: +exit (\d))?", errors.__doc__ or "")
    assert line is not None
    assert line[1] == error.code
    assert line[2] in (None, str(error.exit_code))


def test_an_error_has_an_anchor_and_its_line_in_the_overview() -> None:
    assert offenders(check_error, error_classes(), lambda error: error.code) == []


def test_a_code_belongs_to_one_error() -> None:
    codes = [error.code for error in error_classes()]
    assert len(codes) == len(set(codes))


def test_every_variable_that_the_code_reads_is_documented() -> None:
    sources = [*(ROOT / "sluicegate").rglob("*.py"), ROOT / "scripts" / "setup.py"]
    pattern = r"""environ(?:ment)?(?:\.get\(|\[)["']((?:SLUICEGATE|JAVA|SPARK)_\w+)["']"""
    read = {name for file in sources for name in re.findall(pattern, file.read_text())}
    text = (ROOT / "docs" / "reference" / "environment.md").read_text()
    read |= {metastore.ADDRESS, metastore.USER, metastore.PASSWORD, mounts.VOUCHED}  # read by these names
    read |= {connect.REMOTE, connect.TOKEN, connect.TOKEN_FILE, TARGET, warm_spark.MINUTES, *kafka.SECRETS.values()}
    read |= {setting.variable for setting in SETTINGS.values()}
    told = set(re.findall(r"^\| `(\w+)`", text, re.MULTILINE))
    assert told == read


# The schema for editors

CHANGES: dict[str, Any] = {"keys": ["id"], "sequence_by": "at", "stored_as_scd_type": 2}


def test_the_schema_takes_our_own_pipelines() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "pipeline.schema.json").read_text())
    validator = jsonschema.validators.validator_for(schema)
    validator.check_schema(schema)
    for file in (ROOT / "pipelines").glob("*/pipeline.yaml"):
        validator(schema).validate(yaml.safe_load(file.read_text()))


@pytest.mark.parametrize(
    ("place", "value", "right"),
    [
        ("bronze.b.maxBytesPerTrigger", "512m", True),
        ("bronze.b.maxBytesPerTrigger", 4096, True),
        ("bronze.b.maxBytesPerTrigger", "lots", False),
        ("bronze.b.maxFilesPerTrigger", 0, False),
        ("bronze.b.settleSeconds", 2, True),
        ("bronze.b.cleanSource", False, True),
        ("bronze.b.cleanSource", "OFF", True),
        ("bronze.b.cleanSource", True, False),
        ("bronze.b.cleanSourceRetentionDuration", "12 hours", True),
        ("bronze.b.cleanSourceRetentionDuration", 30, False),
        ("bronze.b.options", {"multiLine": True, "encoding": "UTF-8"}, True),
        ("bronze.b.format", "avro", True),
        ("bronze.b.format", "avo", False),
        ("bronze.b.format", "delta", False),
        ("bronze.b", {"path": "/theirs", "format": "delta", "schemaEvolutionMode": "rescue"}, True),
        ("bronze.b.frmat", "json", False),
        ("bronze.b.path", None, False),
        ("silver.s.sql", "SELECT 1", False),
        ("silver.s.apply_changes", {"keys": ["id"], "sequence_by": "at", "stored_as_scd_type": "1"}, True),
        ("silver.s.apply_changes", {"keys": [], "sequence_by": "at"}, False),
        ("silver.s.apply_changes.stored_as_scd_type", 2, True),
        ("silver.s.apply_changes.stored_as_scd_type", 3, False),
        ("silver.s.apply_changes.apply_as_deletes", "id < 0", True),
        ("silver.s.apply_changes.track_history_column_list", ["at"], False),
        ("silver.s.apply_changes", CHANGES | {"track_history_column_list": ["at"]}, True),
        ("silver.s.apply_changes", CHANGES | {field: ["at"] for field in TRACKED}, False),
        ("silver.s.apply_changes", CHANGES | {"column_list": ["id"], "except_column_list": ["at"]}, False),
        ("silver.s.apply_changes", CHANGES | {"column_list": ["id"], "except_column_list": None}, True),
        ("silver.s", {"from": "b", "apply_changes_from_snapshot": CHANGES}, True),
        ("silver.s", {"from": "b", "apply_changes": CHANGES, "apply_changes_from_snapshot": CHANGES}, False),
        ("silver.s", {"sql": "SELECT id FROM STREAM(b)", "apply_changes_from_snapshot": CHANGES}, False),
        ("silver.s", {"from": "b"}, False),
        ("silver.s.expectations", {"rule": {"expect": "id > 0"}}, True),
        ("silver.s.expectations", {"rule": {"expect_or_quarantine": "id > 0", "retry": True}}, True),
        ("silver.s.expectations", {"rule": {"expect": "id > 0", "expect_or_drop": "id > 1"}}, False),
        ("silver.s.expectations", {"rule": {}}, False),
        ("silver.s.expect_all", {"rule": "id > 0"}, True),
        ("silver.s.expect_all", {"rule": {"expect": "id > 0"}}, False),
        ("silver.s.python", "t.py:f", False),
        ("silver.s", {"from": "b", "python": "t.py:f", "lookups": {"other": "as_of_run"}}, True),
        ("silver.s", {"from": "b", "python": "t.py:f", "lookups": {"other": "sometimes"}}, False),
        ("silver.s", {"python": "t.py:f"}, False),
        ("silver.s", {"sql": "SELECT id FROM STREAM(b)", "python": "t.py:f"}, False),
        ("silver.s.schemaEvolutionMode", "none", True),
        ("silver.s.schemaEvolutionMode", "rescue", False),
        ("silver.s.deidentified", {"id": "hmac", "at": "drop"}, True),
        ("silver.s.deidentified", {"id": "sha256"}, False),
        ("silver.s.deidentified", {}, False),
        ("database", {"name": "d", "properties": {"contains_pii": True}}, True),
        ("tags", "one", False),
    ],
)
def test_the_schema_and_the_loader_are_of_one_mind(tmp_path: Path, place: str, value: Any, right: bool) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    document: dict[str, Any] = {
        "name": "p",
        "bronze": {"b": {"path": "${landing}/b", "format": "json", "schema": "id INT, at TIMESTAMP"}},
        "silver": {
            "s": {"from": "b", "apply_changes": {"keys": ["id"], "sequence_by": "at"}},
            "other": {"sql": "SELECT id FROM STREAM(b)"},
        },
    }
    *above, last = place.split(".")
    part = document
    for name in above:
        part = part[name]
    part[last] = value
    schema = json.loads((ROOT / "docs" / "pipeline.schema.json").read_text())
    assert jsonschema.validators.validator_for(schema)(schema).is_valid(document) is right
    file = tmp_path / "p" / "pipeline.yaml"
    file.parent.mkdir()
    file.write_text(yaml.safe_dump(document))
    (file.parent / "t.py").write_text("def f(batch, tables): return batch")
    settings = Settings.of(str(tmp_path / "lake"), str(tmp_path / "landing"), tmp_path)
    if right:
        load_file(file, settings)
    else:
        with pytest.raises(DefinitionError):
            load_file(file, settings)


# Commands


def shell_lines(file: Path) -> Iterator[str]:
    for language, block in FENCED.findall(file.read_text()):
        if language == "sh":
            yield from filter(None, (line.strip() for line in block.replace("\\\n", " ").splitlines()))


def make_calls(file: Path) -> Iterator[str]:
    """What stands in the text in back-ticks and begins with make and a word."""
    yield from re.findall(r"`(make [^`]+)`", prose(file))


def check_make(words: list[str]) -> None:
    for word in words:
        variable, assigned, _ = word.partition("=")
        if assigned:
            assert re.search(rf"\$\({variable}\)|\$\(if \$\({variable}\)|ifn?def {variable}\b", MAKEFILE), word
        else:
            assert word in TARGETS, f"there is no target {word}"


def check_docker(words: list[str]) -> None:
    """``docker compose exec SERVICE`` and a command of the image."""
    services = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())["services"]
    assert words[:2] == ["compose", "exec"]
    assert words[2] in services
    if words[3] == "sluicegate":
        check_sluicegate(words[4:])
    else:
        assert words[3:5] == ["spark-sql", "-e"]
        assert sqlglot.parse_one(words[5], dialect="spark")


@functools.cache
def program() -> Any:
    return typer.main.get_command(app.app)


def check_sluicegate(words: list[str]) -> None:
    group = program()
    assert words, "a command is missing"
    assert words[0] in group.commands
    # Parses as the command itself would, and runs nothing.
    group.commands[words[0]].make_context(words[0], words[1:])


def check_spark_submit(words: list[str]) -> None:
    file = Path(words[0])
    assert (ROOT / file).is_file()
    layer_job.layer_parser(file.stem).parse_args(words[1:])


def check_install(words: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras, wheel = re.fullmatch(r"install sluicegate\[(.*)\] @ file:///.*/(.*)", " ".join(words)).groups()  # type: ignore[union-attr]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert wheel == f"sluicegate-{project['version']}-py3-none-any.whl"


def check_uv(words: list[str]) -> None:
    assert words == ["build", "--wheel"]  # which tests/e2e/test_wheel.py does


def check_python(words: list[str]) -> None:
    if words[0].endswith(".py"):
        assert any(f"Save this as `{words[0]}`:" in file.read_text() for file in DOCUMENTS), words[0]
        return
    assert words[0] == "-m"
    assert (ROOT / f"{words[1].replace('.', '/')}.py").is_file(), words[1]


def check_rm(words: list[str]) -> None:
    """Folders of results in the folder where one is, and no others."""
    assert words[0] == "-r"
    assert [name for name in words[1:] if not re.fullmatch(r"lake/\w+|by_hand", name)] == []


def check_airflow(words: list[str]) -> None:
    """A command of the Airflow that is installed, as its own parser takes it."""
    from airflow.cli.cli_parser import get_parser

    get_parser().parse_args(words)


def check_command(line: str) -> None:
    program, *words = shlex.split(line)
    if line == ". .venv/bin/activate":
        return
    checks = {
        "make": check_make,
        ".venv/bin/sluicegate": check_sluicegate,
        "sluicegate": check_sluicegate,
        "spark-submit": check_spark_submit,
        "pip": check_install,
        ".venv/bin/uv": check_uv,
        ".venv/bin/python": check_python,
        "python": check_python,
        "docker": check_docker,
        "airflow": check_airflow,
        "rm": check_rm,
    }
    assert program in checks, f"nobody knows whether this works: {line}"
    checks[program](words)


def test_a_command_in_a_document_can_be_run() -> None:
    assert offenders(check_command, dict.fromkeys(line for file in DOCUMENTS for line in shell_lines(file))) == []


def test_a_make_target_in_a_text_exists() -> None:
    calls = dict.fromkeys(call for file in DOCUMENTS for call in make_calls(file))
    assert offenders(lambda line: check_make(shlex.split(line)[1:]), calls) == []


def test_the_readme_has_commands() -> None:
    assert {shlex.split(line)[0] for line in shell_lines(ROOT / "README.md")} == {
        "make", ".venv/bin/sluicegate", ".", "spark-submit",
    }  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "make dmeo",
        "make demo INPTU=x",
        "sluicegate runn x",
        "sluicegate run x --lkae y",
        "sluicegate schema x",
        "rm x",
        "rm -r landing",
        "rm -r lake",
        "python nowhere.py",
    ],
)
def test_a_wrong_command_would_be_seen(line: str) -> None:
    with pytest.raises((AssertionError, TyperException)):
        check_command(line)


def check_examples(command: Any) -> None:
    examples = re.findall(r"^ *Example: (.+)$", command.help, re.MULTILINE)
    assert examples
    for line in examples:
        check_command(line)


def test_the_example_in_a_help_text_can_be_run() -> None:
    assert offenders(check_examples, dict(reference._app()).values(), lambda command: command.name) == []


# Links and names


def check_links(file: Path) -> None:
    text = prose(file)
    for link in [*re.findall(r"\]\(([^)\s]+)\)", text), *re.findall(r' (?:src|srcset|href)="([^"]+)"', text)]:
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (file.parent / path).resolve() if path else file
        assert target.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.+)$", prose(target), re.MULTILINE)
            assert anchor in {reference.slug(heading) for heading in headings}, link


def test_a_relative_link_leads_somewhere(tmp_path: Path) -> None:
    assert offenders(check_links, DOCUMENTS, named) == []
    (tmp_path / "page.md").write_text("# One\n\n[here](#one) [there](page.md#two)\n")
    (tmp_path / "other.md").write_text("[nowhere](missing.md) [away](https://example.org/x)\n")
    assert len(offenders(check_links, sorted(tmp_path.iterdir()))) == 2


def test_every_picture_is_shown_and_said_in_words_and_small() -> None:
    # That each that is shown exists is held above: it is a link like others.
    shown = [
        (alt, (file.parent / path).resolve())
        for file in DOCUMENTS
        for alt, path in [
            *re.findall(r"!\[([^]]*)\]\(([^):]+)\)", prose(file)),
            *re.findall(r'<img alt="([^"]*)" src="([^"]+)">', prose(file)),
        ]
    ]
    # Of a picture in two files the dark one stands beside the other, without words of its own.
    shown += [
        ("as the picture beside it", (file.parent / path).resolve())
        for file in DOCUMENTS
        for path in re.findall(r' srcset="([^"]+)"', prose(file))
    ]
    folders = [ROOT / "docs" / name for name in ("pictures", "bench", "img", "gallery")]
    pictures = {file for folder in folders for file in folder.iterdir() if file.suffix in (".svg", ".png")}
    assert {path for _, path in shown} == pictures
    assert [path for alt, path in shown if len(alt.split()) < 4] == []
    assert [named(path) for path in pictures if path.stat().st_size > 100_000] == []


def test_the_files_that_the_design_names_exist() -> None:
    pages = sorted((ROOT / "docs" / "design").glob("*.md"))
    tokens = {token for page in pages for token in re.findall(r"`([^`\s]+)`", prose(page))}
    files = {token for token in tokens if re.fullmatch(r"[\w*/.]+(\.py|/)", token)}
    assert {"bench/refresh.py", "spark/s3_commits.py"} <= files
    missing = [file for file in sorted(files) if not any([*ROOT.glob(file), *(ROOT / "sluicegate").glob(file)])]
    assert missing == []


def test_the_design_lists_each_of_its_decisions_once() -> None:
    folder = ROOT / "docs" / "design"
    titles = {page.name: page.read_text().partition("\n")[0].removeprefix("# ") for page in folder.glob("*.md")}
    listed = re.findall(r"^\| \[([^]]+)\]\((\w[\w-]*\.md)\) \|", (folder / "README.md").read_text(), re.MULTILINE)
    assert sorted(name for _, name in listed) == sorted(titles.keys() - {"README.md"})
    assert [title for title, name in listed if titles[name] != title] == []


def test_a_script_of_a_layer_leads_to_its_stream_at_once() -> None:
    """Each function that a script or their page points to is in the file that stands beside it."""
    for layer in LAYERS:
        script = (ROOT / "spark_jobs" / f"{layer}.py").read_text()
        places = re.findall(r"((?:``\w+``(?: and )?)+)(?:, started by)? in\s+``(sluicegate/[\w/]+\.py)``", script)
        functions = {name: file for names, file in places for name in re.findall(r"\w+", names) if name != "and"}
        assert functions.keys() >= {"changes", "run_available", "apply"}
        assert functions["apply"].startswith(f"sluicegate/{layer}/")
        for name, file in functions.items():
            assert f"\ndef {name}(" in (ROOT / file).read_text(), f"{layer}.py: {name} in {file}"
    page = (ROOT / "spark_jobs" / "README.md").read_text()
    links = dict(re.findall(r"\[`(\w+)`\]\(\.\./(sluicegate/[\w/]+\.py)\)", page))
    assert links.keys() == {"changes", "run_available"}
    for name, file in links.items():
        assert f"\ndef {name}(" in (ROOT / file).read_text(), f"README.md: {name} in {file}"


def test_the_page_on_formats_has_the_names_of_unfinished_files() -> None:
    page = (ROOT / "docs" / "reference" / "file-formats.md").read_text()
    assert [pattern for pattern in file_names.TEMPORARY if f"`{pattern}`" not in page] == []
    companions = [name for name in ("Thumbs.db", "ehthumbs.db", "desktop.ini") if f"`{name}`" in page]
    assert len(companions) == 3
    assert all(file_names.COMPANION_NAME.search(name) for name in companions)


def test_every_field_of_a_bronze_table_is_compared_with_auto_loader() -> None:
    own = {
        "path",
        "options",
        "schema",
        "settleSeconds",
        "expect_files_within",
        "expectations",
        "expect_all",
        "expect_all_or_fail",
        "expect_table",
    }
    fields = {field.alias or name for name, field in BronzeTable.model_fields.items()} - own
    text = (ROOT / "docs" / "autoloader.md").read_text()
    told = set(re.findall(r"`(\w+)", "\n".join(line for line in text.splitlines() if line.startswith("| `"))))
    assert fields <= told
    for mode in ("addNewColumns", "rescue", "failOnNewColumns", "none"):
        assert f"`schemaEvolutionMode: {mode}`" in text


def test_what_the_comparison_says_of_us_names_a_test() -> None:
    page = (ROOT / "docs" / "comparison.md").read_text()
    tables = [table.splitlines() for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)]
    assert len(tables) == 4
    ours = [line.split("|")[2] for table in tables[1:] for line in table[2:]]
    unproved = [cell for cell in ours if "](../tests/" not in cell]
    assert [cell.strip() for cell in unproved] == ["in the Delta commit of the table"] * 2
