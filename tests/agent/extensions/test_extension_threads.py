"""What an extension can reach works from any thread, or raises there at once.

The table names every public member that an author can reach. One that is neither handed to the event loop's thread, nor
refused outside it, nor listed here with the reason why it needs neither, fails the test: it has no decision yet.
"""

import inspect
import threading
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest
import trio
from tests.agent.extensions.conftest import MODEL

import pinnace.extensions
from pinnace_agent.config.credentials.logins import LoginCallbacks
from pinnace_agent.config.credentials.loopback_redirect import Redirect
from pinnace_agent.core.loop_thread import (
    DECISION,
    LoopEndedError,
    LoopThread,
    NotAwaitedError,
    WrongThreadError,
    usable_from_any_thread,
)
from pinnace_agent.extension_host.session_changes import Writer
from pinnace_agent.extension_host.view import RegistryFacts
from pinnace_agent.extensions.api.api import ExtensionAPI
from pinnace_agent.extensions.api.base import Services
from pinnace_agent.extensions.api.contexts import (
    CommandContext,
    CommandWork,
    Context,
    ReplacedContext,
    Room,
    RunScope,
    ToolContext,
    TrustContext,
)
from pinnace_agent.extensions.api.session_reader import SessionReader
from pinnace_agent.extensions.api.subscribing import Subscription
from pinnace_agent.extensions.api.terminal_texts import Theme
from pinnace_agent.extensions.api.tool_state import ToolState
from pinnace_agent.extensions.api.user_interface import RpcUserInterface, UserInterface
from pinnace_agent.extensions.providers.login import DialogCallbacks
from pinnace_agent.extensions.registration.flags import FlagValues
from pinnace_agent.extensions.registration.registrations import ToolDefinition
from pinnace_agent.extensions.registration.stream_requests import StreamOptions
from pinnace_agent.extensions.runtime.instances import Instance
from pinnace_agent.extensions.services.bus import EventBus, ExtensionBus
from pinnace_agent.llm.request import LlmRequest

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig

REACHABLE: tuple[type, ...] = (
    Context,
    ToolContext,
    CommandContext,
    ReplacedContext,
    TrustContext,
    RunScope,
    Room,
    UserInterface,
    RpcUserInterface,
    SessionReader,
    ExtensionAPI,
    ExtensionBus,
    Instance,
    RegistryFacts,
    Writer,
    Theme,
    ToolState,
    Subscription,
    StreamOptions,
    DialogCallbacks,
    Redirect,
)
# What authors know by its protocol alone.
IMPLEMENTED: dict[type, type] = {LoginCallbacks: DialogCallbacks}
PURE = "values and functions of them: nothing of the event loop is touched"
# What needs neither, and why.
FREE: dict[tuple[str, str], str] = {
    **{("Theme", name): PURE for name in "plain name fg bg bold italic underline inverse strikethrough".split()},
    ("TrustContext", "cwd"): PURE,
    ("TrustContext", "mode"): PURE,
    ("TrustContext", "has_ui"): PURE,
    ("TrustContext", "ui"): "the interface decides for itself",
    ("ToolContext", "tool_call_id"): PURE,
    ("ExtensionAPI", "path"): PURE,
    ("ExtensionAPI", "log"): "loggers may be used in any thread",
    ("ExtensionAPI", "tool"): "reads the caller's frame, and registers by register_tool",
    ("ExtensionAPI", "command"): "registers by register_command",
    **{
        ("StreamOptions", name): PURE
        for name in "api_key headers max_tokens session_id thinking_budgets thinking_level".split()
    },
    ("ToolState", "value"): "the author's own value",
    ("ToolState", "details"): "the author's own value",
    ("ToolState", "read"): "reads by the context it is given",
    ("Instance", "start_soon"): "starts by start_task",
    ("Instance", "start_task"): "hands itself over: tested below",
    ("Instance", "is_at_work"): PURE,
    ("Instance", "queue"): "called by the agent alone",
    ("Instance", "run"): "called by the agent alone",
}
# Names that authors import: what is callable among them, and no class of data.
FREE_FUNCTIONS = {
    "Completion": PURE,
    "agent_dir": PURE,
    "complete": "a coroutine function: what it takes from the context is refused outside the loop",
    "file_mutation": "an asynchronous context manager: it can't be entered outside a loop",
    "format_size": PURE,
    "get_language_from_path": PURE,
    "highlight_code": PURE,
    "key_hint": PURE,
    "key_text": PURE,
    "loopback_redirect": "an asynchronous context manager: it can't be entered outside a loop",
    "message_text": PURE,
    "pkce": PURE,
    "raw_key_hint": PURE,
    "resolve_path": PURE,
    "serialize_conversation": PURE,
    "truncate_head": PURE,
    "truncate_line": PURE,
    "truncate_tail": PURE,
    "visible_line": PURE,
    "visible_lines": PURE,
}


class Member(NamedTuple):
    """One public member of a class that an author can reach."""

    owner: type
    name: str

    @property
    def decision(self) -> str | None:
        static = inspect.getattr_static(self.owner, self.name)
        function = static.fget if isinstance(static, property) else static
        return getattr(function, DECISION, None)


MEMBERS = [Member(owner, name) for owner in REACHABLE for name in dir(owner) if not name.startswith("_")]
IN_THE_LOOP = [each for each in MEMBERS if each.decision == "loop"]
AWAITED = [each for each in MEMBERS if each.decision == "awaited"]


def test_every_member_that_an_author_can_reach_has_a_decision_for_threads() -> None:
    undecided = [(each.owner.__name__, each.name) for each in MEMBERS if each.decision is None]
    assert sorted(FREE) == sorted(undecided)
    assert {"loop", "awaited", None} >= {each.decision for each in MEMBERS}


def test_every_name_that_authors_import_has_a_decision_for_threads() -> None:
    """A class among them is data, an exception, or one of the classes above."""
    functions: set[str] = set()
    for name in pinnace.extensions.__all__:
        value = getattr(pinnace.extensions, name)
        if inspect.isfunction(value):
            functions.add(name)
        elif (
            inspect.isclass(value)
            and IMPLEMENTED.get(value, value) not in REACHABLE
            and not issubclass(value, BaseException)
        ):
            active = [each for each, member in vars(value).items() if inspect.iscoroutinefunction(member)]
            assert active == [], f"{name} has to be among the classes above"
    assert sorted(functions) == sorted(set(FREE_FUNCTIONS) - {"Completion"})


# How each is called; those that are not here are called with nothing, or read.
ARGUMENTS: dict[str, tuple[object, ...]] = {
    "abort": (),
    "append_custom": ("note", 1),
    "append_entry": ("note",),
    "append_message": ({"role": "user", "content": "x", "timestamp": 1},),
    "bind": (),
    "compact": (),
    "emit": ("channel", 1),
    "call_renderer": ("note",),
    "add_autocomplete_provider": (print,),
    "add_text_provider": (print,),
    "entry_renderer": ("note",),
    "find": ("p", "m"),
    "flag": ("plan",),
    "get_branch": (),
    "get_entry": ("e0",),
    "get_flag": ("plan",),
    "get_label": ("e0",),
    "get_theme": ("dark",),
    "message_renderer": ("note",),
    "notify": ("shown",),
    "on_auth": ("https://login.example",),
    "on_device_code": ("CODE", "https://login.example"),
    "on_progress": ("waiting",),
    "on_terminal_input": (print,),
    "on": ("agent_start", lambda *_: None),
    "paste_to_editor": ("text",),
    "provider_for": (MODEL,),
    "publish_mcp_servers": ((),),
    "read": ("pasted",),
    "result_renderer": ("note",),
    "register_command": ("there", lambda ctx, args: None),
    "register_provider": ("p", {"baseUrl": "http://127.0.0.1"}),
    "unregister_command": ("there",),
    "unregister_tool": ("extra",),
    "register_tool": (ToolDefinition("extra", "does it", {"type": "object"}, lambda ctx, params: "done"),),
    "send_message": ("note", "text"),
    "send_user_message": ("text",),
    "set_active_tools": (["bash"],),
    "set_editor_text": ("text",),
    "set_label": ("e0", "here"),
    "set_name": ("named",),
    "set_session_name": ("named",),
    "set_status": ("key", "text"),
    "set_theme": ("dark",),
    "set_thinking_level": ("off",),
    "set_title": ("title",),
    "set_tools_expanded": (True,),
    "set_widget": ("key", ["line"]),
    "set_working_visible": (True,),
    "shortcut": ("ctrl+x",),
    "tool_renderer": (print,),
    "tool_state": ("bash", dict),
    "unregister_provider": ("p",),
    "update": ("partial",),
}
# Refused wherever they are called: the original has them, this program has not.
REFUSED = ("mcp_server", "virtual_model")


class Objects:
    """One living object of each class, in a session of the tests."""

    def __init__(self, rig: "Rig", tmp_path: object) -> None:
        rig.host.session.append("first")
        extension = rig.extension("author")
        self.runner = rig.runner()
        binding = self.runner._binding  # pyright: ignore[reportPrivateUsage]
        path = extension.path
        scope = trio.CancelScope()
        services = Services(EventBus(rig.generation, lambda line: None), FlagValues({}), lambda: [extension], "/")
        api = ExtensionAPI(extension, services)
        api.bind(self.runner.actions, self.runner.instances[extension])
        self.frames = rig.host.frames
        self.by_class: dict[type, object] = {
            Context: Context(binding, path),
            ToolContext: ToolContext(binding, path, "call-1", scope, lambda partial: None, trio.lowlevel.checkpoint),
            CommandContext: CommandContext(binding, path, CommandWork(scope)),
            ReplacedContext: ReplacedContext(binding, path, CommandWork(scope)),
            RunScope: RunScope(scope, None, rig.generation.thread),
            UserInterface: UserInterface(rig.generation),
            RpcUserInterface: binding.ui,
            SessionReader: binding.session,
            ExtensionAPI: api,
            ExtensionBus: api.events,
            RegistryFacts: RegistryFacts(cast("Any", rig.host.registry)),
            Writer: Writer(cast("Any", Kept())),
            StreamOptions: StreamOptions(LlmRequest(MODEL, "", (), (), "off", "key", {}, "s1"), {}),
            DialogCallbacks: DialogCallbacks(binding.ui, "Provider"),
            Redirect: Redirect("http://127.0.0.1/callback", "/callback"),
        }
        self.api = api


class Kept:
    """Stands for a new session under `setup`."""

    name: str | None = None

    class tree:
        leaf = 0
        entries = ({"id": "e1"},)

    def keep(self, message: object) -> None: ...

    def keep_custom(self, custom_type: str, data: object) -> dict[str, object]:
        return {"id": "e1"}


async def in_a_worker(function: Callable[[], object]) -> object:
    return await trio.to_thread.run_sync(function)


async def in_a_thread(function: Callable[[], object]) -> object:
    """In a thread that trio knows nothing of."""
    outcome: list[object] = []
    ended = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def work() -> None:
        try:
            outcome.append(function())
        except BaseException as error:
            outcome.append(error)
        token.run_sync_soon(ended.set)

    threading.Thread(target=work, daemon=True).start()
    await ended.wait()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


THREADS = pytest.mark.parametrize("elsewhere", [in_a_worker, in_a_thread])
Elsewhere = Callable[[Callable[[], object]], Awaitable[object]]


def used(target: object, member: Member) -> object:
    value = getattr(target, member.name)
    static = inspect.getattr_static(member.owner, member.name)
    return value if isinstance(static, property) else value(*ARGUMENTS.get(member.name, ()))


@THREADS
async def test_all_that_is_not_awaited_is_done_in_the_loop_from_any_thread(
    rig: "Rig", tmp_path: object, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = Objects(rig, tmp_path)
    handed = watched(monkeypatch)
    async with rig.running(objects.runner):
        for member in IN_THE_LOOP:
            if member.name == "bind" or member.name.endswith(REFUSED) or member.name == "get_mcp_servers":
                continue
            handed.clear()
            await elsewhere(partial(used, objects.by_class[member.owner], member))
            assert handed == [True], f"{member.owner.__name__}.{member.name}"
    assert rig.host.reported == []


def watched(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note of each call that is handed over whether it is done in this thread."""
    handed: list[bool] = []
    home = threading.get_ident()
    call = LoopThread.call

    def noting(self: LoopThread, function: Callable[[], object]) -> object:
        def there() -> object:
            if not depth:
                handed.append(threading.get_ident() == home)
            depth.append(1)
            try:
                return function()
            finally:
                depth.pop()

        return call(self, there)

    depth: list[int] = []
    monkeypatch.setattr(LoopThread, "call", noting)
    return handed


@THREADS
async def test_an_async_method_raises_at_once_in_another_thread(
    rig: "Rig", tmp_path: object, elsewhere: Elsewhere
) -> None:
    """A coroutine that is never awaited is true: an approval hook must not read it as approval."""
    objects = Objects(rig, tmp_path)
    async with rig.running(objects.runner):
        for member in AWAITED:
            method = getattr(objects.by_class[member.owner], member.name)
            with pytest.raises(WrongThreadError, match=f"{member.name} is awaited"):
                await elsewhere(method)


def test_what_an_async_method_returns_is_neither_yes_nor_no() -> None:
    """A hook that forgets to await must not take it for an answer; nor may it for those of free functions."""

    class Stub:
        __loop_thread__ = LoopThread()

    functions: list[tuple[str, Any, tuple[object, ...]]] = [
        (each.name, getattr(each.owner, each.name), (Stub(),)) for each in AWAITED
    ]
    functions.append(("complete", pinnace.extensions.complete, ()))
    for name, function, given in functions:
        required = [
            each
            for each in list(inspect.signature(function).parameters.values())[len(given) :]
            if each.default is each.empty and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        ]
        call = function(*given, *(None for _ in required))
        try:
            with pytest.raises(NotAwaitedError, match=rf"{name}\(\) must be awaited"):
                bool(call)
        finally:
            call.close()


async def test_an_async_method_can_be_called_from_a_worker_thread(rig: "Rig", tmp_path: object) -> None:
    objects = Objects(rig, tmp_path)
    context = cast("CommandContext", objects.by_class[CommandContext])
    async with rig.running(objects.runner):
        await trio.to_thread.run_sync(trio.from_thread.run, context.wait_for_idle)
    assert ("wait_for_idle",) in rig.host.asked


@THREADS
async def test_subscriptions_and_tasks_begin_and_end_from_any_thread(
    rig: "Rig", tmp_path: object, elsewhere: Elsewhere
) -> None:
    objects = Objects(rig, tmp_path)
    places: list[int] = []
    done = trio.Event()

    def note(*_: object) -> None:
        places.append(threading.get_ident())

    async def background() -> None:
        note()
        done.set()

    def work() -> Iterator[object]:
        pi = objects.api
        off = pi.on("agent_start", note)
        stop = pi.events.on("channel", note)
        pi.events.emit("channel", 1)
        stop()
        pi.events.emit("channel", 2)
        off()
        pi.background.start_soon(background)
        return iter(())

    async with rig.running(objects.runner):
        await elsewhere(work)
        await done.wait()
    assert [threading.get_ident()] * 2 == places
    assert "agent_start" not in rig.extensions[0].handlers


@THREADS
async def test_a_context_for_threads_asks_from_any_thread(rig: "Rig", elsewhere: Elsewhere) -> None:
    """The context that a function with thread=True has got, in a thread which that function has started."""
    contexts: list[Context] = []

    def handler(ctx: Context, _event: object) -> None:
        contexts.append(ctx)

    rig.on("agent_start", handler, in_thread=True)
    async with rig.running() as runner:
        await runner.chains.notify("agent_start", rig.started)
        [ctx] = contexts
        assert "/work/place" == str(await elsewhere(lambda: ctx.cwd))
        answered = await elsewhere(lambda: ctx.model_registry.api_key_and_headers(ctx.model_registry.all()[0]))
        assert ("key", {}) == answered
        # In the loop it is as good as the context itself.
        assert "/work/place" == str(ctx.cwd)
        assert ("key", {}) == await ctx.model_registry.api_key_and_headers(ctx.model_registry.all()[0])


async def test_a_thread_that_outlives_the_loop_gets_an_error() -> None:
    @usable_from_any_thread()
    class Bound:
        def __init__(self) -> None:
            self.thread = LoopThread()

        @property
        def __loop_thread__(self) -> LoopThread:
            return self.thread

        def work(self) -> int:
            return 1

    made: list[Bound] = []

    async def make() -> None:
        made.append(Bound())

    def in_a_loop_of_its_own() -> None:
        trio.run(make)

    thread = threading.Thread(target=in_a_loop_of_its_own)
    thread.start()
    await trio.to_thread.run_sync(thread.join)
    with pytest.raises(LoopEndedError, match="the process is ending"):
        await in_a_worker(made[0].work)
