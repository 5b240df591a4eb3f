"""A lake is refused where a file lock may keep nobody out, unless a person vouches for it."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from sluicegate.errors import LakeLocked, LakeUnsupported
from sluicegate.lake import layout
from sluicegate.lake.exclusion import lock, mounts
from tests.conftest import Workspace
from tests.unit.storage.test_filesystems import without_rights

pytestmark = pytest.mark.unit

HERE = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw"


def mounted(kind: str, options: str = "rw", at: str = "/data") -> str:
    return f"{HERE}\n40 22 0:50 / {at} rw,relatime shared:9 - {kind} server:/share {options}"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("nfs", "rw,vers=3,nolock,addr=10.0.0.1"), ("nfs", "rw,vers=3,local_lock=all"), ("nfs4", "rw,local_lock=flock"),
        ("cifs", "rw,vers=3.1.1,nobrl"), ("smb3", "rw,nobrl"), ("lustre", "rw,localflock"),
        ("9p", "rw,trans=virtio"), ("virtiofs", "rw"), ("vboxsf", "rw"), ("fuse.sshfs", "rw"), ("fuse.s3fs", "rw"),
        ("fakeowner", "rw"), ("beegfs", "rw"),
    ],
)  # fmt: skip
def test_a_mount_that_keeps_locks_to_itself_is_doubted(kind: str, options: str) -> None:
    assert kind in mounts.doubt("/data/lake/orders", mounted(kind, options))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("nfs", "rw,vers=3,local_lock=none"), ("nfs4", "rw,vers=4.2,local_lock=none"), ("cifs", "rw,vers=3.1.1"),
        ("ext4", "rw,nolock"), ("overlay", "rw"), ("tmpfs", "rw"), ("xfs", "rw"), ("fuseblk", "rw"),
        ("fuse.glusterfs", "rw"), ("lustre", "rw,flock"), ("fuse.fuse-overlayfs", "rw"),
    ],
)  # fmt: skip
def test_a_mount_with_locks_is_not(kind: str, options: str) -> None:
    assert mounts.doubt("/data/lake/orders", mounted(kind, options)) == ""


def test_the_mount_of_a_folder_is_the_nearest_and_the_last_at_its_place() -> None:
    assert mounts.doubt("/data", mounted("9p"))
    assert not mounts.doubt("/database/lake", mounted("9p"))
    assert not mounts.doubt("/other/lake", mounted("9p"))
    assert mounts.doubt("/my data/lake", mounted("9p", at="/my\\040data"))
    covered = mounted("9p") + "\n41 40 8:2 / /data rw - xfs /dev/sdb1 rw"
    assert not mounts.doubt("/data/lake", covered)
    inner = mounted("9p") + "\n41 40 8:2 / /data/lake rw - xfs /dev/sdb1 rw"
    assert not mounts.doubt("/data/lake/orders", inner)
    assert mounts.doubt("/data/landing", inner)


def test_a_mount_that_a_later_one_at_a_parent_covers_is_not_the_folder_s() -> None:
    lower = mounted("9p", at="/data/lake")
    assert mounts.doubt("/data/lake/orders", lower)
    assert not mounts.doubt("/data/lake/orders", lower + "\n41 22 8:2 / /data rw - xfs /dev/sdb1 rw")
    # A mount that lies on another is seen wherever it is listed, as with a root that was changed after the start.
    listed_first = "40 41 0:50 / /data/lake rw - 9p host rw\n41 22 8:2 / /data rw - xfs /dev/sdb1 rw\n" + HERE
    assert mounts.doubt("/data/lake/orders", listed_first)
    assert not mounts.doubt("/data/orders", listed_first)
    # Of a process with another root, what its mounts lie on is not listed.
    assert mounts.doubt("/data/lake", "40 9 0:50 / /data rw - 9p host rw")
    assert mounts.doubt("/data/lake", "40 40 0:50 / / rw - 9p host rw")


def test_a_folder_is_looked_at_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "lake").symlink_to("/data/lake")
    assert mounts.doubt(str(tmp_path / "lake/orders"), mounted("virtiofs"))


def refused(at: layout.Lake) -> LakeUnsupported:
    with pytest.raises(LakeUnsupported, match="may not exclude writers") as error, lock.pipeline_lock(at, "a run"):
        pytest.fail("it was taken")
    assert mounts.VOUCHED in error.value.hint
    return error.value


def test_a_doubted_lake_is_locked_only_where_a_person_vouches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "doubt", lambda _: "it is mounted by 9p")
    at = layout.Lake(str(tmp_path / "lake"), "orders")
    assert "9p" in refused(at).cause
    assert not (tmp_path / "lake").exists()
    monkeypatch.setenv(mounts.VOUCHED, "1")
    with lock.pipeline_lock(at, "a run"):
        pass
    monkeypatch.setenv(mounts.VOUCHED, "0")
    refused(at)


@pytest.mark.parametrize("answer", [None, OSError(errno.ENOLCK, "No locks available")], ids=["granted", "none"])
def test_a_lock_that_keeps_nobody_out_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: OSError | None
) -> None:
    """As on a mount that grants each lock to everybody, or has none at all."""

    def flock(*_: Any) -> None:
        if answer is not None:
            raise answer

    at = layout.Lake(str(tmp_path / "lake"), "orders")
    with lock.pipeline_lock(at, "a run"):
        pass
    monkeypatch.setattr(fcntl, "flock", flock)
    refused(at)
    monkeypatch.setenv(mounts.VOUCHED, "yes")
    with lock.pipeline_lock(at, "a run"):
        pass


def test_who_may_not_take_the_lock_is_told_so() -> None:
    """A run by hand, as root say, and then Airflow's: it was told of a file that nobody knows."""
    with tempfile.TemporaryDirectory() as outer:  # not pytest's, which nobody else may look into
        os.chmod(outer, 0o755)
        at = layout.Lake(f"{outer}/lake", "p")
        paths = {name: Path(layout.local_path(at.lock(name))) for name in ("pipeline", "turn")}
        with lock.pipeline_lock(at, "by hand"), lock.turn(at, "by hand"):
            pass
        paths["pipeline"].chmod(0)
        paths["turn"].chmod(0o666)  # whoever has the turn looks at the lock
        for taken in (lock.pipeline_lock, lock.turn):
            with (
                without_rights(),
                pytest.raises(LakeUnsupported, match="has no permission") as told,
                taken(at, "Airflow"),
            ):
                pass
            assert told.value.where.file == str(paths["pipeline"])
            assert "as the user that wrote the lake" in told.value.hint


@pytest.mark.parametrize("said", ["", "[]", "5", '{"owner": "x"}', '{"owner": "x", "pid'])
def test_a_holder_that_has_not_said_its_name_is_another_run(workspace: Workspace, said: str) -> None:
    path = Path(layout.local_path(workspace.lake.lock("pipeline")))
    path.parent.mkdir(parents=True)
    path.write_text(said)
    with path.open("a+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with (
            pytest.raises(LakeLocked, match="is being written by another run"),
            lock.pipeline_lock(workspace.lake, "me", wait=0),
        ):
            pass
