"""Grouping of sample files and folders into tables."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sluicegate.definition.fields import name_fault
from sluicegate.errors import SourceError, UserError, Where
from sluicegate.landing.file_names import COMPANION_NAME, UNFINISHED_NAME
from sluicegate.settings import demand_supported_store
from sluicegate.tools.scaffold.naming import table_name
from sluicegate.tools.scaffold.readings import NUMBERS, usual_kind
from sluicegate.tools.scaffold.sniff import FileSample, sniff
from sluicegate.tools.scaffold.table import NewTable, make_table

SAMPLED = 100
"""Most files of a folder that are sampled, for each suffix."""


@dataclass
class _Group:
    """Similar files: of one format and shape, and of one folder unless a person puts them together."""

    samples: list[FileSample] = field(default_factory=list)
    unsampled_files: list[Path] = field(default_factory=list)

    @property
    def files(self) -> list[Path]:
        return [*(sample.path for sample in self.samples), *self.unsampled_files]

    @property
    def folder(self) -> Path:
        return self.samples[0].path.parent

    def is_like(self, sample: FileSample) -> bool:
        """Whether a file is like the group's first."""
        first = self.samples[0]
        options = ("sep", "header", "skipRows") if sample.format == "csv" else ("multiLine",)
        if sample.format != first.format or any(
            sample.options.get(name) != first.options.get(name) for name in options
        ):
            return False
        if sample.records != first.records:
            return False
        if sample.options.get("header") == "false":
            return _have_equal_types(first, sample)
        mine, other = {*first.columns}, {*sample.columns}
        return 2 * len(mine & other) >= len(mine | other)


def _have_equal_types(one: FileSample, other: FileSample) -> bool:
    """Whether the columns of two files, which have no names, have the same types by their first rows."""
    kinds = [[usual_kind(column) for column in zip(*sample.rows, strict=True)] for sample in (one, other)]
    return len(one.columns) == len(other.columns) and all(
        mine == its or None in (mine, its) or {mine, its} <= {*NUMBERS} for mine, its in zip(*kinds, strict=False)
    )


def tables(sources: Sequence[str], header: bool | None = None) -> list[NewTable]:
    """Tables that files make.

    Args:
        sources: files and folders, each as ``PATH`` or ``TABLE=PATH``.
        header: whether CSV files have a header; None to guess for each.

    Raises:
        SourceError: a file cannot be read, is empty, or of no known format.
        UserError: there is no such file, a name cannot be that of a table, or two tables would have one name.
    """
    sources_by_name: dict[str | None, list[Path]] = {}
    folders: set[Path] = set()
    for name, path in map(_split, sources):
        sources_by_name.setdefault(name, []).extend(_files(path))
        if path.is_dir():
            folders |= {path}
    new_tables: list[NewTable] = []
    for name, files in sources_by_name.items():
        files = list(dict.fromkeys(files))
        groups = _groups([files], header) if name else _groups(_group_by_folder(files), header)
        if name and len(groups) > 1:
            listed = "; ".join(", ".join(file.name for file in group.files[:2]) for group in groups)
            message = f"the files of {name} have {len(groups)} different structures, but form one table"
            raise UserError(message, cause=listed, hint="assign the files to tables: TABLE=FILE")
        for group in groups:
            _share_options(group)
            alone = [other.folder for other in groups].count(group.folder) == 1
            of_folder = alone and any(group.folder.is_relative_to(folder) for folder in folders)
            new_tables.append(make_table(name or _name(group, of_folder=of_folder), group.samples, group.files))
    _demand_unique_names(new_tables)
    return new_tables


def _split(source: str) -> tuple[str | None, Path]:
    """Table name, if one is given, and path."""
    match = re.fullmatch(r"(\w+)=(.+)", source, re.DOTALL)
    demand_supported_store(source)
    if match is None or Path(source).exists():
        return None, Path(source).absolute()
    if fault := _table_fault(match[1]):
        raise UserError(fault, hint="for example orders=data/orders.csv")
    demand_supported_store(match[2])
    return match[1], Path(match[2]).absolute()


def _table_fault(name: str) -> str:
    if fault := name_fault(name):
        return fault
    ending = next((ending for ending in ("_quarantine", "_deidentified") if name.endswith(ending)), "")
    if ending:
        return f"{name} is not a valid table name: it ends in {ending}"
    return ""


def _files(path: Path) -> list[Path]:
    """File at a path, or all files in the folder there."""
    if path.is_dir():
        files = sorted(_readable_files(path))
        if not files:
            raise SourceError(f"no files in {path}", where=Where(file=str(path)), hint="give a file")
        return files
    if not path.is_file():
        raise SourceError(f"file {path} not found", where=Where(file=str(path)), hint="give a file or a folder")
    return [path]


def _groups(places: Iterable[list[Path]], header: bool | None) -> list[_Group]:
    """Files of some folders in groups of similar ones."""
    groups: list[_Group] = []
    for files in places:
        folder_groups: list[_Group] = []
        for sample in _settle_headers([sniff(file, header) for file in files[:SAMPLED]]):
            group = next((group for group in folder_groups if group.is_like(sample)), None)
            if group is None:
                folder_groups.append(group := _Group())
            group.samples.append(sample)
        if len(files) > SAMPLED and len(folder_groups) > 1:
            folder = files[0].parent
            message = (
                f"{folder} has {len(files):,} files; the first {SAMPLED} have {len(folder_groups)} different structures"
            )
            raise UserError(
                message, where=Where(file=str(folder)), hint="move the files of each table to a separate folder"
            )
        folder_groups[0].unsampled_files += files[SAMPLED:]
        groups += folder_groups
    return groups


def _settle_headers(samples: list[FileSample]) -> list[FileSample]:
    """Samples of files of one folder: where a header is in doubt, one that another file has is one here too."""
    header_columns = [sample.columns for sample in samples if sample.options.get("header") == "true"]
    headed = [sniff(sample.path, header=True) if sample.doubt else sample for sample in samples]
    return [
        headed_sample if headed_sample.columns in header_columns else sample
        for sample, headed_sample in zip(samples, headed, strict=True)
    ]


def _readable_files(folder: Path) -> Iterator[Path]:
    """Files in and below a folder that bronze would read: neither hidden nor unfinished, nor laid beside others."""
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_file() and not UNFINISHED_NAME.search(name) and not COMPANION_NAME.search(name):
            yield path


def _group_by_folder(files: Sequence[Path]) -> list[list[Path]]:
    """Files by folder and suffix."""
    groups: dict[tuple[Path, str], list[Path]] = {}
    for file in files:
        ending = re.sub(r"\.(gz|bz2|xz|zst|zip)$", "", file.name.lower())
        groups.setdefault((file.parent, Path(ending).suffix), []).append(file)
    return list(groups.values())


def _share_options(group: _Group) -> None:
    """Give all samples of a group the options that any of its files needs: one table reads them all."""
    options: dict[str, str] = {}
    for sample in group.samples:
        other = sample.options.get("encoding")
        if options.setdefault("encoding", other or "") != (other or ""):
            hint = "convert all of them to UTF-8"
            raise SourceError(f"{sample.path.name} is in another encoding than {group.samples[0].path.name}", hint=hint)
    for sample in group.samples:
        options |= sample.options
    for sample in group.samples:
        sample.options.update({name: value for name, value in options.items() if value})


def _name(group: _Group, *, of_folder: bool) -> str:
    """Table name: that of its folder or its one file, or the common prefix of its file names."""
    stems = [re.sub(r"(\.[A-Za-z0-9]{1,8}){1,2}$", "", file.name) for file in group.files]
    by_files = table_name(stems[0] if len(stems) == 1 else _common_prefix(stems))
    by_folder = table_name(group.folder.name)
    if of_folder:
        name = by_folder or by_files
    else:
        name = by_files or by_folder
    if not name:
        first = group.files[0]
        hint = f"name it: TABLE={first}"
        raise UserError(f"no table name can be derived from {first.name}", where=Where(file=str(first)), hint=hint)
    return name


def _common_prefix(stems: Sequence[str]) -> str:
    """Common prefix of names, without a trailing number or half a word."""
    same = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*stems, strict=False))
    return re.sub(r"[\W\d_]+$", "", "".join(letters[0] for letters in same))


def _demand_unique_names(tables_made: Sequence[NewTable]) -> None:
    """Refuse two tables with one name, in different layers too."""
    first: dict[str, NewTable] = {}
    for table in tables_made:
        for name in (table.name, table.bronze):
            other = first.setdefault(name, table)
            if other is not table:
                files = f"{other.files[0]} and {table.files[0]}"
                hint = f"give one of them another name: TABLE={table.files[0]}"
                raise UserError(f"duplicate table name {name}", cause=f"derived from {files}", hint=hint)
