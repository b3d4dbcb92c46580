"""The third model: the client's shells, and the dialogs of extensions.

The rows are those of the first. A shell is a process that ends by itself or because it was killed, some time before its
end is reported. A dialog is opened by a working task (the confirmation of a session command, a job of RUN, a command of
an extension), which waits for its outcome: an answer, its timeout, the default at an abort or at the end of input, or
the cancellation of the task.
"""

from typing import Final

from pinnace_spec.generate.promela.environment import JobReport, Parts
from pinnace_spec.generate.promela.names import (
    ABORT,
    ABORT_BASH,
    BASH,
    COMPACT,
    EXTENSION_COMMAND,
    NEW_SESSION,
    PROMPT,
    STEER,
    UI_FIRST,
    UI_SECOND,
    CommandSet,
)

_BEFORE: Final = r"""
#define SHELL_STARTED start_process(id)
#define SHELLS_KILLED kill_processes()
#define SHELL_RECORDED(i) note_record(i)
#define SHELL_ENDED(i) HOLDS(shell_answered_after_end, process[i] == 3); process[i] = 4
#define SHELLS_ABORTED check_killed()
#define SHELLS_CLOSED (unrecorded == 0)
#define DIALOGS_DEFAULT default_dialogs()
#define DIALOGS_CLOSE default_dialogs(); stopped = true
#define DIALOG_RESOLVE answer_dialog()
#define DIALOGS_NONE (dialog[0] != 1 && dialog[1] != 1)
#define ASK_FREE FREE(1)
#define JOB_FREE FREE(2)
#define COMMANDS_FREE FREE(3)
#define ASK_CANCELLED cancel_dialogs(1)
#define JOB_CANCELLED cancel_dialogs(2)
"""

_STATE: Final = r"""
byte process[N + 1];         /* of a shell: 1 running, 2 killed, 3 ended, 4 answered, 5 recorded */
byte unrecorded;
byte dialog[2], owner[2];    /* 1 open, 2 over; who asked: 1 session command, 2 job of RUN, 3 command of an extension */
bool stopped;                /* no client can answer any more */
#ifndef DIALOGS
#define DIALOGS 0
#endif
#define FREE(who) ((dialog[0] != 1 || owner[0] != who) && (dialog[1] != 1 || owner[1] != who))
#define CAN_OPEN(n) (DIALOGS && dialog[n] == 0 && !stopped)

inline start_process(i) { process[i] = 1; unrecorded++ }
inline kill_processes() {
  w = 1;
  do :: w <= N -> if :: process[w] == 1 -> process[w] = 2 :: else fi; w++ :: else -> break od; w = 0 }
inline check_killed() {
  w = 1;
  do :: w <= N -> HOLDS(kill_only_living, process[w] != 1); w++ :: else -> break od; w = 0;
  k = len(line);
  do :: k > 0 -> k--; line?y, z, x; line!y, z, x; HOLDS(kill_only_living, y != t_bash) :: else -> break od;
  y = 0; z = 0; x = 0 }
inline end_process(i) { process[i] = 3 }
inline note_record(i) { HOLDS(record_once, process[i] == 4); process[i] = 5; unrecorded-- }

inline open_dialog(n, who) {
  HOLDS(dialog_none_after_stop, IO == io_open);
  dialog[n] = 1; owner[n] = who; SAY("dialog_open %d\n", n + 1) }
inline close_dialog(n) {
  HOLDS(dialog_once, dialog[n] == 1); dialog[n] = 2; owner[n] = 0; SAY("dialog_over %d\n", n + 1) }
inline default_dialogs() {
  if :: dialog[0] == 1 -> close_dialog(0) :: else fi;
  if :: dialog[1] == 1 -> close_dialog(1) :: else fi }
inline cancel_dialogs(who) {
  if :: dialog[0] == 1 && owner[0] == who -> close_dialog(0) :: else fi;
  if :: dialog[1] == 1 && owner[1] == who -> close_dialog(1) :: else fi }
/* A late answer changes nothing. It has no response. */
inline answer_dialog() {
  if :: dialog[o - 1] == 1 -> close_dialog(o - 1) :: else fi }
"""

# A report for each command that may be a shell.
MAX_COMMANDS: Final = 6
_WORKING: Final = (
    ("asking != 0", 1),
    ("(RUN == run_preflight || RUN == run_tools || RUN == run_settling)", 2),
    ("len(commands) > 0", 3),
)

_REPORTS: Final = (
    *(
        JobReport("", f"{n} <= N && (process[{n}] == 1 || process[{n}] == 2)", f"end_process({n})")
        for n in range(1, MAX_COMMANDS + 1)
    ),
    *(JobReport("shell_ended", f"{n} <= N && process[{n}] == 3", f"id = {n}") for n in range(1, MAX_COMMANDS + 1)),
    *(
        JobReport("", f"CAN_OPEN({n}) && {when}" + (" && dialog[0] != 0" if n else ""), f"open_dialog({n}, {who})")
        for n in range(2)
        for when, who in _WORKING
    ),
    *(JobReport("", f"dialog[{n}] == 1", f"close_dialog({n})") for n in range(2)),
)

SHELLS: Final = Parts(
    "shells and dialogs",
    _BEFORE,
    _STATE,
    _REPORTS,
    {
        "shells": CommandSet((PROMPT, STEER, ABORT, NEW_SESSION, BASH, ABORT_BASH)),
        "dialogs": CommandSet((PROMPT, ABORT, NEW_SESSION, EXTENSION_COMMAND, UI_FIRST, UI_SECOND), ("EXT", "DIALOGS")),
        "all": CommandSet(
            (PROMPT, STEER, ABORT, COMPACT, NEW_SESSION, BASH, ABORT_BASH, EXTENSION_COMMAND, UI_FIRST, UI_SECOND),
            ("EXT", "DIALOGS"),
        ),
    },
    frozenset({"shell_ended"}),
)
