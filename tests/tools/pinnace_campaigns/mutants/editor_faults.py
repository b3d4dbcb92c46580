"""Faults in what an adapter does between an editor and an agent, which the histories of editors show.

Data as in `catalogue`, without a check of their own: `pinnace-simulate --editors` is the check, and `EDITOR_STEPS`
scheduling steps are the bound within which each is found. Those of `NOT_FOUND` and the first of the others were faults
of the adapter once, which these histories have found in some hundreds.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_campaigns.mutants.catalogue import AgentMutant

EDITOR_STEPS: Final = 150_000
MORE_STEPS: Final[Mapping[str, int]] = {"a-message-of-unknown-fate-is-refused": 5_500_000}
"""For a fault that shows only where an agent crashes behind a flush during which its prompt was cancelled."""

_DIALOGS: Final = "rpc/pinnace_rpc/acp/dialogs.py"
_WORK: Final = "rpc/pinnace_rpc/acp/work.py"
_SESSION: Final = "rpc/pinnace_rpc/acp/session.py"
_V1: Final = "rpc/pinnace_rpc/acp/translation/v1/lifecycle.py"
_V2: Final = "rpc/pinnace_rpc/acp/translation/v2/lifecycle.py"


def _fault(name: str, text: str, file: str, old: str, new: str) -> AgentMutant:
    return AgentMutant(name, text, file, old, new, "", ("R-ACP-29",), is_on_wire=False)


NOT_FOUND: Final = (
    _fault(
        "calls-of-the-next-run-are-closed",
        "The calls that a run announces behind that of a prompt are shown as failed.",
        _WORK,
        "        self._turns.end()\n        turn.spent = ",
        "        for shown in self._translator.close():\n            self._show(shown)\n"
        "        self._turns.end()\n        turn.spent = ",
    ),
)
"""It needs events in a rare order, which a million scheduling steps have not shown; a unit of the adapter holds it."""

EDITOR_MUTANTS: Final = (
    _fault(
        "a-message-of-unknown-fate-is-refused",
        "A prompt that was cancelled counts as not delivered, though its agent may have accepted it.",
        _V2,
        "            if lost is not None:  # also of one that was cancelled\n",
        "            if lost is not None and not turn.is_cancelled:\n",
    ),
    _fault(
        "an-unsaved-message-is-replayed",
        "A replay shows the message of a prompt that is being saved, and may be taken back.",
        _SESSION,
        "        branch = self._translator.without_unsaved(branch)\n",
        "",
    ),
    _fault(
        "work-outlives-its-agent",
        "In version 1 work that no prompt has begun never ends when its agent has ended.",
        _V1,
        '        """Show the end of work that no prompt has begun; the others have their responses."""\n'
        "        self.work(is_at_work=False, outcome=None)\n",
        '        """Do nothing."""\n',
    ),
    _fault(
        "questions-share-ids",
        "Questions of a session that is opened again have the ids of earlier ones.",
        _DIALOGS,
        "        announced = f\"dialog:{record['id']}\"",
        '        announced = f"dialog:{len(self._announced)}"',
    ),
    _fault(
        "an-answer-is-lost",
        "A request to steer is never answered.",
        _WORK,
        '                self._outbox.respond(request, result(as_object(answer.get("data")) or {}))\n',
        "                pass\n",
    ),
    _fault(
        "a-prompt-is-sent-twice",
        "Each prompt goes to the agent twice.",
        _WORK,
        '        self._core.send("prompt", fields, lambda answer: self._prompted(turn, answer))\n',
        '        self._core.send("prompt", fields, lambda answer: self._prompted(turn, answer))\n'
        '        self._core.send("prompt", {**fields, "messageId": random_uuid()}, lambda _: None)\n',
    ),
    _fault(
        "a-replay-misses-an-update",
        "The first thing of a conversation is not shown again.",
        _SESSION,
        "            for shown in (*with_children(replayed, children), *self._translator.begin_again()):\n",
        "            for shown in (*with_children(replayed[1:], children), *self._translator.begin_again()):\n",
    ),
    _fault(
        "a-cancellation-aborts-nothing",
        "The agent is not asked to end its work.",
        _WORK,
        '            self._core.send("abort", {"queue": "clear"}, lambda answer: self._take_returned(turn, answer))\n',
        "            pass\n",
    ),
    _fault(
        "a-message-is-handed-back-unseen",
        "A message that an abort has kept from the model is not shown to its user.",
        _WORK,
        '            self._show(Noticed("warning", "Not delivered:", "\\n".join(texts)))\n',
        "            pass\n",
    ),
    _fault(
        "a-prompt-is-accepted-too-early",
        "A prompt is answered when it goes to the agent, with an id that no entry has.",
        _WORK,
        '        fields = {**self._named(turn.message, turn.message_id), "streamingBehavior": "followUp"}\n',
        "        turn.accepted_as = turn.message_id\n        self._lifecycle.accept(turn)\n"
        '        fields = {**self._named(turn.message, turn.message_id), "streamingBehavior": "followUp"}\n',
    ),
    _fault(
        "a-dismissed-question-allows",
        "A call about which the user has dismissed the question runs.",
        _DIALOGS,
        'if option.kind == "reject_once"), None)',
        'if option.kind == "allow_once"), None)',
    ),
    _fault(
        "an-allowed-call-is-refused",
        "A call that the user has allowed does not run.",
        _DIALOGS,
        'self._post(record, value=cast("Sequence[object]", record["options"])[index])',
        "self._decline(record)",
    ),
    _fault(
        "a-denied-call-runs",
        "The agent runs a call whatever its user has answered.",
        "agent/pinnace_agent/approval/gate.py",
        "                if answer not in (ALLOW_ONCE, ALLOW_FOR_SESSION):\n                    return answer\n",
        "",
    ),
    _fault(
        "a-form-is-always-declined",
        "What the user has entered into a form is not the answer.",
        _DIALOGS,
        "                self._post(record, **given)\n",
        "                self._decline(record)\n",
    ),
    _fault(
        "a-question-outlives-its-work",
        "A question that is over is not taken back.",
        _DIALOGS,
        "            self._outbox.withdraw(request)\n",
        "            pass\n",
    ),
    _fault(
        "an-adapter-outlives-its-stdin",
        "The end of stdin is not noticed.",
        "rpc/pinnace_rpc/acp/serve.py",
        "            router.take_line(line)\n        self._ending.set()\n",
        "            router.take_line(line)\n",
    ),
)
