"""Writes what is published of the specification, or checks that it is fresh.

`python -m pinnace_spec.generate` writes; with `--check` it only compares and exits 1 on a difference, naming each file;
names after it (`chart.mmd`, `schema/`) limit both to some. Works in a checkout, and until everything is fresh: some
files are made of tables that are generated themselves. What it writes is never edited by hand;
each file says so. A new one is one line in `FILES` or `FOLDERS`, and a function in `publish/`.
"""

import runpy
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pinnace_spec import data
from pinnace_spec.generate.client.methods import blocking_client_methods, client_methods
from pinnace_spec.generate.client.records import event_types, reply_types, ui_request_types
from pinnace_spec.generate.command_table import command_dates, command_table
from pinnace_spec.generate.drawing import matrix, mermaid_file, with_drawing
from pinnace_spec.generate.meta import meta
from pinnace_spec.generate.promela.promela import run_model, shells_model, tools_model
from pinnace_spec.generate.promela.properties import properties_file
from pinnace_spec.generate.quint import quint
from pinnace_spec.generate.reference import reference
from pinnace_spec.generate.rpc_reference import rpc_reference
from pinnace_spec.generate.schema.asyncapi import asyncapi
from pinnace_spec.generate.schema.batch_schema import batch_schema
from pinnace_spec.generate.schema.host_schema import host_schema
from pinnace_spec.generate.schema.schema import bundles
from pinnace_spec.generate.schema.typescript import typescript
from pinnace_spec.generate.scxml import scxml
from pinnace_spec.generate.source import COMMAND, NOTE, FolderPublisher, Publisher, Spec, load
from pinnace_spec.generate.svg import svg_file

FILES: Final[Mapping[str, Publisher]] = {
    "asyncapi.yaml": asyncapi,
    "chart.mmd": mermaid_file,
    "chart.qnt": quint,
    "chart.scxml": scxml,
    "chart.svg": svg_file,
    "matrix.md": matrix,
    "meta.json": meta,
    "model/properties.toml": properties_file,
    "model/run.pml": run_model,
    "model/shells.pml": shells_model,
    "model/tools.pml": tools_model,
    "reference.md": reference,
    "schema/batch.json": batch_schema,
    "schema/host.json": host_schema,
    "typescript/protocol.ts": typescript,
}
"""Published files, by their name in `spec/`."""

FOLDERS: Final[Mapping[str, FolderPublisher]] = {
    "schema": bundles,
}
"""Published folders of `spec/`: the function returns every generated file in it; others may lie beside them."""

PAGE: Final = "../docs/specification.md"
"""Holds a drawing between two marks; the rest is written by hand."""

RPC_REFERENCE: Final = "../docs/rpc-reference.md"
"""A page of the documentation that is generated as a whole."""

CLIENT: Final = "../rpc/pinnace_rpc/client"

MODULES: Final[Mapping[str, Publisher]] = {
    "pinnace_spec/records/command_table.py": command_table,
    "pinnace_spec/profiles/command_dates.py": command_dates,
    f"{CLIENT}/commands.py": client_methods,
    f"{CLIENT}/blocking_commands.py": blocking_client_methods,
    f"{CLIENT}/records/events.py": event_types,
    f"{CLIENT}/records/replies.py": reply_types,
    f"{CLIENT}/records/ui_requests.py": ui_request_types,
}
"""Modules of this package, and of the Python client."""


def published(spec: Spec) -> dict[str, str]:
    """Return every generated file by its name in `spec/`, with what should be in it."""
    contents = {name: publish(spec) for name, publish in FILES.items()}
    for folder, publish in FOLDERS.items():
        contents |= {f"{folder}/{name}": content for name, content in publish(spec).items()}
    if data.has(PAGE):
        contents[PAGE] = with_drawing(data.text(PAGE), spec)
        contents[RPC_REFERENCE] = rpc_reference(spec)
        contents |= {name: publish(spec) for name, publish in MODULES.items()}
    return contents


def outputs() -> dict[Path, str]:
    """Return every generated file of this checkout with what should be in it."""
    return {data.FOLDER / name: content for name, content in published(load()).items()}


def left_over(contents: Mapping[str, str]) -> list[str]:
    """Return the files that say they are generated, and are not, or not any more."""
    return sorted(
        name
        for path in data.FOLDER.rglob("*")
        if path.is_file()
        and path.suffix not in {".py", ".pyc"}
        and (name := str(path.relative_to(data.FOLDER))) not in contents
        and NOTE in path.read_text(encoding="utf-8", errors="replace")[:2000]
    )


def main(arguments: list[str]) -> int:
    """Write or check; return the exit code."""
    if not data.IS_CHECKOUT:
        sys.stderr.write("there is nothing to generate from: this is not a checkout\n")
        return 2
    is_check = "--check" in arguments
    wanted = tuple(argument for argument in arguments if argument != "--check")
    contents = published(load())
    stale = [name for name, content in contents.items() if not data.has(name) or data.text(name) != content]
    strange = left_over(contents)
    if wanted:
        stale = [name for name in stale if name.startswith(wanted)]
        strange = [name for name in strange if name.startswith(wanted)]
    for name in stale:
        if is_check:
            sys.stderr.write(f"stale: {name}; run {COMMAND}\n")
        else:
            (data.FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
            (data.FOLDER / name).write_text(contents[name], encoding="utf-8")
            sys.stderr.write(f"wrote {name}\n")
    for name in strange:
        sys.stderr.write(f"left over: {name}; nothing generates it, remove it\n")
    if not is_check and any(name in MODULES for name in stale):
        _begin_again()
    return 1 if strange or (is_check and stale) else 0


def _begin_again() -> None:
    """Run this program once more: other files are made of what these modules say, which are loaded as they were."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "pinnace_spec"]:
        del sys.modules[name]
    runpy.run_module("pinnace_spec.generate", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
