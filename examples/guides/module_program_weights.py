"""Put new weights into a program that torch.export saved."""

import tempfile
from pathlib import Path

import numpy
import tenon

program = Path(__file__).resolve().parents[2] / "tests/peers/golden/weights/torch-2.15.0.pt2"

with tempfile.TemporaryDirectory() as folder:
    new = Path(folder, "new.pt2")
    with tenon.open_weights(program) as weights:
        # prints: ('weight', 'tied', 'columns', 'shift') [0.5, 0.25]
        print(weights.names(), weights["shift"].tolist())
        weights.replace("shift", numpy.zeros(2, "float32"))
        weights.rewrite(new)  # torch.export.load runs it

    print(tenon.open_weights(new)["shift"].tolist())  # prints: [0.0, 0.0]
