"""Makes a page for each command: its request, its response, its errors, what it does in each state, one recording.

Also the list of all commands by what they are for, which the first page has too. Must not decide anything: fields are
the schema's, errors those of `command_errors`, states the chart's rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final

from pinnace_spec.generate.examples import Example, command_example
from pinnace_spec.generate.site.markdown import Page
from pinnace_spec.generate.site.records import definitions, fields_table, prose
from pinnace_spec.generate.source import Spec
from pinnace_spec.records.command_errors import COMMON, MEANINGS, OF_COMMANDS
from pinnace_spec.records.command_table import CLIENT_ANSWERS
from pinnace_spec.records.commands import MODELS
from pinnace_spec.statechart.transitions import Transition

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    group: tuple(name for name, model in MODELS.items() if model.group == group)
    for group in dict.fromkeys(model.group for model in MODELS.values())
}
"""Every command once, by what it is for."""

GUARDS: Final[Mapping[str, str]] = {
    "": "",
    "barrier": "a session is being replaced, or a command before it waits",
    "unread": "an extension reads texts first",
    "unsaved": "it is to be queued",
    "queue_full": "as many messages wait as may",
}

EFFECTS: Final[Mapping[str, str]] = {
    "defer_command": "the command waits until that is over",
    "cut_start": "extensions that hold up the start are cancelled",
    "start_saving": "the text is saved; then it is queued, and the command is answered with `queued`",
    "start_reading": "the text goes to the extensions, then as here",
    "take_prompt": "the prompt is taken",
    "begin_streaming": "the agent is streaming from now on",
    "start_preflight": "model, key and session are checked",
    "enqueue": "the text is queued",
    "resume_queue": "a paused queue goes on",
    "queue_update": "`queue_update` is written",
    "accept_queued": "the response has the disposition `queued`",
    "accept_started": "the response has the disposition `started`",
    "refuse_full": "rejected: `queue_full`",
    "refuse_compacting": "rejected: `compacting`",
    "refuse_busy": "rejected: `busy`",
    "withdraw_queues": "the queues are emptied",
    "accept_cleared": "the response has the messages",
    "withdraw_waiting": "waiting commands are rejected: `aborted`",
    "withdraw_confirmation": "the question to extensions is withdrawn",
    "default_dialogs": "open dialogs are declined",
    "admit_abort": "the queue is kept, cleared or continued, as `queue` says",
    "end_job": "the work has ended",
    "flush_shells": "outputs of shells are added to the session",
    "settle": "`agent_settled` is written",
    "answer_aborts": "the response is written",
    "cancel_timer": "the delay ends",
    "retry_cancelled": "`auto_retry_end` is written",
    "cancel_job": "the work is cancelled; the response comes when it has ended",
    "skip_settle_hook": "extensions are not asked whether to continue",
    "accept": "the response is written",
    "perform": "the change is made, and the response is written",
    "set_mode": "the mode is set",
    "set_flag": "the setting is set",
    "answer": "the response has the data",
    "take_compact": "the compaction is accepted",
    "compaction_manual": "`compaction_start` is written, the model is asked for a summary",
    "pend_compact": "the compaction starts when the work has ended",
    "note_cancel": "the run counts as cancelled",
    "refuse_compaction_in_progress": "rejected: `compaction_in_progress`",
    "take_navigation": "the command is accepted",
    "start_navigation": "extensions are asked, and the model for a summary if one is wanted; then the session moves",
    "take_reload": "the command is accepted",
    "start_reload": "the user's files are read, and the extensions are replaced; commands wait",
    "refuse_reload_busy": "rejected: `busy`",
    "refuse_reload_compacting": "rejected: `compacting`",
    "refuse_navigation_busy": "rejected: `busy`",
    "refuse_navigation_compacting": "rejected: `compacting`",
    "start_confirmation": "extensions are asked; then work in progress is aborted, and the session is replaced",
    "start_shell": "the shell starts; the response comes when it has ended",
    "withdraw_bash": "waiting ones are rejected",
    "kill_shells": "the shells are ended; each answers for itself",
    "resolve_request": "the tool call that sent the request with this `id` gets its answer; there is no response",
    "resolve_dialog": "the dialog with this `id` gets its answer; there is no response",
}
"""The effects of commands, as a client sees them."""


def command_pages(spec: Spec) -> dict[str, Page]:
    """Make a page for each command, and one that lists them."""
    pages = {f"commands/{name}.html": _page(name, spec) for name in MODELS}
    lines = ["<h1>Commands</h1>", *command_lists("")]
    return {"commands/index.html": Page("Commands", "\n".join(lines), []), **pages}


def command_lists(root: str) -> Iterable[str]:
    """List all commands by what they are for; `root` leads from the page to the folder of their pages."""
    for title, names in GROUPS.items():
        yield f"<h3>{escape(title)}</h3>"
        rows = "".join(
            f'<tr><td><a href="{root}{name}.html"><code>{name}</code></a></td><td>{prose(_about(name))}</td></tr>'
            for name in names
        )
        yield f'<div class="wide"><table class="list">{rows}</table></div>'


def definition_of(name: str, suffix: str) -> str:
    """Return the name of a command's definition in the schema, `Command` or `Response`."""
    return f"{''.join(part.capitalize() for part in name.split('_'))}{suffix}"


def _about(name: str) -> str:
    found: Mapping[str, Any] = definitions().get(definition_of(name, "Command"), {})
    return str(found.get("description", ""))


def _page(name: str, spec: Spec) -> Page:
    known = definitions()
    request = definition_of(name, "Command")
    lines = [f"<h1><code>{name}</code></h1>", f"<p>{prose(_about(name))}</p>"]
    if rules := known.get(request, {}).get("x-rules"):
        links = (f'<a href="../rules.html#{rule.lower()}">{rule}</a>' for rule in rules)
        lines.append(f'<p class="soft">Rules: {", ".join(links)}</p>')
    lines += ['<h2 id="request">Request</h2>', fields_table(known.get(request, {}), "../records/")]
    lines += ['<h2 id="response">Response</h2>', *_response(name, known)]
    lines += ['<h2 id="errors">Errors</h2>', *_errors(name)]
    lines += ['<h2 id="states">In each state</h2>', *_states(name, spec.rows)]
    lines += ['<h2 id="example">Example</h2>', *_example(name)]
    titles = {"request": "Request", "response": "Response", "errors": "Errors", "states": "In each state"}
    contents = [(anchor, title, ()) for anchor, title in {**titles, "example": "Example"}.items()]
    return Page(name, "\n".join(lines), contents)


def _response(name: str, known: Mapping[str, Any]) -> Iterable[str]:
    response = definition_of(name, "Response")
    if response not in known:
        yield "<p>None: it answers a question of the agent's.</p>"
        return
    yield fields_table(known[response], "../records/")
    data = known[response].get("properties", {}).get("data", {})
    reference = str(data.get("$ref", "")).rpartition("/")[2]
    if reference in known and known[reference].get("properties"):
        yield f'<h3>data: <a href="../records/{reference}.html">{reference}</a></h3>'
        yield fields_table(known[reference], "../records/")


def _errors(name: str) -> Iterable[str]:
    if name in CLIENT_ANSWERS:
        yield "<p>None: a malformed answer, or one that nothing waits for, is ignored.</p>"
        return
    yield (
        "<p>A response with <code>success: false</code>, <code>error</code> and <code>errorCode</code> "
        '(<a href="../records/Failure.html">Failure</a>). Nothing has changed then.</p>'
    )
    rows = "".join(
        f"<tr><td><code>{code.value}</code></td><td>{prose(MEANINGS[code])}</td></tr>"
        for code in (*OF_COMMANDS[name], *COMMON)
    )
    yield f'<div class="wide"><table><tr><th>errorCode</th><th>when</th></tr>{rows}</table></div>'


def _states(name: str, rows: Sequence[Transition]) -> Iterable[str]:
    own = [row for row in rows if row.trigger == name]
    if not own:
        yield f"<p>As the command that it is another name of: {_same_as(name)}.</p>"
        return
    # States in which the same happens stand together.
    behaviours: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for source in dict.fromkeys(f"{row.region}/{row.source}" for row in own):
        steps = tuple(_step(row) for row in own if f"{row.region}/{row.source}" == source)
        behaviours.setdefault((source.partition("/")[0], steps), []).append(source.partition("/")[2])
    head = "<tr><th>region</th><th>states</th><th>what happens</th></tr>"
    body = "".join(
        f"<tr><td>{escape(region.upper())}</td><td>{', '.join(_state(region, each) for each in states)}</td>"
        f"<td>{'<br>'.join(steps)}</td></tr>"
        for (region, steps), states in behaviours.items()
    )
    yield '<p>The first that applies. States are those of the <a href="../chart.html">statechart</a>.</p>'
    yield f'<div class="wide"><table>{head}{body}</table></div>'


def _same_as(name: str) -> str:
    same = {"reset": ("new_session",), "queue_message": ("steer", "follow_up")}.get(name, ())
    return " or ".join(f'<a href="{each}.html"><code>{each}</code></a>' for each in same)


def _state(region: str, state: str) -> str:
    return f'<a href="../chart.html#{region}-{state.replace(".", "-")}">{escape(state)}</a>'


def _step(row: Transition) -> str:
    words = "; ".join(prose(EFFECTS.get(effect, f"`{effect}`")) for effect in row.effects)
    when = f"<em>If {prose(GUARDS[row.guard])}:</em> " if row.guard else ""
    target = f" → <strong>{escape(row.target)}</strong>" if row.target and row.target != row.source else ""
    return f"{when}{words}{target}"


def _example(name: str) -> Iterable[str]:
    example = command_example(name)
    if example is None:
        yield "<p>None in this edition.</p>"
        return
    yield "<p>Recorded from this program. <code>→</code> goes in, <code>←</code> comes out.</p>"
    yield transcript(example)


def transcript(example: Example) -> str:
    """Write a recording for a page."""
    lines = (f"{'→' if step.is_in else '←'} {escape(step.text, quote=False)}" for step in example.steps)
    return "".join(f'<pre class="recorded"><code>{line}</code></pre>' for line in lines)
