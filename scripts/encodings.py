"""Write the table of encodings that Java knows: ``python -m scripts.encodings``, with Java 17."""

from __future__ import annotations

import codecs
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sluicegate.definition.encodings import CHARACTERS, TABLE, UNREADABLE

# Prints each charset: its name, its aliases, and the character of each single byte, or -1 (a lead byte) or -2 (none).
PROGRAM = """
import java.nio.*; import java.nio.charset.*;
public class Encodings { public static void main(String[] given) throws Exception {
  for (Charset set : Charset.availableCharsets().values()) {
    StringBuilder cells = new StringBuilder();
    for (int b = 0; b < 256; b++) {
      CharsetDecoder decoder = set.newDecoder().onMalformedInput(CodingErrorAction.REPORT)
        .onUnmappableCharacter(CodingErrorAction.REPORT);
      int cell = -1;
      try {
        CharBuffer text = decoder.decode(ByteBuffer.wrap(new byte[] {(byte) b}));
        if (text.length() == 1) cell = text.charAt(0);
      } catch (UnmappableCharacterException none) { cell = -2; } catch (MalformedInputException lead) { }
      cells.append(b == 0 ? "" : " ").append(cell);
    }
    System.out.println(set.name() + "\\t" + String.join(" ", set.aliases()) + "\\t" + cells);
  } } }
"""

# Encodings that differ from another one in their byte order mark alone, which is looked at in any case.
WITH_BOM = {"x-UTF-16LE-BOM": "utf-16", "X-UTF-32BE-BOM": "utf-32", "X-UTF-32LE-BOM": "utf-32"}

HEAD = (
    "# Encodings of Java 17: name, other names, and how Python decodes them: a codec, = and the 256 characters of\n"
    "# one byte each (fffe: none), or - where it cannot. Written by scripts/encodings.py.\n"
)

LEAD, NONE = -1, -2


def main() -> None:
    """Writes the table."""
    TABLE.write_text(HEAD + "".join(f"{line}\n" for line in lines()), "utf-8")


def lines() -> Iterator[str]:
    """Lines of the table."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "Encodings.java"
        source.write_text(PROGRAM, "utf-8")
        printed = subprocess.run(["java", str(source)], capture_output=True, text=True, check=True).stdout
    for line in printed.splitlines():
        name, aliases, cells = line.split("\t")
        yield f"{name}\t{aliases}\t{python_codec(name, aliases.split(), [int(cell) for cell in cells.split()])}"


def python_codec(name: str, aliases: list[str], cells: list[int]) -> str:
    """How Python decodes an encoding."""
    codec = WITH_BOM.get(name, "") or next(filter(None, map(codec_of, (name, *aliases))), "")
    if LEAD in cells or name == "US-ASCII":
        return codec or UNREADABLE
    characters = [0xFFFE if cell == NONE else cell for cell in cells]
    if codec and characters == [decode_byte(byte, codec) for byte in range(256)]:
        return codec
    return CHARACTERS + "".join(f"{character:04x}" for character in characters)


def codec_of(name: str) -> str:
    """Python's codec of a name; empty if there is none."""
    try:
        return codecs.lookup(name).name
    except LookupError:
        return ""


def decode_byte(byte: int, codec: str) -> int:
    """Character of a byte; U+FFFE for none."""
    try:
        return ord(bytes([byte]).decode(codec))
    except UnicodeDecodeError:
        return 0xFFFE


if __name__ == "__main__":
    main()
