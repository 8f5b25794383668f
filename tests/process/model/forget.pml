/*
 * Process 2 has sent the lender's token on to a fourth process, as it must when it lends on. Then
 * it releases everything and stays. The fourth process must be told that the token is FORGOTTEN,
 * because there may never be another message.
 */
#define TOKEN 1
#define FORGOTTEN 2
chan told = [2] of { byte };
bool last_has;

inline last_closes() {
  if
  :: last_has -> last_has = false; copies[0]--
  :: else -> skip
  fi
}

proctype Stayer() {
  byte i, k, fds;
  bool own, has_told;
  {
    do
    :: nempty(queue[1]) ->
       take_in(2, 1);
       if
       :: HAS(2, 0) && !has_told -> has_told = true; d_step { copies[0]++; told!TOKEN }
       :: else -> skip
       fi
    :: holds_any(2) -> choose_held(2, i); release(2, i); i = 0
    :: empty(queue[1]) && eof[1] && !holds_any(2) -> break
    od;
    skip;  /* a break cannot lead into a d_step */
    d_step { close_token(2, 0) };
#ifndef MUTANT_FORGETS_WITH_NEXT_LEASE
    if
    :: has_told -> told!FORGOTTEN
    :: else -> skip
    fi;
#endif
    eof[0]
  } unless { !alive[2] };
  exit(2, 1)
}

proctype Last() {
  byte what;
  do
  :: d_step {
       nempty(told) ->
       told?what;
       if
       :: what == TOKEN -> last_has = true
       :: else -> last_closes()
       fi;
       what = 0
     }
  :: d_step { empty(told) && !alive[2] -> last_closes() }; break
  od
}
