"""Sends commands and waits for their responses: the part of a stage (`steps`) that is independent of the script.

Tracks a process, the sent commands and the open ones; independent of scenarios.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pinnace_fuzz.harness.agent_process import AgentGone, DriverTimeout
from pinnace_fuzz.harness.journal import Journal, id_key
from pinnace_fuzz.judge.playing.body import Body
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.recording import KIT_ID
from pinnace_fuzz.judge.scenarios.classes import Record
from pinnace_fuzz.judge.scenarios.holes import Holes
from pinnace_fuzz.judge.scenarios.shapes import as_object
from pinnace_spec.records.command_table import CLIENT_ANSWERS

WAIT_S = 10.0
# Programs under node need a second or two to start, more on a busy machine.
START_S = 30.0
QUIET_S = 15.0
# How often the tester checks whether an agent is idle, if no record shows it.
ASK_EVERY_S = 0.15
# An agent that is at rest although its records owe something gets so long.
DOUBT_S = 1.5
# An agent need not echo an id that is longer.
MAX_ID = 256


class StepFailed(AssertionError):
    """A step could not be carried out, and that is the agent's doing."""


class UnknownCommand(StepFailed):
    """The agent does not know a command of the script."""


class Dialogue:
    """A process, the commands that it was sent, and the open ones."""

    def __init__(self, kit: AgentUnderTest, holes: Holes, case: str) -> None:
        self.body: Body | None = None
        self.holes = holes
        self.is_warm = False
        self._kit = kit
        self._case = case
        self._sent: Counter[str] = Counter()
        self._asked = 0
        self._is_over = False
        self.is_doubtful = False
        """It has reported that it is idle, but open commands were never answered."""

    @property
    def has_ended_input(self) -> bool:
        """The script has closed stdin, or sent a signal."""
        return self.body is not None and self.body.asked_to_end_s is not None

    def why_deaf(self, limit_s: float) -> DriverTimeout | AgentGone | None:
        """Return why the agent does not answer, or None if it does."""
        try:
            self._own({"type": "get_state"}, limit_s)
        except (DriverTimeout, AgentGone) as error:
            return error
        return None

    def _body(self) -> Body:
        assert self.body is not None, "not begun"
        return self.body

    def _limit_s(self) -> float:
        limit_s = WAIT_S if self.is_warm else START_S
        return limit_s * self._kit.patience

    def _count(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Record the commands that must be answered. An unusual id may be refused; raw bytes may be anything."""
        typed = [each for each in records if isinstance(each.get("id"), str) and each.get("type") not in CLIENT_ANSWERS]
        ids = [each["id"] for each in typed if len(each["id"]) <= MAX_ID]
        self._sent.update(ids)

    def _all_answered(self, limit_s: float) -> None:
        journal = self._body().journal
        if not journal.wait_until(lambda: journal.has_ended or not self._outstanding(), limit_s):
            raise DriverTimeout(f"no response within {limit_s:g} s to {', '.join(self._outstanding())}")
        if self._outstanding():
            raise DriverTimeout(f"stdout ended without a response to {', '.join(self._outstanding())}")

    def _outstanding(self) -> list[str]:
        """Find ids that have fewer responses than commands."""
        responses = self._body().journal.responses
        return [each for each, sent in self._sent.items() if len(responses.get(id_key(each), ())) < sent]

    def _own(self, record: Mapping[str, Any], limit_s: float) -> Record:
        self._asked += 1
        own = f"{KIT_ID}{self._case}{self._asked}"
        body = self._body()
        self._sent[own] += 1
        body.send({"id": own, **record})
        return body.wait_response(own, limit_s)

    def quiet(self, limit_s: float = QUIET_S) -> None:
        """Wait until everything is answered and nothing more happens by itself.

        Raises:
            DriverTimeout: That does not come.
        """
        limit_s = limit_s * self._kit.patience + (0 if self.is_warm else START_S)
        if self._kit.adapter.is_one_prompt:
            self._release_shell_gates()
            self._body().wait_exit(limit_s)
            return
        deadline_s = time.monotonic() + limit_s
        journal = self._body().journal
        while True:
            self._release_shell_gates()
            left_s = max(0.01, deadline_s - time.monotonic())
            with contextlib.suppress(DriverTimeout):
                self._all_answered(min(left_s, ASK_EVERY_S * 4))
                mark = len(journal.records)
                state = as_object(self._own({"type": "get_state"}, left_s).get("data")) or {}
                self.is_warm = True
                if not (state.get("isStreaming") or state.get("isCompacting") or state.get("isBashRunning")):
                    if self.is_doubtful or not _owes_work(journal):
                        return
                    # The records contradict it: it gets time to become idle, once.
                    self.is_doubtful = not journal.wait_until(
                        lambda: journal.has_ended or not _owes_work(journal), DOUBT_S * self._kit.patience
                    )
                    continue
                if time.monotonic() < deadline_s:
                    journal.wait_until(partial(_has_ended_work, journal, mark), ASK_EVERY_S)
            if journal.has_ended:
                raise DriverTimeout("stdout has ended")
            if time.monotonic() >= deadline_s:
                self._all_answered(0)
                raise DriverTimeout(f"the agent is still busy after {limit_s:g} s")

    def _release_shell_gates(self) -> None:
        if not self._is_over:
            return
        for gate in self.holes.shell_gates.values():
            # No process waits there, or it was killed this moment.
            with contextlib.suppress(DriverTimeout, BrokenPipeError):
                gate.release(timeout_s=0)


def _has_ended_work(journal: Journal, mark: int) -> bool:
    ends = {"agent_settled", "agent_end", "compaction_end", "auto_compaction_end", "auto_retry_end"}
    return journal.has_ended or any(str(each.record.get("type")) in ends for each in journal.records[mark:])


def _owes_work(journal: Journal) -> bool:
    """Return whether a run is open, or was announced and has not begun since: by a prompt, a retry, a compaction."""
    for each in reversed(journal.records):
        kind, record = each.record.get("type"), each.record
        if kind in ("agent_start", "agent_end", "auto_retry_start"):
            return bool(kind != "agent_end")
        if kind == "auto_retry_end" and record.get("success") is not True:
            return False
        if kind in ("compaction_end", "auto_compaction_end") and record.get("willRetry") is True:
            return True
        is_prompt = kind == "response" and record.get("command") == "prompt" and record.get("success") is True
        if is_prompt and "disposition" not in (as_object(record.get("data")) or {}):
            return True
    return False
