"""Commands without fields of their own: the most frequent ones, and the first that a client sends.

They need no validation but that of the id, so reading one loads no library: an agent answers `get_state` before it has
loaded what reads the other commands. Must not import pydantic.
"""

from typing import Final, Literal, NamedTuple, get_args

from pinnace_spec.wire import JsonValue

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

PLAIN_COMMANDS: Final[frozenset[str]] = frozenset(
    (*get_args(PlainName), *get_args(OldestPlainName), *get_args(LaterPlainName))
)


class PlainCommand(NamedTuple):
    """A command that is its name. `id` counts only with `has_id`; null is one."""

    command_name: str
    id: JsonValue
    has_id: bool
