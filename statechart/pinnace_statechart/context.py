"""What guards and actions see during one step."""

from dataclasses import dataclass, field

from pinnace_spec.statechart.transitions import Region, Transition
from pinnace_statechart.effects import Effect
from pinnace_statechart.state import ExtendedState
from pinnace_statechart.triggers import Command, InternalEvent, Trigger


@dataclass(slots=True)
class StepContext:
    """The trigger at hand, the configuration before it, the extended state, and what has been asked for so far."""

    configuration: dict[Region, str]
    state: ExtendedState = field(default_factory=ExtendedState)
    trigger: Trigger = InternalEvent("always")
    effects: list[Effect] = field(default_factory=list[Effect])
    raised: list[Trigger] = field(default_factory=list[Trigger])  # triggers to take next in the same step
    taken: list[Transition] = field(default_factory=list[Transition])  # by the machines, until their actions run

    @property
    def command(self) -> Command:
        """The trigger as a command. Only actions of rows whose trigger is a command may ask."""
        assert isinstance(self.trigger, Command)
        return self.trigger

    @property
    def internal_event(self) -> InternalEvent:
        """The trigger as an internal event. Only actions of rows whose trigger is one may ask."""
        assert isinstance(self.trigger, InternalEvent)
        return self.trigger

    def emit(self, *effects: Effect) -> None:
        """Ask for effects, in this order."""
        self.effects.extend(effects)
