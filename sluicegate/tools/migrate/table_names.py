"""Resolution of table names in a source to addresses and to names here; two addresses never become one table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sluicegate.definition.fields import name_fault
from sluicegate.tools.scaffold.naming import table_name


class Ambiguous(ValueError):
    """Raised for a name that may mean several tables."""


@dataclass(frozen=True)
class SourceTables:
    """Tables that a source declares, and those that it reads and that are made elsewhere.

    Attributes:
        names: name here of each table, by its address in lower case.
        elsewhere: addresses of those that the source does not declare.
        means: address that a name resolves to, by reading dataset and name.
    """

    names: Mapping[str, str]
    elsewhere: Collection[str]
    means: Mapping[tuple[str, str], str]

    def resolve_name(self, reader: str, read: str) -> str:
        """Return the name of the table that a dataset reads by a name.

        Raises:
            Ambiguous: the name may mean several tables.
        """
        address = self.means[reader, read]
        if not address:
            raise Ambiguous(f"{read} is ambiguous in this source: qualify it with its schema")
        return self.names[address]


def addresses(declared: Iterable[str], reads: Collection[tuple[str, str]]) -> SourceTables:
    """Resolve the table names of a source.

    A name without a schema means the one declared table of that name. One with a schema never means a table that is
    declared without: that of ``silver.customers`` is another than that of ``customers``. One with a catalog means a
    table declared with its schema alone, unless the source reads several such, or the table reads its own namesake.

    Args:
        declared: addresses of all tables that the source declares, in its order.
        reads: address of each dataset with a name that it reads.
    """
    of_source = list(dict.fromkeys(declared))
    by_last: dict[str, list[str]] = defaultdict(list)
    for address in of_source:
        by_last[_last_part(address)].append(address)
    unrelated = _unrelated_names(by_last, reads)
    means: dict[tuple[str, str], str] = {}
    for reader, read in reads:
        matches = [
            candidate
            for candidate in by_last[_last_part(read)]
            if _is_same(candidate, read) and read not in unrelated and candidate != reader
        ]
        if read in of_source or not matches:
            means[reader, read] = read
        elif len(matches) == 1:
            means[reader, read] = matches[0]
        else:
            means[reader, read] = ""
    elsewhere = [address for address in dict.fromkeys(means.values()) if address and address not in of_source]
    return SourceTables(_names(of_source, elsewhere), elsewhere, means)


def _unrelated_names(by_last: Mapping[str, list[str]], reads: Collection[tuple[str, str]]) -> set[str]:
    """Return names with a schema that are not tables of the source, whatever their last part."""
    of_source = {address for same_last in by_last.values() for address in same_last}
    qualified = defaultdict(set)
    for _, read in reads:
        if "." in read and read not in of_source:
            qualified[_last_part(read)].add(read)
    read_elsewhere = {read for same_last in qualified.values() if len(same_last) > 1 for read in same_last}
    return read_elsewhere | {
        read
        for reader, read in reads
        if "." in read and read not in of_source and _last_part(reader) == _last_part(read)
    }


def _last_part(address: str) -> str:
    return address.rpartition(".")[2]


def _is_same(declared: str, read: str) -> bool:
    """Return whether a name may mean a declared table.

    One must be a suffix of the other, and a schema that the declared name lacks makes it another table.
    """
    if "." in read and "." not in declared:
        return False
    return f".{declared}".endswith(f".{read}") or f".{read}".endswith(f".{declared}")


def _names(of_source: Collection[str], elsewhere: Collection[str]) -> dict[str, str]:
    """Name each address by its last part, with its schema if that is ambiguous; if not declared, by all of it."""
    lasts = Counter(map(_last_part, (*of_source, *elsewhere)))
    shorts = Counter(_join_parts(address, 2) for address in (*of_source, *elsewhere))
    names: dict[str, str] = {}
    for number, address in enumerate((*of_source, *elsewhere), 1):
        parts = 2
        if address in elsewhere or shorts[_join_parts(address, 2)] > 1:
            parts = 9
        if address in of_source and lasts[_last_part(address)] == 1:
            name = _last_part(address)
        else:
            name = _join_parts(address, parts)
        if name_fault(name):
            name = table_name(name) or f"table_{number}"
        names[address] = unique_name(name, names.values())
    return names


def _join_parts(address: str, parts: int) -> str:
    return "_".join(address.split(".")[-parts:])


def unique_name(name: str, taken: Collection[str]) -> str:
    """Return a name that is not taken in any case, with a number at its end where the name itself is taken."""
    lower = {other.lower() for other in taken}
    candidate, count = name, 1
    while candidate.lower() in lower:
        count += 1
        candidate = f"{name}_{count}"
    return candidate
