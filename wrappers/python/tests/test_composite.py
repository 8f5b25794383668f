from __future__ import annotations

import os
import socket
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import tenon
from tenon import JaggedTensor, MetaTensor, NestedTensor, QuantizedTensor, SparseTensor

DENSE = np.array([[1, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0]], "float32")


def csr(last: int = 1, **flags: bool) -> SparseTensor:
    return SparseTensor.csr(
        np.array([0, 2, 2, 3]),
        np.array([0, 3, last]),
        np.array([1, 2, 3], "float32"),
        (3, 4),
        **flags,
    )


def all_kinds() -> dict[str, tenon.Composite]:
    return {
        "csr": csr(requires_grad=True),
        "coo": SparseTensor.coo(
            np.array([[0, 0, 2], [0, 3, 1]]), np.array([1, 2, 3], "float32"), (3, 4), coalesced=True
        ),
        "jagged": JaggedTensor.of(
            np.zeros((9, 2), "float32"), np.array([0, 4, 9]), np.array([3, 5])
        ),
        "nested": NestedTensor.of(
            np.zeros(12), np.array([[2, 3], [3, 2]]), np.array([[3, 1], [2, 1]]), np.array([0, 6])
        ),
        "per tensor": QuantizedTensor.per_tensor(np.zeros((2, 3), "uint8"), 0.5, -3),
        "per channel": QuantizedTensor.per_channel(
            np.zeros((2, 3), "int8"), np.ones(3), np.zeros(3, "int64"), 1
        ),
        "floats": QuantizedTensor.per_channel(
            np.zeros((2, 3), "uint8"), np.ones(2, "float32"), np.zeros(2, "float32"), 0
        ),
        "meta": MetaTensor.of((1 << 20, 1 << 20), "bfloat16", strides=(1, 1 << 20), offset=5),
    }


def described(composite: tenon.Composite) -> Any:
    names = (
        "is_coalesced",
        "ragged_dim",
        "quantizer",
        "scale",
        "zero_point",
        "axis",
        "strides",
        "offset",
    )
    parts = {name: (part.dtype, part.tolist()) for name, part in composite.parts.items()}
    extra = {name: getattr(composite, name) for name in names if hasattr(composite, name)}
    return (
        type(composite),
        composite.layout,
        composite.shape,
        composite.dtype,
        composite.requires_grad,
        parts,
        extra,
    )


def test_each_kind_says_what_it_is() -> None:
    kinds = all_kinds()
    assert (
        kinds["csr"].shape == (3, 4) and kinds["csr"].requires_grad and kinds["csr"].device == "cpu"
    )
    assert kinds["jagged"].shape == (2, -1, 2) and kinds["nested"].shape == (2, -1, -1)
    assert (
        kinds["meta"].device == "meta"
        and kinds["meta"].dtype == "bfloat16"
        and kinds["meta"].parts == {}
    )
    quantised = kinds["floats"]
    assert (
        isinstance(quantised, QuantizedTensor)
        and quantised.quantizer == "per_channel_affine_float_qparams"
    )
    assert repr(kinds["csr"]) == "<tenon.SparseTensor sparse_csr [3, 4] of float32 on cpu>"
    with pytest.raises(AttributeError, match="a meta tensor has no values"):
        _ = kinds["meta"].values
    with pytest.raises(BufferError, match=r"export its parts \(values, indices, plain_indices\)"):
        kinds["csr"].__dlpack__()
    with pytest.raises(TypeError, match="use its parts"):
        np.asarray(kinds["csr"])
    kinds["csr"].close()
    with pytest.raises(ValueError, match="already closed"):
        _ = kinds["csr"].layout
    with pytest.raises(TypeError, match="class methods"):
        SparseTensor()


def test_a_message_keeps_the_order_in_which_all_was_sent() -> None:
    first, last, sparse = tenon.zeros(1), tenon.zeros(2), csr()
    message = tenon.Message(
        [first, sparse, MetaTensor.of((7,)), last, csr()], names=["a", "b", None, None, "b"]
    )
    assert (
        len(message) == 2
        and [tensor.shape for tensor in message] == [(1,), (2,)]
        and message.names == ["a", None]
    )
    assert [name for name, _ in message.contents()] == ["a", "b", None, None, "b"]
    assert [item.shape for _, item in message.contents()] == [(1,), (3, 4), (7,), (2,), (3, 4)]
    assert message.composite("b").values.storage == sparse.values.storage
    assert message["a"].storage == first.storage and [
        each.layout for each in message.composites
    ] == ["sparse_csr", "meta", "sparse_csr"]
    with pytest.raises(KeyError, match=r"use composite\('b'\)"):
        message["b"]
    with pytest.raises(KeyError):
        message.composite("a")
    assert (
        len(tenon.Message(csr()).composites) == 1
        and len(tenon.Message({"x": csr()}).composites) == 1
    )
    with pytest.raises(ValueError, match="1 names for 2 tensors"):
        tenon.Message([first, sparse], names=["a"])


def test_to_another_process_and_back() -> None:
    mine, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            mine.close()
            with tenon.Connection(theirs) as connection:
                message = connection.recv(timeout=60)
                message.composite("csr").values.numpy()[0] = 7
                connection.send(
                    {name: item for name, item in message.contents() if name is not None},
                    timeout=60,
                )
                connection.recv(timeout=60)
            code = 0
        finally:
            os._exit(code)
    theirs.close()
    sent = all_kinds()
    with mine, tenon.Connection(mine) as connection:
        connection.send(sent, timeout=60)
        back = {
            name: item
            for name, item in connection.recv(timeout=60).contents()
            if isinstance(item, tenon.Composite)
        }
        assert sent["csr"].values.tolist() == [7, 2, 3]
        assert {name: described(item) for name, item in back.items()} == {
            name: described(item) for name, item in sent.items()
        }
        connection.send(timeout=60)
    assert os.waitpid(pid, 0) == (pid, 0)


def test_by_descriptor() -> None:
    kinds = all_kinds()
    with tenon.Descriptor(kinds) as descriptor:
        opened = tenon.open_descriptor(descriptor.bytes, descriptor.fds)
        assert [described(each) for each in opened.composites] == [
            described(each) for each in kinds.values()
        ]


def test_scipy_sees_the_same_values() -> None:
    for name in ("csr", "csc", "bsr", "coo"):
        theirs = scipy.sparse.csr_array(DENSE).asformat(name)
        own = SparseTensor.from_scipy(theirs, mode="frozen")
        assert own.layout == f"sparse_{name}" and own.shape == (3, 4)
        array = own.to_scipy()
        assert type(array) is type(theirs) and (array.toarray() == DENSE).all()
        assert np.shares_memory(array.data, own.values.numpy())
        if name != "coo":
            # Frozen indices are not copied. An array over Tenon's memory becomes a tensor without a
            # copy.
            assert np.shares_memory(array.indices, own.plain_indices.numpy())
            assert SparseTensor.from_scipy(array).values.storage == own.values.storage
    unsorted = scipy.sparse.csr_array(
        (np.array([2.0, 1.0]), np.array([3, 0]), np.array([0, 2])), shape=(1, 4)
    )
    assert SparseTensor.from_scipy(unsorted).to_scipy().toarray().tolist() == [[1, 0, 0, 2]]
    with pytest.raises(tenon.Unsupported, match="no array in BSC"):
        SparseTensor.bsc(np.array([0, 1]), np.array([0]), np.ones((1, 2, 2)), (2, 2)).to_scipy()
    with pytest.raises(tenon.Unsupported, match="two sparse dimensions"):
        SparseTensor.coo(np.zeros((1, 1), "int64"), np.ones((1, 4)), (3, 4)).to_scipy()
    with pytest.raises(TypeError, match=r"not dia: use its asformat\(\)"):
        SparseTensor.from_scipy(scipy.sparse.dia_array(DENSE))


def test_indices_are_checked_on_memory_that_nobody_else_can_write() -> None:
    sparse = csr()
    checked = sparse.check()
    sparse.plain_indices.numpy()[2] = 1 << 40
    with pytest.raises(tenon.Corrupt) as caught:
        sparse.to_scipy()
    assert caught.value.details == {"part": "plain_indices", "index": "2"}
    assert (
        checked.plain_indices.tolist() == [0, 3, 1]
        and checked.values.storage == sparse.values.storage
    )
    assert sparse.to_scipy(trusted=True).indices[2] == 1 << 40
    with pytest.raises(tenon.InvalidArgument) as wrong:
        SparseTensor.csr(np.array([0, 1]), np.array([0]), np.ones(1), (3, 4))
    assert wrong.value.details["part"] == "indices"
