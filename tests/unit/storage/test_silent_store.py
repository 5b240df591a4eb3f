"""A store that takes connections and never answers, and one that refuses them: whoever looks on is told in seconds."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sluicegate.cli import app
from sluicegate.dashboard.source import Source
from sluicegate.errors import StoreUnreachable
from sluicegate.lake import tables
from sluicegate.settings import Settings
from sluicegate.storage import aws, filesystems
from sluicegate.storage.store_errors import translate_errors

pytestmark = pytest.mark.unit

SOON = 20
"""Seconds within which each of these ends on a busy machine. By the bounds of runs one request alone has 60."""


@pytest.fixture(params=["silent", "refusing"])
def endpoint(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of a store on this machine, as the environment says it."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        if request.param == "silent":
            listening.listen(64)
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        monkeypatch.setattr("sluicegate.storage.aws.BRIEF_REQUEST_SECONDS", 1)  # the tier is to take seconds
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "someone")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "something")
        yield address


@pytest.mark.usefixtures("endpoint")
def test_tables_and_files_are_given_up_within_seconds() -> None:
    for ask in (lambda: tables.delta_table("s3://lake/t"), lambda: filesystems.file_facts("s3://lake/t/x")):
        began = time.monotonic()
        with pytest.raises(StoreUnreachable, match="does not answer"), aws.brief_requests(), translate_errors():
            ask()
        assert time.monotonic() - began < SOON


@pytest.mark.usefixtures("endpoint")
def test_a_page_asks_such_a_store_once_for_all_of_its_tables(tmp_path: Path) -> None:
    source = Source(Settings.of("s3://lake", str(tmp_path), tmp_path))
    began = time.monotonic()
    with aws.brief_requests():
        for name in range(50):
            with pytest.raises(StoreUnreachable, match="does not answer"):
                source.table(f"s3://lake/shop/silver/t{name}")
    assert time.monotonic() - began < SOON


@pytest.mark.usefixtures("endpoint")
@pytest.mark.parametrize("command", ["status", "report"])
def test_commands_that_look_on_end_with_a_sentence(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "pipeline.yaml").write_text(
        "name: shop\nbronze: {raw: {path: '${landing}/in', format: json}}\n"
    )
    monkeypatch.chdir(tmp_path)
    places = ["--lake", "s3://lake", "--landing", str(tmp_path), "--pipelines", str(tmp_path)]
    began = time.monotonic()
    done = CliRunner().invoke(app.app, [command, "shop", *places])
    assert time.monotonic() - began < SOON
    assert isinstance(done.exception, StoreUnreachable)


def test_only_who_looks_on_is_so_impatient() -> None:
    runs = aws.bounds()
    with aws.brief_requests():
        assert aws.bounds().request_seconds * 5 < runs.request_seconds
    assert aws.bounds() == runs
