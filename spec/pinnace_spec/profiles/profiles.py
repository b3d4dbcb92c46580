"""The generations of the protocol that one process can speak, and the types of records: names only.

What a generation writes is decided in `events` and `responses`, and by the projection at the writer. Source: R-PRO-01.
"""

from typing import Final, Literal, get_args

Profile = Literal["pi", "seed", "1.5"]

PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)
"""Those with models of their own (`events`, `responses`)."""

ClientProfile = Literal["pi", "seed", "1.5", "0.5x", "0.18"]
"""What a client may choose: also two older generations, held to their published schemas alone."""

CLIENT_PROFILES: Final[tuple[ClientProfile, ...]] = get_args(ClientProfile)

EVENT_NAMES: Final = (
    "agent_start",
    "agent_end",
    "agent_settled",
    "turn_start",
    "turn_end",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_update",
    "tool_execution_end",
    "queue_update",
    "auto_retry_start",
    "auto_retry_end",
    "compaction_start",
    "compaction_end",
    "extension_error",
    "extension_ui_request",
    "extension_ui_resolved",
    "client_request",
    "ui_surface_open",
    "ui_surface_draw",
    "ui_input",
    "ui_surface_close",
    "ui_theme",
    "ui_display",
    "ui_tools_expanded",
    "mcp_status",
    "subagent_event",
    "warning",
    "login_start",
    "login_end",
    "bash_execution_update",
    "thinking_level_changed",
    "session_info_changed",
    "session_changed",
    "entry_appended",
)
"""Every record type that the fullest profile may write beside responses; `events` has a model of each."""

# The published protocol complete, with the additive records and fields of later generations.
DEFAULT_PROFILE: Final[Profile] = "pi"
