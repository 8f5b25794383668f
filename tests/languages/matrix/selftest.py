"""Proves that the matrix can fail: each program has one fault, which the driver must notice and
name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent

# A Python peer that some code has changed: (what the report must contain, the code). `old` calls
# the original method.
WRAP = """
def wrap(name, before=lambda *words: None, after=lambda answer: answer):
    old = getattr(Peer, name)
    def new(self, *words):
        before(*words)
        return after(old(self, *words))
    setattr(Peer, name, new)
"""
# On CUDA: these functions imitate a wrapper that loses a field of a handle when it opens or shares.
OPENS_WITHOUT = """
import tenon
def without(handle, **fields):
    same = {name: getattr(handle, name) for name in handle.__slots__}
    return tenon.CudaHandle(**(same | (fields if handle.memory else {})))
def opens_without(**fields):
    old = tenon.open_cuda
    tenon.open_cuda = lambda handle, **options: old(without(handle, **fields), **options)
def shares_without(**fields):
    old = tenon.Storage.share_cuda
    tenon.Storage.share_cuda = lambda self, **options: without(old(self, **options), **fields)
"""
FAULTS: dict[str, tuple[str, str]] = {
    "nothing": ("", ""),
    "other_bytes_arrive": (
        "consume: what was lent differs from byte 0",
        (
            "if role == 'consume': wrap('content', after=lambda data: bytes(byte ^ 1 for byte in"
            " data))"
        ),
    ),
    "writes_do_not_arrive": (
        "what bad consume wrote differs",
        "if role == 'consume': Peer.do_write = lambda self, key, seed: ''",
    ),
    "says_another_shape": (
        "what open says",
        "wrap('do_open', after=lambda answer: answer.replace('4,5', '5,4'))",
    ),
    "an_fd_is_lost": (
        "bad consume is not as before: fds: +",
        "wrap('do_open', lambda *words: os.dup(0))",
    ),
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
    if role == "consume" and not hasattr(self.kept[key], "composite"):
        kept.append(self.kept[key].tensor.storage)
    return old(self, key)
Peer.do_drop = do_drop
""",
    ),
    "a_composite_is_kept": (
        "bad consume still holds",
        """
kept = []
old = Peer.do_receive
def do_receive(self, number, *keys):
    said = old(self, number, *keys)
    kept.extend(self.kept[key].composite.parts for key in keys)
    return said
Peer.do_receive = do_receive
""",
    ),
    "a_composite_loses_its_axis": (
        "composite quantized per channel: bad to bad: bad consume: axis is '0', not '1'",
        (
            "wrap('do_composite', after=lambda said: ' '.join([*said.split()[:8], '0',"
            " *said.split()[9:]]))"
        ),
    ),
    "two_parts_change_places": (
        "composite nested: bad to bad: bad consume: component_sizes is",
        """
def swapped(said):
    one, other, between = "component_sizes=", "component_strides=", "component_between="
    return said.replace(one, between).replace(other, one).replace(between, other)
if role == "consume": wrap('do_composite', after=swapped)
""",
    ),
    "no_index_is_checked": (
        "composite with a wrong index: bad to bad: bad consume: check gives [] and not CORRUPT",
        "Peer.do_check = lambda self, key: ''",
    ),
    "an_object_shares_no_storage": (
        "object: bad to bad: bad consume: storage of node ",
        """
import tenon
old = tenon.Connection.recv_object
def recv_object(self, **options):
    value = old(self, **options)
    if role == "consume" and 7 in value: value[7] = tenon.from_numpy(value[7].numpy().copy())
    return value
tenon.Connection.recv_object = recv_object
""",
    ),
    "a_name_is_left": (
        "names are left",
        (
            "wrap('do_lend', lambda *words:"
            " tempfile.mkstemp(prefix=os.environ['TENON_MATRIX_PREFIX'], dir='/dev/shm'))"
        ),
    ),
    "a_process_is_left": (
        "bad consume is not as before: children: +",
        (
            "wrap('do_open', lambda *words: subprocess.Popen(['sleep', '600'],"
            " stdout=subprocess.DEVNULL))"
        ),
    ),
    "read_only_is_writable": (
        "gives [] and not PERMISSION",
        """
old = Peer.do_write
def do_write(self, key, seed):
    return "" if self.kept[key].tensor.read_only else old(self, key, seed)
Peer.do_write = do_write
""",
    ),
    "an_error_without_text": (
        "bad consume answers 'error",
        """
old = Peer.answer
def answer(self, words):
    said = old(self, words)
    return " ".join(said.split()[:2]) if said.startswith("error") else said
Peer.answer = answer
""",
    ),
    "the_end_is_not_noticed": ("and not PEER_GONE", "Peer.do_wait = lambda self, number: ''"),
    "the_end_is_disorderly": ("ended with 3", "atexit.register(lambda: os._exit(3))"),
    "a_program_dies": (
        "bad consume ended with -6",
        "if role == 'consume': wrap('do_read', lambda *words: os.abort())",
    ),
    "no_reason": (
        "bad consume answers 'skip",
        "def do_fork(self, key): raise server.Skip('')\nPeer.do_fork = do_fork",
    ),
}
ON_CUDA: dict[str, tuple[str, str]] = {
    "nothing": ("", ""),
    "no_memory": ("has bytes and no memory handle", "opens_without(memory=b'')"),
    "no_uuid": ("on CUDA device 2, and the handle says 1", "opens_without(uuid=None)"),
    "no_uuid_and_no_device": (
        "on CUDA device 2, and the handle says 0",
        "opens_without(uuid=None, device=0)",
    ),
    "no_nbytes": (", and the storage has 0: ", "opens_without(nbytes=0)"),
    "no_offset": ("what bad consume wrote differs from byte 0", "opens_without(offset=0)"),
    "no_counter": ("bad consume has not let go by the counter", "opens_without(counter='')"),
    "no_slot": ("bad consume has not let go by the counter", "opens_without(slot=0)"),
    "no_event": ("opening the IPC handle of a CUDA event", "opens_without(event=bytes(64))"),
    # The stream is so slow that no process can be slower.
    "no_event_required": (
        "cuda_handle: bad to bad: bad consume: what was lent differs from byte 0",
        """
os.environ["FAKE_CUDA_LATENCY"] = "stream=500000" if role != "consume" else ""
def lend(key, strategy, *words):
    if strategy == "cuda": raise server.Refused("OTHER", "what is slow and right is left out")
wrap("do_lend", lend)
opens_without(event_required=False)
""",
    ),
    "no_fds": ("cuda_fd: bad to bad: bad consume: INVALID_ARGUMENT", "opens_without(fds=())"),
    "lends_no_transport": ("transport is 'none', not 'fd'", "shares_without(transport='none')"),
    "lends_no_device": ("device is '0', not '1'", "shares_without(device=0)"),
    "lends_no_uuid": ("bytes of the UUID is 1, not 32", "shares_without(uuid=None)"),
    "lends_no_nbytes": ("nbytes is '0', not '24'", "shares_without(nbytes=0)"),
    "lends_no_offset": ("what bad consume wrote differs from byte 0", "shares_without(offset=0)"),
    "lends_no_counter": ("counter is '-'", "shares_without(counter='')"),
    "lends_no_slot": ("the counter of what is lent (", "shares_without(slot=0)"),
    "lends_no_event": ("opening the IPC handle of a CUDA event", "shares_without(event=bytes(64))"),
    "lends_no_event_required": (
        "event_required is '0', not '1'",
        "shares_without(event_required=False)",
    ),
    "lends_no_memory": ("has bytes and no memory handle", "shares_without(memory=b'')"),
    "lends_no_fds": ("fds is '0', not '1'", "shares_without(fds=())"),
    "what_is_opened_is_kept": (
        "bad produce waits for device memory, beside what is lost",
        "if role == 'consume': Peer.do_drop = lambda self, key: ''",
    ),
}


def noticed(name: str, wanted: str, fault: str, on_cuda: bool) -> bool:
    build = Path(os.environ["TENON_BUILD_DIR"])
    with tempfile.TemporaryDirectory() as folder:
        matrix = Path(folder, "matrix")
        matrix.mkdir()
        for each in ("tenon-manager", "tests"):
            Path(folder, each).symlink_to(build / each)
        program = Path(folder, "peer.py")
        modules = "import atexit, ctypes, os, subprocess, sys, tempfile"
        places = f"sys.path[:0] = {[str(HERE / 'python'), str(HERE)]!r}"
        spoilt = f"{OPENS_WITHOUT if on_cuda else ''}{fault}"
        program.write_text(
            f"{modules}\n{places}\nrole = sys.argv[1]\nimport server\nfrom peer import"
            f" Peer\n{WRAP}{spoilt}\nPeer().serve()\n"
        )
        python = [sys.executable, "-B", str(program)]
        (matrix / "bad.json").write_text(
            json.dumps({"produce": [*python, "produce"], "consume": [*python, "consume"]})
        )
        done = subprocess.run(
            [
                sys.executable,
                "-B",
                str(HERE / "matrix.py"),
                *(["--cuda"] if on_cuda else []),
                "bad",
            ],
            env={
                **os.environ,
                "TENON_BUILD_DIR": folder,
                "TENON_MATRIX_PATIENCE": "0.2" if wanted else "20",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=120,
        )
        report = matrix / ("cuda" if on_cuda else "")
        good = (
            done.returncode == 0 if not wanted else done.returncode == 1 and wanted in done.stdout
        )
        good = good and (report / "report.json").exists() and (report / "report.md").exists()
    print(f"{'ok' if good else 'FAIL'} {name}{' (cuda)' if on_cuda else ''}", flush=True)
    if not good:
        print(
            f"exit code {done.returncode}, expected"
            f" {wanted or 'success'!r}\n{textwrap.indent(done.stdout[-3000:], '  ')}"
        )
    return good


def main() -> None:
    on_cuda = "--cuda" in sys.argv
    faults = ON_CUDA if on_cuda else FAULTS
    # Two runs go side by side. Each has folders and names of its own, and mostly waits.
    with ThreadPoolExecutor(2) as pool:
        good = list(pool.map(lambda fault: noticed(fault[0], *fault[1], on_cuda), faults.items()))
    sys.exit(not all(good))


if __name__ == "__main__":
    main()
