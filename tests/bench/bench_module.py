"""Export and opening of a large module, against torch.jit.save and torch.jit.load.

The export has 512 MiB or 4 GiB. The opening has 512 MiB in 100 or in 1,000 tensors. The tensors lie
in one memfd that this process and bench_module (--pairs) map, so both sides write the same bytes.
Each writes a new file in TMPDIR, or /tmp, which is removed before the next round. Nothing is made
durable. Both sides open one file in the page cache, which torch.jit.save wrote. Before each opening
the heap returns what the round before left in it, as in a process that opens its first module. The
module is released outside the clock. The sides take turns in going first.
"""

from __future__ import annotations

import ctypes
import gc
import json
import mmap
import os
import re
import shutil
import subprocess
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from python_pair import SMOKE, print_row

warnings.simplefilter("ignore", FutureWarning)  # from torch.jit
PYTHON = "torch"
LIBC = ctypes.CDLL(None)
LAYER = ("weight", "bias", "scale", "shift")
SPARE = 1 << 30
MEDIUM, LARGE = (1 << 20, 2 << 20) if SMOKE else (512 << 20, 4 << 30)
TENSORS, MANY_TENSORS = (20, 40) if SMOKE else (100, 1000)


def size_text(nbytes: int) -> str:
    return f"{nbytes >> 30} GiB" if nbytes >= 1 << 30 else f"{nbytes >> 20} MiB"


def lack_of_room(folder: str, nbytes: int) -> str:
    """Returns why this machine cannot hold tensors of `nbytes` bytes and one file of them in the
    page cache, or "" if it can.
    """
    on_disk = shutil.disk_usage(folder).free
    if on_disk < nbytes + SPARE:
        return f"{tempfile.gettempdir()} has room for {size_text(on_disk)}"
    found = re.search(r"MemAvailable:\s*(\d+) kB", Path("/proc/meminfo").read_text())
    available = int(found.group(1)) << 10 if found else 0
    return (
        f"{size_text(available)} of memory are available" if available < 2 * nbytes + SPARE else ""
    )


class Pair:
    """One module on each side, over the same memory."""

    def __init__(self, torch: Any, nbytes: int, tensors: int) -> None:
        self._torch = torch
        self._fd = os.memfd_create("bench")
        os.ftruncate(self._fd, nbytes)
        program = Path(os.environ["TENON_BUILD_DIR"]) / "tests" / "bench" / "bench_module"
        command = [str(program), "--pairs", str(self._fd), str(nbytes), str(tensors)]
        self._ours = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            pass_fds=(self._fd,),
        )
        # The first answer means that all of the memory exists and is filled.
        self.nbytes = int(self._answer())
        self._memory: Any = mmap.mmap(self._fd, nbytes)
        self._theirs = torch.jit.script(self._module(self.nbytes // tensors, tensors))

    def _module(self, each: int, tensors: int) -> Any:
        torch = self._torch

        class Layer(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x

        class Net(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return x

        net, at = Net(), 0
        for index in range(tensors // len(LAYER)):
            layer = Layer()
            for name in LAYER:
                layer.register_buffer(
                    name,
                    torch.frombuffer(self._memory, dtype=torch.float32, count=each // 4, offset=at),
                )
                at += each
            net.add_module(f"layer{index}", layer)
        return net

    def _answer(self) -> str:
        assert self._ours.stdout is not None
        answer = self._ours.stdout.readline()
        if not answer:
            raise RuntimeError("bench_module is gone")
        return answer

    def _order(self, what: str, path: Path) -> float:
        assert self._ours.stdin is not None
        self._ours.stdin.write(f"{what} {path}\n")
        return int(self._answer()) / 1e9

    def save(self, path: Path) -> float:
        begin = time.perf_counter()
        self._torch.jit.save(self._theirs, str(path))
        return time.perf_counter() - begin

    def load(self, path: Path) -> float:
        LIBC.malloc_trim(0)
        begin = time.perf_counter()
        module = self._torch.jit.load(str(path))
        end = time.perf_counter()
        del module
        return end - begin

    def export(self, path: Path) -> float:
        return self._order("export", path)

    def open(self, path: Path) -> float:
        return self._order("open", path)

    def close(self) -> None:
        self._ours.communicate()
        # The mapping goes with the last tensor over it. PyTorch's module is in reference cycles.
        self._theirs = self._memory = None
        gc.collect()
        os.close(self._fd)


def in_turn(rounds: int, ours: Any, theirs: Any) -> tuple[list[float], list[float]]:
    """Returns the seconds of each side. Each side measures itself, and its first round only warms
    up.
    """
    samples: tuple[list[float], list[float]] = ([], [])
    for turn in range(rounds + 1):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            taken = (ours, theirs)[side]()
            if turn > 0:
                samples[side].append(taken)
    return samples


def measure_export(pair: Pair, folder: Path, what: str, rounds: int, name: str) -> None:
    def alone(write: Any) -> float:
        path = folder / "new.pt"
        os.sync()
        taken: float = write(path)
        path.unlink()
        return taken

    ours, theirs = in_turn(rounds, lambda: alone(pair.export), lambda: alone(pair.save))
    rates = ([pair.nbytes / 1e9 / taken for taken in each] for each in (ours, theirs))
    print_row(f"export {what}", "GB/s", f"torch.jit.save of {name}", None, *rates)


def measure_open(pair: Pair, folder: Path, what: str, rounds: int, name: str) -> None:
    path = folder / "saved.pt"
    pair.save(path)
    ours, theirs = in_turn(rounds, lambda: pair.open(path), lambda: pair.load(path))
    path.unlink()
    times = ([taken * 1e3 for taken in each] for each in (ours, theirs))
    print_row(
        f"open {what}",
        "ms",
        f"torch.jit.load of {name}",
        {"of": "theirs/ours", "at_least": 100},
        *times,
    )


def main() -> None:
    import torch

    name = f"PyTorch {torch.__version__.split('+')[0]}"
    with tempfile.TemporaryDirectory(prefix="tenon-bench-") as folder:
        for nbytes, tensors, measure, rounds in (
            (MEDIUM, TENSORS, measure_export, 5),
            (LARGE, TENSORS, measure_export, 5),
            (MEDIUM, TENSORS, measure_open, 25),
            (MEDIUM, MANY_TENSORS, measure_open, 25),
        ):
            what = f"a module of {size_text(nbytes)}"
            if lack := lack_of_room(folder, nbytes):
                print(json.dumps({"left_out": f"{what} beside {name}: {lack}"}), flush=True)
                continue
            pair = Pair(torch, nbytes, tensors)
            measure(
                pair, Path(folder), f"{what} in {tensors} tensors", 1 if SMOKE else rounds, name
            )
            pair.close()


if __name__ == "__main__":
    main()
