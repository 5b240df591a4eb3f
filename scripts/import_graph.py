"""Which module of a package imports which, read from their source, the circles in this, and the size of folders.

Every import counts: those in functions, and those that only type checkers make.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

Imports = Mapping[str, set[str]]
"""Modules by their dotted names, each with those that it imports."""


def imports(folder: Path) -> Imports:
    """Read what each module below the folder of a package imports of that package."""
    files = {module_name(path, folder.parent): path for path in sorted(folder.rglob("*.py"))}
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        package = module
        if path.name != "__init__.py":
            package = module.rpartition(".")[0]
        targets = {containing_module(name, files) for name in imported_names(ast.parse(path.read_text()), package)}
        graph[module] = {target for target in targets if target not in ("", module)}
    return graph


def module_name(path: Path, root: Path) -> str:
    """Name a module as an import does."""
    parts = path.relative_to(root).with_suffix("").parts
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts)


def imported_names(tree: ast.Module, package: str) -> Iterator[str]:
    """Yield the dotted name of each import: of ``from a import b`` that is ``a.b``, a module or something in one."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                parts = [part for part in (ancestor(package, level), module) if part]
                yield from (".".join([*parts, name.name]) for name in names)


def ancestor(package: str, level: int) -> str:
    """Package that the dots of a relative import stand for; empty without dots."""
    if not level:
        return ""
    parts = package.split(".")
    return ".".join(parts[: len(parts) - level + 1])


def containing_module(name: str, modules: Mapping[str, Path]) -> str:
    """Find the module that a dotted name is, or is something in; empty if it is of another package."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def circles(graph: Imports) -> list[list[str]]:
    """Find the groups of modules of which each imports, directly or through others, every other one."""
    imported = {module: reachable_modules(module, graph) for module in graph}
    groups = {
        tuple(sorted(other for other in imported[module] if module in imported[other]))
        for module in graph
        if module in imported[module]
    }
    return sorted(map(list, groups))


def reachable_modules(module: str, graph: Imports) -> set[str]:
    """Find all modules that a module imports, directly or through others."""
    imported: set[str] = set()
    waiting = [module]
    while waiting:
        for target in graph[waiting.pop()]:
            if target not in imported:
                imported.add(target)
                waiting.append(target)
    return imported


def modules_by_folder(folder: Path) -> Counter[Path]:
    """Count the modules of each folder of a package, without ``__init__.py`` and ``__main__.py``."""
    paths = (path for path in folder.rglob("*.py") if not path.name.startswith("__"))
    return Counter(path.parent.relative_to(folder.parent) for path in paths)
