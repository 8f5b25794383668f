"""A cache that does not keep its storages alive. It holds weak references, and makes a storage
again after its last user has released it.
"""

import tenon

cache: dict[int, tenon.WeakRef] = {}


def get(entry: int) -> tenon.Storage:
    storage = cache[entry].lock() if entry in cache else None
    if storage is not None:
        print(f"entry {entry}: found")
        return storage
    print(f"entry {entry}: made")
    storage = tenon.Storage.new_from(f"this is entry {entry}".encode())
    cache[entry] = storage.weak_ref()
    return storage


first, second = get(1), get(1)
print(bytes(first.data).decode(), "- the same storage:", "yes" if first == second else "no")
first.close()
second.close()
print("expired after the last release:", "yes" if cache[1].expired else "no")
get(1)
