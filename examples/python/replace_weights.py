"""Imports a model, puts new weights in, and exports the model. Here the new weights are half the
old ones. In practice a trainer makes them. usage: replace_weights.py FILE OUT
"""

import sys

import tenon

if len(sys.argv) != 3:
    sys.exit("usage: replace_weights.py FILE OUT")
model = tenon.import_module(sys.argv[1])
weights = {}
for path, old in model.parameters().items():  # "encoder.0.weight"
    if isinstance(old, tenon.Tensor) and old.dtype == "float32" and old.is_contiguous:
        weights[path] = tenon.empty(old.shape, requires_grad=old.requires_grad)
        weights[path].numpy()[...] = old.numpy() * 0.5
model.load(
    weights, allow_missing=True
)  # all of them or none; a name that the model does not have is an error
tenon.export_module(model, sys.argv[2])
print(f"{sys.argv[2]}: {len(weights)} parameters replaced")
