"""Archives: the files that torch.jit.save writes and torch.jit.load runs, written and read without
PyTorch.
"""

from __future__ import annotations

import errno
import io
import os
import stat

from tenon import _native_ext
from tenon._managed import own_of
from tenon._native import Struct, address_of, ffi, lib, new_struct
from tenon._options import MODES, flags, number_of, unsigned, words
from tenon._reports import ExportReport, export_report_of
from tenon._text import encoded, encoded_path, stored
from tenon.arena import Arena
from tenon.by_cuda import ordinal, stream_pointer
from tenon.error import TenonError, call, given
from tenon.module import Module, methods_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any, Literal, Protocol, SupportsIndex

    from typing_extensions import Buffer

    from tenon._options import Mode
    from tenon._text import Path as Path
    from tenon.by_cuda import Stream
    from tenon.by_fd import HasFileno

    Files = Mapping[str, Buffer | str]
    Hook = Callable[[Module], Files | None]
    Durability = Literal["none", "file", "file_and_directory"]
    Bytecode = Literal["keep", "drop", "compile"]
    Emission = Literal[
        "default_inputs",
        "defaults_before_out",
        "plain_operators",
        "no_interface_methods",
        "forks_at_once",
    ]
    Tensors = Literal["map", "map_private", "fill", "device"]
    Check = Literal["structure", "fill", "all"]

    class Writable(Protocol):
        def write(self, data: memoryview, /) -> object: ...

    class Readable(Protocol):
        def read(self) -> bytes: ...


DURABILITIES = words("DURABILITY", "none file file_and_directory")
_BYTECODES = words("BYTECODE", "keep drop compile")
_EMISSIONS = words(
    "EMIT", "default_inputs defaults_before_out plain_operators no_interface_methods forks_at_once"
)
_TENSORS = words("IMPORT", "map map_private fill device")
_CHECKS = words("IMPORT_CHECK", "structure fill all")


def path_of(path: Path) -> bytes:
    return encoded_path(path, "the path")


def _file_of(file: Any) -> io.FileIO | None:
    """The raw file of a file object that passes bytes on unchanged. None for other objects: some of
    them have a fileno too, but compress the bytes that they write.
    """
    raw = getattr(file, "raw", file)
    return raw if isinstance(raw, io.FileIO) else None


class _Files:
    """An array of tenon_file, together with the memory to which it points."""

    __slots__ = ("_keep", "array", "count")

    def __init__(self, files: Files) -> None:
        self._keep: list[Any] = []
        self.count = len(files)
        self.array = ffi.new("tenon_file[]", self.count)
        for each, name in zip(self.array, files, strict=True):
            data = files[name]
            source = ffi.from_buffer(memoryview(data.encode() if isinstance(data, str) else data))
            text = ffi.new("char[]", encoded(name, "the name"))
            self._keep += [source, text]
            each.name, each.data, each.nbytes = text, source, len(source)


class _Export:
    """The functions that the library calls back during an export. An exception in one of them ends
    the export, and export_module raises it.
    """

    __slots__ = ("_file", "_files", "_hook", "_module", "raised")

    def __init__(self, module: Module, file: Any, hook: Hook | None) -> None:
        self._module, self._file, self._hook = module, file, hook
        self._files: _Files | None = None
        self.raised: BaseException | None = None

    def write(self, data: Any, nbytes: int) -> int:
        try:
            with memoryview(ffi.buffer(data, nbytes)).toreadonly() as whole:
                done = 0
                while done < nbytes:
                    # The view is released with this call. A writer that keeps it cannot read memory
                    # that no longer exists.
                    with whole[done:] as rest:
                        done += self._count_of(self._file.write(rest), nbytes - done)
        except BaseException as error:
            self.raised = error
            return -errno.EIO
        return nbytes

    def _count_of(self, count: Any, nbytes: int) -> int:
        """The number of bytes that a write has taken, according to the count that it returned.
        None means all of them, except for a raw file, where it means that the write would block.
        """
        if count is None and not isinstance(self._file, io.RawIOBase):
            return nbytes
        if not count:
            raise BlockingIOError(errno.EAGAIN, "the file takes no bytes now")
        if not 0 < count <= nbytes:
            raise OSError(errno.EIO, f"write returned {count} for {nbytes} bytes")
        return int(count)

    def extra_files(self, out: Any, count: Any) -> int:
        assert self._hook is not None
        try:
            self._files = _Files(self._hook(self._module) or {})
        except BaseException as error:
            self.raised = error
            return int(lib.TENON_IO)
        out[0], count[0] = self._files.array, self._files.count
        return int(lib.TENON_OK)


@ffi.def_extern(name="tenon_python_write", error=-1)  # type: ignore[untyped-decorator]
def _write(context: Any, data: Any, nbytes: int) -> int:
    export: _Export = ffi.from_handle(context)
    return export.write(data, nbytes)


@ffi.def_extern(name="tenon_python_extra_files", error=lib.TENON_INTERNAL)  # type: ignore[untyped-decorator]
def _extra_files(context: Any, module: Any, out: Any, count: Any) -> int:
    export: _Export = ffi.from_handle(context)
    return export.extra_files(out, count)


def export_module(
    module: Module,
    file: Path | int | HasFileno | Writable,
    *,
    extra_files: Files | None = None,
    hook: Hook | None = None,
    file_version: int = 0,
    durability: Durability = "none",
    archive_name: str | None = None,
    check: bool = True,
    keep_device: bool = False,
    stream: Stream = None,
    bytecode: Bytecode = "keep",
    methods: Sequence[str] | str | None = None,
    bytecode_version: int = 0,
    emit: Collection[Emission] = (),
    debug_tables: bool = False,
    flatbuffer: bool = False,
) -> ExportReport:
    """Write a module as an archive. Tensors go to the file from their own memory, without a copy.

    - file: A path, an fd, a file open for bytes, or any object with write. At a path either the
      whole archive appears, or the old file stays. An fd or a file is written from its position on.
      An object with write gets a memoryview that is valid for that call. After a failure all but a
      path may have received some of the bytes. An exception of write is raised unchanged.
    - extra_files: Extra files of this export only. They take precedence over the module's own.
    - hook: A function that gives more extra files. It is called with the module before anything is
      written. Files whose names are in use are left out.
    - file_version: 0 takes the version of the code. A version from 1 to 10 is refused if some of
      the code has another meaning there.
    - durability: For a path, whether the file, and the directory that names it, are on the disk
      when the call returns.
    - archive_name: The folder inside the archive. None takes the file's name without its extension,
      or else "archive".
    - check: False writes the code without Module.check.
    - keep_device: Tensors on a CUDA device are written as that device's, and cannot be loaded
      without it. Otherwise they are written as the CPU's.
    - stream: The stream in which these tensors were written (see tenon.by_cuda). Work that was
      given to it is done before they are read.
    - bytecode: PyTorch's lite interpreter runs bytecode. "keep" writes the bytecode of the imported
      archive, provided that the code, the version and the order of attributes are still those of
      that archive. The weights may differ. "drop" writes no bytecode. "compile" makes bytecode from
      the code.
    - methods: For "compile", the methods that get bytecode, in a list or in one text such as
      "forward,predict". The functions that they call get bytecode too. None takes all methods.
    - bytecode_version: For "compile", 4 to 8. Versions below 8 are for runtimes of an old PyTorch.
      0 means 8.
    - emit: For "compile", the form of the bytecode, by the switches of PyTorch's exporter:
      "default_inputs", "defaults_before_out", "plain_operators", "no_interface_methods".
      "forks_at_once" runs a forked function at its fork; without it such a function is refused.
      tenon/archive.h explains each switch (TENON_EMIT_DEFAULT_INPUTS).
    - debug_tables: Write the tables by which PyTorch's errors name modules and source lines. With
      "compile" they are made for the new bytecode. Otherwise those of the imported archive are
      written, all or none. The lines are those of the files from which the module was made, if
      import_module read the archive's tables and the code was not changed. Such tables contain
      absolute paths of the person who saved the module. Otherwise new tables name lines of the
      archive's own code.
    - flatbuffer: Write PyTorch's flatbuffer form in place of a zip archive. It always has bytecode,
      and is in memory until it is written. TENON_EXPORT_FLATBUFFER in tenon/archive.h says what it
      cannot hold.
    """
    struct = Struct(
        "tenon_export_options",
        durability=number_of(DURABILITIES, durability, "durability"),
        file_version=file_version,
        bytecode=number_of(_BYTECODES, bytecode, "bytecode"),
        bytecode_version=bytecode_version,
        stream=stream_pointer(stream),
    )
    options = struct.cdata
    options.flags = flags(
        "EXPORT",
        unchecked=not check,
        keep_device=keep_device,
        debug_tables=debug_tables,
        flatbuffer=flatbuffer,
    )
    for switch in emit:
        options.emit_flags |= number_of(_EMISSIONS, switch, "emit")
    struct.point(
        archive_name=stored(archive_name, "the archive's name"),
        methods=None if methods is None else ffi.new("char[]", methods_text(methods)),
    )
    files = _Files(extra_files or {})
    options.extra_files, options.n_extra_files = files.array, files.count

    target: Any = file
    is_path = isinstance(target, (str, bytes)) or hasattr(target, "__fspath__")
    path = path_of(target) if is_path else None
    below = None if path is not None or isinstance(target, int) else _file_of(target)
    export = _Export(module, target, hook)
    context = ffi.new_handle(export)
    if hook is not None:
        options.hook, options.hook_context = lib.tenon_python_extra_files, context
    out = new_struct("tenon_export_report")
    own = module._own()
    try:
        if path is not None:
            call(lib.tenon_export_module, own, path, options, out)
        elif isinstance(target, int):
            call(lib.tenon_export_module_fd, own, target, options, out)
        elif below is not None:
            target.flush()
            try:
                call(lib.tenon_export_module_fd, own, below.fileno(), options, out)
            finally:
                if target.seekable():
                    # A buffering file object remembers its position, and must learn the new one.
                    target.seek(os.lseek(below.fileno(), 0, os.SEEK_CUR))
        elif hasattr(target, "write"):
            call(lib.tenon_export_module_to, own, lib.tenon_python_write, context, options, out)
        elif hasattr(target, "fileno"):
            call(lib.tenon_export_module_fd, own, target.fileno(), options, out)
        else:
            raise TypeError(
                "file must be a path, an fd, or a file that is open for bytes, not"
                f" {type(target).__name__}"
            )
    except TenonError:
        if export.raised is None:
            raise
    if export.raised is not None:
        try:
            raise export.raised
        finally:
            export.raised = None
    return export_report_of(out)


def import_options(
    tensors: Tensors,
    check: Check,
    arena: Arena | None,
    mode: Mode,
    device: SupportsIndex,
    device_map: Mapping[str, str] | None,
    max_inflated_nbytes: int,
    max_records: int,
    max_depth: int,
    debug_tables: bool = False,
) -> Struct:
    options = Struct(
        "tenon_import_options",
        tensors=number_of(_TENSORS, tensors, "tensors"),
        check=number_of(_CHECKS, check, "check"),
        mode=number_of(MODES, mode, "mode"),
        device=ordinal(device),
        max_inflated_nbytes=unsigned(max_inflated_nbytes, "max_inflated_nbytes"),
        max_records=unsigned(max_records, "max_records"),
        max_depth=unsigned(max_depth, "max_depth"),
        flags=flags("IMPORT", debug_tables=debug_tables),
    )
    pairs = ",".join(f"{saved}={here}" for saved, here in (device_map or {}).items())
    options.point(
        arena=None if arena is None else own_of(arena, Arena, "arena"),
        device_map=stored(pairs or None, "the device map"),
    )
    return options


def import_module(
    file: Path | int | Buffer | HasFileno | Readable,
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
    debug_tables: bool = False,
) -> Module:
    """Read an archive of PyTorch 1.4 or later, or PyTorch's flatbuffer form. Nothing in it is
    executed.

    The code and the bytecode of a flatbuffer are checked when the module is first used, and bad
    code raises Corrupt then. With check="all" they are checked here.

    A file or buffer must not be changed while views of it are in use. The file may be replaced by a
    rename.

    - file: A path, an fd, a file, a buffer such as bytes, an io.BytesIO, or any object with read.
      All of an fd, a file or an io.BytesIO is read, whatever its position. A file object over a
      pipe, and any other object with read, is read from its position on.
    - tensors: "map" gives read-only views of the file or buffer, and copies where a view is not
      possible. "map_private" gives writable views whose writes stay in this process. "fill" gives
      copies in storages of their own, in the arena if one is given, and else of the given mode.
      "device" gives copies in memory of the CUDA device with the given number.
    - device_map: On which devices to put tensors that were saved on certain devices, such as
      {"cuda:1": "cuda:0", "mps": "cpu"}. A key is a device as the archive names it, or a kind
      ("cuda") for every number that has no key of its own. A value is "cpu" or a CUDA device, whose
      memory gets copies. Tensors of other devices go to the CPU, or to the device if tensors is
      "device".
    - check: "structure" checks headers, bounds, overlaps, references, and the checksums of all
      records but tensors. "fill" also checks the checksum of each tensor that is copied. "all"
      checks that of every record, and all of a flatbuffer.
    - max_inflated_nbytes: The limit for all compressed records together. 0 means 1 GiB.
    - max_records: The limit for records. 0 means 1,000,000.
    - max_depth: The limit for values in values, up to 1,000. 0 means 512.
    - debug_tables: Also read the debug tables, so that export_module can write them.
    """
    limits = max_inflated_nbytes, max_records, max_depth
    own = import_options(tensors, check, arena, mode, device, device_map, *limits, debug_tables)
    options = own.cdata
    source: Any = file
    # bytes are the archive itself and never a path.
    if isinstance(source, str) or hasattr(source, "__fspath__"):
        return _imported(lib.tenon_import_module, path_of(source), options)
    if isinstance(source, int):
        return _imported(lib.tenon_import_module_fd, source, options)
    if isinstance(source, io.BytesIO):
        return _from_memory(source.getvalue(), options)
    below = _file_of(source)
    if below is not None and not stat.S_ISREG(os.fstat(below.fileno()).st_mode):
        # A pipe can be read only once, and the file object may have read some of it already.
        return _from_memory(source.read(), options)
    if below is not None:
        if source.writable():
            source.flush()
        return _imported(lib.tenon_import_module_fd, below.fileno(), options)
    if hasattr(source, "read") and not _has_buffer(source):
        return _from_memory(source.read(), options)
    if hasattr(source, "fileno") and not _has_buffer(source):
        return _imported(lib.tenon_import_module_fd, source.fileno(), options)
    return _from_memory(source, options)


def _has_buffer(source: Any) -> bool:
    """Whether the source exports a buffer. An mmap object has both a buffer and read, and its
    buffer is preferred.
    """
    try:
        memoryview(source).release()
    except TypeError:
        return False
    return True


def _from_memory(source: Buffer, options: Any) -> Module:
    address = _native_ext.import_memory(source, address_of(options))
    return Module._adopt(ffi.cast("tenon_module *", address))


def _imported(function: Any, source: Any, options: Any) -> Module:
    return Module._adopt(given("tenon_module *", function, source, options))
