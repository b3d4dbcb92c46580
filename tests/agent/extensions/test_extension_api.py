"""`pi`: registering, acting, and when neither is possible."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import pytest
import trio
from pydantic import BaseModel

from pinnace.extensions import (
    Block,
    CommandContext,
    Context,
    ExtensionAPI,
    ExtensionFailedError,
    ExtensionLoadingError,
    NotAvailableError,
    ProviderConfig,
    StaleContextError,
    ToolContext,
    ToolDefinition,
)
from pinnace.extensions import (
    events as ev,
)
from pinnace_agent.extensions.api.base import Services
from pinnace_agent.extensions.ports.host_actions import HostActions
from pinnace_agent.extensions.registration.flags import FlagValues, GivenFlag, flags_of, match_flags
from pinnace_agent.extensions.registration.registrations import Extension, Generation
from pinnace_agent.extensions.services.bus import EventBus


class Host:
    """Records each action by name, and returns prepared values."""

    def __init__(self, **answers: object) -> None:
        self.asked: list[tuple[object, ...]] = []
        self.threads: set[int] = set()
        self._answers = answers

    def __getattr__(self, name: str) -> Callable[..., object]:
        def ask(*arguments: object, **named: object) -> object:
            self.asked.append((name, *arguments, *([named] if named else [])))
            self.threads.add(threading.get_ident())
            return self._answers.get(name)

        return ask

    async def set_model(self, model: object) -> bool:
        self.asked.append(("set_model", model))
        return True


class Tasks:
    """A background that starts nothing."""

    def __init__(self) -> None:
        self.started: list[object] = []

    def start_soon(self, function: Callable[..., object], /, *args: object) -> None:
        self.started.append((function, *args))


class Bench:
    """One extension, as a loader would make it."""

    def __init__(self, flags: Mapping[str, bool | str] | None = None) -> None:
        self.generation = Generation()
        source = {"path": "/x/gate.py", "source": "auto", "scope": "user", "origin": "top-level"}
        self.extension = Extension("/x/gate.py", source, self.generation)  # type: ignore[arg-type]
        bus = EventBus(self.generation, lambda line: None)
        self.pi = ExtensionAPI(self.extension, Services(bus, FlagValues(flags), lambda: [self.extension], "/"))

    def bound(self, **answers: object) -> Host:
        host = Host(**answers)
        self.extension.state = "live"
        self.pi.bind(cast("HostActions", host), Tasks())
        return host


def gate(ctx: Context, event: ev.ToolCall) -> Block | None:
    return None


def test_on_is_a_call_or_a_decorator() -> None:
    bench = Bench()
    bench.pi.on("tool_call", gate)

    @bench.pi.on("tool_call")
    async def other(ctx: Context, event: ev.ToolCall) -> None:
        pass

    assert [gate, other] == [each.function for each in bench.extension.handlers["tool_call"]]
    numbers = [each.number for each in bench.extension.handlers["tool_call"]]
    assert numbers == sorted(numbers)


def test_the_result_of_on_removes_exactly_its_handler() -> None:
    """No empty list stays, so that a look-up finds whether there is a handler."""
    bench = Bench()
    off = bench.pi.on("tool_call", gate)
    off_too = bench.pi.on("tool_call", gate)
    off()
    off()
    assert 1 == len(bench.extension.handlers["tool_call"])
    off_too()
    assert {} == bench.extension.handlers


def test_taking_back_does_not_disturb_a_dispatch() -> None:
    """The list that is being gone through stays."""
    bench = Bench()
    off = bench.pi.on("tool_call", gate)
    bench.pi.on("tool_call", gate)
    running = bench.extension.handlers["tool_call"]
    off()
    assert 2 == len(running)


def test_a_decorator_has_nothing_to_take_back() -> None:
    with pytest.raises(TypeError, match="no handler to remove"):
        Bench().pi.on("tool_call")()


def test_on_takes_a_class_or_a_name() -> None:
    """2.6: and that of a built-in tool means this tool alone."""
    bench = Bench()
    bench.pi.on(ev.ToolCall, gate)
    bench.pi.on(ev.BashCall, gate)
    bench.pi.on("tool_call", gate, tool="write")
    bench.pi.on(ev.SessionStart, lambda ctx, event: None)
    assert [None, "bash", "write"] == [each.tool_filter for each in bench.extension.handlers["tool_call"]]
    assert 1 == len(bench.extension.handlers["session_start"])
    with pytest.raises(TypeError, match="tool= is for tool_call and tool_result"):
        bench.pi.on("session_start", tool="bash")


def test_parameters_in_the_wrong_order_are_an_error_at_registration() -> None:
    """2.1 decision 2: the context comes first."""

    def wrong(event: object, ctx: object) -> None:
        pass

    with pytest.raises(
        TypeError, match=r"wrong\(event: object, ctx: object\) -> None has its parameters in the wrong order"
    ):
        Bench().pi.on("tool_call", wrong)


def test_a_handler_with_other_parameters_is_an_error_at_registration() -> None:
    pi = Bench().pi
    with pytest.raises(TypeError, match=r"handler of agent_end: it is called as .*\(ctx, event\), but is"):
        pi.on("agent_end", lambda ctx: None)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="can't be called"):
        pi.on("agent_end", 3)  # type: ignore[call-overload]

    async def later(ctx: Context, event: ev.AgentEnd) -> None:
        pass

    with pytest.raises(TypeError, match="thread=True is for functions that are not async"):
        pi.on("agent_end", later, thread=True)


def test_odd_names_of_events_are_noted_and_no_error() -> None:
    """Some are older, others may be newer."""
    bench = Bench()
    for name in ("session_switch", "session_directory", "tool_cal", "tool_cal"):
        bench.pi.on(name, lambda ctx, event: None)  # type: ignore[call-overload]
    assert 3 == len(bench.extension.diagnostics)
    assert "did you mean 'tool_call'?" in bench.extension.diagnostics[2]


def test_a_tool_is_made_of_a_function() -> None:
    bench = Bench()

    @bench.pi.tool(
        label="Greet", prompt_snippet="Greet a person", prompt_guidelines=["greet: politely"], sequential=True
    )
    async def greet(ctx: ToolContext, name: str) -> str:
        """Greet someone."""
        return name

    @bench.pi.tool
    def now(ctx: ToolContext) -> str:
        """Tell the time."""
        return "noon"

    definition = bench.extension.tools["greet"].definition
    assert ("Greet", "Greet someone.", "Greet a person", ("greet: politely",), True, True) == (
        definition.label,
        definition.description,
        definition.prompt_snippet,
        definition.prompt_guidelines,
        definition.is_sequential,
        definition.default_active,
    )
    assert "now" == bench.extension.tools["now"].definition.label
    assert "/x/gate.py" == bench.extension.tools["now"].source["path"]


def test_annotations_may_use_local_names() -> None:
    """2.3: as texts, too, which `from __future__ import annotations` makes of all of them."""
    bench = Bench()

    class Point(BaseModel):
        x: int

    @bench.pi.tool
    def bare(ctx: "ToolContext", at: "Point") -> None:
        """Mark."""

    @bench.pi.tool(name="marked")
    def other(ctx: "ToolContext", at: "Point", label: "str" = "") -> None:
        """Mark."""

    assert ["x"] == list(bench.extension.tools["bare"].definition.parameters["properties"])  # type: ignore[call-overload]
    assert ["at", "label"] == list(bench.extension.tools["marked"].definition.parameters["properties"])  # type: ignore[call-overload]


def test_the_last_tool_of_a_name_counts() -> None:
    bench = Bench()
    for text in ("first", "second"):
        bench.pi.register_tool(ToolDefinition("x", text, {"type": "object"}, lambda ctx, params: None))
    assert "second" == bench.extension.tools["x"].definition.description


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        (ToolDefinition("", "d", {"type": "object"}, gate), "up to 64 letters"),
        (ToolDefinition("a b", "d", {"type": "object"}, gate), "up to 64 letters"),
        (ToolDefinition("x", " ", {"type": "object"}, gate), "needs a description"),
        (ToolDefinition("x", "d", {"type": "array"}, gate), "must be a JSON schema"),
        (ToolDefinition("x", "d", {"type": "object"}, lambda: None), "it is called as"),
        (ToolDefinition("x", "d", {"type": "object"}, gate, prompt_guidelines="a"), "a list of strings"),  # type: ignore[arg-type]
    ],
)
def test_a_tool_that_can_be_none_is_refused(definition: ToolDefinition, text: str) -> None:
    bench = Bench()
    with pytest.raises(TypeError, match=text):
        bench.pi.register_tool(definition)
    assert {} == bench.extension.tools


def test_a_tool_registered_later_is_reported_to_the_host() -> None:
    bench = Bench()
    host = bench.bound()

    @bench.pi.tool
    def late(ctx: ToolContext) -> None:
        """Come late."""

    assert [("tools_changed", "late")] == host.asked


def test_commands_are_registered() -> None:
    bench = Bench()

    @bench.pi.command("stats", description="Show", complete=lambda prefix: ["all"])
    async def stats(ctx: CommandContext, args: str) -> None:
        pass

    bench.pi.register_command("/slow", lambda ctx, args: None, thread=True)
    assert ["stats", "slow"] == list(bench.extension.commands)
    assert (stats, "Show") == (
        bench.extension.commands["stats"].function,
        bench.extension.commands["stats"].description,
    )
    assert bench.extension.commands["slow"].in_thread
    for name in ("", "/", "a b"):
        with pytest.raises(ValueError, match="can't be the name of a command"):
            bench.pi.register_command(name, stats)
    with pytest.raises(TypeError, match="wrong order"):
        bench.pi.register_command("x", lambda args, ctx: None)


def test_keys_are_registered_by_one_name_each() -> None:
    """However their modifiers are ordered; the later function of an extension has the key."""
    bench = Bench()
    for key in ("Shift+ctrl+X", "ctrl+shift+x"):
        bench.pi.shortcut(key, description=key)(lambda ctx: None)
    bench.pi.shortcut("alt++")(lambda ctx: None)
    bench.pi.shortcut("+")(lambda ctx: None)
    described = {key: each.description for key, each in bench.extension.shortcuts.items()}
    assert described == {"ctrl+shift+x": "ctrl+shift+x", "alt++": None, "+": None}
    with pytest.raises(TypeError, match=r"shortcut ctrl\+y"):
        bench.pi.shortcut("ctrl+y")(lambda: None)
    with pytest.raises(ValueError, match="key of a shortcut is empty"):
        bench.pi.shortcut(" ")
    with pytest.raises(TypeError, match="key of a shortcut must be a string"):
        bench.pi.shortcut(5)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_renderers_are_accepted() -> None:
    """The decorators return the function. A wrong one is refused."""
    bench = Bench()
    with pytest.raises(TypeError, match=r"renderer of call a: it is called as .*\(item\)"):
        bench.pi.call_renderer("a")(lambda: None)
    with pytest.raises(TypeError, match="the name must be a string that is not empty"):
        bench.pi.result_renderer("")
    bench.pi.message_renderer("a")(lambda *_: None)
    bench.pi.entry_renderer("b")(lambda *_: None)
    bench.pi.markdown_transformer(message_types=["user"])(lambda text, item: text)
    assert print is bench.pi.tool_renderer(print)
    with pytest.raises(ValueError, match="markdown_transformer: 'model' is none of user, assistant, "):
        bench.pi.markdown_transformer(message_types=["model"])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"markdown_transformer: it is called as .*\(markdown, item\)"):
        bench.pi.markdown_transformer()(lambda text: text)


def test_flags_have_a_type_and_a_default() -> None:
    """Names with dashes do as well."""
    bench = Bench()
    bench.pi.flag("--strict", description="Ask always")
    bench.pi.flag("host", type=str, default="here")
    assert [("strict", bool, None), ("host", str, "here")] == [
        (each.name, each.kind, each.default) for each in bench.extension.flags.values()
    ]
    for kind, default in ((bool, "yes"), (str, True), (int, None)):
        with pytest.raises(TypeError, match="flag 'x'"):
            bench.pi.flag("x", type=kind, default=default)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="can't be the name of a flag"):
        bench.pi.flag("a=b")


def test_a_flag_has_its_default_while_loading_and_its_value_later() -> None:
    bench = Bench({"host": "there", "other": True})
    bench.pi.flag("host", type=str, default="here")
    assert "here" == bench.pi.get_flag("host")
    bench.bound()
    assert "there" == bench.pi.get_flag("--host")
    assert bench.pi.get_flag("other") is None


def test_flags_of_the_command_line_are_matched_after_loading() -> None:
    bench = Bench()
    bench.pi.flag("plan")
    bench.pi.flag("host", type=str)
    given = [GivenFlag("plan", "hello", True), GivenFlag("host", "a", True), GivenFlag("host"), GivenFlag("plam")]
    matched = match_flags(given, flags_of([bench.extension]))
    assert {"plan": True, "host": "a"} == matched.values
    assert ["Option --host needs a value", "Unknown option: --plam (did you mean --plan?)"] == matched.errors
    assert [0] == matched.given_back


@pytest.mark.parametrize(
    ("value", "expected", "errors"),
    [
        (None, True, []),
        ("true", True, []),
        ("false", False, []),
        ("no", None, ["Option --plan takes no value but =true or =false"]),
    ],
)
def test_a_boolean_flag_takes_no_value_but_true_or_false(
    value: str | None, expected: bool | None, errors: list[str]
) -> None:
    bench = Bench()
    bench.pi.flag("plan", type="boolean", default=False)
    matched = match_flags([GivenFlag("plan", value)], flags_of([bench.extension]))

    assert (expected, errors, []) == (matched.values.get("plan"), matched.errors, matched.given_back)


def test_providers_wait_for_the_session() -> None:
    bench = Bench()
    bench.pi.register_provider("a", ProviderConfig(base_url="http://x", api="openai-completions"))
    bench.pi.register_provider("b", base_url="http://y")
    bench.pi.register_provider("c", {"baseUrl": "http://z"})
    bench.pi.unregister_provider("b")
    assert [
        ("a", {"baseUrl": "http://x", "api": "openai-completions"}),
        ("c", {"baseUrl": "http://z"}),
    ] == bench.extension.providers
    host = bench.bound()
    bench.pi.register_provider("d", base_url="http://d")
    bench.pi.unregister_provider("a")
    assert [
        ("register_provider", "/x/gate.py", "d", {"baseUrl": "http://d"}),
        ("unregister_provider", "a"),
    ] == host.asked
    for wrong in ({"base_url": "x"}, {"nonsense": 1}):
        with pytest.raises(TypeError, match="there is no field"):
            bench.pi.register_provider("x", wrong)
    assert "sk-1" not in repr(ProviderConfig(api_key="sk-1"))


def test_unavailable_features_raise_not_available() -> None:
    pi = Bench().pi
    for refused in (pi.register_virtual_model, pi.unregister_virtual_model):
        with pytest.raises(NotAvailableError, match="virtual models are not available"):
            refused("x")


def test_mcp_servers_are_registered_by_name_and_checked_at_once() -> None:
    bench = Bench()
    bench.pi.register_mcp_server("a", {"command": "x", "args": ["y"]})
    host = bench.bound()
    bench.pi.register_mcp_server("a", {"url": "https://example.com/mcp"})
    assert bench.extension.mcp_servers == {"a": {"url": "https://example.com/mcp"}}
    bench.pi.unregister_mcp_server("a")
    bench.pi.unregister_mcp_server("none")
    assert host.asked == [("mcp_servers_changed",), ("mcp_servers_changed",)]
    for name, config in (("a b", {"command": "x"}), ("a", {}), ("a", {"command": "x", "timeout": 0})):
        with pytest.raises(ValueError, match="server"):
            bench.pi.register_mcp_server(name, config)
    with pytest.raises(TypeError, match="server None: name must be of type str"):
        bench.pi.publish_mcp_servers([{}])


ACTIONS: list[Callable[[ExtensionAPI], object]] = [
    lambda pi: pi.send_message("t", "hello"),
    lambda pi: pi.send_user_message("hello"),
    lambda pi: pi.append_entry("t"),
    lambda pi: pi.session_name,
    lambda pi: pi.set_session_name("n"),
    lambda pi: pi.set_label("e", "l"),
    lambda pi: pi.get_active_tools(),
    lambda pi: pi.get_all_tools(),
    lambda pi: pi.set_active_tools(["read"]),
    lambda pi: pi.get_commands(),
    lambda pi: pi.get_thinking_level(),
    lambda pi: pi.set_thinking_level("low"),
    lambda pi: pi.get_settings(),
    lambda pi: pi.background,
]


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_waits_for_the_session_and_ends_with_it(action: Callable[[ExtensionAPI], object]) -> None:
    bench = Bench()
    with pytest.raises(ExtensionLoadingError, match="session_start"):
        action(bench.pi)
    bench.bound()
    action(bench.pi)
    bench.generation.end("it was reloaded")
    with pytest.raises(StaleContextError, match=r"it was reloaded.*with_session"):
        action(bench.pi)
    failed = Bench()
    failed.extension.discard("failed")
    with pytest.raises(ExtensionFailedError):
        action(failed.pi)


def test_nothing_can_be_registered_with_a_dead_api() -> None:
    """A failed one, and a stale one."""
    for bench in (Bench(), Bench()):
        decorator = bench.pi.on("agent_end")
        if bench.generation.reason == "":
            bench.extension.discard("failed")
        registrations: list[Callable[[ExtensionAPI], object]] = [
            lambda pi: pi.on("agent_end", lambda ctx, event: None),
            lambda pi: pi.register_tool(ToolDefinition("x", "d", {"type": "object"}, gate)),
            lambda pi: pi.register_command("x", lambda ctx, args: None),
            lambda pi: pi.flag("x"),
            lambda pi: pi.register_provider("x"),
            lambda pi: pi.events.emit("x"),
            lambda pi: pi.get_flag("x"),
        ]
        for register in registrations:
            with pytest.raises((ExtensionFailedError, StaleContextError)):
                register(bench.pi)
        with pytest.raises(ExtensionFailedError):
            decorator(lambda ctx, event: None)


def test_messages_are_passed_on_in_wire_spelling() -> None:
    bench = Bench()
    host = bench.bound()
    bench.pi.send_message("note", "hello", False, {"a": 1}, deliver_as="follow_up", trigger_turn=True)
    bench.pi.send_user_message([{"type": "text", "text": "x"}], deliver_as="steer", expand=True)
    assert [
        ("send_message", ("note", "hello", False, {"a": 1}), {"deliver_as": "followUp", "triggers_turn": True}),
        ("send_user_message", [{"type": "text", "text": "x"}], {"deliver_as": "steer", "expands": True}),
    ] == host.asked
    with pytest.raises(ValueError, match="deliver_as is steer, follow_up or next_turn"):
        bench.pi.send_message("t", "x", deliver_as="later")
    with pytest.raises(TypeError, match="content must be"):
        bench.pi.send_user_message(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="custom_type must be"):
        bench.pi.send_message("", "x")


async def test_actions_reach_the_host() -> None:
    bench = Bench()
    host = bench.bound(
        append_entry="id", session_name="n", active_tools=["read"], settings={"a": 1}, thinking_level="low"
    )
    assert "id" == bench.pi.append_entry("state", {"a": 1})
    bench.pi.session_name = "n"
    assert "n" == bench.pi.get_session_name()
    bench.pi.set_label("e")
    assert ["read"] == bench.pi.get_active_tools()
    bench.pi.set_active_tools(["read", "x"])
    assert {"a": 1} == bench.pi.get_settings()
    bench.pi.set_thinking_level("high")
    assert "low" == bench.pi.get_thinking_level()
    assert await bench.pi.set_model(cast("ev.ModelSelect", {}))  # type: ignore[arg-type]
    assert ("set_active_tools", ("read", "x")) in host.asked
    with pytest.raises(ValueError, match="there is no thinking level 'huge'"):
        bench.pi.set_thinking_level("huge")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a list of names"):
        bench.pi.set_active_tools("read")


async def test_actions_of_a_worker_thread_are_done_in_the_thread_of_trio() -> None:
    bench = Bench()
    host = bench.bound(append_entry="id")
    assert "id" == await trio.to_thread.run_sync(bench.pi.append_entry, "state")
    assert {threading.get_ident()} == host.threads


def test_background_is_the_instances() -> None:
    bench = Bench()
    bench.bound()
    bench.pi.background.start_soon(trio.sleep, 1)
    assert [(trio.sleep, 1)] == cast("Tasks", bench.pi.background).started


def test_an_extension_knows_its_file_and_has_a_log() -> None:
    pi = Bench().pi
    assert Path("/x/gate.py") == pi.path
    assert "pinnace.extension.gate" == pi.log.name
