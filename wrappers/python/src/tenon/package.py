"""Packages: archives of torch.package, read and written without PyTorch."""

from __future__ import annotations

from tenon._managed import Managed
from tenon._native import Struct, ffi, lib
from tenon._options import flags, number_of
from tenon._reports import export_report_of
from tenon._text import encoded, stored, texts
from tenon.archive import DURABILITIES, import_options, path_of
from tenon.by_cuda import stream_pointer
from tenon.error import filled, given, owned
from tenon.module import Module, files_of, names_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import SupportsIndex

    from typing_extensions import Buffer

    from tenon._options import Mode
    from tenon._reports import ExportReport
    from tenon.archive import Check, Durability, Path, Tensors
    from tenon.arena import Arena
    from tenon.by_cuda import Stream


class Package(Managed):
    """A package that was opened: script modules, pickles, Python sources and other files. Nothing
    in it is executed.

    with tenon.Package("models.pt") as package:
        net = package["models/net.pkl"]  # a tenon.Module
        net["fc.weight"] = weight
        tenon.export_package("new.pt", base=package)

    A script module has an id, such as "0". It also has a resource name, if some record holds this
    module and nothing else. Each use of a name gives a module over the same objects. Storages that
    several modules share are in memory once. Modules stay usable after close(). The options are
    those of import_module, and hold for all modules of the package.
    """

    __slots__ = ()

    def __init__(
        self,
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
    ) -> None:
        limits = max_inflated_nbytes, max_records, max_depth
        options = import_options(tensors, check, arena, mode, device, device_map, *limits)
        self._cdata = owned("tenon_package", lib.tenon_package_open, path_of(path), options.cdata)

    @property
    def modules(self) -> tuple[str, ...]:
        """The names of the script modules. Each module is named by its resource, or by its id if it
        has none.
        """
        return names_by(lib.tenon_package_modules, self._own())

    @property
    def records(self) -> tuple[str, ...]:
        """The names of all records in their order, including those that PyTorch keeps below
        ".data/".
        """
        return names_by(lib.tenon_package_records, self._own())

    def __getitem__(self, name: str) -> Module:
        """The script module of that resource or id. If there is none, tenon.NotFound lists the
        names.
        """
        key = encoded(name, "the name")
        return Module._adopt(given("tenon_module *", lib.tenon_package_module, self._own(), key))

    def __iter__(self) -> Iterator[str]:
        return iter(self.modules)

    def __len__(self) -> int:
        return len(self.modules)

    def read(self, record: str) -> bytes:
        """The bytes of a record: a pickle, a Python source, a file, or a storage such as
        ".data/0.storage".
        """
        for _, data in files_of(lib.tenon_package_read, self._own(), encoded(record, "the name")):
            return bytes(data)
        raise AssertionError("a record was read, and the list is empty")

    def _shown(self) -> str:
        return f" {list(self.modules)}"


def export_package(
    path: Path,
    entries: Mapping[str, Module | Buffer | str] | None = None,
    *,
    base: Package | None = None,
    externs: Sequence[str] = (),
    durability: Durability = "none",
    archive_name: str | None = None,
    check: bool = True,
    keep_device: bool = False,
    stream: Stream = None,
) -> ExportReport:
    """Write a package that torch.package.PackageImporter reads.

    - path: Either the whole package appears there, or the old file stays.
    - entries: The contents of the package, by the names of the records. "models/net.pkl" is the
      resource "net.pkl" of the Python package "models". A Module becomes a pickle that
      load_pickle("models", "net.pkl") takes. A str or bytes become a file. Classes, constants and
      storages that several modules use are written once.
    - base: A package that is written again, except for the records that an entry replaces: its
      modules in their present state, and all other records byte for byte.
    - externs: The names of Python modules that pickles in the package need and that the package
      does not hold.
    - durability, archive_name, check, keep_device, stream: As in export_module.

    PyTorch reads script modules in packages only after
    `torch.package.package_exporter._gate_torchscript_serialization` was set to False.
    """
    given = dict(entries or {})
    options = Struct(
        "tenon_package_options",
        durability=number_of(DURABILITIES, durability, "durability"),
        flags=flags("EXPORT", unchecked=not check, keep_device=keep_device),
        stream=stream_pointer(stream),
    )
    names, _texts = texts(externs, "the name of an extern module")
    options.cdata.n_externs = len(externs)
    options.point(
        archive_name=stored(archive_name, "the archive's name"),
        externs=names,
        base=None if base is None else base._own(),
    )
    array, keep = ffi.new("tenon_package_entry[]", len(given)), []
    for each, (name, content) in zip(array, given.items(), strict=True):
        each.name = text = stored(name, "the name of an entry")
        if isinstance(content, Module):
            each.module = own = content._own()
        else:
            data = content.encode() if isinstance(content, str) else content
            own = ffi.from_buffer(memoryview(data))
            each.data, each.nbytes = own, len(own)
        keep.append((text, own))
    written = array, len(given), path_of(path), options.cdata
    return export_report_of(filled("tenon_export_report", lib.tenon_export_package, *written))
