"""Makes a page for each record of the published schema: its fields in a table, its parts, the schema itself."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from typing import Any, Final, cast

from pinnace_spec import data
from pinnace_spec.generate.site.markdown import Page

SCHEMA: Final = "schema/pi.json"


@cache
def definitions() -> Mapping[str, Any]:
    """Return every definition of the schema by name; none where there is no schema."""
    if not data.has(SCHEMA):
        return {}
    found: Mapping[str, Any] = json.loads(data.text(SCHEMA))["$defs"]
    return found


def record_pages() -> dict[str, Page]:
    """Make a page for each definition of the schema, and one that lists them by direction."""
    found = definitions()
    used: dict[str, list[str]] = {}
    for name, definition in found.items():
        for other in _references(definition):
            used.setdefault(other, []).append(name)
    pages = {f"records/{name}.html": _record(name, each, used.get(name, [])) for name, each in found.items()}
    groups = {"To the agent": "in", "From the agent": "out", "Parts of both": None}
    lines = ["<h1>Records</h1>", f'<p>Those of profile <code>pi</code>, from <a href="../{SCHEMA}">its schema</a>.</p>']
    for title, direction in groups.items():
        names = [name for name, each in found.items() if each.get("x-direction") == direction]
        items = "".join(f'<li><a href="{name}.html">{name}</a></li>' for name in sorted(names))
        lines += [f"<h2>{title}</h2>", f'<ul class="records">{items}</ul>']
    return {"records/index.html": Page("Records", "\n".join(lines), []), **pages}


def _record(name: str, definition: Mapping[str, Any], used: Sequence[str]) -> Page:
    lines = [f"<h1>{name}</h1>"]
    if description := definition.get("description"):
        lines.append(f"<p>{prose(description)}</p>")
    if rules := definition.get("x-rules"):
        links = (f'<a href="../rules.html#{rule.lower()}">{rule}</a>' for rule in rules)
        lines.append(f"<p>Rules: {', '.join(links)}</p>")
    lines.append(fields_table(definition, ""))
    if parts := [*_references(definition)]:
        lines.append(f"<p>Made of: {', '.join(_linked(each) for each in dict.fromkeys(parts))}</p>")
    if used:
        lines.append(f"<p>Part of: {', '.join(_linked(each) for each in dict.fromkeys(used))}</p>")
    text = json.dumps(definition, indent=2, ensure_ascii=False)
    lines.append(f"<h2>JSON Schema</h2><pre><code>{escape(text)}</code></pre>")
    return Page(name, "\n".join(lines), [])


def fields_table(definition: Mapping[str, Any], root: str) -> str:
    """Write the fields of a definition as a table, or nothing; `root` leads to the folder of the records' pages."""
    properties = definition.get("properties")
    if not properties:
        return ""
    required = set(definition.get("required", ()))
    rows = "".join(
        f"<tr><td><code>{escape(key)}</code></td><td>{'always' if key in required else 'may be absent'}</td>"
        f"<td>{_kind(each, root)}</td><td>{prose(each.get('description', ''))}</td></tr>"
        for key, each in properties.items()
    )
    head = "<tr><th>field</th><th>there</th><th>is</th><th>meaning</th></tr>"
    return f'<div class="wide"><table>{head}{rows}</table></div>'


def prose(text: str) -> str:
    """Return text with what stands in backquotes marked as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))


def _linked(name: str, root: str = "") -> str:
    return f'<a href="{root}{name}.html">{name}</a>'


def _kind(schema: Mapping[str, Any], root: str) -> str:
    """Say in a few words what a field may be."""
    if reference := schema.get("$ref"):
        return _linked(str(reference).rpartition("/")[2], root)
    if "const" in schema:
        return f"<code>{escape(json.dumps(schema['const'], ensure_ascii=False))}</code>"
    if "enum" in schema:
        return ", ".join(f"<code>{escape(json.dumps(each, ensure_ascii=False))}</code>" for each in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(_kind(each, root) for each in schema[key])
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'], root)}" if isinstance(schema.get("items"), dict) else "list"
    kind = schema.get("type", "anything")
    return escape(" or ".join(cast("list[str]", kind)) if isinstance(kind, list) else str(kind))


def _references(value: object) -> Iterable[str]:
    if isinstance(value, dict):
        for key, each in cast("dict[str, object]", value).items():
            if key == "$ref" and isinstance(each, str):
                yield each.rpartition("/")[2]
            elif key != "mapping":
                yield from _references(each)
    elif isinstance(value, list):
        for each in cast("list[object]", value):
            yield from _references(each)
