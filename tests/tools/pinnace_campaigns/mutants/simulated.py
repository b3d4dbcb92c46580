"""Which faults of the agent and of the host a simulated run shows: a table of all faults of the other catalogues.

A fault has a cell: it is found by `pinnace-simulate` within a bound of scheduling steps, it can't show in a simulated
run, or it can and was not found within `SEARCHED_STEPS`. A test holds that each fault has one cell, and a campaign that
those that are found are found.
"""

from collections.abc import Mapping
from typing import Final

AGENT_STEPS: Final = 200_000
HOST_STEPS: Final = 300_000
SEARCHED_STEPS: Final = 30_000

FOUND: Final = frozenset(
    """
    nothing-is-held newest-first abort-before-settled line-survives-abort late-timer retry-left-open
    settled-while-owed refused-without-id results-as-they-come results-lost-at-abort turn-left-open
    event-after-settled settled-twice never-settled follow-up-lost steer-as-follow-up queued-without-a-word
    delivered-without-a-word withdrawn-without-a-word two-runs-begin will-retry-is-wrong compaction-left-open
    cancelled-compact-unanswered answered-twice answer-of-another-command wrong-code-at-the-end torn-session-line
    results-missing-in-turn-end messages-missing-in-agent-end message-without-a-beginning failed-tool-reported-as-good
    not-streaming-at-work
    """.split()
)
"""Faults of the agent, by the histories of agents, each within `AGENT_STEPS`."""

FOUND_OF_HOST: Final = frozenset(
    """
    accepted-before-saved a-return-is-forgotten no-message-is-known a-crash-of-the-host-forgets-commands
    a-record-is-dropped a-crash-of-the-host-claims-completeness connections-are-counted-anew
    a-command-dies-with-its-connection an-ended-connection-takes-commands a-run-that-was-cut-is-not-reported
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
    "answers-are-answered": _PLAIN,
    "null-kills": _PLAIN,
    "last-line-lost": _PLAIN,
    "defects-in-words": "No command is rejected with a text that names internals: each that is sent is valid.",
    "family-survives": _SHELL,
    "shell-outlives-its-abort": _SHELL,
    "key-in-errors": _KEYS,
    "short-key-in-errors": _KEYS,
    "wrong-code-at-a-signal": "No process gets a signal but SIGKILL and SIGSTOP.",
    "no-delay": "The observers that judge times are not asked.",
    "a-pipe-stays-open": "The pipes of an agent are in memory: they have no descriptors.",
}
"""Why each of these can't."""

NOT_FOUND: Final[Mapping[str, str]] = {
    "compact-unanswered": "A compaction has to succeed: the sessions are too small for one.",
    "deltas-lost": "More than 64 KiB have to wait for the client: answers of the script are short.",
    "second-abort-unanswered": "A second abort has to come before the first one is answered.",
    "attempts-not-counted": "A second attempt has to fail, too.",
    "everything-is-sent-again": "The agent's process has to crash between a session's new name and its answer.",
}
"""What each of these needs, which `SEARCHED_STEPS` have not shown."""
