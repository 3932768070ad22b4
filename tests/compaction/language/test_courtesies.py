import pytest

from compaction.language.courtesies import COURTESIES, is_courtesy
from compaction.language.latin_phrases import LATIN_PHRASES
from compaction.language.other_phrases import OTHER_PHRASES

#: By language: two courtesies, and a sentence that tells something in the same words.
SPOKEN = {
    "en": ("You 're welcome !", "Great, thank you. Have a nice day!", "Good, it opens at nine."),
    "de": ("Gern geschehen!", "Alles klar, vielen Dank.", "Gut, dann bleibt der Tisch am Ofen."),
    "fr": ("D’accord, je comprends.", "Avec plaisir !", "Très bien, c'est retenu."),
    "es": ("¡Perfecto!", "De acuerdo, muchas gracias.", "Muy bien, queda así."),
    "pt": ("Que bom.", "Com certeza, obrigada!", "Muito bem, fica assim."),
    "it": ("Va bene, d’accordo.", "Ottima scelta!", "Bene, allora resta così."),
    "nl": ("Graag gedaan!", "Prima, ik begrijp het.", "Goed, dan blijft het zo."),
    "pl": ("Cieszę się.", "Dobrze, rozumiem.", "Dobrze, tak zostaje."),
    "tr": ("İyi seçim.", "Tabii ki, memnuniyetle!", "Tamam, öyle kalsın."),
    "vi": ("Tốt quá.", "Vâng, tôi hiểu.", "Tốt, vậy là chốt."),
    "id": ("Dengan senang hati.", "Baik, saya mengerti.", "Baik, jadi itu saja."),
    "ru": ("Прекрасно.", "Хорошо, понимаю.", "Хорошо, так и решим."),
    "uk": ("Із задоволенням!", "Добре, розумію.", "Добре, так і вирішимо."),
    "zh": ("太好了！", "好的，没问题。", "好，那就这么定。"),
    "ja": ("かしこまりました。", "はい、承知しました。", "はい、円でご案内します。"),
    "ko": ("좋은 선택입니다.", "네, 알겠습니다.", "네, 원화로 알려 드릴게요."),
    "ar": ("حسنًا، بكل سرور.", "اختيار جيد.", "حسنًا، هذا ما اتفقنا عليه."),
    "hi": ("अच्छा चुनाव।", "ठीक है, धन्यवाद।", "ठीक है, तो यही तय रहा।"),
    "th": ("ดีค่ะ", "เข้าใจแล้วครับ", "ตกลงตามนี้ค่ะ"),
}


def test_every_language_of_the_table_has_courtesies():
    codes = {row.code for row in (*LATIN_PHRASES, *OTHER_PHRASES)}

    assert COURTESIES.keys() == SPOKEN.keys() == codes


@pytest.mark.parametrize("code", SPOKEN)
def test_a_courtesy_is_told_from_a_sentence_that_tells_something(code):
    *courtesies, telling = SPOKEN[code]

    assert [text for text in courtesies if not is_courtesy(text)] == []
    assert not is_courtesy(telling)


@pytest.mark.parametrize(
    "text",
    [
        "I'm glad I could help, enjoy the rest of your day.",
        "Sure, I can help you with that.",
        "It was my pleasure. See you soon!",
        "Thank you for calling. Have fun!",
    ],
)
def test_offers_of_help_and_farewells_are_courtesies(text):
    assert is_courtesy(text)


@pytest.mark.parametrize(
    "text",
    [
        *("Done.", "Booked.", "Yes.", "No.", "Confirmed.", "3.", "", "Great, 9:40."),
        *("Of course not.", "I can do that.", "I can help you with that for 9 €."),
    ],
)
def test_an_outcome_an_answer_or_a_figure_is_no_courtesy(text):
    assert not is_courtesy(text)


def test_a_courtesy_has_at_most_100_characters():
    assert is_courtesy("great, " * 14)
    assert not is_courtesy("great, " * 15)
