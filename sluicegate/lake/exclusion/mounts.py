"""Detect mounts whose file locks do not exclude writers on other machines.

Delta's log store for files (``LocalLogStore``) checks whether a commit exists and then renames a file to it, and a
POSIX rename overwrites the other's commit; nothing in the jars of Spark and Delta has put-if-absent for local files. So
only the file lock separates two drivers, and some mounts keep locks local: both machines are granted one, and one of
two commits is lost in silence.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

# Variable by which a user asserts that no other machine, and no host of this VM, writes to the lake.
VOUCHED = "SLUICEGATE_ONLY_WRITER"

# Shared folders of a VM's host, and other file systems whose locks other clients do not see.
OF_THIS_MACHINE = {"9p", "virtiofs", "vboxsf", "prl_fs", "vmhgfs", "fakeowner", "drvfs", "beegfs", "afs", "ncpfs"}

# FUSE file systems that pass locks to their servers, or have only this machine's disks; others are doubted.
PASSED_ON = {
    "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.juicefs", "fuse.mfs",
    "fuse.fuse-overlayfs", "fuse.mergerfs", "fuse.gocryptfs", "fuse.encfs",
}  # fmt: skip

# Mount options that make locks local, by file system.
LOCAL_LOCKS = {
    "nfs": {"nolock", "local_lock=all", "local_lock=flock"}, "nfs4": {"nolock", "local_lock=all", "local_lock=flock"},
    "cifs": {"nobrl"}, "smb3": {"nobrl"}, "lustre": {"localflock"}, "gfs2": {"localflocks"}, "ocfs2": {"localflocks"},
}  # fmt: skip


def is_vouched() -> bool:
    """Return whether the user asserts that nobody else writes."""
    return os.environ.get(VOUCHED, "").lower() in ("1", "true", "yes")


def doubt(path: str, mounts: str | None = None) -> str:
    """Return why other machines may not see a file lock in a folder; empty if they do.

    Args:
        path: the folder, which need not exist yet.
        mounts: text of ``/proc/self/mountinfo``; by default that of this process. Without one nothing is checked.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    kind, options = _mount(os.path.realpath(path), mounts)
    if kind in OF_THIS_MACHINE or (kind.startswith("fuse.") and kind not in PASSED_ON):
        return f"it is mounted by {kind}, which does not pass locks to other machines"
    for option in sorted(LOCAL_LOCKS.get(kind, set()) & options):
        return f"it is mounted by {kind} with the option {option}, which limits locks to this machine"
    return ""


def _mount(path: str, mounts: str) -> tuple[str, set[str]]:
    """Return the type and options of the mount of a path, resolved as the kernel does: from the root, mount by mount.

    Of several mounts on a mount, the one nearest to the root is followed, so that mounts hidden by it are not.
    """
    on: dict[str, list[_Mount]] = {}
    lines = [line.split(" ", 5) for line in mounts.splitlines()]
    ids = {line[0] for line in lines}
    for mount_id, parent, _, _, place, fields in lines:
        if parent not in ids or parent == mount_id:  # its parent is invisible to this process
            parent = ""
        on.setdefault(parent, []).append(_Mount(_unescape(place), mount_id, fields))
    entered, mount = "", None
    while inside := [mounted for mounted in on.pop(entered, []) if mounted.contains(path)]:
        mount = min(reversed(inside), key=lambda mounted: len(mounted.place))
        entered = mount.id
    if mount is None:
        return "", set()
    return mount.kind, mount.options


class _Mount(NamedTuple):
    """A line of ``/proc/self/mountinfo``.

    Attributes:
        place: mount point.
        id: number of the mount.
        fields: mount options, then after a dash type, source and options of the file system.
    """

    place: str
    id: str
    fields: str

    def contains(self, path: str) -> bool:
        """Return whether a path is below the mount."""
        return f"{path}/".startswith(self.place.rstrip("/") + "/")

    @property
    def kind(self) -> str:
        return self.fields.partition(" - ")[2].split(" ")[0]

    @property
    def options(self) -> set[str]:
        of_mount, _, of_file_system = self.fields.partition(" - ")
        words = [of_mount.split(" ")[0], *of_file_system.split(" ")[2:]]
        return {option for word in words for option in _unescape(word).split(",")}


def _unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
