"""``sluicegate jars``: download the jars for an installed package, as ``make setup`` does for a checkout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from sluicegate.console import say, warn
from sluicegate.errors import JavaMissing
from sluicegate.settings import resolve_settings


def jars(
    folder: Annotated[
        str | None,
        typer.Argument(metavar="DIR", help="Target folder; SLUICEGATE_JARS or a folder of the package by default."),
    ] = None,
    s3: Annotated[
        bool,
        typer.Option("--s3", help="Also fetch the jars for s3a:// (13 MB), which a lake or landing on S3 requires."),
    ] = False,
    kafka: Annotated[bool, typer.Option("--kafka", help="Also fetch the jars for Kafka (11 MB).")] = False,
    catalog: Annotated[
        bool, typer.Option("--catalog", help="Also fetch PostgreSQL's driver (1 MB) for the catalog.")
    ] = False,
    archive: Annotated[bool, typer.Option("--archive/--no-archive", help="Also create the class-data archive.")] = True,
) -> None:
    """Download the pinned jars, verify their checksums, and create the JVM's class-data archive.

    Example: sluicegate jars /opt/sluicegate/jars
    """
    from sluicegate.spark import jars as of
    from sluicegate.spark import java

    resolve_settings({}).export()
    usual = of.folder()
    if folder is not None:
        os.environ["SLUICEGATE_JARS"] = os.path.abspath(folder)
    program = java.java()
    java.java_version(program)
    more = [lock for lock, on in ((of.S3_LOCK, s3), (of.KAFKA_LOCK, kafka), (of.CATALOG_LOCK, catalog)) if on]
    required = [jar for lock in (of.LOCK, *more) for jar in of.read(lock)]
    fetched = of.fetch(required, of.folder(), program, java.spark_home())
    for jar in fetched:
        say(f"fetched {jar.file}")
    present = of.find_jars(s3=s3)
    say(f"the {len(required)} pinned jars are in {of.folder()}")
    if foreign := sorted({file.name for file in present} - {jar.file for jar in of.pinned_jars()}):
        say(f"Spark also loads the other jars in this folder: {', '.join(foreign)}")
    if archive:
        _make_archive()
    if of.folder() != Path(os.path.abspath(usual)):
        say(f"set SLUICEGATE_JARS={of.folder()} wherever jobs start")


def _make_archive() -> None:
    from sluicegate.spark import spark_submit

    try:
        spark_submit.make_archive()
        say("the class-data archive of the JVM exists: Spark starts faster")
    except JavaMissing as trouble:  # jobs run without it
        warn(*f"warning: Spark starts a few seconds slower: {trouble} {trouble.cause}".split("\n"))
