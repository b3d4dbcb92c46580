"""What is said in a session that is no longer in force, while nothing can be saved: kept, and saved when there is room.

Rule R-SES-08.
"""

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.session_verdict import find_damage, shell_results
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent


def limit(pi: HomedAgent, size: int) -> None:
    """Let no file of the agent grow beyond this, as if the disk were full."""
    _, hard = resource.prlimit(pi.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pi.process.pid, resource.RLIMIT_FSIZE, (size, hard))


@pytest.mark.parametrize("is_back", [True, False], ids=["switched back to", "left alone"])
def test_the_result_of_a_shell_in_a_former_session_is_saved_when_there_is_room_again(
    agent: AgentStarter, gates: Callable[[], ShellGate], is_back: bool
) -> None:
    gate = gates()
    pi = agent([{"text": "one"}, {"text": "two"}], has_session=True)
    pi.say("one")
    path = Path(pi.ask("get_state")["sessionFile"])
    pi.send({"id": "shell", "type": "bash", "command": f"{gate.reading}; echo said in the former session"})
    gate.wait_reached()
    pi.ask("new_session")
    limit(pi, path.stat().st_size)
    gate.release()
    assert pi.wait_response("shell")["success"]
    told = pi.wait({"type": "extension_error", "event": "session_save"})
    assert str(path) in told["error"]
    pi.ask("get_state")

    limit(pi, resource.RLIM_INFINITY)
    if is_back:
        pi.ask("switch_session", sessionPath=str(path))
    pi.say("two")
    pi.check_end()

    (result,) = shell_results({path.name: path.read_bytes()})
    assert "said in the former session\n" == result["output"]
    assert [] == find_damage(path.read_bytes(), may_be_torn=False)
    assert 1 == len(pi.found({"type": "extension_error", "event": "session_save"}))
