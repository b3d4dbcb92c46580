"""Which code logs in to a provider, and refreshes its logins: as the RFCs have it, or in a way of their own."""

from pathlib import Path

from pinnace_agent.config.credentials.browser_login import BrowserLogin
from pinnace_agent.config.credentials.device_login import DeviceLogin
from pinnace_agent.config.credentials.vendor_logins import Vendor, vendor_of


def device_login_of(provider: str, folder: Path) -> DeviceLogin | None:
    """Return how a provider logs in with a code, and refreshes. Arguments, result and errors as of `vendor_of`."""
    vendor = vendor_of(provider, folder)
    return _tokens_of(vendor) if vendor is not None and vendor.device_path else None


def browser_login_of(provider: str, folder: Path) -> BrowserLogin | None:
    """Return how a provider logs in in a browser. Arguments, result and errors as of `vendor_of`."""
    vendor = vendor_of(provider, folder)
    return BrowserLogin(vendor, _tokens_of(vendor)) if vendor is not None and vendor.browser is not None else None


def _tokens_of(vendor: Vendor) -> DeviceLogin:
    """Return what asks the server of a vendor for tokens."""
    if vendor.kind == "codex":
        from pinnace_agent.config.credentials.codex_login import CodexLogin

        return CodexLogin(vendor)
    if vendor.kind == "copilot":
        from pinnace_agent.config.credentials.copilot_login import CopilotLogin

        return CopilotLogin(vendor)
    if vendor.kind == "openrouter":
        from pinnace_agent.config.credentials.openrouter_login import OpenRouterLogin

        return OpenRouterLogin(vendor)
    return DeviceLogin(vendor)
