"""AWS's own configuration: the files `credentials` and `config` of `~/.aws`.

Decides which files are read, and what they hold: in `config` a section is `profile NAME`, `sso-session NAME` or
`services NAME`, except for the profile `default`; in `credentials` it is the name of a profile. Indented lines belong
to the setting before them, if that has no value of its own: `s3 =`, below it `endpoint_url = …`. What `credentials`
says of a profile takes precedence. A line that is no setting is passed over, as by AWS's clients. Blocking. Independent
of what settings mean. Source: AWS SDKs and Tools Reference, "Shared config and credentials files".
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from pinnace_agent.files.paths import expand_home
from pinnace_agent.files.text_file import TextFileError, read_text_file

_CONFIG: Final = ("AWS_CONFIG_FILE", "~/.aws/config")
_CREDENTIALS: Final = ("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
PROFILE_VARIABLE: Final = "AWS_PROFILE"
KEY_VARIABLES: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
DEFAULT_PROFILE: Final = "default"

Sections = Mapping[str, Mapping[str, str]]
"""Settings by the name of a section; their names in lower case."""


class AddressMissing(Exception):
    """A profile names addresses of services that are not there; the text is for the user."""


class AwsFiles(NamedTuple):
    """What the files hold. Their settings may be secret."""

    config: Sections
    """The profiles of `config`."""
    credentials: Sections
    """The profiles of `credentials`."""
    sso_sessions: Sections
    services: Sections
    """Addresses of services, which profiles name by `services`; as `SERVICE.endpoint_url`."""
    places: tuple[str, ...]
    """The files that were looked at, with what was wrong with them."""

    def __repr__(self) -> str:
        """Return the names of the files alone."""
        return f"AwsFiles({self.places!r})"

    def profile(self, name: str) -> Mapping[str, str] | None:
        """Return the settings of a profile from both files; None: neither has it."""
        if name not in self.config and name not in self.credentials:
            return None
        return {**self.config.get(name, {}), **self.credentials.get(name, {})}

    def endpoint_url(self, profile: str, service: str) -> str | None:
        """Return the address that a profile gives a service; None: its usual one.

        Args:
            profile: Its name.
            service: As variables name it: `STS`.

        Raises:
            AddressMissing: It names a section that is not there.
        """
        settings = self.config.get(profile, {})
        if settings.get("ignore_configured_endpoint_urls", "").lower() == "true":
            return None
        named = settings.get("services")
        if named and named not in self.services:
            places = " and ".join(self.places)
            raise AddressMissing(
                f"services of the profile {profile}: there is no section [services {named}] in {places}"
            )
        own = self.services[named].get(f"{service.lower()}.endpoint_url") if named else None
        return own or settings.get("endpoint_url") or None


def environment_of(env: Mapping[str, str], variables: Mapping[str, str]) -> Mapping[str, str]:
    """Return an environment with the variables of the provider alone; a profile among them replaces the keys."""
    left_out = KEY_VARIABLES if variables.get(PROFILE_VARIABLE) else ()
    return {**{name: value for name, value in env.items() if name not in left_out}, **variables}


def profile_name(env: Mapping[str, str]) -> str:
    """Return the name of the profile in use."""
    return env.get(PROFILE_VARIABLE) or DEFAULT_PROFILE


def read_aws_files(env: Mapping[str, str]) -> AwsFiles:
    """Read both files. One that is missing or can't be read has no profile, and is named with the reason."""
    places: list[str] = []

    def sections(variable: str, usual: str) -> dict[str, dict[str, str]]:
        path = expand_home(env.get(variable) or usual, env)
        try:
            text = read_text_file(path)
        except TextFileError as error:
            places.append(f"{path} ({error.text})")
            return {}
        places.append(path)
        return _sections(text)

    config = sections(*_CONFIG)
    credentials = sections(*_CREDENTIALS)
    return AwsFiles(
        _of_kind(config, "profile") | ({DEFAULT_PROFILE: config[DEFAULT_PROFILE]} if DEFAULT_PROFILE in config else {}),
        credentials,
        _of_kind(config, "sso-session"),
        _of_kind(config, "services"),
        tuple(places),
    )


def _sections(text: str) -> dict[str, dict[str, str]]:
    """Return the settings by section; of a section that comes twice, all of them."""
    found: dict[str, dict[str, str]] = {}
    section: dict[str, str] = {}
    outer = ""
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith(("#", ";")):
            continue
        if stripped.startswith("["):
            section, outer = found.setdefault(stripped[1:].partition("]")[0].strip(), {}), ""
            continue
        key, sign, value = (each.strip() for each in _without_comment(stripped).partition("="))
        if not sign:
            continue
        if line[:1] not in (" ", "\t"):
            section[key.lower()] = value
            outer = "" if value else key.lower()
        elif outer:
            section[f"{outer}.{key.lower()}"] = value
    return found


def _of_kind(sections: Mapping[str, dict[str, str]], kind: str) -> dict[str, dict[str, str]]:
    """Return the sections `KIND NAME` by their names."""
    split = [(title.split(None, 1), settings) for title, settings in sections.items()]
    return {words[1].strip("\"' \t"): settings for words, settings in split if len(words) == 2 and words[0] == kind}


def _without_comment(value: str) -> str:
    """Return a value without a comment behind it, which begins after a blank: keys hold neither."""
    for mark in (" #", " ;", "\t#", "\t;"):
        value = value.partition(mark)[0]
    return value
