"""Courtesies of an assistant in nineteen languages: sentences that tell nothing by themselves."""

import re
from collections.abc import Mapping
from typing import Final

#: Maximum characters of a courtesy.
_MAX_COURTESY_CHARS: Final = 100
#: By language: clauses, in lower case between bars, with a blank for each apostrophe or mark.
COURTESIES: Final[Mapping[str, str]] = {
    "en": "great|good|perfect|excellent|wonderful|lovely|nice|fine|sure|sure thing|ok|okay|alright"
    "|all right|certainly|absolutely|of course|gladly|with pleasure|my pleasure|no problem|anytime"
    "|you re welcome|you are welcome|you are very welcome|you re very welcome|understood|i see"
    "|got it|i understand|good choice|great choice|good idea|glad to help|happy to help"
    "|glad i could help|glad to hear that|thanks|thank you|thank you very much|hello|hi|welcome"
    "|goodbye|good bye|bye|take care|good luck|enjoy|enjoy your meal|enjoy your stay|safe travels"
    "|have a great day|have a nice day|have a good day|have a lovely day|have a wonderful day"
    "|have a great time|have a nice time|have a good one|have a great trip|have a nice trip"
    "|have a great stay|i am sorry|i m sorry|sorry|please wait|one moment|one moment please"
    "|please hold on for a moment|is there anything else|anything else|is that all"
    "|can i help you with anything else|is there anything else i can help you with"
    "|is there anything else i can do for you|can i do anything else for you|what else can i do"
    "|may i help you with anything else|can i help with anything else|how can i help"
    "|is there anything else i can help with|is there anything else you need|how may i help you"
    "|enjoy your day|enjoy the rest of your day|enjoy your evening|enjoy your trip|enjoy yourself"
    "|have fun|have a fantastic day|have a great evening|have a nice evening|have a safe trip"
    "|good day|see you soon|awesome|thank you for calling|thank you for contacting us"
    "|thank you for using our service|thank you for using our services|thanks for calling"
    "|thanks for contacting us|glad i could be of help|glad to be of help|glad to be of assistance"
    "|happy to have helped|glad to have helped|it was my pleasure|that s my pleasure"
    "|my pleasure to help|i d be happy to help|i would be happy to help|i am happy to help"
    "|i m happy to help|i d be glad to help|i am glad i could help"
    "|i m glad i could help|i m glad to be of help"
    "|i can help you with that|i can help with that|glad to assist you"
    "|happy to assist you|happy to assist",
    "de": "gut|sehr gut|prima|super|perfekt|wunderbar|schön|fein|gern|gerne|sehr gern|klar"
    "|natürlich|selbstverständlich|in ordnung|alles klar|ok|okay|verstehe|verstanden|ich verstehe"
    "|gute wahl|kein problem|gern geschehen|bitte|danke|vielen dank|hallo|guten tag"
    "|auf wiedersehen|einen moment|einen schönen tag|das tut mir leid|kann ich sonst noch helfen",
    "fr": "bien|très bien|parfait|super|excellent|avec plaisir|volontiers|bien sûr|d accord|ok"
    "|entendu|compris|je comprends|bon choix|excellent choix|pas de problème|je vous en prie"
    "|je t en prie|de rien|merci|merci beaucoup|bonjour|au revoir|un instant|bonne journée"
    "|désolé|désolée|je suis désolé|autre chose",
    "es": "bien|muy bien|perfecto|genial|estupendo|excelente|con gusto|con mucho gusto|claro"
    "|por supuesto|desde luego|de acuerdo|vale|ok|entendido|entiendo|comprendo|buena elección"
    "|sin problema|de nada|gracias|muchas gracias|hola|adiós|un momento|buen día|lo siento"
    "|algo más",
    "pt": "bem|muito bem|perfeito|ótimo|excelente|que bom|com gosto|com prazer|claro"
    "|com certeza|de acordo|está bem|ok|entendido|entendi|percebo|compreendo|boa escolha"
    "|sem problema|de nada|obrigado|obrigada|olá|adeus|um momento|bom dia|lamento"
    "|mais alguma coisa",
    "it": "bene|molto bene|benissimo|perfetto|ottimo|eccellente|bello|volentieri|con piacere"
    "|certo|certamente|d accordo|va bene|ok|capisco|capito|ho capito|buona scelta|ottima scelta"
    "|nessun problema|prego|di niente|grazie|grazie mille|ciao|buongiorno|arrivederci|un momento"
    "|buona giornata|mi dispiace|altro",
    "nl": "goed|heel goed|prima|perfect|fijn|mooi|leuk|graag|graag gedaan|met plezier|zeker"
    "|natuurlijk|uiteraard|akkoord|oké|ok|begrepen|ik begrijp het|duidelijk|goede keus"
    "|goede keuze|geen probleem|bedankt|dank u|hallo|tot ziens|een moment|fijne dag|het spijt me",
    "pl": "dobrze|bardzo dobrze|świetnie|doskonale|super|wspaniale|ładnie|chętnie|z przyjemnością"
    "|oczywiście|jasne|pewnie|zgoda|ok|rozumiem|zrozumiałem|zrozumiałam|dobry wybór"
    "|nie ma problemu|proszę bardzo|proszę|dziękuję|dzień dobry|do widzenia|chwileczkę"
    "|miłego dnia|przykro mi|cieszę się",
    "tr": "güzel|çok güzel|harika|mükemmel|iyi|çok iyi|sevindim|memnuniyetle|tabii|tabii ki|elbette"
    "|tamam|peki|anladım|anlıyorum|anlaşıldı|iyi seçim|güzel seçim|sorun değil|rica ederim"
    "|teşekkürler|teşekkür ederim|merhaba|hoşça kalın|bir dakika|iyi günler|üzgünüm",
    "vi": "tốt|tốt lắm|tốt quá|hay quá|tuyệt|tuyệt vời|hoàn hảo|vâng|dạ|dạ vâng|được|được ạ"
    "|dĩ nhiên|tất nhiên|sẵn lòng|rất sẵn lòng|tôi hiểu|hiểu rồi|lựa chọn tốt|không sao"
    "|không có gì|cảm ơn|xin chào|tạm biệt|chờ một chút|chúc một ngày tốt lành|xin lỗi",
    "id": "baik|baiklah|bagus|sempurna|hebat|senang mendengarnya|dengan senang hati|tentu"
    "|tentu saja"
    "|oke|ok|saya mengerti|mengerti|saya paham|pilihan tepat|pilihan bagus|pilihan yang bagus"
    "|tidak masalah|sama sama|terima kasih|halo|sampai jumpa|mohon tunggu|maaf",
    "ru": "хорошо|очень хорошо|отлично|прекрасно|замечательно|супер|с удовольствием|конечно"
    "|разумеется|ладно|понимаю|понятно|понял|поняла|ясно|хороший выбор|отличный выбор"
    "|без проблем|не за что|пожалуйста|спасибо|здравствуйте|до свидания|минуту|одну минуту"
    "|хорошего дня|извините|мне жаль",
    "uk": "добре|дуже добре|чудово|прекрасно|відмінно|супер|із задоволенням|залюбки|звичайно"
    "|звісно|гаразд|розумію|зрозуміло|зрозумів|зрозуміла|гарний вибір|чудовий вибір|без проблем"
    "|нема за що|будь ласка|прошу|дякую|вітаю|до побачення|хвилинку|гарного дня|вибачте",
    "zh": "好|好的|很好|太好了|那就好|没问题|当然|当然可以|明白|明白了|了解|知道了|好选择|选得好"
    "|不错"
    "|不客气|不用谢|谢谢|您好|你好|再见|请稍等|抱歉|很抱歉|很高兴为您服务",
    "ja": "はい|わかりました|分かりました|承知しました|承知いたしました|かしこまりました"
    "|了解しました"
    "|もちろんです|喜んで|よかったです|良かったです|いいですね|素晴らしいです|よい選択です"
    "|良い選択です|問題ありません|どういたしまして|ありがとうございます|こんにちは|さようなら"
    "|少々お待ちください|申し訳ありません",
    "ko": "네|예|좋습니다|좋아요|알겠습니다|알겠어요|물론입니다|물론이죠|기꺼이|다행입니다"
    "|다행이네요"
    "|훌륭합니다|좋은 선택입니다|문제없습니다|천만에요|감사합니다|안녕하세요|안녕히 계세요"
    "|잠시만요|잠시만 기다려 주세요|죄송합니다",
    "ar": "حسنا|جيد|جيد جدا|ممتاز|رائع|جميل|بكل سرور|بالطبع|طبعا|بالتأكيد|مفهوم|فهمت|أفهم"
    "|اختيار جيد|اختيار موفق|لا مشكلة|عفوا|على الرحب والسعة|شكرا|شكرا جزيلا|مرحبا|أهلا"
    "|مع السلامة|لحظة من فضلك|يوما سعيدا|آسف|آسفة",
    "hi": "ठीक है|अच्छा|बहुत अच्छा|बढ़िया|बहुत बढ़िया|उत्तम|खुशी से|ज़रूर|जरूर|बिल्कुल|बेशक|समझ गया"
    "|समझ गई|मैं समझता हूँ|अच्छा चुनाव|कोई बात नहीं|आपका स्वागत है|धन्यवाद|नमस्ते|अलविदा"
    "|एक क्षण|माफ़ कीजिए",
    "th": "ดี|ดีมาก|ดีเลย|เยี่ยม|เยี่ยมเลย|ยอดเยี่ยม|ได้|ได้เลย|ยินดี|ด้วยความยินดี|แน่นอน|ตกลง"
    "|เข้าใจ|เข้าใจแล้ว|เลือกดี|เลือกได้ดี|ไม่มีปัญหา|ไม่เป็นไร|ขอบคุณ|สวัสดี|ลาก่อน|รอสักครู่|ขอโทษ",
}
_COURTESIES: Final = frozenset(
    phrase for phrases in COURTESIES.values() for phrase in phrases.split("|")
)
_clauses: Final = re.compile(r"[.!?¡¿,;…。！？，、।؟،~]+").split
#: Signs within a clause that are left out: apostrophes, quotes, Arabic vowels.
_SIGNS: Final = re.compile("[\u2019'\"\u201c\u201d*_()\u064b-\u0652-]+")
#: Particles that end a polite sentence in Thai.
_PARTICLE: Final = re.compile(r"\s?(?:ครับ|ค่ะ|คะ)$")


def is_courtesy(sentence: str) -> bool:
    """True if a sentence is only polite: no clause of it tells anything."""
    if len(sentence) > _MAX_COURTESY_CHARS:
        return False
    words = _SIGNS.sub(" ", sentence.lower()) if sentence.isascii() else _plain(sentence)
    clauses = [" ".join(clause.split()) for clause in _clauses(words)]
    clauses = [_PARTICLE.sub("", clause) for clause in clauses if clause]
    return bool(clauses) and _COURTESIES.issuperset(clauses)


def _plain(sentence: str) -> str:
    """A sentence in lower case; Arabic vowels go without a blank."""
    small = sentence.replace("İ", "i").lower()
    return _SIGNS.sub(lambda sign: "" if "\u064b" <= sign[0] <= "\u0652" else " ", small)
