"""A vocabulary that remembers lines."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.tools.replay.vocabulary import LineVocabulary
from proxy.tools.simulator.rendering import Vocabulary

WHOLE = Vocabulary()
BY_LINES = LineVocabulary()
TEXTS = st.text(
    alphabet=st.sampled_from("ab1 .,;/\\-\t\n\r\u00a0\u2028\x1c\x85é漢'sT"), max_size=60
)


@given(TEXTS | st.text(max_size=60))
def test_a_text_read_by_lines_is_the_same_tokens(text):
    assert BY_LINES.ids(text + "\n" + text) == WHOLE.ids(text + "\n" + text)


def test_code_and_long_texts_are_the_same_tokens_too():
    text = "def f(x):\n    return x\n\n\n// note.\n/path/to\n\n- a\r\n- b.\n" * 200

    assert BY_LINES.ids(text) == WHOLE.ids(text)


def test_of_a_text_that_grows_only_what_is_new_is_encoded():
    lines = LineVocabulary()
    text = "A log.\nIt only\never grows.\n"

    lines.ids(text + "Here")
    before = set(lines._known)
    lines.ids(text + "Here it grew.\nAnd here.")

    assert before == {"A log.\n", "It only\n", "ever grows.\n", "Here"}
    assert set(lines._known) - before == {"Here it grew.\n", "And here."}
