"""Settings of providers that a login stores beside its key, or in the place of one: accounts, resources, regions.

They are variables, which an entry of auth.json has in `env`, as pi writes them; there they take precedence over those
of the environment. What pi asks for at a login is asked for here, and the resource of Azure, without which its key
leads nowhere. Nothing else that a provider reads is stored by a login. No value is a secret.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class ProviderSetting(NamedTuple):
    """One setting of a provider."""

    name: str
    """The variable."""
    about: str
    """What its value is, for users: behind "must be"."""
    form: "re.Pattern[str]"
    is_asked: bool = True
    """Whether it is asked for where nothing sets it; else it is only taken."""


class SettingWrong(Exception):
    """A setting is none of the provider, or its value has another form; the text names it."""


_PART: Final = re.compile(r"[A-Za-z0-9_-]+")
_NAME: Final = re.compile(r"[a-z0-9.:-]+")
_LINE: Final = re.compile(r"[^\x00-\x1f\x7f]+")
_ACCOUNT: Final = ProviderSetting(
    "CLOUDFLARE_ACCOUNT_ID", "the id of the account: letters, digits, dashes and underscores", _PART
)
PROVIDER_SETTINGS: Final[Mapping[str, tuple[ProviderSetting, ...]]] = MappingProxyType(
    {
        "azure": (
            ProviderSetting(
                "AZURE_OPENAI_RESOURCE_NAME",
                "the name of the resource: NAME in https://NAME.openai.azure.com",
                re.compile(r"[A-Za-z0-9-]+"),
            ),
            ProviderSetting(
                "AZURE_OPENAI_BASE_URL",
                "the https address of the resource, in place of its name",
                re.compile(r"https?://[^\s/]+\S*"),
                is_asked=False,
            ),
            ProviderSetting(
                "AZURE_OPENAI_DEPLOYMENT_NAME_MAP",
                "deployments that are not named like their model: MODEL=DEPLOYMENT,…",
                re.compile(r"[^=,\s]+=[^=,\s]+(,\s*[^=,\s]+=[^=,\s]+)*"),
                is_asked=False,
            ),
            ProviderSetting(
                "AZURE_OPENAI_API_VERSION",
                "the version of the API, such as v1",
                re.compile(r"[\w.-]+", re.ASCII),
                is_asked=False,
            ),
        ),
        "cloudflare-workers-ai": (_ACCOUNT,),
        "cloudflare-ai-gateway": (
            _ACCOUNT,
            ProviderSetting(
                "CLOUDFLARE_GATEWAY_ID", "the name of the gateway: letters, digits, dashes and underscores", _PART
            ),
        ),
        "google-vertex": (
            ProviderSetting("GOOGLE_CLOUD_PROJECT", "the id of the project", _NAME),
            ProviderSetting("GOOGLE_CLOUD_LOCATION", "a location, such as us-central1 or global", _NAME),
            ProviderSetting(
                "GOOGLE_APPLICATION_CREDENTIALS", "the path of a file of credentials", _LINE, is_asked=False
            ),
        ),
        "amazon-bedrock": (
            ProviderSetting("AWS_PROFILE", "the name of a profile of AWS", _LINE),
            ProviderSetting("AWS_REGION", "a region, such as us-east-1", _NAME),
        ),
    }
)
_WITHOUT_KEY: Final = frozenset({"google-vertex", "amazon-bedrock"})


def needs_key(provider: str) -> bool:
    """Return whether a provider needs a key; others have credentials of a cloud, and settings that lead to them."""
    return provider not in _WITHOUT_KEY


def set_settings(provider: str, env: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the settings that an environment has, with the variables of the provider's entry."""
    return frozenset(each.name for each in PROVIDER_SETTINGS.get(provider, ()) if env.get(each.name))


def asked_settings(provider: str, are_set: Collection[str]) -> list[ProviderSetting]:
    """Return the settings to ask for: those that nothing sets, nor another one in their place.

    Args:
        provider: Its id.
        are_set: The names of those that something sets.
    """
    if provider == "azure" and "AZURE_OPENAI_BASE_URL" in are_set:
        return []
    return [each for each in PROVIDER_SETTINGS.get(provider, ()) if each.is_asked and each.name not in are_set]


def read_settings(provider: str, words: Iterable[str]) -> dict[str, str]:
    """Read settings as users write them: `NAME=VALUE`.

    Raises:
        SettingWrong: One is none of the provider, or has another form; the text names it.
    """
    found: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        found[name] = checked_value(provider, name, value)
    return found


def checked_value(provider: str, name: str, value: str) -> str:
    """Return the value of a setting, without spaces around it. Errors as of `read_settings`."""
    known = {each.name: each for each in PROVIDER_SETTINGS.get(provider, ())}
    if (setting := known.get(name)) is None:
        which = f"one of {', '.join(known)}" if known else "left out: it has none"
        raise SettingWrong(f"a setting of {provider} must be {which}, as NAME=VALUE")
    value = value.strip()
    if not setting.form.fullmatch(value):
        raise SettingWrong(f"{name} must be {setting.about}")
    return value
