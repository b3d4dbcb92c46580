"""What pi's packages export, what pinnace has in their place, and what the page says is missing.

`pinnace_campaigns.packages.exports` writes the names down.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from typing import Final

import pytest
from tests.rpc.extensions.conftest import Start
from tests.source_tree import REPOSITORY

from pinnace_campaigns.packages.exports import FILE

PAGE: Final = REPOSITORY / "docs" / "typescript-extensions.md"
RUNNER: Final = REPOSITORY / "agent" / "pinnace_agent" / "node_extensions" / "runner"
EXPORTS: Final[Mapping[str, str]] = json.loads(FILE.read_text(encoding="utf-8"))
MODULES: Final = {"pi-coding-agent": "coding-agent", "pi-ai": "ai", "pi-agent-core": "agent-core", "pi-tui": "tui"}
OURS: Final = """
const modules = JSON.parse(process.argv[1]);
const names = Object.entries(modules).map(([name, file]) => [name, Object.keys(require(file))]);
console.log(JSON.stringify(Object.fromEntries(names)));
process.exit(0);
"""


def missing_by_the_page() -> dict[str, list[str]]:
    """The names of the page, by package."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Missing names\n")[2].partition("\n## ")[0]
    rows: dict[str, list[str]] = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            _, package, names, instead, _ = line.split("|")
            assert instead.strip(), line
            rows.setdefault(package.strip("` "), []).extend(re.findall(r"`(\w+)`", names))
    return rows


@pytest.fixture(scope="module")
def ours(node_program: str) -> dict[str, set[str]]:
    """The names that ours have, by package."""
    files = json.dumps({name: str(RUNNER / "modules" / f"{file}.cjs") for name, file in MODULES.items()})
    done = subprocess.run([node_program, "--eval", OURS, "--", files], capture_output=True, text=True, check=True)
    return {name: set(names) for name, names in json.loads(done.stdout).items()}


@pytest.mark.parametrize("package", MODULES)
def test_the_page_lists_the_names_that_are_missing(package: str, ours: dict[str, set[str]]) -> None:
    """Of all modules of the package."""
    exported = {each for name, names in EXPORTS.items() if name.partition("/")[0] == package for each in names.split()}
    assert sorted(missing_by_the_page()[package]) == sorted(exported - ours[package])


KEYS: Final[Mapping[str, str | None]] = {
    "a": None,
    "\x1b[97u": "a",
    "\x1b[97:65;2u": "A",
    "\x1b[97:65:99;2:1u": "A",
    "\x1b[97;5u": None,
    "\x1b[97;9u": None,
    "\x1b[13u": None,
    "\x1b[127u": None,
    "\x1b[57399u": "0",
    "\x1b[57413u": "+",
    "\x1b[57414u": None,
    "\x1b[233;1u": "é",
    "\x1b[1114113u": None,
}


def test_what_lists_and_fields_of_extensions_ask_of_keys(scripted: Start) -> None:
    """As `pi-tui` does, but that Delete is no character."""
    one = scripted(f"""
        import * as tui from "@earendil-works/pi-tui";
        export default (pi) => pi.on("session_start", (_event, ctx) => {{
          const bindings = tui.getKeybindings();
          const paged = (data, from) => tui.getSelectPageIndex(bindings, data, from, 10, 4) ?? null;
          ctx.ui.notify(JSON.stringify([
            {json.dumps(list(KEYS))}.map((data) => tui.decodeKittyPrintable(data) ?? null),
            [paged("\\x1b[6~", 3), paged("\\x1b[6~", 8), paged("\\x1b[5~", 3), paged("x", 3)],
            bindings.matches("\\r", "tui.select.confirm"),
            tui.stripTerminalSequences("\\x1b[31mred\\x1b[0m \\x1b]8;;http://x\\x07link\\x1b]8;;\\x07"),
          ]));
        }});
    """)
    assert [list(KEYS.values()), [7, 9, 0, None], True, "red link"] == json.loads(one.notice())


def test_a_missing_name_throws_when_it_is_used(scripted: Start) -> None:
    """It can be imported, extended, and compared, as those of packages that only mention it are."""
    names = missing_by_the_page()
    imports = [f'import {{ {", ".join(each)} }} from "@earendil-works/{name}";' for name, each in names.items()]
    every = sorted({each for listed in names.values() for each in listed})
    one = scripted(f"""
        {" ".join(imports)}
        class Mine extends DefaultPackageManager {{}}
        const all = {{ {", ".join(every)} }};
        const refusal = (run) => {{ try {{ run(); return "done"; }} catch (error) {{ return error.message; }} }};
        export default (pi) => pi.on("session_start", (_event, ctx) => {{
          const used = Object.entries(all).flatMap(([name, value]) =>
            [() => value(), () => new value(), () => value.member].map((run) => [name, refusal(run)]));
          ctx.ui.notify(JSON.stringify([...used, ["DefaultPackageManager", refusal(() => new Mine())]]));
        }});
    """)
    used = json.loads(one.notice())
    assert 3 * len(every) + 1 == len(used)
    assert [] == [(name, text) for name, text in used if not text.startswith(f"{name} of @earendil-works/")]
