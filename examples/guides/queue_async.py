"""Shows tasks of asyncio that wait for a tenon.Queue."""

import asyncio
import multiprocessing

import numpy
import tenon


def infer(requests: tenon.Queue, answers: tenon.Queue) -> None:
    while (request := requests.get()) is not None:
        number, image = request
        answers.put((number, float(image.numpy().mean())))


async def serve(requests: tenon.Queue, answers: tenon.Queue) -> None:
    async def receive() -> list[tuple[int, float]]:
        return [await answers.get_async() for _ in range(3)]

    receiver = asyncio.create_task(receive())
    for number in range(3):
        image = tenon.from_numpy(numpy.full((64, 64), number, "float32"))
        await requests.put_async((number, image))
    async with asyncio.timeout(60):
        print(await receiver)  # prints: [(0, 0.0), (1, 1.0), (2, 2.0)]
    requests.put_many([None])


if __name__ == "__main__":
    requests, answers = tenon.Queue(), tenon.Queue()
    context = multiprocessing.get_context("spawn")
    worker = context.Process(target=infer, args=(requests, answers))
    worker.start()
    asyncio.run(serve(requests, answers))
    worker.join()
