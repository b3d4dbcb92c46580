"""Carries out a scenario against an agent of the Agent Client Protocol, and judges what comes of it.

Each case has a home, a model server and processes of its own. A scenario whose script can't continue stops there; what
was written until then is judged.
"""

import contextlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, assert_never

from pinnace_fuzz.acp.agent import AcpAgent, AgentEnded, Message, NothingCame
from pinnace_fuzz.acp.client_servers import mcp_outcome
from pinnace_fuzz.acp.conversation import Conversation, conversation
from pinnace_fuzz.acp.rules import is_bound
from pinnace_fuzz.acp.scenario import (
    FOLDERS,
    AcpScenario,
    AnswersShown,
    Before,
    Check,
    Disk,
    End,
    Ever,
    Idle,
    Initialize,
    Keep,
    Kill,
    Mark,
    Model,
    Named,
    Never,
    NewSession,
    Open,
    Order,
    Quiet,
    Raw,
    Reached,
    Response,
    Restart,
    Same,
    Send,
    Step,
    Update,
    UserMessages,
)
from pinnace_fuzz.harness.agent_process import AgentGone, DriverTimeout
from pinnace_fuzz.harness.login_server import LoginServer
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.model_server.ledger import LlmTimeout
from pinnace_fuzz.judge.adapter import Adapter, LaunchOptions, Prepared
from pinnace_fuzz.judge.judging import verdict_of
from pinnace_fuzz.judge.playing.load import LoadMeter
from pinnace_fuzz.judge.results import ACP_KIND, CaseResult, Finding, ProcessLog, Shutdown
from pinnace_fuzz.judge.scenarios.holes import Holes
from pinnace_fuzz.judge.scenarios.likeness import differences, short
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_fuzz.judge.scenarios.shapes import as_list, as_object
from pinnace_spec.observers import verdicts
from pinnace_spec.observers.trace_file import record_of
from pinnace_spec.observers.verdicts import Level

TIMEOUT_S = 10.0
# Much longer than the agent needs; shorter than what a person notices.
EXIT_S = 5.0
LEFTOVERS_S = 1.0
LOGIN_VARIABLE: Final = "CONFORM_LOGIN_URL"
"""Names the server of logins, for agents that have no settings of this project's."""
EXIT_RULE: Final = "R-ACP-29"
ANSWER_RULE: Final = "R-ACP-03"
_CONVERSATIONS: Final = ("messages", "input", "contents")
"""Where requests to a model have the conversation, by the wire format."""
CLIENT: Final = {"name": "pinnace-conform", "version": "1"}
"""What the client says of itself."""


class AcpKit(NamedTuple):
    """The agent under judgement, and how it is handled."""

    command: tuple[str, ...]
    adapter: Adapter
    capabilities: Mapping[int, frozenset[str]]
    """What the agent has in each version that it speaks."""
    root: Path
    meter: LoadMeter
    patience: float = 1.0
    binds_ours: bool = False
    """The agent must follow the rules of origin `ours`."""


class _Broken(Exception):
    """What a step expects is not so; the script can't continue."""

    def __init__(self, text: str, rules: tuple[str, ...] = (), *, is_timed: bool = False) -> None:
        super().__init__(text)
        self.rules = rules
        self.is_timed = is_timed


def play(scenario: AcpScenario, kit: AcpKit, root: Path) -> CaseResult:
    """Play and judge a scenario once.

    Args:
        scenario: What to play.
        kit: The agent.
        root: A folder for this case alone.
    """
    begun_s = time.monotonic()
    with FakeLlm(asides=kit.adapter.asides) as llm, contextlib.ExitStack() as stack:
        player = _Player(scenario, kit, root, llm, stack)
        player.play()
    findings = player.findings
    load = kit.meter.since(begun_s)
    verdict, why = verdict_of(findings, load)
    return CaseResult(
        for_reports(scenario),
        ACP_KIND,
        verdict,
        player.shutdown,
        player.shutdown_text,
        tuple(findings),
        tuple(player.logs),
        {},
        (),
        time.monotonic() - begun_s,
        why=why,
    )


def for_reports(scenario: AcpScenario) -> Scenario:
    """Return what reports show of a scenario."""
    return Scenario(
        id=scenario.id,
        title=scenario.title,
        rules=scenario.rules,
        client=(),
        source=scenario.source,
        place=scenario.place,
    )


class _Player:
    """Plays one scenario."""

    def __init__(
        self, scenario: AcpScenario, kit: AcpKit, root: Path, llm: FakeLlm, stack: contextlib.ExitStack
    ) -> None:
        self._scenario = scenario
        self._kit = kit
        self._llm = llm
        self._stack = stack
        self.findings: list[Finding] = []
        self.logs: list[ProcessLog] = []
        self.shutdown: Shutdown = "none"
        self.shutdown_text = "no process"
        options = LaunchOptions(session="new", files=scenario.files, arguments=scenario.arguments)
        if scenario.login is not None:
            url = stack.enter_context(LoginServer(scenario.login)).url
            options = options._replace(settings={"logins": {"xai": {"url": url}}}, env={LOGIN_VARIABLE: url})
        self._prepared: Prepared = kit.adapter.prepare(kit.command, root, llm.base_url, options)
        work = self._prepared.folders["work"]
        folders = {**self._prepared.folders, "other": work.with_name("other")}
        folders["other"].mkdir(exist_ok=True)
        self._folders = {name: folders[name] for name in FOLDERS}
        self._holes = Holes(folders, "")
        self._holes.keep("llm", llm.base_url)
        for line in scenario.llm:
            llm.add(kit.adapter.in_its_words(self._holes.answer(line.answer)))
        self._ids: dict[str, int] = {}
        self._count = 0
        self._seen = 0
        self._nulls = 0
        self._mark = 0
        self._kept: dict[str, Conversation] = {}
        self._buffers = {str(self._folders["work"] / name): text for name, text in scenario.serves.items()}
        self._agent = self._started()

    def _started(self) -> AcpAgent:
        self._seen = self._nulls = self._mark = 0
        agent = AcpAgent(
            self._prepared.command,
            cwd=self._folders["work"],
            env=self._prepared.env,
            answer=self._answer,
            is_strict=False,
            timeout_s=TIMEOUT_S * self._kit.patience,
            version=self._scenario.version,
        )
        self._stack.callback(agent.process.close)
        return agent

    def _answer(self, message: Message) -> Mapping[str, object] | None:
        """Answer a request of the agent as the client of the scenario does."""
        match message["method"]:
            case "fs/read_text_file" if message["params"]["path"] in self._buffers:
                return {"content": self._buffers[message["params"]["path"]]}
            case "fs/read_text_file":
                self._agent.refuse(message, -32603, "there is no such file")
                return None
            case "fs/write_text_file" if self._scenario.refuses_writes:
                self._agent.refuse(message, -32603, "the user has refused")
                return None
            case "fs/write_text_file":
                self._buffers[message["params"]["path"]] = message["params"]["content"]
                return {}
            case "elicitation/create":
                form = self._scenario.form
                declined = None if self._scenario.leaves_forms else {"action": "decline"}
                return declined if form is None else {"action": "accept", "content": form}
            case "session/request_permission":
                return self._consent(message)
            case "mcp/message" if message["params"]["serverId"] in self._scenario.mcp:
                return mcp_outcome(message["params"], self._scenario.mcp)
            case _:
                self._agent.decline(message)
                return None

    def _consent(self, message: Message) -> Mapping[str, object] | None:
        if self._scenario.consent == "none":
            return None
        options = message["params"]["options"]
        chosen = next((each for each in options if each["kind"] == self._scenario.consent), None)
        outcome = (
            {"outcome": "cancelled"} if chosen is None else {"outcome": "selected", "optionId": chosen["optionId"]}
        )
        return {"outcome": outcome}

    def play(self) -> None:
        """Carry out every step, end the agent, and collect what was found."""
        is_over = False
        for at, step in enumerate(self._scenario.client):
            try:
                self._perform(step)
                is_over = isinstance(step, End)
            except (_Broken, AgentEnded, AgentGone, NothingCame, DriverTimeout, LlmTimeout) as error:
                self._stopped(at, error)
                break
        if not is_over:
            self._end(is_whole=not self.findings)

    def _stopped(self, at: int, error: Exception) -> None:
        rules = (error.rules if isinstance(error, _Broken) else ()) or self._scenario.rules
        is_crash = isinstance(error, AgentEnded | AgentGone)
        is_timed = error.is_timed if isinstance(error, _Broken) else not is_crash
        text = f"step {at + 1}: {str(error)[:1000]}"
        if is_crash:
            self.findings.append(Finding("crash", rules, text, "violation", len(self.logs)))
        elif self._llm.unscripted and not self._kit.binds_ours:
            # An agent may continue an answer by itself, or have a request of its own: then the script fails, not it.
            text += "; the model was asked more often than the script has answers for"
            self.findings.append(Finding("step", rules, text, "nonstrict", len(self.logs), is_timed=is_timed))
        else:
            self._find("step", rules, text, is_timed=is_timed)

    def _find(self, source: str, rules: tuple[str, ...], text: str, *, is_timed: bool = False) -> None:
        self.findings.append(Finding(source, rules, text, self._level(rules), len(self.logs), is_timed=is_timed))

    def _level(self, rules: Sequence[str]) -> Level:
        return "violation" if is_bound(rules, binds_ours=self._kit.binds_ours) else "nonstrict"

    def _perform(self, step: Step) -> None:
        match step:
            case Initialize(capabilities):
                self._call("initialize", greeting(self._scenario.version, capabilities))
            case NewSession(name, folder, servers):
                served = [{"type": "acp", "name": each, "serverId": each} for each in servers]
                result = self._call("session/new", {"cwd": str(self._folders[folder]), "mcpServers": served})
                self._holes.keep(name, result.get("sessionId"))
            case Send(messages):
                self._agent.send(*(self._message(*each) for each in messages))
            case Raw(data):
                self._agent.write(self._filled_line(data))
            case Open(gate):
                self._open(gate)
            case Mark():
                self._mark = len(self._agent.messages)
            case Quiet(ms):
                time.sleep(ms / 1000)  # what should not come has nothing to be waited for
            case Restart():
                self._end(is_whole=True)
                self._agent = self._started()
            case Kill():
                self._kill()
                self._agent = self._started()
            case End():
                self._end(is_whole=True)
            case _:
                self._check(step)

    def _check(self, step: Check) -> None:
        match step:
            case Response():
                self._response(step)
            case Update(like):
                self._update(self._holes.filled(like))
            case Named():
                self._named(step)
            case Ever(like, rules):
                self._ever(self._holes.filled(like), rules)
            case Never(like, rules):
                self._never(self._holes.filled(like), rules)
            case Idle():
                self._idle(step)
            case Before():
                self._before(step)
            case AnswersShown(texts, is_joined):
                self._shown(texts, is_joined=is_joined)
            case UserMessages(ids, rules):
                self._user_messages([self._holes.filled(each) for each in ids], rules)
            case Order(names, rules):
                self._order(names, rules)
            case Reached(gate):
                self._reached(gate)
            case Model():
                self._model(step)
            case Keep(name):
                self._kept[name] = conversation(self._agent.messages[self._mark :], self._scenario.version)
            case Disk():
                self._disk(step)
            case Same(name, rules):
                self._same(name, rules)
            case _:
                assert_never(step)

    def _message(self, name: str, method: str, params: Mapping[str, Any]) -> Message:
        message: Message = {"jsonrpc": "2.0"}
        if name:
            self._count += 1
            self._ids[name] = message["id"] = self._count
            self._holes.keep(f"id-of-{name}", self._count)
        return {**message, "method": method, "params": self._holes.filled(params)}

    def _filled_line(self, data: bytes) -> bytes:
        try:
            filled: str = self._holes.filled(data.decode())
        except UnicodeDecodeError:
            return data
        return filled.encode()

    def _call(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self._agent.send(self._message("call", method, params))
        try:
            response = self._agent.response(self._ids["call"])
        except NothingCame:
            raise _Broken(f"{method} has no response", (ANSWER_RULE,), is_timed=True) from None
        if "result" not in response:
            raise _Broken(f"{method} is refused: {short(response.get('error'))}")
        return as_object(response["result"]) or {}

    def _last_write_s(self) -> float:
        return next(line.at_s for line in reversed(self._agent.lines) if line.direction == "in")

    def _check_deadline(self, what: str, took_ms: float, within_ms: int, cited: tuple[str, ...]) -> None:
        if within_ms and took_ms > within_ms * self._kit.patience:
            self._find("deadline", cited or self._scenario.rules, f"{what} took {took_ms:.0f} ms", is_timed=True)

    def _idle(self, step: Idle) -> None:
        sent_s = self._last_write_s()
        like = {"method": "session/update", "params": {"update": {"sessionUpdate": "state_update", "state": "idle"}}}
        try:
            update = self._update(self._holes.filled(like))["params"]["update"]
        except NothingCame:
            raise _Broken("the work does not end", step.rules, is_timed=True) from None
        took_ms = (self._agent.came_s(self._seen - 1) - sent_s) * 1000
        self._check_deadline("the end of the work", took_ms, step.within_ms, step.deadline)
        if step.reason and update.get("stopReason") != step.reason:
            raise _Broken(f"the work ends as {short(update.get('stopReason'))}, not {step.reason}", step.rules)
        if faults := differences(update, self._holes.filled(step.like)):
            raise _Broken(f"the end of the work: {'; '.join(faults)}", step.rules)

    def _response(self, step: Response) -> None:
        sent_s = self._last_write_s()
        what = step.of or "the line"
        if step.of is None:
            response = self._agent.until(_is_null, self._nulls)
            self._nulls = self._agent.messages.index(response) + 1
        else:
            identity: object = self._ids.get(step.of, step.of)
            response = self._agent.response(identity)
            took_ms = (self._agent.arrived_s(identity) - sent_s) * 1000
            self._check_deadline(what, took_ms, step.within_ms, step.deadline)
        kind = "error" if step.is_error else "result"
        if kind not in response:
            raise _Broken(f"{what} has no {kind}: {short(response)}", step.rules)
        if faults := differences(response[kind], self._holes.filled(step.like)):
            raise _Broken(f"{what}: {'; '.join(faults)}", step.rules)
        for name, path in step.keep.items():
            self._holes.keep(name, _at(response[kind], path))

    def _update(self, like: Any) -> Message:
        found = self._agent.until(lambda message: not differences(message, like), self._seen)
        self._seen = self._agent.messages.index(found, self._seen) + 1
        return found

    def _named(self, step: Named) -> None:
        update = {"sessionUpdate": step.kind, **self._holes.filled(step.like)}
        found = self._update({"method": "session/update", "params": {"update": update}})
        self._holes.keep(step.name, found["params"]["update"][step.key])

    def _ever(self, like: Any, rules: tuple[str, ...]) -> None:
        try:
            self._agent.until(lambda message: not differences(message, like), self._mark)
        except NothingCame:
            raise _Broken(f"there is no {short(like)}", rules, is_timed=True) from None

    def _never(self, like: Any, rules: tuple[str, ...]) -> None:
        for message in self._agent.messages[self._mark :]:
            if not differences(message, like):
                raise _Broken(f"there is {short(message)}", rules)

    def _before(self, step: Before) -> None:
        messages = self._agent.messages
        response = messages.index(self._agent.response(self._ids[step.of]))
        like = {"method": "session/update", "params": {"update": self._holes.filled(step.like)}}
        if all(differences(message, like) for message in messages[self._mark : response]):
            raise _Broken(f"there is no {short(step.like)} before the response of {step.of}", step.rules)

    def _shown(self, texts: Sequence[str], *, is_joined: bool) -> None:
        shown = conversation(self._agent.messages[self._mark :], self._scenario.version)["messages"]
        answers = [each["text"] for each in shown if each["kind"] == "agent_message"]
        # Without ids the messages of a turn can't be distinguished.
        has_ids = all(each["messageId"] is not None for each in shown)
        is_shown = answers == [*texts] if has_ids and not is_joined else "".join(texts) in "".join(answers)
        if not is_shown:
            raise _Broken(f"{short(answers)} is shown, not {short([*texts])}")

    def _user_messages(self, ids: Sequence[str], rules: tuple[str, ...]) -> None:
        shown = conversation(self._agent.messages[self._mark :], self._scenario.version)["messages"]
        found = [each["messageId"] for each in shown if each["kind"] == "user_message"]
        if found != [*ids]:
            raise _Broken(f"the messages of the user are {short(found)}, not {short([*ids])}", rules)

    def _order(self, names: Sequence[str], rules: tuple[str, ...]) -> None:
        wanted = [self._ids[name] for name in names]
        responses = [self._agent.messages.index(self._agent.response(identity)) for identity in wanted]
        if responses != sorted(responses):
            raise _Broken(f"the responses do not come in the order {', '.join(names)}", rules)

    def _reached(self, gate: str) -> None:
        timeout_s = TIMEOUT_S * self._kit.patience
        if gate in self._holes.shell_gates:
            self._holes.shell_gates[gate].wait_reached(timeout_s)
        else:
            self._llm.wait_reached(gate, timeout_s)

    def _open(self, gate: str) -> None:
        if gate in self._holes.shell_gates:
            self._holes.shell_gates[gate].release(timeout_s=TIMEOUT_S * self._kit.patience)
        else:
            self._llm.release(gate)

    def _model(self, step: Model) -> None:
        request = self._llm.wait_requests(step.number, TIMEOUT_S * self._kit.patience)[step.number - 1]
        text = short(next((request.body[each] for each in _CONVERSATIONS if request.body.get(each)), None), 1_000_000)
        faults = [f"{each!r} is not in it" for each in step.has if self._holes.filled(each) not in text]
        faults += [f"{each!r} is in it" for each in step.lacks if self._holes.filled(each) in text]
        if not request.path.startswith(step.path):
            faults.append(f"its path is {request.path}, and not below {step.path}")
        for name, value in step.headers.items():
            if (found := request.headers.get(name, "")) != value:
                faults.append(f"its header {name} is {found!r}, not {value!r}")
        if faults:
            raise _Broken(f"request {step.number} to the model: {'; '.join(faults)}", step.rules)

    def _disk(self, step: Disk) -> None:
        path = self._folders["work"] / step.path
        text = path.read_text(encoding="utf-8") if path.exists() else None
        if text != step.text:
            raise _Broken(f"{step.path} on the disk is {text!r}, not {step.text!r}", step.rules)

    def _same(self, name: str, rules: tuple[str, ...]) -> None:
        now = conversation(self._agent.messages[self._mark :], self._scenario.version)
        if faults := differences(now, self._kept[name]) + differences(self._kept[name], now):
            raise _Broken(f"is not what was live: {'; '.join(faults)}", rules)

    def _end(self, *, is_whole: bool) -> None:
        """End the agent by the end of its input, and collect the trace and the rules that it has broken.

        A script that has stopped leaves open what it had not come to: then only what was written counts.
        """
        agent = self._agent
        begun_s = time.monotonic()
        how: verdicts.Ending = "exit"
        try:
            agent.end(is_whole=is_whole)
            self.shutdown, self.shutdown_text = "clean", f"exit {agent.process.exit_code}"
        except (NothingCame, AgentEnded) as error:
            how = "hang" if agent.process.alive else "exit"
            self.shutdown, self.shutdown_text = "hang", str(error)
        took_s = time.monotonic() - begun_s
        left = agent.process.left_behind(verdicts.stretched(LEFTOVERS_S, self._kit.patience)) if how == "exit" else []
        if left:
            self.shutdown, self.shutdown_text = "leftovers", f"{len(left)} processes outlived it"
        elif how == "exit" and took_s > verdicts.stretched(EXIT_S, self._kit.patience):
            self.shutdown, self.shutdown_text = "late", f"exit {took_s:.1f} s behind the end of stdin"
        agent.process.close()
        if is_whole and self.shutdown != "clean":
            self._find("shutdown", (EXIT_RULE,), self.shutdown_text, is_timed=self.shutdown == "late")
        self._collect(agent, how, took_s)

    def _kill(self) -> None:
        """Kill the agent with all that it has started; what it wrote until then is judged."""
        begun_s = time.monotonic()
        self._agent.process.close()
        self.shutdown, self.shutdown_text = "killed", "killed"
        self._collect(self._agent, "killed", time.monotonic() - begun_s)

    def _collect(self, agent: AcpAgent, how: verdicts.Ending, took_s: float) -> None:
        """Keep the trace of a process that has ended, and the rules that it has broken."""
        for fault, line in agent.breaches:
            level = self._level((fault.rule,))
            found = Finding("observer", (fault.rule,), fault.text[:1000], level, len(self.logs), (line,))
            self.findings.append(found)
        self.logs.append(_log(agent, how, took_s))


def greeting(version: int, capabilities: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the parameters of `initialize`."""
    if version == 1:
        return {"protocolVersion": version, "clientCapabilities": capabilities}
    return {"protocolVersion": version, "info": CLIENT, "capabilities": capabilities}


def _at(value: object, path: str) -> object:
    """Return the value at a path such as `options.0.id`; None if there is none."""
    for part in path.split("."):
        items = as_list(value)
        if items is not None:
            value = items[int(part)] if part.isdecimal() and int(part) < len(items) else None
        else:
            value = (as_object(value) or {}).get(part)
    return value


def _is_null(message: Message) -> bool:
    return "method" not in message and message.get("id", 0) is None


def _log(agent: AcpAgent, how: verdicts.Ending, took_s: float) -> ProcessLog:
    began_s = agent.process.started_s
    steps = tuple(
        verdicts.Step(number, line.direction, line.text, record_of(line.text), line.at_s - began_s, line.group)
        for number, line in enumerate(agent.lines, 1)
    )
    stderr = agent.stderr.decode("utf-8", "replace")
    return ProcessLog(steps, verdicts.End(how, agent.process.exit_code, stderr, took_s), (), None)
