/* Session files and the processes that open them: who may append, and in which session a hosted agent returns.
   Written by hand. `python -P -m pinnace_campaigns.model_check.sessions` searches it; docs/model-checking.md, "Sessions",
   names the bounds, the faults and what is left out.

   -DSHARED=1: two processes open one file, each with K messages of its client. Else: one agent of a host, whose client
   sends K messages and replaces the session R times in between. -DF=kills and losses of power, -DM_name a seeded fault.

   A command that was not answered is sent again, as a host does it, to the next process. Reads are not modelled: what a
   process that has no lease answers is what it has read. */

#ifndef SHARED
#define SHARED 0
#endif
#ifndef K
#define K 2
#endif
#ifndef R
#define R 1
#endif
#ifndef F
#define F 2
#endif

/* Properties; PROPERTIES in the runner says what they mean. */
mtype = { p_one_writer, p_in_sequence, p_refused_is_gone, p_left_is_free, p_returns, p_at_most_once };
#define HOLDS(property, condition) if :: (condition) :: else -> printf("broken %e\n", p_##property); assert(false) fi
#define SAY(...) printf(__VA_ARGS__)
#define BIT(k) (1 << (k))
#define IN(mask, k) (((mask) >> (k)) & 1)

byte faults;

#if SHARED
/* ---------------------------------------------------------------- two processes, one file */

mtype = { free, leased, current };           /* how far a process is: no lease; the lease; and it has read what there is */
mtype how[2] = free;
bool up[2], ending[2];                       /* ending: it has answered that it leaves the session, and has the lease still */
byte holder = 2;                             /* of the lease; 2: nobody */
byte size, known[2];                          /* entries of the file, and those that a process has read */
byte left[2] = K, refused[2], kept[2];       /* messages to send; refused ones; refused ones that stay in memory */
byte mine[2];                                /* entries of a process in the file */
byte accepted[2];

inline open_file(p) {
  up[p] = true; how[p] = free; ending[p] = false; kept[p] = 0;
  if
  :: holder == 2 -> holder = p; known[p] = size; how[p] = current; SAY("opens %d\n", p)
  :: else -> known[p] = size; SAY("opens_beside %d\n", p)
  fi }
inline gone(p) {
  up[p] = false; kept[p] = 0; how[p] = free; ending[p] = false; if :: holder == p -> holder = 2 :: else fi }
inline append(p) {
  HOLDS(one_writer, holder == p);
  HOLDS(in_sequence, known[p] == size);       /* the new entry follows the last one: nothing leaves the branch */
  size = size + 1 + kept[p]; mine[p] = mine[p] + 1 + kept[p]; kept[p] = 0; known[p] = size;
  accepted[p]++; left[p]--; SAY("appends %d\n", p) }

#ifdef M_lease_not_needed
#define MAY_APPEND(p) (how[p] == current || holder != 2)
#else
#define MAY_APPEND(p) (how[p] == current && !ending[p])
#endif
#ifdef M_left_is_not_waited
#define WORKS(p) (holder == p)
#else
#define WORKS(p) (holder == p && !ending[p])
#endif

#define PROCESS(p) \
  :: d_step { !up[p] && left[p] > 0 -> open_file(p) } \
  :: d_step { up[p] && left[p] > 0 && MAY_APPEND(p) -> append(p) } \
  :: d_step { up[p] && left[p] > 0 && how[p] == free && holder == 2 -> TAKE(p) } \
  :: d_step { up[p] && how[p] == leased -> READ(p) } \
  :: d_step { up[p] && how[p] == current && !ending[p] && left[p] > 0 -> ending[p] = true; SAY("leaves %d\n", p) } \
  :: d_step { up[p] && ending[p] -> ending[p] = false; how[p] = free; holder = 2; SAY("has_left %d\n", p) } \
  :: d_step { up[p] && left[p] > 0 && how[p] == free && WORKS(1 - p) -> \
       HOLDS(left_is_free, !ending[1 - p]); REFUSE(p); refused[p]++; left[p]--; SAY("refuses %d\n", p) } \
  :: d_step { up[p] && left[p] == 0 -> gone(p); SAY("ends %d\n", p) } \
  :: d_step { up[p] && faults < F -> faults++; gone(p); SAY("fault kill %d\n", p) }

#ifdef M_not_read_again
#define TAKE(p) holder = p; how[p] = current; SAY("takes %d\n", p)
#define READ(p) skip
#else
#ifdef M_read_before_lease
byte reading[2];
#define TAKE(p) if :: !reading[p] -> known[p] = size; reading[p] = 1 :: else -> reading[p] = 0; holder = p; how[p] = current fi
#define READ(p) skip
#else
#define TAKE(p) holder = p; how[p] = leased; SAY("takes %d\n", p)
#define READ(p) known[p] = size; how[p] = current; SAY("reads %d\n", p)
#endif
#endif
#ifdef M_refused_is_kept
#define REFUSE(p) kept[p]++
#else
#define REFUSE(p) skip
#endif

active proctype world() {
  do
  PROCESS(0)
  PROCESS(1)
  :: d_step { !up[0] && !up[1] && left[0] == 0 && left[1] == 0 ->
       HOLDS(refused_is_gone, mine[0] == accepted[0] && mine[1] == accepted[1] && size == mine[0] + mine[1]) } -> break
  od }

#else
/* ---------------------------------------------------------------- one agent of a host, several sessions */

bool hUp = true, aUp;
byte cur, made;                              /* the session of the agent; sessions that were made, numbered from 0 */
byte named, namedD;                          /* the session that the agent's file names, and what of that is on the disk */
bool asks;                                   /* only in a fault: the host has not asked for the session yet */
byte begun;                                  /* commands that some process was sent: a replacement among them is not repeated */
byte at[K + 1], answered;                    /* the session that has a message; the messages whose acceptance was answered */
byte o_cur, o_next, o_sent; bool o_up;       /* the orphan: its session, the command it reads next, what it was sent */
byte starting = 255;                         /* the session that a new process has been told, until it has the lease */

/* The commands in their order: K messages, with a replacement before each of the last R. */
#define COMMANDS (K + R)
#define IS_REPLACEMENT(c) ((c) >= (K - R) && (((c) - (K - R)) % 2 == 0))
/* The number of a message: how many messages come before it. */
#define NUMBER(c) ((c) < (K - R) -> (c) : (K - R) + (((c) - (K - R)) / 2))
byte num;                                    /* scratch */
byte done;                                   /* commands that the agent has executed and answered */

#ifdef M_named_later
#define NAME(s) skip
#else
#define NAME(s) named = s
#endif
inline name_session(s) {
  NAME(s);
#ifndef M_name_not_synced
  namedD = named
#endif
  }
inline replace(session) {
  if :: made < R -> made++; name_session(made); session = made; SAY("replaces %d\n", made) :: else -> skip fi }
inline accept(k, session) {
  /* In the same file it is recognised. One that a process has accepted without an answer, before a replacement that it
     was sent, too, is new to the next session: its file has not seen it. */
  HOLDS(at_most_once, at[k] == 255 || at[k] <= session);
  at[k] = session; SAY("accepts %d in %d\n", k, session) }
inline execute(c, session) {
  if :: IS_REPLACEMENT(c) -> replace(session) :: else -> num = NUMBER(c); accept(num, session); num = 0 fi }

active proctype world() {
  byte i;
  i = 0; do :: i <= K -> at[i] = 255; i++ :: else -> break od; i = 0;
  do
  /* A process starts: it is told a session, waits for its lease, and looks again at what the file names. */
  :: d_step { hUp && !aUp && starting == 255 -> starting = named; SAY("starts in %d\n", named) }
  :: d_step { hUp && starting != 255 && !(o_up && o_cur == starting) ->
#ifndef M_named_read_before_lease
       if :: named != starting -> starting = named :: else -> aUp = true; cur = starting; starting = 255 fi
#else
       aUp = true; cur = starting; starting = 255
#endif
     }
  /* The agent takes a command, and the client gets the answer; outcome_unknown for what another process was sent. */
  :: d_step { hUp && aUp && done < COMMANDS && !asks ->
       if
       :: IS_REPLACEMENT(done) && done < begun -> skip
       :: else -> execute(done, cur)
       fi;
       if :: !IS_REPLACEMENT(done) -> answered = answered | BIT(NUMBER(done)) :: else fi;
#ifdef M_named_later
       asks = IS_REPLACEMENT(done);
#endif
       done++; if :: begun < done -> begun = done :: else fi }
#ifdef M_named_later
  :: d_step { hUp && aUp && done < COMMANDS && asks -> execute(done, cur);
       if :: !IS_REPLACEMENT(done) -> answered = answered | BIT(NUMBER(done)) :: else fi; done++ }
  :: d_step { hUp && aUp && asks -> asks = false; named = cur; namedD = cur }
#endif
  /* A crash, also behind a command and before its answer. What was sent and not answered is sent again. */
  :: atomic { hUp && aUp && faults < F -> faults++; asks = false;
       if
       :: done < COMMANDS && !(IS_REPLACEMENT(done) && done < begun) -> execute(done, cur); begun = done + 1
       :: true
       fi;
       aUp = false; SAY("fault kill_agent\n") }
  /* The host ends: its agent works off what it was sent. */
  :: atomic { hUp && faults < F && !o_up -> faults++; hUp = false; starting = 255; asks = false;
       if
       :: aUp -> o_up = true; o_cur = cur; o_next = done; o_sent = done;
          do :: o_sent < COMMANDS -> o_sent++ :: break od;
          if :: begun < o_sent -> begun = o_sent :: else fi
       :: else
       fi;
       aUp = false; SAY("fault kill_host\n") }
  :: d_step { o_up && o_next < o_sent ->
       execute(o_next, o_cur); o_next++ }
  :: d_step { o_up -> o_up = false; SAY("orphan ends\n") }
  :: d_step { !hUp -> hUp = true; SAY("host_starts\n") }
  :: d_step { faults < F -> faults++; hUp = false; aUp = false; o_up = false; starting = 255; asks = false; named = namedD;
       SAY("fault power\n") }
  :: d_step { hUp && aUp && !o_up && done == COMMANDS ->
       i = 0;
       do
       :: i < K -> HOLDS(returns, !IN(answered, i) || at[i] <= cur); i++      /* a later session was asked for */
       :: else -> break
       od; i = 0;
       HOLDS(returns, cur == at[K - 1]) } -> break
  od }
#endif
