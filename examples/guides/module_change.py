"""Change a module: one value, a whole set of them, and a method. What fails changes nothing."""

import numpy
import tenon

net = tenon.Module("Net")
net.add_parameter("weight", numpy.zeros((2, 2), "float32"))
net.add_attribute("names", "List[str]", ["cat", "dog"])
net.define("""
def forward(self, x: Tensor) -> Tensor:
  return torch.linear(x, self.weight)
""")

net["names"] = [*net["names"], "owl"]  # a value that a module gives is a snapshot
try:
    net["names"] = [7]
except tenon.InvalidArgument as error:
    print(error.details["wanted"], error.details["found"])  # prints: str int

try:
    net.load({"weight": numpy.ones((2, 2), "float32"), "bias": numpy.ones(2, "float32")})
except tenon.InvalidArgument as error:
    print(error.details["unexpected"], net["weight"].numpy().sum())  # prints: 1 0.0

net.define("""
def forward(self, x: Tensor) -> Tensor:
  return torch.relu(torch.linear(x, self.wieght))
""")
try:
    net.check()
except tenon.InvalidArgument as error:
    print("self.wieght" in error.details["excerpt"])  # prints: True
print(len(net["names"]))  # prints: 3
