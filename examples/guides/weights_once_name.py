"""Several workers open the weights of a model by a name. One of them loads the file."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tenon
from safetensors.numpy import save_file

if len(sys.argv) == 2:  # a worker
    with tenon.weights.open(sys.argv[1], name="guide-llama", timeout=60) as weights:
        print(weights["layer.weight"].numpy().sum(), flush=True)
        sys.stdin.read()  # a worker would serve requests now
else:
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder, "model.safetensors"))
        save_file({"layer.weight": np.ones((4, 8), np.float32)}, file)
        weights = tenon.weights.open(file, name="guide-llama")
        print(weights.info().loaded)  # prints: True
        worker = subprocess.Popen(
            [sys.executable, __file__, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        print(worker.stdout.readline().decode().strip())  # prints: 32.0
        print(weights.info().holders, weights.info().serves)  # prints: 2 True
        array = weights["layer.weight"].numpy()
        weights.close()
        try:
            array[0] = 1
        except ValueError:
            print("read-only")  # prints: read-only
        worker.communicate()
