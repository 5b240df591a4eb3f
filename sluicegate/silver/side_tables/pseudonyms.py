"""Compute pseudonyms: keyed hashes in place of personal values.

A plain hash of a name or a number can be turned back by hashing every candidate. HMAC-SHA-256 (RFC 2104) needs the key
for that, and still gives equal values equal pseudonyms, so that tables can be joined by them.

Where the key travels: it is read from the environment of the driver's process, which spark-submit hands on in client
mode, and is a part of the closure of a Python function. Spark sends that closure to its executors and Python workers
in memory and over its own connections (``spark.network.crypto.enabled`` encrypts these); under memory pressure a block
with it can lie in ``spark.local.dir`` (``spark.io.encryption.enabled``). It is no literal and no setting, so plans,
event logs, command lines, commits and messages do not have it. Of the key only a fingerprint is on record.
"""

from __future__ import annotations

import hmac

from pyspark.sql import Column
from pyspark.sql import functions as F


def pseudonym(values: Column, secret: bytes) -> Column:
    """Return HMAC-SHA-256 of each value's UTF-8 text as 64 hex digits; NULL stays NULL.

    Args:
        values: a column that can be cast to text.
        secret: the key.
    """

    def hmac_sha256(data: bytes | None) -> str | None:
        if data is None:
            return None
        return hmac.digest(secret, bytes(data), "sha256").hex()

    # As bytes: Spark's texts may hold what is no UTF-8, which Python would refuse to take for text.
    return F.udf(hmac_sha256, "string", useArrow=False)(values.cast("string").cast("binary"))
