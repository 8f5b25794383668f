"""As safetensors.numpy: whole files as arrays of numpy."""

from __future__ import annotations

from tenon.integrations.safetensors import _load_bytes, safe_open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tenon._text import Path

__all__ = ["load", "load_file"]


def load_file(filename: Path, **options: Any) -> dict[str, Any]:
    """All tensors of a file by their names. The options are those of safe_open, such as name."""
    with safe_open(filename, "numpy", **options) as file:
        return file.get_tensors()


def load(data: bytes) -> dict[str, Any]:
    """All tensors of a file that the program has as bytes."""
    return _load_bytes(data, "numpy")
