"""Alerts of compaction: a feature was stepped back, or became more expensive."""

import shlex
from typing import Final

from compaction.policy import CompactionMode
from proxy.services.compaction.live_quality import WINDOW_S, CompactionSums, Place
from slo.alert import Alert, Severity, format_amount, stable_id
from slo.budget import BudgetUnit

_DAY: Final = 86_400


def stepped_back_alert(
    place: Place, before: CompactionMode, now_is: CompactionMode, why: str, now: float
) -> Alert:
    """The alert that the live quality check stepped a feature back."""
    named = _feature_label(place)
    return Alert(
        kind="compaction",
        subject=named,
        severity=Severity.TICKET,
        title=f"Compaction of {named} was stepped back from {before} to {now_is}",
        facts=(("found", why),),
        action=f"Conversations are compacted as {now_is} from now on, in all processes.",
        fix=f"See `{_command('list')}`; once it is fixed: `{_command('resume', *place)}`.",
        began=now,
        expires=now + WINDOW_S,
    )


def higher_cost_alert(place: Place, sums: CompactionSums, now: float) -> Alert:
    """The alert that a feature's prompts became smaller but more expensive; once a day."""
    named = _feature_label(place)
    day = str(int(now // _DAY))
    return Alert(
        id=stable_id("compaction", "dearer", *place, day),
        kind="compaction",
        subject=named,
        severity=Severity.TICKET,
        title=f"Compaction of {named} sends less and costs more",
        facts=(
            ("calls compacted", f"{sums.folded:,}"),
            ("tokens not sent", f"{sums.tokens:,}"),
            ("saved", format_amount(BudgetUnit.USD, sums.nanos)),
        ),
        action="None: what was compacted stays compacted.",
        fix=(
            "Conversations may end soon after a compaction, or begin differently each time."
            f" A gentler mode: `{_command('mode', *place, 'trim')}`."
        ),
        began=now,
        expires=now + WINDOW_S,
    )


def _feature_label(place: Place) -> str:
    team, feature = place
    return f"feature {feature or '(none)'} of team {team}"


def _command(verb: str, *words: str) -> str:
    return shlex.join(("thriftgate", "compaction", verb, *words))
