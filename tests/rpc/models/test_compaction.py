"""Compaction of the whole program over real pipes: asked for, at the threshold, after an overflow.

Most tests share one agent, each in a session of its own and with answers of its own. Everything but the last prompt is
summarised, unless a test says otherwise. Rules R-CMP-01 to R-CMP-04, C-12 to C-15, R-SET-03.
"""

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Literal

import pytest

from pinnace_fuzz.harness.adapters import pi_models
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.reading import kinds
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent
from pinnace_spec.rules import errors
from pinnace_spec.session_format import validate_session

Kind = Literal["manual", "threshold", "threshold with a prompt", "overflow"]
KINDS: Final[tuple[Kind, ...]] = ("manual", "threshold", "threshold with a prompt", "overflow")
SETTINGS: Final = {"retry": {"baseDelayMs": 1}, "compaction": {"keepRecentTokens": 3}}
NEARLY_FULL: Final = {"input": 120_000, "output": 5}
TOO_LONG: Final = {"error": {"status": 400, "body": {"error": {"message": "prompt is too long"}}}}
REFUSED: Final = {"error": {"status": 401, "body": {"error": {"message": "who are you"}}}}
BUSY: Final = {"error": {"status": 503, "body": {"error": {"message": "busy"}}}}
SUMMARY: Final = {"text": "SUMMARY", "usage": {"input": 70, "output": 30}}
CONTINUED: Final = ("agent_start", "agent_end", "agent_settled")
WITHIN_RUNS: Final = {"message_start", "message_update", "message_end", "turn_start", "turn_end"}
_numbers = itertools.count()


class Talk:
    """One session of an agent that others may use too; every text and every answer is for this one alone."""

    def __init__(self, pi: HomedAgent) -> None:
        self.pi = pi
        self.tag = f"talk{next(_numbers):04}"
        self.gate = f"gate of {self.tag}"
        self.mark = pi.mark()

    def script(self, *responses: Record) -> None:
        """Add answers to requests of this session."""
        for response in responses:
            self.pi.llm.add({**response, "match": self.tag})

    def ask(self, command: str, /, **fields: object) -> Record:
        """Send a command that succeeds; return its data."""
        response = self.pi.request({"type": command, **fields})
        assert response["success"], response
        return response.get("data") or {}

    def text(self, text: str) -> str:
        return f"{self.tag} {text}"

    def say(self, text: str) -> None:
        """Send a prompt and wait until it is done with."""
        self.mark = self.pi.mark()
        self.ask("prompt", message=self.text(text))
        self.pi.wait({"type": "agent_settled"}, since=self.mark)

    def begin(self, text: str) -> None:
        """Send a prompt, and do not wait."""
        self.mark = self.pi.mark()
        self.pi.send({"id": f"P-{self.tag}", "type": "prompt", "message": self.text(text)})

    def two_turns(self, **usage: object) -> None:
        """Have a conversation of two turns, of which the second is kept."""
        self.script({"text": "first"}, {"text": "second", **usage})
        self.say("one")
        self.say("two")

    def compact(self, **fields: object) -> Record:
        """Ask for a compaction; return the response."""
        self.mark = self.pi.mark()
        return self.pi.request({"type": "compact", **fields})

    def hold(self, kind: Kind) -> None:
        """Bring about a compaction and hold its request for a summary at the gate."""
        held = {"hold": self.gate, **SUMMARY}
        match kind:
            case "manual":
                self.two_turns()
                self.script(held)
                self.mark = self.pi.mark()
                self.pi.send({"id": f"C-{self.tag}", "type": "compact"})
            case "threshold":
                self.script({"text": "first"}, {"text": "second", "usage": NEARLY_FULL}, held)
                self.say("one")
                self.begin("two")
            case "threshold with a prompt":
                self.nearly_full()
                self.script(held)
                self.begin("three")
            case "overflow":
                self.script({"text": "first"}, TOO_LONG, held)
                self.say("one")
                self.begin("two")
        self.pi.llm.wait_reached(self.gate)
        self.pi.wait({"type": "compaction_start"}, since=self.mark)

    def nearly_full(self) -> None:
        """Have a context over the threshold that nobody has compacted yet."""
        self.ask("set_auto_compaction", enabled=False)
        self.two_turns(usage=NEARLY_FULL)
        self.ask("set_auto_compaction", enabled=True)

    def flow(self) -> list[str]:
        """Return what was written since the last prompt or compact, without the inside of runs."""
        return [kind for kind in kinds(self.pi.records[self.mark :]) if kind not in WITHIN_RUNS]

    def end(self) -> Record:
        """Return the only end of a compaction since the last prompt or compact, without its entry, the start's."""
        (end,) = self.pi.found({"type": "compaction_end"}, since=self.mark)
        begun = self.pi.found({"type": "compaction_start"})[-1]
        assert begun["entryId"] == end["entryId"]
        return {name: value for name, value in end.items() if name != "entryId"}

    def context(self) -> list[tuple[str, str]]:
        """Return role and text of the context, without the tag; of an answer that failed, how it ended."""
        return [self._told(message) for message in self.ask("get_messages")["messages"]]

    def _told(self, message: Record) -> tuple[str, str]:
        if message.get("stopReason") in {"error", "aborted"}:
            return message["role"], message["stopReason"]
        content = message.get("summary") or message.get("content")
        texts = content if isinstance(content, str) else "".join(block.get("text", "") for block in content or ())
        return message["role"], texts.replace(f"{self.tag} ", "")

    def request(self, number: int = -1) -> Record:
        """Return a request of this session."""
        return [each.body for each in self.pi.llm.requests if self.tag in each.text][number]

    def sent(self, number: int = -1) -> str:
        """Return all text of a request."""
        return json.dumps(self.request(number)["messages"])

    def requests(self) -> int:
        """Count the requests of this session."""
        return sum(self.tag in each.text for each in self.pi.llm.requests)

    def usage(self) -> Record:
        """Return how full the context is said to be."""
        usage: Record = self.ask("get_session_stats")["contextUsage"]
        return usage

    def path(self) -> Path:
        return Path(self.ask("get_state")["sessionFile"])


def entries(path: Path, kind: str) -> list[Record]:
    """Return the entries of a type in a file that is as files have to be."""
    data = path.read_bytes()
    assert validate_session(data) == []
    return [row for row in map(json.loads, data.splitlines()) if row["type"] == kind]


@pytest.fixture(scope="module")
def shared(module_agent: AgentStarter) -> HomedAgent:
    return module_agent([], settings=SETTINGS, has_session=True)


@pytest.fixture
def talk(shared: HomedAgent) -> Talk:
    """A session of its own in an agent that is as it began."""
    talk = Talk(shared)
    talk.ask("new_session")
    talk.ask("set_model", provider="fake", modelId="m1")
    talk.ask("set_auto_retry", enabled=True)
    talk.ask("set_auto_compaction", enabled=True)
    talk.mark = shared.mark()
    return talk


def alone(agent: AgentStarter, *flags: str, settings: Record | None = None, has_session: bool = True) -> Talk:
    """Return a session in an agent of its own."""
    return Talk(agent([], *flags, settings=SETTINGS if settings is None else settings, has_session=has_session))


# Asked for.


def test_a_compaction_replaces_what_it_summarises(talk: Talk) -> None:
    """R-CMP-01, C-12: records, response, entry, context and the next request all tell the same."""
    talk.two_turns()
    before = talk.ask("get_entries")["entries"]
    talk.script(SUMMARY, {"text": "third"})

    data = talk.compact()["data"]

    assert talk.flow() == ["compaction_start", "compaction_end", "compact:ok"]
    (entry,) = entries(talk.path(), "compaction")
    assert talk.pi.found({"type": "compaction_start"}, since=talk.mark) == [
        {"type": "compaction_start", "reason": "manual", "entryId": entry["id"]}
    ]
    assert talk.end() == {
        "type": "compaction_end",
        "reason": "manual",
        "result": data,
        "aborted": False,
        "willRetry": False,
    }
    kept = next(e for e in before if talk.text("two") in json.dumps(e))
    assert data["firstKeptEntryId"] == kept["id"]
    assert (data["summary"], data["details"]) == ("SUMMARY", {"readFiles": [], "modifiedFiles": []})
    assert (data["usage"]["input"], data["usage"]["output"]) == (70, 30)
    assert data["tokensBefore"] == 15
    told = {key: value for key, value in data.items() if key != "estimatedTokensAfter"}
    assert {key: entry.get(key) for key in told} == told
    assert entry["parentId"] == before[-1]["id"]
    assert talk.context() == [("compactionSummary", "SUMMARY"), ("user", "two"), ("assistant", "second")]
    assert talk.ask("get_state")["messageCount"] == 3
    # Nothing is gone from the file.
    assert len(entries(talk.path(), "message")) == 4

    talk.say("three")
    assert "SUMMARY" in talk.sent()
    assert all(text in talk.sent() for text in ("two", "second", "three"))
    assert talk.text("one") not in talk.sent()


@pytest.mark.parametrize("instructions", [None, "look at the ROSES"])
def test_the_instructions_reach_the_model_that_writes_the_summary(talk: Talk, instructions: str | None) -> None:
    talk.two_turns()
    talk.script(SUMMARY)
    talk.compact(**({} if instructions is None else {"customInstructions": instructions}))

    assert ("ROSES" in talk.sent()) == (instructions is not None)
    assert talk.text("one") in talk.sent()
    assert talk.text("two") not in talk.sent()
    assert not talk.request().get("tools")


def test_a_turn_that_is_cut_in_two_has_two_summaries_and_both_heed_the_instructions(talk: Talk) -> None:
    talk.script({"text": "first"}, {"tool_calls": [{"name": "bash", "args": {"command": "true"}}]}, {"text": "second"})
    talk.say("one")
    talk.say("two")
    talk.script({"text": "HISTORY"}, {"text": "PREFIX"})
    summary = talk.compact(customInstructions="ROSES")["data"]["summary"]

    assert summary.index("HISTORY") < summary.index("PREFIX")
    assert ["ROSES" in talk.sent(number) for number in (-2, -1)] == [True, True]
    assert talk.context()[1:] == [("assistant", "second")]


def test_the_next_summary_begins_with_the_last_one(talk: Talk) -> None:
    talk.two_turns()
    talk.script(SUMMARY, {"text": "third"}, {"text": "NEWER"})
    talk.compact()
    talk.say("three")

    assert talk.compact()["data"]["summary"] == "NEWER"
    assert "SUMMARY" in talk.sent()
    assert talk.text("one") not in talk.sent()
    assert talk.context() == [("compactionSummary", "NEWER"), ("user", "three"), ("assistant", "third")]
    assert len(entries(talk.path(), "compaction")) == 2


def test_the_files_of_what_was_summarised_are_remembered(talk: Talk) -> None:
    work = talk.pi.home.work
    (work / "read.txt").write_text("read")
    calls = [
        {"name": "read", "args": {"path": "read.txt"}},
        {"name": "write", "args": {"path": "written.txt", "content": "written"}},
    ]
    talk.script({"tool_calls": calls}, {"text": "first"}, {"text": "second"}, SUMMARY)
    talk.say("one")
    talk.say("two")
    data = talk.compact()["data"]

    assert data["details"] == {"readFiles": ["read.txt"], "modifiedFiles": ["written.txt"]}
    assert "<read-files>\nread.txt\n</read-files>" in data["summary"]
    assert "<modified-files>\nwritten.txt\n</modified-files>" in data["summary"]


def test_the_usage_of_the_context_is_unknown_until_an_answer_reports_it(talk: Talk) -> None:
    """R-CMP-04."""
    talk.two_turns()
    assert talk.usage() == {"tokens": 15, "contextWindow": 128_000, "percent": 15 / 128_000 * 100}
    talk.script(SUMMARY, REFUSED, {"text": "more", "usage": {"input": 500, "output": 12}})
    talk.compact()
    unknown = {"tokens": None, "contextWindow": 128_000, "percent": None}
    assert talk.usage() == unknown
    talk.say("refused")
    assert talk.usage() == unknown
    talk.say("answered")

    assert talk.usage() == {"tokens": 512, "contextWindow": 128_000, "percent": 512 / 128_000 * 100}


# What can not be done.


def refused(talk: Talk, text: str, code: str, **fields: object) -> None:
    """Ask for a compaction that fails: what is told, and that nothing else has changed."""
    before = talk.context()
    stored = entries(talk.path(), "compaction") if talk.path().exists() else []
    response = talk.compact(**fields)

    assert (response["success"], response["error"], response["errorCode"]) == (False, text, code)
    assert talk.flow() == ["compaction_start", "compaction_end", "compact:error"]
    assert talk.end() == {
        "type": "compaction_end",
        "reason": "manual",
        "result": None,
        "aborted": False,
        "willRetry": False,
        "errorMessage": f"Compaction failed: {text}",
    }
    assert talk.context() == before
    assert stored == (entries(talk.path(), "compaction") if talk.path().exists() else [])


def test_an_empty_session_has_nothing_to_compact(talk: Talk) -> None:
    """R-CMP-03."""
    refused(talk, errors.NOTHING_TO_COMPACT, "nothing_to_compact")


def test_a_session_that_is_kept_as_it_is_has_nothing_to_compact(talk: Talk) -> None:
    talk.script({"text": "first"})
    talk.say("one")
    refused(talk, errors.NOTHING_TO_COMPACT, "nothing_to_compact")
    assert talk.requests() == 1


def test_a_session_is_not_compacted_twice(talk: Talk) -> None:
    talk.two_turns()
    talk.script(SUMMARY)
    talk.compact()
    refused(talk, errors.ALREADY_COMPACTED, "already_compacted")
    assert talk.requests() == 3


def test_without_a_model_there_is_no_summary(agent: AgentStarter) -> None:
    former = agent([])
    former.close_stdin()
    assert former.wait_exit() == 0
    (former.home.agent_dir / "models.json").unlink()
    former.home = former.home._replace(arguments=["--mode", "rpc", "--no-session"])
    talk = Talk(agent((), again=former))
    response = talk.compact()

    assert (response["success"], response["error"], response["errorCode"]) == (False, errors.NO_MODEL, "no_model")
    assert talk.end()["errorMessage"] == f"Compaction failed: {errors.NO_MODEL}"


def test_without_a_key_there_is_no_summary(agent: AgentStarter) -> None:
    with FakeLlm() as llm:
        models: Record = pi_models(llm.base_url)
        models["providers"]["fake"]["apiKey"] = "!cat key"
        talk = Talk(agent(llm, models=models, settings=SETTINGS, has_session=True))
        (talk.pi.home.agent_dir / "key").write_text("sk")
        talk.two_turns()
        (talk.pi.home.agent_dir / "key").unlink()
        response = talk.compact()

        assert response["errorCode"] == "no_api_key"
        assert "fake" in response["error"]
        assert talk.end()["errorMessage"] == f"Compaction failed: {response['error']}"
        talk.pi.close_stdin()
        assert talk.pi.wait_exit() == 0


FAILURES: Final[dict[str, tuple[Record, str]]] = {
    "refused": (REFUSED, "who are you"),
    "cut before its first word": ({"text": "", "finish": "length"}, "nothing"),
    "a tool call": ({"tool_calls": [{"name": "bash", "args": {"command": "true"}}]}, "called a tool"),
    "thoughts alone": ({"reasoning": "hm"}, "nothing"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_summary_that_is_none_changes_nothing(talk: Talk, failure: str) -> None:
    """R-CMP-03: and the next attempt is as good as the first."""
    response, words = FAILURES[failure]
    talk.two_turns()
    talk.script(response, SUMMARY)
    known = talk.usage()
    answer = talk.compact()

    assert (answer["success"], answer["errorCode"]) == (False, "compaction_failed")
    assert answer["error"].startswith("Summarization failed: ")
    assert words in answer["error"]
    assert talk.flow() == ["compaction_start", "compaction_end", "compact:error"]
    assert talk.end()["errorMessage"] == f"Compaction failed: {answer['error']}"
    assert (talk.end()["result"], talk.end()["aborted"]) == (None, False)
    assert entries(talk.path(), "compaction") == []
    assert talk.usage() == known
    answer = talk.compact()
    assert answer.get("error") is None


def test_half_a_summary_is_none(talk: Talk) -> None:
    talk.script({"text": "first"}, {"tool_calls": [{"name": "bash", "args": {"command": "true"}}]}, {"text": "second"})
    talk.say("one")
    talk.say("two")
    talk.script({"text": "HISTORY"}, REFUSED)
    answer = talk.compact()

    assert answer["error"].startswith("Turn prefix summarization failed: ")
    assert entries(talk.path(), "compaction") == []


# How summaries are asked for.


def test_a_summary_is_tried_again_in_silence(talk: Talk) -> None:
    """R-RTY-01: by the same policy, and told to nobody."""
    talk.two_turns()
    talk.script(BUSY, {"chunks": [{"text": "SUM"}, {"disconnect": "rst"}]}, BUSY, SUMMARY)

    assert talk.compact()["data"]["summary"] == "SUMMARY"
    assert talk.flow() == ["compaction_start", "compaction_end", "compact:ok"]
    assert talk.requests() == 6


def test_a_summary_is_tried_so_often_and_no_more(talk: Talk) -> None:
    talk.two_turns()
    talk.script({**BUSY, "repeat": -1})

    assert "busy" in talk.compact()["error"]
    assert talk.flow() == ["compaction_start", "compaction_end", "compact:error"]
    assert talk.requests() == 6


def test_a_summary_is_not_tried_again_when_that_is_off(talk: Talk) -> None:
    talk.two_turns()
    talk.script(BUSY)
    talk.ask("set_auto_retry", enabled=False)

    assert "busy" in talk.compact()["error"]
    assert talk.requests() == 3


def test_a_summary_of_too_much_is_asked_for_in_pieces(talk: Talk) -> None:
    """It never ends in another compaction."""
    for number in range(6):
        talk.script({"text": f"answer {number} " * 80})
        talk.say(f"prompt {number}")
    talk.script({"text": "last"}, TOO_LONG, {**SUMMARY, "repeat": -1})
    talk.say("last prompt")
    before = talk.requests()

    answer = talk.compact()
    assert answer.get("error") is None
    assert talk.flow() == ["compaction_start", "compaction_end", "compact:ok"]
    refused, *answered = [talk.sent(number) for number in range(before, talk.requests())]
    assert len(answered) > 1
    assert all(len(each) < len(refused) for each in answered)
    for number in range(6):
        assert sum(f"answer {number} " * 80 in each for each in answered) == 1


# What no single request for a summary can hold.


@pytest.fixture
def long_talk(agent: AgentStarter, llm: Callable[[Iterable[Scripted]], FakeLlm]) -> Talk:
    """A conversation that is twice as long as the window, and no compaction by itself."""
    fake = llm([])
    models: Record = pi_models(fake.base_url)
    models["providers"]["fake"]["models"][0]["contextWindow"] = 8_192
    talk = Talk(agent(fake, models=models, settings=SETTINGS, has_session=True))
    talk.ask("set_auto_compaction", enabled=False)
    talk.script({"text": "answer", "repeat": 8})
    for number in range(8):
        talk.say(f"prompt {number} " + "long " * 2_000)
    return talk


def test_a_compaction_in_pieces_is_one_compaction_for_clients(long_talk: Talk) -> None:
    """R-CMP-01, R-CMP-06, R-CMP-08: its records, its usage, its entry."""
    long_talk.script(*({**SUMMARY, "text": f"SUMMARY {number}"} for number in range(9)))
    before = long_talk.requests()
    result = long_talk.compact(customInstructions="ROSES")["data"]
    pieces = [long_talk.sent(number) for number in range(before, long_talk.requests())]

    assert len(pieces) > 2
    assert long_talk.flow() == ["compaction_start", "compaction_end", "compact:ok"]
    assert long_talk.end()["result"] == result
    assert result["summary"] == f"SUMMARY {len(pieces) - 1}"
    assert (result["usage"]["input"], result["usage"]["output"]) == (70 * len(pieces), 30 * len(pieces))
    assert len(entries(long_talk.path(), "compaction")) == 1
    for number in range(7):
        assert sum(long_talk.text(f"prompt {number} " + "long " * 2_000) in piece for piece in pieces) == 1
    assert all("ROSES" in piece for piece in pieces)
    assert all(f"SUMMARY {number}\\n</previous-summary>" in piece for number, piece in enumerate(pieces[1:]))


@pytest.mark.parametrize("has_begun", [False, True])
def test_an_abort_ends_a_compaction_in_its_pieces_without_a_trace(long_talk: Talk, has_begun: bool) -> None:
    """Whether the answer of a later piece has begun or not; the next compaction begins anew."""
    gate = long_talk.gate
    held = {"text": ["SUM", {"gate": gate}, "MARY"]} if has_begun else {"hold": gate, **SUMMARY}
    long_talk.script({**SUMMARY, "text": "FIRST PIECE"}, held)
    context = long_talk.context()
    long_talk.mark = long_talk.pi.mark()
    long_talk.pi.send({"id": "C", "type": "compact"})
    long_talk.pi.llm.wait_reached(gate)
    long_talk.ask("abort")

    assert long_talk.pi.wait_response("C")["error"] == errors.COMPACTION_CANCELLED
    assert long_talk.end()["aborted"] is True
    assert long_talk.context() == context
    assert entries(long_talk.path(), "compaction") == []
    long_talk.pi.llm.release(gate)
    long_talk.script({**SUMMARY, "repeat": -1})
    assert long_talk.compact()["data"]["summary"] == "SUMMARY"
    assert "FIRST PIECE" not in long_talk.sent()


def test_a_compaction_of_which_one_piece_fails_fails(long_talk: Talk) -> None:
    long_talk.script(SUMMARY, SUMMARY, REFUSED)
    context = long_talk.context()
    response = long_talk.compact()

    assert response["errorCode"] == "compaction_failed"
    assert response["error"].startswith('Summarization failed: 401: {"message":"who are you"}')
    assert long_talk.flow() == ["compaction_start", "compaction_end", "compact:error"]
    assert long_talk.end()["errorMessage"] == f"Compaction failed: {response['error']}"
    assert long_talk.context() == context
    assert entries(long_talk.path(), "compaction") == []


def test_an_abort_ends_the_wait_for_the_next_try(agent: AgentStarter) -> None:
    talk = alone(agent, settings={**SETTINGS, "retry": {"baseDelayMs": 600_000, "maxAgentDelayMs": 600_000}})
    talk.two_turns()
    talk.script({**BUSY, "hold": talk.gate})
    talk.mark = talk.pi.mark()
    talk.pi.send({"id": "C", "type": "compact"})
    talk.pi.llm.wait_reached(talk.gate)
    talk.pi.llm.release(talk.gate)
    talk.ask("abort")

    assert talk.pi.wait_response("C")["error"] == errors.COMPACTION_CANCELLED
    assert talk.flow() == ["compaction_start", "compaction_end", "compact:error", "abort:ok"]


# Cancelled.


@pytest.mark.parametrize("kind", KINDS)
def test_an_abort_ends_a_compaction_without_a_trace(talk: Talk, kind: Kind) -> None:
    """R-ABT-01, C-6, C-13, C-15."""
    talk.hold(kind)
    state = talk.ask("get_state")
    assert (state["isCompacting"], state["isStreaming"]) == (True, kind != "manual")
    talk.mark = talk.pi.mark()
    gone = len(talk.pi.llm.disconnects)
    talk.ask("abort")

    closing = {"manual": ["compact:error"], "threshold with a prompt": ["prompt:error", "agent_settled"]}
    answers = closing.get(kind, ["agent_settled"])
    assert talk.flow() == ["compaction_end", *answers, "abort:ok"]
    assert talk.end() == {
        "type": "compaction_end",
        "reason": kind.split()[0],
        "result": None,
        "aborted": True,
        "willRetry": False,
    }
    talk.pi.llm.wait_disconnects(gone + 1)
    state = talk.ask("get_state")
    assert (state["isCompacting"], state["isStreaming"]) == (False, False)
    assert entries(talk.path(), "compaction") == []
    if kind == "manual":
        assert talk.pi.wait_response(f"C-{talk.tag}")["error"] == errors.COMPACTION_CANCELLED
    if kind == "threshold with a prompt":
        assert talk.pi.wait_response(f"P-{talk.tag}")["error"] == errors.ABORTED_BEFORE_START
        assert ("user", "three") not in talk.context()
    # It can be asked for again, and works.
    talk.script(SUMMARY, {"text": "more"})
    answer = talk.compact()
    assert answer.get("error") is None
    talk.say("four")
    assert talk.context()[-2:] == [("user", "four"), ("assistant", "more")]


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_of_stdin_ends_a_compaction(agent: AgentStarter, kind: Kind) -> None:
    """C-16."""
    talk = alone(agent)
    talk.hold(kind)
    path = talk.path()
    talk.mark = talk.pi.mark()
    talk.pi.close_stdin()

    assert talk.pi.wait_exit() == 0
    closing = {"manual": ["compact:error"], "threshold with a prompt": ["prompt:error", "agent_settled"]}
    assert talk.flow() == ["compaction_end", *closing.get(kind, ["agent_settled"])]
    assert talk.end()["aborted"]
    assert entries(path, "compaction") == []
    if kind in closing:
        command = {"manual": "C", "threshold with a prompt": "P"}[kind]
        assert talk.pi.wait_response(f"{command}-{talk.tag}")["error"] == errors.SHUTTING_DOWN


@pytest.mark.parametrize("kind", KINDS)
def test_a_drain_finishes_a_compaction_and_what_it_is_for(agent: AgentStarter, kind: Kind) -> None:
    """C-17."""
    talk = alone(agent, "--on-eof", "drain")
    talk.hold(kind)
    path = talk.path()
    talk.script({"text": "more", "repeat": -1})
    talk.pi.close_stdin()
    talk.pi.llm.release(talk.gate)

    assert talk.pi.wait_exit() == 0
    assert len(entries(path, "compaction")) == 1
    assert (talk.flow()[-3:] == list(CONTINUED)) == (kind in {"overflow", "threshold with a prompt"})


@pytest.mark.parametrize("command", ["new_session", "clone", "fork", "switch_session"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_session_that_is_left_is_not_compacted(talk: Talk, kind: Kind, command: str) -> None:
    """C-10: neither is the one that takes its place."""
    talk.hold(kind)
    old = talk.path()
    first = next(e for e in talk.ask("get_entries")["entries"] if talk.text("two") in json.dumps(e))
    other = old.with_name(f"{talk.tag}.jsonl")
    other.write_bytes(old.read_bytes().splitlines(keepends=True)[0])
    fields: dict[str, Record] = {"fork": {"entryId": first["id"]}, "switch_session": {"sessionPath": str(other)}}
    talk.ask(command, **fields.get(command, {}))

    assert talk.end()["aborted"]
    assert entries(old, "compaction") == []
    new = talk.path()
    assert new != old
    assert not new.exists() or entries(new, "compaction") == []
    texts = [text for role, text in talk.context() if role == "user"]
    assert texts == {"clone": ["one", "two"], "fork": ["one"]}.get(command, [])
    if command == "new_session":
        talk.ask("switch_session", sessionPath=str(old))
        assert [text for role, text in talk.context() if role == "user"] == ["one", "two"]


@pytest.mark.parametrize("phase", ["llm", "tools"])
def test_a_compaction_ends_the_run_and_everything_of_it_is_reported(agent: AgentStarter, phase: str) -> None:
    """C-12: the records of the run come first, and it is not gone on with."""
    talk = alone(agent)
    talk.two_turns()
    sleeping = {"tool_calls": [{"name": "bash", "args": {"command": "sleep 600"}}]}
    talk.script({"chunks": [{"text": "begun"}, {"hang": True}]} if phase == "llm" else sleeping)
    talk.script({**SUMMARY, "repeat": 2})
    talk.begin("three")
    begun = {"type": "message_update", "assistantMessageEvent": {"type": "text_delta"}}
    talk.pi.wait(begun if phase == "llm" else {"type": "tool_execution_start"}, since=talk.mark)
    answer = talk.compact()
    assert answer.get("error") is None

    unordered = {"message_update", "message_start", "tool_execution_update"}
    closing = [kind for kind in kinds(talk.pi.records[talk.mark :]) if kind not in unordered]
    tools = ["tool_execution_end"] if phase == "tools" else []
    assert closing == [
        *tools,
        "message_end",
        "turn_end",
        "agent_end",
        "agent_settled",
        "compaction_start",
        "compaction_end",
        "compact:ok",
    ]
    assert len(entries(talk.path(), "compaction")) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_shell_while_it_is_compacted_is_kept(talk: Talk, kind: Kind) -> None:
    """R-BSH-03: written at once only if nothing else is under way, and in the context afterwards in any case."""
    talk.hold(kind)
    talk.ask("bash", command="echo beside")
    assert ("bashExecution" in dict(talk.context())) == (kind == "manual")
    talk.script({"text": "more", "repeat": -1})
    talk.pi.llm.release(talk.gate)
    if kind == "manual":
        talk.pi.wait_response(f"C-{talk.tag}")
    else:
        talk.pi.wait({"type": "agent_settled"}, since=talk.mark)

    roles = {
        "manual": ["user", "assistant", "bashExecution"],
        "threshold": ["user", "assistant", "bashExecution"],
        "threshold with a prompt": ["user", "assistant", "bashExecution", "user", "assistant"],
        "overflow": ["user", "assistant", "bashExecution"],
    }
    assert [role for role, _ in talk.context()] == ["compactionSummary", *roles[kind]]


# At the threshold.


def test_a_run_that_fills_the_context_is_followed_by_a_compaction(talk: Talk) -> None:
    """R-CMP-01: behind the run, before the client is told that all is settled."""
    talk.script({"text": "first"}, {"text": "second", "usage": NEARLY_FULL}, SUMMARY, {"text": "third"})
    talk.say("one")
    talk.say("two")

    assert talk.flow() == [
        "prompt:ok",
        "agent_start",
        "agent_end",
        "compaction_start",
        "compaction_end",
        "agent_settled",
    ]
    assert talk.pi.found({"type": "agent_end"}, since=talk.mark)[0]["willRetry"] is False
    end = talk.end()
    assert (end["reason"], end["aborted"], end["willRetry"]) == ("threshold", False, False)
    assert (end["result"]["summary"], end["result"]["tokensBefore"]) == ("SUMMARY", 120_005)
    assert talk.context()[0] == ("compactionSummary", "SUMMARY")
    assert talk.usage()["tokens"] is None
    # The old count says nothing any more.
    talk.say("three")
    assert talk.flow() == ["prompt:ok", *CONTINUED]


def test_a_context_that_just_fits_is_not_compacted(talk: Talk) -> None:
    """Strictly more than the window without the reserve."""
    talk.script({"text": "first"}, {"text": "a", "usage": {"input": 128_000 - 16_384, "output": 0}})
    talk.say("one")
    talk.say("two")
    assert talk.flow() == ["prompt:ok", *CONTINUED]


def test_a_prompt_waits_for_the_compaction_before_it(talk: Talk) -> None:
    """C-14, 5.6: compacted, then sent; the conversation is not gone on with by itself."""
    talk.nearly_full()
    talk.script(SUMMARY, {"text": "third"})
    talk.say("three")

    assert talk.flow() == ["compaction_start", "compaction_end", "prompt:ok", *CONTINUED]
    assert talk.context() == [
        ("compactionSummary", "SUMMARY"),
        ("user", "two"),
        ("assistant", "second"),
        ("user", "three"),
        ("assistant", "third"),
    ]
    assert "SUMMARY" in talk.sent()


def test_off_means_that_nothing_is_compacted(talk: Talk) -> None:
    """R-SET-03: of the session's life alone; what is asked for is done all the same."""
    talk.ask("set_auto_compaction", enabled=False)
    assert talk.ask("get_state")["autoCompactionEnabled"] is False
    talk.two_turns(usage=NEARLY_FULL)
    talk.script({"text": "third", "usage": NEARLY_FULL}, TOO_LONG, SUMMARY)
    talk.say("three")
    talk.say("four")

    assert talk.pi.found({"type": "compaction_start"}, since=talk.mark) == []
    assert talk.context()[-1] == ("assistant", "error")
    assert json.loads((talk.pi.home.agent_dir / "settings.json").read_text()) == SETTINGS
    answer = talk.compact()
    assert answer.get("error") is None


def test_it_is_looked_at_when_the_run_ends(talk: Talk) -> None:
    talk.ask("set_auto_compaction", enabled=False)
    talk.script({"text": "first"}, {"hold": talk.gate, "text": "second", "usage": NEARLY_FULL}, SUMMARY)
    talk.say("one")
    talk.begin("two")
    talk.pi.llm.wait_reached(talk.gate)
    talk.ask("set_auto_compaction", enabled=True)
    talk.pi.llm.release(talk.gate)
    talk.pi.wait({"type": "agent_settled"}, since=talk.mark)

    assert talk.end()["reason"] == "threshold"


def test_turned_off_in_the_middle_it_is_finished(talk: Talk) -> None:
    talk.hold("threshold")
    talk.ask("set_auto_compaction", enabled=False)
    talk.pi.llm.release(talk.gate)
    talk.pi.wait({"type": "agent_settled"}, since=talk.mark)

    assert talk.end()["result"]["summary"] == "SUMMARY"


def test_a_compaction_that_fails_does_not_stop_anybody(talk: Talk) -> None:
    """After the run it is told; before the next prompt it is tried again, and the prompt is sent in any case."""
    talk.script({"text": "first"}, {"text": "second", "usage": NEARLY_FULL}, REFUSED, REFUSED, {"text": "third"})
    talk.say("one")
    talk.say("two")
    behind = talk.end()
    assert talk.flow()[-3:] == ["compaction_start", "compaction_end", "agent_settled"]
    talk.say("three")

    assert talk.flow() == ["compaction_start", "compaction_end", "prompt:ok", *CONTINUED]
    for end in (behind, talk.end()):
        assert end["errorMessage"].startswith("Auto-compaction failed: Summarization failed: 401")
        assert (end["result"], end["aborted"], end["willRetry"]) == (None, False, False)
    assert talk.context()[-1] == ("assistant", "third")
    assert entries(talk.path(), "compaction") == []


def test_what_is_kept_as_it_is_is_not_compacted_in_vain(agent: AgentStarter) -> None:
    """Nothing to compact is told to nobody."""
    talk = alone(agent, settings={})
    talk.two_turns(usage=NEARLY_FULL)
    assert talk.flow() == ["prompt:ok", *CONTINUED]
    talk.script({"text": "third"})
    talk.say("three")

    assert talk.flow() == ["prompt:ok", *CONTINUED]


def test_a_failed_request_over_the_threshold_is_followed_by_a_compaction(talk: Talk) -> None:
    """R-CMP-01: once its retries are used up."""
    talk.ask("set_auto_compaction", enabled=False)
    talk.ask("set_auto_retry", enabled=False)
    talk.two_turns(usage=NEARLY_FULL)
    talk.script({"hold": talk.gate, **BUSY}, SUMMARY)
    talk.begin("three")
    talk.pi.llm.wait_reached(talk.gate)
    talk.ask("set_auto_compaction", enabled=True)
    talk.pi.llm.release(talk.gate)
    talk.pi.wait({"type": "agent_settled"}, since=talk.mark)

    assert talk.flow()[-4:] == ["agent_end", "compaction_start", "compaction_end", "agent_settled"]
    assert talk.end()["reason"] == "threshold"


def test_follow_ups_come_before_the_compaction(talk: Talk) -> None:
    """One compaction, when the run would stop."""
    talk.script(
        {"text": "first"},
        {"hold": talk.gate, "text": "second", "usage": NEARLY_FULL},
        {"text": "third", "usage": NEARLY_FULL},
        SUMMARY,
    )
    talk.say("one")
    talk.begin("two")
    talk.pi.llm.wait_reached(talk.gate)
    talk.ask("follow_up", message=talk.text("three"))
    talk.pi.llm.release(talk.gate)
    talk.pi.wait({"type": "agent_settled"}, since=talk.mark)

    assert talk.flow()[-4:] == ["agent_end", "compaction_start", "compaction_end", "agent_settled"]
    assert talk.flow().count("agent_start") == 1
    assert talk.context()[-1] == ("assistant", "third")


# After an overflow.


def test_an_overflow_is_compacted_and_tried_again(talk: Talk) -> None:
    """R-CMP-02: the failed message is gone from the context, and still in the file."""
    talk.script({"text": "first"}, TOO_LONG, SUMMARY, {"text": "second"})
    talk.say("one")
    talk.say("two")

    assert talk.flow() == ["prompt:ok", "agent_start", "agent_end", "compaction_start", "compaction_end", *CONTINUED]
    assert [each["willRetry"] for each in talk.pi.found({"type": "agent_end"}, since=talk.mark)] == [False, False]
    end = talk.end()
    assert (end["reason"], end["aborted"], end["willRetry"]) == ("overflow", False, True)
    assert talk.context() == [("compactionSummary", "SUMMARY"), ("user", "two"), ("assistant", "second")]
    assert "SUMMARY" in talk.sent()
    assert talk.sent().count(talk.text("two")) == 1
    assert [row["message"].get("stopReason") for row in entries(talk.path(), "message")] == [
        None,
        "stop",
        None,
        "error",
        "stop",
    ]


def test_a_second_overflow_is_reported_and_ends_the_matter(talk: Talk) -> None:
    """C-14: no loop, and the next prompt may be compacted for again."""
    talk.script({"text": "first"}, TOO_LONG, SUMMARY, TOO_LONG)
    talk.say("one")
    talk.say("two")

    assert talk.flow() == [
        *("prompt:ok", "agent_start", "agent_end", "compaction_start", "compaction_end"),
        *("agent_start", "agent_end", "compaction_start", "compaction_end", "agent_settled"),
    ]
    first, second = talk.pi.found({"type": "compaction_end"}, since=talk.mark)
    assert first["willRetry"]
    assert second == {
        "type": "compaction_end",
        "reason": "overflow",
        "result": None,
        "aborted": False,
        "willRetry": False,
        "errorMessage": errors.OVERFLOW_AGAIN,
        "entryId": talk.pi.found({"type": "compaction_start"})[-1]["entryId"],
    }
    assert talk.context()[-1] == ("assistant", "error")
    assert talk.requests() == 4

    talk.script(TOO_LONG, {"text": "NEWER"}, {"text": "third"})
    talk.say("three")
    assert talk.context()[-2:] == [("user", "three"), ("assistant", "third")]


def test_an_overflow_whose_compaction_fails_is_reported(talk: Talk) -> None:
    """R-CMP-03."""
    talk.script({"text": "first"}, TOO_LONG, REFUSED, {"text": "third"})
    talk.say("one")
    talk.say("two")

    assert talk.flow()[-3:] == ["compaction_start", "compaction_end", "agent_settled"]
    end = talk.end()
    assert end["errorMessage"].startswith("Context overflow recovery failed: Summarization failed: 401")
    assert (end["result"], end["aborted"], end["willRetry"]) == (None, False, False)
    talk.say("three")
    assert talk.context()[-1] == ("assistant", "third")


def test_a_single_message_that_is_too_long_ends_in_an_error(talk: Talk) -> None:
    """Nothing can be left out: an error, and no loop."""
    talk.script(TOO_LONG)
    talk.say("one")

    assert talk.flow()[-3:] == ["compaction_start", "compaction_end", "agent_settled"]
    assert talk.end()["errorMessage"] == f"Context overflow recovery failed: {errors.NOTHING_TO_COMPACT}"
    assert talk.requests() == 1


def test_an_answer_for_which_something_was_left_out_is_an_answer(talk: Talk) -> None:
    """Silent overflow: compacted behind the run, and not asked again."""
    talk.script({"text": "first"}, {"text": "second", "usage": {"input": 130_000, "output": 5}}, SUMMARY)
    talk.say("one")
    talk.say("two")

    assert talk.flow()[-4:] == ["agent_end", "compaction_start", "compaction_end", "agent_settled"]
    assert not talk.end()["willRetry"]


def test_no_room_to_answer_is_an_overflow(talk: Talk) -> None:
    full = {"text": "", "finish": "length", "usage": {"input": 127_900, "output": 0}}
    talk.script({"text": "first"}, full, SUMMARY, {"text": "second"})
    talk.say("one")
    talk.say("two")

    assert (talk.end()["reason"], talk.end()["willRetry"]) == ("overflow", True)
    assert talk.context()[-1] == ("assistant", "second")


@pytest.mark.parametrize("queue", ["steer", "follow_up"])
def test_what_is_queued_in_an_overflow_is_delivered_once(talk: Talk, queue: str) -> None:
    """I-QUE-2: a steering text with the next try, a follow-up behind its answer."""
    talk.hold("overflow")
    talk.ask(queue, message=talk.text("X"))
    talk.script({"text": "second"}, {"text": "third"})
    talk.pi.llm.release(talk.gate)
    talk.pi.wait({"type": "agent_settled"}, since=talk.mark)

    told = [("assistant", "second"), ("user", "X"), ("assistant", "third")]
    assert talk.context()[2:] == (told if queue == "follow_up" else [("user", "X"), ("assistant", "second")])
    assert talk.flow().count("agent_start") == 2


# Afterwards.


def test_a_compacted_session_is_gone_on_with_by_the_next_process(agent: AgentStarter) -> None:
    talk = alone(agent)
    talk.two_turns()
    talk.script(SUMMARY)
    talk.compact()
    path, known, stats = talk.path(), talk.context(), talk.ask("get_session_stats")
    talk.pi.close_stdin()
    assert talk.pi.wait_exit() == 0

    talk.pi = agent((), "--session", str(path), again=talk.pi)
    assert talk.context() == known
    assert talk.usage()["tokens"] is None
    assert talk.ask("get_session_stats")["tokens"] == stats["tokens"]
    talk.mark = talk.pi.mark()
    assert talk.compact()["error"] == errors.ALREADY_COMPACTED
    talk.script({"text": "third"}, {"text": "NEWER"})
    talk.say("three")
    assert "SUMMARY" in talk.sent()
    assert talk.text("one") not in talk.sent()
    assert talk.compact()["data"]["summary"] == "NEWER"
    assert "SUMMARY" in talk.sent()


@pytest.mark.parametrize("command", ["clone", "fork"])
def test_a_copy_of_a_compacted_session_is_compacted(talk: Talk, command: str) -> None:
    talk.two_turns()
    talk.script(SUMMARY, {"text": "third"}, {"text": "fourth"})
    talk.compact()
    talk.say("three")
    last = talk.ask("get_fork_messages")["messages"][-1]
    talk.ask(command, **({"entryId": last["entryId"]} if command == "fork" else {}))

    kept = [("compactionSummary", "SUMMARY"), ("user", "two"), ("assistant", "second")]
    assert talk.context()[:3] == kept
    talk.say("four")
    assert "SUMMARY" in talk.sent()


def test_a_session_in_memory_is_compacted_as_any_other(agent: AgentStarter) -> None:
    talk = alone(agent, has_session=False)
    talk.two_turns()
    talk.script(SUMMARY, TOO_LONG, {"text": "NEWER"}, {"text": "third"})
    answer = talk.compact()
    assert answer.get("error") is None
    assert talk.context()[0] == ("compactionSummary", "SUMMARY")
    talk.say("three")

    assert talk.context() == [("compactionSummary", "NEWER"), ("user", "three"), ("assistant", "third")]


def test_what_a_summary_costs_is_counted(talk: Talk) -> None:
    talk.two_turns()
    before = talk.ask("get_session_stats")["session"]["tokens"]
    talk.script(SUMMARY)
    talk.compact()
    after = talk.ask("get_session_stats")["session"]["tokens"]

    assert (after["input"] - before["input"], after["output"] - before["output"]) == (70, 30)


def texts_of(messages: Sequence[tuple[str, str]]) -> list[str]:
    return [text for role, text in messages if role == "user"]


@pytest.mark.parametrize("kind", KINDS)
def test_texts_from_every_side_of_a_compaction_are_delivered_once_and_in_order(talk: Talk, kind: Kind) -> None:
    """I-QUE-2: queued in it, and sent behind its end in one write with more."""
    talk.hold(kind)
    for text in ("S1", "S2"):
        talk.ask("steer", message=talk.text(text))
    talk.ask("follow_up", message=talk.text("F1"))
    talk.ask("prompt", message=talk.text("S3"), streamingBehavior="steer")
    talk.script({"text": "more", "repeat": -1})
    talk.pi.llm.release(talk.gate)
    talk.pi.wait({"type": "agent_settled"}, since=talk.mark)

    own = {"threshold with a prompt": ["two", "three"]}.get(kind, ["two"])
    assert texts_of(talk.context()) == [*own, "S1", "S2", "S3", "F1"]
    assert talk.ask("get_state")["pendingMessageCount"] == 0


# Several at once.


def test_a_prompt_with_a_compact_behind_it_is_handed_back(talk: Talk) -> None:
    """C-12: however far its preflight is, which no client can see."""
    talk.two_turns()
    talk.script(SUMMARY)
    talk.mark = talk.pi.mark()
    prompt = {"id": f"P-{talk.tag}", "type": "prompt", "message": talk.text("three")}
    talk.pi.send_many([prompt, {"id": f"C-{talk.tag}", "type": "compact"}])
    assert talk.pi.wait_response(f"C-{talk.tag}")["success"]

    assert talk.flow() == ["prompt:error", "agent_settled", "compaction_start", "compaction_end", "compact:ok"]
    assert talk.pi.wait_response(f"P-{talk.tag}")["error"] == errors.ABORTED_BEFORE_START
    assert texts_of(talk.context()) == ["two"]


def test_the_second_of_two_that_wait_for_a_run_is_refused(talk: Talk) -> None:
    """C-9: a compact that waits is a barrier, and what comes behind it is for what it leaves."""
    talk.two_turns()
    written = f"{talk.gate}-written"
    talk.script({"hold": talk.gate, "text": "third"}, {**SUMMARY, "hold": written})
    talk.begin("three")
    talk.pi.llm.wait_reached(talk.gate)
    talk.pi.wait({"type": "message_end"}, since=talk.mark)  # the last record before the request
    talk.mark = talk.pi.mark()
    commands: list[Record] = [{"id": f"{talk.tag}-{number}", "type": "compact"} for number in range(2)]
    steer = {"id": f"{talk.tag}-2", "type": "steer", "message": talk.text("S")}
    talk.script({"text": "more"})
    talk.pi.send_many([*commands, steer])
    talk.pi.wait_response(steer["id"])  # the disk may take longer than the model
    talk.pi.llm.release(written)
    talk.pi.wait({"type": "agent_settled", "aborted": False}, since=talk.mark)

    assert talk.pi.wait_response(f"{talk.tag}-0")["success"]
    # The first goes on by then.
    assert talk.pi.wait_response(f"{talk.tag}-1")["error"] == errors.COMPACTION_IN_PROGRESS
    assert talk.flow() == [
        *("agent_end", "agent_settled", "compaction_start", "compact:error", "queue_update", "steer:ok"),
        *("compaction_end", "compact:ok", "agent_start", "queue_update", "agent_end", "agent_settled"),
    ]
    assert texts_of(talk.context())[-1] == "S"


def test_what_is_queued_in_a_retry_delay_runs_behind_the_compaction_that_ends_it(agent: AgentStarter) -> None:
    """C-2, C-12: one settled, at the end."""
    talk = alone(agent, settings={**SETTINGS, "retry": {"baseDelayMs": 600_000, "maxAgentDelayMs": 600_000}})
    talk.two_turns()
    talk.script(BUSY, SUMMARY, {"text": "more"})
    talk.begin("three")
    talk.pi.wait({"type": "auto_retry_start"}, since=talk.mark)
    talk.ask("follow_up", message=talk.text("F"))
    assert talk.compact()["success"]
    talk.pi.wait({"type": "agent_settled"}, since=talk.mark)

    assert talk.flow() == [
        *("auto_retry_end", "compaction_start", "compaction_end", "compact:ok"),
        *("agent_start", "queue_update", "agent_end", "agent_settled"),
    ]
    assert talk.context()[-2:] == [("user", "F"), ("assistant", "more")]


def test_a_retry_ends_before_the_compaction_that_its_answer_brings(talk: Talk) -> None:
    """C-15: brackets do not cross."""
    talk.script({"text": "first"}, BUSY, {"text": "second", "usage": NEARLY_FULL}, SUMMARY)
    talk.say("one")
    talk.say("two")

    assert talk.flow()[3:] == [
        *("auto_retry_start", "agent_start", "auto_retry_end", "agent_end"),
        *("compaction_start", "compaction_end", "agent_settled"),
    ]


def test_a_result_that_is_too_long_for_the_next_request_does_not_end_the_work(talk: Talk) -> None:
    """R-CMP-02, I-EVT-6: in the middle of a run; calls and results stay together."""
    call = {"name": "bash", "args": {"command": f"seq 3000; echo {talk.tag}"}}
    talk.script({"text": "first"}, {"tool_calls": [call]}, TOO_LONG, {**SUMMARY, "repeat": 2}, {"text": "second"})
    talk.say("one")
    talk.say("two")

    assert talk.flow()[-5:] == ["compaction_start", "compaction_end", *CONTINUED]
    assert talk.context()[-1] == ("assistant", "second")
    roles = [message["role"] for message in talk.request()["messages"]]
    assert all(roles[place - 1] == "assistant" for place, role in enumerate(roles) if role == "tool")


@pytest.mark.parametrize("kind", KINDS)
def test_the_end_of_stdin_keeps_what_is_queued(agent: AgentStarter, kind: Kind) -> None:
    """C-16: reported, and kept in the session."""
    talk = alone(agent)
    talk.hold(kind)
    path = talk.path()
    talk.ask("steer", message=talk.text("S"))
    talk.mark = talk.pi.mark()
    talk.pi.close_stdin()

    assert talk.pi.wait_exit() == 0
    updates = talk.pi.found({"type": "queue_update"}, since=talk.mark)
    assert [update["steering"] for update in updates] == [[talk.text("S")]]
    (kept,) = [row for row in entries(path, "custom") if row["customType"] == "pinnace.queue"]
    assert (kept["data"]["op"], kept["data"]["text"]) == ("add", talk.text("S"))


@pytest.mark.parametrize("queue", ["hold", "clear", "continue"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_abort_does_with_the_queue_what_it_says(talk: Talk, kind: Kind, queue: str) -> None:
    """C-1, C-6, C-8."""
    talk.hold(kind)
    talk.ask("follow_up", message=talk.text("F"))
    talk.script({"text": "more", "repeat": -1})
    talk.mark = talk.pi.mark()
    data = talk.ask("abort", queue=queue)
    if queue == "continue":
        talk.pi.wait({"type": "agent_settled"}, since=talk.mark)

    delivering = ["abort:ok", "agent_start", "queue_update", "agent_end", "agent_settled"]
    flow = [word for word in talk.flow() if word not in {"compact:error", "prompt:error"}]
    assert (
        flow
        == {
            "hold": ["compaction_end", "agent_settled", "abort:ok"],
            "clear": ["queue_update", "compaction_end", "agent_settled", "abort:ok"],
            "continue": ["compaction_end", *delivering],
        }[queue]
    )
    assert data.get("cleared") == ({"steering": [], "followUp": [talk.text("F")]} if queue == "clear" else None)
    assert talk.ask("get_state")["pendingMessageCount"] == (1 if queue == "hold" else 0)
    assert ("F" in texts_of(talk.context())) == (queue == "continue")
