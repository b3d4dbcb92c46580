"""Which code logs in to a provider, and refreshes its logins: as RFC 8628 has it, or in a way of their own."""

from pathlib import Path

from pinnace_agent.config.credentials.device_login import DeviceLogin
from pinnace_agent.config.credentials.vendor_logins import vendor_of


def device_login_of(provider: str, folder: Path) -> DeviceLogin | None:
    """Return how a provider logs in. Arguments, result and errors as of `vendor_of`."""
    vendor = vendor_of(provider, folder)
    if vendor is None:
        return None
    if vendor.kind == "codex":
        from pinnace_agent.config.credentials.codex_login import CodexLogin

        return CodexLogin(vendor)
    if vendor.kind == "copilot":
        from pinnace_agent.config.credentials.copilot_login import CopilotLogin

        return CopilotLogin(vendor)
    return DeviceLogin(vendor)
