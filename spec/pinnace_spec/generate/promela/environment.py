"""What the world does in the models: commands of the client, reports of jobs, ends of shells, the end of input.

Each entry of `REPORTS` is one thing that may happen, and when. What a living job may report is a fact of the jobs, not
of the rows; the generator checks that every trigger of a job is here or excluded.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pinnace_spec.generate.promela.names import CommandSet
from pinnace_spec.statechart.names import RUN_ENDS


class JobReport(NamedTuple):
    """`trigger` may come when `when` holds; `first` happens before it, and `due` may be either if `with_due`.

    Without a trigger it happens outside of the chart.
    """

    trigger: str
    when: str
    first: str = ""
    with_due: bool = False
    is_playable: bool = True
    """Whether a client with a model of its own can bring it about in a real agent."""


class Parts(NamedTuple):
    """What makes a further model of the first one."""

    title: str
    before: str
    """Macros that the common text leaves open."""
    state: str
    reports: tuple[JobReport, ...]
    sets: Mapping[str, CommandSet]
    instead: frozenset[str] = frozenset()
    """Triggers whose common reports these replace."""


_PREFLIGHT: Final = "RUN == run_preflight && job == j_preflight && JOB_FREE"
_LLM: Final = "RUN == run_llm && job == j_run && ms && CALM"
_TOOLS: Final = "RUN == run_tools && job == j_run && to && TOOLS_ENDED && JOB_FREE && CALM"
# Where a path is to be played, what jobs do by themselves comes before what gates let happen (CALM).
_NAVIGATING: Final = "RUN == run_navigating && job == j_navigation && CALM"
_ENDED: Final = "job = j_none"

REPORTS: Final = (
    JobReport("preflight_ok", _PREFLIGHT, _ENDED),
    *(JobReport(name, _PREFLIGHT, _ENDED, is_playable=False) for name in ("preflight_refused", "preflight_handled")),
    JobReport("threshold_due", f"{_PREFLIGHT} && chk", _ENDED, is_playable=False),
    JobReport("synced", "RUN == run_persisting && job == j_sync", _ENDED),
    JobReport("sync_failed", "RUN == run_persisting && job == j_sync", _ENDED, is_playable=False),
    JobReport("llm_tool_calls", f"{_LLM} && rounds < ROUNDS", "rounds++"),
    JobReport("llm_length", f"{_LLM} && rounds < ROUNDS", "rounds++", is_playable=False),
    JobReport("llm_stop", _LLM, "", with_due=True),
    JobReport("llm_stop", f"EXT && {_LLM} && boundaries < 1", "boundaries++; o = 1", is_playable=False),
    JobReport("llm_transient", _LLM, "", with_due=True),
    JobReport("llm_overflow", _LLM),
    JobReport("llm_fatal", _LLM),
    JobReport("tools_done", _TOOLS),
    JobReport("tools_done", f"EXT && {_TOOLS}", "o = 1", is_playable=False),
    JobReport(
        "job_failed", "(RUN == run_llm || RUN == run_tools) && job == j_run && TOOLS_UNWOUND", _ENDED, is_playable=False
    ),
    JobReport("delay_over", "RUN == run_retrying && job == j_timer && CALM", _ENDED),
    *(
        JobReport(name, "job == j_compaction && !STOPPING && CALM", _ENDED)
        for name in ("compaction_ok", "compaction_failed")
    ),
    JobReport("navigation_ready", f"{_NAVIGATING} && !moved", is_playable=False),
    JobReport("navigation_ok", _NAVIGATING, _ENDED, is_playable=False),
    JobReport("navigation_failed", f"{_NAVIGATING} && !moved", _ENDED, is_playable=False),
    *(
        JobReport(name, "RUN == run_settling && job == j_settle_hook && JOB_FREE", first)
        for name, first in (("settle_hook_ok", _ENDED), ("job_failed", _ENDED))
    ),
    JobReport(
        "settle_hook_goes_on",
        "RUN == run_settling && job == j_settle_hook && JOB_FREE && boundaries < 1",
        "boundaries++; job = j_none",
    ),
    JobReport("begin_instance", "EXT && !begun_extensions && sent == 0 && RUN == run_idle", "begun_extensions = true"),
    JobReport("instance_ready", "RUN == run_switching && job == j_instance", _ENDED),
    JobReport("reload_ok", "RUN == run_switching && job == j_reload", _ENDED, is_playable=False),
    JobReport("reload_failed", "RUN == run_switching && job == j_reload", _ENDED, is_playable=False),
    JobReport("switch_ok", "RUN == run_switching && job == j_switch", _ENDED),
    JobReport("switch_failed", "RUN == run_switching && job == j_switch", _ENDED, is_playable=False),
    *(
        JobReport(name, "SESSION == session_confirming && ASK_FREE", is_playable=name != "ask_no")
        for name in ("ask_yes", "ask_no", "ask_invalid")
    ),
    *(JobReport(name, "reading != 0") for name in ("text_read", "text_handled", "text_failed")),
    JobReport("save_ok", "saving != 0"),
    JobReport("save_failed", "saving != 0", is_playable=False),
    JobReport("shell_ended", "len(shells) > 0", "choose(shells)"),
    JobReport("command_ended", "len(commands) > 0 && COMMANDS_FREE", "choose(commands)"),
)

# What a job that was cancelled may still report. Reports that the rows treat alike are tried once.
CANCELLED: Final[Mapping[str, tuple[str, ...]]] = {
    "j_preflight": ("job_ended", "preflight_ok", "preflight_refused", "preflight_handled", "threshold_due"),
    "j_sync": ("job_ended", "synced", "sync_failed"),
    "j_run": ("job_ended", "job_failed", *RUN_ENDS),
    "j_compaction": ("job_ended", "compaction_ok", "compaction_failed"),
    "j_navigation": ("job_ended", "navigation_ok", "navigation_failed"),
    "j_settle_hook": ("job_ended", "settle_hook_ok", "settle_hook_goes_on", "job_failed"),
}

CAUSED_INSIDE: Final = ("switch_confirmed",)
"""Raised by an action, never from outside."""

CHOOSE: Final = r"""
/* Any element of a channel, which it stays in. */
inline choose(q) {
  z = 1;
  do :: z < len(q) -> z++ :: break od;
  k = len(q);
  do :: k > 0 -> k--; q?x; q!x; if :: z == 1 -> id = x; z = 0 :: z > 1 -> z-- :: else fi :: else -> break od;
  x = 0; z = 0; k = 0 }
"""

ARRIVAL: Final = r"""
/* A command has arrived: what must not happen from now on. */
inline arrive() {
  if
  :: t == t_abort && o != 2 -> blocked = true; blockedby = sent
  :: t == t_abort && o == 2 -> blocked = false; blockedby = 0; quiet = false
  :: else
  fi }
"""
