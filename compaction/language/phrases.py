"""The row of one language in the table of phrases.

Users wish, accept and refuse, and outcomes are told, in the words of this table. Each entry lists
alternatives of a regular expression, in lower case, between bars; ``^`` stands for the beginning of
a clause. To add a language, add a row and a sentence of each kind to its test.
"""

import msgspec


class Phrases(msgspec.Struct, frozen=True, kw_only=True):
    """The phrases of one language.

    Attributes:
        code: ISO 639-1 code.
        common: Frequent words that tell the language from others in its script.
        standing: Make a sentence a wish wherever they stand.
        wishes: Make a clause a wish that reports nothing.
        once: Make a wish a choice for the task at hand, other than standing ones.
        reports: Stand in clauses about the past, or about how things are.
        done: An outcome that came about.
        failed: A failure.
        accepts: Begin an answer that agrees.
        refuses: Begin an answer that disagrees.
        chooses: Choose one of several by its place or kind.
        is_spaced: False for scripts whose words have no spaces or marks around them.
    """

    code: str
    common: str = ""
    standing: str
    wishes: str
    once: str
    reports: str
    done: str
    failed: str
    accepts: str
    refuses: str
    chooses: str
    is_spaced: bool = True
