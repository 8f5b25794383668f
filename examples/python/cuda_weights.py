"""Lends weights on a GPU to another process, as a trainer does for its workers. usage:
cuda_weights.py FILE...

The lender reads an archive into device memory, and lends the tensors over a connection. Then it
does the same with the next archive. The worker uses the tensors in place, without a copy. Without
CUDA the program says why, and exits with 77, as a skipped test does.
"""

import io
import multiprocessing
import socket
import sys

import tenon


def sum_of(tensor: tenon.Tensor) -> float:
    """The host cannot read device memory, so the elements travel through an archive."""
    module = tenon.Module("Weight")
    module.add_buffer("weight", tensor)
    archive = io.BytesIO()
    tenon.export_module(module, archive)
    return float(tenon.import_module(archive)["weight"].numpy().sum())


def work(end: socket.socket) -> None:
    lender = tenon.Connection(end)
    try:
        while True:
            weights = lender.recv()  # the old weights go back to the lender
            print(f"{weights.user_bytes.decode()}:")
            for name, tensor in weights.items():
                print(
                    f"  {name}: {tensor.dtype} {list(tensor.shape)} on {tensor.device}, the sum is"
                    f" {sum_of(tensor)}"
                )
            # PyTorch gets the weights without a copy too, and its model computes with them:
            #   state = {name: tenon.torch.to_torch(tensor) for name, tensor in weights.items()}
            #   model.load_state_dict(state, assign=True)
    except tenon.PeerGone:
        pass


def lend(worker: tenon.Connection, file: str) -> None:
    model = tenon.import_module(file, tensors="device")
    weights = {
        name: each for name, each in model.tensors().items() if isinstance(each, tenon.Tensor)
    }
    worker.send(weights, user_bytes=file.encode())


def main(files: list[str]) -> int:
    if not files:
        sys.exit("usage: cuda_weights.py FILE...")
    try:
        tenon.require_cuda()
    except tenon.Unsupported as error:
        print("cuda_weights:", error, file=sys.stderr)
        return 77
    ours, theirs = socket.socketpair()
    # The worker is not forked: CUDA's driver does not work in a child of a process that has used
    # it.
    worker = multiprocessing.get_context("spawn").Process(target=work, args=(theirs,))
    worker.start()
    theirs.close()
    with tenon.Connection(ours, adopt=True) as connection:
        for file in files:
            lend(connection, file)
    worker.join()  # the lent memory exists as long as this process
    print(tenon.cuda_collect(), "storages are still lent")
    return int(worker.exitcode != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
