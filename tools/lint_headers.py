#!/usr/bin/env python3
"""Refuses a public C function whose comment does not say all that a caller must know.

Every TENON_API function stands directly under a comment with a first sentence (what it does), one
@param line for each parameter, in order, with its direction and its ownership, @return unless it
returns nothing, and @since. Structs, enumerators and typedefs are left to review.

usage: lint_headers.py [--headers DIR] [--help]
"""

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

COMMENT_AND_FUNCTION = re.compile(
    r"(/\*\*(?:[^*]|\*(?!/))*\*/[ \t]*\n)?^TENON_API\b([^;]*);", re.MULTILINE
)
PARAM = re.compile(r"@param\[(in|out|in,out)\]\s+(\w+)\s+(.*)")
# The words with which a comment states who owns a pointer. Errors have a rule of their own.
OWNERSHIP = re.compile(
    r"\b(borrowed|consumed|new reference|new references|the caller's|kept|handed|called|copied|as"
    r" above|as in tenon_\w+|see rule 2|filled in|set by)\b"
)
# A size or a number that a call writes has no owner.
PLAIN_OUTPUT = re.compile(r"^(size_t|int|u?int\d+_t|tenon_access|double)\s*\*$")
# These functions return a tenon_status as a value and cannot fail.
STATUS_IS_A_VALUE = {"tenon_error_code"}


@dataclass
class Function:
    name: str
    returns: str
    parameters: list[tuple[str, str]]  # type and name


def split_parameters(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    parts.append(text[start:])
    return [part.strip() for part in parts]


def parse(declaration: str) -> Function:
    text = " ".join(declaration.replace("TENON_NOEXCEPT", " ").split())
    match = re.match(r"(.*?)\b(tenon_\w+)\s*\((.*)\)$", text)
    if not match:
        raise ValueError(f"cannot read the declaration: {text}")
    returns, name, inside = match.groups()
    parameters = []
    for part in split_parameters(inside):
        if part in {"void", ""}:
            continue
        pointer = re.match(r"(.*)\(\s*\*\s*(\w+)\s*\)\s*\(.*\)$", part)
        plain = re.match(r"(.*?)(\w+)(\[\w*\])?$", part)
        if pointer:
            parameters.append((f"{pointer.group(1)}(*)()", pointer.group(2)))
        elif plain and plain.group(1).strip():
            parameters.append(
                (plain.group(1).strip() + ("*" if plain.group(3) else ""), plain.group(2))
            )
        else:
            raise ValueError(f"{name}: a parameter has no name: {part}")
    return Function(name, returns.strip(), parameters)


def comment_lines(comment: str) -> list[str]:
    body = comment.strip().removeprefix("/**").removesuffix("*/")
    return [line.strip().removeprefix("*").strip() for line in body.splitlines()]


def check_function(function: Function, comment: str) -> list[str]:
    lines = comment_lines(comment)
    text = "\n".join(lines)
    problems = []
    what = re.split(r"^@", text, maxsplit=1, flags=re.MULTILINE)[0].strip()
    if len(what.split()) < 2:
        problems.append("does not say what it does")

    # A parameter's text ends at the next tag.
    documented = []
    for block in re.split(r"^(?=@)", text, flags=re.MULTILINE):
        if block.startswith("@param"):
            match = PARAM.match(" ".join(block.split()))
            if not match:
                problems.append(f"cannot read '{block.splitlines()[0]}': @param[in] name  text")
                continue
            documented.append(match.groups())
    names = [name for _, name in function.parameters]
    if [name for _, name, _ in documented] != names:
        problems.append(
            f"@param lines are {[name for _, name, _ in documented]}, parameters are {names}"
        )
    else:
        for (kind, name), (direction, _, words) in zip(
            function.parameters, documented, strict=True
        ):
            is_pointer = "*" in kind
            plain_output = direction == "out" and PLAIN_OUTPUT.match(kind)
            if is_pointer and not plain_output and not OWNERSHIP.search(words):
                problems.append(f"@param {name} does not say whose the pointer is")
            if not is_pointer and direction != "in":
                problems.append(f"@param {name} is a value: it can only be [in]")
            if "out" in direction.split(",") and kind.startswith("const ") and kind.count("*") == 1:
                problems.append(f"@param {name} points to const: it cannot be [{direction}]")
            if name in {"out", "err"} and "out" not in direction.split(","):
                problems.append(f"@param {name} is an output: [out]")
    if names and "err" in names and names[-1] != "err":
        problems.append("err is not the last parameter")
    if (
        function.returns == "tenon_status"
        and "err" not in names
        and function.name not in STATUS_IS_A_VALUE
    ):
        problems.append("can fail, but takes no tenon_error **err")

    returns = re.search(r"^@return\s+(\S.*)", text, re.MULTILINE)
    if function.returns == "void" and returns:
        problems.append("returns nothing, but has @return")
    if function.returns != "void" and not returns:
        problems.append("has no @return")
    if not re.search(r"^@since\s+\d+\.\d+\b", text, re.MULTILINE):
        problems.append("has no @since with a version")
    return problems


def check(headers: Path) -> tuple[list[str], int]:
    problems, count = [], 0
    for path in sorted([*headers.glob("*.h"), *headers.glob("*.h.in")]):
        text = path.read_text()
        for match in COMMENT_AND_FUNCTION.finditer(text):
            count += 1
            comment, declaration = match.groups()
            line = text.count("\n", 0, match.start(2)) + 1
            try:
                function = parse(declaration)
            except ValueError as error:
                problems.append(f"{path.name}:{line}: {error}")
                continue
            if comment is None:
                problems.append(
                    f"{path.name}:{line}: {function.name} has no comment directly above it"
                )
                continue
            problems += [
                f"{path.name}:{line}: {function.name} {problem}"
                for problem in check_function(function, comment)
            ]
        for number, content in enumerate(text.splitlines(), 1):
            if re.search(
                r"\btenon_\w+\s*\([^;]*\)\s*(TENON_NOEXCEPT)?\s*;\s*$", content
            ) and re.match(r"[a-z]", content):
                if not content.startswith(("TENON_API", "typedef", "static", "return")):
                    problems.append(
                        f"{path.name}:{number}: a function without TENON_API is not exported"
                    )
    return problems, count


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    root = Path(__file__).resolve().parent.parent
    parser.add_argument("--headers", type=Path, default=root / "capi" / "include" / "tenon")
    problems, count = check(parser.parse_args().headers)
    if count == 0:
        problems.append("no TENON_API function was found")
    for problem in problems:
        print(problem)
    print(f"{count} functions, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
