"""What a definition says is shown in Airflow as text: its Markdown loads nothing and links nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from sluicegate.airflow.dags import doc_md
from sluicegate.airflow.markdown import escape_markdown
from tests.conftest import Workspace

pytestmark = pytest.mark.unit

PICTURE = "![px](http://127.0.0.1:9/px.png)"
HOSTILE = [
    PICTURE, "![a b](http://a/px.png)", "![a](//a/px.png)", "![a][1] \n\n[1]: //a/px.png", "[click][b]\n\n[b]: /c",
    "<img src=x>", "<http://a>", "www.a.example", "http://a", "me@a.example", "[x](javascript:alert(1))",
    "`a` ![px](http://a) `", "``` ![px](http://a)", "\x1b]8;;http://a\x07x",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("keep", ["", "\n"])
def test_no_text_becomes_a_link_or_a_picture(text: str, keep: str) -> None:
    html = MarkdownIt("gfm-like", {"html": True}).render(escape_markdown(text, keep))
    assert not [tag for tag in ("<a", "<img", "\x1b") if tag in html], html


def test_what_is_no_link_stays_as_it_was_written() -> None:
    text = "*Heart rates*, by device:\n\n- valid: a rate\n- **all** others [later]"
    assert escape_markdown(text, keep="\n") == text


def test_descriptions_and_comments_load_nothing(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.define(
        f'name: heart_rate\ndescription: "{PICTURE}"\n'
        f'bronze:\n  raw: {{path: "${{landing}}/raw", format: json, comment: "{PICTURE}"}}\n'
    )
    for page in (doc_md.describe_dag(workspace.definition), doc_md.describe_layer(workspace.definition, "bronze")):
        assert "<img" not in MarkdownIt("commonmark").render(page)
