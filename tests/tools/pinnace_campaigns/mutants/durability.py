"""Faults in what reaches the disk, and when, and in what a next process makes of it: of an agent, and of a host.

Data as in `catalogue`, without a check of their own: `pinnace-simulate` is the check, and `TRIED_STEPS` scheduling
steps are the bound within which each is found.
"""

from typing import Final

from pinnace_campaigns.mutants.catalogue import AgentMutant

TRIED_STEPS: Final = 120_000
MORE_STEPS: Final = {
    "flushed-when-it-begins": 500_000,
    "a-dialog-comes-before-its-session": 700_000,
    "a-command-of-an-extension-is-repeated": 250_000,
    "a-session-is-begun-in-two-files": 700_000,
    "torn-lines-are-continued": 250_000,
    "short-writes-are-whole": 250_000,
    "the-table-is-not-flushed": 400_000,
    "a-table-that-can-not-be-made-is-a-defect": 1_000_000,
    "a-command-that-was-not-noted-stays-in-progress": 1_500_000,
}
"""For faults that show only when the machine crashes between two flushes, where a write was cut, or a rare state."""

_DURABILITY: Final = "agent/pinnace_agent/session/store/durability.py"
_FILE: Final = "agent/pinnace_agent/session/store/file.py"
_FOLDERS: Final = "agent/pinnace_agent/files/folders.py"
_APPEND: Final = "agent/pinnace_agent/session/store/append_file.py"
_QUEUE: Final = "agent/pinnace_agent/session/queue/durable_queue.py"
_RULES: Final = ("R-SES-05", "R-QUE-12")


def _fault(name: str, text: str, file: str, old: str, new: str) -> AgentMutant:
    return AgentMutant(name, text, file, old, new, "", _RULES, is_on_wire=False)


DURABILITY_MUTANTS: Final = (
    _fault(
        "no-flush",
        "The content of a session file is never flushed.",
        _DURABILITY,
        "            self._flush(number)\n",
        "            pass\n",
    ),
    _fault(
        "no-flush-of-folders",
        "The name of a new file is never flushed.",
        _DURABILITY,
        "            for folder in flushed.folders:\n",
        "            for folder in ():\n",
    ),
    _fault(
        "flush-of-the-wrong-file",
        "The folder is flushed in place of the file.",
        _DURABILITY,
        "            self._flush(number)\n",
        "            flush_folder(Path(os.readlink(f'/proc/self/fd/{number}')).parent)\n",
    ),
    _fault(
        "answer-before-the-flush",
        "A message that is queued is answered when it is written, before it is on the disk.",
        _QUEUE,
        '        self._agent.start_job(job, partial(self._save, job, command.message_id), "save_failed")\n',
        '        self._agent.submit(InternalEvent("save_ok", job))\n',
    ),
    _fault(
        "a-failed-flush-is-no-failure",
        "A flush that has failed counts as done.",
        _DURABILITY,
        "                flushed.error = error\n                self._note_lost()\n                return\n",
        "                pass\n",
    ),
    _fault(
        "queue-not-announced",
        "A restored queue is not reported behind a first response that passes the statechart.",
        "rpc/pinnace_rpc/server/startup.py",
        "        interpreter.first_answered()\n",
        "",
    ),
    _fault(
        "parents-are-not-flushed",
        "The names of the folders above a session's are flushed by nothing.",
        _FOLDERS,
        "    while _is_private(folder) and folder.parent != folder:\n",
        "    while False:\n",
    ),
    _fault(
        "withdrawn-without-a-mark",
        "Messages are returned to the client, and the file does not say so.",
        _QUEUE,
        "            mark_returned(session, ids, effect.reason, None if identity is None else identity.by)\n",
        "            pass\n",
    ),
    _fault(
        "torn-lines-are-continued",
        "A line of a former process that was cut is continued by the next one.",
        _FILE,
        'b"\\n" if file.is_torn and not unwritten.is_begun else b""',
        'b""',
    ),
    _fault(
        "short-writes-are-whole",
        "What a short write has left out is not written.",
        _APPEND,
        "        return AppendResult(count, between)",
        "        return AppendResult(length, between)",
    ),
    _fault(
        "queue-forgotten",
        "A queue that a former process has left is not restored.",
        _QUEUE,
        "        self._report_restored(self._belong_to(session), continues=continues)\n",
        "        self._belong_to(session)\n",
    ),
    _fault(
        "flushed-when-it-begins",
        "A flush counts as done for what is written while it runs.",
        _DURABILITY,
        "self.durable = max(self.durable, flushed.target)",
        "self.durable = self.written",
    ),
    _fault(
        "an-abort-is-answered-behind-the-next-run",
        "An abort waits for a flush that the message behind it has done, and that message's run is reported first.",
        _QUEUE,
        "        if marks and session.file",
        "        if False and session.file",
    ),
    _fault(
        "a-dialog-comes-before-its-session",
        "What a command of an extension asks does not wait for the answer of the command that has begun the session.",
        "agent/pinnace_agent/extension_host/prompt_hooks.py",
        "        agent.jobs.start(_name(ref), once(work), ended)\n",
        "        agent.jobs.start(_name(ref), work, ended)\n",
    ),
    _fault(
        "a-failed-flush-is-repeated",
        "A flush that has failed is tried again on the same file, which the kernel takes for written.",
        _DURABILITY,
        "                flushed.is_content_lost = True\n",
        "",
    ),
)

_HOST: Final = "rpc/pinnace_rpc/host"

HOSTED_MUTANTS: Final = (
    _fault(
        "names-of-a-host-are-not-flushed",
        "The names of the folders above an agent's are flushed by nothing.",
        f"{_HOST}/locations.py",
        "        folder = above\n",
        "        return\n",
    ),
    _fault(
        "old-segments-are-believed",
        "A segment of the journal that is not the newest is read, whatever a loss of power has left of it.",
        f"{_HOST}/journal.py",
        "        if not segment.is_checked:\n",
        "        if False:\n",
    ),
    _fault(
        "an-epoch-begins-in-the-former-segment",
        "What is written while an epoch begins opens the file for the records of the epoch.",
        f"{_HOST}/journal.py",
        "        self._close_segment()  # now",
        "        pass  # now",
    ),
    _fault(
        "details-are-not-flushed",
        "What is known of an agent is renamed into its place, and its content is not on the disk.",
        f"{_HOST}/details.py",
        "                if is_flushed:\n                    system.fsync(descriptor)\n",
        "",
    ),
    _fault(
        "commands-before-the-details",
        "The agent takes commands before it is on the disk which session it has.",
        f"{_HOST}/agent.py",
        "        if not self._details.is_kept:  # of a new agent",
        "        if False:  # of a new agent",
    ),
    _fault(
        "commands-are-not-noted",
        "A command of a named client is given to the agent, and the client's table does not know it.",
        f"{_HOST}/table.py",
        "        self._entries[key] = entry\n",
        "",
    ),
    _fault(
        "an-end-counts-before-its-records",
        "An agent that has ended in order counts as complete although its newest records are not on the disk.",
        f"{_HOST}/agent.py",
        "is_kept = self._is_complete and await trio.to_thread.run_sync(self.journal.flush)",
        "is_kept = self._is_complete",
    ),
    _fault(
        "the-table-is-not-flushed",
        "The table of a client's commands is never flushed.",
        f"{_HOST}/table.py",
        "            self._system.fsync(self._descriptor)\n",
        "            pass\n",
    ),
    _fault(
        "an-answer-outlives-its-change",
        "A repeated command has its first answer when a loss of power has taken what it has changed.",
        f"{_HOST}/table.py",
        "(is_lasting or entry.boot == self._boot)",
        "True",
    ),
    _fault(
        "a-session-is-begun-in-two-files",
        "The next process begins a session without a file in another one than a former process, which still runs.",
        f"{_HOST}/command_lines.py",
        'else (*kept, "--session-id", details.session_id)',
        'else (*kept[:-2], "--session-id", details.session_id)',
    ),
    _fault(
        "a-command-of-an-extension-is-repeated",
        "The session does not know that an extension's command handles a message, which is given to it again.",
        _QUEUE,
        "session.is_being_left):\n            self._take(session, message_id, makes_file=True)\n",
        "session.is_being_left):\n            pass\n",
    ),
    _fault(
        "a-command-that-was-not-noted-stays-in-progress",
        "A flush of the table that has failed leaves the command in progress, and its repetition without an answer.",
        f"{_HOST}/table.py",
        "                del self._entries[key]\n",
        "                pass\n",
    ),
    _fault(
        "a-table-that-can-not-be-made-is-a-defect",
        "A client whose commands can't be noted loses its connection without a word.",
        f"{_HOST}/connection.py",
        "            except OSError as error:\n                raise LocationError(",
        "            except ZeroDivisionError as error:\n                raise LocationError(",
    ),
)
"""Faults in what a host keeps, found by `pinnace-simulate --hosted` within that bound."""

# They were in the program, and each was found by some seed. With what is drawn now seven million steps and more, seven
# minutes, show none of them.
NOT_FOUND: Final = (
    _fault(
        "a-queue-is-delivered-that-can-only-be-read",
        "What is queued in a session to which nothing can be appended is delivered, and again by the next process.",
        _QUEUE,
        " or session.file.read_only is not None:",
        ":",
    ),
    _fault(
        "a-refused-prompt-hides-its-repetition",
        "A message that was refused as a prompt and then queued is not restored.",
        "agent/pinnace_agent/session/queue/history.py",
        " > self._added[message_id]:",
        " > -1:",
    ),
    _fault(
        "a-save-outlives-its-process",
        "A job that saves a session reads what is known of it when the process has ended.",
        "agent/pinnace_agent/engine/session_manager.py",
        "                if not self._saving.get(id(session)):\n",
        "                if not self._saving[id(session)]:\n",
    ),
    _fault(
        "an-older-end-counts",
        "The end of a former epoch counts for one whose beginning a loss of power has taken.",
        f"{_HOST}/agent.py",
        "is_latest = self.details.ended_epoch in (None, self.journal.epoch)",
        "is_latest = True",
    ),
)
"""Faults that the simulation does not find within that bound."""
