"""A recorded call of any log format; ``logs/`` reads them, the replay sends them."""

import msgspec

from proxy.records.call import UncompactedConversation


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded call.

    Attributes:
        at: Time at which it was made, in seconds from any moment; None where nothing says.
        body: The chat body, or that of a Messages call.
        reply: The assistant's message as JSON; "null" where it was not recorded.
        generated: Tokens of the answer, where they are known without its text; None if not.
        prompt_tokens: Tokens of the prompt by the log's own usage; None where it has none.
        where: The file and the line it comes from, as ``file:line``; "" for nowhere.
        origin: Whence its body was shortened; None where it is the caller's own.
        is_native: True if it is a Messages call.
        models: Names of its model, the most telling first; empty where nothing says.
        ending: Reason that its answer ended for, as its API names it; "" where nothing says.
        grades: Grades of answers to it by model, the better the higher; empty where it has none.
        answer_problem: Reason that its recorded answer cannot be read; "" for none.
    """

    at: float | None
    conversation: str = ""
    key: str = ""
    feature: str = ""
    body: bytes
    reply: bytes = b"null"
    generated: int | None = None
    prompt_tokens: int | None = None
    where: str = ""
    origin: UncompactedConversation | None = None
    is_native: bool = False
    models: tuple[str, ...] = ()
    ending: str = ""
    grades: tuple[tuple[str, float], ...] = ()
    answer_problem: str = ""

    @property
    def is_answered(self) -> bool:
        """True if the length of its answer is known."""
        return self.generated is not None or self.reply != b"null"
