"""One torch tensor of each layout that this PyTorch has, the strided layout left out.

split_rows.py and ../interop/test_torch_composite.py take the tensors apart and compare the results.
"""

from __future__ import annotations

import warnings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def dense_numbers() -> Any:
    import torch

    return torch.tensor([[1.0, 0, 0, 2], [0, 0, 0, 0], [0, 3, 0, 0], [0, 0, 0, 0]])


def layouts() -> dict[str, Any]:
    import torch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dense, numbers = dense_numbers(), torch.arange(8.0).reshape(2, 4)
    scales, floats = torch.tensor([0.1, 0.2]), torch.tensor([0.5, 1.5])
    found = {
        "coo": dense.to_sparse(),
        "repeated": torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2)),
        "hybrid": dense.to_sparse(1),
        "no elements": torch.zeros(3, 2).to_sparse(),
        "csr": dense.to_sparse_csr(),
        "csc": dense.to_sparse_csc(),
        "bsr": dense.to_sparse_bsr((2, 2)),
        "bsc": dense.to_sparse_bsc((2, 2)),
        "grad": torch.nn.Parameter(dense.to_sparse()),
        "meta": torch.empty((3, 4), device="meta")[1:, ::2],
        "quint8": torch.quantize_per_tensor(numbers, 0.5, 3, torch.quint8).t(),
        "qint8": torch.nn.Parameter(
            torch.quantize_per_tensor(numbers, 0.5, 3, torch.qint8)[:, 1:], requires_grad=False
        ),
        "qint32": torch.quantize_per_channel(
            numbers, scales, torch.tensor([0, 1]), 0, torch.qint32
        ),
        "quint4x2": torch.quantize_per_channel(numbers, scales, floats, 0, torch.quint4x2),
        "qfloat": torch.quantize_per_channel(numbers, scales, floats, 0, torch.quint8),
    }
    if hasattr(torch, "_nested_view_from_buffer"):
        found["nested"] = torch.nested.nested_tensor(
            [torch.arange(6.0).reshape(2, 3), torch.arange(4.0).reshape(4, 1)]
        )
        found["jagged"] = torch.nested.nested_tensor(
            [torch.arange(3.0), torch.arange(5.0)], layout=torch.jagged
        )
        found["jagged grad"] = torch.nested.nested_tensor(
            [torch.ones(2), torch.ones(1)], layout=torch.jagged, requires_grad=True
        )
        starts, lengths = torch.tensor([0, 1, 2]), torch.tensor([3, 2, 5])
        found["lengths"] = torch.nested.narrow(
            torch.arange(24.0).reshape(3, 8), 1, starts, lengths, layout=torch.jagged
        )
    return found


def check_same(a: Any, b: Any, name: str, *, packed: bool = False) -> None:
    """Compare two tensors. packed: b is a copy with strides of its own."""
    import torch

    assert (a.layout, a.dtype, a.requires_grad, type(a)) == (
        b.layout,
        b.dtype,
        b.requires_grad,
        type(b),
    ), name
    if a.is_meta:
        assert (a.shape, a.stride(), a.storage_offset()) == (
            b.shape,
            b.stride(),
            b.storage_offset(),
        ), name
    elif a.is_nested:
        assert all(torch.equal(x, y) for x, y in zip(a.unbind(), b.unbind(), strict=True)), name
    elif a.is_quantized:
        assert a.qscheme() == b.qscheme() and (packed or a.stride() == b.stride()), name
        assert torch.equal(a.dequantize(), b.dequantize()), name
    else:
        assert a.layout is not torch.sparse_coo or a.is_coalesced() == b.is_coalesced(), name
        assert torch.equal(a.detach().to_dense(), b.detach().to_dense()), name
