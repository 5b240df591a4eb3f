"""Spark on S3: what two writers of one object get, and what Spark's errors of the store become."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from sluicegate.errors import LakeUnsupported, StoreRefused, StoreUnreachable
from sluicegate.spark import s3_commits, spark_errors
from tests.support.s3_server import BUCKET, PASSWORD, USER, Proxy, s3_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.in_the_jvm]

HERE = f"s3a://{BUCKET}/spark"


@pytest.fixture(scope="module")
def proxy() -> Iterator[Proxy]:
    with s3_server() as server, Proxy(server, lambda *_: "") as proxy, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", proxy.url)
        yield proxy


@pytest.fixture
def on_s3(spark: SparkSession, proxy: Proxy) -> SparkSession:
    """The session with the settings of a job on S3; Hadoop does not keep a file system from test to test."""
    settings: Any = spark._jsc.hadoopConfiguration()
    keys = {"fs.s3a.access.key": USER, "fs.s3a.secret.key": PASSWORD, "fs.s3a.impl.disable.cache": "true"}
    for name, value in {**s3_commits.spark_conf(), **keys}.items():
        settings.set(name.removeprefix("spark.hadoop."), value)
    settings.set("fs.s3a.attempts.maximum", "1")
    settings.set("fs.s3a.retry.limit", "1")
    proxy.fate, proxy.without = lambda *_: "", ""
    return spark


def opened(session: SparkSession, name: str) -> tuple[Any, Any]:
    jvm: Any = session._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{HERE}/{name}")
    return path.getFileSystem(session._jsc.hadoopConfiguration()), path


def test_of_two_that_create_one_object_the_second_is_refused(on_s3: SparkSession) -> None:
    from py4j.protocol import Py4JJavaError

    s3_commits.demand_atomic(on_s3, HERE)
    fs, path = opened(on_s3, "00000000000000000007.json")
    first, second = fs.create(path, False), fs.create(path, False)  # both have looked, and there is nothing yet
    first.write(b"first")
    second.write(b"second")
    first.close()
    with pytest.raises(Py4JJavaError, match="RemoteFileChangedException") as error:
        second.close()
    assert "another run committed first" in str(spark_errors.translate_error(error.value, "gold", "days"))
    assert on_s3.read.text(f"{HERE}/00000000000000000007.json").collect()[0][0] == "first"


@pytest.mark.skipif("SLUICEGATE_MINIO" in os.environ, reason="MinIO checks the signature of the header taken away")
def test_a_store_that_overwrites_is_refused_before_anything_is_written(on_s3: SparkSession, proxy: Proxy) -> None:
    proxy.without = "if-none-match"
    for _ in range(2):
        with pytest.raises(LakeUnsupported, match="has no conditional writes"):
            s3_commits.demand_atomic(on_s3, f"{HERE}/unsafe")
        assert not s3_commits.is_proven(f"{HERE}/unsafe")
    proxy.without = ""
    s3_commits.demand_atomic(on_s3, f"{HERE}/unsafe")
    assert s3_commits.is_proven(f"{HERE}/unsafe")


def test_a_file_is_moved(on_s3: SparkSession) -> None:
    """As checkpoints of streaming aggregations are: S3A copies by the part of the SDK that works with Netty."""
    fs, path = opened(on_s3, "before")
    fs.create(path, True).close()
    _, after = opened(on_s3, "after")
    assert fs.rename(path, after)
    assert (fs.exists(path), fs.exists(after)) == (False, True)


@pytest.mark.parametrize(
    ("fate", "kind"), [(403, StoreRefused), (404, StoreRefused), (500, StoreUnreachable)], ids=["denied", "gone", "ill"]
)
def test_errors_of_the_store_are_sentences(on_s3: SparkSession, proxy: Proxy, fate: int, kind: type[Exception]) -> None:
    proxy.fate = lambda *_: fate
    for private in (False, True):
        with pytest.raises(Exception, match=r"(?s).+") as error:
            on_s3.read.text(f"{HERE}/things").count()
        told = spark_errors.translate_error(error.value, "bronze", "things", private=private)
        assert isinstance(told, kind)
        assert bool(told.cause) is not private  # type: ignore[attr-defined]
