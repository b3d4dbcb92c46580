"""A whole run: asks the agent what it offers, plays the scenarios, confirms what fails, and makes the report.

Decides what is played and what the exit code is. Independent of the command line and the format of reports.
"""

import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, NamedTuple

from pinnace_fuzz.acp.agent import AcpAgent, AgentEnded, NothingCame
from pinnace_fuzz.acp.playing import TIMEOUT_S, AcpKit, for_reports, greeting, play
from pinnace_fuzz.acp.reading import load
from pinnace_fuzz.acp.rules import rules
from pinnace_fuzz.acp.scenario import AcpScenario
from pinnace_fuzz.acp.schema import SCHEMAS
from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.agent_process import AgentGone
from pinnace_fuzz.judge.adapter import Adapter, AdapterError, LaunchOptions, PiAdapter, Prepared, write_files
from pinnace_fuzz.judge.adapter_names import adapter
from pinnace_fuzz.judge.at_once import AtOnce
from pinnace_fuzz.judge.confirming import SLOW_S, Case, play_all
from pinnace_fuzz.judge.playing.load import LoadMeter
from pinnace_fuzz.judge.probing import NotStarted
from pinnace_fuzz.judge.progress import Done, Watch, unwatched
from pinnace_fuzz.judge.reports.json_report import JudgedRun
from pinnace_fuzz.judge.requirements.outcome import as_json, changed, outcome
from pinnace_fuzz.judge.requirements.sets import acp, requirement_set
from pinnace_fuzz.judge.results import ACP_KIND, CaseResult
from pinnace_fuzz.judge.scenarios.shapes import as_object
from pinnace_fuzz.judge.session import NoSuchScenario, about, compare, exit_code, resolve

VERSIONS: Final = tuple(SCHEMAS)
"""Those of the protocol."""
OURS: Final = "pinnace"
"""What `agentInfo.name` is of this project's agent."""
SESSION_CAPABILITIES: Final = (
    "list",
    "resume",
    "close",
    "delete",
    "fork",
    "title",
    "status",
    "archive",
    "systemPrompt",
)
"""Those that a scenario may need."""
OF_OURS: Final = (
    "files",
    "forms",
    "logins",
    "subagents",
    "steering",
    "approval",
    "cancels",
    "mcp-names",
    "fake",
    "pinnace",
)
"""What no capability says, and this project's agent has."""


class EditorHome(PiAdapter):
    """For agents that read pi's files, started as an editor does: no arguments are added."""

    def prepare(self, command: Sequence[str], root: Path, base_url: str, launch_options: LaunchOptions) -> Prepared:
        """Lay out a home whose settings name the model."""
        settings = {"defaultProvider": "fake", "defaultModel": launch_options.model, **launch_options.settings}
        home = prepare_pi_home(root, base_url, settings=settings, has_session=True)
        write_files(home.folders, launch_options.files)
        return Prepared((*command, *launch_options.arguments), {**home.env, **launch_options.env}, home.folders)


def editor_adapter(name: str) -> Adapter:
    """Return an adapter: `pi`, `env`, `none`, or that of a file.

    Raises:
        AdapterError: There is none, or it is not for agents of this protocol.
    """
    if name == "attach":
        raise AdapterError("the adapter attach is for `pinnace attach`, which speaks no ACP")
    if name == "json":
        raise AdapterError("the adapter json is for `--mode json`, which speaks no ACP")
    return EditorHome() if name == "pi" else adapter(name)


@dataclass(slots=True, kw_only=True)
class AcpOptions:
    """The options of a run."""

    command: tuple[str, ...]
    adapter: Adapter
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    jobs: int | None = None
    """How many scenarios at once; None: as many as the processors are idle for."""
    baseline: Path | None = None
    is_strict: bool = False
    patience: float = 1.0
    time_s: float = 0
    """No scenario is begun after so much time; those that are left are NOT-RUN. 0: all are played."""
    log: Callable[[str], None] = field(default=lambda text: None)
    watch: Watch = unwatched
    versions: Sequence[int] = VERSIONS
    """Of the protocol, which are judged."""
    requirements: str = ""
    """The set of requirements that alone is judged, in the newest version that the agent speaks; empty: none."""


class AcpAgentDescription(NamedTuple):
    """What the agent has said of itself."""

    name: str
    version: str
    capabilities: Mapping[int, frozenset[str]]
    """In each version that it speaks."""


def chosen(options: AcpOptions) -> list[AcpScenario]:
    """Choose scenarios by their ids.

    Raises:
        NoSuchScenario: A prefix begins no id.
    """
    scenarios = [each for each in load() if each.version in options.versions]
    for prefix in (*options.only, *options.skip):
        if not any(each.id.startswith(prefix) for each in scenarios):
            raise NoSuchScenario(prefix, [each.id for each in scenarios])
    return [
        each
        for each in scenarios
        if (not options.only or each.id.startswith(tuple(options.only)))
        and not (options.skip and each.id.startswith(tuple(options.skip)))
    ]


@contextmanager
def opened(options: AcpOptions) -> Generator[tuple[AcpKit, AcpAgentDescription]]:
    """Prepare the run of an agent: temporary folder, load meter, what it offers.

    Raises:
        NotStarted: The agent does not start, or does not answer `initialize`.
    """
    command = resolve(options.command)
    with (
        tempfile.TemporaryDirectory(prefix="conform-", ignore_cleanup_errors=True) as root,
        LoadMeter() as meter,
        options.adapter.begun(command, Path(root)) as used,
    ):
        kit = AcpKit(command, used, {}, Path(root), meter, options.patience, options.is_strict)
        found = _probe(kit, options.versions)
        yield kit._replace(capabilities=found.capabilities, binds_ours=kit.binds_ours or found.name == OURS), found


def _probe(kit: AcpKit, versions: Sequence[int]) -> AcpAgentDescription:
    """Ask the agent for each version what it offers.

    Raises:
        NotStarted: The agent does not start, or speaks none of them.
    """
    found = {version: _probe_version(kit, version) for version in versions}
    spoken = {version: each for version, each in found.items() if not isinstance(each, str)}
    if not spoken:
        raise NotStarted("; ".join(str(each) for each in found.values()))
    newest = spoken[max(spoken)]
    return newest._replace(capabilities={version: each.capabilities[version] for version, each in spoken.items()})


def _probe_version(kit: AcpKit, version: int) -> AcpAgentDescription | str:
    """Return what the agent is in a version; why not, if it does not speak that one."""
    root = kit.root / f"probe-{version}"
    prepared = kit.adapter.prepare(kit.command, root, "http://127.0.0.1:9", LaunchOptions(session="new"))
    work = prepared.folders["work"]
    with AcpAgent(
        prepared.command,
        cwd=work,
        env=prepared.env,
        is_strict=False,
        timeout_s=TIMEOUT_S * kit.patience,
        version=version,
    ) as agent:
        try:
            response = agent.response(agent.request("initialize", greeting(version, {})))
            chosen_version = (as_object(response.get("result")) or {}).get("protocolVersion")
            if "result" not in response:
                return f"it refuses initialize with version {version}: {response.get('error')}"
            if chosen_version != version and (version > 1 or chosen_version in VERSIONS):
                return f"asked for version {version} it answers {chosen_version}"
            opened = agent.response(agent.request("session/new", cwd=str(work), mcpServers=[]))
        except (AgentEnded, AgentGone, NothingCame) as error:
            return f"{error}\n{agent.stderr.decode(errors='replace')[-2000:]}"
    result = as_object(response["result"]) or {}
    session = as_object(opened.get("result")) or {}
    offers = as_object(result.get("agentCapabilities" if version == 1 else "capabilities")) or {}
    info = as_object(result.get("agentInfo" if version == 1 else "info")) or {}
    has_llm = "llm" in kit.adapter.capabilities
    has = {
        "llm": has_llm,
        "tools": "tools" in kit.adapter.capabilities,
        **(_offered(offers) if version == 1 else _offered_v2(offers, result)),
        # An agent without a model may refuse a session for want of a key; with the judge's own model it may not.
        "session": bool(session) or has_llm,
        "options": bool(session.get("configOptions")),
        **dict.fromkeys(OF_OURS, info.get("name") == OURS),
    }
    name = str(info.get("name") or Path(kit.command[-1]).name)
    capabilities = frozenset(each for each, is_there in has.items() if is_there)
    return AcpAgentDescription(name, str(info.get("version") or ""), {version: capabilities})


def _offered(offers: Mapping[str, Any]) -> dict[str, bool]:
    sessions = as_object(offers.get("sessionCapabilities")) or {}
    auth = as_object(offers.get("auth")) or {}
    return {
        **{name: sessions.get(name) is not None for name in SESSION_CAPABILITIES},
        "auth-status": auth.get("status") is not None,
        "providers": offers.get("providers") is not None,
        "logout": auth.get("logout") is not None,
        "mcp-acp": (as_object(offers.get("mcpCapabilities")) or {}).get("acp") is True,
        "load": offers.get("loadSession") is True,
    }


def _offered_v2(offers: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, bool]:
    """Return what is offered in version 2, in which sessions are listed, resumed and closed by every agent."""
    sessions = as_object(offers.get("session"))
    auth = as_object(offers.get("auth")) or {}
    return {
        **{name: (sessions or {}).get(name) is not None for name in SESSION_CAPABILITIES},
        **dict.fromkeys(("list", "resume", "close"), sessions is not None),
        "auth-status": auth.get("status") is not None,
        "providers": offers.get("providers") is not None,
        "auth": bool(result.get("authMethods")),
        "mcp-acp": (as_object((sessions or {}).get("mcp")) or {}).get("acp") is not None,
    }


def reason_not_to_run(scenario: AcpScenario, kit: AcpKit) -> str:
    """Return why a scenario is not for this agent; empty if it is."""
    if scenario.version not in kit.capabilities:
        return f"of version {scenario.version}, which it does not speak"
    missing = scenario.needs - kit.capabilities[scenario.version]
    return f"needs {', '.join(sorted(missing))}" if missing else ""


def conduct(options: AcpOptions) -> JudgedRun:
    """Carry out a run.

    Raises:
        NotStarted: The agent does not start.
        HarnessFault: The judge itself failed.
        NoSuchScenario: What should be run does not exist.
    """
    scenarios = chosen(options)
    required, changed_ids = None, frozenset[str]()
    begun_s = time.monotonic()
    with opened(options) as (kit, found):
        if options.requirements:
            required = requirement_set(options.requirements, acp(max(found.capabilities)))
            changed_ids = changed(required, {each.id: each.source for each in scenarios})
            scenarios = [each for each in scenarios if each.id in required.scenarios.keys() - changed_ids]
        for version, capabilities in found.capabilities.items():
            options.log(f"{found.name} {found.version}, version {version}: {', '.join(sorted(capabilities))}")
        at_once = AtOnce(options.jobs)
        done = Done(sum(not reason_not_to_run(each, kit) for each in scenarios))
        options.watch(done.said)

        def take(result: CaseResult) -> None:
            done.take(result)
            if result.verdict != "PASS":
                options.log(f"{result.verdict} {result.scenario.id}{f': {result.why}' if result.why else ''}")

        def is_over() -> bool:
            return options.time_s > 0 and time.monotonic() >= begun_s + options.time_s

        found_cases = [_case(each, kit, number) for number, each in enumerate(scenarios)]
        cases = play_all(found_cases, at_once, report=take, is_over=is_over)
        elapsed = kit.meter.since(begun_s)
    baseline = compare(cases, options.baseline)
    agent = {
        "name": found.name,
        "version": found.version,
        "command": list(kit.command),
        "generation": f"ACP {', '.join(f'v{each}' for each in found.capabilities)}",
        "is_ours": found.name == OURS,
        "adapter": kit.adapter.name,
        "capabilities": sorted(frozenset[str]().union(*found.capabilities.values())),
        "commands_known": [],
    }
    kept = required and outcome(required, cases, _rulebook(), changed_ids, baseline["known"])
    return JudgedRun(
        agent,
        about(options, elapsed, jobs=at_once.peak, time_s=options.time_s),
        options.command,
        cases,
        {},
        {},
        {},
        baseline,
        exit_code(cases, baseline, {}, kept=kept),
        _rulebook(),
        requirements=kept and as_json(kept),
    )


def _rulebook() -> Mapping[str, Mapping[str, Any]]:
    return {id_: rule._asdict() for id_, rule in rules().items()}


def _case(scenario: AcpScenario, kit: AcpKit, number: int) -> Case:
    attempts = count()

    def once(patience: float) -> CaseResult:
        patient = kit._replace(patience=kit.patience * patience)
        return play(scenario, patient, kit.root / f"case-{number}-{next(attempts)}")

    return Case(for_reports(scenario), ACP_KIND, once, SLOW_S * kit.patience, reason_not_to_run(scenario, kit))
