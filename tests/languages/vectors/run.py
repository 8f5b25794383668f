"""usage: run.py LANGUAGE [--cuda] [--doctored]

Prepares the cases, runs the runner of a language (TENON_BUILD_DIR/vectors/LANGUAGE.json names it)
and keeps its output in TENON_BUILD_DIR/vectors/LANGUAGE.txt. Fails if a case failed, if a case was
not executed exactly once, or if the runner left something behind.

--cuda runs the cases that require CUDA, on the driver that tests/support/fake_cuda plays. None of
them may be skipped for the lack of CUDA. The output is in LANGUAGE.cuda.txt.

--doctored makes one expected value of each case wrong, and the runner must notice every one of
them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import prepare

SECONDS = 90
NO_TOOLCHAIN = 77


def doctor(case: dict[str, Any], number: int) -> dict[str, Any]:
    """Returns the case with one wrong expectation. The number chooses which one."""
    case = json.loads(json.dumps(case))
    if case["kind"] == "status":
        case["name"] = {"OK": "FINE", "UNKNOWN": "OK"}.get(case["name"], "UNKNOWN")
        return case
    leaves = list(_leaves(case["expect"]))
    holder, key = leaves[number % len(leaves)]
    holder[key] = _wrong(key, holder[key])
    return case


def _leaves(item: Any) -> Any:
    for key, value in item.items() if isinstance(item, dict) else enumerate(item):
        if key == "mask":
            continue
        if key == "find":
            # Only the index is made wrong. Another name may be as unknown as the first one.
            yield from ((pair, 1) for pair in value)
            continue
        if isinstance(value, (dict, list)) and value:
            yield from _leaves(value)
        elif value != []:
            yield item, key


def _wrong(key: str | int, value: Any) -> Any:
    if key == "status":
        return "OK" if value != "OK" else "PERMISSION"
    if value is None:
        return "78"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if key == "mode":
        return "FROZEN"
    # The value is hex, or the text of a detail. Its first byte is changed.
    return ("0" if value[:1] != "0" else "1") + value[1:] if value else "00"


def fail(text: str) -> None:
    sys.exit(f"FAIL {text}")


def command_of(language: str) -> dict[str, Any]:
    path = Path(os.environ["TENON_BUILD_DIR"], "vectors", f"{language}.json")
    return json.loads(path.read_text())


def build(how: dict[str, Any], environment: dict[str, str]) -> str | None:
    """Runs the build command, if there is one. Returns the reason if the command says that it
    cannot build.
    """
    if not how.get("build"):
        return None
    done = subprocess.run(
        how["build"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout, end="")
    if done.returncode == NO_TOOLCHAIN:
        return (done.stdout.strip().splitlines() or ["no reason given"])[-1]
    if done.returncode:
        fail(f"the build ended with {done.returncode}: {' '.join(how['build'])}")
    return None


def on_fake_cuda(environment: dict[str, str], folder: str) -> dict[str, str]:
    """Returns the environment of a program that finds the driver of tests/support/fake_cuda, with
    an empty world.
    """
    world = Path(folder, "world")
    world.mkdir()
    places = [
        str(Path(os.environ["TENON_BUILD_DIR"], "tests/support/fake_cuda/driver-13")),
        environment.get("LD_LIBRARY_PATH", ""),
    ]
    return {
        **environment,
        "LD_LIBRARY_PATH": ":".join(filter(None, places)),
        "FAKE_CUDA_WORLD": str(world),
    }


def judge(
    lines: list[str], cases: list[dict[str, Any]], code: int, *, met: bool = False
) -> list[str]:
    """Returns the errors of a runner's output, except the cases of which it says that they failed.
    With `met`, everything that the cases require is there.
    """
    wrong = []
    ids = [case["id"] for case in cases]
    requiring = {case["id"] for case in cases if "requires" in case and not met}
    seen: list[str] = []
    failed = False
    for line in lines:
        word, _, rest = line.partition(" ")
        name, _, reason = rest.partition(" ")
        if word not in ("ok", "FAIL", "skip"):
            wrong.append(f"no such line: {line!r}")
            continue
        failed = failed or word == "FAIL"
        seen.append(name)
        if word != "ok" and not reason.strip():
            wrong.append(f"{name}: {word} without a reason")
        if word == "skip" and reason.startswith(prepare.UNMET) and name not in requiring:
            wrong.append(f"{name}: skipped, though it has what it requires: {reason}")
    wrong += [
        f"{name}: printed {seen.count(name)} times"
        for name in sorted(set(seen))
        if seen.count(name) > 1
    ]
    wrong += [f"{name}: no such case" for name in seen if name not in ids]
    wrong += [f"{name}: not executed" for name in ids if name not in seen]
    if code != int(failed):
        wrong.append(f"exit code {code}, {'with' if failed else 'without'} a failed case")
    return wrong


def main() -> None:
    doctored, cuda = "--doctored" in sys.argv, "--cuda" in sys.argv
    (language,) = (word for word in sys.argv[1:] if not word.startswith("--"))
    how = command_of(language)
    kept = Path(
        os.environ["TENON_BUILD_DIR"], "vectors", f"{language}{'.cuda' if cuda else ''}.txt"
    )
    if not doctored:
        kept.unlink(missing_ok=True)
    environment = {**os.environ, **how.get("environment", {})}
    cases = prepare.committed("cuda" if cuda else "")
    if doctored:
        cases = [doctor(case, number) for number, case in enumerate(cases)]

    def skipped(reason: str) -> None:
        if not doctored:
            kept.write_text(f"# skipped: {reason}\n")
        print(f"skipped: {reason}")
        sys.exit(NO_TOOLCHAIN)

    why = build(how, environment)
    if why is not None:
        skipped(why)
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryDirectory(dir="/dev/shm", prefix="tenon-vectors-") as shared,
        prepare.prepared(Path(folder), Path(shared), cases) as ready,
    ):
        if cuda:
            environment = on_fake_cuda(environment, folder)
        done = subprocess.run(
            [*how["run"], folder],
            env=environment,
            pass_fds=ready.held,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        if done.returncode == NO_TOOLCHAIN:
            skipped((done.stdout.strip().splitlines() or ["no reason given"])[-1])
        if not doctored:
            kept.write_text(done.stdout)
        lines = done.stdout.splitlines()
        wrong = judge(lines, cases, done.returncode, met=cuda)
        wrong += [] if doctored else ready.left()
    results = {line.split(" ")[1]: line for line in lines if line.count(" ")}
    if doctored:
        wrong += [
            f"{name}: was not noticed" for name, line in results.items() if line.startswith("ok ")
        ]
    else:
        wrong += [line for line in results.values() if line.startswith("FAIL ")]
    for line in results.values():
        if line.startswith("skip "):
            print(line)
    counts = {
        word: sum(line.startswith(f"{word} ") for line in lines) for word in ("ok", "FAIL", "skip")
    }
    what = f"{language}{' on fake_cuda' if cuda else ''}{' (doctored)' if doctored else ''}"
    print(f"{what}: {counts['ok']} ok, {counts['FAIL']} failed, {counts['skip']} skipped")
    if wrong:
        fail(f"{language}:\n  " + "\n  ".join(wrong))


if __name__ == "__main__":
    main()
