"""Sealed memory under an unguessable name. The borrower can read it and cannot write it."""

import pickle
import subprocess
import sys

import tenon

if len(sys.argv) == 2:  # the borrower
    storage = tenon.open_filename(pickle.loads(bytes.fromhex(sys.argv[1])))
    tensor = tenon.Tensor.over(storage, (1000,), "float32")
    print(tensor.numpy()[0], tensor.read_only, storage.is_sealed, flush=True)
else:
    weights = tenon.zeros((1000,), "float32", mode="lender_writes")
    weights.numpy()[...] = 42
    handle = weights.storage.share_filename()  # a name, a size and an offset
    text = pickle.dumps(handle).hex()  # goes by any means: an argument, a file, a request
    subprocess.run([sys.executable, __file__, text], check=True)  # prints: 42.0 True True
    print(handle.name.startswith("/tenon-"), len(handle.name))  # prints: True 39
