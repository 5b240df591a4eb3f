"""Suggestions of the nearest right name in place of an unknown one."""

from __future__ import annotations

from collections.abc import Collection, Iterable


def suggest_name(name: str, names: Iterable[str]) -> str:
    """Suggest the nearest known name as ``did you mean …?``; empty if none is near."""
    import difflib  # only where there is a mistake

    known = list(names)
    near = difflib.get_close_matches(name, known, 1, 0.6) or difflib.get_close_matches(
        name.lower(), [other for other in known if other == other.lower()], 1, 0.6
    )
    if near:
        return f"did you mean {near[0]}?"
    return ""


def suggest_or_list(name: str, names: Collection[str], label: str, otherwise: str = "") -> str:
    """Suggest the nearest known name, else all of them behind a label; without any name return ``otherwise``."""
    if not names:
        return otherwise
    return suggest_name(name, names) or f"{label} {', '.join(names)}"
