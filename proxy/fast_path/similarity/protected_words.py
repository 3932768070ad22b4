"""Words whose presence, absence or exchange changes a question, in seven languages.

All tables are read together: a short question does not say its language surely, and a word that is
protected in another language only refuses a hit. A paraphrase that is refused costs one call; a
wrong answer costs trust, so the tables err towards refusing.
"""

from typing import Final


def _words(listed: str) -> frozenset[str]:
    """The words of a list parted by blanks."""
    return frozenset(listed.casefold().split())


def _classes(**words: str) -> dict[str, str]:
    """The class of each word, of lists parted by blanks."""
    return {word: name for name, listed in words.items() for word in listed.casefold().split()}


#: English written together, with and without its apostrophe, word by word.
CONTRACTIONS: Final = {
    **{
        form: f"{verb} not"
        for verb in (
            *("do", "does", "did", "is", "are", "was", "were", "has", "have", "had", "could"),
            *("should", "would", "must", "need"),
        )
        for form in (f"{verb}n't", f"{verb}nt")
    },
    "can't": "can not",
    "cant": "can not",
    "cannot": "can not",
    "ain't": "is not",
    "won't": "will not",
    "wont": "will not",
    "aint": "is not",
    "shan't": "shall not",
    "what's": "what is",
    "whats": "what is",
    "where's": "where is",
    "wheres": "where is",
    "who's": "who is",
    "whos": "who is",
    "when's": "when is",
    "how's": "how is",
    "i'm": "i am",
    "im": "i am",
    "let's": "let us",
    "gonna": "going to",
    "wanna": "want to",
}

#: Words that may come and go: articles, pronouns, auxiliaries, courtesies, words of asking.
FREE_WORDS: Final = _words(
    "a an the i me myself you we us it its he she they them this that these those there "
    "here is are was were be been being am do does did done have has had having will would "
    "shall can could may might must should ought of and or so as at in on to for with by "
    "from about into onto over what which how who when where why whose please kindly thanks "
    "thank hi hello hey ok okay just also too very really quite actually currently now then "
    "well um uh tell show give let know want wants need needs like liked love find out see "
    "say said help me get got getting go going make sure think able possible way anything "
    "something some any exactly hear wondering wonder curious explain describe question ask "
    "asking if whether my mine our ours your yours his her hers their theirs up der die das "
    "den dem des ein eine einen einem einer ich du er sie es wir ihr mich mir uns ist sind "
    "war waren bin bist sein hat habe haben hatte wird werden kann können könnte soll muss "
    "was wie wer wo wann warum bitte danke mal doch ja und oder zu im in am an auf für mit "
    "von aus bei mein meine meinen meinem meiner le la les un une des du de je tu il elle "
    "nous vous ils elles est sont était suis a ai ont que qui quoi quel quelle comment où "
    "quand pourquoi merci et ou à au aux en sur pour avec par mon ma mes ce cet cette el "
    "los las una unos unas del yo tú él ella nosotros es son era soy ha he han qué quién "
    "cómo dónde cuándo cuál gracias y o al con por para mi mis este esta lo gli i uno che "
    "chi come dove quando perché grazie e da di su per mio mia o os as um uma do da no na "
    "eu você que quem como onde obrigado em meu minha het een ik jij hij zij wij ben zijn "
    "heeft heb hoe wie wat waar wanneer alstublieft en of te van op voor met mijn"
)

#: Counted: two texts have as many of each. Other languages' words stand in the class of the same
#: sense.
COUNTED_CLASSES: Final = _classes(
    negation=(
        "not no never none neither nor nobody nothing nowhere without cannot unable fail fails "
        "failed failing lack lacks lacking missing refuse refuses refused refusing decline "
        "declined declining stop stops stopped stopping "
        "nicht kein keine keinen keinem keiner nie niemals ohne niemand nichts weder "
        "ne pas jamais sans aucun aucune rien personne ni "
        "nunca sin ningún ninguna ninguno nada nadie tampoco jamás "
        "non mai senza nessun nessuno nessuna niente não sem nenhum nenhuma "
        "niet geen nooit zonder niemand niets"
    ),
    condition=(
        "if unless except excluding besides otherwise provided providing assuming until till "
        "instead although though despite whenever once while "
        "falls wenn außer sofern obwohl trotz statt solange bis "
        "si sauf sinon malgré jusqu lorsque salvo excepto aunque mientras hasta "
        "se eccetto tranne finché exceto embora enquanto até als tenzij behalve hoewel totdat"
    ),
    restriction=(
        "only solely merely exclusively nur bloß lediglich ausschließlich seulement uniquement "
        "solo sólo solamente soltanto apenas somente slechts alleen"
    ),
    comparison="than",
    whole=(
        "all every each both entire whole always everything everyone "
        "alle alles jeder jede jedes immer beide tous toutes tout chaque toujours "
        "todo todos toda todas cada siempre tutti tutte ogni sempre ambos alle elke altijd"
    ),
)

#: Of these both texts have the same set.
SAME_SET: Final = _classes(
    today="today heute aujourd'hui hoy oggi hoje vandaag tonight",
    tomorrow="tomorrow tomorrows morgen demain mañana domani amanhã",
    yesterday="yesterday yesterdays gestern hier ayer ieri ontem gisteren",
    monday="monday mondays mon montag lundi lunes lunedì maandag",
    tuesday="tuesday tuesdays tue dienstag mardi martes martedì dinsdag",
    wednesday="wednesday wednesdays wed mittwoch mercredi miércoles mercoledì woensdag",
    thursday="thursday thursdays thu donnerstag jeudi jueves giovedì donderdag",
    friday="friday fridays fri freitag vendredi viernes venerdì vrijdag",
    saturday="saturday saturdays sat samstag samedi sábado sabato zaterdag",
    sunday="sunday sundays sonntag dimanche domingo domenica zondag",
    january="january jan januar janvier enero gennaio janeiro januari",
    february="february feb februar février febrero febbraio fevereiro februari",
    march="march märz mars marzo março maart",
    april="april avril abril aprile",
    may="mai mayo maggio maio mei",
    june="june jun juni juin junio giugno junho",
    july="july jul juli juillet julio luglio julho",
    august="august aug août agosto augustus",
    september="september sep sept septembre septiembre settembre setembro",
    october="october oct oktober octobre octubre ottobre outubro",
    november="november nov novembre noviembre novembro",
    december="december dec dezember décembre diciembre dicembre dezembro",
    second="seconds sekunde sekunden seconde secondes segundo segundos",
    minute="minute minutes min mins minuten minuto minutos",
    hour="hour hours hr hrs stunde stunden heure heures hora horas ora ore uur",
    day="day days daily tag tage tagen jour jours día días giorno giorni dia dias dag dagen",
    week="week weeks weekly woche wochen semaine semaines semana semanas settimana weken",
    month="month months monthly monat monate monaten mois mes meses mese mesi maand maanden",
    quarter="quarter quarters quarterly quartal trimestre",
    year="year years yearly annual annually jahr jahre jahren an ans année años año anno anni ano",
    morning="morning mornings matin mattina manhã ochtend",
    evening="evening evenings abend soir tarde sera noite avond night nights nacht nuit noche",
    weekend="weekend weekends wochenende",
    kilometre="km kilometer kilometers kilometre kilometres kilomètre kilómetros",
    metre="metre metres meter meters mètre metro metros",
    centimetre="cm centimeter centimeters centimetre centimetres",
    mile="mile miles meile meilen",
    foot="feet foot ft",
    inch="inch inches",
    yard="yard yards",
    kilogram="kg kilo kilos kilogram kilograms kilogramm",
    gram="gram grams gramm grammes",
    pound="lb lbs pound pounds £ gbp pfund sterling",
    ounce="ounce ounces oz",
    ton="ton tons tonne tonnes",
    litre="litre litres liter liters",
    millilitre="ml milliliter milliliters",
    gallon="gallon gallons",
    cup="cup cups",
    tablespoon="tablespoon tablespoons tbsp",
    teaspoon="teaspoon teaspoons tsp",
    celsius="celsius °c centigrade",
    fahrenheit="fahrenheit °f",
    kelvin="kelvin",
    percent="% percent percentage prozent pourcent",
    dollar="$ dollar dollars usd bucks",
    euro="€ euro euros eur",
    yen="¥ yen jpy",
    rupee="₹ rupee rupees inr",
    franc="franc francs chf franken",
    peso="peso pesos",
    cent="cent cents",
    byte="byte bytes",
    kilobyte="kb kilobyte kilobytes kib",
    megabyte="mb megabyte megabytes mib",
    gigabyte="gb gigabyte gigabytes gib",
    terabyte="tb terabyte terabytes tib",
    am="am a.m",
    pm="pm p.m",
)
#: These are in the table above only behind a number: "I am" and "second card" are none.
ONLY_BEHIND_NUMBERS: Final = frozenset({"am", "min", "an", "a.m", "p.m", "sat", "sun", "mon"})

#: Where both texts have some of one group, they have the same.
SAME_WHERE_BOTH: Final = (
    _classes(first="my mine our ours", second="your yours", third="his her hers their theirs"),
    _classes(when="when wann quand cuándo quando", where="where wo où dónde dove onde waar")
    | _classes(who="who whom wer qui quién chi quem wie", why="why warum pourquoi perché waarom"),
    _classes(can="can could may might", should="should ought", must="must"),
)

#: Words of which one text has the one and the other text another, in the same place or not.
OPPOSITES: Final = tuple(
    frozenset(group.casefold().split())
    for group in (
        *("increase decrease", "raise lower", "up down", "on off", "in out", "open close shut"),
        *("start stop", "start end", "start finish", "begin end", "begin finish"),
        *("enable disable", "add remove"),
        *("add delete", "add subtract", "create delete", "create remove", "insert delete"),
        *("buy sell", "send receive", "give take", "lend borrow", "import export", "push pull"),
        *("deposit withdraw", "credit debit", "debit charge", "accept reject", "allow deny"),
        *("allow forbid", "allow block", "accept decline", "approve deny", "approve reject"),
        *("grant revoke", "connect disconnect", "login logout", "upload download", "read write"),
        *("show hide", "lock unlock", "block unblock", "freeze unfreeze", "mute unmute"),
        *("subscribe unsubscribe", "install uninstall", "activate deactivate", "book cancel"),
        *("confirm cancel", "keep cancel", "keep delete", "save delete", "turn-on turn-off"),
        *("before after", "early late", "earlier later", "first last"),
        *("earliest latest", "next previous last"),
        *("past future", "old new", "young old", "arrive depart leave", "arrival departure"),
        *("come go", "enter leave", "enter exit", "more less", "more fewer", "most least"),
        *("max min", "maximum minimum", "high low", "higher lower", "highest lowest"),
        *("big small", "large small", "larger smaller", "biggest smallest", "long short"),
        *("longer shorter", "longest shortest", "fast slow", "faster slower", "hot cold"),
        *("warm cold", "good bad", "better worse", "best worst", "right wrong", "true false"),
        *("yes no", "correct incorrect", "safe dangerous", "safe unsafe", "legal illegal"),
        *("cheap expensive", "cheaper pricier", "cheapest priciest", "rich poor", "full empty"),
        *("heavy light", "hard easy", "hard soft", "difficult easy", "strong weak", "thick thin"),
        *("wide narrow", "deep shallow", "dark bright", "dark light", "loud quiet", "wet dry"),
        *("left right", "north south", "east west", "top bottom", "front back", "above below"),
        *("over under", "inside outside", "near far", "here there", "public private"),
        *("internal external", "local remote", "domestic international foreign", "male female"),
        *("man woman", "men women", "boy girl", "mother father", "mom dad", "sister brother"),
        *("husband wife", "son daughter", "win lose", "pass fail", "succeed fail", "gain lose"),
        *("profit loss", "asset liability", "income expense", "revenue cost", "input output"),
        *("include exclude", "with without", "same different", "accurate inaccurate"),
        *("positive negative", "plus minus", "multiply divide", "love hate", "like dislike"),
        *("agree disagree", "happy sad", "active inactive", "valid invalid", "visible hidden"),
        *("alive dead", "sick healthy", "clean dirty", "rise fall", "rise set", "sunrise sunset"),
        *("morning evening", "breakfast lunch dinner", "incoming outgoing", "inbound outbound"),
        *("single double", "single return", "temporary permanent", "physical virtual"),
        *("optional required", "manual automatic", "online offline", "pin password"),
        *("sender recipient", "buyer seller", "employer employee", "pending completed"),
        *("weekday weekend", "gross net", "fixed variable", "advantage disadvantage"),
        *("pro con", "pros cons", "cause effect", "question answer", "upgrade downgrade"),
        *("encrypt decrypt", "encode decode", "compress decompress", "merge split"),
        *("hire fire", "attack defend", "ascending descending", "horizontal vertical"),
        *("checking savings", "saving checking", "visa mastercard", "iphone android"),
        *("kaufen verkaufen", "öffnen schließen", "ein aus", "an aus", "vor nach", "mehr weniger"),
        *("groß klein", "alt neu", "gut schlecht", "hoch niedrig", "erlauben verbieten"),
        *("aktivieren deaktivieren", "ja nein", "links rechts", "senden empfangen"),
        *("acheter vendre", "ouvrir fermer", "avant après", "plus moins", "grand petit"),
        *("vieux nouveau", "bon mauvais", "haut bas", "activer désactiver", "oui non"),
        *("comprar vender", "abrir cerrar", "antes después", "más menos", "grande pequeño"),
        *("viejo nuevo", "bueno malo", "alto bajo", "activar desactivar", "sí no"),
    )
)

#: Beginnings that turn a word into its opposite: "lock" and "unlock".
OPPOSITE_PREFIXES: Final = ("un", "dis", "de", "in", "im", "ir", "il", "non", "mis", "re", "over")

#: Words of the same sense where one stands in the other's place.
SYNONYMS: Final = tuple(
    frozenset(group.casefold().split())
    for group in (
        *("big large huge", "small little tiny", "buy purchase", "begin start", "end finish"),
        *("quick fast rapid", "picture photo image", "car automobile", "film movie"),
        *("help assist aid", "fix repair", "error mistake", "job work", "kid child", "sum total"),
        *("pick choose select", "happen occur", "reply respond answer", "cost price"),
        *("correct right", "difficult hard", "simple easy", "method approach technique"),
        *("use utilize employ", "platform service", "library package", "quickly fast rapidly"),
        *("provide offer supply", "various several multiple", "build create construct"),
        *("document file", "phone telephone", "mail email", "replace substitute"),
        *("cutting-edge state-of-the-art", "repository repo", "allow let"),
        *("enable allow permit", "purpose aim goal", "popular common", "main primary principal"),
        *("verify confirm", "obtain acquire", "shipped sent", "locate find"),
    )
)

#: Function words by which a text's language is told; each language's own, of two letters or more.
LANGUAGE_WORDS: Final = {
    "en": _words(
        "the is are was were my your what how where when why who do does did can could would "
        "will should have has and of to for from with this that you it not"
    ),
    "de": _words(
        "der das den dem ein eine ich ist sind nicht und oder wie wo wann warum mein meine zu "
        "für mit von auf kann wird haben habe sie wir kein auch"
    ),
    "fr": _words(
        "le les une des du je est sont pas et où comment quand pourquoi mon ma mes pour avec "
        "dans sur vous nous quel quelle puis peut"
    ),
    "es": _words(
        "el los las una es son cómo dónde cuándo qué por para con mi puedo puede está yo del "
        "cuál hay quiero"
    ),
    "it": _words("il gli che di sono come dove perché mio mia per con posso può della"),
    "pt": _words("os um uma não é são como onde meu minha para com posso pode você"),
    "nl": _words("het een ik niet zijn hoe waar mijn voor met van kan naar wordt"),
}

#: Numbers written as words.
NUMBER_WORDS: Final = {
    word: str(value)
    for value, words in {
        0: "zero null cero",
        1: "one eins once",
        2: "two twice zwei deux dos due twee double couple",
        3: "three thrice drei trois tres tre drie triple",
        4: "four vier quatre cuatro quattro",
        5: "five fünf cinq cinco cinque vijf",
        6: "six sechs seis sei zes",
        7: "seven sieben sept siete sette zeven",
        8: "eight acht huit ocho otto",
        9: "nine neun neuf nueve nove negen",
        10: "ten zehn dix diez dieci tien",
        11: "eleven elf onze",
        12: "twelve zwölf douze doce dozen",
        13: "thirteen",
        14: "fourteen fortnight",
        15: "fifteen",
        16: "sixteen",
        17: "seventeen",
        18: "eighteen",
        19: "nineteen",
        20: "twenty zwanzig vingt veinte",
        30: "thirty",
        40: "forty",
        50: "fifty half",
        60: "sixty",
        70: "seventy",
        80: "eighty",
        90: "ninety",
        100: "hundred hundert cent cien",
        1000: "thousand tausend mille mil",
        10**6: "million millions",
        10**9: "billion billions",
    }.items()
    for word in words.casefold().split()
} | {
    "third": "3rd",
    "fourth": "4th",
    "fifth": "5th",
    "sixth": "6th",
    "seventh": "7th",
    "eighth": "8th",
    "ninth": "9th",
    "tenth": "10th",
}
#: Of those the words that mostly count nothing.
NOT_NUMBERS: Final = frozenset({"one", "once", "cent", "due", "sept", "half", "couple"})
#: Words whose object they give a part: "from savings to checking".
DIRECTIONS: Final = _words(
    "in on at about from to into onto before after than over under above below by for with "
    "without against between instead via through von nach vor zu als durch gegen statt de à "
    "avant après que par contre desde hasta hacia para antes después por da dopo prima naar "
    "voor"
)
