"""Arrow without pandas, which it imports for the first list that it converts: half of what a run's command imports."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def without_pandas() -> None:
    """Have Arrow look for pandas while there is none, if it is ever imported in this process.

    Only for a process that runs no code of users: what converts to pandas imports it as before, but a pandas object is
    not known by Arrow as such until then.
    """
    if not {"pandas", "pyarrow"} & sys.modules.keys():
        sys.meta_path.insert(0, _ArrowFinder())


class _ArrowFinder(MetaPathFinder):
    """Finds Arrow once, for a loader that follows its import with the search for pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "pyarrow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _ArrowLoader(spec.loader)
        return spec


class _ArrowLoader(Loader):
    """Loads Arrow by its own loader."""

    def __init__(self, own: Loader) -> None:
        self._own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._own.create_module(spec)

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._own
        self._own.exec_module(module)
        if "pandas" in sys.modules:
            return
        pandas_finder = _NoPandas()
        sys.meta_path.insert(0, pandas_finder)
        try:
            module.array([])
        finally:
            sys.meta_path.remove(pandas_finder)


class _NoPandas(MetaPathFinder):
    """Finds that there is no pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("left out", name=name)
