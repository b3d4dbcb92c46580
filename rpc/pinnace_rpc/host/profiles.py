"""What older profiles of the protocol lack, as far as the host goes by it."""

from typing import Final

WITHOUT_SETTLED: Final = frozenset({"seed", "0.5x", "0.18"})
"""Profiles in which `agent_end` is the last record of a run."""
WITHOUT_NAMES: Final = WITHOUT_SETTLED
"""Profiles whose commands have neither `messageId` nor `by`, so that no process recognises a repeated one."""
WITHOUT_RESOLVED: Final = WITHOUT_SETTLED
"""Profiles without `extension_ui_resolved`, which only clients with cursors get."""
