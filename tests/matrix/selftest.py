"""The matrix can fail: programs with a fault each, which the driver must notice and name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

HERE = Path(__file__).parent

# A peer in Python that is spoilt by some code: (what the report must say of it, the code). `old` calls the method as it was.
WRAP = """
def wrap(name, before=lambda *words: None, after=lambda answer: answer):
    old = getattr(Peer, name)
    def new(self, *words):
        before(*words)
        return after(old(self, *words))
    setattr(Peer, name, new)
"""
FAULTS: dict[str, tuple[str, str]] = {
    "nothing": ("", ""),
    "other_bytes_arrive": (
        "consume: what was lent differs from byte 0",
        "if role == 'consume': wrap('content', after=lambda data: bytes(byte ^ 1 for byte in data))",
    ),
    "writes_do_not_arrive": ("what bad consume wrote differs", "if role == 'consume': Peer.do_write = lambda self, key, seed: ''"),
    "says_another_shape": ("what open says", "wrap('do_open', after=lambda answer: answer.replace('4,5', '5,4'))"),
    "an_fd_is_lost": ("bad consume is not as before: fds: +", "wrap('do_open', lambda *words: os.dup(0))"),
    "a_mapping_is_lost": (
        "bad produce is not as before: mappings: +",
        """
lost = []
def lose(*words):
    fd = os.memfd_create("lost")
    os.truncate(fd, 4096)
    # Python's mmap keeps an fd, which would give it away.
    libc = ctypes.CDLL(None)
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mmap(None, 4096, 1, 1, fd, 0)
    os.close(fd)
wrap("do_lend", lose)
""",
    ),
    "a_tensor_is_kept": (
        "bad consume still holds",
        """
kept = []
old = Peer.do_drop
def do_drop(self, key):
    if role == "consume": kept.append(self.kept[key].tensor.storage)
    return old(self, key)
Peer.do_drop = do_drop
""",
    ),
    "a_name_is_left": (
        "names are left",
        "wrap('do_lend', lambda *words: tempfile.mkstemp(prefix=os.environ['TENON_MATRIX_PREFIX'], dir='/dev/shm'))",
    ),
    "a_process_is_left": (
        "bad consume is not as before: children: +",
        "wrap('do_open', lambda *words: subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL))",
    ),
    "read_only_is_writable": (
        "gives [] and not PERMISSION",
        """
old = Peer.do_write
Peer.do_write = lambda self, key, seed: "" if self.kept[key].tensor.read_only else old(self, key, seed)
""",
    ),
    "an_error_without_text": (
        "bad consume answers 'error",
        "Peer.answer = lambda self, words, old=Peer.answer: ' '.join(old(self, words).split()[:2])",
    ),
    "the_end_is_not_noticed": ("and not PEER_GONE", "Peer.do_wait = lambda self, number: ''"),
    "the_end_is_disorderly": ("ended with 3", "atexit.register(lambda: os._exit(3))"),
    "a_program_dies": ("bad consume ended with -6", "if role == 'consume': wrap('do_read', lambda *words: os.abort())"),
    "no_reason": ("bad consume answers 'skip", "def do_fork(self, key): raise server.Skip('')\nPeer.do_fork = do_fork"),
}


def main() -> None:
    good = True
    build = Path(os.environ["TENON_BUILD_DIR"])
    for name, (wanted, fault) in FAULTS.items():
        with tempfile.TemporaryDirectory() as folder:
            matrix = Path(folder, "matrix")
            matrix.mkdir()
            Path(folder, "tenon-manager").symlink_to(build / "tenon-manager")
            program = Path(folder, "peer.py")
            modules = "import atexit, ctypes, os, subprocess, sys, tempfile"
            places = f"sys.path[:0] = {[str(HERE / 'python'), str(HERE)]!r}"
            source = f"{modules}\n{places}\nrole = sys.argv[1]\nimport server\nfrom peer import Peer\n{WRAP}"
            program.write_text(f"{source}{fault}\nPeer().serve()\n")
            python = [sys.executable, "-B", str(program)]
            (matrix / "bad.json").write_text(json.dumps({"produce": [*python, "produce"], "consume": [*python, "consume"]}))
            done = subprocess.run(
                [sys.executable, "-B", str(HERE / "matrix.py"), "bad"],
                env={**os.environ, "TENON_BUILD_DIR": folder, "TENON_MATRIX_PATIENCE": "0.2" if wanted else "20"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
                timeout=120,
            )
            noticed = done.returncode == 0 if not wanted else done.returncode == 1 and wanted in done.stdout
            report = (matrix / "report.json").exists() and (matrix / "report.md").exists()
            print(f"{'ok' if noticed and report else 'FAIL'} {name}", flush=True)
            if not noticed or not report:
                good = False
                print(f"exit code {done.returncode}, expected {wanted or 'success'!r}\n{textwrap.indent(done.stdout[-3000:], '  ')}")
    sys.exit(not good)


if __name__ == "__main__":
    main()
