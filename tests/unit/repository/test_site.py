"""The documentation site has all pages, and what its hooks make of one is what a reader of the repository sees.

That it builds without a warning, so that each link and anchor leads somewhere, is held by ``make check``.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from scripts import mkdocs_hooks as hooks
from tests.conftest import ROOT

pytestmark = pytest.mark.unit

SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
DOCS = ROOT / "docs"


def config(nav: Any) -> SimpleNamespace:
    return SimpleNamespace(nav=nav, mdx_configs={"toc": {}}, extra={"synonyms": {"index.md": "medallion"}})


def rewritten(markdown: str, name: str = "howto/airflow.md") -> str:
    page = SimpleNamespace(file=SimpleNamespace(src_uri=name), meta={})
    return hooks.on_page_markdown(markdown, page, config([]), None)


def test_the_nav_lists_every_page_once() -> None:
    listed = list(hooks._nav_pages(SITE["nav"]))
    assert len(listed) == len(set(listed))
    assert [page for page in listed if not (DOCS / page).is_file() and not (ROOT / page).is_file()] == []
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    # A how-to that is not listed yet is put at the end.
    assert {page for page in pages - set(listed) if not page.startswith("howto/")} == set()


def test_a_how_to_that_the_nav_does_not_list_is_put_at_its_end() -> None:
    made = hooks.on_config(config([{"Start": "index.md"}, {"How-to": [{"Deploy": ["howto/airflow.md"]}]}]))
    more = made.nav[1]["How-to"][-1]["More"]
    assert "howto/catalog.md" in more
    assert "howto/airflow.md" not in more
    assert made.mdx_configs["toc"]["slugify"]("bronze.NAME, and more", "-") == "bronzename-and-more"


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[a](gold-tables.md#x)", "[a](gold-tables.md#x)"),
        ("[a](../limits.md)", "[a](../limits.md)"),
        ("[a](../../pipelines/retail/README.md)", "[a](../pipelines/retail/README.md)"),
        ("[a](../../pipelines/retail)", "[a](../pipelines/retail/README.md)"),
        ("[a](../../CONTRIBUTING.md#measure)", "[a](../CONTRIBUTING.md#measure)"),
        ("[a](../../README.md)", "[a](../index.md)"),
        ("[the cases](../../pipelines/retail/tests)", "the cases"),
        ("[a](https://example.org) [b](#here)", "[a](https://example.org) [b](#here)"),
        ("![a](../pictures/dag.png)", "![a](../pictures/dag.png)"),
    ],
)
def test_a_link_leads_to_the_same_page(link: str, shown: str) -> None:
    assert rewritten(link) == shown


def test_code_is_left_as_it_is() -> None:
    code = "```sql\nSELECT a[1](../../pipelines/retail/tests)\n```"
    assert rewritten(f"{code}\n\n[a](../../pipelines/retail/tests)") == f"{code}\n\na"


def test_blocks_under_two_names_become_tabs() -> None:
    theirs = "**Databricks**\n\n```sql\nA\n\nB\n```\n\n"
    ours = "**Sluicegate**\n\n```yaml\na: 1\n```\n\n```sql\nC\n```\n\n"
    assert rewritten(f"{theirs}{ours}And so on.\n") == (
        '=== "Databricks"\n\n    ```sql\n    A\n\n    B\n    ```\n\n'
        '=== "Sluicegate"\n\n    ```yaml\n    a: 1\n    ```\n\n    ```sql\n    C\n    ```\n\nAnd so on.\n'
    )
    alone = "**Databricks**\n\n```sql\nA\n```\n"
    assert rewritten(alone) == alone


def test_a_picture_follows_the_theme() -> None:
    assert rewritten((DOCS / "index.md").read_text(), "index.md").count("overview-") == 2
    assert "overview-dark.svg#only-dark)" in rewritten((DOCS / "index.md").read_text(), "index.md")


def test_a_page_ends_with_what_people_search_for() -> None:
    assert rewritten("Text.", "index.md") == "Text.\n\nAlso searched for as: medallion.\n{ .synonyms }\n"
    assert rewritten("Text.") == "Text."


def test_an_answer_to_unfold_may_hold_markdown() -> None:
    assert rewritten("<details><summary>Answer</summary>") == "<details markdown><summary>Answer</summary>"


def test_pages_with_every_word_are_found_after_the_others() -> None:
    def boost(name: str) -> Any:
        page = SimpleNamespace(file=SimpleNamespace(src_uri=name), meta={})
        hooks.on_page_markdown("Text.", page, config([]), None)
        return page.meta

    assert boost("reference/errors.md") == {"search": {"boost": 0.5}}
    assert boost("howto/airflow.md") == {}


def test_the_site_fetches_nothing_from_elsewhere() -> None:
    assert SITE["theme"]["font"] is False
    [worker] = SITE["extra"]["polyfills"]
    assert "iframe-worker" in worker  # by which the plugin knows that it need not fetch one
    assert "window.IFrameWorker" in (DOCS / worker).read_text()
