import pytest

from compaction.facts.statements import directives
from compaction.language.latin_phrases import LATIN_PHRASES
from compaction.language.other_phrases import OTHER_PHRASES
from compaction.language.speech_acts import (
    is_acceptance,
    is_choice,
    is_refusal,
    is_wish,
    languages_of,
    tells_failure,
    tells_success,
)
from tests.fakes.marked_conversations import twins

#: By language: three standing wishes, two reports with the same words, an outcome, a failure, an
#: acceptance and a refusal.
SPOKEN = {
    "en": (
        ("From now on answer in British English.", "Never call me, only write.", "No more than 40 euros per person, please."),
        ("I never received the parcel.", "The train was always late."),
        "Your table has been booked for Friday.",
        "The transfer failed: insufficient funds.",
        "Yes, that works for me.",
        "No, I'd rather not.",
    ),
    "de": (
        ("Bitte antworten Sie mir ab jetzt nur noch auf Deutsch.", "Rufen Sie mich nie an, schreiben Sie nur E-Mails.", "Das Hotel darf nicht mehr als 120 Euro kosten."),
        ("Das Paket ist nie angekommen.", "Ich habe immer am Schalter bezahlt."),
        "Ihr Tisch wurde für Freitag reserviert.",
        "Überweisung fehlgeschlagen: Konto gesperrt.",
        "Ja, genau, so machen wir es.",
        "Nein, lieber nicht.",
    ),
    "fr": (
        ("Répondez-moi toujours en français.", "Ne m'appelez jamais, écrivez-moi seulement.", "Le prix ne doit pas dépasser 50 euros."),
        ("Je n'ai jamais reçu le colis.", "Le train était toujours en retard."),
        "Votre table est réservée pour vendredi.",
        "Le virement a échoué : solde insuffisant.",
        "Oui, parfait, c'est bon.",
        "Non merci, surtout pas.",
    ),
    "es": (
        ("A partir de ahora responda siempre en español.", "No me llame nunca, solo por correo.", "El precio no debe superar los 50 euros."),
        ("Nunca recibí el paquete.", "El tren siempre llegaba tarde."),
        "Su mesa ha sido reservada para el viernes.",
        "La transferencia ha sido rechazada: saldo insuficiente.",
        "Sí, claro, de acuerdo.",
        "No, gracias, mejor no.",
    ),
    "pt": (
        ("A partir de agora responda sempre em português.", "Nunca me ligue, só por e-mail.", "Não coloque amendoim, por favor."),
        ("Nunca recebi o pacote.", "O trem sempre chegava atrasado."),
        "A sua mesa foi reservada para sexta-feira.",
        "A transferência falhou: saldo insuficiente.",
        "Sim, pode ser, combinado.",
        "Não, obrigado.",
    ),
    "it": (
        ("D'ora in poi mi risponda sempre in italiano.", "Non mi chiami mai, scriva solo via e-mail.", "Al massimo 50 euro a persona."),
        ("Non ho mai ricevuto il pacco.", "Il treno era sempre in ritardo."),
        "Il suo tavolo è stato prenotato per venerdì.",
        "Il bonifico è stato rifiutato: saldo insufficiente.",
        "Sì, va bene, perfetto.",
        "No, grazie, meglio di no.",
    ),
    "nl": (
        ("Antwoord voortaan alleen in het Nederlands.", "Bel me nooit, stuur alleen een e-mail.", "Het mag niet meer dan 50 euro kosten."),
        ("Het pakket is nooit aangekomen.", "De trein was altijd te laat."),
        "Uw tafel is voor vrijdag gereserveerd.",
        "De overboeking is mislukt: onvoldoende saldo.",
        "Ja, prima, doe maar.",
        "Nee, liever niet.",
    ),
    "pl": (
        ("Od teraz proszę odpowiadać tylko po polsku.", "Nigdy do mnie nie dzwoń, tylko e-mail.", "Cena nie może przekroczyć 200 zł."),
        ("Nigdy nie otrzymałem paczki.", "Pociąg zawsze był spóźniony."),
        "Stolik został zarezerwowany na piątek.",
        "Przelew nie powiódł się: niewystarczające środki.",
        "Tak, zgadza się.",
        "Nie, dziękuję.",
    ),
    "tr": (
        ("Bundan sonra bana hep Türkçe cevap verin.", "Beni asla aramayın, sadece mesaj atın.", "Fiyat 500 lirayı geçmesin."),
        ("Paketi hiçbir zaman almadım.", "Tren her zaman geç kaldı."),
        "Masanız cuma günü için rezerve edildi.",
        "Havale başarısız: bakiye yetersiz.",
        "Evet, tamam, anlaştık.",
        "Hayır, gerek yok.",
    ),
    "vi": (
        ("Từ giờ trở đi hãy trả lời bằng tiếng Việt.", "Đừng gọi điện cho tôi, chỉ nhắn tin thôi.", "Giá không quá 500 nghìn đồng."),
        ("Tôi chưa bao giờ nhận được gói hàng.", "Hôm qua tàu luôn đến muộn."),
        "Bàn của anh đã được đặt cho thứ Sáu.",
        "Chuyển khoản thất bại: số dư không đủ.",
        "Vâng, đúng rồi.",
        "Không, cảm ơn.",
    ),
    "id": (
        ("Mulai sekarang jawab dalam bahasa Indonesia.", "Jangan pernah telepon saya, hanya lewat WhatsApp.", "Harganya tidak boleh lebih dari 500 ribu."),
        ("Saya belum pernah menerima paketnya.", "Keretanya selalu terlambat kemarin."),
        "Meja Anda sudah dipesan untuk hari Jumat.",
        "Transfer gagal: saldo tidak mencukupi.",
        "Ya, setuju.",
        "Tidak usah, terima kasih.",
    ),
    "ru": (
        ("С этого момента отвечайте только по-русски.", "Никогда не звоните мне, только пишите.", "Цена не должна превышать 5000 рублей."),
        ("Я никогда не получал посылку.", "Поезд всегда был поздно."),
        "Столик забронирован на пятницу.",
        "Перевод не выполнен: недостаточно средств.",
        "Да, хорошо, договорились.",
        "Нет, не надо.",
    ),
    "uk": (
        ("Відтепер відповідайте лише українською.", "Ніколи мені не телефонуйте, тільки пишіть.", "Ціна має бути не більше 500 гривень."),
        ("Я ніколи не отримував посилку.", "Поїзд завжди був пізно."),
        "Столик заброньовано на п'ятницю, замовлення успішно оформлено.",
        "Переказ не вдалося виконати: недостатньо коштів.",
        "Так, добре, домовились.",
        "Ні, не треба.",
    ),
    "zh": (
        ("以后请一直用中文回复我。", "请不要打电话给我，只发短信。", "价格不要超过两百元。"),
        ("我从来没收到包裹。", "昨天火车总是晚点。"),
        "已为您预订星期五的桌子。",
        "转账失败：余额不足。",
        "好的，就这样。",
        "不用了，谢谢。",
    ),
    "ja": (
        ("今後は必ず日本語で返事をしてください。", "電話はしないでください、メールだけでお願いします。", "一人5000円以内でお願いします。"),
        ("荷物は一度も届きませんでした。", "電車はいつも遅れました。"),
        "金曜日のお席を予約しました。",
        "振込に失敗しました。残高不足です。",
        "はい、それでお願いします。",
        "いいえ、結構です。",
    ),
    "ko": (
        ("앞으로는 항상 한국어로 답해 주세요.", "전화하지 마시고 문자만 보내 주세요.", "가격은 5만 원을 넘지 않게 해 주세요."),
        ("소포를 받은 적이 없어요.", "기차가 항상 늦었어요."),
        "금요일 테이블이 예약되었습니다.",
        "이체 실패: 잔액이 부족합니다.",
        "네, 좋아요.",
        "아니요, 필요 없어요.",
    ),
    "ar": (
        ("من الآن فصاعدًا أجب بالعربية فقط.", "لا تتصل بي أبدًا، راسلني فقط.", "يجب ألا يتجاوز السعر 200 ريال."),
        ("لم أستلم الطرد أبدًا.", "كان القطار متأخرًا دائمًا."),
        "تم حجز طاولتك ليوم الجمعة.",
        "فشل التحويل: الرصيد غير كافٍ.",
        "نعم، بالضبط.",
        "لا، شكرًا.",
    ),
    "hi": (
        ("अब से हमेशा हिंदी में जवाब दें।", "मुझे कभी फ़ोन मत करें, केवल संदेश भेजें।", "कीमत 500 रुपये से ज़्यादा नहीं होनी चाहिए।"),
        ("मुझे पैकेट कभी नहीं मिला।", "ट्रेन हमेशा देर से आती है।"),
        "शुक्रवार के लिए आपकी टेबल बुक कर दी गई है।",
        "ट्रांसफर विफल: बैलेंस अपर्याप्त है।",
        "हाँ, बिल्कुल ठीक है।",
        "नहीं, धन्यवाद।",
    ),
    "th": (
        ("ต่อจากนี้กรุณาตอบเป็นภาษาไทยเสมอ", "อย่าโทรหาฉัน ส่งข้อความเท่านั้น", "ราคาต้องไม่เกิน 500 บาท"),
        ("ฉันไม่เคยได้รับพัสดุ", "เมื่อวานรถไฟมาช้าเสมอ"),
        "จองโต๊ะสำหรับวันศุกร์เรียบร้อยแล้ว",
        "โอนเงินไม่สำเร็จ ยอดเงินไม่เพียงพอ",
        "ใช่ครับ ตกลง",
        "ไม่ครับ ขอบคุณ",
    ),
}  # fmt: skip


def sentence_cases(place):
    return [pytest.param(code, row[place], id=code) for code, row in SPOKEN.items()]


def test_every_language_of_the_table_has_its_test_sentences():
    assert {row.code for row in (*LATIN_PHRASES, *OTHER_PHRASES)} == set(SPOKEN)


@pytest.mark.parametrize(("code", "wishes"), sentence_cases(0))
def test_three_standing_wishes_of_three_are_known(code, wishes):
    assert [wish for wish in wishes if not is_wish(wish)] == []


@pytest.mark.parametrize("code", SPOKEN)
def test_wishes_and_nothing_else_of_a_conversation_make_rules(code):
    conversation = twins()[code]
    spoken_texts = [turn["content"] for turn in conversation.messages if turn["role"] == "user"]

    rules = [rule for text in spoken_texts for rule in directives(text)]

    assert len(rules) == len(conversation.wishes) == 3
    assert all(wish in rule for wish, rule in zip(conversation.wishes, rules, strict=True))


@pytest.mark.parametrize(
    "answer", ["Nie, rośliny nudzą mojego tatę.", "不要，我爸爸没兴趣。", "ไม่เอาค่ะ"]
)
def test_a_mere_refusal_is_no_wish(answer):
    assert not is_wish(answer)


@pytest.mark.parametrize(("code", "reports"), sentence_cases(1))
def test_reports_with_the_words_of_wishes_are_none(code, reports):
    assert [report for report in reports if is_wish(report)] == []


@pytest.mark.parametrize(("code", "sentence"), sentence_cases(2))
def test_an_outcome_is_told_from_a_failure(code, sentence):
    assert tells_success(sentence)
    assert not tells_failure(sentence)


@pytest.mark.parametrize(("code", "sentence"), sentence_cases(3))
def test_a_failure_is_told_from_a_success(code, sentence):
    assert tells_failure(sentence)
    assert not tells_success(sentence)


@pytest.mark.parametrize(("code", "answer"), sentence_cases(4))
def test_an_acceptance_is_no_refusal(code, answer):
    assert is_acceptance(answer)
    assert not is_refusal(answer)


@pytest.mark.parametrize(("code", "answer"), sentence_cases(5))
def test_a_refusal_is_no_acceptance(code, answer):
    assert is_refusal(answer)
    assert not is_acceptance(answer)


@pytest.mark.parametrize(("code", "wishes"), sentence_cases(0))
def test_the_language_of_a_wish_is_among_those_it_may_be_in(code, wishes):
    assert all(code in [row.code for row in languages_of(wish.lower())] for wish in wishes)


#: By language: a choice for the task at hand in the words of a wish.
ONCE = {
    "en": "Please use the card ending in 9725 for this.",
    "de": "Nimm dafür bitte nur die Karte mit der Endziffer 9725.",
    "fr": "Utilisez seulement la carte se terminant par 9725 cette fois.",
    "es": "Usa solo la tarjeta terminada en 9725 esta vez.",
    "pt": "Usa só o cartão terminado em 9725 desta vez.",
    "it": "Usa solo la carta che termina con 9725 questa volta.",
    "nl": "Gebruik deze keer alleen de kaart die eindigt op 9725.",
    "pl": "Tym razem proszę użyć tylko karty kończącej się na 9725.",
    "tr": "Bu sefer sadece 9725 ile biten kartı kullanın.",
    "vi": "Lần này chỉ dùng thẻ có số cuối 9725 nhé.",
    "id": "Pakai hanya kartu yang berakhiran 9725 untuk ini.",
    "ru": "На этот раз используйте только карту, оканчивающуюся на 9725.",
    "uk": "Цього разу використовуйте лише картку, що закінчується на 9725.",
    "zh": "这次请只用尾号9725的卡。",
    "ja": "今回は末尾9725のカードだけでお願いします。",
    "ko": "이번에는 9725로 끝나는 카드만 사용해 주세요.",
    "ar": "استخدم البطاقة المنتهية بـ 9725 فقط هذه المرة.",
    "hi": "इस बार केवल 9725 वाला कार्ड इस्तेमाल करें।",
    "th": "ครั้งนี้ใช้บัตรที่ลงท้ายด้วย 9725 เท่านั้น",
}


@pytest.mark.parametrize("code", SPOKEN)
def test_a_choice_for_the_task_at_hand_is_no_rule(code):
    assert not is_wish(ONCE[code])


CHOICES = {
    "en": ("The second one, please.", "We live in Leeds."),
    "de": ("Dann lieber das zweite.", "Wir wohnen in Köln."),
    "fr": ("Plutôt la deuxième.", "Nous habitons à Lyon."),
    "es": ("La segunda, por favor.", "Vivimos en Madrid."),
    "pt": ("O segundo, por favor.", "Moramos no Porto."),
    "it": ("Il secondo, grazie.", "Abitiamo a Roma."),
    "nl": ("Liever de tweede.", "Wij wonen in Utrecht."),
    "pl": ("Wolę ten drugi.", "Mieszkamy w Krakowie."),
    "tr": ("İkincisi olsun.", "İzmir'de oturuyoruz."),
    "vi": ("Cái thứ hai nhé.", "Chúng tôi sống ở Hà Nội."),
    "id": ("Yang kedua saja.", "Kami tinggal di Bandung."),
    "ru": ("Лучше второй вариант.", "Мы живём в Москве."),
    "uk": ("Краще другий.", "Ми живемо у Києві."),
    "zh": ("第二家吧。", "我们住在上海。"),
    "ja": ("二つ目のでお願いします。", "大阪に住んでいます。"),
    "ko": ("두 번째로 할게요.", "우리는 부산에 살아요."),
    "ar": ("الثاني من فضلك.", "نسكن في الرياض."),
    "hi": ("दूसरा वाला ठीक है।", "हम दिल्ली में रहते हैं।"),
    "th": ("เอาร้านที่สองค่ะ", "เราอยู่กรุงเทพ"),
}


@pytest.mark.parametrize("code", SPOKEN)
def test_a_choice_of_one_of_several_is_told_from_other_answers(code):
    choice, other = CHOICES[code]

    assert is_choice(choice)
    assert not is_choice(other)


def test_a_wish_has_at_most_500_characters():
    assert is_wish(f"Never call me {'x' * 486}")
    assert not is_wish(f"Never call me {'x' * 487}")


def test_an_outcome_is_told_within_300_characters_of_an_end():
    booked, other_text = " Your table has been booked", " z" * 500

    assert tells_success("y" * 273 + booked + other_text)
    assert not tells_success("y" * 274 + booked + other_text)


def test_four_latin_words_make_a_text_of_another_script_read_in_their_language():
    assert len(languages_of("你好 please call me back")) > 1
    assert len(languages_of("你好 please call me")) == 1
