"""Texts of definitions, names and values for places that Airflow shows as Markdown."""

from __future__ import annotations

import re

from sluicegate.escapes import escape_text

# Whatever Markdown makes a link, a picture or HTML of, or may: also addresses of pages and mail as they are.
_LINKED = re.compile(r"\S*(?:\][(\[:]|[<@]|//|www\.)\S*", re.IGNORECASE)


def escape_markdown(text: str, keep: str = "") -> str:
    """A text of others, of which Markdown links nothing and loads nothing: what it would is shown as code.

    Args:
        text: the text.
        keep: control characters that stay as they are, as ``escapes.escape_text`` has them; by default none.
    """
    return _LINKED.sub(lambda match: f"`{match[0]}`", escape_text(text, keep).replace("`", "'"))
