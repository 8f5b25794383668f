"""How large an arena has to be, and what its figures say."""

import tenon

BATCH = 32 * 3 * 224 * 224 * 4
BATCHES_AT_WORK = 4  # one that is filled here, and three at the consumer

with tenon.Arena(BATCHES_AT_WORK * BATCH) as arena:
    arena.reserve(BATCHES_AT_WORK * BATCH)  # takes the memory now: no page is made later
    batches = [arena.empty((32, 3, 224, 224)) for _ in range(BATCHES_AT_WORK)]
    now = arena.stats()
    print(now.bytes_live == now.bytes_capacity, now.bytes_free)  # prints: True 0
    try:
        arena.empty((32, 3, 224, 224))
    except tenon.ResourceExhausted as error:
        print(error.details["limit"], error.details["free"])  # prints: arena 0
    batches.pop()
    print(arena.empty((32, 3, 224, 224)).shape)  # prints: (32, 3, 224, 224)
    print(arena.stats().bytes_peak // BATCH)  # prints: 4
