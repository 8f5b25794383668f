"""Stands in for what vLLM's test of its message queue imports from vLLM, in vllm_queue.py's child
process. This module is also a plugin of pytest, because the test needs a fixture of vLLM's
conftest.

The modules do what the test needs of them, in a simple way, and no more.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import pickle
import socket
import sys
import tempfile
import types
import uuid
from pathlib import Path

# The ranks of a row are to inherit one state of this module's generator, as a program has that
# imports more of vLLM.
import numpy.random  # noqa: F401
import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DEVICE = "vllm.distributed.device_communicators"


class StatelessProcessGroup:
    """A group of processes that share a store of torch.distributed."""

    def __init__(self, rank: int, world_size: int, store: Any) -> None:
        self.rank, self.world_size, self._store, self._count = rank, world_size, store, 0

    @staticmethod
    def create(host: str, port: int, rank: int, world_size: int) -> StatelessProcessGroup:
        from torch.distributed import TCPStore

        store = TCPStore(host, port, world_size, is_master=rank == 0)
        return StatelessProcessGroup(rank, world_size, store)

    def all_gather_obj(self, obj: Any) -> list[Any]:
        self._count += 1
        self._store.set(f"{self._count}/{self.rank}", pickle.dumps(obj))
        keys = [f"{self._count}/{rank}" for rank in range(self.world_size)]
        return [pickle.loads(self._store.get(key)) for key in keys]

    def broadcast_obj(self, obj: Any, src: int) -> Any:
        return self.all_gather_obj(obj)[src]

    def barrier(self) -> None:
        self.all_gather_obj(None)
        self._store.set(f"{self._count}/{self.rank}/done", "")
        if self.rank == 0:  # the store ends with this process
            for rank in range(self.world_size):
                self._store.get(f"{self._count}/{rank}/done")


def _open_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _module(name: str, **members: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    module.__dict__.update(members)
    module.__path__ = []  # so that it can have modules in it
    _put(name, module)
    return module


def _put(name: str, module: types.ModuleType) -> None:
    sys.modules[name] = module
    parent, _, leaf = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], leaf, module)


def install() -> None:
    """Make the modules. The queue is vLLM's file in the folder that VLLM_QUEUE_FOLDER names, or
    Tenon's without one. The package `vllm` that vllm_queue.py writes calls this, in children of
    spawn too.
    """
    folder = os.environ.get("VLLM_QUEUE_FOLDER")
    for name in ("vllm.distributed", "vllm.utils", DEVICE):
        _module(name)
    _module(
        "vllm.envs",
        VLLM_RINGBUFFER_WARNING_INTERVAL=60,
        VLLM_USE_SPINLOOP_EXT=False,
    )
    _module("vllm.logger", init_logger=logging.getLogger)
    platform = types.SimpleNamespace(is_cuda_alike=lambda: False, device_count=lambda: 8)
    _module("vllm.platforms", current_platform=platform)
    _module("vllm.platforms.interface", get_assigned_physical_gpu_ids=lambda: None)
    _module("vllm.utils.cpu_resource_utils", check_cgroup_memory_available=lambda *_: None)
    _module("vllm.utils.system_utils", update_environment_variables=os.environ.update)
    _module(
        "vllm.utils.network_utils",
        get_ip=lambda: "127.0.0.1",
        get_open_port=_open_port,
        get_open_zmq_inproc_path=lambda: f"inproc://{uuid.uuid4()}",
        get_open_zmq_ipc_path=lambda: f"ipc://{tempfile.gettempdir()}/{uuid.uuid4()}",
        is_valid_ipv6_address=lambda address: ":" in address,
    )
    _module(
        "vllm.distributed.utils",
        StatelessProcessGroup=StatelessProcessGroup,
        sched_yield=os.sched_yield,
    )
    _module(
        "vllm.distributed.parallel_state",
        in_the_same_node_as=lambda pg, source_rank: [True] * _size(pg),
    )
    if folder:
        _load(f"{DEVICE}.shm_broadcast", Path(folder))
        _load(f"{DEVICE}.shm_tensor_arena", Path(folder))
        return
    from tenon.integrations import vllm

    # The test imports these names of vLLM's insides. Rows that use them do not run here.
    members: Any = vllm.__dict__
    members.update(ShmRingBuffer=None, check_shm_free_space=None)
    # Some rows set the time after which vLLM's reader sleeps, or count calls of vLLM's sockets.
    queue: Any = vllm.MessageQueue
    queue._spin_condition = types.SimpleNamespace()
    queue.recv = staticmethod(lambda *_: None)
    _put(f"{DEVICE}.shm_broadcast", vllm)
    _module(f"{DEVICE}.shm_tensor_arena", ShmTensorArena=None, _ArenaPickler=None)


def _size(pg: Any) -> int:
    import torch.distributed as dist

    if isinstance(pg, dist.ProcessGroup):
        return int(dist.get_world_size(pg))
    return int(pg.world_size)


def _load(name: str, folder: Path) -> None:
    file = folder / (name.replace(".", "/") + ".py")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    _put(name, module)
    spec.loader.exec_module(module)


@pytest.fixture
def caplog_vllm(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO):
        yield caplog
