"""Writes the messages of each package into ``tests/unit/PACKAGE/messages.txt``: ``python -m scripts.messages``.

A message is a text in the code that is mostly words: an error, its cause and hint, a remark, a help text. A test
compares the files with the code, so a changed text is reviewed as a diff of them, and no other test has to hold
its words.
"""

from __future__ import annotations

import re
from pathlib import Path

from scripts.wording import ROOT, messages

SOURCES = ROOT / "sluicegate"
GOLDEN = ROOT / "tests" / "unit"

# Fewer words than these are a name, a unit or a part of a query.
WORDS = 2
_WORD = re.compile(r"[`'\"(]*[A-Za-z]?[a-z]+(?:[-'][a-z]+)*[`'\").,:;!?…]*")


def golden_files() -> dict[Path, str]:
    """Return the content of each golden file, by its path; modules outside of packages share one."""
    files: dict[Path, list[str]] = {}
    for module in sorted(SOURCES.rglob("*.py")):
        texts = module_messages(module.read_text(encoding="utf-8"))
        if not texts:
            continue
        path = module.relative_to(SOURCES)
        golden = GOLDEN.joinpath(*path.parts[:1] if len(path.parts) > 1 else (), "messages.txt")
        files.setdefault(golden, []).append("\n".join([f"# {path.as_posix()}", *texts]))
    return {golden: "\n\n".join(modules) + "\n" for golden, modules in files.items()}


def module_messages(source: str) -> list[str]:
    """Return the messages of a module, one line each, in the order of the source; computed parts are empty braces."""
    templates = (" ".join(message.template.split()) for message in messages(source))
    return [template.encode("utf-8", "backslashreplace").decode() for template in templates if is_message(template)]


def is_message(template: str) -> bool:
    """Return whether most of a text are words, at least ``WORDS``: SQL, patterns and lists of names are none."""
    parts = [part for part in template.split() if part != "{}"]
    words = [part for part in parts if _WORD.fullmatch(part)]
    return len(words) >= WORDS and 2 * len(words) > len(parts)


def main() -> None:
    """Write the golden files, and remove those of packages without messages."""
    files = golden_files()
    for golden, content in files.items():
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(content, encoding="utf-8")
    for golden in set(GOLDEN.rglob("messages.txt")) - files.keys():
        golden.unlink()


if __name__ == "__main__":
    main()
