"""What every test shares: hypothesis profiles, the seed of this run, and the peer programs.

HYPOTHESIS_PROFILE chooses the profile: `dev` (default), `ci`, `long`.
"""

import os
import random
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TOOLS = Path(__file__).parent.parent / ".tools"

# No deadline anywhere: the machine is shared, and how long one example took says nothing about the code.
# too_slow is about the machine too. print_blob: a failure can be repeated from the printed report alone.
_COMMON = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
PROFILES = {
    "dev": settings(_COMMON, max_examples=50),
    "ci": settings(_COMMON, max_examples=50),
    "long": settings(_COMMON, max_examples=2_000),
}
for _name, _profile in PROFILES.items():
    settings.register_profile(_name, _profile)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "dev")
settings.load_profile(PROFILE)


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose a seed before hypothesis does, so that it can be printed while nothing has failed yet.

    Not for `dev`: with a seed hypothesis no longer starts with the examples that failed last time.
    """
    # A shell starts its background jobs with interrupts ignored, and a child inherits that: an agent under test would
    # never be interrupted. A handler is not inherited, so every child begins as one in the foreground does.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if PROFILE != "dev" and config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))


def pytest_report_header(config: pytest.Config) -> str:
    seed = config.getoption("--hypothesis-seed")
    return f"properties: HYPOTHESIS_PROFILE={PROFILE}" + (f" --hypothesis-seed={seed}" if seed else "")


def _peer(name: str, *parts: Path) -> list[str]:
    missing = [part for part in parts if not part.exists()]
    if missing:
        reason = f"{name} is not there: scripts/peers installs it"
        # A developer without it sees a skip; CI, which installs it, must never pass without it.
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return [str(part) for part in parts]


@pytest.fixture(scope="session")
def original_pi() -> list[str]:
    """The command of the original agent, release 1.5.2; its own arguments follow."""
    node = TOOLS / "node22" / "bin" / "node"
    return _peer("pi 1.5.2", node, TOOLS / "pi-1.5.2" / "package" / "dist" / "bundle" / "cli.js")


@pytest.fixture(scope="session")
def spin() -> list[str]:
    """The command of the model checker; needs a C compiler, which scripts/peers installs beside it."""
    return _peer("spin", TOOLS / "bin" / "spin", TOOLS / "bin" / "cc")[:1]


@pytest.fixture(scope="session")
def search_tools_path() -> Path:
    """The folder with `rg` and `fd` under these names, to be put first on an agent's PATH."""
    _peer("ripgrep and fd", TOOLS / "bin" / "rg", TOOLS / "bin" / "fd")
    return TOOLS / "bin"


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser."""
    return _peer("Chromium", TOOLS / "bin" / "chromium")[0]
