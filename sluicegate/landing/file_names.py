"""File-name filters of landing: unfinished files, and the definition's ``pathGlobFilter``.

Names come as Arrow columns, and one by one. pyarrow is imported by those who have columns.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sluicegate.storage.local_files import Admits

if TYPE_CHECKING:
    import pyarrow as pa

# Names that programs give to files that they are still writing.
TEMPORARY = ("*.tmp", "*.temp", "*.part", "*.partial", "*.crdownload", "*.filepart", "*.swp", "*~", "*._COPYING_")
UNFINISHED = "(^|/)[._]|(" + "|".join(re.escape(pattern[1:]) for pattern in TEMPORARY) + r")\z"

# The same for Python's `re`, which spells the end of the text \Z.
UNFINISHED_NAME = re.compile(UNFINISHED.replace(r"\z", r"\Z"))

# Names of files that programs lay beside others: no data of a sender. Those that begin with a dot are hidden.
COMPANION = r"(?i)(^|/)(thumbs\.db|ehthumbs\.db|desktop\.ini|~\$[^/]*|[^/]+\.[^/.]+\.crc)\z"
COMPANION_NAME = re.compile(COMPANION.replace(r"\z", r"\Z"))
# Those, and others, that are put into archives.
ARCHIVE_COMPANION = re.compile(rf"{COMPANION_NAME.pattern}|^__MACOSX/|(^|/)\.DS_Store\Z")
NO_DATA = (
    "its name is that of an auxiliary file of Windows, Office or Hadoop, not of data: remove it, or rename it to have "
    "it read"
)


def relative_names(files: pa.Table, folder: str) -> pa.ChunkedArray:
    """Return file names relative to their folder."""
    import pyarrow.compute as pc

    return pc.utf8_ltrim(pc.utf8_slice_codeunits(files["path"], len(folder)), "/")


def finished_mask(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the mask of names below the folder that are neither hidden nor temporary."""
    import pyarrow.compute as pc

    return pc.invert(pc.match_substring_regex(names, UNFINISHED))


def companion_mask(names: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the mask of names below the folder of files that programs lay beside others."""
    import pyarrow.compute as pc

    return pc.match_substring_regex(names, COMPANION)


def glob_mask(names: pa.ChunkedArray, glob: str | None) -> pa.ChunkedArray:
    """Return the mask of names below the folder whose last part matches the glob, all of them without a glob."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if glob is None:
        return pc.is_valid(names)
    matches = re.compile(fnmatch.translate(glob)).match
    masks = [[matches(name.rpartition("/")[2]) is not None for name in part.to_pylist()] for part in names.chunks]
    return pa.chunked_array(masks, pa.bool_())


def name_filter(glob: str | None, only: Sequence[str] = ()) -> Admits:
    """Return a predicate that admits the names of finished files that match the glob.

    It takes one name below a folder; ``_admitted`` filters whole tables.
    """
    matches = re.compile(fnmatch.translate(glob or "*")).match

    def admits(name: str) -> bool:
        requested = not only or name in only
        return requested and UNFINISHED_NAME.search(name) is None and matches(name.rpartition("/")[2]) is not None

    return admits
