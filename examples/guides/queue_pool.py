"""A pool fills tensors in place, and returns others that its workers made."""

import multiprocessing

import numpy
import tenon


def double(tensor: tenon.Tensor) -> tenon.Tensor:
    tensor.numpy()[...] *= 2
    return tensor


def decode(number: int) -> tenon.Tensor:
    image = tenon.empty((64, 64), "float32")
    image.numpy()[...] = number
    return image


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        tensors = [tenon.from_numpy(numpy.full(4, n, "float32")) for n in range(3)]
        results = pool.map(double, tensors)
        print(tensors[2].numpy())  # prints: [4. 4. 4. 4.]
        print(results[2].storage == tensors[2].storage)  # prints: True
        images = pool.map(decode, range(8))
    print([int(image.numpy()[0, 0]) for image in images])  # prints: [0, 1, 2, 3, 4, 5, 6, 7]
