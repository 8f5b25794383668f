"""usage: torch_peer.py produce|consume. PyTorch in the matrix (tests/languages/matrix/README.md),
with its own calls and nothing of Tenon's.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
import server

DTYPES = {
    "1:8:1": torch.uint8,
    "0:16:1": torch.int16,
    "0:32:1": torch.int32,
    "0:64:1": torch.int64,
    "2:32:1": torch.float32,
    "2:64:1": torch.float64,
    "4:16:1": torch.bfloat16,
    "5:64:1": torch.complex64,
}
WORDS = {dtype: word for word, dtype in DTYPES.items()}


def untyped(tensor: torch.Tensor) -> Any:
    """The untyped storage. PyTorch 1.13 has another name for it."""
    return (
        tensor.untyped_storage()
        if hasattr(tensor, "untyped_storage")
        else tensor.storage().untyped()
    )


def over(storage: Any, dtype: str, sizes: str, strides: str, offset: int) -> torch.Tensor:
    return torch.empty(0, dtype=DTYPES[dtype]).set_(
        storage, offset, server.numbers(sizes), server.numbers(strides)
    )


class Peer(server.Server):
    def put(self, sock: socket.socket, kind: str) -> socket.socket:
        if kind != "raw":
            sock.close()
            raise server.Skip("PyTorch has no Tenon connection")
        return sock

    def content(self, held: torch.Tensor) -> bytes:
        return bytes(held.contiguous().reshape(-1).view(torch.uint8).tolist())

    def do_write(self, key: str, seed: str) -> str:
        tensor = self.kept[key]
        data = bytearray(server.pattern(int(seed), tensor.numel() * tensor.element_size()))
        if data:
            tensor.copy_(
                torch.frombuffer(data, dtype=torch.uint8).view(tensor.dtype).reshape(tensor.shape)
            )
        return ""

    def do_wait(self, number: str) -> str:
        server.wait_for_end(self.connections[number])
        return ""

    def do_lend(
        self,
        key: str,
        strategy: str,
        number: str,
        nbytes: str,
        seed: str,
        dtype: str,
        sizes: str,
        strides: str,
        offset: str,
    ) -> str:
        data = server.pattern(int(seed), int(nbytes))
        whole = torch.tensor(list(data), dtype=torch.uint8)
        storage = untyped(whole)
        if strategy == "raw_fd":
            # The storage owns this fd, as in torch.multiprocessing.reductions.
            fd, size = storage._share_fd_cpu_()[:2]
            server.send_fd(self.connections[number], fd)
            handle = f"0 {size}"
        elif strategy == "filename":
            manager, name, size = storage._share_filename_cpu_()[:3]
            handle = f"{os.fsdecode(manager) or '-'} {os.fsdecode(name)} 0 {size}"
        else:
            raise server.Skip(f"PyTorch has no {strategy}")
        self.kept[key] = over(storage, dtype, sizes, strides, int(offset))
        return handle

    def do_open(
        self,
        key: str,
        strategy: str,
        number: str,
        dtype: str,
        sizes: str,
        strides: str,
        offset: str,
        *handle: str,
    ) -> str:
        start = int(offset)
        if strategy in ("raw_fd", "arena_fd"):
            # PyTorch maps from the start of the segment, so the lender's offset becomes an offset
            # in elements. An arena's segment is mapped whole.
            begin, nbytes = map(int, handle[:2])
            whole = int(handle[2]) if strategy == "arena_fd" else begin + nbytes
            start += begin // torch.empty(0, dtype=DTYPES[dtype]).element_size()
            fd = server.receive_fd(self.connections[number])
            try:
                storage = torch.UntypedStorage._new_shared_fd_cpu(fd, whole)
            finally:
                os.close(fd)
        elif strategy == "filename":
            manager = "" if handle[0] == "-" else handle[0]
            storage = torch.UntypedStorage._new_shared_filename_cpu(
                os.fsencode(manager), os.fsencode(handle[1]), int(handle[3])
            )
        else:
            raise server.Skip(f"PyTorch has no {strategy}")
        tensor = over(storage, dtype, sizes, strides, start)
        self.kept[key] = tensor
        says = [
            WORDS[tensor.dtype],
            server.word_of(tensor.shape),
            server.word_of(tensor.stride()),
            tensor.storage_offset() - start + int(offset),
        ]
        return " ".join(
            map(str, [*says, 0, "1:0", "-", "-", server.hexadecimal(self.content(tensor))])
        )


if __name__ == "__main__":
    # The driver often asks for collections. They need not look at the objects of the import.
    gc.collect()
    gc.freeze()
    Peer().serve()
