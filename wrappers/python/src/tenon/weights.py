"""Files of weights: programs of torch.export (.pt2), safetensors files and their indexes, files of
torch.save and torch.jit.save, of NumPy (.npy, .npz) and of ExecuTorch (.ptd), without PyTorch.
Processes can share the weights of a file by a name.
"""

from __future__ import annotations

from tenon._managed import Managed
from tenon._native import Struct, ffi, lib, new_struct
from tenon._options import flags, number_of, words
from tenon._text import encoded, texts
from tenon.archive import DURABILITIES, import_options, path_of
from tenon.error import call, given, key_errors, owned
from tenon.module import names_by
from tenon.value import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Literal, SupportsIndex

    from tenon._options import Mode
    from tenon.archive import Check, Durability, Path, Tensors
    from tenon.arena import Arena
    from tenon.shared_weights import Progress, SharedWeights
    from tenon.wait import Cancel


_FORMS = words("WEIGHTS", "safetensors torch_save npz")
_FORMS["torch"] = _FORMS.pop("torch_save")


class NamedWeights(Managed):
    """Weights by their names, with the functions of the C library that read them."""

    __slots__ = ()
    _names: Any
    _tensor: Any
    _value_names: Any
    _value: Any

    def names(self) -> tuple[str, ...]:
        """The names of all weights in the order of the file."""
        return names_by(self._names, self._own())

    def __getitem__(self, name: str) -> Any:
        """The weight as a tenon.Tensor, or as a tenon.TensorSpec if a Tensor cannot express it.

        Weights that share a storage in the file share it in memory. After replace a weight has its
        new elements. Tensors that were taken before keep the old ones.
        """
        return self._read(self._tensor, name)

    def value_names(self) -> tuple[str, ...]:
        """The names of the values that are no tensors, such as the numbers in a checkpoint."""
        return names_by(self._value_names, self._own())

    def value(self, name: str) -> Any:
        """A value that is no tensor."""
        return self._read(self._value, name)

    def _read(self, function: Any, name: str) -> Any:
        from tenon._from_value import Reader

        with key_errors():
            own = owned("tenon_value", function, self._own(), encoded(name, "the name"))
        return Reader().read(own)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def keys(self) -> tuple[str, ...]:
        """The names, so that dict(weights) has all weights."""
        return self.names()

    def _shown(self) -> str:
        return f" {list(self.names())}"


class Weights(NamedWeights):
    """The weights of a file that open_weights opened, by their names. Nothing in the file is
    executed.

    with tenon.open_weights("net.pt2") as weights:
        print(weights.names())
        weights.replace("fc.weight", weight)
        weights.rewrite("new.pt2")  # torch.export.load runs it

    Tensors stay usable after close().
    """

    __slots__ = ()
    _names = lib.tenon_weights_names
    _tensor = lib.tenon_weights_tensor
    _value_names = lib.tenon_weights_value_names
    _value = lib.tenon_weights_value

    def __init__(self, pointer: Any) -> None:
        self._cdata = ffi.gc(pointer, lib.tenon_weights_release)

    def skipped(self) -> tuple[str, ...]:
        """A line with the name and the reason for everything in the file that cannot be read."""
        return names_by(lib.tenon_weights_skipped, self._own())

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
    """Open a program that torch.export saved (.pt2), a safetensors file, a file of torch.save or
    torch.jit.save, a file of NumPy (.npy, .npz), a file of ExecuTorch's weights (.ptd), or an index
    of shards (.index.json). A .ptd file and an index can be read and not rewritten.

    The options are those of import_module. With tensors="map" the tensors are read-only views of
    the file, which must not be changed while they are in use. The file may be replaced by a rename.
    """
    limits = max_inflated_nbytes, max_records, max_depth
    options = import_options(tensors, check, arena, mode, device, device_map, *limits)
    return Weights(given("tenon_weights *", lib.tenon_open_weights, path_of(path), options.cdata))


def open(
    path: Path | None = None,
    *,
    name: str | None = None,
    directory: Path | None = None,
    group: int | None = None,
    max_nbytes: int = 0,
    device: str | None = None,
    budget: int = 0,
    progress: Progress | None = None,
    timeout: float | None = None,
    cancel: Cancel | None = None,
) -> Any:
    """Open the weights of a file, once for all processes of this machine.

    If no process has the weights of this name, this process loads the file into shared memory.
    Otherwise it maps the memory of a process that has them. No server has to run: each process that
    has the weights can hand them on, and if the process that loads is killed, another one loads.
    Without a name this is open_weights(path), which shares nothing.

    - path: None loads nothing. It raises NotFound if no process has the weights.
    - directory: Where the processes meet, if not in this user's own directory in /dev/shm.
    - group: Admit members of this gid. It needs a directory.
    - max_nbytes: The largest file to load. 0 means no limit.
    - device: "cuda:N" puts one copy for all processes into the memory of that device. The same name
      on another device, or on the CPU, means other weights.
    - budget: The most bytes of all weights in the directory together. 0 means no limit.
    - progress: A function that gets the bytes that are loaded and the bytes of the file, while this
      process loads or waits for the process that loads.
    - timeout: How long to wait for other processes, in seconds. None waits for ever.

    Raises PermissionDenied if the name stands for another version of the file, and Timeout if the
    process that has the weights is still loading or does not answer. Its details name the pid.
    """
    if name is None:
        if path is None:
            raise TypeError("weights.open needs a path or a name")
        return open_weights(path)
    from tenon.shared_weights import make_shared

    return make_shared(
        path,
        name,
        publish=False,
        directory=directory,
        group=group,
        max_nbytes=max_nbytes,
        device=device,
        budget=budget,
        progress=progress,
        timeout=timeout,
        cancel=cancel,
    )


def publish(
    name: str,
    source: Path | Mapping[str, Any],
    *,
    directory: Path | None = None,
    group: int | None = None,
    max_nbytes: int = 0,
    device: str | None = None,
    budget: int = 0,
    progress: Progress | None = None,
    timeout: float | None = None,
    cancel: Cancel | None = None,
    reuse: bool = False,
) -> SharedWeights:
    """Publish the next version of the weights of a name: a file, or a state dict, whose tensors are
    copied.

    Newcomers get the new version. Processes that have an older one keep it, and their
    weights.changed() says that there is a newer one. The new version lives as long as a process has
    it, so keep the result until another process has opened it. The parameters are those of open().

    - reuse: Write a state dict into memory of an older version that nobody has any more. Keep the
      result until the next publish() has returned.

    Raises Timeout if another process publishes under this name. Its details name the pid.
    """
    from tenon.shared_weights import make_shared

    return make_shared(
        source,
        name,
        publish=True,
        directory=directory,
        group=group,
        max_nbytes=max_nbytes,
        device=device,
        budget=budget,
        progress=progress,
        timeout=timeout,
        cancel=cancel,
        reuse=reuse,
    )


def save(
    path: Path,
    tensors: Mapping[str, Any],
    *,
    form: Literal["safetensors", "torch", "npz"] = "safetensors",
    duplicate_shared: bool = False,
    metadata: Mapping[str, str] | None = None,
    durability: Durability = "none",
    progress: Progress | None = None,
) -> None:
    """Save tensors under names as a new file. The elements are written from where they are. Either
    the whole new file appears at path, or the old file stays.

    - tensors: tenon.Tensors, numpy arrays, and any objects with `__dlpack__` in the CPU's memory.
    - form: "torch" writes a dict as torch.save does. torch.load reads it with weights_only=True.
      "npz" writes arrays as numpy.savez does.
    - duplicate_shared: Write tensors that share memory whole, each of them. Without it a
      safetensors or .npz file of such tensors is refused.
    - metadata: The texts of a safetensors file's `__metadata__`.
    - progress: A function that gets the bytes that are written and the bytes of all tensors. An
      exception that it raises is raised again after the file is written.
    """
    from tenon.shared_weights import watch

    options = Struct(
        "tenon_save_weights_options",
        form=number_of(_FORMS, form, "form"),
        durability=number_of(DURABILITIES, durability, "durability"),
        flags=flags("SAVE", duplicate_shared=duplicate_shared),
    )
    keys, keys_memory = texts(metadata or {}, "a key of the metadata")
    values, _values_memory = texts((metadata or {}).values(), "a text of the metadata")
    options.point(metadata_keys=keys, metadata_texts=values)
    options.cdata.metadata_count = len(keys_memory)
    watcher = watch(options, progress)
    names, _names_memory = texts(tensors, "a name")
    held = [Value(tensor) for tensor in tensors.values()]
    pointers = ffi.new("tenon_value *[]", [value._cdata for value in held])
    call(lib.tenon_save_weights, path_of(path), names, pointers, len(held), options.cdata)
    if watcher.raised is not None:
        raise watcher.raised
