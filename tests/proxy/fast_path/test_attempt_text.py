from typing import Any

import pytest

from proxy.fast_path.attempt_text import fast_path_text
from proxy.records.receipt import Outcome, ServedBy
from tests.fakes.receipts import a_receipt


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, ""),
        ({"notes": ("continues lab/a after 9 characters: reset",)}, ""),
        (
            {"notes": ("continues lab/a after 9 characters: reset",), "attempt": 1},
            "It goes on with a stream that broke off; both parts are billed.",
        ),
        (
            {"served_by": ServedBy.CACHE, "fast_path_nanos": 10**7},
            (
                "The answer to another call answered it with 200, so nothing was sent; its answer"
                " cost $0.01 the first time."
            ),
        ),
        (
            {"served_by": ServedBy.SMALL, "fast_path_nanos": 2 * 10**7, "model": "big"},
            (
                "A small model answered in place of big, as the loss of answers is proved small;"
                " that saved $0.02."
            ),
        ),
        (
            {"served_by": ServedBy.SMALL, "model": "big"},
            "A small model answered in place of big, as the loss of answers is proved small.",
        ),
        (
            {"served_by": ServedBy.SMALL, "fast_path_nanos": -(10**7), "outcome": Outcome.FAILED},
            "A small model was asked first and gave no answer that is accepted; that cost $0.01.",
        ),
        (
            {"served_by": ServedBy.SMALL, "model": "big", "reroute_reason": "a: small, checked"},
            "A small model answered in place of big, as its answer passed the checks.",
        ),
        (
            {"served_by": ServedBy.LARGE},
            (
                "A small model was weighed, and the model asked for was taken: not enough is proved"
                " of the small one on such calls, or it lost more answers than the rule allows."
            ),
        ),
        (
            {"served_by": ServedBy.LARGE, "attempt": 1},
            "The model asked for answered after a small model was tried.",
        ),
        (
            {"fast_path_nanos": -(10**7)},
            "The gateway made this call itself, to compare two answers; that cost $0.01.",
        ),
        (
            {"feature": "warming:chat", "fast_path_nanos": -(10**7)},
            "The gateway made this call itself, to read a prompt ahead; that cost $0.01.",
        ),
    ],
)
def test_a_sentence_says_what_the_fast_path_did(fields: dict[str, Any], sentence: str) -> None:
    assert fast_path_text(a_receipt(1, **fields)) == sentence
