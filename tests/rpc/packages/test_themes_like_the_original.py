"""Which files of themes there are, and in which order: the same as the original's own search returns.

It is asked as a library, since in mode rpc it has no themes.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pinnace_rpc.cli.terminal import theme_files

SCRIPT: Final = """
const { DefaultPackageManager, SettingsManager } = await import(process.argv[1]);
const [cwd, agentDir] = process.argv.slice(2);
const settingsManager = SettingsManager.create(cwd, agentDir);
const found = await new DefaultPackageManager({ cwd, agentDir, settingsManager }).resolve();
console.log(JSON.stringify(found.themes.filter((each) => each.enabled).map((each) => each.path)));
"""
FILES: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        """
        agent/themes/a.json agent/themes/out.json agent/themes/below/deep.json agent/themes/.hidden.json
        agent/themes/ignored.json agent/one.json agent/more/b.json agent/more/out.json agent/more/below/c.json
        agent/more/notes.md agent/forced/d.json agent/forced/e.json agent/tools/themes/f.json agent/tools/themes/g.json
        work/.pi/themes/h.json work/.pi/themes/gone.json work/.pi/looks/i.json work/.pi/looks/deep/j.json
        work/.pi/package/themes/k.json work/.pi/package/themes/left.json
        """.split(),
        "{}",
    ),
    "agent/themes/.gitignore": "ignored.json\n",
    "agent/settings.json": json.dumps(
        {
            "packages": [{"source": "tools", "themes": ["!g.json"]}],
            "themes": [
                "one.json", "more", "missing.json", "more/notes.md", "forced", "!out.json", "!forced/*",
                "+forced/e.json", "~/shared.json",
            ],
        }
    ),
    "work/.pi/settings.json": json.dumps(
        {"packages": ["./package"], "themes": ["looks", "!**/j.json", "-themes/gone.json", "../../other.json"]}
    ),
    "shared.json": "{}",
    "other.json": "{}",
}  # fmt: skip
"""By path below the home: the usual folders, what settings name, patterns of each kind, and packages."""


def test_the_files_of_themes_are_those_of_the_original(
    tmp_path: Path, original_pi: list[str], node_program: str
) -> None:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    agent, work = tmp_path / "agent", tmp_path / "work"
    env = {"HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(agent)}
    library = Path(original_pi[-1]).with_name("index.js")
    command = [node_program, "--input-type=module", "-e", SCRIPT, str(library), str(work), str(agent)]
    done = subprocess.run(
        command, env={**env, "PATH": os.environ["PATH"]}, capture_output=True, text=True, timeout=60, check=False
    )
    assert 0 == done.returncode, done.stderr
    files, problems = theme_files(env, str(work))
    notes = agent / "more" / "notes.md"
    # The original leaves it out when it reads it.
    assert [each for each in json.loads(done.stdout) if each != str(notes)] == files
    assert [f"{agent / 'missing.json'}: does not exist", f"{notes}: is no .json file, so it is not used"] == problems
