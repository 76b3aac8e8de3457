"""The phrases by which people correct: per language, as patterns without nested repetition. Data, no logic.

Text comes lower-cased, with straight apostrophes. A `START` phrase opens the message, fillers aside; an `ANYWHERE`
phrase stands at the beginning of any word. Every phrase ends at the end of a word: "now" is not "no".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from services.corrections.models import CorrectionKind

_SELF = CorrectionKind.SELF_CORRECTION
_REJECTION = CorrectionKind.EXPLICIT_REJECTION
_FACTUAL = CorrectionKind.FACTUAL
_ALTERNATIVE = CorrectionKind.ALTERNATIVE_REQUEST
_REPETITION = CorrectionKind.REPETITION


class Needs(Enum):
    """What a phrase needs from the turn before to mean a correction."""

    # It says all by itself.
    NOTHING = auto()
    # Nothing, but after a question or an announcement it is most likely an answer or a wish.
    NO_QUESTION = auto()
    # Any turn of the assistant: without one it is a report or a question like others.
    TURN = auto()
    # A turn that states or reports something: after a question it is one answer of many.
    ANSWER = auto()


@dataclass(frozen=True, slots=True)
class Cue:
    """A phrase with what it means. `confidence` holds where its need is met."""

    kind: CorrectionKind
    needs: Needs
    confidence: float
    pattern: str


def _cue(kind: CorrectionKind, needs: Needs, confidence: float, *patterns: str) -> Cue:
    return Cue(kind, needs, confidence, f"(?:{'|'.join(patterns)})")


# ---- English ---------------------------------------------------------------------------------------------------

_ENDS = r"(?=\s*[.,!:;]|\W*$)"
_VERY = r"(?:(?:just|still|all|so|totally|completely|plain|simply|also|really|clearly|actually|quite) ){0,2}"
_RIGHT = r"(?:right|correct|true|accurate|helpful|good|ok|okay|acceptable|working)"
_BAD = (
    r"(?:wrong|incorrect|false|untrue|nonsense|garbage|terrible|horrible|awful|useless|unhelpful|broken|inaccurate"
    r"|misleading|mistaken|backwards|bad|outdated|obsolete|made up|a hallucination"
    rf"|not (?:it|{_RIGHT}))"
)
_DOES_NOT = r"(?:do(?:es)?n'?t|do(?:es)? not|didn'?t|did not|won'?t|will not)"
_IS_NOT = r"(?:isn'?t|is not|aren'?t|are not|wasn'?t|was not)"
_CANNOT = r"(?:can'?t|cannot|can not|couldn'?t|could not)"
_VERB = (
    r"(?:work|help|compile|run|load|build|pass|fix|solve|match|show|appear|exist|render|update|happen|come|look|do|have"
    r"|return|include|contain|handle|seem|get|support|use|parse|print|fit|find|open|save|change|start|stop|add)"
)

# Said of oneself, wherever it stands.
SELF = (
    _cue(
        _SELF,
        Needs.NOTHING,
        0.80,
        r"(?<!if )(?<!why )(?<!whether )(?<!where )i was (?:wrong|mistaken)(?!\W*\?)",
        r"(?<!what )(?<!as )(?<!is )i (?:actually )?meant(?! (?:that as|for|it when|well))",
        r"i (?:misspoke|mistyped|misread|misremembered|stand corrected)",
        r"i made a (?:mistake|typo|error)",
        r"let me (?:rephrase|correct (?:that|myself|it))",
        r"(?:was|that's|totally|sorry,?|oops,?) my (?:mistake|bad|error|fault)",
        # Without a stop before it: what he is just saying.
        r"(?<=\w )no,? (?:that(?:'s| is|s) (?:wrong|incorrect|not right|not what i)|sorry|wait|i mean|rather|make that)",
    ),
)
SELF_START = (
    _cue(
        _SELF,
        Needs.NOTHING,
        0.80,
        r"(?:oops|whoops)(?!\W+(?:you|that|it|this|the)\b)",
        r"scratch that",
        r"(?:oh )?wait,? (?:no(?=[,.!]|\W*$| (?:i|it|that|on|make|not)\b)|i mea?nt?)",
        r"sorry,? (?:i mea?nt|my (?:mistake|bad|error))",
        r"my (?:mistake|bad|error|fault)(?=\W*$|[,.;:!]| (?:i|it|that|the)\b)",
    ),
)

# What follows a "no" decides: some words make it an answer, and before a noun it only says how many.
_NO = (
    r"(?:no|nope|nah)(?=[,.!;:…\u2014-]|\W*$| (?:no|not|i|you|we|it|that|this|they|he|she|its|it's|thats|that's|don'?t|do"
    r"|stop|use|just|please|wait|actually|instead|the|there|wrong|never|why|only|because|leave|keep|put|make|try|man"
    r"|dude|bro)\b)"
    r"(?!,? (?:thanks|thank you|problem|worries|rush|need|idea|it'?s (?:fine|ok|okay|good)|that'?s (?:fine|ok|okay|all|it)"
    r"|that (?:will|would) be all|go ahead|all good|please do|carry on|continue|nothing|sounds good|i'?m (?:good|fine)"
    r"|i am (?:good|fine)|i (?:don'?t|do not) think so|not (?:yet|really|now|at the moment))\b)"
)
START = (
    _cue(_REJECTION, Needs.NO_QUESTION, 0.85, _NO),
    _cue(
        _REJECTION,
        Needs.NOTHING,
        0.85,
        r"(?:wrong|incorrect|false|untrue|not true)(?=\s*[.,!:;]|\W*$| \w+\W*$)",
        r"(?:bad|terrible|useless|broken|horrible|awful|poor) (?:answer|response|output|result|idea|job)",
    ),
    _cue(
        _REJECTION,
        Needs.NO_QUESTION,
        0.80,
        r"(?:please )?(?:don'?t|do not|never) (?!worry|forget|know|think|mind|care|hesitate|have|see|understand|remember"
        r"|really|get me wrong|tell|bother|like|want|believe|recall|feel|agree|ever|the|an?|been|seen|heard|had|again|in)\w+",
        r"(?:please )?(?:stop|quit) (?=\w+ing\b)\w+",
        r"(?:i|we) (?:don'?t|do not|didn'?t|did not|never) (?:want|ask|asked|need(?! (?:any|more))|say|said|mean|meant"
        r"|tell|told|request|requested|mention|mentioned|like (?:it|this|that|how|your)|see (?:it|the|any|a|that|this))",
    ),
    _cue(
        _REJECTION,
        Needs.TURN,
        0.75,
        r"why (?:did|would|have|didn'?t|don'?t|aren'?t|haven'?t) you",
        r"why (?:are you (?:still|not|\w+ing)|do you (?:still|keep|always))",
        r"how come\b.{0,60}(?:n't|nt|not|no)",
        r"still (?:no|not|wrong|broken|fail\w*|the same|doesn'?t|does not|isn'?t|getting|seeing|happen\w*|says|shows?"
        r"|see|get|have|has|there|nothing|missing|error\w*|0|red|crash\w*|hangs?|present|an?|too)",
        r"(?:the )?(?:same|exact same) (?:error|problem|issue|result|thing|mistake|bug)",
        r"nothing (?:happens|happened|changes|shows|works|appears|changed(?! on))",
        rf"(?:still )?(?:{_DOES_NOT} {_VERB}|not (?:work|help|show)ing)",
        rf"(?:(?:way|far|a bit|much) )?too (?!bad|kind)\w+{_ENDS}",
        r"(?:are you (?:kidding|serious)|that can'?t be|come on|seriously|argh|ffs|dude|i disagree)",
    ),
    _cue(
        _REJECTION,
        Needs.ANSWER,
        0.75,
        r"not (?:good|right|correct|promising|helpful|working|great|quite|it|what|there)",
        r"are you sure",
    ),
    _cue(
        _FACTUAL,
        Needs.ANSWER,
        0.75,
        r"(?:but )?there(?:'?s| is| are| was| were)(?:n'?t| (?:no|not)"
        r"(?! (?:rush|need|hurry|problem|doubt|pressure|point|more|other|question|chance)))",
        r"not (?!sure|yet|now|really|bad|necessarily|only|too|much|that i|at all|a problem|an issue|possible|today|ready"
        r"|interested|just|everyone|all)\w+",
        r"actually,? (?:no|not|it|its|it's|that|that's|this|there|there's|the|he|she|they|you|we|in|my|our"
        r"|i (?:said|asked|live|am|was|never|don'?t|didn'?t))",
    ),
    _cue(_ALTERNATIVE, Needs.ANSWER, 0.70, r"actually,? (?:use|make|put|do|change|try|keep|just)"),
    _cue(
        _ALTERNATIVE,
        Needs.NO_QUESTION,
        0.70,
        r"instead(?! (?:of|can|could|may|might|would)\b)",
        r"(?:rather|instead) (?:than|of)",
        r"rather,?(?! (?:than|good|nice|well)\b)",
    ),
    _cue(
        _ALTERNATIVE,
        Needs.ANSWER,
        0.72,
        r"(?:ok|okay|k|good|great|nice|fine|right|sure|yes|yeah|yep|thanks|better|almost|close)\b[^.!?\n]{0,20}\bbut"
        r"(?! (?:can|could|what|how|should|let'?s|also|do|is there|would|will|first|before|now|then|why|when|where)\b)",
    ),
    _cue(_REPETITION, Needs.NO_QUESTION, 0.75, r"again[,:](?= )"),
)

ANYWHERE = (
    _cue(
        _REJECTION,
        Needs.NOTHING,
        0.88,
        rf"(?:that|this|it)(?:'?s| is| was| looks| seems| sounds) {_VERY}(?:a |an |the )?{_BAD}(?! (?:with|about)\b)",
        rf"(?:that|this|it) (?:isn'?t|wasn'?t) {_VERY}{_RIGHT}(?! enough\b)",
        r"not what (?:i|we)(?:'m| am|'ve)? (?:asked|asking|wanted|want|meant|mean|said|requested|need|needed|looking)",
    ),
    _cue(
        _REJECTION,
        Needs.NOTHING,
        0.85,
        rf"(?:that|this|it) (?:still )?(?:{_DOES_NOT}|{_IS_NOT}) (?:work|working|help)(?! for (?:me|us)\b)",
        r"(?:that|this|it)(?:'s| is) (?:still )?not working",
        r"(?:wtf|wth|(?<!explain )what the (?:hell|heck|fuck)(?! (?:is|are) (?:an?|going)\b))",
    ),
    _cue(
        _REJECTION,
        Needs.NOTHING,
        0.82,
        r"you(?:'?ve| have)? (?:just )?(?:missed|forgot|forgotten|ignored|skipped|misunderstood|misread|broke|messed"
        r"|screwed|overlooked|overwrote|invented|hallucinated)(?! nothing)",
        r"you(?:'?re| are) (?:still |just |always )?(?:wrong|mistaken|incorrect|repeating|hallucinating|confus\w+|missing"
        r"|ignoring|not (?:listening|answering)|making (?:it|that|this|things) up|doing (?:it|that|this) (?:wrong|again))",
    ),
    _cue(
        _REJECTION,
        Needs.TURN,
        0.80,
        rf"(?:that|this|the|your) \w+ (?:{_DOES_NOT}|{_IS_NOT}|{_CANNOT}) {_VERB}(?:ing)?",
        r"(?:the|your|that|this) (?:\w+ ){1,3}(?:is|are|was|were|looks?|seems?) "
        rf"(?:still |also |all |just |completely )?{_BAD}",
    ),
    _cue(
        _REJECTION,
        Needs.TURN,
        0.78,
        r"you (?:didn'?t|did not|haven'?t|have not|never|keep|kept|shouldn'?t have|should not have|should have"
        r"|were supposed|weren'?t supposed|don'?t (?:need|have) to|do not (?:need|have) to|got (?:it|that|this) wrong"
        r"|made (?:it|that) up|removed|deleted|changed the wrong|used the wrong|put it|left out)",
        r"(?:doesn'?t|does not|don'?t|do not) exist",
        r"still (?:fail\w*|crash\w*|says|shows|broken|wrong|missing|happens|errors?|doesn'?t|isn'?t|not)",
    ),
    _cue(
        _REJECTION,
        Needs.TURN,
        0.75,
        r"that'?s not (?:the|how|why|where|an?|my|our|in|on)(?! (?:problem|issue|big|bad|good))",
        r"(?:that|this|it) (?:now |also )?(?:breaks|broke|crashe[sd]|fails|failed|hangs|throws|loops)",
        r"(?<!-)(?:garbage|ridiculous|nonsense|stupid|pointless|sucks|annoying|frustrating|unacceptable|infuriating|absurd"
        r"|outrageous|disappointing)",
        r"stop (?:asking|telling|saying|repeating|apologi[sz]ing|guessing)",
        r"(?:is|are|'s|seems?|looks?|feels?|was) (?:way |far |a bit |a little |much |still )?too (?!kind|early|late|soon)\w+",
        r"(?:un|not )likely to (?:work|help|be)",
        r"(?:but|and|it|now)\b[^.!?\n]{0,40} (?:doesn'?t|don'?t|didn'?t|isn'?t|aren'?t|won'?t) "
        r"(?:work|show|match|appear|come|compile|run|load|update|happen)",
        rf"(?:it|this|that|these|those|they) (?:still |also |really )?(?:{_DOES_NOT}|{_IS_NOT}) {_VERB}(?! for\b)(?:ing)?",
        r"(?:is|are|it's|'s|does|do|get|getting|see|seeing|has|have) still(?! (?:open|possible|ok|okay|fine|good)\b)",
        r"i (?:just |also )?(?:ran|tried|tested|restarted|opened|clicked|checked|looked|get|got)\b[^.!?\n]{0,60}"
        r"(?:n't| not| no| nothing| still| fail\w*)",
        r"i (?:did not|didn'?t|do not|don'?t|could not|couldn'?t|can'?t|cannot) (?:see|find|get)"
        r"(?! (?:why|how|what|it)\b)",
        rf"(?:no longer (?:work|run|compile|show)\w*|used to work|worked before|{_CANNOT} (?:find|see|open|run) (?:it|the|any))",
        r"(?:in|to|at|has|used|uses|is|with|got|from|into|of) the wrong \w+",
        r"(?<!you )should(?:n'?t| not) (?:be|have|need|do|use|show|go|change)",
        r"not (?:worth|useful|needed|necessary|helpful)",
        r"(?:undo|revert) (?:that|this|it|your changes)(?=\W*$|[,.!;]| please\W*$)",
        r"(?:put|change|move) (?:it|that|this|them) back|go back to the (?:previous|old|original|last)",
        r"leave [^.!?\n]{1,30} alone",
    ),
    _cue(_REJECTION, Needs.ANSWER, 0.75, r"(?:we|i) (?:don'?t|do not) (?:want|use|do|need(?! (?:any|more)))"),
    # Of small talk as often as of an answer.
    _cue(_REJECTION, Needs.TURN, 0.60, r"(?:makes? no|(?:doesn'?t|does not) make (?:any )?) ?sense"),
    _cue(
        _FACTUAL,
        Needs.TURN,
        0.75,
        r"(?:was|is|were|are) (?:intentional|deliberate|on purpose|intended|supposed to be)",
        r"(?:it|that|this) should(?:'?ve| have) been|should not have been",
    ),
    _cue(
        _FACTUAL,
        Needs.ANSWER,
        0.72,
        r"(?<=, )not (?!sure|only|just|yet|necessarily|a problem|an issue|because|if|that|really|too)\w+",
    ),
    _cue(_ALTERNATIVE, Needs.NOTHING, 0.72, r"not that(?: one)?,? (?:try|use|the)"),
    _cue(
        _ALTERNATIVE,
        Needs.NO_QUESTION,
        0.70,
        r"(?:try|use|do|find|want|need|take|think of) (?:it )?(?:a |an )?(?:different|another|alternative|other) "
        r"(?:approach|way|method|solution|one)",
        r"can you (?:try|do|redo) (?:it|this|that) (?:differently|another way|again|over|properly)",
    ),
    _cue(_ALTERNATIVE, Needs.ANSWER, 0.72, r"instead(?=\W*$|[.,!])"),
    _cue(
        _REPETITION,
        Needs.NO_QUESTION,
        0.82,
        r"(?:this is|that'?s|for) the (?:second|third|fourth|fifth|sixth|tenth|hundredth|\d+(?:nd|rd|th)) time"
        r"(?! (?:this|in|since))",
        r"how many times",
        r"i (?:already|just) (?:said|told|asked|gave|mentioned|explained)",
        r"(?:as|like) i (?:already )?said|i told you|i said(?! (?:thanks|yes|ok|hello))",
    ),
    _cue(
        _REPETITION,
        Needs.TURN,
        0.75,
        r"(?:we|i|you|it)(?:'ve| have)? already (?:have|had|did|done|do|exist\w*|discussed|decided|agreed|talked)",
        r"i thought (?:we|you|i|it|this|that) (?:were|was|had|agreed|said|already|would|wanted|decided)",
        r"(?:didn'?t|haven'?t) (?:we|i) (?:already|just)",
        r"(?:do|did) i have to (?:tell|ask|say|repeat)|(?:as|like) we (?:discussed|agreed|decided)",
        r"(?:my|the) question (?:still stands|was)",
    ),
    _cue(_REPETITION, Needs.ANSWER, 0.75, r"i (?:suggested|asked|requested|specified|wanted|expected|hoped)"),
)

# Each of the phrases above holds one of these words: a text without any is not looked through for them.
TRIGGERS = frozenset(
    """
    not t no never nothing dont doesnt didnt isnt arent wasnt wont cant cannot couldnt shouldnt
    wrong incorrect false untrue nonsense garbage terrible horrible awful useless unhelpful broken inaccurate misleading
    mistaken backwards bad outdated obsolete hallucination wtf wth hell heck fuck made
    missed forgot forgotten ignored skipped misunderstood misread broke messed screwed overlooked overwrote invented
    hallucinated repeating hallucinating confused confusing missing ignoring listening answering making doing
    keep kept should removed deleted changed used put left got supposed still
    breaks crashes crashed fails failed fail failing hangs throws loops
    ridiculous stupid pointless sucks annoying frustrating unacceptable infuriating absurd outrageous disappointing stop too unlikely likely longer worked undo revert back alone
    intentional deliberate purpose intended sense different another alternative other again differently over properly
    instead time times said told asked gave mentioned explained already thought question tell say repeat ask
    discussed agreed decided suggested requested specified wanted expected hoped
    """.split()
)

# ---- other languages -------------------------------------------------------------------------------------------

# Text of plain letters without any of these is not looked through for Spanish, German and French.
MARKERS = frozenset(
    """
    eso esto esta es mal no me mi yo ya te asi incorrecto sigue todavia perdon quise queria deja en mejor otra otro prueba
    das dies ist war ich du mein falsch nein so stimmt nicht hab habe moment lieber nimm wie noch stattdessen nie funktioniert
    c ce est je tu vous pas faux non mon oups pardon ne n arrete autant au une un combien j la
    """.split()
)
# In the middle of a sentence such a phrase is weaker evidence.
MIDDLE = 0.10
_MEANINGS = {
    "self": (_SELF, Needs.NOTHING, 0.80),
    "wrong": (_REJECTION, Needs.NO_QUESTION, 0.85),
    "fails": (_REJECTION, Needs.TURN, 0.85),
    # In the middle of a message it is part of a request.
    "forbidden": (_REJECTION, Needs.NO_QUESTION, 0.75),
    "fact": (_FACTUAL, Needs.ANSWER, 0.75),
    "otherwise": (_ALTERNATIVE, Needs.NO_QUESTION, 0.70),
    "again": (_REPETITION, Needs.NO_QUESTION, 0.80),
}

_OTHERS: dict[str, dict[str, str]] = {
    "ru": {
        "self": r"я (?:ошиб(?:ся|лась)|оговорил(?:ся|ась)|имела? в виду)|моя ошибка|ой,|извини(?:те)?, я имел",
        "wrong": r"это (?:не то|неправильно|неверно|не так|неправда|ошибка)|(?:совсем )?не то"
        r"|неправильно|неверно|не так(?=[,.!]|$)|(?:ты|вы) (?:ошиб\w+|не прав\w*|забыл\w*|пропустил\w*|не понял\w*)"
        r"|прекрати(?:те)?|перестань(?:те)?|я (?:не это|не то|не об этом|этого не) \w+|нет, (?:я|это|не|так|ты|вы) ?\w+",
        "fails": r"не (?:работает|сработало|помогло)|(?:вс[её] ещ[её]|по-прежнему) (?:не \w+|ошибка|падает)",
        "forbidden": r"(?:больше )?не (?:делай|используй|надо|нужно|меняй|трогай)(?:те)?",
        "fact": r"на самом деле",
        "otherwise": r"вместо этого|лучше (?:используй|сделай|попробуй|возьми)(?:те)?|(?:давай(?:те)?|попробуй(?:те)?) "
        r"(?:по-другому|иначе|другой|другое|другую)|(?:другой|иной) (?:способ|подход|вариант|метод)",
        "again": r"я (?:уже|же) (?:говорил|сказал|писал|просил)а?|сколько раз",
    },
    "es": {
        "self": r"(?:me equivoqu[eé]|quise decir|quer[ií]a decir|mi error|perd[oó]n, quise|error m[ií]o)",
        "wrong": r"(?:eso|esto) (?:no (?:es|est[aá]) (?:correcto|cierto|verdad|as[ií]|bien|lo que \w+)|est[aá] mal"
        r"|es (?:incorrecto|falso))|est[aá] mal|no es (?:correcto|cierto|verdad|as[ií]|eso"
        r"|lo que)|(?:te equivocas|te has equivocado|te equivocaste|est[aá]s equivocado|se equivoca)|incorrecto|as[ií] no"
        r"|no, (?:eso|esto|no|yo|est[aá]|quiero|quer[ií]a|me refer[ií]a) ?\w*|yo no (?:dije|ped[ií]|quer[ií]a)",
        "fails": r"no (?:funciona|funcion[oó]|sirve|compila)|sigue (?:sin|igual|fallando|mal|dando)|todav[ií]a falla",
        "forbidden": r"no (?:hagas|uses|utilices|cambies|toques|a[nñ]adas|borres) \w+|deja de \w+",
        "fact": r"en realidad|de hecho, (?:no|es|el|la)",
        "otherwise": r"en (?:lugar|vez) de eso|mejor (?:usa|haz|prueba|utiliza)|(?:prueba|intenta|usa) (?:de otra|con otr[oa]"
        r"|otr[oa])|otr[oa] (?:enfoque|manera|forma|m[eé]todo|soluci[oó]n)",
        "again": r"ya (?:te )?(?:lo )?(?:dije|he dicho|ped[ií])|cu[aá]ntas veces",
    },
    "de": {
        "self": r"(?:ich habe mich (?:geirrt|vertan|vertippt|versprochen)|ich meinte|ich hab mich (?:geirrt|vertan|vertippt)"
        r"|mein fehler|ich lag falsch|entschuldigung, ich meinte|moment, ich meinte)",
        "wrong": r"(?:das|dies|es) (?:ist|war|stimmt) (?:so )?(?:falsch|nicht (?:richtig|korrekt|wahr|das,? was|was)"
        r"|verkehrt|quatsch|unsinn)|das stimmt (?:so )?nicht|stimmt nicht"
        r"|falsch|du (?:irrst dich|hast (?:\w+ ){0,3}(?:vergessen|übersehen|falsch|missverstanden))"
        r"|so nicht|nein, (?:das|ich|nicht|so|es|du|die|der) ?\w*"
        r"|das (?:meinte|wollte) ich nicht|ich (?:wollte|meinte) (?:das nicht|etwas anderes)",
        "fails": r"(?:funktioniert|geht|klappt|hilft) (?:so |immer noch )?nicht|immer noch (?:nicht|kein\w*|falsch|ein fehler)",
        "forbidden": r"hör auf|(?:benutze?|verwende?|mach|ändere?|nimm) (?:das |es )?(?:nicht|kein\w*)",
        "fact": r"(?:eigentlich|tatsächlich|in wirklichkeit),? (?:ist|war|sind|heißt|wohnt|liegt|das|es)",
        "otherwise": r"stattdessen|lieber (?:so|anders|mit|das|ein\w*|doch)|nimm (?:lieber|besser|stattdessen)|(?:versuch|probier|mach)\w* (?:es |das )?(?:anders"
        r"|mal anders|einen anderen|eine andere)|(?:anderer|anderen|andere|anderes) (?:ansatz|weg|methode|lösung|vorgehen)",
        "again": r"(?:ich habe|ich hab|hab ich|habe ich) (?:das |es )?(?:doch |schon |bereits ){1,2}gesagt|wie oft (?:noch|soll|muss)",
    },
    "fr": {
        "self": r"(?:je me suis trompée?|je voulais dire|mon erreur|au temps pour moi|autant pour moi|j'ai fait une (?:erreur|faute)"
        r"|oups|pardon, je voulais)",
        "wrong": r"(?:c'est|ce n'est|c'était|ce n'était|ça n'est) (?:pas (?:ça|correct|juste|vrai|bon|ce que|la|le|du tout)"
        r"|faux|incorrect|inexact|n'importe quoi|mauvais|inutile)|faux|tu (?:te trompes|as (?:oublié|raté|tort|mal compris))|vous (?:vous trompez|avez (?:oublié|tort))"
        r"|pas comme ça"
        r"|non, (?:ce|c'est|je|pas|tu|ça|le|la) ?\w*|je n'ai pas (?:dit|demandé)|je ne (?:veux|voulais) pas",
        "fails": r"(?:ça|cela) (?:ne )?(?:marche|fonctionne|va|compile) (?:toujours )?(?:pas|plus)|toujours pas",
        "forbidden": r"arrêtez? de|n'utilise[rz]? pas|ne (?:fais|faites|change|touche|modifie|supprime)\w* pas",
        "fact": r"en (?:fait|réalité),? (?:c'est|il|elle|le|la|les|on|nous|je|non)",
        "otherwise": r"(?:utilise|prends|fais|essaie|mets) plutôt|plutôt \w+|à la place|au lieu de ça|(?:essaie|essayez|fais) (?:autrement|une autre|un autre)"
        r"|une? autre (?:approche|façon|manière|méthode|solution)",
        "again": r"je (?:te |vous )?l'ai déjà dit|j'ai déjà (?:dit|demandé)|combien de fois",
    },
}
_UNSPACED_OTHERS: dict[str, dict[str, str]] = {
    "zh": {
        "self": r"我(?:说|讲|写|打|搞|弄)错了|我的(?:错|意思是)|我是说|口误",
        "wrong": r"(?:这|那|你)?(?:个|样)?(?:是)?(?:不对|错了|不正确|不是这样|不是我(?:要|想|说)的)|你(?:错了|搞错|弄错|理解错|忘了|漏了)|我没(?:有)?(?:说|要|让)"
        r"|不是?[,，]",
        "fails": r"(?:还是|仍然|依然)(?:不行|不对|没有|报错|错)|没有?用(?![过到])|不起作用|不管用",
        "forbidden": r"(?:不要|别)(?:再|用|使用|这样|改|动|做)",
        "fact": r"(?:其实|实际上|事实上)(?:是|不是|他|她|它|我|这|那)?",
        "otherwise": r"(?:换|用|试试)(?:一?个|一?种|别的|另)(?:方法|方式|办法|思路|方案|外|一)?|改(?:用|成)|而不是",
        "again": r"我(?:已经|刚才|刚刚|都)?说过|说了(?:多少|几|很多)[次遍]|第[二三四五]次",
    },
    "ja": {
        "self": r"(?:私|僕|俺)の(?:間違い|ミス|勘違い)|言い間違|書き間違|間違えました|勘違いしてい?ました|すみません、間違",
        "wrong": r"(?:それ|これ)?(?:は|が)?(?:違います|ちがいます|(?:違う|ちがう)(?=[。、！!？?\s]|$)|間違って(?:い|る)|間違いです|正しくな)"
        r"|(?:そう|それ)じゃ(?:ない|なくて|ありません)|そうではな|頼んで(?:い)?ない|言って(?:い)?ない|忘れて(?:い)?(?:る|ます)",
        "fails": r"(?:まだ|やっぱり|全然)(?:動か|でき|直って|だめ|ダメ|エラー)|動きません|動かない|うまくいきません|おかしい",
        "forbidden": r"(?:使わ|し|変え|触ら|消さ)ないで|やめて",
        "fact": r"(?:実は|実際は|実際には|本当は)",
        "otherwise": r"代わりに|かわりに|(?:別|他|ほか)の(?:方法|やり方|アプローチ|案|手段)|(?:じゃ|では)なくて",
        "again": r"(?:さっき|前に|もう|既に)も?(?:言|伝え|お願い|頼)(?:い|っ|え|ん)|何度も?言",
    },
}
# Only when nothing else is said.
NO_ALONE = r"(?:no|нет|nein|nee|non|不|不是|不对|不行|いいえ|いや|違う|ちがう)"


def _cues(languages: dict[str, dict[str, str]]) -> tuple[Cue, ...]:
    return tuple(
        _cue(*_MEANINGS[meaning], pattern)
        for phrases in languages.values()
        for meaning, pattern in phrases.items()
    )


SPACED = _cues(_OTHERS)
UNSPACED = _cues(_UNSPACED_OTHERS)
