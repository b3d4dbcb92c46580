"""The published types: what stands in them, and what the TypeScript compiler says of clients that use them."""

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.source_tree import PYTHONPATH, REPOSITORY

from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_spec import data
from pinnace_spec.generate.schema import bundles
from pinnace_spec.generate.schema.typescript import typescript
from pinnace_spec.generate.source import load

FOLDER = REPOSITORY / "spec" / "typescript"
NODE = REPOSITORY / ".tools" / "node22" / "bin" / "node"
TYPESCRIPT = REPOSITORY / ".tools" / "typescript"
COMPILER = TYPESCRIPT / "lib" / "tsc.js"
FLAGS = ["--strict", "--noEmit", "--skipLibCheck", "--erasableSyntaxOnly", "--target", "es2022", "--module", "nodenext"]
FLAGS += ["--moduleResolution", "nodenext", "--typeRoots", str(TYPESCRIPT / "types"), "--types", "node"]

PROTOCOL = data.text("typescript/protocol.ts")
CLIENT = (FOLDER / "sample_client.ts").read_text(encoding="utf-8")


def test_there_is_a_type_for_every_definition() -> None:
    declared = re.findall(r"^export (?:type|interface) (\w+)", PROTOCOL, re.MULTILINE)

    assert [*bundles.bundle("pi")["$defs"], "ResponseOf"] == declared


def test_rules_and_releases_are_in_the_comments() -> None:
    settled = PROTOCOL[: PROTOCOL.index("export interface AgentSettled")].rsplit("/**", 1)[1]

    assert re.search(r"Rules: .*R-LIM-01", settled)
    assert "Since 0.80.4." in settled


def test_a_rule_that_witnesses_a_type_is_named_in_its_comment() -> None:
    spec = load()
    rule = next(iter(spec.rules.values()))
    text = typescript(spec._replace(rules={rule.id: rule._replace(witness=("schema/pi.json#/$defs/QueueUpdate",))}))

    assert f"Rules: {rule.id}." in text[: text.index("export interface QueueUpdate")].rsplit("/**", 1)[1]


class Client(NamedTuple):
    """A client that is wrong in one place, and what the compiler says of it."""

    old: str
    new: str
    error: str


WRONG = {
    "a_misspelt_field": Client("record.delayMs", "record.delayMS", "Did you mean 'delayMs'?"),
    "a_missing_case": Client(
        '    case "queue_update":\n', "", "type 'QueueUpdate' is not assignable to parameter of type 'never'"
    ),
    "a_missing_step": Client(
        '    case "text_end":\n', "", "type 'TextEnd' is not assignable to parameter of type 'never'"
    ),
    "a_field_of_another_record": Client(
        'case "auto_retry_start":\n      process',
        'case "agent_start":\n      process',
        "'errorMessage' does not exist on type 'AgentStart'",
    ),
    "a_wrong_field_in_a_command": Client(
        "{ message: question }", "{ text: question }", "'text' does not exist in type"
    ),
    "the_data_of_another_answer": Client('agent.ask("get_state", {})', 'agent.ask("get_tree", {})', "on type 'Tree'"),
    "an_unknown_case": Client('case "turn_end":', 'case "turn_over":', "Type '\"turn_over\"' is not comparable"),
}


def replaced(text: str, old: str, new: str) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Compiles the client as it is, wrong in each way, and against records that are otherwise; in one go."""
    if not (COMPILER.is_file() and NODE.is_file()):
        pytest.skip("no .tools/typescript: run scripts/peers")
    folder = tmp_path_factory.mktemp("clients")
    field = "  delayMs: number;\n"
    other = replaced(PROTOCOL, field, field.replace("delayMs", "delay"))
    texts = {"as_it_is": CLIENT, "with_another_protocol": CLIENT.replace('"./protocol"', '"./other"')}
    texts |= {name: replaced(CLIENT, client.old, client.new) for name, client in WRONG.items()}
    for name, text in {"protocol": PROTOCOL, "other": other, **texts}.items():
        (folder / f"{name}.ts").write_text(text, encoding="utf-8")
    command = [str(NODE), str(COMPILER), *FLAGS, *(f"{name}.ts" for name in texts)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    lines = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    return {name: [line for line in lines if line.startswith(f"{name}.ts(")] for name in (*texts, "protocol", "other")}


@pytest.mark.peer
def test_the_sample_client_compiles(errors: dict[str, list[str]]) -> None:
    assert ([], []) == (errors["as_it_is"], errors["protocol"])


@pytest.mark.peer
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_client_does_not_compile(errors: dict[str, list[str]], name: str) -> None:
    assert errors[name]
    assert any(WRONG[name].error in each for each in errors[name]), errors[name]


@pytest.mark.peer
def test_a_record_that_changes_its_fields_makes_the_client_wrong(errors: dict[str, list[str]]) -> None:
    assert any("'delayMs' does not exist" in each for each in errors["with_another_protocol"])


@pytest.mark.peer
def test_the_sample_client_holds_a_conversation(tmp_path: Path) -> None:
    """As it is: node runs the file without a compiler."""
    if not NODE.is_file():
        pytest.skip("no .tools/node22: run scripts/peers")
    with FakeLlm([{"text": "an answer"}]) as llm:
        home = prepare_pi_home(tmp_path / "home", llm.base_url, env={"PYTHONPATH": PYTHONPATH})
        command = [sys.executable, "-P", "-m", "pinnace_rpc", *home.arguments]
        done = subprocess.run(
            [
                str(NODE),
                "--disable-warning=ExperimentalWarning",
                str(FOLDER / "sample_client.ts"),
                "hi",
                "--",
                *command,
            ],
            env=home.env,
            cwd=home.work,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    assert (0, "an answer\n", "m1, 0 messages\n") == (done.returncode, done.stdout, done.stderr)


STRANGE_AGENT = """
import json, sys
def say(**record): print(json.dumps(record), flush=True)
def answer(command, **more): say(type="response", id=command["id"], command=command["type"], **more)
state = json.loads(sys.stdin.readline())
answer(state, success=True, data={"model": None, "messageCount": 0})
prompt = json.loads(sys.stdin.readline())
say(type="of_a_newer_agent", field=1)
say(type="message_update", assistantMessageEvent={"type": "newer_delta"})
say(type="extension_ui_request", id="d", method="newer_dialog")
assert json.loads(sys.stdin.readline()) == {"type": "extension_ui_response", "id": "d", "cancelled": True}
answer(prompt, **json.loads(sys.argv[1]))
assert sys.stdin.readline() == ""
"""


@pytest.mark.peer
@pytest.mark.parametrize(
    ("answer", "code", "stderr"),
    [
        ('{"success": false, "error": "No model selected."}', 1, "no model, 0 messages\nprompt: No model selected.\n"),
        ('{"success": true, "data": {"disposition": "handled"}}', 0, "no model, 0 messages\n"),
    ],
)
def test_the_sample_client_ends_without_a_run_and_ignores_what_it_does_not_know(
    answer: str, code: int, stderr: str
) -> None:
    if not NODE.is_file():
        pytest.skip("no .tools/node22: run scripts/peers")
    client = [str(NODE), "--disable-warning=ExperimentalWarning", str(FOLDER / "sample_client.ts"), "hi", "--"]
    agent = [sys.executable, "-c", STRANGE_AGENT, answer]
    done = subprocess.run([*client, *agent], capture_output=True, text=True, check=False, timeout=60)

    assert (code, "", stderr) == (done.returncode, done.stdout, done.stderr)
