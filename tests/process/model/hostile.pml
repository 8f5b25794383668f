/*
 * Process 2 writes random values over all that it may write, reads messages or not, and ends at
 * some time.
 */
proctype Hostile() {
  byte i, k, fds;
  {
    do
#ifdef FORWARD
    :: d_step { word[1] != 3 -> word[1] = 3; summary[1] = true; bell[1] = true }
#else
    :: word[1] != 3 -> word[1] = 3
    :: d_step { !summary[1] -> summary[1] = true; bell[1] = true }
#endif
    :: nempty(queue[1]) ->
       d_step {
         queue[1]?i, k, fds;
         keep_tokens(2, fds);
         fly[i] = false;
         i = 0; k = 0; fds = 0
       }
    :: HAS(2, 1) && !faked[1] -> faked[1] = true
#ifdef MUTANT_TOKEN_IS_SOCKET
    :: HAS(2, 0) && !faked[0] -> faked[0] = true  /* shutdown(2) on a socket that others hold too */
#endif
    :: HAS(2, 0) -> d_step { close_token(2, 0) }
    :: HAS(2, 1) -> d_step { close_token(2, 1) }
    :: break
    od
  } unless { !alive[2] };
  exit(2, 1)
}
