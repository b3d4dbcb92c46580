"""`export_html` of a running agent and `pinnace --export`: what they answer, when, and what they leave alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.rules import errors

TIMEOUT_S = 60.0
SETTLED = {"type": "agent_settled"}
PATIENCE_S = 60.0


def pages(pi: HomedAgent) -> list[str]:
    return sorted(path.name for path in pi.home.work.iterdir())


def refused(pi: HomedAgent, **fields: object) -> tuple[str, str]:
    response = pi.request({"type": "export_html", **fields})
    assert not response["success"]
    return response["errorCode"], response["error"]


def command_line(pi: HomedAgent, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-P", "-m", "pinnace_rpc", *words],
        cwd=pi.home.work,
        env=dict(pi.home.env),
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
        text=True,
    )


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A session that takes a minute to export: each message is as slow as one can be."""
    lines: list[dict[str, object]] = [{"type": "session", "version": 3, "id": "slow", "timestamp": "", "cwd": "/"}]
    for number in range(150):
        message = {"role": "user", "content": "a*_" * 20_000, "timestamp": 1}
        parent = str(number - 1) if number else None
        lines.append({"type": "message", "id": str(number), "parentId": parent, "timestamp": "", "message": message})
    path = tmp_path / "slow.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_a_conversation_becomes_a_page(agent: AgentStarter) -> None:
    """R-RSP-01: the path is told as it was used."""
    pi = agent([{"text": "The answer is **here**."}], has_session=True)
    pi.say("Where is it?")
    state = pi.ask("get_state")
    data = pi.ask("export_html")

    assert {"path": f"pi-session-{Path(state['sessionFile']).stem}.html"} == data
    text = (pi.home.work / data["path"]).read_text()
    assert "<p>Where is it?</p>" in text
    assert "<strong>here</strong>" in text
    assert state["sessionId"] in text
    assert "System prompt" in text
    assert "Parameters" in text


def test_a_page_has_what_no_file_has_been_able_to_take(agent: AgentStarter) -> None:
    """What an entry says is exported from memory: the file need not even be there."""
    pi = agent([{"text": "one"}], has_session=True)
    pi.say("first")
    path = Path(pi.ask("get_state")["sessionFile"])
    content = path.read_bytes()
    path.unlink()
    assert {"path": "page.html"} == pi.ask("export_html", outputPath="page.html")
    assert "first" in (pi.home.work / "page.html").read_text()
    assert not path.exists()
    path.write_bytes(content)


def test_a_session_in_memory_or_without_a_file_is_refused(agent: AgentStarter) -> None:
    assert ("session_unavailable", errors.EXPORT_IN_MEMORY) == refused(agent())
    pi = agent(has_session=True)
    assert ("session_unavailable", errors.EXPORT_NOTHING) == refused(pi)
    assert [] == pages(pi)


def test_a_folder_that_is_missing_is_named(agent: AgentStarter) -> None:
    pi = agent([{"text": "one"}], has_session=True)
    pi.say("first")
    code, text = refused(pi, outputPath="no/page.html")
    assert "io_error" == code
    assert "Cannot write no/page.html: the folder" in text
    assert [] == pages(pi)


def test_other_commands_are_answered_meanwhile(agent: AgentStarter, slow: Path) -> None:
    pi = agent([{"text": "one"}], "--session", str(slow), has_session=True)
    pi.send({"id": "page", "type": "export_html"})
    assert pi.ask("get_state")["messageCount"] == 150
    assert "hi" in pi.ask("bash", command="echo hi")["output"]
    assert pi.found({"type": "response", "id": "page"}) == []


@pytest.mark.parametrize("count", [1, 3])
def test_the_end_of_stdin_ends_an_export_that_would_take_long(agent: AgentStarter, slow: Path, count: int) -> None:
    """R-EOF-01: it is answered, and nothing of it is left."""
    pi = agent([], "--session", str(slow), has_session=True)
    pi.ask("get_state")
    for number in range(count):
        pi.send({"id": number, "type": "export_html", "outputPath": "page.html"})
    pi.close_stdin()
    assert pi.wait_exit() == 0
    answers = [pi.wait_response(number) for number in range(count)]
    assert {"shutting_down"} == {answer["errorCode"] for answer in answers}
    assert [] == pages(pi)


def test_an_export_of_ordinary_size_survives_the_end_of_stdin(agent: AgentStarter) -> None:
    # It has half a second for what takes a part of that, which a machine that is busy with others may need at times.
    for _ in range(5):
        pi = agent([{"text": "one"}], has_session=True)
        pi.say("first")
        pi.ask("export_html", outputPath="warm.html")  # loads the packages
        pi.send({"id": "page", "type": "export_html", "outputPath": "page.html"})
        pi.close_stdin()
        assert pi.wait_exit() == 0
        answer = pi.wait_response("page")
        if answer["success"]:
            break

    assert answer["success"]
    assert ["page.html", "warm.html"] == pages(pi)


def test_a_drain_waits_for_exports(agent: AgentStarter, tmp_path: Path) -> None:
    """C-17."""
    path = tmp_path / "session.jsonl"
    message = {"role": "user", "content": "a*_" * 20_000, "timestamp": 1}
    entry = {"type": "message", "id": "a", "parentId": None, "timestamp": "", "message": message}
    header = {"type": "session", "version": 3, "id": "x", "timestamp": "", "cwd": "/"}
    path.write_text(f"{json.dumps(header)}\n{json.dumps(entry)}\n")
    pi = agent([], "--session", str(path), "--on-eof", "drain", has_session=True)
    pi.send_many({"id": number, "type": "export_html", "outputPath": f"{number}.html"} for number in range(3))
    pi.close_stdin()
    assert pi.wait_exit() == 0
    assert ["0.html", "1.html", "2.html"] == pages(pi)
    assert all(pi.wait_response(number)["success"] for number in range(3))


def test_the_command_line_exports_a_session_that_is_in_use(agent: AgentStarter) -> None:
    pi = agent([{"text": "one"}], has_session=True)
    pi.say("first")
    path = Path(pi.ask("get_state")["sessionFile"])
    before, names = path.read_bytes(), sorted(path.parent.iterdir())
    done = command_line(pi, "--export", str(path))

    assert (0, f"Exported to: pi-session-{path.stem}.html\n", "") == (done.returncode, done.stdout, done.stderr)
    assert "first" in (pi.home.work / f"pi-session-{path.stem}.html").read_text()
    assert (before, names) == (path.read_bytes(), sorted(path.parent.iterdir()))


def test_the_command_line_writes_a_branch_alone(agent: AgentStarter) -> None:
    pi = agent([{"text": "one"}, {"text": "two"}], has_session=True)
    pi.say("first")
    path = pi.ask("get_state")["sessionFile"]
    assert 0 == command_line(pi, "--export", path, "a.html", "--export-branch", "active").returncode
    assert "only the active one" in (pi.home.work / "a.html").read_text()
    assert 0 == command_line(pi, "--mode", "rpc", "--export", path, "a.jsonl").returncode
    assert b"first" in (pi.home.work / "a.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("--export", 2, "requires an argument"),
        ("--export a.jsonl b.html c.html", 2, "one file to write"),
        ("--export a.jsonl --export-branch some", 2, "takes all or active"),
        ("--export missing.jsonl", 1, "Session file not found: missing.jsonl"),
        ("--export .", 1, "Not a session file"),
    ],
)
def test_the_command_line_refuses_in_words(agent: AgentStarter, words: str, code: int, text: str) -> None:
    pi = agent()
    done = command_line(pi, *words.split())
    assert (code, "") == (done.returncode, done.stdout)
    assert text in done.stderr
    assert [] == pages(pi)


@pytest.mark.parametrize("package", ["jinja2", "markdown_it", "pygments"])
def test_a_package_that_is_not_installed_is_named(agent: AgentStarter, package: str) -> None:
    pi = agent([{"text": "```python\nx = 1\n```"}], has_session=True)
    pi.say("first")
    path = pi.ask("get_state")["sessionFile"]
    start = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from pinnace_rpc.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    )
    words = [sys.executable, "-c", start, "--export", path]
    done = subprocess.run(
        words, cwd=pi.home.work, env=dict(pi.home.env), capture_output=True, timeout=TIMEOUT_S, check=False, text=True
    )
    assert 1 == done.returncode
    assert f"({package}): install pinnace again from its sources" in done.stderr
    assert [] == pages(pi)


@pytest.mark.peer
def test_the_original_says_the_same(original_pi: list[str], agent: AgentStarter) -> None:
    pi = agent([{"text": "one"}], has_session=True)
    pi.say("first")
    path = pi.ask("get_state")["sessionFile"]
    told = []
    for name, program in (("a", [sys.executable, "-P", "-m", "pinnace_rpc"]), ("b", original_pi)):
        words = [*program, "--export", path, f"~/{name}.html"]
        env = dict(pi.home.env)
        done = subprocess.run(words, cwd=pi.home.work, env=env, capture_output=True, timeout=TIMEOUT_S, check=True)
        told.append(done.stdout.decode().replace(f"{name}.html", "x.html"))
    assert told[0] == told[1]
