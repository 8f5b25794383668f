#!/usr/bin/env python3
"""Writes PyTorch's own bytecode with one switch of its exporter flipped. It runs under the Python
of one PyTorch, after write_models.py.

For each switch and model: OUTDIR/SWITCH/NAME.ptl, made from OUTDIR/NAME.pt. A switch has the name
of Tenon's that does the same. PyTorch has no Python functions for three of them: they are called in
libtorch_cpu. The fourth can only be switched on, so only PyTorch 1.13 shows what it does, as long
as nothing has switched it on.

usage: write_switched.py OUTDIR NAME...
"""

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from models_kit import NEWEST, set_up

LIBRARY = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
MODE = "_ZN5torch3jit16BytecodeEmitMode"


def setter(name: str) -> Callable[[bool], None]:
    """Returns the function of PyTorch's class BytecodeEmitMode that sets this switch for the
    calling thread.
    """
    function = LIBRARY[f"{MODE}{len(name)}{name}Eb"]
    function.argtypes, function.restype = [ctypes.c_bool], None
    return function


# Switch -> (its function, the value that is not PyTorch's default)
SWITCHES = {
    "default_inputs": (setter("set_default_value_for_unspecified_arg_enabled"), True),
    "defaults_before_out": (setter("set_default_args_before_out_args_enabled"), False),
    "plain_operators": (setter("set_default_emit_promoted_ops_enabled"), False),
}


def write(folder: Path, switch: str, names: list[str]) -> None:
    (folder / switch).mkdir(exist_ok=True)
    for name in names:
        torch.jit.load(str(folder / f"{name}.pt"))._save_for_lite_interpreter(
            str(folder / switch / f"{name}.ptl")
        )


def main() -> None:
    folder, names = Path(sys.argv[1]), sys.argv[2:]
    set_up()
    if not NEWEST:
        write(folder, "no_interface_methods", names)
        torch._C._enable_mobile_interface_call_export()
    for switch, (set_to, flipped) in SWITCHES.items():
        set_to(flipped)
        write(folder, switch, names)
        set_to(not flipped)


if __name__ == "__main__":
    main()
