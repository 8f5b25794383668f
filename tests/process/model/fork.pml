/* A thread of borrower 1 forks process 2, at any moment of its other thread. */

#define mark(i) \
  if \
  :: lease[i] == HELD -> lease[i] = FAMILY \
  :: else -> skip \
  fi

inline mark_family() {
  d_step { mark(0); mark(1); mark(2); mark(3) }
}

#define inherit(k) HAS(2, k) = HAS(1, k); copies[k] = copies[k] + HAS(1, k)

bool born;

proctype Forker() {
  {
    if
    :: HAS(1, 0) ->
       forking = true;
#ifndef MUTANT_MARKS_AFTER_FORK
       mark_family();
#endif
       d_step {
         alive[2] = true;
         born = true;
         REF(2, 0) = REF(1, 0); REF(2, 1) = REF(1, 1); REF(2, 2) = REF(1, 2); REF(2, 3) = REF(1, 3);
         inherit(0);
         inherit(1);
         sockets[0]++
       };
#ifdef MUTANT_MARKS_AFTER_FORK
       mark_family();
#endif
       forking = false;
       store_renew(0);
#ifndef MUTANT_NO_FENCE_RENEW
       empty(renew_stores);
#endif
       if
       :: waiting[0] -> bell[0] = true
       :: else -> skip
       fi
    :: true -> skip
    fi;
    fork_over = true
  } unless { !alive[1] }
}

proctype Child() {
  byte i;
end:
  born;
  {
    do
    :: holds_any(2) ->
       choose_held(2, i);
       REF(2, i) = false;
#ifdef MUTANT_CHILD_RELEASES
       set_bit(i / SLOTS, i);
#endif
       i = 0
    :: else -> break
    od
  } unless { !alive[2] };
  exit(2, 0)
}
