"""Extensions in TypeScript and JavaScript: where they are found, how modules are read, and what runs without node."""

import json
import stat
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from shlex import quote

import pytest
from tests.rpc.extensions.conftest import Extended, Start, run_to_end

from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

GREETING = """
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
export default function (pi: ExtensionAPI) {
  pi.on("session_start", (event, ctx) => ctx.ui.notify(`NAME ${event.reason}`));
}
"""


def greeting(name: str) -> str:
    return GREETING.replace("NAME", name)


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def named(agent: AgentStarter, root: Path, word: str, node: str, **options: object) -> Extended:
    return Extended(agent((), "-e", str(root / word), env={"PINNACE_NODE": node}))


@pytest.mark.parametrize(
    ("files", "word"),
    [
        ({"gate.ts": greeting("one")}, "gate.ts"),
        (
            {"gate.mjs": 'export default (pi) => pi.on("session_start", (_, ctx) => ctx.ui.notify("one startup"));'},
            "gate.mjs",
        ),
        (
            {"gate.js": 'module.exports = (pi) => pi.on("session_start", (_, ctx) => ctx.ui.notify("one startup"));'},
            "gate.js",
        ),
        ({"pack/index.ts": greeting("one")}, "pack"),
        ({"pack/package.json": '{"pi": {"extensions": ["./src/own.ts"]}}', "pack/src/own.ts": greeting("one")}, "pack"),
        ({"pack/one.ts": greeting("one"), "pack/lib.mjs": "throw 1;", "pack/types.d.ts": "!"}, "pack"),
        (
            {
                "pack/package.json": '{"pi": {"extensions": ["./extensions"]}}',
                "pack/extensions/a/index.ts": greeting("one"),
            },
            "pack",
        ),
        (
            {
                "pack/package.json": '{"pi": {"extensions": ["./src/*.ts", "!**/old.ts"]}}',
                "pack/src/own.ts": greeting("one"),
                "pack/src/old.ts": "throw 1;",
            },
            "pack",
        ),
        ({"pack/package.json": "{}", "pack/extensions/own.ts": greeting("one")}, "pack"),
        (
            {
                "pack/package.json": '{"main": "./dist/own.ts"}',
                "pack/dist/own.ts": greeting("one"),
                "pack/src/index.ts": greeting("two"),
            },
            "pack",
        ),
    ],
    ids=[
        *("typescript", "module", "common", "index", "manifest", "folder-of-files"),
        *("folder-of-a-package", "patterns-of-a-package", "usual-folder-of-a-package", "main-of-a-package"),
    ],
)
def test_the_command_line_names_files_and_folders(
    agent: AgentStarter, tmp_path: Path, node_program: str, files: Mapping[str, str], word: str
) -> None:
    write(tmp_path / "named", files)
    one = named(agent, tmp_path / "named", word, node_program)
    assert "one startup" == one.notice()
    assert 1 == len(one.frames("notify"))


def again_with(agent: AgentStarter, first: HomedAgent, *flags: str) -> Extended:
    return Extended(agent((), *flags, again=first))


def test_folders_and_settings_are_searched_and_a_project_needs_trust(agent: AgentStarter, node_program: str) -> None:
    """The project's before the user's, as for Python; an untrusted project brings nothing."""
    first = agent(env={"PINNACE_NODE": node_program})
    first.check_end()
    user, project = first.home.agent_dir, first.home.work / ".pi"
    write(user, {"extensions/a.ts": greeting("user"), "elsewhere/set.ts": greeting("setting")})
    (user / "settings.json").write_text(json.dumps({"extensions": ["elsewhere/set.ts"]}))
    write(project, {"extensions/p/index.ts": greeting("project")})
    one = again_with(agent, first)
    assert ["setting startup", "user startup"] == [one.notice(), one.notice()]
    one.pi.check_end()
    two = again_with(agent, first, "--approve")
    assert ["project startup", "setting startup", "user startup"] == [two.notice() for _ in range(3)]


def test_reload_reads_changed_files(agent: AgentStarter, node_program: str) -> None:
    """Also the modules of a file, which a process would keep."""
    first = agent(env={"PINNACE_NODE": node_program})
    first.check_end()
    folder = first.home.agent_dir / "extensions" / "pack"
    text = 'import { word } from "./words";' + greeting("${word}").replace("event.reason", "event.reason")
    write(folder, {"index.ts": text, "words.ts": 'export const word: string = "before";'})
    one = again_with(agent, first)
    assert "before startup" == one.notice()
    write(folder, {"words.ts": 'export const word: string = "after";'})
    assert one.pi.request({"type": "reload"})["success"]
    assert "after reload" == one.notice()


LITERALS = """
import { one, two, three, four, five, six } from "./lib";
import { Unused } from "./lib";
const glob: string = "src/*";
const first = one();
const pattern = /["'`/*]/;
const second = two(/* not three */ 4 / 2);
const text = `it's ${three(`${"}"}`)} /* `;
const ratio = (first.length) / 2; const third = four("// ") /* " */;
const escaped = 'it\\'s /*' + five();
const many = [/[/]*/.source, "*/"].map((each: string): string => each + six()); // Unused
const all = [first, second, text, third, escaped, ...many].join("|");
export default (pi) => pi.on("session_start", (_, ctx) => ctx.ui.notify(all));
/* Unused */
"""


def test_what_a_file_uses_is_told_from_what_its_texts_hold(
    agent: AgentStarter, tmp_path: Path, node_program: str
) -> None:
    """An import is dropped if only types used it: comments, texts and patterns are no uses, and hide none."""
    names = ("one", "two", "three", "four", "five", "six")
    lib = "".join(f'export const {name} = (..._: unknown[]) => "{name}";\n' for name in names)
    write(tmp_path / "pack", {"index.ts": LITERALS, "lib.ts": f"{lib}export interface Unused {{}}"})
    one = named(agent, tmp_path, "pack", node_program)
    assert "one|two|it's three /* |four|it's /*five|[/]*six|*/six" == one.notice()


LISTENER = """
import { word } from "#own/words";
export default (pi) => {
  pi.events.on("asked", (request) => request.reply(`${word} NAME`));
};
"""
ASKER = """
export default (pi) => pi.registerCommand("do", { handler: async (_, ctx) => {
  const replies = [];
  for (const n of [1, 2]) pi.events.emit("asked", { n, reply: (text) => replies.push(`${n} ${text}`) });
  ctx.ui.notify(replies.join());
} });
"""


def test_extensions_of_a_package_share_a_bus_and_names_of_its_files(
    agent: AgentStarter, tmp_path: Path, node_program: str
) -> None:
    """What one emits reaches each other once, and as it is: not also as a copy by way of the agent."""
    files = {
        "package.json": '{"imports": {"#own/*": "./src/*"}, "pi": {"extensions": ["./ext"]}}',
        "src/words.ts": 'export const word: string = "got";',
        "ext/a.ts": LISTENER.replace("NAME", "a"),
        "ext/b.ts": ASKER,
        "ext/c.ts": LISTENER.replace("NAME", "c"),
    }
    write(tmp_path / "pack", files)
    one = named(agent, tmp_path, "pack", node_program)
    one.command("/do")
    assert "1 got a,1 got c,2 got a,2 got c" == one.notice()
    assert not one.errors


def test_modules_are_read_as_pi_reads_them(agent: AgentStarter, tmp_path: Path, node_program: str) -> None:
    """Types without `type`, missing suffixes, `.js` for `.ts`, enums, JSON, CommonJS, TypeScript in node_modules."""
    write(
        tmp_path / "pack",
        {
            "index.ts": """
                import { ExtensionAPI, type Theme } from "@mariozechner/pi-coding-agent";
                import { Shape, area } from "./lib/shapes";
                import { twice } from "./lib/twice.js";
                import data from "./data.json";
                import { third } from "packed";
                import old from "./old.cjs";
                import { Check } from "typebox/value";
                import deep from "deep/lib/part";
                enum Colour { Red = 3 }
                class Kept { constructor(public word: string) {} }
                export default function (pi: ExtensionAPI) {
                  const shape: Shape = { side: 2 };
                  const seen = [area(shape), twice(2), data.five, Colour.Red, new Kept("w").word, third(), old.six,
                    Check(), deep,
                    require("node:path").basename(__filename), __dirname.endsWith("pack")];
                  pi.on("session_start", (_event, ctx) => ctx.ui.notify(seen.join(" ")));
                }
            """,
            "lib/shapes.ts": "export interface Shape { side: number }\nexport const area = (s: Shape) => s.side ** 2;",
            "lib/twice.ts": "export const twice = (n: number): number => 2 * n;",
            "data.json": '{"five": 5}',
            "old.cjs": "exports.six = 6;",
            "node_modules/typebox/package.json": '{"type": "module", "exports": {"./value": "./v.js"}}',
            "node_modules/typebox/v.js": "export const Check = () => 8;",
            "node_modules/deep/package.json": '{"name": "deep"}',
            "node_modules/deep/lib/part.js": "module.exports = require('./more');",
            "node_modules/deep/lib/more/index.js": "module.exports = 9;",
            "node_modules/packed/package.json": '{"name": "packed", "type": "module", "exports": "./index.ts"}',
            "node_modules/packed/index.ts": "export const third = (): number => 7 as number;",
        },
    )
    one = named(agent, tmp_path, "pack", node_program)
    assert "4 4 5 3 w 7 6 8 9 index.ts true" == one.notice()


def test_a_second_start_takes_what_was_stripped_and_compiled(scripted: Start) -> None:
    one = scripted(greeting("one"))
    one.notice()
    cache = Path(one.pi.home.env["HOME"]) / ".cache" / "pinnace" / "node"
    assert 1 == len(list((cache / "stripped").iterdir()))
    assert 0o700 == stat.S_IMODE(cache.stat().st_mode)


@pytest.mark.parametrize("damage", ["cut", "another source", "another file"])
def test_what_was_kept_of_something_else_is_not_taken(
    agent: AgentStarter, tmp_path: Path, node_program: str, damage: str
) -> None:
    write(tmp_path, {"gate.ts": greeting("one")})
    cache = tmp_path / "cache"
    start = partial(agent, (), "-e", str(tmp_path / "gate.ts"))
    env = {"PINNACE_NODE": node_program, "XDG_CACHE_HOME": str(cache)}
    first = Extended(start(env=env)).notice()
    (kept,) = (cache / "pinnace" / "node" / "stripped").iterdir()
    entry = json.loads(kept.read_text())
    entry["code"] = entry["code"].replace("one", "two")
    if damage == "another source":
        entry["source"] += " "
    elif damage == "another file":
        entry["file"] += "x"
    kept.write_text(json.dumps(entry)[: -2 if damage == "cut" else None])

    assert first == Extended(start(env=env)).notice()
    assert json.loads(kept.read_text())["code"] != entry["code"]


def test_a_name_that_is_not_there_fails_when_it_is_used(scripted: Start) -> None:
    """Importing and extending it is no use."""
    one = scripted("""
        import { InteractiveMode, CustomEditor } from "@earendil-works/pi-coding-agent";
        import { Wizard } from "@earendil-works/pi-tui";
        class Mine extends Wizard {}
        class Own extends CustomEditor {}
        export default function (pi) {
          pi.on("session_start", (_event, ctx) => {
            try { new InteractiveMode(); } catch (error) { ctx.ui.notify(error.message); }
          });
        }
    """)
    assert "InteractiveMode of @earendil-works/pi-coding-agent is not available in pinnace" in one.notice()


@pytest.mark.parametrize(
    "taken",
    [
        'import * as whole from "@earendil-works/pi-tui";',
        'const whole = await import("@earendil-works/pi-tui");',
        'import { createRequire } from "node:module"; const whole = require("@earendil-works/pi-tui");',
    ],
    ids=["namespace", "later", "common"],
)
def test_a_module_may_take_a_package_as_a_whole_and_names_of_it(scripted: Start, taken: str) -> None:
    """Also one that we lack; a package that is taken by names has no others."""
    one = scripted(f"""
        import {{ Wizard, visibleWidth }} from "@earendil-works/pi-tui";
        {taken}
        export default function (pi) {{
          pi.on("session_start", (_event, ctx) => {{
            ctx.ui.notify([typeof Wizard, visibleWidth("ab"), whole.visibleWidth("abc"), "Text" in whole].join());
          }});
        }}
    """)
    assert "function,2,3,true" == one.notice()


def test_the_catalog_and_stored_logins_are_read_before_there_is_a_session(scripted: Start, tmp_path: Path) -> None:
    """The catalog is the built-in one: it lacks the provider of the tests' models.json."""
    (tmp_path / "other.json").write_text('\ufeff{"groq": {"type": "api_key", "key": "other"}}')
    one = scripted(
        """
        import { getBuiltinModels } from "@earendil-works/pi-ai/providers/all";
        import { getModel, getModels, getProviders } from "@earendil-works/pi-ai/compat";
        import { readStoredCredential } from "@earendil-works/pi-coding-agent";
        const own = getModels("groq");
        const found = [
          getProviders().includes("groq"), getProviders().includes("PROVIDER"), getModels("PROVIDER").length,
          own.length > 0 && own.length === getBuiltinModels("groq").length, own[0].provider,
          getModel("groq", own[0].id).id === own[0].id, getModel("groq", "no") === undefined,
          readStoredCredential("groq").key, readStoredCredential("groq", "OTHER").key,
          readStoredCredential("no") === undefined, readStoredCredential("groq", "OTHER.not") === undefined,
        ];
        export default (pi) => pi.on("session_start", (_event, ctx) => ctx.ui.notify(JSON.stringify(found)));
        """.replace("OTHER", str(tmp_path / "other.json")).replace("PROVIDER", "fake"),
        files={"auth.json": {"groq": {"type": "api_key", "key": "gsk"}}},
    )
    expected = [True, False, 0, True, "groq", True, True, "gsk", "other", True, True]
    assert expected == json.loads(one.notice())


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("export default function () { throw new TypeError('no gate'); }", "extension.ts: no gate"),
        ("export const x = 1;", "does not export a valid factory function"),
        ("import 'nothing-there'; export default () => {};", "Cannot find package 'nothing-there'"),
        (
            "export default (pi) => pi.registerTool({ name: 'a b', description: 'd', parameters: {}, execute() {} });",
            "a tool's name",
        ),
        ("export default (pi) => pi.registerCommand('x', {});", "must define handler()"),
        ("export default (pi) => pi.sendUserMessage('x');", "there is no session yet"),
        ("export default {", "extension.ts"),
    ],
    ids=["throws", "no-function", "no-package", "tool-name", "command", "too-early", "syntax"],
)
def test_an_extension_that_can_not_be_loaded_is_named_with_its_error(scripted: Start, text: str, error: str) -> None:
    """It may be a gate, so the process does not start without it."""
    one = scripted(text, is_checked=False)
    assert 1 == one.pi.wait_exit()
    assert error in one.pi.stderr_text
    assert "extension.ts" in one.pi.stderr_text


def old_node(folder: Path) -> str:
    """A program whose first message is that of an old node, and which does nothing else."""
    path = folder / "old-node"
    message = '{"type": "ready", "version": "v20.20.2", "isUsable": false}'
    answering = f"import os, sys; os.write(int(sys.argv[4]), b'{message}\\n'); sys.stdin.read()"
    path.write_text(f'#!/bin/sh\nexec {quote(sys.executable)} -c {quote(answering)} "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("PINNACE_NODE", "/nowhere/node", "PINNACE_NODE is /nowhere/node, which is no program"),
        ("PINNACE_NODE", "old-node", "old-node is v20.20.2, which is too old: install Node 22.18"),
        *(
            ("PINNACE_NODE_HANG_S", value, f"PINNACE_NODE_HANG_S must be a number of seconds above 0, not '{value}'")
            for value in ("6O", "0", "-1", "nan", "inf")
        ),
    ],
)
def test_without_a_node_they_are_left_out_and_the_others_run(
    agent: AgentStarter, tmp_path: Path, name: str, value: str, expected: str
) -> None:
    """With a warning that each client sees, and the reason in the state; so they are with a guard that is set wrong."""
    first = agent(env={name: old_node(tmp_path) if value == "old-node" else value})
    first.check_end()
    folder = first.home.agent_dir / "extensions"
    write(
        folder,
        {"theirs.ts": greeting("one"), "own.py": "def extension(pi):\n    pi.command('own')(lambda ctx, args: None)\n"},
    )
    one = again_with(agent, first)
    state = one.pi.ask("get_state")
    [left_out] = state["extensionsLeftOut"]
    assert str(folder / "theirs.ts") == left_out["path"]
    assert expected in left_out["reason"]
    [warning] = [each for each in state["warnings"] if each["kind"] == "extension"]
    assert expected in warning["text"]
    assert expected in one.pi.stderr_text
    assert ["own"] == [each["name"] for each in one.pi.ask("get_commands")["commands"]]


def test_one_that_the_command_line_names_needs_a_node(extended: Start, tmp_path: Path) -> None:
    path = tmp_path / "gate.ts"
    path.write_text(greeting("one"))
    one = extended(path, (), is_checked=False, env={"PINNACE_NODE": "/nowhere/node"})
    assert 1 == one.pi.wait_exit()
    assert "gate.ts: is written in TypeScript or JavaScript, and PINNACE_NODE is /nowhere/node" in one.pi.stderr_text


def test_a_file_that_everybody_can_write_to_is_refused(scripted: Start, tmp_path: Path) -> None:
    path = tmp_path / "extension.ts"
    path.write_text("")
    path.chmod(0o666)
    one = scripted(greeting("one"), is_checked=False)
    assert 1 == one.pi.wait_exit()
    assert "is writable by everyone" in one.pi.stderr_text


def test_options_and_models_are_listed_without_a_session(
    agent: AgentStarter, tmp_path: Path, node_program: str
) -> None:
    """`--help` and `--list-models` load them, and start nothing else of them."""
    path = tmp_path / "listed.ts"
    path.write_text("""
        export default (pi) => {
          pi.registerFlag("loud", { type: "boolean", description: "Speak up" });
          pi.registerProvider("mine", { baseUrl: "http://127.0.0.1:9", apiKey: "k", api: "openai-completions", models: [
            { id: "own-model", name: "M", reasoning: false, input: ["text"], contextWindow: 1000, maxTokens: 100,
              cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 } }] });
          pi.on("session_start", () => { throw new Error("never"); });
        };
    """)
    first = agent(env={"PINNACE_NODE": node_program})
    first.check_end()
    assert "--loud  Speak up" in run_to_end(first.home, "--help", "-e", str(path)).stdout
    listed = run_to_end(first.home, "--list-models", "own-model", "-e", str(path))
    assert "own-model" in listed.stdout
    assert "" == listed.stderr
