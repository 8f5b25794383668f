"""Tensors go through multiprocessing's own queues. A descriptor travels, and the bytes stay in
place.
"""

import multiprocessing

import tenon


def double(
    queue: "multiprocessing.Queue[tenon.Tensor]", done: "multiprocessing.SimpleQueue[str]"
) -> None:
    tensor = queue.get()
    tensor.numpy()[:] *= 2
    done.put("doubled")


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue, done = context.Queue(), context.SimpleQueue()
    child = context.Process(target=double, args=(queue, done))
    child.start()
    tensor = tenon.empty((1000,), "float32")
    tensor.numpy()[:] = 21
    queue.put(tensor)
    print(done.get(), "to", tensor.numpy()[0])
    child.join()
