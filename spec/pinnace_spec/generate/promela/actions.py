"""Guards and actions of the chart's rows in Promela.

The same names as in the statechart package, the same behaviour without data: a text is its number, an answer is ok or
an error. The output of a body (`SAY`) is what the other body emits as effects, in the same order; paths of the
model are compared with the chart effect by effect. `t`, `o` and `id` are the trigger at hand, its option and its
number. Helpers (ok, refuse, deliver, …) and monitors are in `promela_state`.
"""

from collections.abc import Mapping
from typing import Final

GUARDS: Final[Mapping[str, str]] = {
    "barrier": "(asking || sw || pc || reading || saving || RUN == run_switching || (STOPPING && len(line) > 0))",
    "queue_full": "((t != t_prompt || o != 0) && len(qs) + len(qf) >= QUEUED)",
    "unread": "(EXT && !rd && (t != t_prompt || o != 0))",
    "unsaved": "(t != t_prompt || o != 0)",
    "held": "(saving_after == 1)",
    "withdrawn": "(saving_after == 2)",
    "continues": "(o == 1)",
    # Options of reports: the request of an extension.
    "goes_on": "(o == 1)",
    "ends_at_once": "(o == 1 && len(qs) == 0)",
    "input_open": "(IO == io_open)",
    "closing": "(IO == io_closing)",
    "has_steering": "(len(qs) > 0)",
    "has_follow_up": "(len(qf) > 0)",
    "has_deliverable": "DELIVERABLE",
    "unsettled": "(period && !OWED)",
    "settle_hook_due": "SETTLE_HOOK_DUE",
    "threshold_due": "(due && autocompact)",
    "threshold_unchecked": "(!thr)",
    "can_retry": "(autoretry && att < RETRIES)",
    "can_recover_overflow": "(autocompact && !ovf)",
    "overflow_again": "(autocompact && ovf)",
    "session_ready": "(sw != 0)",
    "compact_ready": "(pc != 0)",
    "deferred_ready": "(len(line) > 0 && !g_barrier)",
    "has_deferred": "(len(line) > 0)",
    "instant_waits": "INSTANT_WAITS",
    "last_shell": "(len(shells) == 1)",
    "quiescent": (
        "(RUN == run_idle && SESSION == session_quiet && SHELL == shell_quiet && !pc && !sw && !reading && !saving"
        " && len(commands) == 0 && len(line) == 0 && !DELIVERABLE)"
    ),
}

# Why a command is refused is data.
_REFUSE_OWN: Final = "HOLDS(saved_first, !app); refuse(own); m_gone(own); own = 0"
_REFUSE_COMPACT: Final = "refuse(cown); cown = 0"

_TEXTS: Final = {
    "take_prompt": "own = id; m_take(id)",
    "begin_streaming": "if :: !period -> period = true; cancelled = false :: else fi",
    "settle": """if
:: period && !OWED && !SETTLE_HOOK_DUE -> m_settle(); period = false; bd = false;
   SAY("settled %d\\n", cancelled); cancelled = false
:: else fi""",
    "enqueue": """if
:: t == t_steer || (t == t_prompt && o == 1) -> qs!id; m_queue(id, 2)
:: else -> qf!id; m_queue(id, 3) fi""",
    "pause_queue": "held = true",
    "resume_queue": "held = false",
    "queue_update": "report_queues()",
    "deliver_steering": "poll(qs, alls)",
    "deliver_follow_up": "poll(qf, allf)",
    "deliver_continuation": """z = len(qs) + len(qf);
if :: len(qs) > 0 -> poll(qs, alls) :: else -> poll(qf, allf) fi;
HOLDS(continuation, len(qs) + len(qf) < z); z = 0""",
    "withdraw_queues": "withdraw(id)",
    "accept_cleared": "ok(id)",
    "announce_queue": "if :: len(qs) + len(qf) > 0 -> report_queues() :: else fi",
    "start_saving": """HOLDS(one_job, !saving);
saving = id; saving_trigger = t; saving_option = o; saving_after = 0; SAY("job save\\n")""",
    "start_saved": """m_saved(saving);
if
:: saving_trigger == t_steer || (saving_trigger == t_prompt && saving_option == 1) -> qs!saving; m_queue(saving, 2)
:: else -> qf!saving; m_queue(saving, 3) fi;
report_queues();
if
:: (fate[saving] == 2 && (alls || len(qs) == 1)) || (fate[saving] == 3 && len(qs) == 0 && (allf || len(qf) == 1)) ->
   accept_text(saving, q_started)
:: else -> accept_text(saving, q_queued) fi;
SAVING_OVER""",
    "queue_saved": """m_saved(saving);
if
:: saving_trigger == t_steer || (saving_trigger == t_prompt && saving_option == 1) -> qs!saving; m_queue(saving, 2)
:: else -> qf!saving; m_queue(saving, 3) fi;
report_queues(); accept_text(saving, q_queued); SAVING_OVER""",
    "return_saved": """m_saved(saving);
if
:: saving_trigger == t_steer || (saving_trigger == t_prompt && saving_option == 1) -> qs!saving; m_queue(saving, 2)
:: else -> qf!saving; m_queue(saving, 3) fi;
report_queues(); accept_text(saving, q_queued);
take_from(qs, saving); take_from(qf, saving); m_gone(saving);
report_queues(); m_returned(saving); SAY("return_queued\\n"); SAVING_OVER""",
    "refuse_unsaved": "refuse(saving); SAVING_OVER",
    "hold_saving": "if :: saving && saving_after == 0 -> saving_after = 1 :: else fi",
    "restore_queue": "skip",
    "accept": "if :: t == t_abort_bash -> SHELLS_ABORTED :: else fi; ok(id)",
    "accept_queued": "accept_text(id, q_queued)",
    "accept_started": """if
:: (t == t_steer && (alls || len(qs) == 1)) || (t == t_follow_up && len(qs) == 0 && (allf || len(qf) == 1)) ->
   accept_text(id, q_started)
:: else -> accept_text(id, q_queued) fi""",
    "accept_prompt": "HOLDS(saved_first, app); accept_text(own, q_started)",
    "handle_prompt": "accept_text(own, q_handled); m_gone(own); own = 0",
    "refuse_prompt": _REFUSE_OWN,
    "refuse_prompt_aborted": _REFUSE_OWN,
    "refuse_prompt_shutdown": _REFUSE_OWN,
    "refuse_busy": "refuse(id)",
    "refuse_full": "refuse(id)",
    "refuse_compacting": "refuse(id)",
    "refuse_line": "refuse(id)",
    "admit_abort": """cancelled = true;
if :: o == 1 -> withdraw(id) :: else fi;
held = (o != 2);
if :: saving && saving_after != 2 -> saving_after = (o == 0 -> 1 : (o == 1 -> 2 : 0)) :: else fi;
if :: o == 2 -> m_continue() :: else fi;
if :: id -> aborts!id :: else fi""",
    "answer_aborts": """do
:: !saving && len(aborts) > 0 -> aborts?x; m_abort_answered(); ok(x)
:: else -> break od; x = 0""",
    "answer_aborts_now": """do
:: len(aborts) > 0 -> aborts?x; m_abort_answered(); ok(x)
:: else -> break od; x = 0""",
    "defer_command": "line!t, (rd -> o + READ : o), id",
    "admit_deferred": """HOLDS(one_raised, rt == 0); line?rt, ro, rid;
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
    "append_prompt": 'm_append(own); app = true; SAY("append %d\\n", own)',
    "start_sync": "start_job(j_sync)",
    "drop_prompt": 'app = false; SAY("drop %d\\n", own)',
    "start_run": """m_start_run(); cancelled = false; bd = EXT;
SAY("agent_start\\n"); start_job(j_run)""",
    "start_turn": 'HOLDS(brackets, ag && !tu); tu = true; SAY("turn_start\\n")',
    "deliver_prompt": "x = own; own = 0; app = false; deliver(x); x = 0",
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
    "close_run": "close_all()",
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
    "compaction_done": "end_compaction(1)",
    "compaction_done_retrying": "end_compaction(1)",
    "compaction_fail": "end_compaction(0)",
    "close_compaction": "end_compaction(0)",
    "take_compact": "cown = id",
    "pend_compact": "pc = id",
    "take_pending_compact": "cown = pc; pc = 0",
    "accept_compact": "ok(cown); cown = 0",
    "refuse_compact": _REFUSE_COMPACT,
    "refuse_compact_aborted": _REFUSE_COMPACT,
    "refuse_compact_shutdown": _REFUSE_COMPACT,
    "refuse_compaction_in_progress": "refuse(id)",
    "take_navigation": "nav = id",
    "start_navigation": "start_job(j_navigation); moved = false",
    "move_leaf": 'HOLDS(one_job, job == j_navigation && !moved); moved = true; SAY("move_leaf\\n")',
    "answer_navigation": "ok(nav); nav = 0; moved = false",
    "refuse_navigation": "refuse(nav); nav = 0; moved = false",
    "refuse_navigation_busy": "refuse(id)",
    "refuse_navigation_compacting": "refuse(id)",
}

_REGIONS: Final = {
    "start_confirmation": 'HOLDS(one_job, !asking); asking = id; SAY("job ask\\n")',
    "confirm_switch": "HOLDS(one_raised, rt == 0); sw = asking; asking = 0; rt = t_switch_confirmed",
    "veto_switch": "ok(asking); asking = 0",
    "refuse_unconfirmed": "refuse(asking); asking = 0",
    "withdraw_confirmation": 'SAY("cancel_ask\\n"); ASK_CANCELLED; ok(asking); asking = 0',
    "note_instance": "skip",
    "start_switch": "swing = sw; sw = 0; start_job(j_switch)",
    "replace_session": "held = false; withdraw(swing)",
    "accept_session": "ok(swing); swing = 0",
    "refuse_session": "refuse(swing); swing = 0",
    "start_shell": 'shells!id; SHELL_STARTED; SAY("start_shell %d\\n", id)',
    "kill_shells": 'SHELLS_KILLED; SAY("kill_shells\\n")',
    "end_shell": "take_from(shells, id); SHELL_ENDED(id); ok(id)",
    "record_shell": "record_shell(id)",
    "keep_shell": 'kept!id; SAY("keep_shell %d\\n", id)',
    "flush_shells": "do :: len(kept) > 0 -> kept?x; record_shell(x) :: else -> break od; x = 0",
    "default_dialogs": 'DIALOGS_DEFAULT; SAY("default_dialogs 0\\n")',
    "close_dialogs": 'DIALOGS_CLOSE; SAY("default_dialogs 1\\n")',
    "resolve_request": 'm_answer(id); SAY("resolve_request %d\\n", id)',
    "resolve_dialog": 'DIALOG_RESOLVE; m_answer(id); SAY("resolve_dialog %d\\n", id)',
    "close": 'm_close(); SAY("close\\n")',
}

_EXTENSIONS: Final = {
    "start_reading": 'HOLDS(one_job, !reading); reading = id; readt = t; reado = o; SAY("job read\\n")',
    "admit_read": """HOLDS(one_raised, rt == 0); rt = readt; ro = reado; rid = reading; rr = true;
reading = 0; readt = 0; reado = 0""",
    "defer_first": """k = len(line); line!readt, reado + READ, reading;
do :: k > 0 -> k--; line?y, z, x; line!y, z, x :: else -> break od; y = 0; z = 0; x = 0;
reading = 0; readt = 0; reado = 0""",
    "accept_handled": "accept_text(reading, q_handled); reading = 0; readt = 0; reado = 0",
    "refuse_reading": "refuse(reading); reading = 0; readt = 0; reado = 0",
    "replace_prompt": "skip",
    "start_command": 'commands!id; SAY("start_command %d\\n", id)',
    "accept_command": "take_from(commands, id); accept_text(id, q_handled)",
    "refuse_command": "take_from(commands, id); refuse(id)",
    "cancel_commands": 'if :: len(commands) > 0 -> SAY("cancel_commands\\n") :: else fi',
    "start_instance": "start_job(j_instance)",
    "take_reload": "HOLDS(one_job, !rel); rel = id",
    "start_reload": "start_job(j_reload)",
    "take_settings": "skip",
    "accept_reload": "ok(rel); rel = 0",
    "refuse_reload": "refuse(rel); rel = 0",
    "refuse_reload_busy": "refuse(id)",
    "refuse_reload_compacting": "refuse(id)",
    "cut_start": 'SAY("cut_start\\n")',
    "start_settle_hook": "start_job(j_settle_hook)",
    "skip_settle_hook": "bd = false",
    "reread_deferred": "skip",
}

ACTIONS: Final[Mapping[str, str]] = {**_TEXTS, **_RUN, **_REGIONS, **_EXTENSIONS}
