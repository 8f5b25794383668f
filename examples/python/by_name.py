"""Two processes share nothing but a name: one process makes a tensor under the name, and the other
one opens it.
"""

import subprocess
import sys

import tenon

NBYTES = 1000 * 4


def borrow(name: str) -> None:
    storage = tenon.open_filename(
        name, NBYTES, allow_unsealed=True
    )  # a process that has the file open could cut it short
    tensor = tenon.Tensor.over(storage, (1000,), "float32")
    print("the borrower sees", tensor.numpy()[0], flush=True)
    tensor.numpy()[0] = 42


if len(sys.argv) == 2:
    borrow(sys.argv[1])
else:
    # If the other process cannot be told the name, choose one: tenon.Filename("weights").
    tensor = tenon.zeros((1000,), "float32", filename=tenon.Filename(prefix="tenon-example-"))
    tensor.numpy()[0] = 21
    handle = tensor.storage.share_filename()
    subprocess.run([sys.executable, __file__, handle.name], check=True)
    print(
        "the lender has", tensor.numpy()[0]
    )  # the file goes with its last holder, even if that is killed
