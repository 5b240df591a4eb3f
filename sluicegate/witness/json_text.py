"""JSON texts with their numbers as they are written, so that no digit is lost before it is compared."""

from __future__ import annotations

import json
from typing import Any


class Number(str):
    """A number of a JSON text, as it is written."""

    __slots__ = ()


def parse_json(text: str) -> Any:
    """Return a JSON text, with numbers as they are written.

    Raises:
        ValueError: it is none.
    """
    return _DECODER.decode(text)


def pairs(text: str) -> list[tuple[str, Any]]:
    """Return names and values of a JSON object, of which a name may have several; of objects within, too."""
    return list(_PAIRS.decode(text))


def decoder(**hooks: Any) -> json.JSONDecoder:
    """Return the decoder of JSON with numbers as they are written."""
    return json.JSONDecoder(parse_int=Number, parse_float=Number, parse_constant=Number, strict=False, **hooks)


_DECODER, _PAIRS = decoder(), decoder(object_pairs_hook=list)
