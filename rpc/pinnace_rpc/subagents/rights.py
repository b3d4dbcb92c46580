"""What a sub-agent is started with: the options of the agent that starts it, and nothing that gives it more rights.

Decided once, from what neither the model nor the sub-agent can change: the options and the files of the start, and the
state of the agent at the call. A request for more is refused by an error that names it. Every field of the options is
passed on, decided here, or left out by name; one that is new is none of these, and stops the first start in the tests.
Rules R-SUB-03, R-SUB-04.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, cast

from pinnace_agent.core.json_access import as_object
from pinnace_agent.core.ports.children import ChildRefused, ChildRequest
from pinnace_agent.core.surroundings import CLIENT_SERVERS
from pinnace_agent.telemetry.variables import HEADERS
from pinnace_rpc.options.options import Options
from pinnace_rpc.options.table import OPTIONS
from pinnace_spec.nearest import nearest_or_all
from pinnace_spec.records.messages import ApprovalMode, Model, ThinkingLevel

TOOL_NAME: Final = "subagent"
DEPTH_VARIABLE: Final = "PINNACE_SUBAGENT_DEPTH"
"""How many agents are above this one: 1 in one that a user's agent has started."""

WITHHELD_VARIABLES: Final = (CLIENT_SERVERS, *HEADERS)
"""What a process takes out of its environment, since no command is to have it, and a sub-agent has as its parent does:
the servers that an editor has given, and the keys of collectors."""

PASSED_ON: Final = frozenset(
    {
        *("models", "system_prompt", "append_system_prompt", "client_prompt", "skills", "prompt_templates"),
        "no_skills",
        *("no_prompt_templates", "no_context_files", "directories", "extensions", "no_extensions", "no_mcp"),
        *("keeps_going", "sandbox", "sandbox_network", "extension_flags", "exclude_tools", "is_offline"),
    }
)
DECIDED: Final = frozenset(
    {
        *("provider", "model", "thinking", "api_key", "api_key_file", "api_key_fd", "tools", "no_tools"),
        *("no_builtin_tools", "tool_approval", "approved", "max_turns", "max_cost", "mode", "protocol", "session"),
        *("session_id", "is_persistent"),
    }
)
LEFT_OUT: Final = frozenset(
    {
        # Of a process that does something else.
        *("list_models", "as_json", "login", "export", "is_interactive", "opens_sessions", "look", "agent_flags"),
        # Of the session, the client or the report of the agent that starts it.
        *("name", "continues", "fork", "session_dir", "on_eof", "on_restore", "draws_surfaces", "hosted", "messages"),
        *("files", "message_id", "result_file", "has_detailed_exit_codes", "fails_on_error", "verbose", "log_file"),
        # Its run ends the sub-agent.
        "max_run_s",
        # Where unknown words were: they are passed on with the flags of extensions.
        "taken_words",
    }
)
# Paths, which are relative to the folder that the process was started in.
_PATHS: Final = frozenset({"skills", "prompt_templates", "directories"})
_TEXTS_OR_FILES: Final = frozenset({"system_prompt", "append_system_prompt"})
_PROTOCOL: Final = "1.5"
MOST_TURNS: Final = 999_999_999
"""The most that `--max-turns` takes."""
_LEAST_COST: Final = 0.000001
"""What a limit may be; one answer may cost more than any."""


class ParentState(NamedTuple):
    """The agent that starts one, at the call."""

    options: Options
    start_folder: str
    session_folder: str
    model: Model | None
    thinking_level: ThinkingLevel
    tools: Sequence[str]
    """The names of those that are active."""
    approval: ApprovalMode
    is_project_trusted: bool
    """Whether the start folder has brought files of a project, and they were trusted."""
    sandbox: Mapping[str, object] | None
    """As `get_state` reports it."""
    has_extensions: bool
    key_provider: str | None
    """The provider that the key of the command line is for."""
    depth: int
    max_turns: int | None
    cost_share: float | None
    """What the sub-agent may cost; None: as much as it takes."""


class ChildStart(NamedTuple):
    """What a sub-agent is started with."""

    words: Sequence[str]
    """Of its command line, without those of its session and its key."""
    process_folder: str
    session_folder: str
    provider: str
    model: str
    api_key: str | None
    approval: ApprovalMode
    is_project_trusted: bool | None
    """What its state must say; None: nothing is given to it by trust."""
    sandbox: Mapping[str, object] | None
    """Likewise."""
    max_cost: float | None
    """What it may cost."""


def child_start(request: ChildRequest, parent: ParentState, model: Model, max_depth: int) -> ChildStart:
    """Decide what a sub-agent is started with; `model` is the one that it gets.

    Raises:
        ChildRefused: The request asks for more than the agent has.
    """
    folder = _folder(request.folder, parent)
    tools = _tools(request.tools, parent, may_start_more=parent.depth + 1 < max_depth)
    is_elsewhere = folder is not None
    words = ["--mode", "rpc", "--protocol", _PROTOCOL, *_passed_on(parent.options, parent.start_folder)]
    words += ["--provider", model["provider"], "--model", model["id"], "--thinking", parent.thinking_level]
    words += ["--tools", ",".join(tools)] if tools else ["--no-tools"]
    words += ["--tool-approval", parent.approval]
    if is_elsewhere or not parent.is_project_trusted:
        # Also where a project has brought nothing so far: what a model writes there later is not trusted by that.
        words.append("--no-approve")
    elif parent.options.approved:
        words.append("--approve")
    turns = [each for each in (request.max_turns, parent.max_turns) if each is not None]
    words += ["--max-turns", str(min(*turns, MOST_TURNS))] if turns else []
    max_cost = None if parent.cost_share is None else max(parent.cost_share, _LEAST_COST)
    words += [] if max_cost is None else ["--max-cost", f"{max_cost:f}"]
    return ChildStart(
        words,
        folder or parent.start_folder,
        folder or parent.session_folder,
        model["provider"],
        model["id"],
        parent.options.api_key if model["provider"] == parent.key_provider else None,
        parent.approval,
        True if parent.is_project_trusted and not is_elsewhere else None,
        parent.sandbox,
        max_cost,
    )


def check_state(state: Mapping[str, object], start: ChildStart) -> None:
    """Compare what a started agent reports with what it was to get, before it is asked anything.

    Raises:
        ChildRefused: It has other rights, since files have changed that decide them.
    """
    found = _confinement(as_object(state.get("sandbox")))
    if found != _confinement(start.sandbox):
        raise ChildRefused(f"the sub-agent has another sandbox than this agent: {found}. Settings have changed: reload")
    if state.get("toolApproval") != start.approval:
        raise ChildRefused(f"the sub-agent has another tool approval than this agent: {state.get('toolApproval')}")
    if start.is_project_trusted and state.get("projectTrusted") is not True:
        raise ChildRefused("the project has changed since it was trusted, and its guards would be missing")


def _confinement(sandbox: Mapping[str, object] | None) -> tuple[object, object, object]:
    if sandbox is None:
        return (None, None, None)
    return sandbox.get("mode"), sandbox.get("network"), sandbox.get("writable")


def _folder(wanted: str | None, parent: ParentState) -> str | None:
    """Return the folder that is asked for; None: that of the session."""
    if wanted is None:
        return None
    own = os.path.realpath(parent.session_folder)
    try:
        folder = os.path.realpath(os.path.join(own, wanted))
    except ValueError:  # no path can be such a text
        folder = ""
    if folder == own:
        return None
    if not folder.startswith(own.rstrip(os.sep) + os.sep) or not os.path.isdir(folder):
        raise ChildRefused(f"cwd: {wanted} is no folder within {own}, and a sub-agent works within this agent's folder")
    # What guards the folder of the session would not guard this one, or otherwise.
    reasons = {"a sandbox": parent.sandbox is not None, "extensions": parent.has_extensions}
    reasons["a trusted project"] = parent.is_project_trusted
    for reason, is_given in reasons.items():
        if is_given:
            raise ChildRefused(f"cwd: with {reason} a sub-agent works in this agent's folder, {own}")
    return folder


def _tools(wanted: Sequence[str] | None, parent: ParentState, *, may_start_more: bool) -> Sequence[str]:
    allowed = [name for name in parent.tools if name != TOOL_NAME or may_start_more]
    if wanted is None:
        return allowed
    for name in wanted:
        if name not in allowed:
            raise ChildRefused(f'tools: this agent has no active tool "{name}"; {nearest_or_all(name, allowed)}')
    return [name for name in allowed if name in wanted]


def _passed_on(options: Options, folder: str) -> list[str]:
    words: list[str] = []
    for option in OPTIONS:
        if option.field not in PASSED_ON:
            continue
        name, value = option.names[0], getattr(options, option.field)
        if value == Options._field_defaults[option.field]:
            continue
        if not option.takes_value():
            words.append(name)
        else:
            values = _texts(value)
            for each in values if option.repeats else [",".join(values)]:
                words += [name, _from_anywhere(option.field, each, folder)]
    for flag, value in options.extension_flags:
        words += [f"--{flag}"] if value is None else [f"--{flag}", value]
    return words


def _texts(value: object) -> list[str]:
    """Return the values of an option, one or several."""
    several = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)  # cast: of whatever it holds
    return [str(each) for each in several]


def _from_anywhere(field: str, text: str, folder: str) -> str:
    """Return a value that means the same in another folder."""
    path = os.path.join(folder, os.path.expanduser(text))
    is_path = field in _PATHS or (field in _TEXTS_OR_FILES and "\n" not in text and os.path.isfile(path))
    return path if is_path else text
