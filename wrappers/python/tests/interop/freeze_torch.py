"""Spares each process with PyTorch the collections of PyTorch's own objects.

conftest.py puts this file under the name sitecustomize.py into the folder that PYTHONPATH names, so
that each Python of the tests runs it first. Children of spawn run it too.

The end of an interpreter collects all objects. The objects of PyTorch take up to 0.5 seconds of CPU
time then, and cannot be freed. This file freezes what exists when the import of PyTorch ends. The
collector still looks at all that a test makes afterwards.
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
    """Waits in sys.meta_path for the import of PyTorch, and leaves when it comes."""

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
