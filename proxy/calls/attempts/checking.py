"""The step between an answer that has begun and its delivery: checks of a small model's answer.

A whole answer is in memory before the caller has anything of it. One that fails a check is billed
and not given: the next route is tried, as after a failure. Streams are given as they come.
"""

import asyncio
from typing import Final

import msgspec

from proxy.calls.attempts.attempt import Attempt
from proxy.calls.attempts.steps import AnsweredAttempt
from proxy.calls.eligibility.eligibility import CHAT
from proxy.errors import UpstreamError
from proxy.fast_path.small_first.answer_checks import CheckRules, failed_check

#: Bytes of request and answer from which on checking takes a millisecond or more.
_MIN_THREADED_BYTES: Final = 16 * 1024
#: The route did its part: its breaker counts no failure, and another model may do better.
_STATUS: Final = 422


async def check(attempt: Attempt, step: AnsweredAttempt) -> AnsweredAttempt:
    """Check a small model's whole answer to a chat call where its choice asks for that.

    Raises:
        UpstreamError: If it fails; the answer is closed with the attempt.
    """
    rules, call = attempt.choice.checks, attempt.context.call
    if rules is None or not step.answer.is_whole or call.endpoint != CHAT:
        return step
    failure = await _failed_check(rules, call.body, step.answer.first_piece)
    if not failure:
        return step
    attempt.context.timeline.ttft = None
    attempt.reach(msgspec.structs.replace(step, failed_meter=step.answer.meter))
    raise UpstreamError(
        f"The small model's answer failed a check. {failure}",
        status=_STATUS,
        code="small_answer_rejected",
        retryable=False,
    )


async def _failed_check(rules: CheckRules, request: bytes, answer: bytes) -> str:
    """The first check that fails, on a thread where that takes long."""
    if len(request) + len(answer) < _MIN_THREADED_BYTES:
        return failed_check(rules, request, answer)
    return await asyncio.to_thread(failed_check, rules, request, answer)
