"""Which models can be used, and what lets a request in."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from pinnace_agent.config.configuration import load_configuration
from pinnace_agent.config.models.models import ModelRegistry
from pinnace_agent.config.models.patterns import ModelRequest, full_name
from pinnace_spec.records.messages import Model

LOCAL: Mapping[str, object] = {"baseUrl": "http://127.0.0.1:8080/v1", "api": "openai-completions"}


class Home:
    """A user's folders, made from what the test says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.agent = folder / "agent"
        self.agent.mkdir()
        self.env = {"PATH": os.environ["PATH"], "PI_CODING_AGENT_DIR": str(self.agent), "HOME": str(folder)}

    def registry(self, provider: Mapping[str, object], auth: object = None, **env: str) -> ModelRegistry:
        """Load a registry with one described provider `openai` that has one model `m`."""
        described = {**LOCAL, "models": [{"id": "m"}], **provider}
        (self.agent / "models.json").write_text(json.dumps({"providers": {"openai": described}}))
        if auth is not None:
            file = self.agent / "auth.json"
            file.touch(mode=0o600)
            file.write_text(auth if isinstance(auth, str) else json.dumps(auth))
        loaded = load_configuration({**self.env, **env}, self.folder)
        self.notices = [each.text for each in loaded.notices]
        return loaded.registry


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def the_model(registry: ModelRegistry) -> Model:
    model = registry.find("openai", "m")
    assert model is not None
    return model


def api_key(key: str, **more: object) -> dict[str, object]:
    return {"openai": {"type": "api_key", "key": key, **more}}


async def test_the_sources_of_a_key_come_in_this_order(home: Home) -> None:
    stored, described, env = api_key("stored"), {"apiKey": "described"}, "environment"
    for provider, auth, variable, expected in [
        ({}, None, env, "environment"),
        (described, None, env, "described"),
        (described, stored, env, "stored"),
    ]:
        registry = home.registry(provider, auth, OPENAI_API_KEY=variable)
        assert expected == (await registry.credentials(the_model(registry))).api_key
    registry.use_key("openai", "flag")
    assert "flag" == (await registry.credentials(the_model(registry))).api_key


@pytest.mark.parametrize(
    ("provider", "auth", "env"),
    [
        ({"apiKey": "$MISSING"}, None, {"OPENAI_API_KEY": "right"}),
        ({"apiKey": "right"}, api_key("$MISSING"), {}),
        ({"apiKey": "right"}, api_key(""), {}),
        ({"apiKey": "right"}, {"openai": {"type": "oauth", "access": "wrong", "expires": 1}}, {}),
        ({"apiKey": "right"}, {"openai": {"type": "api_key", "key": 7}}, {}),
        ({"apiKey": "right"}, "damaged", {}),
    ],
)
async def test_a_source_that_has_nothing_is_ignored(
    provider: Mapping[str, object], auth: object, env: Mapping[str, str], home: Home
) -> None:
    registry = home.registry(provider, auth, **env)
    assert "right" == (await registry.credentials(the_model(registry))).api_key


async def test_a_flag_s_key_is_meant_as_it_is(home: Home) -> None:
    registry = home.registry({})
    for key in ("!echo no", "$HOME", "$$", "$!x", "a$HOME!b"):
        registry.use_key("openai", key)
        assert key == (await registry.credentials(the_model(registry))).api_key


async def test_variables_of_the_stored_entry_go_before_the_environment(home: Home) -> None:
    auth = api_key("$MINE", env={"MINE": "own", "H": "own-header"})
    registry = home.registry({"headers": {"X-H": "$H"}}, auth, MINE="other", H="other")
    credentials = await registry.credentials(the_model(registry))
    assert ("own", {"X-H": "own-header"}) == (credentials.api_key, credentials.headers)


async def test_a_command_in_models_json_runs_for_every_request(home: Home) -> None:
    registry = home.registry({"apiKey": f"!echo x >> {home.folder}/runs; wc -l < {home.folder}/runs"})
    model = the_model(registry)
    assert registry.is_usable(model)
    assert not (home.folder / "runs").exists()
    assert ["1", "2"] == [(await registry.credentials(model)).api_key for _ in range(2)]


async def test_a_command_in_auth_json_runs_once_if_it_works(home: Home) -> None:
    command = f"!echo x >> {home.folder}/runs; test -e {home.folder}/unlocked && wc -l < {home.folder}/runs"
    registry = home.registry({}, api_key(command))
    model = the_model(registry)
    assert (await registry.credentials(model)).problem is not None
    (home.folder / "unlocked").touch()
    assert ["2", "2"] == [(await registry.credentials(model)).api_key for _ in range(2)]


async def test_a_failed_command_is_a_problem_and_no_other_key_is_sent(home: Home) -> None:
    registry = home.registry({"apiKey": "!exit 4"}, OPENAI_API_KEY="other")
    credentials = await registry.credentials(the_model(registry))
    assert credentials.api_key is None
    assert credentials.problem is not None
    assert credentials.problem.startswith("No API key found for openai.")
    assert "Its apiKey in models.json can't be used: its command failed with status 4." in credentials.problem


@pytest.mark.parametrize(
    ("provider", "auth", "hint"),
    [
        ({}, None, ""),
        ({"apiKey": "$MISSING"}, None, "The key in models.json can't be used: the variable MISSING is not set."),
        ({}, api_key("$MISSING"), "The key in auth.json can't be used: the variable MISSING is not set."),
        ({}, {"openai": {"type": "oauth"}}, "The login for openai in auth.json has expired, and only pi refreshes it"),
    ],
)
async def test_without_a_key_the_problem_says_what_is_missing(
    provider: Mapping[str, object], auth: object, hint: str, home: Home
) -> None:
    registry = home.registry(provider, auth)
    assert [] == registry.available()
    problem = (await registry.credentials(the_model(registry))).problem
    assert problem is not None
    assert problem.startswith("No API key found for openai.")
    assert hint in problem


async def test_headers_are_resolved_and_those_of_the_model_go_first(home: Home) -> None:
    registry = home.registry(
        {
            "apiKey": "k",
            "headers": {"X-Var": "a $V", "X-Command": "!echo said", "X-Both": "provider"},
            "models": [{"id": "m", "headers": {"x-both": "model"}}],
        },
        V="b",
    )
    credentials = await registry.credentials(the_model(registry))
    assert {"X-Var": "a b", "X-Command": "said", "x-both": "model"} == credentials.headers


async def test_a_header_that_cannot_be_resolved_is_a_problem(home: Home) -> None:
    registry = home.registry({"apiKey": "k", "headers": {"X-Var": "$MISSING"}})
    problem = (await registry.credentials(the_model(registry))).problem
    assert "The header X-Var in models.json can't be used: the variable MISSING is not set." in (problem or "")


async def test_the_key_goes_into_the_authorization_header_too_if_asked(home: Home) -> None:
    registry = home.registry({"apiKey": "k", "authHeader": True, "headers": {"authorization": "old"}})
    assert {"Authorization": "Bearer k"} == (await registry.credentials(the_model(registry))).headers


async def test_a_header_that_carries_a_key_is_enough(home: Home) -> None:
    registry = home.registry({"headers": {"X-Api-Key": "$TOKEN"}}, TOKEN="t")
    assert registry.is_usable(the_model(registry))
    credentials = await registry.credentials(the_model(registry))
    assert (None, {"X-Api-Key": "t"}, None) == (credentials.api_key, credentials.headers, credentials.problem)


def test_the_name_of_a_variable_alone_counts_as_old_files_mean_it(home: Home) -> None:
    async def key(described: str, **env: str) -> str | None:
        registry = home.registry({"apiKey": described}, **env)
        return (await registry.credentials(the_model(registry))).api_key

    assert "right" == trio.run(lambda: key("MY_KEY", MY_KEY="right"))
    assert "MY_KEY" == trio.run(lambda: key("MY_KEY"))


def test_only_models_of_a_supported_api_with_a_key_are_available(home: Home) -> None:
    models = [{"id": "m"}, {"id": "old", "api": "made-up"}]
    registry = home.registry({"apiKey": "k", "models": models})
    assert "openai/m" == full_name(registry.available()[-1])
    assert ["openai/m", "openai/old"] == [full_name(model) for model in registry.models_of("openai")][-2:]
    assert "offline/rehearsal" == full_name(registry.all()[-1])


def test_a_model_of_another_api_is_found_and_refused_by_name(home: Home) -> None:
    registry = home.registry({"apiKey": "k", "models": [{"id": "m"}, {"id": "old", "api": "made-up"}]})
    error = registry.resolve(ModelRequest("openai/old")).error or ""
    assert 'openai/old: the API "made-up" is not supported' in error
    assert "openai-completions" in error


def test_the_offline_model_is_found_by_its_name_and_offered_only_when_asked_for(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home.folder)
    registry = home.registry({})
    assert [] == registry.available()
    for request in [
        ModelRequest("", "offline"),
        ModelRequest("rehearsal", "Offline"),
        ModelRequest("offline/rehearsal"),
    ]:
        found = registry.resolve(request)
        assert found.model == registry.find("offline", "rehearsal")
        assert found.model is not None
    for pattern in ("rehearsal", "Offline rehearsal", "offline"):
        assert registry.resolve(ModelRequest(pattern)).model is None
    registry.offer_offline()
    assert ["offline/rehearsal"] == [full_name(model) for model in registry.available()]


def test_the_path_of_a_script_is_an_id_of_the_offline_provider(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home.folder)
    (home.folder / "play.yaml").write_text("")
    registry = home.registry({})
    for found in (
        registry.find("offline", "play.yaml"),
        registry.resolve(ModelRequest("play.yaml", "offline")).model,
        registry.resolve(ModelRequest(f"offline/{home.folder}/play.yaml:high")).model,
    ):
        assert found is not None
        assert found["id"] in ("play.yaml", f"{home.folder}/play.yaml")
        assert "offline" == found["provider"] == found["api"]
    assert registry.find("offline", "absent.yaml") is None
    assert registry.find("offline", "x" * 5000) is None
    assert '"absent.yaml" not found' in (registry.resolve(ModelRequest("absent.yaml", "offline")).error or "")


async def test_the_offline_model_needs_nothing(home: Home) -> None:
    registry = home.registry({})
    model = registry.find("offline", "rehearsal")
    assert model is not None
    credentials = await registry.credentials(model)
    assert (None, None) == (credentials.api_key, credentials.problem)


@pytest.mark.parametrize(
    ("auth", "problem"),
    [
        ("{", "no stored key is used"),
        ({"openai": "sk-marker"}, "openai: must be an object"),
        ({"openai": {"type": "sk-marker"}}, 'openai: type must be "api_key" or "oauth"'),
        ({"openai": {"type": "api_key", "key": ["sk-marker"]}}, "openai: key must be a string"),
        ({"openai": {"type": "api_key", "key": "x", "env": "sk-marker"}}, "openai: env must be an object"),
        ({"openai": {"type": "api_key", "key": "x", "env": {"A": 1}}}, "openai: env must hold strings only"),
    ],
)
def test_a_damaged_auth_file_is_reported_and_not_used(auth: object, problem: str, home: Home) -> None:
    home.registry({}, auth)
    (notice,) = home.notices
    assert problem in notice
    assert "sk-marker" not in notice


def test_the_auth_file_is_neither_made_nor_changed(home: Home) -> None:
    home.registry({})
    assert not (home.agent / "auth.json").exists()
    home.registry({}, api_key("k"))
    assert api_key("k") == json.loads((home.agent / "auth.json").read_text())
    assert {"auth.json", "models.json"} == {path.name for path in home.agent.iterdir()}
