"""tenon doctor under limits, in namespaces, and where files that it reads are missing."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import NOBODY, Holder, PrivateShm, Result, run, wait_until

LEVELS = ["ok", "note", "warn", "fail"]
EXIT_CODES = {"ok": 0, "note": 0, "warn": 1, "fail": 2}
# The checks whose value may change at any moment, whatever this test does.
MOVING = {"memory", "memory_cgroup", "directory", "names", "mappings", "open_files"}


def look(*arguments: object, **options: Any) -> tuple[dict[str, Any], Result]:
    """Run the doctor. Return the checks by id. The exit code must be that of the worst check."""
    done = run("doctor", "--json", *arguments, **options)
    assert done.stderr == ""
    report = json.loads(done.stdout)
    worst = max((check["level"] for check in report["checks"]), key=LEVELS.index)
    assert report["level"] == worst
    assert done.returncode == EXIT_CODES[worst]
    checks = {check["id"]: check for check in report["checks"]}
    assert len(checks) == len(report["checks"])
    return checks, done


def limited(kind: int, soft: int, hard: int | None = None) -> Callable[[], None]:
    old_hard = resource.getrlimit(kind)[1]
    return lambda: resource.setrlimit(kind, (soft, old_hard if hard is None else hard))


def test_text_has_what_json_has(directory: str) -> None:
    checks, _ = look(directory)
    text = run("doctor", directory).stdout
    flat = re.sub(r"\s+", " ", text)
    for check in checks.values():
        assert re.search(rf"^{check['level']:<6}{re.escape(check['title'])} ", text, re.M), check
        for key in ("value", "limits"):
            said = re.sub(r"\s+", " ", check[key])
            if check["id"] in MOVING:
                assert re.sub(r"[0-9][0-9,.]*", "#", said) in re.sub(r"[0-9][0-9,.]*", "#", flat), (
                    check
                )
            else:
                assert said in flat, check
        assert not check["change"] or f"change: {check['change']}\n" in text
    counts = [sum(check["level"] == level for check in checks.values()) for level in LEVELS]
    last = text.splitlines()[-1]
    assert [int(number) for number in re.findall(r"\d+", last)] == [len(checks), *counts]


def test_every_line_fits_and_has_a_level() -> None:
    for line in run("doctor").stdout.splitlines()[1:-1]:
        assert re.match(r"(ok|note|warn|fail|    )  ", line), line
        assert len(line) <= 100 or line.lstrip().startswith("change: "), line


def test_open_files() -> None:
    checks, done = look(preexec_fn=limited(resource.RLIMIT_NOFILE, 256, 256))
    check = checks["open_files"]
    assert (check["level"], check["facts"]["soft"], check["facts"]["hard"]) == ("warn", 256, 256)
    assert check["facts"]["left"] == 256 - check["facts"]["used"]
    assert (
        f"about {check['facts']['left']} tensors" in check["limits"] and "64 MiB" in check["limits"]
    )
    assert check["change"] == "sudo prlimit --pid $$ --nofile=65536:65536"
    assert done.returncode >= 1
    # If the hard limit allows the change, the shell can make it.
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 65536:
        checks, _ = look(preexec_fn=limited(resource.RLIMIT_NOFILE, 256))
        assert checks["open_files"]["change"] == "ulimit -n 65536"
    assert look(preexec_fn=limited(resource.RLIMIT_NOFILE, 12))[0]["open_files"]["level"] == "fail"
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] >= 4096:
        assert (
            look(preexec_fn=limited(resource.RLIMIT_NOFILE, 4096))[0]["open_files"]["level"] == "ok"
        )


def test_fds_in_use_are_counted() -> None:
    few = look()[0]["open_files"]["facts"]["used"]
    pairs = [os.pipe() for _ in range(5)]
    fds = [fd for pair in pairs for fd in pair]
    assert look(pass_fds=fds)[0]["open_files"]["facts"]["used"] == few + 10
    for fd in fds:
        os.close(fd)


def test_file_size_and_address_space() -> None:
    checks, _ = look(preexec_fn=limited(resource.RLIMIT_FSIZE, 1 << 20))
    assert (checks["file_size"]["level"], checks["file_size"]["facts"]["soft"]) == ("warn", 1 << 20)
    assert checks["seals"]["level"] == "ok"
    # With no room for the smallest memory file, the doctor must survive and report every problem.
    checks, done = look(preexec_fn=limited(resource.RLIMIT_FSIZE, 0))
    assert (
        checks["file_size"]["level"]
        == checks["memfd"]["level"]
        == checks["seals"]["level"]
        == "fail"
    )
    assert done.returncode == 2
    checks, _ = look(preexec_fn=limited(resource.RLIMIT_AS, 256 << 20))
    assert checks["address_space"]["level"] == "warn"
    assert "at most 4 segments" in checks["address_space"]["limits"]


def test_memory_cgroup() -> None:
    """The doctor names the limit that an allocation would meet, if that is tighter than the
    machine's memory.
    """
    checks, _ = look()
    available = checks["memory"]["facts"]["available_nbytes"]
    assert 0 < available <= checks["memory"]["facts"]["total_nbytes"]
    left = checks["memory_cgroup"]["facts"]["left_nbytes"]
    assert left is None or left <= available
    if os.getuid() != 0:
        return
    found = re.search(r"^\d+:memory:(.*)$", Path("/proc/self/cgroup").read_text(), re.M)
    root = Path("/sys/fs/cgroup/memory")
    if found is None or not (root / "memory.limit_in_bytes").exists():
        pytest.skip("no memory cgroup of version 1 here")
    ours = Path(tempfile.mkdtemp(prefix="cli-test-", dir=root))
    try:
        (ours / "memory.limit_in_bytes").write_text(str(128 << 20))
        checks, _ = look(preexec_fn=lambda: (ours / "cgroup.procs").write_text(str(os.getpid())))
        assert checks["memory_cgroup"]["facts"]["limit"] == f"memory cgroup {ours}"
        assert 0 < checks["memory_cgroup"]["facts"]["left_nbytes"] <= 128 << 20
        assert checks["memory_cgroup"]["level"] == "warn"
    finally:
        ours.rmdir()


def test_it_leaves_nothing(directory: str) -> None:
    checks, _ = look(directory)
    assert os.listdir(directory) == []
    assert checks["named_files"]["facts"] == {
        "nameless": True,
        "reserve": True,
        "flock": True,
        "lease": True,
        "lease_sees_mapping": True,
    }
    assert checks["directory"]["facts"]["path"] == directory
    assert checks["directory"]["facts"]["file_system"] == "tmpfs"


def test_seals_and_kernel() -> None:
    checks, _ = look()
    assert checks["seals"]["facts"] == {"size": True, "future_write": True, "write": True}
    assert checks["memfd"]["facts"]["works"] is True
    assert checks["safe_copies"]["facts"]["works"] is True
    for space, name in [("pid", "pid"), ("mnt", "mnt"), ("ipc", "ipc"), ("user", "user")]:
        assert (
            checks["namespaces"]["facts"][space]["inode"] == os.stat(f"/proc/self/ns/{name}").st_ino
        )
    somaxconn = Path("/proc/sys/net/core/somaxconn")
    if somaxconn.exists():
        assert checks["backlog"]["facts"]["somaxconn"] == int(somaxconn.read_text())


def test_names_are_counted(directory: str, hold: Callable[..., Holder]) -> None:
    alive = [hold("file", 4096), hold("socket", 4096)]
    dead = [hold("file", 4096), hold("socket", 4096)]
    # A live process of Tenon removes the names that a killed one leaves. A stopped process does
    # not.
    for holder in alive:
        holder.stop()
    for holder in dead:
        holder.stop()
    for holder in dead:
        holder.kill()
    checks, _ = look(directory)
    facts = checks["names"]["facts"]
    assert (facts["live"], facts["dead"]) == (2, 2)
    assert facts["dead_nbytes"] == 8192
    assert checks["names"]["level"] == "note"
    assert checks["names"]["change"] == f"tenon gc --torch --yes {directory}"


def test_directories_that_do_not_do(directory: str, tmp_path: Path) -> None:
    checks, done = look(f"{directory}/none")
    assert (checks["directory"]["level"], done.returncode) == ("fail", 2)
    assert "names" not in checks
    (tmp_path / "file").touch()
    assert look(tmp_path / "file")[0]["directory"]["level"] == "fail"
    os.symlink(directory, tmp_path / "link")
    assert look(tmp_path / "link")[0]["directory"]["level"] == "fail"
    # The directory may be a relative path, or have a slash at its end.
    assert look(".", cwd=directory)[0]["directory"]["facts"]["path"] == directory
    assert look(directory + "/")[0]["directory"]["facts"]["path"] == directory


def test_a_directory_of_another_user(directory: str) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root, to be somebody else")
    os.chmod(directory, 0o755)
    checks, done = look(directory, user=NOBODY, group=NOBODY, extra_groups=[])
    assert (checks["directory"]["level"], checks["named_files"]["level"], done.returncode) == (
        "fail",
        "fail",
        2,
    )
    assert f"user {NOBODY}" in checks["directory"]["limits"]


def test_small_full_and_read_only_shared_memory(private_shm: Callable[..., PrivateShm]) -> None:
    small = private_shm("mount -t tmpfs -o mode=1777,size=1m tmpfs /dev/shm")
    checks, done = look(prefix=small.enter)
    assert (checks["directory"]["level"], checks["directory"]["facts"]["total_nbytes"]) == (
        "warn",
        1 << 20,
    )
    assert (
        "size=1024k" in checks["directory"]["value"] and "remount" in checks["directory"]["change"]
    )
    assert done.returncode >= 1
    full = private_shm(
        "mount -t tmpfs -o mode=1777,size=1m tmpfs /dev/shm && head -c 1048576 /dev/zero >"
        " /dev/shm/fill"
    )
    checks, _ = look(prefix=full.enter)
    assert (checks["directory"]["level"], checks["directory"]["facts"]["free_nbytes"]) == (
        "warn",
        0,
    )
    # A full directory still has the ability.
    assert (
        checks["named_files"]["facts"]["reserve"] is None and checks["named_files"]["level"] == "ok"
    )
    closed = private_shm("mount -t tmpfs -o ro tmpfs /dev/shm")
    checks, done = look(prefix=closed.enter)
    assert (checks["directory"]["level"], done.returncode) == ("fail", 2)
    assert "remount,rw" in checks["directory"]["change"]


def test_other_settings(private_shm: Callable[..., PrivateShm], tmp_path: Path) -> None:
    """The kernel's settings belong to the machine, so this test lays its own files over them."""
    tmp_path.chmod(0o755)
    lines = []
    for name, value in {
        "vm/max_map_count": "1000",
        "net/core/somaxconn": "16",
        "fs/inotify/max_user_instances": "10",
        "user/max_user_namespaces": "0",
    }.items():
        over = tmp_path / name.replace("/", ".")
        over.write_text(value + "\n")
        lines.append(f"mount --bind {over} /proc/sys/{name}")
    space = private_shm(" && ".join(lines))
    checks, _ = look(prefix=space.enter)
    assert checks["mappings"]["level"] == "warn"
    assert checks["mappings"]["change"] == "sudo sysctl vm.max_map_count=1048576"
    assert checks["mappings"]["facts"]["left"] == 1000 - checks["mappings"]["facts"]["used"]
    for name, change in [
        ("backlog", "net.core.somaxconn"),
        ("inotify", "fs.inotify.max_user_instances"),
        ("user_namespaces", "user.max_user_namespaces"),
    ]:
        assert checks[name]["level"] == "note"
        assert checks[name]["change"].startswith(f"sudo sysctl {change}=")


def test_remove_ipc(private_shm: Callable[..., PrivateShm], tmp_path: Path) -> None:
    """systemd's files are imitated, and the user is not a system user."""
    if os.getuid() != 0:
        pytest.skip("needs root, to lay files over /etc and /run and to be somebody else")
    tmp_path.chmod(0o755)
    for path in ("run/systemd/system", "run/systemd/seats", "etc/systemd/logind.conf.d"):
        (tmp_path / path).mkdir(parents=True)
    conf = tmp_path / "etc/systemd/logind.conf"
    conf.write_text("[Login]\n#RemoveIPC=no\n")
    for parent in tmp_path.parents:
        if not os.access(parent, os.X_OK):
            pytest.skip("the temporary folder is closed to others")
    space = private_shm(
        f"mkdir -p /etc/systemd && mount --bind {tmp_path}/etc/systemd /etc/systemd && mount --bind"
        f" {tmp_path}/run /run"
    )

    def ask(user: int) -> dict[str, Any]:
        switch = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        return look(prefix=[*space.enter, *switch])[0]["session_end"]  # type: ignore[no-any-return]

    assert (ask(1234)["level"], ask(1234)["facts"]["remove_ipc_file"]) == ("note", None)
    conf.write_text("[Login]\nRemoveIPC=yes\n")
    assert (ask(1234)["level"], ask(1234)["change"]) == (
        "warn",
        "sudo loginctl enable-linger $USER",
    )
    assert ask(999)["level"] == "ok"
    (conf.parent / "logind.conf.d" / "50-keep.conf").write_text("[Login]\nRemoveIPC=no\n")
    assert (ask(1234)["level"], ask(1234)["facts"]["remove_ipc"]) == ("ok", False)


def test_without_proc(private_shm: Callable[..., PrivateShm]) -> None:
    space = private_shm("mount -t tmpfs tmpfs /proc")
    checks, done = look(prefix=space.enter)
    assert (checks["proc"]["level"], done.returncode) == ("fail", 2)
    for name in ("mappings", "memory", "memory_cgroup", "proc", "namespaces"):
        assert "cannot be read" in checks[name]["value"], name
    assert "unknown number in use" in checks["open_files"]["value"]
    assert checks["seals"]["facts"]["size"] is True


def test_in_namespaces_of_its_own() -> None:
    own_user = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    prefix = ["unshare", *own_user, "--pid", "--fork", "--ipc", "--mount-proc"]
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no namespaces here")
    checks, _ = look(prefix=prefix)
    facts = checks["namespaces"]["facts"]
    assert checks["namespaces"]["level"] == "note"
    for name in ("pid", "ipc", "mnt"):
        assert facts[name]["initial"] is False, name
    assert "pid: pids and /proc/<pid>/fd" in checks["namespaces"]["limits"]


def test_the_manager(tmp_path: Path) -> None:
    program = os.environ.get("TENON_TEST_MANAGER")
    if program is None or not os.access(program, os.X_OK):
        pytest.skip("tenon-manager is not built")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        environment = {"TENON_MANAGER_FOLDER": f"{folder}/manager"}
        path = f"{folder}/manager/manager.sock"
        checks, _ = look(env=environment)
        assert checks["manager"]["facts"] == {"socket": path, "running": False, "pid": None}
        started = subprocess.run(
            [program, "--socket", path, "--own-folder"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert started.stdout.strip() == path
        checks, _ = look(env=environment)
        assert checks["manager"]["facts"]["running"] is True
        assert path in checks["manager"]["value"]
        # The manager's last client is gone, so the manager ends by itself.
        wait_until(lambda: os.listdir(folder) == [], "the manager does not end")


def test_cuda(tmp_path: Path) -> None:
    """The doctor tells what this machine has. If the fake driver was built, the doctor also looks
    at a driver with a device and at one without.
    """
    check = look()[0]["cuda"]
    assert check["level"] == ("ok" if check["facts"]["available"] else "note")
    driver = Path(os.environ.get("TENON_BUILD_DIR", "")) / "tests/support/fake_cuda/driver-13"
    if not (driver / "libcuda.so.1").exists():
        assert "CUDA" in check["value"]
        pytest.skip("tests/support/fake_cuda was not built")
    environment = {"LD_LIBRARY_PATH": str(driver), "FAKE_CUDA_WORLD": str(tmp_path)}
    check = look(env=environment)[0]["cuda"]
    assert (check["level"], check["value"], check["facts"]) == (
        "ok",
        "can be used",
        {"available": True},
    )
    check = look(env={**environment, "CUDA_VISIBLE_DEVICES": ""})[0]["cuda"]
    assert check["level"] == "note" and "CUDA_ERROR_NO_DEVICE" in check["value"]
    assert check["facts"]["available"] is False and check["facts"]["cuda_error"] == "100"
