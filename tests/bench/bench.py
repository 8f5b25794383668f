#!/usr/bin/env python3
"""Runs the benchmarks of this folder and prints one table. tools/bench builds them and calls this.

A benchmark is one file: name.cc (built as bench_name) or bench_name.py. Its first line says what it
measures. It prints one line of JSON for each row, with every sample:

  {"measure": ..., "unit": ..., "against": ... or "",
   "goal": {"of": WHAT, "at_most" or "at_least": NUMBER} or null, "ours": [...], "theirs": [...]}

WHAT is "ours", "ours/theirs", "theirs/ours" or "ours-theirs". Samples were taken in turn (ours,
theirs, ours, ...), so sample i of one side belongs to sample i of the other side: the ratio is the
median of the ratios of the pairs. {"left_out": WHY} is a row that this machine cannot have. With
--smoke a benchmark makes a few rounds only, and all rows together must be enough for the plots.

A Python benchmark with a line PYTHON = "torch" is run once by each Python that has PyTorch
(TENON_TORCH_DEBIAN, TENON_TORCH_NEWEST), and with --smoke by the first of them only. A line
PYTHON = "newest torch" says that the benchmark has more rows with the newest PyTorch, so --smoke
runs it by the last one. TENON_PYTHON runs any other Python benchmark.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import plot_rows

HERE = Path(__file__).resolve().parent
TIMEOUT_S = 900


@dataclass
class Benchmark:
    name: str
    about: str
    commands: list[list[str]]
    left_out: str = ""


def pythons(wants: str, smoke: bool) -> list[str]:
    if wants in ("torch", "newest torch"):
        names = ["TENON_TORCH_DEBIAN", "TENON_TORCH_NEWEST"]
        found = [os.environ[name] for name in names if os.environ.get(name)]
        if not smoke:
            return found
        # With "torch", each PyTorch gives the same rows, and the newest one starts slowly.
        return found[:1] if wants == "torch" else found[-1:]
    own = os.environ.get("TENON_PYTHON", "")
    return [own if own and Path(own).exists() else sys.executable]


def find_benchmarks(build_dir: Path, smoke: bool) -> list[Benchmark]:
    found = []
    for source in sorted([*HERE.glob("*.cc"), *HERE.glob("bench_*.py")]):
        text = source.read_text()
        about = text.splitlines()[0].strip('/ "')
        if source.suffix == ".cc":
            found.append(
                Benchmark(
                    source.stem,
                    about,
                    [[str(build_dir / "tests" / "bench" / f"bench_{source.stem}")]],
                )
            )
            continue
        wants = re.search(r'^PYTHON = "([\w ]+)"', text, re.MULTILINE)
        commands = [
            [python, "-B", str(source)]
            for python in pythons(wants.group(1) if wants else "", smoke)
        ]
        left_out = (
            "" if commands else "no Python with PyTorch (TENON_TORCH_DEBIAN, TENON_TORCH_NEWEST)"
        )
        found.append(Benchmark(source.stem.removeprefix("bench_"), about, commands, left_out))
    return sorted(found, key=lambda each: each.name)


def execute(command: list[str], smoke: bool, build_dir: Path) -> list[dict[str, Any]]:
    # The folder is removed with its gigabytes of files, however the benchmark ends.
    with tempfile.TemporaryDirectory(prefix="tenon-bench-", ignore_cleanup_errors=True) as folder:
        environment = {**os.environ, "TENON_BUILD_DIR": str(build_dir), "TMPDIR": folder}
        # The benchmark has a process group, so that a benchmark that hangs can be killed with its
        # processes.
        process = subprocess.Popen(
            [*command, *(["--smoke"] if smoke else [])],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=TIMEOUT_S)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise SystemExit(
                    f"error: {' '.join(command)} did not end within {TIMEOUT_S} s"
                ) from None
            raise
        # PyTorch's manager of names ends after its last client. If the folder disappears before the
        # manager has removed its socket, the manager aborts with long messages.
        give_up = time.monotonic() + 3
        while list(Path(folder).glob("*/manager.sock")) and time.monotonic() < give_up:
            time.sleep(0.02)
    if process.returncode != 0:
        raise SystemExit(f"error: {' '.join(command)} failed ({process.returncode})")
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def spread(samples: list[float]) -> dict[str, float] | None:
    """Returns the median, the tenth percentile and the ninetieth percentile."""
    if not samples:
        return None
    ordered = sorted(samples)
    last = len(ordered) - 1
    return {
        "median": statistics.median(ordered),
        "p10": ordered[round(last * 0.1)],
        "p90": ordered[round(last * 0.9)],
    }


def make_row(benchmark: str, raw: dict[str, Any]) -> dict[str, Any]:
    ours, theirs, goal = raw["ours"], raw["theirs"], raw["goal"]
    what = goal["of"] if goal else "ours/theirs"
    pairs = list(zip(ours, theirs, strict=False))
    inverse = what == "theirs/ours"
    row: dict[str, Any] = {
        "benchmark": benchmark,
        "measure": raw["measure"],
        "unit": raw["unit"],
        "ours": spread(ours),
        "against": raw["against"] or None,
        "theirs": spread(theirs),
        "ratio": spread([b / a if inverse else a / b for a, b in pairs]),
        "ratio_of": ("theirs/ours" if inverse else "ours/theirs") if pairs else None,
        "rounds": len(ours),
        "goal": None,
        "met": None,
    }
    # A goal without a bound only says which ratio is shown.
    if goal and len(goal) > 1:
        at_most = "at_most" in goal
        bound = goal["at_most"] if at_most else goal["at_least"]
        if what == "ours":
            value = row["ours"]["median"]
        elif what == "ours-theirs":
            value = statistics.median(a - b for a, b in pairs)
            row["difference"] = value
        else:
            value = row["ratio"]["median"]
        row["goal"] = f"{what} {'<=' if at_most else '>='} {bound:g}"
        row["met"] = value <= bound if at_most else value >= bound
    return row


def short(value: float) -> str:
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}"


def cell(figures: dict[str, float] | None) -> str:
    if figures is None:
        return ""
    middle, low, high = short(figures["median"]), short(figures["p10"]), short(figures["p90"])
    return middle if low == middle == high else f"{middle} ({low} - {high})"


def met(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "NO"


def table(rows: list[dict[str, Any]], markdown: bool) -> str:
    head = ["measure", "unit", "ours", "against", "theirs", "ratio", "goal", "met"]
    lines = [head]
    for row in rows:
        against, goal = row["against"] or "", row["goal"] or ""
        lines.append(
            [
                row["measure"],
                row["unit"],
                cell(row["ours"]),
                against,
                cell(row["theirs"]),
                cell(row["ratio"]),
                goal,
                met(row["met"]),
            ]
        )
    if markdown:
        return "\n".join(
            "| " + " | ".join(line) + " |" for line in [head, ["---"] * len(head), *lines[1:]]
        )
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def machine() -> str:
    def first(path: str, pattern: str) -> str:
        try:
            match = re.search(pattern, Path(path).read_text(), re.MULTILINE)
        except OSError:
            match = None
        return match.group(1).strip() if match else "?"

    model = first("/proc/cpuinfo", r"^model name\s*:(.*)$")
    memory = first("/proc/meminfo", r"^MemTotal:\s*(\d+)")
    gib = f"{int(memory) / 2**20:.0f} GiB" if memory.isdigit() else "?"
    virtual = (
        "virtual"
        if re.search(r"\bhypervisor\b", first("/proc/cpuinfo", r"^flags\s*:(.*)$"))
        else "bare metal"
    )
    system = first("/etc/os-release", r'^PRETTY_NAME="?([^"\n]*)')
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{model}, {os.cpu_count()} CPUs ({virtual}), {gib}; Linux {os.uname().release}, {system};"
        f" load {load}"
    )


def check(benchmark: str, rows: list[dict[str, Any]], left_out: list[str]) -> None:
    if not rows and not left_out:
        raise SystemExit(f"error: {benchmark} printed no row")
    for row in rows:
        figures = [
            row[key][name]
            for key in ("ours", "theirs", "ratio")
            if row[key]
            for name in ("median", "p10", "p90")
        ]
        if not row["ours"] or any(not math.isfinite(figure) or figure <= 0 for figure in figures):
            raise SystemExit(f"error: {benchmark}: a row without good figures: {row}")
        if row["against"] and len(row["measure"]) and not row["theirs"]:
            raise SystemExit(f"error: {benchmark}: nothing measured of what it is against: {row}")


def check_plots(rows: list[dict[str, Any]]) -> None:
    """Checks that the plots find their rows, which they look up by the names of the measures."""
    if not any(row["benchmark"] in plot_rows.BENCHMARKS for row in rows):
        return  # no PyTorch here
    run = {"machine": "", "date": "", "smoke": True, "rows": rows, "left_out": []}
    try:
        found = plot_rows.read_run(json.dumps(run))
        for name in plot_rows.PLOTS:
            plot_rows.describe(name, found)
        if plot_rows.live(found) is None:
            raise plot_rows.Unusable("no row of live tensors")
    except plot_rows.Unusable as error:
        raise SystemExit(f"error: tools/bench --plot would fail: {error}") from None


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="tools/bench",
        description="Builds and runs the benchmarks, and prints one table: median (p10 - p90).",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only these benchmarks (see --list)"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print rows as JSON")
    form.add_argument(
        "--markdown", action="store_true", help="print a Markdown table, as in docs/benchmarks.md"
    )
    parser.add_argument(
        "--list", action="store_true", help="print the benchmarks' names and what each measures"
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="a few rounds only: do the rows come out? The figures mean nothing",
    )
    parser.add_argument(
        "--build-dir",
        type=Path,
        default=HERE.parents[1] / "build" / "release",
        help="where the programs were built",
    )
    options = parser.parse_args()
    benchmarks = find_benchmarks(options.build_dir, options.smoke)
    if options.list:
        width = max(len(each.name) for each in benchmarks)
        for each in benchmarks:
            print(f"{each.name:{width}}  {each.about}")
        return
    known = {each.name for each in benchmarks}
    if unknown := [name for name in options.names if name not in known]:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(sorted(known))}")

    rows: list[dict[str, Any]] = []
    left_out: list[str] = []
    for each in benchmarks:
        if options.names and each.name not in options.names:
            continue
        print(f"{each.name}: {each.about}", file=sys.stderr, flush=True)
        raw = [
            row
            for command in each.commands
            for row in execute(command, options.smoke, options.build_dir)
        ]
        missing = [row["left_out"] for row in raw if "left_out" in row] + (
            [each.left_out] if each.left_out else []
        )
        made = [make_row(each.name, row) for row in raw if "left_out" not in row]
        check(each.name, made, missing)
        rows += made
        left_out += [f"{each.name}: {why}" for why in missing]

    if options.smoke and not options.names:
        check_plots(rows)
    if options.json:
        day = datetime.datetime.now(datetime.UTC).date().isoformat()
        run = {
            "machine": machine(),
            "date": day,
            "smoke": options.smoke,
            "rows": rows,
            "left_out": left_out,
        }
        print(json.dumps(run, indent=1))
        return
    print(table(rows, options.markdown))
    print(f"\nMedian (p10 - p90); ratios are medians of pairs taken in turn. {machine()}")
    for line in left_out:
        print(f"left out: {line}")


if __name__ == "__main__":
    main()
