from compaction.facts.sentences import sentences


def test_sentences_end_with_their_stop_or_their_line():
    assert list(sentences("One. Two!  Three?\n\n four $1.50\nfive")) == [
        "One.",
        "Two!",
        "Three?",
        "four $1.50",
        "five",
    ]
