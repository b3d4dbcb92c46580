"""The second model: the calls of a turn run in parallel, and an abort comes at any point.

The rows are those of the first; in place of one happening, `tools_done`, each call starts, ends and has a result of its
own. Calls start in call order, possibly with something in between (a gate that asks); they end in any order; a job that
was cancelled starts none any more and is done when all that run have ended.
"""

from typing import Final

from pinnace_spec.generate.promela.environment import JobReport, Parts
from pinnace_spec.generate.promela.names import (
    ABORT,
    ABORT_CLEAR,
    ABORT_CONTINUE,
    COMPACT,
    FOLLOW_UP,
    NEW_SESSION,
    PROMPT,
    PROMPT_STEER,
    STEER,
    CommandSet,
)

_BEFORE: Final = r"""
#define CALLS 3        /* parallel calls of a message, at most */
#define TOOLS_START begin_calls()
#define TOOLS_END report_results()
#define TOOLS_CLOSE close_calls()
#define TOOLS_ENDED (begun == calls && TOOLS_UNWOUND)
#define TOOLS_UNWOUND (call[0] != 1 && call[1] != 1 && call[2] != 1)
#define TOOLS_SETTLED (calls == 0)
"""

_STATE: Final = r"""
/* Of the turn's calls: 0 not started, 1 running, 2 ended; how many there are, have started, have a result. */
byte call[CALLS], calls, begun, results;

inline begin_calls() { HOLDS(results_in_order, begun == 0 && results == 0) }
inline start_one() {
  HOLDS(starts_in_order, call[begun] == 0 && (begun == 0 || call[begun - 1] != 0));
  call[begun] = 1; SAY("call_start %d\n", begun + 1); begun++ }
inline end_one(which) {
  HOLDS(ends_once, to && call[which] == 1); call[which] = 2; SAY("call_end %d\n", which + 1) }
inline report_results() {
  w = 0;
  do
  :: w < calls ->
     HOLDS(ends_once, call[w] != 1);
     HOLDS(results_in_order, results == w);
     results++; call[w] = 0; SAY("result %d\n", w + 1); w++
  :: else -> break
  od; w = 0; calls = 0; begun = 0; results = 0 }
/* What a run that was cut short still owes: every call has its result, started or not. */
inline close_calls() { if :: calls > 0 -> report_results() :: else fi }
"""

_REPORTS: Final = (
    JobReport(
        "llm_tool_calls",
        "RUN == run_llm && job == j_run && ms && rounds < ROUNDS",
        "rounds++; if :: calls = 1 :: calls = 2 :: calls = 3 fi",
    ),
    JobReport("", "RUN == run_tools && to && begun < calls", "start_one()"),
    *(JobReport("", f"to && job == j_run && call[{k}] == 1", f"end_one({k})") for k in range(3)),
)

TOOLS: Final = Parts(
    "parallel tools and abort",
    _BEFORE,
    _STATE,
    _REPORTS,
    {
        "abort": CommandSet((PROMPT, STEER, ABORT)),
        "all": CommandSet(
            (PROMPT, PROMPT_STEER, STEER, FOLLOW_UP, ABORT, ABORT_CLEAR, ABORT_CONTINUE, COMPACT, NEW_SESSION)
        ),
    },
    frozenset({"llm_tool_calls"}),
)
