"""Pinned additional jars of Spark: lock files, folder and download. Needs only the standard library.

``jars.lock`` pins them, ``jars-s3.lock`` those for ``s3a://``, ``jars-kafka.lock`` those for Kafka, and
``jars-catalog.lock`` those for a catalog; all are part of the package. In a checkout ``make setup`` (``S3=1``,
``KAFKA=1``) fetches them, elsewhere ``sluicegate jars`` (``--s3``, ``--kafka``, ``--catalog``).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sluicegate.errors import JavaMissing, Where
from sluicegate.settings import HOME, PACKAGE

LOCK = PACKAGE / "spark" / "jars.lock"
S3_LOCK = PACKAGE / "spark" / "jars-s3.lock"
KAFKA_LOCK = PACKAGE / "spark" / "jars-kafka.lock"
CATALOG_LOCK = PACKAGE / "spark" / "jars-catalog.lock"

# Maven Central, as the value of SLUICEGATE_MAVEN: Python fetches from there, instead of Ivy.
CENTRAL = "https://repo1.maven.org/maven2"

# Commands that fetch the jars and make the class-data archive: of a checkout, or of the installed package.
SET_UP, SET_UP_S3, SET_UP_KAFKA = "make setup", "make setup S3=1", "make setup KAFKA=1"
if HOME == PACKAGE:
    SET_UP, SET_UP_S3, SET_UP_KAFKA = "sluicegate jars", "sluicegate jars --s3", "sluicegate jars --kafka"


@dataclass(frozen=True)
class Jar:
    """A line of ``jars.lock``.

    Attributes:
        coordinate: group, artifact and version, with colons between them.
        file: the file's name.
        sha256: SHA-256 of its content, in hexadecimal.
    """

    coordinate: str
    file: str
    sha256: str

    @property
    def path(self) -> str:
        """Path below the root of a Maven repository."""
        group, artifact, version = self.coordinate.split(":")
        return f"{group.replace('.', '/')}/{artifact}/{version}/{self.file}"


def read(lock: Path = LOCK) -> list[Jar]:
    """Read a lock file: a coordinate, a file name and a SHA-256 per line."""
    lines = lock.read_text().splitlines()
    return [Jar(*line.split()) for line in lines if line.strip() and not line.startswith("#")]


def pinned_jars() -> list[Jar]:
    """Return all pinned jars, those for S3, for Kafka and for a catalog included."""
    return [jar for lock in (LOCK, S3_LOCK, KAFKA_LOCK, CATALOG_LOCK) for jar in read(lock)]


def folder() -> Path:
    """Return the folder of the jars: ``SLUICEGATE_JARS``, else ``.jars`` in the checkout or the installed package."""
    return Path(os.environ.get("SLUICEGATE_JARS") or HOME / ".jars")


def find_jars(*, s3: bool = False) -> list[Path]:
    """Return all jars of the folder in a fixed order; an installed package fetches what its folder lacks.

    Args:
        s3: whether the jars for ``s3a://`` are required.

    Raises:
        JavaMissing: a pinned jar is missing, or cannot be fetched. (Checksums were verified when they were fetched.)
    """
    if HOME == PACKAGE:
        _fetch_at_first_use(read() + read(S3_LOCK) * s3)
    files = sorted(folder().glob("*.jar"))
    names = {file.name for file in files}
    if s3 and (without := [jar.file for jar in read(S3_LOCK) if jar.file not in names]):
        raise JavaMissing(
            f"the landing or the lake is on S3, but the jars for S3 are missing in {folder()}",
            cause=_missing_sentence(without),
            hint=f"run `{SET_UP_S3}` (13 MB), or set SLUICEGATE_JARS to a folder that has them",
        )
    if lacking := sorted({jar.file for jar in read()} - names):
        which = "are no Delta jars"
        if files:
            which = f"is no {' and no '.join(lacking)}"
        raise JavaMissing(
            f"there {which} in {folder()}", hint=f"run `{SET_UP}`, or set SLUICEGATE_JARS to a folder that has them"
        )
    return files


def _fetch_at_first_use(required: Sequence[Jar]) -> None:
    """Fetch the jars of which the folder has no file, with a line for each on stderr."""
    lacking = [jar for jar in required if not (folder() / jar.file).is_file()]
    if not lacking:
        return
    mirror = os.environ.get("SLUICEGATE_MAVEN", "").rstrip("/") or CENTRAL
    try:
        folder().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder()) as scratch:
            for number, jar in enumerate(lacking, 1):
                sys.stderr.write(f"fetching {jar.file}, {number} of {len(lacking)}, once\n")
                _fetch_from_mirror(jar, mirror, Path(scratch) / jar.file)
                _move_verified(Path(scratch) / jar.file, jar, folder(), mirror)
    except OSError as error:
        hint = "set SLUICEGATE_JARS to a folder that this user can write to"
        raise JavaMissing(f"the jars cannot be written to {folder()}", cause=str(error), hint=hint) from error


def demand_kafka(table: str) -> None:
    """Check that the folder has the jars for Kafka.

    Args:
        table: the table that reads Kafka.

    Raises:
        JavaMissing: a jar is missing.
    """
    if without := [jar.file for jar in read(KAFKA_LOCK) if not (folder() / jar.file).is_file()]:
        raise JavaMissing(
            f"{table} reads Kafka, but the jars for Kafka are missing in {folder()}",
            where=Where(table=table),
            cause=_missing_sentence(without),
            hint=f"run `{SET_UP_KAFKA}` (11 MB), or set SLUICEGATE_JARS to a folder that has them",
        )


def _missing_sentence(files: Sequence[str]) -> str:
    """Return a sentence that names missing files by the first."""
    if len(files) == 1:
        return f"{files[0]} is missing"
    return f"{files[0]} and {len(files) - 1} more are missing"


def missing_jars(jars: Sequence[Jar], folder: Path) -> list[Jar]:
    """Return the jars that a folder lacks, or has with another checksum."""
    return [jar for jar in jars if not (folder / jar.file).is_file() or _sha256(folder / jar.file) != jar.sha256]


def fetch(jars: Sequence[Jar], folder: Path, java: str, spark: Path | None) -> list[Jar]:
    """Fetch missing jars into a folder; each appears complete and verified, or not at all.

    They come from the Maven repository in SLUICEGATE_MAVEN, else from Maven Central.

    Args:
        jars: all required jars.
        folder: target folder, created if needed.
        java: the program.
        spark: the installed ``pyspark``, which ships Ivy; None if there is none.

    Returns:
        the fetched jars.

    Raises:
        JavaMissing: a jar cannot be downloaded, or has another checksum than the lock file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mirror = os.environ.get("SLUICEGATE_MAVEN", "").rstrip("/")
    lacking = missing_jars(jars, folder)
    # Inside the folder, so that the move into place stays on one file system; Spark is given *.jar of the folder only.
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder) as scratch:
        if lacking and not mirror:
            _fetch_by_ivy(lacking, java, spark, Path(scratch))
        for jar in lacking:
            fetched = Path(scratch) / jar.file
            if mirror:
                _fetch_from_mirror(jar, mirror, fetched)
            _move_verified(fetched, jar, folder, mirror or "Maven Central")
    return lacking


def _move_verified(fetched: Path, jar: Jar, folder: Path, source: str) -> None:
    """Move a fetched file to its place, or delete it if its checksum is another."""
    if (checksum := _sha256(fetched)) != jar.sha256:
        fetched.unlink()
        raise JavaMissing(
            f"{jar.file} from {source} has the SHA-256 sum {checksum}, but jars.lock pins {jar.sha256}, so it was"
            " deleted",
            hint=f"run `{SET_UP}` again, and do not use that source if it happens again (SLUICEGATE_MAVEN sets"
            " another)",
        )
    fetched.replace(folder / jar.file)


def _fetch_by_ivy(jars: Sequence[Jar], java: str, spark: Path | None, target: Path) -> None:
    """Fetch jars from Maven Central with Ivy, which PySpark ships for ``spark-submit --packages``."""
    ivy = None
    if spark:
        ivy = next(spark.glob("jars/ivy-*.jar"), None)
    if ivy is None:
        raise JavaMissing(
            "the installed pyspark lacks Ivy, which fetches the jars",
            hint=f"reinstall pyspark (in a checkout: remove .venv) and run `{SET_UP}` again",
        )
    dependencies = "".join(
        f'<dependency org="{group}" name="{name}" rev="{version}" transitive="false"/>'
        for group, name, version in (jar.coordinate.split(":") for jar in jars)
    )
    module = f'<info organisation="sluicegate" module="jars"/><dependencies>{dependencies}</dependencies>'
    (target / "ivy.xml").write_text(f'<ivy-module version="2.0">{module}</ivy-module>')
    command = [java, "-XX:TieredStopAtLevel=1", "-jar", str(ivy), "-cache", "cache", "-ivy", "ivy.xml", "-types", "jar",
               "bundle", "-retrieve", "[artifact]-[revision].[ext]"]  # fmt: skip
    process = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)
    output = process.stdout + process.stderr
    if lacking := [jar.file for jar in jars if not (target / jar.file).is_file()]:
        raise JavaMissing(
            f"{' and '.join(lacking[:3])} could not be downloaded from Maven Central",
            cause="the last lines of Ivy:\n" + "\n".join(output.strip().splitlines()[-15:]),
            hint=_remedy(output),
        )


def _remedy(output: str) -> str:
    """Return what to do after Ivy failed, by its output; Ivy is Java, and trusts Java's certificates only."""
    if "SSLHandshakeException" in output:
        return (
            "Java does not trust the certificate it received, as happens behind a proxy that opens TLS: run"
            f" `SLUICEGATE_MAVEN={CENTRAL} {SET_UP}`, which trusts the certificates in SSL_CERT_FILE"
        )
    return (
        "check the network, or set SLUICEGATE_MAVEN to a Maven repository that is reachable from here"
        f" (https_proxy and SSL_CERT_FILE are honoured for it), and run `{SET_UP}` again"
    )


def _fetch_from_mirror(jar: Jar, mirror: str, target: Path) -> None:
    import urllib.parse
    import urllib.request  # not above: each run asks this module for a folder, and few of them for a download

    if urllib.parse.urlsplit(mirror).scheme not in {"https", "http", "file"}:
        raise JavaMissing(f"SLUICEGATE_MAVEN must be an https, http or file URL, not {mirror}")
    try:
        with urllib.request.urlopen(f"{mirror}/{jar.path}", timeout=60) as source, target.open("wb") as copy:  # noqa: S310 - checked above
            shutil.copyfileobj(source, copy)
    except OSError as error:
        raise JavaMissing(
            f"{jar.file} could not be downloaded from {mirror}/{jar.path} ({error})",
            hint=f"check the network and SLUICEGATE_MAVEN, and run `{SET_UP}` again",
        ) from None


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
