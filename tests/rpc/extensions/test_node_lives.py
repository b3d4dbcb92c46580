"""What of an extension in TypeScript lives on when the session is replaced: its module and its process, as in pi."""

import time
from pathlib import Path
from typing import Final

from tests.rpc.conftest import CONVERSATION_TIMEOUT_S
from tests.rpc.extensions.conftest import Extended, Start

from pinnace_fuzz.process_tree import is_alive

# Each `session_start` shows how often the module, the function and the handler have run, and its process.
COUNTS: Final = """
let functions = 0;
let starts = 0;
export default (pi) => {
  functions += 1;
  pi.on("session_start", (event, ctx) => ctx.ui.notify([event.reason, functions, ++starts, process.pid].join(" ")));
  pi.registerCommand("again", { handler: (args, ctx) => ctx.reload() });
  MORE
};
"""


def counts(more: str = "") -> str:
    return COUNTS.replace("MORE", more)


def start_of(one: Extended) -> tuple[str, int]:
    """Return what a `session_start` has shown, but for the process, and the process."""
    shown, _, process = one.notice().rpartition(" ")
    return shown, int(process)


def wait_for_end(process: int) -> None:
    deadline_s = time.monotonic() + CONVERSATION_TIMEOUT_S
    while is_alive(process):
        assert time.monotonic() < deadline_s, f"the process {process} is still there"
        time.sleep(0.01)


def test_a_module_is_read_once_for_the_sessions_of_a_folder_and_again_by_a_reload(scripted: Start) -> None:
    one = scripted(counts(), has_session=True)
    file = one.pi.ask("get_state")["sessionFile"]
    shown, process = start_of(one)
    assert "startup 1 1" == shown
    one.say("hello")
    one.pi.ask("new_session")
    assert ("new 2 2", process) == start_of(one)
    one.pi.ask("switch_session", sessionPath=file)
    assert ("resume 3 3", process) == start_of(one)
    one.command("/again")
    shown, other = start_of(one)
    assert "reload 1 1" == shown
    assert other != process
    wait_for_end(process)


def test_a_session_of_another_folder_has_another_process(scripted: Start, tmp_path: Path) -> None:
    """The working folder is that of the process, and what a module has found there is not of the other folder."""
    one = scripted(counts(), has_session=True)
    file = Path(one.pi.ask("get_state")["sessionFile"])
    one.say("hello")
    other = tmp_path / "other"
    other.mkdir()
    moved = tmp_path / file.name
    moved.write_text(file.read_text().replace(str(one.work), str(other)))
    _, process = start_of(one)
    one.pi.ask("switch_session", sessionPath=str(moved))
    shown, second = start_of(one)
    assert "resume 1 1" == shown
    assert second != process
    wait_for_end(process)


def test_what_the_extensions_of_a_session_have_registered_ends_with_it(scripted: Start) -> None:
    """Handlers, listeners of the bus, tools and commands are those of the new session, once each."""
    more = """
      const number = functions;
      const parameters = { type: "object" };
      pi.registerTool({ name: `tool${number}`, description: "d", parameters, execute: () => ({ content: [] }) });
      pi.registerCommand(`command${number}`, { handler: (args, ctx) => pi.events.emit("channel", number) });
      pi.events.on("channel", (data) => pi.appendEntry("heard", `${number} of ${data}`));
    """
    one = scripted(counts(more), has_session=True)
    one.pi.ask("new_session")
    one.pi.ask("new_session")
    commands = [each["name"] for each in one.pi.ask("get_commands")["commands"]]
    assert ["command3"] == [each for each in commands if each.startswith("command")]
    one.command("/command3")
    heard = [each["data"] for each in one.pi.ask("get_entries")["entries"] if each.get("customType") == "heard"]
    assert ["3 of 3"] == heard


def test_what_is_left_of_a_session_that_has_ended_is_refused(scripted: Start) -> None:
    """A timer that nothing has ended runs on, as in pi: what it asks has no effect, and ends nothing."""
    more = """
      if (functions === 1) pi.on("session_start", (event, ctx) => {
        const timer = setInterval(async () => {
          const outcomes = await Promise.allSettled([
            (async () => pi.setSessionName("mine"))(), (async () => ctx.sessionManager.getEntries())(),
            pi.exec("touch", ["ran"]), ctx.ui.confirm("Still there?", ""),
            (async () => ctx.ui.setStatus("left", "here"))(),
          ]);
          globalThis.outcomes = outcomes.map((each) => each.status === "rejected" ? each.reason.message : "done");
        }, 5);
        if (globalThis.timer === undefined) globalThis.timer = timer;
      });
      pi.on("session_shutdown", () => { globalThis.outcomes = undefined; });
      pi.registerCommand("show", { handler: async (args, ctx) => {
        while (globalThis.outcomes === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
        clearInterval(globalThis.timer);
        ctx.ui.notify(JSON.stringify(globalThis.outcomes));
      } });
    """
    one = scripted(counts(more))
    start_of(one)
    one.pi.ask("new_session")
    start_of(one)
    (one.work / "ran").unlink(missing_ok=True)
    one.command("/show")
    shown = one.notice()
    assert 4 <= shown.count("has ended") + shown.count("stale"), shown
    assert "mine" != one.pi.ask("get_state").get("sessionName")
    assert not (one.work / "ran").exists()


def test_a_command_that_replaces_the_session_continues_beside_the_extensions_of_the_next(scripted: Start) -> None:
    """What it keeps for `withSession` is called; afterwards its module has forgotten nothing."""
    more = """
      pi.registerCommand("next", { handler: async (args, ctx) => {
        const before = ctx.sessionManager.getSessionId();
        await ctx.newSession({ withSession: async (next) => {
          next.ui.notify(`${functions} ${before !== next.sessionManager.getSessionId()}`);
        } });
      } });
    """
    one = scripted(counts(more))
    _, process = start_of(one)
    for number in (2, 3):
        one.command("/next")
        shown = sorted(one.notice().removesuffix(f" {process}") for _ in range(2))
        assert [f"{number} true", f"new {number} {number}"] == shown


def test_a_process_that_was_lost_in_one_session_may_be_lost_in_the_next(scripted: Start) -> None:
    """Each session may start it again once."""
    more = 'pi.registerCommand("die", { handler: () => process.kill(process.pid, "SIGKILL") });'
    one = scripted(counts(more), is_checked=False)
    _, process = start_of(one)
    for _ in range(2):
        one.begin("/die")
        wait_for_end(process)
        one.pi.ask("new_session")
        shown, process = start_of(one)
        assert "new 1 1" == shown
    assert ["process", "process"] == [event for event, _ in one.errors if event == "process"]


def test_a_process_that_does_not_respond_is_not_that_of_the_next_session(scripted: Start) -> None:
    """A timer that never returns holds neither the new session nor the process back."""
    more = 'pi.registerCommand("loop", { handler: () => void setTimeout(() => { for (;;); }) });'
    one = scripted(counts(more), env={"PINNACE_NODE_HANG_S": "2"}, is_checked=False)
    _, process = start_of(one)
    one.command("/loop")
    one.pi.ask("new_session")
    assert "new 1 1" == start_of(one)[0]
    wait_for_end(process)
