"""The arguments of the built-in tools: one model a tool, from which comes the JSON schema that models are sent.

Names are those that models write. What is optional is left out, never null, so the schema says nothing of null or of
defaults. Calls are not validated by these models but by their schema, as calls of any other tool are: a failure has to
read alike whoever made the tool, and what is repaired before (null, `"5"` for 5, one edit for a list of one) is more
and less than pydantic would. Imported only when somebody asks for a schema, since pydantic takes long to load. Rule
R-TOL-04.
"""

import functools
from collections.abc import Mapping
from typing import Annotated, Final, TypeGuard

from pydantic import BaseModel, Field
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from pinnace_agent.tools import find, grep, ls

_File = Annotated[str, Field(description="The file, as an absolute path or relative to the working folder")]
_DEFS: Final = "$defs"


class ReadParameters(BaseModel, defer_build=True):
    """What `read` takes."""

    path: _File
    offset: float | None = Field(None, description="The first line to return, counted from 1")
    limit: float | None = Field(None, description="How many lines to return at most")


class BashParameters(BaseModel, defer_build=True):
    """What `bash` takes."""

    command: str = Field(description="The command, as bash reads it")
    timeout: float | None = Field(None, description="Seconds after which it is killed; by default never")


class Replacement(BaseModel, defer_build=True):
    """One of the edits."""

    oldText: str = Field(description="The text to replace, exactly as in the file; unique there")
    newText: str = Field(description="What comes in its place")


class EditParameters(BaseModel, defer_build=True):
    """What `edit` takes."""

    path: _File
    edits: list[Replacement] = Field(description="The replacements, each looked up in the original file")


class WriteParameters(BaseModel, defer_build=True):
    """What `write` takes."""

    path: _File
    content: str = Field(description="The complete content of the file")


class GrepParameters(BaseModel, defer_build=True):
    """What `grep` takes."""

    pattern: str = Field(description="A regular expression as of ripgrep, or a plain text")
    path: str | None = Field(None, description="The folder or file to search; by default the working folder")
    glob: str | None = Field(
        None, description="Only files that it matches, relative to path, e.g. '*.ts' or 'src/**/*.py'"
    )
    ignoreCase: bool | None = Field(None, description="Ignore upper and lower case; by default they matter")
    literal: bool | None = Field(None, description="The pattern is a plain text; by default it is not")
    context: float | None = Field(None, description="Lines to show before and after each match; by default 0")
    limit: float | None = Field(None, description=f"How many matches to return; by default {grep.DEFAULT_LIMIT}")


class FindParameters(BaseModel, defer_build=True):
    """What `find` takes."""

    pattern: str = Field(description="A glob: of names at any depth, e.g. '*.ts', or of paths, e.g. 'src/**/*.test.py'")
    path: str | None = Field(None, description="The folder to search; by default the working folder")
    limit: float | None = Field(None, description=f"How many paths to return; by default {find.DEFAULT_LIMIT}")


class LsParameters(BaseModel, defer_build=True):
    """What `ls` takes."""

    path: str | None = Field(None, description="The folder; by default the working folder")
    limit: float | None = Field(None, description=f"How many entries to return; by default {ls.DEFAULT_LIMIT}")


class _Plain(GenerateJsonSchema):
    """The schema without what only pydantic needs: titles, null, defaults, the docstrings of classes."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        return {name: made[name] for name in ("type", "required", "properties") if name in made}


@functools.cache
def schema_of(parameters: type[BaseModel]) -> Mapping[str, object]:
    """Return the JSON schema of a tool's arguments as models get it: no references, nothing but what constrains."""
    schema = parameters.model_json_schema(schema_generator=_Plain)
    definitions = schema.pop(_DEFS, {})
    return {name: _inlined(value, definitions) for name, value in schema.items()}


def _inlined(value: object, definitions: Mapping[str, object]) -> object:
    if not _is_object(value):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str):
        return _inlined(definitions[reference.removeprefix(f"#/{_DEFS}/")], definitions)
    return {name: _inlined(item, definitions) for name, item in value.items()}


def _is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(value, Mapping)
