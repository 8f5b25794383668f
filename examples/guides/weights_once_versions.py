"""A trainer publishes versions of its weights, and a worker follows them."""

import subprocess
import sys

import numpy as np
import tenon


def state(number):
    return {"fc.weight": np.full((2, 3), number, np.float32)}


if len(sys.argv) == 2:  # a worker
    weights = tenon.weights.open(name="guide-policy")
    print(weights.info().version, flush=True)
    while weights.changed(timeout=60):
        weights = tenon.weights.open(name="guide-policy")
        print(weights.info().version, weights["fc.weight"].numpy().sum(), flush=True)
else:
    step = tenon.weights.publish("guide-policy", state(1))
    worker = subprocess.Popen([sys.executable, __file__, "worker"], stdout=subprocess.PIPE)
    print(worker.stdout.readline().decode().strip())  # prints: 1
    step = tenon.weights.publish("guide-policy", state(2))
    print(worker.stdout.readline().decode().strip())  # prints: 2 12.0
    worker.kill()
    worker.wait()
