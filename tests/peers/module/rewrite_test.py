#!/usr/bin/env python3
"""Archives of PyTorch are imported and exported again. Each runs as before, in both PyTorch
versions, and its records are the same.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import kit
import page

SILERO = """
import sys, torch
old, new = (torch.jit.load(path) for path in sys.argv[1:3])
torch.manual_seed(5)
x = torch.randn(1, int(sys.argv[3]))
for rate in (8000, 16000):
    outputs = []
    for model in (old, new):
        model.reset_states()
        chunks = x[:, : 256 * (rate // 8000)]
        outputs.append([model(chunks, rate) for _ in range(3)])
    assert all(torch.equal(a, b) for a, b in zip(*outputs)), rate
assert [n for n, _ in old.named_parameters()] == [n for n, _ in new.named_parameters()]
print(torch.__version__)
"""


def rewrite_all(folder: Path, out: Path, how: str) -> None:
    out.mkdir()
    names = sorted(path.name for path in folder.glob("*.pt"))
    answers = kit.Agent(
        [["rewrite", str(folder / name), str(out / name), how] for name in names]
    ).answers
    failed = [
        f"{name}: {answer[-1]}"
        for name, answer in zip(names, answers, strict=True)
        if answer[-1] != "ok"
    ]
    assert not failed, "\n".join(failed)


class Rewrite(kit.TorchCase):
    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        for part in ("rewritten", "packages", "versions", "fixtures", "silero"):
            page.clear(part)

    def test_zoo(self) -> None:
        for writer, python in kit.TORCHES.items():
            folder = self.folder / writer
            kit.run_python(python, "write_archives.py", folder)
            index = json.loads((folder / "index.json").read_text())["models"]
            self.assertGreaterEqual(sum("left_out" not in entry for entry in index.values()), 30)
            # The way in which tensors are read does not depend on the PyTorch that wrote them.
            for how in (
                ("map", "private", "fill") if writer == next(iter(kit.TORCHES)) else ("map",)
            ):
                again = self.folder / f"{writer}-{how}"
                rewrite_all(folder, again, how)
                runners = kit.TORCHES if how == "map" else {writer: python}
                for runner, other in runners.items():
                    with self.subTest(written_by=writer, run_by=runner, tensors=how):
                        words = (other, "check_archives.py", folder, "--renamed", again)
                        said = (
                            kit.check("rewritten", *words)
                            if how == "map"
                            else kit.run_python(*words).strip().splitlines()[-1]
                        )
                        print(f"{writer}, {how}, run by {runner}: {said}")
                shutil.rmtree(again)
            package = self.folder / f"{writer}-package.pt"
            names = [name for name in index if "left_out" not in index[name]]
            kit.tell("pack", package, *(folder / f"{name}.pt" for name in names))
            # package_test.py tries one PyTorch's packages in the other.
            with self.subTest(written_by=writer, form="package"):
                print(
                    f"{writer}, in one package:",
                    kit.check(
                        "packages", python, "check_archives.py", folder, "--package", package
                    ),
                )

    def test_versions(self) -> None:
        for writer, python in kit.TORCHES.items():
            folder, again = (
                self.folder / f"versions-{writer}",
                self.folder / f"versions-{writer}-again",
            )
            kit.run_python(python, "version_archives.py", folder)
            rewrite_all(folder, again, "map")
            kit.check("versions", python, "check_archives.py", folder, "--renamed", again)

    def test_fixtures(self) -> None:
        """Archives that old PyTorch versions wrote (tests/peers/golden/module)."""
        golden, folder, again = (
            kit.HERE.parent / "golden" / "module",
            self.folder / "old",
            self.folder / "old-again",
        )
        folder.mkdir()
        for archive in golden.glob("*/net.pt"):
            if not (archive.parent / "expected.txt").read_text().startswith("refused"):
                shutil.copy(archive, folder / f"{archive.parent.name}.pt")
        rewrite_all(folder, again, "map")
        for runner, python in kit.TORCHES.items():
            with self.subTest(run_by=runner):
                kit.check("fixtures", python, "check_fixtures.py", golden, "--renamed", again)

    def test_silero(self) -> None:
        spec = importlib.util.find_spec("silero_vad")
        if spec is None or spec.origin is None:
            self.skipTest("no silero_vad here")
        old = Path(spec.origin).parent / "data" / "silero_vad.jit"
        for how in ("map", "fill"):
            new = self.folder / f"silero-{how}.jit"
            self.assertIn("imported version 3", kit.tell("rewrite", old, new, how)[0])
            self.assertEqual(
                subprocess.run(
                    [
                        os.environ.get("TENON_PYTHON", "python3"),
                        kit.MODELS / "archive_compare.py",
                        old,
                        new,
                    ],
                    check=False,
                ).returncode,
                0,
            )
            for python in kit.TORCHES.values():
                version = kit.run_python(python, "-c", SILERO, old, new, "512").strip()
                page.put("silero", version, {"silero-vad": {"result": "ok", "why": []}})


if __name__ == "__main__":
    kit.main()
