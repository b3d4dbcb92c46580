"""The faults of the model of the durable host, `spec/model/host.pml`, as changes of the code.

Each fault of `pinnace_campaigns.model_check.host` has a place here: a change of its own, in `MODEL_MUTANTS`, one of
another catalogue, in `SAME`, or the reason why no change of the code is that fault, in `NOT_IN_CODE`. Data as in
`durability`: `pinnace-simulate` is the check.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_campaigns.mutants.catalogue import AgentMutant

_QUEUE: Final = "agent/pinnace_agent/session/queue/durable_queue.py"
_GUARDS: Final = "statechart/pinnace_statechart/guards.py"
_ACTIONS: Final = "statechart/pinnace_statechart/actions_queue.py"
_ROWS: Final = "spec/pinnace_spec/statechart/run.py"
_INTERPRETER: Final = "agent/pinnace_agent/engine/interpreter.py"
_AGENT: Final = "rpc/pinnace_rpc/host/agent.py"
_TABLE: Final = "rpc/pinnace_rpc/host/table.py"
_JOURNAL: Final = "rpc/pinnace_rpc/host/journal.py"


def _fault(name: str, text: str, file: str, old: str, new: str) -> AgentMutant:
    return AgentMutant(name, text, file, old, new, "", ("R-QUE-12", "R-HST-01"), is_on_wire=False)


OF_AGENT: Final = (
    _fault(
        "refusal_not_synced",
        "A prompt is refused before it is on the disk that its message is left out.",
        "agent/pinnace_agent/engine/session_manager.py",
        "            if is_marked and ref != NO_REPLY:\n",
        "            if False:\n",
    ),
    _fault(
        "request_before_sync",
        "The model is asked before the delivery is on disk.",
        "agent/pinnace_agent/engine/run_job.py",
        "            await self._session.sync()  # what a model answers to must not be lost when the answer is there\n",
        "            pass\n",
    ),
    _fault(
        "clear_not_synced",
        "A command that returns messages is answered before their return is on disk.",
        _QUEUE,
        "            self._returning.add(effect.ref)\n",
        "            pass\n",
    ),
    _fault(
        "open_not_synced",
        "What a killed process only wrote is relied upon.",
        _QUEUE,
        "        if session.file is None or session.file.is_durable:\n            answer(None)",
        "        if True:\n            answer(None)",
    ),
    _fault(
        "clear_forgets",
        "A repeated clear_queue returns what is queued now.",
        _QUEUE,
        "        if not (identity.is_lasting or is_empty) or self._session.file is None:\n",
        "        if True:\n",
    ),
    _fault(
        "refused_is_known",
        "The message of a refused prompt stays known.",
        _QUEUE,
        "            is_refused = place is not None and history.refused.get(message_id, -1) > place\n",
        "            is_refused = False\n",
    ),
    _fault(
        "duplicate_starts_run",
        "A repeated prompt without an answer starts its run.",
        _QUEUE,
        '            return None if is_refused else MessageFate("delivered", entry_id)\n',
        "            is_refused = is_refused or entry_id == self._session.tree.leaf_id\n"
        '            return None if is_refused else MessageFate("delivered", entry_id)\n',
    ),
    _fault(
        "restored_runs",
        "A restored queue is delivered by itself.",
        _QUEUE,
        "texts=left, enabled=continues",
        "texts=left, enabled=True",
    ),
    _fault(
        "late_fsync_lifts_pause",
        "A message that was admitted before an abort lifts the pause when it is saved.",
        _GUARDS,
        '    return context.state.saving_after == "hold"\n',
        "    return False\n",
    ),
    _fault(
        "withdrawn_slot_lifts_pause",
        "A message that was withdrawn while it was being saved lifts the pause of a later abort.",
        _ROWS,
        '*rows(STOPPING, ("save_ok",), "withdrawn", None, "return_saved", "R-QUE-12 C-7"),',
        '*rows(STOPPING, ("save_ok",), "withdrawn", None, "resume_queue return_saved", "R-QUE-12 C-7"),',
    ),
    _fault(
        "prompt_survives_abort",
        "What waits for the end of a run, a compaction or a new session, is done after an abort.",
        _ACTIONS,
        "    _withdraw_pending(context, shutdown=False)\n    withdraw_reading(",
        "    withdraw_reading(",
    ),
    _fault(
        "abort_spares_delivery",
        "A message that is being delivered is sent to the model after an abort.",
        _INTERPRETER,
        "                self.jobs.cancel_in_time(_job_name(effect.job), partial(self._abandon, effect.job))\n",
        "                pass\n",
    ),
)
"""Found by histories of agents, but for those of the table in `simulated`."""

OF_HOST: Final = (
    _fault(
        "repeat_in_progress",
        "A repetition of a command in progress is forwarded.",
        _TABLE,
        'return "in progress" if entry.is_open else "begun"',
        'return "new" if entry.is_open else "begun"',
    ),
    _fault(
        "begun_counts_as_done",
        "A repeated command that had begun is answered with success.",
        "rpc/pinnace_rpc/host/open_commands.py",
        '                answer = routing.failure(open_command(connection, command), _RUN_TEXT, "outcome_unknown")\n'
        "                table.answer(identity, answer)\n",
        '                answer = routing.failure(open_command(connection, command), _RUN_TEXT, "outcome_unknown")\n'
        "                record = json.loads(answer)\n"
        '                record = {**{key: record[key] for key in ("id", "type", "command")}, "success": True}\n'
        '                answer = json.dumps(record).encode() + b"\\n"\n'
        "                table.answer(identity, answer)\n",
    ),
    _fault(
        "answer_not_stored",
        "An answer is not kept for a repetition.",
        _TABLE,
        '            self._append(head + line.rstrip(b"\\n") + b"}\\n")\n',
        "            return\n",
    ),
    _fault(
        "answer_to_other_client",
        "An answer goes to another connection than the one that waits for it.",
        "rpc/pinnace_rpc/host/attached.py",
        "            self._journal.append(addressed((number,), len(line)) + line, to=(number,))\n",
        "            number = max(self._connections)\n"
        "            self._journal.append(addressed((number,), len(line)) + line, to=(number,))\n",
    ),
    _fault(
        "ids_shared",
        "The table of commands does not distinguish the names of clients.",
        _TABLE,
        "hashlib.sha256(client.encode())",
        "hashlib.sha256(b'')",
    ),
    _fault(
        "sleeps_at_work",
        "An agent is put to sleep while a command is open.",
        _AGENT,
        "        return not (self.open_commands or self.activity.is_running_turns or self.dialogs)\n",
        "        return True\n",
    ),
    _fault(
        "epoch_not_synced",
        "After a loss of power an epoch's number is used again.",
        _JOURNAL,
        "            system.fsync(descriptor)\n        finally:\n            system.close(descriptor)\n"
        '        system.rename(f"{path}.new", path)\n    except OSError:\n        with suppress(OSError):\n'
        '            system.unlink(f"{path}.new")\n        raise\n    flush_names(folder, system)\n',
        "            pass\n        finally:\n            system.close(descriptor)\n"
        '        system.rename(f"{path}.new", path)\n    except OSError:\n        with suppress(OSError):\n'
        '            system.unlink(f"{path}.new")\n        raise\n',
    ),
    _fault(
        "silent_truncation",
        "A client behind the retention gets no report of it.",
        "rpc/pinnace_rpc/host/connection.py",
        'opening = b"" if start.gap is None else truncated(since, start.gap)',
        'opening = b""',
    ),
    _fault(
        "cursor_beyond_end_waits",
        "A cursor beyond the end of a closed epoch is not continued.",
        _JOURNAL,
        "        return Start(segment.end, True, self._next_epoch(index) if is_beyond else None)\n",
        "        return Start(segment.end, True, None)\n",
    ),
)
"""Found by histories of hosts, but for those of the table in `simulated`."""

SAME: Final[Mapping[str, str]] = {
    "answer_before_sync": "answer-before-the-flush",
    "no_dedupe": "no-message-is-known",
    "no_intent": "commands-are-not-noted",
    "intent_not_synced": "the-table-is-not-flushed",
    "repeat_after_host_crash": "a-crash-of-the-host-forgets-commands",
    "crash_resends_all": "everything-is-sent-again",
    "restart_claims_complete": "a-crash-of-the-host-claims-completeness",
}
"""Those that are a fault of another catalogue."""

NOT_IN_CODE: Final[Mapping[str, str]] = {
    "clear_drops_pending": "The statechart has one place for a message that is being saved, and clear_queue waits "
    "behind it.",
    "clear_takes_later": "The statechart withdraws when a command is admitted; nothing is withdrawn later.",
    "exit_returns_and_keeps": "An agent that exits returns nothing.",
    "duplicate_releases": "A repetition is answered beside the statechart, which alone can release the queue.",
    "slot_overtaken": "While a message is being saved all later ones wait behind it, in one line.",
    "message_id_without_name": "Each message of the simulation has an id of its client.",
    "sent_before_written": "A record is written and shown in one step: a crash between the two cuts the connections "
    "first.",
}
"""Why the others have no change of the code that a run of it could show."""
