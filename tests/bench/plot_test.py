"""Tests that docs/plots and the tables of the pages agree with docs/plots/rows.json, and tests the
code of the plots.

The other tests have made-up rows. Where build/venv-plot has matplotlib (`tools/bench --plot` makes
it), the published plots are drawn again too and must be the same bytes.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path
from typing import Any

import plot
import plot_rows

ROOT = Path(__file__).resolve().parents[2]
DRAWER = ROOT / "build" / "venv-plot" / "bin" / "python3"
PUBLISHED = ROOT / "docs" / "plots"
PAGE = "# Page\n\n<!-- rows: headline -->\nold\n<!-- end of rows -->\n\nThe rest.\n"


def figures(median: float) -> dict[str, float]:
    return {"median": median, "p10": median * 0.9, "p90": median * 1.2}


def row(
    benchmark: str,
    measure: str,
    unit: str,
    against: str,
    ours: float,
    theirs: float,
) -> dict[str, Any]:
    return {
        "benchmark": benchmark,
        "measure": measure,
        "unit": unit,
        "ours": figures(ours),
        "against": f"PyTorch {against}",
        "theirs": figures(theirs),
        "ratio": figures(ours / theirs),
        "ratio_of": "ours/theirs",
    }


def made_up_rows(smoke: bool = False) -> str:
    rows = []
    for version, factor in (("2.9.1", 1), ("2.15.0", 2), ("1.13.0a0", 3)):
        for strategy, slow in (("file_descriptor", 4 * factor), ("file_system", 2 * factor)):
            peer = f"{version} queue, {strategy}"
            for size in ("4 KiB", "64 KiB", "1 MiB", "64 MiB"):
                for what, us in (("new", 200), ("known", 100)):
                    measure = f"hand over {size}, {what}, Python"
                    rows.append(row("torch_queue", measure, "us", peer, us, us * slow))
            for count in (1, 10, 300):
                for what in ("fresh", "shared"):
                    measure = f"{count} x 4 KiB in one call, {what}, Python"
                    rows.append(row("many", measure, "ms", peer, count / 100, count / 100 * slow))
            for total in (300, 5000):
                measure = f"{total} live tensors, 1024 fds allowed: how many arrive, Python"
                rows.append(row("live", measure, "tensors", peer, total, 100 * slow))
    rows.append({**rows[0], "benchmark": "crc", "against": None, "theirs": None, "ratio": None})
    machine = "Made-up CPU, 2 CPUs; Linux 0.0, Nowhere; load 9.9"
    run = {
        "date": "2000-01-02",
        "machine": machine,
        "smoke": smoke,
        "left_out": [],
        "rows": rows,
    }
    return json.dumps(run)


def run_drawer(rows: Path, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [str(DRAWER), "-B", str(ROOT / "tests" / "bench" / "plot.py"), str(rows), str(folder)]
    return subprocess.run([*command, *more], capture_output=True, text=True, check=False)


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)


class Published(Folder):
    def test_plots_and_pages_are_of_the_rows(self) -> None:
        self.assertEqual(plot_rows.problems(ROOT), [])

    @unittest.skipUnless(DRAWER.exists(), "no build/venv-plot: tools/bench --plot makes it")
    def test_the_plots_drawn_again_are_the_same(self) -> None:
        done = run_drawer(PUBLISHED / "rows.json", self.root)
        self.assertEqual(done.returncode, 0, done.stderr)
        drawn = {file.name: file.read_text() for file in self.root.iterdir()}
        self.assertEqual(drawn, {file.name: file.read_text() for file in PUBLISHED.iterdir()})


class Rows(unittest.TestCase):
    def setUp(self) -> None:
        self.run_of_rows = plot_rows.read_run(made_up_rows())

    def test_the_newest_pytorch_is_shown(self) -> None:
        self.assertEqual(self.run_of_rows.torch, "2.15.0")
        many, known, new = plot_rows.headlines(self.run_of_rows)
        self.assertAlmostEqual(many.default.tenon.median, 3e-3)
        self.assertAlmostEqual(many.default.torch.median, 24e-3)
        self.assertAlmostEqual(known.default.ratio.median, 8)
        # A ratio of ours to theirs is inverted, and its ends are swapped.
        self.assertAlmostEqual(known.default.ratio.p10, 8 / 1.2)
        self.assertAlmostEqual(known.default.ratio.p90, 8 / 0.9)
        assert new.file_system is not None
        self.assertAlmostEqual(new.file_system.ratio.median, 4)

    def test_points_of_the_lines(self) -> None:
        new, known = plot_rows.by_size(self.run_of_rows)
        self.assertEqual(list(new.lines), ["tenon", "file_descriptor", "file_system"])
        self.assertEqual([x for x, _ in known.lines["tenon"]], [4096, 65536, 1 << 20, 64 << 20])
        self.assertEqual(known.x_labels[65536], "64 KiB")
        fresh, _ = plot_rows.by_number(self.run_of_rows)
        self.assertEqual([x for x, _ in fresh.lines["file_system"]], [1, 10, 300])
        counted = plot_rows.live(self.run_of_rows)
        assert counted is not None
        self.assertEqual((counted.sent, counted.fds), (5000, 1024))
        arrived = {"tenon": 5000, "file_descriptor": 800, "file_system": 400}
        self.assertEqual(counted.arrived, arrived)

    def test_numbers_as_text(self) -> None:
        durations = [94.71e-6, 999.6e-6, 2.347e-3, 0.1412, 3.5, 2.5e-7]
        words = ["94.7 µs", "1.00 ms", "2.35 ms", "141 ms", "3.50 s", "0.250 µs"]
        self.assertEqual([plot_rows.duration(each) for each in durations], words)
        ratios = [plot_rows.short_ratio(ratio)[:-1] for ratio in (2.96, 9.94, 9.96, 51.4)]
        self.assertEqual(ratios, ["3.0", "9.9", "10", "51"])

    def test_the_block(self) -> None:
        text = plot_rows.with_block(PAGE, self.run_of_rows)
        lines = text.splitlines()
        self.assertEqual(lines[2], "<!-- rows: headline -->")
        cells = [cell.strip() for cell in lines[5].split("|")[1:-1]]
        self.assertEqual(
            cells,
            [
                "300 new tensors of 4 KiB in one call",
                "3.00 ms (2.70 to 3.60)",
                "24.0 ms (21.6 to 28.8)",
                "**8.00** (6.67 to 8.89)",
                "4.00 (3.33 to 4.44)",
            ],
        )
        for words in ("2000-01-02", "PyTorch 2.15.0", "Made-up CPU, 2 CPUs; Linux 0.0, Nowhere"):
            self.assertIn(words, " ".join(text.split()))
        self.assertLessEqual(max(len(line) for line in lines if "|" not in line), 100)
        self.assertTrue(text.startswith("# Page\n\n") and text.endswith("\n\nThe rest.\n"))
        self.assertEqual(plot_rows.with_block(text, self.run_of_rows), text)
        for bad in ("", PAGE + PAGE, PAGE.replace("end of", "END"), "\n".join(PAGE.split()[::-1])):
            with self.assertRaises(plot_rows.Unusable):
                plot_rows.with_block(bad, self.run_of_rows)

    def test_what_is_written_is_read_again(self) -> None:
        text = plot_rows.write_run(self.run_of_rows)
        again = plot_rows.read_run(text)
        self.assertEqual(plot_rows.write_run(again), text)
        self.assertEqual(plot_rows.digest(again), plot_rows.digest(self.run_of_rows))

    def test_unusable_rows(self) -> None:
        rows = json.loads(made_up_rows())
        lacking = {**rows, "rows": [each for each in rows["rows"] if each["benchmark"] != "many"]}
        foreign = {**rows, "rows": rows["rows"][-1:]}
        for text in ("", "{}", json.dumps({**rows, "rows": []}), json.dumps(foreign)):
            with self.assertRaises(plot_rows.Unusable):
                plot_rows.read_run(text)
        with self.assertRaisesRegex(plot_rows.Unusable, "no row '300 x 4 KiB"):
            plot_rows.headlines(plot_rows.read_run(json.dumps(lacking)))


class Places(unittest.TestCase):
    def test_labels_move_apart(self) -> None:
        places = plot.label_places([100, 20, 104, 96], 25)
        self.assertEqual(places[1], 20)
        lower = sorted(places)[1:]
        for above, below in pairwise(lower):
            self.assertGreater(below - above, 24.9)
        self.assertAlmostEqual(sum(lower) / 3, 100, delta=0.1)

    def test_contrast(self) -> None:
        def luminance(colour: str) -> float:
            parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
            linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
            return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

        for scheme, colours in plot.COLOURS.items():
            page = luminance(plot.PAGE_COLOURS[scheme])
            for name, colour in colours.items():
                if name == "grid":
                    continue
                dark, light = sorted((page, luminance(colour)))
                self.assertGreater((light + 0.05) / (dark + 0.05), 4.5, (scheme, name))


@unittest.skipUnless(DRAWER.exists(), "no build/venv-plot: tools/bench --plot makes it")
class Drawn(Folder):
    def publish(self) -> None:
        """Returns a repository whose plots and pages agree with their rows."""
        rows = self.root / "made-up.json"
        rows.write_text(made_up_rows())
        done = run_drawer(rows, self.root / "docs" / "plots")
        self.assertEqual(done.returncode, 0, done.stderr)
        run = plot_rows.read_run((self.root / "docs" / "plots" / "rows.json").read_text())
        for page in plot_rows.PAGES:
            (self.root / page).write_text(plot_rows.with_block(PAGE, run))
        self.assertEqual(plot_rows.problems(self.root), [])

    def test_the_plots_and_what_may_be_wrong_with_them(self) -> None:
        self.publish()
        svgs = sorted((self.root / "docs" / "plots").glob("*.svg"))
        self.assertEqual(len(svgs), 6)
        for file in svgs:
            tree = ElementTree.parse(file).getroot()
            space = "{http://www.w3.org/2000/svg}"
            title, text = tree.find(f"{space}title"), tree.find(f"{space}desc")
            assert title is not None and text is not None and text.text is not None
            written = " ".join(each.text or "" for each in tree.iter(f"{space}text"))
            for words in (title.text or "?", "PyTorch 2.15.0", "2000-01-02", "Made-up CPU, 2 CPUs"):
                self.assertIn(words, written)
            self.assertEqual(tree.get("width"), "860")
        headline = (self.root / "docs" / "plots" / "headline.svg").read_text()
        for words in ("Tenon 3.00 ms", "PyTorch 24.0 ms", "8.0\N{MULTIPLICATION SIGN}"):
            self.assertIn(f">{words}<", headline)
        planted = (
            ("docs/plots/headline-dark.svg", "Tenon 3.00 ms", "Tenon 2.00 ms"),
            ("docs/plots/size.svg", "4 KiB 200 µs", "4 KiB 100 µs"),
            ("docs/plots/number.svg", 'data-rows="', 'data-rows="0'),
            ("README.md", "24.0 ms", "48.0 ms"),
            ("docs/benchmarks.md", "<!-- rows: headline -->", ""),
        )
        for page, old, new in planted:
            with self.subTest(page):
                right = (self.root / page).read_text()
                self.assertIn(old, right)
                (self.root / page).write_text(right.replace(old, new))
                found = plot_rows.problems(self.root)
                self.assertEqual(len(found), 1, found)
                self.assertIn(page, found[0])
                (self.root / page).write_text(right)

    def test_a_smoke_run_is_not_published(self) -> None:
        rows = self.root / "smoke.json"
        rows.write_text(made_up_rows(smoke=True))
        done = run_drawer(rows, self.root / "plots", "--pages")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the figures of a smoke run mean nothing", done.stderr)
        self.assertFalse((self.root / "plots").exists())
        self.assertEqual(run_drawer(rows, self.root / "plots").returncode, 0)
        self.assertIn(">SMOKE RUN<", (self.root / "plots" / "headline.svg").read_text())


if __name__ == "__main__":
    unittest.main()
