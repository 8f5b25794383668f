"""`tenon weights keep` and `drop`: a process that holds weights, its end, and its systemd unit."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from conftest import (
    NOBODY,
    SOURCE,
    TENON,
    PrivateShm,
    read_json,
    run,
    wait_until,
    wait_until_stopped,
)

WEIGHTS = SOURCE / "tests/peers/golden/weights/torch-2.8.0.pt2"
OTHER = WEIGHTS.with_name("torch-2.15.0.pt2")
UNIT = SOURCE / "cli/systemd/tenon-weights@.service"

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def begin(
        *arguments: object,
        action: str = "keep",
        prefix: Iterable[str] = (),
        **environment: str,
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*prefix, TENON, "weights", action, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **environment},
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def holders(folder: Path) -> list[int]:
    listed = read_json("weights", "ls", folder)["weights"]
    return listed[0]["holders"] if listed else []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_keeper_holds_the_weights_until_a_signal(
    tmp_path: Path, start: Start, number: int
) -> None:
    keeper = start("net", WEIGHTS, "--directory", tmp_path)
    line = first_line(keeper)
    assert WEIGHTS.name in line and "loaded by this process" in line
    assert line.endswith(f"tenon weights drop net --directory {tmp_path}\n")
    assert holders(tmp_path) == [keeper.pid]
    keeper.send_signal(number)
    assert keeper.wait(60) == 0
    assert list(tmp_path.iterdir()) == []


def test_keepers_hand_the_weights_on_and_drop_ends_all(tmp_path: Path, start: Start) -> None:
    first = start("net", WEIGHTS, "--directory", tmp_path)
    first_line(first)
    second = start("net", "--directory", tmp_path)  # without a file: it can only attach
    assert "found in memory" in first_line(second)
    other = start("other", WEIGHTS, "--directory", tmp_path)
    first_line(other)
    first.kill()
    first.wait()
    third = start("net", "--directory", tmp_path, "--json")
    assert third.stdout is not None
    kept = json.JSONDecoder().raw_decode("".join(iter(third.stdout.readline, "}\n")) + "}")[0]
    assert (kept["pid"], kept["file"], kept["loaded"]) == (third.pid, WEIGHTS.name, False)
    ended = read_json("weights", "drop", "net", "--directory", tmp_path)["ended"]
    assert sorted(ended) == sorted([second.pid, third.pid])
    assert (second.wait(60), third.wait(60)) == (0, 0)
    assert holders(tmp_path) == [other.pid] and other.poll() is None


def test_the_default_directory_is_left_clean(
    start: Start, private_shm: Callable[[], PrivateShm]
) -> None:
    enter = private_shm().enter
    keeper = start("net", WEIGHTS, prefix=enter)
    assert first_line(keeper).endswith("tenon weights drop net\n")
    assert read_json("weights", "ls", prefix=enter)["weights"][0]["holders"] == [keeper.pid]
    assert run("weights", "drop", "net", prefix=enter).returncode == 0
    assert keeper.wait(60) == 0
    for action in ("keep", "drop"):  # neither finds anything
        assert run("weights", action, "net", prefix=enter).returncode == 1
    left = subprocess.run([*enter, "ls", "/dev/shm"], capture_output=True, text=True, check=True)
    assert left.stdout == ""


def test_a_keeper_holds_the_weights_on_a_device(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, start: Start
) -> None:
    driver = Path(os.environ.get("TENON_BUILD_DIR", "")) / "tests/support/fake_cuda/driver-13"
    if not (driver / "libcuda.so.1").exists():
        pytest.skip("tests/support/fake_cuda was not built")
    world = tmp_path_factory.mktemp("world")
    env = {"LD_LIBRARY_PATH": str(driver), "FAKE_CUDA_WORLD": str(world)}
    where = ("--directory", tmp_path, "--device", "cuda:0")
    keeper, on_cpu = start("net", WEIGHTS, *where, **env), start("net", WEIGHTS, *where[:2])
    line = first_line(keeper)
    assert " on cuda:0, loaded by this process" in line
    assert line.endswith(f"tenon weights drop net --directory {tmp_path} --device cuda:0\n")
    first_line(on_cpu)
    # A process without the driver sees the name too.
    cpu, cuda = read_json("weights", "ls", tmp_path)["weights"]
    assert (cpu["name"], cpu["device"], cpu["holders"]) == ("net", "cpu", [on_cpu.pid])
    assert (cuda["name"], cuda["device"], cuda["holders"]) == ("net", "cuda", [keeper.pid])
    assert f"GPU-{cuda['device_uuid']}" in run("weights", "ls", tmp_path).stdout
    ended = read_json("weights", "drop", "net", *where, env=env)["ended"]
    assert (ended, keeper.wait(60), on_cpu.poll()) == ([keeper.pid], 0, None)
    assert holders(tmp_path) == [on_cpu.pid]
    done = run("weights", "keep", "net", WEIGHTS, *where, env={**env, "CUDA_VISIBLE_DEVICES": ""})
    assert done.returncode == 1 and "CUDA_ERROR_NO_DEVICE" in done.stderr
    assert run("weights", "ls", "--device", "cuda:0").returncode == 2


def test_drop_signals_only_keepers(tmp_path: Path, start: Start) -> None:
    """A file without the lock, and a pid in it, lead to nobody."""
    (tmp_path / "net.keep").write_text(str(os.getpid()))
    refused = read_json("weights", "drop", "net", "--directory", tmp_path, rc=1)["error"]
    assert refused["code"] == "NOT_FOUND"
    # The next keeper takes the file that a killed one has left, and removes it.
    keeper = start("net", WEIGHTS, "--directory", tmp_path)
    first_line(keeper)
    assert run("weights", "drop", "net", "--directory", tmp_path).returncode == 0
    assert keeper.wait(60) == 0 and list(tmp_path.iterdir()) == []


def test_drop_of_a_stopped_keeper_names_it(tmp_path: Path, start: Start) -> None:
    keeper = start("net", WEIGHTS, "--directory", tmp_path)
    first_line(keeper)
    keeper.send_signal(signal.SIGSTOP)
    wait_until_stopped(keeper.pid)
    drop = ("weights", "drop", "net", "--directory", tmp_path, "--timeout", "0.1")
    failed = read_json(*drop, rc=1)["error"]
    assert (failed["code"], failed["details"]["pid"]) == ("TIMEOUT", str(keeper.pid))
    keeper.send_signal(signal.SIGCONT)
    assert keeper.wait(60) == 0


def test_drop_of_another_users_keeper_is_refused(tmp_path: Path, start: Start) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    for each in (tmp_path, *tmp_path.parents[:-2]):
        each.chmod(0o777)
    keeper = start("net", WEIGHTS, "--directory", tmp_path, "--group", NOBODY)
    first_line(keeper)
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    failed = read_json("weights", "drop", "net", "--directory", tmp_path, rc=1, prefix=as_nobody)[
        "error"
    ]
    assert failed["code"] == "PERMISSION" and keeper.poll() is None


def test_drop_in_another_container_is_refused(tmp_path: Path, start: Start) -> None:
    in_container = ["unshare", "--pid", "--fork", "--mount-proc"]
    if os.getuid() != 0:
        in_container[1:1] = ["--user", "--map-current-user"]
    if subprocess.run([*in_container, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no pid namespace here")
    keeper = start("net", WEIGHTS, "--directory", tmp_path)
    first_line(keeper)
    drop = ("weights", "drop", "net", "--directory", tmp_path)
    assert read_json(*drop, rc=1, prefix=in_container)["error"]["code"] == "UNSUPPORTED"
    assert keeper.poll() is None


def test_what_cannot_be_kept(tmp_path: Path) -> None:
    keep = ("weights", "keep", "net", "--directory", tmp_path)
    assert read_json(*keep, rc=1)["error"]["code"] == "NOT_FOUND"
    assert read_json(*keep, tmp_path / "none.pt2", rc=1)["error"]["code"] == "NOT_FOUND"
    failed = run(*keep, WEIGHTS, "--group", "no-such-group")
    assert failed.returncode == 1 and "no group 'no-such-group'" in failed.stderr
    failed = run("weights", "keep", "a/net", WEIGHTS, "--directory", tmp_path)
    assert failed.returncode == 1 and "has a slash" in failed.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_keeper_has_a_budget(tmp_path: Path, start: Start) -> None:
    first_line(start("net", WEIGHTS, "--directory", tmp_path, "--budget", "1M"))
    keep = ("weights", "keep", "other", WEIGHTS, "--directory", tmp_path, "--budget", "20k")
    error = read_json(*keep, rc=1)["error"]
    assert error["code"] == "RESOURCE_EXHAUSTED" and '"net" with' in error["message"]
    assert error["details"]["limit"] == "budget_nbytes"
    assert error["details"]["limit_value"] == str(20 * 1024)
    assert run("weights", "drop", "net", "--directory", tmp_path, "--budget", "1M").returncode == 2


def test_a_signal_ends_the_wait_for_a_stopped_server(tmp_path: Path, start: Start) -> None:
    server = start("net", WEIGHTS, "--directory", tmp_path)
    first_line(server)
    server.send_signal(signal.SIGSTOP)
    wait_until_stopped(server.pid)
    waiting = start("net", "--directory", tmp_path)
    wait_until(lambda: waiting.pid in holders(tmp_path), "it does not wait")
    waiting.terminate()
    assert waiting.wait(60) == -signal.SIGTERM
    assert holders(tmp_path) == [server.pid]


def receive(manager: socket.socket) -> dict[str, str]:
    return dict(line.split("=", 1) for line in manager.recv(4096).decode().splitlines())


@pytest.mark.parametrize("kind", ["file", "abstract"])
def test_the_command_of_the_unit_tells_the_service_manager(
    tmp_path: Path, start: Start, kind: str
) -> None:
    """The command is that of the unit, with a directory and a group of this test."""
    [command] = [
        line.removeprefix("ExecStart=")
        for line in UNIT.read_text().splitlines()
        if line.startswith("ExecStart=")
    ]
    put = {
        "%I": "net",
        "${FILE}": str(WEIGHTS),
        "/run/tenon-weights": str(tmp_path),
        "tenon-weights": str(os.getgid()),
    }
    words = [put.get(word, word) for word in shlex.split(command)]
    assert words[:3] == ["tenon", "weights", "keep"] and set(put.values()) <= set(words)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        address = f"@tenon-keep-{os.getpid()}" if kind == "abstract" else str(tmp_path / "notify")
        manager.bind("\0" + address[1:] if kind == "abstract" else address)
        manager.settimeout(60)
        keeper = start(*words[3:], NOTIFY_SOCKET=address)
        told = receive(manager)
        assert "READY" in told or told["STATUS"].startswith("loading: ")
        while "READY" not in told:
            told = receive(manager)
        assert (told["READY"], told["STATUS"][:8]) == ("1", "keeping ")
        assert (tmp_path / "net.sock").exists()
        keeper.terminate()
        assert receive(manager) == {"STOPPING": "1"}
    assert keeper.wait(60) == 0
    assert keeper.stderr is not None and keeper.stderr.read() == ""


def test_a_service_manager_that_is_gone_is_a_warning(tmp_path: Path, start: Start) -> None:
    keeper = start("net", WEIGHTS, "--directory", tmp_path, NOTIFY_SOCKET=str(tmp_path / "none"))
    assert first_line(keeper).startswith("keeping ")
    keeper.terminate()
    assert keeper.wait(60) == 0
    assert keeper.stderr is not None and "NOTIFY_SOCKET" in keeper.stderr.read()


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("ExecStart=tenon ", f"ExecStart={TENON} "))
    instance = tmp_path / "tenon-weights@net.service"
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", instance],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_keeper_takes_a_new_version(tmp_path: Path, start: Start) -> None:
    keeper = start("net", WEIGHTS, "--directory", tmp_path)
    assert ", version 1, loaded" in first_line(keeper)
    switched = read_json("weights", "switch", "net", OTHER, "--directory", tmp_path)
    assert switched["version"] == 2
    line = first_line(keeper)
    assert OTHER.name in line and ", version 2, found" in line
    listed = read_json("weights", "ls", tmp_path)["weights"][0]
    assert (listed["version"], listed["file"]) == (2, OTHER.name)
    assert listed["versions"] == [{"version": 2, "holders": [keeper.pid]}]
    assert run("weights", "drop", "net", "--directory", tmp_path).returncode == 0
    assert keeper.wait(60) == 0 and list(tmp_path.iterdir()) == []


def test_a_switch_that_nobody_takes_stays(tmp_path: Path, start: Start) -> None:
    switch = start("net", OTHER, "--directory", tmp_path, action="switch")
    assert first_line(switch) == "version 1 of net is published\n"
    assert "no other process has it yet" in first_line(switch)
    assert run("weights", "switch", "net").returncode == 2
    keeper = start("net", "--directory", tmp_path)
    first_line(keeper)
    assert switch.wait(60) == 0
    assert holders(tmp_path) == [keeper.pid]
