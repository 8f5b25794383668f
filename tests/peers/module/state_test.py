#!/usr/bin/env python3
"""Modules whose archives have a state get new weights, and real PyTorch runs them: quantised
modules, and modules with a class of their own.
"""

from __future__ import annotations

import kit

PEER = kit.HERE / "state_peer.py"
STATES = {
    "kept": ["state"],
    "below": ["1.state"],
    "set_only": [],
    "get_only": [],
    # PyTorch's own object in the module that packs the weights.
    "linear": ["layers.0._packed_params._packed_params.state"],
    "conv": ["layers.0.state"],
    "dynamic": ["0._packed_params._packed_params.state", "2._packed_params._packed_params.state"],
}


class State(kit.TorchCase):
    def test_new_weights(self) -> None:
        for name, python in kit.TORCHES.items():
            folder = self.folder / name
            kit.run_python(python, PEER, "write", folder)
            made = {suffix: folder / f"made-{suffix}" for suffix in ("kept", "compiled")}
            for place in made.values():
                place.mkdir()
            models = sorted((folder / "old").iterdir())
            self.assertLess(set(STATES), {path.stem for path in models})
            for old in models:
                with self.subTest(torch=name, archive=old.name):
                    new = folder / "new" / old.name
                    said = kit.tell("transplant", old, new, made["kept"] / old.name)
                    states = [
                        line.removeprefix("state ") for line in said if line.startswith("state ")
                    ]
                    self.assertEqual(states, STATES.get(old.stem, states))
                    self.assertEqual(bool(states), old.stem not in ("set_only", "get_only"))
                    if old.suffix == ".pt":
                        kit.tell(
                            "transplant", old, new, made["compiled"] / f"{old.stem}.ptl", "compile"
                        )
            said = kit.run_python(python, PEER, "check", folder / "new", *made.values())
            in_lite = [path for place in made.values() for path in place.glob("*.ptl")]
            self.assertIn(
                f"{len(models) + len(list(made['compiled'].iterdir())) + len(in_lite)} outputs",
                said,
            )


if __name__ == "__main__":
    kit.main()
