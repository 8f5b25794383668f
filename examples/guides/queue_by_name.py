"""Tensors go through a queue by name: no file descriptor, no thread and no keeper process."""

import multiprocessing

import tenon
import tenon.multiprocessing


def produce(queue: "multiprocessing.Queue[tenon.Tensor]") -> None:
    tenon.multiprocessing.set_sharing_strategy("file_system")  # before the tensors are made
    tensor = tenon.empty((1000,), "float32")
    tensor.numpy()[...] = 42
    queue.put(tensor)


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue: "multiprocessing.Queue[tenon.Tensor]" = context.Queue()
    producer = context.Process(target=produce, args=(queue,))
    producer.start()
    producer.join()
    tensor = queue.get()  # a receiver needs no strategy: it takes both kinds
    print(tensor.numpy()[0], tensor.storage.is_sealed)  # prints: 42.0 False
