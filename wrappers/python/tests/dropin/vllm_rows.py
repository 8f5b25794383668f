"""Rows with tensors and groups of PyTorch for tenon.integrations.vllm, which vllm_queue.py runs
beside vLLM's own. A row that is named as one of vLLM's shows the same behaviour without counting
calls of vLLM's insides.
"""

from __future__ import annotations

import gc
import os
import socket
import time
import traceback

import multiprocess
import pytest
import tenon
import torch
import torch.distributed as dist
from tenon.integrations import _vllm_rendezvous
from tenon.integrations.vllm import MessageQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MIB = 1 << 20


def run_ranks(function: Callable[[int], None], size: int) -> None:
    """Run a function in the processes of a group, and see that each ends well."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]

    def run(rank: int) -> None:
        # A forked process lacks the threads with which PyTorch computes in its parent.
        torch.set_num_threads(1)
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        dist.init_process_group("gloo", rank=rank, world_size=size)
        try:
            function(rank)
            dist.barrier()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    ranks = [multiprocess.Process(target=run, args=(rank,)) for rank in range(size)]
    for each in ranks:
        each.start()
    end = time.monotonic() + 60
    for each in ranks:
        each.join(max(end - time.monotonic(), 0.1))
    late = [each for each in ranks if each.is_alive()]
    for each in late:
        each.kill()
        each.join()
    assert not late and [each.exitcode for each in ranks] == [0] * size


def pair(max_chunk_bytes: int = MIB, max_chunks: int = 2, **options: Any) -> Any:
    writer = MessageQueue(1, 1, None, max_chunk_bytes, max_chunks)
    reader = MessageQueue.create_from_handle(writer.export_handle(), 0, **options)
    writer.wait_until_ready()
    return writer, reader


def lent(writer: MessageQueue) -> int:
    stats = writer._arena.stats()
    return stats.blocks_live + stats.blocks_lent


def test_tensor_broadcast() -> None:
    def rank_main(rank: int) -> None:
        torch.manual_seed(42)
        payload = {
            "mid": torch.randn(1024, 512),
            "big": torch.randn(4096, 2048).to(torch.bfloat16),
            "nested": ["plain", 123, {"inner": torch.arange(5)}],
        }
        queue = MessageQueue.create_from_process_group(dist.group.WORLD, 8 * MIB, 4, 0)
        if rank == 0:
            queue.enqueue(payload)
            for number in range(16):
                queue.enqueue({"junk": torch.full((1024, 512), float(number))})
            return
        received: Any = queue.dequeue(timeout=30)
        for name in ("mid", "big"):
            assert received[name].dtype == payload[name].dtype
            assert torch.equal(received[name], payload[name])
        assert torch.equal(received["nested"][2]["inner"], torch.arange(5))
        for number in range(16):
            junk = queue.dequeue(timeout=30)["junk"]
            assert torch.equal(junk, torch.full((1024, 512), float(number)))
        assert torch.equal(received["mid"], payload["mid"])
        received["mid"] += 1
        received["big"][0, 0] = 1

    run_ranks(rank_main, 3)


@pytest.mark.parametrize("nbytes", [0, 2, 3000, 5000, MIB - 2, MIB, 2 * MIB, 20 * MIB])
def test_broadcast_retains_values_after_ring_reuse(nbytes: int) -> None:
    writer, reader = pair(2 * MIB, 1)
    tensor = torch.full((nbytes // 2,), 17, dtype=torch.int16)
    writer.enqueue(tensor)
    received = reader.dequeue(timeout=30)
    for value in range(4):
        writer.enqueue(torch.full((MIB // 2,), value, dtype=torch.int16))
        assert (reader.dequeue(timeout=30) == value).all()
        assert received.dtype == torch.int16 and torch.equal(received, tensor)
    received += 1
    assert (tensor == 17).all()
    assert lent(writer) == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(8, 8, requires_grad=True),
        lambda: torch.randn(4, dtype=torch.complex64).conj(),
        lambda: torch.nn.Parameter(torch.randn(4), requires_grad=False),
        lambda: torch.randn(3000, 3).t(),
        lambda: torch.tensor(3.5),
        lambda: torch.randn(40, 40).to_sparse(),
        lambda: torch.tensor([True, False] * 4000),
    ],
    ids=["requires_grad", "conj", "param", "noncontig", "scalar", "sparse", "bool"],
)
def test_tensor_pickle_roundtrip(make: Callable[[], torch.Tensor]) -> None:
    """Through the queue, in place of pickle alone as in vLLM's row."""
    writer, reader = pair()
    tensor = make()
    writer.enqueue({"tensor": tensor})
    received = reader.dequeue(timeout=30)["tensor"]
    assert type(received) is type(tensor) and received.dtype == tensor.dtype
    assert received.requires_grad == tensor.requires_grad and received.layout == tensor.layout
    assert torch.equal(received.to_dense(), tensor.to_dense())


@pytest.mark.filterwarnings("ignore:The given buffer is not writable")
def test_arena_zero_copy_roundtrip() -> None:
    """With copy=False a tensor lies in the writer's block, and keeps it."""
    writer, reader = pair(MIB, 2, copy=False)
    writer.enqueue([torch.full((100_000,), 7), "text"])
    tensor = reader.dequeue(timeout=30)[0]
    assert (tensor == 7).all() and lent(writer) == 1
    view = tensor[5:10]
    del tensor
    gc.collect()
    assert lent(writer) == 1 and (view == 7).all()
    del view
    gc.collect()
    assert lent(writer) == 0


def test_single_reader() -> None:
    def rank_main(rank: int) -> None:
        queue, handles = MessageQueue.create_from_process_group_single_reader(
            dist.group.WORLD, MIB, 2, reader_rank=1
        )
        if rank != 1:
            assert handles == []
            queue.wait_until_ready()
            queue.enqueue(("from", rank))
            return
        readers = [MessageQueue.create_from_handle(each, 0) for each in handles]
        for sender in (2, 0):
            readers[sender].wait_until_ready()
            assert readers[sender].dequeue(timeout=30) == ("from", sender)
        queue.wait_until_ready()
        queue.enqueue("to myself")
        assert readers[1].dequeue(timeout=30) == "to myself"

    run_ranks(rank_main, 3)


def test_external_writer() -> None:
    """The writer is outside the group, and all ranks of the group read."""
    writer = MessageQueue(2, 2)
    handle = writer.export_handle()

    def rank_main(rank: int) -> None:
        queue = MessageQueue.create_from_process_group(
            dist.group.WORLD,
            MIB,
            2,
            external_writer_handle=handle if rank == 0 else None,
            blocking=False,
        )
        assert not queue._is_writer
        queue.wait_until_ready()
        assert queue.broadcast_object() == "from outside"

    import threading

    thread = threading.Thread(target=writer.enqueue, args=("from outside", 60))
    thread.start()
    run_ranks(rank_main, 2)
    thread.join()


def test_other_machines_are_refused_by_all_ranks() -> None:
    def rank_main(rank: int) -> None:
        place = _vllm_rendezvous.machine()
        _vllm_rendezvous.machine = lambda: f"machine {rank // 2}" if rank else place
        for call in (
            lambda: MessageQueue.create_from_process_group(dist.group.WORLD, MIB, 2),
            lambda: MessageQueue.create_from_process_group_single_reader(dist.group.WORLD, MIB, 2),
        ):
            with pytest.raises(tenon.Unsupported, match=r"the ranks \[1, 2\] of the group"):
                call()

    run_ranks(rank_main, 3)
