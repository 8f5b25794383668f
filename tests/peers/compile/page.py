"""The table of docs/internals/compiled_models.md: the results of compile_test.py for each model,
form and PyTorch.

A cell says "yes" or "no", or "-" where this PyTorch cannot do the model itself. compile_test.py
compares its columns with its results, and writes them anew on request.
"""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs/internals/compiled_models.md"
TORCHES = ("debian", "newest")
FORMS = ("archive", "bytecode", "tables", "flatbuffer")
HEAD = [
    (
        "| model | 1.13: archive | bytecode | tables | flatbuffer | newest: archive | bytecode |"
        " tables | flatbuffer |"
    ),
    "|---|---|---|---|---|---|---|---|---|",
]


def read_rows() -> dict[str, list[str]]:
    """Returns the cells of each model."""
    lines = PAGE.read_text().splitlines()
    if HEAD[0] not in lines:
        return {}
    rows = {}
    for line in lines[lines.index(HEAD[0]) + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[name.strip("`")] = cells
    return rows


def with_columns(torch_name: str, seen: dict[str, dict[str, str]]) -> dict[str, list[str]]:
    """Returns the rows of the page, with the results in the columns of one PyTorch, in the order of
    the models.
    """
    first = TORCHES.index(torch_name) * len(FORMS)
    old = read_rows()
    rows = {}
    for name, forms in seen.items():
        cells = old.get(name, ["-"] * len(TORCHES) * len(FORMS))
        rows[name] = cells[:first] + [forms[form] for form in FORMS] + cells[first + len(FORMS) :]
    return rows


def differences(torch_name: str, seen: dict[str, dict[str, str]]) -> list[str]:
    """Returns the cells of the page that disagree with the results."""
    old, new = read_rows(), with_columns(torch_name, seen)
    if old == new:
        return []
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return [
        f"{PAGE.name} says something else of {', '.join(names) or 'the order of the models'}. If it"
        f" should not, run tests/peers/compile/compile_test.py {torch_name} --update"
    ]


def update(torch_name: str, seen: dict[str, dict[str, str]]) -> None:
    rows = with_columns(torch_name, seen)
    table = [*HEAD, *(f"| `{name}` | {' | '.join(cells)} |" for name, cells in rows.items())]
    lines = PAGE.read_text().splitlines()
    begin = lines.index(HEAD[0])
    end = begin
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    PAGE.write_text("\n".join([*lines[:begin], *table, *lines[end:]]) + "\n")
