"""A tensor goes through a multiprocessing queue, and PyTorch computes with it in place."""

import multiprocessing

import tenon
import tenon.torch
import torch


def work(inputs: "multiprocessing.Queue[tenon.Tensor]", done: "multiprocessing.Queue[str]") -> None:
    weights: torch.Tensor = tenon.torch.to_torch(inputs.get())
    weights.mul_(2)
    done.put(f"the worker doubled a {type(weights).__name__} of {tuple(weights.shape)}")


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    inputs, done = context.Queue(), context.Queue()
    worker = context.Process(target=work, args=(inputs, done))
    worker.start()
    weights = tenon.empty((1000,), "float32")
    weights.numpy()[:] = 21
    inputs.put(weights)
    print(done.get(timeout=60))
    print("the parent reads", weights.numpy()[0])
    worker.join()
