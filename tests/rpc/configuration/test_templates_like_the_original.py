"""Prompt templates, skills and context files as the original has them: the same files and texts, each through an agent.

What release 1.5.2 made of them is kept in tests/data, so that this runs without it. Where it is present it must still
do so. To record anew, delete the file and run this with the original.
"""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from tests.source_tree import DATA

from pinnace_fuzz.trials.workbench import AgentStarter, HomedAgent

RECORDED: Final = DATA / "templates-of-pi-1.5.2.json"
Answer = dict[str, Any]

TEMPLATES: Final[Mapping[str, str]] = {
    "args": "---\ndescription: d\n---\n1=$1 2=$2 3=$3 10=$10 @=$@ A=$ARGUMENTS\n",
    "slice": "[${@:2}] [${@:1:1}] [${@:0}] [${@:2:9}] [${@:0:1}] [${@:2:0}] [$0] [${@:9}] [${@: 2}] [${@:-1}]",
    "def": "[${1:-x y}] [${2:-}] [${@:-none}] [${ARGUMENTS:-none}] [${1:-$2}] [${1:-a}b}] [${0:-z}] [${1}] [$$1] "
    "[\\$1] [$1a] [$01] [$ARGUMENTSX] [${@}] [${3:-${1}}] [${@:2:-d}] [$@x] [$1$2] [${1:-multi\nline}] [${10:-ten}]",
    "nodesc": "\n\n   first line that is rather long, long enough to be cut at sixty characters or so\nsecond\n",
    "exact60": "x" * 60,
    "x61": "x" * 61,
    "empty": "",
    "crlf": "---\r\ndescription: c\r\nargument-hint: '[x]'\r\n---\r\n\r\nbody $1\r\nmore\r\n\r\n",
    "bom": "\ufeff---\ndescription: b\n---\nbody $1\n",
    "noend": "---\ndescription: n\nbody $1\n",
    "broken": "---\ndescription: [a\n---\nbody $1\n",
    "list": "---\n- a\n---\nbody\n",
    "scalar": "---\njust text\n---\nbody\n",
    "emptyfm": "---\n---\nbody $1\n",
    "descnum": "---\ndescription: 5\n---\nbody\n",
    "descnull": "---\ndescription:\n---\nbody\n",
    "descmulti": "---\ndescription: |\n  a\n  b\n---\nbody\n",
    "descempty": "---\ndescription: ''\n---\nbody\n",
    "trail": "---  \ndescription: t\n---  \nbody\n",
    "dashes4": "----\ndescription: t\n----\nbody\n",
    "fmend": "---\ndescription: e\n---",
    "fmtext": "---\ndescription: e\n---text after\nbody",
    "dup": "---\ndescription: e\ndescription: f\n---\nbody",
    "ws": "  leading and trailing  \n\n",
    "on": "---\ndescription: on\n---\nbody",
    "date": "---\ndescription: 2020-01-01\n---\nbody",
    "anchor": "---\na: &x hi\ndescription: *x\n---\nbody",
    "tag": "---\ndescription: !!js/function 'x'\n---\nbody",
    "Upper Case": "upper",
    "sub/inner": "inner",
    ".hidden": "h",
    "toskill": "/skill:good via template",
}
SKILLS: Final[Mapping[str, str]] = {
    "good/SKILL.md": "---\nname: good\ndescription: Good <skill> & \"so\" 'on'\n---\n\n# Good\nDo it.\n\n",
    "other-dir/SKILL.md": "---\nname: named\ndescription: other\n---\nbody\n",
    "noname/SKILL.md": "---\ndescription: no name\n---\nbody\n",
    "nodesc/SKILL.md": "---\nname: nodesc\n---\nbody\n",
    "blank/SKILL.md": "---\nname: blank\ndescription: '  '\n---\nbody\n",
    "Bad_Name/SKILL.md": "---\ndescription: bad name\n---\nbody\n",
    "hy/SKILL.md": "---\nname: -a--b-\ndescription: hyphens\n---\nbody\n",
    "long/SKILL.md": f"---\nname: {'a' * 65}\ndescription: {'d' * 1025}\n---\nbody\n",
    "hidden/SKILL.md": "---\nname: hidden-one\ndescription: h\ndisable-model-invocation: true\n---\nhidden body\n",
    "hidtext/SKILL.md": "---\nname: hidtext\ndescription: h\ndisable-model-invocation: 'true'\n---\nb\n",
    "broken/SKILL.md": "---\nname: [x\n---\nb\n",
    "numname/SKILL.md": "---\nname: 5\ndescription: numeric name\n---\nb\n",
    "numdesc/SKILL.md": "---\nname: numdesc\ndescription: 5\n---\nb\n",
    "deep/er/SKILL.md": "---\ndescription: deep\n---\nb\n",
    "good/nested/SKILL.md": "---\ndescription: nested in skill\n---\nb\n",
    "root.md": "---\nname: rootskill\ndescription: a root md\n---\nroot body\n",
    "rootnoname.md": "---\ndescription: a root md without name\n---\nroot body\n",
    "plain.md": "plain\n",
    "nonskill/readme.md": "---\ndescription: not root\n---\nb\n",
    "node_modules/x/SKILL.md": "---\ndescription: nm\n---\nb\n",
    ".dot/SKILL.md": "---\ndescription: dot\n---\nb\n",
    ".gitignore": "ignored/\n*.skip.md\n!kept/\n",
    "ignored/SKILL.md": "---\ndescription: ign\n---\nb\n",
    "a.skip.md": "---\nname: skipme\ndescription: ign\n---\nb\n",
    "z/.ignore": "/in\n",
    "z/in/SKILL.md": "---\ndescription: ign2\n---\nb\n",
    "z/out/SKILL.md": "---\ndescription: z out\n---\nb\n",
    "f/.fdignore": "q\n",
    "f/q/SKILL.md": "---\ndescription: ign3\n---\nb\n",
    "lower/skill.md": "---\ndescription: lower\n---\nb\n",
    "multi/SKILL.md": "---\nname: multi\ndescription: >\n  folded\n  text\n---\nbody\n",
    "same1/SKILL.md": "---\nname: same\ndescription: first\n---\nbody\n",
    "same2/SKILL.md": "---\nname: same\ndescription: second\n---\nbody\n",
    "emptybody/SKILL.md": "---\nname: emptybody\ndescription: e\n---\n",
}
OTHERS: Final[Mapping[str, str]] = {
    "agent/AGENTS.md": "\ufeffagent",
    "agent/CLAUDE.md": "not read",
    "CLAUDE.MD": "root",
    "work/AGENTS.override.md": "override",
    "work/AGENTS.md": "not read",
    "work/.pi/prompts/t.md": "not trusted",
    "home/.agents/skills/ag/SKILL.md": "---\ndescription: of all agents\n---\nb\n",
    "home/.agents/skills/root.md": "---\nname: none\ndescription: not of all agents\n---\nb\n",
}
TEXTS: Final = (
    *("/args", "/args a b c", "/args  a   b ", "/args\ta\nb", "/args\na b", '/args it\'s "a b" c', '/args "" x'),
    *('/args a "b c', '/args "the \\"fast\\" path"', "/args 'it\\'s' b", '/args "a"b c', '/args a"b c"', "/args ''"),
    *("/args $@ $1 ${1:-x}", "/args '$1' \"$ARGUMENTS\"", "/args 'a\\b'", '/args "a\\\\"', '/args "\\\\" b"'),
    *("/args 'a''b'", "/args \"a' b\" 'c\" d'", "/args a\u00a0b", "/args a\u3000b", "/args a\u200bb", "/args ' a"),
    *("/args a\x0bb\x0cc\x1cd\x85e\u2028f\ufeffg", "/args 1 2 3 4 5 6 7 8 9 ten", '/args "multi\nline" b', "/args '"),
    *('/args \\"a b', '/args "a" "b', '/args "a\\\' b"', "/args 'a' 'b'c d'", '/args "x"y"z w"', "/slice"),
    *("/slice a b c", "/slice 'a b' c", "/def", "/def p q", "/def '' q", '/def ""', "/crlf z", "/bom z", "/noend z"),
    *("/broken z", "/emptyfm z", "/list", "/scalar", "/trail", "/dashes4", "/fmend", "/fmtext", "/dup", "/ws"),
    *("/empty", "/empty a", "/Upper Case x", "/inner", "/unknown x", " /args x", "//args x", "/", "/ args", "/args/x"),
    *("/ARGS x", "/.hidden", "/nodesc.md", "/args:x", "/toskill", "/t", "/skill:good", "/skill:good  some args "),
    *("/skill:good\nargs", "/skill:good\targs", "/skill:named x", "/skill:other-dir", "/skill:hidden-one go"),
    *("/skill:nope x", "/skill:rootskill a", "/skill:emptybody", "/skill:emptybody x", "/skill:", "/skill"),
    *("/skill:good /args x", "/skill:good $1 <x>", "/skill:ag"),
)


def build(root: Path) -> None:
    """Write the files, in a home that is there."""
    files = {f"agent/prompts/{name}.md": text for name, text in TEMPLATES.items()}
    files |= {f"agent/skills/{name}": text for name, text in SKILLS.items()}
    for name, text in {**files, **OTHERS}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def answers(start: Callable[..., HomedAgent]) -> Answer:
    """Have an agent read the files and take the texts, and return what it made of them."""
    first = start([{"text": [{"gate": "g"}, "x"]}], is_checked=False)
    first.kill()
    build(first.home.root)
    agent = start(again=first, is_checked=False)
    commands = [each for each in agent.ask("get_commands")["commands"] if each["source"] != "extension"]
    agent.ask("prompt", message="go")
    (request,) = agent.llm.wait_requests(1)
    expanded = {text: expansion(agent, text) for text in TEXTS}
    prompt: str = request.body["messages"][0]["content"]
    read = {
        # What both generations have is compared, and the newer one's alone.
        "commands": [{key: each[key] for key in ("name", "description", "source", "sourceInfo")} for each in commands],
        "texts": expanded,
        "context": re.findall(r'<project_instructions path="(.*?)">\n(.*?)\n</project_instructions>', prompt),
        "skills": [
            [text.strip() for text in found]
            for found in re.findall(
                r"<name>(.*?)</name>\s*<description>(.*?)</description>\s*<location>(.*?)</location>", prompt, re.DOTALL
            )
        ],
    }
    agent.kill()
    settled: Answer = json.loads(json.dumps(read).replace(str(agent.home.root), "{root}"))
    # What is above the folder of the test is not the test's.
    settled["context"] = [file for file in settled["context"] if file[0].startswith("{root}")]
    return settled


def expansion(agent: HomedAgent, text: str) -> str:
    mark = agent.mark()
    agent.ask("follow_up", message=text)
    *_, update = agent.found({"type": "queue_update"}, since=mark)
    expanded: str = update["followUp"][-1]
    return expanded


@pytest.fixture(scope="module")
def recorded() -> Answer:
    read: Answer = json.loads(RECORDED.read_text(encoding="utf-8"))
    return read


@pytest.fixture(scope="module")
def ours(module_agent: AgentStarter) -> Answer:
    return answers(module_agent)


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_a_text_becomes_what_the_original_makes_of_it(text: str, ours: Answer, recorded: Answer) -> None:
    assert recorded["texts"][text] == ours["texts"][text]


@pytest.mark.parametrize("what", ["commands", "context", "skills"])
def test_what_is_found_is_what_the_original_finds(what: str, ours: Answer, recorded: Answer) -> None:
    assert recorded[what] == ours[what]


@pytest.mark.peer
@pytest.mark.slow
def test_the_original_still_answers_so(original_pi: list[str], tmp_path: Path) -> None:
    with AgentStarter(original_pi, tmp_path) as start:
        record = answers(start)
    if not RECORDED.exists():
        RECORDED.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    assert record == json.loads(RECORDED.read_text(encoding="utf-8"))
