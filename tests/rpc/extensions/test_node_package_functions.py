"""Functions of pi's packages that have no effect: they return what they return in the original."""

import json

import pytest
from tests.rpc.extensions.conftest import Start
from tests.source_tree import REPOSITORY

TEXT = """
import fs from "node:fs";
import * as whole from "PACKAGE";
export default (pi) => pi.registerCommand("do", { handler: (args, ctx) => {
  const cases = JSON.parse(fs.readFileSync(FILE, "utf8"));
  const plain = (value) => JSON.stringify(value ?? null);
  const failed = cases.filter(({ name, values, value, error }) => {
    try {
      return plain(whole[name](...values)) !== plain(value) || error !== undefined;
    } catch (thrown) {
      return thrown.message !== error;
    }
  });
  ctx.ui.notify(JSON.stringify([cases.length, failed.slice(0, 3)]));
} });
"""


@pytest.mark.parametrize(
    ("package", "file"),
    [
        ("@earendil-works/pi-ai/compat", "pi-ai-functions-of-pi-1.5.2.json"),
        ("@earendil-works/pi-tui", "pi-tui-functions-of-pi-1.5.2.json"),
    ],
)
def test_functions_return_what_they_return_in_the_original(scripted: Start, package: str, file: str) -> None:
    """For some hundred generated values; the script beside the file has asked the original."""
    path = json.dumps(str(REPOSITORY / "tests" / "data" / file))
    one = scripted(TEXT.replace("PACKAGE", package).replace("FILE", path))
    one.command("/do")
    count, failed = json.loads(one.notice())
    assert count > 400
    assert [] == failed


def test_keys_of_the_user_are_those_of_components(scripted: Start) -> None:
    """`getKeybindings` follows `keybindings.json`; a manager of the extension's own has its definitions."""
    one = scripted("""
        import { getKeybindings, KeybindingsManager, TUI_KEYBINDINGS } from "@earendil-works/pi-tui";
        import fs from "node:fs";
        export default (pi) => pi.registerCommand("do", { handler: (args, ctx) => {
          fs.writeFileSync(`${process.env.PI_CODING_AGENT_DIR}/keybindings.json`, '{"tui.select.up": "ctrl+k"}');
          const own = new KeybindingsManager({ go: { defaultKeys: ["g", "h"] } }, { go: "x", none: "x" });
          const id = "tui.select.up";
          ctx.ui.notify(JSON.stringify([getKeybindings().getKeys(id), TUI_KEYBINDINGS[id],
            getKeybindings().matches("\\x0b", id), own.getResolvedBindings(), own.getConflicts()]));
        } });
    """)
    one.command("/do")
    assert [["ctrl+k"], {"defaultKeys": "up"}, True, {"go": "x"}, []] == json.loads(one.notice())
