/*
 * A sender that withdraws the oldest frame when its ring is full, and a receiver that takes frames
 * (take() of impl/channel/frame_ring.cc) and never sleeps. A frame has two words of bytes, each of
 * which is the frame's position plus 1.
 */
#ifndef MESSAGES
#define MESSAGES 4
#endif
#ifdef MUTANT_SHORT_HISTORY
#define HISTORY 4
#else
#define HISTORY 5  /* entries of Receiver::refused; the code has 8 */
#endif
byte first[CAPACITY];
byte second[CAPACITY];
byte withdrawn;
byte passed;
byte reading;
byte refused[HISTORY];

/* What became of each frame, for the assertions alone. */
bool taken[MESSAGES];
bool left[MESSAGES];
bool has_sent;
byte unknown;  /* the position plus 1 of the frame whose fate the sender does not know */

#define STORE_CLEAR 0
#define STORE_FIRST 1
#define STORE_SECOND 2
#define STORE_WORD 3
#define STORE_WITHDRAWN 4
#define STORE_READING 5
#define STORE_REFUSED 6
#define STORE_PASSED 7
inline let_out() {
  if
  :: t_kind == STORE_CLEAR -> word[t_at] = 0
  :: t_kind == STORE_FIRST -> first[t_at] = t_value
  :: t_kind == STORE_SECOND -> second[t_at] = t_value
  :: t_kind == STORE_WORD -> word[t_at] = t_value
  :: t_kind == STORE_WITHDRAWN -> withdrawn = t_value
  :: t_kind == STORE_READING -> reading = t_value
  :: t_kind == STORE_REFUSED -> refused[t_at] = t_value
  :: t_kind == STORE_PASSED -> passed = t_value
  fi;
  t_kind = 0; t_at = 0; t_value = 0
}

inline look_for_refusal(value) {
  t_at = 0;
  do
  :: t_at < HISTORY && refused[t_at] != value -> t_at++
  :: else -> break
  od
}

/* fate_of(). The load of `reading` and those of `refused` behind it are two steps. */
inline ask() {
  if
  :: unknown != 0 && reading != unknown ->
     d_step {
       look_for_refusal(unknown);
       if
       :: t_at < HISTORY -> assert(!taken[unknown - 1]); left[unknown - 1] = true
       :: else -> assert(taken[unknown - 1])
       fi;
       unknown = 0; t_at = 0
     }
  :: else -> skip
  fi
}

#if defined(MUTANT_RELAXED_WITHDRAW)
#define store_withdrawn(value) stores[p]!STORE_WITHDRAWN, 0, value
#else
#define store_withdrawn(value) atomic { is_drained(p) -> withdrawn = value }
#endif
#define publish() atomic { is_drained(p) -> word[SLOT(next)] = next + 1 }

proctype Sender(byte p) MAY_END(p) {
  byte next, oldest;
  bool is_begun;
  do
  :: next == MESSAGES -> break
  :: next < MESSAGES && next - oldest < CAPACITY ->
#ifdef MUTANT_WORD_FIRST
     publish();
#elif !defined(MUTANT_KEEPS_WORD)
     stores[p]!STORE_CLEAR, SLOT(next), 0;
#endif
     stores[p]!STORE_FIRST, SLOT(next), next + 1;
     stores[p]!STORE_SECOND, SLOT(next), next + 1;
#ifndef MUTANT_WORD_FIRST
     publish();
#endif
     next++
  :: next < MESSAGES && next - oldest == CAPACITY ->
#ifndef MUTANT_ASKS_ONCE
     ask();
#endif
     /* waiting() */
     d_step {
       if
       :: passed > oldest -> oldest = passed
       :: else -> skip
       fi
     };
     if
     :: oldest == next -> skip
     :: oldest != next ->
#ifdef MUTANT_LOOKS_FIRST
        is_begun = (reading == oldest + 1);
        store_withdrawn(oldest + 1);
#else
        store_withdrawn(oldest + 1);
        is_begun = (reading == oldest + 1);
#endif
#ifndef MUTANT_IGNORES_PASSED
        is_begun = (is_begun || passed > oldest);
#endif
        ask();
        d_step {
          oldest++;
          if
          :: is_begun -> assert(unknown == 0); unknown = oldest; is_begun = false
          :: else -> assert(!taken[oldest - 1]); left[oldest - 1] = true
          fi
        }
     fi
  od;
  has_sent = true;
  do
  :: unknown == 0 -> break
  :: unknown != 0 && reading != unknown -> ask()
  od
}

#ifdef MUTANT_KEEPS_REFUSAL
#define note_refused(value)
#else
#define note_refused(value) \
  stores[p]!STORE_REFUSED, entry, value; \
  entry = (entry + 1) % HISTORY
#endif
#if defined(MUTANT_READS_SILENTLY)
#define begin_reading()
#elif defined(MUTANT_RELAXED_BEGIN)
#define begin_reading() stores[p]!STORE_READING, 0, next + 1
#else
#define begin_reading() atomic { is_drained(p) -> reading = next + 1 }
#endif

proctype Receiver(byte p) MAY_END(p) {
  byte next, entry, copy1, copy2;
take:
  if
  :: d_step { withdrawn > next -> next = withdrawn };
#ifndef MUTANT_SKIPS_SILENTLY
     note_refused(next);
#endif
#ifdef MUTANT_RELEASES_PASSED
     stores[p]!STORE_PASSED, 0, next
#else
     atomic { is_drained(p) -> passed = next }
#endif
  :: withdrawn <= next -> skip
  fi;
end:
  if
  :: withdrawn > next -> skip
  :: word[SLOT(next)] == next + 1 ->
     begin_reading();
#ifndef MUTANT_READS_ONCE
     if
     :: withdrawn > next ->
        note_refused(next + 1);
        stores[p]!STORE_READING, 0, 0;
        goto take
     :: else -> skip
     fi;
#endif
     copy1 = first[SLOT(next)];
     copy2 = second[SLOT(next)];
#ifndef MUTANT_CHECKS_ONCE
     if
     :: word[SLOT(next)] != next + 1 ->
        note_refused(next + 1);
        stores[p]!STORE_READING, 0, 0;
        goto forget
     :: else -> skip
     fi;
#endif
     atomic {
       is_drained(p) ->
       passed = next + 1;
       assert(copy1 == next + 1 && copy2 == next + 1);
       assert(!taken[next] && !left[next]);
       taken[next] = true;
       next++
     };
     stores[p]!STORE_READING, 0, 0;
forget:
     copy1 = 0;
     copy2 = 0
  fi;
  goto take
}

/*
 * The sender never waits for the receiver. In the end, each frame was taken or withdrawn, or it
 * waits for a receiver that cannot run.
 */
#define is_settled(position) (taken[position] || left[position] || unknown == position + 1 || \
                              !runs(RECEIVER))
proctype Judge() {
  timeout ->
  d_step {
    assert(has_sent);
    assert(unknown == 0 || !runs(RECEIVER));
    t_at = 0;
    do
    :: t_at < MESSAGES -> assert(is_settled(t_at)); t_at++
    :: else -> break
    od;
    t_at = 0
  }
}
