"""Paths of a model as steps: what happened, and what the statechart emitted."""

from collections.abc import Iterable
from typing import NamedTuple

STOPS = ("stop_abort", "stop_drain")
_NUMBERED_REPORTS = ("shell_ended", "command_ended")


class ModelStep(NamedTuple):
    """One trigger with everything that its step emitted."""

    trigger: str
    option: int
    number: int
    is_due: bool
    is_calm: bool
    """Whether a real agent would have stayed where it was until this happened."""
    outputs: tuple[str, ...]

    @property
    def is_command(self) -> bool:
        """Whether a client sent it."""
        return self.number > 0 and self.trigger not in _NUMBERED_REPORTS

    def __str__(self) -> str:
        option = f" option {self.option}" if self.option else ""
        number = f" #{self.number}" if self.number else ""
        return f"{self.trigger}{number}{option}: {', '.join(self.outputs) or 'nothing'}"


class ModelPath(NamedTuple):
    """A whole path. The modes say whether a queue delivers all its texts at once."""

    steps: tuple[ModelStep, ...]
    is_steering_all: bool = False
    is_follow_up_all: bool = False


def read_path(lines: Iterable[str]) -> ModelPath:
    """Read the output of a model; a path that breaks a property ends with what broke."""
    steps: list[ModelStep] = []
    modes = ["0", "0"]
    for line in lines:
        if line.startswith("> "):
            _, trigger, option, number, due, calm = line.split()
            step = ModelStep(trigger.removeprefix("t_"), int(option), int(number), due == "1", calm == "1", ())
            steps.append(step)
        elif line.startswith("modes "):
            modes = line.split()[1:]
        elif steps:
            steps[-1] = steps[-1]._replace(outputs=(*steps[-1].outputs, line))
    return ModelPath(tuple(steps), modes[0] == "1", modes[1] == "1")
