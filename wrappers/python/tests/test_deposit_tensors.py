"""The native calls with which multiprocessing deposits and fetches a message of few tensors."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import tenon
from multiprocessing_kit import stop
from tenon._native_ext import deposit_tensors, fetch_tensors

SECOND = 10**9


@pytest.fixture(scope="module", autouse=True)
def the_depot(the_librarys_thread: None) -> None:
    """Make the depot, which stays with its fds from the first deposit on."""
    fetch(*made())


LENDER = """
import sys
import tenon
from tenon._native_ext import deposit_tensors
print(deposit_tensors([tenon.empty((3,), "int32")]), flush=True)
sys.stdin.read()
"""


def made() -> tuple[bytes, list[bytes], list[tuple[Any, ...]]]:
    return deposit_tensors([tenon.empty((4,), "float32")])


def fetch(
    head: bytes, records: list[bytes], forms: list[tuple[Any, ...]], nanoseconds: int = 60 * SECOND
) -> list[tenon.Tensor]:
    return fetch_tensors(tenon.Tensor, head, records, forms, nanoseconds, True)


@contextmanager
def lender() -> Iterator[subprocess.Popen[str]]:
    """Another process that has deposited a tensor.

    It writes what a receiver needs to its standard output.
    """
    with subprocess.Popen(
        [sys.executable, "-c", LENDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.send_signal(signal.SIGCONT)
        assert process.stdin is not None
        process.stdin.close()


def message_of(lender: subprocess.Popen[str]) -> tuple[bytes, list[bytes], list[tuple[Any, ...]]]:
    assert lender.stdout is not None
    head, records, forms = ast.literal_eval(lender.stdout.readline())
    return head, records, forms


def test_tensors_of_one_storage_share_it() -> None:
    whole = tenon.zeros((3, 4), "int64")
    part = tenon.Tensor._new(whole.storage, whole._dtype_number, (4, 3), (1, 4), 0, 0)
    other = tenon.zeros((2,), "uint8")
    head, records, forms = deposit_tensors([whole, other, part])
    assert len(records) == 2 and [form[0] for form in forms] == [0, 1, 0]
    assert forms[0][3] is None and forms[2][2:4] == ((4, 3), (1, 4))
    got = fetch(head, records, forms)
    assert [tensor.shape for tensor in got] == [(3, 4), (2,), (4, 3)] and got[2].strides == (1, 4)
    memoryview(got[0].storage)[0] = 7
    assert memoryview(whole.storage)[0] == 7 == memoryview(got[2].storage)[0]


def another_process_is_asked() -> None:
    with lender() as process:
        [tensor] = fetch(*message_of(process))
        assert tensor.shape == (3,)


def a_lender_does_not_answer() -> None:
    with lender() as process:
        message = message_of(process)
        stop(process.pid)
        with pytest.raises(tenon.Timeout):
            fetch(*message, SECOND // 10)
        process.send_signal(signal.SIGCONT)
        assert fetch(*message)[0].shape == (3,)


class Alarm(Exception):
    pass


def a_signal_ends_the_wait_if_its_handler_raises() -> None:
    calls = []

    def on_alarm(*_: object) -> None:
        calls.append(time.monotonic())
        if len(calls) == 3:
            raise Alarm

    with lender() as process:
        message = message_of(process)
        stop(process.pid)
        signal.signal(signal.SIGALRM, on_alarm)
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
        with pytest.raises(Alarm):
            fetch(*message)
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert len(calls) == 3


SCENARIOS = (
    another_process_is_asked,
    a_lender_does_not_answer,
    a_signal_ends_the_wait_if_its_handler_raises,
)


@pytest.mark.parametrize("scenario", [scenario.__name__ for scenario in SCENARIOS])
def test_scenario(scenario: str) -> None:
    """Runs in a process of its own, because a receiver keeps its connection to a lender."""
    subprocess.run([sys.executable, "-B", __file__, scenario], check=True, timeout=100)


def test_what_cannot_be_deposited() -> None:
    tensors = [tenon.empty((1,), "uint8") for _ in range(17)]
    closed = tenon.empty((1,), "uint8")
    closed.close()
    before = tenon.deposit.stats().messages
    for wrong, kind in (
        (tensors, ValueError),
        ([tensors[0], closed], ValueError),
        ([None], TypeError),
        ((), TypeError),
    ):
        with pytest.raises(kind):
            deposit_tensors(wrong)  # type: ignore[arg-type]
    with pytest.raises(tenon.Unsupported):
        deposit_tensors([tensors[0], tenon.empty((1,), "uint8", private=True)])
    assert tenon.deposit.stats().messages == before


def test_what_cannot_be_fetched() -> None:
    head, records, forms = made()
    number, *form = forms[0]
    wrong: list[tuple[Any, type[BaseException]]] = [
        ((b"", records, forms), tenon.Corrupt),
        ((head, ["text"], forms), TypeError),
        ((head, records * 17, forms), ValueError),
        (("head", 1, 2), TypeError),
    ]
    for arguments, kind in wrong:
        with pytest.raises(kind):
            fetch(*arguments)
    assert fetch(head, records, forms)[0].shape == (4,)
    with pytest.raises(tenon.NotFound):
        fetch(head, records, forms)
    for wrong_form in (
        (1, *form),
        (-1, *form),
        (number, *form[:-1]),
        [number],
        (number, form[0], (5,), *form[2:]),
        (number, form[0], (4,), (1, 1), 0, 0),
    ):
        with pytest.raises((ValueError, TypeError, tenon.TenonError)):
            fetch(*made()[:2], [wrong_form])  # type: ignore[list-item]
    for record in (b"", b"x" * 300):
        with pytest.raises(tenon.TenonError):
            fetch(made()[0], [record], forms)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
