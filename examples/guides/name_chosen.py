"""A tensor under a chosen name: a process that knows the name, and nothing else, opens it."""

import os
import subprocess
import sys

import tenon

name = sys.argv[1] if len(sys.argv) == 2 else f"weights-{os.getpid()}"

if len(sys.argv) == 2:  # the borrower
    storage = tenon.open_filename(f"/{name}", 4000, allow_unsealed=True)
    tenon.Tensor.over(storage, (1000,), "float32").numpy()[0] = 42
else:
    weights = tenon.zeros((1000,), "float32", filename=tenon.Filename(name))
    try:
        tenon.zeros((1000,), "float32", filename=tenon.Filename(name))
    except tenon.PermissionDenied:
        print("the name is taken")  # prints: the name is taken
    subprocess.run([sys.executable, __file__, name], check=True)
    print(weights.numpy()[0])  # prints: 42.0
    del weights
    try:
        tenon.open_filename(f"/{name}", 4000, allow_unsealed=True)
    except tenon.NotFound:
        print("the name went with its last holder")  # prints: the name went with its last holder
