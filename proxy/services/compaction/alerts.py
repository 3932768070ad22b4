"""What people are told of compaction: that a feature was stepped back, or that it became dearer."""

import shlex
from typing import Final

from compaction.policy import CompactionMode
from proxy.services.compaction.live_quality import WINDOW, Place, Sums
from slo.alert import Alert, Severity, format_amount, stable_id
from slo.budget import BudgetUnit

_DAY: Final = 86_400


def stepped_back(
    place: Place, before: CompactionMode, now_is: CompactionMode, why: str, now: float
) -> Alert:
    """That the live proof stepped a feature back."""
    named = _named(place)
    return Alert(
        kind="compaction",
        subject=named,
        severity=Severity.TICKET,
        title=f"Compaction of {named} was stepped back from {before} to {now_is}",
        facts=(("found", why),),
        action=f"Conversations are compacted as {now_is} from now on, in all processes.",
        mend=f"See `{_command('list')}`; once it is mended: `{_command('resume', *place)}`.",
        began=now,
        expires=now + WINDOW,
    )


def dearer(place: Place, sums: Sums, now: float) -> Alert:
    """That a feature's prompts became smaller and dearer; once a day."""
    named = _named(place)
    day = str(int(now // _DAY))
    return Alert(
        id=stable_id("compaction", "dearer", *place, day),
        kind="compaction",
        subject=named,
        severity=Severity.TICKET,
        title=f"Compaction of {named} sends less and costs more",
        facts=(
            ("calls folded", f"{sums.folded:,}"),
            ("tokens not sent", f"{sums.tokens:,}"),
            ("saved", format_amount(BudgetUnit.USD, sums.nanos)),
        ),
        action="Nothing: what was folded stays so.",
        mend=(
            "Conversations may end soon after a fold, or begin otherwise each time. A gentler mode:"
            f" `{_command('mode', *place, 'trim')}`."
        ),
        began=now,
        expires=now + WINDOW,
    )


def _named(place: Place) -> str:
    team, feature = place
    return f"feature {feature or '(none)'} of team {team}"


def _command(verb: str, *words: str) -> str:
    return shlex.join(("thriftgate", "compaction", verb, *words))
