"""Fills what a scenario leaves open until it is played: places of the home, kept values, gates of the shell.

In a process that plays several cases one after the other, gates and ids also get what distinguishes those of one case.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from pinnace_fuzz.harness.shell_gate import ShellGate
from pinnace_fuzz.judge.scenarios.files import fill

GATES: Final = ".conform-gates"
"""The folder of gates of the shell, in the working folder: whatever confines the commands of an agent, they reach the
folder that they work in, while a folder for temporary files may be another one for them."""

_SHELL_GATE = re.compile(r"\$\{gate:([\w.\-]+)\}")


class Holes:
    """What fills the holes of one scenario."""

    def __init__(self, folders: Mapping[str, Path], case: str) -> None:
        self.shell_gates: dict[str, ShellGate] = {}
        """Those that were named and not yet opened."""
        self._values: dict[str, Any] = {name: str(path) for name, path in folders.items()}
        self._gates = folders["work"] / GATES
        self._case = case

    def keep(self, name: str, value: Any) -> None:
        """Keep a value for `${name}`."""
        self._values[name] = value

    def gate(self, name: str) -> str:
        """Return the name of a gate of the model as the model knows it."""
        return self._case + name

    def filled(self, value: Any) -> Any:
        """Fill the holes of a value."""
        return fill(self._with_shell_gates(value), self._values)

    def answer(self, value: Any) -> Any:
        """Make a line of the model ready: its holes filled, its gates this case's own."""
        filled = self.filled(value)
        return self._with_gates(filled) if self._case else filled

    def named(self, records: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Fill records, and make their ids this case's own."""
        filled = [self.filled(dict(record)) for record in records]
        if not self._case:
            return filled
        return [
            {**record, "id": f"{self._case}{record['id']}"} if isinstance(record.get("id"), str) else record
            for record in filled
        ]

    def unnamed(self, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Show a record as the scenario defines it, with its original id."""
        own = record.get("id")
        if not self._case or not isinstance(own, str) or not own.startswith(self._case):
            return record
        return {**record, "id": own.removeprefix(self._case)}

    def _with_shell_gates(self, value: Any) -> Any:
        if isinstance(value, str):
            return _SHELL_GATE.sub(lambda found: self._shell_gate(found[1]).reading, value)
        if isinstance(value, Mapping):
            return {key: self._with_shell_gates(each) for key, each in cast("Mapping[str, Any]", value).items()}
        if isinstance(value, list | tuple):
            return [self._with_shell_gates(each) for each in cast("Sequence[Any]", value)]
        return value

    def _shell_gate(self, name: str) -> ShellGate:
        if name not in self.shell_gates:
            self._gates.mkdir(exist_ok=True)
            self.shell_gates[name] = ShellGate(self._gates / f"{self._case}{name}")
        return self.shell_gates[name]

    def _with_gates(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            fields = cast("Mapping[str, Any]", value)
            return {
                key: self.gate(each) if key in ("gate", "hold") and isinstance(each, str) else self._with_gates(each)
                for key, each in fields.items()
            }
        if isinstance(value, list | tuple):
            return [self._with_gates(each) for each in cast("Sequence[Any]", value)]
        return value
