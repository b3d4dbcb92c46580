"""docs/rpc-reference.md describes every command, event, type and error code, and its links lead to its headings."""

import json
import re

import pytest

from pinnace_spec import data
from pinnace_spec.generate.rpc_reference import rpc_reference
from pinnace_spec.generate.source import load
from pinnace_spec.records.commands import MODELS
from pinnace_spec.rules.errors import ErrorCode


@pytest.fixture(scope="module")
def page() -> str:
    return rpc_reference(load())


@pytest.fixture(scope="module")
def headings(page: str) -> list[str]:
    return re.findall(r"^### (.+)$", page, re.MULTILINE)


def slug(heading: str) -> str:
    """The anchor that readers of Markdown give a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("name", MODELS)
def test_every_command_is_described(name: str, headings: list[str]) -> None:
    assert name in headings


def test_every_record_of_the_schema_is_described(headings: list[str]) -> None:
    definitions = json.loads(data.text("schema/pi.json"))["$defs"]
    events = {
        each["properties"]["type"]["const"]
        for each in definitions.values()
        if each.get("x-direction") == "out" and "const" in each.get("properties", {}).get("type", {})
    } - {"response"}

    assert len(events) > 15
    assert events <= set(headings)


def test_every_error_code_is_described(page: str) -> None:
    assert [] == [code for code in ErrorCode if f"| `{code}` | " not in page]


def test_headings_are_unique_and_links_lead_to_them(page: str) -> None:
    anchors = [slug(heading) for heading in re.findall(r"^#+ (.+)$", page, re.MULTILINE)]
    links = set(re.findall(r"\]\(#([^)]+)\)", page))

    assert sorted(set(anchors)) == sorted(anchors)
    assert set() == links - set(anchors)
