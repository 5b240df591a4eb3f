"""SQL expressions on JSON text in the column ``value``: its kind, and what Spark's reader would lose."""

from __future__ import annotations

import uuid

from sluicegate.spark_sql.identifiers import literal
from sluicegate.spark_sql.types import UNNAMED

# In the text for schema inference: the one field of a line that is not one record.
ODD = "_sluicegate_odd"

# A line whose first } is its last character, as in an object without another inside: nothing follows it. This costs a
# fraction of the other check, and is all that most lines need.
FLAT = "startswith(value, '{') AND octet_length(substring_index(value, '}', 1)) = octet_length(value) - 1"

# Whether a text is more than JSON whitespace (Spark's trim knows spaces alone), and whether it is an array.
FILLED = r"value RLIKE '[^ \\t\\r\\n]'"
ARRAY = r"value RLIKE '^[ \\t\\r\\n]*\\['"

# Marker that no text has.
END = uuid.uuid4().hex

# A text is one JSON value if, as a field's value in an object of ours, it is followed by our own next field, by Spark's
# own tokens. It is not where the text ends the object, or goes on with a field or anything else.
ONE = f"""json_object_keys(concat('{{"v":', value, '\\n,"{END}":0}}')) <=> array('v', '{END}')"""

# A field without a name: in JSON, "" before a colon can be nothing else, but for the end of the name of {"a\"": 1}.
NAMELESS = r"""(?<=[{,/\\s])""\\s*:"""

# The text with a name for each field that has none.
NAMED = f"""if(contains(value, '""'), regexp_replace(value, '{NAMELESS}', '"{UNNAMED}":'), value)"""

# The text for schema inference: Spark leaves out an object without fields, but not a field that is null.
NOT_EMPTY = r"regexp_replace(value, '\\{\\s*\\}', 'null')"
SHOWN = f"if({FLAT}, value, {NOT_EMPTY})"

# Signs that a text has fields without a name, and that it has these or objects without fields. The first search is all
# that most texts need.
UNNAMED_IN = f"""(contains(value, '""') AND value RLIKE '{NAMELESS}')"""
SPECIAL = f"({UNNAMED_IN} OR value RLIKE '\\\\{{\\\\s*\\\\}}')"

# Signs of an encoding that no option names; NUL is no part of JSON text (RFC 4627, section 3).
NULS = "contains(value, CAST(X'00' AS STRING))"
BEGINS = {"UTF-32": "^(0000FEFF|000000..|FFFE0000)", "UTF-16BE": "^(FEFF|00..)", "UTF-16LE": "^(FFFE|..00)"}

# A text with bytes that are no UTF-8, or with an escaped half of a surrogate pair: once \\ is left out, no escape of a
# half is left beside the pairs. Spark would replace them in silence. Few texts have an escape at all.
PAIR = literal(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
HALF = literal(r"\\u[dD][89a-fA-F]")
UNPAIRED = f"regexp_replace(replace(value, {literal(chr(92) * 2)}, ' '), {PAIR}, '') RLIKE {HALF}"
UNSURE = f"(NOT is_valid_utf8(value) OR (contains(value, {literal(chr(92) + 'u')}) AND {UNPAIRED}))"

# Sign of objects one after another in a line.
JOINED = r"\\}[ \\t]*\\{"

# First bytes of a text that Spark's reader takes for UTF-16 or UTF-32, and its own functions for UTF-8.
HEAD = "hex(substr(CAST(value AS BINARY), 1, 4))"
NOT_UTF_8 = f"{HEAD} RLIKE '^(00(?!00)..|(?!00)..00|FEFF|FFFE|0000FEFF|000000(?!00)..)'"
