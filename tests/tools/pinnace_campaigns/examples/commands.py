"""One recorded example for each command, which the reference site shows: `python -P -m pinnace_campaigns.examples`.

As `example_conversations`, but each shows as little as it can: what comes before the command is played and not shown.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from pinnace_campaigns.examples.conversations import Conversation, Player
from pinnace_fuzz.script import Scripted
from pinnace_spec.records.commands import MODELS

_DELTA: Final = {"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}}
_GATED: Final = {"chunks": [{"text": "Roses "}, {"gate": "half"}, {"text": "are red"}]}
_READING: Final = {"tool_calls": [{"name": "read", "args": {"path": "note.txt"}}]}
_HANGING: Final = {"chunks": [{"text": "Roses "}, {"hang": True}]}
_WAITING: Final = {"tool_calls": [{"name": "bash", "args": {"command": "echo begun; sleep 60"}}]}
_DELEGATING: Final = {"tool_calls": [{"name": "subagent", "args": {"task": "Count the sails"}}], "match": "Delegate"}
_EXTENSION: Final = Path(__file__).parents[4] / "examples" / "extensions" / "timed_confirm.py"


def _alone(**fields: object) -> Callable[[Player], object]:
    """The command is all that happens."""
    return lambda player: player.ask(id="1", **fields)


def _after_a_prompt(**fields: object) -> Callable[[Player], object]:
    """The command comes when a prompt is done with."""

    def play(player: Player) -> None:
        player.agent.say("Write a poem")
        player.begin()
        player.ask(id="1", **fields)

    return play


def _into_a_run(**fields: object) -> Callable[[Player], object]:
    """The command comes while the model answers, and the run then goes on to its end."""

    def play(player: Player) -> None:
        player.agent.ask("prompt", message="Write a poem")
        player.agent.wait(_DELTA)
        player.begin()
        player.ask(id="1", **fields)
        player.agent.llm.release("half")
        player.settle()

    return play


def _prompt(player: Player) -> None:
    player.ask(id="1", type="prompt", message="Say hello")
    player.settle()


def _clear_queue(player: Player) -> None:
    player.agent.ask("prompt", message="Write a poem")
    player.agent.wait(_DELTA)
    player.agent.ask("follow_up", message="Then give it a title")
    player.begin()
    player.ask(id="1", type="clear_queue")


def _get_queue(player: Player) -> None:
    player.agent.ask("prompt", message="Write a poem")
    player.agent.wait(_DELTA)
    player.agent.ask("follow_up", message="Then give it a title", messageId="title")
    player.agent.ask("clear_queue", by="the-user")
    player.agent.ask("steer", message="Make it short", messageId="short")
    player.begin()
    player.ask(id="1", type="get_queue", returned=True)


def _abort(player: Player) -> None:
    player.agent.ask("prompt", message="Write a poem")
    player.agent.wait(_DELTA)
    player.begin()
    player.ask(id="1", type="abort")


def _abort_retry(player: Player) -> None:
    player.agent.ask("prompt", message="Write a poem")
    player.agent.wait({"type": "auto_retry_start"})
    player.begin()
    player.ask(id="1", type="abort_retry")
    player.settle()


def _abort_bash(player: Player) -> None:
    player.send(id="1", type="bash", command="echo begun; sleep 60")
    player.agent.wait({"type": "bash_execution_update", "id": "1"})
    player.ask(id="2", type="abort_bash")
    player.agent.wait_response("1")


def _abort_tool(player: Player) -> None:
    player.agent.ask("prompt", message="Wait a minute")
    call = player.agent.wait({"type": "tool_execution_update"})
    player.begin()
    player.ask(id="1", type="abort_tool", entryId=call["entryId"])
    player.settle()


def _cancel_agent(player: Player) -> None:
    player.agent.ask("prompt", message="Delegate it")
    call = player.agent.wait({"type": "tool_execution_update"})
    player.begin()
    player.ask(id="1", type="cancel_agent", agentId=call["partialResult"]["details"]["agent"]["agentId"])
    player.settle()


def _start_agent(player: Player) -> None:
    player.ask(id="1", type="start_agent", task="Count the sails", maxTurns=5, messageId="sails")


def _wait_agent(player: Player) -> None:
    agent = player.agent.ask("start_agent", task="Count the sails")["agent"]["agentId"]
    player.agent.llm.wait_reached("half")
    player.begin()
    player.send(id="1", type="wait_agent", agentId=agent, timeout=600)
    player.agent.llm.release("half")
    player.agent.wait_response("1")


def _message_agent(player: Player) -> None:
    player.agent.ask("prompt", message="Delegate it")
    call = player.agent.wait({"type": "tool_execution_update"})
    player.agent.llm.wait_reached("half")
    agent = call["partialResult"]["details"]["agent"]["agentId"]
    player.begin()
    player.ask(id="1", type="message_agent", agentId=agent, message="Count the masts, too", messageId="masts")
    player.agent.llm.release("half")
    player.settle()


def _auth_status(player: Player) -> None:
    player.ask(id="1", type="auth_status", provider="xai")


def _login(player: Player) -> None:
    player.ask(id="1", type="login", provider="openai", method="key", key="the-key-of-the-user")


def _logout(player: Player) -> None:
    player.agent.ask("login", provider="openai", method="key", key="the-key-of-the-user")
    player.begin()
    player.ask(id="1", type="logout", provider="openai")


def _switch_session(player: Player) -> None:
    player.agent.say("Write a poem")
    path = player.agent.ask("get_state")["sessionFile"]
    player.agent.ask("new_session")
    player.begin()
    player.ask(id="1", type="switch_session", sessionPath=path)


def _fork(player: Player) -> None:
    player.agent.say("Write a poem")
    entry = player.agent.ask("get_fork_messages")["messages"][0]["entryId"]
    player.begin()
    player.ask(id="1", type="fork", entryId=entry)


def _label(player: Player) -> None:
    player.agent.say("Write a poem")
    entry = player.agent.ask("get_fork_messages")["messages"][0]["entryId"]
    player.begin()
    player.ask(id="1", type="set_label", entryId=entry, label="the poem")


def _navigate(player: Player) -> None:
    player.agent.say("Write a poem")
    entry = player.agent.ask("get_fork_messages")["messages"][0]["entryId"]
    player.begin()
    player.ask(id="1", type="navigate_tree", entryId=entry)


def _branch(player: Player) -> None:
    player.agent.say("Write a poem")
    index = player.agent.ask("get_branch_messages")["messages"][0]["entryIndex"]
    player.begin()
    player.ask(id="1", type="branch", entryIndex=index)


def _compact(player: Player) -> None:
    player.agent.say("Write a poem", "Go on")
    player.begin()
    player.ask(id="1", type="compact", customInstructions="Keep the names")


def _dialog(player: Player) -> None:
    player.send(id="1", type="prompt", message="/timed")
    request = player.agent.wait({"type": "extension_ui_request", "method": "confirm"})
    player.send(type="extension_ui_response", id=request["id"], confirmed=True)
    player.agent.wait({"type": "extension_ui_request", "method": "notify"})
    player.agent.wait_response("1")


def _file(player: Player) -> None:
    player.agent.ask("hello", delegate=["read_text_file"])
    player.begin()
    player.send(id="1", type="prompt", message="What does the note say?")
    request = player.agent.wait({"type": "client_request"})
    player.send(type="client_response", id=request["id"], success=True, content="Water the plants.\n")
    player.settle()


def _of(
    command: str,
    play: Callable[[Player], object],
    script: Iterable[Scripted] = (),
    *,
    flags: tuple[str, ...] = (),
    settings: Mapping[str, object] | None = None,
) -> Conversation:
    """An example in profile `pi`, in a session with a file."""
    return Conversation(
        f"commands/{command}",
        command,
        "",
        "",
        play,
        script,
        flags=flags,
        settings=settings or {},
        has_session=True,
    )


_POEM: Final = ({"text": "Roses are red"},)

_CONVERSATIONS: Final = (
    _of("prompt", _prompt, [{"text": ["Hel", "lo"]}]),
    _of("steer", _into_a_run(type="steer", message="Make it short"), [_GATED, {"text": "Red."}]),
    _of("follow_up", _into_a_run(type="follow_up", message="Give it a title"), [_GATED, {"text": "Roses"}]),
    _of("queue_message", _into_a_run(type="queue_message", message="Give it a title"), [_GATED, {"text": "Roses"}]),
    _of("clear_queue", _clear_queue, [_HANGING]),
    _of("abort", _abort, [_HANGING]),
    _of("abort_retry", _abort_retry, [{"error": {"status": 503}}], settings={"retry": {"baseDelayMs": 600_000}}),
    _of("abort_tool", _abort_tool, [_WAITING, {"text": "I have stopped."}]),
    _of("start_agent", _start_agent, [{**_HANGING, "match": "Task: "}]),
    _of("wait_agent", _wait_agent, [{"chunks": [{"gate": "half"}, {"text": "Two sails"}], "match": "Task: "}]),
    _of(
        "cancel_agent",
        _cancel_agent,
        [_DELEGATING, {**_HANGING, "match": "Task: "}, {"text": "I have stopped it."}],
        flags=("--tools", "+subagent"),
    ),
    _of(
        "message_agent",
        _message_agent,
        [
            _DELEGATING,
            {"chunks": [{"gate": "half"}, {"text": "Two sails"}], "match": "Task: "},
            {"text": "Two sails and one mast", "match": "Message: "},
            {"text": "It has counted both."},
        ],
        flags=("--tools", "+subagent"),
    ),
    _of("auth_status", _auth_status),
    _of("login", _login),
    _of("logout", _logout),
    _of("switch_session", _switch_session, _POEM),
    _of("fork", _fork, _POEM),
    _of("branch", _branch, _POEM),
    _of("clone", _after_a_prompt(type="clone"), _POEM),
    _of("set_model", _alone(type="set_model", provider="fake", modelId="m2")),
    _of("set_thinking_level", _alone(type="set_thinking_level", level="high")),
    _of("set_steering_mode", _alone(type="set_steering_mode", mode="all")),
    _of("set_follow_up_mode", _alone(type="set_follow_up_mode", mode="all")),
    _of("set_queue_mode", _alone(type="set_queue_mode", mode="all")),
    _of("set_auto_compaction", _alone(type="set_auto_compaction", enabled=False)),
    _of("set_auto_retry", _alone(type="set_auto_retry", enabled=False)),
    _of("set_session_name", _alone(type="set_session_name", name="a test")),
    _of(
        "compact",
        _compact,
        [{"text": "one"}, {"text": "two"}, {"text": "We wrote a poem."}],
        settings={"compaction": {"keepRecentTokens": 3}},
    ),
    _of("bash", _alone(type="bash", command="echo hello; exit 3")),
    _of("abort_bash", _abort_bash),
    _of("export_html", _after_a_prompt(type="export_html", outputPath="page.html"), _POEM),
    _of("hello", _alone(type="hello", protocol="1.5")),
    _of("get_messages", _after_a_prompt(type="get_messages"), _POEM),
    _of("get_session_stats", _after_a_prompt(type="get_session_stats"), _POEM),
    _of("get_fork_messages", _after_a_prompt(type="get_fork_messages"), _POEM),
    _of("get_branch_messages", _after_a_prompt(type="get_branch_messages"), _POEM),
    _of("get_last_assistant_text", _after_a_prompt(type="get_last_assistant_text"), _POEM),
    _of("set_tool_approval", _alone(type="set_tool_approval", mode="ask")),
    _of("set_label", _label, _POEM),
    _of("navigate_tree", _navigate, _POEM),
    _of("list_sessions", _after_a_prompt(type="list_sessions", limit=10), _POEM),
    _of("get_queue", _get_queue, [_HANGING]),
    _of("get_tools", _alone(type="get_tools"), flags=("--tools", "ls")),
    _of("set_active_tools", _alone(type="set_active_tools", names=["read", "grep"])),
    _of("get_entries", _after_a_prompt(type="get_entries"), _POEM),
    _of("get_tree", _after_a_prompt(type="get_tree"), _POEM),
    _of("client_response", _file, [_READING, {"text": "To water the plants."}]),
    _of("extension_ui_response", _dialog, flags=("-e", str(_EXTENSION))),
)
COMMAND_EXAMPLES: Final[tuple[Conversation, ...]] = (
    *_CONVERSATIONS,
    *(
        _of(name, _alone(type=name, **model.sample))
        for name, model in MODELS.items()
        if name not in {each.title for each in _CONVERSATIONS}
    ),
)
"""One for each command: of those without a conversation above, the declared sample is all that happens."""
