"""Guards and actions of the chart's rows in Promela.

The same names as in the statechart package, the same behaviour without data: a text is its number, an answer is ok or
an error. What a body tells with `SAY` is what the other body asks for as an effect, in the same order; paths of the
model are compared with the chart effect by effect. `t`, `o` and `id` are the trigger at hand, its option and its
number. Helpers (ok, refuse, deliver, …) and monitors are in `promela_state`.
"""

from collections.abc import Mapping
from typing import Final

GUARDS: Final[Mapping[str, str]] = {
    "barrier": "(asking || sw || pc || reading || RUN == run_switching || (RUN == run_aborting && len(line) > 0))",
    "has_behavior": "(o != 0)",
    "queue_full": "((t != t_prompt || o != 0) && len(qs) + len(qf) >= QUEUED)",
    "unread": "(EXT && !rd && (t != t_prompt || o != 0))",
    # Options of reports: what an extension wishes.
    "goes_on": "(o == 1)",
    "ends_at_once": "(o == 1 && len(qs) == 0)",
    "has_own": "(own != 0)",
    "has_steering": "(len(qs) > 0)",
    "has_follow_up": "(len(qf) > 0)",
    "owed": "OWED",
    "unsettled": "(period && !OWED)",
    "boundary_due": "BOUNDARY_DUE",
    "threshold_due": "(due && autocompact)",
    "threshold_unchecked": "(!thr)",
    "can_retry": "(autoretry && att < RETRIES)",
    "can_recover_overflow": "(autocompact && !ovf)",
    "overflow_again": "(autocompact && ovf)",
    "session_ready": "(sw != 0)",
    "compact_ready": "(pc != 0)",
    "line_ready": "(len(line) > 0 && !g_barrier)",
    "line_waits": "(len(line) > 0)",
    "instant_waits": "INSTANT_WAITS",
    "last_shell": "(len(shells) == 1)",
    "quiescent": (
        "(RUN == run_idle && SESSION == session_quiet && SHELL == shell_quiet && !pc && !sw && !reading"
        " && len(commands) == 0 && len(line) == 0 && !OWED)"
    ),
}

_TEXTS: Final = {
    "take_own": "own = id; m_take(id)",
    "open_period": "if :: !period -> period = true; cancelled = false :: else fi",
    "settle": """if
:: period && !OWED && !BOUNDARY_DUE -> m_settle(); period = false; bd = false;
   SAY("settled %d\\n", cancelled); cancelled = false
:: else fi""",
    "enqueue": """if
:: t == t_steer || (t == t_prompt && o == 1) -> qs!id; m_queue(id, 2)
:: else -> qf!id; m_queue(id, 3) fi""",
    "hold": "held = true",
    "release_hold": "held = false",
    "queue_update": "tell_queues()",
    "deliver_steering": "poll(qs, alls)",
    "deliver_follow_up": "poll(qf, allf)",
    "deliver_continuation": """z = len(qs) + len(qf);
if :: len(qs) > 0 -> poll(qs, alls) :: else -> poll(qf, allf) fi;
HOLDS(continuation, len(qs) + len(qf) < z); z = 0""",
    "withdraw_queues": "withdraw(id)",
    "accept_cleared": "ok(id)",
    "announce_queue": "if :: len(qs) + len(qf) > 0 -> tell_queues() :: else fi",
    "return_queue": """if :: IO == io_draining && len(qs) + len(qf) > 0 -> tell_queues() :: else fi;
z = len(qs) + len(qf); withdraw(N + 1);
if :: z > 0 -> SAY("return_queue\\n") :: else fi; z = 0""",
    "accept": "if :: t == t_abort_bash -> SHELLS_ABORTED :: else fi; ok(id)",
    "accept_queued": "accept_text(id, q_queued)",
    "accept_started": """if
:: (t == t_steer && (alls || len(qs) == 1)) || (t == t_follow_up && len(qs) == 0 && (allf || len(qf) == 1)) ->
   accept_text(id, q_started)
:: else -> accept_text(id, q_queued) fi""",
    "accept_own": "HOLDS(saved_first, app); accept_text(own, q_started)",
    "handle_own": "accept_text(own, q_handled); m_gone(own); own = 0",
    "refuse_own": "if :: own -> HOLDS(saved_first, !app); refuse(own); m_gone(own); own = 0 :: else fi",
    "refuse_busy": "refuse(id)",
    "refuse_full": "refuse(id)",
    "refuse_compacting": "refuse(id)",
    "refuse_line": "refuse(id)",
    "admit_abort": """cancelled = true;
if :: o == 1 -> withdraw(id) :: else fi;
held = (o != 2);
if :: o == 2 -> m_continue() :: else fi;
if :: id -> aborts!id :: else fi""",
    "answer_aborts": """do
:: len(aborts) > 0 -> aborts?x; m_abort_answered(); ok(x)
:: else -> break od; x = 0""",
    "join_line": "line!t, (rd -> o + READ : o), id",
    "take_line": """HOLDS(one_raised, rt == 0); line?rt, ro, rid;
if :: ro >= READ -> ro = ro - READ; rr = true :: else fi""",
    "withdraw_waiting": """k = len(line);
do :: k > 0 -> k--; line?y, z, x;
   if :: IS_TEXT(y) || y == t_compact -> refuse(x)
      :: IS_SESSION(y) -> ok(x)
      :: else -> line!y, z, x fi
:: else -> break od; y = 0; z = 0; x = 0;
withdraw_pending();
withdraw_reading()""",
    "withdraw_all": """withdraw_reading();
do :: len(line) > 0 -> line?y, z, x;
   if :: IS_SESSION(y) || y == t_bash || y == t_abort -> ok(x) :: else -> refuse(x) fi
:: else -> break od; y = 0; z = 0; x = 0;
withdraw_pending()""",
    "withdraw_work": """withdraw_reading();
k = len(line);
do :: k > 0 -> k--; line?y, z, x;
   if :: IS_INSTANT(y) -> line!y, z, x
      :: IS_SESSION(y) || y == t_bash || y == t_abort -> ok(x)
      :: else -> refuse(x) fi
:: else -> break od; y = 0; z = 0; x = 0;
withdraw_pending()""",
    "withdraw_bash": """k = len(line);
do :: k > 0 -> k--; line?y, z, x;
   if :: y == t_bash -> ok(x) :: else -> line!y, z, x fi
:: else -> break od; y = 0; z = 0; x = 0""",
    "set_mode": "alls = (o == 1); allf = (o == 1)",
    "set_flag": "if :: t == t_set_auto_retry -> autoretry = (o == 1) :: else -> autocompact = (o == 1) fi",
    "answer": "ok(id)",
    "perform": "ok(id)",
}

_RUN: Final = {
    "start_preflight": "start_job(j_preflight); chk = !thr",
    "append_own": 'm_append(own); app = true; SAY("append %d\\n", own)',
    "start_sync": "start_job(j_sync)",
    "drop_own": 'if :: app -> app = false; SAY("drop %d\\n", own) :: else fi',
    "start_run": """m_start_run(); runopen = true; cancelled = false; bd = EXT;
SAY("agent_start\\n"); start_job(j_run)""",
    "start_turn": 'HOLDS(brackets, ag && !tu); tu = true; SAY("turn_start\\n")',
    "deliver_own": "x = own; own = 0; app = false; deliver(x); x = 0",
    "call_model": 'HOLDS(brackets, ag && tu && !ms && !to && job == j_run); ms = true; SAY("call_model\\n")',
    "call_tools": """HOLDS(brackets, ag && tu && !ms && !to && job == j_run);
to = true; TOOLS_START; SAY("call_tools\\n")""",
    "end_message": 'HOLDS(brackets, ms); ms = false; SAY("end_message\\n")',
    "fail_calls": 'SAY("fail_calls\\n")',
    "end_tools": 'HOLDS(brackets, to && !ms); to = false; TOOLS_END; SAY("end_tools\\n")',
    "end_turn": """HOLDS(brackets, tu && !ms && !to); HOLDS(results_in_order, TOOLS_SETTLED);
tu = false; SAY("turn_end\\n")""",
    "end_run": "close_agent(0)",
    "end_run_retrying": "close_agent(1)",
    "close_run": "if :: runopen -> close_all() :: else fi",
    "fail_run": "close_all()",
    "end_job": "HOLDS(one_job, job == j_none); thr = false; att = 0; ovf = false",
    "reset_counters": "att = 0; ovf = false",
    "cancel_job": 'HOLDS(one_job, job != j_none && job != j_timer); cancelled = true; SAY("cancel_job\\n")',
    "note_cancel": "cancelled = true",
    "leave_failed": 'SAY("leave_failed\\n")',
    "start_retry": """att++; rb = att;
SAY("retry_start\\n"); start_job(j_timer)""",
    "cancel_timer": 'HOLDS(one_job, job == j_timer); job = j_none; SAY("cancel_timer\\n")',
    "retry_ok": "end_retry(1)",
    "retry_failed": "end_retry(0)",
    "retry_cancelled": "end_retry(0)",
    "check_threshold": "thr = true",
    "compaction_manual": "start_compaction(r_manual)",
    "compaction_threshold": "start_compaction(r_threshold)",
    "compaction_overflow": "att = 0; ovf = true; start_compaction(r_overflow)",
    "compaction_given_up": 'SAY("compaction_start\\n"); SAY("compaction_end 0\\n")',
    "compaction_done": 'if :: cb -> cb = 0; SAY("compaction_end 1\\n") :: else fi',
    "compaction_fail": 'if :: cb -> cb = 0; SAY("compaction_end 0\\n") :: else fi',
    "close_compaction": 'if :: cb -> cb = 0; SAY("compaction_end 0\\n") :: else fi',
    "take_compact": "cown = id",
    "pend_compact": "pc = id",
    "take_pending_compact": "cown = pc; pc = 0",
    "accept_compact": "if :: cown -> ok(cown); cown = 0 :: else fi",
    "refuse_compact": "if :: cown -> refuse(cown); cown = 0 :: else fi",
    "refuse_compaction_in_progress": "refuse(id)",
}

_REGIONS: Final = {
    "start_ask": 'HOLDS(one_job, !asking); asking = id; SAY("job ask\\n")',
    "approve_session": "HOLDS(one_raised, rt == 0); sw = asking; asking = 0; rt = t_session_approved",
    "veto_session": "ok(asking); asking = 0",
    "refuse_asked": "refuse(asking); asking = 0",
    "withdraw_asking": 'SAY("cancel_ask\\n"); ASK_CANCELLED; ok(asking); asking = 0',
    "note_instance": "skip",
    "start_switch": "start_job(j_switch)",
    "replace_session": "held = false; withdraw(sw)",
    "accept_session": "ok(sw); sw = 0",
    "refuse_session": "refuse(sw); sw = 0",
    "start_shell": 'shells!id; SHELL_STARTED; SAY("start_shell %d\\n", id)',
    "kill_shells": 'SHELLS_KILLED; SAY("kill_shells\\n")',
    "end_shell": """take_from(shells, id); SHELL_ENDED(id); ok(id);
if :: RUN == run_idle || RUN == run_compacting_manual -> record_shell(id)
   :: else -> kept!id; SAY("keep_shell %d\\n", id) fi""",
    "flush_shells": "do :: len(kept) > 0 -> kept?x; record_shell(x) :: else -> break od; x = 0",
    "default_dialogs": 'DIALOGS_DEFAULT; SAY("default_dialogs 0\\n")',
    "close_dialogs": 'DIALOGS_CLOSE; SAY("default_dialogs 1\\n")',
    "resolve_dialog": 'DIALOG_RESOLVE; m_answer(id); SAY("resolve_dialog %d\\n", id)',
    "close": 'm_close(); SAY("close\\n")',
}

_EXTENSIONS: Final = {
    "start_reading": 'HOLDS(one_job, !reading); reading = id; readt = t; reado = o; SAY("job read\\n")',
    "admit_read": """HOLDS(one_raised, rt == 0); rt = readt; ro = reado; rid = reading; rr = true;
reading = 0; readt = 0; reado = 0""",
    "lead_line": """k = len(line); line!readt, reado + READ, reading;
do :: k > 0 -> k--; line?y, z, x; line!y, z, x :: else -> break od; y = 0; z = 0; x = 0;
reading = 0; readt = 0; reado = 0""",
    "accept_handled": "accept_text(reading, q_handled); reading = 0; readt = 0; reado = 0",
    "refuse_reading": "refuse(reading); reading = 0; readt = 0; reado = 0",
    "replace_own": "skip",
    "start_command": 'commands!id; SAY("start_command %d\\n", id)',
    "end_command": """take_from(commands, id);
if :: IO == io_closing -> refuse(id) :: else -> accept_text(id, q_handled) fi""",
    "cancel_commands": 'if :: len(commands) > 0 -> SAY("cancel_commands\\n") :: else fi',
    "start_instance": "start_job(j_instance)",
    "cut_start": 'SAY("cut_start\\n")',
    "start_boundary": "start_job(j_boundary)",
    "skip_boundary": "bd = false",
    "reread_line": "skip",
}

ACTIONS: Final[Mapping[str, str]] = {**_TEXTS, **_RUN, **_REGIONS, **_EXTENSIONS}
