"""Which trouble is a file's own, and which one passes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from sluicegate.bronze.unreadable_files import PASSING, find_unreadable

pytestmark = pytest.mark.unit

LOST = "Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited): Container killed by YARN"
BROKEN = (
    "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file a.json.gz.\nCaused by: java.io.EOFException: cut"
)


class Frame:
    """Files that Spark reads, but for those that make trouble."""

    def __init__(self, paths: Sequence[str], troubles: dict[str, str]) -> None:
        self.troubles = [troubles[path] for path in paths if path in troubles]

    @property
    def write(self) -> Frame:
        return self

    def format(self, _name: str) -> Frame:
        return self

    def mode(self, _name: str) -> Frame:
        return self

    def save(self) -> None:
        if self.troubles:
            raise PySparkException(self.troubles[0])


def found(paths: list[str], troubles: dict[str, str], **more: Any) -> dict[str, Any]:
    first = PySparkException(next(iter(troubles.values())))
    return find_unreadable(lambda some: Frame(some, troubles), paths, first, private=False, **more)


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    for name in "abcd":
        (tmp_path / name).write_text("x")
    return [str(tmp_path / name) for name in "abcd"]


def test_a_lost_executor_is_not_the_fate_of_the_one_file_of_a_chunk(paths: list[str]) -> None:
    with pytest.raises(PySparkException, match="ExecutorLostFailure"):
        found(paths[:1], {paths[0]: LOST})
    with pytest.raises(PySparkException, match="ExecutorLostFailure"):
        found(paths, dict.fromkeys(paths, LOST))


def test_a_file_that_alone_meets_passing_trouble_is_tried_again(paths: list[str]) -> None:
    failed = found(paths, {paths[2]: LOST})
    assert {path: again for path, (_, again) in failed.items()} == {paths[2]: True}


def test_a_file_that_is_tried_again_in_vain_keeps_no_newer_one_waiting(paths: list[str]) -> None:
    old, new, newer, _ = paths
    tried = {"tried": lambda: {old}}
    assert [again for _, again in found([old], {old: LOST}, **tried).values()] == [True]
    # Nor one that comes with it; which of them is to blame shows when the other can be read.
    assert {path: again for path, (_, again) in found([old, new], dict.fromkeys(paths, LOST), **tried).items()} == {
        old: True, new: True,
    }  # fmt: skip
    failed = found([old, new], {old: LOST, new: BROKEN}, **tried)
    assert {path: again for path, (_, again) in failed.items()} == {old: True, new: True}
    with pytest.raises(PySparkException, match="ExecutorLostFailure"):
        found([new, newer], dict.fromkeys(paths, LOST), **tried)


def test_what_newer_files_do_not_meet_is_no_trouble_of_the_machines(paths: list[str]) -> None:
    alone, newer, newest, _ = paths
    assert {p: a for p, (_, a) in found([alone], {alone: LOST}, others=[newer]).items()} == {alone: True}
    assert {p: a for p, (_, a) in found([alone], {alone: LOST, newer: LOST}, others=[newer, newest]).items()} == {
        alone: True
    }
    with pytest.raises(PySparkException, match="ExecutorLostFailure"):
        found([alone], dict.fromkeys(paths, LOST), others=[newer, newest])
    nameless = dict.fromkeys((alone, newer), "[INTERNAL_ERROR] of nothing that was read")
    with pytest.raises(PySparkException, match="of nothing"):
        found([alone, newer], nameless, others=[newest])


def test_a_broken_file_fails_for_good_alone_or_among_others(paths: list[str]) -> None:
    assert found(paths, {paths[1]: BROKEN}) == {paths[1]: ("EOFException: cut", False)}
    assert found(paths[:1], {paths[0]: BROKEN}) == {paths[0]: ("EOFException: cut", False)}


def test_a_broken_file_fails_though_all_others_meet_passing_trouble(paths: list[str]) -> None:
    failed = found(paths[:2], {paths[0]: BROKEN, paths[1]: LOST})
    assert {path: again for path, (_, again) in failed.items()} == {paths[0]: False, paths[1]: True}


@pytest.mark.parametrize("sign", PASSING)
def test_each_sign_of_passing_trouble_is_known(paths: list[str], sign: str) -> None:
    with pytest.raises(PySparkException):
        found(paths[:1], {paths[0]: f"Job aborted: {sign}: something"})
