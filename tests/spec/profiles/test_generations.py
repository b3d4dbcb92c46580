"""Generations: what an agent of a time speaks, from the dates of `profiles.toml`."""

import pytest

from pinnace_spec.generate.schema.dating import holders
from pinnace_spec.generate.schema.schema import everything, schema
from pinnace_spec.generate.source import load
from pinnace_spec.profiles.generations import GENERATIONS, KINDS, Generation, Kind, generation, lifetimes, release_of
from pinnace_spec.profiles.profiles import PROFILES
from pinnace_spec.records import other_records
from pinnace_spec.records.command_table import OWN_COMMANDS
from pinnace_spec.records.commands import ALL_COMMANDS, MODELS
from pinnace_spec.records.events import EVENTS
from pinnace_spec.records.messages import STOP_REASONS, THINKING_LEVELS

# Switch -> the generations that have it, as the documents of their times say.
SWITCHES = {
    "has_retry": "0.5x seed 0.87 1.5 pi",
    "has_two_queues": "0.5x seed 0.87 1.5 pi",
    "has_new_session": "0.5x seed 0.87 1.5 pi",
    "has_fork": "0.5x seed 0.87 1.5 pi",
    "has_streaming_behavior": "0.5x seed 0.87 1.5 pi",
    "has_extension_ui": "0.5x seed 0.87 1.5 pi",
    "has_queue_update": "seed 0.87 1.5 pi",
    "has_compaction_records": "seed 0.87 1.5 pi",
    "has_will_retry": "seed 0.87 1.5 pi",
    "has_settled": "0.87 1.5 pi",
    "has_entries": "0.87 1.5 pi",
    "has_clear_queue": "0.87 1.5 pi",
    "has_bash_updates": "0.87 1.5 pi",
    "has_update_usage": "0.87 1.5 pi",
    "is_delta_only": "0.87 1.5",
    "has_system_messages": "0.87 1.5",
    "has_disposition": "1.5 pi",
    "has_settled_aborted": "1.5 pi",
    "has_durations": "1.5 pi",
}
OLDEST = {"queue_message", "reset", "branch", "get_branch_messages", "set_queue_mode"}


def switches() -> list[str]:
    return [
        name for name in dir(Generation) if name.startswith(("has_", "is_")) and name not in {"has_habit", "is_ours"}
    ]


@pytest.mark.parametrize("switch", switches())
def test_a_switch_is_on_in_the_generations_that_have_it(switch: str) -> None:
    assert SWITCHES[switch].split() == [name for name in GENERATIONS if getattr(generation(name), switch)]


def test_our_own_generation_has_everything_that_the_program_takes_and_writes() -> None:
    ours = generation("pi")

    assert set(ALL_COMMANDS) == ours.commands
    assert set(EVENTS["pi"]) == ours.records == ours.written
    assert set(STOP_REASONS) == ours.stop_reasons
    assert set(THINKING_LEVELS) == ours.levels


def test_the_published_protocol_documents_what_its_profile_writes() -> None:
    seed = generation("seed")

    assert set(EVENTS["seed"]) == seed.records
    assert {"thinking_level_changed", "session_info_changed"} == seed.written - seed.records


def test_the_oldest_names_are_gone_in_every_later_generation() -> None:
    assert generation("0.18").commands >= OLDEST
    for name in ("0.5x", "seed", "0.87", "1.5"):
        assert not OLDEST & generation(name).commands


def test_every_command_and_record_has_a_date() -> None:
    assert {*MODELS, *other_records.COMMANDS} == set(lifetimes("commands"))
    assert {*EVENTS["pi"], *other_records.EVENTS} == set(lifetimes("records"))


@pytest.mark.parametrize("name", ALL_COMMANDS)
def test_the_dates_agree_with_what_the_models_say(name: str) -> None:
    model, life = MODELS[name], lifetimes("commands")[name]
    has = [each for each in ("0.18", "0.5x", "seed", "0.87", "1.5") if name in generation(each).commands]

    assert (model.since, model.until, model.published) == (life.since, life.until, life.published)
    if model.since is None:
        assert ([], "alone") == (has, life.ours)
    elif model.until is not None:
        assert ["0.18"] == has
        assert life.ours == "again"
    else:
        assert "1.5" in has
        assert life.ours is None


@pytest.mark.parametrize("kind", KINDS)
def test_dates_are_in_order(kind: Kind) -> None:
    for name, life in lifetimes(kind).items():
        releases = [release_of(each) for each in (life.since, life.published, life.optional, life.until) if each]
        assert sorted(releases) == releases, name
        assert (life.since is None) == (life.ours == "alone"), name
        assert life.ours != "again" or life.until is not None, name


def test_every_dated_field_exists() -> None:
    """A path that is misspelt would date nothing, in silence."""
    definitions = everything()

    assert [] == [path for path in lifetimes("fields") if not list(holders(path, definitions))]


def test_every_profile_is_a_generation() -> None:
    assert set(PROFILES) < set(GENERATIONS)


def test_a_date_that_changes_changes_the_generation() -> None:
    release = release_of(generation("0.87").release)
    life = lifetimes("records")["agent_settled"]

    assert life.is_written_in(release)
    assert not life._replace(since="0.99.0").is_written_in(release)
    assert not life._replace(until="0.85.0").is_written_in(release)
    assert not life._replace(published="0.99.0").is_published_in(release)
    assert not life._replace(optional="0.85.0").is_certain_in(release)


def test_what_a_generation_lacks_is_not_in_its_bundle() -> None:
    definitions = schema("0.18", load())["$defs"]

    assert "AgentSettled" not in definitions
    assert "steeringMode" not in definitions["State"]["properties"]
    assert "queueMode" in definitions["State"]["required"]
    assert "data" not in definitions["ResetResponse"]["properties"]


def test_commands_that_older_profiles_refuse_are_those_of_no_release() -> None:
    """R-PRO-02. `hello` chooses the profile, so every profile has it."""
    ours = {name for name, life in lifetimes("commands").items() if life.ours == "alone"}

    assert {"hello", *OWN_COMMANDS} == ours
