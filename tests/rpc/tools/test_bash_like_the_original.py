"""bash as the original has it: the same commands, each through a whole agent.

What release 1.5.2 answered is kept in tests/data, so that this runs without it. Where it is present it must still
answer so. To record anew, delete the file and run this with the original.
"""

from pathlib import Path
from typing import Final

import pytest
from tests.rpc.tools.recorded_tool import Comparison, RecordedTool

from pinnace_campaigns.trials.tool_trials import FileContent, Trial, shortened

# So few that no command waits long for its turn on a small machine: some have a time limit.
CALLS_A_TURN: Final = 12
SETTINGS: Final = {"shellCommandPrefix": "PREFIX=set"}
# What a run that is inside of another one would hand down.
OUTER: Final = {"PI_SESSION_FILE": "/outer", "PI_SESSION_ID": "outer", "PI_MODEL": "outer", "OUTER": "kept"}


def bash(command: object, /, files: dict[str, FileContent] | None = None, **args: object) -> Trial:
    return Trial("bash", {"command": command, **args}, files or {}, {})


def differs(trial: Trial, why: str, **ours: object) -> Trial:
    return trial._replace(ours=ours, why=why)


PARTIAL: Final = "[Showing last 50.0KB of line {} (line is {}). Full output: {{output}}]"
COUNTED: Final = "".join(f"{number}\n" for number in range(1, 2002))
LAST_LINE: Final = "The last line is as long as it is, also when a line break ends it; the original says 0B."
TIMED_OUT: Final = "What was cut, and where all of it is, is told of a command that timed out as of any other."
NULL: Final = "null for a text is an empty one, not the word."
CONTROLS: Final = "Control characters, which strict providers refuse, take effect as on a terminal."
OWN_WORDS: Final = "What no system says but a runtime is said in words of our own."

TRIALS: Final = (
    # Output and how commands end.
    bash("echo hello"),
    bash("printf hello"),
    bash("true"),
    bash("printf '\\n'"),
    bash("printf '\\n\\n  \\n'"),
    bash("printf '  leading and trailing  \\n\\n'"),
    bash("exit 3"),
    bash("echo out; exit 3"),
    bash("printf out; exit 255"),
    bash("false"),
    bash("exit 256"),
    bash("exit -1"),
    bash("echo out; sleep 0.3; echo err >&2; sleep 0.3; echo out"),
    bash("echo err >&2; exit 1"),
    bash("kill -TERM $$"),
    bash("echo out; kill -KILL $$"),
    bash("kill -SEGV $$; echo never"),
    bash("{ sh -c 'kill -TERM $$'; } 2> /dev/null; echo $?"),
    bash("trap 'echo trapped; exit 7' EXIT; echo out"),
    bash("no-such-command-anywhere"),
    bash("./f", {"f": "no program"}),
    bash("if then"),
    bash("echo $0 $# $-"),
    bash("cd {c} && ls", {"b": "", "a": ""}),
    bash("pwd"),
    bash("cd / && pwd; true"),
    bash("pwd"),
    bash("cat; echo $?"),
    bash("read x; echo $?"),
    bash("[ -t 0 ] || [ -t 1 ] || [ -t 2 ] || echo no terminal"),
    bash("ps -o pgid= -p $$ | tr -d ' ' | grep -qx $$ && echo leads its group"),
    bash("ps -o sid= -p $$ | tr -d ' ' | grep -qx $$ && echo leads its session"),
    bash("shopt -q login_shell || echo no login shell"),
    bash("echo one\necho two\n"),
    bash("cat <<END\nhere\nEND"),
    bash("echo 'it''s' \"$((1+1))\" `echo x`"),
    bash(""),
    bash("   "),
    bash("# nothing"),
    differs(bash("echo é 😀; printf 'a\\0b'"), CONTROLS, content=["é 😀\nab"]),
    bash("printf '\\xff\\xfe a\\xc3'"),
    bash("printf '\\xf0\\x9f'; sleep 0.3; printf '\\x98\\x80'"),
    differs(bash("printf '\\033[31mred\\033[0m \\007 \\b x\\r\\ny\\rz'"), CONTROLS, content=["red   x\nz"]),
    bash("printf '\\xef\\xbb\\xbfmark\\n'"),
    # Background processes.
    bash("sleep 3 & echo started"),
    # Not much later, since the silence after the exit that ends the wait is a tenth of a second: without a program,
    # which a busy machine may take longer to start.
    bash("echo early; (read -rt 0.01 _ <> <(:); echo late) &"),
    bash("nohup sleep 3 > /dev/null 2>&1 & echo free"),
    bash("sleep 30 > /dev/null 2>&1 & wait -n; exit 4", timeout=1),
    bash("setsid sleep 1 & echo out"),
    # Limits.
    bash("seq 2000"),
    bash("seq 2001"),
    bash("seq 2000 | tr -d '\\n' | head -c 4; seq 2001"),
    bash("seq 100000"),
    bash("seq 2001 | head -c -1"),
    bash("seq 2001; exit 5"),
    bash("head -c 51200 /dev/zero | tr '\\0' x"),
    bash("head -c 51199 /dev/zero | tr '\\0' x; echo"),
    bash("head -c 51200 /dev/zero | tr '\\0' x; echo"),
    bash("head -c 51201 /dev/zero | tr '\\0' x"),
    differs(
        bash("head -c 51201 /dev/zero | tr '\\0' x; echo"),
        LAST_LINE,
        content=[shortened(f"{'x' * 51_200}\n\n{PARTIAL.format(1, '50.0KB')}")],
    ),
    bash("head -c 60000 /dev/zero | tr '\\0' x; exit 1"),
    bash("head -c 60000 /dev/zero | tr '\\0' x; echo; echo end"),
    bash("echo begin; head -c 60000 /dev/zero | tr '\\0' x"),
    differs(
        bash("echo begin; head -c 200000 /dev/zero | tr '\\0' x; echo"),
        LAST_LINE,
        content=[shortened(f"{'x' * 51_200}\n\n{PARTIAL.format(2, '195.3KB')}")],
    ),
    bash("for i in $(seq 100); do printf '%1023d\\n' $i; done"),
    bash("for i in $(seq 3000); do printf '%030d\\n' $i; done"),
    bash("for i in $(seq 2000); do printf '%025d\\n' $i; done"),
    bash("for i in $(seq 20000); do printf 'é€'; done"),
    bash("for i in $(seq 13000); do printf '😀'; done; printf 'a'"),
    bash("head -c 20000 /dev/zero | tr '\\0' '\\377'"),
    bash("head -c 60000 /dev/zero | tr '\\0' '\\377'; sleep 0.2; printf '\\376'"),
    bash("seq 2500; printf '\\n\\n'"),
    differs(bash("seq 3000 | tr '\\n' '\\r'"), CONTROLS, content=["3000"]),
    bash("head -c 3000 /dev/zero | tr '\\0' '\\n'"),
    # Time limits: what is said before has seconds for it, since a dozen start at once and the machine may be busy.
    bash("echo quick", timeout=10),
    bash("echo out; sleep 30", timeout=5),
    bash("sleep 30", timeout=1.5),
    bash("sleep 30", timeout=0.25),
    differs(
        bash("seq 2001; sleep 30", timeout=5),
        TIMED_OUT,
        output=f"{shortened(COUNTED)} 600",
        details={
            "truncation": {
                "content": len(COUNTED) - 3,
                "truncated": True,
                "truncatedBy": "lines",
                "totalLines": 2001,
                "totalBytes": len(COUNTED),
                "outputLines": 2000,
                "outputBytes": len(COUNTED) - 3,
                "lastLinePartial": False,
                "firstLineExceedsLimit": False,
                "maxLines": 2000,
                "maxBytes": 51_200,
            },
            "fullOutputPath": "{output}",
        },
    ),
    bash("trap '' TERM INT HUP; echo out; while :; do sleep 1; done", timeout=5),
    bash("sleep 30", timeout="1"),
    bash("echo out", timeout=None),
    bash("echo out", timeout=0),
    bash("echo out", timeout=-1),
    bash("echo out", timeout=2_147_483.647),
    bash("echo out", timeout=2_147_483.648),
    bash("echo out", timeout=1e300),
    bash("echo out", timeout="soon"),
    bash("echo out", timeout=True),
    bash("echo out", timeout="Infinity"),
    # Environment.
    bash("echo $PI_PROVIDER $PI_MODEL $PI_REASONING_LEVEL"),
    bash('[[ "$PI_SESSION_ID" =~ ^[0-9a-f-]{36}$ ]] && echo ${PI_SESSION_FILE-no file}'),
    bash("echo $PREFIX $OUTER"),
    bash("echo $HOME $TMPDIR $LANG $TERM"),
    bash("printenv PWD; echo $SHLVL"),
    # Arguments.
    bash(5),
    differs(bash(None), NULL, content=["(no output)"], isError=False),
    bash(["echo"]),
    Trial("bash", {}, {}, {}),
    Trial("bash", {"cmd": "echo"}, {}, {}),
    bash("echo out", cwd="/"),
    differs(bash("echo a\0b"), OWN_WORDS, content=["Cannot start /bin/bash: embedded null byte"]),
    differs(
        bash("echo " + "x" * 140_000),
        "A command may be longer than an argument of a program.",
        content=[shortened(f"{'x' * 51_200}\n\n{PARTIAL.format(1, '136.7KB')}")],
        output=shortened("x" * 140_000 + "\n") + " 600",
        isError=False,
        details={
            "truncation": {
                "content": 51200,
                "truncated": True,
                "truncatedBy": "bytes",
                "totalLines": 1,
                "totalBytes": 140001,
                "outputLines": 1,
                "outputBytes": 51200,
                "lastLinePartial": True,
                "firstLineExceedsLimit": False,
                "maxLines": 2000,
                "maxBytes": 51200,
            },
            "fullOutputPath": "{output}",
        },
    ),
)
TOOL: Final = RecordedTool(
    "bash-tool", TRIALS, options={"settings": SETTINGS, "env": OUTER}, turn={"calls_a_turn": CALLS_A_TURN}
)


@pytest.mark.parametrize("index", range(len(TRIALS)))
def test_a_call_is_answered_as_by_the_original(index: int, comparison: Comparison) -> None:
    comparison.check(index)


@pytest.mark.peer
@pytest.mark.slow
def test_the_original_still_answers_so(original_pi: list[str], tmp_path: Path) -> None:
    TOOL.check_original(original_pi, tmp_path)
