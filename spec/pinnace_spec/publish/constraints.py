"""What the validators of the models say beyond single fields, as far as JSON Schema can say it, by definition.

Must follow the validators in `events`, `compactions`, `responses`, `readings` and `records`; a test compares them.
"""

from collections.abc import Mapping
from typing import Final

from pinnace_spec.publish.json_schema import Schema

_IS_RESULT: Final[Schema] = {"properties": {"result": {"type": "object"}}, "required": ["result"]}
_IS_ABORTED: Final[Schema] = {"properties": {"aborted": {"const": True}}}
_HAS_ERROR: Final[Schema] = {"required": ["errorMessage"]}
_TEXT_OR_IMAGES: Final[Schema] = {
    "anyOf": [
        {"properties": {"message": {"minLength": 1}}},
        {"properties": {"images": {"type": "array", "minItems": 1}}, "required": ["images"]},
        {"properties": {"attachments": {"type": "array", "minItems": 1}}, "required": ["attachments"]},
    ]
}
CONSTRAINTS: Final[Mapping[str, Schema]] = {
    "CompactionEnd": {
        "oneOf": [_IS_RESULT, _IS_ABORTED, _HAS_ERROR],
        "if": {"properties": {"willRetry": {"const": True}}},
        "then": {**_IS_RESULT, "properties": {"result": {"type": "object"}, "reason": {"const": "overflow"}}},
    },
    "ShellResult": {
        "oneOf": [
            {"properties": {"cancelled": {"const": True}}},
            {"properties": {"cancelled": {"const": False}}, "required": ["exitCode"]},
        ],
        "if": {"properties": {"cancelled": {"const": True}}},
        "then": {"not": {"required": ["exitCode"]}},
    },
    "AutoRetryEnd": {
        "if": {"properties": {"success": {"const": True}}},
        "then": {"not": {"required": ["finalError"]}},
        "else": {"required": ["finalError"]},
    },
    "AgentSettled": {
        "dependentRequired": {"reason": ["limit"], "limit": ["reason"]},
        "if": {"required": ["limit"]},
        "then": {"properties": {"aborted": {"const": True}}},
    },
    "ContextUsage": {
        "if": {"properties": {"tokens": {"type": "null"}}},
        "then": {"properties": {"percent": {"type": "null"}}},
        "else": {"properties": {"percent": {"type": "number"}}},
    },
    "SessionStatus": {
        "if": {"properties": {"saved": {"const": True}}},
        "then": {"not": {"anyOf": [{"required": ["problem"]}, {"required": ["unsavedEntries"]}]}},
    },
    "PromptCommand": _TEXT_OR_IMAGES,
    "SteerCommand": _TEXT_OR_IMAGES,
    "FollowUpCommand": _TEXT_OR_IMAGES,
    "QueueMessageCommand": _TEXT_OR_IMAGES,
    "SetSessionNameCommand": {"allOf": [{"properties": {"name": {"pattern": "\\S"}}}]},
}
