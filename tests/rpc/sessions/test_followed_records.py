"""A client that follows the records knows the conversation: it loads it again after `session_changed`, and only then.

Generated sequences of what changes a conversation, by commands and by an extension, with reads in the same writes.
R-SES-16, R-SES-17, R-STA-02.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import WITH_FIXTURES

from pinnace_fuzz.records import Record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

EXTENSION: Final = """
def extension(pi):
    @pi.command("change")
    async def change(ctx, args):
        kind, _, target = args.partition(" ")
        match kind:
            case "new_session":
                await ctx.new_session()
            case "clone":
                await ctx.fork(target, position="at")
            case "fork":
                await ctx.fork(target)
            case "switch_session":
                await ctx.switch_session(target)
            case _:
                await ctx.navigate_tree(target or None)
"""
EXAMPLES: Final = 20


class Move(NamedTuple):
    """One thing that is done, with the reads before it and behind it in the same write."""

    kind: str
    choice: int
    """Which of the entries or files there are."""
    by_extension: bool = False
    before: int = 0
    behind: int = 0


KINDS = ("prompt", "new_session", "clone", "fork", "switch_session", "navigate_tree")
MOVES = st.lists(
    st.builds(
        Move,
        st.sampled_from(KINDS),
        st.integers(0, 7),
        st.booleans(),
        before=st.integers(0, 1),
        behind=st.integers(0, 2),
    ),
    min_size=1,
    max_size=7,
)


@pytest.fixture(scope="module")
def following(module_agent: AgentStarter, tmp_path_factory: pytest.TempPathFactory) -> HomedAgent:
    """An agent for all examples: each begins with whatever the former one has left."""
    extension: Path = tmp_path_factory.mktemp("extension") / "change.py"
    extension.write_text(EXTENSION)
    return module_agent([{"text": "an answer", "repeat": -1}], "-e", str(extension), has_session=True)


class Follower:
    """Holds the messages that the records have reported; what it holds is compared with each `get_messages`."""

    def __init__(self) -> None:
        self.held: list[Record] | None = None
        """None: it has to load them again."""
        self.compared = 0

    def take(self, record: Record) -> None:
        """Take a record."""
        if record["type"] == "message_end" and self.held is not None:
            self.held.append(record["message"])
        elif record["type"] == "session_changed":
            self.held = None
        elif record.get("command") == "get_messages":
            shown = record["data"]["messages"]
            if self.held is not None:
                assert self.held == shown
                self.compared += 1
            self.held = list(shown)


class Driver:
    """Does what is generated, as far as it is possible in the session that is."""

    def __init__(self, pi: HomedAgent) -> None:
        self._pi = pi
        self._files: list[str] = []

    def do(self, move: Move) -> None:
        pi = self._pi
        mark = pi.mark()
        state = pi.ask("get_state")
        if state["messageCount"] and state["sessionFile"] not in self._files:
            self._files.append(state["sessionFile"])
        reads = [
            {"type": "get_messages", "id": f"r{pi.mark()}-{number}"} for number in range(move.before + move.behind)
        ]
        if move.kind == "prompt":
            pi.say("a prompt")
            return
        if (command := self._command(move)) is None:
            return
        identity = f"c{mark}"
        pi.send_many([*reads[: move.before], {"id": identity, **command}, *reads[move.before :]])
        for each in (identity, *(read["id"] for read in reads)):
            assert pi.wait_response(each)["success"]

    def _command(self, move: Move) -> Record | None:
        target: str | None = None
        entries = self._pi.ask("get_entries")
        match move.kind:
            case "clone":
                target = entries["leafId"]
            case "fork":
                asked = self._pi.ask("get_fork_messages")["messages"]
                target = asked[move.choice % len(asked)]["entryId"] if asked else None
            case "switch_session":
                target = self._files[move.choice % len(self._files)] if self._files else None
            case "navigate_tree":
                places = [None, *(each["id"] for each in entries["entries"])]
                target = places[move.choice % len(places)]
            case _:
                pass
        if target is None and move.kind in {"clone", "fork", "switch_session"}:
            return None
        if move.by_extension:
            return {"type": "prompt", "message": f"/change {move.kind} {target or ''}".rstrip()}
        fields: dict[str, Record] = {
            "fork": {"entryId": target},
            "navigate_tree": {"entryId": target},
            "switch_session": {"sessionPath": target},
        }
        return {"type": move.kind, **fields.get(move.kind, {})}


@settings(WITH_FIXTURES, max_examples=EXAMPLES)
@given(moves=MOVES)
def test_the_records_tell_what_get_messages_returns(following: HomedAgent, moves: Sequence[Move]) -> None:
    """R-SES-17."""
    pi, driver, follower = following, Driver(following), Follower()
    since = pi.mark()
    pi.ask("get_messages")
    for move in moves:
        driver.do(move)
        pi.ask("get_messages")
        pi.ask("get_messages")  # what was loaded again is compared, too
    for each in pi.records[since:]:
        follower.take(each.record)
    assert follower.compared >= len(moves)
