"""Weights that processes share by a name. tenon.weights.open makes them."""

from __future__ import annotations

from functools import partial
from os import PathLike
from typing import NamedTuple

from tenon._native import Struct, ffi, lib
from tenon._options import flags, small
from tenon._text import encoded, texts
from tenon.archive import path_of
from tenon.error import Timeout, WouldBlock, call, filled
from tenon.wait import run, waited
from tenon.weights import NamedWeights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from tenon.archive import Path
    from tenon.wait import Cancel

    Progress = Callable[[int, int], object]

__all__ = ["SharedWeights", "SharedWeightsInfo"]


class SharedWeightsInfo(NamedTuple):
    """Facts about shared weights.

    - nbytes: The bytes of the shared memory.
    - file_nbytes, file_mtime_ns and file_crc: Identify the version of the file that was loaded.
      file_crc is the CRC-32 of its first MiB.
    - version: Of the weights under this name. The first one is 1.
    - loaded: Whether this object loaded the file. Otherwise it found the weights in memory.
    - serves: Whether this process hands the weights to others now.
    - loader_pid: The process that loaded the file, which may have ended.
    - server_pid: The process that hands the weights to others now. 0 while another one is chosen.
    - holders: With serves, how many processes have the weights. Otherwise how many there were when
      this process came.
    """

    nbytes: int
    file_nbytes: int
    file_mtime_ns: int
    file_crc: int
    version: int
    loaded: bool
    serves: bool
    loader_pid: int
    server_pid: int
    holders: int


class SharedWeights(NamedWeights):
    """Weights that tenon.weights.open has by a name, in memory that all processes share. The
    tensors are read-only, and the kernel enforces it.

    with tenon.weights.open("net.safetensors", name="net") as weights:
        state = {name: to_torch(weights[name], "unsafe") for name in weights}
        model.load_state_dict(state, assign=True)

    Tensors stay usable after close(). As long as one of them lives, this process hands the weights
    on to others.
    """

    __slots__ = ()
    _names = lib.tenon_shared_weights_names
    _tensor = lib.tenon_shared_weights_tensor
    _value_names = lib.tenon_shared_weights_value_names
    _value = lib.tenon_shared_weights_value

    def __init__(self, cdata: Any) -> None:
        self._cdata = cdata

    def info(self) -> SharedWeightsInfo:
        """Facts about the weights. They change when other processes come and go."""
        out = filled("tenon_shared_weights_info", lib.tenon_shared_weights_info_get, self._own())
        facts = {name: getattr(out, name) for name in SharedWeightsInfo._fields}
        return SharedWeightsInfo(**facts | {n: bool(facts[n]) for n in ("loaded", "serves")})

    def changed(self, timeout: float | None = None, *, cancel: Cancel | None = None) -> int | None:
        """Wait until the name has a newer version, and return the newest one that is known. None:
        the timeout is over. With a timeout of 0 this only looks.

        tenon.weights.open(name=...) without a path opens the newest version.
        """
        version = ffi.new("uint64_t *")
        step = partial(lib.tenon_shared_weights_changed, self._own())
        try:
            run(lambda wait, error: step(wait, version, error), timeout, cancel)
        except (Timeout, WouldBlock):
            return None
        return int(version[0])

    def changed_fd(self) -> int:
        """An fd that select and asyncio find readable while the name has a newer version. It lives
        as long as the weights, and is not to be read."""
        fd = ffi.new("int *")
        call(lib.tenon_shared_weights_changed_fd, self._own(), fd)
        return int(fd[0])


class _Watcher:
    """A progress function, and the exception that it raised."""

    raised: BaseException | None = None

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    def tell(self, done: int, total: int) -> None:
        try:
            if self.raised is None:
                self.progress(done, total)
        except BaseException as error:
            self.raised = error


@ffi.def_extern(name="tenon_python_progress")  # type: ignore[untyped-decorator]
def _tell(context: Any, done: int, total: int) -> None:
    watcher: _Watcher = ffi.from_handle(context)
    watcher.tell(done, total)


def watch(options: Struct, progress: Progress | None) -> _Watcher:
    """Put a progress function into a struct of options."""
    watcher = _Watcher(progress or (lambda done, total: None))
    if progress is not None:
        options.cdata.progress = lib.tenon_python_progress
        options.point(progress_context=ffi.new_handle(watcher))
    return watcher


def make_shared(
    source: Path | Mapping[str, Any] | None,
    name: str,
    *,
    publish: bool,
    directory: Path | None,
    group: int | None,
    max_nbytes: int,
    device: str | None,
    budget: int,
    progress: Progress | None,
    timeout: float | None,
    cancel: Cancel | None,
    reuse: bool = False,
) -> SharedWeights:
    """As tenon.weights.publish, or as tenon.weights.open with a name."""
    options = Struct(
        "tenon_shared_weights_options",
        flags=flags("SHARED_WEIGHTS", group=group is not None, reuse=reuse),
        group=0 if group is None else small(group, "group"),
        max_nbytes=max_nbytes,
        budget_nbytes=budget,
    )
    if directory is not None:
        options.point(directory=ffi.new("char[]", path_of(directory)))
    if device is not None:
        options.point(device=ffi.new("char[]", encoded(str(device), "the device")))
    watcher = watch(options, progress)
    rest = encoded(name, "the name"), options.cdata
    request: tuple[Any, ...]
    if isinstance(source, (str, bytes, PathLike)) or source is None:
        function = lib.tenon_publish_shared_weights if publish else lib.tenon_open_shared_weights
        request = function, ffi.NULL if source is None else path_of(source), *rest
    else:
        from tenon._to_value import Maker

        maker = Maker()
        keys, keep = texts(source.keys(), "the name of a weight")
        values = ffi.new("tenon_value *[]", [maker.make(source[key]) for key in source.keys()])
        request = lib.tenon_publish_shared_weights_values, keys, values, len(keep), *rest
    weights = SharedWeights(
        waited("tenon_shared_weights", *request, timeout=timeout, cancel=cancel, whole=True)
    )
    if watcher.raised is not None:
        weights.close()
        raise watcher.raised
    return weights
