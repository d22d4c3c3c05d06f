from __future__ import annotations

from collections.abc import Callable

from bench.types import ModelError, ModelErrorKind, Output, Retry

# An error of another kind comes back the same however often it is asked: a wrong key, a request that is refused.
TRANSIENT: frozenset[ModelErrorKind] = frozenset({"rate_limit", "unavailable", "timeout", "connection"})


def exponential(retries: int, wait: float) -> Retry:
    """`retries` more attempts, after `wait` seconds, twice that, four times that and so on."""
    return Retry(TRANSIENT, tuple(wait * 2**number for number in range(retries)))


def again(attempt: Callable[[], Output], rule: Retry) -> Output:
    """What `attempt` gives, tried again by `rule`; the last ModelError when there is no attempt left."""
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_before_delay, wait_chain, wait_fixed

    if not rule.waits:
        return attempt()
    retrying = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, ModelError) and _named(error, rule)),
        wait=wait_chain(*map(wait_fixed, rule.waits)),
        stop=stop_after_attempt(len(rule.waits) + 1) | stop_before_delay(rule.within),
        reraise=True,
    )
    return retrying(attempt)


def _named(error: ModelError, rule: Retry) -> bool:
    return error.kind in rule.kinds and (rule.statuses is None or error.status in rule.statuses)
