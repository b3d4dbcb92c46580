"""Which code logs in to a provider, and refreshes its logins: as RFC 8628 has it, or in the way of OpenAI."""

from pathlib import Path

from pinnace_agent.config.credentials.device_login import DeviceLogin
from pinnace_agent.config.credentials.vendor_logins import vendor_of


def device_login_of(provider: str, folder: Path) -> DeviceLogin | None:
    """Return how a provider logs in. Arguments, result and errors as of `vendor_of`."""
    vendor = vendor_of(provider, folder)
    if vendor is None:
        return None
    if vendor.is_codex:
        from pinnace_agent.config.credentials.codex_login import CodexLogin

        return CodexLogin(vendor)
    return DeviceLogin(vendor)
