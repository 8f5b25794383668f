"""A producer ends before its tensors are read. A keeper process stays until they are."""

import multiprocessing

import tenon
import tenon.multiprocessing


def produce(queue: "multiprocessing.Queue[tenon.Tensor]") -> None:
    tenon.multiprocessing.configure(keep_seconds=10)  # 60 if you do not say
    for number in range(3):
        tensor = tenon.empty((1000,), "float32")
        tensor.numpy()[...] = number
        queue.put(tensor)


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue: "multiprocessing.Queue[tenon.Tensor]" = context.Queue()
    producer = context.Process(target=produce, args=(queue,))
    producer.start()
    producer.join()
    print([queue.get().numpy()[0].item() for _ in range(3)])  # prints: [0.0, 1.0, 2.0]
