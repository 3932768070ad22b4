"""The same calls, had they been sent unmodified: what their cache would hold, and what they cost.

::

    expect ── a call that is modified: what it should read if no call ever had been
    trial ─── its marks: whether marks have earned by now what they cost here
    note ──── it was answered: what it cost beside that; judged by its feature's latest calls
    harm ──── whether those are surely dearer

Where a prompt that is not marked costs nothing but its tokens (Anthropic), a mark is a bet. So
marks are reckoned before they are sent: what they would have cost, and what they would have saved.
They are sent once they would have saved more than the next ones cost.
"""

from typing import Final

import msgspec

from proxy.prefix.arrangement import Arranged, Marked, as_it_came
from proxy.prefix.expected.billing import expected_usage, prompt_cost, write_surcharge
from proxy.prefix.expected.chains import Chains
from proxy.prefix.expected.lookups import stored_nothing
from proxy.prefix.expected.parameters import parameters
from proxy.prefix.expected.sent import Sent
from proxy.prefix.explaining.findings import Evidence
from proxy.prefix.harm import Harm, HarmWatch, Reckoned
from proxy.prefix.marking.keys import is_explicit
from proxy.prefix.marking.plan import Arm
from proxy.prefix.planned import Direct, Draft, Planned, Trial, Way, place
from proxy.prefix.prompts.marks import understood
from proxy.prefix.prompts.recent import Recent
from proxy.prefix.prompts.regime import Regime
from proxy.prefix.standing import Place
from slo.usage import Usage

#: Prefixes that unmodified calls would have sent: 12 MB.
_PREFIXES: Final = 50_000
_FEATURES: Final = 4_096
#: The cache in which a provider's own choice of breakpoints can be switched off.
_MODAL: Final = "openai-breakpoint"
#: The cache in which what no mark ends is not stored, and so costs nothing.
_BETS: Final = "anthropic-breakpoint"
#: How many times over marks have to have earned what the next ones cost: the first that comes again
#: may be the only one.
_SAFETY: Final = 3.0
#: How many times over, besides, what those that were sent have cost and not yet brought back: while
#: one bet is open, many more would have to be won before the next is made.
_PATIENCE: Final = 10.0
#: What earnings keep of their weight at the next call: some 500 count.
_KEPT: Final = 0.998


class Unmodified:
    """What unmodified calls would have read and cost, beside those that were sent.

    Args:
        credit: What a feature's marks may cost before they would have earned it.
    """

    def __init__(self, credit: float = 0.0) -> None:
        self._credit = credit
        self._chains = Chains(_PREFIXES, is_brief=True)
        self._trials = Chains(_PREFIXES, is_brief=True)
        self._earned: Recent[Place, float] = Recent(_FEATURES)
        self._paid: Recent[Place, float] = Recent(_FEATURES)
        self._watches: Recent[Place, HarmWatch] = Recent(_FEATURES)

    def expect(
        self, draft: Draft, way: Way, found: Arranged, sending: Marked, sent: Sent, now: float
    ) -> Direct | None:
        """The call as it would have been sent unmodified; None where that reads the same.

        A call that is sent unmodified may still find less where earlier ones were modified.

        Raises:
            Unplannable: If a message cannot be read.
        """
        if sending.body is draft.asked.body:
            if way.regime.name != _MODAL:
                return None
            return Direct(sent=sent, expected=self._chains.expected(sent, now))
        prompt = found.prompt
        is_same = prompt.messages == draft.prompt.messages and prompt.tools == draft.prompt.tools
        came = found if is_same else as_it_came(draft, found.plan)
        marks = understood(came.given, came.blocks, way.regime)
        explicit = is_explicit(came.prompt, way.regime)
        call = msgspec.structs.replace(sent, marks=marks, explicit=explicit)
        if is_same and sending.prompt.fields == draft.prompt.fields:
            call.__dict__.update(sent.__dict__)  # the same prefixes, hashed once
        else:
            where = parameters(came.prompt, way.regime, draft.fingerprint, way.model)
            call = msgspec.structs.replace(
                call,
                blocks=came.bare,
                lines=came.lines,
                early=where.early,
                late=where.late,
                tail=0 if not is_same else sent.tail,
            )
        return Direct(sent=call, expected=self._chains.expected(call, now))

    def trial(
        self, draft: Draft, way: Way, evidence: Evidence, direct: Direct | None
    ) -> Trial | None:
        """The call with its marks, and whether they are sent; None where that is no bet.

        They are sent where marks have earned what these cost more, and where the call is cheaper
        with them already.

        Args:
            draft: The call.
            way: Where it goes.
            evidence: What is known of it, with its marks.
            direct: The same call unmodified.
        """
        sent = evidence.sent
        if direct is None or sent.regime.name != _BETS or sent.marks == direct.sent.marks:
            return None
        expected = self._trials.expected(sent, evidence.now)
        unmodified = expected_usage(direct.sent, direct.expected, direct.sent.estimate)
        marked = expected_usage(sent, expected, sent.estimate)
        more = _surcharge(marked, unmodified, sent.regime)
        if not marked.written and not marked.cache_read:
            # By estimate it is too short to be stored; if it is not, all of it is written.
            more = sent.estimate * (float(min(sent.regime.writes.values())) - 1.0)
        more *= _price(way)
        really = expected_usage(sent, evidence.expected, sent.estimate)
        pays = prompt_cost(really, sent.regime) < prompt_cost(unmodified, sent.regime)
        where = place(draft.asked, way.model)
        earned, paid = self._earned.peek(where) or 0.0, self._paid.peek(where) or 0.0
        needed = _SAFETY * (more + _PATIENCE * max(0.0, -paid))
        is_live = pays or earned + self._credit >= needed
        stake = max(0.0, more) if is_live and not pays else 0.0
        if stake:
            self._paid.put(where, paid - stake)
        return Trial(sent=sent, expected=expected, is_live=is_live, stake=stake)

    def note(self, planned: Planned, usage: Usage | None, before: int) -> int:
        """Compare an answered call with the same call unmodified.

        Args:
            planned: The call.
            usage: What its provider counted; None where it did not.
            before: The number of its conversation's call before; 0 for none.

        Returns:
            Its own number while it waits to be judged; 0 where it does not.
        """
        sent, now, direct = planned.evidence.sent, planned.evidence.now, planned.direct
        if usage is None:
            self._chains.note(direct.sent if direct is not None else sent, None, now)
            if planned.trial is not None:
                self._trials.note(planned.trial.sent, None, now)
                self._bring_back(planned.place, planned.trial.stake)
            return before
        unmodified, expected = usage, expected_usage(sent, planned.evidence.expected, usage.prompt)
        if direct is not None and not _is_refused(usage, expected, sent.regime):
            total = usage.prompt * direct.sent.size // max(1, sent.size)
            unmodified = expected_usage(direct.sent, direct.expected, total)
        self._chains.note(direct.sent if direct is not None else sent, unmodified, now)
        if planned.plan.arm is not Arm.TREATED:
            return 0
        self._reckon(planned, usage, unmodified)
        if direct is not None:
            # What the provider loses, it would have lost of an unmodified prompt, too.
            usage = expected if unmodified is not usage else usage
        watch = self._watches.of(planned.place, HarmWatch)
        return watch.observe(now, _reckoned(usage, unmodified, planned), before)

    def _reckon(self, planned: Planned, usage: Usage, unmodified: Usage) -> None:
        """Count what marks earned with an answered call, or would have."""
        sent, trial = planned.evidence.sent, planned.trial
        if sent.regime.name != _BETS:
            return
        if trial is None:
            self._trials.note(sent, usage, planned.evidence.now)
            return
        marked = usage
        if not trial.is_live:
            marked = expected_usage(trial.sent, trial.expected, usage.prompt)
        self._trials.note(trial.sent, marked, planned.evidence.now)
        price = _price(planned.way)
        saved = prompt_cost(unmodified, sent.regime) - prompt_cost(marked, sent.regime)
        earned = (self._earned.get(planned.place) or 0.0) * _KEPT + saved * price
        if trial.is_live:
            self._bring_back(planned.place, trial.stake + saved * price)
        else:
            # Nothing was paid: bets that are not made cannot lose more than the next one.
            bet = _surcharge(marked, unmodified, sent.regime) * price
            earned = max(earned, -max(0.0, bet))
        self._earned.put(planned.place, earned)

    def _bring_back(self, where: Place, amount: float) -> None:
        """Add to what marks that were sent brought back, less what they cost."""
        self._paid.put(where, (self._paid.get(where) or 0.0) * _KEPT + amount)

    def harm(self, place: Place, now: float) -> Harm | None:
        """That planning makes the place's calls surely dearer; None where it does not."""
        watch = self._watches.peek(place)
        return watch.harm(now) if watch is not None else None

    def forget(self, place: Place) -> None:
        """Judge a place by its next calls alone."""
        self._watches.put(place, HarmWatch())


def _is_refused(usage: Usage, expected: Usage, regime: Regime) -> bool:
    """Whether the provider stored and found nothing where there was something to store or find."""
    return stored_nothing(regime, usage) and bool(expected.written or expected.cache_read)


def _price(way: Way) -> float:
    """What a fresh token costs on this way, in any unit; 1 where nobody knows."""
    rates = way.rates
    return float(rates.input) if rates is not None and rates.input else 1.0


def _surcharge(marked: Usage, unmodified: Usage, regime: Regime) -> float:
    """What a prompt pays for writing over what it would have paid, in fresh tokens."""
    return write_surcharge(marked, regime) - write_surcharge(unmodified, regime)


def _reckoned(usage: Usage, unmodified: Usage, planned: Planned) -> Reckoned:
    regime, price = planned.way.regime, _price(planned.way)
    lives = [life for ttl, life in regime.lifetimes.items() if getattr(usage, f"write_{ttl}", 0)]
    return Reckoned(
        planned=prompt_cost(usage, regime) * price,
        direct=prompt_cost(unmodified, regime) * price,
        surcharge=_surcharge(usage, unmodified, regime) * price,
        lives=max(lives, default=0.0),
    )
