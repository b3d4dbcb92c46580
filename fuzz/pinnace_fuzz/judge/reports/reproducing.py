"""Writes for each finding a folder that stands alone: a script that reproduces it, and a draft of a report.

The script needs `sh` and the agent, and Python where a model is scripted; nothing of the judge. It makes the home that
the adapter has made, writes what the client has written, and prints what came and what the rule asks. A script can't
read records: where a scenario waits for one, it waits until nothing more comes. What can't be shown so (kills, files
that change meanwhile, values of earlier records, clients that stop reading) is named in the script's place.
"""

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from pinnace_fuzz.harness.model_server.openai_wire import OpenAiChat
from pinnace_fuzz.harness.model_server.short_form import read_response
from pinnace_fuzz.judge.adapter import Adapter, AdapterError, LaunchOptions
from pinnace_fuzz.judge.html.reading import AgentReport, word, words
from pinnace_fuzz.judge.reports import standalone_model
from pinnace_fuzz.judge.reports.found import ORIGINS, Found, findings
from pinnace_fuzz.judge.reports.markdown import block, code
from pinnace_fuzz.judge.scenarios import scenario as steps
from pinnace_fuzz.judge.scenarios.fields import FieldError
from pinnace_fuzz.judge.scenarios.holes import Holes
from pinnace_fuzz.judge.scenarios.reading import read_scenario
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_fuzz.records import encode_records
from pinnace_fuzz.script import Disconnect, Gate, Generated, HttpError, Refusal, Response, Sleep, SocketBytes, Text
from pinnace_fuzz.script import Hang as HangPiece
from pinnace_spec.printable import printable

_ROOT: Final = "@ROOT@"
MODEL: Final = "@MODEL@"
"""Stands for the address of the model's server."""
_AGENT: Final = "@AGENT@"
_KEPT: Final = re.compile(r"@KEPT-([\w.\-]+)@")
_GATE: Final = re.compile(r"\$\{gate:([\w.\-]+)\}")
_NO_MODEL: Final = "http://127.0.0.1:9"
# Nothing here lasts longer than the waits of the judge, which gives 30 s to a start and 10 s to an answer. PAUSE is how
# long an agent must be silent, in seconds: more where the machine is slow.
_QUIET: Final = (
    'quiet() { i=0; a=; until b=$(wc -c < "$t/out"); [ -e "$t/end" ] || [ $i -gt 30 ] || '
    '{ [ "$b" -gt 0 ] && [ "$b" = "$a" ]; }; '
    'do a=$b; i=$((i+1)); sleep "${PAUSE:-0.7}"; done; }; '
    'at() { i=0; until [ -e "$t/at-$1" ] || [ -e "$t/end" ] || [ $i -gt 200 ]; do i=$((i+1)); sleep 0.1; done; }'
)


class CanNotStandAlone(Exception):
    """A finding can't be reproduced by a script; the text says why."""


class Play(NamedTuple):
    """What a script does again."""

    options: LaunchOptions
    answers: Sequence[Mapping[str, Any]]
    """Of the scripted model."""
    inputs: Callable[[Holes], Sequence[str]]
    """Returns what the client does, for each start of the agent: commands of the shell, of one line."""
    folders: Sequence[str] = ()
    """The names of further folders, beside the working folder."""


Reader: TypeAlias = Callable[[Mapping[str, Any]], Play]
"""Reads a scenario as a report has it. Raises `CanNotStandAlone`, `FieldError`, `KeyError`."""


class Script(NamedTuple):
    """What reproduces a finding."""

    lines: Sequence[str]
    has_model: bool
    """A scripted model is needed."""
    files: Mapping[str, str]
    """Of the agent's home, by their paths; of the model, its answers."""


def play_of(adapter: Adapter, scenario: Mapping[str, Any]) -> Play:
    """Read a scenario of the RPC protocol, as an adapter has it played."""
    found = adapter.as_played(read_scenario(scenario))
    options = LaunchOptions(found.session, found.settings, found.files, found.model, found.arguments, found.env)

    def starts(holes: Holes) -> Sequence[str]:
        return ["; ".join(_inputs(found, holes))]

    return Play(options, [each.answer for each in found.llm], starts)


def write_reproductions(
    report: AgentReport, adapter: Adapter, folder: Path, read: Reader | None = None, helpers: str = ""
) -> list[Path]:
    """Write a folder for each finding that counts; return the folders.

    Args:
        report: The report of a run.
        adapter: What has laid out the homes of the run.
        folder: Where they are written; a folder of the same finding is replaced.
        read: Reads the scenarios of the report; None: those of the RPC protocol.
        helpers: Functions of the shell that their inputs need, in one line.
    """
    made: list[Path] = []
    for found in findings(report):
        if found.tier == "ours":
            continue
        try:
            script = _script(found, report, adapter, read or partial(play_of, adapter), helpers)
        except CanNotStandAlone as error:
            script = Script(_refusal(found, str(error)), False, {})
        slug = re.sub(r"[^\w.\-]+", "-", found.identity.place)
        target = folder / f"{slug}-{found.identity.digest[:8]}"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        # A command may be named by bytes that are no UTF-8.
        (target / "reproduce.sh").write_text("\n".join(script.lines) + "\n", encoding="utf-8", errors="replace")
        if script.has_model:
            shutil.copyfile(str(standalone_model.__file__), target / "model.py")
        for name, text in script.files.items():
            (target / "home" / name).parent.mkdir(parents=True, exist_ok=True)
            (target / "home" / name).write_text(text, encoding="utf-8")
        (target / "report.md").write_text(_draft(found, report, script), encoding="utf-8", errors="replace")
        made.append(target)
    return made


def _sentence(found: Found) -> str:
    """Return the rule with its sentence and its source."""
    if found.cited is None:
        return f"{found.rule}: an invariant of the specification"
    origin = ORIGINS.get(found.cited.origin, found.cited.origin)
    return printable(f"{found.rule} ({found.cited.level}): {found.cited.text} Source: {origin}.")


def _refusal(found: Found, why: str) -> list[str]:
    again = [line for line in found.case.reproduction.splitlines() if line.startswith("pinnace-conform")]
    return [
        "#!/bin/sh",
        f"# {_sentence(found)}",
        f"# {printable(found.case.id)} can't be reproduced by sh and the agent alone: it {printable(why)}.",
        f"echo {quoted('with the judge: ' + printable(' '.join(again)))} >&2",
        "exit 3",
    ]


def quoted(text: str) -> str:
    """Return a word of the shell; the places of the home and of the model are filled when it runs."""
    word_ = "'" + text.replace("'", "'\\''") + "'"
    word_ = _KEPT.sub('\'"$(cat "$t/kept-\\1")"\'', word_)
    return word_.replace(_ROOT, "'\"$t\"'").replace(MODEL, "'\"$u\"'")


def kept(name: str) -> str:
    """Return what stands for a value that the script has kept in a file `kept-NAME`."""
    if not re.fullmatch(r"[\w.\-]+", name):
        raise CanNotStandAlone(f"keeps a value as {name!r}")
    return f"@KEPT-{name}@"


def _script(found: Found, report: AgentReport, adapter: Adapter, read: Reader, helpers: str) -> Script:
    try:
        play = read(found.case.scenario)
    except (FieldError, KeyError) as error:
        raise CanNotStandAlone(f"has no scenario in the report ({error})") from None
    with tempfile.TemporaryDirectory(prefix="conform-") as name:
        root = Path(name).resolve()
        try:
            prepared = adapter.prepare((_AGENT,), root, _NO_MODEL, play.options)
        except AdapterError:
            raise CanNotStandAlone(f"is of the adapter {adapter.name}, which shares a host") from None
        agent, *rest = prepared.command[prepared.command.index(_AGENT) if adapter.is_one_prompt else 0 :]
        if agent != _AGENT:
            raise CanNotStandAlone(f"is of the adapter {adapter.name}, which starts another program")

        def placed(text: str) -> str:
            return text.replace(str(root), _ROOT).replace(_NO_MODEL, MODEL)

        places = {**prepared.folders, **{each: prepared.folders["work"].with_name(each) for each in play.folders}}
        holes = Holes({name: Path(placed(str(path))) for name, path in places.items()}, "")
        starts = play.inputs(holes)
        answers = [_answer(holes, each, number) for number, each in enumerate(play.answers)]
        files = {
            str(path.relative_to(root)): placed(path.read_text(encoding="utf-8"))
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
        if answers:
            files["answers.json"] = json.dumps(answers, indent=1)
        folders = sorted({placed(str(path)) for path in places.values()})
        work = placed(str(prepared.folders["work"]))
        arguments = [placed(each) for each in rest]
        env = {key: placed(value) for key, value in prepared.env.items() if key != "PATH"}
    command = " ".join(quoted(each) for each in words(report.agent, "command"))
    variables = " ".join(f"{key}={quoted(value)}" for key, value in sorted(env.items()))
    go = f'go() {{ rm -f "$t/end"; env -i PATH="$PATH" {variables} "$@" {" ".join(map(quoted, arguments))}'
    begin = f'cd {quoted(work)} && {go} >> "$t/out" 2>> "$t/err"; echo $? > "$t/end"; }}'
    lines = [
        "#!/bin/sh",
        f"# {_sentence(found)}",
        f"# {printable(found.case.id)}. Usage: sh reproduce.sh [AGENT [ARGUMENT…]]",
        f'd=$(cd "$(dirname "$0")" && pwd); t=$(mktemp -d); [ $# -gt 0 ] || set -- {command}; u={_NO_MODEL}; m=',
        f"mkdir -p {' '.join(map(quoted, folders))}; {_COPY}; {_QUIET}{helpers and f'; {helpers}'}",
        *([_MODEL_LINE] if answers else []),
        _FILL_LINE,
        "; ".join([begin, *(_started(each, adapter) for each in starts)]),
        'cut -c1-400 "$t/out"; tail -n 5 "$t/err"; echo "exit code: $(cat "$t/end")"; '
        f"echo {quoted('the judge found: ' + _shown(found))}; echo {quoted('the rule asks: ' + _sentence(found))}",
        'cd /; [ -z "$m" ] || kill "$m"; rm -rf "$t"',
    ]
    return Script(lines, bool(answers), files)


def _started(inputs: str, adapter: Adapter) -> str:
    """Return the shell's words for one start of the agent."""
    if adapter.is_one_prompt:
        return f'{{ {inputs or ":"}; }} & i=$!; go "$@" < /dev/null; wait $i'
    return f'{{ {inputs}; quiet; }} | go "$@"'


_COPY: Final = '[ ! -d "$d/home" ] || cp -R "$d/home/." "$t"; : > "$t/out"'
_MODEL_LINE: Final = (
    'python3 "$d/model.py" "$t" & m=$!; until [ -s "$t/port" ]; do sleep 0.1; done; u=http://127.0.0.1:$(cat "$t/port")'
)
_FILL_LINE: Final = (
    f'grep -rlE \'@(ROOT|MODEL)@\' "$t" | while read -r f; do sed "s|{_ROOT}|$t|g;s|{MODEL}|$u|g" "$f" '
    '> "$t/filled"; cat "$t/filled" > "$f"; done'
)


def _shown(found: Found) -> str:
    return printable(f"{found.finding.source}: {found.finding.text}"[:400])


def _inputs(scenario: Scenario, holes: Holes) -> Iterator[str]:
    """Yield the commands of the shell that do what the client does."""
    for step in scenario.client:
        yield from _input(step, holes)
    if scenario.state:
        yield from _STATE


def _input(step: steps.Step, holes: Holes) -> Iterable[str]:
    match step:
        case steps.Send(records):
            return written(encode_records([filled(holes, each) for each in records]))
        case steps.Ask(record, _, _):
            return [*written(encode_records([filled(holes, {"id": "ask", **record})])), "quiet"]
        case steps.Bytes(data, _):
            return written(data)
        case steps.Open(gates):
            return [f': > "$t/open-{gate}"' for gate in gates]
        case steps.Reached(gate):
            return [f"at {quoted(gate)}"]
        case steps.Wait() | steps.Try() | steps.Answered() | steps.Requests():
            return ["quiet"]
        case steps.Quiet() | steps.State():
            return _STATE
        case steps.Close("stdin"):
            return ["quiet"]  # it is the end of what the shell writes
        case steps.Mark() | steps.Exit():
            return []
        case _:
            raise CanNotStandAlone(_WHY.get(type(step).__name__, f"has a step {type(step).__name__}"))


# The judge asks for the state where the agent should be idle, and judges the answer too.
_STATE: Final = ("quiet", 'printf \'%s\\n\' \'{"id":"state","type":"get_state"}\'', "quiet")
_WHY: Final[Mapping[str, str]] = {
    "Signal": "sends a signal",
    "Restart": "kills the agent and starts it again",
    "Close": "closes the agent's output",
    "Reading": "stops reading",
    "Gone": "depends on when the agent leaves the model",
    "Files": "looks into files of the agent",
    "Write": "changes files while the agent works",
    "Remove": "changes files while the agent works",
    "Move": "changes files while the agent works",
    "Lock": "holds a lock of a file",
    "Children": "counts the processes of the agent",
}


def filled(holes: Holes, record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Fill the holes: a gate of the shell waits for a file, as one of the model does."""
    gated = _GATE.sub(
        lambda found: f"touch {_ROOT}/at-{found[1]}; until [ -e {_ROOT}/open-{found[1]} ]; do sleep 0.1; done",
        json.dumps(record),
    )
    try:
        found: Mapping[str, Any] = holes.filled(json.loads(gated))
    except (KeyError, FieldError, ValueError):
        raise CanNotStandAlone("sends a value of an earlier record") from None
    return found


def written(data: bytes) -> list[str]:
    """Return the command that writes bytes: records as words, all else as octal escapes."""
    if len(data) > 100_000:
        raise CanNotStandAlone(f"writes {len(data)} bytes at once")
    text = data.decode("utf-8", "replace")
    if text.encode() == data and text.endswith("\n") and all(each.isprintable() for each in text.split("\n")):
        return [f"printf '%s\\n' {' '.join(map(quoted, text[:-1].split(chr(10))))}"]
    escaped = "".join(chr(byte) if 32 < byte < 127 and byte not in b"%\\'" else f"\\{byte:03o}" for byte in data)
    return [f"printf '{escaped}'"]


def _answer(holes: Holes, source: Mapping[str, Any], number: int) -> dict[str, Any]:
    """Write one answer of the scripted model as chat completions have it."""
    response = read_response(filled(holes, source), number)
    if response.refuse or response.gzip or response.cut_bytes:
        raise CanNotStandAlone("needs a model that cuts or compresses its answers")
    before: list[dict[str, Any]] = [{"gate": response.hold}] if response.hold else []
    before += [{"sleep_ms": response.delay_ms}] if response.delay_ms else []
    wire = OpenAiChat("m1")
    answer: dict[str, Any] = {
        "match": response.match.pattern if response.match else "",
        "repeat": response.repeat,
        "before": before,
        "status": 200,
        "headers": {"Content-Type": "text/event-stream", **(response.headers or {})},
    }
    if isinstance(response.error, HttpError):
        body = response.error.body
        refusal = wire.refusal(response.error.status, body) if isinstance(body, Refusal) else body
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else json.dumps(refusal)
        headers = {"Content-Type": "application/json", **response.error.headers}
        return {**answer, "status": response.error.status, "headers": headers, "pieces": [text]}
    return {**answer, "pieces": list(_pieces(response, wire))}


def _pieces(response: Response, wire: OpenAiChat) -> Iterator[Any]:
    yield wire.head().decode()
    for piece in response.pieces:
        if response.chunk_delay_ms:
            yield {"sleep_ms": response.chunk_delay_ms}
        match piece:
            case Gate(name):
                yield {"gate": name}
            case Sleep(delay_ms):
                yield {"sleep_ms": delay_ms}
            case Disconnect():
                yield "disconnect"
                return
            case HangPiece():
                yield {"gate": "never"}
            case Generated(deltas, size, "text") if deltas * size <= 100_000:
                yield from (wire.piece(Text("x" * size)).decode() for _ in range(deltas))
            case Generated() | SocketBytes():
                raise CanNotStandAlone("needs a model that writes more than an answer")
            case _:
                yield wire.piece(piece).decode("utf-8", "replace")
    if response.done:
        yield wire.tail().decode()


def _draft(found: Found, report: AgentReport, script: Script) -> str:
    """Write a draft of a report to the agent's project."""
    case = found.case
    again = (
        f"It came again in {case.reproduced[0]} of {case.reproduced[1]} further processes."
        if case.reproduced[1]
        else ""
    )
    lines = [
        f"# {printable(case.title)}",
        "",
        f"{code(f'{report.name} {report.version}'.strip())}, found by {code(word(report.kit, 'version'))}"
        f" (generation {word(report.agent, 'generation')} of the protocol, {code(case.id)}). {again}".rstrip(),
        "",
        "## What happened",
        "",
        f"{code(_shown(found))}",
        "",
        block(printable_block(case), "text"),
        "",
        "## What the protocol asks",
        "",
        _sentence(found),
        "",
        "## Steps to reproduce",
        "",
        "Save as `reproduce.sh`"
        + (", with the other files of this folder beside it" if script.has_model or script.files else "")
        + ", and run `sh reproduce.sh AGENT`.",
        "",
        block("\n".join(script.lines), "sh"),
        "",
    ]
    return "\n".join(lines)


def printable_block(case: Any, most: int = 40) -> str:
    """Return the lines of the case's last process: `>` what the client sent, `<` what the agent wrote."""
    if not case.processes:
        return "(no process)"
    process = case.processes[-1]
    lines = [f"{'>' if line.is_in else '<'} {printable(line.text)[:300]}" for line in process.lines]
    cut = [*lines[: most // 2], f"… {len(lines) - most} lines", *lines[-most // 2 :]] if len(lines) > most else lines
    return "\n".join([*cut, f"= {process.how} {process.code if process.code is not None else ''}".rstrip()])
