#!/usr/bin/env python3
"""The examples with modules, which every language has under the same names: what they print, and
that real PyTorch runs what they write.

What export_mlp FILE writes is loaded, run, and compared with the same layers computed by PyTorch.
replace_weights FILE OUT gets the TorchScript model in silero-vad, or an archive of
tests/peers/golden if that is not installed: every parameter of float32 is half of what it was,
everything else is what it was. PyTorch looks at what the examples in C write. Those in other
languages write the same bytes.
inspect_module FILE prints the tree of an archive of tests/peers/golden.

Interpreters: TENON_TORCH_DEBIAN (else /usr/bin/python3) and TENON_TORCH_NEWEST. Exit status 77:
neither has a PyTorch, or one of them has no TorchScript. The rest of the test passed.

usage: modules_test.py export_mlp|replace_weights|inspect_module COMMAND...
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "support"))

from torches import find_script_torches

GOLDEN = Path(__file__).resolve().parents[2] / "peers/golden/module/2.2.0/net.pt"

RUN_MLP = """
import sys, torch
import torch.nn.functional as F
files = {"labels.txt": ""}
mlp = torch.jit.load(sys.argv[1], _extra_files=files)
assert files["labels.txt"] in ("cat\\ndog\\nowl\\n", b"cat\\ndog\\nowl\\n"), files
own = dict(mlp.named_parameters())
assert list(own) == ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"], list(own)
for tensor in own.values():
    ramp = [-0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75, -0.75]
    assert tensor.requires_grad and tensor.flatten()[:8].tolist() == ramp[: tensor.numel()]
x = torch.arange(20.0).reshape(5, 4) / 7 - 1
hidden = F.relu(F.linear(x, own["fc1.weight"], own["fc1.bias"]))
want = F.linear(hidden, own["fc2.weight"], own["fc2.bias"])
assert torch.equal(mlp(x), want) and want.abs().max() > 0.1
mlp(x).sum().backward()
assert own["fc1.weight"].grad is not None
"""

COMPARE = """
import sys, torch
old, new = (torch.jit.load(file) for file in sys.argv[1:3])
parameters = dict(old.named_parameters())
was, now = old.state_dict(), new.state_dict()
assert list(was) == list(now)
halved = 0
for name, tensor in was.items():
    half = name in parameters and tensor.dtype == torch.float32 and tensor.is_contiguous()
    halved += half
    assert now[name].dtype == tensor.dtype, name
    assert torch.equal(now[name], tensor * 0.5 if half else tensor), name
assert halved == int(sys.argv[3]), (halved, sys.argv[3])
def code_of(module):
    return [str(m.code) for m in module.modules() if hasattr(m, "forward")]
assert code_of(old) == code_of(new)
if "silero" in sys.argv[1]:
    out = new(torch.zeros(1, 512), 16000)
    assert out.shape == (1, 1) and 0 <= out.item() <= 1
    assert out.item() != old(torch.zeros(1, 512), 16000).item()
"""

INSPECTED = [
    "__torch__.Net, version 5, 18 records",
    "  parameter weight: Tensor float32 [2, 3]",
    "  parameter nothing: NoneType",
    "  attribute nested: List[List[int]]",
    "  submodule child: __torch__.parts.Child",
    "    parameter gain: Tensor float32 [3]",
    "    buffer offset: Tensor float32 []",
    "  method halves",
    "warning: 2 tables of source positions (.debug_pkl) are not written again",
]


def run_in_pytorch(program: str, *arguments: str | Path) -> int:
    pythons, status = find_script_torches()
    for python in pythons.values():
        subprocess.run(
            [python, "-B", "-W", "ignore", "-c", program, *map(str, arguments)], check=True, cwd="/"
        )
    return status


def run_example(command: list[str], *arguments: str | Path) -> str:
    output = subprocess.run(
        [*command, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    print(output, end="")
    return output


def printed(pattern: str, output: str) -> re.Match[str]:
    found = re.search(pattern, output, flags=re.MULTILINE)
    if found is None:
        sys.exit(f"not printed: {pattern}")
    return found


def is_as_in_c(name: str, command: list[str], written: Path, *given: Path) -> bool:
    """Whether the example is in another language than C. Then it must write the same bytes as the
    one in C.
    """
    program = Path(os.environ["TENON_BUILD_DIR"]) / "examples" / "c" / name
    if command == [str(program)] or not program.exists():
        return False
    in_c = written.parent / "c" / written.name
    in_c.parent.mkdir()
    run_example([str(program)], *given, in_c)
    if written.read_bytes() != in_c.read_bytes():
        sys.exit(f"{written} has other bytes than {in_c}, which the same example in C wrote")
    return True


def check_export_mlp(command: list[str], folder: Path) -> int:
    file = folder / "mlp.pt"
    printed(
        rf"^{re.escape(str(file))}: 11 records, \d+ bytes, for PyTorch 1\.\d+ and later$",
        run_example(command, file),
    )
    return 0 if is_as_in_c("export_mlp", command, file) else run_in_pytorch(RUN_MLP, file)


def check_replace_weights(command: list[str], folder: Path) -> int:
    silero = importlib.util.find_spec("silero_vad")
    file = (
        Path(silero.origin).parent / "data" / "silero_vad.jit"
        if silero and silero.origin
        else GOLDEN
    )
    out = folder / "new.pt"
    n_new = printed(
        rf"^{re.escape(str(out))}: (\d+) parameters replaced$", run_example(command, file, out)
    ).group(1)
    if is_as_in_c("replace_weights", command, out, file):
        return 0
    return run_in_pytorch(COMPARE, file, out, n_new)


def check_inspect_module(command: list[str], _folder: Path) -> int:
    output = run_example(command, GOLDEN)
    for line in INSPECTED:
        printed(f"^{re.escape(line)}$", output)
    return 0


CHECKS = {
    "export_mlp": check_export_mlp,
    "replace_weights": check_replace_weights,
    "inspect_module": check_inspect_module,
}


def main() -> int:
    if len(sys.argv) < 3 or sys.argv[1] not in CHECKS:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        return CHECKS[sys.argv[1]](sys.argv[2:], Path(folder))


if __name__ == "__main__":
    sys.exit(main())
