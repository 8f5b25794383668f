/*
 * A sender that puts frames into the ring or sends them over the socket (hand_over() of
 * impl/channel/frames.cc), and a receiver that takes them in order and sleeps (recv() there). The
 * sender chooses for each frame, as the frame's fds or its length would.
 */
#ifndef MESSAGES
#define MESSAGES 3
#endif
#define ROOM_OF_SOCKET 2
byte after[CAPACITY];  /* of the slot's head */
byte frame[CAPACITY];  /* the number of the frame in the slot */
byte by_socket;
byte passed;
bool waits, room_bell;

/*
 * Numbers that only grow are flags, so that equal states merge: `asleep` is "the number is odd",
 * and RUNG is "the receiver was rung for this number". The same holds for `waits`.
 */
bool asleep, rung, wait_rung;

#define BELL 0
chan to_receiver = [ROOM_OF_SOCKET] of { byte };  /* BELL, or the number of a frame plus 1 */
#define has_hung_up (!alive[SENDER] && is_drained(SENDER))

/* For the assertions alone. */
byte n_sent, n_received;
bool owes_bell;  /* the sender has put a frame, and has neither rung nor found that it need not */
bool waits_for_room, waits_for_socket;

#define STORE_HEAD 0
#define STORE_WORD 1
#define STORE_BY_SOCKET 2
#define STORE_ASLEEP 3
#define STORE_PASSED 4
#define STORE_WAITS 5
inline let_out() {
  if
  :: t_kind == STORE_HEAD -> after[t_at] = t_value / 16; frame[t_at] = t_value % 16
  :: t_kind == STORE_WORD -> word[t_at] = t_value
  :: t_kind == STORE_BY_SOCKET -> by_socket = t_value
  :: t_kind == STORE_ASLEEP -> asleep = t_value
  :: t_kind == STORE_PASSED -> passed = t_value
  :: t_kind == STORE_WAITS -> waits = t_value
  fi;
  t_kind = 0; t_at = 0; t_value = 0
}

/* The load of `asleep` and the sender's own record are one step, the bell is another. */
inline ring_receiver() {
  d_step {
#if defined(MUTANT_RINGS_AGAIN)
    to_ring = asleep;
    assert(!to_ring || !rung);
#else
    to_ring = (asleep && !rung);
#endif
    rung = (rung || to_ring)
  };
  if
  :: to_ring && nfull(to_receiver) -> atomic { is_drained(p) -> to_receiver!BELL; to_ring = false }
  :: to_ring && full(to_receiver) -> to_ring = false  /* the receiver has something to read */
  :: !to_ring
  fi;
  owes_bell = false
}

#ifdef MUTANT_RELEASE_STORE
#define publish() d_step { nfull(stores[p]) -> stores[p]!STORE_WORD, SLOT(next), next + 1; note() }
#else
#define publish() atomic { is_drained(p) -> word[SLOT(next)] = next + 1; note() }
#endif
#define note() next++; n_sent++; has_put = true; owes_bell = true
#define has_room (next - passed < CAPACITY)

#ifdef ROOM
inline wait_for_room() {
#ifdef MUTANT_RELAXED_WAIT
  d_step { wait_rung = false; stores[p]!STORE_WAITS, 0, true };
#else
  atomic { is_drained(p) -> waits = true; wait_rung = false };
#endif
#ifndef MUTANT_NO_LOOK_FOR_ROOM
  if
  :: has_room -> skip
  :: !has_room ->
#endif
     waits_for_room = true;
     d_step { room_bell || !alive[RECEIVER] -> room_bell = false; waits_for_room = false };
#ifndef MUTANT_NO_LOOK_FOR_ROOM
  fi;
#endif
  stores[p]!STORE_WAITS, 0, false
}
#endif

proctype Sender(byte p) MAY_END(p) {
  byte next, count;
  bool to_ring, has_put;
  do
  :: n_sent == MESSAGES || !alive[RECEIVER] -> break
  :: n_sent < MESSAGES && has_room ->
#ifdef MUTANT_BELL_FIRST
     ring_receiver();
#endif
     stores[p]!STORE_HEAD, SLOT(next), count * 16 + n_sent;
     publish();
#ifdef MUTANT_BELL_FIRST
     d_step { has_put = false; owes_bell = false }
#endif
     if
     :: has_put -> ring_receiver(); has_put = false  /* the call is over */
     :: true
     fi
#ifdef ROOM
  :: n_sent < MESSAGES && !has_room -> 
     if
     :: has_put -> ring_receiver(); has_put = false
     :: !has_put
     fi;
     wait_for_room()
#else
  :: n_sent < MESSAGES ->
#ifndef MUTANT_COUNTS_LATE
     count++;
     stores[p]!STORE_BY_SOCKET, 0, count;
#endif
     if
     :: full(to_receiver) && has_put -> ring_receiver(); has_put = false
     :: true
     fi;
     if
     :: !alive[RECEIVER] -> break
     :: atomic { is_drained(p) && nfull(to_receiver) -> to_receiver!n_sent + 1; n_sent++ }
     :: true ->
        /* The frame fails, because too many fds are in flight. The next call may never come. */
#ifndef MUTANT_FAILS_SILENTLY
        if
        :: has_put -> ring_receiver(); has_put = false
        :: !has_put
        fi;
#endif
        owes_bell = false;
        break
     fi;
#ifdef MUTANT_COUNTS_LATE
     count++;
     stores[p]!STORE_BY_SOCKET, 0, count;
#endif
     if
     :: has_put -> ring_receiver(); has_put = false
     :: true
     fi
#endif
  od;
#ifdef MUTANT_FAILS_SILENTLY
  if
  :: has_put && n_sent == MESSAGES -> ring_receiver()
  :: else -> skip
  fi
#else
  if
  :: has_put -> ring_receiver()
  :: !has_put
  fi
#endif
}

inline receive(number) {
  assert(number == n_received);
  n_received++
}

#ifdef MUTANT_IGNORES_AFTER
#define comes_now(slot) true
#else
#define comes_now(slot) (after[slot] <= count)
#endif
#ifdef MUTANT_RELEASE_PASSED
#define store_passed() d_step { nfull(stores[p]) -> stores[p]!STORE_PASSED, 0, next + 1; \
                                receive(frame[SLOT(next)]); next++ }
#else
#define store_passed() atomic { is_drained(p) -> passed = next + 1; \
                                receive(frame[SLOT(next)]); next++ }
#endif

inline take_from_socket() {
  if
  :: packet == 255 -> skip
  :: packet == BELL -> packet = 255; goto recv
  :: packet != 255 && packet != BELL ->
     d_step { receive(packet - 1); packet = 255; count++ };
     goto recv
  fi
}

proctype Receiver(byte p) MAY_END(p) {
  byte next, count, packet = 255;  /* 255: no packet */
  bool expects_socket, is_asleep, at_end;
recv:
#ifndef MUTANT_EXPECTS_LATE
  expects_socket = (by_socket != count);
#endif
#ifdef MUTANT_SOCKET_FIRST
  take_from_socket();
#endif
  if
  :: word[SLOT(next)] == next + 1 ->
     if
     :: comes_now(SLOT(next)) ->
        store_passed();
        if
        :: is_asleep -> stores[p]!STORE_ASLEEP, 0, false; is_asleep = false
        :: !is_asleep
        fi;
#ifdef ROOM
        d_step {
          if
          :: waits && !wait_rung -> wait_rung = true; room_bell = true
          :: else -> skip
          fi
        };
#endif
        goto recv
     :: !comes_now(SLOT(next)) -> skip
     fi
  :: word[SLOT(next)] != next + 1 -> skip
  fi;
  take_from_socket();
#ifdef MUTANT_EXPECTS_LATE
  expects_socket = (by_socket != count);
#endif
  if
  :: expects_socket -> goto read
  :: !expects_socket
  fi;
#ifdef MUTANT_RELAXED_SLEEP
  d_step { nfull(stores[p]) -> stores[p]!STORE_ASLEEP, 0, true; is_asleep = true; rung = false };
#elif defined(MUTANT_RINGS_ONCE)
  atomic { is_drained(p) -> asleep = true; is_asleep = true };
#else
  atomic { is_drained(p) -> asleep = true; is_asleep = true; rung = false };
#endif
#ifndef MUTANT_NO_LOOK
  if
  :: word[SLOT(next)] == next + 1 -> goto awake
  :: word[SLOT(next)] != next + 1
  fi;
  if
  :: by_socket != count -> goto awake
  :: by_socket == count
  fi;
#endif
read:
  if
  :: to_receiver?packet
  :: nempty(to_receiver) -> goto recv  /* the caller polled the socket, and calls again */
  :: empty(to_receiver) && has_hung_up ->
#ifndef MUTANT_IGNORES_RING_AT_END
     if
     :: at_end -> goto gone
     :: !at_end -> at_end = true
     fi
#else
     goto gone
#endif
  fi;
awake:
  if
  :: is_asleep -> stores[p]!STORE_ASLEEP, 0, false; is_asleep = false
  :: !is_asleep
  fi;
  goto recv;
gone:
  assert(n_received == n_sent)
}

/*
 * When nothing moves any more, a receiver that can run has received all frames that were sent, and
 * no sender waits for room that is there. The exception: the sender is stopped between its store
 * and its bell, and the receiver sleeps.
 */
#ifdef MUTANT_CLAIMS_STOPPED_SENDER
#define is_excused false
#else
#define is_excused (stopped[SENDER] && owes_bell && asleep)
#endif
proctype Judge() {
  timeout ->
  assert(!runs(RECEIVER) || n_received == n_sent || is_excused);
  assert(!(runs(SENDER) && runs(RECEIVER) && waits_for_room))
}
