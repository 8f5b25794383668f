"""torch.multiprocessing with Tenon's sharing strategy. Write `import tenon.torch.multiprocessing as
mp` in its place.

Importing this module calls tenon.torch.install(). Every name is torch.multiprocessing's own.
"""

from __future__ import annotations

from tenon.torch._exchange import require_torch
from tenon.torch._strategy import install

require_torch()

import torch.multiprocessing as _torch  # noqa: E402 (after the look, which says what is missing)
from torch.multiprocessing import *  # noqa: E402, F403

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = list(_torch.__all__)

install()


def __getattr__(name: str) -> Any:
    return getattr(_torch, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_torch)})
