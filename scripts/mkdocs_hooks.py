"""Hooks of mkdocs for the documentation site: ``make site``.

The pages are written to be read in the repository as well. What the site needs besides is done while it is built: pages
and files outside of docs/ that pages link to become part of it, at the same paths; blocks under **Databricks** and
**Sluicegate** become tabs; pictures follow the site's theme; ``<details>`` may hold Markdown; and a page ends with the
words that people search for.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

from scripts.reference_text import slug

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
# A picture in two files, for light and dark pages, as Markdown and HTML have it.
PICTURE = re.compile(r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*<img alt="([^"]+)" src="([^"]+)">\s*</picture>')
LABELS = ("Databricks", "Sluicegate", "SQL", "Python")
_PAIR = rf"\*\*({'|'.join(LABELS)})\*\*\n\n((?:```\w*\n(?:.*\n)*?```\n\n?)+)"
TABS = re.compile(rf"(?:^{_PAIR}){{2,}}", re.MULTILINE)

# Pages that hold every word, and so are found too easily.
FULL_OF_WORDS = ("reference", "CHANGELOG", "design")

# README.md is the front page of the repository, as index.md is that of the site.
FRONT = {"README.md": "index.md"}


def on_config(config: Any) -> Any:
    """Gives headings the anchors that they have in the repository, and lists how-to pages that the nav does not."""
    config.mdx_configs["toc"]["slugify"] = lambda heading, separator: slug(heading)
    listed = set(_nav_pages(config.nav))
    missing = [page for page in sorted(f"howto/{file.name}" for file in DOCS.glob("howto/*.md")) if page not in listed]
    for section in config.nav if missing else ():
        if "How-to" in section:
            section["How-to"].append({"More": missing})
    return config


def _nav_pages(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for below in nav.values():
            yield from _nav_pages(below)
    else:
        for below in nav:
            yield from _nav_pages(below)


def on_files(files: Any, config: Any) -> Any:
    """Adds what pages link to and the nav lists outside of docs/, and what these pages link to in turn."""
    waiting = [file.src_uri for file in files if file.src_uri.endswith(".md")]
    waiting += [page for page in _nav_pages(config.nav) if not (DOCS / page).exists()]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        inside, outside = DOCS / name, ROOT / name
        if not inside.exists():
            files.append(File.generated(config, name, abs_src_path=str(outside)))
        if name.endswith(".md"):
            source = inside if inside.exists() else outside
            waiting += [place for _, place in targets(source) if place and not (DOCS / place).exists()]
    return files


def targets(page: Path) -> Iterator[tuple[str, str]]:
    """Links of a page to files, each with the path in the site that it leads to; an empty one leads to a folder."""
    for _, _, link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if not re.match(r"[a-z]+:|#", link):
            yield link, place_of((page.parent / link.partition("#")[0]).resolve())


def place_of(target: Path) -> str:
    """Path in the site of a file of the repository; empty for a folder without a page."""
    if target.is_dir():
        target = target / "README.md"
        if not target.exists():
            return ""
    place = target.relative_to(DOCS if target.is_relative_to(DOCS) else ROOT).as_posix()
    return FRONT.get(place, place)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Rewrites a page for the site."""
    name = page.file.src_uri
    source = DOCS / name if (DOCS / name).exists() else ROOT / name
    if name.startswith(FULL_OF_WORDS):
        page.meta["search"] = {"boost": 0.5}
    text = change_prose(markdown, lambda prose: LINK.sub(lambda link: _link(link, name, source), prose))
    text = PICTURE.sub(r"![\2](\3#only-light)![\2](\1#only-dark)", text)
    text = text.replace("<details>", "<details markdown>")
    text = TABS.sub(lambda found: tabs(found[0]), text)
    words = config.extra["synonyms"].get(name)
    return f"{text}\n\nAlso searched for as: {words}.\n{{ .synonyms }}\n" if words else text


def change_prose(text: str, change: Any) -> str:
    """The text with all but its blocks of code changed."""
    parts, at = [], 0
    for fence in FENCE.finditer(text):
        parts += [change(text[at : fence.start()]), fence[0]]
        at = fence.end()
    return "".join([*parts, change(text[at:])])


def _link(found: re.Match[str], name: str, source: Path) -> str:
    picture, text, link = found.groups()
    if re.match(r"[a-z]+:|#", link):
        return found[0]
    path, hash_, anchor = link.partition("#")
    place = place_of((source.parent / path).resolve())
    if not place:
        return str(text)
    return f"{picture}[{text}]({posixpath.relpath(place, posixpath.dirname(name) or '.')}{hash_}{anchor})"


def tabs(pairs: str) -> str:
    """Blocks under bold labels as tabs."""
    lines: list[str] = []
    for label, blocks in re.findall(_PAIR, pairs):
        lines += [f'=== "{label}"', "", *(f"    {line}".rstrip() for line in blocks.strip().splitlines()), ""]
    return "\n".join(lines) + "\n"
