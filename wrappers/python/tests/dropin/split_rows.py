"""Rows of tenon.pickle with torch tensors: python split_rows.py [NAME…]. rows.py runs them and
prints their lines.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections import OrderedDict
from pathlib import Path
from tempfile import TemporaryDirectory

from layouts import check_same, dense_numbers, layouts
from rows import SECONDS, bare_row, facts_of, main, untyped_of, values_of, wait_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def start(program: Callable[[], None]) -> int:
    """Fork a child that runs `program`, and return its pid. The child ends with 0 if nothing was
    raised.
    """
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
    """tenon.pickle keeps the storages of torch tensors apart from the pickle, in this process and
    over a connection.
    """
    import tenon.pickle
    import torch

    sent = torch_graph()
    data, storages, dtypes = tenon.pickle.dumps(sent)
    # The weight and its views, the two complex numbers, and the state's weight and bias.
    assert len(storages) == 5 and dtypes == [
        "float32",
        "complex64",
        "float32",
        "float32",
        "float32",
    ]
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
        assert facts_of(got[name]) == facts_of(sent[name]) and values_of(got[name]) == values_of(
            sent[name]
        ), name
    assert type(got["parameter"]) is torch.nn.Parameter and got["parameter"].requires_grad
    assert got["conjugate"].is_conj() and got["negative"].is_neg()
    assert (
        untyped_of(got["weight"])._cdata
        == untyped_of(got["transposed"])._cdata
        == untyped_of(got["parameter"])._cdata
    )
    assert list(map(values_of, got["state"].values())) == list(
        map(values_of, sent["state"].values())
    )


def places_of(tensor: Any) -> dict[str, int]:
    """The address of the memory of each part of a tensor, by the part's name."""
    from tenon.torch import _composite

    return {name: part.data_ptr() for name, part in _composite.take_apart(tensor).parts.items()}


@bare_row
def split_layouts() -> None:
    """A tensor of each layout comes back in its layout, over the same storages. The allow-list
    needs no function of PyTorch's.
    """
    import tenon
    import tenon.pickle
    import torch

    for name, sent in layouts().items():
        tenon.stats()
        before = tenon.stats().bytes_copied
        data, storages, dtypes = tenon.pickle.dumps([sent, sent])
        parts = [place for place in places_of(sent).values() if place]
        assert len(storages) == len(dtypes) == len(set(parts)) and all(
            isinstance(each, torch.UntypedStorage) for each in storages
        ), name
        assert b"torch._utils" not in data and b"torch.nested" not in data, name
        first, second = tenon.pickle.loads(data, storages, dtypes)
        assert first is second
        check_same(sent, first, name)
        assert places_of(first) == places_of(sent), f"a part of {name} was copied"
        checked, _ = tenon.pickle.loads(data, storages, allow=[])
        check_same(sent, checked, name)
        assert places_of(checked).get("values") == places_of(sent).get("values"), (
            f"the values of {name} were copied"
        )
        assert tenon.stats().bytes_copied == before, name


@bare_row
def split_layouts_share() -> None:
    """Parts share storages with other tensors of the object. Jagged tensors with common offsets can
    still be added.
    """
    import tenon.pickle
    import torch

    values = torch.tensor([1.0, 2.0, 3.0])
    sparse = torch.sparse_coo_tensor(torch.tensor([[0, 1, 2]]), values, (3,))
    quantised = torch.quantize_per_tensor(torch.arange(6.0), 0.5, 0, torch.quint8)
    split = tenon.pickle.dumps([sparse, values, quantised, quantised[2:]])
    assert len(split.storages) == 3
    for allow in (None, ()):
        got = tenon.pickle.loads(*split, allow=allow)
        assert (
            untyped_of(got[0]._values())._cdata
            == untyped_of(got[1])._cdata
            == untyped_of(values)._cdata
        )
        assert untyped_of(got[2])._cdata == untyped_of(got[3])._cdata and got[
            3
        ].dequantize().tolist() == [2, 3, 4, 5]
    if not hasattr(torch, "_nested_view_from_buffer"):
        return
    jagged = torch.nested.nested_tensor([torch.arange(3.0), torch.arange(5.0)], layout=torch.jagged)
    split = tenon.pickle.dumps({"x": jagged, "y": jagged * 2})
    for allow in (None, ()):
        got = tenon.pickle.loads(*split, allow=allow)
        assert (got["x"] + got["y"]).values().tolist() == [0, 3, 6, 0, 3, 6, 9, 12]


class Claims:
    """An object whose pickle says that it is a torch tensor that was taken apart into given
    values.
    """

    def __init__(self, *state: Any) -> None:
        self.state = state

    def __reduce__(self) -> Any:
        import tenon.pickle

        return tenon.pickle._torch_composite, self.state


def check_corrupt(words: str, sent: Any) -> None:
    import tenon.pickle

    try:
        tenon.pickle.loads(*tenon.pickle.dumps(sent), allow=[])
    except tenon.Corrupt as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"{words}: it was loaded")


@bare_row
def split_layouts_are_checked() -> None:
    """With an allow-list no index leads out of a tensor, whatever the sender's bytes are."""
    import tenon
    import tenon.pickle
    import torch

    def csr() -> Any:
        return dense_numbers().to_sparse_csr()

    layouts()  # PyTorch warns when it first makes each layout
    changed = csr()
    split = tenon.pickle.dumps(changed)
    got = tenon.pickle.loads(*split, allow=[])
    trusted = tenon.pickle.loads(*split)
    changed.col_indices()[2] = 1 << 40
    assert got.col_indices().tolist() == [
        0,
        3,
        1,
    ], "indices that the sender can write are not the receiver's own"
    assert trusted.col_indices()[2] == 1 << 40, (
        "from a trusted sender indices are shared, as PyTorch's are"
    )
    check_corrupt("plain indices at 2", changed)
    changed = dense_numbers().to_sparse()
    changed._indices()[0, 1] = -1
    check_corrupt("outside the size 4", changed)
    if hasattr(torch, "_nested_view_from_buffer"):
        nested = torch.nested.nested_tensor([torch.arange(4.0), torch.arange(3.0)])
        nested._nested_tensor_size()[1, 0] = 1 << 30
        check_corrupt("component sizes at 1", nested)
        jagged = torch.nested.nested_tensor(
            [torch.arange(4.0), torch.arange(3.0)], layout=torch.jagged
        )
        jagged.offsets()[1] = 99
        check_corrupt("offsets at 1", jagged)
    one, two = torch.ones(1), torch.zeros(2, dtype=torch.int64)
    for words, state in (
        ("no strided torch tensors", ("sparse_csr", {"values": 7}, (1, 1), None, 0, None, {})),
        (
            "no strided torch tensors",
            ("sparse_coo", {"values": one.to_sparse(), "indices": two}, (1,), None, 0, None, {}),
        ),
        (
            "no strided torch tensors",
            (
                "sparse_coo",
                {"values": one.clone().requires_grad_(), "indices": two},
                (1,),
                None,
                0,
                None,
                {},
            ),
        ),
        ("TakenApart", ("sparse_csr",)),
        ("no layout", ("no layout", {}, None, None, 0, None, {})),
        (
            "not as many values",
            (
                "sparse_csr",
                {"values": one, "indices": two, "plain_indices": two},
                (1, 1),
                None,
                0,
                None,
                {},
            ),
        ),
        (
            "values",
            (
                "quantized",
                {"values": one},
                None,
                None,
                0,
                None,
                {"quantizer": 1, "scale": 1.0, "zero_point": 0},
            ),
        ),
        (
            "without a quantizer",
            (
                "quantized",
                {"values": two.to(torch.int8)},
                None,
                None,
                0,
                None,
                {"scale": 1.0, "zero_point": 0},
            ),
        ),
        (
            "storage",
            (
                "quantized",
                {"values": one.to(torch.uint8)},
                (9,),
                (1,),
                0,
                "uint4",
                {"quantizer": 1, "scale": 1.0, "zero_point": 0},
            ),
        ),
        (
            "bytes of a storage",
            (
                "quantized",
                {"values": one},
                (9,),
                (1,),
                0,
                "uint4",
                {"quantizer": 1, "scale": 1.0, "zero_point": 0},
            ),
        ),
        ("offset", ("meta", {}, (3,), (1 << 62,), 0, "int8", {"offset": 1 << 62})),
        ("no_such", ("meta", {}, (3,), (1,), 0, "no_such", {"offset": 0})),
    ):
        check_corrupt(words, Claims(*state))


@bare_row
def frozen_indices_are_not_copied() -> None:
    """Indices that nobody can write any more are checked where they lie. Indices that the lender
    can write are copied first.
    """
    import tenon
    import tenon.pickle
    import tenon.torch
    import torch

    layouts()
    # The three tensors are separate, so that the object has three storages.
    sample = torch.sparse_csr_tensor(
        torch.tensor([0, 1, 2]), torch.tensor([1, 0]), torch.tensor([1.0, 2.0]), (2, 2)
    )
    data, storages, _ = tenon.pickle.dumps(sample)
    for mode in ("frozen", "lender_writes"):
        # Storages of Tenon's with the same bytes take their places.
        given = [tenon.Storage.new_from(bytes(storage.tolist()), mode=mode) for storage in storages]
        trusted, checked = (
            tenon.pickle.loads(data, given),
            tenon.pickle.loads(data, given, allow=[]),
        )
        assert torch.equal(checked.to_dense(), sample.to_dense())
        same = [
            a.data_ptr() == b.data_ptr()
            for a, b in zip(parts_of(trusted), parts_of(checked), strict=True)
        ]
        assert same == [True, mode == "frozen", mode == "frozen"], (mode, same)


def parts_of(csr: Any) -> tuple[Any, Any, Any]:
    return csr.values(), csr.crow_indices(), csr.col_indices()


@bare_row
def layouts_that_are_refused() -> None:
    """A layout that cannot be taken apart is refused by its name, and so is a tensor that is no
    leaf.
    """
    import tenon.pickle
    import torch

    layouts()
    refused = {
        "torch._mkldnn": torch.ones(3, 3).to_mkldnn(),
        "detach()": dense_numbers().requires_grad_().to_sparse(),
    }
    if not hasattr(torch, "_nested_view_from_buffer"):
        refused["a nested tensor"] = torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])
    for words, tensor in refused.items():
        try:
            tenon.pickle.dumps([tensor])
        except tenon.Unsupported as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"{words}: pickled")


@bare_row
def layouts_over_a_connection() -> None:
    """A tensor of each layout goes to another process, whose allow-list is empty.

    Both sides see what the other one writes to the values.
    """
    import socket

    import tenon

    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def answer() -> None:
        ends[0].close()
        # PyTorch 1.13 cannot move memory that is referenced elsewhere, and makes a file of its own,
        # which is not sealed.
        end = tenon.Connection(ends[1], allow_unsealed=True)
        got = end.recv_object(timeout=SECONDS)
        for name, tensor in layouts().items():
            check_same(tensor, got[name], name)
        for tensor in got.values():
            untyped = None if tensor.is_meta else values_storage(tensor)
            if untyped is not None and untyped.nbytes():
                untyped[0] = 1
        end.send_object({"home": got["csr"], "quantised": got["quint8"]})

    pid = start(answer)
    ends[1].close()
    with tenon.Connection(ends[0], adopt=True, allow_unsealed=True) as end:
        sent = layouts()
        end.send_object(sent)
        back = end.recv_object(timeout=SECONDS)
    assert wait_for(pid) == 0
    for name, tensor in sent.items():
        if not tensor.is_meta and values_storage(tensor).nbytes():
            assert values_storage(tensor)[0] == 1, f"{name} is not shared"
    check_same(sent["csr"], back["home"], "csr")
    check_same(sent["quint8"], back["quantised"], "quint8")
    back["home"].values()[0] = 9
    assert sent["csr"].values()[0] == 9


def values_storage(tensor: Any) -> Any:
    from tenon.torch import _composite

    return untyped_of(_composite.take_apart(tensor).parts["values"])


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
    assert (
        type(got) is type(thing)
        and untyped_of(got.tensor)._cdata == untyped_of(thing.tensor)._cdata
    )
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
    """All threads share an importer until the file is replaced. An object of its class goes to
    another process that opened the same package.
    """
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
            tenon.pickle.clear()  # the child opens the archive itself
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
        assert (
            newer is not opened[0]
            and newer.import_module("things").Thing.newer
            and not hasattr(type(thing), "newer")
        )
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
    """The storages are lent: private torch memory moves to Tenon's memory, and both sides share
    it.
    """
    import socket

    import tenon

    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

    def answer() -> None:
        ends[0].close()
        # PyTorch 1.13 cannot move memory that has views, and makes a file of its own, which is not
        # sealed.
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
    assert (
        values_of(sent["weight"]) == [3.0] * 12 == values_of(back)
        and values_of(sent["parameter"]) == [3.0] * 4
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
