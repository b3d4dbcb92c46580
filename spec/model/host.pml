/* The durable host: two clients, the host, one agent at a time, the session file, the id table, the journal.
   Written by hand. `python -P -m pinnace_campaigns.model_check.host` searches it; docs/model-checking.md, "The host", names
   the bounds, the faults and what is left out.

   -DK=commands of both clients together, -DF=faults, -DEVENTS=1 with the journal, -DRECORDS=records that an agent emits
   by itself, -DM_name a seeded fault.

   A step of the agent and the line that it writes are one step, and so are a line and the host's reading of it: what the
   host or the agent does before the other reads commutes with the reading, and a line that is lost in a pipe is the line
   of a process that died before it wrote. fsync is a step of its own, so each entry may be lost until then. Every number
   is bounded and nothing loops, so "no invalid end state" means that each client gets its answers and its records. */

#ifndef K
#define K 2                /* at most 4: FIRST looks at four places */
#endif
#ifndef F
#define F 2
#endif
#ifndef EVENTS
#define EVENTS 0
#endif
#ifndef RECORDS
#define RECORDS 0
#endif
#define TAIL (2 * K + 3)   /* entries behind the last fsync */
#define EPOCHS (F + 3)

/* Properties; PROPERTIES in the runner says what they mean. */
mtype = { p_one_fate, p_at_most_once, p_own_answer, p_silence, p_fifo, p_unknown_after_crash, p_no_gap,
  p_seen_is_written }
/* Commands: a queued message, a prompt (may be refused), clear_queue, abort, abort with queue "clear". */
mtype = { steer, prompt, clear, abort, abort_clear }
mtype = { ok, refused, unknown }                  /* responses */
mtype = { add, message, remove, refusal }         /* entries of the session file */
/* A command at the agent. W: its entry waits for the fsync. S: it is on disk, the response follows. */
mtype = { saving_W, saving_S, checking_W, checking_S, refusing_W, refusing_S, taken, removing_W, removing_S, done }

#define BIT(k) (1 << (k))
#define IN(mask, k) (((mask) >> (k)) & 1)
#define SAY(...) printf(__VA_ARGS__)
#define HOLDS(property, condition) if :: (condition) :: else -> SAY("broken %e\n", p_##property); assert(false) fi
#define IS_MESSAGE(k) (kind[k] == steer || kind[k] == prompt)
#define IS_ABORT(k) (kind[k] == abort || kind[k] == abort_clear)

/* Clients. A client keeps its own log across crashes: what it sent, what was answered, how far it has read. */
mtype kind[K + 1], got[K + 1];
byte own[K + 1], wid[K + 1];         /* client, and the id that it uses: its first command has 1, like the other's first */
byte sent, used[2], open[2];         /* open: the command whose answer a client waits for */
bool conn[2], asked[2];              /* asked: the open command was sent on this connection */
byte ret;                            /* messages that came back with an answer */
byte cE[2], cS[2], lp[2], ln[2];     /* cursor; process and number of the last record that was read */

/* Host. Memory: commands that wait for an agent, or are at it. Files: the id table (answers; ids begun, on disk). */
bool hUp = true;
byte held, fwd, begun, begunD;
mtype tab[K + 1]; byte tset[K + 1];
byte jE, jLen[EPOCHS], jP[EPOCHS], jAll[EPOCHS];   /* journal: epochs, records; of which process, which had emitted so many */
bool jEnd[EPOCHS], slept[EPOCHS];                  /* the mark of a clean end is in the journal; there was such an end */
bool unwritten;                                    /* only in a fault: a record that left before it was written */

/* Agent. orphan: its host is gone. */
bool aUp, orphan, paused;
byte process;                        /* its number, for the journal */
byte mq, rdy, late;                  /* the queue: slots, those whose message is accepted, those from before an abort */
mtype ph[K + 1]; byte cw[K + 1];     /* what each command waits for; what it withdrew */
byte pr, dl; bool dlS;               /* the prompt being checked; the message being delivered, whether it is on disk */

/* The session file: what is on disk (d…), with what is only written (f…), and the entries between them.
   q: messages without a fate in their order, three bits each; D: delivered; X: removed; R: removed by a command. */
int dq, fq; byte dD, fD, dX, fX, dR[K + 1], fR[K + 1];
mtype top[TAIL]; byte tk[TAIL], ts[TAIL], tl;

byte faults, chatter, i, j, k, x; int q;

#ifdef M_duplicate_starts_run
byte answers;                        /* messages that have one in the file */
#endif

/* Monitors: requests made, effects of aborts; whether all must be silent, and what was admitted since. */
byte req, acted, after, refs; bool blocked, crashed, power;

/* ---------------------------------------------------------------- session file */

inline push(list, it) { j = 0; do :: (list >> j) != 0 -> j = j + 3 :: else -> break od; list = list | (it << j); j = 0 }
inline cut(list, mask) {
  q = 0; j = 0;
  do
  :: list != 0 -> x = list & 7; list = list >> 3; if :: IN(mask, x) :: else -> q = q | (x << j); j = j + 3 fi
  :: else -> break
  od; list = q; q = 0; j = 0; x = 0 }
inline mask_of(list, mask) { mask = 0; q = list; do :: q != 0 -> mask = mask | BIT(q & 7); q = q >> 3 :: else -> break od }
inline apply(op, it, set) {
  if
  :: op == add -> push(fq, it)
  :: op == message -> HOLDS(at_most_once, !IN(fD, it)); fD = fD | BIT(it); cut(fq, BIT(it))
  :: op == remove -> fR[it] = set; fX = fX | set; cut(fq, set)
  :: op == refusal -> fD = fD & (255 - BIT(it))
  fi }
inline append(op, it, set) {
  assert(tl < TAIL); top[tl] = op; tk[tl] = it; ts[tl] = set; tl++; apply(op, it, set) }
inline forget_tail() {
  do :: tl > 0 -> tl--; top[tl] = 0; tk[tl] = 0; ts[tl] = 0 :: else -> break od }
inline sync() {
  dq = fq; dD = fD; dX = fX; i = 0; do :: i <= K -> dR[i] = fR[i]; i++ :: else -> break od; i = 0; forget_tail() }
/* The file holds exactly one fate of each accepted message, and none of a refused one. */
inline check_fates() {
  mask_of(fq, x); i = 1;
  do
  :: i <= sent ->
     if
     :: IS_MESSAGE(i) && got[i] == ok -> HOLDS(one_fate, IN(x, i) + IN(fD, i) + IN(fX, i) == 1)
     :: got[i] == refused -> HOLDS(one_fate, !IN(x, i) && !IN(fD, i) && !IN(fX, i))
     :: IS_ABORT(i) && got[i] == ok -> HOLDS(own_answer, IN(acted, i))
     :: else
     fi;
     HOLDS(one_fate, !IN(ret, i) || (IN(fX, i) && !IN(fD, i) && !IN(x, i))); i++
  :: else -> break
  od; i = 0; x = 0 }

/* ---------------------------------------------------------------- journal */

#if EVENTS
#ifdef M_sent_before_written
inline written() { unwritten = true }
#else
inline written() { jLen[jE]++ }
#endif
inline emit() { jAll[jE]++; if :: !orphan -> written() :: else fi }
#define CAN_EMIT (orphan || !unwritten)
#else
#define CAN_EMIT true
inline emit() { skip }
#endif
#if defined(M_cursor_beyond_end_waits)
#define EPOCH_IS_READ(c) (cS[c] == jLen[cE[c]])
#else
#define EPOCH_IS_READ(c) (cS[c] >= jLen[cE[c]])
#endif
#ifdef M_restart_claims_complete
#define COMPLETE(e) slept[e]
#else
#define COMPLETE(e) jEnd[e]
#endif
#define READS(c) (EVENTS && conn[c] && hUp)
#define IS_BEHIND(c) (READS(c) && ((cE[c] < jE && EPOCH_IS_READ(c)) || cS[c] < jLen[cE[c]]))
inline next_epoch(c) {         /* agent_restarted; with "complete" it promises that nothing of the old process is missing */
  HOLDS(no_gap, !COMPLETE(cE[c]) || (lp[c] == jP[cE[c]] && ln[c] == jAll[cE[c]]));
  cE[c]++; cS[c] = 0; lp[c] = jP[cE[c]]; ln[c] = 0; SAY("client_reads restart %d\n", c) }
inline next_record(c) {
  cS[c]++; HOLDS(no_gap, lp[c] == jP[cE[c]] && ln[c] + 1 == cS[c]); ln[c] = cS[c]; SAY("client_reads record %d\n", c) }
#ifdef M_silent_truncation
inline report_truncated(c) { skip }
#else
inline report_truncated(c) { lp[c] = jP[cE[c]]; ln[c] = cS[c] }
#endif
inline truncated(c, e, s) { cE[c] = e; cS[c] = s; report_truncated(c); SAY("client_reads truncated %d\n", c) }

/* ---------------------------------------------------------------- agent */

#ifdef M_ids_shared
#define KEY(it) wid[it]
#else
#define KEY(it) (it)
#endif
inline reply(it, response, set) {
  SAY("agent_answers %e %d\n", response, it); ph[it] = 0;
  if
  :: orphan
  :: else -> x = it;
#ifdef M_answer_to_other_client
     if :: open[0] != 0 && asked[0] && wid[open[0]] == wid[it] -> x = open[0] :: else fi;
#endif
     fwd = fwd & (255 - BIT(it));
#ifdef M_answer_not_stored
     if :: !asked[own[it]] -> x = 0 :: else fi;
#endif
     if :: x != 0 -> tab[KEY(x)] = response; tset[KEY(x)] = set :: else fi; x = 0
  fi; cw[it] = 0 }
inline request(it) {
  HOLDS(at_most_once, !IN(req, it)); HOLDS(one_fate, !IN(ret, it)); HOLDS(silence, !blocked); req = req | BIT(it);
  SAY("agent_requests %d\n", it)
#ifdef M_duplicate_starts_run
  ; answers = answers | BIT(it)                           /* at once: the answer is in the file, and not yet on the disk */
#endif
  }
/* What the file says of a message; the agent has it in memory. */
inline look_up(it) {
  x = 0;
#ifndef M_no_dedupe
  mask_of(fq, x); x = x | fD | fX;
#ifdef M_refused_is_known
  x = x | refs;
#endif
#ifdef M_message_id_without_name
  i = 1; do :: i <= sent -> if :: IN(x, i) && wid[i] == wid[it] -> x = x | BIT(it) :: else fi; i++ :: else -> break od; i = 0;
#endif
#endif
  x = IN(x, it) }
inline withdraw(it) {
  cw[it] = mq; ph[it] = taken;
#ifdef M_clear_drops_pending
  cw[it] = mq & rdy;
#endif
  mq = 0 }
/* Messages with a slot that are not accepted yet, also those that a command has withdrawn meanwhile. */
inline being_saved(mask) {
  mask = 0; i = 1;
  do
  :: i <= K -> if :: ph[i] == saving_W || ph[i] == saving_S -> mask = mask | BIT(i) :: else fi; i++
  :: else -> break
  od; i = 0 }
inline admit(it) {
  SAY("agent_admits %e %d\n", kind[it], it);
  if
  :: ph[it] != 0                                          /* a repetition waits for the first one's outcome */
  :: ph[it] == 0 && IS_MESSAGE(it) -> look_up(it);
     if
     :: x == 1 -> x = 0; reply(it, ok, 0);                /* duplicate */
#ifdef M_duplicate_releases
        paused = false
#endif
#ifdef M_duplicate_starts_run
        if
        :: kind[it] == prompt && IN(fD, it) && !IN(answers, it) && pr == 0 && dl == 0 ->
           after = after | BIT(it); accepted(it); request(it)
        :: else
        fi
#endif
     :: x == 0 && kind[it] == steer ->
        append(add, it, 0); mq = mq | BIT(it); rdy = rdy & (255 - BIT(it)); after = after | BIT(it); ph[it] = saving_W;
#ifdef M_answer_before_sync
        reply(it, ok, 0); ph[it] = saving_W
#endif
     :: x == 0 && kind[it] == prompt && pr == 0 && dl == 0 ->
        append(message, it, 0); after = after | BIT(it); pr = it; ph[it] = checking_W
     :: else -> reply(it, refused, 0)                     /* busy */
     fi
  :: ph[it] == 0 && kind[it] == clear ->
     if
#ifndef M_clear_forgets
     :: fR[it] != 0 -> reply(it, ok, fR[it])              /* the same command again: the same texts */
     :: fR[it] == 0 && mq != 0 -> withdraw(it)
#else
     :: mq != 0 -> withdraw(it)
#endif
     :: else -> reply(it, ok, 0)
     fi
  :: ph[it] == 0 && IS_ABORT(it) ->
     HOLDS(at_most_once, !IN(acted, it)); acted = acted | BIT(it); paused = true; blocked = true; after = 0; ph[it] = done;
     being_saved(x);
#ifdef M_late_fsync_lifts_pause
     x = 0;
#endif
#ifdef M_withdrawn_slot_lifts_pause
     x = x & mq;
#endif
     late = late | x;
#ifndef M_prompt_survives_abort
     if :: pr != 0 -> late = late | BIT(pr) :: else fi;
#endif
#ifndef M_abort_spares_delivery
     dl = 0; dlS = false;
#endif
     if :: kind[it] == abort_clear && mq != 0 -> withdraw(it) :: else fi
  fi; x = 0 }
inline accepted(it) {
  if :: IN(late, it) :: else -> paused = false fi;
  if :: IN(after, it) -> blocked = false :: else fi;
  late = late & (255 - BIT(it)); after = after & (255 - BIT(it)) }
inline write_removal(it) {
#ifdef M_clear_takes_later
  mask_of(fq, cw[it]);
#endif
  append(remove, it, cw[it]); ph[it] = removing_W;
#ifdef M_clear_not_synced
  reply(it, ok, cw[it])
#endif
  }
inline agent_syncs() {
  sync(); SAY("agent_syncs\n"); if :: dl != 0 -> dlS = true :: else fi; i = 1;
  do
  :: i <= K ->
     if
     :: ph[i] == saving_W -> ph[i] = saving_S
     :: ph[i] == checking_W -> ph[i] = checking_S
     :: ph[i] == refusing_W -> ph[i] = refusing_S
     :: ph[i] == removing_W -> ph[i] = removing_S
     :: else
     fi; i++
  :: else -> break
  od; i = 0 }
/* The first slot of some: delivery never overtakes one whose message is not accepted yet. */
#define SLOT(n) ((fq >> (3 * n)) & 7)
#define FIRST(of) (IN(of, SLOT(0)) -> SLOT(0) : (IN(of, SLOT(1)) -> SLOT(1) : (IN(of, SLOT(2)) -> SLOT(2) : SLOT(3))))
#ifdef M_slot_overtaken
#define NEXT FIRST((mq & rdy))
#else
#define NEXT FIRST(mq)
#endif
inline deliver() {
  HOLDS(fifo, NEXT == FIRST(mq));
  dl = NEXT; SAY("agent_delivers %d\n", dl);
  mq = mq & (255 - BIT(dl)); append(message, dl, 0);
#ifdef M_request_before_sync
  request(dl)
#endif
  }
#define IS_AT_REST (pr == 0 && dl == 0 && held == 0 && fwd == 0 && is_idle)
#if K == 0
#define is_idle true
#elif K == 1
#define is_idle (ph[1] == 0)
#elif K == 2
#define is_idle (ph[1] == 0 && ph[2] == 0)
#elif K == 3
#define is_idle (ph[1] == 0 && ph[2] == 0 && ph[3] == 0)
#elif K == 4
#define is_idle (ph[1] == 0 && ph[2] == 0 && ph[3] == 0 && ph[4] == 0)
#endif
inline agent_gone() {
  aUp = false; orphan = false; paused = false; mq = 0; rdy = 0; late = 0; pr = 0; dl = 0; dlS = false; after = 0; blocked = false;
  i = 0; do :: i <= K -> ph[i] = 0; cw[i] = 0; i++ :: else -> break od; i = 0 }
#ifdef M_crash_resends_all
#define IS_RESENT(it) true
#else
#define IS_RESENT(it) (!IS_ABORT(it))
#endif
inline agent_starts() {
  SAY("agent_starts\n"); aUp = true;
#ifndef M_open_not_synced
  sync();                                                 /* what the former process only wrote, before it is relied on */
#endif
  mask_of(fq, mq); rdy = mq; blocked = true;              /* nothing is sent to a model by itself */
#ifndef M_restored_runs
  paused = true;
#endif
  check_fates();
#if EVENTS
  process++; assert(jE < EPOCHS - 1); jE++; jLen[jE] = 0; jEnd[jE] = false; slept[jE] = false; jAll[jE] = 0; jP[jE] = process;
#endif
  i = 1;
  do
  :: i <= sent ->                                         /* commands that the crash left open */
     if
     :: IN(fwd, i) && IS_RESENT(i) -> held = held | BIT(i)
     :: IN(fwd, i) && !IS_RESENT(i) -> HOLDS(unknown_after_crash, crashed); tab[KEY(i)] = unknown; SAY("host_answers unknown %d\n", i)
     :: else
     fi; i++
  :: else -> break
  od; i = 0; fwd = 0 }

/* ---------------------------------------------------------------- clients and host */

inline new_command(c) {
  sent++; used[c]++; own[sent] = c; wid[sent] = used[c]; open[c] = sent;
  if :: kind[sent] = steer :: kind[sent] = prompt :: kind[sent] = clear :: kind[sent] = abort :: kind[sent] = abort_clear fi }
#ifdef M_begun_counts_as_done
#define UNKNOWN ok
#else
#define UNKNOWN unknown
#endif
inline receive(c) {                                       /* the host reads the client's line; the id table comes first */
  k = open[c]; asked[c] = true; SAY("client_sends %e %d %d\n", kind[k], k, c);
  if
  :: tab[KEY(k)] != 0                                     /* answered before: the stored response */
  :: tab[KEY(k)] == 0 && IN(held | fwd, k)                /* in progress: the response, when it comes */
#ifdef M_repeat_in_progress
     -> held = held | BIT(k)
#endif
#ifndef M_repeat_after_host_crash
  :: tab[KEY(k)] == 0 && !IN(held | fwd, k) && IN(begun, KEY(k)) && IS_ABORT(k) ->
     HOLDS(unknown_after_crash, crashed); tab[KEY(k)] = UNKNOWN
#endif
  :: else -> held = held | BIT(k);
#ifndef M_no_intent
     begun = begun | BIT(KEY(k));
#ifndef M_intent_not_synced
     if :: IS_ABORT(k) -> begunD = begunD | BIT(KEY(k)) :: else fi
#endif
#endif
  fi; k = 0 }
inline answered(c) {
  k = open[c]; got[k] = tab[KEY(k)]; open[c] = 0; asked[c] = false; SAY("client_gets %e %d\n", got[k], k);
  if
  :: got[k] == ok && (kind[k] == clear || kind[k] == abort_clear) ->
     HOLDS(one_fate, (ret & tset[KEY(k)]) == 0); ret = ret | tset[KEY(k)]; HOLDS(one_fate, (ret & req) == 0)
  :: else
  fi;
#ifndef M_ids_shared
  /* Never asked for again. */
  tab[k] = 0; tset[k] = 0; begun = begun & (255 - BIT(k)); begunD = begunD & (255 - BIT(k));
#endif
  k = 0 }
inline disconnect(c) { conn[c] = false; asked[c] = false }
inline host_gone() {
  crashed = true; hUp = false; held = 0; fwd = 0; unwritten = false; disconnect(0); disconnect(1);
  if :: aUp -> orphan = true :: else fi }

#define CLIENT(c) \
  :: d_step { hUp && !conn[c] -> conn[c] = true; SAY("client_connects %d\n", c); \
       HOLDS(seen_is_written, cS[c] <= jLen[cE[c]] || power) } \
  :: atomic { conn[c] && open[c] == 0 && sent < K -> new_command(c); receive(c) } \
  :: d_step { conn[c] && open[c] != 0 && !asked[c] -> receive(c) } \
  :: d_step { conn[c] && open[c] != 0 && asked[c] && tab[KEY(open[c])] != 0 -> answered(c) } \
  :: d_step { faults < F && conn[c] -> faults++; disconnect(c); SAY("fault cut %d\n", c) }
#define READER(c) \
  :: d_step { READS(c) && cE[c] < jE && EPOCH_IS_READ(c) -> next_epoch(c) } \
  :: d_step { READS(c) && cS[c] < jLen[cE[c]] -> next_record(c) } \
  /* Retention: what a client has not read yet may be gone, to any place behind. */ \
  :: atomic { READS(c) && cS[c] < jLen[cE[c]] -> x = cS[c] + 1; \
       do :: x < jLen[cE[c]] -> x++ :: break od; truncated(c, cE[c], x); x = 0 } \
  :: d_step { READS(c) && cS[c] < jLen[cE[c]] && cE[c] < jE -> truncated(c, cE[c] + 1, 0) }
#define COMMAND(it) \
  :: d_step { hUp && aUp && !orphan && IN(held, it) -> \
       held = held & (255 - BIT(it)); fwd = fwd | BIT(it); admit(it) } \
  :: d_step { aUp && ph[it] == saving_S -> rdy = rdy | (mq & BIT(it)); accepted(it); SAVED(it) } \
  :: d_step { aUp && ph[it] == checking_S && !IN(late, it) && CAN_EMIT -> \
       pr = 0; accepted(it); request(it); emit(); reply(it, ok, 0) } \
  :: d_step { aUp && ph[it] == checking_S -> append(refusal, it, 0); refs = refs | REF(it); ph[it] = refusing_W; \
       REFUSED_EARLY(it) } \
  :: d_step { aUp && ph[it] == refusing_S -> pr = 0; late = late & (255 - BIT(it)); after = after & (255 - BIT(it)); \
       reply(it, refused, 0) } \
  :: d_step { aUp && ph[it] == taken -> write_removal(it) } \
  :: d_step { aUp && ph[it] == removing_S -> REMOVED(it) } \
  :: d_step { aUp && ph[it] == done && CAN_EMIT -> emit(); reply(it, ok, 0) }
#ifdef M_answer_before_sync
#define SAVED(it) ph[it] = 0
#else
#define SAVED(it) reply(it, ok, 0)
#endif
#ifdef M_refusal_not_synced
#define REFUSED_EARLY(it) pr = 0; reply(it, refused, 0)
#else
#define REFUSED_EARLY(it) skip
#endif
#ifdef M_clear_not_synced
#define REMOVED(it) ph[it] = 0; cw[it] = 0
#else
#define REMOVED(it) reply(it, ok, cw[it])
#endif
#ifdef M_refused_is_known
#define REF(it) BIT(it)
#else
#define REF(it) 0
#endif

#ifdef M_sleeps_at_work
#define MAY_SLEEP true
#else
#define MAY_SLEEP IS_AT_REST
#endif
/* At rest: each client has its answer and its records, or never comes back. */
#define IS_SERVED(c) (!conn[c] || (open[c] == 0 && !IS_BEHIND(c)))
#define IS_QUIET (hUp && aUp && !orphan && IS_SERVED(0) && IS_SERVED(1) && IS_AT_REST && (mq == 0 || paused) && !unwritten)
inline check_read(c) {
  HOLDS(no_gap, !conn[c] || (cE[c] == jE && cS[c] == jLen[jE] && lp[c] == jP[jE] && ln[c] == cS[c])) }
/* What was removed came back, unless the answer was lost: then get_queue lists it. */
inline check_returned() {
  i = 1; x = 0;
  do
  :: i <= sent -> if :: (got[i] == unknown || got[i] == 0) -> x = x | fR[i] :: else fi; i++
  :: else -> break
  od; i = 0;
  HOLDS(one_fate, (ret | x) == fX); x = 0 }

active proctype world() {
  do
  CLIENT(0)
  CLIENT(1)
#if K >= 1
  COMMAND(1)
#endif
#if K >= 2
  COMMAND(2)
#endif
#if K >= 3
  COMMAND(3)
#endif
#if K >= 4
  COMMAND(4)
#endif
#if EVENTS
  READER(0)
  READER(1)
#ifdef M_sent_before_written
  :: d_step { unwritten && hUp -> unwritten = false; jLen[jE]++ }
  :: d_step { unwritten && READS(0) && cE[0] == jE && cS[0] == jLen[jE] -> next_record(0) }
  :: d_step { unwritten && READS(1) && cE[1] == jE && cS[1] == jLen[jE] -> next_record(1) }
#endif
  :: d_step { aUp && chatter < RECORDS && CAN_EMIT -> chatter++; emit(); SAY("agent_emits %d\n", chatter) }
#endif
  /* Agent. */
  :: d_step { aUp && tl > 0 -> agent_syncs() }
  :: d_step { aUp && !paused && pr == 0 && dl == 0 && mq != 0 && IN(rdy, NEXT) -> deliver() }
  :: d_step { aUp && dl != 0 && dlS && CAN_EMIT ->
#ifndef M_request_before_sync
       request(dl);
#endif
       emit(); dl = 0; dlS = false }
  :: d_step { orphan && pr == 0 && dl == 0 && is_idle ->  /* the end of its stdin: the queue stays in the file */
#ifdef M_exit_returns_and_keeps
       ret = ret | mq;
#endif
       SAY("agent_exits\n"); agent_gone() }
  /* Starts; the lease of the session keeps a second agent away (sessions.pml), and a client brings the environment. */
  :: d_step { !hUp -> hUp = true; SAY("host_starts\n") }
  :: d_step { hUp && !aUp && !unwritten && (conn[0] || conn[1]) -> agent_starts() }
  /* Faults. */
  :: d_step { faults < F && aUp -> faults++; crashed = true; SAY("fault kill_agent\n"); agent_gone() }
  :: d_step { faults < F && hUp -> faults++; SAY("fault kill_host\n"); host_gone() }
#if EVENTS
  :: d_step { faults < F && hUp && aUp && !orphan && MAY_SLEEP && !unwritten ->       /* no crash: sleep, an upgrade */
       faults++; SAY("fault sleep\n"); jEnd[jE] = true; slept[jE] = true; agent_gone() }
#endif
  :: atomic { faults < F -> faults++; power = true; SAY("fault power\n"); host_gone(); agent_gone();
#ifdef M_duplicate_starts_run
       answers = 0;
#endif
       /* Of each file some beginning of what is behind the last fsync is left. */
       fq = dq; fD = dD; fX = dX; i = 0; do :: i <= K -> fR[i] = dR[i]; i++ :: else -> break od; i = 0;
       do :: i < tl -> apply(top[i], tk[i], ts[i]); i++ :: break od; i = 0; sync();
       i = 1;
       do
       :: i <= K ->
          if :: tab[i] != 0 -> tab[i] = 0; tset[i] = 0 :: true fi;
          if :: IN(begun, i) && !IN(begunD, i) -> begun = begun & (255 - BIT(i)) :: true fi; i++
       :: else -> break
       od; i = 0;
#if EVENTS
       x = jE;
       do
       :: break
       :: jEnd[x] -> jEnd[x] = false
       :: !jEnd[x] && jLen[x] > 0 -> jLen[x]--
       :: !jEnd[x] && jLen[x] == 0 && x > 1 -> x--
       od; x = 0;
#ifdef M_epoch_not_synced
       if :: jE > 0 -> jE-- :: true fi
#endif
#endif
     }
  :: d_step { IS_QUIET -> check_fates(); mask_of(fq, x); HOLDS(one_fate, x == mq); x = 0; check_returned();
#if EVENTS
       check_read(0); check_read(1)
#endif
     } -> break
  od }
