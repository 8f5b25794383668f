"""A process is killed while it holds a name. The name is removed without a call by anybody."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import tenon

if len(sys.argv) == 2:  # the maker
    tensor = tenon.zeros((1000,), "float32", filename=tenon.Filename(sys.argv[1]))
    print("made", flush=True)
    signal.pause()
else:
    name = f"batch-{os.getpid()}"
    watcher = tenon.zeros((1,), "float32", filename=tenon.Filename())  # has a name: it watches
    maker = subprocess.Popen([sys.executable, __file__, name], stdout=subprocess.PIPE)
    assert maker.stdout is not None
    maker.stdout.readline()
    maker.kill()
    maker.wait()
    deadline = time.monotonic() + 10
    while Path("/dev/shm", name).exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    print(Path("/dev/shm", name).exists())  # prints: False
    found = tenon.sweep(dry_run=True)  # what `tenon gc` does: it counts, and removes nothing
    print(found.live > 0)  # prints: True
