"""The phrases of English, which most recorded conversations are in."""

from typing import Final

from compaction.language.phrases import Phrases

#: Begins what names one thing of the task at hand in English: "the second one", not "tabs".
_ONE: Final = (
    r"(?:(?:my|this|that|those|these|both|one|it(?! (?:short|brief|simple|formal))|option|flight"
    r"|gift|something|some|each|in|to|any\w*)\b|(?:the|an?) (?!(?:\S+ ){0,2}(?:format|clock|system"
    r"|style|words?|terms?|language|tone|form|spelling|units?|currency|answers?|replies"
    r"|comments)\b))"
)

ENGLISH_PHRASES: Final = Phrases(
    code="en",
    common="the of to and are was it you i my we your that this have has not for with be"
    " please will would can from yes never always only don't if must ask make use need want"
    " prefer like should keep book thanks more than per",
    standing="from now on|going forward|in future|at all times|under no circumstances"
    "|in no case|for the rest of (?:this|our|the) (?:chat|conversation|session)"
    "|^(?:whenever|every time|each time) (?:i|you|we)|whenever you|^(?:keep in mind"
    "|remember (?:to|that|not|my|this))|i (?:want|expect) you to (?:always|never|only|answer"
    "|reply|respond|write|speak|keep|avoid|use|stop|be)|please (?:always|never|only"
    "|(?:answer|reply|respond|write|speak)"
    r"(?! (?:a|an|the|it|me)\b)(?: \S+){0,3} (?:in|with|without|only))|at most \S*\d\S*"
    r"|before (?:each|every) \w+|(?:can|could|would|will) you (?:please )?(?:always|never|only)"
    r"|in (?:all|every|each|any|your|future) (?:\w+ ){0,2}(?:answer|repl|respon|message"
    r"|mail)\w*|(?:prefer not to|rather not) be \w+",
    wishes=r"^never (?!mind)\w+|^always (?!(?:the|a|been|has|have|is)\b)\w+|^(?:don't"
    r"|do not) (?!(?:have|know|see|think|remember|recall|understand|believe|worry|mind|forget"
    r"|need|want|like|require|care|really|get|go|bother)\b)\w+|^(?:avoid|ignore|treat|limit"
    r"|stick|format|express|reply|respond|speak)|^answer(?! me\b)|^(?:just |simply )?use"
    rf"(?! {_ONE})|^keep(?! (?:look|go|try)\w*)(?! {_ONE})|^prefer(?! {_ONE})"
    r"|^write (?:in|only|all|every)|^stop \w+ing|^only (?:use|write|reply|answer|send|call"
    "|contact|accept|include|show|give|list|quote|mention|say|ask|speak|buy|order|by|via|in|on|after|before"
    "|through|when)|^should (?:not|never)|(?:must|should|may|shall)(?: not|n't)? (?:never"
    r"|always|only|ever)|must not|mustn't|^you must (?!be|have|feel|think)\w+|^(?:everything"
    r"|all|each|every)(?: \S+){0,3} (?:must|should) \w+|^all \w+ in \w+"
    r"|(?<!to )make sure (?:it|everything|the \w+) (?:compile|build|pass)(?:e?s)?\b"
    r"|(?<!to )make sure (?:that )?(?:you |to )?(?:always"
    r"|never|only|not|all|every|each|no)|^ensure (?:that )?(?:all|every|each|no)"
    r"|^(?:your |my )?(?:answers|replies|responses|comments|messages|mails|prices|dates|times"
    r"|names|texts|sentences|tests|variables)(?: \S+){0,3} should \w+|(?:no|not) more than"
    r" (?:\S*\d|\w+ (?:sentence|word|line|paragraph))|(?:i|we) (?:also |still |always |much "
    r"|definitely |generally |usually )*(?:prefer|rather have) (?!"
    rf"{_ONE})(?:\w+ ){{0,2}}\w+s\b|(?:i|we) (?:always|generally|usually) prefer"
    r"|^(?!(?:i|you|we|he|she|that|there|it|they|my|the)\b)\S+(?: \S+){0,3} must (?:stop|use"
    r"|fit|match|include|contain|not|never|always)|(?:i|we) only (?:eat|fly|read|accept|drink"
    r"|speak|pay)|(?:i|we) never (?:want|eat|fly|use|take|read|accept|pay|drink)|(?:i|we)(?:"
    r" \w+ly)? (?:do not|don't) (?:ever )?(?:eat|drink|accept|use)|(?:i|we)(?: \w+ly)? (?:do"
    r" not|don't) (?:ever )?(?:want|like) (?:to be \w+|(?:\S+ ){0,6}your (?:\w+ )?(?:answer"
    r"|repl|message|respon|code|text|mail)\w*)|(?:i|we) (?:can't|cannot) (?:eat|drink|have)"
    r"|(?:\d|one|two|three) (?:sentences|words|lines|paragraphs) only|^(?:write|send|call|text"
    "|contact|show|give|list|quote|ship|deliver|put|tell|ask|mail|message|phone|pay|charge"
    r"|print|return|report|email) (?:\S+ ){0,6}only|^(?:call|tell|ask|warn|notify|inform"
    r"|remind|check with) (?:me|us) (?:\S+ ){0,2}before",
    once=r"for (?:this|that|these|those|it|now|today|tonight|tomorrow|any)(?! (?:chat"
    "|conversation|session))|this time|just once|ending (?:in|with)|(?:gift|credit|debit|visa"
    r"|bank|my|the|this|that|\d) cards?|certificates?|vouchers?|option \w+|card instead"
    "|as requested|yet|anymore|by then",
    reports="was(?:n't)?|were(?:n't)?|had(?:n't)?|did(?:n't)?|got|went|said|told|came|gave"
    "|bought|paid|found|made|took|saw|sent|lost|broke|brought|thought|wrote|knew|felt|heard"
    "|seen|been|known|looked|(?:i|you|we|they|it|she|he)(?:'ve|'s| have| has) (?:(?:only"
    r"|never|always) )?\w+(?:ed|en)|(?:i|you|we|they|it|she|he|that|this|which) (?:only "
    r"|never |always )?\w{2,20}(?<!ne)ed|(?:only|never|always) \w{2,20}(?<!ne)ed|doesn't"
    "|does not|right now|at the moment|else|(?:he|she|they) (?:must|can|may|never|always"
    "|only)",
    done=r"(?:success\w*|(?:has|have) been|was|were) (?:\w+ ){0,2}(?:booked|cancell?ed"
    "|created|updated|deleted|removed|sent|added|saved|moved|paid|transferred|refunded"
    "|confirmed|reserved|ordered|scheduled|rescheduled|changed|issued|approved)|(?:transfer"
    r"|payment|booking|update|refund|cancellation) success\w*",
    failed=r"(?<!0 )(?<!no )(?:failed|failure)(?!\W?: ?(?:0|false|null|none))|could(?:n't"
    "| not)|unable to|was(?:n't| not) possible|declined|rejected|insufficient|denied"
    "|did(?:n't| not) work",
    accepts="yes|yeah|yep|yup|sure|ok|okay|fine|great|perfect|good|sounds (?:good|great"
    "|fine)|that works|works for me|correct|exactly|right|agreed|please do|go ahead|do (?:it"
    "|that)|let's (?:do|go)|i'll take|that's (?:fine|right|correct|good|great|perfect)"
    "|absolutely|of course|deal|alright|all right|that would be|confirmed|i agree",
    refuses="no|nope|nah|not (?:really|that|this|yet)|no,? thanks?|i'd rather not|don't"
    "|never mind|cancel that|that's (?:not|wrong)|i don't want|neither",
    chooses="(?:the|that|this|your|my) (?:very )?(?:first|second|third|fourth|fifth|last"
    r"|other|former|latter|next|one|ones|cheap\w*|earl\w+|lat\w+|fast\w*|direct)|option|both"
    "|either|neither|(?:first|second|third|last|other|former|latter) one|take (?:it|that)"
    r"|number (?:one|two|three|\d)",
)
