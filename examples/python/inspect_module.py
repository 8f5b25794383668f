"""Prints the contents of a TorchScript file. usage: inspect_module.py FILE"""

import sys

import tenon


def print_members(module: tenon.Module, depth: int) -> None:
    for member in module.members():
        line = f"{'  ' * depth}{member.kind} {member.name}"
        if member.type:
            line += f": {member.type}"
        if member.kind == "constant":
            line += f" = {member.source}"
        if member.handle is not None and member.handle.kind == "tensor":
            spec = member.handle.tensor_spec()
            line += f" {spec.scalar_type.name} {list(spec.shape)}"
        print(line)
        if member.module is not None:
            print_members(member.module, depth + 1)


if len(sys.argv) != 2:
    sys.exit("usage: inspect_module.py FILE")
with tenon.import_module(sys.argv[1]) as module:
    report = module.report
    assert report is not None
    print(f"{module.class_name}, version {report.version}, {report.records} records")
    print_members(module, 1)
    for name, data in module.extra_files.items():
        print(f"extra file {name}, {len(data)} bytes")
    for warning in module.warnings:
        print(f"warning: {warning}")
