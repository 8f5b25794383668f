"""Files of weights: programs of torch.export (.pt2), safetensors files, files of torch.save and
files of ExecuTorch (.ptd), without PyTorch.
"""

from __future__ import annotations

from tenon._managed import Managed
from tenon._native import ffi, lib, new_struct
from tenon._options import number_of
from tenon._text import encoded
from tenon.archive import DURABILITIES, import_options, path_of
from tenon.error import call, given, key_errors, owned
from tenon.module import names_by
from tenon.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, SupportsIndex

    from tenon._options import Mode
    from tenon.archive import Check, Durability, Path, Tensors
    from tenon.arena import Arena


class Weights(Managed):
    """The weights of a file that open_weights opened, by their names. Nothing in the file is
    executed.

    with tenon.open_weights("net.pt2") as weights:
        print(weights.names())
        weights.replace("fc.weight", weight)
        weights.rewrite("new.pt2")  # torch.export.load runs it

    Tensors stay usable after close().
    """

    __slots__ = ()

    def __init__(self, pointer: Any) -> None:
        self._cdata = ffi.gc(pointer, lib.tenon_weights_release)

    def names(self) -> tuple[str, ...]:
        """The names of all weights in the order of the file."""
        return names_by(lib.tenon_weights_names, self._own())

    def __getitem__(self, name: str) -> Any:
        """The weight as a tenon.Tensor, or as a tenon.TensorSpec if a Tensor cannot express it.

        Weights that share a storage in the file share it in memory. After replace a weight has its
        new elements. Tensors that were taken before keep the old ones.
        """
        from tenon._from_value import Reader

        with key_errors():
            key = encoded(name, "the name")
            own = owned("tenon_value", lib.tenon_weights_tensor, self._own(), key)
        return Reader().read(own)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def replace(self, name: str, tensor: Any) -> None:
        """Replace the elements of a weight. The element type and the shape must be those of the
        weight. The strides may be others. Weights that share a storage with this one change with
        it. The tensor's elements must not change before the last rewrite."""
        key, value = encoded(name, "the name"), Value(tensor)
        with key_errors():
            call(lib.tenon_weights_replace, self._own(), key, value._cdata)

    def rewrite(self, path: Path, *, durability: Durability = "none") -> None:
        """Write the file that was opened with the replaced weights in it. All other bytes stay as
        they are, except for checksums.

        Either the whole new file appears at path, or the old file stays. path may be the file that
        was opened.
        """
        number = number_of(DURABILITIES, durability, "durability")
        options = new_struct("tenon_weights_rewrite_options", durability=number)
        call(lib.tenon_weights_rewrite, self._own(), path_of(path), options)

    def _shown(self) -> str:
        return f" {list(self.names())}"


def open_weights(
    path: Path,
    *,
    tensors: Tensors = "map",
    check: Check = "structure",
    arena: Arena | None = None,
    mode: Mode = "shared",
    device: SupportsIndex = 0,
    device_map: Mapping[str, str] | None = None,
    max_inflated_nbytes: int = 0,
    max_records: int = 0,
    max_depth: int = 0,
) -> Weights:
    """Open a program that torch.export saved (.pt2), a safetensors file, a file of torch.save, or a
    file of ExecuTorch's weights (.ptd). A .ptd file can be read and not rewritten.

    The options are those of import_module. With tensors="map" the tensors are read-only views of
    the file, which must not be changed while they are in use. The file may be replaced by a rename.
    """
    limits = max_inflated_nbytes, max_records, max_depth
    options = import_options(tensors, check, arena, mode, device, device_map, *limits)
    return Weights(given("tenon_weights *", lib.tenon_open_weights, path_of(path), options.cdata))
