/*
 * The model of the lease protocol (docs/format/lease.md) for SPIN. run.py has the variants, which
 * say what processes take part, and the mutants: a planted bug each, which SPIN must find.
 *
 * A process is killed between any two of its steps. A step is one atomic operation on shared
 * memory, one system call, or one action under the lender's lock. Every process ends by itself or
 * is killed, so every run ends. So a claim "this happens in the end" becomes "no run ends before
 * this happened". A lender that is not woken, or a block that does not become FREE again, is an
 * invalid end state.
 *
 * A ledger k is a token (`copies` of it are open or in flight), a lease page (word, summary,
 * waiting, renew) and SLOTS slots. The lease of slot s has the number LEASE(k, s) everywhere. REF:
 * the process counts a reference, so it may read the block.
 */
mtype:block = { FREE, LIVE, LENT };
mtype:lease = { HELD, FAMILY, RELEASED, ENDED };

#ifndef BLOCKS
#define BLOCKS 2
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef ROUNDS
#define ROUNDS 3  /* blocks that the lender lends, one after another */
#endif
#ifndef KILLS
#define KILLS 2
#endif
#define LEDGERS 2
#define LEASES 4
#define LEASE(k, s) ((k) * SLOTS + (s))

/* Process 0 is the lender. The parts of the others depend on the variant. */
#define LENDER 0
#define PROCESSES 3
#define REF(p, i) ref[(p) * LEASES + (i)]
#define HAS(p, k) has[(p) * LEDGERS + (k)]
bool alive[PROCESSES];
bool hostile[PROCESSES];

/* The lenders' own state, which decides. */
mtype:block block[BLOCKS];
byte leases[BLOCKS];           /* the number of leases on a block */
mtype:lease ledger[LEASES];    /* 0: never granted */
byte block_of[LEASES];
bool hung_up[LEDGERS];         /* the hang-up was seen, and its leases ended */
bool waiters;                  /* a thread waits for space */
byte current;                  /* FORK: the ledger that new leases belong to */

/* The lease pages, which two processes share. */
byte word[LEDGERS];
bool summary[LEDGERS];
bool waiting[LEDGERS];
bool renew[LEDGERS];

/* The kernel's state. */
bool made[LEDGERS];
byte copies[LEDGERS];          /* of a token: in processes, and in unread messages */
bool has[PROCESSES * LEDGERS]; /* the process has it open */
/* A hang-up although copies exist: in mutants, or if a process does it to its own token. */
bool faked[LEDGERS];
bool bell[LEDGERS];            /* a byte lies in it */
byte sockets[LEDGERS];         /* copies of the borrower's end of the connection */
bool eof[LEDGERS];             /* the lender's end is closed */

/* The borrowers' state. */
bool ref[PROCESSES * LEASES];
mtype:lease lease[LEASES];     /* the state that its receiver gives it */
bool fly[LEASES];              /* its message was not taken in yet */
byte receiver[LEDGERS];
byte newest;                   /* FORK: the ledger of the last message */
bool forking, fork_over;
/* FORWARD: the forwarder's own lease on the memory that this lease lends on. */
byte from[LEASES];

hidden byte t_i, t_p, t_k, t_j;  /* temporary values of one d_step */

/* No living process may still read under lease i. Hostile processes get no such promise. */
inline assert_no_reader(i) {
  assert(!(fly[i] && alive[receiver[(i) / SLOTS]] && !hostile[receiver[(i) / SLOTS]]));
  assert(!(REF(0, i) && alive[0]) && !(REF(1, i) && alive[1] && !hostile[1]) &&
         !(REF(2, i) && alive[2] && !hostile[2]))
}

inline assert_unused(i) {
  assert_no_reader(i);
#ifdef FORWARD
  t_j = LEASE(1, 0);
  do
  :: t_j < LEASE(2, 0) && from[t_j] == i && i < LEASE(1, 0) -> assert_no_reader(t_j); t_j++
  :: t_j < LEASE(2, 0) && !(from[t_j] == i && i < LEASE(1, 0)) -> t_j++
  :: else -> break
  od;
  t_j = 0
#endif
}

#include "kernel.pml"
#ifdef CYCLE
byte home[BLOCKS];  /* the lender's storages over its own blocks that came home */
#define at_home(b) (home[b])
bool guarded;       /* the lender's own token came home */
bool reading;       /* a message was read from the socket, and not taken in yet */
#ifdef MUTANT_ENDS_UNREAD
#define may_end(k) true
#else
#define may_end(k) ((k) != 0 || !guarded || (empty(queue[1]) && !reading))
#endif
#else
#define at_home(b) 0
#define may_end(k) true
#endif
#include "lender.pml"
#include "borrower.pml"
#ifdef FORK
#include "fork.pml"
#endif
#ifdef FORWARD
#include "forwarder.pml"
#endif
#ifdef CYCLE
#include "cycle.pml"
#endif
#ifdef FORGET
#include "forget.pml"
#endif
#ifdef HOSTILE
#include "hostile.pml"
#endif

init {
  atomic {
    t_i = 0;
    do
    :: t_i < BLOCKS -> block[t_i] = FREE; t_i++
    :: else -> break
    od;
    t_i = 0;
    alive[0] = true;
    alive[1] = true;
    sockets[0] = 1;
    receiver[0] = 1;
#ifdef WEAK
    run Memory();
#endif
    run Killer();
    run Lender();
#ifdef FORWARD
    run Forwarder();
#else
    run Borrower(1, 0);
#endif
#ifdef FORK
    receiver[1] = 1;
    run Forker();
    run Child()
#else
    sockets[1] = 1;
#ifdef CYCLE
    receiver[1] = LENDER;
    run Homecoming()
#else
    alive[2] = true;
    receiver[1] = 2;
#if defined(HOSTILE)
    hostile[2] = true;
    run Hostile()
#elif defined(FORGET)
    run Stayer();
    run Last()
#else
    run Borrower(2, 1)
#endif
#endif
#endif
#ifdef THREADS
    ; block[0] = LIVE;
    run LenderThread()
#endif
  }
}
