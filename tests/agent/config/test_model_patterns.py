"""Which model a text means. The rows follow what the original program, release 1.5.2, does."""

from collections.abc import Sequence

import pytest

from pinnace_agent.config.models.patterns import ModelRequest, PatternResolver, Resolution, full_name, split_level
from pinnace_agent.config.models.scope import ScopedModel, next_model, resolve_scope
from pinnace_spec.records.messages import Model, ThinkingLevel


def model(provider: str, model_id: str, name: str | None = None, reasoning: bool = False) -> Model:
    return {
        "id": model_id,
        "name": name or model_id,
        "api": "openai-completions",
        "provider": provider,
        "baseUrl": "http://127.0.0.1/v1",
        "reasoning": reasoning,
        "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 128_000,
        "maxTokens": 16_384,
    }


MODELS = [
    model("fake", "m1"),
    model("fake", "m2", reasoning=True),
    model("fake", "shared"),
    model("fake", "v-latest"),
    model("fake", "v-20240101"),
    model("fake", "v-20250101"),
    model("fake", "a:high"),
    model("fake", "g/x"),
    model("fake", "named", name="Big Friend"),
    model("other", "shared"),
    model("other", "fake/m1"),
    model("other", "only"),
    model("other", "twin"),
    model("third", "other/zed"),
    model("third", "other/twin"),
    model("third", "g/x"),
    model("a/b", "inner"),
    model("a", "b/inner"),
]
PROVIDERS = [*dict.fromkeys(one["provider"] for one in MODELS), "empty", "offline"]


class Known:
    """Models that are given."""

    def __init__(self, models: Sequence[Model], providers: Sequence[str], default: Model | None = None) -> None:
        self._models = models
        self._providers = providers
        self._default = default

    def providers(self) -> Sequence[str]:
        return self._providers

    def models_of(self, provider: str) -> Sequence[Model]:
        return [one for one in self._models if one["provider"] == provider]

    def default_of(self, provider: str) -> Model | None:
        is_its = self._default is not None and self._default["provider"] == provider
        return self._default if is_its else None


def resolve(
    pattern: str,
    provider: str | None = None,
    level: ThinkingLevel | None = None,
    has_key: bool = False,
    without_key: Sequence[str] = ("other",),
) -> Resolution:
    resolver = PatternResolver(Known(MODELS, PROVIDERS), lambda one: one["provider"] not in without_key)
    return resolver.resolve(ModelRequest(pattern, provider, level, has_key))


def name(found: Resolution) -> str | None:
    return None if found.model is None else full_name(found.model)


@pytest.mark.parametrize(
    ("pattern", "provider", "expected", "level"),
    [
        ("m1", None, "fake/m1", None),
        ("M1", None, "fake/m1", None),
        (" m1 ", None, "fake/m1", None),
        ("fake/m2:high", None, "fake/m2", "high"),
        ("m2:max", None, "fake/m2", "max"),
        # The one with a key, when several offer the id.
        ("shared", None, "fake/shared", None),
        # A part: an id without a date first, then the newest date.
        ("v-", None, "fake/v-latest", None),
        ("v-2", None, "fake/v-20250101", None),
        ("v-2:low", None, "fake/v-20250101", "low"),
        ("m", None, "fake/named", None),
        ("big friend", None, "fake/named", None),
        # What the prefix names, if it has a key; else who passes that whole id on.
        ("fake/m1", None, "fake/m1", None),
        ("other/zed", None, "third/other/zed", None),
        ("other/twin", None, "third/other/twin", None),
        ("other/twin:low", None, "third/other/twin", "low"),
        ("other/zed:low", None, "third/other/zed", "low"),
        ("other/only", None, "other/only", None),
        ("only", None, "other/only", None),
        # An id may end like a level.
        ("a:high", None, "fake/a:high", None),
        ("a:low", None, "fake/v-latest", "low"),
        # A provider may have slashes: the longest counts.
        ("a/b/inner", None, "a/b/inner", None),
        ("m1", "FAKE", "fake/m1", None),
        ("fake/m1", "fake", "fake/m1", None),
        ("m1", "other", "other/fake/m1", None),
        ("shared", "other", "other/shared", None),
        ("fake/", None, "other/fake/m1", None),
    ],
)
def test_a_pattern_means_this_model(
    pattern: str, provider: str | None, expected: str, level: ThinkingLevel | None
) -> None:
    found = resolve(pattern, provider)
    assert (expected, level, None, None) == (name(found), found.level, found.warning, found.error)


def test_the_case_of_letters_decides_only_between_ids_that_differ_in_nothing_else() -> None:
    models = [model("p", "Model"), model("p", "model")]
    resolver = PatternResolver(Known(models, ["p"]), lambda _: True)
    assert ["Model", "model", "Model"] == [
        found["id"]
        for pattern in ("Model", "model", "MODEL")
        if (found := resolver.resolve(ModelRequest(pattern)).model)
    ]


@pytest.mark.parametrize(
    ("pattern", "provider", "parts"),
    [
        ("nope", None, ['Model "nope" not found', "fake/m1"]),
        ("m2:bogus", None, ['"m2:bogus" not found']),
        ("", None, ["empty"]),
        (" ", "fake", ["empty"]),
        ("fake/", "fake", ["empty"]),
        ("m1", "nobody", ['Unknown provider "nobody"', "fake, other"]),
        ("m1", "empty", ['"empty" has no models']),
        ("g/x", None, ["offered by several providers", "fake/g/x, third/g/x", "--provider"]),
    ],
)
def test_what_means_no_model_is_an_error_that_helps(pattern: str, provider: str | None, parts: list[str]) -> None:
    found = resolve(pattern, provider)
    assert found.model is None
    assert found.error is not None
    assert [] == [part for part in parts if part not in found.error]


def test_with_a_key_of_its_own_a_request_does_not_go_by_who_has_one() -> None:
    assert "several providers" in (resolve("shared", has_key=True).error or "")
    assert "other/shared" == name(resolve("shared", "other", has_key=True))
    assert "other/twin" == name(resolve("other/twin", has_key=True))
    assert "fake/m1" == name(resolve("fake/m1", has_key=True, without_key=("fake",)))


@pytest.mark.parametrize(
    ("pattern", "asked", "model_id", "level", "reasoning"),
    [
        ("fake/nope", None, "nope", None, False),
        ("fake/nope:high", None, "nope", "high", True),
        ("fake/nope:off", None, "nope", "off", False),
        ("fake/nope:bogus", None, "nope:bogus", None, False),
        ("fake/nope", "low", "nope", None, True),
        ("fake/nope:high", "low", "nope:high", None, True),
        ("fake/nope", "off", "nope", None, False),
    ],
)
def test_an_unknown_id_of_a_known_provider_is_used_as_it_is(
    pattern: str, asked: ThinkingLevel | None, model_id: str, level: ThinkingLevel | None, reasoning: bool
) -> None:
    found = resolve(pattern, level=asked)
    assert {**MODELS[0], "id": model_id, "name": model_id, "reasoning": reasoning} == found.model
    assert level == found.level
    assert found.warning is not None
    assert f'"{model_id}"' in found.warning


def test_an_unknown_id_has_the_properties_of_the_provider_s_default() -> None:
    resolver = PatternResolver(Known(MODELS, PROVIDERS, default=MODELS[1]), lambda _: True)
    found = resolver.resolve(ModelRequest("fake/nope"))
    assert {**MODELS[1], "id": "nope", "name": "nope"} == found.model
    assert '"m2"' in (found.warning or "")


def test_a_part_means_a_model_with_a_key_unless_the_request_brings_one() -> None:
    models = [model("poor", "word-z"), model("rich", "word-a"), model("rich", "word-20240101")]
    resolver = PatternResolver(Known(models, ["poor", "rich"]), lambda one: one["provider"] == "rich")
    assert "rich/word-a" == name(resolver.resolve(ModelRequest("word")))
    assert "rich/word-20240101" == name(resolver.resolve(ModelRequest("word-2")))
    assert "poor/word-z" == name(resolver.resolve(ModelRequest("word", has_key=True)))


def test_the_last_in_the_alphabet_is_that_of_people() -> None:
    models = [model("p", "word-B"), model("p", "word-a"), model("p", "~word-a")]
    resolver = PatternResolver(Known(models, ["p"]), lambda _: True)
    assert "p/word-B" == name(resolver.resolve(ModelRequest("word")))


def test_an_unknown_id_is_not_looked_for_in_parts_of_other_providers() -> None:
    found = resolve("other/only", "fake")
    assert "fake/other/only" == name(found)
    assert found.warning


def test_without_any_models_the_error_says_what_to_do() -> None:
    found = PatternResolver(Known([], ["offline"]), lambda _: True).resolve(ModelRequest("m1"))
    assert "models.json" in (found.error or "")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a:high", ("a", "high")),
        ("a:b:off", ("a:b", "off")),
        ("a:HIGH", ("a:HIGH", None)),
        ("a:", ("a:", None)),
        (":high", (":high", None)),
        ("high", ("high", None)),
    ],
)
def test_a_level_is_what_stands_after_the_last_colon(pattern: str, expected: tuple[str, str | None]) -> None:
    assert expected == split_level(pattern)


AVAILABLE = [one for one in MODELS if one["provider"] != "other"]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (("m1",), ["fake/m1"]),
        (("m2:high", "m1"), ["fake/m2:high", "fake/m1"]),
        (("fake/v*",), ["fake/v-latest", "fake/v-20240101", "fake/v-20250101"]),
        (("V-????????:low",), ["fake/v-20240101:low", "fake/v-20250101:low"]),
        (("*1", "m1"), ["fake/m1", "fake/v-20240101", "fake/v-20250101"]),
        (("m1", "m1:high"), ["fake/m1"]),
        (("a:high",), ["fake/a:high"]),
        (("g/x",), ["fake/g/x", "third/g/x"]),
        # A star ends at a slash, two don't.
        (("*/x",), ["fake/g/x", "third/g/x"]),
        (("third/**",), ["third/other/zed", "third/other/twin", "third/g/x"]),
        (("[vM]?:low",), ["fake/m1:low", "fake/m2:low"]),
        (("", " "), []),
    ],
)
def test_a_scope_is_what_its_patterns_name_in_their_order(patterns: tuple[str, ...], expected: list[str]) -> None:
    scope = resolve_scope(patterns, AVAILABLE)
    names = [f"{full_name(one)}{f':{level}' if level else ''}" for one, level in scope.models]
    assert (expected, ()) == (names, scope.warnings)


@pytest.mark.parametrize("pattern", ["x*", "third/*", "a/*", "m[", "m[1"])
def test_a_glob_that_names_nothing_is_reported(pattern: str) -> None:
    scope = resolve_scope((pattern,), AVAILABLE)
    assert ((), (f'No available model matches "{pattern}".',)) == scope


def test_a_pattern_of_a_scope_that_names_nothing_is_reported() -> None:
    scope = resolve_scope(("nope", "only", "m1"), AVAILABLE)
    assert ["fake/m1"] == [full_name(one) for one, _ in scope.models]
    assert 2 == len(scope.warnings)


def test_a_wrong_level_in_a_scope_is_dropped_with_a_warning() -> None:
    scope = resolve_scope(("m2:bogus",), AVAILABLE)
    assert [("fake/m2", None)] == [(full_name(one), level) for one, level in scope.models]
    assert '"bogus"' in scope.warnings[0]


def test_cycling_goes_round_in_both_directions() -> None:
    candidates = [ScopedModel(one, None) for one in MODELS[:3]]

    def after(current: Model | None, backwards: bool = False) -> str:
        found = next_model(candidates, current, backwards=backwards)
        assert found is not None
        return found.model["id"]

    assert ["m2", "shared", "m1"] == [after(one) for one in MODELS[:3]]
    assert ["shared", "m1", "m2"] == [after(one, backwards=True) for one in MODELS[:3]]
    assert "m1" == after(MODELS[5]) == after(None)
    assert "shared" == after(MODELS[5], backwards=True)


def test_there_is_nothing_to_cycle_to_with_one_candidate() -> None:
    assert next_model([ScopedModel(MODELS[0], None)], MODELS[1]) is None
    assert next_model([], None) is None
