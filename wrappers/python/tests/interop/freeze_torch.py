"""Spares each process with PyTorch the collections of PyTorch's own objects.

conftest.py puts this file under the name sitecustomize.py into the folder that PYTHONPATH names, so
that each Python of the tests runs it first. Children of spawn run it too.

Python collects all objects when the interpreter ends. For the objects of PyTorch that takes up to
0.5 seconds of CPU time, and frees nothing. This file freezes the objects that exist when the import
of PyTorch ends. The collector still looks at all later objects.
"""

from __future__ import annotations

import gc
import sys
from importlib.machinery import PathFinder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


class _Finder:
    """Waits in sys.meta_path for the import of PyTorch, and leaves sys.meta_path when that
    begins.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        loader: Any = spec and spec.loader
        if loader is not None:
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                gc.freeze()

            loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, _Finder())
