"""Texts of definitions, names and values for places that Airflow shows as Markdown."""

from __future__ import annotations

import re

from sluicegate.escapes import escaped

# Whatever Markdown makes a link, a picture or HTML of, or may: also addresses of pages and mail as they are.
_LINKED = re.compile(r"\S*(?:\][(\[:]|[<@]|//|www\.)\S*", re.IGNORECASE)


def plain(text: str, keep: str = "") -> str:
    """A text of others, of which Markdown links nothing and loads nothing: what it would is shown as code.

    Args:
        text: the text.
        keep: control characters that stay as they are, as ``escapes.escaped`` has them; by default none.
    """
    return _LINKED.sub(lambda match: f"`{match[0]}`", escaped(text, keep).replace("`", "'"))
