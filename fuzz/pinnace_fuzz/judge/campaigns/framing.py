"""Bytes: invalid and unusual lines, and divisions of the input. After each the agent must still answer.

First a fixed list from the grammar of a record, then random mixtures of it.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING, Any

from pinnace_fuzz.judge.campaigns.cases import case
from pinnace_fuzz.judge.confirming import CONFIRMATIONS
from pinnace_fuzz.judge.playing.recording import is_of_kit
from pinnace_fuzz.judge.results import CaseResult
from pinnace_fuzz.judge.running import run_once
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_spec.observers import Step, Verdict
from pinnace_spec.observers.comparisons import same_however_cut, same_with_cr

if TYPE_CHECKING:
    from pinnace_fuzz.judge.campaigns.campaign_run import CampaignRun
    from pinnace_fuzz.judge.playing.pool import Pool

Compare = Callable[..., list[Verdict]]

NAME = "framing"
_STATE = b'{"id":"s","type":"get_state"}'
_SCALARS = (b"null", b"true", b"42", b"-0.0", b"1e400", b"1e-400", b'"x"', b"[]", b"{}", b"[null]", b"[[]]", b'["a"]')
_BROKEN = (
    b"{", b"}", b"{]", b'{"type"', b'{"type":', b'{"type":"get_state"', b'{"type":"get_state",}',
    b"{'type':'get_state'}", b'{type:"get_state"}', b'{"type":"get_state"}{"type":"get_state"}',
    b'{"type":"get_state"} x', b"NaN", b"Infinity", b'{"id":NaN,"type":"get_state"}',
    b'{"id":"\\x","type":"get_state"}', b'{"id":"\x01","type":"get_state"}', b"// x",
    b'{"id":"a\tb","type":"get_state"}', b"get_state", b"\x00", b'{"type":"get_state"}\x00',
    b"\xef\xbb\xbf" + _STATE, b"\xff\xfe", b'{"type":"\xff\xfe"}', b'{"id":"\xff","type":"get_state"}',
    b'{"id":"\xc3\x28","type":"get_state"}', b'{"id":"\xed\xa0\x80","type":"get_state"}',
    b'{"id":"\xf4\x90\x80\x80","type":"get_state"}',
)  # fmt: skip
_BLANK = (b"", b" ", b"\t", b"\r", b"  \r", b"\x0b", b"\xc2\xa0", b"\xe2\x80\xa8")
_TEXTS = ("\u2028", "\u2029", "\u0085", "\ufeff", "😀", "\\ud800", "\x7f", "a" * 10_000, "", "\\u0000", "\\u2028")
_DEPTHS = (100, 600, 3000, 5000, 20_000)


def nasty() -> Iterator[bytes]:
    """Yield the lines that are known to break agents; they come first."""
    yield b"null"
    for depth in (5000, 20_000):
        yield b'{"type":"get_last_assistant_text","id":' + b"[" * depth + b"]" * depth + b"}"
    yield b'{"type":"\xff\xfe"}'
    yield from (b"42", b"[]", b'"x"', b"{}")
    yield b'{"id":"t","type":"get_last_assistant_text"}'


def lines() -> Iterator[bytes]:
    """Yield single lines, each invalid or unusual in one way, without their LF."""
    yield from nasty()
    yield from _SCALARS
    yield from _BROKEN
    yield from _BLANK
    for value in _SCALARS:
        yield b'{"id":"v","type":' + value + b"}"
        yield b'{"id":' + value + b',"type":"get_state"}'
        yield b'{"id":"v","type":"get_state","more":' + value + b"}"
    for text in _TEXTS:
        yield b'{"id":"' + text.encode() + b'","type":"get_state"}'
        yield b'{"id":"v","type":"' + text.encode() + b'"}'
        yield b'{"id":"v","type":"set_session_name","name":"' + text.encode() + b'"}'
    yield b'{"id":"a","id":"b","type":"get_state"}'
    yield b'{"id":"a","type":"abort","type":"get_state"}'
    yield b'{"type":"get_state","id":"\\u0061"}'
    yield b'  {"id":"a" , "type":"get_state"}  '
    for depth in _DEPTHS:
        nested = b"[" * depth + b"]" * depth
        objects = b'{"a":' * depth + b"1" + b"}" * depth
        yield nested
        yield b'{"type":"get_last_assistant_text","id":' + nested + b"}"
        yield b'{"id":"d","type":' + nested + b"}"
        yield b'{"id":"d","type":"get_state","more":' + objects + b"}"
        yield b'{"id":"d","type":"set_session_name","name":' + nested + b"}"
    for power in (16, 20):
        yield b'{"id":"big","type":"get_state","more":"' + b"x" * (1 << power) + b'"}'


def byte_cases() -> Iterator[Scenario]:
    """Yield the fixed list."""
    for line in lines():
        yield _case(line + b"\n")
    for line in (_STATE, b'{"id":"\xc3\xa4\xf0\x9f\x98\x80","type":"get_state"}'):
        yield _case(line + b"\r\n")
        yield _case(line + b"\r\r\n")
        yield _case(line + b"\n", cut="each")
        yield _case(line + b"\r\n" + line + b"\n", cut=[len(line), len(line) + 1])
    yield _case(b"\n" * 100 + _STATE + b"\n")
    yield _case((_STATE + b"\n") * 200)
    # The last line has no LF: only the end of stdin ends it.
    yield case(NAME, [{"bytes": _octets(_STATE)}, {"close": "stdin"}, {"exit": 0}])
    yield case(NAME, [{"bytes": _octets(b'{"id":"half","ty')}, {"close": "stdin"}, {"exit": 0}])


def _case(data: bytes, cut: Any = None) -> Scenario:
    step: dict[str, Any] = {"bytes": _octets(data)}
    if cut is not None:
        step["cut"] = cut
    return case(NAME, [step, {"send": {"id": "alive", "type": "get_state"}}, "answered"])


def _octets(data: bytes) -> str | Mapping[str, Any]:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return {"hex": data.hex()}
    return text


def _scripts() -> Iterator[list[Mapping[str, Any]]]:
    """Yield inputs of several records, whose answers do not depend on how they arrive."""
    yield [
        {"id": "a", "type": "get_last_assistant_text"},
        {"id": "ä😀\u2028", "type": "set_session_name", "name": "NAMED ä😀\u2028"},
        {"id": "b", "type": "nonsense"},
        {"id": "c", "type": "get_messages"},
    ]


def compare_cuts(run: "CampaignRun") -> None:
    """Play one input whole, byte by byte and with CR before each LF: the answers are the same (I-FRM-3, I-FRM-4)."""

    def differ(first: CaseResult, second: CaseResult, compare: Compare) -> list[Verdict]:
        return compare(_judged(first), _judged(second), is_ours=run.kit.is_ours)

    for records in _scripts():
        lines = [json.dumps(record, ensure_ascii=False).encode() for record in records]
        whole, with_cr = (b"".join(line + end for line in lines) for end in (b"\n", b"\r\n"))
        plain = _sent_as(run, whole)
        for other, cut, compare in ((whole, "each", same_however_cut), (with_cr, None, same_with_cr)):
            result = _sent_as(run, other, cut)
            verdicts = differ(plain, result, compare)
            again = 0
            while verdicts and again < CONFIRMATIONS:
                if not differ(_sent_as(run, whole), _sent_as(run, other, cut), compare):
                    break
                again += 1
            tried = min(again + 1, CONFIRMATIONS) if verdicts else 0
            run.report_comparison(result, verdicts, NAME, (again, tried))


def _sent_as(run: "CampaignRun", data: bytes, cut: Any = None) -> CaseResult:
    step: dict[str, Any] = {"bytes": _octets(data)}
    if cut is not None:
        step["cut"] = cut
    return run_once(case(NAME, [step, {"send": {"id": "alive", "type": "get_messages"}}, "answered"]), run.kit, NAME)


def _judged(result: CaseResult) -> list[Step]:
    # A state names the address of the model, which no two runs share.
    return [step for step in result.logs[0].steps if step.record is None or not is_of_kit(step.record)]


def framing(run: "CampaignRun", pool: "Pool", chance: Random, is_over: Callable[[], bool]) -> None:
    """Play the list, then mixtures."""
    compare_cuts(run)
    for each in byte_cases():
        if is_over():
            return
        run.try_case(pool, each, NAME)
    parts = [*lines()]
    small = [line for line in parts if len(line) < 2000]
    for _ in range(300):
        if is_over():
            return
        chosen = [chance.choice(small) for _ in range(chance.randint(2, 6))]
        data = b"\n".join([*chosen, _STATE]) + b"\n"
        cuts = sorted({chance.randrange(1, len(data)) for _ in range(chance.randint(0, 6))})
        run.try_case(pool, _case(data, cuts or None), NAME)
