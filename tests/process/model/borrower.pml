/* A borrower: it takes in messages, reads, and releases. */

#define holds_any(p) (REF(p, 0) || REF(p, 1) || REF(p, 2) || REF(p, 3))

inline choose_held(p, i) {
  if
  :: REF(p, 0) -> i = 0
  :: REF(p, 1) -> i = 1
  :: REF(p, 2) -> i = 2
  :: REF(p, 3) -> i = 3
  fi
}

/* Sets the bit, then the summary, and then looks whether the lender waits. */
inline set_bit(k, i) {
#ifdef MUTANT_SUMMARY_FIRST
  store_summary(k);
  store_bit(k, (i) % SLOTS);
#else
  store_bit(k, (i) % SLOTS);
  store_summary(k);
#endif
#ifndef MUTANT_NO_FENCE_BORROWER
  empty(stores[k]);
#endif
  if
  :: waiting[k] -> bell[k] = true
  :: else -> skip
  fi
}

#ifdef MUTANT_RELEASES_FAMILY
#define nobody_else(state) (state == HELD || state == FAMILY)
#else
#define nobody_else(state) (state == HELD)
#endif

/* Drops the reference first, and only then checks whether another process may have one. */
inline release(p, i) {
#if defined(MUTANT_LOOKS_FIRST)
  own = nobody_else(lease[i]);
  REF(p, i) = false;
#elif defined(MUTANT_BIT_BEFORE_LAST_READ)
  own = nobody_else(lease[i]);
#else
  REF(p, i) = false;
  own = nobody_else(lease[i]);
#endif
  if
  :: own -> lease[i] = RELEASED; set_bit((i) / SLOTS, i)
  :: else -> lease[i] = RELEASED
  fi;
#ifdef MUTANT_BIT_BEFORE_LAST_READ
  REF(p, i) = false;
#endif
  own = false
}

/*
 * Closes an old token once a newer one has come and nothing is held under the old one. No message
 * of the old token is in flight then.
 */
inline close_old_token(p) {
#ifdef FORK
#ifdef MUTANT_CLOSES_EARLY
  if
  :: fork_over && HAS(p, 0) && !REF(p, 0) && !REF(p, 1) -> d_step { close_token(p, 0) }
#else
  if
  :: newest == 1 && HAS(p, 0) && !REF(p, 0) && !REF(p, 1) -> d_step { close_token(p, 0) }
#endif
  :: else -> skip
  fi
#else
  skip
#endif
}

inline take_in(p, c) {
  d_step { nempty(queue[c]) -> queue[c]?i, k, fds; keep_tokens(p, fds); fds = 0 };
#ifdef FORK
  newest = k;
#endif
  if
  :: i == NO_LEASE -> skip
  :: else ->
     d_step {
       fly[i] = false; REF(p, i) = true;
#ifdef MUTANT_HELD_IN_FORK
       lease[i] = HELD
#else
       if
       :: forking -> lease[i] = FAMILY  /* the child may inherit it or not */
       :: else -> lease[i] = HELD
       fi
#endif
     }
  fi;
  i = 0; k = 0
}

proctype Borrower(byte p, c) {
  byte i, k, fds;
  bool own;
  {
    do
    :: nempty(queue[c]) -> take_in(p, c); close_old_token(p)
    :: holds_any(p) -> choose_held(p, i); release(p, i); i = 0; close_old_token(p)
    :: empty(queue[c]) && eof[c] && !holds_any(p) -> break
    od;
#ifdef FORK
    fork_over
#endif
  } unless { !alive[p] };
  exit(p, c)
}
