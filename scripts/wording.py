"""Lists phrases of messages and pages that readers stumbled over, for a review: ``python -m scripts.wording``.

The list is a help for whoever edits texts, and no check fails by it. With ``--messages`` it prints every message of the
package instead, each with its file and line, to be read at once.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Each phrase as a pattern, and what to write instead.
PHRASES = {
    r"judged? again|evaluated anew": "re-evaluated",
    r"appl(?:y|ied|ies) again": "reprocess",
    r"made (?:again|anew)|(?<!`)makes? (?:\S+ ){1,4}(?:again|anew)": "recomputed, rebuilt, a full refresh",
    r"anew": "from scratch, or again",
    r"told": "reported, shown, listed",
    r"tells? of": "reports, names, has",
    r"fates?": "action",
    r"becomes? of|became of": "what happens to, the status of",
    r"taken over|takes over": "imported",
    r"take (?:it |the \w+ )?away|taken away": "remove",
    r"[Aa]sk(?:s|ed|ing)? the tables": "query the tables",
    r"rows? (?:would )?(?:came|went)": "inserted, deleted",
    r"[Aa]dds? up(?! to\b)": "reconciles",
    r"that is none|what is no column": "name the thing",
    r"is no (?!longer\b|more\b)\w+": "is not a, or: unknown, invalid",
    r"[Tt]here (?:is|are) no": "unknown, missing, not found",
    r"stands? (?:twice|in|behind|beside|alone|by itself)": "duplicate; is in, follows",
    r"goes? with(?:out)?|go together": "requires, cannot be combined with",
    r"behind (?:the|it|its|a|FROM|JOIN)": "after",
    r"of such": "of these",
    r"a field more": "one more field",
    r"no counterpart": "no equivalent, not available",
    r"definition is right": "pipeline.yaml is valid",
    r"is to become": "say what is done",
    r"Who (?:comes|knows|wants)": "If you come",
    r"late \w+ is not too late": "late-arriving",
    r"so it is with": "the same holds for",
    r"go(?:es)? on behind": "continue after",
    r"a commit (?:each|a chunk)": "one commit for each ledger batch",
    r"says? otherwise": "name the option, or the default",
    r"to be had": "available",
    r"lost the place": "the progress is lost",
    r"mends? itself": "repairs itself",
    r"What stands": "name the thing",
    r"no more than chance": "noise",
}
_PATTERN = re.compile("|".join(rf"\b(?:{phrase})\b" for phrase in PHRASES))

# They quote what is not to be written, or are made by a program.
_NOT_REVIEWED = {"docs/glossary.md", "docs/bench/README.md", "CHANGELOG.md"}
_FOLDERS = ("docs", "pipelines", "data", "examples")


@dataclass(frozen=True)
class Message:
    """A text that the package can show.

    Attributes:
        line: line of the module that the text begins on, counted from 1.
        text: the text, with the source of each computed part in braces.
        template: the text, with empty braces for each computed part.
    """

    line: int
    text: str
    template: str


def messages(source: str) -> list[Message]:
    """Return the texts of a module that are not docstrings, in the order of the source."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)
    } - {id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)}  # fmt: skip
    texts = {
        (node.lineno, node.col_offset): Message(node.lineno, _text(node), _template(node))
        for node in ast.walk(tree)
        if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in docstrings | parts
    }
    return [texts[place] for place in sorted(texts) if texts[place].text]


def phrases(text: str) -> list[str]:
    """Return the phrases of a text that deserve a review, each with some words around it."""
    line = " ".join(text.split())
    return [line[max(0, match.start() - 40) : match.end() + 30] for match in _PATTERN.finditer(line)]


def pages() -> Iterator[Path]:
    """Yield the documents that people read, without those that quote such phrases."""
    files = [*sorted(ROOT.glob("*.md")), *(file for name in _FOLDERS for file in sorted((ROOT / name).rglob("*.md")))]
    yield from (file for file in files if file.relative_to(ROOT).as_posix() not in _NOT_REVIEWED)


def main(arguments: list[str] | None = None) -> None:
    """Print the list; the exit code is 0 whatever it contains."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--messages", action="store_true", help="print every message of the package instead")
    chosen = parser.parse_args(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a text may have half of a surrogate pair
    count = 0
    for file in sorted((ROOT / "sluicegate").rglob("*.py")):
        for message in messages(file.read_text(encoding="utf-8")):
            if chosen.messages or phrases(message.text):
                print(f"{file.relative_to(ROOT)}:{message.line}: {' '.join(message.text.split())}")
                count += 1
    if chosen.messages:
        print(f"{count:,} messages")
        return
    for page in pages():
        for phrase in phrases(page.read_text(encoding="utf-8")):
            print(f"{page.relative_to(ROOT)}: … {phrase} …")
            count += 1
    print(f"{count:,} texts to review")


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    """Return a text of three words and more; shorter ones are names, keys and units."""
    if isinstance(node, ast.JoinedStr):
        text = "".join(
            f"{{{ast.unparse(part.value)}}}" if isinstance(part, ast.FormattedValue) else ast.literal_eval(part)
            for part in node.values
        )
    else:
        text = node.value if isinstance(node.value, str) else ""
    return text if len(text.split()) > 2 else ""


def _template(node: ast.Constant | ast.JoinedStr) -> str:
    """Return a text with empty braces for each computed part, whatever its source is."""
    if isinstance(node, ast.JoinedStr):
        return "".join("{}" if isinstance(part, ast.FormattedValue) else ast.literal_eval(part) for part in node.values)
    if isinstance(node.value, str):
        return node.value
    return ""


if __name__ == "__main__":
    main()
