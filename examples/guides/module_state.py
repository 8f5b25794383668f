"""Build a module that has a state, and put new weights into the state of one that was imported."""

import io

import numpy
import tenon

layer = tenon.Module("Scale")
layer.add_attribute("weight", "Tensor", numpy.ones(2, "float32"))
layer.add_attribute("steps", "int", 0)
layer.define("""
def __getstate__(self) -> Tuple[Tensor, int]:
  return (self.weight, self.steps)
def __setstate__(self, state: Tuple[Tensor, int]) -> None:
  self.weight, self.steps = state
  self.training = False
def forward(self, x: Tensor) -> Tensor:
  return x * self.weight
""")
model = tenon.Module("Model")
model.add_submodule("scale", layer)
model.state["scale"] = (numpy.full(2, 3, "float32"), 100)
file = io.BytesIO()
tenon.export_module(model, file)

model = tenon.import_module(file.getvalue())
print(list(model.state), model.state["scale"][1])  # prints: ['scale'] 100
print(list(model.tensors()))  # prints: ['scale.state[0]']
model["scale.state[0]"] = numpy.full(2, 5, "float32")
model.load({"scale.state[0]": numpy.full(2, 7, "float32")})
print(model.state["scale"][0].numpy())  # prints: [7. 7.]
