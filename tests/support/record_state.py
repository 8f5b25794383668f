"""Records the surroundings of a test that failed or hung: its processes, their stacks, and the
machine.

record.c starts this. A summary goes to stdout and everything to FOLDER/<test>.txt. Reasons:
  exit, signal  the test failed with that status. Its descendants are recorded, then killed.
  limit         the test ran longer than it may. The same is done.
  left          the test passed and left descendants. FOLDER/left.txt gets a line for each of them.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

GDB_SECONDS = 20
ALL_GDB_SECONDS = 80
# This program must end before CTest's own limit, whatever happens.
LIMIT_SECONDS = 110
# A process that is just ending does not count as left.
PATIENCE_SECONDS = 1.0
NAMES = re.compile(
    r"TENON_|FAKE_|GTEST_|.*SEED|.*SAN_OPTIONS|LD_|PYTHON|GO|RUST|CARGO|OMP_|TMPDIR|HOME|PATH|"
    r"LANG|LC_|CTEST"
)


class Process:
    def __init__(self, pid: int) -> None:
        self.pid = pid
        text = self.read("stat")
        words = text[text.rindex(")") + 2 :].split()
        self.state, self.parent, self.group, self.session = (
            words[0],
            int(words[1]),
            int(words[2]),
            int(words[3]),
        )

    def read(self, name: str, limit: int = 1 << 20) -> str:
        with open(f"/proc/{self.pid}/{name}", "rb") as file:
            return file.read(limit).decode(errors="replace")

    def try_read(self, name: str, limit: int = 1 << 20) -> str:
        try:
            return self.read(name, limit).strip("\0\n")
        except OSError as problem:
            return f"({problem.strerror})"

    def command(self) -> str:
        return self.try_read("cmdline", 4096).replace("\0", " ") or f"[{self.try_read('comm')}]"

    def line(self) -> str:
        threads = len(listing(f"/proc/{self.pid}/task"))
        where = f"{self.state} {threads} threads, in {self.try_read('wchan') or '?'}"
        return f"{self.pid} (parent {self.parent}) {where}: {self.command()[:100]}"


def listing(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path), key=lambda name: (len(name), name))
    except OSError:
        return []


def all_processes() -> list[Process]:
    found = []
    for name in listing("/proc"):
        if name.isdigit():
            # A process may end while this program looks at it.
            with contextlib.suppress(OSError, ValueError):
                found.append(Process(int(name)))
    return found


def descendants(child: int, marker: str) -> list[Process]:
    """The processes of the test. record.c says which marks identify them."""
    everything = [each for each in all_processes() if each.pid not in (os.getpid(), os.getppid())]
    mine = {
        each.pid
        for each in everything
        if child in (each.pid, each.group) or marker + "\0" in each.try_read("environ") + "\0"
    }
    while True:
        more = {
            each.pid for each in everything if each.parent in mine or each.session in mine
        } - mine
        if not more:
            return [each for each in everything if each.pid in mine and each.state != "Z"]
        mine |= more


def file_text(path: str, limit: int = 4000) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(limit).decode(errors="replace").rstrip()
    except OSError as problem:
        return f"({problem.strerror})"


def output(command: list[str], seconds: float) -> str:
    """The output of a program, also if the program had to be killed."""
    if shutil.which(command[0]) is None:
        return f"({command[0]} is not installed)"
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            text, end = process.communicate(timeout=seconds)[0], ""
        except subprocess.TimeoutExpired:
            process.kill()
            text, end = (
                process.communicate()[0],
                f"\n({command[0]} was killed after {seconds:.0f} s)",
            )
    return text.decode(errors="replace").rstrip() + end


def mappings(process: Process) -> str:
    sizes: dict[str, list[int]] = {}
    for line in process.try_read("maps").splitlines():
        words = line.split(maxsplit=5)
        with contextlib.suppress(ValueError):
            first, last = (int(word, 16) for word in words[0].split("-"))
            sizes.setdefault(words[5] if len(words) > 5 else "(anonymous)", []).append(last - first)
    lines = [f"{sum(map(len, sizes.values()))} mappings"]
    for name, each in sorted(sizes.items(), key=lambda item: -sum(item[1]))[:60]:
        lines.append(f"{sum(each) >> 10:12} KiB in {len(each):5} of {name}")
    return "\n".join(lines)


def descriptors(process: Process) -> str:
    lines = []
    sockets = {
        line.split()[6]: line
        for line in file_text("/proc/net/unix", 1 << 20).splitlines()[1:]
        if len(line.split()) > 6
    }
    for name in listing(f"/proc/{process.pid}/fd"):
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/{process.pid}/fd/{name}")
            inode = target.removeprefix("socket:[").rstrip("]")
            socket = sockets.get(inode, "") if target.startswith("socket:") else ""
            lines.append(f"{name:>5} -> {target}  {socket}")
    return "\n".join([f"{len(lines)} fds", *lines[:300]])


def threads(process: Process) -> str:
    lines = []
    for name in listing(f"/proc/{process.pid}/task")[:100]:

        def part(file: str, thread: str = f"task/{name}/") -> str:
            return process.try_read(thread + file)

        found = re.search(r"^State:\s*(\S+)", part("status"), re.M)
        state = found[1] if found else "?"
        call = part("syscall")
        lines.append(f"{name} {part('comm')}: {state} in {part('wchan')}, system call {call}")
        stack = part("stack")
        if not stack.startswith("("):
            lines += ["    " + line for line in stack.splitlines()]
    return "\n".join(lines)


class Report:
    """The test's file in FOLDER, and the summary on stdout."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path.open("w")
        self.summary: list[str] = []

    def say(self, text: str) -> None:
        self.summary.append(text)
        self.file.write(text + "\n")

    def section(self, title: str, text: str) -> None:
        self.file.write(f"\n=== {title}\n{text}\n")
        self.file.flush()


def record_processes(report: Report, processes: list[Process]) -> None:
    for each in processes:
        report.section(f"process {each.line()}", each.command())
        for name in ("status", "limits", "cgroup", "oom_score_adj"):
            report.section(f"{each.pid}: {name}", each.try_read(name))
        report.section(f"{each.pid}: threads", threads(each))
        report.section(f"{each.pid}: fds", descriptors(each))
        report.section(f"{each.pid}: mappings", mappings(each))


def record_stacks(report: Report, processes: list[Process]) -> None:
    # All processes are stopped first, so that none goes on while others are examined.
    for each in processes:
        with contextlib.suppress(OSError):
            os.kill(each.pid, signal.SIGSTOP)
    shown = 0
    end = time.monotonic() + ALL_GDB_SECONDS
    for each in processes:
        left = min(GDB_SECONDS, end - time.monotonic())
        if left < 1:
            report.section(
                f"{each.pid}: stacks", "(left out: the processes before took all the time)"
            )
            continue
        command = [
            "gdb",
            "-nx",
            "-batch",
            "-iex",
            "set debuginfod enabled off",
            "-iex",
            "set auto-load off",
            "-p",
            str(each.pid),
        ]
        text = output([*command, "-ex", "thread apply all bt 40"], left)
        report.section(f"{each.pid}: stacks", text)
        frames = [line for line in text.splitlines() if re.match(r"#\d+ |Thread \d+", line)]
        if shown < 24 and frames:
            some = frames[:8]
            shown += len(some) + 1
            report.summary.append(f"record: stacks of {each.pid}:")
            report.summary += ["  " + line[:160] for line in some]


def record_core(report: Report, child: int, seconds: float) -> None:
    for path in Path.cwd().glob("core*"):
        with contextlib.suppress(OSError):
            if (
                path.is_file()
                and path.name in ("core", f"core.{child}")
                and path.stat().st_mtime > time.time() - seconds - 5
            ):
                text = output(
                    ["gdb", "-nx", "-batch", "-ex", "thread apply all bt 40", "-c", str(path)],
                    GDB_SECONDS,
                )
                report.section(f"core file {path}", text)
                report.summary += [
                    "  " + line[:160] for line in text.splitlines() if line.startswith("#")
                ][:10]


def record_machine(report: Report, processes: list[Process]) -> None:
    memory = dict(
        re.findall(
            r"^(MemTotal|MemAvailable|Shmem|SwapFree|Committed_AS):\s*(\d+)",
            file_text("/proc/meminfo"),
            re.M,
        )
    )
    memory_text = ", ".join(f"{name} {int(number) >> 10} MiB" for name, number in memory.items())
    report.say(f"record: load {file_text('/proc/loadavg')}; {memory_text}")
    shm = os.statvfs("/dev/shm")
    names = listing("/dev/shm")
    report.say(
        f"record: /dev/shm has {len(names)} files,"
        f" {(shm.f_blocks - shm.f_bfree) * shm.f_frsize >> 20} of"
        f" {shm.f_blocks * shm.f_frsize >> 20} MiB used: {' '.join(names[:8])[:200]}"
    )
    lines = []
    for name in names[:200]:
        with contextlib.suppress(OSError):
            found = os.stat(f"/dev/shm/{name}")
            lines.append(
                f"{found.st_size:12} {found.st_blocks // 2:10} KiB uid {found.st_uid} {name}"
            )
    report.section("/dev/shm", "\n".join(lines))
    report.section("limits", file_text("/proc/self/limits"))
    report.section("memory", file_text("/proc/meminfo"))
    for name in ("cpu", "memory", "io"):
        report.section(f"pressure of {name}", file_text(f"/proc/pressure/{name}"))
    group = "/sys/fs/cgroup" + file_text("/proc/self/cgroup").splitlines()[-1].split(":")[
        -1
    ].rstrip("/")
    for name in (
        "memory.events",
        "memory.current",
        "memory.max",
        "pids.current",
        "pids.max",
        "pids.events",
        "cpu.stat",
    ):
        report.section(f"cgroup: {name}", file_text(f"{group}/{name}"))
    mine = {each.pid for each in processes}
    busy = [
        each.line()
        for each in all_processes()
        if each.state in "RD" and each.pid not in mine and each.pid != os.getpid()
    ]
    report.section("other processes that run or wait for a disk", "\n".join(busy))
    report.section("kernel's log", "\n".join(output(["dmesg"], 5).splitlines()[-30:]))


def record_environment(report: Report) -> None:
    own = Process(os.getppid()).try_read("environ").split("\0")
    chosen = sorted(each for each in own if NAMES.match(each))
    report.section("environment", "\n".join(chosen))
    seeds = [each for each in chosen if "SEED" in each.partition("=")[0]]
    if seeds:
        report.say("record: " + " ".join(seeds))


def kill_all(child: int, marker: str) -> None:
    for _ in range(20):
        found = descendants(child, marker)
        if not found:
            return
        for each in found:
            with contextlib.suppress(OSError):
                os.kill(each.pid, signal.SIGKILL)
        time.sleep(0.05)


def record_left(options: argparse.Namespace) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while found := descendants(options.child, options.marker):
        if time.monotonic() > end:
            lines = [f"{options.name} left {each.line()}\n" for each in found]
            sys.stdout.write("".join("record: " + line for line in lines))
            with (options.log_dir / "left.txt").open("a") as file:
                file.write("".join(lines))
            return
        time.sleep(0.02)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--log-dir", type=Path, required=True)
    parser.add_argument("--reason", choices=("exit", "signal", "limit", "left"), required=True)
    parser.add_argument("--status", type=int, required=True)
    parser.add_argument("--child", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--marker", required=True)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    signal.alarm(LIMIT_SECONDS)
    options.log_dir.mkdir(parents=True, exist_ok=True)
    if options.reason == "left":
        record_left(options)
        return

    processes = descendants(options.child, options.marker)
    try:
        report = Report(options.log_dir / (re.sub(r"[^\w.-]", "_", options.name) + ".txt"))
        how = "did not end within its limit and was killed"
        if options.reason == "exit":
            how = f"failed with exit status {options.status}"
        elif options.reason == "signal":
            how = f"was ended by {signal.strsignal(options.status)} (signal {options.status})"
        when = time.strftime("%Y-%m-%d %H:%M:%S")
        report.say(f"record: {options.name} {how} after {options.seconds:.1f} s, at {when}")
        report.section("command", " ".join(options.command))
        record_machine(report, processes)
        record_environment(report)
        report.say(f"record: {len(processes)} processes of the test were still there")
        for each in processes[:12]:
            report.say("  " + each.line())
        record_processes(report, processes)
        record_stacks(report, processes)
        if options.reason == "signal":
            record_core(report, options.child, options.seconds)
        report.file.close()
        print(
            "\n".join([*report.summary[:58], f"record: the whole record is in {report.path}"]),
            flush=True,
        )
    finally:
        kill_all(options.child, options.marker)


if __name__ == "__main__":
    main()
