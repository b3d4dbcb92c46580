"""Provider: a model that needs no network and no key, for trying out clients and for tests.

Plays the turns of a script, or answers from the prompt (`rehearsal`). Deterministic: the same requests in
the same order give the same answers. Independent of how scripts are written (`script`). Never selected by default.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from pinnace_agent.core.json_access import compact_body, compact_json
from pinnace_agent.core.surroundings import environment
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.context import ContextMessage, provider_messages
from pinnace_agent.llm.cost import RequestTokens, usage_of
from pinnace_agent.llm.failures import FailureTexts, RefusedResponse
from pinnace_agent.llm.offline.rehearsal import is_summary_request, prompt_of, rehearse
from pinnace_agent.llm.offline.script import FOR_EVER, Script, ScriptedAnswer, ScriptError, load_script
from pinnace_agent.llm.request import LlmRequest
from pinnace_agent.redaction.secrets import Secrets
from pinnace_spec.records.messages import Model

PROVIDER: Final = "offline"
REHEARSAL: Final = "rehearsal"
SCRIPT_VARIABLE: Final = "PINNACE_OFFLINE_SCRIPT"
DELAY_VARIABLE: Final = "PINNACE_OFFLINE_DELAY_MS"

OFFLINE_MODEL: Final[Model] = {
    "id": REHEARSAL,
    "name": "Offline rehearsal",
    "api": "offline",
    "provider": PROVIDER,
    "baseUrl": "",
    "reasoning": True,
    "input": ["text", "image"],
    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
    "contextWindow": 128_000,
    "maxTokens": 16_384,
}

# Slow enough to see an answer stream and to abort it, fast enough not to wait for it.
DELAY_MS: Final = 15.0
_CHARS_PER_TOKEN: Final = 4
_ARGUMENT_PIECE_CHARS: Final = 12


def offline_model(model_id: str) -> Model:
    """Return the model of an id: `rehearsal`, or the path of a script. The script is read at the first request."""
    if model_id == REHEARSAL:
        return OFFLINE_MODEL.copy()
    return {**OFFLINE_MODEL, "id": model_id, "name": f"Offline script {Path(model_id).name}"}


@dataclass(slots=True)
class _Playing:
    """A script and how often each of its turns may still be used."""

    script: Script
    stamp: tuple[int, int]
    left: list[int]


class OfflineProvider:
    """Speaks `offline`. Remembers, for the life of the process, which turns of each script were played."""

    def __init__(self) -> None:
        self._playing: dict[Path, _Playing] = {}
        self._failed: set[tuple[str, int]] = set()  # prompts that failed as requested, by session and time

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Play one turn. As `Provider.stream`."""
        messages = provider_messages(request.messages, request.model, str)
        try:
            turn, delay_ms = await self._next(request, messages)
        except ScriptError as error:
            builder.fail(str(error))
            return
        await _play(turn, delay_ms, request, builder)

    async def _next(self, request: LlmRequest, messages: Sequence[ContextMessage]) -> tuple[ScriptedAnswer, float]:
        """Return the turn to play and the delay of its deltas.

        Raises:
            ScriptError: There is a script, and it can't be played.
        """
        script_delay_ms = None
        path = _script_path(request.model)
        if path is not None:
            playing = await self._load(path)
            script_delay_ms = playing.script.delay_ms
            if (turn := _take(playing, prompt_of(messages))) is not None:
                return turn, _delay_ms(turn.delay_ms, script_delay_ms)
        prompt_time = next((each["timestamp"] for each in reversed(messages) if each["role"] == "user"), 0)
        prompt = (request.session_id, prompt_time)
        turn = rehearse(messages, [tool.name for tool in request.tools], has_failed=prompt in self._failed)
        if turn.error is not None:
            self._failed.add(prompt)
        return turn, _delay_ms(script_delay_ms)

    async def _load(self, path: Path) -> _Playing:
        """Return a script with the turns that were played; a changed script starts again."""
        playing = self._playing.get(path)
        stamp = await trio.to_thread.run_sync(_stamp, path)
        if playing is None or playing.stamp != stamp:
            script = await trio.to_thread.run_sync(load_script, path)
            playing = _Playing(script, stamp, [turn.repeat for turn in script.turns])
            self._playing[path] = playing
        return playing


async def _play(turn: ScriptedAnswer, delay_ms: float, request: LlmRequest, builder: MessageBuilder) -> None:
    """Stream a turn. Cancelling stops between two deltas."""
    await trio.sleep(turn.start_delay_ms / 1000)
    if turn.error is not None and turn.error.status is not None:
        body = compact_body({"error": {"message": turn.error.message}})
        builder.fail(FailureTexts(Secrets()).refused(RefusedResponse(turn.error.status, body)))
        return
    builder.start()

    async def pause() -> None:
        await builder.room()
        if delay_ms:
            await trio.sleep(delay_ms / 1000)

    if request.thinking_level != "off":
        for delta in turn.thinking:
            await pause()
            builder.thinking_delta("thinking", delta)
        builder.end_block("thinking")
    for delta in turn.text:
        await pause()
        builder.text_delta("text", delta)
    builder.end_block("text")
    for index, call in enumerate(turn.tools, _calls_so_far(request) + 1):
        await pause()
        builder.toolcall_start(index, call.call_id or f"call_{index}", call.name)
        for delta in _argument_pieces(call.arguments):
            await pause()
            builder.toolcall_delta(index, delta)
        builder.end_block(index)
    await builder.room()
    builder.usage = usage_of(request.model, turn.usage or _estimate(request, turn))
    if turn.is_hanging:
        await trio.sleep_forever()
    if turn.error is not None:
        builder.fail(turn.error.message)
    else:
        builder.finish(turn.stop or ("toolUse" if turn.tools else "stop"))


def _take(playing: _Playing, prompt: str) -> ScriptedAnswer | None:
    """Use up the first turn that is left and fits the prompt."""
    is_summary = is_summary_request(prompt)
    for index, turn in enumerate(playing.script.turns):
        if playing.left[index] == 0 or (turn.match is None and is_summary):
            continue
        if turn.match is None or turn.match.search(prompt):
            if playing.left[index] != FOR_EVER:
                playing.left[index] -= 1
            return turn
    return None


def _script_path(model: Model) -> Path | None:
    """Return the path of the script, or None if there is none.

    Raises:
        ScriptError: It begins with the home of a user that does not exist.
    """
    name = environment().get(SCRIPT_VARIABLE) if model["id"] == REHEARSAL else model["id"]
    try:
        return Path(name).expanduser() if name else None
    except RuntimeError as error:
        raise ScriptError(f"Offline script {name}: cannot be found: {error}") from None


def _stamp(path: Path) -> tuple[int, int]:
    try:
        status = path.stat()
    except (OSError, ValueError):
        return (0, 0)  # loading it reports the error
    return (status.st_mtime_ns, status.st_size)


def _delay_ms(*choices: float | None) -> float:
    """Return the first delay that is given; the variable overrides the default."""
    for choice in choices:
        if choice is not None:
            return choice
    try:
        return max(0.0, float(environment().get(DELAY_VARIABLE, "")))
    except ValueError:
        return DELAY_MS


def _argument_pieces(arguments: dict[str, object]) -> Iterable[str]:
    text = compact_json(arguments)
    for start in range(0, len(text), _ARGUMENT_PIECE_CHARS):
        yield text[start : start + _ARGUMENT_PIECE_CHARS]


def _calls_so_far(request: LlmRequest) -> int:
    return sum(
        block["type"] == "toolCall"
        for message in request.messages
        if message["role"] == "assistant"
        for block in message["content"]
    )


def _estimate(request: LlmRequest, turn: ScriptedAnswer) -> RequestTokens:
    asked = len(request.system_prompt) + len(compact_json(request.messages))
    said = sum(map(len, (*turn.thinking, *turn.text)))
    said += sum(len(call.name) + len(compact_json(call.arguments)) for call in turn.tools)
    return RequestTokens(input=-(-asked // _CHARS_PER_TOKEN), output=-(-said // _CHARS_PER_TOKEN))
