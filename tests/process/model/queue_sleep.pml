/*
 * Senders and receivers that sleep and wake as impl/queue/sleep.h, queue_send.cc and queue_recv.cc
 * do. Each sender sends one message. A receiver calls recv() until it has something else to do,
 * which may be for ever.
 */
#ifndef SLOTS
#define SLOTS 2
#endif
mtype:slot slot[SLOTS];  /* one for each sender */
#ifdef SIGNALS
byte signals = SIGNALS;  /* signals that interrupt a wait, and timeouts that end one */
#endif

inline let_out() {
  if
  :: t_kind == STORE_ASLEEP -> asleep[t_at] = t_value
  :: t_kind == STORE_FLAG -> flagged[t_at] = t_value
  :: else -> slot[t_at] = FULL
  fi;
  t_kind = 0; t_at = 0; t_value = 0
}

#ifdef MUTANT_RINGS_GONE_MEMBERS
#define is_here(q) true
#else
#define is_here(q) (member[q] == HERE)
#endif
/*
 * ring_one_receiver(). It begins with either receiver, where the code takes turns. The look at
 * another process's number and the record that it is woken are one step, the wake is another.
 */
inline consider(q) {
  d_step {
    (bits & (1 << q)) && to_wake == 0 -> bits = bits - (1 << q);
    if
    :: is_here(q) && asleep[q] && !RUNG(p, q) -> RUNG(p, q) = true; bits = 0; to_wake = q
    :: else -> skip
    fi
  }
}
inline ring_one_receiver() {
  atomic { bits = (flagged[2] << 2) | (flagged[3] << 3) };
  do
  :: consider(2)
  :: consider(3)
  :: d_step {
       to_wake != 0 ->
       wake[to_wake] = true; sleeping[to_wake] = false; told[to_wake] = true; to_wake = 0
     };
     break
  :: bits == 0 && to_wake == 0 -> break
  od
}

#ifdef MUTANT_RELEASE_STORE
#define publish(i) stores[p]!STORE_FULL, i, 0
#else
#define publish(i) atomic { is_drained(p) -> slot[i] = FULL }
#endif
proctype Sender(byte p) MAY_END(p) {
  byte bits, to_wake;
#ifdef MUTANT_WAKE_BEFORE_STORE
  ring_one_receiver();
  publish(p)
#else
  publish(p);
  ring_one_receiver()
#endif
}

#ifdef ARMED
/*
 * Process 2 waits by its fd, as impl/queue/ready_fd.h does. It calls recv() with timeout 0 when the
 * fd is readable. wake[2] is "the futex has another value than the relay relayed".
 */
bool readable;  /* the eventfd */
bool polls;     /* the program waits for the eventfd */

proctype Relay(byte p) MAY_END(p) {
end:
  do
  :: d_step { wake[p] -> wake[p] = false }; readable = true
  od
}

inline look_for_message(is_there) {
  do
  :: slot[i] == FULL -> i = 0; is_there = true; break
  :: d_step { slot[i] != FULL && i < SLOTS - 1 -> i++ }
  :: d_step { slot[i] != FULL && i == SLOTS - 1 -> i = 0; is_there = false }; break
  od
}
inline pass_wake_on() {
#ifdef MUTANT_ARMED_KEEPS_WAKE
  skip
#else
  if
  :: slept ->
     look_for_message(found);
     if
     :: found -> ring_one_receiver()
     :: else -> skip
     fi;
     slept = false
  :: else -> skip
  fi
#endif
}

proctype ArmedReceiver(byte p) MAY_END(p) {
  byte i, bits, to_wake;
  bool found, slept, armed;
recv:
  polls = false;
  if
  :: armed -> say_awake(); armed = false
  :: else -> skip
  fi;
  /* Takes the next message, if there is one. */
  do
  :: d_step { slot[i] == FULL && is_drained(p) -> slot[i] = TAKEN; i = 0 }; goto over
  :: d_step { slot[i] != FULL && i < SLOTS - 1 -> i++ }
  :: d_step { slot[i] != FULL && i == SLOTS - 1 -> i = 0; told[p] = false }; break
  od;
  pass_wake_on();
#ifndef MUTANT_CLEARS_LATE
  readable = false;
#endif
  atomic { is_drained(p) -> asleep[p] = true; new_number() };
  d_step { is_drained(p) -> flagged[p] = true; armed = true };
#ifdef MUTANT_ARMS_WITHOUT_LOOK
  found = false;
#else
  look_for_message(found);
#endif
#ifdef MUTANT_CLEARS_LATE
  readable = false;
#endif
  if
  :: found -> say_awake(); armed = false
  :: else -> goto poll
  fi;
over:
  pass_wake_on();
#ifndef MUTANT_NOT_SETTLED
  readable = true;
#endif
  atomic { slept = false; found = false; told[p] = false };
  if
  :: true
  :: goto done  /* it works on what it received, for ever */
  fi;
poll:
  polls = true;
  readable -> goto recv;
done:
  skip
}
#endif

proctype Receiver(byte p) MAY_END(p) {
  byte i, bits, to_wake;
  bool found, slept, interrupted, timed_out;
recv:
  /* Takes the next message, if there is one. */
  do
  :: d_step { slot[i] == FULL && is_drained(p) -> slot[i] = TAKEN; i = 0 }; goto over
  :: d_step { slot[i] != FULL && i < SLOTS - 1 -> i++ }
  :: d_step { slot[i] != FULL && i == SLOTS - 1 -> i = 0; told[p] = false };
     if
     :: timed_out -> goto over
     :: else -> break
     fi
  od;
  say_asleep();
#ifndef MUTANT_NO_LOOK
  do
  :: slot[i] == FULL -> i = 0; goto awake
  :: d_step { slot[i] != FULL && i < SLOTS - 1 -> i++ }
  :: d_step { slot[i] != FULL && i == SLOTS - 1 -> i = 0 }; break
  od;
#endif
  sleep();
awake:
  say_awake();
  if
  :: !interrupted -> goto recv
  :: else -> skip
  fi;
over:
  /* A receiver that slept wakes another one if a message still lies in a lane. */
#ifndef MUTANT_KEEPS_WAKE
#ifdef MUTANT_INTERRUPT_KEEPS_WAKE
  if
  :: slept && !interrupted ->
#else
  if
  :: slept ->
#endif
     do
     :: slot[i] == FULL -> i = 0; ring_one_receiver(); break
     :: d_step { slot[i] != FULL && i < SLOTS - 1 -> i++ }
     :: d_step { slot[i] != FULL && i == SLOTS - 1 -> i = 0 }; break
     od
  :: else -> skip
  fi;
#endif
  atomic { slept = false; interrupted = false; timed_out = false; told[p] = false };
  if
  :: goto recv
  :: true  /* it works on what it received, for ever */
  fi
}

/*
 * No receiver that can run sleeps while a message lies in a lane. The exceptions: the sender of the
 * message is stopped, or a stopped receiver was woken.
 */
#ifdef ARMED
#define sleeps(r) ((r == 2 -> polls : sleeping[r]) && runs(r))
#else
#define sleeps(r) (sleeping[r] && runs(r))
#endif
#define lies(s) (slot[s] == FULL)
#ifdef MUTANT_CLAIMS_STOPPED_SENDER
#define is_excused(s) was_lost_on_stopped
#else
#define is_excused(s) (stopped[s] || was_lost_on_stopped)
#endif
#ifdef MUTANT_CLAIMS_STOPPED_RECEIVER
#define was_lost_on_stopped false
#else
#define was_lost_on_stopped ((stopped[2] && told[2]) || (stopped[3] && told[3]))
#endif
proctype Judge() {
  timeout ->
  if
  :: sleeps(2) || sleeps(3) ->
     assert(!lies(0) || is_excused(0));
#if SLOTS > 1
     assert(!lies(1) || is_excused(1))
#endif
  :: else -> skip
  fi
}

inline begin() {
  t_at = 0;
  do
  :: t_at < SLOTS -> slot[t_at] = EMPTY; t_at++
  :: else -> break
  od;
  t_at = 0;
  do
  :: t_at < PROCESSES -> alive[t_at] = true; member[t_at] = HERE; t_at++
  :: else -> break
  od;
  t_at = 0;
  run Sender(0);
#if SLOTS > 1
  run Sender(1);
#endif
#ifdef ARMED
  readable = true;
  run Relay(2);
  run ArmedReceiver(2);
#else
  run Receiver(2);
#endif
  run Receiver(3)
#if KILLED
  ;
  run Service(2); run Service(3)
#endif
}
