"""`--tool-approval`: what is asked, what is blocked, and that every failure blocks."""

import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.approval.gate import ToolApproval
from pinnace_agent.approval.question import ExaminedCall, TooLongError, examine, outside_question, question
from pinnace_agent.extensions.services.dialogs import DialogTable
from pinnace_agent.files.protected import STARTUP_OF_PROJECT, Places
from pinnace_agent.tools.base import Tool, ToolContext, ToolError
from pinnace_agent.tools.paths import resolve_path
from pinnace_agent.tools.registry import ToolRegistry, all_active
from pinnace_spec.records.messages import APPROVAL_MODES, ApprovalMode

BUILT_IN = ("read", "bash", "edit", "write", "grep", "find", "ls")


class Named:
    """A tool of a name; no call is executed here."""

    label = "does it"
    parameters: ClassVar[Mapping[str, object]] = {}
    prompt_snippet = None
    guidelines = ()
    is_sequential = False
    checks_itself = False

    def __init__(self, name: str, description: str | None = None) -> None:
        self.name = name
        self.description = description or "does it"


class Frames(list[Mapping[str, object]]):
    """Records for the client, with an event for the first and one, to be replaced, for new ones."""

    def __init__(self) -> None:
        super().__init__()
        self.first = trio.Event()
        self.more = trio.Event()

    def append(self, frame: Mapping[str, object]) -> None:
        super().append(frame)
        self.first.set()
        self.more.set()


class Conversation:
    """A session."""


class Agent:
    """An agent with tools, whose calls are approved; it is its own session, extensions and emitter."""

    dialogs: DialogTable | None = None

    def __init__(self, folder: Path, mode: ApprovalMode, timeout_s: float | None, *, has_user: bool) -> None:
        self.folder = folder
        self.files = (str(folder / "project/gate.py"),)
        self.cwd = str(folder / "project")
        self.frames = Frames()
        self.read_only: set[str] = set()
        self.hints: dict[str, Mapping[str, bool]] = {}
        self.descriptions: dict[str, str] = {}
        self.toolbox = ToolRegistry({name: cast("Tool", Named(name)) for name in BUILT_IN}, all_active)
        self.session: Any = Conversation()
        self.extensions: Any = self
        self.emitter: Any = self
        self.emit = self.frames.append
        env = {"HOME": str(folder / "home"), "PI_CODING_AGENT_DIR": str(folder / "agent")}
        self.approval = ToolApproval(mode, self, has_user=has_user, timeout_s=timeout_s, env=env)

    def is_read_only(self, tool: Tool) -> bool:
        return tool.name in self.read_only

    def hints_of(self, tool: Tool) -> Mapping[str, bool]:
        return self.hints.get(tool.name, {})

    def answer(self, value: object) -> None:
        self.approval.answer({"id": self.frames[-1]["id"], "value": value})

    async def call(
        self,
        name: str,
        *answers: object,
        on_question: Callable[[], None] = lambda: None,
        bind: Callable[[str], None] | None = None,
        bound_path: str | None = None,
        **arguments: Any,
    ) -> str | None:
        """Return why a call is refused, after one answer after another; `on_question` is called before the first."""
        frames = self.frames
        context = ToolContext(self.cwd, "call-7", lambda _result: None, {}, bound_path=bound_path)
        # A tool that is not built in is one of an extension.
        tool = self.toolbox.all.get(name) or cast("Tool", Named(name, self.descriptions.get(name)))

        async def answer() -> None:
            for number, each in enumerate(answers):
                await frames.more.wait()
                frames.more = trio.Event()
                if number == 0:
                    on_question()
                self.answer(each)

        async with trio.open_nursery() as nursery:
            frames.more = trio.Event()
            nursery.start_soon(answer)
            result = await self.approval.may_call(tool, arguments, context)
            nursery.cancel_scope.cancel()
        if result is None:
            if bind is not None and context.bound_path is not None:
                bind(context.bound_path)
            return None
        assert result.is_error
        assert not result.terminate
        [block] = result.content
        assert block["type"] == "text"
        return block["text"]


Open = Callable[..., Agent]


@pytest.fixture
def gate(tmp_path: Path) -> Open:
    """Return an agent with an approval of a mode."""
    (tmp_path / "project").mkdir()

    def make(mode: ApprovalMode, timeout_s: float | None = None, *, has_user: bool = True) -> Agent:
        return Agent(tmp_path, mode, timeout_s, has_user=has_user)

    return make


async def test_never_has_no_gate(gate: Open) -> None:
    pi = gate("never")
    assert not pi.approval.is_active
    assert None is await pi.call("bash", command="true")


@pytest.mark.parametrize("name", ["read", "grep", "find", "ls"])
@pytest.mark.parametrize("mode", ["ask", "read-only"])
async def test_a_tool_that_changes_nothing_runs_without_a_question(gate: Open, mode: ApprovalMode, name: str) -> None:
    pi = gate(mode)
    assert None is await pi.call(name)
    assert [] == pi.frames


@pytest.mark.parametrize("name", ["bash", "edit", "write", "of_an_extension", "not_there"])
async def test_read_only_denies_other_tools_with_a_reason(gate: Open, name: str) -> None:
    pi = gate("read-only")
    block = await pi.call(name)

    assert block is not None
    assert block.startswith(f"{name} was not run: this session is read-only")


async def test_a_tool_declared_read_only_runs(gate: Open) -> None:
    pi = gate("read-only")
    pi.read_only.add("look")
    assert None is await pi.call("look")


async def test_a_tool_that_only_bears_the_name_of_a_harmless_one_is_not(gate: Open) -> None:
    pi = gate("read-only")
    pi.toolbox.use({"read": cast("Tool", Named("read"))}, ())
    assert None is not await pi.call("read")


async def test_the_question_shows_the_complete_call(gate: Open) -> None:
    pi = gate("ask")
    assert None is await pi.call("bash", "Allow once", command="rm -rf build")
    assert None is await pi.call("write", "Allow once", content="new\x1b[2J", path="a.txt")

    first, second = pi.frames
    title = f"Allow tool: bash\n\ncommand: rm -rf build\n(in {pi.cwd})"
    assert ("select", title) == (first["method"], first["title"])
    assert (["Allow once", "Allow for this session", "Deny"], "call-7") == (first["options"], first["toolCallId"])
    assert ["allow_once", "allow_always", "reject_once"] == first["optionKinds"]
    assert "timeout" not in first
    path = f"{pi.cwd}/a.txt"
    assert f"Allow tool: write\n\npath: {path}\ncontent: new\\u{{1b}}[2J" == second["title"]


@pytest.mark.parametrize("answer", ["Deny", "yes", None, 7, ["Allow once"]])
async def test_nothing_but_yes_is_yes(gate: Open, answer: object) -> None:
    pi = gate("ask")
    block = await pi.call("bash", answer, command="true")

    assert "the user did not approve this call" in str(block)


async def test_yes_is_for_one_call(gate: Open) -> None:
    pi = gate("ask")
    assert None is await pi.call("bash", "Allow once", command="one")
    assert None is not await pi.call("bash", "Deny", command="two")


async def test_yes_for_this_session_is_for_one_tool(gate: Open) -> None:
    pi = gate("ask")
    assert None is await pi.call("bash", "Allow for this session", command="one")
    assert None is await pi.call("bash", "no question", command="two")
    assert None is not await pi.call("write", "Deny", path="a", content="")
    assert 2 == len(pi.frames)


async def test_without_a_user_it_denies_the_call(gate: Open) -> None:
    pi = gate("ask", has_user=False)
    block = await pi.call("bash", command="true")

    assert "there is no user to ask" in str(block)
    assert [] == pi.frames


async def test_silence_blocks(gate: Open, autojump_clock: trio.testing.MockClock) -> None:
    pi = gate("ask", 30)
    assert None is not await pi.call("bash", command="true")
    assert 30_000 == pi.frames[0]["timeout"]


@pytest.mark.parametrize("ending", ["abort", "end of input", "replaced"])
async def test_an_open_question_that_is_ended_blocks(gate: Open, ending: str) -> None:
    pi = gate("ask")
    table = DialogTable(pi.emit)
    if ending == "replaced":
        pi.dialogs = table
    outcome: list[str | None] = []
    async with trio.open_nursery() as nursery:

        async def call() -> None:
            outcome.append(await pi.call("bash", command="true"))

        nursery.start_soon(call)
        await pi.frames.first.wait()  # a thread looks at the arguments before the question
        if ending == "replaced":
            table.close_all(for_good="the session was replaced")
        else:
            pi.approval.default_dialogs(for_good=ending == "end of input")
    assert ["extension_ui_request", "extension_ui_resolved"] == [each["type"] for each in pi.frames]
    assert "the user did not approve this call" in str(outcome[0])


async def test_after_the_end_of_input_no_question_is_asked(gate: Open) -> None:
    pi = gate("ask")
    pi.approval.default_dialogs(for_good=True)

    assert "the user did not approve this call" in str(await pi.call("bash", command="true"))
    assert [] == pi.frames


async def test_an_error_of_the_approval_itself_denies_the_call(gate: Open) -> None:
    pi = gate("ask")
    pi.extensions = None
    del pi.session

    assert "bash was not run: its approval failed" in str(await pi.call("bash", command="true"))
    assert ["extension_error"] == [each["type"] for each in pi.frames]


# The mode may change at any time.


async def test_a_change_of_the_mode_decides_the_next_call(gate: Open) -> None:
    """R-SET-07."""
    pi = gate("never")
    assert None is await pi.call("bash", command="one")
    pi.approval.set_mode("read-only")
    assert "this session is read-only" in str(await pi.call("bash", command="two"))
    pi.approval.set_mode("ask")
    assert None is await pi.call("bash", "Allow once", command="three")
    pi.approval.set_mode("never")
    assert None is await pi.call("bash", command="four")
    assert 1 == len(pi.frames)


@pytest.mark.parametrize("mode", APPROVAL_MODES)
async def test_a_question_that_is_open_at_a_change_stays_open(gate: Open, mode: ApprovalMode) -> None:
    """R-SET-07: its answer decides the call that it is about."""
    pi = gate("ask")
    assert None is await pi.call("bash", "Allow once", on_question=lambda: pi.approval.set_mode(mode), command="one")
    pi.approval.set_mode("ask")
    refused = await pi.call("bash", "Deny", on_question=lambda: pi.approval.set_mode(mode), command="two")

    assert "the user did not approve this call" in str(refused)


async def test_a_change_of_the_mode_forgets_what_was_allowed(gate: Open) -> None:
    """R-SET-07: also an answer to a question that was asked before it."""

    def change() -> None:
        pi.approval.set_mode("never")
        pi.approval.set_mode("ask")

    pi = gate("ask")
    assert None is await pi.call("bash", "Allow for this session", command="one")
    pi.approval.set_mode("ask")
    assert None is await pi.call("bash", command="it is no change")
    change()
    assert None is await pi.call("bash", "Allow for this session", on_question=change, command="two")
    assert None is not await pi.call("bash", "Deny", command="three")


@pytest.mark.parametrize("way", ["another session", "a reload"])
async def test_what_was_allowed_ends_with_the_session(gate: Open, way: str) -> None:
    """R-SET-07."""
    pi = gate("ask")
    assert None is await pi.call("bash", "Allow for this session", command="one")
    if way == "a reload":
        pi.approval.forget()
    else:
        pi.session = Conversation()

    assert None is not await pi.call("bash", "Deny", command="two")


# What is shown is all of it, and stands for one call only.

ESCAPE = re.compile(r"\\u\{([0-9a-f]+)(?:\*([0-9]+))?\}")


def meant(shown: str) -> str:
    """Read what is shown, as the documentation says."""
    return ESCAPE.sub(lambda escape: chr(int(escape[1], 16)) * int(escape[2] or 1), shown)


def shown_arguments(title: str) -> dict[str, str]:
    """Read the arguments that are texts out of a question."""
    lines = title.split("\n")[2:]
    arguments: dict[str, str] = {}
    while lines:
        line = lines.pop(0)
        if line.startswith("("):
            continue
        if block := re.fullmatch(r"(\S+) \(([0-9]+) lines\):", line):
            count = int(block[2])
            assert all(each == "|" or each.startswith("| ") for each in lines[:count])
            arguments[block[1]] = meant("\n".join(each[2:] for each in lines[:count]))
            del lines[:count]
        else:
            name, _, text = line.partition(": ")
            arguments[name] = meant(text)
    return arguments


async def title_of(tool_name: str, cwd: Path, places: Places = Places(), **arguments: object) -> str:  # noqa: B008
    return question(await examine(tool_name, arguments, str(cwd), lambda: places, is_builtin=True))


ANY_NAME = st.one_of(
    st.text(st.sampled_from("a/.\\u{} \n\r\t\u3164\u115f\uffa0\u034f\u202e\u2066\u200b\u00a0\u2028\u0301\u05d0%2e~@")),
    st.text(st.characters(exclude_categories=())),
).filter(lambda name: name.strip("/.") != "")


@given(ANY_NAME, ANY_NAME)
def test_the_path_that_is_shown_is_the_file_that_is_written(first: str, second: str) -> None:
    """Whatever stands in a name: what is shown decodes to the real path, and two files never show the same."""
    shown: dict[str, str] = {}
    for name in (first, second):
        with suppress(ToolError):
            real = os.path.realpath(resolve_path(name, "/nowhere/project"))
            title = trio.run(partial(title_of, "write", Path("/nowhere/project"), path=name, content="x"))
            assert shown_arguments(title) == {"path": real, "content": "x"}
            assert shown.setdefault(title.split("\n")[2], real) == real
    assert len(set(shown)) == len(set(shown.values()))


@given(st.lists(st.text(st.sampled_from('a|: (2 lines)\n\n\\u{}\u3164\u202e ;"=command')), min_size=2, max_size=2))
def test_two_commands_never_show_the_same(commands: list[str]) -> None:
    titles = [trio.run(partial(title_of, "bash", Path("/"), command=each)) for each in commands]

    assert [{"command": each} for each in commands] == [shown_arguments(title) for title in titles]
    assert (titles[0] == titles[1]) is (commands[0] == commands[1])


@pytest.mark.parametrize(
    "hidden", ["\u3164", "\u115f", "\uffa0", "\u034f", "\u200b", "\u202e", "\u2800", "\ufe0f", "\r"]
)
async def test_invisible_letters_are_escaped_in_paths_and_commands(hidden: str, tmp_path: Path) -> None:
    escape = f"\\u{{{ord(hidden):x}}}"

    assert f"/notes{escape}.txt" in await title_of("write", tmp_path, path=f"notes{hidden}.txt", content="")
    assert f"command: ls{escape};x" in await title_of("bash", tmp_path, command=f"ls{hidden};x")


async def test_a_path_can_not_put_lines_into_the_question(tmp_path: Path) -> None:
    name = "README.md\n\nThis file is harmless.\npath: /elsewhere/../../.bashrc"
    title = await title_of("write", tmp_path, path=name, content="x\npath: README.md")
    real = os.path.realpath(resolve_path(name, str(tmp_path)))

    assert shown_arguments(title) == {"path": real, "content": "x\npath: README.md"}
    assert [line[:6] for line in title.split("\n")[2:]] == ["path: ", "(named", "conten", "| x", "| path"]


async def test_the_file_behind_a_link_is_shown(tmp_path: Path) -> None:
    (tmp_path / "repository/docs").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "repository/docs/CHANGELOG.md").symlink_to(tmp_path / "home/.bashrc")
    places = Places(home=str(tmp_path / "home"))

    title = await title_of("edit", tmp_path / "repository", places, path="docs/CHANGELOG.md", edits=[])
    assert title.split("\n")[2:] == [
        f"path: {tmp_path}/home/.bashrc",
        "(named docs/CHANGELOG.md)",
        "(always asked about: it is read by a shell, a program or the system when it starts)",
        "edits = []",
    ]


async def test_the_file_behind_an_address_is_shown(tmp_path: Path) -> None:
    title = await title_of("write", tmp_path, path=f"file://{tmp_path}/docs/%2e%2e/%70lan%0a.md", content="x")

    assert shown_arguments(title)["path"] == f"{tmp_path}/plan\n.md"
    assert f"path: {tmp_path}/plan\\u{{a}}.md" in title


async def test_every_part_of_an_edit_is_shown(tmp_path: Path) -> None:
    edits = [{"oldText": "a\nb", "newText": ""}, {"oldText": "| c", "newText": "\u200b"}]
    title = await title_of("edit", tmp_path, path="f", edits=edits)

    assert shown_arguments(title) == {
        "path": f"{tmp_path}/f",
        "edits[0].oldText": "a\nb",
        "edits[0].newText": "",
        "edits[1].oldText": "| c",
        "edits[1].newText": "\u200b",
    }


async def test_numbers_and_unusual_argument_names_are_shown_as_json() -> None:
    arguments: dict[str, object] = {"n": 5, "s": "5", "x = 1": "y", "(named x)": "z", "path": "a"}
    call = await examine("of_an_extension", arguments, "/", Places, is_builtin=False)

    assert question(call).split("\n")[2:] == ["n = 5", "s: 5", '"x = 1": y', '"(named x)": z', "path: a"]


@pytest.mark.parametrize("command", ["x" * 10_001, "true\n" * 200 + "rm x", "\u200b\n" * 1500, "ls" + " " * 10_000])
async def test_a_command_that_can_not_be_shown_whole_is_refused(gate: Open, command: str) -> None:
    pi = gate("ask")
    block = await pi.call("bash", "Allow once", command=command)

    assert "the call can't be shown in full: its command takes" in str(block)
    assert [] == pi.frames


async def test_a_content_that_can_not_be_shown_whole_is_refused(gate: Open) -> None:
    pi = gate("ask")
    assert None is await pi.call("write", "Allow once", path="a", content="x" * 60_000)
    block = await pi.call("write", "Allow once", path="a", content="x" * 64_000)

    many = await pi.call("write", "Allow once", path="a", content="", numbers=[1] * 64_000)

    assert ["more than 64000 characters to show" in str(each) for each in (block, many)] == [True, True]
    assert len(str(pi.frames[0]["title"])) > 60_000


# What is executed is what was shown.


async def test_a_call_is_bound_to_the_file_that_was_shown(gate: Open, tmp_path: Path) -> None:
    (tmp_path / "project/link").symlink_to("real")
    bound: list[str] = []
    pi = gate("ask")
    await pi.call("write", "Allow for this session", bind=bound.append, path="link", content="")
    await pi.call("write", bind=bound.append, path="other", content="")

    assert bound == [f"{tmp_path}/project/real", f"{tmp_path}/project/other"]


async def test_a_link_that_is_changed_while_the_user_decides_is_asked_about_again(gate: Open, tmp_path: Path) -> None:
    link = tmp_path / "project/link"
    link.symlink_to("real")

    def turn() -> None:
        link.unlink()
        link.symlink_to("other")

    bound: list[str] = []
    pi = gate("ask")
    outcome = await pi.call(
        "write", "Allow once", "Allow once", on_question=turn, bind=bound.append, path="link", content=""
    )

    assert outcome is None
    assert [f"path: {tmp_path}/project/{name}" for name in ("real", "other")] == [
        str(frame["title"]).split("\n")[2] for frame in pi.frames
    ]
    assert bound == [f"{tmp_path}/project/other"]


async def test_a_call_that_an_extension_has_bound_to_another_file_is_refused(gate: Open, tmp_path: Path) -> None:
    other = str(tmp_path / "project/other")
    pi = gate("ask")
    refused = await pi.call("write", "Allow once", bound_path=other, path="file", content="")
    assert "its path changed to another file while approval hooks ran" in str(refused)
    pi.toolbox.use({"write": cast("Tool", Named("write"))}, ())
    bound: list[str] = []
    assert None is await pi.call("write", "Allow once", bind=bound.append, bound_path=other, path="other", content="")
    assert bound == [other], "the tool is not known, and what an extension wants stays"


async def test_arguments_that_an_extension_changes_while_the_user_decides_are_asked_about_again(gate: Open) -> None:
    edits = [{"oldText": "a", "newText": "b"}]

    def change() -> None:
        edits[0]["newText"] = "rm -rf /"

    pi = gate("ask")
    assert None is not await pi.call("edit", "Allow once", "Deny", on_question=change, path="f", edits=edits)

    assert ["b", "rm -rf /"] == [shown_arguments(str(each["title"]))["edits[0].newText"] for each in pi.frames]


async def test_a_call_that_is_always_another_one_is_refused(gate: Open, tmp_path: Path) -> None:
    link = tmp_path / "project/link"
    link.symlink_to("0")

    class Turning(Frames):
        def append(self, frame: Mapping[str, object]) -> None:
            link.unlink()
            link.symlink_to(str(len(self) + 1))
            super().append(frame)

    pi = gate("ask")
    pi.frames = Turning()
    pi.emit = pi.frames.append
    block = await pi.call("write", "Allow once", "Allow once", "Allow once", "Allow once", path="link", content="")

    assert "it changed each time after it was approved" in str(block)
    assert 3 == len(pi.frames)


# The approval of a tool is no way to more.

PROTECTED = [
    ".pi/settings.json",
    ".pi/extensions/x.py",
    ".git/hooks/pre-commit",
    ".GIT/config",
    "sub/.git",
    ".agents/skills/x/SKILL.md",
    ".husky/pre-commit",
    ".vscode/tasks.json",
    ".envrc",
    ".env",
    "gate.py",
    "../agent/trust.json",
    "../agent/extensions/x.py",
    "../home/.bashrc",
    "../home/.config/fish/config.fish",
    "../home/.local/bin/ls",
    "../home/.ssh/authorized_keys",
    "../home/notes.txt",
    "/etc/cron.d/x",
    "/proc/self/environ",
    "link-to-git/config",
    "hard",
    f"{sys.prefix}/lib/sitecustomize.py",
]


@pytest.mark.parametrize("name", ["write", "edit"])
@pytest.mark.parametrize("path", PROTECTED)
async def test_yes_for_this_session_excludes_files_that_run_or_grant_rights_later(
    gate: Open, tmp_path: Path, name: str, path: str
) -> None:
    (tmp_path / "project/.git").mkdir()
    (tmp_path / "project/link-to-git").symlink_to(".git")
    (tmp_path / "project/hard").touch()
    os.link(tmp_path / "project/hard", tmp_path / "elsewhere")
    content: dict[str, Any] = {"content": ""} if name == "write" else {"edits": []}
    pi = gate("ask")
    assert None is await pi.call(name, "Allow for this session", path="notes.txt", **content)
    assert None is not await pi.call(name, "Allow for this session", path=path, **content)
    assert None is await pi.call(name, "Allow once", path=path, **content)
    assert None is not await pi.call(name, "Deny", path=path, **content), "Yes is for one call"
    assert None is await pi.call(name, path="notes.txt", **content)

    assert [["Allow once", "Allow for this session", "Deny"], *[["Allow once", "Deny"]] * 3] == [
        each["options"] for each in pi.frames
    ]
    assert ["allow_once", "reject_once"] == pi.frames[-1]["optionKinds"]
    assert "(always asked about: it " in str(pi.frames[-1]["title"])


@pytest.mark.parametrize("name", ["write", "edit"])
@pytest.mark.parametrize("path", PROTECTED)
async def test_read_only_refuses_protected_files_like_all_others(gate: Open, name: str, path: str) -> None:
    pi = gate("read-only")
    assert None is not await pi.call(name, path=path)
    assert [] == pi.frames


async def test_where_a_path_of_an_extensions_tool_leads_is_shown(gate: Open, tmp_path: Path) -> None:
    (tmp_path / "project/notes").symlink_to("/tmp/else\u3164where")
    pi = gate("ask")
    assert None is await pi.call("save", "Allow once", to="notes/a", text="notes")

    assert str(pi.frames[0]["title"]).split("\n")[2:] == [
        "(notes/a leads to /tmp/else\\u{3164}where/a)",
        "(notes leads to /tmp/else\\u{3164}where)",
        "to: notes/a",
        "text: notes",
    ]


async def test_a_command_is_bound_to_the_folder_that_is_shown(gate: Open, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("project")
    bound: list[str] = []
    pi = gate("ask")
    pi.cwd = str(tmp_path / "link")
    await pi.call("bash", "Allow once", bind=bound.append, command="ls")

    assert f"(in {tmp_path}/project)" in str(pi.frames[0]["title"])
    assert bound == [str(tmp_path / "project")]


async def test_a_tool_of_an_extension_is_always_asked_about_with_a_protected_path(gate: Open) -> None:
    pi = gate("ask")
    assert None is await pi.call("save", "Allow for this session", files=["a", "b"])
    assert None is await pi.call("save", files=["c"])
    assert None is not await pi.call("save", "Deny", files=["c", {"to": ".git/config"}])


async def test_a_module_that_was_loaded_is_always_asked_about() -> None:
    title = await title_of("write", Path(__file__).parent, path=Path(__file__).name, content="")

    assert "(always asked about: it is part of the program that runs this session)" in title


async def test_a_path_that_leads_in_a_circle_is_refused(gate: Open, tmp_path: Path) -> None:
    (tmp_path / "project/loop").symlink_to("loop")
    pi = gate("ask")
    assert "write was not run" in str(await pi.call("write", "Allow once", path="loop/x", content=""))
    assert [] == pi.frames


async def test_a_tool_that_was_allowed_for_the_session_is_asked_about_when_it_has_changed(gate: Open) -> None:
    """R-SET-07: its server may have made another tool of it."""
    agent = gate("ask")
    assert await agent.call("mcp__a__x", "Allow for this session") is None
    assert await agent.call("mcp__a__x") is None
    agent.descriptions["mcp__a__x"] = "does something else"
    assert await agent.call("mcp__a__x", "Deny") is not None
    del agent.descriptions["mcp__a__x"]
    assert await agent.call("mcp__a__x") is None


async def test_hints_of_a_server_are_shown_and_decide_nothing(gate: Open) -> None:
    agent = gate("ask")
    agent.hints["mcp__a__x"] = {"readOnlyHint": True, "destructiveHint": False}
    assert await agent.call("mcp__a__x", "Deny") is not None
    assert "(its server says, and may be wrong: readOnlyHint true, destructiveHint false)" in str(agent.frames[-1])
    assert await gate("read-only").call("mcp__a__x") is not None


@pytest.mark.parametrize("tool", ["bash", "write", "mcp__server__echo"])
@pytest.mark.parametrize("asks", [question, outside_question])
def test_clients_recognise_the_question_as_a_permission(tool: str, asks: Callable[[ExaminedCall], str]) -> None:
    """By its first line, which has the name of the tool and nothing else."""
    title = asks(ExaminedCall(tool, {"command": "ls\nAllow tool: read"}, "", None, None))
    assert title.splitlines()[0] == f"Allow tool: {tool}"
    assert re.findall(r"^Allow tool:\s*(\S+)", title, re.MULTILINE) == [tool]


@pytest.mark.parametrize("asks", [question, outside_question])
def test_the_command_comes_first_and_what_follows_is_bounded(asks: Callable[[ExaminedCall], str]) -> None:
    """Whatever the model names first, and whatever a project puts before its commands."""
    prefix = tuple(f"after shellCommandPrefix: line {number}" for number in range(100))
    arguments = {"zzz": "other", "reason": "because", "command": "rm -rf /\nls", "timeout": 5}
    lines = asks(ExaminedCall("bash", arguments, "", None, None, prefix)).split("\n")
    assert lines[lines.index("") + 1 :][:4] == ["command (2 lines):", "| rm -rf /", "| ls", f"({prefix[0]})"]
    for more in (("reason", "x" * 8000), ("other", ["x"] * 3000)):
        with pytest.raises(TooLongError, match="beside its command"):
            asks(ExaminedCall("bash", {"command": "ls", more[0]: more[1]}, "", None, None))
    with pytest.raises(TooLongError, match="shellCommandPrefix"):
        asks(ExaminedCall("bash", {"command": "ls"}, "", None, None, prefix * 10))


@pytest.mark.parametrize("tool", ["write", "edit"])
@pytest.mark.parametrize(
    "path",
    [
        *sorted(STARTUP_OF_PROJECT),
        ".husky/pre-commit",
        ".vscode/tasks.json",
        "packages/a/.envrc",
        "packages/a/.claude/settings.json",
        ".VSCode/Tasks.json",
        "packages/../.envrc",
        "./packages/.//../.envrc",
        "link-to-folder/tasks.json",
        "link-to-file",
        "link-to-absent",
        ".git/hooks/pre-commit",
        "packages/.git/config",
        ".hg/hgrc",
        ".pi/settings.json",
        "packages/.agents/skills/a/SKILL.md",
    ],
)
async def test_what_runs_unasked_is_asked_about_each_time(gate: Open, tmp_path: Path, tool: str, path: str) -> None:
    """Also where the tool is allowed for the session, and whatever leads to the file."""
    project = tmp_path / "project"
    (project / "packages").mkdir(exist_ok=True)
    (project / ".vscode").mkdir()
    (project / ".vscode/other.json").write_text("")
    (project / "link-to-folder").symlink_to(".vscode")
    (project / "link-to-file").symlink_to(".vscode/other.json")
    (project / "link-to-absent").symlink_to("packages/.envrc")
    pi = gate("ask")
    edits = {"edits": [{"oldText": "", "newText": ""}]} if tool == "edit" else {"content": ""}
    assert None is await pi.call(tool, "Allow for this session", path="ordinary.txt", **edits)
    assert None is await pi.call(tool, "no question", path="packages/other.txt", **edits)
    assert 1 == len(pi.frames)

    assert None is not await pi.call(tool, "Deny", path=path, **edits)

    assert 2 == len(pi.frames)
    assert "(always asked about: " in str(pi.frames[-1]["title"])
    assert ["Allow once", "Deny"] == pi.frames[-1]["options"]
