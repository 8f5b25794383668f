/* Process 1 borrows from the lender (ledger 0) and lends the memory on to process 2 (ledger 1). */

/* The memory of lease i of ledger 0 is lent on, and that lease stands. */
#define lent_on(i) ((ledger[2] == HELD && from[2] == i) || (ledger[3] == HELD && from[3] == i))
bool kept[2];  /* the forwarder has not released the lender's lease */

inline end_onward(j, how) {
  if
  :: ledger[j] == HELD -> assert_no_reader(j); ledger[j] = how
  :: else -> skip
  fi
}

#define end_onwards(bits, how) \
  if \
  :: (bits) & 1 -> end_onward(2, how) \
  :: else -> skip \
  fi; \
  if \
  :: (bits) & 2 -> end_onward(3, how) \
  :: else -> skip \
  fi

inline lend_on(i) {
  if
  :: !made[1] -> d_step { made[1] = true; copies[1] = 1; HAS(1, 1) = true }
  :: else -> skip
  fi;
  if
  :: hung_up[1] || (ledger[2] == HELD && ledger[3] == HELD) -> skip
  :: else ->
     d_step {
       j = 2;
       do
       :: ledger[j] == HELD -> j++
       :: else -> break
       od;
       ledger[j] = HELD; from[j] = i
     };
     /* The lender's token travels along: the lender waits for process 2 even if this one dies. */
     d_step {
       sockets[1] == 0 || nfull(queue[1]) ->
       if
       :: sockets[1] == 0 -> skip
       :: else ->
          fly[j] = true;
#ifdef MUTANT_PASSES_NO_TOKEN
          queue[1]!j, 1, (HAS(1, 1) << 1);
#else
          queue[1]!j, 1, ((HAS(1, 1) << 1) | (!passed_on));
          copies[0] = copies[0] + !passed_on;
          passed_on = true;
#endif
          copies[1] = copies[1] + HAS(1, 1)
       fi;
       j = 0
     };
     close_token(1, 1)
  fi
}

/* Releases lease i only when the own reference is gone and no borrower has the memory. */
inline release_if_done(i) {
  if
#ifdef MUTANT_DROPS_BEFORE_BORROWER
  :: kept[i] && !REF(1, i) ->
#else
  :: kept[i] && !REF(1, i) && !lent_on(i) ->
#endif
     kept[i] = false;
     set_bit(0, i)
  :: else -> skip
  fi
}

inline drain_onward() {
  bell[1] = false;
  d_step { more = summary[1]; summary[1] = false };
  if
  :: more ->
     d_step { t_p = word[1]; word[1] = 0; end_onwards(t_p, RELEASED); t_p = 0; more = false }
  :: else -> skip
  fi;
  if
  :: d_step { hangs_up(1) -> hung_up[1] = true; end_onwards(3, ENDED) }
  :: else -> skip
  fi;
  release_if_done(0);
  release_if_done(1)
}

#define done (!kept[0] && !kept[1])

proctype Forwarder() {
  byte i, k, fds, j;
  bool more, passed_on;
#ifndef MUTANT_LAZY_FORWARDER
  waiting[1] = true;  /* for good, because no other process looks */
#endif
  {
    do
    :: nempty(queue[0]) ->
       d_step { queue[0]?i, k, fds; keep_tokens(1, fds); fds = 0; k = 0 };
       d_step { fly[i] = false; REF(1, i) = true; kept[i] = true };
       if
       :: lend_on(i)
       :: skip
       fi;
       i = 0
    :: REF(1, 0) -> REF(1, 0) = false; release_if_done(0)
    :: REF(1, 1) -> REF(1, 1) = false; release_if_done(1)
    :: bell[1] || hangs_up(1) -> drain_onward()
    :: empty(queue[0]) && eof[0] && done -> break
    od
  } unless { !alive[1] };
  eof[1] = true;
  exit(1, 0)
}
