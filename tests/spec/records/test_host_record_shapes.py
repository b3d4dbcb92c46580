"""The published shapes of the records of a durable host: closed, and the same for the models and the schema."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from pinnace_spec import data
from pinnace_spec.host.records import HOST_RECORDS

RECORDS: list[dict[str, Any]] = [
    {
        "type": "attached",
        "agent": "main",
        "protocol": "pi",
        "hostVersion": "0.1.0",
        "sessionId": None,
        "sessionFile": None,
        "journal": "5f",
        "epoch": 0,
        "seq": 0,
        "replay": "none",
        "clients": 1,
        "knownClient": False,
    },
    {
        "type": "agent_restarted",
        "epoch": 2,
        "reason": "crash",
        "complete": False,
        "interrupted": True,
        "pendingMessageCount": 0,
    },
    {"type": "truncated", "from": "5f.1:0", "to": "5f.2:17"},
    {"seq": 3, "type": "extension_ui_resolved", "id": "d1", "reason": "answered"},
]
SCHEMA = Draft202012Validator(json.loads(data.text("schema/host.json")) | {"$ref": "#/$defs/HostRecord"})


def is_accepted(record: dict[str, Any]) -> bool:
    try:
        HOST_RECORDS[record["type"]].model_validate(record)
    except ValidationError:
        is_valid = False
    else:
        is_valid = True
    assert is_valid == (not [*SCHEMA.iter_errors(record)]), record  # pyright: ignore[reportUnknownMemberType]
    return is_valid


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: str(record["type"]))
def test_a_record_is_accepted_as_it_is_and_with_no_other_field(record: dict[str, Any]) -> None:
    """R-HST-05."""
    assert is_accepted(record)
    assert not is_accepted({**record, "other": 1})
    for name in record.keys() - {"type"}:
        assert not is_accepted({key: value for key, value in record.items() if key != name}), name
        assert not is_accepted({**record, name: [0]}), name


def test_every_record_is_there() -> None:
    assert [each["type"] for each in RECORDS] == list(HOST_RECORDS)
