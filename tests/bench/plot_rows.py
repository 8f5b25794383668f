"""The figures of the plots: picks them from the rows of a benchmark run, and writes them as text.

plot.py draws these figures. The test bench.plots compares them with docs/plots and with the pages.
This file needs the standard library only.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

# The benchmarks that the plots need.
BENCHMARKS = ("live", "many", "torch_queue")
# PyTorch's sharing strategies. The first one is its default on Linux.
STRATEGIES = ("file_descriptor", "file_system")
TENON = "tenon"
NAMES = {
    TENON: "Tenon",
    "file_descriptor": "PyTorch, file_descriptor",
    "file_system": "PyTorch, file_system",
}
# The three hand-overs of the headline, and the measures of their rows.
HEADLINE = (
    ("300 new tensors of 4 KiB in one call", "300 x 4 KiB in one call, fresh, Python"),
    ("One tensor of 1 MiB, sent again", "hand over 1 MiB, known, Python"),
    ("One new tensor of 1 MiB", "hand over 1 MiB, new, Python"),
)
BLOCK_BEGIN = "<!-- rows: headline -->"
BLOCK_END = "<!-- end of rows -->"
# The pages of the repository that show the block.
PAGES = ("README.md", "docs/benchmarks.md")
PLOTS = ("headline", "size", "number")
PLOT_LIMIT = 60_000
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
BYTES = {"KiB": 1 << 10, "MiB": 1 << 20}


class Unusable(Exception):
    """The rows lack what a plot needs, or a page lacks the block; the message says what to do."""


@dataclass(frozen=True)
class Spread:
    median: float
    p10: float
    p90: float

    def scaled(self, factor: float) -> Spread:
        return Spread(self.median * factor, self.p10 * factor, self.p90 * factor)

    def inverse(self) -> Spread:
        return Spread(1 / self.median, 1 / self.p90, 1 / self.p10)


@dataclass(frozen=True)
class Pair:
    """One row: seconds of either side, and how many times as fast Tenon is."""

    tenon: Spread
    torch: Spread
    ratio: Spread


@dataclass(frozen=True)
class Headline:
    title: str
    default: Pair
    file_system: Pair | None


@dataclass(frozen=True)
class Panel:
    """Lines of one diagram: for each side, its points from left to right."""

    title: str
    x_labels: dict[int, str]
    lines: dict[str, list[tuple[int, Spread]]]


@dataclass(frozen=True)
class Live:
    """How many tensors arrived in a process that keeps them all."""

    sent: int
    fds: int
    arrived: dict[str, int]


@dataclass
class Run:
    """A benchmark run, as `tools/bench --json` prints it."""

    date: str
    machine: str
    smoke: bool
    torch: str
    rows: list[dict[str, Any]] = field(repr=False)
    left_out: list[str] = field(repr=False)

    @property
    def small_print(self) -> list[str]:
        """The machine without its load, for the foot of a plot."""
        machine = "; ".join(self.machine.split("; ")[:2])
        first = f"Median and p10 to p90, PyTorch {self.torch}, {self.date}"
        return [first, *textwrap.wrap(machine, 92)]


def version_key(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:3])


def peer(row: dict[str, Any]) -> tuple[str, str] | None:
    """The version and the strategy of the PyTorch that a row is against."""
    match = re.fullmatch(r"PyTorch (\S+) queue, (\w+)", row["against"] or "")
    return (match[1], match[2]) if match else None


def read_run(text: str) -> Run:
    try:
        parsed = json.loads(text)
        rows = [row for row in parsed["rows"] if row["benchmark"] in BENCHMARKS and peer(row)]
        date, machine, smoke = parsed["date"], parsed["machine"], parsed["smoke"]
        left_out = parsed["left_out"]
    except (ValueError, KeyError, TypeError) as error:
        raise Unusable(f"these are not the rows of `tools/bench --json`: {error!r}") from None
    versions = {found[0] for row in rows if (found := peer(row))}
    if not versions:
        raise Unusable("the rows lack the benchmarks live, many and torch_queue with PyTorch")
    newest = max(versions, key=version_key)
    return Run(date, machine, smoke, newest, rows, left_out)


def write_run(run: Run) -> str:
    """rows.json: one row in a line, six digits of each figure, so that a change can be read."""

    def tidy(value: Any) -> Any:
        if isinstance(value, float):
            return float(f"{value:.6g}")
        if isinstance(value, dict):
            return {key: tidy(each) for key, each in value.items()}
        return value

    head = {
        "date": run.date,
        "machine": run.machine,
        "smoke": run.smoke,
        "left_out": run.left_out,
    }
    lines = [f" {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
    rows = ",\n".join(f"  {json.dumps(tidy(row))}" for row in run.rows)
    return "{\n" + "\n".join(lines) + f'\n "rows": [\n{rows}\n ]\n}}\n'


def spread(figures: dict[str, float]) -> Spread:
    return Spread(figures["median"], figures["p10"], figures["p90"])


def pair(run: Run, measure: str, strategy: str) -> Pair | None:
    """Returns the row of a measure against the newest PyTorch with this strategy."""
    for row in run.rows:
        if row["measure"] == measure and peer(row) == (run.torch, strategy):
            unit = SECONDS[row["unit"]]
            ratio = spread(row["ratio"])
            if row["ratio_of"] == "ours/theirs":
                ratio = ratio.inverse()
            return Pair(spread(row["ours"]).scaled(unit), spread(row["theirs"]).scaled(unit), ratio)
    return None


def headlines(run: Run) -> list[Headline]:
    found = []
    for title, measure in HEADLINE:
        default = pair(run, measure, STRATEGIES[0])
        if default is None:
            raise Unusable(f"no row '{measure}' against PyTorch {run.torch}, {STRATEGIES[0]}")
        found.append(Headline(title, default, pair(run, measure, STRATEGIES[1])))
    return found


def panel(run: Run, title: str, measures: dict[int, tuple[str, str]]) -> Panel:
    """`measures` has a point's label and measure by its place on the horizontal axis."""
    lines: dict[str, list[tuple[int, Spread]]] = {TENON: [], **{each: [] for each in STRATEGIES}}
    for x, (_, measure) in sorted(measures.items()):
        pairs = {each: row for each in STRATEGIES if (row := pair(run, measure, each))}
        if pairs:
            # Tenon was measured once beside each strategy. The rows beside the default are shown.
            lines[TENON].append((x, next(iter(pairs.values())).tenon))
        for strategy, row in pairs.items():
            lines[strategy].append((x, row.torch))
    if len(lines[TENON]) < 2:
        raise Unusable(f"no two rows for the plot of '{title}'")
    labels = {x: measures[x][0] for x, _ in lines[TENON]}
    return Panel(title, labels, {side: points for side, points in lines.items() if points})


def by_size(run: Run) -> list[Panel]:
    measures: dict[str, dict[int, tuple[str, str]]] = {"new": {}, "known": {}}
    for row in run.rows:
        match = re.fullmatch(r"hand over ((\d+) (KiB|MiB)), (new|known), Python", row["measure"])
        if match:
            measures[match[4]][int(match[2]) * BYTES[match[3]]] = (match[1], row["measure"])
    return [
        panel(run, "One new tensor, by its size", measures["new"]),
        panel(run, "One tensor that is sent again, by its size", measures["known"]),
    ]


def by_number(run: Run) -> list[Panel]:
    measures: dict[str, dict[int, tuple[str, str]]] = {"fresh": {}, "shared": {}}
    for row in run.rows:
        match = re.fullmatch(
            r"(\d+) x 4 KiB in one call, (fresh|shared), Python",
            row["measure"],
        )
        if match:
            measures[match[2]][int(match[1])] = (f"{int(match[1]):,}", row["measure"])
    return [
        panel(run, "New tensors of 4 KiB, by their number", measures["fresh"]),
        panel(run, "Tensors in shared memory already, by their number", measures["shared"]),
    ]


def live(run: Run) -> Live | None:
    """The attempt with the most tensors."""
    best: Live | None = None
    for row in run.rows:
        match = re.match(r"(\d+) live tensors, (\d+) fds allowed", row["measure"])
        found = peer(row)
        if not match or not found or found[0] != run.torch:
            continue
        sent = int(match[1])
        if best is None or sent > best.sent:
            best = Live(sent, int(match[2]), {TENON: int(row["ours"]["median"])})
        if sent == best.sent:
            best.arrived[found[1]] = int(row["theirs"]["median"])
    return best


def digits(value: float) -> str:
    """Returns three digits, or more if the integer part is longer."""
    rounded = float(f"{value:.3g}")
    places = max(0, 2 - math.floor(math.log10(rounded)))
    return f"{value:.{places}f}"


def unit_of(seconds: float) -> tuple[str, float]:
    for unit, factor in (("µs", 1e6), ("ms", 1e3)):
        if float(digits(seconds * factor)) < 1000:
            return unit, factor
    return "s", 1


def duration(seconds: float) -> str:
    """Returns the time in three digits with a suitable unit: "94.7 µs", "141 ms"."""
    unit, factor = unit_of(seconds)
    return f"{digits(seconds * factor)} {unit}"


def duration_spread(figures: Spread) -> str:
    factor = unit_of(figures.median)[1]
    low, high = digits(figures.p10 * factor), digits(figures.p90 * factor)
    return f"{duration(figures.median)} ({low} to {high})"


def short_ratio(ratio: float) -> str:
    number = f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}"
    return f"{number}\N{MULTIPLICATION SIGN}"


def ratio_spread(ratio: Spread) -> str:
    return f"{digits(ratio.median)} ({digits(ratio.p10)} to {digits(ratio.p90)})"


def headline_labels(each: Headline) -> list[str]:
    """What the plot writes beside the bars: Tenon's time, PyTorch's time, the ratio, its spread."""
    ratio = each.default.ratio
    low, high = short_ratio(ratio.p10), short_ratio(ratio.p90)
    return [
        f"Tenon {duration(each.default.tenon.median)}",
        f"PyTorch {duration(each.default.torch.median)}",
        short_ratio(ratio.median),
        f"{low} to {high}",
    ]


def block(run: Run) -> str:
    """The table of the three ratios, as the pages show it between the two markers."""
    head = ["Python to Python", "Tenon", "`torch.multiprocessing`", "ratio", "ratio, `file_system`"]
    lines = [head, ["---"] * len(head)]
    for each in headlines(run):
        default, other = each.default, each.file_system
        median, rest = ratio_spread(default.ratio).split(" ", 1)
        lines.append(
            [
                each.title,
                duration_spread(default.tenon),
                duration_spread(default.torch),
                f"**{median}** {rest}",
                ratio_spread(other.ratio) if other else "",
            ]
        )
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    note = (
        f"Median (p10 to p90), measured on {run.date}. "
        "A ratio says how many times as fast Tenon is. Tenon sent over a `tenon.Connection`. "
        f"PyTorch {run.torch} used its queue with its default strategy `file_descriptor`. "
        "The last column has the ratio for its strategy `file_system`. "
        f"Machine: {run.machine}."
    )
    wrapped = textwrap.wrap(note, 100, break_long_words=False, break_on_hyphens=False)
    return f"{table}\n\n" + "\n".join(wrapped) + "\n"


def split_page(text: str) -> tuple[str, str, str]:
    """A page's text up to the block, the block, and the rest."""
    if text.count(f"{BLOCK_BEGIN}\n") != 1 or text.count(f"{BLOCK_END}\n") != 1:
        raise Unusable(f"needs a line `{BLOCK_BEGIN}` and after it a line `{BLOCK_END}`, each once")
    before, rest = text.split(f"{BLOCK_BEGIN}\n")
    if f"{BLOCK_END}\n" not in rest:
        raise Unusable(f"has `{BLOCK_END}` before `{BLOCK_BEGIN}`")
    inside, after = rest.split(f"{BLOCK_END}\n")
    return before, inside, after


def with_block(text: str, run: Run) -> str:
    before, _, after = split_page(text)
    return f"{before}{BLOCK_BEGIN}\n{block(run)}{BLOCK_END}\n{after}"


def describe_headline(each: Headline) -> str:
    tenon, torch, ratio, _ = headline_labels(each)
    return f"{each.title}: {tenon}, {torch}, ratio {ratio}."


def describe_panel(each: Panel) -> str:
    lines = []
    for side, points in each.lines.items():
        listed = (f"{each.x_labels[x]} {duration(figures.median)}" for x, figures in points)
        lines.append(f"{NAMES[side]}: {', '.join(listed)}.")
    return f"{each.title}. " + " ".join(lines)


def describe_live(each: Live) -> str:
    arrived = ", ".join(f"{NAMES[side]} {count:,}" for side, count in each.arrived.items())
    limits = f"of {each.sent:,} sent, with {each.fds:,} fds allowed"
    return f"Live tensors that arrived, {limits}: {arrived}."


def title(name: str) -> str:
    return {
        "headline": "Tenon against torch.multiprocessing",
        "size": "Time to hand over one tensor",
        "number": "Time to hand over many tensors in one call",
    }[name]


def describe(name: str, run: Run) -> str:
    """The text of a plot for readers who cannot see it: every median that the plot draws."""
    parts: Iterable[str]
    if name == "headline":
        parts = map(describe_headline, headlines(run))
    elif name == "size":
        parts = map(describe_panel, by_size(run))
    else:
        counted = live(run)
        parts = [
            *map(describe_panel, by_number(run)),
            *([describe_live(counted)] if counted else []),
        ]
    warning = ["A smoke run: the figures mean nothing."] if run.smoke else []
    return " ".join([*warning, *parts, *run.small_print])


def digest(run: Run) -> str:
    """A digest of the rows. Each plot contains it, so that a plot of other rows is noticed without
    drawing.
    """
    return hashlib.sha256(write_run(run).encode()).hexdigest()[:16]


def problems(root: Path) -> list[str]:
    """Returns where docs/plots and the pages below `root` contradict docs/plots/rows.json."""
    folder = root / "docs" / "plots"
    remedy = "run `tools/bench --plot`, or `tools/bench --plot --rows docs/plots/rows.json`"
    try:
        run = read_run((folder / "rows.json").read_text(encoding="utf-8"))
    except (OSError, Unusable) as error:
        return [f"docs/plots/rows.json: {error}: {remedy}"]
    found = ["docs/plots/rows.json is of a smoke run"] if run.smoke else []
    for page in PAGES:
        try:
            if split_page((root / page).read_text(encoding="utf-8"))[1] != block(run):
                found.append(f"{page}: the block differs from docs/plots/rows.json: {remedy}")
        except (OSError, Unusable) as error:
            found.append(f"{page} {error}")
    for name in PLOTS:
        for file in (folder / f"{name}.svg", folder / f"{name}-dark.svg"):
            text = file.read_text(encoding="utf-8") if file.exists() else ""
            wanted = [f'data-rows="{digest(run)}"', escape(describe(name, run))]
            if name == "headline":
                wanted += [label for each in headlines(run) for label in headline_labels(each)]
            if any(each not in text for each in wanted):
                found.append(f"docs/plots/{file.name} is not of docs/plots/rows.json: {remedy}")
            if len(text.encode()) > PLOT_LIMIT:
                found.append(f"docs/plots/{file.name} has more than {PLOT_LIMIT} bytes")
    return found
