"""What the Promela models keep of the chart's vocabulary, and what they leave out, each with its reason.

A trigger that is neither modelled nor in `EXCLUDED` makes the generation fail, and so does an entry of `EXCLUDED` that
the rows do not know any more. Must not know rows or bodies.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pinnace_spec.records.command_table import READS, SETTINGS


class Sent(NamedTuple):
    """A command of the client as the models send it; `option` stands for the field that the rows look at."""

    trigger: str
    option: int = 0

    @property
    def name(self) -> str:
        """What command lines and scripts call it."""
        return OPTION_NAMES.get(self, self.trigger)


PROMPT: Final = Sent("prompt")
PROMPT_STEER: Final = Sent("prompt", 1)
PROMPT_FOLLOW_UP: Final = Sent("prompt", 2)
STEER: Final = Sent("steer")
FOLLOW_UP: Final = Sent("follow_up")
ABORT: Final = Sent("abort")
ABORT_CLEAR: Final = Sent("abort", 1)
ABORT_CONTINUE: Final = Sent("abort", 2)
ABORT_RETRY: Final = Sent("abort_retry")
COMPACT: Final = Sent("compact")
NEW_SESSION: Final = Sent("new_session")
NAVIGATE_TREE: Final = Sent("navigate_tree")
RELOAD: Final = Sent("reload")
CLEAR_QUEUE: Final = Sent("clear_queue")
BASH: Final = Sent("bash")
ABORT_BASH: Final = Sent("abort_bash")
GET_STATE: Final = Sent("get_state")
SET_MODEL: Final = Sent("set_model")
HELLO: Final = Sent("hello")
ALL_AT_A_TIME: Final = Sent("set_queue_mode", 1)
RETRY_OFF: Final = Sent("set_auto_retry", 0)
COMPACTION_OFF: Final = Sent("set_auto_compaction", 0)
EXTENSION_COMMAND: Final = Sent("extension_command")
UI_FIRST: Final = Sent("extension_ui_response", 1)
UI_SECOND: Final = Sent("extension_ui_response", 2)

OPTION_NAMES: Final[Mapping[Sent, str]] = {
    PROMPT_STEER: "prompt+steer",
    PROMPT_FOLLOW_UP: "prompt+followUp",
    ABORT_CLEAR: "abort+clear",
    ABORT_CONTINUE: "abort+continue",
    ALL_AT_A_TIME: "set_queue_mode+all",
    RETRY_OFF: "set_auto_retry+off",
    COMPACTION_OFF: "set_auto_compaction+off",
    UI_FIRST: "extension_ui_response+1",
    UI_SECOND: "extension_ui_response+2",
}


class CommandSet(NamedTuple):
    """Which commands a search may send, and what else may happen in it."""

    sent: tuple[Sent, ...]
    flags: tuple[str, ...] = ()
    """EXT: extensions are loaded. LIMIT: a limit may end a run. SECOND: a signal may follow the end of input. MODES:
    the delivery modes are tried in all four combinations; else both queues deliver one at a time. FULL: one text fills
    the queues; else they have room for all."""


_CONVERSATION: Final = (
    PROMPT,
    PROMPT_STEER,
    STEER,
    FOLLOW_UP,
    ABORT,
    ABORT_CLEAR,
    ABORT_CONTINUE,
    ABORT_RETRY,
    COMPACT,
    NEW_SESSION,
    CLEAR_QUEUE,
    BASH,
    ABORT_BASH,
)
# The order is the number that a search is compiled with.
SETS: Final[Mapping[str, CommandSet]] = {
    "all": CommandSet(_CONVERSATION, ("MODES",)),
    "queues": CommandSet((PROMPT, PROMPT_STEER, STEER, FOLLOW_UP, ABORT, ABORT_CLEAR, ABORT_CONTINUE), ("MODES",)),
    "barriers": CommandSet((PROMPT, STEER, ABORT, COMPACT, NEW_SESSION)),
    "shells": CommandSet((PROMPT, STEER, ABORT, NEW_SESSION, BASH, ABORT_BASH, CLEAR_QUEUE)),
    "retries": CommandSet((PROMPT, FOLLOW_UP, ABORT, ABORT_RETRY, COMPACT)),
    "core": CommandSet((PROMPT, STEER, ABORT, COMPACT)),
    "limits": CommandSet((PROMPT, STEER, ABORT, ABORT_CONTINUE, FOLLOW_UP), ("LIMIT", "SECOND")),
    "settings": CommandSet(
        (PROMPT, STEER, ABORT, GET_STATE, SET_MODEL, ALL_AT_A_TIME, RETRY_OFF, COMPACTION_OFF, HELLO)
    ),
    "extensions": CommandSet(
        (PROMPT, STEER, PROMPT_FOLLOW_UP, ABORT, COMPACT, NEW_SESSION, EXTENSION_COMMAND, GET_STATE), ("EXT",)
    ),
    "moves": CommandSet((PROMPT, STEER, ABORT, COMPACT, NEW_SESSION, NAVIGATE_TREE)),
    "full": CommandSet((PROMPT, PROMPT_STEER, STEER, FOLLOW_UP, ABORT, CLEAR_QUEUE, NEW_SESSION), ("FULL",)),
    "reloads": CommandSet((PROMPT, STEER, ABORT, COMPACT, NEW_SESSION, RELOAD, EXTENSION_COMMAND), ("EXT",)),
}

_SESSION: Final = "its rows are those of new_session, which is modelled"
EXCLUDED: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (name for name in READS if name != "get_state"),
        "a read: its rows are those of get_state, which is modelled",
    ),
    **dict.fromkeys(
        (name for name in SETTINGS if name != "set_model"),
        "a setting: its rows are those of set_model, which is modelled",
    ),
    **dict.fromkeys(("switch_session", "fork", "clone", "branch"), _SESSION),
    **dict.fromkeys(
        ("set_steering_mode", "set_follow_up_mode"),
        "its rows are those of set_queue_mode, which sets both and is modelled",
    ),
    **dict.fromkeys(("malformed", "unknown"), "refused in every state, and changes nothing"),
    **dict.fromkeys(
        ("ui_surface_input", "run_shortcut", "login", "abort_login", "logout"),
        "its rows are those of hello, which is modelled",
    ),
    "client_response": "wakes a call of a tool, whose end is what the rows see",
    "prompt_read": "changes the words of a text, and texts have none here",
    "queue_restored": "what a process before has left queued is there before the first command, or not at all",
    "queue_announced": "changes nothing",
    "instance_began": "whether extensions are loaded is chosen once for a search",
}
"""Triggers of the rows that the models leave out."""

SAME_ROWS: Final[Mapping[str, str]] = {
    name: reason.split("of ", 1)[1].split(",")[0]
    for name, reason in EXCLUDED.items()
    if "which" in reason and "rows" in reason
}
"""Left out because another trigger has the same rows: a claim that is checked."""


def state_name(region: str, state: str) -> str:
    """Return the name of a state in the models."""
    return f"{region}_{state.replace('.', '_')}"


def trigger_name(trigger: str) -> str:
    """Return the name of a trigger in the models."""
    return f"t_{trigger}"


def variable(region: str) -> str:
    """Return the variable that holds the state of a region; `run` is a word of Promela."""
    return region.upper()
