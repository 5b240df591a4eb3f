"""A lake on S3 without Spark: the lease, what is refused, settings, errors. The server is real, and misbehaves."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError

from sluicegate import processes
from sluicegate.errors import JavaMissing, LakeLocked, LakeUnsupported, StoreRefused, StoreUnreachable
from sluicegate.lake import discards, layout, log, tables
from sluicegate.lake.commits import compaction
from sluicegate.lake.exclusion import lease
from sluicegate.lake.exclusion.lock import pipeline_lock, turn
from sluicegate.settings import Settings
from sluicegate.spark import configuration, jars, java
from sluicegate.storage import aws, filesystems, listings, store_errors
from tests.support.s3_server import BUCKET, PASSWORD, Proxy, s3_server, seeded

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture
def at(server: str, request: pytest.FixtureRequest) -> layout.Lake:
    return layout.Lake(f"s3a://{BUCKET}/{request.node.name}", "heart_rate")


def another_process(at: layout.Lake, **changed: object) -> lease.Claim:
    """A lease taken by a process of another machine."""
    claim = lease.take(at.lock("pipeline"), "another run")
    assert isinstance(claim, lease.Claim)
    there = replace(claim, **{"host": "elsewhere", "world": "elsewhere/1", **changed})  # type: ignore[arg-type]
    table = tables.table_at(at.lock("pipeline"))
    assert lease._commit_claim(table, there)
    return there


def test_a_lock_keeps_others_out_until_it_is_let_go(at: layout.Lake) -> None:
    with pipeline_lock(at, "the first run"):
        with (
            pytest.raises(LakeLocked, match=r"is being written by the first run \(pid \d+ on .+, since 20"),
            pipeline_lock(at, "the second run", wait=0.0),
        ):
            pytest.fail("both hold it")
        assert "the first run" in str(lease.holder(at.lock("pipeline")))
    assert lease.holder(at.lock("pipeline")) is None
    with pipeline_lock(at, "the second run", wait=0.0):
        pass


def test_of_many_at_once_one_has_it(at: layout.Lake) -> None:
    inside, most, lock = [0], [0], threading.Lock()

    def work(name: str) -> None:
        for _ in range(3):
            with pipeline_lock(at, name, wait=300.0):
                with lock:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                time.sleep(0.02)
                with lock:
                    inside[0] -= 1

    threads = [threading.Thread(target=work, args=(f"run {n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]


def test_a_lease_that_nobody_renews_ends(at: layout.Lake) -> None:
    another_process(at, until=time.time() + 2.0)
    began = time.monotonic()
    with pipeline_lock(at, "the next run", wait=300.0):
        assert time.monotonic() - began > 0.5


@pytest.mark.parametrize("beyond", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("renewed", [False, True], ids=["taken", "renewed"])
def test_a_lease_LASTS_so_long_from_when_it_was_taken_or_renewed(
    at: layout.Lake, monkeypatch: pytest.MonkeyPatch, renewed: bool, beyond: float
) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(lease, "time", SimpleNamespace(time=lambda: now))
    address = at.lock("pipeline")
    claim = lease.take(address, "a run")
    assert isinstance(claim, lease.Claim)
    if renewed:
        now += lease.LASTS - 1.0
        monkeypatch.setattr(lease, "RENEWED_AFTER", 0.01)
        taken = tables.table_at(address).version()
        keeper = lease._Keeper(address, claim, stops=False)
        keeper.start()
        deadline = time.monotonic() + 300
        while tables.table_at(address).version() == taken:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        keeper._over.set()  # killed: it does not let go
        keeper.join()
    now += lease.LASTS + beyond
    assert (lease.holder(address) is None) == (beyond >= 0)
    other = lease.take(address, "another run")
    assert isinstance(other, lease.Claim) == (beyond >= 0)
    assert str(other).startswith("a run (pid" if beyond < 0 else "another run (pid")
    if beyond >= 0:  # the first run finds it out, and leaves it to the other
        late = lease._Keeper(address, claim, stops=False)
        late._put(now + lease.LASTS)
        assert late.lost == other
    assert str(lease.holder(address)) == str(other)


def test_a_lease_of_a_process_that_is_gone_is_taken_at_once(at: layout.Lake) -> None:
    claim = another_process(at)
    dead = replace(claim, host=lease.Claim("", 0.0).host, pid=2**22 - 1, world=processes.process_namespace())
    assert lease._commit_claim(tables.table_at(at.lock("pipeline")), dead)
    with pipeline_lock(at, "the next run", wait=0.0):
        pass


@pytest.mark.parametrize("world", ["another machine's start/4026531836", ""], ids=["another", "unknown"])
def test_a_lease_stands_whose_process_cannot_be_seen_from_here(at: layout.Lake, world: str) -> None:
    """A container may have this machine's name, and the number of its process means nothing here."""
    there = another_process(at, host=lease.Claim("", 0.0).host, pid=2**22 - 1, world=world)
    with pytest.raises(LakeLocked, match="another run"), pipeline_lock(at, "the next run", wait=0.0):
        pytest.fail("both hold it")
    assert lease._last_claim(tables.table_at(at.lock("pipeline"))) == there


def test_what_another_version_says_of_a_lease_is_left_out(at: layout.Lake) -> None:
    with pipeline_lock(at, "a run"):
        table = tables.table_at(at.lock("pipeline"))
        said = json.dumps({**asdict(lease.Claim("a later version", time.time() + 60)), "colour": "red"})
        tables.write(table, pa.table({"nothing": pa.array([], pa.int8())}), mode="append",
                   commit_properties=CommitProperties(custom_metadata={lease.KEY: said}))  # fmt: skip
        assert str(lease.holder(at.lock("pipeline"))).startswith("a later version (pid")


def test_a_lease_is_renewed_as_long_as_work_goes_on(at: layout.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEWED_AFTER", 0.05)
    with pipeline_lock(at, "a long run"):
        first = lease._last_claim(tables.table_at(at.lock("pipeline")))
        deadline = time.monotonic() + 300
        while (now := lease._last_claim(tables.table_at(at.lock("pipeline")))) is None or first is None or now == first:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert now.token == first.token
    assert now.until > first.until


@pytest.mark.parametrize("usual", [signal.default_int_handler, signal.SIG_IGN], ids=["usual", "ignored"])
def test_work_is_stopped_whose_lease_another_has(at: layout.Lake, monkeypatch: pytest.MonkeyPatch, usual: Any) -> None:
    """Also where Ctrl-C is ignored, as by what a script starts in its background."""
    monkeypatch.setattr(lease, "RENEWED_AFTER", 0.2)

    def stand_still() -> None:
        with pipeline_lock(at, "a run that stood still"):
            # The lease may be renewed between the look and the commit.
            while not lease._commit_claim(
                tables.table_at(at.lock("pipeline")), lease.Claim("another", time.time() + 60)
            ):
                pass
            threading.Event().wait()

    former = signal.signal(signal.SIGINT, usual)
    try:
        with pytest.raises(LakeLocked, match="lost its lock to another"):
            stand_still()
        assert signal.getsignal(signal.SIGINT) == usual
        assert signal.getsignal(lease.STOPS) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, former)


def test_a_turn_tells_of_whoever_holds_the_lock(at: layout.Lake) -> None:
    with turn(at, "a task") as holder:
        assert holder is None
        with turn(at, "another task") as first:
            assert str(first).startswith("a task (pid")
    with pipeline_lock(at, "the command line"), turn(at, "a task") as holder:
        assert str(holder).startswith("the command line")


def test_no_other_store_can_be_locked() -> None:
    with (
        pytest.raises(LakeUnsupported, match="neither on a local disk nor on S3"),
        pipeline_lock(layout.Lake("abfss://a@b/lake", "p"), "a run"),
    ):
        pytest.fail("it was taken")


def test_a_lock_outlives_faults(at: layout.Lake, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors, throttling, and answers that are lost after the server has done what it was asked for."""
    with Proxy(server, seeded(7, 0.08)) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        for number in range(4):
            with pipeline_lock(at, f"run {number}", wait=300.0):
                assert str(lease.holder(at.lock("pipeline"))).startswith(f"run {number} ")
        assert {500, 503, "lost"} & set(proxy.met)


def test_settings_of_spark_have_the_server_and_no_keys(monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setattr(jars, "find_jars", lambda **_: [])
    local = Settings.of(lake="/lake", landing="/landing", master="local[2]")
    assert not [key for key in configuration.spark_conf(local, archive=False) if "s3" in key]
    for settings in (replace(local, lake="s3a://b/lake"), replace(local, landing="s3a://b/in")):
        conf = configuration.spark_conf(settings, archive=False)
        assert conf["spark.hadoop.fs.s3a.endpoint"] == server
        assert conf["spark.hadoop.fs.s3a.endpoint.region"] == "us-east-1"
        assert conf["spark.hadoop.fs.s3a.path.style.access"] == "true"
        assert "hush" not in str(conf)
        assert "who" not in conf.values()
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name)
    amazon = configuration.spark_conf(replace(local, lake="s3a://b/lake"), archive=False)
    assert not {"endpoint", "endpoint.region", "path.style.access"} & {
        k.removeprefix("spark.hadoop.fs.s3a.") for k in amazon
    }


def test_jars_that_s3_needs_are_asked_for(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEGATE_JARS", str(tmp_path))
    with pytest.raises(JavaMissing, match="the jars for S3 are missing") as error:
        configuration.spark_conf(Settings.of(lake="s3a://b/lake", master="local[2]"), archive=False)
    assert "`make setup S3=1`" in error.value.hint


def test_the_hadoop_of_the_jars_is_that_of_spark() -> None:
    (ours,) = [jar for jar in jars.read(jars.S3_LOCK) if jar.file.startswith("hadoop-aws-")]
    version = ours.coordinate.rsplit(":", 1)[1]
    assert (java.spark_home() / "jars" / f"hadoop-client-api-{version}.jar").is_file()


def test_a_person_may_write_s3() -> None:
    assert Settings.of(lake="s3://b/lake/").lake == "s3a://b/lake"


@pytest.mark.parametrize(
    ("fate", "kind", "message"),
    [
        (403, StoreRefused, "the object store denied access"),
        (404, StoreRefused, "bucket does not exist"),
        (500, StoreUnreachable, "does not answer, or returns errors"),
        ("closed", StoreUnreachable, "does not answer, or returns errors"),
    ],
)
def test_what_a_store_refuses_is_a_sentence(
    at: layout.Lake, server: str, fate: int | str, kind: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Proxy(server, lambda *_: fate) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1" if fate == "closed" else proxy.url)
        monkeypatch.setattr("sluicegate.storage.aws.ARROW_ATTEMPTS", 2)
        for look in (lambda: tables.delta_table(at.events), lambda: listings.files(at.root)):
            with pytest.raises(OSError, match=r"(?s).+") as error:
                look()
            told = store_errors.translate_error(error.value)
            assert isinstance(told, kind)
            assert message in str(told)
            assert told.hint
            assert "\x1b" not in told.cause


def test_tables_are_written_read_and_put_together(at: layout.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"n": [1, 2]})
    tables.write(at.events, rows)
    tables.write(tables.table_at(at.events), rows, mode="append")
    table = tables.table_at(at.events)
    assert sorted(tables.dataset(table).to_table()["n"].to_pylist()) == [1, 1, 2, 2]
    assert tables.rows_above(table, "n", 1).to_table()["n"].to_pylist() == [2, 2]
    assert any("add" in action for action in log.actions(at.events, 0))
    monkeypatch.setattr(tables, "MANY_FILES", 2)
    late = tables.table_at(at.events)
    assert compaction.compact_newest(table, "n")
    assert tables.dataset(tables.table_at(at.events)).to_table()["n"].to_pylist() == [2, 2, 1, 1]
    with pytest.raises(CommitFailedError):
        compaction.compact_newest(late, "n")
    assert tables.delta_table(at.ledger("nothing")) is None


def test_a_lake_may_have_a_space_in_its_address(at: layout.Lake) -> None:
    """delta-rs makes a URL of it, under which nothing lies: neither the log nor the rows, nor who holds the lock."""
    lake = layout.Lake(f"{at.root}/größe 1", "heart_rate")
    with pipeline_lock(lake, "a run"):
        assert "a run" in str(lease.holder(lake.lock("pipeline")))
    rows = pa.table({"n": [1, 2]})
    tables.write(lake.events, rows)
    table = tables.table_at(lake.events)
    tables.write(lake.events, rows, mode="overwrite")
    assert [(commit.version, commit.overwrites) for commit in log.commits(table)] == [(0, False)]
    assert tables.dataset(table).to_table()["n"].to_pylist() == [1, 2]


def test_keys_are_looked_for_in_the_environment(at: layout.Lake) -> None:
    assert not {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} & set(filesystems.options(at.events) or {})
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == PASSWORD
    with aws.override_variables({"AWS_SECRET_ACCESS_KEY": "of one wait in the triggerer"}):
        assert (filesystems.options(at.events) or {})["AWS_SECRET_ACCESS_KEY"] == "of one wait in the triggerer"


def test_of_discards_at_once_each_row_is_in_one(at: layout.Lake) -> None:
    """The table is made by one of them, and each commit is for exactly the next version."""
    rows = [{"_chunk": 1, "_pos": pos, "source_file": "a", "_failed_expectations": ["low"],
             "_quarantined_at": datetime(2026, 3, 2, tzinfo=UTC)} for pos in range(12)]  # fmt: skip
    tables.write(at.quarantine("t"), pa.Table.from_pylist(rows))
    found = discards.quarantined_rows(tables.table_at(at.quarantine("t")))
    with ThreadPoolExecutor(4) as threads:
        parts = [found.slice(first, 6) for first in (0, 2, 4, 6)]
        done = [*threads.map(lambda n: discards.add(at.discards("t"), parts[n], str(n), "Ada", "x"), range(4))]
    made = discards.recorded_discards(tables.table_at(at.discards("t")))
    assert sorted(made["_pos"].to_pylist()) == [*range(12)]
    assert sum(done) == 12
