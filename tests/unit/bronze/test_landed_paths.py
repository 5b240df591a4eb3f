"""Names of landed files as Spark has them; no Spark."""

from __future__ import annotations

import random

import pytest

from sluicegate.bronze import landed_paths
from sluicegate.lake import layout

pytestmark = pytest.mark.unit

# Paths, and what java.net.URI makes of them.
URIS = {
    "/in/a.json": "file:/in/a.json",
    "/in/b c.json": "file:/in/b%20c.json",
    "/in/50%.json": "file:/in/50%25.json",
    "/in/h%20i.json": "file:/in/h%2520i.json",
    "/in/é漢😀.json": "file:/in/é漢😀.json",
    "/in/no\u00a0break.json": "file:/in/no%C2%A0break.json",
    "/in/wide\u3000blank.json": "file:/in/wide%E3%80%80blank.json",
    "/in/del\x7f.json": "file:/in/del%7F.json",
    '/in/[a]{b}|^`<>"#?\\': "file:/in/%5Ba%5D%7Bb%7D%7C%5E%60%3C%3E%22%23%3F%5C",
    "/in/it's;a:b@c&d=e+f$g,h!(i)*~.json": "file:/in/it's;a:b@c&d=e+f$g,h!(i)*~.json",
    "s3a://bucket/a b.json": "s3a://bucket/a%20b.json",
}


@pytest.mark.parametrize("path", URIS)
def test_a_file_is_named_as_spark_names_it(path: str) -> None:
    assert landed_paths.spark_uri(path) == URIS[path]


def test_the_path_of_a_file_is_known_by_its_uri() -> None:
    rng = random.Random(7)
    characters = [chr(code) for code in (*range(1, 0x180), 0x1680, 0x2003, 0x2028, 0x3000, 0x1F600) if code != 0x2F]
    for _ in range(500):
        path = "/in/" + "".join(rng.choices(characters, k=8))
        assert layout.to_ledger_path(landed_paths.spark_uri(path)) == path
