"""Dialogs: each ends once, by its answer, its time, a cancellation or the end of those who could answer."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from pinnace_agent.extensions.dialogs import DialogTable
from pinnace_agent.extensions.registrations import Generation, StaleContextError
from pinnace_agent.extensions.user_interface import RpcUserInterface, ThemeResult, UserInterface
from pinnace_spec.ui_requests import AnyUiRequest

if TYPE_CHECKING:
    from tests.agent.conftest import Rig

    from pinnace_agent.extensions.contexts import Context

Frame = Mapping[str, object]


class Desk:
    """An interface, its frames, and a client that answers."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.spans: list[tuple[str, str, str]] = []
        self.generation = Generation()
        self.table = DialogTable(self.frames.append, lambda *span: self.spans.append(span))
        self.ui = RpcUserInterface(self.generation, self.table, self.frames.append)

    async def asked(self) -> Frame:
        await trio.testing.wait_all_tasks_blocked()
        return self.frames[-1]

    async def reply(self, **fields: object) -> bool:
        frame = await self.asked()
        return self.table.answer({"type": "extension_ui_response", "id": frame["id"], **fields})


@pytest.fixture
def desk() -> Desk:
    return Desk()


async def ask(function: Callable[[], object], answers: list[object]) -> None:
    answer = function()
    assert hasattr(answer, "__await__")
    answers.append(await answer)


async def test_a_choice_is_asked_for_in_a_frame_and_given_to_who_asked(desk: Desk) -> None:
    answers: list[object] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: desk.ui.select("Which?", ["a", "b"], timeout=2.5), answers)
        frame = dict(await desk.asked())
        await desk.reply(value="b")

    assert ["b"] == answers
    assert len(str(frame.pop("id"))) == 36
    expected = {"type": "extension_ui_request", "method": "select", "title": "Which?", "options": ["a", "b"]}
    assert expected | {"timeout": 2500} == frame


@pytest.mark.parametrize(
    ("question", "reply", "expected"),
    [
        (lambda ui: ui.confirm("T", "M"), {"confirmed": True}, True),
        (lambda ui: ui.confirm("T", "M"), {"confirmed": False}, False),
        (lambda ui: ui.confirm("T", "M"), {"cancelled": True}, False),
        (lambda ui: ui.confirm("T", "M"), {"confirmed": True, "cancelled": True}, False),
        (lambda ui: ui.confirm("T", "M"), {"value": "yes"}, False),
        (lambda ui: ui.confirm("T", "M"), {"confirmed": 1}, False),
        (lambda ui: ui.select("T", ["a"]), {"value": "a"}, "a"),
        (lambda ui: ui.select("T", ["a"]), {"value": "z"}, None),
        (lambda ui: ui.select("T", ["a"]), {"value": ["a"]}, None),
        (lambda ui: ui.select("T", ["a"]), {"confirmed": True}, None),
        (lambda ui: ui.input("T", "P"), {"value": ""}, ""),
        (lambda ui: ui.input("T"), {}, None),
        (lambda ui: ui.editor("T", "text"), {"value": "more\ntext"}, "more\ntext"),
        (lambda ui: ui.editor("T"), {"cancelled": True}, None),
    ],
)
async def test_an_answer_of_the_wrong_kind_counts_as_cancelled(
    desk: Desk, question: Callable[[UserInterface], object], reply: Frame, expected: object
) -> None:
    """R-UI-01"""
    answers: list[object] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: question(desk.ui), answers)
        assert await desk.reply(**reply)

    assert [expected] == answers
    assert 0 == len(desk.table)


@pytest.mark.parametrize("request_id", ["unknown", None, 3, ["x"], {}])
async def test_an_answer_that_no_dialog_waits_for_is_dropped(desk: Desk, request_id: object) -> None:
    """R-UI-01"""
    assert not desk.table.answer({"type": "extension_ui_response", "id": request_id, "value": "a"})
    assert not desk.table.answer({})


async def test_a_dialog_has_its_default_after_its_time_and_a_late_answer_is_dropped(
    desk: Desk, autojump_clock: trio.testing.MockClock
) -> None:
    assert (await desk.ui.confirm("Sure?", "Really?", timeout=5)) is False

    assert not desk.table.answer({"id": desk.frames[0]["id"], "confirmed": True})


async def test_the_time_of_a_dialog_is_its_own(desk: Desk, autojump_clock: trio.testing.MockClock) -> None:
    begun = trio.current_time()
    answers: list[object] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: desk.ui.select("1", ["a"], timeout=3), answers)
        nursery.start_soon(ask, lambda: desk.ui.confirm("2", timeout=1), answers)

    assert [False, None] == answers
    assert 3 == trio.current_time() - begun


async def test_cancelling_who_asks_goes_on_as_a_cancellation_and_leaves_no_dialog(desk: Desk) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, lambda: desk.ui.confirm("Sure?"), [])
            frame = await desk.asked()
            scope.cancel()

    assert scope.cancelled_caught
    assert not desk.table.answer({"id": frame["id"], "confirmed": True})


async def test_who_is_cancelled_already_asks_nothing(desk: Desk) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await desk.ui.confirm("Sure?")

    assert scope.cancelled_caught
    assert [] == desk.frames


async def test_closing_gives_every_open_dialog_its_default_at_once(desk: Desk) -> None:
    answers: list[object] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: desk.ui.select("1", ["a"]), answers)
        nursery.start_soon(ask, lambda: desk.ui.confirm("2"), answers)
        nursery.start_soon(ask, lambda: desk.ui.editor("3"), answers)
        await desk.asked()
        assert 3 == desk.table.close_all()

    assert sorted([None, False, None], key=str) == sorted(answers, key=str)
    assert 0 == len(desk.table)


async def test_after_an_abort_it_can_be_asked_again(desk: Desk) -> None:
    desk.table.close_all()
    answers: list[object] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: desk.ui.confirm("Sure?"), answers)
        await desk.reply(confirmed=True)

    assert [True] == answers


async def test_when_nobody_can_answer_any_more_nothing_is_asked(desk: Desk) -> None:
    """What is shown still goes to a client that reads, although it has closed stdin."""
    desk.table.close_all(for_good="the client is gone")

    assert (await desk.ui.confirm("Sure?")) is False
    desk.ui.notify("goodbye")
    assert ["notify"] == [each["method"] for each in desk.frames]


async def test_several_dialogs_are_told_apart_by_their_ids(desk: Desk) -> None:
    """R27"""
    answers: dict[str, object] = {}

    async def one(name: str) -> None:
        answers[name] = await desk.ui.input(name)

    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(one, name)
        await desk.asked()
        for frame in reversed(desk.frames):
            desk.table.answer({"id": frame["id"], "value": f"for {frame['title']}"})

    assert {name: f"for {name}" for name in "abc"} == answers


async def test_overlapping_dialogs_are_one_span(desk: Desk) -> None:
    """E30"""
    answers: list[object] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: desk.ui.confirm("first"), answers)
        first = await desk.asked()
        nursery.start_soon(ask, lambda: desk.ui.input("second"), answers)
        await desk.asked()
        desk.table.answer({"id": first["id"], "confirmed": True})
        await trio.testing.wait_all_tasks_blocked()
        assert [("start", "confirm", "first")] == desk.spans
        await desk.reply(value="x")

    assert [("start", "confirm", "first"), ("end", "confirm", "first")] == desk.spans


@pytest.mark.parametrize("timeout_s", [0, -1])
async def test_a_dialog_without_time_is_not_asked(desk: Desk, timeout_s: float) -> None:
    assert (await desk.ui.confirm("Sure?", timeout=timeout_s)) is False
    assert [] == desk.frames


async def test_a_dialog_says_which_call_it_is_about(desk: Desk) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: desk.ui.confirm("Run it?", tool_call_id="call-1"), [])
        frame = await desk.asked()
        desk.table.close_all()

    assert "call-1" == frame["toolCallId"]


def test_what_is_shown_are_the_frames_of_the_protocol(desk: Desk) -> None:
    from pydantic import TypeAdapter

    ui = desk.ui
    ui.notify("done")
    ui.notify("careful", "warning")
    ui.set_status("k", "busy")
    ui.set_status("k")
    ui.set_widget("w", ["1", "2"], "belowEditor")
    ui.set_widget("w")
    ui.set_widget("w", lambda *_: None)
    ui.set_title("T")
    ui.set_editor_text("E")
    ui.paste_to_editor("P")
    shown = [{key: value for key, value in frame.items() if key not in ("type", "id")} for frame in desk.frames]

    assert shown == [
        {"method": "notify", "message": "done"},
        {"method": "notify", "message": "careful", "notifyType": "warning"},
        {"method": "setStatus", "statusKey": "k", "statusText": "busy"},
        {"method": "setStatus", "statusKey": "k"},
        {"method": "setWidget", "widgetKey": "w", "widgetLines": ["1", "2"], "widgetPlacement": "belowEditor"},
        {"method": "setWidget", "widgetKey": "w"},
        {"method": "setTitle", "title": "T"},
        {"method": "set_editor_text", "text": "E"},
        {"method": "set_editor_text", "text": "P"},
    ]
    adapter: TypeAdapter[object] = TypeAdapter(AnyUiRequest)
    assert 9 == len([adapter.validate_python(frame) for frame in desk.frames])
    assert 9 == len({frame["id"] for frame in desk.frames})


@pytest.mark.parametrize("has_client", [True, False])
async def test_what_needs_a_terminal_does_as_little_as_the_original_does(desk: Desk, has_client: bool) -> None:
    """U11 to U20"""
    ui = desk.ui if has_client else UserInterface(desk.generation)
    ui.set_working_message("m")
    ui.set_working_visible(visible=True)
    ui.set_working_indicator()
    ui.set_hidden_thinking_label("l")
    ui.set_footer(None)
    ui.set_header(None)
    ui.set_editor_component(None)
    ui.add_autocomplete_provider(object())
    ui.set_tools_expanded(expanded=True)
    ui.on_terminal_input(print)()
    for nothing in (ui.get_editor_component, lambda: ui.get_theme("x")):
        assert nothing() is None
    await ui.custom(lambda: None)

    assert ("", [], False) == (ui.get_editor_text(), ui.get_all_themes(), ui.get_tools_expanded())
    text = "Theme switching not supported in RPC mode" if has_client else "UI not available"
    assert ThemeResult(False, text) == ui.set_theme("dark")
    assert "\x1b[31mno\x1b[39m" == ui.theme.fg("error", "no")
    assert "no" == ui.theme.plain.bold(ui.theme.plain.fg("error", "no"))
    assert [] == desk.frames


async def test_without_a_client_every_question_has_its_refusing_answer() -> None:
    ui = UserInterface(Generation())

    answers = [await ui.select("T", ["a"]), await ui.confirm("T"), await ui.input("T"), await ui.editor("T")]
    assert [None, False, None, None] == answers
    ui.notify("x")
    ui.set_status("k", "v")


async def test_an_interface_that_was_kept_raises_when_its_session_is_over(desk: Desk) -> None:
    desk.generation.end("the session was replaced by a new one")

    with pytest.raises(StaleContextError, match="with_session"):
        desk.ui.notify("hello")
    with pytest.raises(StaleContextError):
        await desk.ui.confirm("Sure?")
    with pytest.raises(StaleContextError):
        _ = desk.ui.theme


@pytest.mark.parametrize("options", ["abc", [1], [None]])
async def test_options_that_are_no_texts_are_refused(desk: Desk, options: list[str]) -> None:
    with pytest.raises(TypeError, match="texts"):
        await desk.ui.select("T", options)


async def test_a_dialog_that_is_open_when_the_session_ends_has_its_default_and_leaves_no_handler(rig: "Rig") -> None:
    answers: list[object] = []

    async def handler(ctx: "Context", _event: object) -> None:
        answers.append(await ctx.ui.confirm("Sure?"))

    rig.on("agent_start", handler)
    async with rig.running() as runner, trio.open_nursery() as nursery:
        nursery.start_soon(runner.chains.notify, "agent_start", rig.started)
        await trio.testing.wait_all_tasks_blocked()
        assert 1 == len(runner.dialogs)
        await runner.shutdown("new")

    assert [False] == answers
    assert [] == rig.host.errors
