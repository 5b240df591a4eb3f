"""One contract for every store that files land on: local disk, fsspec's memory, and S3 by a server of its protocol."""

from __future__ import annotations

import os
import re
import string
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import fsspec
import pyarrow as pa
import pytest

from sluicegate import lake, landing, stores
from sluicegate.copy_into import Copy
from sluicegate.definition_bronze import BronzeTable
from sluicegate.errors import LakeUnsupported, LandingMissing, SluicegateError, SourceError, StoreUnreachable

pytestmark = pytest.mark.unit

NAME = "things"
BUCKET = "landing-zone"
ODD = ("a b.json", "100%.json", "a%20b.json", "1+1.json", "ünïcode 语.json", "d=1/e=a%2Fb/x.json", "q?#&;[x]{y},z.json")


class Store(ABC):
    """A landing folder that a test puts files into by other means than the program's own."""

    folder: str

    @abstractmethod
    def put(self, name: str, data: bytes = b"{}") -> None: ...

    @abstractmethod
    def remove(self, name: str) -> None: ...


class Local(Store):
    def __init__(self, folder: Path) -> None:
        self.folder = str(folder / "landing")
        (folder / "landing").mkdir()

    def put(self, name: str, data: bytes = b"{}") -> None:
        path = Path(self.folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def remove(self, name: str) -> None:
        (Path(self.folder) / name).unlink()


class Memory(Store):
    def __init__(self) -> None:
        self.folder = f"memory:///{uuid4()}/landing"
        self.fs = fsspec.filesystem("memory")
        self.fs.makedirs(self.folder)

    def put(self, name: str, data: bytes = b"{}") -> None:
        self.fs.pipe_file(f"{self.folder}/{name}", data)

    def remove(self, name: str) -> None:
        self.fs.rm_file(f"{self.folder}/{name}")


class Bucket(Store):
    def __init__(self, client: Any, scheme: str) -> None:
        self.client, self.prefix = client, f"{uuid4()}/landing"
        self.folder = f"{scheme}://{BUCKET}/{self.prefix}"
        self.put("")  # the marker by which S3's own console makes a folder

    def put(self, name: str, data: bytes = b"{}") -> None:
        self.client.put_object(Bucket=BUCKET, Key=f"{self.prefix}/{name}", Body=data if name else b"")

    def remove(self, name: str) -> None:
        self.client.delete_object(Bucket=BUCKET, Key=f"{self.prefix}/{name}")


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    """A client of an S3 server with a bucket, whose address and keys are where programs of AWS look for them."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        keys = {"AWS_ACCESS_KEY_ID": "who", "AWS_SECRET_ACCESS_KEY": "what", "AWS_REGION": "us-east-1"}
        for name, value in {**keys, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}.items():
            patch.setenv(name, value)
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        yield client
    server.stop()


@pytest.fixture(params=["local", "memory", "s3", "s3a"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "local":
        return Local(tmp_path)
    return Memory() if request.param == "memory" else Bucket(request.getfixturevalue("s3"), request.param)


@pytest.fixture
def at(tmp_path: Path) -> lake.Lake:
    return lake.Lake(str(tmp_path / "lake"), "stores")


def table(store: Store, **options: Any) -> BronzeTable:
    return BronzeTable(path=store.folder, format="json", **options)


def later(seconds: float = 60) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def look(store: Store, at: lake.Lake, now: datetime | None = None, **options: Any) -> landing.Discovery:
    """Looks a minute from now, when all has settled."""
    return landing.discover(NAME, table(store, **options), at, now or later())


def names(store: Store, files: Any) -> list[str]:
    paths = files["path"].to_pylist()
    assert all(path.startswith(f"{store.folder}/") for path in paths)
    return sorted(path[len(store.folder) + 1 :] for path in paths)


def test_files_of_all_folders_with_their_sizes_and_times(store: Store, at: lake.Lake) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)  # S3 gives whole seconds
    store.put("a.json", b"1")
    store.put("x/y/z/b.json", b"22")
    store.put("x/empty.json", b"")
    found = look(store, at).new
    sizes = dict(zip(found["path"].to_pylist(), found["size"].to_pylist(), strict=True))
    wanted = {"a.json": 1, "x/y/z/b.json": 2, "x/empty.json": 0}
    assert sizes == {f"{store.folder}/{name}": size for name, size in wanted.items()}
    assert all(before <= changed <= later(2) for changed in found["modification_time"].to_pylist())
    assert set(found["action"].to_pylist()) == {"read"}


def test_odd_names_are_those_that_fsspec_opens(store: Store, at: lake.Lake) -> None:
    for name in ODD:
        store.put(name, name.encode())
    found = look(store, at).new
    assert names(store, found) == sorted(ODD)
    for path in found["path"].to_pylist():
        fs, place = stores.opened(path)
        assert fs.cat_file(place).decode() == path[len(store.folder) + 1 :]
        if "[" not in path:  # fsspec takes it for a pattern
            with fsspec.open(path, "rb") as file:
                assert file.read().decode() == path[len(store.folder) + 1 :]


def test_hidden_and_temporary_names_are_left_out(store: Store, at: lake.Lake) -> None:
    for name in (
        "_SUCCESS",
        ".crc",
        "_delta_log/0.json",
        "x/.hidden/a.json",
        "a.tmp",
        "b.json.part",
        "c~",
        "d._COPYING_",
    ):
        store.put(name)
    for name in ("a.json", "x_/y.json", "tmp", "k=_v/b.json", "a.tmp.json"):
        store.put(name)
    assert names(store, look(store, at).new) == ["a.json", "a.tmp.json", "k=_v/b.json", "tmp", "x_/y.json"]


def test_which_files_the_definition_lets_in(store: Store, at: lake.Lake) -> None:
    for name in ("a.json", "x/b.json", "x.json/c.csv"):
        store.put(name)
    assert names(store, look(store, at, pathGlobFilter="*.json").new) == ["a.json", "x/b.json"]
    assert names(store, look(store, at, pathGlobFilter="[!a]*").new) == ["x.json/c.csv", "x/b.json"]
    then, soon = datetime.now(UTC) - timedelta(hours=1), later()
    assert look(store, at, modifiedAfter=then).new.num_rows == 3
    assert look(store, at, modifiedAfter=soon).new.num_rows == 0
    assert look(store, at, modifiedBefore=soon).new.num_rows == 3
    assert look(store, at, modifiedBefore=then).new.num_rows == 0


def test_young_files_settle_and_those_from_another_clock_do_not_wait(store: Store, at: lake.Lake) -> None:
    store.put("a.json")
    young = look(store, at, now=datetime.now(UTC), settleSeconds=30.0)
    assert (young.new.num_rows, names(store, young.settling)) == (0, ["a.json"])
    assert names(store, look(store, at, settleSeconds=30.0).new) == ["a.json"]
    assert names(store, look(store, at, now=later(-20), settleSeconds=30.0).settling) == ["a.json"]  # 20 s ahead of us
    assert names(store, look(store, at, now=later(-3600), settleSeconds=30.0).new) == ["a.json"]


def test_a_file_that_lands_again_has_changed(store: Store, at: lake.Lake) -> None:
    store.put("a.json", b"1")
    store.put("b.json", b"1")
    landing.enter(NAME, table(store), at, lambda *of: landing.discover(*of, now=later()))
    assert (look(store, at).new.num_rows, look(store, at).changed.num_rows) == (0, 0)
    time.sleep(0 if isinstance(store, Local) else 1.1)
    store.put("a.json", b"2")  # as long as it was
    store.put("b.json", b"333")
    assert names(store, look(store, at).changed) == ["a.json", "b.json"]
    assert look(store, at).new.num_rows == 0
    again = look(store, at, allowOverwrites=True)
    assert (names(store, again.new), again.new["action"].to_pylist()) == (["a.json", "b.json"], ["replace", "replace"])


def test_what_was_there_before(store: Store, at: lake.Lake) -> None:
    store.put("old.json")
    later_on = table(store, includeExistingFiles=False, settleSeconds=0.0)
    assert landing.enter(NAME, later_on, at).new.num_rows == 0
    store.put("new.json")
    assert names(store, look(store, at, includeExistingFiles=False).new) == ["new.json"]


def test_a_folder_that_is_missing_and_one_that_was_emptied(store: Store, at: lake.Lake) -> None:
    nowhere = BronzeTable(path=f"{store.folder}/nowhere", format="json")
    with pytest.raises(LandingMissing, match="nowhere does not exist"):
        landing.discover(NAME, nowhere, at)
    store.put("a.json")
    landing.enter(NAME, table(store), at, lambda *of: landing.discover(*of, now=later()))
    store.remove("a.json")
    if isinstance(store, Bucket):
        store.remove("")  # a folder of S3 is its objects: nothing of it is left
    assert look(store, at).new.num_rows == 0
    with pytest.raises(LandingMissing, match="does not exist"):  # another one, by a slip of the pen
        landing.discover(NAME, nowhere, at)


def test_one_file_as_the_landing(store: Store, at: lake.Lake) -> None:
    store.put("a.json")
    store.put("b.json")
    one = BronzeTable(path=f"{store.folder}/a.json", format="json")
    assert names(store, landing.discover(NAME, one, at, later()).new) == ["a.json"]


def test_named_files_are_copied_whatever_they_are_called(store: Store, at: lake.Lake) -> None:
    for name in ("a.tmp", "x/b.json~", "c.json", "_d.json", "x/_e/f.json"):
        store.put(name)
    any_table = table(store, pathGlobFilter="*.csv")
    chosen = Copy(store.folder, files=("a.tmp", "x/b.json~", "x/_e/f.json")).look(NAME, any_table, at)
    assert names(store, chosen.new) == ["a.tmp", "x/_e/f.json", "x/b.json~"]
    assert names(store, Copy(f"{store.folder}/a.tmp").look(NAME, any_table, at).new) == ["a.tmp"]
    assert names(store, Copy(store.folder, pattern="*").look(NAME, table(store), at).new) == ["c.json"]
    with pytest.raises(LandingMissing, match=r"there is no z\.json"):
        Copy(store.folder, files=("c.json", "z.json")).look(NAME, any_table, at)
    with pytest.raises(SourceError, match=r"_d\.json cannot be copied"):  # Spark would give no rows, and no error
        Copy(store.folder, files=("c.json", "_d.json")).look(NAME, any_table, at)


# --- S3 alone --------------------------------------------------------------------------------------------------------


def test_more_objects_than_one_answer_of_s3_holds(s3: Any, at: lake.Lake) -> None:
    store = Bucket(s3, "s3a")
    connection = HTTPConnection(urlsplit(os.environ["AWS_ENDPOINT_URL"]).netloc)  # boto3 takes ten times as long
    for number in range(1203):
        connection.request("PUT", f"/{BUCKET}/{store.prefix}/{number}.json", body=b"{}")
        assert connection.getresponse().read() is not None
    connection.close()
    assert look(store, at).new.num_rows == 1203


def test_markers_of_folders_are_no_files(s3: Any, at: lake.Lake) -> None:
    store = Bucket(s3, "s3a")
    for name in ("sub/", "sub_$folder$"):
        store.put(name, b"")
    store.put("sub/a.json")
    assert names(store, look(store, at).new) == ["sub/a.json"]


def test_a_bucket_that_is_missing(s3: Any, at: lake.Lake) -> None:
    with pytest.raises(LandingMissing, match="cannot be listed") as caught:
        landing.discover(NAME, BronzeTable(path="s3a://no-such-bucket/in", format="json"), at)
    assert "NO_SUCH_BUCKET" in caught.value.cause


@pytest.mark.parametrize(
    ("status", "code", "kind"), [(403, "AccessDenied", LandingMissing), (500, "InternalError", StoreUnreachable)]
)
def test_a_server_that_refuses(
    s3: Any, at: lake.Lake, monkeypatch: pytest.MonkeyPatch, status: int, code: str, kind: type[SluicegateError]
) -> None:
    class Refuse(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(f"<Error><Code>{code}</Code><Message>not today</Message></Error>".encode())

        do_HEAD = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refuse)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr("sluicegate.aws.ARROW_ATTEMPTS", 2)
    landed = BronzeTable(path=f"s3a://{BUCKET}/in", format="json")
    with pytest.raises(kind) as caught:
        landing.discover(NAME, landed, at)
    assert "not today" in caught.value.cause
    server.shutdown()
    server.server_close()
    with pytest.raises(StoreUnreachable, match="does not answer") as caught:
        landing.discover(NAME, landed, at)
    assert "connect" in caught.value.cause


# --- local disk alone ------------------------------------------------------------------------------------------------


def test_links_pipes_and_names_that_are_no_text(tmp_path: Path, at: lake.Lake) -> None:
    store = Local(tmp_path)
    store.put("a.json")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "b.json").write_bytes(b"{}")
    folder = Path(store.folder)
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    (folder / "c.json").symlink_to(tmp_path / "elsewhere" / "b.json")
    (folder / "dangling.json").symlink_to(tmp_path / "gone.json")
    (folder / "circle.json").symlink_to(folder / "circle.json")
    (folder / "up").symlink_to(folder)
    os.mkfifo(folder / "pipe.json")
    Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.json")).write_bytes(b"{}")
    assert names(store, look(store, at).new) == ["a.json", "c.json", "caf\ufffd.json", "linked/b.json"]


def test_a_folder_without_rights() -> None:
    with tempfile.TemporaryDirectory() as outer:
        os.chmod(outer, 0o755)
        (Path(outer) / "landing/closed").mkdir(parents=True)
        (Path(outer) / "landing/closed").chmod(0)
        root = os.geteuid() == 0
        if root:  # who may look into everything
            os.seteuid(65534)
        try:
            with pytest.raises(LandingMissing, match="cannot be listed") as caught:
                landing.below(NAME, f"{outer}/landing")
        finally:
            if root:
                os.seteuid(0)
        assert str(caught.value.where.file).endswith("landing/closed")


def test_a_store_that_nobody_here_knows(at: lake.Lake) -> None:
    with pytest.raises(LandingMissing, match="cannot be listed") as caught:
        landing.discover(NAME, BronzeTable(path="nowhere://bucket/in", format="json"), at)
    assert "nowhere" in caught.value.cause


def test_a_lake_can_be_wherever_delta_rs_can_work(tmp_path: Path) -> None:
    refused = "#?%[]^|\\"
    for character in [*sorted(set(string.printable) - set(string.whitespace) - {"/"}), " ", "ü"]:
        root = f"{tmp_path}/a{character}b"
        if character in refused:
            with pytest.raises(LakeUnsupported, match=re.escape(root)) as raised:
                lake.Lake(root, "p")
            assert raised.value.cause.endswith(f"cannot work below {character}")
        else:
            uri = lake.Lake(root, "p").table("gold", "t")
            lake.write(uri, pa.table({"n": [1]}))
            lake.write(lake.table_at(uri), pa.table({"n": [2]}), mode="append")
            assert lake.rows(lake.delta_table(uri)) == 2
            assert Path(uri, "_delta_log").is_dir()
