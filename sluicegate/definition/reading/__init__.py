"""From the text of a definition to its models, with the line of each mistake."""

from __future__ import annotations
