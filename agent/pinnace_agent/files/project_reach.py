"""Where the files of a project may lead: their content gets into prompts, and the user did not write it.

A link in a repository, whatever it is called, leads to nothing outside of the repository; one in a folder outside of
it to nothing outside of that folder. Never to keys, the agent folder, `.git` or what belongs to the kernel. Above the
working folder, where folders may be shared, the owner of a file matters, too. The user's own files, and those that the
command line names, are not checked here. Loaded where a project has such files.
"""

import os
from pathlib import Path

from pinnace_agent.files.opener import Reach
from pinnace_agent.files.protected import NEVER_IN_PROMPTS, Places, Protection, is_inside, protection_of


class ProjectReach:
    """What the files of one working folder may lead to."""

    def __init__(self, cwd: Path, repository: Path, places: Places) -> None:
        """Decide for a working folder.

        Args:
            cwd: The folder.
            repository: That of its repository; the same if there is none.
            places: The user's protected places.
        """
        self._cwd = cwd
        self._owners = frozenset({os.geteuid(), 0} | _owner(cwd))
        self._places = places
        self._repository = os.path.realpath(repository)
        # A repository of the whole home folder bounds nothing, and a `.git` in a shared folder may be anyone's.
        self._is_bound = not is_inside(places.home, self._repository) and _owner(repository / ".git") <= self._owners

    def of_instructions(self, folder: Path) -> Reach:
        """Return what a file in `folder`, which needs no trust, may lead to: it must be of the user or the project."""
        reach = self.of(folder)
        is_inside_repository = self._is_in_repository(os.path.realpath(folder)) or folder == self._cwd
        return reach._replace(owners=self._owners, refuses_shared=not is_inside_repository)

    def of_skills(self, folder: Path) -> Reach:
        """Return what skills in `.agents` of `folder` may lead to: above the working folder they must be the user's."""
        return self.of(folder) if folder == self._cwd else self.of_instructions(folder)

    def of(self, folder: Path) -> Reach:
        """Return what files below `folder` may lead to."""
        real = os.path.realpath(folder)
        root = self._repository if self._is_in_repository(real) else real
        # A user who works on an extension in the agent folder, or has checked out below a `.git`, means what is there.
        own = protection_of(real, self._places)
        meant = {own} if own in (Protection.AGENT, Protection.GIT) else set[Protection]()
        return Reach(NEVER_IN_PROMPTS - meant, self._places, roots=(root,))

    def of_named(self, path: str) -> Reach:
        """Return what a path that the project's settings name may lead to.

        They may name a place outside; a link inside of the repository is no such name.
        """
        reach = self.of(self._cwd)
        lexical = os.path.normpath(path)
        bounds = (self._repository if self._is_bound else str(self._cwd), str(self._cwd), os.path.realpath(self._cwd))
        if any(is_inside(lexical, bound) for bound in bounds):
            return reach
        named = os.path.realpath(path)
        return reach._replace(roots=(*(reach.roots or ()), named if os.path.isdir(named) else os.path.dirname(named)))

    def _is_in_repository(self, real: str) -> bool:
        return self._is_bound and is_inside(real, self._repository)


def _owner(folder: Path) -> frozenset[int]:
    try:
        return frozenset({os.lstat(folder).st_uid})
    except OSError:
        return frozenset()
