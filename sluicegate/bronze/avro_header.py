"""Header of an Avro file, which has the schema of its records.

The container's layout: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

from typing import IO

MAGIC = b"Obj\x01"

# Spark's own reader of Avro files. Spark 4 has it among its SQL classes, and only the short name "avro" would need the
# spark-avro jar, which there is none of for every Spark.
PROVIDER = "org.apache.spark.sql.avro.AvroFileFormat"

# No header is larger: a length beyond it is read from a file that is no Avro.
LARGEST = 1 << 24


def schema(file: IO[bytes]) -> str:
    """Return the writer schema of an Avro file, as the JSON text in its header.

    Raises:
        ValueError: the file is not Avro, or is truncated within its header.
    """
    if _read_exactly(file, len(MAGIC)) != MAGIC:
        raise ValueError("it does not start with the magic bytes of Avro")
    while count := _read_long(file):
        if count < 0:  # the length of the block in bytes follows
            count = -count
            _read_long(file)
        for _ in range(count):
            key, value = _read_bytes(file), _read_bytes(file)
            if key == b"avro.schema":
                return value.decode()
    raise ValueError("its header has no schema")


def _read_bytes(file: IO[bytes]) -> bytes:
    return _read_exactly(file, _read_long(file))


def _read_long(file: IO[bytes]) -> int:
    """Read a number in Avro's encoding: seven bits a byte, lowest first, zigzag for the sign."""
    number = shift = 0
    while shift < 64:
        byte = _read_exactly(file, 1)[0]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)
        shift += 7
    raise ValueError("its header has an unterminated number")


def _read_exactly(file: IO[bytes], size: int) -> bytes:
    if not 0 <= size <= LARGEST:
        raise ValueError("its header is damaged")
    data = file.read(size)
    if len(data) < size:
        raise ValueError("it is truncated within its header")
    return data
