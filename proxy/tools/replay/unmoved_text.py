"""Progress of layout learning by feature, and why none of a feature's text was moved."""

from typing import Final

import msgspec

from proxy.prefix.layouts.layout import Layout, instructions
from proxy.prefix.layouts.learning import CALLS, CONVERSATIONS, LEAST
from proxy.prefix.planned import Planned

_BETWEEN: Final = "\0"
#: Text in a note about a move that was passed over.
_STAYS: Final = "stays"
_NOTHING: Final = "its moves found nothing to move"


class FeatureNote(msgspec.Struct, frozen=True, kw_only=True):
    """A feature of which no text moved, or whose cache marks wait, and the calls that met it."""

    feature: str
    calls: int
    why: str


class FeatureProgress(msgspec.Struct):
    """One feature so far.

    Attributes:
        layouts: Layouts learned of it; version 1 comes first.
        approved: Versions in force one after the other, without those that were rolled back.
        closed_until: Time until which no layout approves itself, for one was rolled back.
        ruled: Planned calls that have instructions.
        varies: True if two calls have different instructions.
        beyond: The least tokens its cache keeps, where only they keep moves from paying; else 0.
        note: Note in which a call's layout says that it moved nothing.
        waits: Reason that the marks of the latest call wait; "" where none does.
    """

    layouts: list[Layout] = []
    approved: list[int] = []
    closed_until: float = 0.0
    planned: int = 0
    passed: int = 0
    passed_why: str = ""
    ruled: int = 0
    moved: int = 0
    varies: bool = False
    beyond: int = 0
    note: str = ""
    waiting: int = 0
    waits: str = ""
    _first: bytes = b""
    _conversations: set[bytes] = set()

    @property
    def calls(self) -> int:
        """All calls of it."""
        return self.planned + self.passed

    @property
    def current_version(self) -> int:
        """Version that new conversations begin with; 0 for none."""
        return self.approved[-1] if self.approved else 0

    def approve(self, layout: Layout) -> None:
        """Let a layout hold from now on."""
        self.layouts.append(layout)
        self.approved.append(len(self.layouts))

    def step_back(self, version: int, until: float) -> None:
        """Let the layout before hold again, where this one still holds."""
        if version and version == self.current_version:
            self.approved.pop()
            self.closed_until = until

    def layout_version(self, version: int) -> Layout | None:
        """The layout of that version; None where there is none."""
        return self.layouts[version - 1] if 0 < version <= len(self.layouts) else None

    def record_marks(self, planned: Planned) -> None:
        """Count a planned call by whether its cache marks wait."""
        self.waits = planned.trial.waits if planned.trial is not None else ""
        self.waiting += bool(self.waits)

    def leave(self, why: str) -> None:
        """A call of it could not be planned."""
        self.passed += 1
        self.passed_why = why

    def observe(self, planned: Planned) -> None:
        """A call of it was sent as it was planned.

        Raises:
            Unplannable: If a message cannot be read.
        """
        self.planned += 1
        draft = planned.draft
        if planned.prompt.messages != draft.prompt.messages:
            self.moved += 1
        elif planned.plan.layout:
            self.note = next((note for note in planned.notes if _STAYS in note), _NOTHING)
        texts = [text for _, text in instructions(draft.prompt)]
        if not texts:
            return
        self.ruled += 1
        digest = draft.fingerprint(_BETWEEN.join(texts).encode(errors="surrogatepass"))
        self._first = self._first or digest
        self.varies = self.varies or digest != self._first
        if len(self._conversations) < CONVERSATIONS:
            self._conversations.add(draft.conversation)

    def why(self) -> str:
        """Reason that none of its text moved."""
        conversations = len(self._conversations)
        little = (
            f"too little to learn from: {self.ruled} of {CALLS} calls and"
            f" {conversations} of {CONVERSATIONS} conversations"
        )
        reasons = (
            (not self.planned, f"no call could be planned: {self.passed_why}"),
            (not self.ruled, "its calls have no instructions"),
            (not self.varies, "its instructions are the same in every call"),
            (bool(self.note), self.note),
            (bool(self.layouts), "no conversation began after moves were learned"),
            (self.ruled < CALLS and conversations < CONVERSATIONS, little),
            (self.beyond > 0, f"moves would not reach the {self.beyond:,} tokens its cache keeps"),
        )
        rest = f"no move of what varies would let an average call read {LEAST} tokens more"
        return next((why for holds, why in reasons if holds), rest)
