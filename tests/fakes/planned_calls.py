"""Calls that are planned and ready to go: rules that many share, then a word of their own."""

from typing import Any, Final

from proxy.prefix.breakpoints.plan import ExperimentArm, Plan
from proxy.prefix.conversations import ResolvedConversation
from proxy.prefix.explain.findings import CallEvidence
from proxy.prefix.planned import Draft, Planned, PlanningRequest, PlanningTarget
from proxy.prefix.prediction.prefix_chains import ExpectedRead
from proxy.prefix.prediction.sent_call import SentCall
from proxy.prefix.prompts.conversation import ConversationChain
from proxy.prefix.prompts.prompt import parse_prompt
from slo.price import TokenRates
from tests.proxy.prefix.sent_calls import ANTHROPIC, fingerprint, users

#: Two dollars per million tokens.
RATES: Final = TokenRates(input=2_000_000_000)
MARKED: Final = {0: "5m"}
#: Rules of so many tokens.
LONG, SHORT = ("rules", 10_000), ("rules", 1_500)


def planned_call(
    call: SentCall, *, there: int = 0, arm: ExperimentArm = ExperimentArm.TREATED, **way: Any
) -> Planned:
    """A call of which so many tokens are in the cache already."""
    body = b'{"messages":[]}'
    return Planned(
        prompt=parse_prompt(body),
        draft=Draft(
            request=PlanningRequest(team="acme", feature="chat", key="key_1", body=body),
            prompt=parse_prompt(body),
            fingerprint=fingerprint,
            chain=ConversationChain((b"c",)),
            resolved=ResolvedConversation(name=b"c"),
            turns=0,
        ),
        target=PlanningTarget(
            **{"upstream": "up", "model": "m", "regime": call.regime, "rates": RATES, **way}
        ),
        plan=Plan(arm=arm),
        body=body,
        evidence=CallEvidence(
            sent=call, expected=ExpectedRead(tokens=there, scale=call.scale()), now=0.0
        ),
    )


def marked_call(text: str, shared: tuple[str, int] = LONG, **more: Any) -> Planned:
    """A call whose rules are marked, and what is said after them."""
    regime, marks = more.pop("regime", ANTHROPIC), more.pop("marks", MARKED)
    return planned_call(users(regime, shared, (text, 20), marks=marks), **more)
