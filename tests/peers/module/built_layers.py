"""Models with layers, code and classes, built by hand. expected_layers.py has PyTorch's results for
each.
"""

from __future__ import annotations

from built_steps import Steps, model


def linear(s: Steps, n_in: int, n_out: int, first: float = 0.0) -> int:
    layer = s.module("layers.Linear")
    s.parameter(layer, "weight", s.ramp(n_out, n_in, first=first))
    s.parameter(layer, "bias", s.ramp(n_out, first=first))
    s.constant(layer, "in_features", "int", s.of(n_in))
    s.define(
        layer,
        """
def forward(self, x: Tensor) -> Tensor:
  assert x.size(-1) == self.in_features, "as many features as weights"
  return torch.linear(x, self.weight, self.bias)
""",
    )
    return layer


@model
def mlp(s: Steps) -> int:
    root = s.module("MLP")
    s.submodule(root, "fc1", linear(s, 4, 8))
    s.submodule(root, "fc2", linear(s, 8, 3, 0.25))
    s.types(root, "__torch__", "def activate(x: Tensor) -> Tensor:\n  return torch.relu(x)\n")
    s.define(
        root,
        "def forward(self, x: Tensor) -> Tensor:\n  return"
        " self.fc2.forward(__torch__.activate(self.fc1.forward(x)))\n",
    )
    return root


@model
def sequential(s: Steps) -> int:
    """Layers under numbers, as in nn.Sequential. One of them occurs twice."""
    root = s.module("Sequential")
    layer = linear(s, 4, 4)
    s.submodule(root, "0", layer)
    s.submodule(root, "1", linear(s, 4, 4, 0.5))
    s.submodule(root, "2", layer)
    s.define(
        root,
        """
def forward(self, x: Tensor) -> Tensor:
  for_0 = getattr(self, "0").forward(x)
  for_1 = getattr(self, "1").forward(for_0)
  return getattr(self, "2").forward(for_1)
""",
    )
    return root


@model
def cnn(s: Steps) -> int:
    conv = s.module("nets.Conv")
    s.parameter(conv, "weight", s.ramp(4, 3, 3, 3))
    s.parameter(conv, "bias", None)
    s.constant(conv, "padding", "List[int]", s.list("List[int]", s.of(1), s.of(0)))
    s.define(
        conv,
        "def forward(self, x: Tensor) -> Tensor:\n  return torch.conv2d(x, self.weight, self.bias,"
        " [1, 1], self.padding)\n",
    )
    norm = s.module("nets.Norm")
    s.parameter(norm, "weight", s.ramp(4, first=1.0))
    s.parameter(norm, "bias", s.ramp(4))
    s.buffer(norm, "running_mean", s.ramp(4, grad=False))
    s.buffer(norm, "running_var", s.ramp(4, first=2.0, grad=False))
    s.constant(norm, "eps", "float", s.of(1e-5))
    s.define(
        norm,
        """
def forward(self, x: Tensor) -> Tensor:
  mean, var = self.running_mean, self.running_var
  return torch.batch_norm(x, self.weight, self.bias, mean, var, self.training, 0.1, self.eps, False)
""",
    )
    root = s.module("nets.CNN")
    s.submodule(root, "conv", conv)
    s.submodule(root, "norm", norm)
    s.attribute(root, "window", "List[int]", s.list("", s.of(2), s.of(1)))
    s.define(
        root,
        """
def forward(self, x: Tensor) -> Tensor:
  y = torch.relu(self.norm.forward(self.conv.forward(x)))
  return torch.flatten(torch.max_pool2d(y, self.window), 1)
""",
    )
    return root


def layer_norm(s: Steps, first: float) -> int:
    layer = s.module("layers.LayerNorm")
    s.parameter(layer, "weight", s.ramp(8, first=first))
    s.parameter(layer, "bias", s.ramp(8))
    s.define(
        layer,
        "def forward(self, x: Tensor) -> Tensor:\n  return torch.layer_norm(x, [8], self.weight,"
        " self.bias, 1.0e-05)\n",
    )
    return layer


@model
def transformer_block(s: Steps) -> int:
    attention = s.module("blocks.Attention")
    for name, first in (("q", 0.5), ("k", 0.125), ("v", 0.125), ("out", 0.125)):
        s.submodule(attention, name, linear(s, 8, 8, first))
    s.attribute(attention, "n_heads", "int", s.of(2))
    s.define(
        attention,
        """
def split(self, x: Tensor) -> Tensor:
  b, t, c = x.size()
  return x.view([b, t, self.n_heads, c // self.n_heads]).transpose(1, 2)
def forward(self, x: Tensor, mask: Optional[Tensor]=None) -> Tensor:
  q, k = self.split(self.q.forward(x)), self.split(self.k.forward(x))
  v = self.split(self.v.forward(x))
  scores = torch.matmul(q, k.transpose(-2, -1)) / (float(q.size(-1)) ** 0.5)
  if mask is not None:
    scores = scores + mask
  y = torch.matmul(torch.softmax(scores, -1), v)
  return self.out.forward(y.transpose(1, 2).contiguous().view(x.size()))
""",
    )
    root = s.module("blocks.Block")
    s.submodule(root, "attention", attention)
    s.submodule(root, "norm1", layer_norm(s, 1.0))
    s.submodule(root, "fc1", linear(s, 8, 16))
    s.submodule(root, "fc2", linear(s, 16, 8, 0.25))
    s.submodule(root, "norm2", layer_norm(s, 0.5))
    s.define(
        root,
        """
def forward(self, x: Tensor, mask: Optional[Tensor]=None) -> Tensor:
  y = self.norm1.forward(x + self.attention.forward(x, mask))
  return self.norm2.forward(y + self.fc2.forward(torch.relu(self.fc1.forward(y))))
""",
    )
    return root


@model
def lstm(s: Steps) -> int:
    """Two layers, each in both directions."""
    root = s.module("LSTM")
    weights = []
    for layer, n_in in enumerate((4, 6)):
        for end in ("", "_reverse"):
            for name, sizes in (
                ("w_ih", (12, n_in)),
                ("w_hh", (12, 3)),
                ("b_ih", (12,)),
                ("b_hh", (12,)),
            ):
                weights.append(f"{name}_l{layer}{end}")
                s.parameter(
                    root, weights[-1], s.ramp(*sizes, first=0.25 * layer + 0.125 * bool(end))
                )
    s.attribute(root, "hidden", "int", s.of(3))
    listed = ", ".join(f"self.{name}" for name in weights)
    s.define(
        root,
        f"""
def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
  h = torch.zeros([4, x.size(0), self.hidden])
  weights = [{listed}]
  y, hn, cn = torch.lstm(x, [h, h], weights, True, 2, 0., False, True, True)
  return y, cn
""",
    )
    return root


@model
def embedding_bag(s: Steps) -> int:
    root = s.module("EmbeddingBag")
    s.parameter(root, "weight", s.ramp(10, 4))
    s.define(
        root,
        """
def forward(self, ids: Tensor, offsets: Tensor, weights: Optional[Tensor]=None) -> Tensor:
  mode = 1 if weights is None else 0
  return (torch.embedding_bag(self.weight, ids, offsets, False, mode, False, weights))[0]
""",
    )
    return root


@model
def control_flow(s: Steps) -> int:
    """Loops, branches, containers, strings."""
    root = s.module("Control")
    numbers = s.list("List[float]", s.of(1.5), s.of(-2.0))
    s.attribute(
        root,
        "table",
        "Dict[str, List[float]]",
        s.dict("", (s.of("a"), numbers), (s.of("b"), s.list(""))),
    )
    s.attribute(root, "extra", "Optional[Tensor]", s.of(None))
    s.attribute(
        root,
        "pairs",
        "List[Tuple[int, str]]",
        s.list("", s.tuple(s.of(3), s.of("x")), s.tuple(s.of(5), s.of("skip"))),
    )
    s.define(
        root,
        """
def forward(self, x: Tensor,
            n: int) -> Tuple[Tensor, List[int], List[Tuple[int, str]], Dict[str, List[float]]]:
  y = x
  seen = annotate(List[int], [])
  for i in range(n):
    if i == 7:
      break
    elif i % 2 == 0:
      y = y + float(i)
    else:
      y = y * 2
      continue
    seen.append(i)
  for name, numbers in self.table.items():
    for v in numbers:
      y = y + v * len(name)
  for number, word in self.pairs:
    if word != "skip":
      y = y * number
  extra = self.extra
  if extra is not None:
    y = y + extra
  while bool(y.sum() > 100.):
    y = y / 10.
  return y, [i * i for i in seen], self.pairs, self.table
""",
    )
    return root


@model
def types(s: Steps) -> int:
    root = s.module("Types")
    s.types(
        root,
        "__torch__",
        """
class Point(NamedTuple):
  x : Tensor
  n : int
class Color(Enum):
  RED = "r"
  BLUE = "b"
class Level(Enum):
  LOW = 1
  HIGH = 2
class Scaler(ModuleInterface):
  def run(self, x: Tensor) -> Tensor:
    pass
class Counter:
  n : int
  def __init__(self, n: int) -> NoneType:
    self.n = n
  def more(self, by: int=1) -> int:
    self.n = self.n + by
    return self.n
""",
    )
    scaler = s.module("Double")
    s.buffer(scaler, "by", s.ramp(1, first=2.5, grad=False))
    s.define(scaler, "def run(self, x: Tensor) -> Tensor:\n  return x * self.by\n")
    s.submodule(root, "scaler", scaler, "__torch__.Scaler")
    s.attribute(root, "color", "__torch__.Color", s.enum("__torch__.Color", s.of("b")))
    s.attribute(
        root,
        "levels",
        "List[__torch__.Level]",
        s.list("", *(s.enum("__torch__.Level", s.of(level)) for level in (2, 1))),
    )
    point = s.tuple(s.ramp(2, grad=False), s.of(7), name="__torch__.Point")
    s.attribute(root, "point", "__torch__.Point", point)
    counter = s.object("__torch__.Counter", n=s.of(5))
    s.attribute(root, "counter", "__torch__.Counter", counter)
    s.attribute(
        root, "counters", "Dict[str, __torch__.Counter]", s.dict("", (s.of("same"), counter))
    )
    s.define(
        root,
        """
def first(self, input: Tuple[Tensor]) -> Tuple[Tensor]:
  return (input[0] + 1,)
def second(self, input: Tuple[Tensor]) -> Tuple[Tensor]:
  return (input[0] * 2,)
def last(self, input: Tuple[Tensor], output: __torch__.Point) -> __torch__.Point:
  return __torch__.Point(output.x * 3, output.n)
def forward(self, x: Tensor) -> __torch__.Point:
  y = self.scaler.run(x) + self.point.x
  first, second = self.levels[0], self.levels[1]
  if self.color == __torch__.Color.BLUE and first == __torch__.Level.HIGH and second != first:
    y = y - 1.
  self.counters["same"].more()
  return __torch__.Point(y, self.counter.more(2) + self.point.n)
""",
    )
    s.before(root, "first", "second")
    s.after(root, "last")
    return root


@model
def shared(s: Steps) -> int:
    """One weight in two modules, two tensors over one storage, extra files, and inputs of a
    trace.
    """
    root = s.module("Shared")
    weight = s.ramp(4, 4)
    parts = []
    for name in ("encoder", "decoder"):
        parts.append(s.module("Part"))
        s.parameter(parts[-1], "weight", weight)
        s.define(
            parts[-1],
            "def forward(self, x: Tensor) -> Tensor:\n  return torch.matmul(x, self.weight)\n",
        )
        s.submodule(root, name, parts[-1])
    s.define(
        root,
        "def forward(self, x: Tensor) -> Tensor:\n  return"
        " self.decoder.forward(self.encoder.forward(x))\n",
    )
    s.extra(root, "note.txt", b"hello")
    s.extra(root, "bytes/of any kind", bytes(range(256)))
    s.extra(root, "nothing", b"")
    s.traced(root, "forward", s.ramp(2, 4, grad=False))
    return root


@model
def clashing(s: Steps) -> int:
    """Three classes of one name: two are alike, and the third is different."""
    root = s.module("Clashing")
    for name, first, code in (
        ("a", 0.5, "x + self.by"),
        ("b", -0.25, "x + self.by"),
        ("c", 3.0, "x * self.by - self.more"),
    ):
        part = s.module("parts.Part")
        s.buffer(part, "by", s.ramp(2, first=first, grad=False))
        if "more" in code:
            s.attribute(part, "more", "float", s.of(0.5))
        s.define(part, f"def forward(self, x: Tensor) -> Tensor:\n  return {code}\n")
        s.submodule(root, name, part)
    s.define(
        root,
        "def forward(self, x: Tensor) -> Tensor:\n  return"
        " self.c.forward(self.b.forward(self.a.forward(x)))\n",
    )
    return root


@model
def changed(s: Steps) -> int:
    """Every kind of change before the export: replacing, loading and removing."""
    root = s.module("Changed")
    s.submodule(root, "body", linear(s, 4, 4))
    s.submodule(root, "head", linear(s, 4, 4))
    s.submodule(root, "gone", linear(s, 4, 4))
    s.parameter(root, "scale", s.ramp(1))
    s.attribute(root, "words", "List[str]", s.list("", s.of("before")))
    s.attribute(root, "nothing", "int", s.of(1))
    s.attribute(root, "maybe", "Optional[float]", s.of(2.0))
    s.constant(root, "factor", "float", s.of(3.0))
    s.define(
        root,
        "def forward(self, x: Tensor) -> Tensor:\n  return x\ndef old(self) -> int:\n  return"
        " self.nothing\n",
    )
    for path in ("old", "nothing", "gone"):
        s.remove(root, path)
    s.replace(root, "head", linear(s, 4, 2, 1.0))
    weights = {"scale": s.ramp(1, first=2.0)}
    for path, sizes in (
        ("body.weight", (4, 4)),
        ("body.bias", (4,)),
        ("head.weight", (2, 4)),
        ("head.bias", (2,)),
    ):
        weights[path] = s.ramp(*sizes, first=-0.5)
    s.load(root, weights)
    s.set(root, "head.bias", s.floats([10.0, 20.0], [2], True))
    s.set(root, "words", s.list("", s.of("after"), s.of("all")))
    s.set(root, "maybe", None)
    s.define(
        root,
        """
def forward(self, x: Tensor) -> Tuple[Tensor, List[str], Optional[float]]:
  y = self.head.forward(torch.relu(self.body.forward(x))) * self.scale * self.factor
  return y, self.words, self.maybe
""",
    )
    return root
