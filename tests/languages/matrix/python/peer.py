"""usage: peer.py produce|consume. Tenon's Python package in the matrix
(tests/languages/matrix/README.md).
"""

from __future__ import annotations

import ctypes
import os
import socket
import sys
from pathlib import Path

import numpy as np
import tenon

sys.path.insert(0, str(Path(__file__).parent.parent))
import composites
import cuda
import objects
import server
from words import dtype_name, dtype_word

# A neighbour of this size lies before the storage, which must not begin where its arena does.
ARENA_NBYTES, NEIGHBOUR_NBYTES = 1 << 20, 100

IN_MESSAGE = ("fd", "read_only", "bytes", "arena", "cuda")
BY_CUDA_HANDLE = ("cuda_handle", "cuda_fd")


class Held:
    """A tensor, and the objects that must live as long."""

    def __init__(self, tensor: tenon.Tensor, descriptor: tenon.Descriptor | None = None) -> None:
        self.tensor, self.descriptor = tensor, descriptor

    @property
    def part(self) -> tenon.Tensor:
        """The part that an object contains."""
        return self.tensor

    def close(self) -> None:
        self.tensor.close()
        if self.descriptor is not None:
            self.descriptor.close()


class HeldComposite:
    """A composite. `tensor` is its values, which the commands read and write use."""

    def __init__(self, composite: tenon.Composite) -> None:
        self.composite = composite

    @property
    def part(self) -> tenon.Composite:
        return self.composite

    @property
    def tensor(self) -> tenon.Tensor:
        return self.composite.values

    def close(self) -> None:
        self.composite.close()


def on_device(tensor: tenon.Tensor) -> bool:
    return tensor.storage.device != "cpu"


def device_word(tensor: tenon.Tensor) -> str:
    return f"2:{cuda.number_of(tensor.storage)}" if on_device(tensor) else "1:0"


def elements(tensor: tenon.Tensor) -> np.ndarray:  # type: ignore[type-arg]
    """The elements as unsigned numbers with the same bytes, because numpy may lack the dtype."""
    if on_device(tensor):
        copy = ctypes.create_string_buffer(tensor.storage.nbytes)
        cuda.copy(copy, tensor.storage, to_device=False)
        dtype = np.dtype(f"uint{8 * tensor.itemsize}")
        strides = [stride * tensor.itemsize for stride in tensor.strides]
        return np.ndarray(tensor.shape, dtype, copy, tensor.offset * tensor.itemsize, strides)
    return tensor.view(
        dtype=f"uint{8 * tensor.itemsize}",
        strides=tensor.strides,
        shape=tensor.shape,
        offset=tensor.offset,
    ).numpy()


def over(storage: tenon.Storage, dtype: str, sizes: str, strides: str, offset: str) -> tenon.Tensor:
    return tenon.Tensor.over(
        storage,
        server.numbers(sizes),
        dtype_name(dtype),
        strides=server.numbers(strides),
        offset=int(offset),
    )


class Peer(server.Server):
    def status_of(self, error: Exception) -> str:
        return error.code if isinstance(error, tenon.TenonError) else super().status_of(error)

    def put(self, sock: socket.socket, kind: str) -> tenon.Connection | socket.socket:
        return tenon.Connection(sock) if kind == "tenon" else sock

    def content(self, held: Held | HeldComposite) -> bytes:
        return elements(held.tensor).tobytes()

    def do_write(self, key: str, seed: str) -> str:
        tensor = self.kept[key].tensor
        data = server.pattern(int(seed), tensor.nbytes)
        if tensor.read_only:
            tensor.storage.write(data)
        target = elements(tensor)
        target[...] = np.frombuffer(data, target.dtype).reshape(target.shape)
        if on_device(tensor):
            cuda.copy(target.base, tensor.storage, to_device=True)
        return ""

    def do_drop(self, key: str) -> str:
        self.kept.pop(key).close()
        return ""

    def do_compose(self, key: str, *words: str) -> str:
        self.kept[key] = HeldComposite(composites.read(words))
        return ""

    def do_send(self, number: str, *keys: str) -> str:
        with tenon.Message({f"c{key}": self.kept[key].composite for key in keys}) as message:
            self.connections[number].send(message, timeout=server.WAIT_SECONDS)
        return ""

    def do_receive(self, number: str, *keys: str) -> str:
        with self.connections[number].recv(timeout=server.WAIT_SECONDS) as message:
            contents = message.contents()
        self.kept.update(
            {
                key: HeldComposite(composite)
                for key, (_, composite) in zip(keys, contents, strict=True)
            }
        )
        return " ".join(name or "-" for name, _ in contents)

    def do_tensor(self, key: str, nbytes: str, seed: str, *layout: str) -> str:
        with tenon.Storage.new_from(server.pattern(int(seed), int(nbytes))) as storage:
            self.kept[key] = Held(over(storage, *layout))
        return ""

    def do_view(self, key: str, origin: str, *layout: str) -> str:
        self.kept[key] = Held(over(self.kept[origin].tensor.storage, *layout))
        return ""

    def do_send_object(self, number: str, word: str) -> str:
        value = objects.read(iter(word.split(";")), lambda key: self.kept[key].part)
        self.connections[number].send_object(value, timeout=server.WAIT_SECONDS)
        return ""

    def do_recv_object(self, number: str, *keys: str) -> str:
        value = self.connections[number].recv_object(timeout=server.WAIT_SECONDS)
        left = iter(keys)

        def hold(part: tenon.Tensor | tenon.Composite) -> str:
            key = next(left)
            self.kept[key] = Held(part) if isinstance(part, tenon.Tensor) else HeldComposite(part)
            return key

        said = ";".join(objects.nodes_of(value, hold, lambda tensor: elements(tensor).tobytes()))
        if next(left, None) is not None:
            raise server.Refused("OTHER", "fewer tensors and composites came")
        return said

    def do_composite(self, key: str) -> str:
        return composites.words_of(
            self.kept[key].composite, lambda tensor: elements(tensor).tobytes()
        )

    def do_check(self, key: str) -> str:
        checked = self.kept[key].composite.check()
        self.kept[key].close()
        self.kept[key] = HeldComposite(checked)
        return ""

    def do_wait(self, number: str) -> str:
        connection = self.connections[number]
        if isinstance(connection, tenon.Connection):
            connection.recv(timeout=server.WAIT_SECONDS)
        else:
            server.wait_for_end(connection)
        return ""

    def do_settle(self) -> str:
        super().do_settle()
        tenon.trim()
        waiting = tenon.cuda_collect()
        stats = tenon.stats()
        return f"{stats.storages} {stats.segments} {stats.segment_fds} {waiting}"

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
        if strategy == "filename":
            storage = tenon.Storage.new_filename(
                len(data), tenon.Filename(prefix=os.environ["TENON_MATRIX_PREFIX"])
            )
            storage.write(data)
        elif strategy.startswith("cuda"):
            storage = cuda.make_storage(strategy, data)
        elif strategy in ("arena", "arena_fd"):
            with tenon.Arena(ARENA_NBYTES) as arena, arena.storage(NEIGHBOUR_NBYTES):
                storage = tenon.Storage.new_from(data, arena=arena)
        else:
            storage = tenon.Storage.new_from(
                data, mode="frozen" if strategy == "read_only" else "shared"
            )
        with storage:
            held = Held(over(storage, dtype, sizes, strides, offset))
            handle = self.lend(held, key, strategy, number)
        self.kept[key] = held
        return handle

    def lend(self, held: Held, key: str, strategy: str, number: str) -> str:
        storage, name = held.tensor.storage, f"t{key}"
        if strategy in IN_MESSAGE:
            with tenon.Message([held.tensor], [name], name.encode()) as message:
                if strategy == "bytes":
                    held.descriptor = tenon.Descriptor(message, bytes_only=True)
                    return held.descriptor.bytes.hex()
                self.connections[number].send(message, timeout=server.WAIT_SECONDS)
            return ""
        if strategy in BY_CUDA_HANDLE:
            return cuda.lend(storage, self.connections.get(number))
        if strategy in ("raw_fd", "arena_fd"):
            with storage.share_fd() as lent:
                server.send_fd(self.connections[number], lent.fd)
                return (
                    f"{lent.offset}"
                    f" {lent.nbytes}{f' {lent.segment_nbytes}' if strategy == 'arena_fd' else ''}"
                )
        if strategy == "filename":
            named = storage.share_filename(torch=True)
        elif strategy == "socket":
            named = storage.share_filename(
                filename=tenon.Filename(directory=os.environ["TENON_MATRIX_DIRECTORY"])
            )
        else:
            raise server.Refused("OTHER", f"no strategy {strategy}")
        return f"{named.manager or '-'} {named.name} {named.offset} {named.nbytes}"

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
        name, user = None, b""
        if strategy in IN_MESSAGE:
            if strategy == "bytes":
                message = tenon.open_descriptor(bytes.fromhex(handle[0]))
            else:
                message = self.connections[number].recv(timeout=server.WAIT_SECONDS)
            with message:
                (tensor,), (name,), user = message.tensors, message.names, message.user_bytes
        else:
            if strategy in BY_CUDA_HANDLE:
                storage = cuda.open_handle(handle, self.connections.get(number))
            elif strategy in ("raw_fd", "arena_fd"):
                fd = server.receive_fd(self.connections[number])
                try:
                    storage = tenon.open_fd(fd, int(handle[1]), int(handle[0]), allow_unsealed=True)
                finally:
                    os.close(fd)
            elif strategy in ("filename", "socket"):
                manager = "" if handle[0] == "-" else handle[0]
                named = tenon.FilenameHandle(handle[1], int(handle[3]), int(handle[2]), manager)
                storage = tenon.open_filename(named, allow_unsealed=strategy == "filename")
            else:
                raise server.Refused("OTHER", f"no strategy {strategy}")
            with storage:
                tensor = over(storage, dtype, sizes, strides, offset)
        self.kept[key] = Held(tensor)
        says = [
            dtype_word(tensor.dtype),
            server.word_of(tensor.shape),
            server.word_of(tensor.strides),
            tensor.offset,
        ]
        says += [
            int(tensor.read_only),
            device_word(tensor),
            name or "-",
            user.decode() or "-",
            server.hexadecimal(self.content(self.kept[key])),
        ]
        return " ".join(map(str, says))


if __name__ == "__main__":
    Peer().serve()
