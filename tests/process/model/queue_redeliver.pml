/*
 * One lane of a queue that redelivers: a sender fills CAPACITY slots again and again, and two
 * receivers take its messages, which makes the slots HELD, and acknowledge them. The sender's
 * service thread puts back what a receiver that is gone holds. Receivers sleep. The bytes of a
 * message say its position, and how often it was put back. With AWAKE receivers look all the time.
 */
#define CAPACITY 2
#ifndef MESSAGES
#define MESSAGES 3
#endif
#define SLOT(position) ((position) % CAPACITY)
#define PUTTER 1  /* the service thread of process 0: its stores, and its records of wakes */
mtype:slot slot[CAPACITY];
byte position_of[CAPACITY];
byte taker_of[CAPACITY];  /* of a FULL slot: how often its message was put back */
byte bytes_of[CAPACITY];
byte put_back;            /* LaneHeader::put_back */
byte put_backs[CAPACITY]; /* Sent::put_backs */
bool acknowledged[MESSAGES];
byte holder[MESSAGES];
#define BYTES(position, count) ((position) * 8 + (count))
#define is_gone(p) (!alive[p] || member[p] == LEFT)

inline let_out() {
  if
  :: t_kind == STORE_ASLEEP -> asleep[t_at] = t_value
  :: t_kind == STORE_FLAG -> flagged[t_at] = t_value
  :: else -> bytes_of[t_at] = t_value
  fi;
  t_kind = 0; t_at = 0; t_value = 0
}

/* ring_one_receiver() of the thread `waker` */
#define can_ring(waker, q) (flagged[q] && asleep[q] && !RUNG(waker, q) && member[q] == HERE)
inline ring_one(waker) {
  d_step {
    if
    :: can_ring(waker, 2) -> RUNG(waker, 2) = true; wake[2] = true; sleeping[2] = false
    :: else ->
       if
       :: can_ring(waker, 3) -> RUNG(waker, 3) = true; wake[3] = true; sleeping[3] = false
       :: else -> skip
       fi
    fi
  }
}

#ifdef MUTANT_REFILLS_HELD
#define has_room (slot[SLOT(i)] == EMPTY || \
                  (slot[SLOT(i)] != FULL && position_of[SLOT(i)] + CAPACITY == i))
#else
#define has_room (slot[SLOT(i)] == EMPTY || \
                  (slot[SLOT(i)] == TAKEN && position_of[SLOT(i)] + CAPACITY == i))
#endif
proctype Sender(byte p) MAY_END(p) {
  byte i;
  do
  :: i == MESSAGES -> break
  :: i < MESSAGES && has_room ->
     put_backs[SLOT(i)] = 0;
     stores[p]!STORE_FULL, SLOT(i), BYTES(i, 0);
     atomic {
       is_drained(p) ->
       slot[SLOT(i)] = FULL; position_of[SLOT(i)] = i; taker_of[SLOT(i)] = 0
     };
     ring_one(p);
     i++
  od
}

/*
 * put_back(). page::hold() makes the sender the holder, and then nobody else changes the slot. A
 * receiver that has left may have acknowledged the message before.
 */
#ifdef MUTANT_HOLDS_NOT
#define hold(s) skip
#else
#define hold(s) taker_of[s] = PUTTER
#endif
#ifdef MUTANT_COUNTS_FIRST
#define say_begin() put_back = put_back + 2
#define say_end() skip
#elif defined(MUTANT_COUNTS_LAST)
#define say_begin() skip
#define say_end() put_back = put_back + 2
#else
#define say_begin() put_back = put_back + 1
#define say_end() put_back = put_back + 1
#endif
inline put_back_slot(s) {
  atomic { slot[s] == HELD && is_gone(taker_of[s]) -> hold(s) };
  say_begin();
  put_backs[s] = put_backs[s] + 1;
  stores[PUTTER]!STORE_FULL, s, BYTES(position_of[s], put_backs[s]);
  atomic { is_drained(PUTTER) -> slot[s] = FULL; taker_of[s] = put_backs[s] };
  say_end();
  ring_one(PUTTER)
}
proctype Putter() MAY_END(0) {
end:
  do
  :: put_back_slot(0)
  :: put_back_slot(1)
  od
}

#ifdef MUTANT_COMPARES_NO_COUNT
#define is_unchanged(s) (slot[s] == FULL && position_of[s] == seen)
#else
#define is_unchanged(s) (slot[s] == FULL && position_of[s] == seen && taker_of[s] == seen_count)
#endif
/* take_slot() for a slot that was FULL, with `seen` and `seen_count` */
inline take_slot(s) {
  copy = bytes_of[s];
  d_step {
    if
    :: is_unchanged(s) ->
       assert(!acknowledged[seen]);
       assert(holder[seen] == 0 || is_gone(holder[seen]));
       assert(copy == BYTES(seen, taker_of[s]));
       slot[s] = HELD; taker_of[s] = p; holder[seen] = p; has_taken = true
    :: else -> skip
    fi;
    copy = 0
  }
}
#ifdef MUTANT_LOOKS_AHEAD_ONLY
#define sees_put_back false
#else
#define sees_put_back (put_back != known && ((slot[0] == FULL && taker_of[0] > 0) || \
                                             (slot[1] == FULL && taker_of[1] > 0)))
#endif
#define sees_message ((slot[SLOT(cursor)] != EMPTY && position_of[SLOT(cursor)] >= cursor) || \
                      sees_put_back)

proctype Receiver(byte p) MAY_END(p) {
  byte cursor, known, count, s, seen, seen_count, copy;
  mtype:slot state;
  bool has_taken, slept;
look:
  /* take_put_back() */
  count = put_back;
#ifndef MUTANT_LOOKS_AHEAD_ONLY
  if
  :: count != known ->
     do
     :: s < CAPACITY && !has_taken ->
        d_step { state = slot[s]; seen = position_of[s]; seen_count = taker_of[s] };
        if
        :: state == FULL && seen_count > 0 -> take_slot(s)
        :: else -> skip
        fi;
        if
        :: has_taken -> skip
        :: else -> s++
        fi
     :: else -> break
     od;
     if
     :: !has_taken && count % 2 == 0 -> known = count
     :: else -> skip
     fi
  :: else -> skip
  fi;
#endif
  d_step { count = 0; s = 0; state = 0 };
  if
  :: has_taken -> goto taken
  :: else -> seen = 0; seen_count = 0
  fi;
  /* take_from() */
  do
  :: cursor < MESSAGES ->
     d_step {
       state = slot[SLOT(cursor)]; seen = position_of[SLOT(cursor)];
       seen_count = taker_of[SLOT(cursor)]
     };
     if
     :: state == EMPTY || seen < cursor -> break
     :: state != EMPTY && seen > cursor -> cursor = seen - CAPACITY + 1
     :: (state == TAKEN || state == HELD) && seen == cursor -> cursor++
     :: state == FULL && seen == cursor ->
        take_slot(SLOT(cursor));
        if
        :: has_taken -> cursor++; goto taken
        :: else -> skip
        fi
     fi
  :: else -> break
  od;
  skip;
  d_step { seen = 0; seen_count = 0; state = 0 };
#ifdef AWAKE
  sees_message;
#else
  say_asleep();
  if
  :: sees_message -> skip
  :: else -> sleep()
  fi;
  say_awake();
#endif
  goto look;
taken:
  skip;
#ifdef LEAVES
  /* Another thread of receiver 3 leaves, and this one still holds its message. */
  if
  :: p == 3 && member[3] == HERE -> member[3] = LEFT
  :: skip
  fi;
#endif
  d_step {
#ifdef MUTANT_ACKS_BY_STORE
    slot[SLOT(seen)] = TAKEN; acknowledged[seen] = true;
#else
    if
    :: slot[SLOT(seen)] == HELD && position_of[SLOT(seen)] == seen && taker_of[SLOT(seen)] == p ->
       slot[SLOT(seen)] = TAKEN; acknowledged[seen] = true
    :: else -> assert(member[p] == LEFT)
    fi;
#endif
    has_taken = false; seen = 0; seen_count = 0; state = 0
  };
  if
  :: member[p] == LEFT -> skip
  :: else -> goto look
  fi
}

/*
 * If the sender and a receiver can run, all messages were acknowledged. A message that was put back
 * is seen by a receiver that can run, although its sender may be dead.
 */
#define receives(q) (runs(q) && member[q] != LEFT)
proctype Judge() {
  timeout ->
  d_step {
    t_at = 0;
    do
    :: t_at < MESSAGES ->
       assert(!runs(0) || !(receives(2) || receives(3)) || acknowledged[t_at]);
       t_at++
    :: else -> break
    od;
    t_at = 0;
    assert(!(receives(2) || receives(3)) || (slot[0] != FULL && slot[1] != FULL))
  }
}

inline begin() {
  slot[0] = EMPTY; slot[1] = EMPTY;
  alive[0] = true; alive[PUTTER] = true; alive[2] = true; alive[3] = true;
  member[0] = HERE; member[PUTTER] = HERE; member[2] = HERE; member[3] = HERE;
  run Sender(0); run Putter(); run Receiver(2); run Receiver(3)
#if KILLED && !defined(AWAKE)
  ;
  run Service(2); run Service(3)
#endif
}
