"""The table of members on the page of extensions in TypeScript, beside pi's own types and what an extension gets."""

import json
import re
from collections.abc import Mapping
from typing import Final

import pytest
from tests.rpc.extensions.conftest import Start, call
from tests.source_tree import REPOSITORY

PAGE: Final = REPOSITORY / "docs" / "typescript-extensions.md"
TYPES: Final = REPOSITORY / ".tools" / "pi-1.5.2" / "package" / "dist" / "core" / "extensions" / "types.d.ts"
INTERFACES: Final = {
    "pi": "ExtensionAPI",
    "ctx": "ExtensionContext",
    "ctx of tools": "ExtensionToolContext",
    "ctx of commands": "ExtensionCommandContext",
    "ctx of withSession": "ReplacedSessionContext",
    "ctx.ui": "ExtensionUIContext",
}
EXTENSION: Final = """
export default function (pi) {
  const found = { pi: Object.keys(pi) };
  pi.registerTool({
    name: "reads", description: "reads", parameters: { type: "object", properties: {} },
    async execute(id, params, signal, onUpdate, ctx) {
      found["ctx of tools"] = Object.keys(ctx);
      return { content: [] };
    },
  });
  pi.on("session_start", (event, ctx) => {
    found.ctx ??= Object.keys(ctx);
    found["ctx.ui"] ??= Object.keys(ctx.ui);
  });
  pi.registerCommand("do", { handler: async (args, ctx) => {
    found["ctx of commands"] = Object.keys(ctx);
    await ctx.newSession({ withSession: async (next) => {
      found["ctx of withSession"] = Object.keys(next);
      next.ui.notify(JSON.stringify(found));
    } });
  } });
}
"""


def table() -> Mapping[str, list[str]]:
    """The members of the page, by what they are of."""
    section = PAGE.read_text().partition("\n## Members\n")[2].partition("\n## ")[0]
    rows: dict[str, list[str]] = {}
    for line in section.splitlines():
        if line.startswith("| `"):
            _, owner, members, here, _ = line.split("|")
            assert here.strip(), line
            rows.setdefault(owner.replace("`", "").strip(), []).extend(re.findall(r"`(\w+)`", members))
    return rows


@pytest.mark.skipif(not TYPES.exists(), reason="no pi 1.5.2: scripts/peers judged installs it")
def test_the_page_has_every_member_of_the_types_of_pi() -> None:
    text = TYPES.read_text()
    members: dict[str, list[str]] = {}
    for owner, interface in INTERFACES.items():
        found = re.search(rf"^export interface {interface}\b[^{{]*\{{\n(.*?)^\}}", text, re.S | re.M)
        assert found is not None, interface
        names = re.findall(r"^    (?:readonly )?(\w+)\??[:(<]", found[1], re.M)
        members[owner] = sorted(set(names))
    assert members == {owner: sorted(names) for owner, names in table().items()}


def test_an_extension_gets_every_member_of_the_page(scripted: Start) -> None:
    """In handlers, tools, commands and the new session."""
    one = scripted(EXTENSION, [call("reads"), {"text": "done"}])
    one.say("go")
    one.command("/do")
    found = json.loads(one.notice())
    for owner, names in table().items():
        assert set(names) <= set(found[owner]), owner
