"""Names of landed files: which are of files that somebody is still writing, and which a definition lets in."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate.storage.local_files import Admits

# Names that programs give to what they have not finished writing.
TEMPORARY = ("*.tmp", "*.temp", "*.part", "*.partial", "*.crdownload", "*.filepart", "*.swp", "*~", "*._COPYING_")
UNFINISHED = "(^|/)[._]|(" + "|".join(re.escape(pattern[1:]) for pattern in TEMPORARY) + r")\z"

# The same for Python, which has another word for the end of a text.
UNFINISHED_NAME = re.compile(UNFINISHED.replace(r"\z", r"\Z"))


def finished(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which files are whole, by their names below the folder: neither hidden nor temporary."""
    return pc.invert(pc.match_substring_regex(names, UNFINISHED))


def matching(names: pa.ChunkedArray, glob: str | None) -> pa.ChunkedArray:
    """Which files, by their names below the folder, have a last part that matches the pattern; all without one."""
    if glob is None:
        return pc.is_valid(names)
    matches = re.compile(fnmatch.translate(glob)).match
    found = [[matches(name.rpartition("/")[2]) is not None for name in part.to_pylist()] for part in names.chunks]
    return pa.chunked_array(found, pa.bool_())


def admitting(glob: str | None, only: Sequence[str] = ()) -> Admits:
    """Which names below a folder the definition lets in, one by one; ``_admitted`` says it of very many at once."""
    matches = re.compile(fnmatch.translate(glob or "*")).match

    def admits(name: str) -> bool:
        requested = not only or name in only
        return requested and UNFINISHED_NAME.search(name) is None and matches(name.rpartition("/")[2]) is not None

    return admits
