"""Installs, updates and removes the packages of npm and git, where pi has them and as pi lays them out.

Each change is made in a copy (`staging`), so that no half package is ever loaded. Runs npm and git; writes no settings.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from pinnace_agent.core.json_access import as_object
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, is_list
from pinnace_agent.packages.manifest import installed_version, read_manifest
from pinnace_agent.packages.programs import PackageError, Programs
from pinnace_agent.packages.sources import GitSource, NpmSource, Places
from pinnace_agent.packages.staging import changing, remove
from pinnace_agent.packages.versions import is_newer, meets, newest

_LOOKUP_S: Final = 60.0
_IGNORED: Final = "*\n!.gitignore\n"
_PROJECT: Final = json.dumps({"name": "pi-extensions", "private": True}, indent=2)
# Peers are pi's own packages, which the program provides.
_NPM_FLAGS: Final = ("--legacy-peer-deps", "--no-audit", "--no-fund")
# Extensions need these at run time.
_DEPENDENCIES: Final = ("dependencies", "optionalDependencies", "workspaces")


class NpmStore:
    """The npm packages of one scope."""

    def __init__(self, places: Places, programs: Programs) -> None:
        """Touch nothing."""
        self._root = places.npm
        self._programs = programs

    def folder(self, source: NpmSource) -> Path:
        """Return where a package is."""
        return self._root / "node_modules" / source.name

    def version(self, source: NpmSource) -> str | None:
        """Return the installed version."""
        return installed_version(str(self.folder(source)))

    async def install(self, source: NpmSource, spec: str | None = None) -> None:
        """Install a package, or another version of it. Cancelling, and a failure, leave what was there.

        Raises:
            PackageError: npm is missing or fails, or there is no package of this name in what it has installed.
            LockHeld: Another process is changing packages.
            OSError: A folder can't be written.
        """
        with changing(self._root, self._root, copies=True) as stage:
            _prepare(stage)
            package = stage / "package.json"
            if not package.exists():
                package.write_text(_PROJECT)
            await self._programs.npm(
                "install", spec or source.spec, "--prefix", str(stage), *_NPM_FLAGS, cwd=str(stage)
            )
            if installed_version(str(stage / "node_modules" / source.name)) is None:
                raise PackageError(f"npm has installed no package {source.name}")

    async def uninstall(self, source: NpmSource) -> None:
        """Remove a package with what nothing else needs. Raises as `install`."""
        if not self._root.is_dir():
            return
        with changing(self._root, self._root, copies=True) as stage:
            await self._programs.npm("uninstall", source.name, "--prefix", str(stage), *_NPM_FLAGS, cwd=str(stage))

    async def update(self, source: NpmSource) -> None:
        """Install the version that a source asks for, if another one is installed.

        Raises: as `install`.
        """
        version = self.version(source)
        if version is not None and source.is_pinned:
            if source.version is None or meets(version, source.version):
                return
        elif version is not None:
            latest = await self._latest(source)
            if latest is not None and not is_newer(latest, version):
                return
        # Without a version npm would keep the range that package.json has from the first time.
        await self.install(source, source.spec if source.version else f"{source.name}@latest")

    async def _latest(self, source: NpmSource) -> str | None:
        """Return the newest version that a source allows; None: the registry does not answer that."""
        with trio.move_on_after(_LOOKUP_S), suppress(PackageError, ValueError):
            folder = str(self._root if self._root.is_dir() else Path("/"))
            found: object = json.loads(await self._programs.npm("view", source.spec, "version", "--json", cwd=folder))
            if isinstance(found, str):
                return found
            if is_list(found):
                return newest([each for each in found if isinstance(each, str)], source.version)
        return None


class GitStore:
    """The repositories of one scope."""

    def __init__(self, places: Places, programs: Programs) -> None:
        """Touch nothing."""
        self._places = places
        self._root = places.root / "git" if places.scope != "temporary" else places.root
        self._programs = programs

    def folder(self, source: GitSource) -> Path:
        """Return where a repository is."""
        return self._places.installed(source, {})

    async def head(self, source: GitSource) -> str | None:
        """Return the commit that is checked out; None: there is none."""
        folder = self.folder(source)
        if not folder.is_dir():
            return None
        try:
            return (await self._programs.git("rev-parse", "--verify", "HEAD", cwd=str(folder))).strip()
        except PackageError:
            return None

    async def install(self, source: GitSource) -> None:
        """Clone a repository with what its package.json needs, or bring it to the ref of the source.

        Cancelling, and a failure, leave what was there.

        Raises:
            PackageError: git or npm is missing or fails.
            LockHeld: Another process is changing packages.
            OSError: A folder can't be written.
        """
        folder = self.folder(source)
        if await self.head(source) is None:
            with changing(self._root, folder, copies=False) as stage:
                await self._programs.git("clone", "--quiet", "--", source.url, str(stage), cwd=str(stage.parent))
                if source.ref is not None:
                    await self._check_out(stage, await self._named(str(stage), source.ref))
                await self._add_dependencies(stage)
                if self._places.scope != "temporary":
                    _prepare(self._root)
        else:
            await self._bring(source, folder)
        self._marker(folder).unlink(missing_ok=True)

    async def _bring(self, source: GitSource, folder: Path) -> None:
        """Bring a repository to the ref of its source, or the newest commit of its branch."""
        is_whole = not self._marker(folder).exists() and not _misses_dependencies(folder)
        # Names of commits alone change in the repository that is in use.
        commit = await self._fetched(folder, source.ref)
        if is_whole and commit == await self.head(source):
            return
        with changing(self._root, folder, copies=True) as stage:
            await self._check_out(stage, commit)
            await self._programs.git("clean", "-fdxq", cwd=str(stage))
            await self._add_dependencies(stage)

    async def _fetched(self, folder: Path, ref: str | None) -> str:
        """Fetch a ref, or the branch that is followed, and return its commit."""
        cwd = str(folder)
        if ref is None:
            name = await self._followed(cwd)
            wanted = f"refs/remotes/origin/{name}"
            refs = f"+refs/heads/{name}:{wanted}"
            await self._programs.git("fetch", "--quiet", "--prune", "--no-tags", "origin", refs, cwd=cwd)
            return await self._commit(cwd, wanted)
        await self._programs.git("fetch", "--quiet", "--tags", "--force", "origin", cwd=cwd)
        return await self._named(cwd, ref)

    async def _named(self, cwd: str, ref: str) -> str:
        """Return the commit of a branch, a tag or a name of a commit."""
        for name in (f"refs/remotes/origin/{ref}", f"refs/tags/{ref}", ref):
            with suppress(PackageError):
                return await self._commit(cwd, name)
        # A ref of another kind, such as that of a request to merge.
        await self._programs.git("fetch", "--quiet", "origin", ref, cwd=cwd)
        return await self._commit(cwd, "FETCH_HEAD")

    async def _commit(self, cwd: str, name: str) -> str:
        return (await self._programs.git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", cwd=cwd)).strip()

    async def _followed(self, cwd: str) -> str:
        """Return the branch of the remote that the repository follows: that of its own branch, or the default one."""
        for name in ("@{upstream}", "origin/HEAD"):
            with suppress(PackageError):
                if name == "origin/HEAD":
                    await self._programs.git("remote", "set-head", "origin", "--auto", cwd=cwd)
                found = (await self._programs.git("rev-parse", "--abbrev-ref", name, cwd=cwd)).strip()
                if found.startswith("origin/") and found != "origin/HEAD":
                    return found.removeprefix("origin/")
        raise PackageError(f"{cwd} has no branch to follow: name one, as in git:HOST/PATH@BRANCH")

    async def _check_out(self, folder: Path, commit: str) -> None:
        await self._programs.git("reset", "--quiet", "--hard", commit, cwd=str(folder))

    async def _add_dependencies(self, folder: Path) -> None:
        """Install what the package.json of a repository needs."""
        manifest = _manifest(folder)
        if manifest and (self._programs.runs_scripts or any(manifest.get(kind) for kind in _DEPENDENCIES)):
            await self._programs.npm("install", "--omit=dev", *_NPM_FLAGS, cwd=str(folder))

    def remove(self, source: GitSource) -> None:
        """Remove a repository."""
        folder = self.folder(source)
        self._marker(folder).unlink(missing_ok=True)
        remove(self._root, folder)

    def _marker(self, folder: Path) -> Path:
        """Return the file that pi leaves beside a repository which it has not finished to update."""
        return folder.with_name(f".{folder.name}.pi-update-incomplete")


def _prepare(root: Path) -> None:
    """Make a folder of packages invisible to the repository that it may be in."""
    root.mkdir(parents=True, exist_ok=True)
    ignored = root / ".gitignore"
    if not ignored.exists():
        ignored.write_text(_IGNORED)


def _manifest(folder: Path) -> JsonObject:
    try:
        return read_manifest(str(folder))
    except ConfigurationFileError:
        return {}


def _misses_dependencies(folder: Path) -> bool:
    """Return whether something that a repository needs is not installed."""
    needed = as_object(_manifest(folder).get("dependencies")) or {}
    return any(not os.path.lexists(folder / "node_modules" / name) for name in needed)
