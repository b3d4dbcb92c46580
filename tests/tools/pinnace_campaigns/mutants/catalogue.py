"""The faults: each one text of one file of the agent, and what it becomes.

Data only. `check` is the quick test that must fail with the fault in place; `rules` are what a judge that sees only
records may name. A text that is not there exactly once is found by a test at once.
"""

from typing import Final, NamedTuple


class Judged(NamedTuple):
    """What `pinnace-conform` says of a fault."""

    by: str
    """A scenario, or a campaign."""
    named: str
    """The invariant or rule that a violation there names."""


class AgentMutant(NamedTuple):
    """One fault of the real program."""

    name: str
    text: str
    file: str
    """From the root of the checkout."""
    old: str
    new: str
    check: str
    """A test, as pytest names it."""
    rules: tuple[str, ...]
    is_on_wire: bool = True
    """Whether a client can see it in the records."""
    judged: Judged | None = None
    """None: the judge does not find it."""


_QUEUE: Final = "statechart/pinnace_statechart/actions_queue.py"
_RUN: Final = "statechart/pinnace_statechart/actions_run.py"
_LOG: Final = "agent/pinnace_agent/engine/run_recorder.py"
_DISPATCH: Final = "rpc/pinnace_rpc/server/dispatch.py"
_INTERLEAVINGS: Final = "tests/statechart/test_interleavings.py::"

AGENT_MUTANTS: Final = (
    AgentMutant(
        "nothing-is-held",
        "An abort does not pause the queue: queued messages run without a request.",
        _QUEUE,
        'state.queue_paused = command.queue != "continue"',
        "state.queue_paused = False",
        f"{_INTERLEAVINGS}test_02_a_compaction_does_not_release_what_an_abort_holds",
        ("C-1", "R-ABT-01"),
        judged=Judged("ABT/holds-the-queue", "I-QUE-5"),
    ),
    AgentMutant(
        "newest-first",
        "A queue delivers its newest text first.",
        "statechart/pinnace_statechart/queues.py",
        "return self._items.pop(0) if self._items else None",
        "return self._items.pop() if self._items else None",
        f"{_INTERLEAVINGS}test_16_a_steer_while_idle_does_not_overtake_a_held_one",
        ("R-QUE-03", "C-4"),
        judged=Judged("QUE/held-texts-go-first", "I-QUE-1"),
    ),
    AgentMutant(
        "abort-before-settled",
        "An abort is answered before agent_settled.",
        "spec/pinnace_spec/statechart/names.py",
        '"end_job flush_shells settle answer_aborts"',
        '"end_job flush_shells answer_aborts settle"',
        f"{_INTERLEAVINGS}test_10_abort_clear_then_steer_then_abort_hold_parks_the_steer",
        ("C-6", "C-8", "R-ABT-01"),
        judged=Judged("ABT/in-the-middle-of-a-text", "I-ABT-1"),
    ),
    AgentMutant(
        "line-survives-abort",
        "What waits behind a barrier starts after the abort's answer.",
        _QUEUE,
        "kept = [command for command in state.deferred_commands if not _withdraw_one(context, command)]",
        "kept = list(state.deferred_commands)",
        f"{_INTERLEAVINGS}test_06_a_prompt_that_waits_behind_a_session_command_does_not_run_after_an_abort",
        ("C-9",),
        judged=Judged("ABT/withdraws-what-waits", "C-9"),
    ),
    AgentMutant(
        "late-timer",
        "A delay that elapsed as it was cancelled starts a run.",
        "statechart/pinnace_statechart/machine.py",
        "return job == 0 or job != living",
        "return False",
        f"{_INTERLEAVINGS}test_19_a_delay_that_elapsed_as_it_was_cancelled_starts_nothing",
        ("R-RTY-03",),
        judged=Judged("RTY/an-abort-ends-the-delay", "R-ABT-01"),
    ),
    AgentMutant(
        "compact-unanswered",
        "A compact has no answer.",
        _RUN,
        "context.emit(AcceptCompact(_asked(context)))",
        "pass",
        f"{_INTERLEAVINGS}test_11_a_compaction_that_finished_before_its_cancellation_is_reported_as_done",
        ("R-RSP-01", "C-12"),
        judged=Judged("CMP/on-request", "I-RSP-1"),
    ),
    AgentMutant(
        "retry-left-open",
        "auto_retry_start is never closed.",
        _RUN,
        "context.emit(RetryEnd(success, attempt, cancelled))",
        "pass",
        f"{_INTERLEAVINGS}test_14_an_overflow_during_a_retry_closes_the_retry_and_is_tried_once",
        ("C-14", "R-RTY-02"),
        judged=Judged("RTY/attempts-are-counted", "I-EVT-9"),
    ),
    AgentMutant(
        "settled-while-owed",
        "The agent settles although queued texts run next.",
        _QUEUE,
        "if state.streaming and not state.is_owed and not is_settle_hook_due(state):",
        "if state.streaming and not is_settle_hook_due(state):",
        f"{_INTERLEAVINGS}test_04_abort_continue_answers_before_the_run_and_settles_after_it",
        ("C-8",),
        judged=Judged("ABT/goes-on-with-the-queue", "C-8"),
    ),
    AgentMutant(
        "cr-ends-a-line",
        "A CR inside a line cuts it.",
        "spec/pinnace_spec/wire/framing.py",
        'data.split(b"\\n")',
        'data.replace(b"\\r", b"\\n").split(b"\\n")',
        "tests/spec/wire/test_framing.py::test_one_cr_before_the_lf_is_stripped_and_no_other",
        ("R-FRM-02",),
        judged=Judged("FRM/a-cr-inside-of-a-line", "R-FRM-01"),
    ),
    AgentMutant(
        "separators-as-they-are",
        "U+2028 is written as it is: some readers see two lines.",
        "spec/pinnace_spec/wire/json_text.py",
        'line = line.replace(b"\\xe2\\x80\\xa8", b"\\\\u2028")',
        "pass",
        "tests/spec/wire/test_wire.py::test_separators_of_lines_are_escaped",
        ("R-FRM-09",),
        judged=Judged("FRM/written-separators-are-escaped", "I-FRM-1"),
    ),
    AgentMutant(
        "refused-without-id",
        "An error does not say which command it is about.",
        _DISPATCH,
        'head: dict[str, object] = {"id": pending.id} if pending.has_id else {}',
        'head: dict[str, object] = {"id": pending.id} if pending.has_id and outcome["success"] else {}',
        "tests/rpc/server/test_ordering.py::test_of_two_prompts_in_one_write_the_second_is_refused",
        ("R-RSP-01",),
        judged=Judged("PRM/two-prompts-in-one-write", "I-RSP-1"),
    ),
    AgentMutant(
        "results-as-they-come",
        "Results of parallel calls are appended in the order in which they ended.",
        _LOG,
        "for index in range(len(self._turn_results), len(self.calls)):",
        "for index in list(self._results)[len(self._turn_results) :]:",
        "tests/rpc/tools/test_tools_abort.py::test_ends_come_in_order_of_completion_and_results_in_order_of_the_calls",
        ("R-RUN-03",),
        judged=Judged("RUN/calls-end-as-they-end", "I-EVT-6"),
    ),
    AgentMutant(
        "results-lost-at-abort",
        "An aborted turn has calls without results.",
        _LOG,
        "if len(self._turn_results) < len(self.calls):",
        "if not self.calls:",
        "tests/rpc/tools/test_tools_abort.py::test_all_tools_of_an_answer_are_aborted",
        ("C-15", "R-RUN-03"),
        judged=Judged("ABT/two-tools", "I-EVT-6"),
    ),
    AgentMutant(
        "turn-left-open",
        "An aborted run ends without turn_end.",
        _LOG,
        "            self.end_turn()\n        self.end(will_retry=False)",
        "            pass\n        self.end(will_retry=False)",
        "tests/rpc/tools/test_tools_abort.py::test_an_abort_closes_the_tool_the_turn_and_the_run_and_then_answers",
        ("C-15",),
        judged=Judged("ABT/in-the-middle-of-a-text", "I-EVT-1"),
    ),
    AgentMutant(
        "family-survives",
        "Only the shell is killed, not what it started.",
        "agent/pinnace_agent/shell/descendants.py",
        "            found = self._family(children, sessions) - killed\n            if look == 0:\n"
        "                for child in children:\n                    _kill_group(child.pid)\n",
        "            found = {child.pid for child in children} - killed\n",
        "tests/agent/shell/test_shell_process.py::test_cancelling_kills_everything_that_the_command_started",
        ("R-BSH-02",),
        is_on_wire=False,
        judged=Judged("BSH/the-whole-group", "R-BSH-04"),
    ),
    AgentMutant(
        "deltas-lost",
        "Deltas of different blocks replace each other while the client does not read.",
        "rpc/pinnace_rpc/server/outbox.py",
        "if self._delta is None or not self._delta.merge(event, builder):\n                self._seal()\n",
        "if self._delta is None or not self._delta.merge(event, builder):\n",
        "tests/rpc/server/test_outbox.py::test_only_neighbours_of_the_same_block_merge",
        ("R-UPD-01",),
    ),
    AgentMutant(
        "key-in-errors",
        "A key that a server sends back stands in the error.",
        "agent/pinnace_agent/redaction/secrets.py",
        "text = self._redactor.text(text)",
        "pass",
        "tests/agent/llm/test_llm_failures.py::test_what_lets_a_request_in_is_hidden",
        (),
    ),
)
