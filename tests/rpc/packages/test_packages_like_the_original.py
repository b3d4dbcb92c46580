"""What a package brings, for many filters and manifests: the same as in the original, in the same order.

Each case is a package of its own in one settings file, with names of its own, so that one process of each program
answers for all of them.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from tests.rpc.conftest import COMMAND, write_loader

_TIMEOUT_S: Final = 120.0
SCRIPT: Final = "export default (pi) => pi.registerCommand('NAME', { handler: async () => {} });\n"
SKILL: Final = "---\nname: NAME\ndescription: one\n---\ntext\n"
PROMPT: Final = "---\ndescription: one\n---\ntext\n"

FILES: Final[Mapping[str, str]] = {
    "extensions/a.ts": SCRIPT,
    "extensions/b.js": SCRIPT,
    "extensions/legacy.ts": SCRIPT,
    "extensions/deep/index.ts": SCRIPT,
    "extensions/listed/package.json": json.dumps({"pi": {"extensions": ["./src/one.ts", "missing.ts"]}}),
    "extensions/listed/src/one.ts": SCRIPT,
    "extensions/.hidden.ts": SCRIPT,
    "extensions/ignored.ts": SCRIPT,
    "extensions/.gitignore": "ignored.ts\n",
    "skills/one/SKILL.md": SKILL,
    "skills/two/SKILL.md": SKILL,
    "skills/two/inner/SKILL.md": SKILL,
    "skills/group/three/SKILL.md": SKILL,
    "skills/flat.md": SKILL,
    "prompts/p.md": PROMPT,
    "prompts/sub/q.md": PROMPT,
    "src/main.ts": SCRIPT,
    "other/skills/four/SKILL.md": SKILL,
    ".dot/five/SKILL.md": SKILL,
    "node_modules/dep/extensions/d.ts": SCRIPT,
}
"""The files of each package; the resources are named after their paths."""

FILTERS: Final[Mapping[str, Mapping[str, object] | None]] = {
    "plain": None,
    "object": {},
    "none-at-all": {"extensions": [], "skills": [], "prompts": [], "themes": []},
    "no-skills": {"skills": []},
    "one-extension": {"extensions": ["extensions/a.ts"]},
    "by-name": {"extensions": ["a.ts"], "prompts": ["q.md"]},
    "by-glob": {"extensions": ["extensions/*.ts"], "skills": ["skills/**"]},
    "any-depth": {"extensions": ["**/*.ts"], "prompts": ["**/q.md"]},
    "left-out": {"extensions": ["!extensions/legacy.ts"], "skills": ["!**/two/**"]},
    "left-out-by-name": {"extensions": ["!legacy.ts"], "skills": ["!one"], "prompts": ["!p.md"]},
    "taken-back": {"extensions": ["!extensions/*", "+extensions/b.js"], "skills": ["!**", "+skills/one"]},
    "taken-back-dotted": {"extensions": ["!**", "+./extensions/a.ts"], "skills": ["!**", "+skills/two/SKILL.md"]},
    "for-good": {"extensions": ["+extensions/a.ts", "-extensions/a.ts"], "skills": ["-skills/one"]},
    "only-plus": {"extensions": ["+extensions/a.ts"], "prompts": ["+prompts/p.md"]},
    "only-minus": {"extensions": ["-extensions/a.ts"], "prompts": ["-prompts/sub/q.md", "-p.md"]},
    "skill-folder": {"skills": ["skills/one"], "extensions": ["extensions/deep/*"]},
    "skill-name": {"skills": ["three"]},
    "braces": {"extensions": ["extensions/{a,b}.{ts,js}"], "skills": ["skills/{one,two}"]},
    "set": {"extensions": ["extensions/[ab].*"], "prompts": ["prompts/?.md"]},
    "with-dot-slash": {"extensions": ["./extensions/a.ts"], "skills": ["./skills/*"]},
    "with-slash-at-the-end": {"skills": ["skills/one/"], "extensions": ["extensions/deep/"]},
    "upper-case": {"extensions": ["EXTENSIONS/A.TS"], "prompts": ["P.md"]},
    "nothing-matches": {"extensions": ["none/*"], "skills": ["none"], "prompts": ["none.md"]},
    "undeclared": {"extensions": ["src/main.ts", "+src/main.ts"]},
    "comment": {"extensions": ["#a.ts"]},
    "delta": {"autoload": False, "extensions": ["+extensions/a.ts"], "skills": ["skills/*"]},
    "delta-last-counts": {
        "autoload": False,
        "extensions": ["extensions/*", "-extensions/a.ts", "!b.js", "+extensions/b.js"],
    },
    "delta-of-nothing": {"autoload": False},
}
"""The filter of a package without a manifest, by case; None: its source alone."""

MANIFESTS: Final[Mapping[str, Mapping[str, object]]] = {
    "m-paths": {"extensions": ["./src/main.ts"], "skills": ["./other/skills"], "prompts": ["prompts"]},
    "m-extensions-alone": {"extensions": ["src"]},
    "m-globs": {"extensions": ["./extensions/*.ts"], "skills": ["./skills/*"], "prompts": ["./prompts/**/*.md"]},
    "m-left-out": {"extensions": ["./extensions", "!**/legacy.ts"], "skills": ["skills", "!skills/one/**"]},
    "m-taken-back": {"extensions": ["extensions", "!**/*.ts", "+extensions/a.ts"]},
    "m-for-good": {"extensions": ["extensions", "-extensions/b.js"], "prompts": ["prompts", "-prompts/p.md"]},
    "m-braces": {"extensions": ["extensions/{a,legacy}.ts", "extensions/*.js"]},
    "m-dot": {"skills": [".dot"]},
    "m-dot-glob": {"skills": [".d?t", "*"]},
    "m-dependency": {"extensions": ["node_modules/dep/extensions"]},
    "m-missing": {"extensions": ["none.ts", "extensions/a.ts"], "skills": ["none"]},
    "m-wrong": {"extensions": "extensions", "skills": ["skills/one"]},
    "m-wrong-items": {"extensions": ["extensions", 3], "prompts": ["prompts"]},
    "m-empty": {"extensions": [], "skills": ["skills"]},
    "m-metadata": {"image": "a.png"},
    "m-twice": {"extensions": ["extensions/a.ts", "./extensions/a.ts", "extensions"]},
    "m-folder": {"extensions": ["extensions/deep", "extensions/listed"]},
}
"""The `pi` field of the package.json, by case."""

FILTERED_MANIFESTS: Final[Mapping[str, tuple[Mapping[str, object], Mapping[str, object]]]] = {
    "f-object": ({"extensions": ["src/main.ts"]}, {}),
    "f-narrowed": ({"extensions": ["extensions", "src/main.ts"]}, {"extensions": ["src/*"]}),
    "f-not-widened": ({"extensions": ["src/main.ts"]}, {"extensions": ["+extensions/a.ts", "src/main.ts"]}),
    "f-empty-list": ({"extensions": []}, {"extensions": ["extensions/a.ts"]}),
    "f-order": ({"extensions": ["extensions", "!**/a.ts", "+extensions/a.ts"]}, {"extensions": ["**"]}),
    "f-delta": ({"skills": ["skills"]}, {"autoload": False, "skills": ["!skills/one", "two"]}),
}
"""Manifests with filters."""


def make(root: Path, name: str, manifest: Mapping[str, object] | None) -> None:
    """Write a package whose resources are named after it and their paths."""
    for path, text in FILES.items():
        file = root / path
        resource = f"{name}-{path.removesuffix('.md').replace('/', '-').replace('.', '-').lower()}"
        if file.name != "SKILL.md" and file.suffix == ".md":
            file = file.with_name(f"{name}-{file.name}") if path.startswith("prompts/") else file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text.replace("NAME", resource))
    if manifest is not None:
        (root / "package.json").write_text(json.dumps({"name": name, "pi": dict(manifest)}))


def commands(program: Sequence[str], env: Mapping[str, str], work: Path) -> list[tuple[Any, ...]]:
    """Return the commands that a program offers, with their origins."""
    request = json.dumps({"id": "1", "type": "get_commands"}) + "\n"
    done = subprocess.run(
        [*program, "--mode", "rpc", "--approve"],
        input=request,
        env={**env},
        cwd=work,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    records = [json.loads(line) for line in done.stdout.splitlines()]
    answer = next((each for each in records if each.get("type") == "response" and each.get("id") == "1"), None)
    assert answer is not None, done.stderr
    fields = ("path", "source", "scope", "origin", "baseDir")
    return [
        (each["name"], each["source"], *(each["sourceInfo"].get(field) for field in fields))
        for each in answer["data"]["commands"]
        if each["sourceInfo"].get("source") != "builtin" and str(work.parent) in each["sourceInfo"]["path"]
    ]


@pytest.fixture(scope="module")
def answers(
    original_pi: list[str], node_program: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[tuple[Any, ...]]]:
    """The commands of both programs, by program."""
    root = tmp_path_factory.mktemp("packages")
    agent_dir, work, project = root / "home" / ".pi" / "agent", root / "work", root / "work" / ".pi"
    project.mkdir(parents=True)
    user: list[object] = []
    for name, chosen in FILTERS.items():
        make(agent_dir / "own" / name, name, None)
        user.append(f"own/{name}" if chosen is None else {"source": f"own/{name}", **chosen})
    for name, manifest in MANIFESTS.items():
        make(agent_dir / "own" / name, name, manifest)
        user.append(f"./own/{name}")
    for name, (manifest, chosen) in FILTERED_MANIFESTS.items():
        make(agent_dir / "own" / name, name, manifest)
        user.append({"source": f"own/{name}", **chosen})
    # Scopes: the project's entry takes the place of the user's, or changes it.
    for name in ("changed", "twice"):
        make(agent_dir / "own" / name, name, None)
    make(root / "shared" / "both", "both", None)
    user += [
        str(root / "shared" / "both"),
        {"source": "own/changed", "skills": []},
        "own/twice",
        {"source": "own/twice", "extensions": []},
    ]
    make(agent_dir / "npm" / "node_modules" / "@scope" / "installed", "npm-one", {"extensions": ["src/main.ts"]})
    (agent_dir / "npm" / "node_modules" / "@scope" / "installed" / "package.json").write_text(
        json.dumps({"name": "@scope/installed", "version": "1.4.2", "pi": {"extensions": ["src/main.ts"]}})
    )
    make(agent_dir / "git" / "git.example" / "a" / "b", "git-one", None)
    user += ["npm:@scope/installed@^1.2", "git:git.example/a/b@v1"]
    make(project / "local", "local", None)
    own = [
        {"source": "../../shared/both", "skills": ["one"], "extensions": []},
        {
            "source": str(agent_dir / "own" / "changed"),
            "autoload": False,
            "extensions": ["-extensions/a.ts"],
            "skills": ["+skills/one"],
        },
        "./local",
    ]
    (agent_dir / "settings.json").write_text(json.dumps({"packages": user}))
    (project / "settings.json").write_text(json.dumps({"packages": own}))
    env = {
        "NODE_PATH": str(write_loader(root / "modules")),
        "HOME": str(root / "home"),
        "PATH": f"{Path(node_program).parent}{os.pathsep}/usr/bin{os.pathsep}/bin",
        "PI_CODING_AGENT_DIR": str(agent_dir),
        "PI_OFFLINE": "1",
        "PINNACE_NODE": node_program,
        "XDG_CACHE_HOME": str(root / "cache"),
    }
    return {"pi": commands(original_pi, env, work), "pinnace": commands(COMMAND, env, work)}


CASES: Final = (*FILTERS, *MANIFESTS, *FILTERED_MANIFESTS, "both", "changed", "twice", "npm-one", "git-one", "local")


@pytest.mark.parametrize("case", CASES)
def test_a_package_brings_what_it_brings_in_the_original(
    answers: Mapping[str, Sequence[tuple[Any, ...]]], case: str
) -> None:
    def of_case(program: str) -> list[tuple[Any, ...]]:
        return [each for each in answers[program] if each[0].removeprefix("skill:").startswith(f"{case}-")]

    assert of_case("pi") == of_case("pinnace")


def test_the_order_of_all_packages_is_that_of_the_original(answers: Mapping[str, Sequence[tuple[Any, ...]]]) -> None:
    """Of equal names the first counts, so the order is a part of the behaviour."""
    assert answers["pi"] == answers["pinnace"]
    assert len(answers["pi"]) > len(CASES)
