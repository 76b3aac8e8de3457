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


# ---- English ---------------------------------------------------------------------------------------------------

_NOT = r"(?:not|n[o']t)"
_VERY = r"(?:(?:just|still|all|so|totally|completely|plain|simply|also|really|clearly|obviously|actually|quite) ){0,2}"
_THIS = r"(?:that|this|it)(?:'?s| is| was| isn'?t| wasn'?t| looks| seems| sounds)"
_BAD = (
    r"(?:wrong|incorrect|false|untrue|nonsense|garbage|terrible|horrible|awful|useless|unhelpful|broken|inaccurate"
    r"|misleading|mistaken|backwards|bad|not (?:right|correct|true|accurate|helpful|good|it|ok|okay|acceptable|working))"
)
_WORKS = r"(?:work|working|help|fix|solve|run|compile|build|match|show|appear|do (?:it|anything|what))"
_FAILS = (
    r"(?:do(?:es)?n'?t|do(?:es)? not|didn'?t|did not|won'?t|will not|isn'?t|is not|wasn'?t|can'?t|cannot)"
)

# Said of oneself, wherever it stands.
ENGLISH_SELF = (
    Cue(_SELF, Needs.NOTHING, 0.80, r"(?<!if )(?<!why )(?<!whether )(?<!where )i was (?:wrong|mistaken)"),
    Cue(
        _SELF,
        Needs.NOTHING,
        0.80,
        r"(?<!what )(?<!as )(?<!is )i (?:actually )?meant(?! (?:that|for) (?:as|to))",
    ),
    Cue(_SELF, Needs.NOTHING, 0.80, r"i (?:misspoke|mistyped|misread|misremembered)"),
    Cue(_SELF, Needs.NOTHING, 0.80, r"i made a (?:mistake|typo|error)"),
    Cue(_SELF, Needs.NOTHING, 0.80, r"let me (?:correct|rephrase)(?: (?:that|myself|it))?"),
    # Without a stop before it: what he is just saying.
    Cue(
        _SELF,
        Needs.NOTHING,
        0.80,
        r"(?<=\w )no,? (?:that(?:'s| is|s) (?:wrong|incorrect|not right|not what i)|sorry|wait|i mean|rather|make that)",
    ),
    Cue(_SELF, Needs.NOTHING, 0.80, r"(?:was|that's|totally|sorry,?|oops,?) my (?:mistake|bad|error|fault)"),
)
ENGLISH_SELF_START = (
    Cue(_SELF, Needs.NOTHING, 0.80, r"(?:oops|whoops)"),
    Cue(_SELF, Needs.NOTHING, 0.80, r"scratch that"),
    Cue(_SELF, Needs.NOTHING, 0.80, r"(?:oh )?wait,? (?:no|i mea?nt?)"),
    Cue(_SELF, Needs.NOTHING, 0.80, r"sorry,? (?:i mea?nt|my (?:mistake|bad|error))"),
    Cue(
        _SELF,
        Needs.NOTHING,
        0.80,
        r"my (?:mistake|bad|error|fault)(?=\W*$|[,.;:!]| i\b| it\b| that\b| the\b)",
    ),
    Cue(_SELF, Needs.NOTHING, 0.80, r"i (?:was wrong|stand corrected|made a mistake|misspoke)"),
)

# A neutral word behind "no" makes it an answer or a determiner; what is not listed there is one as well.
_NO = (
    r"(?:no|nope|nah)(?=[,.!;:…\u2014-]|\W*$| (?:no|not|i|you|we|it|that|this|they|he|she|its|it's|thats|that's|don'?t|do"
    r"|stop|use|just|please|wait|actually|instead|the|there|wrong|never|why|only|because|leave|keep|put|make|try|man|dude|bro)\b)"
    r"(?!,? (?:thanks|thank you|problem|worries|rush|need|idea|it'?s (?:fine|ok|okay|good)|that'?s (?:fine|ok|okay|all|it)"
    r"|that (?:will|would) be all|i'?m (?:good|fine)|i am (?:good|fine)|i (?:don'?t|do not) think so"
    r"|not (?:yet|really|now|at the moment))\b)"
)
ENGLISH_START = (
    Cue(_REJECTION, Needs.NO_QUESTION, 0.85, _NO),
    Cue(_REJECTION, Needs.NOTHING, 0.85, r"(?:wrong|incorrect)(?=\W|$)(?! (?:answers?|way to) (?:are|is))"),
    Cue(
        _REJECTION,
        Needs.NOTHING,
        0.85,
        r"(?:bad|terrible|useless|broken|horrible|awful|poor) (?:answer|response|output|result|idea|job)",
    ),
    Cue(
        _REJECTION,
        Needs.NO_QUESTION,
        0.80,
        r"(?:please )?(?:(?:don'?t|do not|never) (?!worry|forget|know|think|mind|care|hesitate|have|see|understand|remember"
        r"|really|get me wrong|tell|bother|like|want|believe|recall|feel|agree|ever)|(?:stop|quit) (?=\w+ing\b))\w+",
    ),
    Cue(
        _REJECTION,
        Needs.NO_QUESTION,
        0.80,
        r"(?:i|we) (?:don'?t|do not|didn'?t|did not|never) (?:want|ask|asked|need|say|said|mean|meant|tell|told"
        r"|like (?:it|this|that|how|your)"
        r"|request|requested|mention|mentioned|see (?:it|the|any|a|that|this))",
    ),
    Cue(_REJECTION, Needs.TURN, 0.75, r"why (?:did|would|are|have|do|didn'?t|don'?t|aren'?t|haven'?t) you"),
    Cue(_REJECTION, Needs.TURN, 0.75, r"how come\b.{0,60}(?:n't|nt|not|no)"),
    Cue(
        _REJECTION,
        Needs.TURN,
        0.75,
        r"still (?:no|not|wrong|broken|fail\w*|the same|doesn'?t|does not|isn'?t|getting|seeing|happen\w*|says|shows?"
        r"|see|get|have|has|there|nothing|missing|error\w*|0|red|crash\w*|hangs?|present|an?|too)",
    ),
    Cue(
        _REJECTION,
        Needs.TURN,
        0.75,
        r"(?:the )?(?:same|exact same) (?:error|problem|issue|result|thing|mistake|bug)",
    ),
    Cue(_REJECTION, Needs.TURN, 0.75, r"nothing (?:happens|happened|changed|changes|shows|works|appears)"),
    Cue(
        _REJECTION,
        Needs.ANSWER,
        0.75,
        r"not (?:good|right|correct|promising|helpful|working|great|quite|it|what|there)",
    ),
    Cue(_FACTUAL, Needs.ANSWER, 0.75, r"(?:but )?there(?:'?s| is| are| was| were)(?: no|n'?t| not)"),
    Cue(
        _FACTUAL,
        Needs.ANSWER,
        0.75,
        r"not (?!sure|yet|now|really|bad|necessarily|only|too|much|that i|at all|a problem|an issue|possible|today"
        r"|ready|interested|just|everyone|all)\w+",
    ),
    Cue(
        _FACTUAL,
        Needs.ANSWER,
        0.75,
        r"actually,? (?:no|not|it|its|it's|that|that's|this|there|there's|the|he|she|they|you|we|in|my|our|i (?:said|asked"
        r"|live|am|was|never|don'?t|didn'?t))",
    ),
    Cue(_ALTERNATIVE, Needs.ANSWER, 0.70, r"actually,? (?:use|make|put|do|change|try|keep|just)"),
    Cue(_ALTERNATIVE, Needs.NO_QUESTION, 0.70, r"instead(?! (?:of|can|could|may|might|would)\b)"),
    Cue(_ALTERNATIVE, Needs.NO_QUESTION, 0.70, r"(?:rather|instead) (?:than|of)"),
    Cue(_ALTERNATIVE, Needs.NO_QUESTION, 0.70, r"rather,?(?! (?:than|good|nice|well)\b)"),
    Cue(
        _ALTERNATIVE,
        Needs.ANSWER,
        0.72,
        r"(?:ok|okay|k|good|great|nice|fine|right|sure|yes|yeah|yep|thanks|better|almost|close)\b[^.!?\n]{0,20}\bbut"
        r"(?! (?:can|could|what|how|should|let'?s|also|do|is there|would|will|first|before|now|then|why|when|where)\b)",
    ),
    Cue(_REPETITION, Needs.NO_QUESTION, 0.75, r"again[,:](?= )"),
    Cue(
        _REJECTION,
        Needs.TURN,
        0.75,
        r"(?:are you (?:kidding|serious)|that can'?t be|come on|seriously|ugh|argh|ffs|dude)",
    ),
)

ENGLISH_ANYWHERE = (
    Cue(_REJECTION, Needs.NOTHING, 0.88, rf"{_THIS} {_VERY}(?:a |an |the )?{_BAD}(?! (?:with|about)\b)"),
    Cue(
        _REJECTION,
        Needs.NOTHING,
        0.88,
        r"not what (?:i|we)(?:'m| am|'ve)? (?:asked|asking|wanted|want|meant|mean|said|requested|need|needed|looking)",
    ),
    Cue(
        _REJECTION,
        Needs.NOTHING,
        0.85,
        r"(?:that|this|it)(?:'s| is)? (?:still )?(?:didn'?t|doesn'?t|won'?t|did not|does not|will not|isn'?t|not)"
        r" (?:work|working|help|compile|fix|solve|look right|do what)(?! for (?:me|us)\b)",
    ),
    Cue(_REJECTION, Needs.TURN, 0.80, rf"(?:that|this|the|your) \w+ {_FAILS} {_WORKS}"),
    Cue(_REJECTION, Needs.TURN, 0.75, r"that'?s not (?:the|how|why|where|a|an|my|our|in|on)"),
    Cue(
        _REJECTION,
        Needs.NOTHING,
        0.82,
        r"you(?:'?ve| have)? (?:just )?(?:missed|forgot|forgotten|ignored|skipped|misunderstood|misread|broke|messed|screwed"
        r"|overlooked|overwrote|invented|hallucinated)",
    ),
    Cue(
        _REJECTION,
        Needs.NOTHING,
        0.82,
        r"you(?:'?re| are) (?:still |just |not |always )?(?:wrong|mistaken|incorrect|repeating|hallucinating|confus\w+"
        r"|missing|ignoring|listening|answering|making (?:it|that|this|things) up|doing (?:it|that|this) (?:wrong|again))",
    ),
    Cue(
        _REJECTION,
        Needs.TURN,
        0.78,
        r"you (?:didn'?t|did not|haven'?t|have not|never|keep|kept|shouldn'?t have|should not have|should have|were supposed"
        r"|weren'?t supposed|don'?t (?:need|have) to|do not (?:need|have) to|got (?:it|that|this) wrong|made (?:it|that) up"
        r"|removed|deleted|changed the wrong|put it|left out)",
    ),
    Cue(_REJECTION, Needs.NOTHING, 0.85, r"(?:wtf|wth|what the (?:hell|heck|fuck))"),
    Cue(
        _REJECTION,
        Needs.TURN,
        0.75,
        r"(?<!-)(?:garbage|ridiculous|nonsense|stupid|pointless|sucks|annoying|frustrating)",
    ),
    Cue(
        _REJECTION,
        Needs.TURN,
        0.75,
        r"(?:is|are|'s|seems?|looks?|feels?|was) (?:way |far |a bit |a little |much |still )?too \w+",
    ),
    Cue(_REJECTION, Needs.TURN, 0.75, r"(?:un|not )likely to (?:work|help|be)"),
    Cue(
        _REJECTION,
        Needs.TURN,
        0.75,
        r"(?:but|and|it|now)\b[^.!?\n]{0,40} (?:doesn'?t|don'?t|didn'?t|isn'?t|aren'?t|won'?t) (?:work|show|match|appear|come|compile|run|load|update|happen)",
    ),
    Cue(
        _REJECTION,
        Needs.TURN,
        0.75,
        r"(?:undo|revert) (?:that|this|it|your)|(?:put|change|move) (?:it|that|this|them) back",
    ),
    Cue(
        _FACTUAL,
        Needs.TURN,
        0.75,
        r"(?:was|is|were|are) (?:intentional|deliberate|on purpose|intended|supposed to be)",
    ),
    Cue(_FACTUAL, Needs.TURN, 0.80, r"(?:it|that|this) should(?:'?ve| have) been|should not have been"),
    Cue(_ALTERNATIVE, Needs.NOTHING, 0.72, r"not that(?: one)?,? (?:try|use|the)"),
    Cue(
        _ALTERNATIVE,
        Needs.NO_QUESTION,
        0.70,
        r"(?:try|use|do|find|want|need|take|think of) (?:it )?(?:a |an )?(?:different|another|alternative|other) (?:approach|way|method|solution|one)",
    ),
    Cue(
        _ALTERNATIVE,
        Needs.NO_QUESTION,
        0.70,
        r"can you (?:try|do|redo) (?:it|this|that) (?:differently|another way|again|over|properly)",
    ),
    Cue(
        _REPETITION,
        Needs.NOTHING,
        0.82,
        r"(?:this is|for) the (?:second|third|fourth|fifth|sixth|tenth|hundredth|\d+(?:nd|rd|th)) time",
    ),
    Cue(
        _REPETITION,
        Needs.NO_QUESTION,
        0.80,
        r"(?:how many times|i (?:already|just) (?:said|told|asked|gave|mentioned|explained)|(?:as|like) i (?:already )?said|i told you|i said)",
    ),
    Cue(
        _REJECTION,
        Needs.TURN,
        0.75,
        r"(?:it|this|that|these|those|they) (?:still |also |really )?(?:doesn'?t|does not|don'?t|isn'?t|is not|aren'?t|are not|didn'?t|did not|won'?t) (?!(?:really |actually )?(?:matter|hurt|bother|need|have to|mean|sure|too|bad|make (?:any )?sense|work for)\b)\w+",
    ),
    Cue(
        _REJECTION,
        Needs.TURN,
        0.75,
        r"(?:is|are|it's|'s|does|do|get|getting|see|seeing|has|have|says|shows) still(?! (?:open|possible|ok|okay|fine|good)\b)",
    ),
    Cue(
        _REJECTION,
        Needs.TURN,
        0.75,
        r"i (?:did not|didn'?t|do not|don'?t|could not|couldn'?t|can'?t|cannot) (?:see|find|get)(?! (?:why|how|what|it)\b)"
        r"|i (?:just |also )?(?:ran|tried|tested|restarted|opened|clicked|checked|looked|get|got)\b[^.!?\n]{0,60}(?:n't| not| no| nothing| still| fail\w*)",
    ),
    Cue(
        _REJECTION,
        Needs.TURN,
        0.75,
        r"(?:no longer (?:work|run|compile|show)\w*|used to work|worked before|can'?t (?:find|see|open|run) (?:it|the|any|this|that))",
    ),
    Cue(_REJECTION, Needs.TURN, 0.75, r"(?<!never )the wrong \w+"),
    Cue(_REJECTION, Needs.ANSWER, 0.75, r"(?:we|i) (?:don'?t|do not) (?:want|need|use|do)"),
    Cue(_REJECTION, Needs.TURN, 0.75, r"(?<!you )should(?:n'?t| not) (?:be|have|need|do|use|show|go|change)"),
    Cue(_REJECTION, Needs.TURN, 0.75, r"not (?:worth|useful|needed|necessary|helpful)"),
    Cue(
        _REPETITION,
        Needs.TURN,
        0.75,
        r"(?:we|i|you|it)(?:'ve| have)? already (?:have|had|did|done|do|exist\w*|discussed|decided|agreed|talked)",
    ),
    Cue(
        _REPETITION,
        Needs.TURN,
        0.75,
        r"(?:i thought (?:we|you|i|it|this|that)|(?:do|did) i have to (?:tell|ask|say|repeat)|(?:as|like) we (?:discussed|agreed|decided))",
    ),
    Cue(
        _FACTUAL,
        Needs.ANSWER,
        0.72,
        r"(?<=, )not (?!sure|only|just|yet|necessarily|a problem|an issue|because|if|that|sure|really|too)\w+",
    ),
    Cue(_REPETITION, Needs.ANSWER, 0.75, r"i (?:suggested|asked|requested|specified|wanted|expected|hoped)"),
    Cue(_REPETITION, Needs.TURN, 0.75, r"(?:my|the) question (?:still stands|was)"),
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
    # In the middle of a message it is part of a request.
    "forbidden": (_REJECTION, Needs.NO_QUESTION, 0.75),
    "fact": (_FACTUAL, Needs.ANSWER, 0.75),
    "otherwise": (_ALTERNATIVE, Needs.NO_QUESTION, 0.70),
    "again": (_REPETITION, Needs.NO_QUESTION, 0.80),
}

_OTHERS: dict[str, dict[str, str]] = {
    "ru": {
        "self": r"я (?:ошиб(?:ся|лась)|оговорил(?:ся|ась)|имела? в виду)|моя ошибка|ой,|извини(?:те)?, я имел",
        "wrong": r"это (?:не то|неправильно|неверно|не так|неправда|ошибка|не работает|не помогло)|(?:совсем )?не то"
        r"|неправильно|неверно|не так(?=[,.!]|$)|(?:ты|вы) (?:ошиб\w+|не прав\w*|забыл\w*|пропустил\w*|не понял\w*)|не работает"
        r"|не сработало|(?:вс[её] ещ[её]|по-прежнему) не \w+|прекрати(?:те)?"
        r"|перестань(?:те)?|я (?:не это|не то|не об этом|этого не) \w+|нет, (?:я|это|не|так|ты|вы) ?\w+",
        "forbidden": r"(?:больше )?не (?:делай|используй|надо|нужно|меняй|трогай)(?:те)?",
        "fact": r"на самом деле",
        "otherwise": r"вместо этого|лучше (?:используй|сделай|попробуй|возьми)(?:те)?|(?:давай(?:те)?|попробуй(?:те)?) "
        r"(?:по-другому|иначе|другой|другое|другую)|(?:другой|иной) (?:способ|подход|вариант|метод)",
        "again": r"я (?:уже|же) (?:говорил|сказал|писал|просил)а?|сколько раз",
    },
    "es": {
        "self": r"(?:me equivoqu[eé]|quise decir|quer[ií]a decir|mi error|perd[oó]n, quise|error m[ií]o)",
        "wrong": r"(?:eso|esto) (?:no (?:es|est[aá]) (?:correcto|cierto|verdad|as[ií]|bien|lo que \w+)|est[aá] mal"
        r"|es (?:incorrecto|falso)|no (?:funciona|funcion[oó]|sirve))|est[aá] mal|no es (?:correcto|cierto|verdad|as[ií]|eso"
        r"|lo que)|(?:te equivocas|te has equivocado|te equivocaste|est[aá]s equivocado|se equivoca)|incorrecto|as[ií] no"
        r"|(?:todav[ií]a|sigue|a[uú]n) (?:no|sin) \w+"
        r"|no, (?:eso|esto|no|yo|est[aá]|quiero|quer[ií]a|me refer[ií]a) ?\w*|yo no (?:dije|ped[ií]|quer[ií]a)",
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
        r"|verkehrt|quatsch|unsinn)|das stimmt (?:so )?nicht|stimmt nicht|(?:das )?(?:funktioniert|geht|klappt|hilft) (?:so |immer noch )?nicht"
        r"|falsch|du (?:irrst dich|hast (?:\w+ ){0,3}(?:vergessen|übersehen|falsch|missverstanden))|(?:immer )?noch (?:nicht|kein\w*|falsch)"
        r"|so nicht|nein, (?:das|ich|nicht|so|es|du|die|der) ?\w*"
        r"|das (?:meinte|wollte|habe) ich nicht|ich (?:wollte|meinte|habe) (?:das |etwas )?(?:nicht|anderes)",
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
        r"|faux|incorrect|inexact|n'importe quoi|mauvais|inutile)|(?:ça|cela) ne (?:marche|fonctionne|va|sert|compile) (?:toujours )?(?:pas|plus)"
        r"|ça (?:marche|fonctionne) (?:toujours )?pas|faux|tu (?:te trompes|as (?:oublié|raté|tort|mal compris))|vous (?:vous trompez|avez (?:oublié|tort))"
        r"|pas comme ça|toujours pas"
        r"|non, (?:ce|c'est|je|pas|tu|ça|le|la) ?\w*|je n'ai pas (?:dit|demandé)|je ne (?:veux|voulais) pas",
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
        "wrong": r"(?:这|那|你)?(?:个|样)?(?:是)?(?:不对|错了|不正确|不是这样|不是我(?:要|想|说)的)|你(?:错了|搞错|弄错|理解错|忘了|漏了|没有)"
        r"|(?:还是|仍然|依然)(?:不行|不对|没有|报错|错)|没有?用|不起作用|不管用|我没(?:有)?(?:说|要|让)"
        r"|不是?[,，]",
        "forbidden": r"(?:不要|别)(?:再|用|使用|这样|改|动|做)",
        "fact": r"(?:其实|实际上|事实上)(?:是|不是|他|她|它|我|这|那)?",
        "otherwise": r"(?:换|用|试试)(?:一?个|一?种|别的|另)(?:方法|方式|办法|思路|方案|外|一)?|改(?:用|成)|而不是",
        "again": r"我(?:已经|刚才|刚刚|都)?说过|说了(?:多少|几|很多)[次遍]|第[二三四五]次",
    },
    "ja": {
        "self": r"(?:私|僕|俺)の(?:間違い|ミス|勘違い)|言い間違|書き間違|間違えました|勘違いしてい?ました|すみません、間違",
        "wrong": r"(?:それ|これ)?(?:は|が)?(?:違います|ちがいます|(?:違う|ちがう)(?=[。、！!？?\s]|$)|間違って(?:い|る)|間違いです|正しくな|おかしい)"
        r"|(?:そう|それ)じゃ(?:ない|なくて|ありません)|そうではな|(?:まだ|やっぱり|全然)(?:動か|でき|直って|だめ|ダメ|エラー)|動きません|動かない"
        r"|うまくいきません|頼んで(?:い)?ない|言って(?:い)?ない|忘れて(?:い)?(?:る|ます)",
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
        Cue(*_MEANINGS[meaning], rf"(?:{pattern})")
        for phrases in languages.values()
        for meaning, pattern in phrases.items()
    )


START = ENGLISH_START
ANYWHERE = ENGLISH_ANYWHERE
SELF = ENGLISH_SELF
SELF_START = ENGLISH_SELF_START
SPACED = _cues(_OTHERS)
UNSPACED = _cues(_UNSPACED_OTHERS)
