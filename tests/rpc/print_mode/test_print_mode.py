"""Mode text: the answer on stdout, failures on stderr, one exit code for each."""

import json
from collections.abc import Sequence

import pytest

from pinnace_campaigns.trials.one_shot import OneShotStarter, Printed
from pinnace_fuzz.script import Scripted
from pinnace_rpc.print_mode.mode import RecordListener
from pinnace_rpc.server.outbox import Outbox
from pinnace_rpc.server.projection import make_projection

NO_RETRY = {"retry": {"enabled": False}}
REFUSED: Scripted = {"error": {"status": 400, "body": {"error": {"message": "bad request"}}}}
CUT: Scripted = {"text": "half an ans", "finish": "length", "usage": {"input": 10, "output": 4096}}


@pytest.mark.parametrize("words", [("-p", "hello"), ("--print", "hello"), ("--mode", "text", "hello"), ("hello",)])
def test_the_answer_is_all_that_is_printed(print_agent: OneShotStarter, words: Sequence[str]) -> None:
    one_shot = print_agent(words, [{"text": "good day"}])

    assert Printed(0, "good day\n", "") == one_shot.end()
    assert [[{"type": "text", "text": "hello"}]] == one_shot.asked


def test_a_mode_is_not_changed_by_asking_for_print(print_agent: OneShotStarter) -> None:
    rpc = print_agent(["--mode", "rpc", "-p"]).end(b'{"type":"get_state"}\n')
    in_json = print_agent(["--mode", "json", "-p", "hello"], [{"text": "good day"}]).end()

    assert ["response"] == [record["type"] for record in rpc.records]
    assert "session" == in_json.records[0]["type"]


def test_every_text_of_the_last_answer_is_a_line(print_agent: OneShotStarter) -> None:
    script: list[Scripted] = [
        {"text": "I will look", "tool_calls": [{"name": "bash", "args": {"command": "echo deep"}}]},
        {"text": "two\nlines"},
    ]
    assert Printed(0, "two\nlines\n", "") == print_agent(["-p", "look"], script).end()


def test_further_messages_are_sent_when_the_one_before_has_settled(print_agent: OneShotStarter) -> None:
    script: list[Scripted] = [
        {"tool_calls": [{"name": "bash", "args": {"command": "true"}}]},
        {"text": "one"},
        {"text": "two"},
        {"text": "three"},
    ]
    one_shot = print_agent(["-p", "a", "b", "c"], script)

    assert Printed(0, "three\n", "") == one_shot.end()
    assert ["a", "b", "c"] == [blocks[0]["text"] for blocks in one_shot.asked]
    assert ["one", "two"] == [
        message["content"]
        for message in one_shot.llm.requests[-1].body["messages"]
        if message["role"] == "assistant" and message.get("content")
    ]


def test_an_answer_without_text_prints_nothing_and_is_a_failure(print_agent: OneShotStarter) -> None:
    """R-RES-03."""
    assert (
        Printed(1, "", "pinnace: the model's answer is empty\n")
        == print_agent(["-p", "hello"], [{"reasoning": "hm", "finish": "stop"}]).end()
    )


def test_a_failure_of_the_model_is_reported_on_stderr(print_agent: OneShotStarter) -> None:
    ended = print_agent(["-p", "hello"], [REFUSED]).end()

    assert (1, "") == (ended.code, ended.out)
    assert ended.err.startswith("pinnace: 400")
    assert "bad request" in ended.err
    assert ["pinnace: 400", "pinnace: Mod"] == [line[:12] for line in ended.err.splitlines()]


def test_what_succeeds_at_last_is_no_failure(print_agent: OneShotStarter) -> None:
    settings = {"retry": {"baseDelayMs": 1}}
    one_shot = print_agent(["-p", "hello"], [{"error": {"status": 503}}, {"text": "fine"}], settings=settings)
    ended = one_shot.end()

    assert (0, "fine\n") == (ended.code, ended.out)
    assert ended.err.endswith("pinnace: trying again in 0.001 s (retry 1 of 3)\n")


def test_the_last_answer_decides(print_agent: OneShotStarter) -> None:
    """As in the original: each message is sent, whatever became of the one before."""
    assert 0 == print_agent(["-p", "a", "b"], [REFUSED, {"text": "fine"}]).end().code
    assert 1 == print_agent(["-p", "a", "b"], [{"text": "fine"}, REFUSED]).end().code


def test_an_answer_that_was_cut_is_printed_and_a_failure(print_agent: OneShotStarter) -> None:
    ended = print_agent(["-p", "hello"], [CUT]).end()

    assert (1, "half an ans\n") == (ended.code, ended.out)
    assert "pinnace: the answer was cut: the model has reached its output limit\n" == ended.err


def test_without_a_model_the_prompt_is_refused(print_agent: OneShotStarter) -> None:
    """The same text as in mode rpc."""
    one_shot = print_agent(["-p", "hello"], models={"providers": {}}, env={"HOME": "/nowhere"})
    ended = one_shot.end()

    assert (1, "") == (ended.code, ended.out)
    assert "pinnace: " == ended.err[:9]


def test_without_a_prompt_nothing_is_asked_and_that_is_said(print_agent: OneShotStarter) -> None:
    one_shot = print_agent(["-p"])

    assert Printed(0, "", "pinnace: no prompt was given, on the command line or on stdin\n") == one_shot.end(b" \n")
    assert [] == one_shot.llm.requests


def test_nothing_that_a_tool_prints_gets_into_the_answer(print_agent: OneShotStarter) -> None:
    """R-FRM-03."""
    script: list[Scripted] = [
        {"tool_calls": [{"name": "bash", "args": {"command": "echo stray; echo stray >&2"}}]},
        {"text": "done"},
    ]
    assert Printed(0, "done\n", "") == print_agent(["-p", "go"], script).end()


def test_an_answer_reaches_a_pipe_as_it_is(print_agent: OneShotStarter) -> None:
    """Escape sequences are left out for a terminal only."""
    assert "\x1b[1mbold\x1b[0m\n" == print_agent(["-p", "hello"], [{"text": "\x1b[1mbold\x1b[0m"}]).end().out


def test_the_conversation_is_kept_and_can_be_continued(print_agent: OneShotStarter) -> None:
    first = print_agent(["-p", "first"], [{"text": "one"}], has_session=True)
    assert 0 == first.end().code
    [file] = first.home.sessions.rglob("*.jsonl")
    second = print_agent(["-p", "second", "--session", str(file)], [{"text": "two"}], has_session=True)

    assert (0, "two\n") == second.end()[:2]
    assert ["first", "second"] == [blocks[0]["text"] for blocks in second.asked]
    roles = [json.loads(line).get("message", {}).get("role") for line in file.read_text().splitlines()]
    assert ["user", "assistant"] * 2 == [role for role in roles if role]


def test_a_dialog_is_declined_at_once_and_never_shown() -> None:
    """Whoever asks gets the default, since nobody is there."""
    listener = RecordListener(make_projection("pi"), is_silent=False)
    declined: list[str] = []
    outbox = Outbox(listener, on_unshown_dialog=declined.append)

    for method in ("confirm", "select", "notify", "setStatus"):
        record = {"type": "extension_ui_request", "id": method, "method": method}
        assert listener.line(record) is None
        outbox.put(record)
    assert ["confirm", "select"] == declined


def test_what_asks_elsewhere_is_refused_here(print_agent: OneShotStarter) -> None:
    """A session of another project is opened by its path or by --fork, and nothing is asked."""
    first = print_agent(["-p", "first"], [{"text": "one"}], has_session=True)
    first.end()
    [file] = first.home.sessions.rglob("*.jsonl")
    session_id = json.loads(file.read_text().splitlines()[0])["id"]
    elsewhere = ["-p", "second", "--session-dir", str(first.home.sessions)]
    named = print_agent([*elsewhere, "--session", session_id], has_session=True).end(b"y\n")
    forked = print_agent([*elsewhere, "--fork", session_id], [{"text": "two"}], has_session=True).end()

    assert (1, "") == (named.code, named.out)
    assert named.err.startswith(f"pinnace: No session of this folder matches '{session_id}'")
    assert (0, "two\n") == forked[:2]


@pytest.mark.parametrize("flags", [(), ("--mode", "json")])
def test_a_client_without_mode_rpc_is_told_so_at_once(flags: tuple[str, ...], print_agent: OneShotStarter) -> None:
    """R-CLI-04: it waits for an answer, so stdin does not end."""
    one_shot = print_agent([*flags], [])
    process = one_shot.process
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b'{"type":"get_state"}\n')
    process.stdin.flush()

    assert 2 == process.wait(60)
    assert b"(get_state): a client needs --mode rpc" in process.stderr.read()
    assert [] == one_shot.llm.requests


@pytest.mark.parametrize(
    ("stdin", "words", "code"),
    [
        (b'{"type":"get_state"}', [], 2),
        (b'{"type":"get_state"}\n', ["What is this?"], 0),
        (b'{"type":"other"}\n', [], 0),
        (b'{"type":', [], 0),
        (b'[{"type":"get_state"}]', [], 0),
        (b'a text\n{"type":"get_state"}\n', [], 0),
    ],
)
def test_json_that_is_asked_about_is_a_prompt(
    stdin: bytes, words: list[str], code: int, print_agent: OneShotStarter
) -> None:
    """R-CLI-04: but for a command that stands alone."""
    assert code == print_agent(["-p", *words], [{"text": "fine"}]).end(stdin).code
