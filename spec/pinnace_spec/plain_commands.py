"""Names of the commands without fields of their own, the most frequent ones. Must not import pydantic."""

from typing import Final, Literal, get_args

PlainName = Literal[
    "abort_retry",
    "abort_bash",
    "clone",
    "cycle_model",
    "cycle_thinking_level",
    "get_state",
    "get_messages",
    "get_available_models",
    "get_session_stats",
    "get_fork_messages",
    "get_last_assistant_text",
    "get_commands",
]
OldestPlainName = Literal["get_branch_messages"]
LaterPlainName = Literal["get_available_thinking_levels", "get_tree"]

PLAIN_COMMANDS: Final[tuple[str, ...]] = (
    *get_args(PlainName),
    *get_args(OldestPlainName),
    *get_args(LaterPlainName),
)
