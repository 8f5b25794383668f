#!/usr/bin/env python3
"""usage: run.py VARIANT|queue_orders|ring_orders|names

Has SPIN check every run of a model in one variant, which says what processes take part: the model
of the lease protocol (lease.pml), of a queue (queue.pml) or of a ring (ring.pml). Then SPIN must
find the bugs of the variant's mutants, which are the model with one planted bug each. `names`
compares the states that the models name with the code's enums. `queue_orders` and `ring_orders`
have Relacy check the memory orders of a queue or a ring under the memory model of C++, and refuse
each weaker order. Exit status 77: this machine has no SPIN, no Relacy or no compiler.
"""

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
LIMIT_MIB = 2000
LIMIT_CPU_S = (
    120  # the longest search takes 10 s; processor time, which a busy machine leaves as it is
)

# Options of the C compiler. A search of all states makes a million steps a second with -O1. -O2
# takes another second to compile and gains nothing. The search for a planted bug ends at the bug.
# It takes the transitions in the opposite order, which finds every mutant within thousands of
# states instead of a million, so compiling is all that it costs.
WHOLE_SEARCH = ["-O1"]
BUG_SEARCH = ["-O0", "-DREVERSE", "-DT_REVERSE"]

# variant -> (its definitions, its mutants). MORTAL: the processes that are killed, as bits.
ONE = "ONE WEAK ROUNDS=2 KILLS=1 MORTAL=3"
FORK = "FORK SHORT BLOCKS=1 ROUNDS=2 KILLS=1"
VARIANTS = {
    # A lender and a borrower, on a machine where stores are seen late. Either is killed.
    "one": (
        ONE,
        [
            "NO_FENCE_BORROWER",
            "NO_FENCE_LENDER",
            "SUMMARY_FIRST",
            "CLEARS_BY_STORE",
            "CLEARS_LATE",
            "BELL_AFTER_DRAIN",
            "BIT_BEFORE_LAST_READ",
        ],
    ),
    # Two borrowers of the same blocks.
    "two": ("SHORT BLOCKS=1 ROUNDS=2 KILLS=1 MORTAL=2", ["ENDS_TWICE"]),
    # A borrower forks while another of its threads takes in and releases.
    "fork": (
        "FORK SHORT BLOCKS=1 ROUNDS=2 KILLS=0",
        [
            "RELEASES_FAMILY",
            "CHILD_RELEASES",
            "LOOKS_FIRST",
            "MARKS_AFTER_FORK",
            "HELD_IN_FORK",
            "CLOSES_EARLY",
            "RENEWS_WITH_NEXT_LEASE",
        ],
    ),
    # The same, and the parent or the child is killed.
    "fork_parent": (FORK + " MORTAL=2", ["PID_NOT_TOKEN"]),
    "fork_child": (FORK + " MORTAL=4", []),
    # The same where stores are seen late: the lender waits, and the borrower asks for a new token.
    "renew": ("FORK WEAK SHORT BLOCKS=1 ROUNDS=1 KILLS=0", ["NO_FENCE_RENEW"]),
    # A lender, a forwarder and a borrower.
    "forward": (
        "FORWARD BLOCKS=1 ROUNDS=2 KILLS=1 MORTAL=6",
        ["PASSES_NO_TOKEN", "DROPS_BEFORE_BORROWER", "LAZY_FORWARDER"],
    ),
    # The borrower lends the memory back to its lender, which lends it to the borrower again.
    "cycle": (
        "FORWARD CYCLE SHORT BLOCKS=1 ROUNDS=1 KILLS=1 MORTAL=2",
        ["LEASES_ITSELF", "KEEPS_OWN_TOKEN", "ENDS_UNREAD", "HOME_UNKEPT"],
    ),
    # A lender, a forwarder, a borrower that has sent the lender's token on, and a fourth process
    # that has the token from it.
    "forget": (
        "FORWARD FORGET SHORT BLOCKS=1 ROUNDS=1 KILLS=1 MORTAL=6",
        ["FORGETS_WITH_NEXT_LEASE"],
    ),
    # An honest borrower beside a hostile one.
    "hostile": ("HOSTILE SHORT BLOCKS=1 ROUNDS=2 KILLS=0", ["TRUSTS_BITS"]),
    # An honest forwarder with a hostile borrower.
    "hostile_forward": ("HOSTILE FORWARD SHORT BLOCKS=1 ROUNDS=2 KILLS=0", ["TOKEN_IS_SOCKET"]),
    # One thread of the lender waits while another one lends to a new borrower.
    "threads": ("ONE WEAK THREADS BLOCKS=1 SLOTS=1 ROUNDS=0 KILLS=1", ["NEW_PAGE_SLEEPS"]),
    # A queue: two senders and two receivers that sleep, on a machine where stores are seen late.
    "queue": (
        "QUEUE",
        [
            "WAKE_BEFORE_STORE",
            "RELEASE_STORE",
            "RELAXED_FLAG",
            "SEEN_LATE",
            "NO_LOOK",
            "KEEPS_WAKE",
        ],
    ),
    # The same, and a signal or a timeout ends one wait.
    "queue_signal": ("QUEUE SIGNALS=1", ["RELAXED_REMOVE", "INTERRUPT_KEEPS_WAKE"]),
    # Two senders, a receiver that waits by its fd, and one that sleeps. Then one sender, and it or
    # the first receiver is killed.
    "queue_armed": (
        "QUEUE ARMED",
        ["ARMS_WITHOUT_LOOK", "CLEARS_LATE", "NOT_SETTLED", "ARMED_KEEPS_WAKE", "RELEASE_STORE"],
    ),
    "queue_armed_kill": ("QUEUE ARMED SLOTS=1 KILLED=5", ["HEARS_NOTHING", "RINGS_GONE_MEMBERS"]),
    # A sender and two receivers: one of the three is killed, or ends by exit() while it waits.
    "queue_kill": ("QUEUE SLOTS=1 KILLED=5", ["HEARS_NOTHING", "RINGS_GONE_MEMBERS"]),
    # The same, and one of the three is stopped and does not go on.
    "queue_stop": (
        "QUEUE SLOTS=1 STOPPED=5",
        ["CLAIMS_STOPPED_SENDER", "CLAIMS_STOPPED_RECEIVER"],
    ),
    # Two senders and two receivers: a sender, or a receiver, is stopped.
    "queue_stop_sender": ("QUEUE STOPPED=1", ["RECORDS_GLOBALLY"]),
    "queue_stop_receiver": ("QUEUE STOPPED=4", []),
    # One lane: its sender, which sleeps while the lane is full, and two receivers.
    "queue_lane": (
        "QUEUE LANE",
        [
            "WORD_FIRST",
            "REFILLS_FULL",
            "COPIES_AFTER_TAKE",
            "TAKES_BY_STORE",
            "STARTS_AT_OLDEST_SEEN",
            "NO_LOOK",
            "RELAXED_FLAG",
            "SEEN_LATE",
        ],
    ),
    # The same with fewer messages, and the sender or a receiver is killed, or stopped.
    "queue_lane_kill": ("QUEUE LANE MESSAGES=3 KILLED=5", ["TAKES_BY_STORE"]),
    "queue_lane_stop": ("QUEUE LANE STOPPED=4", ["RECORDS_GLOBALLY"]),
    # The same lane, and another thread of the sender's process takes messages back.
    "queue_lane_discard": (
        "QUEUE LANE DISCARDS MESSAGES=3",
        ["DISCARDS_BY_STORE", "DISCARDS_SILENTLY", "TAKES_BY_STORE"],
    ),
    # A lane whose messages are put back: the sender or a receiver is killed, or a receiver leaves.
    "queue_redeliver_kill": (
        "QUEUE REDELIVER MESSAGES=1 KILLED=4",
        ["COUNTS_FIRST", "LOOKS_AHEAD_ONLY", "COMPARES_NO_COUNT"],
    ),
    "queue_redeliver_leave": (
        "QUEUE REDELIVER LEAVES MESSAGES=3",
        ["ACKS_BY_STORE", "HOLDS_NOT", "REFILLS_HELD"],
    ),
    "queue_redeliver_leave_kill": (
        "QUEUE REDELIVER AWAKE LEAVES MESSAGES=1 KILLED=1",
        ["COUNTS_LAST"],
    ),
    # A ring beside a socket: frames cross on both, and the receiver sleeps.
    "ring": (
        "RING",
        [
            "NO_LOOK",
            "BELL_FIRST",
            "RELEASE_STORE",
            "RELAXED_SLEEP",
            "RINGS_ONCE",
            "RINGS_AGAIN",
            "IGNORES_AFTER",
            "SOCKET_FIRST",
            "COUNTS_LATE",
            "FAILS_SILENTLY",
        ],
    ),
    # The same, and either is killed, or stopped.
    "ring_kill": ("RING KILLED=3", ["IGNORES_RING_AT_END"]),
    "ring_stop": ("RING STOPPED=3", ["EXPECTS_LATE", "CLAIMS_STOPPED_SENDER"]),
    # The sender of a full ring waits for room.
    "ring_room": (
        "RING ROOM MESSAGES=4",
        ["RELAXED_WAIT", "RELEASE_PASSED", "NO_LOOK_FOR_ROOM", "NO_LOOK"],
    ),
    # The sender of a full ring withdraws the oldest frame.
    "ring_withdraw": (
        "RING WITHDRAW CAPACITY=1 MESSAGES=6",
        [
            "WORD_FIRST",
            "KEEPS_WORD",
            "CHECKS_ONCE",
            "READS_SILENTLY",
            "READS_ONCE",
            "RELAXED_BEGIN",
            "RELAXED_WITHDRAW",
            "LOOKS_FIRST",
            "IGNORES_PASSED",
            "KEEPS_REFUSAL",
            "SKIPS_SILENTLY",
            "RELEASES_PASSED",
            "SHORT_HISTORY",
            "ASKS_ONCE",
        ],
    ),
    # The same with a larger ring, and the receiver is stopped.
    "ring_withdraw_stop": ("RING WITHDRAW STOPPED=2", ["READS_ONCE"]),
}

# Variants that together have all steps of the lender, the borrower and the forwarder.
ENDS = {"renew", "forward", "threads"}

# enum in the model -> the model's file, the folder of impl with the same enum, and its name there
NAMES = {
    "lease": ("lease.pml", "memory", "LeaseState"),
    "block": ("lease.pml", "memory", "BlockState"),
    "member": ("queue.pml", "queue", "MemberState"),
    "slot": ("queue.pml", "queue", "SlotState"),
}


# The programs for Relacy, and the memory orders that each of them can weaken.
ORDERS = {
    "queue_orders": ["fill", "take", "sleepers", "add", "remove", "look"],
    "ring_orders": [
        *("fill", "asleep", "sleep", "look"),
        *("passed", "waits", "wait", "room"),
        *("withdraw", "reading", "begin", "withdrawn", "end", "fate"),
        *("clear", "store", "load", "first"),
        *("count", "expects"),
    ],
}

# The error that SPIN found (None: none in all states), and the number of states.
Found = tuple[str | None, int]


class Failed(Exception):
    pass


def in_channel(defines: list[str]) -> bool:
    return defines[0] in ("QUEUE", "RING")


def build(folder: Path, defines: list[str], cycles: bool, options: list[str]) -> Path:
    model = HERE / (f"{defines[0].lower()}.pml" if in_channel(defines) else "lease.pml")
    generate = ["spin", *(f"-D{each}" for each in defines), "-a", str(model)]
    done = subprocess.run(generate, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0 or "error" in done.stdout.lower():
        raise Failed(f"spin: {done.stdout}{done.stderr}")
    kind = ["-DNP", "-DNOFAIR"] if cycles else ["-DSAFETY"]
    # `provided`, by which these models kill or stop a process, makes no two orders equal.
    if in_channel(defines) and any(each.startswith(("KILLED", "STOPPED")) for each in defines):
        kind.append("-DNOREDUCE")
    compiler = [os.environ.get("CC", "gcc"), *options, "-w", *kind]
    limits = ["-DCOLLAPSE", f"-DMEMLIM={LIMIT_MIB}"]
    subprocess.run([*compiler, *limits, "-o", "pan", "pan.c"], cwd=folder, check=True)
    return folder / "pan"


def verify(defines: list[str], cycles: bool = False, options: list[str] = WHOLE_SEARCH) -> Found:
    with tempfile.TemporaryDirectory(prefix="tenon-model-") as name:
        folder = Path(name)
        pan = build(folder, defines, cycles, options)
        arguments = [str(pan), "-m400000", *(["-l"] if cycles else [])]
        if in_channel(defines):
            arguments.append("-E")  # its processes may wait at the end, and Judge says which
        done = subprocess.run(
            arguments,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_CPU_S, LIMIT_CPU_S)),
        )
    found = re.search(r"^pan:1: (.*?)(?: \(at depth \d+\))?$", done.stdout, re.MULTILINE)
    errors = re.search(r"errors: (\d+)", done.stdout)
    states = re.search(r"(\d\S*) states, stored", done.stdout)
    if not errors or not states:
        raise Failed(f"pan ended with {done.returncode} and said: {done.stdout}{done.stderr}")
    if errors[1] != "0":
        return (found[1][:70] if found else "an error"), int(float(states[1]))
    for problem in ("max search depth too small", "out of memory", "Search not completed"):
        if problem in done.stdout:
            raise Failed(f"not everything was looked at: {problem}")
    return None, int(float(states[1]))


def check_variant(variant: str) -> None:
    defines, mutants = VARIANTS[variant]
    found, states = verify(defines.split())
    if found:
        raise Failed(f"{variant}: {found}")
    print(f"{variant}: {states} states, nothing found", flush=True)
    # Also check that no run goes on for ever, where that is cheap. (A hostile process can go on for
    # ever.)
    if variant in ENDS:
        found, states = verify(defines.split(), cycles=True)
        if found:
            raise Failed(f"{variant}: a run without an end: {found}")
        print(f"{variant}: every run ends, {states} states", flush=True)
    for mutant in mutants:
        found, states = verify([*defines.split(), f"MUTANT_{mutant}"], options=BUG_SEARCH)
        if not found:
            raise Failed(
                f"{variant}: the bug {mutant} was planted, and not found in {states} states"
            )
        print(f"{variant} with {mutant}: {found}, in {states} states", flush=True)


def check_orders(variant: str) -> None:
    with tempfile.TemporaryDirectory(prefix="tenon-model-") as name:
        program = Path(name) / "orders"
        compiler = [os.environ.get("CXX", "g++"), "-std=c++17", "-w", "-fpermissive"]
        source = str(HERE / f"{variant}.cc")
        subprocess.run([*compiler, "-o", str(program), source], check=True)
        for weaker in [None, *ORDERS[variant]]:
            command = [str(program), *([weaker] if weaker else [])]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
            if done.returncode not in (0, 1):
                raise Failed(f"{command} ended with {done.returncode}: {done.stderr}")
            found = re.search(r"FAILED \((.*)\)", done.stdout)
            if weaker is None and (done.returncode != 0 or found):
                raise Failed(f"the orders are too weak: {done.stdout}")
            if weaker and not (done.returncode == 1 and found):
                raise Failed(f"a weaker order was not refused: {weaker}")
            print(f"{weaker or 'the orders of the code'}: {found[1] if found else 'nothing found'}")


def check_names() -> None:
    for kind, (file, folder, name) in NAMES.items():
        text = (HERE / file).read_text()
        headers = "\n".join(
            path.read_text() for path in sorted((SOURCE / "impl" / folder).glob("*.h"))
        )
        model = re.search(rf"mtype:{kind} = \{{([^}}]*)\}}", text)
        code = re.search(rf"enum class {name}\b[^{{]*\{{([^}}]*)\}}", headers)
        if not model:
            raise Failed(f"{file} has no states of a {kind}")
        if not code:
            raise Failed(f"impl/{folder} has no enum with the states of a {kind}")
        ours = {each.strip() for each in model[1].split(",")}
        without_comments = re.sub(r"//.*", "", code[1])
        theirs = {
            re.sub(r"^k", "", each.split("=")[0].strip()).upper()
            for each in without_comments.split(",")
            if each.strip()
        }
        if ours != theirs:
            raise Failed(
                f"the states of a {kind} are {sorted(ours)} in the model and {sorted(theirs)} in"
                " the code"
            )
        print(f"{kind}: {', '.join(sorted(ours))}")


def has(tool: str) -> bool:
    if tool == "relacy":
        return Path("/usr/include/relacy/relacy.hpp").exists()
    return shutil.which(tool) is not None


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in {*VARIANTS, *ORDERS, "names"}:
        print(__doc__ + "\nVariants: " + " ".join(VARIANTS), file=sys.stderr)
        return 2
    variant = sys.argv[1]
    tools = ["spin", os.environ.get("CC", "gcc").split()[0]]
    if variant in ORDERS:
        tools = ["relacy", os.environ.get("CXX", "g++").split()[0]]
    for tool in tools if variant != "names" else []:
        if not has(tool):
            print(f"skipped: there is no {tool} here")
            return 77
    try:
        if variant == "names":
            check_names()
        elif variant in ORDERS:
            check_orders(variant)
        else:
            check_variant(variant)
    except (Failed, subprocess.SubprocessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
