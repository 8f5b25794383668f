"""Scenarios that test_multiprocessing.py runs, each as a program of its own: python multiprocessing_program.py SCENARIO METHOD."""

from __future__ import annotations

import multiprocessing as mp
import os
import pickle
import select
import signal
import socket
import sys
import threading
import time
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import tenon
import tenon.multiprocessing

# Here and not in a scenario: who was started by spawn or forkserver begins with the other strategy.
NAMES = os.environ.get("TENON_TEST_NAMES", "")
if NAMES:
    tenon.multiprocessing.set_sharing_strategy("file_system")
    tenon.multiprocessing.configure(filename=tenon.Filename(directory=NAMES))


def lend(values, **options):
    return tenon.from_numpy(np.asarray(values, "float32"), **options)


def fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def keepers(count: int = 0) -> list[int]:
    """The keepers of this program, once there are as many: the marker in the environment is its own."""
    marker = b"TENON_TEST_MARKER=" + os.environ["TENON_TEST_MARKER"].encode()
    while True:
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdecimal() and marker in Path("/proc", name, "environ").read_bytes().split(b"\0"):
                    if b"_mp_serve.py" in Path("/proc", name, "cmdline").read_bytes():
                        found.append(int(name))
            except OSError:
                pass
        # In the middle of its exec a process has no environment.
        if len(found) >= count:
            assert len(found) == count, found
            return found
        time.sleep(0.01)


def wait_until_gone(pids) -> None:
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        select.select([fd], [], [])
        os.close(fd)


def same(tensor, values) -> None:
    assert tensor.tolist() == np.asarray(values, "float32").tolist(), tensor.tolist()


def start(context, target, *args):
    process = context.Process(target=target, args=args)
    process.start()
    return process


def ended(process, code=0) -> None:
    process.join()
    assert process.exitcode == code, process.exitcode


# ---- carriers


def _add_one(get, done):
    for tensor in get():
        if tensor.numel:
            tensor.numpy()[...] += 1
    done.set()


def _check_both_ways(context, put, get_method, *args):
    base = lend([[0, 1, 2], [3, 4, 5]])
    column = base[:, 1]
    done = context.Event()
    process = start(context, _add_from, get_method, done, *args)
    put([base, tenon.zeros((0, 3))])
    assert done.wait(60)
    same(base, [[1, 2, 3], [4, 5, 6]])
    same(column, [2, 5])
    ended(process)


def _add_from(get_method, done, *args):
    _add_one(getattr(args[0], get_method), done)


def queue(context):
    q = context.Queue()
    _check_both_ways(context, q.put, "get", q)


def simple_queue(context):
    q = context.SimpleQueue()
    _check_both_ways(context, q.put, "get", q)


def pipe(context):
    for duplex in (True, False):
        reader, writer = context.Pipe(duplex)
        _check_both_ways(context, writer.send, "recv", reader)


def _take_argument(tensor, storage, done):
    assert tensor.storage == storage
    tensor.numpy()[...] = 7
    done.set()


def process_arguments(context):
    tensor = lend([1, 2])
    done = context.Event()
    process = start(context, _take_argument, tensor, tensor.storage, done)
    ended(process)
    assert done.is_set()
    same(tensor, [7, 7])


def _double(tensor):
    tensor.numpy()[...] *= 2
    return tensor[1:], os.getpid()


def pool(context):
    tensors = [lend([i, i + 1]) for i in range(20)]
    workers = context.Pool(2)
    results = workers.map(_double, tensors, chunksize=3)
    workers.close()
    workers.join()
    for i, (tensor, (part, _)) in enumerate(zip(tensors, results, strict=True)):
        same(tensor, [2 * i, 2 * i + 2])
        same(part, [2 * i + 2])
        # What comes home is the storage that left.
        assert part.storage == tensor.storage
    assert tenon.multiprocessing.unfetched() == (0, 0)


# ---- what arrives


def _echo(inbox, outbox):
    while (item := inbox.get()) is not None:
        outbox.put(item)
    # Leaves while the last one may still wait to be fetched.


def identity(context):
    inbox, outbox = context.Queue(), context.Queue()
    process = start(context, _echo, inbox, outbox)
    base = lend(np.arange(24).reshape(4, 6))
    views = [base, base[1:3, ::2], base[::-1], base.view((24,)), base[2, 5]]
    inbox.put((views, base.storage))
    arrived, storage = outbox.get(timeout=60)
    for view, one in zip(views, arrived, strict=True):
        assert (one.shape, one.dtype) == (view.shape, view.dtype)
        assert one.numel == 1 or one.strides == view.strides
        assert one.tolist() == view.tolist()
        assert one.storage == storage == base.storage
    inbox.put(base)
    again = outbox.get(timeout=60)
    assert again.storage == base.storage
    for dtype in ("bfloat16", "bool", "complex64", "int64"):
        tensor = tenon.zeros((3,), dtype)
        inbox.put(tensor)
        assert outbox.get(timeout=60).dtype == dtype
    inbox.put([tenon.empty((0, 4)), tenon.zeros((), requires_grad=True)])
    nothing, scalar = outbox.get(timeout=60)
    assert nothing.shape == (0, 4) and scalar.shape == () and scalar.requires_grad
    inbox.put(None)
    ended(process)


def _check_modes(q, done):
    for mode in ("lender_writes", "frozen"):
        tensor = q.get()
        assert tensor.read_only and tensor.storage.mode == mode, (tensor, mode)
        try:
            tensor.numpy()[0] = 1
        except ValueError:
            pass
        else:
            raise AssertionError("written")
    done.set()


def modes(context):
    q, done = context.Queue(), context.Event()
    process = start(context, _check_modes, q, done)
    q.put(lend([1, 2], mode="lender_writes"))
    q.put(lend([1, 2], mode="frozen"))
    ended(process)
    assert done.is_set()


def refused(context):
    for kind in (tenon.zeros((3,), private=True), tenon.zeros((3,), private=True).storage):
        try:
            ForkingPickler.dumps(kind)
        except tenon.Unsupported as error:
            assert "tenon.from_numpy" in str(error) and "tenon.empty" in str(error)
        else:
            raise AssertionError("lent")
    try:
        pickle.dumps(lend([1]))
    except TypeError as error:
        assert "tenon.multiprocessing" in str(error)
    else:
        raise AssertionError("pickled")
    tenon.multiprocessing.configure(max_unfetched_segments=2)
    held = [bytes(ForkingPickler.dumps(lend([1], isolated=True))) for _ in range(2)]
    try:
        ForkingPickler.dumps(lend([1], isolated=True))
    except tenon.ResourceExhausted as error:
        assert error.details["limit"] == "max_unfetched_segments" and error.details["limit_value"] == "2"
    else:
        raise AssertionError("no limit")
    for data in held:
        same(ForkingPickler.loads(data), [1])
    same(ForkingPickler.loads(bytes(ForkingPickler.dumps(lend([5], isolated=True)))), [5])


def _load_twice(data, done):
    same(ForkingPickler.loads(data), [3])
    try:
        ForkingPickler.loads(data)
    except tenon.NotFound as error:
        assert "once" in str(error)
    else:
        raise AssertionError("loaded twice")
    done.set()


def twice(context):
    done = context.Event()
    ended(start(context, _load_twice, bytes(ForkingPickler.dumps(lend([3]))), done))
    assert done.is_set()
    data = bytes(ForkingPickler.dumps(lend([3])))
    same(ForkingPickler.loads(data), [3])
    try:
        ForkingPickler.loads(data)
    except tenon.NotFound:
        pass
    else:
        raise AssertionError("loaded twice")


def _sum_all(q, back):
    tensors = q.get()
    back.put(sum(tensor.numpy()[0] for tensor in tensors))


def many(context):
    q, back = context.Queue(), context.Queue()
    process = start(context, _sum_all, q, back)
    tensors = [lend([i] * 8) for i in range(300)] + [lend([i], isolated=True) for i in range(300)]
    before = fds()
    q.put(tensors)
    total = back.get(timeout=60)
    assert total == 2 * sum(range(300)), total
    ended(process)
    # A thread's listener and wake-up, the queues' ends; nothing for each tensor.
    assert tenon.multiprocessing.unfetched() == (0, 0)
    assert fds() <= before + 8, (before, fds())


def one_segment_one_fd(context):
    tensors = [lend([i]) for i in range(300)]
    held = [bytes(ForkingPickler.dumps(tensors))]
    before = fds()
    held += [bytes(ForkingPickler.dumps(tensors)) for _ in range(20)]
    messages, segments = tenon.multiprocessing.unfetched()
    assert (messages, segments) == (21, 1), (messages, segments)
    assert fds() == before
    for data in held:
        assert len(ForkingPickler.loads(data)) == 300
    assert tenon.multiprocessing.unfetched() == (0, 0)


def threads(context):
    """Messages that are pickled at the same time do not mix."""
    tensors = [lend([i], isolated=True) for i in range(50)]
    failures = []

    def work(first):
        try:
            for i in range(first, first + 40):
                part = [tensors[i % 50], tensors[(i * 7) % 50]]
                a, b = ForkingPickler.loads(bytes(ForkingPickler.dumps(part)))
                same(a, [i % 50])
                same(b, [(i * 7) % 50])
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not failures, failures


# ---- exits and deaths


def _put_and_leave(q, count):
    for i in range(count):
        q.put(lend([i] * 4))


def exit_after_put(context):
    q = context.Queue()
    process = start(context, _put_and_leave, q, 100)
    ended(process)
    time.sleep(1)
    running = keepers(1)
    for i in range(100):
        tensor = q.get(timeout=60)
        same(tensor, [i] * 4)
        tensor.numpy()[0] = -1
    wait_until_gone(running)


def _put_list_and_leave(q):
    q.put([lend([i], isolated=True) for i in range(300)])


def exit_with_many_segments(context):
    q = context.Queue()
    ended(start(context, _put_list_and_leave, q))
    running = keepers(1)
    assert [t.item() for t in q.get(timeout=60)] == list(range(300))
    wait_until_gone(running)


def _put_and_wait(q, is_put, count=1):
    q.put([lend([1]) for _ in range(count)])
    q.close()
    q.join_thread()
    is_put.set()
    signal.pause()


def killed_after_put(context):
    q, is_put = context.Queue(), context.Event()
    process = start(context, _put_and_wait, q, is_put)
    assert is_put.wait(60)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    begin = time.monotonic()
    try:
        q.get(timeout=60)
    except tenon.PeerGone as error:
        assert error.details["pid"] == str(process.pid)
    else:
        raise AssertionError("nobody was there")
    # What is promised is a second; a loaded machine is given some more.
    assert time.monotonic() - begin < 5
    keepers(0)


def killed_while_fetched(context):
    """A receiver that is already in the queue of callers of a stopped sender learns of its death."""
    q, is_put = context.Queue(), context.Event()
    process = start(context, _put_and_wait, q, is_put)
    assert is_put.wait(60)
    stop(process.pid)
    timer = threading.Timer(0.5, os.kill, (process.pid, signal.SIGKILL))
    timer.start()
    try:
        q.get(timeout=60)
    except tenon.PeerGone:
        pass
    else:
        raise AssertionError("nobody was there")
    timer.join()
    process.join()


def stop(pid):
    """SIGSTOP, and wait until no thread of the process runs any more: kill returns before the last one has stopped."""
    os.kill(pid, signal.SIGSTOP)
    while True:
        states = []
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat", encoding="utf-8", errors="replace") as stat:
                states.append(stat.read().rpartition(")")[2].split()[0])
        if all(state in "TtZX" for state in states):
            return
        time.sleep(0.001)


def stopped(context):
    q, is_put = context.Queue(), context.Event()
    process = start(context, _put_and_wait, q, is_put)
    assert is_put.wait(60)
    stop(process.pid)
    tenon.multiprocessing.configure(fetch_seconds=0.3)
    try:
        q.get(timeout=60)
    except tenon.Timeout as error:
        assert str(process.pid) in str(error)
    else:
        raise AssertionError("it was stopped")
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def _keep_briefly(q):
    tenon.multiprocessing.configure(keep_seconds=3)
    q.put(lend([1]))


def keeper_times_out(context):
    q = context.Queue()
    ended(start(context, _keep_briefly, q))
    wait_until_gone(keepers(1))
    try:
        q.get(timeout=60)
    except tenon.PeerGone:
        pass
    else:
        raise AssertionError("kept")


def family_is_killed(context):
    """Leaves a keeper and a child behind, and kills everybody but the keeper; the test sees that nothing is left."""
    q = context.Queue()
    ended(start(context, _put_and_leave, q, 3))
    other, is_put = context.Queue(), context.Event()
    process = start(context, _put_and_wait, other, is_put)
    assert is_put.wait(60)
    keepers(1)
    os.kill(process.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def never_fetched(context):
    """The receiver ends without a look at its queue."""
    q = context.Queue()
    ended(start(context, _put_and_leave, q, 5))
    keepers(1)


def root_exits_first(context):
    """The root leaves messages to nobody: no keeper is started."""
    ForkingPickler.dumps(lend([1]))


def _grandchild(q, is_started):
    is_started.set()
    q.put(lend([4, 2]))


def _child(q, is_started, method):
    mp.get_context(method).Process(target=_grandchild, args=(q, is_started)).start()


def grandchild(context):
    """Producer and its parent are gone; the root, which has not touched a tensor yet, still gets it."""
    q, is_started = context.Queue(), context.Event()
    ended(start(context, _child, q, is_started, context.get_start_method()))
    time.sleep(1)
    same(q.get(timeout=60), [4, 2])


# ---- fork


def fork_while_serving(context):
    tensor = lend([1, 2, 3])
    data = bytes(ForkingPickler.dumps(tensor))
    mine = bytes(ForkingPickler.dumps(tensor))
    reader, writer = os.pipe()
    before = fds()
    child = os.fork()
    if not child:
        code = 1
        try:
            # The inherited messages are the parent's; the parent is asked, and knows them.
            assert tenon.multiprocessing.unfetched() == (0, 0)
            same(ForkingPickler.loads(data), [1, 2, 3])
            # The child lends for itself.
            own = bytes(ForkingPickler.dumps(lend([9])))
            os.write(writer, len(own).to_bytes(4, "big") + own)
            os.close(writer)
            while tenon.multiprocessing.unfetched()[0]:
                time.sleep(0.01)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with open(reader, "rb") as source:
        own = source.read(int.from_bytes(source.read(4), "big"))
    same(ForkingPickler.loads(own), [9])
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    same(ForkingPickler.loads(mine), [1, 2, 3])
    assert fds() <= before, (before, fds())


def fork_does_not_hide_death(context):
    """A child that outlives its killed parent does not keep the parent's listener."""
    reader, writer = os.pipe()
    lender = os.fork()
    if not lender:
        data = bytes(ForkingPickler.dumps(lend([1])))
        survivor = os.fork()
        if not survivor:
            os.close(writer)
            signal.pause()
        os.write(writer, survivor.to_bytes(4, "big") + len(data).to_bytes(4, "big") + data)
        signal.pause()
    os.close(writer)
    with open(reader, "rb", buffering=0) as source:
        survivor = int.from_bytes(source.read(4), "big")
        data = source.read(int.from_bytes(source.read(4), "big"))
    os.kill(lender, signal.SIGKILL)
    os.waitpid(lender, 0)
    try:
        ForkingPickler.loads(data)
    except tenon.PeerGone:
        pass
    else:
        raise AssertionError("it was killed")
    finally:
        os.kill(survivor, signal.SIGKILL)


def fork_many_times(context):
    """Forks come at any moment of the serving thread."""
    stop = threading.Event()
    failures = []

    def work():
        try:
            while not stop.is_set():
                data = bytes(ForkingPickler.dumps(lend([8])))
                child = os.fork()
                if not child:
                    try:
                        same(ForkingPickler.loads(data), [8])
                        os._exit(0)
                    finally:
                        os._exit(1)
                if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                    failures.append("child")
        except BaseException as error:
            failures.append(error)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    time.sleep(3)
    stop.set()
    for worker in workers:
        worker.join()
    assert not failures, failures


# ---- strangers


def another_user(context):
    data = bytes(ForkingPickler.dumps(lend([1])))
    address = tenon.multiprocessing._get_lender().address
    child = os.fork()
    if not child:
        code = 1
        try:
            os.setresuid(65534, 65534, 65534)
            # Who hangs up before the refusal must not end the thread that serves the others.
            for _ in range(200):
                with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as visitor:
                    visitor.connect(address)
            try:
                ForkingPickler.loads(data)
            except tenon.PermissionDenied as error:
                code = 0 if "another user" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    # And nothing was lost by it.
    same(ForkingPickler.loads(data), [1])


def strangers_speak(context):
    """Wrong keys, garbage, silence and half a visit change nothing."""
    data = bytes(ForkingPickler.dumps([lend([1]), lend([2], isolated=True)]))
    address = tenon.multiprocessing._get_lender().address
    before = fds()
    silent = []
    for request in (b"", b"x", b"y" * 5000, b"TnF1" + bytes(16), b"TnF1" + bytes(17), b"TnF2" + bytes(16)):
        visitor = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        visitor.connect(address)
        if request:
            visitor.send(request)
            visitor.settimeout(30)
            answer = visitor.recv(100)
            assert len(answer) == 16 and answer[4] == 1, answer
        silent.append(visitor)
    # One that asks rightly and goes before it says that it has the fds: the message can be fetched again.
    lender = tenon.multiprocessing._get_lender()
    (key,) = lender.server.parcels
    visitor = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    visitor.connect(address)
    visitor.send(b"TnF1" + key)
    packet, rights, _, _ = visitor.recvmsg(100, 1000)
    assert len(packet) == 16 and len(rights[0][2]) == 8
    for number in memoryview(rights[0][2]).cast("i"):
        os.close(number)
    visitor.close()
    child = os.fork()
    if not child:
        code = 1
        try:
            for visitor in silent:
                visitor.close()
            a, b = ForkingPickler.loads(data)
            same(a, [1])
            same(b, [2])
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for visitor in silent:
        visitor.close()
    deadline = time.monotonic() + 30
    while (fds() > before or tenon.multiprocessing.unfetched()[0]) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert fds() <= before, (fds(), before)
    assert tenon.multiprocessing.unfetched() == (0, 0)


def no_room_for_fds(context):
    import resource

    data = bytes(ForkingPickler.dumps([lend([i], isolated=True) for i in range(40)]))
    child = os.fork()
    if not child:
        code = 1
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (fds() + 10, fds() + 10))
            try:
                ForkingPickler.loads(data)
            except tenon.ResourceExhausted as error:
                code = 0 if error.details["limit"] == "RLIMIT_NOFILE" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    # It did not say that it has them, so nothing was lost.
    assert [t.item() for t in ForkingPickler.loads(data)] == list(range(40))


def executor(context):
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(2, mp_context=context) as workers:
        tensors = [lend([i, i]) for i in range(10)]
        for i, (part, _) in enumerate(workers.map(_double, tensors)):
            same(part, [2 * i])
            same(tensors[i], [2 * i, 2 * i])


# ---- by name


def names() -> list[str]:
    return os.listdir(NAMES)


def no_names_left() -> None:
    deadline = time.monotonic() + 30
    while names():
        assert time.monotonic() < deadline, names()
        time.sleep(0.005)


def has_no_server() -> None:
    """Nobody of Python's serves: messages hold names."""
    assert tenon.multiprocessing.unfetched() == (0, 0)
    assert "tenon-lender" not in [thread.name for thread in threading.enumerate()]


def _use_and_put_back(inbox, outbox):
    tensor, view, storage = inbox.get()
    assert tensor.storage == view.storage == storage and not storage.is_sealed
    assert tensor.storage.id == storage.id
    tensor.numpy()[0] = 9
    outbox.put(view)
    assert inbox.get() is None
    has_no_server()


def by_name(context):
    inbox, outbox = context.Queue(), context.Queue()
    process = start(context, _use_and_put_back, inbox, outbox)
    tensor = lend([1, 2, 3])
    assert len(names()) == 1
    inbox.put((tensor, tensor[1:], tensor.storage))
    back = outbox.get(timeout=60)
    same(back, [2, 3])
    assert back.storage == tensor.storage
    same(tensor, [9, 2, 3])
    inbox.put(None)
    ended(process)
    has_no_server()
    del tensor, back
    no_names_left()


def who_is_named(context):
    """Which tensors are born in a file, and that the others travel too."""
    named = [tenon.zeros(3), tenon.empty((2, 2), "int8"), lend([1]), lend([[1, 2], [3, 4]])[:, 1].clone(), tenon.zeros(3, isolated=True)]
    assert len(names()) == len(named)
    others = [
        tenon.zeros(3, mode="lender_writes"),
        lend([1], mode="frozen"),
        tenon.zeros(3, alignment=4096),
        tenon.zeros((0, 3)),
        tenon.Tensor.over(tenon.Storage.new_from(bytes(12)), 3),
    ]
    private = tenon.zeros(3, private=True)
    assert len(names()) == len(named)
    assert [t.storage.is_sealed for t in named] == [False] * len(named)
    tenon.multiprocessing.set_sharing_strategy("file_descriptor")
    before = tenon.zeros(3)
    assert len(names()) == len(named)
    # A named one travels by fd as well, and what is in no file under the other strategy too.
    for strategy in ("file_descriptor", "file_system"):
        tenon.multiprocessing.set_sharing_strategy(strategy)
        for tensor in [*named, *others, before]:
            back = ForkingPickler.loads(bytes(ForkingPickler.dumps(tensor)))
            assert back.tolist() == tensor.tolist() and (not tensor.numel or back.storage.same_memory(tensor.storage))
    try:
        ForkingPickler.dumps(private)
    except tenon.Unsupported:
        pass
    else:
        raise AssertionError("lent")
    del tensor, back, named
    no_names_left()


def strategies(context):
    mp_ = tenon.multiprocessing
    assert mp_.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    assert mp_.get_sharing_strategy() == "file_system"
    for wrong in ("", "file", "FILE_SYSTEM", None):
        for kind in (AssertionError, ValueError, tenon.InvalidArgument):
            try:
                mp_.set_sharing_strategy(wrong)
            except kind as error:
                assert "file_descriptor" in str(error) and "file_system" in str(error)
            else:
                raise AssertionError(wrong)
    assert mp_.get_sharing_strategy() == "file_system"
    mp_.set_sharing_strategy("file_descriptor")
    assert mp_.get_sharing_strategy() == "file_descriptor" and not names()
    try:
        mp_.configure(filename=tenon.Filename("one"))
    except ValueError:
        pass
    else:
        raise AssertionError("one name for all")


def _put_named_and_leave(q, count):
    for i in range(count):
        q.put(lend([i] * 4))
    has_no_server()


def names_exit_first(context):
    # With a name of our own the library's thread looks at what others let go: it must know that messages are on their way.
    ours = lend([0])
    q = context.Queue()
    ended(start(context, _put_named_and_leave, q, 100))
    assert len(names()) == 101 and tenon.sweep(NAMES) == tenon.Sweep(1, 100, 0, 0, 0), tenon.sweep(NAMES)
    keepers(0)
    for i in range(100):
        tensor = q.get(timeout=60)
        same(tensor, [i] * 4)
        tensor.numpy()[0] = -1
    del tensor, ours
    no_names_left()


def _put_named_and_wait(q, is_put):
    tensor = lend([1])
    q.put(tensor)
    q.put(lend([2]))
    q.close()
    q.join_thread()
    is_put.set()
    signal.pause()


def names_killed(context):
    """What nobody has opened goes with its sender; what somebody holds stays."""
    q, is_put = context.Queue(), context.Event()
    process = start(context, _put_named_and_wait, q, is_put)
    assert is_put.wait(60)
    first = q.get(timeout=60)
    assert len(names()) == 2
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    # Until the library's thread has seen the death, the second may still be opened, whole.
    deadline = time.monotonic() + 5
    while len(names()) != 1:
        assert time.monotonic() < deadline, names()
        time.sleep(0.001)
    try:
        q.get(timeout=60)
    except (tenon.NotFound, tenon.PeerGone) as error:
        assert NAMES in error.details["path"]
    else:
        raise AssertionError("nobody was there")
    same(first, [1])
    first.numpy()[0] = 3
    del first
    no_names_left()


def names_killed_unseen(context):
    """As before, but nobody has used a name yet, so nobody looks: then what comes may still come, whole."""
    q, is_put = context.Queue(), context.Event()
    process = start(context, _put_named_and_wait, q, is_put)
    assert is_put.wait(60)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    for value in (1, 2):
        try:
            same(q.get(timeout=60), [value])
        except (tenon.NotFound, tenon.PeerGone) as error:
            assert NAMES in error.details["path"]
    tenon.sweep(NAMES)
    no_names_left()


def _sum_many(q, back):
    tensors = [q.get() for _ in range(2000)]
    assert fds() < 100
    back.put(sum(int(tensor.numpy()[0]) for tensor in tensors))


def names_many(context):
    """2,000 tensors, each in a storage of its own, with room for 256 fds."""
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    q, back = context.Queue(), context.Queue()
    process = start(context, _sum_many, q, back)
    before = fds()
    for i in range(2000):
        # Nobody keeps it here: the name waits for the message.
        q.put(lend([i]))
    total = back.get(timeout=90)
    assert total == sum(range(2000)), total
    ended(process)
    has_no_server()
    assert fds() <= before + 8, (before, fds())
    no_names_left()


def _hold_named(tensor, is_held):
    is_held.set()
    signal.pause()


def names_killed_receiver(context):
    tensor = lend([5])
    is_held = context.Event()
    process = start(context, _hold_named, tensor, is_held)
    assert is_held.wait(60)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    same(tensor, [5])
    del tensor
    no_names_left()


def names_twice(context):
    tensor = lend([3])
    data = bytes(ForkingPickler.dumps(tensor))
    same(ForkingPickler.loads(data), [3])
    del tensor
    no_names_left()
    try:
        ForkingPickler.loads(data)
    except tenon.NotFound:
        pass
    else:
        raise AssertionError("loaded twice")


if __name__ == "__main__":
    scenario, method = sys.argv[1:]
    signal.alarm(100)
    globals()[scenario](mp.get_context(method))
