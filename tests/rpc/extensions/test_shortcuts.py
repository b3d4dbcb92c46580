"""Keys of extensions, as a client sees them. Rule R-UI-12.

One agent has extensions in both languages.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from tests.rpc.extensions.conftest import Extended

from pinnace_fuzz.trials.workbench import AgentStarter

PYTHON: Final = """
def extension(pi):
    @pi.shortcut("Shift+Ctrl+Y", description="In Python")
    async def waits(ctx):
        ctx.ui.notify("py true" if await ctx.ui.confirm("Really?") and ctx.is_idle() else "py false")

    @pi.shortcut("f7")
    def fails(ctx):
        raise RuntimeError("on purpose")

    @pi.shortcut("f8")
    def first(ctx):
        ctx.ui.notify("the first one")
"""
NODE: Final = """
export default function (pi) {
  pi.registerShortcut("ctrl+alt+y", {
    description: "In Node",
    handler: async (ctx) => ctx.ui.notify(`node ${await ctx.ui.confirm("Really?", "") && ctx.isIdle()}`),
  });
  pi.registerShortcut("f9", { handler: async () => { throw new Error("on purpose"); } });
  pi.registerShortcut("f10", {});
  pi.registerShortcut("f11", { handler: () => process.kill(process.pid, "SIGKILL") });
  pi.registerShortcut("f8", { handler: (ctx) => ctx.ui.notify("the last one") });
}
"""


@pytest.fixture
def pressed(agent: AgentStarter, tmp_path: Path, node_program: str) -> Callable[..., Extended]:
    """Starts an agent with both extensions."""
    python, node = tmp_path / "keys.py", tmp_path / "keys.mjs"
    python.write_text(PYTHON)
    node.write_text(NODE)

    def start() -> Extended:
        return Extended(agent((), "-e", str(python), "-e", str(node), env={"PINNACE_NODE": node_program}))

    return start


def press(one: Extended, key: str) -> bool:
    """Press a key; return whether an extension has it."""
    started: bool = one.pi.ask("run_shortcut", key=key)["started"]
    return started


def test_keys_of_both_languages_are_listed_and_run(pressed: Callable[..., Extended]) -> None:
    """In the order in which the extensions were loaded; the last one has a key of several; dialogs are answered."""
    one = pressed()
    listed = one.pi.ask("get_shortcuts")["shortcuts"]
    assert [("ctrl+shift+y", "In Python"), ("f7", None), ("f8", None)] == [
        (each["key"], each.get("description")) for each in listed if each["path"].endswith("keys.py")
    ]
    assert ["ctrl+alt+y", "f9", "f10", "f11", "f8"] == [
        each["key"] for each in listed if each["path"].endswith("keys.mjs")
    ]
    assert press(one, "f8")
    assert "the last one" == one.notice()
    for key, language in (("Ctrl+Shift+Y", "py"), ("alt+ctrl+y", "node")):
        assert press(one, key)
        one.reply(one.asked("confirm"), confirmed=True)
        assert one.notice() == f"{language} true"
    assert not press(one, "f12")
    assert not one.errors


def failed(one: Extended, key: str) -> str:
    """Press a key; return the error of its function."""
    mark = one.pi.mark()
    assert press(one, key)
    return str(one.pi.wait({"type": "extension_error", "event": "shortcut"}, since=mark)["error"])


def test_a_function_that_fails_is_reported(pressed: Callable[..., Extended]) -> None:
    """R-UI-12: in both languages, without a function, and when its process is lost, which then has the keys again."""
    one = pressed()
    one.pi.ask("get_shortcuts")  # which waits until the extensions are loaded
    for key in ("f7", "f9"):
        assert "on purpose" in failed(one, key)
    assert "is not a function" in failed(one, "f10")
    assert failed(one, "f11")
    assert press(one, "f8")
    assert "the last one" == one.notice()
