#!/usr/bin/env python3
"""Runs archives of modules on a device in PyTorch, and compares them with archives of modules on
the host. The program cuda_archive writes the archives on the fake driver.

Interpreters: TENON_TORCH_DEBIAN (else /usr/bin/python3) and TENON_TORCH_NEWEST. Exit status 77:
neither has a PyTorch, or one of them has no TorchScript and the other passed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "peers/module"))
import kit

# A PyTorch without CUDA refuses the archive with the device's name, unless `map_location` names
# another place.
PROGRAM = """
import sys
import torch
folder = sys.argv[1]
x = torch.arange(4, dtype=torch.float32)
wanted = None
for name, where in (("host", None), ("cpu", None), ("back", None), ("cuda", "cpu")):
    module = torch.jit.load(f"{folder}/{name}.pt", map_location=where)
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    tensors |= {str(i): part for i, part in enumerate(module.parts)}
    assert all(tensor.device.type == "cpu" for tensor in tensors.values()), name
    assert module.tied.data_ptr() == module.w.data_ptr(), name
    assert module.parts[1].data_ptr() == module.w.data_ptr() + 4, name
    found = tensors | {"forward": module(x)}
    wanted = wanted or found
    assert found.keys() == wanted.keys(), name
    for key, tensor in found.items():
        assert torch.equal(tensor, wanted[key]), f"{name}: {key}"
total = sum(i % 1021 for i in range(1000)) + 2000 % 1021 + 2001 % 1021 + 2002 % 1021 + 1 + 2
assert wanted["forward"].tolist() == [i * i + i + total for i in range(4)], wanted["forward"]
if not torch.cuda.is_available():
    try:
        torch.jit.load(f"{folder}/cuda.pt")
    except (RuntimeError, NotImplementedError) as error:
        assert "cuda" in str(error).lower() or "NVIDIA driver" in str(error), error
    else:
        raise AssertionError("it was loaded without a device")
print(torch.__version__)
"""


def main() -> int:
    if not kit.TORCHES:
        return kit.STATUS
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"TENON_TEST_ARCHIVES": folder}
        subprocess.run(
            [sys.argv[1], "--gtest_filter=CudaArchive.WritesForPyTorch"],
            env=environment,
            check=True,
        )
        assert len(os.listdir(folder)) == 4
        # PyTorch would find the fake driver when it looks for CUDA, and the fake driver cannot
        # serve it.
        clean = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        for name, python in kit.TORCHES.items():
            command = [python, "-B", "-W", "ignore", "-c", PROGRAM, folder]
            done = subprocess.run(
                command, cwd="/", env=clean, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"
            print(name, done.stdout.strip())
    return kit.STATUS


if __name__ == "__main__":
    sys.exit(main())
