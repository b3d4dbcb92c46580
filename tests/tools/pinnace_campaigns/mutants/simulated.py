"""Which faults of the agent, of the host and of its model a simulated run shows: a table of the other catalogues.

A fault has a cell: it is found by `pinnace-simulate` within a bound of scheduling steps, or it can't show in a
simulated run. A test holds that each fault has one cell, and a campaign that those that are found are found.
"""

from collections.abc import Mapping
from typing import Final

AGENT_STEPS: Final = 250_000
HOST_STEPS: Final = 300_000
MORE_STEPS: Final[Mapping[str, int]] = {
    "prompt_survives_abort": 900_000,
    "open_not_synced": 350_000,
    "request_before_sync": 400_000,
    "epoch_not_synced": 400_000,
    "sleeps_at_work": 3_000_000,
    "a-command-dies-with-its-connection": 400_000,
}
"""For faults that show in few histories; but for the last one in pointed ones alone, a quarter of all."""

FOUND: Final = frozenset(
    """
    nothing-is-held newest-first abort-before-settled line-survives-abort late-timer retry-left-open
    settled-while-owed refused-without-id results-as-they-come results-lost-at-abort turn-left-open
    event-after-settled settled-twice never-settled follow-up-lost steer-as-follow-up queued-without-a-word
    delivered-without-a-word withdrawn-without-a-word two-runs-begin will-retry-is-wrong compaction-left-open
    cancelled-compact-unanswered answered-twice answer-of-another-command wrong-code-at-the-end torn-session-line
    results-missing-in-turn-end messages-missing-in-agent-end message-without-a-beginning failed-tool-reported-as-good
    not-streaming-at-work compact-unanswered second-abort-unanswered attempts-not-counted answers-are-answered
    """.split()
)
"""Faults of the agent, by the histories of agents, each within `AGENT_STEPS`."""

FOUND_OF_HOST: Final = frozenset(
    """
    accepted-before-saved a-return-is-forgotten no-message-is-known a-crash-of-the-host-forgets-commands
    a-record-is-dropped a-crash-of-the-host-claims-completeness connections-are-counted-anew
    a-command-dies-with-its-connection a-run-that-was-cut-is-not-reported
    everything-is-sent-again an-ended-connection-takes-commands
    """.split()
)
"""Faults of the host, by the histories of hosts, each within `HOST_STEPS`."""

_PLAIN: Final = "The client sends whole lines of plain text, with fields that are as they should be."
_SHELL: Final = "No tool and no client starts a command of a shell."
_KEYS: Final = "The model is in the agent's process: no server answers, and no key is known."

CAN_NOT_SHOW: Final[Mapping[str, str]] = {
    "cr-ends-a-line": _PLAIN,
    "next-line-ends-a-line": _PLAIN,
    "separators-as-they-are": _PLAIN,
    "ids-become-text": _PLAIN,
    "null-kills": _PLAIN,
    "last-line-lost": _PLAIN,
    "defects-in-words": "No command is rejected with a text that names internals: each that is sent is valid.",
    "family-survives": _SHELL,
    "shell-outlives-its-abort": _SHELL,
    "key-in-errors": _KEYS,
    "short-key-in-errors": _KEYS,
    "wrong-code-at-a-signal": "No process gets a signal but SIGKILL and SIGSTOP.",
    "deltas-lost": "The scripted model ends a block before the next one: deltas of two never follow each other.",
    "no-delay": "The observers that judge times are not asked.",
    "a-pipe-stays-open": "The pipes of an agent are in memory: they have no descriptors.",
    "withdrawn_slot_lifts_pause": "Nothing is queued while a text is saved that an abort returns: all others "
    "wait behind it.",
}
"""Why each of these can't."""

FOUND_OF_MODEL: Final = frozenset(
    """
    clear_not_synced refused_is_known duplicate_starts_run restored_runs late_fsync_lifts_pause abort_spares_delivery
    refusal_not_synced clear_forgets prompt_survives_abort open_not_synced
    request_before_sync
    """.split()
)
"""Faults of the model that concern the agent, by the histories of agents, each within `AGENT_STEPS`."""

FOUND_OF_MODEL_HOST: Final = frozenset(
    """
    repeat_in_progress begun_counts_as_done answer_not_stored answer_to_other_client ids_shared
    silent_truncation cursor_beyond_end_waits epoch_not_synced sleeps_at_work
    """.split()
)
"""Faults of the model that concern the host, by the histories of hosts, each within `HOST_STEPS`."""
