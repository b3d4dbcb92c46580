"""Reads of the conversation: I-MSG-1 (its messages), I-STAT-1 (their counts).

Pure. What a read shows is what the records before it have reported; during work that adds to it, only contradictions
are reported. Sources: R-STA-02, R-STA-03, R-BSH-03.
"""

from typing import Final

from pinnace_spec.observers import edge
from pinnace_spec.observers.automaton import Automaton
from pinnace_spec.observers.state.commands import SESSION_COMMANDS, TEXT_COMMANDS
from pinnace_spec.observers.state.conversation import Reported, is_shell
from pinnace_spec.observers.verdicts import Record, Step

# While one of these is under way, messages may be on their way.
WRITERS: Final = TEXT_COMMANDS | SESSION_COMMANDS | {"bash", "compact", "navigate_tree", "abort", "abort_bash"}


class MessagesAgree(Automaton):
    """`get_messages` shows the messages that were reported."""

    id = "I-MSG-1"
    rules = ("R-STA-02",)

    def take(self, step: Step) -> None:
        """Compare a list of messages."""
        answered = self.fold.commands.answered
        if answered is None or answered.kind != "get_messages" or not answered.is_success:
            return
        data = edge.inner(edge.as_record(step.record), "data")
        shown = [edge.as_record(each) for each in edge.items(data, "messages")]
        conversation, fold = self.fold.conversation, self.fold
        is_still = fold.is_quiet and not fold.commands.are_open(WRITERS)
        if conversation.knowledge != "nothing" and not fold.checks.has_extensions:
            self.armed += 1
            if conversation.knowledge == "tail":
                self._compare_tail(step.number, shown)
            else:
                self._compare(step.number, shown, conversation.reported, is_still=is_still)
        # In a retry's delay a failure is still shown, which leaves the context later.
        is_unknown = conversation.knowledge != "all" and fold.work.is_resting
        if is_still or (is_unknown and not fold.commands.are_open(WRITERS)):
            conversation.learn(shown, step.number)

    def _compare_tail(self, number: int, shown: list[Record]) -> None:
        """After a compaction its summary is first, followed by the last reported messages."""
        conversation = self.fold.conversation
        compacted = conversation.compacted
        if compacted is None:
            return
        # Some generations begin with a message about the agent itself.
        shown = [message for message in shown if message.get("role") != "system"]
        if shown and compacted.is_user_message(shown[0]):
            self._compare_end(number, shown[1:], conversation.reported, compacted.number)
        elif not shown or shown[0].get("role") != "compactionSummary":
            self.report(f"record {number} lacks the summary of record {compacted.number}", compacted.number, number)
        elif edge.text(shown[0], "summary") != compacted.summary:
            what = f"record {number} shows another summary than record {compacted.number}"
            self.report(what, compacted.number, number)
        else:
            self._compare_end(number, shown[1:], conversation.reported, compacted.number)

    def _compare_end(self, number: int, shown: list[Record], reported: list[Reported], since: int) -> None:
        """The messages after a summary are the last reported ones, and all that were reported since.

        The newest ones may be prompts that are not answered: one is in the conversation while it is saved, and is
        reported when that is done.
        """
        kept = [message for message in shown if message.get("role") != "bashExecution"]
        reported = reported[::-1]
        at = 0
        is_on_its_way = self.fold.commands.are_open(TEXT_COMMANDS)
        for message in reversed(kept):
            found = _find(reported, at, message)
            is_on_its_way = is_on_its_way and found is None and message.get("role") == "user"
            if is_on_its_way:
                continue
            if found is None:
                what = (
                    f"record {number} keeps a message behind the summary of record {since} that was not reported there"
                )
                self.report(what, since, number)
                return
            at = found + 1
        missing = next((each for each in reported[at:] if not each.is_optional), None)
        if missing is not None and missing.number > since:
            what = f"record {number} lacks the message that record {missing.number} reported behind a summary"
            self.report(what, since, missing.number, number)

    def _compare(self, number: int, shown: list[Record], reported: list[Reported], *, is_still: bool) -> None:
        shells = list(self.fold.conversation.shells)
        at = 0
        for place, message in enumerate(shown):
            found = _find(reported, at, message)
            shell = None
            if found is None and message.get("role") == "bashExecution":
                shell = next((each for each in shells if is_shell(message, each)), None)
            if found is not None:
                at = found + 1
            elif shell is not None:
                shells.remove(shell)
            elif at < len(reported):
                wanted = next((each for each in reported[at:] if not each.is_optional), reported[at])
                what = f"record {number} shows another message at place {place} than record {wanted.number} reported"
                self.report(what, wanted.number, number)
                return
            elif is_still:
                last = reported[-1].number if reported else 0
                self.report(f"record {number} shows a message at place {place} that was not reported", last, number)
                return
        missing = [each for each in reported[at:] if not each.is_optional]
        if missing and is_still:
            what = f"record {number} lacks the message that record {missing[0].number} reported"
            self.report(what, missing[0].number, number)
        lost = [each for each in shells if not each.is_optional]
        if lost and is_still and not missing:
            what = f"record {number} lacks the result of bash that record {lost[0].number} reported"
            self.report(what, lost[0].number, number, rules=("R-BSH-03",))


def _find(reported: list[Reported], at: int, message: Record) -> int | None:
    """Find the matching message: the next required one, or an optional one before it.

    Failures of the same millisecond are equal, so the one that must be there goes first.
    """
    due = at
    while due < len(reported) and reported[due].is_optional:
        due += 1
    if due < len(reported) and edge.is_equal(reported[due].message, message):
        return due
    return next((place for place in range(at, due) if edge.is_equal(reported[place].message, message)), None)


class CountsAgree(Automaton):
    """`get_session_stats` counts the messages that were reported."""

    id = "I-STAT-1"
    rules = ("R-STA-03",)

    def take(self, step: Step) -> None:
        """Compare counts."""
        fold, answered = self.fold, self.fold.commands.answered
        if answered is None or answered.kind != "get_session_stats" or not answered.is_success:
            return
        conversation = fold.conversation
        is_still = fold.is_quiet and not fold.commands.are_open(WRITERS)
        if conversation.knowledge != "all" or not is_still or fold.checks.has_extensions:
            return
        if any(reported.is_optional for reported in conversation.reported):
            return
        if fold.generation.has_habit("counts_whole_session") and (
            not conversation.is_straight or conversation.has_retried
        ):
            return
        self.armed += 1
        data = edge.inner(edge.as_record(step.record), "data")
        messages = [reported.message for reported in conversation.reported]
        wanted = {
            "userMessages": sum(message.get("role") == "user" for message in messages) - conversation.has_user_summary,
            "assistantMessages": sum(message.get("role") == "assistant" for message in messages),
            "toolResults": sum(message.get("role") == "toolResult" for message in messages),
            "toolCalls": sum(len(edge.calls(each)) for each in messages if each.get("role") == "assistant"),
        }
        last = conversation.reported[-1].number if conversation.reported else 0
        for name, expected in wanted.items():
            shown = edge.count(data, name)
            if shown is not None and shown != expected:
                what = f"record {step.number} counts {shown} {name}, the records before it report {expected}"
                self.report(what, last, step.number)
                return
