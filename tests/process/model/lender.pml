/*
 * The lender: it takes a FREE block, lends it, and drops its own storage. It waits for space when
 * no block is FREE.
 */

/* In FORWARD the second ledger is the forwarder's. */
#ifdef FORWARD
#define SECOND_IS_MINE 0
#else
#define SECOND_IS_MINE 1
#endif

#if BLOCKS == 1
#define free_blocks (block[0] == FREE)
#else
#define free_blocks ((block[0] == FREE) + (block[1] == FREE))
#endif

/* Under the lock. `how` is RELEASED if a bit was taken, and ENDED if the token hung up. */
#ifdef MUTANT_ENDS_TWICE
#define stands(i, how) (ledger[i] == HELD || (ledger[i] == RELEASED && how == ENDED))
#elif defined(MUTANT_TRUSTS_BITS)
#define stands(i, how) (ledger[i] == HELD || (ledger[i] != 0 && how == RELEASED))
#else
#define stands(i, how) (ledger[i] == HELD)
#endif
inline end_lease(i, how) {
  if
  :: stands(i, how) ->
     assert_unused(i);
     ledger[i] = how;
     assert(leases[block_of[i]] > 0 && block[block_of[i]] != FREE);
     leases[block_of[i]]--;
     if
     :: leases[block_of[i]] == 0 && block[block_of[i]] == LENT -> block[block_of[i]] = FREE
     :: else -> skip
     fi
  :: else -> skip  /* the bit means nothing: it was set twice, or by a hostile borrower */
  fi
}

#if SLOTS == 1
#define end_leases(k, bits, how) \
  if \
  :: (bits) & 1 -> end_lease(LEASE(k, 0), how) \
  :: else -> skip \
  fi
#else
#define end_leases(k, bits, how) \
  if \
  :: (bits) & 1 -> end_lease(LEASE(k, 0), how) \
  :: else -> skip \
  fi; \
  if \
  :: (bits) & 2 -> end_lease(LEASE(k, 1), how) \
  :: else -> skip \
  fi
#endif

/* Takes the summary first, then the word. */
inline drain(k) {
#if defined(MUTANT_CLEARS_LATE)
  /* A bit is cleared only by the next drain, when its slot may belong to a new lease. */
  d_step {
    word[k] = word[k] & (255 - late[k]);
    late[k] = word[k];
    summary[k] = false;
    end_leases(k, late[k], RELEASED)
  }
#elif defined(MUTANT_CLEARS_BY_STORE)
  d_step { summary[k] = false; seen = word[k] };
  d_step { word[k] = 0; end_leases(k, seen, RELEASED); seen = 0 }
#elif defined(SHORT)
  d_step {  /* as if both were one step; the variants without SHORT have two */
    if
    :: summary[k] ->
       summary[k] = false; seen = word[k]; word[k] = 0; end_leases(k, seen, RELEASED); seen = 0
    :: else -> skip
    fi
  }
#else
  d_step { more = summary[k]; summary[k] = false };
  if
  :: more ->
     d_step { seen = word[k]; word[k] = 0; end_leases(k, seen, RELEASED); seen = 0; more = false }
  :: else -> skip
  fi
#endif
}
#ifdef MUTANT_CLEARS_LATE
byte late[LEDGERS];
#endif

inline look_at_token(k) {
  if
  :: d_step { hangs_up(k) && may_end(k) -> hung_up[k] = true; end_leases(k, 3, ENDED) }
  :: else -> skip
  fi
}

/* A new page begins with the present value of `waiting`. */
inline make_token(p, k) {
  d_step {
    made[k] = true; copies[k] = 1; HAS(p, k) = true;
#ifndef MUTANT_NEW_PAGE_SLEEPS
    waiting[k] = waiters
#endif
  }
}

/* Nothing is sent to a peer that is gone. The leases that were granted end with the token. */
inline send(p, c, i, k) {
  d_step {
    sockets[c] == 0 || nfull(queue[c]) ->
    if
    :: sockets[c] == 0 && i != NO_LEASE -> fly[i] = false
    :: sockets[c] == 0 && i == NO_LEASE -> skip
    :: else ->
       queue[c]!i, k, (HAS(p, k) << k);
       copies[k] = copies[k] + HAS(p, k)
    fi
  };
  d_step { close_token(p, k) }
}

/* The borrower has forked and asks for a new token. */
inline renew_token() {
  if
  :: renew[0] && current == 0 && !hung_up[0] ->
     current = 1;
     make_token(LENDER, 1);
     send(LENDER, 0, NO_LEASE, 1)
  :: else -> skip
  fi
}

inline look() {
  drain(0);
  look_at_token(0);
#if SECOND_IS_MINE
  drain(1);
  look_at_token(1);
#endif
#if defined(FORK) && !defined(MUTANT_RENEWS_WITH_NEXT_LEASE)
  renew_token()
#else
  skip
#endif
}

inline wait_for(n) {
  look();
  if
  :: free_blocks >= n -> skip
  :: else ->
     d_step {
       waiters = true;
       if
       :: made[0] -> store_waiting(0, true)
       :: else -> skip
       fi;
       if
       :: made[1] && SECOND_IS_MINE -> store_waiting(1, true)
       :: else -> skip
       fi
     };
#ifndef MUTANT_NO_FENCE_LENDER
     empty(waiting_stores);
#endif
     do
     :: true ->
#ifdef MUTANT_BELL_AFTER_DRAIN
        look();
        d_step { bell[0] = false; bell[1] = bell[1] && !SECOND_IS_MINE };
#else
        d_step { bell[0] = false; bell[1] = bell[1] && !SECOND_IS_MINE };
        look();
#endif
        if
        :: free_blocks >= n -> break
        :: else ->  /* sleeps */
           free_blocks >= n || bell[0] || (hangs_up(0) && may_end(0)) ||
           (SECOND_IS_MINE && (bell[1] || hangs_up(1)))
        fi
     od;
     skip;  /* a break cannot lead into a d_step */
     d_step {
       waiters = false;
       store_waiting(0, false);
       if
       :: made[1] && SECOND_IS_MINE -> store_waiting(1, false)
       :: else -> skip
       fi
     }
  fi
}

/* Ledger k gets a lease on block b, and its borrower gets a message. */
inline lend(b, k, c) {
  if
  :: !made[k] -> make_token(LENDER, k)
  :: else -> skip
  fi;
  if
  :: hung_up[k] -> skip
  :: else ->
     d_step {
       i = LEASE(k, 0);
       do
       :: ledger[i] == HELD -> i++
       :: else -> break
       od;
       assert(i < LEASE(k, SLOTS));
       ledger[i] = HELD; block_of[i] = b; leases[b]++; fly[i] = true
     };
     send(LENDER, c, i, k);
     i = 0
  fi
}

inline drop_storage(b) {
  d_step {
    if
    :: leases[b] == 0 -> block[b] = FREE
    :: else -> block[b] = LENT
    fi
  }
}

inline to_whom() {
#if defined(FORK)
  renew_token();
  lend(b, current, 0)
#elif defined(FORWARD) || defined(ONE)
  lend(b, 0, 0)
#else
  if
  :: true -> lend(b, 0, 0)
  :: true -> lend(b, 1, 1)
  :: true -> lend(b, 0, 0); lend(b, 1, 1)
  fi
#endif
}

proctype Lender() {
  byte round = ROUNDS, b, i, seen;
  bool more;
  {
    do
    :: round > 0 ->
       wait_for(1);
       d_step {
         if
         :: block[0] == FREE -> b = 0
         :: else -> b = BLOCKS - 1
         fi;
         assert(block[b] == FREE && leases[b] == 0 && at_home(b) == 0);
         t_k = 0;
         do
         :: t_k < LEASE(2, 0) && ledger[t_k] != 0 && block_of[t_k] == b && t_k < LEASE(1, 0) ->
            assert_unused(t_k); t_k++
         :: t_k < LEASE(2, 0) &&
            !(ledger[t_k] != 0 && block_of[t_k] == b && t_k < LEASE(1, 0)) -> t_k++
         :: else -> break
         od;
         t_k = 0;
         block[b] = LIVE;
         round--
       };
       to_whom();
#ifndef SHORT
       if
       /* Another allocation finds no block, so a lease can end while its block is LIVE. */
       :: true -> look()
       :: skip
       fi;
#endif
       drop_storage(b);
       b = 0
    :: else -> break
    od;
#ifndef SHORT
    if
    /* The connections are closed first, with messages in them. */
    :: d_step { eof[0] = true; eof[1] = eof[1] || SECOND_IS_MINE }
    :: skip
    fi;
#endif
    wait_for(BLOCKS)
  } unless { !alive[LENDER] };
  d_step {
    eof[0] = true; eof[1] = eof[1] || SECOND_IS_MINE;
    close_token(LENDER, 0);
    close_token(LENDER, 1);
    alive[LENDER] = false
  }
}

#ifdef THREADS
/* Another thread of the lender lends a block to a new borrower while the first thread waits. */
proctype LenderThread() {
  byte i;
  {
    lend(0, 0, 0);
    drop_storage(0)
  } unless { !alive[LENDER] }
}
#endif
