"""One contract for every store that files land on: local disk, fsspec's memory, and S3 by a server of its protocol."""

from __future__ import annotations

import errno
import json
import os
import re
import string
import tempfile
import threading
import time
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from sluicegate.definition import load
from sluicegate.definition.tables.bronze import BronzeTable
from sluicegate.errors import LakeUnsupported, LandingMissing, SluicegateError, SourceError, StoreUnreachable
from sluicegate.lake import layout, log, tables
from sluicegate.landing import discovery, file_status, intake
from sluicegate.landing.chosen import skip
from sluicegate.landing.chosen.copy import Copy
from sluicegate.settings import Settings
from sluicegate.storage import filesystems, listings, local_files

pytestmark = pytest.mark.unit

NAME = "things"
BUCKET = "landing-zone"
EAST = timezone(timedelta(hours=2))
ODD = ("a b.json", "100%.json", "a%20b.json", "1+1.json", "ünïcode 语.json", "d=1/e=a%2Fb/x.json", "q?#&;[x]{y},z.json",
       "a::b.json", "k::v/c.json")  # fmt: skip


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
def at(tmp_path: Path) -> layout.Lake:
    return layout.Lake(str(tmp_path / "lake"), "stores")


def table(store: Store, **options: Any) -> BronzeTable:
    return BronzeTable(path=store.folder, format="json", **options)


def later(seconds: float = 60) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def look(store: Store, at: layout.Lake, now: datetime | None = None, **options: Any) -> discovery.Discovery:
    """Looks a minute from now, when all has settled."""
    return discovery.discover(NAME, table(store, **options), at, now or later())


def refused(store: Store, found: discovery.Discovery) -> dict[str, str]:
    return {path[len(store.folder) + 1 :]: why for path, why in found.refused.items()}


@contextmanager
def without_rights() -> Iterator[None]:
    """As somebody who may not look into everything, as root may."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def names(store: Store, files: Any) -> list[str]:
    paths = files["path"].to_pylist()
    assert all(path.startswith(f"{store.folder}/") for path in paths)
    return sorted(path[len(store.folder) + 1 :] for path in paths)


def test_files_of_all_folders_with_their_sizes_and_times(store: Store, at: layout.Lake) -> None:
    before = datetime.now(UTC) - timedelta(seconds=2)  # S3 gives whole seconds
    store.put("a.json", b"1")
    store.put("x/y/z/b.json", b"22")
    store.put("x/empty.json", b"")
    found = look(store, at).new
    sizes = dict(zip(found["path"].to_pylist(), found["size"].to_pylist(), strict=True))
    wanted = {"a.json": 1, "x/y/z/b.json": 2, "x/empty.json": 0}
    assert sizes == {f"{store.folder}/{name}": size for name, size in wanted.items()}
    assert all(before <= changed <= later(2) for changed in found["modification_time"].to_pylist())
    assert [filesystems.file_facts(f"{store.folder}/{name}") for name in ("x", "x/y", "absent.json")] == [None] * 3
    assert set(found["action"].to_pylist()) == {"read"}


def test_odd_names_are_those_that_fsspec_opens(store: Store, at: layout.Lake) -> None:
    for name in ODD:
        store.put(name, name.encode())
    found = look(store, at).new
    assert names(store, found) == sorted(ODD)
    changed = dict(zip(found["path"].to_pylist(), found["modification_time"].to_pylist(), strict=True))
    for path in found["path"].to_pylist():
        fs, place = filesystems.open_store(path)
        assert fs.cat_file(place).decode() == path[len(store.folder) + 1 :]
        with filesystems.reader(path) as file:
            assert file.read().decode() == path[len(store.folder) + 1 :]
        assert filesystems.file_facts(path) == (len(path[len(store.folder) + 1 :].encode()), changed[path])


@pytest.mark.parametrize(
    "stamp",
    [datetime(2024, 3, 1), datetime(2024, 3, 1, tzinfo=UTC), datetime(2024, 3, 1, 2, tzinfo=EAST), 1_709_251_200,
     1_709_251_200.0],
    ids=["without a zone", "UTC", "another zone", "seconds", "a fraction"],
)  # fmt: skip
def test_a_store_s_own_word_for_a_time_is_one_moment(stamp: Any) -> None:
    """Of a file that is known by its time: in another word for it the file would seem to have changed."""
    for name in filesystems.CHANGED:
        assert filesystems.modification_time(fsspec.filesystem("memory"), "/x", {name: stamp}) == 1_709_251_200_000_000


@pytest.mark.parametrize("seconds", [1_700_000_000_000, -99_999_999_999])
def test_a_time_that_python_has_no_word_for_stops_nothing(
    seconds: int, tmp_path: Path, at: layout.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Milliseconds that were set for seconds: not all disks keep them, so the one that does is played."""
    path = tmp_path / "landing/a.json"
    path.parent.mkdir()
    path.write_text("{}")
    monkeypatch.setattr(listings.Walk, "files", lambda _: iter([(str(path), 2, seconds * 1_000_000)]))
    of_files = BronzeTable(path=str(path.parent), format="json", settleSeconds=0)
    assert intake.enter("b", of_files, at).new.num_rows == 1
    assert [entry["state"] for entry in file_status.statuses(at, "b").to_pylist()] == ["waiting"]
    seen = filesystems._to_datetime(seconds * 1_000_000)
    assert file_status.statuses(at, "b")["modification_time"].to_pylist() == [seen]  # cleanSource compares the two
    assert not intake.enter("b", of_files, at).new.num_rows


def test_hidden_and_temporary_names_are_left_out(store: Store, at: layout.Lake) -> None:
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


def test_which_files_the_definition_lets_in(store: Store, at: layout.Lake) -> None:
    for name in ("a.json", "x/b.json", "x.json/c.csv"):
        store.put(name)
    assert names(store, look(store, at, pathGlobFilter="*.json").new) == ["a.json", "x/b.json"]
    assert names(store, look(store, at, pathGlobFilter="[!a]*").new) == ["x.json/c.csv", "x/b.json"]
    then, soon = datetime.now(UTC) - timedelta(hours=1), later()
    assert look(store, at, modifiedAfter=then).new.num_rows == 3
    assert look(store, at, modifiedAfter=soon).new.num_rows == 0
    assert look(store, at, modifiedBefore=soon).new.num_rows == 3
    assert look(store, at, modifiedBefore=then).new.num_rows == 0
    found = look(store, at, pathGlobFilter="a.json").new
    (moment,) = found["modification_time"].to_pylist()
    for bound in ("modifiedAfter", "modifiedBefore"):  # a file of that very moment is on neither side
        assert "a.json" not in names(store, look(store, at, **{bound: moment}).new)


def test_young_files_settle_and_those_from_another_clock_do_not_wait(store: Store, at: layout.Lake) -> None:
    store.put("a.json")
    young = look(store, at, now=datetime.now(UTC), settleSeconds=30.0)
    assert (young.new.num_rows, names(store, young.settling)) == (0, ["a.json"])
    assert names(store, look(store, at, settleSeconds=30.0).new) == ["a.json"]
    assert names(store, look(store, at, now=later(-20), settleSeconds=30.0).settling) == ["a.json"]  # 20 s ahead of us
    assert names(store, look(store, at, now=later(-3600), settleSeconds=30.0).new) == ["a.json"]


def taken(at: layout.Lake) -> None:
    """Commits the files of the ledger to bronze."""
    ledger = tables.table_at(at.ledger(NAME))
    said = {"userMetadata": json.dumps({log.METADATA: {"chunk": ledger.version()}})}
    rows, properties = pa.table({"id": [1]}), CommitProperties(custom_metadata=said)
    write_deltalake(at.table("bronze", NAME), rows, commit_properties=properties)


def test_a_file_that_lands_again_has_changed(store: Store, at: layout.Lake) -> None:
    store.put("a.json", b"1")
    store.put("b.json", b"1")
    intake.enter(NAME, table(store), at, lambda *of: discovery.discover(*of, current_time=later()))
    taken(at)
    assert (look(store, at).new.num_rows, look(store, at).changed.num_rows) == (0, 0)
    time.sleep(0 if isinstance(store, Local) else 1.1)
    store.put("a.json", b"2")  # as long as it was
    store.put("b.json", b"333")
    assert names(store, look(store, at).changed) == ["a.json", "b.json"]
    assert look(store, at).new.num_rows == 0
    again = look(store, at, allowOverwrites=True)
    assert (names(store, again.new), again.new["action"].to_pylist()) == (["a.json", "b.json"], ["replace", "replace"])


def test_files_from_before_are_left_out_if_so_configured(store: Store, at: layout.Lake) -> None:
    store.put("old.json")
    later_on = table(store, includeExistingFiles=False, settleSeconds=0.0)
    assert intake.enter(NAME, later_on, at).new.num_rows == 0
    store.put("new.json")
    assert names(store, look(store, at, includeExistingFiles=False).new) == ["new.json"]


@pytest.mark.parametrize("encode", [str, urllib.parse.quote], ids=["as they are", "encoded"])
def test_files_of_a_list_are_known_by_each_spelling_of_a_store(
    store: Store, tmp_path: Path, encode: Callable[[str], str]
) -> None:
    """The old pipeline may name a bucket by another scheme, and encodes names or does not."""
    for name in (*ODD, "new.json"):
        store.put(name)
    (tmp_path / "pipelines/p").mkdir(parents=True)
    definition = f"name: p\nbronze:\n  things: {{path: '{store.folder}', format: json, settleSeconds: 0}}\n"
    (tmp_path / "pipelines/p/pipeline.yaml").write_text(definition)
    pipeline = load("p", Settings.of(str(tmp_path / "lake"), str(tmp_path), tmp_path / "pipelines"))
    schemes = {"s3://": "s3a://", "s3a://": "s3n://", "/": "file:///"}
    begun = next((begin for begin in schemes if store.folder.startswith(begin)), "")
    folder = schemes.get(begun, "") + store.folder.removeprefix(begun)
    (tmp_path / "list.txt").write_text("\n".join(f"{folder}/{encode(name)}" for name in ODD))
    assert skip.enter(pipeline, skip.Skip(NAME, str(tmp_path / "list.txt"))).files.num_rows == len(ODD)
    assert names(store, look(store, layout.Lake(str(tmp_path / "lake"), "p")).new) == ["new.json"]


def test_a_folder_that_is_missing_and_one_that_was_emptied(store: Store, at: layout.Lake) -> None:
    nowhere = BronzeTable(path=f"{store.folder}/nowhere", format="json")
    with pytest.raises(LandingMissing, match="nowhere does not exist"):
        discovery.discover(NAME, nowhere, at)
    store.put("a.json")
    intake.enter(NAME, table(store), at, lambda *of: discovery.discover(*of, current_time=later()))
    store.remove("a.json")
    if isinstance(store, Bucket):
        store.remove("")  # a folder of S3 is its objects: nothing of it is left
    assert look(store, at).new.num_rows == 0
    with pytest.raises(LandingMissing, match="does not exist"):  # another one, by a slip of the pen
        discovery.discover(NAME, nowhere, at)


def test_one_file_as_the_landing(store: Store, at: layout.Lake) -> None:
    store.put("a.json")
    store.put("b.json")
    one = BronzeTable(path=f"{store.folder}/a.json", format="json")
    assert names(store, discovery.discover(NAME, one, at, later()).new) == ["a.json"]


def test_named_files_are_copied_whatever_they_are_called(store: Store, at: layout.Lake) -> None:
    for name in ("a.tmp", "x/b.json~", "c.json", "_d.json", "x/_e/f.json"):
        store.put(name)
    any_table = table(store, pathGlobFilter="*.csv")
    chosen = Copy(store.folder, files=("a.tmp", "x/b.json~", "x/_e/f.json")).discover(NAME, any_table, at)
    assert names(store, chosen.new) == ["a.tmp", "x/_e/f.json", "x/b.json~"]
    assert names(store, Copy(f"{store.folder}/a.tmp").discover(NAME, any_table, at).new) == ["a.tmp"]
    assert names(store, Copy(store.folder, pattern="*").discover(NAME, table(store), at).new) == ["c.json"]
    with pytest.raises(LandingMissing, match=r"z\.json"):
        Copy(store.folder, files=("c.json", "z.json")).discover(NAME, any_table, at)
    with pytest.raises(SourceError, match=r"_d\.json cannot be copied"):  # Spark would give no rows, and no error
        Copy(store.folder, files=("c.json", "_d.json")).discover(NAME, any_table, at)


# --- S3 alone --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [4, 5, 6, 10, 11])
def test_more_objects_than_one_answer_of_s3_holds(
    s3: Any, at: layout.Lake, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """An answer has 1,000 objects, here 5: the client is asked to come back for the others all the same."""
    from moto.s3.models import S3Backend

    whole, answers = S3Backend._truncate_result, []

    def cut(self: S3Backend, keys: Any, most: int) -> Any:
        answers.append(most)
        return whole(self, keys, min(most, 5))

    monkeypatch.setattr(S3Backend, "_truncate_result", cut)
    store = Bucket(s3, "s3a")
    store.remove("")  # the folder's marker would be one more
    for number in range(count):
        store.put(f"{number}.json")
    answers.clear()
    assert look(store, at).new.num_rows == count
    assert len(answers) >= -(-count // 5)


def test_a_bucket_is_the_same_by_both_schemes(s3: Any, at: layout.Lake) -> None:
    store = Bucket(s3, "s3a")
    store.put("a.json", b"1")
    intake.enter(NAME, table(store, settleSeconds=0), at)
    taken(at)
    other = BronzeTable(path=store.folder.replace("s3a://", "s3://"), format="json")
    assert discovery.discover(NAME, other, at, later()).new.num_rows == 0
    store.put("b.json")
    store.put("a.json", b"longer")
    found = discovery.discover(NAME, other, at, later())
    assert (names(store, found.new), names(store, found.changed)) == (["b.json"], ["a.json"])


def test_markers_of_folders_are_no_files(s3: Any, at: layout.Lake) -> None:
    store = Bucket(s3, "s3a")
    for name in ("sub/", "sub_$folder$"):
        store.put(name, b"")
    store.put("sub/a.json")
    store.put("a_$folder$")  # which is not empty
    assert names(store, look(store, at).new) == ["a_$folder$", "sub/a.json"]


def test_a_bucket_that_is_missing(s3: Any, at: layout.Lake) -> None:
    with pytest.raises(LandingMissing, match="cannot be listed") as caught:
        discovery.discover(NAME, BronzeTable(path="s3a://no-such-bucket/in", format="json"), at)
    assert "NO_SUCH_BUCKET" in caught.value.cause


@pytest.mark.parametrize(
    ("status", "code", "kind"), [(403, "AccessDenied", LandingMissing), (500, "InternalError", StoreUnreachable)]
)
def test_a_server_that_refuses_is_told_by_its_kind(
    s3: Any, at: layout.Lake, monkeypatch: pytest.MonkeyPatch, status: int, code: str, kind: type[SluicegateError]
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
    monkeypatch.setattr("sluicegate.storage.aws.ARROW_ATTEMPTS", 2)
    landed = BronzeTable(path=f"s3a://{BUCKET}/in", format="json")
    with pytest.raises(kind) as caught:
        discovery.discover(NAME, landed, at)
    assert "not today" in caught.value.cause
    server.shutdown()
    server.server_close()
    with pytest.raises(StoreUnreachable, match="does not answer") as caught:
        discovery.discover(NAME, landed, at)
    assert "connect" in caught.value.cause


# --- local disk alone ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 3, 4, 5, 9])
def test_a_listing_is_made_in_parts_of_AT_ONCE(
    tmp_path: Path, at: layout.Lake, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(listings, "AT_ONCE", 4)
    store = Local(tmp_path)
    for number in range(count):
        store.put(f"{number}.json", b"x" * number)
    found = listings.files(store.folder)
    assert sorted(found["size"].to_pylist()) == [*range(count)]
    assert [len(batch) for batch in found.to_batches()] == [4] * (count // 4) + [count % 4] * bool(count % 4)
    assert names(store, found) == [f"{number}.json" for number in range(count)]


def test_pipes_and_names_that_are_no_text(tmp_path: Path, at: layout.Lake) -> None:
    """Spark can open none of these; and by the name that is shown for one, another file would be read twice."""
    store = Local(tmp_path)
    store.put("a.json")
    store.put("caf\ufffd.json")
    folder = Path(store.folder)
    os.mkfifo(folder / "pipe.json")
    for name in (b"caf\xe9.json", b"caf\xe8.json", b"\xe7/b.json"):
        path = Path(os.fsdecode(os.fsencode(folder) + b"/" + name))
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"{}{}")
    (folder / os.fsdecode(b"\xe9.json")).symlink_to("/etc/hostname")
    found = look(store, at)
    assert names(store, found.new) == ["a.json", "caf\ufffd.json"]
    assert found.new["size"].to_pylist() == [2, 2]
    no_text = dict.fromkeys(("caf\ufffd.json", "\ufffd/", "\ufffd.json"), local_files.NO_TEXT)
    assert refused(store, found) == {"pipe.json": local_files.NO_FILE, **no_text}


def test_links_that_lead_out_of_landing_are_refused_and_told(tmp_path: Path, at: layout.Lake) -> None:
    """Whoever may land a link must not have any file ingested that this process may read."""
    store = Local(tmp_path)
    store.put("a.json")
    elsewhere = tmp_path / "landing-of-others"  # a name that begins like that of landing
    elsewhere.mkdir()
    (elsewhere / "b.json").write_bytes(b"{}")
    folder = Path(store.folder)
    (folder / "whole").symlink_to(elsewhere)
    (folder / "c.json").symlink_to(elsewhere / "b.json")
    (folder / "sub").mkdir()
    (folder / "sub" / "relative.json").symlink_to("../../landing-of-others/b.json")
    (folder / "by-two.json").symlink_to(folder / "c.json")
    (folder / ".hidden.json").symlink_to(elsewhere / "b.json")
    (folder / "dangling.json").symlink_to(folder / "gone.json")
    (folder / "circle.json").symlink_to(folder / "circle.json")
    found = look(store, at)
    assert names(store, found.new) == ["a.json"]
    out = ("whole", "c.json", "sub/relative.json", "by-two.json")
    nothing = ("dangling.json", "circle.json")
    assert refused(store, found) == dict.fromkeys(out, local_files.OUTSIDE) | dict.fromkeys(
        nothing, local_files.NOTHING
    )
    assert names(store, discovery.files_below(NAME, store.folder)) == ["a.json"]
    reached = tmp_path / "reached"
    reached.symlink_to(folder)  # whoever writes the definition may say where landing is
    assert discovery.files_below(NAME, str(reached)).num_rows == 1


def test_a_file_that_links_within_landing_name_again_is_one_file(tmp_path: Path, at: layout.Lake) -> None:
    store = Local(tmp_path)
    store.put("2026-01-01/a.json")
    store.put(".staged/b.json")
    store.put(".staged/sub/c.json")
    folder = Path(store.folder)
    (folder / "latest").symlink_to("2026-01-01")
    (folder / "up").symlink_to(".")
    (folder / "2026-01-01" / "again.json").symlink_to("a.json")
    for number, name in enumerate(("published", "also", ".first")):  # the oldest counts, if it is not hidden
        (folder / name).symlink_to(".staged")
        os.utime(folder / name, (1_700_000_000 - number * (name == ".first") + number,) * 2, follow_symlinks=False)
    (folder / ".staged" / "round").symlink_to("../.staged")
    found = look(store, at)
    assert names(store, found.new) == ["2026-01-01/a.json", "published/b.json", "published/sub/c.json"]
    assert refused(store, found) == {}
    (folder / "0.json").symlink_to(".staged/b.json")
    assert names(store, look(store, at).new) == ["2026-01-01/a.json", "published/b.json", "published/sub/c.json"]
    # Its own name is not one that is let in, so the link's is the only one.
    (folder / "report.csv").symlink_to("2026-01-01/a.json")
    assert names(store, look(store, at, pathGlobFilter="*.csv").new) == ["report.csv"]


def test_one_unreadable_folder_does_not_stop_the_others() -> None:
    with tempfile.TemporaryDirectory() as outer:
        os.chmod(outer, 0o755)
        store, at = Local(Path(outer)), layout.Lake(f"{outer}/lake", "stores")
        for name in ("a.json", "lost+found/b.json", ".Trash-0/c.json", "open/d.json", "open/shut/e.json"):
            store.put(name)
        closed = [Path(store.folder) / name for name in ("lost+found", ".Trash-0", "open/shut")]
        for folder in closed:
            folder.chmod(0)
        with without_rights():
            found = look(store, at)
        for folder in closed:
            folder.chmod(0o755)
        assert names(store, found.new) == ["a.json", "open/d.json"]
        # What is hidden would not be read in any case.
        assert refused(store, found) == dict.fromkeys(("lost+found/", "open/shut/"), "Permission denied")
        intake.enter(NAME, table(store, settleSeconds=0), at)
        assert look(store, at).new.num_rows == 0


def test_a_folder_of_another_store_without_rights(at: layout.Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    store, ls = Memory(), MemoryFileSystem.ls
    monkeypatch.setattr(MemoryFileSystem, "find", AbstractFileSystem.find)  # as stores have it that list folders
    for name in ("a.json", "closed/b.json"):
        store.put(name)

    def answer(error: OSError) -> None:
        def listed(self: MemoryFileSystem, path: str, *given: Any, **options: Any) -> Any:
            if path.rstrip("/").endswith("closed"):
                raise error
            return ls(self, path, *given, **options)

        monkeypatch.setattr(MemoryFileSystem, "ls", listed)

    answer(PermissionError(errno.EACCES, "not for you", "closed"))
    found = look(store, at)
    assert (names(store, found.new), refused(store, found)) == (["a.json"], {"closed/": "not for you"})
    answer(TimeoutError("no answer"))  # of the whole store, which is another matter
    with pytest.raises(SluicegateError):
        look(store, at)


def test_a_landing_folder_without_rights(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory() as outer:
        os.chmod(outer, 0o755)
        (Path(outer) / "landing").mkdir(mode=0)
        with without_rights(), pytest.raises(LandingMissing, match="cannot be listed"):
            discovery.files_below(NAME, f"{outer}/landing")
        (Path(outer) / "landing").chmod(0o755)


def test_an_entry_that_cannot_be_looked_at_does_not_stop_the_others(
    tmp_path: Path, at: layout.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount of the network that answers of one folder with an error, in the middle of it too."""
    store = Local(tmp_path)
    for name in ("a.json", "bad/b.json", "bad/c.json", "good/d.json"):
        store.put(name)
    scan = os.scandir

    class Breaks:
        def __init__(self, folder: str) -> None:
            self.found = scan(folder)
            self.bad = str(folder).endswith("/bad")

        def __enter__(self) -> Breaks:
            return self

        def __exit__(self, *_: object) -> None:
            self.found.close()

        def __iter__(self) -> Iterator[os.DirEntry[str]]:
            for entry in self.found:
                yield entry
                if self.bad:
                    raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "scandir", Breaks)
    found = look(store, at)
    assert {"a.json", "good/d.json"} <= set(names(store, found.new))
    assert refused(store, found) == {"bad/": "Input/output error"}
    monkeypatch.undo()
    assert names(store, look(store, at).new) == ["a.json", "bad/b.json", "bad/c.json", "good/d.json"]


def test_a_store_that_nobody_here_knows(at: layout.Lake) -> None:
    with pytest.raises(LandingMissing, match="cannot be listed") as caught:
        discovery.discover(NAME, BronzeTable(path="nowhere://bucket/in", format="json"), at)
    assert "nowhere" in caught.value.cause


def test_a_lake_can_be_wherever_delta_rs_can_work(tmp_path: Path) -> None:
    refused = "#?%[]^|\\"
    for character in [*sorted(set(string.printable) - set(string.whitespace) - {"/"}), " ", "ü"]:
        root = f"{tmp_path}/a{character}b"
        if character in refused:
            with pytest.raises(LakeUnsupported, match=re.escape(root)) as raised:
                layout.Lake(root, "p")
            assert raised.value.cause.endswith(f"cannot open a path with {character}")
        else:
            uri = layout.Lake(root, "p").table("gold", "t")
            tables.write(uri, pa.table({"n": [1]}))
            tables.write(tables.table_at(uri), pa.table({"n": [2]}), mode="append")
            assert tables.rows(tables.delta_table(uri)) == 2
            assert Path(uri, "_delta_log").is_dir()
