"""Makes the first page of the site: what the author of a client needs, in this order.

The words are here; commands, records, error codes and the recording are read from their sources.
"""

from collections.abc import Iterable
from html import escape
from typing import Any, Final

from pinnace_spec.generate.examples import command_example
from pinnace_spec.generate.site.commands import command_lists, transcript
from pinnace_spec.generate.site.markdown import Page, rendered
from pinnace_spec.generate.site.records import definitions, prose
from pinnace_spec.records.command_errors import MEANINGS

_BEGIN: Final = """\
# Writing a client

A client starts the agent as a child process, writes **commands** to its stdin and reads **records** from its stdout.
Both are JSON objects, one per line.

```sh
pinnace --mode rpc                      # answers as soon as it has started; no greeting
pinnace --mode rpc --provider offline   # a model that needs no key and no network, for tests
```

## The first conversation

RECORDING

## Rules of thumb

- **Lines** end only with LF, in both directions; they are UTF-8, and U+2028 does not end a line. Read stdout
  continuously: an agent whose client does not read waits ([R-FRM-01](rules.html#r-frm-01)).
- **Give every command an `id`**; its response has the same. Other records may come between a command and its response
  ([R-RSP-01](rules.html#r-rsp-01)).
- **`success: true` of a `prompt` means accepted**, not finished. The work is over at `agent_settled`; after `agent_end`
  a retry, a compaction or a queued message may follow ([R-RUN-07](rules.html#r-run-07)).
- **While the agent works** a prompt needs `streamingBehavior`, or use `steer` and `follow_up`
  ([R-PRM-04](rules.html#r-prm-04)).
- **Answer dialogs** (`extension_ui_request` with method `select`, `confirm`, `input` or `editor`) with
  [extension_ui_response](commands/extension_ui_response.html), even if only to decline.
- **Ignore records and fields that you do not know**: newer agents write more.
- **To stop**: [abort](commands/abort.html) ends a run. Closing stdin ends the process: it aborts its work, answers
  everything, saves the session and exits with 0 ([R-EOF-01](rules.html#r-eof-01)).
- **Select a profile** with [hello](commands/hello.html) as the first command, if your client is written for one
  generation of the protocol: `seed`, `1.5`, or `pi` for all of them ([R-PRO-01](rules.html#r-pro-01)).

Available: types for TypeScript in [protocol.ts](typescript/protocol.ts), [JSON Schema](schema/pi.json),
[AsyncAPI](asyncapi.yaml), every name in [meta.json](meta.json). For Python the package has clients for trio, asyncio
and threads.
"""
_CONTENTS: Final = (
    ("the-first-conversation", "The first conversation"),
    ("rules-of-thumb", "Rules of thumb"),
    ("commands", "Commands"),
    ("events", "Events"),
    ("errors", "Errors"),
    ("more", "More"),
)


def start_page() -> Page:
    """Return the first page."""
    begin = rendered(_BEGIN, lambda href, _: href)
    example = command_example("prompt")
    shown = "" if example is None else transcript(example)
    lines = [
        begin.body.replace("<p>RECORDING</p>", shown),
        '<h2 id="commands">Commands</h2>',
        "<p>Each page has the request, the response, the errors, what happens in each state, and a recording.</p>",
        *command_lists("commands/"),
        '<h2 id="events">Events</h2>',
        "<p>Records that the agent writes without a command.</p>",
        *_events(),
        '<h2 id="errors">Errors</h2>',
        "<p>Every command may be rejected with a text for people, <code>error</code>, and a code for programs.</p>",
        *_errors(),
        '<h2 id="more">More</h2>',
        '<p>What an agent promises, sentence by sentence: <a href="rules.html">the rules</a>. What happens when: '
        '<a href="chart.html">the statechart</a>, <a href="matrix.html">every command in every state</a>. What is '
        'proved of it: <a href="models.html">the models</a>.</p>',
    ]
    return Page(begin.title, "\n".join(lines), [(anchor, title, ()) for anchor, title in _CONTENTS])


def _events() -> Iterable[str]:
    found: dict[str, Any] = {
        name: each
        for name, each in definitions().items()
        if each.get("x-direction") == "out" and not name.endswith("Response") and name != "Failure"
    }
    rows = "".join(
        f'<tr><td><a href="records/{name}.html"><code>{escape(_type_of(each) or name)}</code></a></td>'
        f"<td>{prose(each.get('description', ''))}</td></tr>"
        for name, each in found.items()
    )
    yield f'<div class="wide"><table class="list">{rows}</table></div>'


def _type_of(definition: dict[str, Any]) -> str:
    return str(definition.get("properties", {}).get("type", {}).get("const", ""))


def _errors() -> Iterable[str]:
    rows = "".join(
        f"<tr><td><code>{code.value}</code></td><td>{prose(meaning)}</td></tr>" for code, meaning in MEANINGS.items()
    )
    yield f'<div class="wide"><table class="list">{rows}</table></div>'
