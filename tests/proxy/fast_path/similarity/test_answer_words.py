from proxy.fast_path.similarity.answer_words import AnswerWords
from proxy.fast_path.similarity.questions import Question, read_question


def question(text: str) -> Question:
    read = read_question(text)
    assert read is not None
    return read


def words_of(*rows: tuple[str, str]) -> AnswerWords:
    words = AnswerWords()
    for text, answer in rows:
        words.add(question(text), answer)
    return words


CARDS = (
    ("how do i get a new card", "new"),
    ("how can i get a new credit card", "new"),
    ("when does my card expire", "expiry"),
    ("when must my card be renewed", "expiry"),
)


def test_answer_whose_questions_have_the_words_leads():
    words = words_of(*CARDS)

    assert words.margin(question("how do i get new cards"), "new", ["expiry"]) > 0.0
    assert words.margin(question("when does a card expire"), "new", ["expiry"]) < 0.0


def test_small_word_that_other_answers_have_lessens_the_lead():
    words = words_of(*CARDS)

    how = words.margin(question("how do i get a new card"), "new", ["expiry"])
    when = words.margin(question("when do i get a new card"), "new", ["expiry"])

    assert when < how


def test_only_answer_leads_by_the_scale_and_no_margin_passes_its_bound():
    words = words_of(("a b", "one"))

    assert words.margin(question("a b"), "one", []) == 1.0
    assert -3.0 <= words.margin(question("x " * 400), "other", ["one"]) <= 3.0


def test_removed_question_counts_no_longer():
    words = words_of(*CARDS)
    before = words.margin(question("when is that"), "expiry", ["new"])
    words.add(question("that was when"), "new")
    words.remove(question("that was when"), "new")
    assert words.margin(question("when is that"), "expiry", ["new"]) == before

    for text, answer in CARDS:
        words.remove(question(text), answer)
    assert not words._words
    assert not words._questions
