"""The commands as models: the published examples, generations, and what a command says of itself."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

from pinnace_spec.profiles.generations import generation, release_of
from pinnace_spec.profiles.profiles import PROFILES
from pinnace_spec.records.command_table import OWN_COMMANDS
from pinnace_spec.records.commands import (
    ALL_COMMANDS,
    MODELS,
    Abort,
    Bash,
    CommandModel,
    GetEntries,
    Hello,
    Prompt,
)
from pinnace_spec.records.parsing import CommandError, parse_command

# The edge of JSON.
Json = Any
EXAMPLES: dict[str, Json] = json.loads(Path(__file__).with_name("examples.json").read_text(encoding="utf-8"))
COMMANDS: list[Json] = [*EXAMPLES["seed commands"], *EXAMPLES["0.18 commands"]]
# Named by the published protocol, and by its older and later generations.
SEED = {command["type"] for command in EXAMPLES["seed commands"]}
OLDEST = {"queue_message", "reset", "set_queue_mode", "branch", "get_branch_messages"}
LATER = {"clear_queue", "get_entries", "get_tree", "get_available_thinking_levels"}
OURS = {"hello", *OWN_COMMANDS}


@pytest.mark.parametrize("example", COMMANDS, ids=lambda example: example["type"])
def test_every_published_example_is_a_command(example: Json) -> None:
    parsed = parse_command(example)

    assert example["type"] == parsed.command_name
    assert ("id" in example, example.get("id")) == (parsed.has_id, parsed.id)
    model = MODELS[example["type"]].model_validate(example)
    reported = model.model_dump(by_alias=True, exclude_unset=True)
    assert set(example) == set(reported)
    assert all(reported[name] == value for name, value in example.items() if name != "attachments")


def test_the_commands_are_those_of_every_generation() -> None:
    assert SEED | OLDEST | LATER | OURS == set(ALL_COMMANDS)
    assert len(ALL_COMMANDS) == len(set(ALL_COMMANDS)) == len(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_a_sample_has_fields_of_its_command_alone(name: str) -> None:
    """A misspelt one would be ignored, as every unknown field is."""
    assert set(MODELS[name].sample) <= {field.alias or key for key, field in MODELS[name].model_fields.items()}


def test_every_command_says_which_generations_know_it() -> None:
    published = release_of(generation("seed").release)
    for command, model in MODELS.items():
        dates = [release_of(date) for date in (model.since, model.published, model.until) if date is not None]
        assert sorted(dates) == dates
        assert (command in OURS) == (model.since is None)
        assert (command in OLDEST) == (model.until is not None)
        if command in OLDEST:
            assert (dates[0], True) == (release_of("0.16.0"), dates[-1] < published)
        elif command not in OURS:
            assert (command in SEED) == (dates[0] <= published)


def test_a_command_can_not_be_changed() -> None:
    image: Json = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
    text: Json = {"type": "prompt", "message": "x"}
    for record in (text, {**text, "images": [image]}):
        command = cast("Prompt", parse_command(record))

        with pytest.raises((ValidationError, AttributeError)):
            command.message = "y"
        assert "x" == command.message


def test_pictures_are_the_same_by_either_name() -> None:
    """The oldest generation calls them attachments."""
    image: Json = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
    attachment: Json = {
        "type": "image",
        "content": "d29ybGQ=",
        "mimeType": "image/gif",
        "id": "a",
        "fileName": "b",
        "size": 5,
    }
    command = parse_command({"type": "prompt", "message": "x", "images": [image], "attachments": [attachment]})

    assert isinstance(command, Prompt)
    assert (image, {"type": "image", "data": "d29ybGQ=", "mimeType": "image/gif"}) == command.content_images


@pytest.mark.parametrize(
    ("attached", "text"),
    [
        ({"content": "aGVsbG8=", "fileName": "a.txt"}, "x\n\n[Document: a.txt]\nhello"),
        ({"content": "aGVsbG8=", "extractedText": "found"}, "x\n\n[Document: unnamed]\nfound"),
        ({"content": "/w==", "fileName": "a.pdf", "extractedText": "found"}, "x\n\n[Document: a.pdf]\nfound"),
    ],
)
def test_an_attached_document_stands_behind_the_text(attached: Json, text: str) -> None:
    document = {"type": "document", "mimeType": "text/plain", **attached}
    command = parse_command({"type": "prompt", "message": "x", "attachments": [document]})

    assert isinstance(command, Prompt)
    assert (text, ()) == (command.message, command.content_images)


def test_an_attached_document_without_text_is_refused() -> None:
    """Not dropped: the user would believe that the model has read it."""
    document = {"type": "document", "mimeType": "application/pdf", "content": "/w==", "fileName": "a.pdf"}
    record: Json = {"type": "prompt", "message": "x", "attachments": [document]}

    with pytest.raises(CommandError, match=r"attachments\[0\] must have extractedText"):
        parse_command(record)


def test_unknown_keys_of_a_picture_are_left_out() -> None:
    """Else they would go into the session file and to the provider."""
    image: Json = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
    command = parse_command({"type": "prompt", "message": "x", "images": [{**image, "path": "/x", "data2": "y"}]})

    assert isinstance(command, Prompt)
    assert (image,) == command.content_images


def test_what_is_not_said_has_its_default() -> None:
    abort, bash = parse_command({"type": "abort"}), parse_command({"type": "bash", "command": "x"})
    prompt = parse_command({"type": "prompt", "message": "x"})

    assert "hold" == cast("Abort", abort).queue
    assert cast("Bash", bash).excludeFromContext is False
    assert cast("Prompt", prompt).streamingBehavior is None
    assert () == cast("Prompt", prompt).content_blocks


@pytest.mark.parametrize("name", ["prompt", "steer", "follow_up"])
@pytest.mark.parametrize("images", [[], [{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]])
def test_the_id_of_a_message_has_1_to_128_characters(name: str, images: Json) -> None:
    """R-ERR-03: by the table and by the models."""
    record: Json = {"type": name, "message": "x", "images": images or None}
    for message_id in ("m", "\U0001f600" * 128):
        command = cast("Prompt", parse_command({**record, "messageId": message_id}))
        assert message_id == command.messageId
    for message_id in ("", "m" * 129):
        with pytest.raises(CommandError) as refused:
            parse_command({**record, "messageId": message_id})
        assert f"Invalid {name} command: messageId must be a string of 1 to 128 characters" == refused.value.text


def test_a_field_that_a_generation_does_not_have_is_ignored_whatever_it_holds() -> None:
    """R-PRO-02, for the fields that this program adds to commands."""
    record: Json = {"type": "steer", "message": "x", "messageId": 7}

    assert parse_command({"type": "steer", "message": "x"}) == parse_command(record, {"messageId"})


def test_since_of_get_entries_is_a_field_of_the_wire_alone() -> None:
    command = parse_command({"type": "get_entries", "since": "e1"})

    assert "e1" == cast("GetEntries", command).since_entry
    assert "0.80.3" == GetEntries.since


def test_hello_takes_every_profile() -> None:
    for profile in PROFILES:
        command = parse_command({"type": "hello", "protocol": profile})
        assert profile == cast("Hello", command).protocol


def test_nothing_is_loaded_for_a_command_of_scalars_and_models_are_built_on_first_use() -> None:
    """Loading what validates, and building all models, would take longer than anything else at the start."""
    code = (
        "import sys; from pinnace_spec.records import parsing as records\n"
        "records.parse_command({'type': 'get_state'})\n"
        "records.parse_command({'type': 'bash', 'command': 'x'})\n"
        "print('pydantic' in sys.modules)\n"
        "try: records.parse_command({'type': 'bash', 'command': 1})\n"
        "except records.CommandError: pass\n"
        "from pinnace_spec.records.commands import MODELS\n"
        "print(*sorted({m.__name__ for m in MODELS.values() if m.__pydantic_complete__}))"
    )
    root = Path(__file__).parents[3] / "spec"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(root)}, capture_output=True, text=True
    )

    assert ["False", "Bash"] == done.stdout.split()


def test_every_model_describes_its_command() -> None:
    for model in MODELS.values():
        assert issubclass(model, CommandModel)
        assert (model.__doc__ or "").endswith(".")
