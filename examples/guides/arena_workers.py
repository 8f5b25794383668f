"""Inference workers read one copy of the weights. A new version replaces it when they are ready."""

import multiprocessing
import socket

import tenon


def work(end: socket.socket) -> None:
    trainer = tenon.Connection(end)
    for version in range(2):
        weights = trainer.recv()["weights"]
        print(version, weights.numpy().sum(), weights.read_only, flush=True)
        # prints: 0 0.0 True
        # prints: 0 0.0 True
        # prints: 1 1000.0 True
        # prints: 1 1000.0 True
        del weights  # gives this version back
        trainer.send(user_bytes=b"ready")


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    workers = []
    for _ in range(2):
        ours, theirs = socket.socketpair()
        context.Process(target=work, args=(theirs,)).start()
        theirs.close()
        workers.append(tenon.Connection(ours, adopt=True))
    with tenon.Arena(1 << 20, mode="lender_writes") as arena:
        for version in range(2):
            weights = arena.full(1000, version)
            for worker in workers:
                worker.send({"weights": weights})
            del weights  # the leases keep it
            for worker in workers:
                worker.recv(timeout=60)
        print(arena.stats().blocks_lent)  # prints: 0
