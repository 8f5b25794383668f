#!/usr/bin/env python3
"""Checks in this PyTorch that the archives that the agent changed compute the right results.

usage: check_changed.py added OLD NEW NUMBER          all float parameters of NEW are those of OLD
                                                      plus the number
       check_changed.py twice OLD NEW                 NEW returns twice what OLD returns
       check_changed.py combined NEW PART...          NEW returns the tuple of what the parts return
       check_changed.py swapped OLD PATH OTHER NEW    OLD with OTHER at PATH is NEW

The exit status is 1 if a result is wrong.
"""

import sys

import torch

INPUT = torch.linspace(-1.0, 1.0, 8).reshape(2, 4)


def output(module, x):
    torch.manual_seed(1)
    return module(x)


def same(a, b) -> bool:
    return a.dtype == b.dtype and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))


def check(task: str, *rest: str) -> None:
    if task == "added":
        old, new = (torch.jit.load(path) for path in rest[:2])
        with torch.no_grad():
            for parameter in old.parameters():
                if parameter.dtype == torch.float32 and parameter.layout == torch.strided:
                    parameter += float(rest[2])
        assert [name for name, _ in old.named_parameters()] == [
            name for name, _ in new.named_parameters()
        ]
        assert all(same(a, b) for a, b in zip(old.parameters(), new.parameters(), strict=True))
        assert same(output(old, INPUT), output(new, INPUT))
    elif task == "twice":
        old, new = (torch.jit.load(path) for path in rest)
        assert same(output(old, INPUT) * 2, output(new, INPUT))
    elif task == "combined":
        new = torch.jit.load(rest[0])
        x = torch.tensor([5, -5]) if rest[1] == "integers" else INPUT
        parts = [torch.jit.load(path) for path in rest[1 + (rest[1] == "integers") :]]
        found = output(new, x)
        assert len(found) == len(parts)
        for part, one in zip(parts, found, strict=True):
            assert same(output(part, x), one), (output(part, x), one)
    else:
        assert task == "swapped"
        old, path, other, new = rest
        whole, part = torch.jit.load(old), torch.jit.load(other)
        expected = INPUT
        for name, child in whole.named_children():
            expected = (part if name == path else child)(expected)
        assert same(expected, output(torch.jit.load(new), INPUT))


if __name__ == "__main__":
    check(*sys.argv[1:])
