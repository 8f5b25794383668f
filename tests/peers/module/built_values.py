"""Models with every kind of value and tensor, built by hand. expected_values.py has PyTorch's
values for each.
"""

from __future__ import annotations

from built_steps import Steps, model, packed

# The first dtypes exist in every PyTorch, and the last ones not in 1.13. `tensor` makes those for
# which DLPack has a type. `spec` makes all.
DTYPES = [
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "bool",
]
DTYPES += ["complex32", "complex64", "complex128"]
NEW_DTYPES = ["uint16", "uint32", "uint64"]
# These are given as bytes. Each element of FLOAT8 has one byte.
FLOAT8 = ["float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "float8_e8m0fnu"]
OPAQUE_DTYPES = [
    "bits1x8",
    "bits2x4",
    "bits4x2",
    "bits8",
    "bits16",
    "bcomplex32",
    "float4_e2m1fn_x2",
]
OPAQUE_DTYPES += [f"{sign}int{bits}" for sign in ("u", "") for bits in range(1, 8)]


@model
def scalars(s: Steps) -> int:
    """Every scalar as a constant of the class. Only constants.pkl can hold some of them."""
    root = s.module("Scalars")
    s.constant(root, "i", "int", s.of(-3))
    s.constant(root, "f", "float", s.of(0.1))
    s.constant(root, "b", "bool", s.of(True))
    s.constant(root, "s", "str", s.of('it\'s "q" \\ here\n'))
    s.constant(root, "u", "str", s.of("\u00e9t\u00e9 \u6f22"))
    s.constant(root, "inf", "float", s.of(float("-inf")))
    s.constant(root, "nan", "float", s.of(float("nan")))
    s.constant(root, "l", "List[int]", s.list("List[int]", s.of(1), s.of(2)))
    s.constant(root, "e", "List[str]", s.list("List[str]"))
    s.constant(root, "p", "Tuple[int, str]", s.tuple(s.of(7), s.of("seven")))
    s.constant(root, "c", "complex", s.of(1 - 2j))
    s.constant(root, "d", "Device", s.device("cpu"))
    s.constant(root, "t", "Tensor", s.ramp(3, grad=False))
    types = (
        "int, float, bool, str, str, float, float, List[int], List[str], Tuple[int, str], complex,"
        " Device, Tensor"
    )
    members = ", ".join(
        f"self.{name}"
        for name in ("i", "f", "b", "s", "u", "inf", "nan", "l", "e", "p", "c", "d", "t")
    )
    s.define(root, f"def forward(self) -> Tuple[{types}]:\n  return ({members})\n")
    return root


@model
def attributes(s: Steps) -> int:
    """Attributes of every kind, and one object in several places."""
    root = s.module("Attributes")
    shared = s.list("List[int]", s.of(1), s.of(2))
    tensor = s.ramp(2, grad=False)
    entries = [
        ("flag", "bool", s.of(False)),
        ("number", "int", s.of(2**63 - 1)),
        ("ratio", "float", s.of(-0.0)),
        ("phase", "complex", s.of(0.5 - 4j)),
        ("text", "str", s.of("gr\u00fc\u00dfe \U0001f642\x00\n\\'\"\t")),
        ("place", "Device", s.device("cuda:1")),
        ("nothing", "NoneType", s.of(None)),
        ("kind", "int", s.of(5)),
        ("weight", "Tensor", tensor),
        ("maybe", "Optional[float]", s.of(2.5)),
        ("maybe_not", "Optional[List[int]]", s.of(None)),
        ("either", "Union[List[str], int, NoneType]", s.list("List[str]", s.of("u"))),
        ("single", "Tuple[float]", s.tuple(s.of(1.0))),
        ("unit", "Tuple[()]", s.tuple()),
        ("pair", "Tuple[int, Tuple[str, Tensor]]", s.tuple(s.of(1), s.tuple(s.of("one"), tensor))),
        (
            "ints",
            "List[int]",
            s.list(
                "",
                *map(s.of, (0, -1, 255, 256, 65535, 65536, -(2**31), 2**31, 2**63 - 1, -(2**63))),
            ),
        ),
        (
            "floats",
            "List[float]",
            s.list("", *map(s.of, (0.0, 1e-310, float("inf"), float("nan"), 0.1))),
        ),
        ("bools", "List[bool]", s.list("", s.of(True), s.of(False))),
        ("words", "List[str]", s.list("", *map(s.of, ("", "a", "a", "w" * 300)))),
        ("complexes", "List[complex]", s.list("", s.of(1 + 2j), s.of(-1j))),
        ("tensors", "List[Tensor]", s.list("", tensor, s.ramp(1, grad=False), tensor)),
        ("optionals", "List[Optional[int]]", s.list("", s.of(1), s.of(None))),
        ("empty", "List[Tensor]", s.list("")),
        (
            "by_name",
            "Dict[str, Tensor]",
            s.dict("", (s.of("x"), tensor), (s.of("\u00e4"), s.ramp(3, grad=False))),
        ),
        (
            "by_number",
            "Dict[int, List[str]]",
            s.dict(
                "Dict[int, List[str]]", (s.of(3), s.list("", s.of("c"))), (s.of(-1), s.list(""))
            ),
        ),
        ("by_float", "Dict[float, bool]", s.dict("", (s.of(0.5), s.of(True)))),
        ("no_entries", "Dict[str, int]", s.dict("")),
        ("first", "List[int]", shared),
        ("second", "List[int]", shared),
        ("lists", "List[List[int]]", s.list("", shared, shared, s.list("", s.of(1), s.of(2)))),
    ]
    for name, type, value in entries:
        s.attribute(root, name, type, value)
    # An attribute without a type gets the type of its value.
    s.attribute(root, "shown", "", s.tuple(s.of(4), s.list("List[float]", s.of(0.25))))
    entries.append(("shown", "Tuple[int, List[float]]", 0))
    # The first list and the tensor change, and every place that shares them shows that.
    returned = [entry for entry in entries if entry[0] != "unit"]
    types, members = (
        ", ".join(parts)
        for parts in zip(*((type, f"self.{name}") for name, type, _ in returned), strict=True)
    )
    s.define(
        root,
        f"""
def forward(self, more: int) -> Tuple[{types}]:
  self.first.append(more + len(self.unit))
  self.weight.add_(more)
  return ({members})
""",
    )
    return root


@model
def states(s: Steps) -> int:
    """Objects with a state: one of a class with methods for it, and one of a class of PyTorch."""
    root = s.module("States")
    s.types(
        root,
        "__torch__.kept",
        """
class Table:
  entries : List[float]
  name : str
  def __getstate__(self) -> Tuple[List[float], str]:
    return (self.entries, self.name)
  def __setstate__(self, state: Tuple[List[float], str]) -> NoneType:
    entries, name = state
    self.entries = entries
    self.name = name + "!"
""",
    )
    state = s.tuple(s.list("List[float]", s.of(0.5), s.of(0.25)), s.of("table"))
    s.attribute(root, "table", "__torch__.kept.Table", s.opaque("__torch__.kept.Table", state))
    storage = s.storage(packed("int8", range(-4, 4)))
    weight = s.spec(
        scalar_type="qint8", sizes=[2, 4], storage=storage, quantizer="per_tensor_affine", scale=0.5
    )
    parameters = "__torch__.torch.classes.quantized.LinearPackedParamsBase"
    s.attribute(
        root,
        "packed",
        parameters,
        s.opaque(parameters, s.tuple(weight, s.floats([1.0, -1.0], [2]))),
    )
    s.define(
        root,
        """
def forward(self, x: Tensor) -> Tuple[Tensor, List[float], str]:
  return ops.quantized.linear_dynamic(x, self.packed), self.table.entries, self.table.name
""",
    )
    return root


@model
def kept(s: Steps) -> int:
    """Modules with a state, of which one part is replaced."""
    root, child = s.module("Root"), s.module("Kept")
    s.attribute(child, "w", "Tensor", s.floats([0.0], [1]))
    s.attribute(child, "b", "Optional[Tensor]", s.of(None))
    s.attribute(child, "k", "int", s.of(0))
    s.define(
        child,
        """
def __getstate__(self) -> Tuple[Tensor, Optional[Tensor], Dict[str, int]]:
  return (self.w, self.b, {"k": self.k})
def __setstate__(self, state: Tuple[Tensor, Optional[Tensor], Dict[str, int]]) -> NoneType:
  w, b, numbers = state
  self.w = w
  self.b = b
  self.k = numbers["k"]
  self.training = False
def forward(self, x: Tensor) -> Tensor:
  return x * self.w + self.k
""",
    )
    s.submodule(root, "kept", child)
    s.state(
        root,
        "kept",
        s.tuple(s.floats([2.0, 4.0], [2]), s.of(None), s.dict("", (s.of("k"), s.of(3)))),
    )
    s.set(root, "kept.state[2]['k']", s.of(5))
    s.load(root, {"kept.state[0]": s.floats([2.0, -4.0], [2])})
    s.define(root, "def forward(self, x: Tensor) -> Tensor:\n  return self.kept.forward(x)\n")
    return root


def tensors_of(s: Steps, name: str) -> int:
    """A module whose tensors no method reads. check_built.py compares them itself."""
    root = s.module(name)
    s.define(root, "def forward(self) -> int:\n  return 1\n")
    return root


@model
def dtypes(s: Steps) -> int:
    root = tensors_of(s, "DTypes")
    for dtype in DTYPES:
        numbers = [0, 1, 2, 100, 7] if dtype != "bool" else [0, 1, 1, 0, 1]
        storage = s.storage(packed(dtype, numbers))
        s.buffer(root, f"of_{dtype}", s.tensor(storage, dtype, [5]))
        s.buffer(
            root, f"some_{dtype}", s.spec(scalar_type=dtype, sizes=[2], storage=storage, offset=1)
        )
    return root


@model
def new_dtypes(s: Steps) -> int:
    root = tensors_of(s, "NewDTypes")
    for dtype in NEW_DTYPES:
        s.buffer(
            root, f"of_{dtype}", s.tensor(s.storage(packed(dtype, [0, 1, 2, 100])), dtype, [4])
        )
    for dtype in FLOAT8:
        s.buffer(root, f"of_{dtype}", s.tensor(s.storage(bytes([1, 2, 0x40, 0x48])), dtype, [4]))
    return root


@model
def opaque_dtypes(s: Steps) -> int:
    """PyTorch has tensors of these dtypes, and hardly an operator for them."""
    root = tensors_of(s, "OpaqueDTypes")
    for dtype in OPAQUE_DTYPES:
        numel = {"bits16": 4, "bcomplex32": 2}.get(dtype, 8)
        s.buffer(
            root,
            f"of_{dtype}",
            s.spec(scalar_type=dtype, sizes=[numel], storage=s.storage(bytes(range(1, 9)))),
        )
    return root


@model
def quantised(s: Steps) -> int:
    root = tensors_of(s, "Quantised")
    of_type = {"int8": [-3, 0, 5, 127], "uint8": [0, 3, 200, 255], "int32": [-(2**31), 0, 9, 7]}
    for dtype, numbers in of_type.items():
        fields = {
            "scalar_type": f"q{dtype}",
            "sizes": [2, 2],
            "storage": s.storage(packed(dtype, numbers)),
        }
        s.buffer(
            root,
            f"of_q{dtype}",
            s.spec(**fields, quantizer="per_tensor_affine", scale=0.25, zero_point=2),
        )
    scales = s.tensor(s.storage(packed("float64", [0.1, 0.2])), "float64", [2])
    zero_points = s.tensor(s.storage(packed("int64", [1, 2])), "int64", [2])
    for name, axis, sizes, dtype in (
        ("channels", 0, [2, 3], "qint8"),
        ("along", 1, [3, 2], "quint8"),
    ):
        storage = s.storage(packed("uint8", range(1, 7)))
        fields = {"scalar_type": dtype, "sizes": sizes, "storage": storage, "axis": axis}
        s.buffer(
            root,
            name,
            s.spec(
                **fields, quantizer="per_channel_affine", scales=scales, zero_points=zero_points
            ),
        )
    return root


@model
def sparse(s: Steps) -> int:
    root = tensors_of(s, "Sparse")

    def longs(numbers: list[int], *sizes: int) -> int:
        return s.tensor(s.storage(packed("int64", numbers)), "int64", sizes)

    coo = {
        "layout": "sparse_coo",
        "sizes": [2, 3],
        "indices": longs([0, 1, 1, 1, 0, 2], 2, 3),
        "values": s.floats([2.0, 3.0, 4.0], [3]),
    }
    s.buffer(root, "coo", s.spec(**coo))
    s.buffer(root, "coalesced", s.spec(**coo, coalesced=1))
    s.buffer(
        root, "twice", s.spec(**(coo | {"indices": longs([0, 0, 1, 1, 1, 2], 2, 3)}), coalesced=0)
    )
    hybrid = {"indices": longs([1], 1, 1), "values": s.floats([5.0, 6.0], [1, 2])}
    s.buffer(root, "hybrid", s.spec(layout="sparse_coo", sizes=[3, 2], **hybrid))
    csr = {
        "indices": longs([0, 1, 3], 3),
        "plain_indices": longs([1, 0, 2], 3),
        "values": s.floats([2.0, 3.0, 4.0], [3]),
    }
    s.buffer(root, "csr", s.spec(layout="sparse_csr", sizes=[2, 3], **csr))
    return root


@model
def views(s: Steps) -> int:
    """Tensors that share one storage, with strides and offsets of all kinds, and tensors without
    elements, dimensions or bytes.
    """
    root = tensors_of(s, "Views")
    storage = s.storage(packed("float32", [i / 2 for i in range(24)]))

    def view(
        name: str, sizes: list[int], strides: list[int] | None = None, offset: int = 0
    ) -> None:
        s.buffer(root, name, s.tensor(storage, "float32", sizes, strides, offset))

    view("base", [24])
    view("matrix", [4, 6])
    view("transposed", [6, 4], [1, 6])
    view("middle", [6], None, 5)
    view("strided", [5], [5], 1)
    view("expanded", [3, 2], [0, 0], 2)
    view("windows", [3, 4], [2, 1], 3)
    view("channels_last", [1, 4, 2, 3], [24, 1, 12, 4])
    view("nothing", [0], None, 4)
    view("scalar", [], None, 23)
    floats = s.storage(packed("float32", range(8)))
    s.buffer(
        root,
        "part",
        s.spec(
            scalar_type="float32",
            sizes=[3],
            offset=1,
            storage=floats,
            storage_offset=16,
            storage_numel=4,
        ),
    )
    s.buffer(root, "empty", s.tensor(s.storage(b""), "int64", [2, 0, 4]))
    s.parameter(root, "frozen", s.ramp(2, grad=False))
    s.parameter(root, "trained", s.ramp(2, 2))
    s.parameter(root, "no_parameter", None)
    s.buffer(root, "no_buffer", None)
    s.buffer(root, "meta", s.spec(scalar_type="float32", sizes=[3, 4], device="meta"))
    s.buffer(
        root, "other_meta", s.spec(scalar_type="int64", sizes=[4, 3], strides=[1, 4], device="meta")
    )
    return root


@model
def conjugated(s: Steps) -> int:
    root = tensors_of(s, "Conjugated")
    complexes = s.storage(packed("complex64", [1 + 2j, 3 - 4j]))
    s.buffer(root, "plain", s.tensor(complexes, "complex64", [2]))
    s.buffer(root, "conj", s.spec(scalar_type="complex64", sizes=[2], storage=complexes, conj=1))
    negated = s.storage(packed("float32", [5.0, 6.0, 0.0, 7.0]))
    s.buffer(
        root,
        "neg",
        s.spec(scalar_type="float32", sizes=[2], strides=[2], offset=1, storage=negated, neg=1),
    )
    return root
