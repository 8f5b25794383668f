/*
 * The model of a ring beside a socket (docs/format/ring.md) for SPIN: memory that shows stores
 * late, kills and stops. ring_sleep.pml and ring_withdraw.pml have the steps of the sender and the
 * receiver. run.py has the variants and their mutants.
 *
 * Process 0 sends, process 1 receives. A step is one atomic operation on shared memory or one
 * system call, with what the process does in its own memory before the next one. A process that is
 * killed or stopped takes no further step. Every run ends, and Judge looks at its end.
 */
#define SENDER 0
#define RECEIVER 1
#define PROCESSES 2
bool alive[PROCESSES] = true;
bool stopped[PROCESSES];
#define runs(p) (alive[p] && !stopped[p])

#ifndef KILLED
#define KILLED 0  /* the processes of which one may be killed, as bits */
#endif
#ifndef STOPPED
#define STOPPED 0  /* the processes of which one may be stopped, as bits */
#endif
#if KILLED || STOPPED
#define MAY_END(p) provided (runs(p))
#else
#define MAY_END(p)
#endif

#ifndef CAPACITY
#define CAPACITY 2
#endif
#define SLOT(position) ((position) % CAPACITY)
byte word[CAPACITY];  /* the position plus 1 of the frame in the slot */

hidden byte t_kind, t_at, t_value;  /* temporary values of one d_step */

/*
 * Other processes may see a store only after the storer's later loads. Until then the store waits
 * in the storer's buffer. Memory() lets stores out in their order. A seq_cst store waits until the
 * buffer is empty. A seq_cst load waits for nothing, so only these two order a store before a later
 * load. A system call on the socket is a critical section of the kernel, and the stores before it
 * are seen by then.
 */
chan stores[PROCESSES] = [5] of { byte, byte, byte };
#define is_drained(p) empty(stores[p])

#define end_of(p) \
  d_step { kills && (KILLED & (1 << p)) && runs(p) -> alive[p] = false; kills = false } \
  :: d_step { stops && (STOPPED & (1 << p)) && runs(p) -> stopped[p] = true; stops = false }
proctype Killer() {
  bool kills = (KILLED != 0), stops = (STOPPED != 0);
  do
  :: end_of(SENDER)
  :: end_of(RECEIVER)
  :: d_step { kills = false; stops = false }; break
  od
}

#ifdef WITHDRAW
#include "ring_withdraw.pml"
#else
#include "ring_sleep.pml"
#endif

proctype Memory() {
end:
  do
  :: d_step { nempty(stores[SENDER]) -> stores[SENDER]?t_kind, t_at, t_value; let_out() }
  :: d_step { nempty(stores[RECEIVER]) -> stores[RECEIVER]?t_kind, t_at, t_value; let_out() }
  od
}

init {
  atomic {
    run Memory();
#if KILLED || STOPPED
    run Killer();
#endif
    run Sender(SENDER);
    run Receiver(RECEIVER);
    run Judge()
  }
}
