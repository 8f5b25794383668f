"""One front end sends each step to four workers and reads their replies. Any worker may die: the
front end names it, and goes on with the others.
"""

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

import numpy
import tenon
from tenon.integrations.vllm import Handle, MessageQueue


def work(handle: Handle, rank: int, pipe: Connection) -> None:
    steps = MessageQueue.create_from_handle(handle, rank)
    replies = MessageQueue(1, 1)  # one reader, which is the front end
    pipe.send(replies.export_handle())
    steps.wait_until_ready()
    replies.wait_until_ready()
    while (step := steps.dequeue(indefinite=True)) is not None:
        replies.enqueue(step["tokens"] + rank)


class FrontEnd:
    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.steps = MessageQueue(count, count)
        self.workers, self.replies = {}, {}
        for rank in range(count):
            pipe, theirs = context.Pipe()
            process = context.Process(target=work, args=(self.steps.export_handle(), rank, theirs))
            process.start()
            self.workers[rank] = process
            self.replies[rank] = MessageQueue.create_from_handle(pipe.recv(), 0)
        self.steps.wait_until_ready()
        for queue in self.replies.values():
            queue.wait_until_ready()

    def send(self, step: Any) -> None:
        while True:
            try:
                self.steps.enqueue(step, timeout=60)
                return
            except tenon.PeerGone as error:  # nobody got the step
                self.bury(int(error.details["rank"]))

    def run(self, step: Any) -> dict[int, Any]:
        self.send(step)
        found = {}
        for rank, queue in list(self.replies.items()):
            try:
                found[rank] = queue.dequeue(timeout=60)
            except tenon.PeerGone:
                self.bury(rank)
        return found

    def bury(self, rank: int) -> None:
        if self.replies.pop(rank, None) is not None:
            print(f"worker {rank} has died")


if __name__ == "__main__":
    front_end = FrontEnd(4)
    tokens = numpy.arange(1_000_000)
    print(sorted(front_end.run({"tokens": tokens})))  # prints: [0, 1, 2, 3]
    for victim in (2, 0, 3):
        front_end.workers[victim].kill()
        front_end.workers[victim].join()
        replies = front_end.run({"tokens": tokens})
        print(f"replies of {sorted(replies)}")
    # prints: worker 2 has died
    # prints: replies of [0, 1, 3]
    # prints: worker 0 has died
    # prints: replies of [1, 3]
    # prints: worker 3 has died
    # prints: replies of [1]
    print(replies[1][:3])  # prints: [1 2 3]
    front_end.send(None)
    front_end.workers[1].join()
