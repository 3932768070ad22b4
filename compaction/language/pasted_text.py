"""The user's own words in a message: all but what is quoted, pasted or forwarded in it.

Whoever wrote a pasted text may have written into it what reads as a wish of the user. So a message
is read strictly: what may be another's counts as another's, up to the message's end where nothing
sure ends it.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from compaction.language.sentences import sentences

#: Stands for a character that is not the user's own; so every place in the text stays what it is.
PASTED: Final = "\ufffc"
#: Maximum characters of a line that a person types, and of a message that is read as typed; of a
#: longer one both ends are.
_MAX_LINE_CHARS: Final = 600
_MAX_TYPED_CHARS: Final = 4_000
_TYPED_END_CHARS: Final = 1_000
#: Maximum characters in quotation marks where each pair is taken by itself; in longer ones others
#: may stand.
_MAX_PAIR_CHARS: Final = 120

#: Pairs of marks around a text, from the first opening to the last closing one.
_BLOCKS: Final = (
    re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE),
    re.compile(r'"""|\'\'\''),
    re.compile(
        r"</?(?:e-?mail|mail|message|letter|doc\w{0,10}|article|text|transcript|page|content|context"
        r"|quote|data|file|input|output|attachment|review|html|body|system[\w-]{0,20})\b[^<>]{0,200}>",
        re.IGNORECASE,
    ),
)
_QUOTE_BEGINS: Final = re.compile(r'(?<!\w)"(?=\S)|[“„«「『]')
_QUOTE_ENDS: Final = re.compile(r'"(?!\w)|[”“»」』]')

#: Fields of a mail's head: one that only mails have, and those that stand above each other.
_SUBJECT: Final = re.compile(
    r"[ \t*_]{0,8}(?:subject|betreff|objet|asunto|oggetto|assunto|onderwerp|temat|тема|konu|主题"
    r"|主旨|件名|제목|الموضوع|विषय|chủ đề|เรื่อง|perihal)[*_]{0,3}\s?[:\uff1a]",
    re.IGNORECASE,
).match
_FIELD: Final = re.compile(r"[ \t>*_]{0,8}[^\W\d_][\w -]{0,24}[*_]{0,3}\s?[:\uff1a]\s{0,4}\S").match
#: Lines after which another's text follows.
_FORWARDS: Final = re.compile(
    r"\s{0,8}(?:[-_=*]{2,}\s?[^-_=*\n]{0,40}(?:message|nachricht|forward|weitergeleitet|mensaje"
    r"|messaggio|mensagem|bericht|wiadomość|сообщение|письмо|邮件|郵件|メッセージ|메일)[^\n]{0,40}"
    r"|begin forwarded message|fwd?[:\uff1a]|(?:on|am|le|el|il|em|op|dnia)\b[^\n]{6,120}"
    r"(?:wrote|schrieb\w*|a écrit|escribi\w+|ha scritto|escreveu|schreef|napisał\w*)"
    r"[^\n]{0,60}[:\uff1a])",
    re.IGNORECASE,
).match
#: A clause that announces another's text, up to its colon. A person's own report of what "I" said
#: announces none.
_ANNOUNCES: Final = re.compile(
    r"\b(?:(?:this|the|that|following|forwarded|pasted|his|her|their|an?|from)(?:\s\w{1,20}){0,3}\s"
    r"(?:e-?mail|mail|message|letter|text|article|document|post|page|paragraph|review|ticket|chat"
    r"|transcript|comment|attachment|complaint|reply|answer|report)\w{0,2}"
    r"|(?<!i )(?<!we )(?:writes?|wrote|says|said|sent|sends|states?|reads|replied|asked)"
    r"|translate|summari[sz]e|proofread|rewrite|rephrase|paraphrase|review|analy[sz]e|classify"
    r"|check|correct|shorten|reply to|respond to|answer to"
    r"|schreibt|schrieb|schickte|nachricht|mail|text|brief|übersetze?n?|korrigiere?n?|prüfen?"
    r"|écrit|envoyé|courriel|lettre|texte|traduis\w*|résum\w+|corrige\w*"
    r"|escrib\w+|envi[óa]\w*|correo|carta|texto|mensaje|traduc\w+|resum\w+"
    r"|scriv\w+|scritto|lettera|testo|messaggio|tradu\w+|riassum\w+"
    r"|escrev\w+|mensagem|schrijft|schreef|bericht|vertaal|pisze|napisał\w*|wiadomość|przetłumacz"
    r"|пишет|написал\w*|письм\w+|сообщени\w+|переведи\w*|перескажи\w*|yazdı|yazıyor|mesaj\w*"
    r"|çevir\w*|menulis|pesan|terjemahkan|viết|dịch|tin nhắn)\b"
    r"[^.!?\n:\uff1a]{0,80}[:\uff1a](?=[\s\"“„«「『]|$)"
    r"|(?:写道|写的是|说|来信|邮件|消息|翻译|总结|校对|書いて|言って|メール|メッセージ|翻訳|要約|메일|메시지|번역"
    r"|요약|كتب|رسالة|ترجم|लिखा|संदेश|अनुवाद|เขียน|ข้อความ|แปล)[^.!?。！？\n:\uff1a]{0,40}[:\uff1a]",
    re.IGNORECASE,
).search


class OwnSentence(msgspec.Struct, frozen=True, gc=False):
    """A sentence of a message.

    Attributes:
        text: As it stands there.
        own: The same with what is not the user's own masked, character by character.
    """

    text: str
    own: str


def own_sentences(text: str, masked: str = "") -> Iterator[OwnSentence]:
    """The sentences of a user's message that hold words of the user's own.

    Args:
        masked: The text with what is pasted masked; "" where that is not known yet.
    """
    masked = _mask_long(masked or mask_pasted(text))
    position = 0
    for own in sentences(masked):
        position = masked.index(own, position)
        if own.strip(PASTED):
            yield OwnSentence(text[position : position + len(own)], own)
        position += len(own)


def mask_pasted(text: str) -> str:
    """The text with each character masked that is, or may be, quoted, pasted or forwarded."""
    text = text.replace(PASTED, " ")
    for marks in _BLOCKS:
        places = [match.span() for match in marks.finditer(text)]
        if places:
            end = places[-1][1] if len(places) > 1 else len(text)
            text = _masked_between(text, places[0][0], end)
    return _mask_lines(_mask_quotes(text))


def _mask_long(text: str) -> str:
    """The text without the middle of a long one, and without long lines: nobody types those."""
    if len(text) > _MAX_TYPED_CHARS:
        text = _masked_between(text, _TYPED_END_CHARS, len(text) - _TYPED_END_CHARS)
    lines = text.splitlines(keepends=True)
    return "".join(
        [
            line if len(line) <= _MAX_LINE_CHARS else _masked_between(line, 0, len(line))
            for line in lines
        ]
    )


def _mask_lines(text: str) -> str:
    """The text without quoted lines, and without all that follows a mail's head."""
    lines = text.splitlines(keepends=True)
    position = 0
    for index, line in enumerate(lines):
        announced = _ANNOUNCES(line) if ":" in line or "\uff1a" in line else None
        if _begins_mail(lines, index):
            return _masked_between(text, position, len(text))
        if announced and text[position + announced.end() :].strip():
            return _masked_between(text, position + announced.end(), len(text))
        if line.lstrip().startswith(">"):
            text = _masked_between(text, position, position + len(line))
        position += len(line)
    return text


def _begins_mail(lines: Sequence[str], index: int) -> bool:
    """True if a mail begins at a line: its subject, fields with an address, a forward's mark."""
    here = lines[index]
    if _SUBJECT(here) or _FORWARDS(here):
        return True
    both = lines[index : index + 2]
    return len(both) == 2 and all(map(_FIELD, both)) and "@" in "".join(both)


def _mask_quotes(text: str) -> str:
    """The text with what stands in quotation marks masked."""
    begins = _QUOTE_BEGINS.search(text)
    while begins:
        end = _quote_end(text, begins.end())
        text = _masked_between(text, begins.end(), end)
        begins = _QUOTE_BEGINS.search(text, end + 1)
    return text


def _quote_end(text: str, start: int) -> int:
    """The place of the mark that ends a quotation; its start where there is none.

    A short one ends at the next mark, a long one at the last of its line, or of the text.
    """
    line_end = text.find("\n", start)
    line_end = len(text) if line_end < 0 else line_end
    places = [match.start() for match in _QUOTE_ENDS.finditer(text, start)]
    if not places:
        return start
    in_line = [place for place in places if place < line_end]
    if not in_line:
        return places[-1]
    return in_line[0] if in_line[-1] - start <= _MAX_PAIR_CHARS else in_line[-1]


def _masked_between(text: str, start: int, end: int) -> str:
    """The text with a run of it masked; its lines stay lines."""
    run = "\n".join([PASTED * len(line) for line in text[start:end].split("\n")])
    return text[:start] + run + text[end:]


#: Beginnings of words that warn about a text, in small letters.
_WARNINGS: Final = """
phishing|scam|spoof|fraud|suspicious|malicious|malware|prompt injection|not legitimate|red flag|fake
|social engineering|not click|n't click|not open|n't open|hidden instruction|embedded instruction
|betrug|betrüg|verdächtig|gefälscht|schadsoftware|nicht klicken|nicht öffnen
|hameçonnage|arnaque|fraudul|suspect|falsifi|ne cliquez|estafa|fraude|sospechos|no haga clic
|golpe|suspeit|truffa|sospett|oplicht|verdacht|oszust|podejrzan|wyłudz
|мошенн|фишинг|подозрительн|поддельн|шахра|фішинг|підозріл|dolandırıcı|oltalama|şüpheli|sahte
|钓鱼|釣魚|诈骗|詐騙|欺诈|可疑|フィッシング|詐欺|不審|怪しい|피싱|사기|의심|احتيال|تصيد|مشبوه
|धोखा|फ़िशिंग|संदिग्ध|lừa đảo|đáng ngờ|หลอกลวง|ฟิชชิ่ง|น่าสงสัย|penipu|mencurigakan
"""
_WARNING_SIGNS: Final = tuple("".join(_WARNINGS.split("\n")).split("|"))


def is_warning(sentence: str) -> bool:
    """True if a sentence may warn about a text."""
    return any(map(sentence.lower().__contains__, _WARNING_SIGNS))
