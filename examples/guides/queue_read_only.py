"""A worker gets weights as an argument. It can read them, and the kernel refuses its writes."""

import multiprocessing

import tenon


def infer(weights: tenon.Tensor, answers: "multiprocessing.SimpleQueue[str]") -> None:
    try:
        weights.numpy()[0] = 1
    except ValueError as error:
        answers.put(str(error))


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    answers = context.SimpleQueue()
    weights = tenon.zeros((1000,), "float32", mode="lender_writes")
    worker = context.Process(target=infer, args=(weights, answers))
    worker.start()
    print(answers.get())  # prints: assignment destination is read-only
    worker.join()
