"""An object goes to a thread in two parts: pickled bytes, and storages that are not copied."""

import threading
from queue import Queue
from typing import Any

import tenon
import tenon.pickle


def work(parts: "Queue[tenon.pickle.Pickled]", sums: "Queue[Any]") -> None:
    data, storages, dtypes = parts.get()
    state = tenon.pickle.loads(data, storages, dtypes)  # over the same memory
    state["rows"][0].numpy()[...] = 2
    sums.put(state["all"].numpy().sum())


if __name__ == "__main__":
    parts: "Queue[tenon.pickle.Pickled]" = Queue()
    sums: "Queue[Any]" = Queue()
    threading.Thread(target=work, args=(parts, sums)).start()
    table = tenon.zeros((2, 3), "float32")
    split = tenon.pickle.dumps({"all": table, "rows": [table[0], table[1]]})
    print(len(split.storages), split.dtypes)  # prints: 1 ['float32']
    parts.put(split)
    print(sums.get())  # prints: 6.0
