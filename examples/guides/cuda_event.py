"""A stream of one process waits for a stream of another."""

import multiprocessing

import tenon


def follow(handle: bytes) -> None:
    event = tenon.CudaEvent.from_ipc_handle(handle)  # PyTorch's handles, too
    event.wait(None)  # the default stream goes on after the mark
    event.synchronize(timeout=60)  # the host waits
    print(event.query(), flush=True)  # prints: True


if __name__ == "__main__":
    tenon.require_cuda()
    event = tenon.CudaEvent(interprocess=True)
    event.record(None)  # marks what was given to the default stream until now
    context = multiprocessing.get_context("spawn")
    follower = context.Process(target=follow, args=(event.ipc_handle(),))
    follower.start()
    follower.join()  # the event stays until the others have released it
