"""Views as JSON: what the ``.json`` twin of each page gives."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from typing import Any


def facts(value: Any) -> Any:
    """A view as dictionaries, lists, texts and numbers; a property of a class in it is not there."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: facts(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): facts(one) for name, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [facts(one) for one in value]
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, float) and value != value:
        return None
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def text(value: Any) -> str:
    """A view as JSON text."""
    return json.dumps(facts(value), ensure_ascii=False)
