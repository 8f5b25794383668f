"""A worker of the example inference_server. usage: inference_worker.py FD, where FD is its socket
to the front end.

The first message over the socket brings two queues and the weights. After that everything goes
through the queues. A request is a tensor, and its user bytes are its number. The worker says that
it has the request (the number and its own pid, without a tensor), and sends the answer in a tensor
of its own with the same user bytes. A request without a tensor ends the worker.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy
import tenon


def reply(request: tenon.Message, weights: Any, answers: tenon.Queue) -> None:
    mark = request.user_bytes + os.getpid().to_bytes(4, "little")
    answers.send(user_bytes=mark)
    x = request[0].numpy()
    answer = tenon.empty(x.shape, "float32")
    y = answer.numpy()
    numpy.matmul(x, weights, out=y)
    numpy.maximum(y, 0, out=y)
    answers.send(answer, user_bytes=mark)


def main() -> int:
    front_end = os.getppid()
    with tenon.Connection(int(sys.argv[1])) as connection:
        start = connection.recv()
        requests = tenon.Queue.join(start["requests"].storage, report_deaths=True)
        answers = tenon.Queue.join(start["answers"].storage)
        weights = start["weights"].numpy()
        connection.send(user_bytes=b"ready")
        while True:
            try:
                request = requests.recv()
            except tenon.PeerGone as gone:
                if gone.details.get("pid") == str(front_end):
                    return 0
                continue  # another worker has died
            if len(request) == 0:
                return 0
            reply(request, weights, answers)
            request.close()


if __name__ == "__main__":
    sys.exit(main())
