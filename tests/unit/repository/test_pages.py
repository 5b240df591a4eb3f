"""How pages are followed: what is taken for a step, and that a figure which is wrong would be seen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.pages import Person, Step, shows, steps

pytestmark = pytest.mark.unit

TUTORIAL = ROOT / "docs" / "tutorial"
PAGES = sorted(TUTORIAL.glob("[0-9]*.md"))

PAGE = """# A page

Begin here. Save this as `a/b.yaml`:

```yaml
name: b
```

```sh
sluicegate plan b
sluicegate plan c
```

```
error[SG202]: there is no pipeline c
```

```sql
SELECT 1
```

<details>

```python
print("1,000 rows in 2.5 s")
```

Which says:

```
1,000 rows in … s
```

</details>
"""


def test_the_steps_of_a_page_are_its_blocks_in_order() -> None:
    found = steps(PAGE)
    assert [step.kind for step in found] == ["save", "sh", "shows", "sql", "python", "shows"]
    assert found[0] == Step("save", "name: b\n", "a/b.yaml")
    assert [step.kind for step in found if step.fails] == ["sh"]


@pytest.mark.parametrize(
    ("shown", "said", "right"),
    [
        ("a  1\n", "a      1   \n", True),
        ("a 1\n", "a 2\n", False),
        ("a 1\n", "a 1\nb 2\n", False),
        ("a 1\n…\n", "a 1\nb 2\nc 3\n", True),
        ("…\nc 3\n", "a 1\nb 2\nc 3\n", True),
        ("…\nb 2\n", "a 1\nb 2\nc 3\n", False),
        ("a 1\nc 3\n", "a 1\nb 2\nc 3\n", False),
        ("took … s\n", "took 12.5 s\n", True),
        ("took … s, 3 rows\n", "took 12.5 s, 4 rows\n", False),
        ("took …\n", "took 1\n2\n", False),
        ("1.0 (a)\n", "1x0 (a)\n", False),
        ("a\n\nb\n", "a\nb\n", True),
    ],
)
def test_what_a_page_shows_is_compared_line_by_line(shown: str, said: str, right: bool) -> None:
    assert shows(shown, said) is right


@pytest.mark.parametrize(
    ("figure", "right"), [("1,000 rows in … s", True), ("1,001 rows in … s", False), ("1,000 rows", False)]
)
def test_a_page_with_a_wrong_figure_fails(tmp_path: Path, figure: str, right: bool) -> None:
    page = f'```python\nprint("1,000 rows in 2.5 s")\n```\n\n```\n{figure}\n```\n'
    if right:
        Person(tmp_path).follow(page)
        return
    with pytest.raises(AssertionError, match="the page shows"):
        Person(tmp_path).follow(page)


@pytest.mark.parametrize(
    "page",
    [
        "```python\nraise SystemExit(1)\n```\n",
        "```python\nprint(1)\n```\n\n```\nerror[SG100]: no\n```\n",
        "```\nfigures that nothing has said\n```\n",
        "```sh\nrm x\n```\n",
        "```sh\nrm -r ../elsewhere\n```\n",
        "```sh\npython missing.py\n```\n",
    ],
    ids=["fails", "does not fail", "nothing said", "another program", "another folder", "a file that is not there"],
)
def test_a_page_that_does_not_do_what_it_says_fails(tmp_path: Path, page: str) -> None:
    with pytest.raises(AssertionError):
        Person(tmp_path).follow(page)


def test_a_page_saves_files_and_shows_errors(tmp_path: Path) -> None:
    Person(tmp_path).follow(
        "Save this as `pipelines/b/pipeline.yaml`:\n\n```yaml\nname: c\n```\n\n"
        "```sh\nsluicegate plan b\n```\n\n```\nerror[SG201]: …\n…\n```\n"
    )
    assert (tmp_path / "pipelines" / "b" / "pipeline.yaml").read_text() == "name: c\n"


def test_a_page_runs_a_program_that_it_saved_and_removes_folders(tmp_path: Path) -> None:
    Person(tmp_path).follow(
        "Save this as `p.py`:\n\n```python\nimport os\nos.makedirs('a/b')\nprint('saved')\n```\n\n"
        "```sh\npython p.py\nrm -r a\npython p.py\n```\n\n```\nsaved\nsaved\n```\n"
    )
    assert (tmp_path / "a" / "b").is_dir()


# The tutorial


def test_the_tutorial_lists_its_pages_in_order() -> None:
    listed = re.findall(r"^\d\. \[([^]]+)\]\((\d[\w-]+\.md)\)", (TUTORIAL / "README.md").read_text(), re.MULTILINE)
    assert [name for _, name in listed] == [page.name for page in PAGES]
    for number, (title, name) in enumerate(listed, 1):
        assert (TUTORIAL / name).read_text().startswith(f"# {number}. {title}\n")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_of_the_tutorial_has_what_each_has(page: Path) -> None:
    text = page.read_text()
    for part in ("**What you will see.**", "**Why it matters.**", "[Begin in an empty folder](README.md#how-to-begin)"):
        assert part in text
    questions = text.partition("\n## Try it yourself\n")[2]
    answered = r"^\*\*(\d)\.\*\* .*?^<details><summary>Answer</summary>\n\n.*?^</details>$"
    asked = re.findall(answered, questions, re.MULTILINE | re.DOTALL)
    assert asked in (["1", "2"], ["1", "2", "3"])
    assert [step for step in steps(text) if step.kind == "shows" and step.text.strip() in ("", "…")] == []
