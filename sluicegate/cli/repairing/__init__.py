"""Commands that correct a pipeline: files read again, records evaluated again or discarded, another name."""

from __future__ import annotations
