"""What Spark keeps of rows while it works is for nobody else to read."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.private_folders import PREFIX, remove_abandoned_folders
from sluicegate.spark import scratch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_scratch_of_a_session_is_private_and_others_leave_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    jvm: Any = spark._jvm
    used = Path(jvm.org.apache.spark.util.Utils.getLocalDir(spark.sparkContext._jsc.sc().conf()))
    if any(os.environ.get(name) for name in scratch.NAMED):
        pytest.skip("the scratch of this machine's Spark is named")
    folder = next(one for one in used.parents if one.name.startswith(PREFIX))
    assert mode(folder) == 0o700
    remove_abandoned_folders()
    assert used.is_dir()


def test_a_job_gives_its_jvm_a_private_scratch_unless_one_is_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    jvm: Any = spark._jvm
    system = jvm.java.lang.System
    for name in scratch.NAMED:
        monkeypatch.delenv(name, raising=False)
    settings, before = ("spark.master", scratch.SETTING, scratch.UPLOADS), system.getProperty(scratch.TEMPORARY)
    former = {name: value for name in settings if (value := system.clearProperty(name)) is not None}
    try:
        system.setProperty("spark.master", "local[2]")
        system.setProperty(scratch.SETTING, "/named")
        scratch.prepare(jvm)
        assert system.getProperty(scratch.TEMPORARY) == before
        system.clearProperty(scratch.SETTING)
        with monkeypatch.context() as named:
            named.setenv("SPARK_LOCAL_DIRS", "/named")
            scratch.prepare(jvm)
        assert system.getProperty(scratch.TEMPORARY) == before
        scratch.prepare(jvm)
        folder = Path(system.getProperty(scratch.TEMPORARY))
        assert folder != Path(before)
        assert mode(folder) == 0o700
        assert system.getProperty(scratch.UPLOADS) == f"{folder}/s3a"
        assert jvm.org.apache.spark.util.ShutdownHookManager.hasShutdownDeleteDir(jvm.java.io.File(str(folder)))
    finally:
        for name in settings:
            system.clearProperty(name)
        for name, value in (former | {scratch.TEMPORARY: before}).items():
            system.setProperty(name, value)
