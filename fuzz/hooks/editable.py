"""Leaves the copy of the specification out of an editable install: it would hide the specification of the checkout."""

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class EditableHook(BuildHookInterface[Any]):
    """Runs in each build of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put only the licence into an editable wheel; hatchling takes an empty mapping for none."""
        if version == "editable":
            licence = Path(self.root).parent / "LICENSE"
            build_data["force_include_editable"] = {str(licence): "pinnace_fuzz/LICENSE"}
