"""Rows for tenon.integrations.verl and tenon.integrations.sglang, which rl_weights.py runs in a
Python that has PyTorch. RL_FOLDER has the original files. What they import beside PyTorch is
replaced by the few functions that they need.

A peer is a forked child, so that it can be killed.
"""

from __future__ import annotations

import ast
import asyncio
import base64
import contextlib
import importlib.util
import inspect
import io
import os
import pickle
import re
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import AsyncIterator, Callable, Iterator
from multiprocessing import resource_tracker, util
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
import tenon
import torch
import zmq
from tenon.integrations import sglang as our_sglang
from tenon.integrations import verl as our_verl

FOLDER = Path(os.environ["RL_FOLDER"])
SHM = Path("/dev/shm")
CPU = torch.device("cpu")
MIB = 1 << 20
PAIRS = [("ours", "ours"), ("ours", "theirs"), ("theirs", "ours"), ("theirs", "theirs")]
# The originals use members of types that came with PyTorch 2.1.
needs_new_torch = pytest.mark.skipif(not hasattr(torch.float32, "itemsize"), reason="old PyTorch")


# ---- the originals


def module(name: str, **members: Any) -> types.ModuleType:
    made = types.ModuleType(name)
    made.__dict__.update(members, __path__=[])
    sys.modules[name] = made
    return made


def original(path: str, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, FOLDER / path)
    assert spec is not None and spec.loader is not None
    loaded = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


async def each(weights: Any) -> AsyncIterator[Any]:
    """verl's ensure_async_iterator."""
    if hasattr(weights, "__aiter__"):
        async for found in weights:
            yield found
    else:
        for found in weights:
            yield found


def load_verl() -> Any:
    for name in ("verl", "verl.utils", "verl.workers", "verl.workers.rollout"):
        module(name)
    nothing = types.SimpleNamespace(
        synchronize=lambda: None, ipc_collect=lambda: None, empty_cache=lambda: None
    )
    module(
        "verl.utils.device",
        get_device_id=lambda: 0,
        get_device_name=lambda: "cpu",
        get_torch_device=lambda: nothing,
        is_support_ipc=lambda: False,
    )
    module("verl.workers.rollout.utils", ensure_async_iterator=each)
    return original("verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py", "their_verl")


def load_sglang() -> Any:
    """SGLang's bucket, and its serializer, which is cut out of a file with many imports."""
    for name in ("sglang", "sglang.srt", "sglang.srt.weight_sync"):
        module(name)
    bucket = original(
        "sglang/srt/weight_sync/tensor_bucket.py", "sglang.srt.weight_sync.tensor_bucket"
    )
    wanted = ("MultiprocessingSerializer", "SafeUnpickler", "_safe_load_torch_storage")
    tree = ast.parse((FOLDER / "sglang/srt/utils/common.py").read_text())
    tree.body = [node for node in tree.body if getattr(node, "name", None) in wanted]
    theirs = {"io": io, "pickle": pickle, "torch": torch, "pybase64": base64}
    theirs["ForkingPickler"] = ForkingPickler  # type: ignore[assignment]
    exec(compile(tree, "common.py", "exec"), theirs)  # type: ignore[arg-type]
    serializer: Any = theirs["MultiprocessingSerializer"]
    return types.SimpleNamespace(
        FlattenedTensorBucket=bucket.FlattenedTensorBucket,
        FlattenedTensorMetadata=bucket.FlattenedTensorMetadata,
        MultiprocessingSerializer=serializer,
    )


VERL = {"ours": our_verl, "theirs": load_verl()}
SGLANG = {"ours": our_sglang, "theirs": load_sglang()}


# ---- peers


class Child:
    """A forked process that runs a function, whose result or error result() gives."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._read, write = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            try:
                signal.alarm(60)
                util._run_after_forkers()  # as in multiprocessing's children
                try:
                    found = True, function(*arguments)
                except BaseException as error:
                    traceback.print_exc()
                    found = False, f"{type(error).__name__}: {error}"
                os.write(write, pickle.dumps(found))
            finally:
                os._exit(0)
        os.close(write)

    def result(self) -> Any:
        with open(self._read, "rb") as pipe:
            data = pipe.read()
        os.waitpid(self.pid, 0)
        good, found = pickle.loads(data) if data else (True, None)
        assert good, found
        return found

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.result()


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """Ends a row that hangs, and checks that no row leaves a name behind."""
    signal.alarm(60)
    our_verl._kept.clear()
    our_verl._mapped.clear()
    yield
    signal.alarm(0)
    assert names() == []


@pytest.fixture
def handle(tmp_path: Path) -> str:
    return f"ipc://{tmp_path}/weights.sock"


def names() -> list[str]:
    return [name for name in os.listdir(SHM) if name.startswith("verl_weights_")]


def weights() -> dict[str, Any]:
    """Several buckets of 1 MiB, of all kinds."""
    torch.manual_seed(7)
    found = {f"layer.{i}": torch.randn(300 + i, 257) for i in range(12)}
    found |= {
        "half": torch.randn(17, 3).to(torch.bfloat16),
        "bytes": torch.arange(3, dtype=torch.int8),
        "double": torch.randn(5, dtype=torch.float64),
        "flags": torch.tensor([True, False, True]),
        "scalar": torch.tensor(3.5),
        "empty": torch.empty(0, 4),
        "turned": torch.randn(6, 9).t(),
        "large": torch.randn(MIB // 4 - 64),
        "last": torch.randn(11),
    }
    return found


def same(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and torch.equal(left[name], right[name])
        for name in left
    )


def send(which: str, handle: str, weights: Any, mib: int = 1) -> None:
    sender = VERL[which].BucketedWeightSender(handle, bucket_size_mb=mib, use_shm=True)
    asyncio.run(sender.async_send_weights(weights))


def receive(which: str, handle: str, seen: Callable[[list[Any], bool], Any] | None = None) -> Any:
    """The weights that come, the sizes of their buckets, and the names in /dev/shm meanwhile."""
    found: dict[str, Any] = {}
    sizes, left = [], set()

    def keep(bucket: list[tuple[str, Any]], is_last: bool) -> None:
        if seen is not None:
            seen(bucket, is_last)
        sizes.append((len(bucket), is_last))
        found.update((name, tensor.clone()) for name, tensor in bucket)
        left.update(names())

    VERL[which].BucketedWeightReceiver(handle, CPU, use_shm=True).receive_weights(keep)
    return found, sizes, left


def received_well(which: str, *handles: str) -> Any:
    for handle in handles:
        found, sizes, left = receive(which, handle)
        assert same(found, weights())
        assert [last for _, last in sizes] == [False] * (len(sizes) - 1) + [True]
    return sizes, left


# ---- verl


def test_verl_signatures() -> None:
    for cls, method in (
        ("BucketedWeightSender", "async_send_weights"),
        ("BucketedWeightReceiver", "receive_weights"),
    ):
        ours, theirs = (getattr(VERL[which], cls) for which in ("ours", "theirs"))
        for name in ("__init__", method):
            forms = [
                [(each.name, each.default) for each in inspect.signature(f).parameters.values()]
                for f in (getattr(ours, name), getattr(theirs, name))
            ]
            assert forms[0][: len(forms[1])] == forms[1]
            assert all(default is None for _, default in forms[0][len(forms[1]) :])
        is_async = [inspect.iscoroutinefunction(getattr(each, method)) for each in (ours, theirs)]
        assert is_async[0] == is_async[1]


@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_verl_sync(sender: str, receiver: str, handle: str) -> None:
    if "theirs" in (sender, receiver) and not hasattr(torch.float32, "itemsize"):
        pytest.skip("verl needs a newer PyTorch")
    # ZMQ may remove the file of verl's second sender when it closes the first one's.
    second = handle if sender == "ours" else f"{handle}2"
    child = Child(received_well, receiver, handle, second)

    async def generated() -> AsyncIterator[Any]:
        for pair in weights().items():
            yield pair

    send(sender, handle, iter(weights().items()))
    send(sender, second, generated())
    sizes, left = child.result()
    assert len(sizes) > 3
    # Tenon's file has lost its name when the first bucket arrives.
    assert bool(left) == (sender == "theirs")


def test_verl_fills_beside_the_bucket_that_is_read(handle: str) -> None:
    behind = threading.Event()

    def generated() -> Iterator[tuple[str, Any]]:
        for i in range(40):
            if i == 5:
                behind.set()  # the first bucket was sent, and the second one begun
            yield f"{i}", torch.full((MIB // 4 // 16,), float(i))  # four of them are a bucket

    def look(bucket: list[tuple[str, Any]], is_last: bool) -> None:
        assert behind.wait(30)
        time.sleep(0.05)  # the sender would write into this bucket now, if it did
        assert all(bool((tensor == float(name)).all()) for name, tensor in bucket)

    thread = threading.Thread(target=send, args=("ours", handle, generated()))
    thread.start()
    found, sizes, _ = receive("ours", handle, look)
    thread.join()
    assert len(found) == 40 and len(sizes) == 10


def buffers() -> set[str]:
    """The inodes of the buffers that this process maps."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[4] for line in lines if re.search(r"/dev/shm/(#|verl_weights_)", line)}


def test_verl_keeps_the_buffer_for_the_next_sync(handle: str) -> None:
    def work() -> list[set[str]]:
        return [received_well("ours", handle) and buffers() for _ in range(3)]

    for _ in range(2):  # the second child is a receiver that was started again
        child = Child(work)
        seen = []
        for _ in range(3):
            send("ours", handle, iter(weights().items()))
            seen.append(buffers())
        assert len(seen[0]) == 1 and seen == [seen[0]] * 3
        assert child.result() == seen
    first = seen[0]
    child = Child(received_well, "ours", handle)
    send("ours", handle, iter(weights().items()), mib=2)  # another size
    child.result()
    assert len(buffers()) == 1 and buffers() != first
    child = Child(lambda: send("ours", handle, iter(weights().items())))  # after a fork
    received_well("ours", handle)
    child.result()


def test_verl_syncs_follow_each_other_at_once(handle: str) -> None:
    # A receiver's ZMQ socket that connected again would take a message of the next sync.
    def work() -> None:
        for _ in range(300):
            found, _, _ = receive("ours", handle)
            assert found.keys() == {"a"}

    child = Child(work)
    for _ in range(300):
        send("ours", handle, [("a", torch.ones(4))])
    child.result()


def test_verl_sender_leaves_the_loop_to_others(handle: str) -> None:
    def slow(bucket: list[Any], is_last: bool) -> None:
        time.sleep(0.1)

    async def run() -> int:
        n = 0
        sender = our_verl.BucketedWeightSender(handle, 1, True)
        task = asyncio.ensure_future(sender.async_send_weights(iter(weights().items())))
        while not task.done():
            await asyncio.sleep(0.01)
            n += 1
        await task
        return n

    child = Child(receive, "ours", handle, slow)
    assert asyncio.run(run()) > 20
    child.result()


def stop_between_buckets(which: str, handle: str) -> tuple[Child, int]:
    """A sender that has sent a bucket and waits in its generator, and a pipe that says so."""
    read, write = os.pipe()

    def generated() -> Iterator[Any]:
        for i in range(8):
            yield f"{i}", torch.ones(MIB // 8)
        os.write(write, b"!")
        time.sleep(60)

    return Child(send, which, handle, generated()), read


@pytest.mark.parametrize("sender", ["ours", pytest.param("theirs", marks=needs_new_torch)])
def test_verl_sender_killed_between_buckets(sender: str, handle: str) -> None:
    resource_tracker.ensure_running()  # which outlives the child, as in a program with workers
    child, read = stop_between_buckets(sender, handle)

    def kill() -> None:
        os.read(read, 1)
        assert bool(names()) == (sender == "theirs")
        child.kill()

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(tenon.PeerGone, match=r"the sender at ipc.* has ended") as caught:
        receive("ours", handle)
    assert "Start the sync again" in str(caught.value)
    thread.join()
    assert names() == []


@needs_new_torch
def test_verl_originals_leak_when_the_sender_is_killed(handle: str) -> None:
    resource_tracker.ensure_running()
    child, read = stop_between_buckets("theirs", handle)
    receiver = Child(receive, "theirs", handle)
    os.read(read, 1)
    child.kill()
    time.sleep(0.5)
    assert os.waitpid(receiver.pid, os.WNOHANG) == (0, 0)  # it waits for ever
    receiver.kill()
    [name] = names()  # nobody removes it before the whole program ends
    assert (SHM / name).stat().st_size == MIB
    (SHM / name).unlink()


@pytest.mark.parametrize("receiver", ["ours", pytest.param("theirs", marks=needs_new_torch)])
def test_verl_receiver_killed(receiver: str, handle: str) -> None:
    def die(bucket: list[Any], is_last: bool) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    child = Child(receive, receiver, handle, die)
    with pytest.raises(tenon.PeerGone, match=r"the receiver at ipc.* has ended"):
        send("ours", handle, iter(weights().items()))
    child.result()
    assert not list(Path(handle[6:]).parent.iterdir())


def test_verl_receiver_raises(handle: str) -> None:
    def fail(bucket: list[Any], is_last: bool) -> None:
        raise KeyError("no such parameter")

    child = Child(receive, "ours", handle, fail)
    with pytest.raises(tenon.PeerGone, match="the receiver"):
        send("ours", handle, iter(weights().items()))
    with pytest.raises(AssertionError, match="KeyError: 'no such parameter'"):
        child.result()


def test_verl_weight_is_larger_than_the_buffer(handle: str) -> None:
    child = Child(receive, "ours", handle)
    with pytest.raises(tenon.InvalidArgument, match="raise bucket_size_mb"):
        send("ours", handle, iter([("small", torch.ones(3)), ("large", torch.ones(MIB))]))
    with pytest.raises(AssertionError, match="PeerGone"):
        child.result()


def test_verl_timeouts(handle: str) -> None:
    sender = our_verl.BucketedWeightSender(handle, 1, True, timeout=0.05)
    with pytest.raises(tenon.Timeout, match=r"the receiver at ipc.* has not answered for 0.05"):
        asyncio.run(sender.async_send_weights([]))
    receiver = our_verl.BucketedWeightReceiver(handle, CPU, True, timeout=0.05)
    with pytest.raises(tenon.Timeout, match="give a longer timeout"):
        receiver.receive_weights(lambda bucket, is_last: None)


def test_verl_cuda_is_refused(handle: str) -> None:
    for make in (
        lambda: our_verl.BucketedWeightSender(handle),
        lambda: our_verl.BucketedWeightReceiver(handle, CPU),
    ):
        with pytest.raises(tenon.Unsupported, match="set use_shm=True"):
            make()


class Bomb:
    def __reduce__(self) -> Any:
        return os.mkdir, (str(SHM / "verl_weights_bomb"),)


def meta(**changes: Any) -> dict[str, Any]:
    good = {"name": "w", "shape": torch.Size([4]), "dtype": torch.float32, "offset": 0}
    return {"bucket_meta": {"w": {**good, "handle": None, **changes}}, "is_last": True}


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"name": "verl_weights_small", "size": 4097}, None, "has 4096 bytes, and not 4097"),
        ({"name": "verl_weights_small", "size": 0}, None, "has 4096 bytes, and not 0"),
        ({"name": "../etc/passwd", "size": 1}, None, "which has a slash"),
        ({"size": 1}, None, "has no name and size"),
        ((len, ()), None, "the message names builtins.len"),
        (Bomb(), None, "the message names posix.mkdir"),
        (None, meta(offset=4096), "lies at the bytes 4096 to 4112 of a buffer of 4096 bytes"),
        (None, meta(offset=-16), "lies at the bytes -16 to 0"),
        (None, meta(offset=2), "is no bucket"),
        (None, meta(shape=torch.Size([1025])), "lies at the bytes 0 to 4100"),
        (None, meta(dtype="float32"), "is no bucket"),
        (None, meta(handle=(1, 2)), "by a handle of CUDA's"),
        (None, {"is_last": True}, "is no bucket"),
        (None, meta(handle=Bomb()), "the message names posix.mkdir"),
    ],
)
def test_verl_hostile_sender(first: Any, second: Any, said: str, handle: str) -> None:
    small = SHM / "verl_weights_small"
    small.write_bytes(bytes(4096))
    try:
        with zmq.Context() as context, context.socket(zmq.REQ) as socket:
            socket.bind(handle)
            socket.linger = 0

            def run() -> None:
                socket.send(pickle.dumps(first or {"name": small.name, "size": 4096}))
                if second is not None:
                    socket.recv()
                    socket.send(pickle.dumps(second))

            thread = threading.Thread(target=run)
            thread.start()
            with pytest.raises(tenon.Corrupt, match=said):
                receive("ours", handle)
            thread.join()
    finally:
        small.unlink()


def in_small_shm(handle: str) -> None:
    sys.path.append(str(Path(__file__).resolve().parents[4] / "tests" / "support"))
    from own_shm import enter_namespace

    try:
        enter_namespace(2 * MIB)
    except OSError:
        return
    peer = Child(receive, "ours", handle)
    with pytest.raises(tenon.ResourceExhausted, match=r"/dev/shm has no room.*--shm-size"):
        send("ours", handle, iter([("large", torch.ones(MIB))]), mib=8)
    with pytest.raises(AssertionError, match="PeerGone"):
        peer.result()


def test_verl_full_shm(handle: str) -> None:
    Child(in_small_shm, handle).result()


# ---- SGLang


def lend(which: str, named: list[tuple[str, Any]]) -> tuple[Any, bytes]:
    """A bucket, and its pickle in the form in which SGLang's engine takes it."""
    bucket = SGLANG[which].FlattenedTensorBucket(named)
    parts = {
        "flattened_tensor": bucket.get_flattened_tensor(),
        "metadata": bucket.get_metadata(),
    }
    return bucket, SGLANG[which].MultiprocessingSerializer.serialize(parts)


def borrow(which: str, data: Any) -> Any:
    parts = SGLANG[which].MultiprocessingSerializer.deserialize(data)
    assert type(parts["metadata"][0]) is SGLANG[which].FlattenedTensorMetadata
    return SGLANG[which].FlattenedTensorBucket(**parts)


def aligned() -> list[tuple[str, Any]]:
    order = sorted(weights().items(), key=lambda pair: -pair[1].element_size())
    return [(name, tensor) for name, tensor in order if tensor.dim()]


@pytest.mark.parametrize(("sender", "receiver"), PAIRS)
def test_sglang_bucket(sender: str, receiver: str) -> None:
    named = aligned()
    bucket, data = lend(sender, named)
    bucket.get_flattened_tensor()[-1] = 77

    def work() -> None:
        found = borrow(receiver, data)
        own = dict(bucket.reconstruct_tensors())
        assert same(dict(found.reconstruct_tensors()), own)
        assert found.get_flattened_tensor()[-1] == 77
        found.get_flattened_tensor()[0] = 55  # the other process sees it: nothing was copied

    Child(work).result()
    assert bucket.get_flattened_tensor()[0] == 55
    lays = [(each.name, each.start_idx, each.end_idx) for each in bucket.get_metadata()]
    theirs = SGLANG["theirs"].FlattenedTensorBucket(named).get_metadata()
    assert lays == [(each.name, each.start_idx, each.end_idx) for each in theirs]


def test_sglang_bucket_stays_in_tenons_memory() -> None:
    bucket, _ = lend("ours", aligned())
    flat = bucket.get_flattened_tensor()
    storage, offset = tenon.Storage.at(flat.data_ptr(), flat.numel())
    assert (offset, storage.nbytes) == (0, flat.numel())


@pytest.mark.parametrize("receiver", ["ours", "theirs"])
def test_sglang_types_of_odd_sizes(receiver: str) -> None:
    named = [("a", torch.arange(3, dtype=torch.int8)), ("b", torch.randn(5)), ("c", torch.ones(()))]
    bucket, data = lend("ours", named)
    assert [each.start_idx for each in bucket.get_metadata()] == [0, 4, 24]
    Child(
        lambda: same(dict(borrow(receiver, data).reconstruct_tensors()), dict(named)) or 1 / 0
    ).result()
    with pytest.raises(RuntimeError):  # SGLang's own cannot
        SGLANG["theirs"].FlattenedTensorBucket(named[:2]).reconstruct_tensors()


@needs_new_torch
def test_sglang_empty_bucket_to_receive_into() -> None:
    form = ["a", "b"], ["float32", torch.int8], [(2, 3), [5]], "cpu"
    ours, theirs = (each.FlattenedTensorBucket.empty(*form) for each in SGLANG.values())
    assert [vars(each) for each in ours.metadata] == [vars(each) for each in theirs.metadata]
    assert ours.flattened_tensor.shape == theirs.flattened_tensor.shape
    for bad in (
        ([], [], [], "cpu"),
        (["a"], ["float32"], [(-1,)], "cpu"),
        (["a", "b"], ["int8", "float32"], [(3,), (1,)], "cpu"),
        (["a"], ["int8"], [], "cpu"),
    ):
        said = []
        for each in SGLANG.values():
            with pytest.raises(ValueError) as caught:
                each.FlattenedTensorBucket.empty(*bad)
            said.append(str(caught.value))
        assert said[0] == said[1]
    for arguments in ({"named_tensors": []}, {}, {"metadata": []}):
        said = []
        for each in SGLANG.values():
            with pytest.raises(ValueError) as caught:
                each.FlattenedTensorBucket(**arguments)
            said.append(str(caught.value))
        assert said[0] == said[1]


@pytest.mark.parametrize("receiver", ["ours", "theirs"])
def test_sglang_any_object_as_text(receiver: str) -> None:
    named = [("a", torch.ones(3, requires_grad=True)), ("b", torch.nn.Parameter(torch.ones(2)))]
    data = our_sglang.MultiprocessingSerializer.serialize(named, output_str=True)
    assert isinstance(data, str)

    def work() -> None:
        found = SGLANG[receiver].MultiprocessingSerializer.deserialize(data)
        assert [type(tensor) for _, tensor in found] == [torch.Tensor, torch.nn.Parameter]
        assert same(dict(found), dict(named)) and found[0][1].requires_grad

    Child(work).result()


@pytest.mark.parametrize("receiver", ["ours", "theirs"])
def test_sglang_under_the_strategy_tenon(receiver: str) -> None:
    def work() -> None:
        import tenon.torch

        tenon.torch.install()
        torch.multiprocessing.set_sharing_strategy("tenon")
        named = aligned()
        _, data = lend("ours", named)
        other = our_sglang.MultiprocessingSerializer.serialize({"private": torch.ones(5)})

        def inner() -> None:
            assert same(dict(borrow(receiver, data).reconstruct_tensors()), dict(named))
            found = SGLANG[receiver].MultiprocessingSerializer.deserialize(other)
            assert torch.equal(found["private"], torch.ones(5))

        Child(inner).result()

    Child(work).result()


def test_sglang_receiver_outlives_the_sender() -> None:
    read, write = os.pipe()
    go, end = os.pipe()

    def work() -> None:
        os.write(write, lend("ours", [("a", torch.full((9,), 3.0))])[1])
        os.read(go, 1)

    child = Child(work)
    found = borrow("ours", os.read(read, 1 << 16))
    child.kill()
    assert torch.equal(found.reconstruct_tensors()[0][1], torch.full((9,), 3.0))
    for fd in (read, write, go, end):
        os.close(fd)


def test_sglang_sender_is_gone_or_was_asked_before() -> None:
    read, write = os.pipe()
    Child(lambda: os.write(write, lend("ours", [("a", torch.ones(9))])[1])).result()
    for data in (os.read(read, 1 << 16), twice()):
        with pytest.raises(tenon.PeerGone, match="serialize the bucket again"):
            borrow("ours", data)


def twice() -> bytes:
    _, data = lend("ours", [("a", torch.ones(9))])
    Child(lambda: borrow("ours", data) and None).result()
    return data


def test_sglang_hostile_pickles() -> None:
    load = our_sglang.MultiprocessingSerializer.deserialize
    for bad, said in (
        (pickle.dumps(Bomb()), "the message names posix.mkdir"),
        (pickle.dumps(torch.load), "the message names torch.serialization.load"),
        (pickle.dumps(tenon.Storage), "the message names tenon"),
        (pickle.dumps(eval), "the message names builtins.eval"),
        (pickle.dumps([1, 2])[:-3], "is no pickle"),
        (b"", "is no pickle"),
    ):
        with pytest.raises(tenon.Corrupt, match=said):
            load(bad)
    assert load(pickle.dumps({"a": [1, torch.float32]})) == {"a": [1, torch.float32]}


@pytest.mark.parametrize(("begin", "end"), [(0, 13), (0, 11), (4, 16), (-12, 0), (8, 0)], ids=str)
def test_sglang_metadata_of_a_wrong_size(begin: int, end: int) -> None:
    form = "a", torch.Size([3]), torch.float32, begin, end, 12
    bucket = our_sglang.FlattenedTensorBucket(
        flattened_tensor=torch.zeros(12, dtype=torch.uint8),
        metadata=[our_sglang.FlattenedTensorMetadata(*form)],
    )
    with pytest.raises(tenon.InvalidArgument, match="of one bucket"):
        bucket.reconstruct_tensors()


with contextlib.suppress(RuntimeError):
    torch.set_num_threads(1)
