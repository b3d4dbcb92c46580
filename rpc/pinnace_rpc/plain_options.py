"""The command lines that programs write: mode rpc, long names, a word for each value. Read without the parser.

Loading click, and describing sixty options to it, is a twelfth of a start and a twentieth of an idle process' memory.
What stands here is understood exactly as `arguments` would; whatever does not, or might be wrong, is left to it. Must
never refuse anything, nor print.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pinnace_rpc.options import ON_EOF, PROFILE_VARIABLE, TOOL_APPROVALS, Options
from pinnace_spec.messages import THINKING_LEVELS
from pinnace_spec.profiles import CLIENT_PROFILES

_FLAGS: Final[Mapping[str, tuple[str, bool]]] = {
    "--continue": ("continues", True),
    "--keep-going": ("keeps_going", True),
    "--no-builtin-tools": ("no_builtin_tools", True),
    "--no-context-files": ("no_context_files", True),
    "--no-extensions": ("no_extensions", True),
    "--no-prompt-templates": ("no_prompt_templates", True),
    "--no-session": ("is_persistent", False),
    "--no-skills": ("no_skills", True),
    "--no-tools": ("no_tools", True),
    "--offline": ("is_offline", True),
    "--verbose": ("verbose", True),
}
_IGNORED: Final = frozenset({"--no-mcp", "--no-themes"})
_TEXTS: Final[Mapping[str, str]] = {
    "--api-key": "api_key",
    "--api-key-file": "api_key_file",
    "--log-file": "log_file",
    "--model": "model",
    "--name": "name",
    "--provider": "provider",
    "--session": "session",
    "--session-dir": "session_dir",
    "--system-prompt": "system_prompt",
}
_KEYS: Final = {"api_key", "api_key_file"}
_LISTS: Final[Mapping[str, str]] = {
    "--append-system-prompt": "append_system_prompt",
    "--extension": "extensions",
    "--prompt-template": "prompt_templates",
    "--skill": "skills",
}
_CHOICES: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "--mode": ("mode", ("rpc",)),
    "--on-eof": ("on_eof", ON_EOF),
    "--protocol": ("protocol", CLIENT_PROFILES),
    "--thinking": ("thinking", THINKING_LEVELS),
    "--tool-approval": ("tool_approval", TOOL_APPROVALS),
}


def plain_options(words: Sequence[str], env: Mapping[str, str]) -> Options | None:
    """Return what a command line asks for; None: the parser has to say.

    Args:
        words: All words but the program's name.
        env: The environment.
    """
    found: dict[str, Any] = {}  # Any: a value for each field, as the tables above say
    if profile := env.get(PROFILE_VARIABLE):
        if profile not in CLIENT_PROFILES:
            return None
        found["protocol"] = profile
    left = iter(words)
    for word in left:
        if word in _FLAGS:
            name, value = _FLAGS[word]
            found[name] = value
        elif word not in _IGNORED:
            text = next(left, None)
            if not _take(found, word, text):
                return None
    if len(_KEYS & found.keys()) > 1:
        return None
    return Options(**found) if "mode" in found else None


def _take(found: dict[str, Any], word: str, text: str | None) -> bool:
    """Take an option with its value; tell whether it was one that can't be wrong."""
    if not text or text != text.strip() or text.startswith("-") or not _is_unicode(text):
        return False
    if word in _TEXTS:
        found[_TEXTS[word]] = text
    elif word in _LISTS:
        found[_LISTS[word]] = (*found.get(_LISTS[word], ()), text)
    elif word in _CHOICES and text in _CHOICES[word][1]:
        found[_CHOICES[word][0]] = text
    else:
        return False
    return True


def _is_unicode(text: str) -> bool:
    """Tell a text from bytes of the command line that are none."""
    return text.isascii() or not any("\ud800" <= each <= "\udfff" for each in text)
