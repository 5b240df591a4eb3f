"""Whether the service at an address answers well: exit code 0. The image has no curl.

With a name behind the address, whether what answers there says that this part of Airflow is well: its API server knows
of each, by the heart beats in the database, and to ask it costs next to nothing, where `airflow jobs check` takes
seconds of a core to start.
"""

from __future__ import annotations

import json
import sys
import urllib.request

# Never by way of a proxy: the address is in this very stack.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
with opener.open(sys.argv[1], timeout=5) as answer:  # any other answer is an exception
    body = answer.read().decode()
if len(sys.argv) > 2:
    sys.exit(json.loads(body)[sys.argv[2]]["status"] != "healthy")
sys.exit('"status": "unhealthy"' in body)
