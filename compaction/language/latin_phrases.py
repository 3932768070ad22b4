"""The phrases of languages in Latin letters."""

from typing import Final

from compaction.language.english_phrases import ENGLISH_PHRASES
from compaction.language.phrases import Phrases

LATIN_PHRASES: Final = (
    ENGLISH_PHRASES,
    Phrases(
        code="de",
        common="der die das und ich nicht ist ein eine einen mir mich sie bitte es zu mit auf"
        " für den dem von im am kein keine haben habe nur immer nie ja wir ihr auch noch wurde"
        " sind",
        standing="ab (?:jetzt|sofort|heute)|von nun an|in zukunft|künftig|zukünftig"
        r"|auf keinen fall|unter keinen umständen|jedes mal,? wenn|denk\w* (?:bitte )?daran"
        "|merken sie sich|merk dir|höchstens|maximal|lieber (?!(?:das|den|die|der) (?:erste"
        r"|zweite|dritte|andere|letzte))\S+|vor jede[rmn]?|jedesmal|grundsätzlich|jederzeit"
        "|jedes mal,? wenn du",
        wishes=r"bitte (?:\w+ ){0,6}(?:nicht|nie|niemals|immer|nur|stets|kein\w*|ausschließlich)"
        r"|nie|niemals|immer|stets|ausschließlich|^kein\w*|^nur|nicht (?:mehr|teurer|länger"
        r"|später|höher) als|nicht über|(?:möchte|will|wollen|möchten) (?:\w+ ){0,4}(?:nur"
        r"|kein\w*|nicht|immer|nie)|(?:soll|sollen|sollte\w*|muss|müssen|darf|dürfen"
        r"|kann) (?:\S+ ){0,6}(?:nicht|nie|immer|nur|kein\w*|sein|bleiben)"
        r"|^\w+n sie (?:\S+ ){0,6}(?:nicht|nichts|kein\w*|nur|darauf)|^(?:antworte|schreib"
        r"|verwende|benutze|nimm|achte|vermeide|ruf)\b",
        once=r"für (?:dies\w*|das hier|heute|morgen)|dafür|diesmal|dieses mal|endziffer\w*"
        r"|\w*karte|gutschein\w*|stattdessen",
        reports="war|waren|wurden?|hatten?|hat|worden|ging|kam|sagte|gesagt|bekommen|erhalten"
        r"|(?:ich|wir) (?:habe|haben|bin)|habe ich|haben wir|ist (?:\w+ ){0,3}nie|^(?:ich|es|er"
        r"|wir|das \w+|der \w+|mein\w* \w+) (?!möchte|will|woll|brauch|mag|bitte|soll|darf|muss"
        r"|müss|dürf|kann)\w+|(?!(?:möchte|will|hätte|würde|brauche|bevorzuge|bitte) ich)\w+ ich",
        done=r"(?:wurde|ist|sind|haben?) (?:\S+ ){0,6}(?:gebucht|storniert|erstattet|verschickt"
        "|versandt|bestätigt|reserviert|bestellt|bezahlt|geändert|hinzugefügt|entfernt"
        "|überwiesen|erledigt|eingetragen|gesendet|angelegt)|erfolgreich|^erledigt",
        failed="fehlgeschlagen|gescheitert|nicht möglich|abgelehnt|abgebrochen"
        r"|konnte\w* (?:\S+ ){0,6}nicht|leider nicht|nicht gefunden|nicht genügend|gesperrt"
        "|ein fehler|nicht geklappt",
        accepts="ja|jawohl|jep|genau|gerne?|einverstanden|ok|okay|passt|in ordnung|stimmt"
        "|richtig|klar|natürlich|perfekt|super|prima|gut|machen (?:wir|sie)|mach das"
        "|das (?:passt|nehme ich)|nehme ich|abgemacht|alles klar|so machen wir",
        refuses="nein|nee?|lieber nicht|nicht (?:das|so|nötig)|auf keinen fall|danke,? nein"
        r"|keine?s?\b|das (?:passt nicht|ist falsch)",
        chooses="(?:das|die|der|den|dem) (?:erste|zweite|dritte|vierte|letzte|andere|günstig"
        r"|billig|früh|spät|schnell|direkt)\w*|erstere[srn]?|letztere[srn]?|beide[srn]?"
        r"|keine[srn]? von|variante|option|nummer (?:eins|zwei|drei|\d)",
    ),
    Phrases(
        code="fr",
        common="le la les des un une je vous et est pas ne que de du en pour avec mon ma mes sur"
        " il c'est j'ai au aux ce oui non toujours jamais svp nous dans qui à été me sans rien"
        " seulement prix",
        standing="désormais|dorénavant|à partir de maintenant|à l'avenir|en aucun cas"
        "|sous aucun prétexte|chaque fois que (?:je|vous|tu)|gardez (?:bien )?à l'esprit"
        r"|n'oubliez (?:pas|jamais)|souvenez-vous|au maximum|maximum \d+|\d\S*(?: \S+)? maximum"
        r"|au plus|surtout pas|tutoyez\S*|avant chaque|systématiquement|à chaque fois",
        wishes=r"^(?:ne |n')(?:\S+ ){1,4}(?:pas|jamais|plus|rien|qu\S*|aucun\w*)|toujours|jamais"
        r"|^(?:répond|écri|utilis|évit|envoy|parl)\w*(?:ez|s|e)(?:-moi)?|uniquement|seulement"
        r"|pas plus (?:de|que)|je préf\w+|je (?:veux|voudrais|souhaite) (?:\S+ ){0,3}(?:que"
        "|uniquement|seulement|toujours)|je ne (?:veux|voudrais|souhaite|mange|bois)|^pas de"
        r"|(?:doit|doivent|faut) (?:\S+ ){0,4}(?:pas|jamais|toujours|être|rester)|ne (?:doit"
        "|doivent|peut) (?:pas|jamais)|svp pas",
        once=r"cette fois|pour (?:ça|cela|celui-ci|celle-ci)|se terminant"
        r"|finissant|carte|bon d'achat|à la place",
        reports="j'ai|je n'ai|était|étaient|a été|avait|n'est|n'a|a|ont|nous avons|reçu|^(?:je"
        r"|il|elle|on|ça|c'est|mon \w+|ma \w+) (?!veux|voudr|préf|souhait|ne (?:veux|mange|bois"
        r"|voudr|souhait|doit)|doit|faut)\S+",
        done="(?:est|sont|a|ont|avons|ai) (?:bien |déjà |été )*(?:réservée?s?|annulée?s?"
        "|remboursée?s?|envoyée?s?|confirmée?s?|commandée?s?|payée?s?|modifiée?s?|ajoutée?s?"
        "|enregistrée?s?|effectuée?s?)|avec succès|c'est fait",
        failed=r"échoué|échec|impossible|refusée?|rejetée?|n'a pas pu|n'ai pas pu|insuffisant\w*"
        "|introuvable|une erreur|bloquée?",
        accepts="oui|ouais|d'accord|ok|parfait|très bien|bien sûr|exactement|tout à fait"
        "|ça marche|ça me va|entendu|c'est (?:bon|ça|parfait)|volontiers|allez-y|je (?:la "
        "|le )?prends|super|bonne idée|avec plaisir|correct",
        refuses="non|nan|pas (?:du tout|celui|celle|vraiment|maintenant)|surtout pas|plutôt pas"
        "|non merci|je ne (?:veux|préfère) pas|ce n'est pas",
        chooses=r"(?:le|la|les|l') ?(?:premi\w+|second\w*|deuxième|troisième|derni\w+|autre"
        r"|moins cher\w*|plus \w+)|(?:celui|celle)(?:-ci|-là| d\w+)?|les deux|aucun\w* des|option"
        r"|numéro (?:un|deux|trois|\d)",
    ),
    Phrases(
        code="es",
        common="el la los las un una y es no que de en por para con mi me se lo su yo sí está he"
        " ha siempre nunca solo favor al del le como pero quiero fue nada sin nunca solo euros",
        standing="a partir de (?:ahora|hoy)|de ahora en adelante|en adelante|en ningún caso"
        r"|bajo ninguna circunstancia|cada vez que|ten(?:ga)? en cuenta|recuerd\w+ (?:que"
        r"|siempre)|por favor,? (?:\w+ ){0,4}(?:siempre|nunca|solo|sólo|no)|no (?:debe"
        r"|puede)n? (?:\w+ )?\w+r|como máximo|máximo|antes de cada|en todo momento"
        "|sistemáticamente",
        wishes="^no (?:(?:me|nos|le|les|lo|la|los|las) )?(?!(?:preference|worries|need|more|one"
        r"|use|those|these|time|price|please|me|name)\b)(?!(?:es|está|he|ha|hay|sé|tengo|puedo"
        r"|funciona|llegó|recibí|entiendo|recuerdo|necesito|gracias|era|fue|sabía)\b)\w+(?:e|es"
        "|en|a|as|an)|nunca|jamás|siempre|^s[oó]lo|s[oó]lo (?:por|quiero|en|con)|solamente"
        "|únicamente|no más de|prefiero|preferiría|no quiero|^(?:respond|escrib|us|utili|evit"
        r"|habl|enví|mand)[ae]n?\b|(?:debe|deben|tiene que|tienen que) (?:\w+ ){0,3}(?:ser|estar"
        r"|siempre)|^\w+ s[oó]lo",
        once=r"esta vez|para (?:esto|eso)|terminad[ao] en|que termina|tarjeta|cupón|en su lugar",
        reports="tengo|tenemos|he|ha|hemos|han|fue|fueron|era|estaba|llegó|recibí|recebi|dijo"
        r"|había|estuvo|compré|pagué|llegaba|^(?:él|ella|el \w+|la \w+|mi \w+|yo) (?!prefier"
        r"|quier|deb|tiene|no (?:deb|pued))\w+|(?:me|nos) \w+o|(?:siempre|nunca) (?:llego|tengo"
        "|voy|pido|compro|hago|veo|puedo|olvido)",
        done="(?:ha|han|he|hemos|está|están|fue|queda) (?:sido |ya )*(?:reservad|cancelad"
        "|reembolsad|enviad|confirmad|pedid|pagad|cambiad|añadid|modificad|registrad"
        "|realizad)[oa]s?|con éxito|^listo|correctamente",
        failed="falló|fallado|fracasó|no (?:se )?(?:pudo|ha podido|fue posible|es posible)"
        "|rechazad[oa]|insuficientes?|denegad[oa]|no encontrad[oa]|un error|bloquead[oa]"
        "|no hemos podido",
        accepts="sí|si|claro|vale|de acuerdo|ok|okay|perfecto|exacto|exactamente|correcto"
        "|está bien|muy bien|bien|por supuesto|adelante|me parece bien|hecho|genial|buena idea"
        "|lo tomo|me lo quedo|así es",
        refuses="no|nada|para nada|mejor no|ninguno|ninguna|no,? gracias|de ninguna manera",
        chooses=r"(?:el|la|los|las) (?:primer\w*|segund\w*|tercer\w*|últim\w*|otr\w*|más \w+)"
        r"|ambos|ambas|los dos|las dos|ninguno de|opción|número (?:uno|dos|tres|\d)",
    ),
    Phrases(
        code="pt",
        common="o a os as um uma e é não que de em por para com meu minha me se você eu sim está"
        " foi sempre nunca só favor do da no na ao mas quero pelo nada sem só reais",
        standing="a partir de (?:agora|hoje)|de agora em diante|daqui (?:em|para a?) (?:diante"
        "|frente)|em hipótese alguma|em nenhum caso|em caso algum|sempre que (?:eu|você)"
        r"|lembr\w+-se|por favor,? (?:\w+ ){0,4}(?:sempre|nunca|só|somente|apenas|não)"
        r"|não (?:deve|pode)m? (?:\w+ )?\w+r|no máximo|máximo|antes de cada|cada vez que"
        "|toda vez que|sistematicamente",
        wishes="^não (?:(?:me|nos|o|a|os|as|lhe) )?(?!(?:é|está|tenho|sei|recebi|chegou|consigo"
        r"|posso|há|entendi|lembro|preciso|foi|era|obrigad\w+)\b)\w+|nunca|jamais|sempre|apenas"
        "|somente|^só|só (?:por|quero|com|em|pelo)|não mais (?:de|que|do que)|prefiro|preferia"
        r"|não quero|^(?:respond|escrev|us|utiliz|evit|fal|envi|mand|mantenh)[ae]m?\b|(?:deve"
        r"|devem|tem que|têm que) (?:\w+ ){0,3}(?:ser|estar|sempre)|^\w+ só",
        once=r"desta vez|para (?:isto|isso)|terminad[oa] em|com final|cartão|cupom|em vez disso",
        reports="tenho|temos|foi|foram|era|estava|tinha|recebi|chegou|comprei|paguei|disse|veio"
        r"|chegava|já|^(?:ele|ela|o \w+|a \w+|meu \w+|minha \w+|eu) (?!prefir|quer|dev|tem"
        r"|não (?:dev|pod|quer))\w+|me \w+o|(?:sempre|nunca) (?:chego|tenho|vou|peço|compro|faço"
        "|vejo|posso|esqueço)",
        done="(?:foi|foram|está|estão|já|ficou) (?:já |sido )*(?:reservad|cancelad|reembolsad"
        "|enviad|confirmad|pedid|pag|alterad|adicionad|registrad|realizad)[oa]s?|com sucesso"
        "|^pronto",
        failed="falhou|não (?:foi possível|pôde|conseguimos|consegui)|recusad[oa]|rejeitad[oa]"
        "|insuficientes?|negad[oa]|não encontrad[oa]|um erro|bloquead[oa]",
        accepts="sim|claro|ok|okay|certo|perfeito|exato|exatamente|isso|está bem|tudo bem"
        "|combinado|com certeza|pode (?:ser|fazer)|ótimo|boa ideia|de acordo|fico com|concordo"
        "|beleza",
        refuses="não|nada|de jeito nenhum|melhor não|nenhum|nenhuma|não,? obrigad[oa]",
        chooses=r"(?:o|a|os|as) (?:primeir\w*|segund\w*|terceir\w*|últim\w*|outr\w*|mais \w+)"
        r"|ambos|ambas|os dois|as duas|nenhum d\w+|opção|número (?:um|dois|três|\d)",
    ),
    Phrases(
        code="it",
        common="il lo la gli i le un una e è non che di in per con mio mia mi si ho ha sì sono"
        " da del della sempre mai solo favore al ma vorrei questo alla via preferisco voglio"
        " euro massimo senza",
        standing="d'ora in (?:poi|avanti)|da (?:ora|adesso|oggi) in (?:poi|avanti)|in futuro"
        r"|in nessun caso|per nessun motivo|ogni volta che|ricord\w+ (?:che|di)|tenga presente"
        r"|per favore,? (?:\w+ ){0,4}(?:sempre|mai|solo|soltanto|non)|non (?:deve|devono"
        r"|può) (?:\w+ )?\w+|al massimo|massimo \d+|prima di ogni|in ogni momento"
        "|sistematicamente",
        wishes="^non (?:(?:mi|ci|lo|la|li|le) )?(?!(?:è|sono|ho|ha|so|hai|abbiamo|funziona"
        r"|riesco|posso|ricordo|capisco|c'è|era)\b)\w+|mai|sempre|^solo|solo (?:via|per|in|con|e)"
        "|soltanto|esclusivamente|non più (?:di|tardi)|preferisco|preferirei|non voglio"
        r"|(?:voglio|vorrei) (?:\w+ ){0,2}solo|(?:deve|devono) (?:\w+ ){0,3}(?:essere|sempre"
        r"|restare)|^(?:rispond|scriv|us|utilizz|evit|parl|mand|invi)[aei]\b|^\w+ solo",
        once=r"questa volta|per (?:questo|quello)|che termina|carta|buono",
        reports="ho|ha|abbiamo|hanno|era|erano|stato|stata|aveva|arrivat[oa]|ricevuto|non è"
        r"|^(?:lui|lei|il \w+|la \w+|il mio \w+|la mia \w+|io) (?!prefer|vo|dev|non (?:dev|può"
        r"|vo))\w+|mi \w+o|(?:arrivo|vado|compro|faccio|vedo|posso|dimentico) (?:sempre|mai)",
        done="(?:è|sono|ho|abbiamo) (?:già |stat[oaie] )*(?:prenotat|annullat|rimborsat|inviat"
        "|confermat|ordinat|pagat|modificat|aggiunt|registrat|effettuat)[oaie]|con successo"
        "|^fatto",
        failed="fallit[oa]|non (?:è stato possibile|è possibile|riuscit[oa])|rifiutat[oa]"
        "|respint[oa]|insufficient[ei]|negat[oa]|non trovat[oa]|un errore|bloccat[oa]",
        accepts="sì|si|certo|ok|okay|va bene|d'accordo|perfetto|esatto|esattamente|giusto"
        "|corretto|bene|benissimo|certamente|ottimo|buona idea|lo prendo|la prendo|proceda"
        "|volentieri",
        refuses="no|per niente|meglio di no|nessuno|nessuna|no,? grazie|non (?:quello|quella"
        "|voglio)",
        chooses="(?:il|la|lo|l'|i|le) ?(?:prim[oa]|second[oa]|terz[oa]|ultim[oa]|altr[oa]"
        r"|più \w+)|entramb[ie]|tutt[ie] e due|nessun\w* d\w+|opzione|numero (?:uno|due|tre|\d)",
    ),
    Phrases(
        code="nl",
        common="de het een en is niet ik je u van op in voor met mijn mij we ja nee dat die te"
        " aan heb heeft geen altijd nooit alleen graag bij om zijn maar mag wil me voortaan"
        " niets",
        standing="vanaf (?:nu|heden|vandaag)|voortaan|in het vervolg|in geen geval"
        r"|onder geen (?:beding|enkele omstandigheid)|elke keer (?:als|dat)|denk er\s?aan|onthoud"
        "|hoogstens|maximaal|liever|voor elke|telkens (?:als|wanneer)|te allen tijde"
        "|systematisch",
        wishes="nooit|altijd|uitsluitend|^alleen|alleen (?:via|per|op|in|maar|de|het|een)|^geen"
        r"|^(?:gebruik|schrijf|antwoord|vermijd|spreek)\b|^\w+ (?:\S+ ){0,3}(?:niet|niets|alleen"
        r"|geen)|niet (?:meer|duurder|later|langer) dan|(?:wil|willen) (?:\S+ ){0,3}(?:geen|niet"
        r"|alleen)|(?:mag|mogen|moet|moeten) (?:\S+ ){0,6}(?:niet|geen|alleen|zijn|blijven"
        r"|kosten)|(?:graag|alsjeblieft|alstublieft) (?:\S+ ){0,4}(?:niet|alleen|geen)",
        once=r"deze keer|dit keer|hiervoor|eindigend|eindigt|\w*kaart|bon",
        reports="was|waren|werd|heb|heeft|hebben|had|hadden|kwam|ging|zei|ontvangen"
        r"|is (?:\S+ ){0,3}nooit|^(?:ik|er|het|dit|dat|hij|zij|we|wij|de \w+|mijn \w+) (?!wil"
        r"|graag|moet|mag|mog)\w+|(?!(?:wil|zou|mag) ik)\w+ ik",
        done=r"(?:is|zijn|hebben?|heeft|werd) (?:\S+ ){0,6}(?:geboekt|geannuleerd|terugbetaald"
        "|verzonden|verstuurd|bevestigd|gereserveerd|besteld|betaald|gewijzigd|toegevoegd"
        "|geregistreerd)|^gelukt|succesvol",
        failed="mislukt|niet (?:gelukt|mogelijk|gevonden)|geweigerd|afgewezen|onvoldoende"
        r"|geblokkeerd|een fout|kon(?:den)? (?:\S+ ){0,6}niet",
        accepts="ja|jawel|jazeker|oké?|okay|prima|akkoord|goed|precies|klopt|perfect|uitstekend"
        "|natuurlijk|graag|doe maar|dat is (?:goed|prima)|in orde|top|mooi|afgesproken",
        refuses="nee|neen|liever niet|nee,? (?:dank|bedankt)|geen van|niet (?:die|dat|nodig)"
        "|zeker niet",
        chooses=r"(?:de|het) (?:eerste|tweede|derde|laatste|andere|goedkoop\w*|vroeg\w*|laat\w*"
        r"|snel\w*)|allebei|beide|geen van|optie|nummer (?:een|twee|drie|\d)",
    ),
    Phrases(
        code="pl",
        common="i w na nie się z do jest to że o jak mi mnie proszę tak ale po za od czy już mam"
        " był było zawsze tylko nigdy przez dla moje chcę ma mój moja nigdy zł bez",
        standing="od (?:teraz|dziś|dzisiaj|tej pory)|na przyszłość|w przyszłości"
        r"|pod żadnym pozorem|w żadnym wypadku|za każdym razem|pamiętaj\w*|proszę pamiętać"
        r"|maksymalnie|najwyżej|przed każd\w+|ilekroć|za każdym razem|w każdym przypadku",
        wishes=r"^(?:proszę )?nie (?!(?:ma|mam|wiem|jest|dostał\w*|otrzymał\w*|pamiętam|było"
        r"|był\w*|działa|mogę|rozumiem|dziękuję|trzeba)\b)\w+|nigdy|zawsze|^tylko|tylko (?:przez"
        r"|na|po|w|sms|e-?mail\w*)|wyłącznie|nie (?:więcej|drożej|później|dłużej) niż"
        r"|nie może (?:\S+ ){0,3}(?:przekroczyć|przekraczać|być|kosztować)|wolę|wolał\w*|nie chcę"
        r"|chcę (?:\S+ ){0,2}tylko|nie jem|(?:musi|muszą|powinn\w+) (?:\S+ ){0,3}być"
        r"|proszę (?:\S+ ){0,4}(?:tylko|nie)|^(?:odpowiadaj|pisz|używaj|unikaj|mów|dzwoń)\w*"
        r"|^\w+(?:cie|j) (?:\S+ ){0,2}tylko",
        once=r"tym razem|do tego|kończąc\w+|kart\w+|bon\w*",
        reports=r"był\w*|dostał\w*|otrzymał\w*|przyszedł|przyszł\w*|kupił\w*|zapłacił\w*"
        r"|powiedział\w*|nie ma|jest|dotarł\w*|(?:zawsze|nigdy) (?:nie )?(?:się )?(?!proszę|wolę"
        r"|chcę)\w+(?:ę|am|em)|(?!proszę|wolę|chcę)\w+(?:ę|am|em) (?:się )?zawsze",
        done=r"(?:został[aoy]?|zostały|jest|są) (?:\S+ ){0,2}(?:zarezerwowan|anulowan|zwrócon"
        r"|wysłan|potwierdzon|zamówion|opłacon|zmienion|dodan|zapisan|wykonan)\w+|pomyślnie"
        "|^gotowe",
        failed=r"nie (?:powiodł\w+|udał\w+|można|znaleziono)|odrzucon\w+|niewystarczając\w+"
        r"|zablokowan\w+|błąd|odmówion\w+|niemożliw\w+",
        accepts="tak|dobrze|ok|okej|zgoda|zgadzam się|jasne|oczywiście|dokładnie|pewnie|świetnie"
        "|super|może być|biorę|pasuje|w porządku|proszę bardzo|poproszę|zgadza się",
        refuses="nie|żaden|żadna|wolę nie|raczej nie|nie,? dziękuję|absolutnie nie",
        chooses=r"(?:pierwsz|drug|trzeci|ostatni|tańsz|najtańsz|wcześniejsz|późniejsz)\w*"
        r"|ten (?:pierwszy|drugi|sam)|oba|obie|obydwa|żad\w+ z|opcj\w+|numer (?:jeden|dwa|trzy"
        r"|\d)",
    ),
    Phrases(
        code="tr",
        common="ve bir bu için ile de da çok ben mi mı ne var değil lütfen evet hayır ama her"
        " zaman sadece bana beni gibi daha olarak oldu en fazla lira kartımı sonra",
        standing="bundan (?:sonra|böyle)|şu andan itibaren|her seferinde|hiçbir koşulda"
        r"|unutmayın|aklınızda (?:olsun|tutun)|lütfen (?:\S+ ){0,8}(?:\w+m[ae]y[ıi]n\w*|her zaman"
        r"|sadece|yalnızca|asla)|en fazla|en çok|her \w+ önce",
        wishes=r"\w+m[ae]y[ıi]n(?:[ıi]z)?|her zaman|daima|asla|hiçbir zaman|^sadece|^yalnızca"
        r"|(?:sadece|yalnızca) (?:\S+ ){0,4}(?:\w+[ıiuü]n(?:[ıiuü]z)?|istiyorum|isterim)|geçmesin"
        r"|aşmasın|olmasın|tercih (?:ederim|ediyorum)|istemiyorum|\w+m[ae]l[ıi]",
        once=r"bu sefer|bu kez|bunun için|ile biten|kart\w*",
        reports=r"\w+(?:d[ıiuü]|t[ıiuü]|m[ıiuü]ş)(?:m|k|lar|ler)?\W*$|geç (?:geliyor|kalıyor)"
        r"|(?!istiyorum|istemiyorum|istemem|isterim|ederim|ediyorum)\w+(?:yorum|[aeıiuü]r[ıiuü]m)"
        r"|asla \w+m[ae]m",
        done=r"(?:rezerve|iptal|iade|onay|sipariş|ödeme|kayıt|transfer)\w* (?:edildi|alındı"
        "|yapıldı|tamamlandı)|gönderildi|onaylandı|değiştirildi|eklendi|oluşturuldu|başarıyla"
        "|^tamamdır",
        failed="başarısız|yapılamadı|edilemedi|reddedildi|yetersiz|bulunamadı|engellendi|hata"
        "|olmadı|mümkün değil|gönderilemedi",
        accepts="evet|tamam|olur|peki|tabii|elbette|kesinlikle|aynen|doğru|harika|mükemmel|güzel"
        "|iyi|anlaştık|uygun|ok|alıyorum|kabul",
        refuses="hayır|yok|istemiyorum|olmaz|gerek yok|istemem|hiçbiri|kalsın",
        chooses=r"(?:ilk|birinci|ikinci|üçüncü|son|diğer|öteki|ucuz|erken|geç)\w*|her ikisi\w*"
        r"|hiçbiri\w*|seçenek\w*|numara",
    ),
    Phrases(
        code="vi",
        common="tôi là và của có không được cho một các này với để trong xin vui lòng đã anh chị"
        " em chỉ luôn đừng mình ạ nhé",
        standing="từ (?:giờ|nay|bây giờ)(?: trở đi| về sau)?|sau này|trong mọi trường hợp"
        "|tuyệt đối|mỗi (?:khi|lần)|(?:hãy|xin) nhớ|vui lòng (?:không|chỉ|luôn|đừng)|xin đừng"
        "|hãy (?:luôn|chỉ)|tối đa|không (?:vượt )?quá|nhiều nhất|trước mỗi|bất cứ khi nào",
        wishes="đừng|không được|chớ|luôn|luôn luôn|không bao giờ|^chỉ|chỉ (?:nhắn|dùng|gọi|gửi"
        "|trả lời|muốn|cần)|(?:tôi|mình|em) (?:thích|không muốn|không ăn|ưu tiên|muốn)|phải"
        "|bắt buộc",
        once=r"lần này|thẻ|số cuối|kết thúc bằng",
        reports="đã|chưa (?:bao giờ|nhận|được|có|thấy)|hôm qua|bị|vừa|(?:tôi|mình|em|anh"
        "|chị) (?:luôn|hay|thường)(?: luôn)?(?! muốn| thích| cần| chọn| ưu)",
        done="đã (?:được )?(?:đặt|hủy|huỷ|hoàn|gửi|xác nhận|thanh toán|thay đổi|thêm|đổi|chuyển"
        "|lưu)|thành công|xong",
        failed="thất bại|không thành công|không thể|bị từ chối|không đủ|không tìm thấy|lỗi|bị khóa",
        accepts="vâng|dạ|có|được|đồng ý|ok|oke|ừ|đúng(?: rồi| vậy)?|tốt|tuyệt|chính xác|nhất trí"
        "|lấy cái",
        refuses="không|thôi|đừng|chưa|không cần|không phải",
        chooses="(?:cái|chỗ|quán|phòng|chuyến|lựa chọn|phương án|số)? ?(?:đầu tiên|thứ nhất"
        "|thứ hai|thứ ba|cuối|kia|rẻ hơn|sớm hơn|muộn hơn)|cả hai|không cái nào|số (?:một|hai|ba"
        r"|\d)",
    ),
    Phrases(
        code="id",
        common="yang dan di ke dari ini itu saya tidak untuk dengan ada akan bisa tolong mohon"
        " sudah anda kami jangan selalu hanya ya apa pada belum pernah",
        standing="mulai (?:sekarang|hari ini|saat ini)|sejak sekarang|ke ?depannya|seterusnya"
        "|untuk selanjutnya|dalam (?:keadaan|kondisi) apa ?pun|setiap kali|ingat(?:lah)?"
        r"|(?:mohon|tolong|harap) (?:\S+ ){0,4}(?:jangan|hanya|selalu|tidak)|maksimal"
        "|paling (?:banyak|lama)|sebelum setiap|kapan pun",
        wishes="jangan(?:lah)?|selalu|^hanya|hanya (?:lewat|melalui|lewat|via|mau|ingin|dengan)"
        "|tidak (?:boleh|lebih|melebihi)|lebih suka|tidak (?:mau|ingin|makan|suka)|harus|wajib"
        r"|^(?:gunakan|pakai|jawab|balas|tulis|hindari)|^(?!saya|kami|aku|ini|itu|ada)\w+ hanya",
        once=r"kali ini|untuk (?:ini|itu)|kartu|berakhiran|kupon",
        reports="sudah|telah|belum|kemarin|tadi|(?<!jangan )pernah|terlambat|(?:saya|aku|kami"
        "|kita) selalu(?! mau| ingin)",
        done=r"(?:sudah|telah|berhasil) (?:kami |saya )?(?:di)?\w+|berhasil|^selesai|sukses",
        failed="gagal|tidak (?:berhasil|dapat|bisa|ditemukan|cukup)|ditolak|diblokir|kesalahan"
        "|tidak mencukupi",
        accepts="ya|iya|baik|oke?|okay|setuju|boleh|tentu|betul|benar|tepat|silakan|cocok|bagus"
        "|mantap|deal|siap",
        refuses="tidak|nggak|enggak|gak|jangan|tidak usah|bukan|tidak perlu|batal",
        chooses=r"yang (?:pertama|kedua|ketiga|terakhir|lain|satunya|murah|lebih \w+)|keduanya"
        r"|dua-duanya|opsi|pilihan|nomor (?:satu|dua|tiga|\d)",
    ),
)
