"""What a job that is a script says to the process that started it."""

from __future__ import annotations

import json
import shlex
from typing import Any

from sluicegate.channel import FILE


def sent(kind: str, facts: Any) -> str:
    """A shell command that sends a message."""
    return sent_as_it_is(f"{kind} {json.dumps(facts)}")


def sent_as_it_is(message: str) -> str:
    """A shell command that writes a line to the channel."""
    return f"printf '%s\\n' {shlex.quote(message)} >> \"${FILE}\""
