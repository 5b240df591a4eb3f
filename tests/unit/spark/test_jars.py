"""The jars that Spark needs, as a job finds them; how they are fetched is among the tests of set-up."""

from __future__ import annotations

import hashlib
import importlib
import json
import tomllib
from pathlib import Path

import pytest

from sluicegate.errors import JavaMissing
from sluicegate.spark import jars
from tests.conftest import ROOT

pytestmark = pytest.mark.unit


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLUICEGATE_JARS", str(tmp_path))
    return tmp_path


def test_the_pinned_jars_and_those_that_somebody_added_are_found(folder: Path) -> None:
    names = sorted(["another.jar", *(jar.file for jar in jars.read())])
    for name in [*names, "spark.jsa"]:
        (folder / name).touch()
    assert [file.name for file in jars.find_jars()] == names


@pytest.mark.parametrize("there", [0, 1], ids=["none", "of another version"])
def test_jars_that_are_missing_are_named_with_the_way_out(folder: Path, there: int) -> None:
    pinned, *others = [jar.file for jar in jars.read()]
    for name in ([pinned.replace("4.", "3."), *others]) * there:
        (folder / name).touch()
    with pytest.raises(JavaMissing) as error:
        jars.find_jars()
    which = f"is no {pinned}" if there else "are no Delta jars"
    assert error.value.message == f"there {which} in {folder}"
    assert "`make setup`" in error.value.hint


def test_what_airflow_is_told_of_the_package_is_what_it_asks_for() -> None:
    import airflow
    import jsonschema

    from sluicegate.airflow.provider import get_provider_info

    told = get_provider_info()
    schema = Path(airflow.__file__).with_name("provider_info.schema.json")
    jsonschema.validate(told, json.loads(schema.read_text()))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert told["package-name"] == project["name"]
    assert project["entry-points"]["apache_airflow_provider"] == {
        "provider_info": f"{get_provider_info.__module__}:{get_provider_info.__name__}"
    }


def test_airflow_is_told_of_all_operators_sensors_triggers_and_links() -> None:
    from airflow.providers_manager import ProvidersManager
    from airflow.sdk import BaseOperator, BaseOperatorLink
    from airflow.triggers.base import BaseTrigger

    from sluicegate.airflow.provider import get_provider_info

    told = get_provider_info()
    listed = {kind: {module for entry in told[kind] for module in entry["python-modules"]}
              for kind in ("operators", "sensors", "triggers")}  # fmt: skip
    package = ROOT / "sluicegate" / "airflow"
    defined: dict[type, set[str]] = {BaseOperator: set(), BaseTrigger: set(), BaseOperatorLink: set()}
    for folder in ("operators", "sensors"):
        for file in package.glob(f"{folder}/[a-z]*.py"):
            module = importlib.import_module(f"sluicegate.airflow.{folder}.{file.stem}")
            for kind, modules in defined.items():
                if any(isinstance(value, type) and issubclass(value, kind) and value.__module__ == module.__name__
                       for value in vars(module).values()):  # fmt: skip
                    modules.add(module.__name__)
    assert defined[BaseOperator] == listed["operators"] | listed["sensors"]
    assert defined[BaseTrigger] == listed["triggers"]
    assert {link.rpartition(".")[0] for link in told["extra-links"]} == defined[BaseOperatorLink]
    assert set(told["extra-links"]) <= set(ProvidersManager().extra_links_class_names)


@pytest.fixture
def ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A java that writes down how Ivy is called, and fails with the words in a file beside it."""
    monkeypatch.delenv("SLUICEGATE_MAVEN", raising=False)
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "ivy-2.5.jar").touch()
    (tmp_path / "words").touch()
    java = tmp_path / "java"
    java.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\ncat {tmp_path}/words\n')
    java.chmod(0o755)
    return java


def fetch_by(ivy: Path) -> JavaMissing:
    jar = jars.Jar("org.example:thing:1.0", "thing-1.0.jar", "0" * 64)
    with pytest.raises(JavaMissing, match=r"thing-1\.0\.jar could not be downloaded") as error:
        jars.fetch([jar], ivy.parent / "jars", str(ivy), ivy.parent / "spark")
    return error.value


def test_artifacts_of_every_packaging_that_is_a_jar_are_fetched(ivy: Path) -> None:
    """Ivy leaves out those of a packaging that is not named, and some of Kafka's are bundles."""
    fetch_by(ivy)
    assert "-types jar bundle -retrieve" in (ivy.parent / "arguments").read_text()


@pytest.mark.parametrize(
    ("words", "names_central"), [("javax.net.ssl.SSLHandshakeException: PKIX", True), ("UnknownHostException", False)]
)
def test_where_java_trusts_no_certificate_python_can_fetch_from_maven_central(
    ivy: Path, words: str, names_central: bool
) -> None:
    (ivy.parent / "words").write_text(words)
    error = fetch_by(ivy)
    assert words in error.cause
    assert ("SLUICEGATE_MAVEN=https://repo1.maven.org/maven2 " in error.hint) is names_central
    assert "SSL_CERT_FILE" in error.hint


def test_an_installed_package_fetches_its_jars_at_first_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    content = b"a jar"
    jar = jars.Jar("org.example:thing:1", "thing-1.jar", hashlib.sha256(content).hexdigest())
    mirror = tmp_path / "maven"
    (mirror / jar.path).parent.mkdir(parents=True)
    (mirror / jar.path).write_bytes(b"another")
    monkeypatch.setattr(jars, "HOME", jars.PACKAGE)
    monkeypatch.setattr(jars, "read", lambda lock=jars.LOCK: [jar] if lock == jars.LOCK else [])
    monkeypatch.setenv("SLUICEGATE_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("SLUICEGATE_MAVEN", mirror.as_uri())
    with pytest.raises(JavaMissing):
        jars.find_jars()
    assert not (tmp_path / "jars" / jar.file).exists()
    (mirror / jar.path).write_bytes(content)
    assert jars.find_jars() == [tmp_path / "jars" / jar.file]
    assert jar.file in capsys.readouterr().err
    jars.find_jars()
    assert capsys.readouterr().err == ""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SLUICEGATE_JARS", str(tmp_path / "file" / "jars"))
    with pytest.raises(JavaMissing):
        jars.find_jars()
