"""An environment of Harbor on this machine: bubblewrap shows folders of the test where a container has its own.

Harbor's own environments need a container runtime or a provider of machines.
"""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

from harbor.environments.base import BaseEnvironment, ExecResult

OWN = ("app", "harbor", "installed-agent", "logs", "solution", "tests")


class Local(BaseEnvironment):
    """Runs commands as the user of the test; `LOCAL_ROOT` holds what a container would."""

    @staticmethod
    def type() -> str:
        return "local"

    def _validate_definition(self) -> None:
        pass

    async def start(self, force_build: bool) -> None:
        for name in (*OWN, "logs/agent", "logs/artifacts", "logs/verifier"):
            _at(f"/{name}").mkdir(parents=True, exist_ok=True)

    async def stop(self, delete: bool) -> None:
        pass

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        _at(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, _at(target_path))

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        shutil.copytree(source_dir, _at(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        shutil.copy(_at(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        shutil.copytree(_at(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(
        self, command: str, cwd: str | None = None, env: dict[str, str] | None = None, **_: Any
    ) -> ExecResult:
        words = ["bwrap"]
        for name in sorted(set(os.listdir("/")) - set(OWN)):
            path = f"/{name}"
            words += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--dev-bind", path, path]
        for name in OWN:
            words += ["--bind", str(_at(f"/{name}")), f"/{name}"]
        words += ["--chdir", cwd or "/app", "sh", "-c", command]
        environment = {**os.environ, **(self._merge_env(env) or {})}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=pipe, env=environment)
        out, err = await process.communicate()
        return ExecResult(stdout=out.decode(), stderr=err.decode(), return_code=process.returncode)


def _at(path: str) -> Path:
    return Path(os.environ["LOCAL_ROOT"]) / Path(path).relative_to("/") if Path(path).parts[1] in OWN else Path(path)
