"""Sessions of a client while a host runs: their agents outlive it, and another client meets them at work."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.rpc.acp.conftest import opened, text
from tests.rpc.conftest import COMMAND, ENVIRONMENT
from tests.rpc.host.attached import HostProcess, short_folder, started

from pinnace_fuzz.acp.agent import AcpAgent
from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_rpc.host.protocol import AgentAction, ListAgents


class Editors:
    """A home in which a host runs, and clients in it."""

    def __init__(self, work: Path, host: HostProcess, llm: FakeLlm, stack: ExitStack) -> None:
        self.work = work
        self.host = host
        self.llm = llm
        self._stack = stack

    def start(self, *flags: str) -> AcpAgent:
        command = [*COMMAND, "--mode", "acp", "--provider", "fake", "--model", "m1", *flags]
        return self._stack.enter_context(AcpAgent(command, cwd=self.work, env=self.host.environment))

    def load(self, session: str, *flags: str) -> AcpAgent:
        agent = self.start(*flags)
        agent.call("initialize", protocolVersion=1)
        agent.call("session/load", sessionId=session, cwd=str(self.work), mcpServers=[])
        return agent

    def states(self) -> list[str]:
        """Return the state of each agent of the host."""
        return [each["state"] for each in self.host.ask(ListAgents(watches=False))["agents"]]


Begin = Callable[[Iterable[Scripted]], Editors]


@pytest.fixture
def editors(llm: Callable[[Iterable[Scripted]], FakeLlm], tmp_path: Path) -> Iterator[Begin]:
    """Begins a home with a host, and a model with a script."""
    with short_folder() as folder, ExitStack() as stack:

        def begin(script: Iterable[Scripted]) -> Editors:
            server = llm(script)
            home = prepare_pi_home(tmp_path / "home", server.base_url, env=ENVIRONMENT, has_session=True)
            host = stack.enter_context(started(folder, {**home.env, "XDG_RUNTIME_DIR": str(folder)}))
            return Editors(home.work.resolve(), host, server, stack)

        yield begin


def said(agent: AcpAgent, session: str, kind: str = "agent_message_chunk") -> str:
    return "".join(each["content"]["text"] for each in agent.updates(session) if each["sessionUpdate"] == kind)


def test_a_run_goes_on_without_its_client_and_is_shown_whole_to_the_next(editors: Begin) -> None:
    """The prompt of the client that left has one response, which is no stop reason."""
    one = editors([{"text": "before"}, {"chunks": [{"text": "whi"}, {"gate": "g"}, {"text": "le"}]}, {"text": "after"}])
    first = one.start()
    session = opened(first, one.work)
    first.call("session/prompt", sessionId=session, prompt=text("one"))
    prompt = first.request("session/prompt", sessionId=session, prompt=text("two"))
    chunk = first.update("agent_message_chunk", content={"type": "text", "text": "whi"})
    assert first.end() == 0
    assert first.response(prompt)["error"]["data"] == {"errorCode": "detached"}

    second = one.load(session)
    assert second.update("session_info_update", _meta={"pinnace": {"running": True}})
    assert said(second, session) == "before"
    one.llm.release("g")
    second.update("session_info_update", _meta={"pinnace": {"running": False}})
    assert said(second, session) == "beforewhile"
    assert said(second, session, "user_message_chunk") == "onetwo"
    assert (
        second.update("agent_message_chunk", content={"type": "text", "text": "while"})["messageId"]
        == chunk["messageId"]
    )
    assert second.call("session/prompt", sessionId=session, prompt=text("three"))["stopReason"] == "end_turn"
    assert said(second, session) == "beforewhileafter"
    assert one.states() == ["running"]


@pytest.mark.parametrize("method", ["session/load", "session/resume"])
def test_a_call_and_its_question_wait_for_the_next_client(editors: Begin, method: str) -> None:
    """It is open when the session is shown, also where no history is, and ends live; the question is asked again."""
    call = {"name": "bash", "args": {"command": "echo hello"}}
    one = editors([{"text": "look", "tool_calls": [call]}, {"text": "done"}])
    first = one.start("--tool-approval", "ask")
    session = opened(first, one.work)
    first.request("session/prompt", sessionId=session, prompt=text("one"))
    asked = first.until(lambda message: message.get("method") == "session/request_permission")
    assert first.end() == 0

    second = one.start("--tool-approval", "ask")
    second.call("initialize", protocolVersion=1)
    second.call(method, sessionId=session, cwd=str(one.work), mcpServers=[])
    again = second.until(lambda message: message.get("method") == "session/request_permission")
    assert again["params"]["toolCall"]["toolCallId"] == asked["params"]["toolCall"]["toolCallId"]
    shown = [each for each in second.updates(session) if each["sessionUpdate"] == "tool_call"]
    assert [each["status"] for each in shown] == ["in_progress"]
    option = next(each for each in again["params"]["options"] if each["kind"] == "allow_once")
    second.respond(again, {"outcome": {"outcome": "selected", "optionId": option["optionId"]}})
    ended = second.update("tool_call_update", status="completed")
    assert ended["toolCallId"] == asked["params"]["toolCall"]["toolCallId"]
    second.update("session_info_update", _meta={"pinnace": {"running": False}})
    assert said(second, session).endswith("done")


def test_a_run_that_an_earlier_client_began_is_cancelled_by_the_next(editors: Begin) -> None:
    one = editors([{"chunks": [{"text": "never"}, {"hang": True}]}, {"text": "later"}])
    first = one.start()
    session = opened(first, one.work)
    first.request("session/prompt", sessionId=session, prompt=text("one"))
    first.update("agent_message_chunk")
    assert first.end() == 0

    second = one.load(session)
    second.notify("session/cancel", sessionId=session)
    assert second.call("session/prompt", sessionId=session, prompt=text("two"))["stopReason"] == "end_turn"
    assert said(second, session) == "neverlater"


def test_a_session_that_is_closed_has_no_agent_until_it_is_opened_again(editors: Begin) -> None:
    one = editors([{"text": "one"}, {"text": "two"}])
    agent = one.start()
    session = opened(agent, one.work)
    agent.call("session/prompt", sessionId=session, prompt=text("a"))
    agent.call("session/close", sessionId=session)
    assert one.states() == ["asleep"]

    agent.call("session/load", sessionId=session, cwd=str(one.work), mcpServers=[])
    assert agent.call("session/prompt", sessionId=session, prompt=text("b"))["stopReason"] == "end_turn"
    assert one.states() == ["running"]
    assert agent.end() == 0
    assert one.states() == ["running"]


def test_an_agent_that_the_host_has_lost_costs_its_session_alone(editors: Begin) -> None:
    one = editors([{"chunks": [{"text": "never"}, {"hang": True}]}, {"text": "two"}])
    agent = one.start()
    session = opened(agent, one.work)
    prompt = agent.request("session/prompt", sessionId=session, prompt=text("a"))
    agent.update("agent_message_chunk")
    one.host.process.kill()

    assert agent.response(prompt)["error"]["code"] == -32603
    other: str = agent.call("session/new", cwd=str(one.work), mcpServers=[])["sessionId"]
    assert agent.call("session/prompt", sessionId=other, prompt=text("b"))["stopReason"] == "end_turn"
    assert agent.end() == 0


def test_a_deleted_session_leaves_no_agent_and_one_that_is_used_elsewhere_is_kept(editors: Begin) -> None:
    """Its agent is removed whether it runs for this client, sleeps, or never had a file; not while another uses it."""
    one = editors([{"text": "one", "repeat": -1}])
    agent = one.start()
    running, asleep = opened(agent, one.work), agent.call("session/new", cwd=str(one.work), mcpServers=[])["sessionId"]
    for session in (running, asleep):
        agent.call("session/prompt", sessionId=session, prompt=text("a"))
    unused = agent.call("session/new", cwd=str(one.work), mcpServers=[])["sessionId"]
    agent.call("session/close", sessionId=asleep)
    other = one.start()
    other.call("initialize", protocolVersion=1)
    assert other.error("session/delete", sessionId=running)["data"] == {"errorCode": "session_unavailable"}
    assert other.error("session/delete", sessionId=unused)["data"] == {"errorCode": "session_unavailable"}
    assert sorted(one.states()) == ["asleep", "running", "running"]

    for session in (asleep, running, unused, running):
        agent.call("session/delete", sessionId=session)
    assert one.states() == []
    assert agent.call("session/list") == {"sessions": []}


def test_a_session_that_is_deleted_when_no_host_runs_leaves_no_journal(editors: Begin) -> None:
    """What the agent wrote is in its journal, too, until a host would forget it."""
    one = editors([{"text": "one", "repeat": -1}])
    agent = one.start()
    kept, deleted = opened(agent, one.work), agent.call("session/new", cwd=str(one.work), mcpServers=[])["sessionId"]
    for session in (kept, deleted):
        agent.call("session/prompt", sessionId=session, prompt=text("a"))
    one.host.process.terminate()
    one.host.process.wait()
    other = one.start()
    other.call("initialize", protocolVersion=1)
    other.call("session/delete", sessionId=deleted)

    [details] = one.work.parent.rglob("host/agents/*/agent.json")
    assert kept in details.read_text()
    assert [each["sessionId"] for each in other.call("session/list")["sessions"]] == [kept]


def test_servers_of_a_client_end_with_its_connection(editors: Begin) -> None:
    """One that meets the agent at work learns that its own are not used; a later process has none of an earlier one."""
    one = editors([{"text": "one"}, {"chunks": [{"text": "t"}, {"gate": "g"}, {"text": "wo"}]}])
    first = one.start()
    first.call("initialize", protocolVersion=1)
    new = first.call("session/new", cwd=str(one.work), mcpServers=[server_named("early")])
    assert [each["name"] for each in servers_of(new)] == ["early"]
    session = new["sessionId"]
    first.call("session/prompt", sessionId=session, prompt=text("a"))
    first.request("session/prompt", sessionId=session, prompt=text("b"))
    first.update("agent_message_chunk", content={"type": "text", "text": "t"})
    assert first.end() == 0

    second = one.start()
    second.call("initialize", protocolVersion=1)
    met = second.call("session/load", sessionId=session, cwd=str(one.work), mcpServers=[server_named("late")])
    assert [(each["name"], each["status"] == "unused") for each in servers_of(met)] == [
        ("early", False),
        ("late", True),
    ]
    assert second.end() == 0
    (agent,) = one.host.ask(ListAgents(watches=False))["agents"]
    one.host.ask(AgentAction("restart", agent["name"]))

    third = one.start()
    third.call("initialize", protocolVersion=1)
    assert "_meta" not in third.call("session/load", sessionId=session, cwd=str(one.work), mcpServers=[])
    assert third.end() == 0


def server_named(name: str) -> dict[str, object]:
    return {"name": name, "command": "/nowhere/program", "args": [], "env": []}


def servers_of(answer: Any) -> list[Any]:
    found: list[Any] = answer["_meta"]["pinnace"]["mcpServers"]
    return found


def test_an_editor_with_other_options_meets_its_agent_which_takes_over_what_it_can(editors: Begin) -> None:
    """The model, additional folders and a stricter approval are taken over; what can't be is named."""
    one = editors([{"text": "one"}, {"text": "two"}, {"text": "three"}])
    folder = one.work.parent / "more"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("A word of the folder.")
    first = one.start("--model", "m1")
    session = opened(first, one.work)
    first.call("session/prompt", sessionId=session, prompt=text("a"))
    assert first.end() == 0

    second = one.start("--model=m2", "--tool-approval", "ask", "--no-mcp")
    second.call("initialize", protocolVersion=1, clientCapabilities={"session": {"notices": {}}})
    met = second.call(
        "session/load", sessionId=session, cwd=str(one.work), mcpServers=[], additionalDirectories=[str(folder)]
    )
    assert (options_of(met)["model"], options_of(met)["mode"]) == ("fake/m2", "ask")
    assert met["_meta"]["pinnace"]["keptOptions"] == ["--no-mcp"]
    (agent,) = one.host.ask(ListAgents(watches=False))["agents"]
    said = second.update("notice", severity="warning")
    assert "--no-mcp" in said["title"]
    assert f"pinnace agents stop {agent['name']}" in said["description"]
    second.call("session/prompt", sessionId=session, prompt=text("b"))
    request = one.llm.requests[-1]
    assert request.body["model"] == "m2"
    assert "A word of the folder." in request.text
    assert second.end() == 0

    third = one.start("--model", "m2")
    third.call("initialize", protocolVersion=1)
    met = third.call("session/load", sessionId=session, cwd=str(one.work), mcpServers=[])
    assert (options_of(met)["model"], options_of(met)["mode"]) == ("fake/m2", "ask")
    third.call("session/prompt", sessionId=session, prompt=text("c"))
    assert "A word of the folder." not in one.llm.requests[-1].text


def test_opening_a_session_with_other_options_lowers_no_guard(editors: Begin) -> None:
    one = editors([{"text": "one"}, {"text": "two"}])
    first = one.start("--tool-approval", "ask")
    session = opened(first, one.work)
    first.call("session/prompt", sessionId=session, prompt=text("a"))
    assert first.end() == 0

    second = one.start("--tool-approval", "never")
    second.call("initialize", protocolVersion=1)
    met = second.call("session/load", sessionId=session, cwd=str(one.work), mcpServers=[])
    assert options_of(met)["mode"] == "ask"
    assert met["_meta"]["pinnace"]["keptOptions"] == ["--tool-approval"]
    assert b"--tool-approval" in second.stderr
    second.call("session/prompt", sessionId=session, prompt=text("b"))
    assert "only a choice of another mode lowers that" in said(second, session)


def test_an_agent_at_work_keeps_its_system_prompt_and_is_met_by_the_same_alone(editors: Begin) -> None:
    """R-ACP-99: one that can't be applied opens nothing."""
    one = editors([{"text": "one"}])
    first = one.start()
    first.call("initialize", protocolVersion=1)
    same, other = ({"mode": "append", "content": text(each)} for each in ("Speak of sails.", "Speak of masts."))
    session = first.call("session/new", cwd=str(one.work), mcpServers=[], systemPrompt=same)["sessionId"]
    first.call("session/prompt", sessionId=session, prompt=text("Go"))
    assert first.end() == 0
    second = one.start()
    second.call("initialize", protocolVersion=1)
    fields = {"sessionId": session, "cwd": str(one.work), "mcpServers": []}
    refused = second.error("session/load", {**fields, "systemPrompt": other})
    second.call("session/load", **fields, systemPrompt=same)

    assert (-32602, "params.systemPrompt") == (refused["code"], refused["data"]["path"])
    assert "Speak of sails." in str(one.llm.requests[0].body["messages"][0])


def test_a_session_that_an_attached_client_has_open_is_opened_in_an_editor_too(editors: Begin) -> None:
    """An agent that speaks a protocol without what the editor is shown is refused by name."""
    one = editors([{"text": "one", "repeat": -1}])
    flags = ("--provider", "fake", "--model", "m1")
    for profile, is_met in (("pi", True), ("seed", False)):
        with one.host.attach(profile, is_new=True, start=flags, profile=profile, cwd=str(one.work)) as attached:
            attached.ask({"id": "1", "type": "prompt", "message": "a"})
            session = attached.ask({"id": "2", "type": "get_state"})["data"]["sessionId"]
            agent = one.start()
            agent.call("initialize", protocolVersion=1)
            if is_met:
                agent.call("session/load", sessionId=session, cwd=str(one.work), mcpServers=[])
                agent.call("session/prompt", sessionId=session, prompt=text("b"))
                assert said(agent, session).endswith("one")
            else:
                error = agent.error("session/load", sessionId=session, cwd=str(one.work), mcpServers=[])
                assert "pinnace agents stop seed" in error["message"]
            assert agent.end() == 0


def options_of(answer: Any) -> dict[str, Any]:
    return {each["id"]: each["currentValue"] for each in answer["configOptions"]}


def test_a_session_that_another_client_moves_is_reported_and_loaded_as_it_is(editors: Begin) -> None:
    """R-SES-16: no update takes back what an editor shows; loading the session again shows the conversation that is."""
    one = editors([{"text": "one"}, {"text": "two"}])
    first = one.start()
    session = opened(first, one.work)
    first.call("session/prompt", sessionId=session, prompt=text("a"))
    assert first.end() == 0

    second = one.start()
    load = {"sessionId": session, "cwd": str(one.work), "mcpServers": []}
    second.call("initialize", protocolVersion=1, clientCapabilities={"session": {"notices": {}}})
    second.call("session/load", load)
    (agent,) = one.host.ask(ListAgents(watches=False))["agents"]
    with one.host.attach(agent["name"], start=()) as other:
        assert other.ask({"id": "1", "type": "navigate_tree", "entryId": None})["success"]
    assert "Another client has moved the session" in second.update("notice", severity="warning")["title"]
    since = len(second.messages)
    second.call("session/load", load)
    assert not [each for each in second.updates(session, after=since) if "messageId" in each]
