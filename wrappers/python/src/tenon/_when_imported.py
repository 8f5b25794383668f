"""Calls a function once another module has been imported, without importing that module. _mp_hook
and tenon.torch use it.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


class _Finder:
    """Waits in sys.meta_path for the import of one module, and removes itself when that import
    comes.
    """

    def __init__(self, name: str, call: Callable[[Any], None]) -> None:
        self._name = name
        self._call = call

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                _call_after(spec.loader, self._call)
                return spec
        return None


def _call_after(loader: Any, call: Callable[[Any], None]) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        del loader.exec_module
        execute(module)
        call(module)

    loader.exec_module = exec_module


def when_imported(name: str, last_attribute: str, call: Callable[[Any], None]) -> None:
    """Call `call` with the module. It is called at once if the module is imported completely, which
    its last attribute shows, and else after its import.
    """
    module = sys.modules.get(name)
    if module is None:
        sys.meta_path.insert(0, _Finder(name, call))
    elif hasattr(module, last_attribute):
        call(module)
