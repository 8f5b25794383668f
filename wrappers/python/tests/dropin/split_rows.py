"""Rows of tenon.pickle with torch tensors: python split_rows.py [NAME…]. rows.py runs them and prints their lines."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections import OrderedDict
from pathlib import Path
from tempfile import TemporaryDirectory

from rows import SECONDS, bare_row, facts_of, main, untyped_of, values_of, wait_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def start(program: Callable[[], None]) -> int:
    """The pid of a forked child that runs this. It ends with 0 if nothing was raised."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        program()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def torch_graph() -> dict[str, Any]:
    import torch

    weight = torch.arange(12.0).view(3, 4)
    return {
        "weight": weight,
        "transposed": weight.t(),
        "parameter": torch.nn.Parameter(weight[0]),
        "conjugate": torch.tensor([1 + 2j]).conj(),
        "negative": torch.tensor([1 + 2j]).conj().imag,
        "empty": torch.empty(0, 3),
        "state": OrderedDict(weight=torch.full((2, 3), 0.5), bias=torch.full((2,), 0.25)),
    }


@bare_row
def split_pickle() -> None:
    """tenon.pickle keeps the storages of torch tensors apart, in this process and over a connection."""
    import tenon.pickle
    import torch

    sent = torch_graph()
    data, storages, dtypes = tenon.pickle.dumps(sent)
    # The weight and its views, the two complex numbers, and the state's weight and bias.
    assert len(storages) == 5 and dtypes == ["float32", "complex64", "float32", "float32", "float32"]
    assert b"torch._utils" not in data
    for allow in (None, ()):
        got = tenon.pickle.loads(data, storages, allow=allow)
        check_torch_graph(sent, got)
        got["weight"][0, 1] = 5
        assert sent["weight"][0, 1] == 5 == got["parameter"][1] and got["transposed"][1, 0] == 5
        sent["weight"][0, 1] = 1
    whole = tenon.pickle.loads(*tenon.pickle.dumps([untyped_of(sent["weight"]), sent["weight"]]))
    assert whole[0].nbytes() == 48 and untyped_of(whole[1])._cdata == whole[0]._cdata
    try:
        tenon.pickle.dumps((torch.ones(2, requires_grad=True) * 2,))
    except tenon.Unsupported as error:
        assert "detach()" in str(error)
    else:
        raise AssertionError("pickled")
    try:
        tenon.pickle.loads(data, [tenon.Storage.new(8), *storages[1:]], allow=[])
    except tenon.Corrupt as error:
        assert "does not fit" in str(error)
    else:
        raise AssertionError("loaded")


def check_torch_graph(sent: dict[str, Any], got: dict[str, Any]) -> None:
    import torch

    assert list(got) == list(sent)
    for name in ("weight", "transposed", "parameter", "conjugate", "negative", "empty"):
        assert facts_of(got[name]) == facts_of(sent[name]) and values_of(got[name]) == values_of(sent[name]), name
    assert type(got["parameter"]) is torch.nn.Parameter and got["parameter"].requires_grad
    assert got["conjugate"].is_conj() and got["negative"].is_neg()
    assert untyped_of(got["weight"])._cdata == untyped_of(got["transposed"])._cdata == untyped_of(got["parameter"])._cdata
    assert list(map(values_of, got["state"].values())) == list(map(values_of, sent["state"].values()))


@bare_row
def object_of_a_package() -> None:
    """torch.package's importer finds the class of an object, which Python itself cannot import."""
    import io

    import tenon.pickle
    import torch
    from torch.package import PackageExporter, PackageImporter

    file = io.BytesIO()
    with PackageExporter(file) as exporter:
        exporter.save_source_string("things", "class Thing:\n    pass\n")
    file.seek(0)
    importer = PackageImporter(file)
    thing = importer.import_module("things").Thing()
    thing.tensor = torch.ones(3)
    split = tenon.pickle.dumps([thing], importer=importer)
    (got,) = tenon.pickle.loads(*split, importer=importer)
    assert type(got) is type(thing) and untyped_of(got.tensor)._cdata == untyped_of(thing.tensor)._cdata
    try:
        tenon.pickle.loads(*split, importer=importer, allow=[])
    except tenon.PermissionDenied as error:
        assert "Thing" in str(error)
    else:
        raise AssertionError("loaded")


def write_package(path: Path, source: str) -> None:
    from torch.package import PackageExporter

    new = path.with_suffix(".new")
    with PackageExporter(str(new)) as exporter:
        exporter.save_source_string("things", source)
    new.replace(path)


@bare_row
def package_is_opened_once() -> None:
    """All threads share an importer, until the file is replaced; an object of its class goes to another process that opened it too."""
    import socket
    import weakref
    from concurrent.futures import ThreadPoolExecutor

    import tenon.pickle
    import tenon.torch
    import torch

    with TemporaryDirectory(prefix="tenon-") as folder:
        path = Path(folder, "things.pt")
        write_package(path, "class Thing:\n    pass\n")
        with ThreadPoolExecutor(8) as pool:
            opened = list(pool.map(tenon.torch.open_package, [path, str(path)] * 8))
        assert all(each is opened[0] for each in opened)
        thing = opened[0].import_module("things").Thing()
        thing.tensor = torch.ones(3)

        ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def receive() -> None:
            ends[0].close()
            tenon.pickle.clear()  # opens the archive by itself, as a process would that was not forked
            package = tenon.torch.open_package(path)
            end = tenon.Connection(ends[1], allow_unsealed=True)
            got = end.recv_object(timeout=SECONDS, importer=package, allow=["things.Thing"])
            assert package is not opened[0] and type(got) is package.import_module("things").Thing
            got.tensor.fill_(2)

        pid = start(receive)
        ends[1].close()
        with tenon.Connection(ends[0], adopt=True) as connection:
            connection.send_object(thing, importer=opened[0])
            assert wait_for(pid) == 0
        assert thing.tensor.tolist() == [2, 2, 2]

        write_package(path, "class Thing:\n    newer = True\n")
        newer = tenon.torch.open_package(path)
        assert newer is not opened[0] and newer.import_module("things").Thing.newer and not hasattr(type(thing), "newer")
        for number in range(16):
            write_package(Path(folder, f"{number}.pt"), "")
            tenon.torch.open_package(Path(folder, f"{number}.pt"))
        assert tenon.torch.open_package(path) is not newer, "17 packages are open"
        kept = weakref.ref(tenon.torch.open_package(path))
        tenon.pickle.clear()
        gc.collect()
        assert kept() is None
        try:
            tenon.torch.open_package(Path(folder, "missing.pt"))
        except FileNotFoundError as error:
            assert "missing.pt" in str(error)
        else:
            raise AssertionError("opened")


@bare_row
def object_over_a_connection() -> None:
    """The storages are lent: private torch memory moves to Tenon's, and both sides share it."""
    import socket

    import tenon

    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def answer() -> None:
        ends[0].close()
        # PyTorch 1.13 cannot move memory that has views, and makes a file of its own, which is not sealed.
        end = tenon.Connection(ends[1], allow_unsealed=True)
        got = end.recv_object(timeout=SECONDS)
        check_torch_graph(torch_graph(), got)
        got["transposed"].fill_(3)
        end.send_object(got["weight"])

    pid = start(answer)
    ends[1].close()
    with tenon.Connection(ends[0], adopt=True, allow_unsealed=True) as end:
        sent = torch_graph()
        end.send_object(sent)
        back = end.recv_object(timeout=SECONDS)
    assert wait_for(pid) == 0
    assert values_of(sent["weight"]) == [3.0] * 12 == values_of(back) and values_of(sent["parameter"]) == [3.0] * 4


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
