/* The machine: memory where stores are seen late, tokens, sockets, and kill -9. */

/*
 * Without a fence, other processes may see a store only after the storer's next load. Until then
 * the store waits in a buffer. Memory() lets stores out, first in, first out, because release
 * stores keep their order. A read-modify-write is atomic when it comes out. The stores of a dead
 * process come out too. Without WEAK, stores are seen at once.
 */
#define STORE_SUMMARY 8
chan stores[LEDGERS] = [4] of { byte };      /* by the borrower: a slot's bit, or STORE_SUMMARY */
chan renew_stores = [1] of { byte };         /* by the borrower's thread that forks */
chan waiting_stores = [6] of { byte, bool }; /* by the lender */

#ifdef WEAK
#define store_bit(k, s) stores[k]!s
#define store_summary(k) stores[k]!STORE_SUMMARY
#define store_renew(k) renew_stores!k
#define store_waiting(k, value) waiting_stores!k, value
#else
#define store_bit(k, s) word[k] = word[k] | (1 << (s))
#define store_summary(k) summary[k] = true
#define store_renew(k) renew[k] = true
#define store_waiting(k, value) waiting[k] = value
#endif

#define let_out(k) \
  stores[k]?t_i; \
  if \
  :: t_i == STORE_SUMMARY -> summary[k] = true \
  :: else -> word[k] = word[k] | (1 << t_i) \
  fi; \
  t_i = 0

proctype Memory() {
end:
  do
  :: d_step { nempty(stores[0]) -> let_out(0) }
  :: d_step { nempty(stores[1]) -> let_out(1) }
  :: d_step { nempty(renew_stores) -> renew_stores?t_i; renew[t_i] = true; t_i = 0 }
  :: d_step {
       nempty(waiting_stores) -> waiting_stores?t_i, t_p; waiting[t_i] = t_p; t_i = 0; t_p = 0
     }
  od
}

#ifdef MUTANT_PID_NOT_TOKEN
#define hangs_up(k) (made[k] && !hung_up[k] && !HAS(LENDER, k) && !alive[receiver[k]])
#else
#define hangs_up(k) (made[k] && !hung_up[k] && (copies[k] == 0 || faked[k]))
#endif

#define close_token(p, k) \
  if \
  :: HAS(p, k) -> HAS(p, k) = false; copies[k]-- \
  :: else -> skip \
  fi

/*
 * A message has a lease or NO_LEASE (a token alone), its ledger, and as bits the tokens that travel
 * with it.
 */
#define NO_LEASE 15
chan queue[LEDGERS] = [4] of { byte, byte, byte };

/* The receiver closes a second copy of a token that it has. */
#define keep(p, k) \
  if \
  :: HAS(p, k) -> copies[k]-- \
  :: else -> HAS(p, k) = true \
  fi

#define keep_tokens(p, fds) \
  if \
  :: fds & 1 -> keep(p, 0) \
  :: else -> skip \
  fi; \
  if \
  :: fds & 2 -> keep(p, 1) \
  :: else -> skip \
  fi

/*
 * The end of a process, in order or not. Its memory means nothing any more, and is cleared so that
 * equal states merge. Then the kernel closes its fds. The last copy of a receiving end takes the
 * unread messages with it, and the tokens in them.
 */
inline exit(p, c) {
  d_step {
    alive[p] = false;
    t_i = 0;
    do
    :: t_i < LEASES -> REF(p, t_i) = false; t_i++
    :: else -> break
    od;
    t_i = 0
  };
  d_step { close_token(p, 0); close_token(p, 1) };
  d_step {
    sockets[c]--;
    do
    :: sockets[c] == 0 && len(queue[c]) > 0 ->
       queue[c]?t_i, t_k, t_p;
       if
       :: t_i != NO_LEASE -> fly[t_i] = false
       :: else -> skip
       fi;
       copies[0] = copies[0] - (t_p & 1);
       copies[1] = copies[1] - (t_p >> 1)
    :: else -> break
    od;
    t_i = 0; t_k = 0; t_p = 0
  }
}

/* MORTAL: the processes that are killed, as bits. If two have the same part, one is enough. */
#ifndef MORTAL
#define MORTAL 7
#endif
proctype Killer() {
  byte left;
  if
  :: left = KILLS
  :: left = 0  /* or kill nobody: SPIN takes no process for stuck that can still be killed */
  fi;
  do
#if MORTAL & 1
  :: d_step { left > 0 && alive[0] -> alive[0] = false; left-- }
#endif
#if MORTAL & 2
  :: d_step { left > 0 && alive[1] -> alive[1] = false; left-- }
#endif
#if MORTAL & 4
  :: d_step { left > 0 && alive[2] -> alive[2] = false; left-- }
#endif
  :: left == 0 || !(alive[0] && alive[1]) -> break
  od
}
