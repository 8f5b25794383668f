from __future__ import annotations

import gc
import io
import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tenon
from modules import linear, mlp


def test_building() -> None:
    module = tenon.Module("my.Net")
    assert module.class_name == "__torch__.my.Net" and "my.Net" in repr(module)
    module.add_parameter("scale", np.ones(3, "float32"))
    module.add_parameter("bias", None)
    module.add_buffer("mean", tenon.zeros(3))
    module.add_attribute("sizes", "List[int]", [1, 2])
    module.add_attribute("label", None, "x")
    module.add_attribute("nothing", "Optional[int]", None)
    module.add_constant("depth", "int", 4)
    module.add_constant("table", "Tensor", np.arange(2.0))
    child = linear(2, 2)
    module.add_submodule("0", child)
    module.add_submodule("again", child)
    module.define("def forward(self, x: Tensor) -> Tensor:\n  return torch.mul(x, self.scale)\n")
    module.check()
    found = {member.name: member for member in module.members()}
    assert [
        (name, member.kind, member.type)
        for name, member in found.items()
        if name not in ("training",)
    ] == [
        ("scale", "parameter", "Tensor"),
        ("bias", "parameter", "NoneType"),
        ("mean", "buffer", "Tensor"),
        ("sizes", "attribute", "List[int]"),
        ("label", "attribute", "str"),
        ("nothing", "attribute", "Optional[int]"),
        ("0", "submodule", "__torch__.layers.Linear"),
        ("again", "submodule", "__torch__.layers.Linear"),
        ("depth", "constant", "int"),
        ("table", "constant", "Tensor"),
        ("forward", "method", ""),
    ]
    assert (
        found["sizes"].value == [1, 2]
        and found["bias"].value is None
        and found["bias"].handle is not None
    )
    assert (
        found["depth"].value == 4
        and found["forward"].value is None
        and found["forward"].handle is None
    )
    assert "torch.mul" in found["forward"].source
    assert [table.tolist() for table in module.constants] == [[0, 1]]
    assert list(module.code) == ["__torch__/my.py", "__torch__/layers.py"]
    assert "class Net(Module)" in module.code["__torch__/my.py"]
    assert (module.report, module.version, module.warnings) == (None, None, ())


@pytest.mark.parametrize(
    ("build", "detail", "found"),
    [
        (lambda m: m.add_attribute("f", "float", 1), "wanted", "float"),
        (lambda m: m.add_attribute("f", "float", 1), "where", "f"),
        (lambda m: m.add_attribute("f", "List[", 1), "column", "6"),
        (lambda m: m.add_attribute("f", "Dict[str, List[int]]", {"a": [1.5]}), "found", "float"),
        (lambda m: m.add_parameter("p", 1), "found", "int"),
        (lambda m: m.add_parameter("fc1", None), "name", "fc1"),
        (lambda m: m.define("def bad(self) -> int:\n  return 1 +\n"), "line", "2"),
        (lambda m: m.define_types("__torch__", "class ("), "line", "1"),
    ],
)
def test_what_does_not_fit(build: object, detail: str, found: str) -> None:
    module = mlp()
    with pytest.raises(tenon.InvalidArgument) as caught:
        build(module)  # type: ignore[operator]
    assert caught.value.details[detail] == found
    assert [member.name for member in module.members() if member.name != "training"] == [
        "fc1",
        "fc2",
        "forward",
    ]


@pytest.mark.parametrize(
    "build",
    [
        lambda m: tenon.Module("1x"),
        lambda m: tenon.Module("a\0b"),
        lambda m: m.add_parameter("a.b", None),
        lambda m: m.add_parameter("a\0b", None),
        lambda m: m.add_submodule("m", m),
        lambda m: m["fc1"].add_submodule("parent", m),
        lambda m: m.add_submodule("c", m["fc1"], "int"),
        lambda m: m.set_hooks(before=["fc1"]),
        lambda m: m.set_traced_inputs("fc1", ()),
        lambda m: m.extra_files.__setitem__("", b""),
    ],
)
def test_what_is_refused(build: object) -> None:
    with pytest.raises(tenon.InvalidArgument):
        build(mlp())  # type: ignore[operator]


@pytest.mark.parametrize(
    "build",
    [
        lambda m: tenon.Module(b"M"),
        lambda m: m.add_parameter("p", {1}),
        lambda m: m.add_attribute("f", 3, 1),
        lambda m: m.load({"a": object()}),
        lambda m: m.extra_files.__setitem__("a", 3),
    ],
)
def test_wrong_kinds_of_arguments(build: object) -> None:
    with pytest.raises(TypeError):
        build(mlp())  # type: ignore[operator]


def test_errors_of_code_show_the_place() -> None:
    module = mlp()
    with pytest.raises(tenon.InvalidArgument) as caught:
        module.define("def bad(self) -> int:\n  return 1 +\n")
    message, *excerpt = str(caught.value).split("\n")
    assert (
        "\n".join(excerpt) == caught.value.details["excerpt"]
        and "return 1 +" in excerpt[0]
        and excerpt[1].strip(" ") == "^"
    )
    assert caught.value.details["line"] == "2" and ":2:" in message
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    module.define("def bad(self, x: Tensor) -> Tensor:\n  return torch.no_such_operator(x)\n")
    with pytest.raises(tenon.InvalidArgument, match="no_such_operator"):
        module.check()
    del module["bad"]
    module.check()


def test_an_operand_of_a_wrong_type_is_shown() -> None:
    module = tenon.Module("Net")
    module.define('def bad(self, x: Tensor) -> Tensor:\n  return torch.add("a", x)\n')
    with pytest.raises(tenon.InvalidArgument) as caught:
        module.check()
    message, source, caret = str(caught.value).split("\n")
    assert message.startswith(
        "code/__torch__.py:7:22: torch.add takes a Tensor as self, and gets a str"
    )
    details = caught.value.details
    assert (details["file"], details["line"], details["column"]) == ("code/__torch__.py", "7", "22")
    assert source.strip() == 'return torch.add("a", x)' and caret.strip() == "^^^"
    assert caret.index("^") == source.index('"a"')


def test_paths() -> None:
    module = mlp()
    assert module["fc1.weight"].shape == (8, 4) and module["fc2.bias"].tolist() == [100, 101, 102]
    assert isinstance(module["fc1"], tenon.Module) and "torch.linear" in module["fc1.forward"]
    assert "fc1.weight" in module and "fc3" not in module and 3 not in module
    with pytest.raises(KeyError, match="fc3") as caught:
        module["fc3.weight"]
    assert isinstance(caught.value.__cause__, tenon.NotFound)
    with pytest.raises(tenon.NotFound, match="fc3"):
        module.find("fc3.weight")
    for path in ("", ".", "fc1.", "fc1..weight"):
        with pytest.raises((KeyError, tenon.InvalidArgument)):
            module[path]


def test_setting() -> None:
    module = mlp()
    module["fc1.weight"] = np.full((2, 2, 2), 7, "float64")
    assert module["fc1.weight"].shape == (2, 2, 2) and module["fc1.weight"].dtype == "float64"
    with pytest.raises(tenon.InvalidArgument) as caught:
        module["fc1.weight"] = 3
    assert caught.value.details["wanted"] == "Tensor"
    with pytest.raises(tenon.InvalidArgument):
        module["fc1.weight"] = None
    with pytest.raises(KeyError):
        module["fc1.scale"] = np.zeros(1)
    with pytest.raises(KeyError):
        module["fc3"] = linear(1, 1)
    other = linear(8, 3, 5)
    module["fc2"] = other
    assert module["fc2"] == other and module["fc2.bias"].tolist() == [5, 6, 7]
    del module["fc2.bias"]
    with pytest.raises(KeyError, match="bias"):
        del module["fc2.bias"]
    with pytest.raises(TypeError):
        module["fc2.weight"] = object()


def test_shared_tensors() -> None:
    module = tenon.Module("Tied")
    weight = tenon.Value(np.zeros(3, "float32"))
    for name in ("left", "right"):
        module.add_parameter(name, weight)
    assert module.find("left").handle is module.find("right").handle is weight
    tensors = module.tensors()
    assert list(tensors) == ["left", "right"] and tensors["left"] is tensors["right"]
    module.add_buffer("mean", np.zeros(1))
    assert list(module.parameters()) == ["left", "right"] and list(module.buffers()) == ["mean"]
    module["left"] = np.ones(2, "float32")
    assert module["right"].tolist() == [1, 1]
    assert module.find("left").handle is module.find("right").handle


def test_identity() -> None:
    module = mlp()
    child = module["fc1"]
    assert (
        child == module["fc1"] and child is not module["fc1"] and hash(child) == hash(module["fc1"])
    )
    assert child != module["fc2"] and child != 1 and len({child, module["fc1"], module["fc2"]}) == 2
    assert child.handle is module["fc1"].handle and child.handle.kind == "object"
    child["bias"] = np.full(8, 9, "float32")
    assert module["fc1.bias"].tolist() == [9] * 8


def test_iterating() -> None:
    module = mlp()
    assert [each["bias"].shape for each in module] == [(8,), (3,)]
    assert list(module.submodules) == ["fc1", "fc2"] and module
    assert [name for name in module.tensors()] == [
        "fc1.weight",
        "fc1.bias",
        "fc2.weight",
        "fc2.bias",
    ]


def test_load() -> None:
    module = mlp()
    given = {name: np.full(tensor.shape, 3, "float32") for name, tensor in module.tensors().items()}
    assert module.load(given) == tenon.LoadResult((), ())
    assert module["fc1.weight"].tolist() == [[3] * 4] * 8
    del given["fc1.bias"]
    given["fc3.bias"] = np.zeros(1, "float32")
    given["fc1.weight"] = np.zeros((8, 4), "float32")
    with pytest.raises(tenon.InvalidArgument) as caught:
        module.load(given)
    assert (caught.value.details["missing"], caught.value.details["unexpected"]) == ("1", "1")
    for allowed in ({"allow_missing": True}, {"allow_unexpected": True}):
        with pytest.raises(tenon.InvalidArgument):
            module.load(given, **allowed)
    wanted = tenon.LoadResult(("fc1.bias",), ("fc3.bias",))
    assert module.load(given, allow_missing=True, allow_unexpected=True, check_only=True) == wanted
    assert module["fc1.weight"].tolist() == [[3] * 4] * 8
    missing, unexpected = module.load(given, True, True)
    assert (missing, unexpected) == (wanted.missing, wanted.unexpected)
    assert module["fc1.weight"].tolist() == [[0] * 4] * 8
    with pytest.raises(tenon.InvalidArgument) as caught:
        module.load({"fc1.bias": None}, True)
    assert caught.value.details["where"] == "fc1.bias"


def test_load_keeps_what_is_one_tensor() -> None:
    module = tenon.Module("Tied")
    for name in ("left", "right"):
        module.add_parameter(name, np.zeros(3))
    shared = np.ones(3)
    module.load({"left": shared, "right": shared})
    assert module.find("left").handle is module.find("right").handle


def test_types() -> None:
    module = tenon.Module("Net")
    module.define_types(
        "__torch__.my",
        "class Pair(NamedTuple):\n  left : int\n  right : str\n"
        "class Color(Enum):\n  RED = 1\n  GREEN = 2\n"
        "class Layer(ModuleInterface):\n  def forward(self, x: Tensor) -> Tensor:\n    pass\n",
    )
    pair = tenon.NamedTuple("__torch__.my.Pair", (1, "one"))
    module.add_attribute("pair", "__torch__.my.Pair", pair)
    assert module["pair"] == pair and module["pair"].class_name == pair.class_name
    module.add_attribute("color", "__torch__.my.Color", tenon.Enum("__torch__.my.Color", 2))
    assert module["color"] == tenon.Enum("__torch__.my.Color", 2)
    with pytest.raises(tenon.InvalidArgument):
        module["pair"] = tenon.NamedTuple("__torch__.my.Pair", (1,))
    module.add_submodule("layer", linear(2, 2), "__torch__.my.Layer")
    assert "layer : __torch__.my.Layer" in module.code["__torch__.py"]
    with pytest.raises(tenon.NotFound):
        module.add_submodule("other", linear(2, 2), "__torch__.Nothing")
    with pytest.raises(tenon.InvalidArgument):
        module["layer"] = tenon.Module("WithoutForward")
    module.define("def forward(self, x: Tensor) -> Tensor:\n  return self.layer.forward(x)\n")
    module.check()


def test_hooks_and_traced_inputs() -> None:
    module = mlp()
    module.define("def before(self, input: Tuple[Tensor]) -> Tuple[Tensor]:\n  return input\n")
    module.set_hooks(before=["before"])
    assert "before" in module.code["__torch__.py"].split("def ")[0]
    module.set_hooks(before=(), after=())
    module.set_hooks()
    module.set_traced_inputs("forward", (np.zeros((1, 4), "float32"),))


def test_extra_files() -> None:
    module = mlp()
    files = module.extra_files
    assert len(files) == 0 and not files
    files["labels.txt"] = "cät"
    files["empty"] = b""
    files.update({"array": np.arange(2, dtype="<u2"), "labels.txt": bytearray(b"d\0g")})
    assert dict(module.extra_files) == {"labels.txt": b"d\0g", "empty": b"", "array": b"\0\0\1\0"}
    assert (
        list(files) == ["labels.txt", "empty", "array"]
        and "empty" in files
        and "labels.txt" in repr(files)
    )
    assert files.pop("array") == b"\0\0\1\0" and files.get("array") is None
    with pytest.raises(KeyError):
        files["array"]
    with pytest.raises(KeyError):
        del files["array"]
    files.clear()
    assert len(module.extra_files) == 0


def test_what_was_looked_up_stays() -> None:
    module = mlp()
    weight, child, members = module.find("fc1.weight"), module["fc2"], module.members()
    del module["fc1"]
    module.close()
    del module
    gc.collect()
    assert weight.value.shape == (8, 4) and child["bias"].shape == (3,)
    assert {member.name for member in members} >= {"fc1", "fc2"}
    child.check()


def test_close() -> None:
    with mlp() as module:
        other = module["fc1"]
    assert module.closed and "closed" in repr(module)
    module.close()
    for use in (
        lambda: module.class_name,
        lambda: module["fc1"],
        lambda: module.find("fc1"),
        lambda: module.extra_files,
        lambda: module.report,
        lambda: module.add_parameter("a", None),
        lambda: module.load({}),
        lambda: other.add_submodule("a", module),
    ):
        with pytest.raises(ValueError, match="already closed"):
            use()
    assert module == module and hash(module) == hash(module) and module != other
    with pytest.raises(TypeError, match="export_module"):
        pickle.dumps(other)


def changing() -> tenon.Module:
    module = tenon.Module("M")
    module.define_types("__torch__", "class P:\n  x : int\n  names : List[str]\n")
    module.add_attribute("o", "__torch__.P", tenon.Object("__torch__.P", {"x": 1, "names": ["a"]}))
    module.add_attribute("d", "Dict[str, List[int]]", {"k": [1, 2]})
    module.add_attribute("l", "List[int]", [3, 1, 2])
    module.add_constant("c", "List[int]", [1])
    module.add_submodule("child", tenon.Module("N"))
    return module


@pytest.mark.parametrize(
    "change",
    [
        "m['o'].attributes['x'] = 2",
        "del m['o'].attributes['x']",
        "m['o'].attributes.update(x=2)",
        "m['o'].attributes = {}",
        "m['o'].state = 1",
        "m['o'].class_name = '__torch__.Q'",
        "del m['o'].attributes",
        "m['o'].attributes['names'].append('b')",
        "m['d']['k'] = []",
        "m['d']['k'][0] = 9",
        "m['d']['k'] += [9]",
        "m['d'] |= {'z': [1]}",
        "m['d'].pop('k')",
        "m['d'].popitem()",
        "m['d'].setdefault('z', [])",
        "m['d'].clear()",
        "m['l'] += [4]",
        "m['l'] *= 2",
        "m['l'][1:] = []",
        "del m['l'][0]",
        "m['l'].sort()",
        "m['l'].reverse()",
        "m['l'].extend([4])",
        "m['l'].insert(0, 4)",
        "m['l'].pop()",
        "m['l'].remove(3)",
        "m['l'].clear()",
        "m['c'].append(2)",
        "m.find('l').value.append(4)",
        "m.submodules['other'] = m",
        "m.code['x'] = 'y'",
    ],
)
def test_a_change_of_what_was_read_is_refused(change: str) -> None:
    module = changing()
    before = {name: module[name] for name in "dlc"}
    with pytest.raises(TypeError, match=r"would not reach the module.*module\[path\] = "):
        exec(change, {"m": module})
    assert {name: module[name] for name in "dlc"} == before and dict(module["o"].attributes) == {
        "x": 1,
        "names": ["a"],
    }


def test_what_was_read_is_as_a_plain_value() -> None:
    module = changing()
    found = module["o"]
    assert (
        isinstance(found, tenon.Object)
        and isinstance(module["l"], list)
        and isinstance(module["d"], dict)
    )
    assert (
        module["l"] + [4] == [3, 1, 2, 4]
        and sorted(module["l"]) == [1, 2, 3]
        and json.dumps(module["d"]) == '{"k": [1, 2]}'
    )
    # A copied value, or the value itself, can be stored in the module again.
    module["o"] = tenon.Object(found.class_name, {**found.attributes, "x": 5})
    module["d"] = {**module["d"], "z": []}
    module["l"] = module["l"] + [4]
    assert (
        module["o"].attributes["x"] == 5
        and module["d"] == {"k": [1, 2], "z": []}
        and module["l"][-1] == 4
    )
    module["o"] = found
    assert module["o"].attributes["x"] == 1
    # The plain value of a handle belongs to the caller.
    handle = module.find("l").handle
    assert handle is not None and type(handle.get()) is list
    weights = module.tensors()
    weights["x"] = None


def test_parameters_keep_that_they_require_a_gradient() -> None:
    module = tenon.Module("L")
    module.add_parameter("w", tenon.zeros((2, 2), requires_grad=True))
    module["w"] = np.ones((2, 2), "float32")
    assert module["w"].requires_grad and module["w"].tolist() == [[1, 1], [1, 1]]
    module.load({"w": np.full((3,), 2, "float32")})
    assert module["w"].requires_grad and module["w"].tolist() == [2, 2, 2]
    # Integers have no gradient.
    module["w"] = np.arange(3)
    assert not module["w"].requires_grad


def test_a_parameter_that_is_added_from_an_array_requires_a_gradient() -> None:
    module = tenon.Module("L")
    module.add_parameter("array", np.ones(2, "float32"))
    frozen = np.ones(2, "float64")
    frozen.flags.writeable = False
    module.add_parameter("read_only", frozen)
    module.add_parameter("backwards", np.arange(3, dtype="float32")[::-1])
    assert (
        module["array"].requires_grad
        and module["read_only"].requires_grad
        and module["backwards"].requires_grad
    )
    assert module["backwards"].tolist() == [2, 1, 0]
    # These parameters say themselves whether they require a gradient.
    module.add_parameter("told", tenon.zeros(2))
    module.add_parameter("spec", tenon.TensorSpec.meta((2,)))
    module.add_parameter("integers", np.arange(2))
    module.add_parameter("none", None)
    module.add_buffer("buffer", np.ones(2, "float32"))
    assert not any(module[name].requires_grad for name in ("told", "spec", "integers", "buffer"))
    module["told"] = np.ones(2, "float32")
    assert not module["told"].requires_grad


def test_a_module_has_a_state() -> None:
    module = tenon.Module("St")
    module.add_attribute("k", "int", 3)
    module.define(
        "def __getstate__(self) -> int:\n  return self.k\ndef __setstate__(self, s: int) -> None:\n"
        "  self.k = s\n"
    )
    module.define("def forward(self, x: Tensor) -> Tensor:\n  return x + self.k\n")
    for refused in (module.check, lambda: tenon.export_module(module, io.BytesIO())):
        with pytest.raises(tenon.Unsupported, match="Give it a state"):
            refused()
    assert dict(module.state) == {} and len(module.state) == 0
    with pytest.raises(tenon.InvalidArgument, match="state: int wanted"):
        module.state[""] = "3"
    module.state[""] = 3
    # Every module has the attribute `training`, and PyTorch would find no value for it.
    with pytest.raises(tenon.InvalidArgument, match=r"__setstate__ does not assign self\.training"):
        module.check()
    module.define(
        "def __setstate__(self, s: int) -> None:\n  self.k = s\n  self.training = False\n"
    )
    sink = io.BytesIO()
    tenon.export_module(module, sink)
    assert tenon.import_module(sink.getvalue()).state[""] == 3


def test_parts_of_a_state() -> None:
    root, kept = tenon.Module("Net"), tenon.Module("Kept")
    kept.add_attribute("w", None, np.ones(2, "float32"))
    kept.define(
        "def __getstate__(self) -> Tuple[Tensor, Dict[str, int]]:\n  return (self.w, {})\ndef"
        " __setstate__(self, s: Tuple[Tensor, Dict[str, int]]) -> None:\n  self.w, d = s\n "
        " self.training = False\n"
    )
    root.add_submodule("kept", kept)
    root.state["kept"] = (np.zeros(2, "float32"), {"k": 1})
    assert (
        list(root.state) == ["kept"]
        and "kept" in root.state
        and repr(root.state) == "<tenon.States ['kept']>"
    )
    assert np.asarray(root.state["kept"][0]).tolist() == [0, 0] and root.state["kept"][1] == {
        "k": 1
    }
    assert list(root.tensors()) == ["kept.state[0]"] and root.find("kept.state[0]").kind == "state"
    root["kept.state[0]"] = np.full(3, 7, "float32")
    root["kept.state[1]['k']"] = 5
    assert np.asarray(kept["state[0]"]).tolist() == [7, 7, 7] and kept.state[""][1] == {"k": 5}
    root.load({"kept.state[0]": np.full(1, 9, "float32")})
    assert np.asarray(root["kept.state[0]"]).tolist() == [9]
    for path in ("", "other"):
        with pytest.raises(KeyError):
            root.state[path]
    with pytest.raises(KeyError):
        root.state["other"] = 1
    with pytest.raises(KeyError):
        root["kept.state[2]"]


def test_threads_read_and_change_one_tree() -> None:
    module = tenon.Module("Net")
    module.add_submodule("part", linear(2, 2))
    part, value = module["part"], module["part"].handle
    fixed = {"training", "weight", "bias"}

    def change() -> None:
        for number in range(300):
            part.add_attribute(f"attribute_{number}", None, number)
            del part[f"attribute_{number}"]

    with ThreadPoolExecutor(1) as pool:
        changes = pool.submit(change)
        while not changes.done():
            assert fixed <= {member.name for member in module["part"].members()}
            names = set(value.names)
            assert all(name in fixed or name.startswith("attribute_") for name in names)
            assert fixed <= set(value.get().attributes)
        changes.result()
    assert fixed == set(value.names)
