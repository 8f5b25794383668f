"""The process to which Node lends. usage: borrower.py name NAME NBYTES | borrower.py fd FD"""

import sys

import tenon

if sys.argv[1] == "name":
    storage = tenon.open_filename(sys.argv[2], int(sys.argv[3]), allow_unsealed=True)
    values = tenon.Tensor.over(storage, (1000,), "float32").numpy()
    print(values[7])
    values[7] = 42
else:
    with tenon.Connection(int(sys.argv[2])) as connection:
        message = connection.recv(timeout=60)
        print(message.user_bytes.decode())
        arrays = [message[f"tensor {index}"].numpy() for index in range(len(message))]
        doubled = tenon.zeros((len(arrays), 6), "float32")
        for index, array in enumerate(arrays):
            doubled.numpy()[index] = 2 * array.reshape(-1)
        total = tenon.zeros((1,), "float64", mode="lender_writes")
        total.numpy()[0] = sum(array.sum() for array in arrays)
        arrays[0][1, 2] = -1
        connection.send({"doubled": doubled, "sum": total}, user_bytes=b"from python", timeout=60)
