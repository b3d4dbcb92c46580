"""Which model a command line means, as the original has it: the same files, keys and words for both.

What release 1.5.2 chose is kept in tests/data, so that this runs without it. Where it is present it must still choose
so. To record anew, delete the file and run this with the original. Rows that name built-in models keep to those that
both catalogs have, since each was made on a day of its own.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
from tests.parts import asked_again
from tests.recorded import RecordedCases

from pinnace_agent.config.credentials.credentials import AuthFile
from pinnace_agent.config.models.catalog import read_catalog
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.config.models.patterns import full_name
from pinnace_agent.config.models.scope import ScopedModel, next_model
from pinnace_agent.config.models.selection import Choice, select_initial
from pinnace_agent.config.models.thinking import is_level
from pinnace_agent.config.settings import Settings
from pinnace_spec.records.messages import ThinkingLevel

# Enough to go round any scope here.
CYCLES: Final = 6
Answer = dict[str, Any]

SERVER: Final = {"baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions"}
KEYED: Final = {**SERVER, "apiKey": "k"}


def described(*ids: str, **fields: object) -> list[dict[str, object]]:
    return [{"id": one, **fields} for one in ids]


MODELS_JSON: Final = {
    "providers": {
        "fake": {
            **KEYED,
            "models": [
                *described("m1", "shared", "v-latest", "v-20240101", "v-20250101", "a:high", "g/x", "x:y:z"),
                *described("m2:bogus", "tie-B", "tie-a"),
                *described("m2", "think", reasoning=True),
                *described("named", name="Big Friend"),
                *described("Case", "case", "t[1]", "star*", "tail-low", "own"),
                *described("off", "high", reasoning=True),
            ],
        },
        "other": {**SERVER, "models": described("shared", "fake/m1", "only", "twin", "x:y:z", "kimi-k9")},
        "third": {**KEYED, "models": described("other/zed", "other/twin", "g/x", "claude-opus-5", "other/nine:high")},
        "a/b": {**KEYED, "models": described("inner", "deep/inner")},
        "a": {**KEYED, "models": described("b/inner", "b/c")},
        "Upper": {**KEYED, "models": described("u1", "u2")},
        "anthropic": {"models": described("mine", reasoning=True)},
        "zai": {"modelOverrides": {"glm-5.3": {"name": "Overridden Name"}}},
    }
}
KEYS: Final = {"ANTHROPIC_API_KEY": "k", "GROQ_API_KEY": "k", "DEEPSEEK_API_KEY": "k", "XAI_API_KEY": "k"}


class Case(NamedTuple):
    """One command line."""

    args: tuple[str, ...]
    why_different: str | None = None
    """Why ours is to differ, if it is."""


def model(pattern: str, *more: str, ours: str | None = None) -> Case:
    return Case(("--model", pattern, *more), ours)


def scope(patterns: str, *more: str, ours: str | None = None) -> Case:
    return Case(("--models", patterns, *more), ours)


CASES: Final = (
    # An id, or provider and id.
    model("m1"),
    model("M1"),
    model(" m1 "),
    model("fake/m1"),
    model("FAKE/M1"),
    model("fake//m1"),
    model("/m1"),
    model("Case"),
    model("case", ours="the case of letters decides where nothing else does"),
    model("CASE"),
    model("u1"),
    model("upper/u1"),
    model("claude-opus-5-5"),
    model("anthropic/claude-opus-5-5"),
    model("anthropic/mine"),
    model("mine"),
    model("own"),
    # A level at the end.
    model("m2:high"),
    model("m2:max"),
    model("m2:off"),
    model("m2:HIGH"),
    model("m2:"),
    model("m1:high"),
    model("think:xhigh"),
    model("fake/think:minimal"),
    model("think:high:low"),
    model("off"),
    model("high"),
    model("off:high"),
    model("tail-low"),
    model("claude-opus-5-5:low"),
    model("claude-opus-5-5:off"),
    model("claude-opus-4-6:xhigh"),
    model("think:high", "--thinking", "low"),
    model("think", "--thinking", "max"),
    model("think", "--thinking", "off"),
    model("think"),
    # Ids with colons and slashes.
    model("a:high"),
    model("a:low"),
    model("a:high:low"),
    model("x:y:z"),
    model("x:y:z:low"),
    model("x:y"),
    model("m2:bogus"),
    model("think:bogus"),
    model("g/x"),
    model("fake/g/x"),
    model("third/g/x"),
    model("g/x", "--provider", "third"),
    model("other/nine:high"),
    model("other/nine"),
    model("openai/gpt-oss-120b"),
    model("groq/openai/gpt-oss-120b"),
    model("openai/gpt-oss-120b:high"),
    model("qwen/qwen3.6-27b"),
    # The same id in several places, and who has a key.
    model("shared"),
    model("fake/shared"),
    model("other/shared"),
    model("shared", "--provider", "other"),
    model("shared", "--api-key", "k"),
    model("other/shared", "--api-key", "k"),
    model("claude-opus-5"),
    model("anthropic/claude-opus-5"),
    model("third/claude-opus-5"),
    model("claude-opus-5", "--provider", "anthropic"),
    model("deepseek-v4-pro"),
    model("grok-4.7"),
    model("grok-4.7", "--api-key", "k"),
    model("only"),
    model("other/only"),
    # The prefix names a provider without a key; another passes the whole id on.
    model("fake/m1", "--provider", "other"),
    model("other/zed"),
    model("other/twin"),
    model("other/twin:low"),
    model("other/zed:low"),
    model("other/twin", "--api-key", "k"),
    model("other/twin", "--provider", "third"),
    model("other/absent"),
    # Parts.
    model("v-"),
    model("v-2"),
    model("v-2:low"),
    model("v"),
    model("tie"),
    model("big friend"),
    model("Big"),
    model("big friend:low"),
    model("fake/big"),
    model("zai/overridden"),
    model("opus-4-5-2"),
    model("anthropic/opus-4-5"),
    model("anthropic/haiku-4"),
    model("opus-4-5", "--provider", "anthropic"),
    model("ikea"),
    model("k9"),
    model("k9", "--api-key", "k"),
    model("nl"),
    model("SHARE"),
    # Providers with slashes, and prefixes of each other.
    model("a/b/inner"),
    model("a/b/c"),
    model("a/b/deep/inner"),
    model("b/inner"),
    model("inner"),
    model("inner", "--provider", "a/b"),
    model("a/b/inner", "--provider", "a"),
    # The provider by its flag.
    model("m1", "--provider", "FAKE"),
    model("fake/m1", "--provider", "fake"),
    model("fake/m1:high", "--provider", "fake"),
    model("think:high", "--provider", "fake"),
    model("m1", "--provider", "nobody"),
    model("nobody/m1"),
    model("absent"),
    # Ids that are not described.
    model("absent", "--provider", "fake"),
    model("fake/absent"),
    model("fake/absent:high"),
    model("fake/absent:off"),
    model("fake/absent:bogus"),
    model("fake/absent", "--thinking", "low"),
    model("fake/absent:high", "--thinking", "low"),
    model("anthropic/claude-next-9"),
    model("deepseek/deepseek-v9"),
    model("xai/grok-99:low"),
    model("openai/gpt-99"),
    # What can't be.
    Case(("--provider", "fake")),
    Case(("--provider", "groq", "--models", "m1")),
    Case(("--api-key", "k")),
    Case(("--api-key", "k", "--models", "m1")),
    Case(()),
    # Scopes: patterns, levels, order, globs, doubles.
    scope("m1"),
    scope("m2,m1"),
    scope("m1,m2,think"),
    scope("m2:high,m1,think:low"),
    scope("fake/v*"),
    scope("FAKE/V*"),
    scope("v-????????"),
    scope("v-*:low"),
    scope("*1"),
    scope("m[12]"),
    scope("[mt]*2"),
    scope("t[1]"),
    scope("star*"),
    scope("a:high,m1"),
    scope("a:low,m1"),
    scope("g/x"),
    scope("g/*"),
    scope("fake/g/x,m1"),
    scope("*/g/x"),
    scope("**/x"),
    scope("other/*"),
    scope("a/*"),
    scope("a/b/*"),
    scope("shared,m1"),
    scope("only,m1"),
    scope("m1,m1:high,M1"),
    scope("m1,fake/m*"),
    scope("m2:bogus,m1"),
    scope("think:bogus,m1"),
    scope("nope,m1"),
    scope("nope"),
    scope(" m1 , m2 "),
    scope("m1,,m2"),
    scope("big,m1"),
    scope("v-,m1"),
    scope("claude-opus-5,m1"),
    scope("anthropic/claude-opus-4-5*,m1"),
    scope("opus-4-5,m1"),
    scope("mine,grok-4.7,deepseek-v4-pro"),
    scope("qwen/qwen3.6-27b,m1"),
    scope("openai/gpt-oss-*"),
    scope("{m1,m2}"),
    scope("!m1,m2"),
    scope("*/b*,m1"),
    scope("x:*"),
    scope("inn*,m1"),
    scope("deep/*,m1"),
    scope("d??p/inner"),
    scope("m[1"),
    scope("[!m]?"),
    scope("[F]AKE/m?"),
    scope("*:y:z,fake/*2:high"),
    scope("m1,m2", "--model", "think"),
    scope("m1,m2", "--thinking", "high"),
    scope("think,m2:low", "--thinking", "high"),
)


RECORDED: Final = RecordedCases("model-choice", len(CASES))


def write_home(folder: Path) -> dict[str, str]:
    """Write the user's files, and return the environment."""
    agent = folder / "agent"
    agent.mkdir(exist_ok=True)
    (agent / "models.json").write_text(json.dumps(MODELS_JSON))
    return {**KEYS, "PATH": os.environ["PATH"], "HOME": str(folder), "PI_CODING_AGENT_DIR": str(agent)}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def registry(home: Path) -> ModelRegistry:
    env = write_home(home)
    catalog = read_catalog(home / "agent" / "models.json")
    assert catalog.diagnostics == ()
    return ModelRegistry(catalog, AuthFile({}), env)


@pytest.fixture(scope="module")
def recorded() -> list[Answer]:
    return RECORDED.read()


def ours(registry: ModelRegistry, args: tuple[str, ...]) -> Answer:
    given = dict(zip(args[::2], args[1::2], strict=True))
    level: ThinkingLevel | None = None
    if is_level(asked := given.get("--thinking")):
        level = asked
    patterns = tuple(given.get("--models", "").split(","))
    choice = Choice(given.get("--provider"), given.get("--model"), patterns, level)
    selection = select_initial(registry, Settings(), choice, given.get("--api-key"))
    if selection.error is not None:
        return {"model": None}
    assert selection.model is not None
    answer = {
        "model": full_name(selection.model),
        "level": selection.level,
        "reasoning": selection.model["reasoning"],
        "window": selection.model["contextWindow"],
    }
    if "--models" in given and selection.scope:
        answer["cycle"] = round_trip(selection.scope, selection.model)
    return answer


def round_trip(candidates: tuple[ScopedModel, ...], current: Any) -> list[str | None]:
    names: list[str | None] = []
    for _ in range(CYCLES):
        following = next_model(candidates, current)
        names.append(None if following is None else full_name(following.model))
        current = current if following is None else following.model
    return names


@pytest.mark.parametrize("place", range(len(CASES)), ids=lambda place: " ".join(CASES[place].args) or "nothing")
def test_a_command_line_means_the_model_that_it_means_to_the_original(
    place: int, registry: ModelRegistry, recorded: list[Answer]
) -> None:
    case, expected = CASES[place], recorded[place]
    assert list(case.args) == expected.pop("args")
    answer = ours(registry, case.args)
    if case.why_different is None:
        assert expected == answer
    else:
        assert expected != answer, "no difference any more"


def theirs(command: list[str], home: Path, args: tuple[str, ...]) -> Answer:
    commands: list[dict[str, str]] = [{"type": "get_state"}, *({"type": "cycle_model"} for _ in range(CYCLES))]
    done = subprocess.run(
        [*command, "--mode", "rpc", "--no-session", *args],
        cwd=home,
        env={**write_home(home), "PI_OFFLINE": "1"},
        input="".join(f"{json.dumps(one)}\n" for one in commands),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    state, *cycled = [record for record in records if record["type"] == "response"] or [None]
    if state is None:
        assert done.returncode == 1, done.stderr
        return {"model": None}
    chosen = state["data"]["model"]
    answer = {
        "model": full_name(chosen),
        "level": state["data"]["thinkingLevel"],
        "reasoning": chosen["reasoning"],
        "window": chosen["contextWindow"],
    }
    # Without a scope all models are cycled through, of a catalog that is of another day.
    is_scoped = any(each["data"] and each["data"]["isScoped"] for each in cycled)
    if is_scoped or ("--models" in args and all(each["data"] is None for each in cycled)):
        answer["cycle"] = [each["data"] and full_name(each["data"]["model"]) for each in cycled]
    return answer


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize(
    "place", asked_again(len(CASES), RECORDED.path), ids=lambda place: " ".join(CASES[place].args) or "nothing"
)
def test_the_original_still_chooses_so(place: int, original_pi: list[str], home: Path) -> None:
    args = CASES[place].args
    RECORDED.check_case(place, {"args": list(args), **theirs(original_pi, home, args)})
