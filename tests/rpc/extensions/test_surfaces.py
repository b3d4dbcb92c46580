"""What extensions draw in the client's terminal, as a client sees it. Rules R-UI-09 to R-UI-11.

One agent draws with extensions in both languages.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from tests.rpc.extensions.conftest import Extended
from tests.source_tree import REPOSITORY

from pinnace_fuzz.trials.workbench import AgentStarter

PYTHON: Final = """
def extension(pi):
    class Keys:
        def __init__(self, screen, done):
            self.screen, self.done, self.keys = screen, done, []

        def render(self, width):
            if "x" in self.keys:
                raise RuntimeError("it can't be drawn")
            if "m" in self.keys:
                return ["\\x1b]0;title\\x07\\x1b[2J\\x1b[31mred\\x1b[0m\\x9b5n\\r\\a" + "y" * 20_000] * 1000
            return [f"{width} {self.screen.rows}", *self.keys]

        def handle_key(self, key):
            self.keys.append(key)
            if key == "q":
                self.done(len(self.keys))

        def handle_paste(self, text):
            self.keys.append(f"<{text}>")

    @pi.command("pykeys", description="draw")
    async def draw(ctx, args):
        result = await ctx.ui.custom(lambda screen, theme, done: Keys(screen, done), overlay=args == "over")
        ctx.ui.notify(f"{ctx.mode} {result!r}")

    @pi.command("pystay", description="stay")
    def stay(ctx, args):
        class Line:
            def render(self, width):
                return [f"{args} {width}"]

        made = None if args == "none" else lambda screen, theme: Line()
        ctx.ui.set_footer(made)
        ctx.ui.set_header(made)
        ctx.ui.set_widget("w", made, "belowEditor")

    @pi.on("input")
    def source(ctx, event):
        if event.text == "where":
            ctx.ui.notify(event.source)
            return {"action": "handled"}
"""
NODE: Final = """
export default function (pi) {
  class Keys {
    constructor(screen, done) { Object.assign(this, { screen, done, keys: [] }); }
    render(width) {
      if (this.keys.includes("x")) throw new Error("it can't be drawn");
      if (this.keys.includes("h")) for (;;) ;
      const line = "\\x1b]0;title\\x07\\x1b[2J\\x1b[31mred\\x1b[0m\\x9b5n\\r\\x07" + "y".repeat(20000);
      if (this.keys.includes("m")) return Array(1000).fill(line);
      return [`${width} ${this.screen.terminal.rows}`, ...this.keys];
    }
    handleInput(data) {
      this.keys.push(data.startsWith("\\x1b[200~") ? `<${data.slice(6, -6)}>` : data);
      if (data === "q") this.done(this.keys.length);
    }
  }
  pi.registerCommand("nodekeys", {
    description: "draw",
    handler: async (args, ctx) => {
      const make = (screen, theme, keys, done) => new Keys(screen, done);
      const result = await ctx.ui.custom(make, { overlay: args === "over" });
      ctx.ui.notify(`${ctx.mode} ${result ?? "None"}`);
    },
  });
  pi.registerCommand("nodepid", { description: "pid", handler: async (_, ctx) => ctx.ui.notify(`${process.pid}`) });
  pi.registerCommand("nodestay", {
    description: "stay",
    handler: async (args, ctx) => {
      const made = args === "none" ? undefined : () => ({ render: (width) => [`${args} ${width}`], invalidate() {} });
      ctx.ui.setFooter(made);
      ctx.ui.setHeader(made);
      ctx.ui.setWidget("w", made, { placement: "belowEditor" });
    },
  });
}
"""
BOTH: Final = pytest.mark.parametrize("language", ["py", "node"])


class Drawn(Extended):
    """An agent whose client draws."""

    def offer(self, *, offered: bool = True) -> None:
        self.pi.ask("hello", surfaces=offered)

    def opened(self, place: str, since: int = 0) -> str:
        return str(self.pi.wait({"type": "ui_surface_open", "place": place}, since=since)["surface"])

    def drawn(self, surface: str, since: int = 0) -> list[str]:
        """Wait for the next lines of a surface."""
        lines: list[str] = self.pi.wait({"type": "ui_surface_draw", "surface": surface}, since=since)["lines"]
        return lines

    def fit(self, surface: str, columns: int = 40, rows: int = 20) -> list[str]:
        """Send a size; return the lines for it."""
        mark = self.pi.mark()
        self.pi.ask("ui_surface_input", surface=surface, columns=columns, rows=rows)
        return self.drawn(surface, mark)

    def press(self, surface: str, data: str, key: str | None = None) -> None:
        fields = {} if key is None else {"key": key}
        self.pi.ask("ui_surface_input", surface=surface, data=data, **fields)

    def closed(self, surface: str) -> None:
        self.pi.wait({"type": "ui_surface_close", "surface": surface}, since=0)


@pytest.fixture
def extensions(tmp_path: Path) -> list[str]:
    """Both extensions, as words of the command line."""
    python, node = tmp_path / "draws.py", tmp_path / "draws.mjs"
    python.write_text(PYTHON)
    node.write_text(NODE)
    return ["-e", str(python), "-e", str(node)]


@pytest.fixture
def drawing(agent: AgentStarter, extensions: list[str], node_program: str) -> Callable[..., Drawn]:
    """Starts an agent with both extensions."""

    def start(*flags: str, **env: str) -> Drawn:
        return Drawn(agent((), *extensions, *flags, env={"PINNACE_NODE": node_program, **env}))

    return start


def test_without_an_offer_nothing_is_drawn(drawing: Callable[..., Drawn]) -> None:
    """R-UI-09: components end at once, nothing is opened, and the mode is that of other clients."""
    one = drawing()
    for language in ("py", "node"):
        one.command(f"/{language}keys")
        assert "rpc None" == one.notice()
        one.command(f"/{language}stay here")
    one.command("where")
    assert "rpc" == one.notice()
    assert not one.pi.found({"type": "ui_surface_open"})
    one.offer()
    one.command("where")
    assert "interactive" == one.notice()


@pytest.mark.parametrize("place", ["editor", "overlay"])
@BOTH
def test_a_component_takes_keys_and_has_a_result(drawing: Callable[..., Drawn], language: str, place: str) -> None:
    """R-UI-09, in both languages: sizes, keys, pastes, a resize, and the result."""
    one = drawing("--surfaces")
    prompt = one.begin(f"/{language}keys {'over' if place == 'overlay' else ''}")
    surface = one.opened(place)
    assert ["40 20"] == one.fit(surface)
    assert ["50 10"] == one.fit(surface, 50, 10)
    mark = one.pi.mark()
    one.press(surface, "\x1b[A", "up")
    assert ["50 10", "up" if language == "py" else ""] == one.drawn(surface, mark)  # a sequence of a key is no style
    mark = one.pi.mark()
    one.press(surface, "\x1b[200~two\nlines\x1b[201~")
    assert "<two" in one.drawn(surface, mark)[2]
    one.press(surface, "q", "q")
    one.closed(surface)
    assert "tui 3" == one.notice()
    one.accepted(prompt)
    one.pi.ask("ui_surface_input", surface=surface, data="q")  # of one that is closed: without an effect


@BOTH
def test_a_surface_is_limited_and_holds_no_control_characters(drawing: Callable[..., Drawn], language: str) -> None:
    """R-UI-10: whatever a component returns."""
    one = drawing("--surfaces")
    one.begin(f"/{language}keys")
    surface = one.opened("editor")
    one.fit(surface)
    mark = one.pi.mark()
    one.press(surface, "m", "m")
    lines = one.drawn(surface, mark)
    assert 500 == len(lines)
    assert lines[0].startswith("\x1b[31mred\x1b[0m5nyyy")
    assert all(len(line) <= 8000 for line in lines)


@BOTH
@pytest.mark.parametrize("end", ["the user", "an abort", "no offer"])
def test_a_component_that_waits_ends_without_a_result(drawing: Callable[..., Drawn], language: str, end: str) -> None:
    """R-UI-11."""
    one = drawing("--surfaces")
    prompt = one.begin(f"/{language}keys")
    surface = one.opened("editor")
    one.fit(surface)
    match end:
        case "the user":
            one.pi.ask("ui_surface_input", surface=surface, closed=True)
        case "an abort":
            one.pi.ask("abort")
        case _:
            one.offer(offered=False)
    one.closed(surface)
    assert one.notice().endswith(" None")
    one.accepted(prompt)


@BOTH
def test_what_stays_is_opened_again_at_the_next_offer(drawing: Callable[..., Drawn], language: str) -> None:
    """R-UI-11: a footer, a header and a widget are kept while no client draws; another one takes their place."""
    one = drawing()
    one.command(f"/{language}stay first")
    one.offer()
    for place in ("footer", "header", "belowEditor"):
        surface = one.opened(place)
        assert ["first 40"] == one.fit(surface)
    one.offer(offered=False)
    one.closed(surface)
    mark = one.pi.mark()
    one.offer()
    again = one.opened("belowEditor", mark)
    assert again != surface
    assert ["first 30"] == one.fit(again, 30)
    one.command(f"/{language}stay second")
    one.closed(again)
    places = ("footer", "header", "belowEditor")
    latest = [one.pi.found({"type": "ui_surface_open", "place": place})[-1]["surface"] for place in places]
    one.command(f"/{language}stay none")
    for surface in latest:
        one.closed(surface)


@BOTH
def test_a_component_that_raises_ends_alone(drawing: Callable[..., Drawn], language: str) -> None:
    """The command that has shown it gets the error; the agent and the other extension go on."""
    one = drawing("--surfaces")
    prompt = one.begin(f"/{language}keys")
    surface = one.opened("editor")
    one.fit(surface)
    one.press(surface, "x", "x")
    one.closed(surface)
    one.pi.wait_response(prompt)
    assert ["it can't be drawn"] == [error.removeprefix("RuntimeError: ")[:17] for _, error in one.errors]
    other = "node" if language == "py" else "py"
    mark = one.pi.mark()
    one.begin(f"/{other}keys")
    assert ["40 20"] == one.fit(one.opened("editor", mark))


@pytest.mark.parametrize("end", ["killed", "hung"])
def test_a_lost_process_of_extensions_closes_what_it_has_drawn(drawing: Callable[..., Drawn], end: str) -> None:
    """R-UI-11: one that is killed, and one whose component never returns."""
    # It draws whatever else it has to in a part of that time.
    one = drawing("--surfaces", **({"PINNACE_NODE_HANG_S": "2"} if end == "hung" else {}))
    one.command("/nodepid")
    node = int(one.notice())
    one.command("/nodestay here")
    footer = one.opened("footer")
    one.fit(footer)
    prompt = one.begin("/nodekeys")
    surface = one.opened("editor")
    one.fit(surface)
    pid = one.pi.ask("get_state")["pid"]
    if end == "killed":
        os.kill(node, signal.SIGKILL)
    else:
        one.press(surface, "h", "h")
    one.closed(surface)
    one.closed(footer)
    one.pi.wait_response(prompt)
    assert one.pi.ask("get_state")["pid"] == pid


def test_the_component_of_the_page_is_used_by_keys(agent: AgentStarter, tmp_path: Path) -> None:
    """docs/extensions.md."""
    page = (REPOSITORY / "docs" / "extensions.md").read_text("utf-8")
    extension = tmp_path / "pick.py"
    extension.write_text(page.partition("```python\n# pick.py\n")[2].partition("```")[0])
    one = Drawn(agent((), "-e", str(extension), "--surfaces"))
    one.begin("/pick")
    surface = one.opened("overlay")
    assert ["> red", "  green", "  blue"] == one.fit(surface)
    mark = one.pi.mark()
    one.press(surface, "\x1b[B", "down")
    assert ["  red", "> green", "  blue"] == one.drawn(surface, mark)
    one.press(surface, "\r", "enter")
    assert "picked: green" == one.notice()
