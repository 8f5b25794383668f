"""Draws the plots of docs/plots from the rows of a benchmark run; `tools/bench --plot` calls this.

With --pages it also rewrites the blocks of README.md and docs/benchmarks.md. matplotlib draws the
plots. Text stays text, so that a plot is small and a browser uses its own font. The same rows give
the same bytes: a plot has no date of its own and fixed ids, and the fonts of this machine do not
matter.
"""

from __future__ import annotations

import argparse
import importlib
import io
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import plot_rows
from plot_rows import NAMES, TENON, Headline, Live, Panel, Run, duration, headline_labels

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 860
FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, 'DejaVu Sans', sans-serif"
# Each colour has a contrast of at least 4.5 with GitHub's page of that colour scheme. Blue, orange
# and grey differ for every kind of colour blindness, and each line has a marker of its own.
COLOURS = {
    "light": {
        "text": "#1f2328",
        "muted": "#59636e",
        "grid": "#d1d9e0",
        TENON: "#0067b0",
        "file_descriptor": "#b35900",
        "file_system": "#656d76",
        "warning": "#b3261e",
    },
    "dark": {
        "text": "#f0f6fc",
        "muted": "#9198a1",
        "grid": "#3d444d",
        TENON: "#58a6ff",
        "file_descriptor": "#f0883e",
        "file_system": "#b1bac4",
        "warning": "#ff7b72",
    },
}
PAGE_COLOURS = {"light": "#ffffff", "dark": "#0d1117"}
MARKERS = {TENON: "o", "file_descriptor": "s", "file_system": "^"}
MARGIN, LINE_HEIGHT = 20, 23


class Canvas:
    """A figure whose unit is one pixel, counted from the upper left corner.

    All text stands on its baseline, because other alignments would depend on the font.
    """

    def __init__(self, height: int, colours: dict[str, str]) -> None:
        matplotlib = importlib.import_module("matplotlib")
        self.rectangle = importlib.import_module("matplotlib.patches").Rectangle
        matplotlib.rcParams.update(
            {
                "svg.fonttype": "none",
                "svg.hashsalt": "tenon",
                "font.family": ["DejaVu Sans"],
                "path.simplify": False,
            }
        )
        self.height = height
        self.colours = colours
        figure = importlib.import_module("matplotlib.figure").Figure
        self.figure = figure(figsize=(WIDTH / 72, height / 72), dpi=72)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: float,
        colour: str = "text",
        align: str = "left",
        bold: bool = False,
    ) -> None:
        self.figure.text(
            x / WIDTH,
            1 - y / self.height,
            words,
            fontsize=size,
            color=self.colours[colour],
            ha=align,
            va="baseline",
            weight="bold" if bold else "normal",
            parse_math=False,
        )

    def box(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self.figure.add_artist(
            self.rectangle(
                (x / WIDTH, 1 - (y + height) / self.height),
                width / WIDTH,
                height / self.height,
                transform=self.figure.transFigure,
                color=self.colours[colour],
                linewidth=0,
            )
        )

    def whisker(self, x: float, width: float, y: float) -> None:
        """p10 to p90 across a bar: a line with an end on each side."""
        self.box(x, y - 1, max(width, 1), 2, "text")
        for end in (x, x + width):
            self.box(end - 1, y - 6, 2, 12, "text")

    def axes(self, x: float, y: float, width: float, height: float) -> Any:
        axes = self.figure.add_axes(
            (
                x / WIDTH,
                1 - (y + height) / self.height,
                width / WIDTH,
                height / self.height,
            )
        )
        axes.patch.set_visible(False)
        for side, spine in axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(self.colours["muted"])
        axes.tick_params(which="both", length=0, labelbottom=False, labelleft=False)
        axes.grid(axis="y", color=self.colours["grid"], linewidth=1)
        axes.set_axisbelow(True)
        return axes

    def frame(self, name: str, subtitle: list[str], run: Run) -> None:
        self.text(MARGIN, 40, plot_rows.title(name), 29, bold=True)
        for at, line in enumerate(subtitle):
            self.text(MARGIN, 72 + at * LINE_HEIGHT, line, 19, "muted")
        foot = run.small_print
        for at, line in enumerate(foot):
            y = self.height - 14 - (len(foot) - 1 - at) * LINE_HEIGHT
            self.text(MARGIN, y, line, 17, "muted")
        if run.smoke:
            self.text(WIDTH - MARGIN, 40, "SMOKE RUN", 24, "warning", "right", bold=True)

    def svg(self, name: str, run: Run) -> str:
        file = io.StringIO()
        nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
        self.figure.savefig(file, format="svg", transparent=True, metadata=nothing)
        return finish(file.getvalue(), name, run)


def finish(drawn: str, name: str, run: Run) -> str:
    """Adds a title and a description to a drawing of matplotlib, and removes comments."""
    body = drawn[drawn.index("<svg") :]
    body = re.sub(r"\s*<!--.*?-->|\s*<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    # Two decimals of a pixel, which also hide how another processor rounds.
    body = re.sub(
        r"<[^>]+>",
        lambda tag: re.sub(r"-?\d+\.\d{3,}", lambda digits: f"{float(digits[0]):.2f}", tag[0]),
        body,
    )
    body = body.replace("'DejaVu Sans'", FONTS.replace('"', "'"))
    head, rest = body.split(">", 1)
    view = re.search(r'viewBox="0 0 (\S+) (\S+)"', head)
    assert view
    opening = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'width="{float(view[1]):g}" height="{float(view[2]):g}" '
        f'viewBox="0 0 {float(view[1]):g} {float(view[2]):g}" '
        f'role="img" aria-labelledby="title desc" data-rows="{plot_rows.digest(run)}">'
    )
    title, text = escape(plot_rows.title(name)), escape(plot_rows.describe(name, run))
    return f'{opening}\n<title id="title">{title}</title>\n<desc id="desc">{text}</desc>{rest}'


def draw_headline(run: Run, colours: dict[str, str]) -> str:
    groups = plot_rows.headlines(run)
    top, each_height = 104, 138
    bottom = len(run.small_print) * LINE_HEIGHT + 14
    canvas = Canvas(top + each_height * len(groups) + bottom, colours)
    subtitle = "Time until the receiver has read the tensors and answered. Shorter is better."
    canvas.frame("headline", [subtitle], run)
    for at, group in enumerate(groups):
        draw_group(canvas, group, top + at * each_height)
    return canvas.svg("headline", run)


def draw_group(canvas: Canvas, group: Headline, top: float) -> None:
    longest, right = 430, WIDTH - MARGIN
    tenon, torch, ratio, low_to_high = headline_labels(group)
    canvas.text(MARGIN, top + 24, group.title, 23, bold=True)
    scale = longest / max(group.default.tenon.p90, group.default.torch.p90)
    bars = ((TENON, tenon, group.default.tenon), ("file_descriptor", torch, group.default.torch))
    for at, (side, label, figures) in enumerate(bars):
        y = top + 37 + at * 36
        canvas.box(MARGIN, y, max(figures.median * scale, 2), 28, side)
        canvas.whisker(
            MARGIN + figures.p10 * scale,
            (figures.p90 - figures.p10) * scale,
            y + 14,
        )
        canvas.text(MARGIN + figures.p90 * scale + 12, y + 21, label, 21, side, bold=True)
    canvas.text(right, top + 76, ratio, 48, TENON, "right", bold=True)
    canvas.text(right, top + 103, low_to_high, 18, "muted", "right")


def ticks_of_time(low: float, high: float) -> list[float]:
    """Returns ticks in seconds: powers of ten, or steps of one, two, five if there are few of
    those.
    """
    tens = [10.0**power for power in range(-7, 3)]
    inside = [tick for tick in tens if low <= tick <= high]
    if len(inside) < 3:
        inside = [tick * step for tick in tens for step in (1, 2, 5) if low <= tick * step <= high]
    return inside


def plain_time(seconds: float) -> str:
    number, unit = duration(seconds).split(" ")
    return f"{float(number):g} {unit}"


def label_places(wanted: list[float], gap: float) -> list[float]:
    """The wanted places from top to bottom, moved apart where two are nearer than the gap."""
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    places = list(wanted)
    for _ in range(100):
        for upper, lower in pairwise(order):
            overlap = gap - (places[lower] - places[upper])
            if overlap > 0.01:
                places[upper] -= overlap / 2
                places[lower] += overlap / 2
    return places


def shown_labels(panel: Panel, across: Callable[[int], float]) -> list[int]:
    """All places of the horizontal axis, or every second one and the last if labels would touch."""
    places = sorted(panel.x_labels)
    for left, right in pairwise(places):
        letters = len(panel.x_labels[left]) + len(panel.x_labels[right])
        if across(right) - across(left) < 5.5 * letters + 8:
            return sorted({*places[::2], places[-1]})
    return places


def draw_panel(canvas: Canvas, panel: Panel, top: float) -> None:
    left, width, height = 96, 500, 250
    canvas.text(MARGIN, top + 24, panel.title, 23, bold=True)
    y0 = top + 42
    axes = canvas.axes(left, y0, width, height)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.minorticks_off()
    all_figures = [figures for points in panel.lines.values() for _, figures in points]
    low = min(figures.p10 for figures in all_figures) / 1.4
    high = max(figures.p90 for figures in all_figures) * 1.4
    places = sorted(panel.x_labels)
    x_low, x_high = places[0], places[-1] * (places[-1] / places[0]) ** 0.02
    axes.set_xlim(x_low / (x_high / x_low) ** 0.03, x_high)
    axes.set_ylim(low, high)
    ticks = ticks_of_time(low, high)
    axes.set_yticks(ticks)
    axes.set_xticks([])

    def down(seconds: float) -> float:
        """Returns the place of a time on the canvas."""
        return canvas.height - float(axes.transData.transform((x_low, seconds))[1])

    def across(x: float) -> float:
        return float(axes.transData.transform((x, low))[0])

    for tick in ticks:
        canvas.text(left - 10, down(tick) + 7, plain_time(tick), 19, "muted", "right")
    draw_lines(canvas, axes, panel)
    ends = [down(points[-1][1].median) for points in panel.lines.values()]
    for side, place in zip(panel.lines, label_places(ends, 25), strict=True):
        canvas.text(left + width + 8, place + 7, NAMES[side], 19, side, bold=side == TENON)
    for x in shown_labels(panel, across):
        canvas.text(across(x), y0 + height + 26, panel.x_labels[x], 18, "muted", "center")


def draw_lines(canvas: Canvas, axes: Any, panel: Panel) -> None:
    for side, points in panel.lines.items():
        colour = canvas.colours[side]
        xs = [x for x, _ in points]
        spreads = [figures for _, figures in points]
        lows = [figures.p10 for figures in spreads]
        highs = [figures.p90 for figures in spreads]
        axes.fill_between(xs, lows, highs, color=colour, alpha=0.2, linewidth=0)
        axes.plot(
            xs,
            [figures.median for figures in spreads],
            color=colour,
            linewidth=3,
            marker=MARKERS[side],
            markersize=9,
            clip_on=False,
        )


def draw_panels(
    name: str,
    panels: list[Panel],
    counted: Live | None,
    run: Run,
    colours: dict[str, str],
) -> str:
    top, each_height, live_height = 128, 350, 196
    bottom = len(run.small_print) * LINE_HEIGHT + 20
    height = top + each_height * len(panels) + (live_height if counted else 0) + bottom
    canvas = Canvas(height, colours)
    subtitle = [
        "Time until the receiver has read the tensors and answered. Lower is better.",
        "Line: median. Band: p10 to p90. Both scales are logarithmic.",
    ]
    canvas.frame(name, subtitle, run)
    for at, panel in enumerate(panels):
        draw_panel(canvas, panel, top + at * each_height)
    if counted:
        draw_live(canvas, counted, top + each_height * len(panels))
    return canvas.svg(name, run)


def draw_live(canvas: Canvas, counted: Live, top: float) -> None:
    title = f"Live tensors in one process, with {counted.fds:,} fds allowed"
    canvas.text(MARGIN, top + 24, title, 23, bold=True)
    scale = 380 / max(counted.arrived.values())
    for at, (side, count) in enumerate(counted.arrived.items()):
        y = top + 42 + at * 44
        canvas.box(MARGIN, y, max(count * scale, 2), 32, side)
        every = ", all that were sent" if count >= counted.sent else ""
        words = f"{NAMES[side]}: {count:,}{every}"
        canvas.text(MARGIN + count * scale + 12, y + 23, words, 21, side, bold=True)


def draw(name: str, run: Run, colours: dict[str, str]) -> str:
    if name == "headline":
        return draw_headline(run, colours)
    if name == "size":
        return draw_panels(name, plot_rows.by_size(run), None, run, colours)
    return draw_panels(name, plot_rows.by_number(run), plot_rows.live(run), run, colours)


def draw_all(run: Run) -> dict[str, str]:
    """Returns the files of a folder of plots by their names."""
    files = {"rows.json": plot_rows.write_run(run)}
    # rows.json rounds the figures. The plots and pages are checked against the rounded ones.
    written = plot_rows.read_run(files["rows.json"])
    for name in plot_rows.PLOTS:
        for scheme, colours in COLOURS.items():
            suffix = "" if scheme == "light" else f"-{scheme}"
            files[f"{name}{suffix}.svg"] = draw(name, written, colours)
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", type=Path, help="what `tools/bench --json` printed")
    parser.add_argument("folder", type=Path, help="where the SVG files and rows.json go")
    parser.add_argument("--pages", action="store_true", help="also rewrite the blocks of the pages")
    options = parser.parse_args()
    try:
        run = plot_rows.read_run(options.rows.read_text(encoding="utf-8"))
        if run.smoke and options.pages:
            raise plot_rows.Unusable("the figures of a smoke run mean nothing: no page shows them")
        files = draw_all(run)
        if options.pages:
            run = plot_rows.read_run(files["rows.json"])
    except (OSError, plot_rows.Unusable) as error:
        sys.exit(f"error: {options.rows}: {error}")
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (options.folder / name).write_text(text, encoding="utf-8")
        print(options.folder / name)
    for why in run.left_out:
        print(f"left out: {why}", file=sys.stderr)
    refused = False
    for page in plot_rows.PAGES if options.pages else ():
        try:
            path = ROOT / page
            text = plot_rows.with_block(path.read_text(encoding="utf-8"), run)
            path.write_text(text, encoding="utf-8")
            print(path)
        except plot_rows.Unusable as error:
            print(f"error: {page} {error}", file=sys.stderr)
            refused = True
    sys.exit(1 if refused else 0)


if __name__ == "__main__":
    main()
