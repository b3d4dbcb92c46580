"""The JSON Schema of the records of a durable host, which are the same in every profile: `schema/host.json`."""

import json

from pinnace_spec.generate.schema.json_schema import PREFIX, Schema, one_of, pascal, rewritten
from pinnace_spec.generate.schema.schema import DIALECT
from pinnace_spec.generate.source import NOTE, Spec
from pinnace_spec.host.records import HOST_RECORDS


def host_schema(_spec: Spec) -> str:
    """Return the text of the file."""
    definitions = {
        pascal(kind): rewritten(model.model_json_schema(ref_template=PREFIX + "{model}"), _without_title)
        for kind, model in HOST_RECORDS.items()
    }
    names = {kind: pascal(kind) for kind in HOST_RECORDS}
    definitions["HostRecord"] = {"description": "A record of the host.", **one_of(names, "type")}
    document = {"$schema": DIALECT, "$comment": NOTE, "title": "Records of a durable host", "$defs": definitions}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _without_title(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "title"}
