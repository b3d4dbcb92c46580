"""Starts agents against fake LLMs in homes of their own, and checks each when its test is over.

What every test of an agent needs, so that a test says only what is special about it. `AgentStarter` serves as
a fixture: it is called for each agent, and closed at the end.
"""

import contextlib
import itertools
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self, Unpack

from pinnace_fuzz.harness import coverage
from pinnace_fuzz.harness.adapters import HomeOptions, PreparedHome, prepare_pi_home
from pinnace_fuzz.harness.driver import Agent
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.judge.playing.recording import Recording
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.reading import worded
from pinnace_fuzz.trials.record_shapes import live_problems
from pinnace_spec.observers import Checks, End, Report, judge
from pinnace_spec.observers.verdicts import Ending
from pinnace_spec.profiles.generations import generation
from pinnace_spec.profiles.profiles import CLIENT_PROFILES, DEFAULT_PROFILE, PROFILES, ClientProfile, Profile
from pinnace_spec.records.command_errors import codes_of
from pinnace_spec.records.outputs import validate_output

# Clients kill an agent some seconds after closing its stdin; an idle one needs far less. How much is for benchmarks:
# on a busy machine the verdict must not be the machine's, so only one that does not leave at all fails.
EXIT_TIMEOUT_S = 30.0
# A killed process is still there until the kernel gets to it; one that was forgotten stays for minutes.
LEFT_BEHIND_TIMEOUT_S = 60.0
# A fault in every record of a run is one fault.
MAX_PROBLEMS_SHOWN = 20
OUR_COMMANDS = generation("pi").commands

# An agent with one of these may begin with a conversation, or with messages of another client.
_SESSION_FLAGS = frozenset({"--session", "--continue", "-c", "--resume", "-r", "--fork", "--session-id"})
_EXTENSION_FLAGS = frozenset({"-e", "--extension"})


class HomedAgent(Agent):
    """An agent with the home it lives in and the LLM it talks to."""

    def __init__(
        self,
        command: Sequence[str],
        home: PreparedHome,
        llm: FakeLlm,
        *,
        stdin: Path | None = None,
        profile: ClientProfile | None = None,
    ) -> None:
        """Start the command in that home; the caller ends the home and the LLM.

        Args:
            command: With all its arguments.
            home: Where it runs.
            llm: What it talks to.
            stdin: A file instead of a pipe.
            profile: What its records are held to, until `hello` chooses another; None: to nothing.
        """
        self.recording = Recording()
        is_fresh = _SESSION_FLAGS.isdisjoint(command) and not any(home.sessions.rglob("*.jsonl"))
        super().__init__(command, cwd=home.work, env=home.env, stdin=stdin, journal=self.recording)
        self.home = home
        self.llm = llm
        # What a machine under the load of a whole suite does in time proves nothing.
        self._checks = Checks(has_inputs=stdin is None, is_fresh=is_fresh, is_ours=True, is_overloaded=True)
        self.profile: ClientProfile | None = profile

    def ask(self, command: str, /, **fields: object) -> Record:
        """Send a command that succeeds; return its data, empty if it has none."""
        response = self.request({"type": command, **fields})
        assert response["success"], response
        return response.get("data") or {}

    def say(self, *texts: str) -> None:
        """Send prompts, each when the one before is done with."""
        for text in texts:
            mark = self.mark()
            self.ask("prompt", message=text)
            self.wait({"type": "agent_settled"}, since=mark)

    def close_stdin(self) -> None:
        """Close the agent's stdin; what stands behind the last LF is a line too."""
        self.recording.end_input()
        super().close_stdin()

    def pause_reading(self) -> None:
        """Play a client that reads no stdout from now on: when something came says nothing any more."""
        self._checks = self._checks._replace(is_reading=False)
        super().pause_reading()

    def judged(self) -> Report:
        """Let the specification's observers judge what was sent and written so far, as the whole of it."""
        profile = self.profile or DEFAULT_PROFILE
        reported = (_reported_profile(each.record) for each in self.records)
        spoken = next((each for each in reported if each is not None), profile)
        code = None if self.alive else self.process.exit_code
        how: Ending = "killed" if code == -signal.SIGKILL else "exit"
        end = End(how, code, self.stderr_text, rest=self.journal.unterminated.decode(errors="replace"))
        checks = self._checks._replace(has_extensions=self._has_extensions())
        return coverage.note_report(judge(self.recording.steps(), end, generation(spoken), checks))

    def _has_extensions(self) -> bool:
        agent, project = self.home.agent_dir, self.home.work / ".pi"
        # What connects MCP servers is one, too, and says their prompts.
        places = (agent / "extensions", project / "extensions", agent / "mcp.json", project / "mcp.json")
        return not _EXTENSION_FLAGS.isdisjoint(self.process.argv) or any(place.exists() for place in places)

    def check_end(self, exit_timeout_s: float = EXIT_TIMEOUT_S) -> None:
        """End the agent in order, unless it has ended, and check what must hold of every run.

        On the end of stdin: exit with 0 in time. Every line of stdout is a JSON object, and a record that the
        agent's profile describes. Unless it could not write: what was sent and written keeps the invariants. Unless it
        was killed, too: nothing is left open, the last byte is LF, every command with an id has exactly one response,
        and no process that the agent started is left.

        Raises:
            AssertionError: One of these does not hold.
        """
        if self.alive:
            self.resume_reading()
            self.close_stdin()
            assert self.wait_exit(exit_timeout_s) == 0, self.journal.tail()
        code = self.wait_exit(0)
        assert self.journal.flaws == []
        if self.profile is not None:
            problems = find_problems((each.record for each in self.records), self.profile)
            assert problems == [], "\n".join(problems[:MAX_PROBLEMS_SHOWN])
        if self.has_closed_stdout:
            return
        if self.profile is not None:
            broken = worded(self.judged())
            assert broken == [], "\n".join(broken[:MAX_PROBLEMS_SHOWN])
        if code == -signal.SIGKILL:
            return
        assert self.journal.unterminated == b""
        assert self.journal.unanswered() == {}, f"id: (commands, responses)\n{self.journal.tail()}"
        assert self.process.left_behind(LEFT_BEHIND_TIMEOUT_S) == []


def find_problems(records: Iterable[Record], profile: ClientProfile) -> list[str]:
    """Say what is wrong with the records of one run: number, type, and what is not as the profile describes it.

    By the models, and by the schema that is published of them. A successful `hello` says itself which profile it and
    everything after it is written in.
    """
    problems: list[str] = []
    for number, record in enumerate(records):
        profile = _reported_profile(record) or profile
        name = f"record {number} ({record.get('command') or record.get('type')}, profile {profile})"
        judged: ClientProfile = profile
        if profile not in PROFILES and record.get("command") in OUR_COMMANDS - generation(profile).commands:
            judged = "seed"  # what a client of an older generation asks beyond it is answered as in the published one
        modelled: Profile | None = next((each for each in PROFILES if each == judged), None)
        found = [] if modelled is None else validate_output(record, modelled)
        found = found or live_problems(record, judged) or _code_problems(record)
        problems += [f"{name}: {problem}" for problem in found]
    return problems


def _code_problems(record: Record) -> list[str]:
    """Say if a refusal has a code that clients are not reported of for this command."""
    command, code = str(record.get("command")), record.get("errorCode")
    if record.get("type") != "response" or code is None or code in codes_of(command):
        return []
    return [f"errorCode {code} is not listed for {command} (pinnace_spec.records.command_errors)"]


def _reported_profile(record: Record) -> ClientProfile | None:
    if (record.get("type"), record.get("command"), record.get("success")) != ("response", "hello", True):
        return None
    reported = record.get("data", {}).get("protocol")
    return reported if reported in CLIENT_PROFILES else None


class AgentStarter:
    """Starts agents with one command; use it as a context manager."""

    def __init__(
        self, command: Sequence[str], root: Path, env: Mapping[str, str] | None = None, *, is_specified: bool = False
    ) -> None:
        """Prepare to start.

        Args:
            command: The agent's, without arguments of the protocol.
            root: A folder that homes are made in.
            env: More variables for every agent.
            is_specified: Every record that it writes must be as the specification describes it; for our own agent,
                since others write what theirs allows.
        """
        self._command = tuple(command)
        self._root = root
        self._env = dict(env or {})
        self._is_specified = is_specified
        self._stack = contextlib.ExitStack()
        self._homes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        self._stack.close()

    def __call__(
        self,
        llm: FakeLlm | Iterable[Scripted] = (),
        *flags: str,
        protocol: ClientProfile | None = None,
        again: HomedAgent | None = None,
        stdin: Path | None = None,
        is_checked: bool = True,
        **options: Unpack[HomeOptions],
    ) -> HomedAgent:
        """Start an agent; it is checked (see `HomedAgent.check_end`) and ended when the test is over.

        Args:
            llm: What it talks to, or the script of one of its own.
            flags: More arguments.
            protocol: `--protocol`.
            again: An earlier agent whose home, files and LLM this one gets; then neither `llm` nor options.
            stdin: A file instead of a pipe.
            is_checked: False for a test that breaks the contract on purpose: the agent is just killed.
            options: What is different in its home.
        """
        if again is not None:
            llm, home = again.llm, again.home
        else:
            if not isinstance(llm, FakeLlm):
                llm = self._stack.enter_context(FakeLlm(llm))
            self._homes += 1
            options["env"] = {**self._env, **options.get("env", {})}
            home = prepare_pi_home(self._root / f"agent-{self._homes}", llm.base_url, **options)
        chosen = () if protocol is None else ("--protocol", protocol)
        command = [*self._command, *home.arguments, *chosen, *flags]
        profile = _profile(command, home.env) if self._is_specified else None
        agent = self._stack.enter_context(HomedAgent(command, home, llm, stdin=stdin, profile=profile))
        if is_checked:
            self._stack.callback(agent.check_end)
        return agent


def _profile(command: Sequence[str], env: Mapping[str, str]) -> ClientProfile:
    """Find the profile that a command line or else the environment chooses, as the agent does."""
    flags = [value for flag, value in itertools.pairwise(command) if flag == "--protocol"]
    chosen = flags[-1] if flags else env.get("PINNACE_PROTOCOL")
    return chosen if chosen in CLIENT_PROFILES else DEFAULT_PROFILE
