"""The JSON Schema of tasks and results, published as `schema/batch.json`."""

import json

from pydantic import TypeAdapter
from pydantic.json_schema import models_json_schema

from pinnace_spec.batch.results import ResultRecord
from pinnace_spec.batch.tasks import Task
from pinnace_spec.generate.schema.json_schema import PREFIX
from pinnace_spec.generate.schema.schema import DIALECT
from pinnace_spec.generate.source import NOTE, Spec


def batch_schema(_spec: Spec) -> str:
    """Return the text of the file."""
    _, tasks = models_json_schema([(Task, "validation")], ref_template=PREFIX + "{model}")
    result = TypeAdapter(ResultRecord).json_schema(ref_template=PREFIX + "{model}")
    definitions = {**tasks["$defs"], **result.pop("$defs", {}), "ResultRecord": result}
    title = "Tasks and results of pinnace"
    document = {"$schema": DIALECT, "$comment": NOTE, "title": title, "$defs": definitions}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"
