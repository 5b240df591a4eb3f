"""Results of the dashboard as JSON: what the ``.json`` twin of each page gives."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from typing import Any

from sluicegate.escapes import json_text

OF_THE_MOMENT = {"of the moment": True}
"""Metadata of a field that differs each time although nothing that a page shows has changed."""


def facts(value: Any) -> Any:
    """Convert a result to dictionaries, lists, texts and numbers, without the properties of its classes."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: facts(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): facts(item) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [facts(item) for item in value]
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, (str, int, float, bool, type(None))):
        return value
    return str(value)


def tag(value: Any) -> str:
    """Return an entity tag (RFC 9110) that changes with any fact of a result except the fields ``OF_THE_MOMENT``."""
    facts_as_json = json.dumps(facts(_lasting_facts(value)), ensure_ascii=False)
    return f'"{hashlib.sha256(facts_as_json.encode()).hexdigest()[:32]}"'


def _lasting_facts(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        values = {field: getattr(value, field.name) for field in fields(value)}
        return {
            field.name: field_value is not None if field.metadata == OF_THE_MOMENT else _lasting_facts(field_value)
            for field, field_value in values.items()
        }
    if isinstance(value, Mapping):
        return {name: _lasting_facts(field_value) for name, field_value in value.items()}
    if isinstance(value, (list, tuple)):
        return [_lasting_facts(field_value) for field_value in value]
    return value


def text(value: Any) -> str:
    """Serialize a result as JSON."""
    return json_text(json.dumps(facts(value), ensure_ascii=False))
