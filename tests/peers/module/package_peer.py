"""Packages in real PyTorch, for package_test.py.

usage: package_peer.py write FILE
       package_peer.py check OLD NEW NUMBER    NEW is OLD with the number added to every parameter
                                               of its modules
       package_peer.py pick OLD NEW            NEW has the modules models/net.pkl and
                                               models/twin.pkl of OLD
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.package import PackageExporter, PackageImporter, package_exporter

# Both versions refuse script modules until this is set.
package_exporter._gate_torchscript_serialization = False


class Net(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, width)
        self.register_buffer("scale", torch.full([width], 0.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(self.fc(x)) * self.scale + torch.tensor([1.0, 2.0])


class Other(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x) - torch.tensor([3.0])


def write(path: str) -> None:
    torch.manual_seed(3)
    net = Net(2)
    twin = Net(2)
    twin.fc.weight = net.fc.weight
    scripted, other = torch.jit.script(net), torch.jit.script(Other())
    with PackageExporter(path) as package:
        package.save_pickle("models", "net.pkl", scripted)
        package.save_pickle("models", "twin.pkl", torch.jit.script(twin))
        # This pickle has no resource of its own. It has tensors of Python's pickler, one of which
        # is a script module's.
        package.save_pickle(
            "models",
            "all",
            {"other": other, "numbers": torch.arange(4.0), "weight": scripted.fc.weight.detach()},
        )
        package.save_text("models", "note.txt", "hello")
        package.save_source_string("models.code", "number = 7\n")


def load(path: str) -> tuple[dict[str, Any], Any]:
    package = PackageImporter(path)
    everything = package.load_pickle("models", "all")
    modules = {name: package.load_pickle("models", f"{name}.pkl") for name in ("net", "twin")}
    return modules | {"other": everything["other"], "everything": everything}, package


def main() -> None:
    task, old = sys.argv[1:3]
    if task == "write":
        write(old)
        return
    x = torch.tensor([[0.5, -1.0, 2.0]])
    before, _ = load(old)
    if task == "pick":
        package = PackageImporter(sys.argv[3])
        for name in ("net", "twin"):
            assert torch.equal(package.load_pickle("models", f"{name}.pkl")(x), before[name](x)), (
                name
            )
        print(torch.__version__)
        return
    after, package = load(sys.argv[3])
    number = float(sys.argv[4])
    weight = before["net"].fc.weight.detach().clone()
    # Two modules may share one tensor here.
    parameters = {
        each.data_ptr(): each
        for name in ("net", "twin", "other")
        for each in before[name].parameters()
    }
    with torch.no_grad():
        for parameter in parameters.values():
            parameter += number
    for name in ("net", "twin", "other"):
        assert torch.equal(before[name](x), after[name](x)), name
    assert torch.equal(after["net"].fc.weight, weight + number)
    assert torch.equal(after["everything"]["numbers"], torch.arange(4.0))
    # The tensor in Python's pickle must be unchanged.
    assert torch.equal(after["everything"]["weight"], weight)
    assert (
        package.load_text("models", "note.txt") == "hello"
        and package.import_module("models.code").number == 7
    )
    print(torch.__version__)


if __name__ == "__main__":
    main()
