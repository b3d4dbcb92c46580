"""The calls of one tool through a whole agent, beside the recorded answers of the original agent."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.recorded import Record, RecordedList, check_answer

from pinnace_campaigns.trials.tool_trials import Trial, answers_to, trial_record
from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent


def _unchanged(record: Record) -> Record:
    return record


class RecordedTool:
    """The trials of one tool and how they are compared.

    `settled` leaves out of an answer what may differ; `options` go to each start of an agent, and `turn` to
    `answers_to`.
    """

    def __init__(
        self,
        name: str,
        trials: Sequence[Trial],
        *,
        settled: Callable[[Record], Record] = _unchanged,
        options: Mapping[str, Any] | None = None,  # Any: each option of the starter has its own type
        turn: Mapping[str, int] | None = None,
    ) -> None:
        self.recorded: Final = RecordedList(name)
        self.trials: Final = trials
        self._settled = settled
        self._options = options or {}
        self._turn = turn or {}

    def comparison(self, start: Callable[..., HomedAgent]) -> "Comparison":
        """Make all calls with an agent of ours, and read the recorded answers."""
        ours = map(self._settled, self._answers(start))
        return Comparison(self.trials, list(ours), list(map(self._settled, self.recorded.read())))

    def check_original(self, command: list[str], folder: Path) -> None:
        """Make all calls with the original; compare its answers with the recorded ones, or record them."""
        with AgentStarter(command, folder) as start:
            record = self._answers(start)
        self.recorded.check(record)

    def _answers(self, start: Callable[..., HomedAgent]) -> list[Record]:
        agent = start([], **self._options)
        return trial_record(self.trials, answers_to(agent, self.trials, **self._turn))


class Comparison:
    """The answers of our agent and of the original, call by call."""

    def __init__(self, trials: Sequence[Trial], ours: Sequence[Record], original: Sequence[Record]) -> None:
        self._rows: Final = list(zip(trials, ours, original, strict=True))

    def check(self, index: int) -> None:
        """Compare one call, up to its listed differences."""
        trial, ours, original = self._rows[index]
        if ours["tool"] == "write" and (ours["details"] or {}).keys() == {"created"}:
            ours = {**ours, "details": None}  # ours alone, R-TOL-09
        check_answer(ours, original, trial.ours)
