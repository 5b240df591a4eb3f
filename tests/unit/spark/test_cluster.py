"""Jobs for clusters: the commands that the guide shows, whose settings win, and what a driver is started with."""

from __future__ import annotations

import json
import re
import shlex
import sys
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.settings import Settings
from sluicegate.spark import class_archive, configuration, jars, java, spark_submit
from tests.conftest import ROOT, Workspace
from tests.support.airflow_runs import submitted_command
from tests.unit.airflow.test_dag import airflow_home as airflow_home
from tests.unit.airflow.test_dag import job_of, run
from tests.unit.airflow.test_dag import submit as submit

if TYPE_CHECKING:
    from collections.abc import Callable

    from sluicegate.airflow.operators.submit import SluicegateJob

pytestmark = [pytest.mark.unit, pytest.mark.usefixtures("airflow_home")]

GUIDE = (ROOT / "docs" / "howto" / "clusters.md").read_text()
HOME = Path("/opt/sluicegate")
PACKAGES = HOME / "lib/python3.11/site-packages"
MASTERS = [
    f"`{master}`" for master in ("spark://spark-master:7077", "yarn", "k8s://https://kubernetes.default.svc:443")
]


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def connections() -> list[dict[str, Any]]:
    """Those that the guide shows as variables of the environment."""
    return [json.loads(said) for said in re.findall(r"AIRFLOW_CONN_SPARK_DEFAULT='(.*)'", GUIDE)]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """An installation as the guide has it, and where its things are."""
    monkeypatch.setattr(java, "java", lambda: "/usr/bin/java")
    monkeypatch.setattr(java, "java_version", lambda _: "17")
    monkeypatch.setattr(java, "spark_home", lambda: PACKAGES / "pyspark")
    monkeypatch.setattr(configuration, "PACKAGE", PACKAGES / "sluicegate")
    monkeypatch.setattr(spark_submit, "HOME", PACKAGES / "sluicegate")
    monkeypatch.setattr(class_archive, "usable_archive", lambda: (None, "SPARK_CONF_DIR is set"))
    monkeypatch.setattr(
        jars, "find_jars", lambda **_: [HOME / "jars" / f"{name}.jar" for name in ("delta-spark", "delta-storage")]
    )
    monkeypatch.setattr(sys, "executable", str(HOME / "bin/python"))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", "")
    return Settings.of("file:///mnt/lake", "file:///mnt/landing", "/opt/pipelines")


def shown(master: str) -> list[str]:
    """The command of the guide."""
    [block] = [block for block in blocks("bash") if "spark-submit" in block]
    return shlex.split(block.replace('"$MASTER"', shlex.quote(master)).replace("\\\n", " "))


@pytest.mark.parametrize("master", [master.strip("`") for master in MASTERS])
def test_the_guide_shows_the_command(installed: Settings, master: str) -> None:
    settings = Settings.of(installed.lake, installed.landing, installed.pipelines, master)
    command = spark_submit.submit_command(
        "bronze", "heart_rate", settings, ["--run-info", '{"run_id": "command line"}']
    )
    assert shown(master) == command
    assert f"`{master}`" in GUIDE


@pytest.mark.parametrize("number", range(3), ids=["standalone", "yarn", "kubernetes"])
def test_airflow_builds_that_command_too(
    installed: Settings, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connections()[number]))
    job = job_of(workspace)
    job.application_args = spark_submit.job_arguments(
        "heart_rate", installed, ["--run-info", '{"run_id": "command line"}']
    )
    job.application = str(spark_submit.job_file("bronze"))
    job.prepare(None)
    assert submitted_command(job) == shown(MASTERS[number].strip("`"))


@pytest.mark.usefixtures("installed")
def test_cluster_deploy_mode_is_refused_with_a_sentence(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    from sluicegate.errors import UserError

    connection = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connection))
    job = job_of(workspace)
    job.prepare(None)
    with pytest.raises(UserError, match="require client mode"):
        submitted_command(job)


@pytest.mark.parametrize("host", ["local[2]", "spark://spark-master:7077", "yarn"])
def test_the_driver_of_a_task_has_this_python(
    submit: Callable[[str], SluicegateJob], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, host: str
) -> None:
    script = f'echo "$PYSPARK_PYTHON" "$PYTHONPATH" >{tmp_path}/driver\nprintf "%s " "$@" >{tmp_path}/arguments'
    job = submit(script)
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": host}))
    run(job)
    python, path = (tmp_path / "driver").read_text().split()
    assert python == sys.executable
    assert path.split(":")[0] == str(ROOT)
    # To YARN's own process, and to pods, the places of this machine mean nothing.
    assert "PYTHONPATH" not in (tmp_path / "arguments").read_text()


# --- settings of one's own -------------------------------------------------------------------------------------------


def defaults(folder: Path, text: str) -> Path:
    (folder / "spark-defaults.conf").write_text(text)
    return folder


@pytest.mark.usefixtures("installed")
def test_what_spark_defaults_say_wins_but_where_jobs_depend_on_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "# mine\nspark.driver.memory 6g\n  spark.sql.shuffle.partitions=64\nspark.sql.session.timeZone: CET\n"
    monkeypatch.setenv("SPARK_CONF_DIR", str(defaults(tmp_path, text)))
    for master in ("local[2]", "yarn"):
        conf = configuration.spark_conf(Settings.of(master=master))
        assert {"spark.driver.memory", "spark.sql.shuffle.partitions"}.isdisjoint(conf)
        assert conf["spark.sql.session.timeZone"] == "UTC"
    monkeypatch.delenv("SPARK_CONF_DIR")
    assert configuration.spark_conf(Settings.of(master="yarn"))["spark.driver.memory"] == "2g"


@pytest.mark.usefixtures("installed")
def test_a_local_driver_listens_at_loopback_whatever_those_of_a_cluster_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_CONF_DIR", str(defaults(tmp_path, "spark.driver.bindAddress 0.0.0.0\n")))
    assert configuration.spark_conf(Settings.of(master="local[2]"))["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in configuration.spark_conf(Settings.of(master="spark://there:7077"))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("more", "sent"), [("/*", False), ("/*:/other/*", False), ("", True), ("/deeper/*", True)])
def test_jars_that_executors_have_are_not_sent(
    more: str, sent: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = jars.find_jars()[0].parent
    monkeypatch.setenv("SPARK_CONF_DIR", str(defaults(tmp_path, f"spark.executor.extraClassPath {folder}{more}\n")))
    assert ("spark.jars" in configuration.spark_conf(Settings.of(master="yarn"))) is sent


@pytest.mark.usefixtures("installed")
def test_a_folder_of_nothing_else_stays_off_the_class_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """So that the driver can start by its class-data archive."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(defaults(tmp_path, "spark.driver.memory 6g\n")))
    settings, file = Settings.of(master="yarn"), str(tmp_path / "spark-defaults.conf")
    command = spark_submit.submit_command("bronze", "heart_rate", settings)
    assert command[command.index("--properties-file") + 1] == file
    assert spark_submit.submit_env()["SPARK_CONF_DIR"] == str(class_archive.conf_folder())
    (tmp_path / "hive-site.xml").write_text("<configuration/>")
    assert "--properties-file" not in spark_submit.submit_command("bronze", "heart_rate", settings)
    assert spark_submit.submit_env()["SPARK_CONF_DIR"] == str(tmp_path)


SETTINGS = re.compile(r"config/.*package\$|/Config\$|SQLConf\$|KubernetesVolumeUtils\$")


@cache
def classes_of_spark() -> bytes:
    """What the classes of this Spark that name its settings hold, one after the other."""
    found = b""
    for part in ("core", "sql", "catalyst", "yarn", "kubernetes"):
        [jar] = (java.spark_home() / "jars").glob(f"spark-{part}_*.jar")
        with zipfile.ZipFile(jar) as content:
            found += b"".join(content.read(name) for name in content.namelist() if SETTINGS.search(name))
    return found


def test_each_setting_of_the_guide_is_one_of_this_spark() -> None:
    known, told = classes_of_spark(), [line.split()[0] for block in blocks("properties") for line in block.splitlines()]
    assert len(told) > 10
    for name in told:
        # Volumes have names of one's own in the middle.
        name = re.sub(r"(\.volumes\.).*", r"\1", name)
        assert name.encode() in known, name
