"""`sluicegate import`: options and paths of readers of Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluicegate.settings import Settings
from sluicegate.tools.migrate.create import Imported, create

pytestmark = pytest.mark.unit


def imported(folder: Path, text: str, file: str = "source.sql") -> Imported:
    (folder / file).write_text(text)
    return create(folder / file, "mine", Settings.of(str(folder / "lake"), str(folder), folder / "pipelines"))


READ = """import dlt
SEP = ";"
OPTS = {{"header": True, "sep": ";"}}

@dlt.table
def raw():
    return spark.read{chain}
"""

RAW = """
@dlt.table
def raw():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("s3://b/raw")
"""


@pytest.mark.parametrize(
    "chain",
    [
        '.format("csv").load("s3://b/a", header=True, sep=";")',
        '.load("s3://b/a", format="csv", header=True, sep=SEP, schema=None)',
        '.load(path="s3://b/a", format="csv", **OPTS)',
        '.format("csv").options(**OPTS).load("s3://b/a")',
        '.csv("s3://b/a", header=True, sep=SEP)',
    ],
)
def test_options_of_a_reader_count_wherever_they_are(tmp_path: Path, chain: str) -> None:
    pipeline = imported(tmp_path, READ.format(chain=chain), "source.py")
    table = pipeline.draft.bronze["raw"]
    assert (table["path"], table["format"], table["options"]) == ("s3://b/a", "csv", {"header": "true", "sep": ";"})
    assert [remark.subject for remark in pipeline.remarks] == ["the batch read of raw"]


@pytest.mark.parametrize(
    "chain",
    [
        '.format("csv").options(sep=OTHER).load("s3://b/a")',
        '.format("csv").options(**OTHER).load("s3://b/a")',
        '.format("csv").load("s3://b/a", sep=[SEP])',
        '.csv("s3://b/a", sep=other())',
        '.csv(f"s3://b/{SEP!r}")',
        '.csv(f"s3://b/{SEP:>9}")',
    ],
)
def test_an_option_or_a_path_that_is_not_known_is_left(tmp_path: Path, chain: str) -> None:
    text = READ.replace("def raw", "def more").format(chain=chain) + RAW
    pipeline = imported(tmp_path, text, "source.py")
    assert "more" in pipeline.draft.missing


@pytest.mark.parametrize(
    ("reader", "infers"),
    [('json("s3://b/a")', True), ('csv("s3://b/a")', None), ('csv("s3://b/a", inferSchema=True)', True)],
)
def test_types_are_inferred_as_the_reader_of_spark_infers_them(
    tmp_path: Path, reader: str, infers: bool | None
) -> None:
    pipeline = imported(tmp_path, READ.format(chain=f".{reader}"), "source.py")
    assert pipeline.draft.bronze["raw"].get("inferColumnTypes") is infers
