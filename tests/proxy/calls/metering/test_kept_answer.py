import orjson
import pytest

from proxy.calls.metering.kept_answer import KeptAnswer
from tests.fakes.streams import CHAT, chunk, event

#: Bytes in which all choices of a stream begin.
OPENING_BYTES = 64 * 1024


def kept_answer(*runs: bytes, streamed: bool = True, bound: int = 1 << 20) -> KeptAnswer:
    answer = KeptAnswer(streamed=streamed, bound=bound)
    for run in runs:
        answer.add(run)
    return answer


def choice_chunk(index: int, text: str = "x") -> bytes:
    return event({"choices": [{"index": index, "delta": {"content": text}}]})


def test_runs_beyond_the_bound_are_left_out_of_the_text() -> None:
    assert kept_answer(*CHAT, bound=len(CHAT[0]) + len(CHAT[1])).text() == "Hel"


def test_a_run_that_fits_is_kept_after_one_that_does_not() -> None:
    long, short = chunk("x" * 500), chunk("day")

    assert kept_answer(long, short, bound=len(short)).text() == "day"


def test_the_text_of_each_choice_has_a_line() -> None:
    assert (
        kept_answer(choice_chunk(0, "a"), choice_chunk(1, "b"), choice_chunk(0, "c")).text()
        == "ac\nb"
    )


def test_choices_are_counted_as_far_as_the_opening_of_a_stream() -> None:
    first, second = choice_chunk(0, "x" * (OPENING_BYTES - 120)), choice_chunk(1)
    later = choice_chunk(2)

    assert len(first) + len(second) <= OPENING_BYTES < len(first) + len(second) + len(later)
    assert kept_answer(first, second, later).begun_choices() == 2
    assert kept_answer(first, streamed=False).begun_choices() == 0


@pytest.mark.parametrize(("bound", "most"), [(60, 1000), (1000, 60)])
def test_a_message_that_is_cut_or_too_long_is_not_known(bound: int, most: int) -> None:
    answer = kept_answer(chunk("Good "), chunk("x" * 100), bound=bound)

    assert answer.assistant_message(most) is None


def test_a_message_that_is_whole_is_that_of_an_assistant() -> None:
    message = kept_answer(chunk("Good "), chunk("day")).assistant_message(1000)

    assert orjson.loads(message or b"") == {"role": "assistant", "content": "Good day"}


def test_an_answer_without_words_has_no_text() -> None:
    assert not kept_answer(event({"choices": []})).may_have_text
    assert kept_answer(chunk("x")).may_have_text
