"""Finds out what an agent is: its generation and its capabilities, by asking it, never by its name or version.

A command that an agent does not know is refused as unknown; what it writes in a run shows the rest. The generation
whose commands and records fit best is taken, the newest of several.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.play import Played, play
from pinnace_fuzz.judge.running import folder
from pinnace_fuzz.judge.scenarios.reading import read_scenario
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_fuzz.judge.scenarios.shapes import as_object
from pinnace_spec.observers.trace_file import record_of
from pinnace_spec.profiles.generations import GENERATIONS, GenerationName, generation

# They change nothing that matters in a new process, and came or went with some generation.
COMMANDS: Final[tuple[Mapping[str, object], ...]] = (
    {"type": "get_state"},
    {"type": "get_entries"},
    {"type": "get_tree"},
    {"type": "get_available_thinking_levels"},
    {"type": "clear_queue"},
    {"type": "get_fork_messages"},
    {"type": "get_branch_messages"},
    {"type": "get_commands"},
    {"type": "get_last_assistant_text"},
    {"type": "set_steering_mode", "mode": "one-at-a-time"},
    {"type": "set_queue_mode", "mode": "one-at-a-time"},
    {"type": "set_follow_up_mode", "mode": "one-at-a-time"},
    {"type": "abort_retry"},
    {"type": "clone"},
)
_NO_COMMAND: Final = "no_such_command"
_RECORDS: Final = ("agent_settled", "queue_update")


class NotStarted(Exception):
    """The agent does not start, or does not speak the protocol. The text contains its output."""


class ProbeFindings(NamedTuple):
    """What probing has shown."""

    generation: GenerationName
    is_ours: bool
    """It answers `hello` as this project's agent does."""
    hello: Mapping[str, Any]
    """The data of `hello`."""
    commands: frozenset[str]
    """The probed ones that it knows."""
    version: str
    does_llm: bool
    """The tester's model server got a request."""
    has_succeeded: bool
    """It has carried out a command at least, of those that every generation has."""


def probe(kit: AgentUnderTest) -> ProbeFindings:
    """Ask an agent what it is.

    Raises:
        NotStarted: It does not exist, or writes nothing.
    """
    has_llm = "llm" in kit.capabilities
    with folder(kit) as root:
        played = play(kit, _scenario(has_llm), root)
    records = list(_records(played))
    responses = {str(each["id"]): each for each in records if each.get("type") == "response" and "id" in each}
    if "probe-0" not in responses:
        raise NotStarted(_what_it_said(played))
    hello = responses.get("probe-hello", {})
    hello = (as_object(hello.get("data")) or {}) if hello.get("success") else {}
    refusal = str(responses.get("probe-none", {}).get("error") or "")
    known = frozenset(
        str(command["type"])
        for at, command in enumerate(COMMANDS)
        if _is_known(responses.get(f"probe-{at}"), str(command["type"]), refusal)
    )
    return ProbeFindings(
        _best(known, records, hello),
        hello.get("name") == "pinnace",
        hello,
        known,
        str(hello.get("version", "")),
        bool(played.requests),
        any(each.get("success") is True for each in responses.values()),
    )


def _scenario(has_llm: bool) -> Scenario:
    records: list[Mapping[str, object]] = [
        {"id": "probe-none", "type": _NO_COMMAND},
        {"id": "probe-hello", "type": "hello"},
    ]
    records += [{"id": f"probe-{at}", **command} for at, command in enumerate(COMMANDS)]
    # As bytes, without waiting for their ids: many agents reject unknown commands without the id.
    *sent, session = ({"bytes": json.dumps(each) + "\n"} for each in records)
    client: list[Any] = [*sent, {"ask": {"id": "probe-read", "type": "get_state"}}]
    if has_llm:
        client += [{"send": {"id": "probe-run", "type": "prompt", "message": "PROBE"}}, {"requests": 1}, "quiet"]
    # Behind everything else: some lose what comes while the session is replaced.
    client += [session, {"ask": {"id": "probe-last", "type": "get_state"}}, "quiet"]
    source = {
        "id": "KIT/probe",
        "title": "What is it?",
        "rules": ["R-CMD-01"],
        "client": client,
        "llm": [{"text": ["probe ", "answer"], "repeat": -1}],
        "exit": None,
    }
    return read_scenario(source)


def _records(played: Played) -> Iterable[Mapping[str, Any]]:
    for trace in played.traces:
        for line in trace.recording.lines:
            if (
                line.direction == "out"
                and (record := record_of(line.data.decode("utf-8", "surrogateescape"))) is not None
            ):
                yield record


def _is_known(response: Mapping[str, Any] | None, name: str, refusal: str) -> bool:
    """Compare with the rejection of an invented command; a command without a response of its own is unknown."""
    if response is None:
        return False
    error = str(response.get("error"))
    return bool(response.get("success")) or not (
        "nknown command" in error or (refusal and error == refusal.replace(_NO_COMMAND, name))
    )


def _best(known: frozenset[str], records: Sequence[Mapping[str, Any]], hello: Mapping[str, Any]) -> GenerationName:
    for name in GENERATIONS:
        if hello.get("protocol") == name:
            return name
    probed = {str(command["type"]) for command in COMMANDS}
    types = {str(each.get("type")) for each in records}
    has_run = "agent_end" in types
    has_disposition = any(
        "disposition" in (each.get("data") or {}) for each in records if each.get("id") == "probe-run"
    )

    def misfits(name: GenerationName) -> int:
        found = generation(name)
        wrong = len(known ^ (found.commands & probed))
        if has_run:
            wrong += 2 * (found.has_settled is not ("agent_settled" in types))
            wrong += 2 * (found.has_disposition is not has_disposition)
        return wrong

    candidates: list[GenerationName] = [name for name in GENERATIONS if not generation(name).is_ours]
    return min(candidates[::-1], key=misfits)


def _what_it_said(played: Played) -> str:
    for trace in played.traces:
        lines = [
            line.data[:300].decode("utf-8", "replace") for line in trace.recording.lines if line.direction == "out"
        ]
        said = "\n".join(lines[:5]) or "nothing on stdout"
        return f"{played.stopped.text if played.stopped else 'no answer'}\n{said}\n{trace.end.stderr[-2000:]}".rstrip()
    return played.stopped.text if played.stopped else "it was not started"
