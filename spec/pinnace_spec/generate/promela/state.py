"""The models' extended state, what bodies share, and the monitors that watch their output.

Hand-written Promela. A monitor looks only at the output (answers, brackets, deliveries, records), never at the rows,
so that a row which is wrong can't be right by its own measure. `HOLDS(property, condition)` names the property that a
condition belongs to (`promela_properties`).
"""

from typing import Final

PRELUDE: Final = r"""
#ifndef N
#define N 3            /* commands of the client */
#endif
#ifndef RETRIES
#define RETRIES 1      /* attempts after a failure */
#endif
#ifndef ROUNDS
#define ROUNDS 1       /* rounds of tools after a delivered text: a model that stops some time */
#endif
#ifndef LIMIT
#define LIMIT 0        /* whether a limit may end a run */
#endif
#ifndef SECOND
#define SECOND 0       /* whether a signal may follow the end of input */
#endif
#ifndef EXT
#define EXT 0          /* whether extensions are loaded */
#endif
#ifndef FULL
#define FULL 0         /* whether a single text fills the queues */
#endif
#ifndef REPLAY
#define REPLAY 0       /* whether only what a client can bring about in a real agent may happen */
#endif
#define QUEUED ((FULL && !REPLAY) -> 1 : N)  /* texts that may wait in both queues together */
#ifndef MODES
#define MODES 0        /* whether all delivery modes are tried */
#endif
#ifndef SHELLS_KILLED
#define SHELLS_KILLED skip
#endif
#ifndef SHELL_STARTED
#define SHELL_STARTED skip
#endif
#ifndef SHELL_RECORDED
#define SHELL_RECORDED(i) skip
#define SHELL_ENDED(i) skip
#define SHELLS_ABORTED skip
#define SHELLS_CLOSED true
#endif
#ifndef DIALOGS_DEFAULT
#define DIALOGS_DEFAULT skip
#define DIALOGS_CLOSE skip
#define DIALOG_RESOLVE skip
#define DIALOGS_NONE true
#define ASK_FREE true
#define JOB_FREE true
#define COMMANDS_FREE true
#define ASK_CANCELLED skip
#define JOB_CANCELLED skip
#endif
#ifndef TOOLS_START
#define TOOLS_START skip
#define TOOLS_END skip
#define TOOLS_CLOSE skip
#define TOOLS_ENDED true
#define TOOLS_UNWOUND true
#define TOOLS_SETTLED true
#endif

#define SAY(...) printf(__VA_ARGS__)
#define HOLDS(property, condition) if :: (condition) :: else -> SAY("broken %e\n", p_##property); assert(false) fi
"""

STATE: Final = r"""
mtype = { j_none, j_preflight, j_sync, j_run, j_timer, j_compaction, j_navigation, j_switch, j_settle_hook,
          j_instance, j_reload };                                                            /* jobs of RUN */
mtype = { r_manual, r_threshold, r_overflow };                                               /* reasons to compact */
mtype = { q_queued, q_started, q_handled };                                                  /* dispositions */

/* What the chart remembers. A text, a command, an abort is the number of its arrival, from 1. */
chan qs = [N] of { byte };                   /* steering */
chan qf = [N] of { byte };                   /* follow-ups */
chan line = [N] of { mtype, byte, byte };    /* behind a barrier: command, option, number */
chan aborts = [N] of { byte };               /* that wait for RUN to end */
chan shells = [N] of { byte };               /* running */
chan kept = [N] of { byte };                 /* ended, not yet in the conversation */
chan commands = [N] of { byte };             /* of extensions, running */
bool held, period, cancelled, thr, chk, ovf, bd, alls, allf;
bool moved;                                  /* the session, by the command at work */
bool autoretry = true, autocompact = true;
byte att, rb;                                /* attempt; attempt of the open retry bracket */
byte own, cown, asking, sw, swing, pc;       /* prompt in preflight; compact at work; session command asked
                                                about, approved, carried out; compact that waits */
byte nav;                                    /* navigate_tree at work */
byte rel;                                    /* reload at work */
byte reading, reado; mtype readt;            /* a text that extensions read */
/* A text on its way to the disk, and what becomes of it then: 0 accepted, 1 held, 2 returned. */
byte saving, saving_option, saving_after; mtype saving_trigger;
mtype cb;                                    /* reason of the open compaction bracket */
mtype job = j_none;                          /* the job that really lives */

/* One step: the trigger, its option and number, whether it has been read; what it raises. */
mtype t, rt; byte o, ro, id, rid; bool rd, rr, due;
byte fired, x, z, k, w; mtype y;

/* What the client and the environment remember. */
bool fresh;                                  /* nothing but commands has happened since the last command */
byte sent, rounds, boundaries; bool limited, second, begun_extensions;

/* What the monitors remember. */
bool answered[N + 1];
byte joined[4];                              /* by queue, the last text that joined it, delivered or not */
bool saved[N + 1];                           /* of texts that are queued: are on the disk */
byte fate[N + 1];                            /* of texts: 0 none, 1 own, 2 steering, 3 follow-up, 4 gone */
bool app;                                    /* the text of the prompt is saved, and not yet answered */
bool ag, tu, ms, to;                         /* open brackets: agent, turn, message, tools */
bool blocked, quiet; byte blockedby;         /* since an abort; since agent_settled */

#define SAVING_OVER saving = 0; saving_trigger = 0; saving_option = 0; saving_after = 0
#define DELIVERABLE (!held && (len(qs) > 0 || len(qf) > 0))
#define OWED (DELIVERABLE || (saving && saving_after == 0))
#define SETTLE_HOOK_DUE (bd && period && !OWED && !cancelled)
/* Where a real agent stays until its client, its model or a gate lets it go on. */
#define READ 4 /* of what waits: with the option, that extensions have read it */
#define CALM (!REPLAY || (SESSION == session_quiet && !reading && !saving && (RUN == run_idle || RUN == run_llm || \
  RUN == run_tools || RUN == run_retrying || RUN == run_compacting_manual || \
  RUN == run_compacting_prompt || RUN == run_compacting_threshold || RUN == run_compacting_overflow || \
  RUN == run_navigating)))
#define IS_TEXT(c) (c == t_prompt || c == t_steer || c == t_follow_up || c == t_extension_command)
#define IS_SESSION(c) (c == t_new_session || c == t_navigate_tree)
#define IS_INSTANT(c) (c == t_get_state || c == t_clear_queue || c == t_set_model || c == t_set_queue_mode || \
  c == t_set_auto_compaction || c == t_set_auto_retry)
#define WAITS(c) (line??[c, _, _])
#define INSTANT_WAITS (WAITS(t_get_state) || WAITS(t_clear_queue) || WAITS(t_set_model) || WAITS(t_set_queue_mode) || \
  WAITS(t_set_auto_compaction) || WAITS(t_set_auto_retry))
"""

MONITORS: Final = r"""
/* Monitors. */
inline m_answer(i) { HOLDS(answered_once, i > 0 && i <= sent && !answered[i]); answered[i] = true }
inline m_accept(i) { if :: !blocked || i > blockedby -> blocked = false; blockedby = 0; quiet = false :: else fi }
inline m_continue() { quiet = false }
inline m_take(i) { HOLDS(one_fate, fate[i] == 0); fate[i] = 1; quiet = false }
inline m_queue(i, q) {
  HOLDS(one_fate, fate[i] == 0); HOLDS(saved_first, saved[i]); fate[i] = q;
  HOLDS(fifo, i > joined[q]); joined[q] = i }
inline m_gone(i) { HOLDS(one_fate, fate[i] > 0 && fate[i] < 4); fate[i] = 4 }
inline m_saved(i) { HOLDS(saved_first, i > 0 && !answered[i]); saved[i] = true }
inline m_returned(i) { HOLDS(withdraws_earlier, answered[i]) }
inline m_append(i) { HOLDS(saved_first, fate[i] == 1 && !app) }
inline m_settle() {
  HOLDS(settled_closed, !ag && !tu && !ms && !to && !cb && !rb && job == j_none);
  quiet = true }
inline m_abort_answered() {
  HOLDS(abort_closes, !ag && !tu && !ms && !to && !cb && !rb && job == j_none);
  HOLDS(abort_after_settled, !period || OWED) }
inline m_start_run() {
  HOLDS(abort_before_run, len(aborts) == 0);
  HOLDS(silence, !blocked);
  HOLDS(nothing_after_settled, !quiet);
  HOLDS(brackets, !ag && !cb && period);
  ag = true }
inline m_record() { HOLDS(records_between_runs, !ag) }
inline m_close() {
  w = 1;
  do
  :: w <= sent ->
     HOLDS(answered_once, answered[w]);
     HOLDS(never_lost, fate[w] == 0 || fate[w] == 4 || (saved[w] && held)); w++
  :: else -> break
  od; w = 0;
  HOLDS(closed_clean, job == j_none && !nav && !rel && !ag && !cb && !rb && !period && !asking && !reading && !saving);
  HOLDS(closed_clean, len(line) == 0 && len(aborts) == 0 && len(shells) == 0 && len(kept) == 0 && len(commands) == 0);
  HOLDS(closed_clean, DIALOGS_NONE && SHELLS_CLOSED) }
"""

HELPERS: Final = r"""
/* What bodies share. */
inline ok(i) { if :: i -> m_answer(i); SAY("ok %d\n", i) :: else fi }
inline refuse(i) { m_answer(i); SAY("refuse %d\n", i) }
inline accept_text(i, how) {
  m_answer(i);
  if :: how == q_handled -> SAY("handled %d\n", i)
     :: how == q_queued -> m_accept(i); SAY("queued %d\n", i)
     :: else -> m_accept(i); SAY("started %d\n", i) fi }
inline report_queues() { SAY("queues %d %d\n", len(qs), len(qf)) }
inline start_job(kind) { HOLDS(one_job, job == j_none); job = kind; SAY("job %e\n", kind) }
inline deliver(i) {
  att = 0; ovf = false; rounds = 0; boundaries = 0;
  HOLDS(brackets, ag && tu && !ms && !to);
  HOLDS(one_fate, fate[i] > 0 && fate[i] < 4);
  w = 1;
  do :: w < i -> HOLDS(fifo, fate[i] == 1 || fate[w] != fate[i]); w++ :: else -> break od; w = 0;
  fate[i] = 4;
  SAY("deliver %d\n", i) }
inline poll(q, all) {
  if :: all -> k = len(q) :: else -> k = (len(q) > 0 -> 1 : 0) fi;
  do :: k > 0 -> k--; q?x; report_queues(); deliver(x) :: else -> break od; x = 0 }
inline withdraw(before) {
  k = len(qs) + len(qf);
  do :: len(qs) > 0 -> qs?x; HOLDS(withdraws_earlier, x < before); m_gone(x) :: else -> break od;
  do :: len(qf) > 0 -> qf?x; HOLDS(withdraws_earlier, x < before); m_gone(x) :: else -> break od; x = 0;
  if :: k > 0 -> report_queues(); SAY("return_queued\n") :: else fi; k = 0 }
inline withdraw_pending() {
  if :: sw -> ok(sw); sw = 0 :: else fi;
  if :: pc -> refuse(pc); pc = 0 :: else fi }
inline withdraw_reading() {
  if :: reading -> SAY("cancel_ask\n"); refuse(reading); reading = 0; readt = 0; reado = 0 :: else fi }
inline close_agent(retries) {
  HOLDS(brackets, ag && !tu && !ms && !to);
  ag = false; job = j_none; SAY("agent_end %d\n", retries) }
inline close_all() {
  HOLDS(brackets, ag); TOOLS_CLOSE;
  to = false; ms = false; tu = false; ag = false; SAY("close_run\n") }
inline end_retry(success) { if :: rb -> rb = 0; SAY("retry_end %d\n", success) :: else fi }
inline start_compaction(reason) {
  HOLDS(brackets, !ag && !cb);
  HOLDS(nothing_after_settled, reason == r_manual || (period && !quiet));
  cb = reason; SAY("compaction_start\n"); start_job(j_compaction) }
inline end_compaction(success) { HOLDS(brackets, cb); cb = 0; SAY("compaction_end %d\n", success) }
inline record_shell(i) { m_record(); SHELL_RECORDED(i); SAY("record_shell %d\n", i) }
/* Takes one element out, wherever it is; the others keep their order. */
inline take_from(q, i) {
  k = len(q);
  do :: k > 0 -> k--; q?x; if :: x != i -> q!x :: else fi :: else -> break od; x = 0 }
"""
