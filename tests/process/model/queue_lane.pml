/*
 * One lane: a sender fills CAPACITY slots again and again (queue_send.cc, page.cc), and two
 * receivers take its messages (queue_recv.cc). A receiver meets the lane at any time. A message has
 * two words of bytes, each of which is the message's position. A sender whose lane is full sleeps.
 */
#define CAPACITY 2
#ifndef MESSAGES
#define MESSAGES 4
#endif
#define SLOT(position) ((position) % CAPACITY)
mtype:slot slot[CAPACITY];
byte position_of[CAPACITY];
byte first[CAPACITY];
byte second[CAPACITY];
bool taken[MESSAGES];
byte n_taken;

inline let_out() {
  if
  :: t_kind == STORE_ASLEEP -> asleep[0] = t_value
  :: t_kind == STORE_FLAG -> flagged[0] = t_value
  :: t_kind == STORE_FIRST -> first[SLOT(t_value)] = t_value
  :: t_kind == STORE_SECOND -> second[SLOT(t_value)] = t_value
  :: else -> slot[SLOT(t_value)] = FULL; position_of[SLOT(t_value)] = t_value
  fi;
  t_kind = 0; t_at = 0; t_value = 0
}

#ifdef MUTANT_REFILLS_FULL
#define has_room (slot[SLOT(i)] == EMPTY || position_of[SLOT(i)] + CAPACITY == i)
#else
#define has_room (slot[SLOT(i)] == EMPTY || \
                  (slot[SLOT(i)] == TAKEN && position_of[SLOT(i)] + CAPACITY == i))
#endif
inline publish() {
  atomic {
    is_drained(p) ->
    slot[SLOT(i)] = FULL; position_of[SLOT(i)] = i
  }
}
proctype Sender(byte p) MAY_END(p) {
  byte i;
  bool interrupted, timed_out, slept;
  do
  :: i == MESSAGES -> break
  :: i < MESSAGES && has_room ->
#ifdef MUTANT_WORD_FIRST
     publish();
#endif
     stores[p]!STORE_FIRST, 0, i;
     stores[p]!STORE_SECOND, 0, i;
#ifndef MUTANT_WORD_FIRST
     publish();
#endif
     i++
  :: i < MESSAGES && !has_room ->
     say_asleep();
#ifdef MUTANT_NO_LOOK
     sleep();
#else
     if
     :: has_room -> skip
     :: else -> sleep()
     fi;
#endif
     say_awake()
  od
}

proctype Receiver(byte p) MAY_END(p) {
  byte cursor, seen, i, copy1, copy2, last;
  mtype:slot state;
  bool has_taken, to_wake;
#ifdef MUTANT_STARTS_AT_OLDEST_SEEN
  /* Two passes over the lane, of which each notes the oldest message that waits. */
  cursor = 255;
  do
  :: i < 2 * CAPACITY ->
     d_step {
       if
       :: slot[SLOT(i)] == FULL && position_of[SLOT(i)] < cursor -> cursor = position_of[SLOT(i)]
       :: else -> skip
       fi;
       i++
     }
  :: i == 2 * CAPACITY && cursor != 255 -> i = 0; goto take
  :: i == 2 * CAPACITY && cursor == 255 -> cursor = 0; i = 0; break
  od;
#endif
  /* find_start(): one round before the first position that was never used. */
  do
  :: i < CAPACITY ->
     d_step {
       if
       :: slot[i] != EMPTY && position_of[i] + 1 > cursor -> cursor = position_of[i] + 1
       :: else -> skip
       fi;
       i++
     }
  :: else -> break
  od;
  atomic { cursor = (cursor < CAPACITY -> 0 : cursor - CAPACITY); i = 0 };
take:
  do
  :: atomic {
       slot[SLOT(cursor)] != EMPTY && position_of[SLOT(cursor)] >= cursor ->
       state = slot[SLOT(cursor)]; seen = position_of[SLOT(cursor)]
     };
     if
     :: seen > cursor -> cursor = seen - CAPACITY + 1
     :: seen == cursor && state == TAKEN -> cursor++
     :: seen == cursor && state == FULL ->
#ifndef MUTANT_COPIES_AFTER_TAKE
        copy1 = first[SLOT(cursor)];
        copy2 = second[SLOT(cursor)];
#endif
        d_step {
#ifdef MUTANT_TAKES_BY_STORE
          true ->
#else
          if
          :: slot[SLOT(cursor)] == FULL && position_of[SLOT(cursor)] == seen ->
#endif
             slot[SLOT(cursor)] = TAKEN; position_of[SLOT(cursor)] = seen;
             assert(!taken[seen]);
             taken[seen] = true; n_taken++; has_taken = true
#ifndef MUTANT_TAKES_BY_STORE
          :: else -> skip
          fi
#endif
        };
        if
        :: has_taken ->
#ifdef MUTANT_COPIES_AFTER_TAKE
           copy1 = first[SLOT(cursor)];
           copy2 = second[SLOT(cursor)];
#endif
           d_step {
             assert(copy1 == seen && copy2 == seen);
             assert(last <= seen);  /* `last` is the position behind its last message */
             last = seen + 1; has_taken = false; cursor++
           };
           /* ring_sender() */
           if
           :: flagged[0] ->
              d_step {
                to_wake = asleep[0] && !RUNG(p, 0);
                if
                :: to_wake -> RUNG(p, 0) = true
                :: else -> skip
                fi
              };
              if
              :: to_wake -> d_step { wake[0] = true; sleeping[0] = false; to_wake = false }
              :: else -> skip
              fi
           :: else -> skip
           fi
        :: else -> skip
        fi
     fi;
     d_step { seen = 0; state = 0; copy1 = 0; copy2 = 0 }
  od
}

#ifdef DISCARDS
/*
 * Queue::discard(), on another thread of the sender's process, at any time. It takes messages as a
 * receiver does, and wakes the sender.
 */
proctype Discarder(byte p) {
  byte i = MESSAGES;
  bool has_seen, has_taken;
  do
  :: i == 0 -> break
  :: i > 0 ->
     i--;
     has_seen = (slot[SLOT(i)] == FULL && position_of[SLOT(i)] == i);
     d_step {
       if
#ifdef MUTANT_DISCARDS_BY_STORE
       :: has_seen ->
          slot[SLOT(i)] = TAKEN; position_of[SLOT(i)] = i;
#else
       :: has_seen && slot[SLOT(i)] == FULL && position_of[SLOT(i)] == i ->
          slot[SLOT(i)] = TAKEN;
#endif
          assert(!taken[i]);
          taken[i] = true; n_taken++; has_taken = true
       :: else -> skip
       fi;
       has_seen = false
     }
  od;
#ifndef MUTANT_DISCARDS_SILENTLY
  if
  :: has_taken && asleep[0] -> d_step { wake[0] = true; sleeping[0] = false }
  :: else -> skip
  fi
#endif
}
#endif

/* The messages went through if the sender and a receiver can run: nobody else delays them. */
proctype Judge() {
  timeout -> assert(!runs(0) || !(runs(2) || runs(3)) || n_taken == MESSAGES)
}

inline begin() {
  slot[0] = EMPTY; slot[1] = EMPTY;
  alive[0] = true; alive[2] = true; alive[3] = true;
  member[0] = HERE; member[2] = HERE; member[3] = HERE;
  run Sender(0); run Receiver(2); run Receiver(3)
#ifdef DISCARDS
  ; run Discarder(1)
#endif
#if KILLED
  ;
  run Service(0)
#endif
}
