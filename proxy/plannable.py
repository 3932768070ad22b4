"""Which calls are planned, and what planning asks of one; pure."""

from typing import Final

from proxy.call import Call
from proxy.prefix.planned import Asked, Unplanned
from proxy.prefix.tags import tagged

ENDPOINT: Final = "chat/completions"
#: Bytes below which no cache of any provider keeps a prompt.
SMALL: Final = 2 * 1024
#: Bytes above which a prompt is sent as it came.
HUGE: Final = 2 * 1024 * 1024


def passed(call: Call) -> Unplanned | None:
    """Why a call is none to plan; None if it is one."""
    size = len(call.body)
    if call.endpoint != ENDPOINT or call.method != "POST":
        return Unplanned()
    if size < SMALL and not tagged(call.body):
        return Unplanned()
    return Unplanned("the prompt is too large to plan") if size > HUGE else None


def asked(call: Call) -> Asked:
    """The call as planning sees it."""
    return Asked(
        team=call.key.team,
        feature=call.feature,
        key=call.key.id,
        hint=call.conversation,
        body=call.body,
        shows=call.key.keeps_prompts,
    )
