"""The command line itself: help, errors, exit codes, colours, the man page and the completions."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import SOURCE, TENON, run

COMMANDS = [
    "doctor",
    "ls",
    "top",
    "gc",
    "inspect",
    "verify",
    "export",
    "convert",
    "weights",
    "bench",
]
MAN = SOURCE / "docs/man/tenon.1"
COMPLETIONS = SOURCE / "cli/completions"
ESCAPE = "\x1b["


def options_of(help_text: str) -> set[str]:
    return set(
        re.findall(
            r"--[a-z][a-z-]*",
            "\n".join(line for line in help_text.splitlines() if re.match(r" +-", line)),
        )
    )


def test_help_names_every_command_and_has_an_example() -> None:
    done = run("--help")
    assert (done.returncode, done.stderr) == (0, "")
    for command in COMMANDS:
        assert re.search(rf"^ +{command} ", done.stdout, re.M)
        own = run(command, "--help")
        assert (own.returncode, own.stderr) == (0, "")
        assert re.search(rf"^Example:\n  tenon {command}", own.stdout, re.M)
        assert {"--help", "--json", "--color"} <= options_of(own.stdout)
        assert run(command, "-h").stdout == own.stdout


def test_version() -> None:
    expected = re.search(
        r"project\(tenon VERSION ([0-9.]+)", (SOURCE / "CMakeLists.txt").read_text()
    )
    assert expected is not None
    assert run("--version").stdout == f"tenon {expected[1]}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("lend",),
        ("ls", "--no-such-option"),
        ("ls", "a", "b"),
        ("gc", "--min-age", "soon"),
        ("gc", "--min-age", "-1"),
        ("gc", "--min-age", "nan"),
        ("gc", "--min-age"),
        ("ls", "--color", "sometimes"),
        ("ls", "--json", "--prometheus"),
        ("top", "--interval", "0"),
        ("top", "--interval", "often"),
        ("top", "--interval", "1e300"),
        ("inspect",),
        ("inspect", "--ops", "--code", "a.pt"),
        ("inspect", "--methods", "forward", "a.pt"),
        ("inspect", "--ops", "--methods", "a,", "a.pt"),
        ("inspect", "--module", "", "a.pt"),
        ("weights", "keep"),
        ("weights", "drop", "net", "a.pt"),
        ("weights", "drop", "net", "--group", "users"),
        ("weights", "ls", "a", "--directory", "b"),
        ("export",),
        ("export", "a.pt"),
        ("export", "a.pt", "-"),
        ("export", "a.pt", "b.pt", "c.pt"),
        ("export", "--package", "c.pt"),
        ("export", "--package", "--bytecode", "a.pt", "c.pt"),
        ("export", "--package", "--flatbuffer", "a.pt", "c.pt"),
        ("export", "--package", "--module", "net", "a.pt", "c.pt"),
        ("export", "a.pt", "b.pt", "--bytecode", "--no-bytecode"),
        ("export", "a.pt", "b.pt", "--methods", "forward"),
        ("export", "a.pt", "b.pt", "--forks-at-once"),
        ("export", "a.pt", "b.pt", "--bytecode", "--methods", "forward,,predict"),
        ("export", "a.pt", "b.pt", "--bytecode", "--methods", ""),
        ("convert", "a.pt"),
        ("convert", "a.pt", "-"),
        ("convert", "a.pt", "b.pt", "--form", "zip"),
    ],
)
def test_wrong_command_line(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and all(line.startswith("tenon: ") for line in lines)
    assert lines[1].endswith(" --help'")


def test_an_error_repeats_no_control_characters() -> None:
    done = run("ls", "/no\x1b[31msuch\ndirectory")
    assert done.returncode == 1
    assert done.stderr == "tenon: directory /no?[31msuch?directory: No such file or directory\n"


def test_output_that_cannot_be_written_is_an_error() -> None:
    with Path("/dev/full").open("w") as full:
        for arguments in (["--help"], ["ls", "/dev"], ["doctor"]):
            done = subprocess.run(
                [TENON, *arguments],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                timeout=100,
            )
            assert done.returncode != 0
            assert done.stderr == "tenon: writing the output: No space left on device\n"


def on_terminal(*arguments: str, **environment: str) -> str:
    """Return what tenon prints to a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [TENON, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        env={"TERM": "xterm", **environment},
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # EIO: the last process has closed it
            break
        if not part:
            break
        text += part
    os.close(ours)
    process.wait(60)
    return text.decode()


def test_colours() -> None:
    assert ESCAPE in on_terminal("doctor")
    assert ESCAPE not in on_terminal("doctor", NO_COLOR="1")
    assert ESCAPE in on_terminal("doctor", NO_COLOR="")
    assert ESCAPE not in on_terminal("doctor", "--color", "never")
    assert ESCAPE in on_terminal("doctor", "--color=always", NO_COLOR="1")
    assert ESCAPE not in on_terminal("doctor", TERM="dumb")
    assert ESCAPE not in run("doctor").stdout
    assert ESCAPE not in run("doctor", "--color", "auto").stdout
    assert ESCAPE in run("doctor", "--color", "always").stdout
    assert ESCAPE in run("--color", "always", "doctor").stdout
    assert ESCAPE not in run("doctor", "--json", "--color", "always").stdout


def test_man_page_names_every_command_and_option_and_no_other() -> None:
    page = MAN.read_text().replace("\\-", "-")
    options = options_of(run("--help").stdout)
    for command in COMMANDS:
        assert re.search(rf"^\.B {command}$", page, re.M), command
        assert f"tenon {command}" in page
        options |= options_of(run(command, "--help").stdout)
    assert set(re.findall(r"--[a-z][a-z-]*", page)) == options


def test_man_page_is_well_formed() -> None:
    if shutil.which("groff") is None:
        pytest.skip("no groff here")
    done = subprocess.run(
        ["groff", "-man", "-ww", "-z", MAN], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def complete(line: str, cwd: str | None = None) -> list[str]:
    """Return what bash's own readline offers at the end of the line."""
    script = f"""
source {COMPLETIONS / "tenon.bash"}
read -r -a COMP_WORDS <<< {line!r}
if [[ {line!r} == *' ' ]]; then COMP_WORDS+=(''); fi
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
COMP_LINE={line!r}
complete -p tenon >/dev/null && _tenon tenon && printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "--norc", "-euc", script], capture_output=True, text=True, check=True, cwd=cwd
    )
    return sorted(done.stdout.split())


def test_bash_completion_offers_what_help_names() -> None:
    subprocess.run(["bash", "-n", COMPLETIONS / "tenon.bash"], check=True)
    assert complete("tenon ") == sorted(COMMANDS)
    assert complete("tenon d") == ["doctor"]
    assert set(complete("tenon --")) == options_of(run("--help").stdout)
    for command in COMMANDS:
        assert set(complete(f"tenon {command} --")) == options_of(run(command, "--help").stdout), (
            command
        )
    assert complete("tenon gc --m") == ["--min-age"]
    assert complete("tenon ls --color ") == ["always", "auto", "never"]
    assert complete("tenon --color a") == ["always", "auto"]
    assert complete("tenon gc --min-age ") == []
    assert complete("tenon top --interval ") == []
    assert complete("tenon export --methods ") == []
    assert complete("tenon export --module ") == complete("tenon inspect --module ") == []


def test_bash_completion_offers_directories_and_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "message.bin").touch()
    assert complete("tenon ls ", str(tmp_path)) == ["folder"]
    assert {"folder", "message.bin"} <= set(complete("tenon inspect ", str(tmp_path)))
    assert complete("tenon export ", str(tmp_path)) == ["folder", "message.bin"]


def test_bash_completes_in_a_real_shell(tmp_path: Path) -> None:
    """The test types a line with tabs into an interactive bash."""
    ours, theirs = pty.openpty()
    (tmp_path / "rc").write_text(
        f"source {COMPLETIONS / 'tenon.bash'}\nPS1='ready> '\ntenon() {{ echo \"got=$*=\"; }}\n"
    )
    shell = subprocess.Popen(
        ["bash", "--noprofile", "--rcfile", tmp_path / "rc", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    text = b""
    while b"ready> " not in text:  # bash throws away what is typed before its line is ready
        text += os.read(ours, 65536)
    os.write(ours, b"tenon doc\t --js\t --color=al\t\nexit\n")
    while True:
        try:
            text += os.read(ours, 65536)
        except OSError:
            break
    os.close(ours)
    assert shell.wait(60) == 0
    assert "got=doctor --json --color=always=" in re.sub(r"\s+", " ", text.decode()).replace(
        " =", "="
    )


@pytest.mark.parametrize("file", ["_tenon", "tenon.fish"])
def test_other_completions_name_every_command_and_option_and_no_other(file: str) -> None:
    text = (COMPLETIONS / file).read_text()
    options = options_of(run("--help").stdout)
    for command in COMMANDS:
        options |= options_of(run(command, "--help").stdout)
        assert re.search(rf"\b{command}\b", text)
    found = (
        re.findall(r"^complete .* -l ([a-z-]+)", text, re.M)
        if file.endswith(".fish")
        else [name[2:] for name in re.findall(r"--[a-z][a-z-]*", text)]
    )
    assert {f"--{name}" for name in found} == options


@pytest.mark.parametrize(("shell", "file"), [("zsh", "_tenon"), ("fish", "tenon.fish")])
def test_other_completions_parse(shell: str, file: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    subprocess.run([shell, "-n", COMPLETIONS / file], check=True)


def test_fish_completion_offers_what_help_names(tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("no fish here")

    def offers(line: str) -> set[str]:
        script = f"source {COMPLETIONS / 'tenon.fish'}; complete -C {line!r}"
        environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            ["fish", "--no-config", "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        return {text.split("\t")[0] for text in done.stdout.splitlines()}

    assert set(COMMANDS) <= offers("tenon ")
    for command in COMMANDS:
        assert {
            text for text in offers(f"tenon {command} --") if text != "--version"
        } == options_of(run(command, "--help").stdout)


def test_an_unknown_command_lists_those_that_exist() -> None:
    for arguments in (("frobnicate",), ("--color", "never", "frobnicate", "--json")):
        done = run(*arguments)
        assert done.returncode == 2
        assert (
            done.stderr.splitlines()[0]
            == f"tenon: there is no command 'frobnicate': the commands are {', '.join(COMMANDS)}"
        )
