"""Agents in a world that breaks: two hundred random steps; `pinnace_campaigns.chaos` takes more.

A step that fails prints the seed and the script to replay. The faults and the guarantees: docs/soak-and-chaos.md.
Rules R-SES-05 to R-SES-08, R-QUE-08 to R-QUE-10.
"""

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_campaigns.chaos import run
from pinnace_campaigns.chaos.__main__ import campaign, summary
from pinnace_campaigns.chaos.accounting import left_behind
from pinnace_campaigns.chaos.machine import Course, replay
from pinnace_campaigns.chaos.moves import Move, from_text, to_text
from pinnace_campaigns.chaos.run import Broken, Run
from pinnace_campaigns.chaos.world import World
from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.records import Record
from pinnace_spec.profiles.profiles import Profile

STEPS: Final = 200


def make(root: Path, protocol: Profile) -> World:
    return World(root, [sys.executable, "-P", "-m", "pinnace_rpc"], {"PYTHONPATH": PYTHONPATH}, protocol)


def course() -> Course:
    return Course(make, Counter(), Counter(), [], [], set())


@pytest.mark.slow
def test_every_invariant_holds_while_the_world_breaks() -> None:
    """Always the same steps, unless asked otherwise: what a build says is of its change. The command draws new ones."""
    seed = int(os.environ.get("CHAOS_SEED", "6000"))
    print(f"seed {seed}")
    played = course()
    campaign(played, STEPS, seed, is_shrinking=False, log=print)
    print(summary(played))

    assert STEPS <= played.moves.total()


def test_a_script_is_read_as_it_was_written() -> None:
    script = [Move("begin", {"protocol": "1.5"}), Move("ask", {"kind": 0, "answers": ["held"]}), Move("freeze")]

    assert script == from_text(to_text(script, about="a seed"))


def test_a_probe_of_the_temporary_folder_is_left_behind_by_a_kill_alone(tmp_path: Path) -> None:
    """The standard library writes it, and removes it at once."""
    home = prepare_pi_home(tmp_path, "")
    for name, content in (("3f518_9_", b"blat"), ("a23456_8", b""), ("tmp_4567", b"text"), ("blat", b"blat")):
        (home.temp / name).write_bytes(content)

    killed, ended = (left_behind(home, None, has_killed=each) for each in (True, False))

    assert ["left behind: tmp/blat", "left behind: tmp/tmp_4567"] == sorted(killed)
    assert 4 == len(ended)


def test_a_session_file_that_is_written_anew_is_left_behind_by_a_kill_alone(tmp_path: Path) -> None:
    home = prepare_pi_home(tmp_path, "", has_session=True)
    for name in (".pinnace-0123456789abcdef.tmp", ".pinnace-0123.tmp", "a.jsonl"):
        (home.sessions / name).touch()

    killed, ended = (left_behind(home, None, has_killed=each) for each in (True, False))

    assert 1 == len(killed)
    assert killed[0].endswith("/.pinnace-0123.tmp")
    assert 2 == len(ended)


def test_a_descriptor_that_is_still_held_for_a_moment_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flush in a thread keeps the file that was replaced meanwhile."""
    looks: list[list[str]] = [["/gone (deleted)"], ["pipe"] * 1000, ["pipe"]]
    world = make(tmp_path / "world", "pi")
    try:
        with monkeypatch.context() as patched:
            patched.setattr(run, "descriptors_of", lambda _pid: looks.pop(0))
            world.run.check_descriptors()
        assert [] == looks

        with monkeypatch.context() as patched:
            patched.setattr(run, "descriptors_of", lambda _pid: ["/gone (deleted)"])
            patched.setattr(run, "LEFT_BEHIND_S", 0)
            with pytest.raises(Broken, match="gone"):
                world.run.check_descriptors()
        world.close()
    except BaseException:
        world.discard()
        raise


def test_a_state_counts_only_if_all_commands_before_it_were_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`get_state` is answered at once, a message when it is on the disk: the state between them knows of no work."""
    asked = Run.probe

    def probe(run: Run) -> Record:
        state = asked(run)
        run.agent.journal.wait_until(lambda: not run.agent.journal.unanswered(), 10)
        return state

    monkeypatch.setattr(Run, "probe", probe)
    world = make(tmp_path / "world", "pi")
    try:
        world.ask(5, ["text"])

        names = [each.record.get("command", each.record["type"]) for each in world.agent.journal.records]
        assert (
            names.index("follow_up")
            < names.index("agent_settled")
            < names.index("get_state", names.index("agent_settled"))
        )
        world.close()
    except BaseException:
        world.discard()
        raise


def test_a_summary_that_the_server_delays_holds_up_no_move(tmp_path: Path) -> None:
    """No record tells of the delay, which is as long as two thirds of what a move may take."""
    world = make(tmp_path / "world", "pi")
    try:
        world.ask(0, ["long"])
        world.ask(0, ["long"])
        ends: Sequence[Callable[[], None]] = (lambda: world.leave("session"), lambda: world.command("stop", 0))
        for end in ends:
            world.compact(["later", "later"])
            assert world.run.state["isCompacting"]
            end()
            assert not world.run.state["isCompacting"]
        world.close()
    except BaseException:
        world.discard()
        raise


def test_everything_breaks_once_and_nothing_is_lost() -> None:
    """One fixed script with each kind of fault, so that none is left out by chance."""
    mended = [Move("make_room"), Move("ask", {"kind": 0, "answers": ["text"]})]
    script = [
        Move("begin", {"protocol": "pi"}),
        Move("ask", {"kind": 0, "answers": ["tools", "held"]}),
        Move("ask", {"kind": 5, "answers": ["text"]}),
        Move("crash", {"commands": [], "answers": [], "records": 0, "again": "session"}),
        Move("ask", {"kind": 0, "answers": ["hanging"]}),
        Move("freeze"),
        Move("command", {"family": "stop", "pick": 0}),
        Move("thaw"),
        Move("server_away"),
        Move("ask", {"kind": 0, "answers": ["text"]}),
        Move("server_back"),
        Move("jump", {"offset_s": -86400}),
        Move("sip", {"count": 5, "answers": ["tools"]}),
        Move("fill", {"kind": "limit", "room": 60}),
        Move("ask", {"kind": 0, "answers": ["text"]}),
        *mended,
        Move("pause"),
        Move("ask", {"kind": 0, "answers": ["long"]}),
        Move("read_on"),
        Move("vanish", {"again": "session"}),
        Move("fill", {"kind": "disk", "room": 0}),
        Move("ask", {"kind": 0, "answers": ["tools"]}),
        *mended,
        Move("terminate", {"again": "continue"}),
        Move("leave", {"again": "session"}),
    ]
    replay(course(), script)
