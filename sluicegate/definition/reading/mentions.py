"""Which tables a definition may have, by the words of its text: of many, those that cannot have one stay unread."""

from __future__ import annotations

import re
from pathlib import Path

from sluicegate.definition.reading.loader import FILE, SUFFIXES


def may_define(folder: Path, table_name: str, database: str = "") -> bool:
    """Return whether a pipeline may have a table, in a given database if any; False only if it certainly has not.

    Names are plain words, so the text has them unless it is written with escapes. A file that cannot be read may have
    any table.

    Args:
        folder: folder of the pipeline.
        table_name: name of a table, or of one that belongs to it, as its quarantine; in any case.
        database: name of the database; empty for any.
    """
    try:
        text = (folder / FILE).read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return True
    if "\\" in text:
        return True
    main_table = table_name.lower()
    for suffix in SUFFIXES:
        main_table = main_table.removesuffix(suffix)
    return all(_has_word(text, word) for word in (main_table, database) if word)


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None
