"""How long to wait before a failed request is sent again.

Pure: no clock, no randomness. Which errors are worth a retry is decided where the provider's answer is read.
"""

from pinnace_statechart.state import RetryPolicy


def delay_s(policy: RetryPolicy, attempt: int, retry_after_s: float | None) -> float:
    """Return the wait in seconds before `attempt` (from 1).

    A longer delay that the server requests is used up to `policy.max_delay_s`. Rule R-RTY-01.
    """
    computed = policy.base_delay_s * 2.0 ** (attempt - 1)
    wanted = computed if retry_after_s is None else max(computed, retry_after_s)
    return min(wanted, policy.max_delay_s)
