"""Whether a file lock on a mounted folder keeps out writers on other machines, too.

Delta's log store for files (``LocalLogStore``) looks whether a commit is there and then renames a file to it, by which
POSIX overwrites the commit of another; no log store and no file system in the jars of Spark and Delta puts a local file
only where there is none. So between two drivers there is the file lock alone, and some mounts keep locks to themselves:
each machine has its own, both are granted, and of two commits one is lost in silence.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

VOUCHED = "SLUICEGATE_ONLY_WRITER"
"""The variable by which a person says that no other machine, and no host of this VM, writes to the lake meanwhile."""

# Folders of a host in its VM, and what else has locks that its other users do not see.
OF_THIS_MACHINE = {"9p", "virtiofs", "vboxsf", "prl_fs", "vmhgfs", "fakeowner", "drvfs", "beegfs", "afs", "ncpfs"}

# File systems in user space that pass locks on to their servers, or have none but this machine's disks; of all others
# that is not known.
PASSED_ON = {
    "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.juicefs", "fuse.mfs",
    "fuse.fuse-overlayfs", "fuse.mergerfs", "fuse.gocryptfs", "fuse.encfs",
}  # fmt: skip

# Options by which others keep locks to this machine.
LOCAL_LOCKS = {
    "nfs": {"nolock", "local_lock=all", "local_lock=flock"},
    "nfs4": {"nolock", "local_lock=all", "local_lock=flock"},
    "cifs": {"nobrl"},
    "smb3": {"nobrl"},
    "lustre": {"localflock"},
    "gfs2": {"localflocks"},
    "ocfs2": {"localflocks"},
}


def vouched() -> bool:
    """Whether a person says that nobody else writes."""
    return os.environ.get(VOUCHED, "").lower() in ("1", "true", "yes")


def doubt(path: str, mounts: str | None = None) -> str:
    """Why other machines may not see a file lock in a folder; empty where nothing speaks for that.

    Args:
        path: of the folder, which need not be there yet.
        mounts: the mounts as ``/proc/self/mountinfo`` has them; by default those of this process. Systems without it
            are not asked.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        except OSError:
            return ""
    kind, options = _mount(os.path.realpath(path), mounts)
    if kind in OF_THIS_MACHINE or (kind.startswith("fuse.") and kind not in PASSED_ON):
        return f"it is mounted by {kind}, which does not pass locks on"
    local = sorted(LOCAL_LOCKS.get(kind, set()) & options)
    return f"it is mounted by {kind} with the option {local[0]}, which keeps locks to this machine" if local else ""


def _mount(path: str, mounts: str) -> tuple[str, set[str]]:
    """Type and options of the mount that a path lies on, found as the kernel does: from the root, mount by mount.

    Of those on one mount the first on the way is entered, so that one in a folder that another covers is not met.
    """
    on: dict[str, list[tuple[str, str, str]]] = {}
    lines = [line.split(" ", 5) for line in mounts.splitlines()]
    known = {line[0] for line in lines}
    for own, parent, _, _, place, rest in lines:
        first = parent not in known or parent == own  # what that one is on, this process does not see
        on.setdefault("" if first else parent, []).append((_unescaped(place), own, rest))
    at, found = "", ("", set[str]())
    while inside := [one for one in on.pop(at, []) if f"{path}/".startswith(one[0].rstrip("/") + "/")]:
        _, at, rest = min(reversed(inside), key=lambda one: len(one[0]))
        ours, _, theirs = rest.partition(" - ")
        kind, _, *more = theirs.split(" ")
        words = [ours.split(" ")[0], *more]
        found = (kind, {option for part in words for option in _unescaped(part).split(",")})
    return found


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
