"""Where the keys that sign requests to AWS come from: which source counts, of the environment and AWS's files.

Pure. The order is that of AWS's own clients (botocore): the variables `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`;
of the profile in use a role (`role_arn`), a web identity (also of the variables), a single sign-on, keys in
`credentials`, a login to the console (`login_session`), a program (`credential_process`), keys in `config`; the
endpoint of a container; the metadata of EC2. A source that is configured, and can't work, ends the search: the next one
may be another identity. Two sources that compare equal give the same keys.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pinnace_agent.llm.bedrock.endpoint import configured_url, domain_of
from pinnace_agent.llm.bedrock.identity.aws_files import (
    DEFAULT_PROFILE,
    KEY_VARIABLES,
    PROFILE_VARIABLE,
    AwsFiles,
    profile_name,
)
from pinnace_agent.llm.bedrock.signature import SigningKeys

_ID, _SECRET, _TOKEN = KEY_VARIABLES
_RELATIVE: Final = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"
_FULL: Final = "AWS_CONTAINER_CREDENTIALS_FULL_URI"
_CONTAINER_HOST: Final = "http://169.254.170.2"
_NO_METADATA: Final = "AWS_EC2_METADATA_DISABLED"
_METADATA: Final = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
_METADATA_MODE: Final = "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"
_METADATA_HOSTS: Final = {"ipv4": "http://169.254.169.254", "ipv6": "http://[fd00:ec2::254]"}
_TOKEN_FILE: Final = "AWS_WEB_IDENTITY_TOKEN_FILE"
_ROLE: Final = "AWS_ROLE_ARN"
_SESSION: Final = "AWS_ROLE_SESSION_NAME"
_IDENTITY_SETTINGS: Final = (
    "aws_access_key_id, role_arn, sso_account_id, login_session, credential_process or web_identity_token_file"
)


class NoKeys(Exception):
    """There are no keys. The text is for the user and names what was looked for; it holds no secret."""


class Unusable(Exception):
    """A source is configured, but has no keys now. The text gives the reason, without a secret."""


class _Missing(Exception):
    """A source is not configured; the text names what would do it."""


@dataclass(frozen=True, slots=True)
class StaticKeys:
    """Keys that are written down."""

    keys: SigningKeys


@dataclass(frozen=True, slots=True)
class AssumedRole:
    """A role, taken on with the keys of another source."""

    place: str
    """Which setting of which profile, for users."""
    url: str
    """Of the service that gives out its keys (STS)."""
    region: str
    arn: str
    session_name: str | None
    external_id: str | None
    duration_s: int | None
    mfa_serial: str | None
    """The device whose code the role needs."""
    source: "Source"


@dataclass(frozen=True, slots=True)
class WebIdentity:
    """A role, taken on with the token of another authority, which is in a file."""

    place: str
    url: str
    """As of `AssumedRole`."""
    arn: str
    session_name: str | None
    token_file: str


@dataclass(frozen=True, slots=True)
class SingleSignOn:
    """A role of IAM Identity Center, for a user who has signed in with AWS's command line."""

    place: str
    url: str
    """Of the portal that gives out keys."""
    refresh_url: str
    """Where its token is refreshed."""
    token_name: str
    """What its token is stored under: the name of the session, else its address."""
    is_refreshable: bool
    account_id: str
    role_name: str


@dataclass(frozen=True, slots=True)
class ConsoleLogin:
    """A login to AWS's console, for a user who has signed in with AWS's command line."""

    place: str
    profile: str | None
    """Which profile it is of; None: the default one."""
    session: str
    """What is stored under it."""
    url: str | None
    """Of the service that refreshes it; None: the one of its region."""
    region: str
    """The region, if what is stored names none."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program that prints keys."""

    place: str
    command: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Container:
    """The endpoint of a container (ECS, EKS)."""

    variable: str
    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Machine:
    """The metadata of a virtual machine (EC2)."""

    url: str


Source = StaticKeys | AssumedRole | WebIdentity | SingleSignOn | ConsoleLogin | Program | Container | Machine


def choose_source(env: Mapping[str, str], files: AwsFiles, region: str) -> tuple[Source, list[str]]:
    """Return the source of the keys, and what each source before it lacks, for users.

    Args:
        env: The environment.
        files: AWS's own.
        region: The one of the request, whose security tokens are asked for.

    Raises:
        NoKeys: No source is configured, or the first one that is can't work.
    """
    chooser = _Chooser(env, files, region)
    missing: list[str] = []
    for choose in (chooser.of_environment, chooser.of_profile_in_use, chooser.of_container, chooser.of_machine):
        try:
            return choose(), missing
        except _Missing as why:
            missing.append(str(why))
        except Unusable as why:
            raise no_keys([*missing, str(why)]) from None
    raise no_keys(missing)


def no_keys(texts: list[str]) -> NoKeys:
    """Return the failure whose text lists why there are no keys."""
    return NoKeys("No AWS credentials were found:\n" + "\n".join(f"- {text}" for text in texts))


class _Chooser:
    """One choice. Its methods raise `_Missing` or `Unusable`."""

    def __init__(self, env: Mapping[str, str], files: AwsFiles, region: str) -> None:
        self._env = env
        self._files = files
        self._region = region
        self._sts = self._configured("STS") or f"https://sts.{region}.{domain_of(region)}"

    def _configured(self, service: str) -> str | None:
        return configured_url(service, self._env, self._files.endpoint_url(profile_name(self._env), service))

    def of_environment(self) -> Source:
        key_id, secret = self._env.get(_ID), self._env.get(_SECRET)
        if key_id and secret:
            return StaticKeys(SigningKeys(key_id, secret, self._env.get(_TOKEN) or None))
        if key_id:
            raise Unusable(f"{_ID} is set, but {_SECRET} is not")
        if secret:
            raise _Missing(f"{_SECRET} is set, but {_ID} is not")
        raise _Missing(f"{_ID} and {_SECRET} are not set")

    def of_profile_in_use(self) -> Source:
        name = profile_name(self._env)
        settings = self._files.profile(name)
        if settings is None and name != DEFAULT_PROFILE:
            raise Unusable(f"{self._named(name)} is not in {self._where}")
        if settings is not None and _is_role(settings):
            return self._role(name, settings, [name])
        found = self._of_profile(name, settings or {}, self._env)
        if found is not None:
            return found
        if settings is None:
            raise _Missing(f"{self._named(name)} is not in {self._where}")
        raise _Missing(f"{self._named(name)} in {self._where} has no {_IDENTITY_SETTINGS}")

    def of_container(self) -> Source:
        if relative := self._env.get(_RELATIVE):
            return Container(_RELATIVE, f"{_CONTAINER_HOST}{relative}")
        if full := self._env.get(_FULL):
            return Container(_FULL, full)
        raise _Missing(f"{_RELATIVE} and {_FULL} are not set")

    def of_machine(self) -> Source:
        if self._env.get(_NO_METADATA, "").lower() == "true":
            raise _Missing(f"{_NO_METADATA} is true, so the metadata of EC2 are not asked")
        mode = self._env.get(_METADATA_MODE, "").lower() or "ipv4"
        if mode not in _METADATA_HOSTS:
            raise Unusable(f"{_METADATA_MODE} must be IPv4 or IPv6, not {mode[:100]!r}")
        return Machine((self._env.get(_METADATA) or _METADATA_HOSTS[mode]).rstrip("/"))

    def _role(self, name: str, settings: Mapping[str, str], visited: list[str]) -> Source:
        source_profile, credential_source = settings.get("source_profile"), settings.get("credential_source")
        if source_profile and credential_source:
            raise Unusable(f"{self._place('source_profile', name)}: credential_source is set, too; one is needed")
        if source_profile:
            source = self._of_source_profile(name, source_profile, visited)
        elif credential_source:
            source = self._of_credential_source(name, credential_source)
        else:
            raise Unusable(f"{self._place('role_arn', name)}: source_profile or credential_source is missing")
        duration = settings.get("duration_seconds")
        return AssumedRole(
            self._place("role_arn", name),
            self._sts,
            self._region,
            settings["role_arn"],
            settings.get("role_session_name") or None,
            settings.get("external_id") or None,
            int(duration) if duration and duration.isascii() and duration.isdigit() else None,  # else AWS's own
            settings.get("mfa_serial") or None,
            source,
        )

    def _of_source_profile(self, name: str, source_name: str, visited: list[str]) -> Source:
        settings, place = self._files.profile(source_name), self._place("source_profile", name)
        if settings is None:
            raise Unusable(f"{place}: there is no profile {source_name}")
        # A profile may be its own source where it has keys as well.
        if source_name in visited and (source_name != name or not _has_keys(settings)):
            raise Unusable(f"{place}: {source_name} leads back to itself")
        if _is_role(settings) and not _has_keys(settings):
            return self._role(source_name, settings, [*visited, source_name])
        source = self._of_profile(source_name, settings, {})
        if source is None:
            raise Unusable(f"{place}: the profile {source_name} has no {_IDENTITY_SETTINGS}")
        return source

    def _of_credential_source(self, name: str, source: str) -> Source:
        kinds = {"Environment": self.of_environment, "EcsContainer": self.of_container}
        kinds["Ec2InstanceMetadata"] = self.of_machine
        place = self._place("credential_source", name)
        if source not in kinds:
            raise Unusable(f"{place} must be {', '.join(kinds)}, not {source[:100]!r}")
        try:
            return kinds[source]()
        except _Missing as why:
            raise Unusable(f"{place}: {why}") from None

    def _of_profile(self, name: str, settings: Mapping[str, str], env: Mapping[str, str]) -> Source | None:
        """Return the source that a profile names, but for a role with the keys of another; None: it names none.

        Args:
            name: Of the profile.
            settings: Its own.
            env: Whose web identity counts before that of the profile.
        """
        if token_file := env.get(_TOKEN_FILE) or settings.get("web_identity_token_file"):
            return self._web_identity(name, settings, env, token_file)
        if "sso_account_id" in settings or "sso_role_name" in settings:
            return self._single_sign_on(name, settings)
        shared = self._files.credentials.get(name, {})
        if "aws_access_key_id" in shared:
            return self._written(name, shared)
        if "login_session" in settings:
            place, profile = self._place("login_session", name), None if name == DEFAULT_PROFILE else name
            return ConsoleLogin(place, profile, settings["login_session"], self._configured("SIGNIN"), self._region)
        if command := settings.get("credential_process"):
            return Program(self._place("credential_process", name), command)
        if "aws_access_key_id" in (config := self._files.config.get(name, {})):
            return self._written(name, config)
        return None

    def _web_identity(
        self, name: str, settings: Mapping[str, str], env: Mapping[str, str], token_file: str
    ) -> WebIdentity:
        is_set = bool(env.get(_TOKEN_FILE))
        place = _TOKEN_FILE if is_set else self._place("web_identity_token_file", name)
        arn = env.get(_ROLE) or settings.get("role_arn")
        if not arn:
            raise Unusable(f"{place}: {_ROLE if is_set else 'role_arn'} is missing")
        session_name = env.get(_SESSION) or settings.get("role_session_name") or None
        return WebIdentity(place, self._sts, arn, session_name, token_file)

    def _single_sign_on(self, name: str, settings: Mapping[str, str]) -> SingleSignOn:
        session_name = settings.get("sso_session")
        place = self._place("sso_session" if session_name else "sso_start_url", name)
        if session_name:
            session = self._files.sso_sessions.get(session_name)
            if session is None:
                raise Unusable(f"{place}: there is no section [sso-session {session_name}]")
            for key in sorted(session.keys() & settings.keys()):
                if session[key] != settings[key]:
                    raise Unusable(f"{place}: {key} is another one in [sso-session {session_name}]")
            settings = {**settings, **session}
        needed = ("sso_account_id", "sso_role_name", "sso_start_url", "sso_region")
        if lacking := [key for key in needed if not settings.get(key)]:
            raise Unusable(f"{place}: {' and '.join(lacking)} {'are' if lacking[1:] else 'is'} missing")
        account_id, role_name, start_url, region = (settings[key] for key in needed)
        if not region.replace("-", "").isalnum() or not region.isascii():  # it becomes a part of the address
            raise Unusable(f"{self._place('sso_region', name)} must be a region such as us-east-1")
        return SingleSignOn(
            place,
            self._configured("SSO") or f"https://portal.sso.{region}.{domain_of(region)}",
            self._configured("SSO_OIDC") or f"https://oidc.{region}.{domain_of(region)}",
            session_name or start_url,
            bool(session_name),
            account_id,
            role_name,
        )

    def _written(self, name: str, settings: Mapping[str, str]) -> StaticKeys:
        key_id, secret = settings["aws_access_key_id"], settings.get("aws_secret_access_key")
        if not key_id or not secret:
            lacking = "aws_secret_access_key" if key_id else "aws_access_key_id"
            raise Unusable(f"{self._place(lacking, name)} is missing")
        return StaticKeys(SigningKeys(key_id, secret, settings.get("aws_session_token") or None))

    @property
    def _where(self) -> str:
        return " and ".join(self._files.places)

    def _named(self, name: str) -> str:
        return f"the profile {name} ({PROFILE_VARIABLE})" if self._env.get(PROFILE_VARIABLE) else f"the profile {name}"

    def _place(self, key: str, name: str) -> str:
        return f"{key} of {self._named_source(name)} in {self._where}"

    def _named_source(self, name: str) -> str:
        return self._named(name) if name == profile_name(self._env) else f"the profile {name}"


def _is_role(settings: Mapping[str, str]) -> bool:
    return "role_arn" in settings and "web_identity_token_file" not in settings


def _has_keys(settings: Mapping[str, str]) -> bool:
    return "aws_access_key_id" in settings or "aws_secret_access_key" in settings
