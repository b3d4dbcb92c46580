"""A whole run: probes the agent, plays the scenarios, then runs the campaigns until the time is over.

Decides what is run and what the exit code is. Independent of the command line and the format of reports.
"""

import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pinnace_fuzz.judge import store
from pinnace_fuzz.judge.adapter import Adapter, AdapterError, PiAdapter
from pinnace_fuzz.judge.at_once import AtOnce
from pinnace_fuzz.judge.coverage import Coverage
from pinnace_fuzz.judge.fleet.sharding import WHOLE, Shard
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.load import Load, LoadMeter
from pinnace_fuzz.judge.probing import NotStarted, ProbeFindings, probe
from pinnace_fuzz.judge.progress import Done, Watch, unwatched
from pinnace_fuzz.judge.reports.json_report import JudgedRun
from pinnace_fuzz.judge.requirements.outcome import Outcome, as_json, changed, outcome
from pinnace_fuzz.judge.requirements.outcome import chosen as of_set
from pinnace_fuzz.judge.requirements.sets import requirement_set, rpc
from pinnace_fuzz.judge.results import BAD, HARNESS_EXIT, JUDGED, NOTHING_JUDGED_EXIT, CaseResult
from pinnace_fuzz.judge.running import reason_not_to_run, run_all, run_once
from pinnace_fuzz.judge.scenarios.fields import texts
from pinnace_fuzz.judge.scenarios.files import load
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_spec import data
from pinnace_spec.nearest import nearest
from pinnace_spec.profiles.generations import GenerationName, generation

if TYPE_CHECKING:
    from hypothesis.database import ExampleDatabase

# Up to here a run is smoke: the scenarios so marked, and no campaign.
SMOKE_S = 90.0
# Instead of a prefix: no scenario at all.
NONE = "none"
# What scenarios may take of the time, at most; then the campaigns begin.
SCENARIO_SHARE = 0.5
_OURS = frozenset({"pinnace", "extensions"})


@dataclass(slots=True, kw_only=True)
class JudgeOptions:
    """The options of a run."""

    command: tuple[str, ...]
    adapter: Adapter
    profile: str = "auto"
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    seed: int = 0
    time_s: float = 600.0
    jobs: int | None = None
    """How many scenarios at once; None: as many as the processors are idle for. Campaigns: one a processor."""
    out: Path = Path(".conform")
    baseline: Path | None = None
    is_strict: bool = False
    campaigns: Sequence[str] | None = None
    """None: all, if there is time."""
    patience: float = 1.0
    shard: Shard = WHOLE
    examples: "ExampleDatabase | None" = None
    """Those that this run shares with others."""
    log: Callable[[str], None] = field(default=lambda text: None)
    watch: Watch = unwatched
    requirements: str = ""
    """The set of requirements that alone is judged; empty: none."""


def resolve(command: Sequence[str]) -> tuple[str, ...]:
    """Make the files that a command names independent of the folder that it runs in.

    Raises:
        NotStarted: The program does not exist.
    """
    program = shutil.which(command[0])
    if program is None:
        raise NotStarted(f"no program {command[0]}")
    rest = [
        str(Path(each).resolve()) if not each.startswith("-") and Path(each).is_file() else each for each in command[1:]
    ]
    return (os.path.abspath(program), *rest)


@contextmanager
def opened(options: JudgeOptions) -> Generator[tuple[AgentUnderTest, ProbeFindings]]:
    """Prepare the run of an agent: temporary folder, load meter, result of probing.

    Raises:
        NotStarted: The agent does not start.
    """
    command = resolve(options.command)
    with (
        tempfile.TemporaryDirectory(prefix="conform-", ignore_cleanup_errors=True) as root,
        LoadMeter() as meter,
        options.adapter.begun(command, Path(root)) as adapter,
    ):
        asked: GenerationName = "seed" if options.profile == "auto" else options.profile  # type: ignore[assignment]
        kit = AgentUnderTest(
            command,
            adapter,
            options.adapter.capabilities,
            generation(asked),
            Path(root),
            meter,
            options.patience,
            is_strict=options.is_strict,
        )
        found = probe(kit._replace(adapter=PiAdapter()) if adapter.is_one_prompt else kit)
        name = found.generation if options.profile == "auto" else asked
        capabilities = options.adapter.capabilities | (_OURS if found.is_ours else frozenset[str]())
        if not found.does_llm:
            capabilities -= {"llm", "tools", "images", "reasoning"}
        yield (
            kit._replace(
                generation=generation(name),
                capabilities=capabilities,
                is_ours=found.is_ours,
                is_sandboxed="sandbox" in found.hello,
            ),
            found,
        )


class NoSuchScenario(Exception):
    """A prefix that begins the id of no scenario; the text names one that is nearly it."""

    def __init__(self, prefix: str, ids: Sequence[str]) -> None:
        families = sorted({f"{each.partition('/')[0]}/" for each in ids})
        near = nearest(prefix, [*ids, *families], 0.5)
        hint = f"did you mean {near}?" if near else f"they begin with {' '.join(families)}"
        super().__init__(f"no scenario begins with {prefix!r}: {hint}")


def chosen(scenarios: Sequence[Scenario], options: JudgeOptions) -> list[Scenario]:
    """Choose scenarios by their ids, the smoke ones first, or alone if there is no time for more.

    Raises:
        NoSuchScenario: A prefix begins no id.
    """
    for prefix in (*options.only, *options.skip):
        if prefix != NONE and not any(each.id.startswith(prefix) for each in scenarios):
            raise NoSuchScenario(prefix, [each.id for each in scenarios])
    found = [
        each
        for each in scenarios
        if (not options.only or each.id.startswith(tuple(options.only)))
        and not (options.skip and each.id.startswith(tuple(options.skip)))
    ]
    if options.time_s <= SMOKE_S and not options.only:
        found = [each for each in found if each.is_smoke]
    return options.shard.part(sorted(found, key=lambda each: not each.is_smoke), options.seed)


def conduct(options: JudgeOptions) -> JudgedRun:
    """Carry out a run.

    Raises:
        NotStarted: The agent does not start.
        HarnessFault: The tester itself failed.
        NoSuchScenario: What should be run does not exist.
        NoSuchSet: There are no such requirements.
        AdapterError: Campaigns are named, and the adapter is for agents that take no commands.
    """
    if options.campaigns and options.adapter.is_one_prompt:
        raise AdapterError(f"--campaign: the adapter {options.adapter.name} is for agents that take no commands")
    known = load()
    scenarios = [] if options.requirements else chosen(known, options)
    begun_s = time.monotonic()
    with opened(options) as (kit, found):
        options.log(f"generation {kit.generation.name}{', ours' if kit.is_ours else ''}; seed {options.seed}")
        required, changed_ids = None, frozenset[str]()
        if options.requirements:
            required = requirement_set(options.requirements, rpc(kit.generation.name))
            changed_ids = changed(required, {each.id: each.source for each in known})
            scenarios = of_set(required, known, changed_ids)
        coverage = Coverage()
        stored: dict[str, str] = {}
        at_once = AtOnce(options.jobs)
        done = Done(sum(not why for _, why in not_run_reasons(scenarios, kit)))

        def take(result: CaseResult) -> None:
            coverage.take(result)
            done.take(result)
            if result.verdict != "PASS":
                options.log(f"{result.verdict} {result.scenario.id}")

        # Those that are named are run however little time there is.
        has_campaigns = options.time_s > SMOKE_S if options.campaigns is None else bool(options.campaigns)
        has_campaigns &= not kit.adapter.is_one_prompt
        end_s = begun_s + options.time_s * (SCENARIO_SHARE if has_campaigns else 1.0)
        options.watch(done.said)
        cases = run_all(scenarios, kit, at_once=at_once, report=take, is_over=lambda: time.monotonic() > end_s)
        for case in cases:
            if case.is_bad:
                _store(case, options, kit, stored)
        campaigns: Mapping[str, Mapping[str, Any]] = {}
        if has_campaigns:
            from pinnace_fuzz.judge.campaigns.schedule import run_campaigns

            database = None
            if options.examples is not None:
                from pinnace_fuzz.judge.fleet.examples import examples_of

                database = examples_of(f"{_agent(kit, found)['name']} {kit.generation.name}", options.examples)
            confirmed, campaigns = run_campaigns(kit, options, begun_s + options.time_s, coverage, database)
            for case in confirmed:
                if case.is_bad:
                    _store(case, options, kit, stored)
            cases += confirmed
        baseline = compare(cases, options.baseline)
        kept = required and outcome(required, cases, data.table("rules.toml"), changed_ids, baseline["known"])
        return JudgedRun(
            _agent(kit, found),
            {
                **about(
                    options,
                    kit.meter.since(begun_s),
                    seed=options.seed,
                    time_s=options.time_s,
                    campaigns=options.campaigns,
                    jobs=at_once.peak,
                ),
                **({} if options.shard.is_whole else {"shard": str(options.shard)}),
            },
            tuple(options.command),
            cases,
            campaigns,
            coverage.report(kit.generation),
            stored,
            baseline,
            exit_code(cases, baseline, campaigns, has_succeeded=found.has_succeeded, kept=kept),
            requirements=kept and as_json(kept),
        )


def _store(case: CaseResult, options: JudgeOptions, kit: AgentUnderTest, stored: dict[str, str]) -> None:
    finding = next((each for each in case.findings if each.level == "violation"), None)
    if finding is not None and case.logs:
        stored[case.scenario.id] = str(store.save(case, finding, options.out, kit.generation))


def _agent(kit: AgentUnderTest, found: ProbeFindings) -> dict[str, Any]:
    return {
        "name": str(found.hello.get("name") or Path(list(kit.command)[-1]).name),
        "version": found.version,
        "command": list(kit.command),
        "generation": kit.generation.name,
        "is_ours": kit.is_ours,
        "adapter": kit.adapter.name,
        "capabilities": sorted(kit.capabilities),
        "commands_known": sorted(found.commands),
    }


class Chosen(Protocol):
    """The options that a report names."""

    @property
    def is_strict(self) -> bool:
        """Whether the rules of this project's own bind every agent."""
        ...

    @property
    def only(self) -> Sequence[str]:
        """How the ids of the scenarios that are played begin; empty: all are."""
        ...

    @property
    def skip(self) -> Sequence[str]:
        """How the ids of those that are left out begin."""
        ...


def about(
    options: Chosen,
    load: Load,
    *,
    jobs: int,
    seed: int = 0,
    time_s: float = 0,
    campaigns: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return what a report says of a run: how it was made, and on what machine.

    `jobs` is the largest number of scenarios at once; `campaigns` are those that were named; None: none was.
    """
    return {
        "version": tester(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "load": {"late_s": round(load.late_s, 3), "is_overloaded": load.is_overloaded},
        "seed": seed,
        "budget_s": time_s,
        "seconds": round(load.elapsed_s, 1),
        "jobs": jobs,
        "strict": options.is_strict,
        "only": list(options.only),
        "skip": list(options.skip),
        "campaigns": None if campaigns is None else sorted(campaigns),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
    }


def tester() -> str:
    """Return the release of the tester, from any distribution; empty if it is not installed."""
    for name in ("pinnace-conform", "pinnace"):
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return ""


def compare(cases: Sequence[CaseResult], baseline: Path | None) -> dict[str, Sequence[str]]:
    """Compare with the failures that were expected: a list of ids."""
    if baseline is None:
        return {"known": (), "stale": ()}
    expected = read_baseline(baseline)
    bad = {case.scenario.id for case in cases if case.is_bad}
    run = {case.scenario.id for case in cases if case.verdict != "NOT-RUN"}
    return {"known": sorted(bad & expected), "stale": sorted((expected & run) - bad)}


def read_baseline(path: Path) -> set[str]:
    """Read the ids of the cases that are expected to fail: {"expected_failures": […]}.

    Raises:
        AdapterError: The file has another format.
    """
    try:
        found: object = json.loads(path.read_text(encoding="utf-8"))["expected_failures"]
    except (ValueError, KeyError, TypeError) as error:
        raise AdapterError(f"{path}: no baseline: {error!r}") from None
    return set(texts(found, ("expected_failures",)))


def exit_code(
    cases: Sequence[CaseResult],
    baseline: Mapping[str, Sequence[str]],
    campaigns: Mapping[str, Mapping[str, Any]],
    *,
    has_succeeded: bool = True,
    kept: Outcome | None = None,
) -> int:
    """Select the exit code: a fault of the tester, else violations, else nothing judged, else a stale baseline, else 0.

    `kept` is what the agent keeps of a set of requirements, where it is judged by one: then its tiers count.
    An agent that refuses every command breaks few rules, and nothing that it does was judged.
    """
    if any("fault" in each for each in campaigns.values()):
        return HARNESS_EXIT
    bad = {case.scenario.id for case in cases if case.is_bad} - set(baseline.get("known", ()))
    if kept is not None and kept.exit_code:
        return kept.exit_code
    if bad and kept is None:
        return 1
    if not any(case.verdict in JUDGED for case in cases) and not any(each["examples"] for each in campaigns.values()):
        return NOTHING_JUDGED_EXIT
    if not has_succeeded and not any(_succeeds(case) for case in cases):
        return NOTHING_JUDGED_EXIT
    return 2 if baseline.get("stale") else 0


def _succeeds(case: CaseResult) -> bool:
    """Whether the agent has carried out a command in a case."""
    return any(
        step.direction == "out" and step.record is not None and step.record.get("success") is True
        for log in case.logs
        for step in log.steps
    )


def not_run_reasons(scenarios: Sequence[Scenario], kit: AgentUnderTest) -> Iterator[tuple[Scenario, str]]:
    """Say of each scenario whether it would be run."""
    return ((each, reason_not_to_run(each, kit)) for each in scenarios)


def replay_all(options: JudgeOptions, files: Sequence[Path], times: int) -> int:
    """Play them; return 1 if any still fails, 0 if none does, 3 if one stays undecided or there is none to play.

    A file that was named is left where it is; one of the store that no longer fails is deleted.
    """
    paths = [*files] or store.all_stored(options.out)
    if not paths:
        options.log(f"nothing is stored in {options.out}")
        return NOTHING_JUDGED_EXIT
    still = undecided = 0
    with opened(options) as (kit, _):
        for path in paths:
            stored = store.read(path)
            if why := reason_not_to_run(stored.scenario, kit):
                undecided += 1
                options.log(f"UNDECIDED {path}: {why}")
                continue
            results = [run_once(stored.scenario, kit, stored.kind) for _ in range(times)]
            wanted = stored.signatures
            bad = [
                each
                for each in results
                if each.verdict in BAD and (not wanted or wanted & {finding.signature for finding in each.findings})
            ]
            if bad:
                still += 1
                options.log(f"STILL {path} ({len(bad)} of {times}): {stored.text}")
            elif unjudged := [each for each in results if each.verdict not in JUDGED]:
                undecided += 1
                options.log(f"UNDECIDED {path}: {unjudged[0].verdict} {unjudged[0].why}".rstrip())
            else:
                options.log(f"FIXED {path}: {stored.text}")
                if not files:
                    path.unlink()
    if still:
        return 1
    return NOTHING_JUDGED_EXIT if undecided else 0
