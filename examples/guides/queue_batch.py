"""A batch of named tensors goes through a queue. Both processes see the same bytes."""

import multiprocessing

import numpy
import tenon

Batch = dict[str, tenon.Tensor]


def train(batches: "multiprocessing.Queue[Batch]", done: "multiprocessing.Queue[str]") -> None:
    batch = batches.get()
    images = batch["images"].numpy()
    images *= 2
    done.put(f"{images.dtype} {images.shape}, the mean is {images.mean()}")


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    batches: "multiprocessing.Queue[Batch]" = context.Queue()
    done: "multiprocessing.Queue[str]" = context.Queue()
    worker = context.Process(target=train, args=(batches, done))
    worker.start()
    images = tenon.empty((32, 3, 64, 64), "float32")
    images.numpy()[...] = 21
    labels = tenon.from_numpy(numpy.arange(32))
    batches.put({"images": images, "labels": labels})
    print(done.get())  # prints: float32 (32, 3, 64, 64), the mean is 42.0
    print(images.numpy().mean())  # prints: 42.0
    worker.join()
