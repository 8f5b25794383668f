/*
 * The model of a queue (docs/format/queue.md) for SPIN: memory that shows stores late, kills, stops
 * and the service threads that hear of deaths. queue_sleep.pml, queue_lane.pml and
 * queue_redeliver.pml have the steps of senders and receivers. run.py has the variants and their
 * mutants.
 *
 * Processes 0 and 1 send, processes 2 and 3 receive. A step is one atomic operation on shared
 * memory or one system call, with what the process does in its own memory before the next one. A
 * process that is killed or stopped takes no further step, so `provided` is all that both need.
 * Every run ends, and Judge looks at its end.
 */
mtype:member = { FREE, JOINING, HERE, LEFT, DEAD };
mtype:slot = { EMPTY, FULL, TAKEN, HELD };

#define PROCESSES 4
mtype:member member[PROCESSES];
bool alive[PROCESSES];
bool stopped[PROCESSES];
bool heard[PROCESSES * PROCESSES];  /* the first process was told of the second's end */
#define runs(p) (alive[p] && !stopped[p])

#ifndef KILLED
#define KILLED 0  /* the processes of which one may be killed, as bits */
#endif
#ifndef STOPPED
#define STOPPED 0  /* the processes of which one may be stopped, as bits */
#endif

/*
 * The words by which a process sleeps, and its bit in the set of sleepers. Numbers that only grow
 * are flags here, so that equal states merge: `asleep` is "the number is odd", `wake` is "the futex
 * has another value than the sleeper saw", and RUNG(p, q) is "p has woken q for this odd number".
 */
bool asleep[PROCESSES];
bool wake[PROCESSES];
bool flagged[PROCESSES];
bool sleeping[PROCESSES];  /* the kernel's: the thread waits on its futex */
bool told[PROCESSES];      /* it was woken and has not acted on it yet, for Judge alone */
bool rung[PROCESSES * PROCESSES];
#ifdef MUTANT_RECORDS_GLOBALLY
#define RUNG(p, q) rung[q]
#else
#define RUNG(p, q) rung[(p) * PROCESSES + (q)]
#endif

hidden byte t_kind, t_at, t_value;  /* temporary values of one d_step */

/*
 * Other processes may see a store only after the storer's later loads. Until then the store waits
 * in the storer's buffer. Memory() lets stores out in their order. A seq_cst store or
 * read-modify-write waits until the buffer is empty. A seq_cst load waits for nothing, so only
 * these two order a store before a later load.
 */
#define STORE_ASLEEP 0
#define STORE_FLAG 1
#define STORE_FULL 2
#define STORE_FIRST 3
#define STORE_SECOND 4
chan stores[PROCESSES] = [4] of { byte, byte, byte };
#define is_drained(p) empty(stores[p])

/* Variants without kills and stops need no `provided`, so SPIN can leave out equal orders. */
#if KILLED || STOPPED
#define MAY_END(p) provided (runs(p))
#else
#define MAY_END(p)
#endif

/*
 * Kills one process and stops one, or not. A process that ends by exit() leaves the queue in order
 * while another thread of it still waits, and that thread ends wherever it is.
 */
#define end_of(p) \
  d_step { kills && (KILLED & (1 << p)) && runs(p) -> alive[p] = false; kills = false } \
  :: d_step { \
       kills && (KILLED & (1 << p)) && runs(p) && is_drained(p) -> \
       member[p] = LEFT; alive[p] = false; kills = false \
     } \
  :: d_step { stops && (STOPPED & (1 << p)) && runs(p) -> stopped[p] = true; stops = false }
proctype Killer() {
  bool kills = (KILLED != 0), stops = (STOPPED != 0);
  do
  :: end_of(0)
  :: end_of(1)
  :: end_of(2)
  :: end_of(3)
  :: d_step { kills = false; stops = false }; break
  od
}

/* The service thread of process q hears that process p has ended, and wakes its own threads. */
#ifdef MUTANT_HEARS_NOTHING
#define hears(q, p) false
#else
#define hears(q, p) (member[p] != FREE && !alive[p] && is_drained(p) && \
                     !heard[q * PROCESSES + p])
#endif
inline hear(p) {
  d_step {
    hears(q, p) ->
    heard[q * PROCESSES + p] = true;
    if
    :: member[p] == HERE -> member[p] = DEAD
    :: else -> skip
    fi
  };
  d_step { wake[q] = true; sleeping[q] = false }
}
proctype Service(byte q) MAY_END(q) {
end:
  do
  :: hear(0)
  :: hear(1)
  :: hear(2)
  :: hear(3)
  od
}

inline new_number() {
  RUNG(0, p) = false; RUNG(1, p) = false; RUNG(2, p) = false; RUNG(3, p) = false
}

/*
 * sleep_once() of impl/queue/sleep.h, in two parts around the caller's look. Nobody wakes a process
 * between its load of the futex and its store into `asleep`, unless the waker is late, so these two
 * are one step.
 */
inline say_asleep() {
#if defined(MUTANT_SEEN_LATE)
  atomic { is_drained(p) -> asleep[p] = true; new_number() };
  d_step { is_drained(p) -> flagged[p] = true };
#else
  atomic { is_drained(p) -> wake[p] = false; asleep[p] = true; new_number() };
#ifdef MUTANT_RELAXED_FLAG
  stores[p]!STORE_FLAG, p, true;
#else
  d_step { is_drained(p) -> flagged[p] = true };
#endif
#endif
}
inline sleep() {
#ifdef MUTANT_SEEN_LATE
  wake[p] = false;
#endif
  sleeping[p] = !wake[p];
  if
  :: !sleeping[p]
#ifdef SIGNALS
  :: d_step { sleeping[p] && signals > 0 -> signals--; sleeping[p] = false; interrupted = true }
  :: d_step { sleeping[p] && signals > 0 -> signals--; sleeping[p] = false; timed_out = true }
#endif
  fi
}
inline say_awake() {
#ifdef MUTANT_RELAXED_REMOVE
  d_step { stores[p]!STORE_ASLEEP, p, false; stores[p]!STORE_FLAG, p, false; slept = true }
#else
  /* The store is relaxed, and the seq_cst step behind it waits until it came out. */
  asleep[p] = false;
  d_step { flagged[p] = false; slept = true }
#endif
}

#ifdef LANE
#include "queue_lane.pml"
#elif defined(REDELIVER)
#include "queue_redeliver.pml"
#else
#include "queue_sleep.pml"
#endif

proctype Memory() {
end:
  do
  :: d_step { nempty(stores[0]) -> stores[0]?t_kind, t_at, t_value; let_out() }
  :: d_step { nempty(stores[1]) -> stores[1]?t_kind, t_at, t_value; let_out() }
  :: d_step { nempty(stores[2]) -> stores[2]?t_kind, t_at, t_value; let_out() }
  :: d_step { nempty(stores[3]) -> stores[3]?t_kind, t_at, t_value; let_out() }
  od
}

init {
  atomic {
    t_at = 0;
    do
    :: t_at < PROCESSES -> member[t_at] = FREE; t_at++
    :: else -> break
    od;
    t_at = 0;
    run Memory();
#if KILLED || STOPPED
    run Killer();
#endif
    begin();
    run Judge()
  }
}
