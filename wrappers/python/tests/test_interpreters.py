"""Several interpreters in one process, as under mod_wsgi.

Each interpreter imports tenon and does not touch the types and errors of the other ones.
"""

from __future__ import annotations

import subprocess
import sys

# The program of the second interpreter. NumPy does not support a second one, so neither program
# uses NumPy.
SECOND = """
import sys
sys.path[:] = {path!r}
import tenon

connection = tenon.Connection({fd}, adopt=True)
got = connection.recv_object(timeout=60)
assert type(got["rows"]) is tenon.Tensor and got["rows"].storage == got["row"].storage
memoryview(got["rows"])[0, 0] = 7
private = bytearray(8)
wrapped = tenon.Storage.wrap(private)
try:
    connection.send_object([print])
    connection.recv_object(allow=[], timeout=60)
except tenon.PermissionDenied as error:
    assert "builtins.print" in str(error)
    connection.send_object(got["row"])
"""

# The program of the first interpreter. It finds the other program in SECOND.
FIRST = """
import socket, sys
from functools import partial
import tenon
import tenon.pickle

if sys.version_info >= (3, 13):
    import _interpreters as interpreters
    create = partial(interpreters.create, "legacy")
else:
    import _xxsubinterpreters as interpreters
    create = partial(interpreters.create, isolated=False)

def run(program):
    number = create()
    failed = interpreters.run_string(number, program)
    interpreters.destroy(number)
    assert failed is None, failed

rows = tenon.zeros((2, 3), "float32")
for _ in range(3):
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    memoryview(rows)[0, 0] = 0
    with tenon.Connection(ours, adopt=True) as connection:
        connection.send_object({"rows": rows, "row": rows[0]})
        connection.send_object([print])
        run(SECOND.format(path=sys.path, fd=theirs.detach()))
        assert connection.recv_object(allow=[print], timeout=60) == [print]
        back = connection.recv_object(timeout=60)
        assert type(back) is tenon.Tensor and back.storage.same_memory(rows.storage)
        assert memoryview(back).tolist()[0] == 7 == memoryview(rows)[0, 0]
        # If the second interpreter had replaced the types, errors or deleters of the first one, the
        # calls from here on would fail.
        try:
            connection.recv_object(timeout=60)
        except tenon.PeerGone:
            pass
        else:
            raise AssertionError("received")
    assert tenon.pickle.loads(*tenon.pickle.dumps(rows)).storage == rows.storage
    wrapped = bytearray(8)
    tenon.Storage.wrap(wrapped).close()
    wrapped.append(0)  # BufferError: the library still has its buffer

print("ok")
"""


def test_another_interpreter_imports_tenon() -> None:
    program = f"SECOND = {SECOND!r}\n{FIRST}"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
