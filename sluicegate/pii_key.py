"""Pseudonymisation key, read from the environment and written nowhere, and its fingerprint."""

from __future__ import annotations

import hmac
import os

from sluicegate.errors import PiiKeyMissing

VARIABLE = "SLUICEGATE_PII_KEY"

# In bytes. NIST SP 800-107 (5.3.4) asks for as much entropy as the desired strength: 128 bits here.
SHORTEST = 16

# Message whose HMAC tells one key from another.
_FINGERPRINTED = b"sluicegate key fingerprint"


def key() -> bytes:
    """Return the secret key of all pseudonyms: the bytes of ``SLUICEGATE_PII_KEY``.

    Raises:
        PiiKeyMissing: it is not set, or has fewer than 16 bytes.
    """
    secret = _key()
    if not secret:
        raise PiiKeyMissing(
            f"there is no key to make pseudonyms with: {VARIABLE} is not set",
            hint="set it in the environment of the job; `openssl rand -hex 32` makes one",
        )
    if len(secret) < SHORTEST:
        raise PiiKeyMissing(
            f"the key in {VARIABLE} is too short: it needs at least {SHORTEST} bytes",
            hint="`openssl rand -hex 32` makes one",
        )
    return secret


def _key() -> bytes:
    return os.fsencode(os.environ.get("SLUICEGATE_PII_KEY", ""))


def fingerprint() -> str:
    """Return eight hex digits that identify the key; empty, and no error, if there is no usable key."""
    secret = _key()
    if len(secret) >= SHORTEST:
        return hmac.digest(secret, _FINGERPRINTED, "sha256").hex()[:8]
    return ""
