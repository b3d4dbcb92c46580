"""The recordings that the reference shows are what this program writes today."""

from pathlib import Path

import pytest
from tests.rpc.conftest import COMMAND, ENVIRONMENT

from pinnace_campaigns.examples.__main__ import record
from pinnace_campaigns.examples.commands import COMMAND_EXAMPLES
from pinnace_spec import data
from pinnace_spec.records.commands import MODELS

# One of each kind: a run, a queue, a shell, a session with ids and paths, a refused delay, a dialog.
FRESH = ("prompt", "steer", "bash", "get_tree", "switch_session", "abort_retry", "extension_ui_response")
EXAMPLES = {conversation.title: conversation for conversation in COMMAND_EXAMPLES}


def test_every_command_has_an_example() -> None:
    assert sorted(MODELS) == sorted(EXAMPLES)


@pytest.mark.parametrize("name", FRESH)
def test_a_recording_of_today_is_the_one_that_is_kept(name: str, tmp_path: Path) -> None:
    """A change that is wanted: `python -P -m pinnace_campaigns.examples spec/examples commands/ -- pinnace`."""
    conversation = EXAMPLES[name]

    assert data.text(f"examples/{conversation.name}.jsonl") == record(conversation, COMMAND, tmp_path, ENVIRONMENT)
