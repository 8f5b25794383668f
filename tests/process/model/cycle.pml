/*
 * Process 1 lends the lender's memory back to the lender (ledger 1). Another thread of the lender
 * takes it in, and may lend it again. The memory is the lender's own block, and is kept as such. A
 * lease on itself would never end, because a copy of the lender's own token would keep it. So that
 * copy is closed when it comes. From then on the ledger does not end before everything that process
 * 1 sent is read.
 */
#if defined(MUTANT_LEASES_ITSELF) || defined(MUTANT_KEEPS_OWN_TOKEN)
#define KEPT 1
#else
#define KEPT 0
#endif
bool own_token;  /* the planted bugs keep it */

inline come_home(j) {
  b = block_of[from[j]];
#if defined(MUTANT_HOME_UNKEPT)
  d_step { home[b]++ };
  release(LENDER, j)
#elif defined(MUTANT_LEASES_ITSELF)
  d_step { home[b]++; leases[b]++ }
#else
  d_step { home[b]++; leases[b]++ };
  release(LENDER, j)
#endif
}

inline leave_home() {
  d_step {
    home[b]--;
#ifndef MUTANT_HOME_UNKEPT
    leases[b]--;
    if
    :: leases[b] == 0 && block[b] == LENT -> block[b] = FREE
    :: else -> skip
    fi;
#endif
    b = 0
  }
}

/* The lock under which leases are granted also guards the check whether the ledger has ended. */
inline lend_again() {
  d_step {
    i = 0;
    do
    :: i < SLOTS && ledger[i] == HELD -> i++
    :: else -> break
    od;
    if
    :: hung_up[0] || i == SLOTS -> i = NO_LEASE
    :: else -> ledger[i] = HELD; block_of[i] = b; leases[b]++; fly[i] = true
    fi
  };
  if
  :: i == NO_LEASE -> skip
  :: else ->
#ifdef MUTANT_LEASES_ITSELF
     again = i; lent_again = j;
#endif
     send(LENDER, 0, i, 0)
  fi;
  i = 0
}

inline close_own_token() {
  d_step {
    if
    :: own_token -> own_token = false; copies[0]--
    :: else -> skip
    fi
  }
}

/*
 * The planted bug: lease j is released when neither the lender nor a lease on the same memory needs
 * it. The token goes with the last such lease.
 */
#ifdef MUTANT_LEASES_ITSELF
#define keeps_itself (REF(LENDER, 2) || REF(LENDER, 3))
#define may_go(j) (REF(LENDER, j) && home[0] == 0 && !(lent_again == j && ledger[again] == HELD))
byte lent_again;
#else
#define keeps_itself false
#endif

proctype Homecoming() {
  byte i, j, k, fds, b, again = NO_LEASE;
  bool own;
  {
    do
    :: nempty(queue[1]) ->
       d_step {
         queue[1]?j, k, fds;
         if
         :: (fds & 1) && KEPT && !own_token -> own_token = true
         :: (fds & 1) && !(KEPT && !own_token) -> copies[0]--; guarded = true
         :: else -> skip
         fi;
         reading = true;
         if
         :: fds & 2 -> keep(LENDER, 1)
         :: else -> skip
         fi;
         fds = 0; k = 0;
         fly[j] = false; REF(LENDER, j) = true; lease[j] = HELD
       };
       come_home(j);
       reading = false;
       if
       :: again == NO_LEASE -> again = SLOTS; lend_again()
       :: skip
       fi;
       j = 0;
       leave_home()
#ifdef MUTANT_LEASES_ITSELF
    :: may_go(2) -> release(LENDER, 2)
    :: may_go(3) -> release(LENDER, 3)
#endif
    :: sockets[0] == 0 && empty(queue[1]) && !keeps_itself ->
#ifdef MUTANT_LEASES_ITSELF
       close_own_token();
#endif
       d_step { close_token(LENDER, 1) };
       break
    od;
    !alive[LENDER]
  } unless { !alive[LENDER] };
  close_own_token();
  exit(LENDER, 1)
}
