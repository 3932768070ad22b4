"""Texts for the codes that say why a conversation was compacted or was not."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from compaction.cost_model import MIN_CALLS, MIN_PROGRESS_SHARE

#: Codes of calls at which something is compacted; each other code says why no more is.
COMPACTED_CODES: Final = frozenset({"pays", "banked", "forced", "window"})
DRY_RUN_PREFIX: Final = "dry_run: "
"""Before the code of what would have been done, where a call was only reckoned."""

REASON_TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # It was compacted.
        "pays": "enough calls are to be expected for the compaction to pay",
        "banked": "what was saved before pays for the compaction, should no call follow",
        "forced": "it was asked for, whether it pays or not",
        "window": "it would soon not fit into the model's window",
        # It could not be compacted, or a compaction would not help.
        "nothing_to_compact": (
            "there is nothing to compact beside system text, the last turns and calls without a"
            " result, which stay"
        ),
        "no_progress": (
            f"a compaction would take away less than {100 * MIN_PROGRESS_SHARE:.0f} % of it"
        ),
        "below_least": "it is too short for compaction to pay, or would be too short to cache",
        "below_target": "it is no longer than its target",
        "floor": "what cannot be compacted is too long by itself, so a compaction would not help",
        # It is not the time.
        "too_few_calls": f"nothing is known before {MIN_CALLS} calls of how it goes on",
        "cooling_down": "the last compaction was a short while ago",
        "too_early": "a larger compaction, later, costs less",
        "does_not_pay": "it may end before a compaction is paid back",
        "stake_lost": "compaction has cost the feature what it may of late",
        # It is left alone.
        "off": "compaction is off",
        "trim": "trim goes no further",
        "native": "compaction is left to its provider",
        "client": "its client asks for a summary itself",
        "control": "its conversation goes unmodified, to compare others with",
        "dry_run": "it was a dry run",
        "signed": (
            "it holds signed thinking, before which nothing may change at its provider; the mode"
            " native leaves compaction to the provider"
        ),
        "thinks": (
            "the model's thinking is signed together with all that stands before it, and too few"
            " answers came to see that the caller sends none of it back"
        ),
        "api": (
            "its provider keeps the conversation, or it holds items that nothing may be taken away"
            " around"
        ),
        "slots": "its caller declares slots inside the conversation",
        "nothing_said": "it has no message but the system's",
        "refused": "an upstream refused a compacted call of its feature a short while ago",
        "recall_failed": "its model recalled without end",
        # It could not be done.
        "unreadable": "it could not be read, or not be written again as it is",
        "not_compactable": "its messages do not fit together; a note says how",
        "too_large": "it is too large to be compacted in time",
        "late": "compacting it took too long",
        "busy": "too many others were waiting to be compacted",
        "failed": "compaction failed because of a bug in the gateway; its log has more",
        "grew": "it would have become longer",
        "invalid": "its provider would have refused the result",
    }
)
"""Texts that go on after a colon, by the code in receipts, headers and ``compact``."""


PASSTHROUGH_TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "no_prompt": "it asks an endpoint or in a way that has no prompt to plan",
        "other_wire": "it goes to an upstream that does not take Responses calls in their own form",
        "under_2_kb": (
            "its prompt is smaller than 2 KB, which hardly any cache keeps, so it went unmodified"
        ),
        "off": "planning is off for its feature",
    }
)
"""Reasons for which planning left a call alone, by the code in its receipt; others are texts."""


def reason_text(code: str) -> str:
    """The text of a code; the code's own words where this version does not know it."""
    if code.startswith(DRY_RUN_PREFIX):
        return f"{REASON_TEXTS['dry_run']}; else: {reason_text(code.removeprefix(DRY_RUN_PREFIX))}"
    return REASON_TEXTS.get(code) or code.replace("_", " ")
