import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.language.sentences import sentences


def test_sentences_end_with_their_stop_or_their_line():
    assert list(sentences("One. Two!  Three?\n\n four $1.50\nfive")) == [
        "One.",
        "Two!",
        "Three?",
        "four $1.50",
        "five",
    ]


@pytest.mark.parametrize(
    "parts",
    [
        ("好的，明天见。", "价格是１９８元！", "您要吗？"),
        ("他说“好的。”", "然后走了。"),
        ("好的!", "明天三点见?", "可以"),
        ("かしこまりました。", "他にご要望はありますか？", "「はい」と言いました。"),
        ("네, 알겠습니다.", "내일 3시에 뵙겠습니다.", "감사합니다!"),
        ("네.", "감사합니다."),
        ("ऑर्डर भेज दिया गया है।", "क्या और कुछ चाहिए?", "धन्यवाद।"),
        ("هل تريد شيئًا آخر؟", "نعم، أريد ذلك.", "شكرًا!"),
        ("Заказ отправлен.", "Что-нибудь ещё?", "Нет."),
        ("ร้านเปิดตั้งแต่ 9 โมงเช้าครับ", "ที่จอดรถอยู่ด้านหลังร้านครับ", "จอดฟรีสองชั่วโมง"),
        ('She said "yes."', "Then he left."),
        ("Vâng ạ.", "Cửa hàng mở lúc 9 giờ."),
    ],
)
def test_sentences_end_in_any_script(parts):
    spaced = "" if parts[0][-1] in "。！？!”" else " "

    assert list(sentences(spaced.join(parts))) == list(parts)


@pytest.mark.parametrize(
    "sentence",
    [
        "Das Angebot gilt bis zum 30. April 2026.",
        "Er kommt z. B. am 3. Mai, ca. um 9 Uhr.",
        "Wir liefern inkl. MwSt. am 30.04. ins Haus.",
        "Please ask Dr. Smith about No. 5 at 9 a.m. on Friday.",
        "1. Rue de Rivoli",
        "Rendez-vous avec M. Dupont, env. 20 euros.",
        "La Sra. García vive en la Avda. Sol, p. ej. cerca del parque.",
        "Toplantı 30. Nisan günü, yani 15. katta.",
        "Spotkanie 3. maja przy ul. Długiej, godz. 9.",
        "Адрес: ул. Ленина, д. 5, кв. 12, т. е. рядом.",
        '"Really?" she asked me.',
        "Det er den 17. mai kl. 9.",
    ],
)
def test_abbreviations_ordinals_and_list_numbers_end_no_sentence(sentence):
    assert list(sentences(sentence)) == [sentence]


def test_thai_without_particles_ends_where_a_sentence_is_long_enough():
    line = "กรุณาอย่าโทรหาฉัน ส่งข้อความเท่านั้น เพราะฉันทำงานในเวลากลางวันและไม่สามารถรับสาย ขอบคุณมาก"

    assert len(list(sentences(line))) == 2
    assert " ".join(sentences(line)) == line


@given(st.text(st.sampled_from('a1 .!?。？।؟”"ก好\n'), max_size=200))
def test_no_letter_of_a_text_is_lost_or_said_twice(text):
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


def test_a_thai_sentence_without_a_particle_has_40_characters():
    assert len(list(sentences("ก" * 40 + " " + "ข" * 9))) == 2
    assert len(list(sentences("ก" * 39 + " " + "ข" * 9))) == 1
