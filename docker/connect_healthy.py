"""Whether the Spark Connect server at an address answers a request: exit code 0. A port is open in a hung JVM, too.

It asks to release a session that does not exist, which opens none. Without the client of Spark, whose import takes
longer than all of this.
"""

from __future__ import annotations

import os
import sys
import uuid
from pathlib import Path

import grpc  # type: ignore[import-untyped]

SESSION_ID = b"\n\x24"  # field 1 of the request, a text of 36 characters
token = Path(os.environ["SLUICEGATE_CONNECT_TOKEN_FILE"]).read_text(encoding="utf-8").strip()
# Never by way of a proxy: the address is in this very container.
with grpc.insecure_channel(sys.argv[1], options=[("grpc.enable_http_proxy", 0)]) as channel:
    release = channel.unary_unary("/spark.connect.SparkConnectService/ReleaseSession")
    request = SESSION_ID + str(uuid.uuid4()).encode()
    release(request, timeout=5, metadata=[("authorization", f"Bearer {token}")])  # any error is an exception
