"""Power cuts, by what an ext4 has on its disk at a moment: its image, copied then and mounted again. Needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate.lake import layout, tables
from sluicegate.lake.damage import damages, whole
from sluicegate.lake.damage.set_aside import set_aside_damaged
from sluicegate.storage import durable
from tests.unit.landing.moves.test_clean_source import Landed
from tests.unit.landing.test_file_status import NAME

pytestmark = pytest.mark.unit


class Disk:
    """An ext4 in a file."""

    def __init__(self, folder: Path) -> None:
        self.image, self.folder = folder / "disk.img", folder / "disk"
        self.folder.mkdir()
        with self.image.open("wb") as image:
            image.truncate(32 * 1024 * 1024)
        self._run("mkfs.ext4", "-q", str(self.image))
        self._mount()

    def _run(self, *command: str) -> None:
        subprocess.run(command, check=True, capture_output=True)

    def _mount(self) -> None:
        self._run("mount", "-o", "loop", str(self.image), str(self.folder))

    def unmount(self) -> None:
        self._run("umount", str(self.folder))

    def lose_power(self, folder: Path) -> None:
        """Loses what is not on the disk at the moment at which the journal has all names, as it has after some seconds.

        Args:
            folder: a folder on the disk; its fsync is what commits the journal.
        """
        opened = os.open(folder, os.O_RDONLY)
        os.fsync(opened)
        os.close(opened)
        left = self.image.with_suffix(".left")
        shutil.copyfile(self.image, left)
        self.unmount()
        left.replace(self.image)
        self._mount()
        whole._whole.clear()  # another process reads what was left


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    try:
        made = Disk(tmp_path)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    yield made
    made.unmount()


def landed_on(disk: Disk, tmp_path: Path, *, same: bool) -> Landed:
    """A landing folder on the disk of the lake, or on another."""
    landed = Landed(disk.folder if same else tmp_path)
    landed.at = landed.place.at = layout.Lake(str(disk.folder / "lake"), "power")
    return landed


def read_of(landed: Landed) -> list[str]:
    """Names of the files whose rows are in bronze, one for each row."""
    bronze = tables.delta_table(landed.at.table("bronze", NAME))
    rows = [] if bronze is None else bronze.to_pyarrow_table()["source_file"].to_pylist()
    return sorted(path.rsplit("/", 1)[-1] for path in rows)


@pytest.mark.parametrize("same", [True, False], ids=["one disk", "landing on another disk"])
def test_rows_of_a_file_that_was_taken_away_outlive_a_power_cut(disk: Disk, tmp_path: Path, same: bool) -> None:
    landed = landed_on(disk, tmp_path, same=same)
    landed.take("a.json")
    assert landed.clean().removed == 1
    landed.take("b.json")
    assert landed.clean().removed == 1
    disk.lose_power(disk.folder)
    assert [path.name for path in landed.place.folder.iterdir()] == []
    set_aside_damaged(landed.at, lambda _: None)
    assert read_of(landed) == ["a.json", "b.json"]
    assert landed.place.enter().new.num_rows == 0


@pytest.mark.parametrize("before", [True, False], ids=["a later run", "the first run"])
def test_what_a_power_cut_empties_is_read_again_from_landing(disk: Disk, tmp_path: Path, before: bool) -> None:
    landed = landed_on(disk, tmp_path, same=True)
    if before:
        landed.place.table = landed.place.table.model_copy(update={"cleanSource": "OFF"})
        landed.place.land("a.json")
        landed.place.enter()
        landed.place.take(marked=True)
        durable.sync_file_systems([str(disk.folder)])
    landed.place.land("b.json", "b", seconds=1)
    durable.sync_file_systems([str(disk.folder)])
    landed.place.enter()
    landed.place.take(marked=True)
    disk.lose_power(disk.folder)
    ledger = Path(landed.at.ledger(NAME))
    assert damages.entry_of(ledger, damages.newest_version(ledger)).stat().st_size == 0
    told = list[str]()
    set_aside_damaged(landed.at, told.append)
    assert told
    assert read_of(landed) == (["a.json"] if before else [])
    assert landed.place.enter().new["path"].to_pylist() == [str(landed.place.folder / "b.json")]
    landed.place.take(marked=True)
    assert read_of(landed) == (["a.json", "b.json"] if before else ["b.json"])
