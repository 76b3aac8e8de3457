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


def _any_of(*patterns: str) -> str:
    return f"(?:{'|'.join(patterns)})"


def _cue(kind: CorrectionKind, needs: Needs, confidence: float, *patterns: str) -> Cue:
    return Cue(kind, needs, confidence, _any_of(*patterns))


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
_THAT = r"(?:that|this|it|they|these|those)"
# Such as "the last two rows ".
_THING = (
    r"(?:the|my|our|your|this|that|these|those|all|both|some|half)(?: of)?"
    r"(?: (?!(?:says?|said|thinks?|claims?|tells?|told|wants?|i|we|you|who|which)\b)[\w.'/-]+){1,3} "
)
_NOW = r"(?:(?:now|still|all|just|also|completely|totally|suddenly|always|immediately) ){0,2}"
_QUITE = (
    r"(?:(?:still|just|a bit|a little|way|kind of|sort of|really|so|very|pretty|quite|totally|completely|rather|somewhat) )"
    r"{0,2}"
)
_POLITE = r"(?:please |just |now |also |(?:can|could) (?:you|we) (?:please )?|you can |let'?s ){0,2}"
_CANNOT = r"(?:can'?t|cannot|can not|couldn'?t|could not)"
_VERB = (
    r"(?:work|help|compile|run|load|build|pass|fix|solve|match|show|appear|exist|render|update|happen|come|look|do|have"
    r"|return|include|contain|handle|seem|get|support|use|parse|print|fit|find|open|save|change|start|stop|add|answer)"
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
        r"i (?:take (?:that|it) back|mixed (?:up|those|them|these)|got (?:that|it|this) wrong|had (?:that|it) wrong"
        r"|(?:gave you|pasted|sent|posted|typed) the wrong)",
    ),
)
SELF_START = (
    _cue(
        _SELF,
        Needs.NOTHING,
        0.80,
        r"(?:oops|whoops)(?!\W+(?:you|that|it|this|the)\b)",
        r"(?:scratch|strike) that|correction(?=:)",
        r"(?:please )?(?:ignore|disregard) (?:that last|my (?:last|previous)|what i (?:just )?(?:said|wrote))",
        r"(?:oh )?wait,? (?:no(?=[,.!]|\W*$| (?:i|it|that|on|make|not)\b)|i mea?nt?)",
        r"sorry,? (?:i mea?nt|my (?:mistake|bad|error))",
        r"my (?:mistake|bad|error|fault)(?=\W*$|[,.;:!]| (?:i|it|that|the)\b)",
    ),
)

# The same for what one says of oneself.
SELF_TRIGGERS = frozenset(
    """
    wrong mistaken meant misspoke mistyped misread misremembered corrected mistake typo error rephrase correct myself bad
    fault no back mixed
    """.split()
)

# What follows a "no" decides: some words make it an answer, and before a noun it only says how many.
_NO = (
    r"(?:no|nope|nah)(?=[,.!;:…\u2014-]|\W*$| (?:no|not|i|you|we|it|that|this|they|he|she|its|it's|thats|that's|don'?t|do"
    r"|stop|use|just|please|wait|actually|instead|the|there|wrong|never|why|only|because|leave|keep|put|make|try|man"
    r"|dude|bro)\b)"
    r"(?!,? (?:thanks|thank you|problem|worries|rush|need|idea|it'?s (?:fine|ok|okay|good)|that'?s (?:fine|ok|okay|all|it)"
    r"|that (?:will|would) be all|go ahead|all good|please do|carry on|continue|nothing|sounds good|gracias|merci|danke"
    r"|i'?m (?:good|fine)"
    r"|i am (?:good|fine)|i (?:don'?t|do not) think so|not (?:yet|really|now|at the moment))\b)"
)
START = (
    _cue(_REJECTION, Needs.NO_QUESTION, 0.85, _NO),
    _cue(
        _REJECTION,
        Needs.NOTHING,
        0.85,
        r"(?:wrong|incorrect|false|untrue|not true)(?=\s*[.,!:;]|\W*$| \w+(?:[,.!:;]|\W*$))",
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
        r"(?:rather|instead) (?:than|of)(?! \w+ing\b[^.!?\n]*\bi\b)",
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
    # Below, what opens a message: orders, reports and objections that mean what was just delivered.
    _cue(
        _REJECTION,
        Needs.NO_QUESTION,
        0.85,
        r"(?:absolutely|definitely|certainly|of course|hell|heck) (?:not|no)",
    ),
    _cue(
        _REJECTION,
        Needs.TURN,
        0.78,
        rf"{_POLITE}(?:undo|revert|roll ?back|roll (?:it|that|this|them|everything) back|restore|back out)(?= (?:that|this"
        r"|it|these|those|them|all|everything|your|the (?:last|previous|old|original|changes?|edits?|files?|rest)|what you"
        r"|to the)\b|\W*$)",
        r"stop(?=\W*$|[,!] | (?:it|that|this|there|here|now|please)\b)",
        r"(?:can|could|will|would) you (?:please )?(?:not|stop|at least)",
        r"(?:are|do|did|have|can) you (?:even|not)",
        r"what (?:happened to (?:my|our|the)|have you done|are you doing)",
        r"where did (?:my|our|all|everything)",
        r"(?:who (?:told|asked) you|says who|since when|no ?(?:body|one) (?:asked|wanted|said|told))",
        r"(?:wait|hold on|hang on|whoa|hey),? (?:why|you|that'?s (?:not|wrong)|that is not|(?:this|that|it) isn'?t"
        r"|it'?s not|i (?:said|asked|thought|didn'?t|don'?t|never)|what did|where did)",
    ),
    _cue(
        _REJECTION,
        Needs.TURN,
        0.75,
        r"no (?:luck|dice|joy|change|difference|effect|output|results?|response|improvement|success|way)",
        r"(?:ugh+|argh+|sigh|yikes|jeez|bruh|oh (?:god|man|dear|come on))",
        rf"(?:it |this |that |{_THING})(?:does|did|do) nothing",
        rf"(?:now )?(?:(?:{_THING}|they |everything |tests? |builds? |ci )(?:is|are|was|were|got|went|looks?|seems?|comes? out|ends? up)"
        rf"|it'?s|it is|it got) {_NOW}(?:gone|blank|empty|broken|missing|red|failing|crashing|hanging|stuck|cut off|truncated"
        r"|garbled|duplicated|reversed|inverted|swapped|upside down|unreadable|invisible|lost|misaligned|slower|worse|undefined"
        r"|null|deleted|dead)",
        rf"(?:{_THING}|it |they |everything |tests? |builds? |ci ){_NOW}(?:fails?|failed|crash(?:e[sd])?|hangs?|breaks|broke"
        r"|errors? out|times? out|timed out|freezes|froze|disappear(?:s|ed)?|vanish(?:es|ed)|throws?|dies|died|overlaps?"
        r"|flickers?|leaks?|deadlocks?|lags?|swallows?|truncates?|duplicates?|overflows?)(?! (?:if|unless)\b)",
        rf"{_THING}(?:{_DOES_NOT}|{_IS_NOT}|{_CANNOT}|has(?:n'?t| not)|have(?:n'?t| not)) (?:\w+ )?{_VERB}(?:ing)?",
        r"(?:it|that|this|the (?:app|page|build|tests?|server|script|program|site|screen|command)) keeps? \w+ing",
        r"(?:now )?(?:i|we)(?:'m| am|'re| are)? (?:now |still |just |only |keep )?(?:get|got|getting|see|seeing|hit) [^.!?\n]{0,40}?"
        r"\b(?:errors?|exceptions?|warnings?|fail\w*|traceback|crash\w*|blank|empty|null|undefined|[45]\d\d|nothing)",
        r"why (?:is|are|does|do|was|were|has|have|did|would) (?:it|this|that|there|the|my|our|your|everything|nothing|all)"
        r"\b[^?.!\n]{0,40}\b(?:still|again|twice|wrong|broken|missing|empty|gone|blank|suddenly)",
        r"again (?:the|no|not|wrong|it|you|this|with|an?)",
        r"where(?:'s| is| are) (?:the (?:rest|other|missing|second|last)|everything)",
        rf"{_POLITE}(?:put|bring|change|move|get|add|take) (?:[\w'-]+ ){{1,4}}back",
        r"still waiting",
    ),
    _cue(
        _REJECTION,
        Needs.ANSWER,
        0.72,
        r"not (?:really|quite|exactly|even)",
        r"(?:that'?s )?enough(?=\W*$|[,.!])|(?:cut|knock) it (?:out|off)|start (?:over|from scratch)",
        r"(?:forget|scrap|discard) (?:that|this|your)",
        r"you(?:'ve| have)? (?:only |just |even |also |accidentally |somehow |now |apparently )?(?:(?!(?:mentioned|suggested"
        r"|described|explained|recommended|asked|showed|listed|provided|need|helped|saved|nailed|deserved|proposed|answered"
        r"|offered|solved|fixed|seemed|succeed)\b)\w+ed|put|ran|did|made|used|left|lost|misspelt|cut|took|got|went|broke|hid)"
        r"(?! (?:well|great|good|fine|a (?:good|great|nice)|it|me|my (?:day|life)|your best)\b)(?![^.!\n]*\?)",
        r"i (?:don'?t|do not) think (?:that|this|it|you|we)",
        r"(?:your|the) (?:(?:last|latest|previous|new) )?(?:edits?|changes?|commit|fix|patch|version|refactoring|update|migration"
        r"|code|script|query|regex) (?:you \w+ )?(?:removed|removes|drops|dropped|deletes|deleted|breaks|broke|ignores|ignored"
        r"|misses|missed|overwrites|overwrote|exits)",
        r"you(?:'re| are) (?!welcome|doing|going|being|coming|asking|kidding|joking)\w+ing",
        r"you (?:always|still|again|only|accidentally) \w+",
        rf"{_THAT}(?:'?s| is| are|'re| was| looks?| feels?| seems?| reads?| sounds?) {_QUITE}(?:incomplete|inconsistent|unreadable"
        r"|overkill|over-?engineered|unnecessary|redundant|irrelevant|unrelated|ugly|messy|sloppy|lazy|confusing|unclear"
        r"|reversed|inverted|swapped|off|missing|empty|blank|verbose|wordy|boring|generic|cheesy|vague|slow|repetitive"
        r"|excessive|cluttered|weird|upside down|dangerous|insecure|hideous|childish|unusable|hacky|arbitrary|a mess"
        r"|not enough|duplicated?|invalid|impossible|crap|rubbish|trash)",
        r"(?:it'?s|it is|that'?s|this is|they'?re|there'?s|now it'?s)\b[^.!?\n]{1,40} again(?=\W*$)",
        r"(?:that|this|it)(?:'s| is) an? (?:[\w-]+ ){0,2}(?:hole|bug|problem|mistake|risk|regression|typo|hack|lie|no-go)",
        r"(?:this|that|it|the \w+) reads like",
        r"(?:remove|delete|drop|take out|get rid of|ditch) (?:that|this|those|these|all (?:of )?(?:that|those|these|the)"
        r"|the \w+ you|your)",
    ),
    _cue(
        _FACTUAL,
        Needs.ANSWER,
        0.72,
        r"(?:should|is|was|are)n'?t (?:it|that|this|there|the|they|these)",
        r"the (?:correct|right|actual|real|proper|true) (?:[\w'-]+ ){1,3}(?:is|are|was|were|would be|should)",
        rf"(?:(?:{_THAT}|he|she|you)(?:'?s|'re| is| are| was| were)|{_THING}(?:is|are|was|were)) (?:not )?(?:actually|called|named|spell?ed|spelt"
        r"|pronounced|supposed to|meant to)",
        rf"{_THAT}(?:'?s| is| was| were| are) (?:only|the (?:old|same|other|opposite|previous|reverse)|an? (?:different|old|other"
        r"|typo|mistake))(?= )",
        r"(?:we|(?:this|the|our) (?:project|repo|repository|codebase|app|team|company|file))(?:'re| are| is)? (?:use|uses"
        r"|using|only (?:supports?|uses?|has|have))(?= )(?![^.!\n]*\?)",
        r"i(?:'m| am) (?:not (?:on|using|asking|talking)|asking (?:about|for)"
        r"|talking about|referring to)(?= )",
        r"there(?:'s| is| are| was| were) (?:only|still|already|nothing|too)",
        r"(?:this|it)(?:'s| is) an? [\w.+#-]+ (?:project|repo|app|codebase)",
        r"i mean (?:the|an?|not|in|from|your|my) \w+",
        r"but (?:it|that|this|the|you|there|we|why|what i|not|still|now|i (?:said|asked|want|need|don'?t|didn'?t|thought))"
        r"(?!'?s (?:ok|okay|fine)| (?:is|works) (?:ok|okay|fine))",
    ),
    _cue(
        _ALTERNATIVE,
        Needs.ANSWER,
        0.72,
        rf"{_POLITE}(?:use|do|try|go|take|call|write|pick|choose|switch|stick|set|return|store|name|say|show|put)\b"
        r"[^.!?,\n]{1,40}?\b(?:instead|rather than)",
        # Without such an object it is a taste that somebody tells of.
        r"i(?:'d| would) (?:rather|prefer) (?:you|it|that|this|if|not|have|to (?:have|keep|use)|plain)",
        r"let'?s (?:not|go back|keep|revert|undo|try (?:another|a different|something))",
        r"(?:why not|why (?:don'?t|can'?t) (?:we|you|it)) \w+",
        r"(?:try|think|look|check|start|count|read (?:it|that|this|(?:the|my) \w+)|do (?:it|this|that)|do) (?:again|over|harder"
        r"|better|properly|right|carefully|differently|once more|more carefully)",
        r"(?:put|bring|give|keep|restore|leave|go|change|switch|use) (?:me )?(?:back )?(?:to )?the (?:old|original|previous|first"
        r"|earlier|existing|other)",
        r"(?:can|could) (?:it|this|that|they|we|you) [^.!?\n]{1,50}\b(?:instead|rather than)",
        r"(?:do )?(?:the )?same (?:thing )?but",
        rf"{_POLITE}(?:stick (?:to|with)|limit yourself to|let'?s do (?:it|this|that) (?:in|with|without|as))",
        r"keep (?:it|this|that|them|your \w+) (?:to|short|simple|under|below|brief|minimal|plain|clean|as|in|the same)",
        r"(?:maybe )?(?:an?|the|one|two|something|it|that|this|simply|just)\b[^.!?\n]{0,50} (?:would|might|could) be (?:better|nicer"
        r"|clearer|cleaner|simpler|easier|safer|enough)",
        r"(?:one|two|an?|half) (?:[\w-]+ ){1,3}(?:is|are|will be) (?:enough|sufficient|plenty)",
        r"i(?:'d| would) like (?:it|this|that|them) (?:in|as|with|without|to be)|i(?: was|'?d| had)(?: been)? (?:hoping|hoped|expecting|thinking of|had in mind)",
        r"(?:the|an?) (?:other|different|opposite) (?:way|one|file|folder|function|direction|side|branch|approach)",
        r"(?:try|use|pick|choose|take|find) (?:an?other|a different|some other|something else)",
        r"(?:use|call|name|say|write) [^.!?,\n]{1,30} not (?!only|just|yet)\w+",
        r"(?:give|show|find) me (?:an?other|a different|something else|an alternative)",
        r"i (?:want|need|expect)(?:ed)? (?:(?:it|this|that|them) (?:to|in|as|with|without|back|like)|a different|another"
        r"|the (?:old|other|original))",
        r"i (?:wanted|expected) (?:an?|the|only|just)",
        rf"{_THAT} should(?:'ve| have)? (?:be|been|have|say|return|show|look|use|go|read|come|start|end"
        r"|contain|include|match|stay|only|also|actually|remain|print|point|not|never|still|live|sit)",
    ),
    _cue(
        _ALTERNATIVE,
        Needs.ANSWER,
        0.70,
        r"(?:just|only|simply) (?:give|answer|show|say|tell|print|return|the|one|that|those|text|code|plain)",
        r"(?:(?:a (?:bit|little)|slightly|much|even|way|far) )?(?:shorter|longer|simpler|smaller|bigger|larger|slower|faster"
        r"|darker|lighter|brighter|softer|thinner|thicker|wider|narrower|tighter|higher|lower|cleaner|less \w+|fewer \w+"
        r"|not (?:so|as) \w+|more (?:formal|casual|concise|compact|readable|precise|specific))(?: \w+)?"
        r"(?= (?:please|and|but|then|too|now)\b|\W*$|[,.!])",
        rf"{_POLITE}(?:put|call|move) (?:it|that|this|them) (?!up|public|again|through|a day"
        r"|on (?:github|the list))\w+",
        rf"{_POLITE}rewrite (?:it|that|this) (?:without|so|again|to be|more|less|shorter|properly)",
        rf"{_POLITE}(?:redo|rephrase|reword|shorten|simplify|flip|invert|reverse) (?:it|that|this|them|these|those)",
        r"(?:it(?:'s| is|'d be| would be) |would be )?(?:better|nicer|cleaner|easier|simpler|safer|clearer) (?:to|if|as|with"
        r"|without|like|in)",
        r"(?:more|something) like (?!that)",
    ),
    _cue(
        _REPETITION,
        Needs.ANSWER,
        0.75,
        r"as (?:already )?(?:mentioned|requested|discussed|agreed)|(?:once|yet) again|for the (?:last|final) time|(?:as|like) (?:i|we) (?:told|mentioned|wrote|explained|asked|requested"
        r"|specified|described|noted|stated)|per my",
        r"i(?:'ve| have)? (?:already |just |repeatedly |clearly |specifically |explicitly )*(?:told|asked) (?:you|for)",
        r"i (?:specifically|explicitly|clearly) \w+|i keep (?:telling|asking|saying|having to|repeating)",
        r"we (?:agreed|discussed|decided|said|talked about)|didn'?t (?:we|i) \w+|not again|how often",
        r"answer (?:my|the) question|read (?:what i|my (?:question|message))",
    ),
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
        r"you (?:didn'?t|did not|haven'?t|have not|never(?! (?:know|mind|told me))|keep|kept|shouldn'?t have|should not have|should have"
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
        r"(?:matches|takes|uses|shows|returns|has|have|prints|adds|creates|makes|asks|loads|runs) (?:way |far )?too (?:much|many"
        r"|few|little|long|often)",
        r"(?:but|and|it|now)\b[^.!?\n]{0,40} (?:doesn'?t|don'?t|didn'?t|isn'?t|aren'?t|won'?t) "
        r"(?:work|show|match|appear|come|compile|run|load|update|happen)",
        rf"(?:it|this|that|these|those|they) (?:still |also |really )?(?:{_DOES_NOT}|{_IS_NOT}) {_VERB}(?! for\b)(?:ing)?",
        r"(?:is|are|it's|'s|does|do|get|getting|see|seeing|has|have) still(?! (?:open|possible|ok|okay|fine|good)\b)",
        r"i (?:just |also )?(?:ran|tried|tested|restarted|opened|clicked|checked|looked|get|got)\b[^.!?\n]{0,60}"
        r"(?:n't| not| no| nothing| still| fail\w*| (?:dies|died|crash\w*|hangs|exceptions?|traceback|errors?|breaks|broke))",
        r"i (?:did not|didn'?t|do not|don'?t|could not|couldn'?t|can'?t|cannot) (?:see|find|get)"
        r"(?! (?:why|how|what|it)\b)",
        rf"(?:no longer (?:work|run|compile|show|load|open|start|pass|build|appear|exist|render|connect)\w*|used to work|worked before|{_CANNOT} (?:find|see|open|run) (?:it|the|any))",
        r"(?<!what )(?<!which )(?:in|to|at|has|used|uses|is|with|got|from|into|of) the wrong \w+",
        r"(?<!you )should(?:n'?t| not) (?:be|have|need|do|use|show|go|change)",
        r"(?:undo|revert) (?:that|this|it|your changes)(?=\W*$|[,.!;]| please\W*$)",
        r"(?:put|change|move) (?:it|that|this|them) back|go back to the (?:previous|old|original|last)",
        r"leave [^.!?\n]{1,30} alone",
    ),
    _cue(
        _FACTUAL,
        Needs.ANSWER,
        0.72,
        r"(?<=\w )(?<!\bi )(?<!\bwe )(?<!\bthey )do(?:es)?(?:n'?t| not) (?:have (?:an?|any|such)|support|exist|accept|allow|return|contain"
        r"|compile|provide|expose|handle|implement)",
    ),
    _cue(_REJECTION, Needs.ANSWER, 0.75, r"(?:we|i) (?:don'?t|do not) (?:want|use|do|need(?! (?:any|more)))"),
    _cue(_REJECTION, Needs.TURN, 0.75, r"not (?:worth|useful|needed|necessary|helpful)"),
    # Of small talk as often as of an answer.
    _cue(_REJECTION, Needs.TURN, 0.60, r"(?:makes? no|(?:doesn'?t|does not) make (?:any )?) ?sense"),
    _cue(
        _REJECTION,
        Needs.TURN,
        0.72,
        r"(?<!what )(?<!something )(?<!anything )(?:is|are|'s) (?:still |now |also )?missing(?![^.!\n]*\?)",
    ),
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
    _cue(
        _REPETITION,
        Needs.ANSWER,
        0.75,
        r"(?<!exactly what )(?<!just what )i (?:suggested|asked|requested|specified|wanted(?! to (?:thank|ask|say|know))|expected|hoped)",
    ),
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
    breaks crashes crashed fails failed fail failing hangs throws loops missing dies died crash error errors exception exceptions traceback
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
    has te se le lo por qu deshaz revierte basta alto nadie mismo misma ahora demasiado hazlo mas prefiero preferiria usa haz
    son sino como corrijo falta aun rama falsche falsch warum mach finger lass niemand unsinn quatsch stopp stop halt auf
    wieder gleicher gleiche zu passiert kompiliert fehlt da korrektur sondern er sie wie zum ergibt macht benutz verwende
    pourquoi annule remets personne mauvais mauvaise encore meme rien il fais plus trop utilise mets comme pour retire
    correction
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
        "self": r"я (?:ошиб(?:ся|лась)|оговорил(?:ся|ась)|имела? в виду)|моя ошибка|ой,|извини(?:те)?, я имел"
        r"|опечатка|виноват(?=[,.!]|$)"
        r"|я (?:перепутала?|опечатал(?:ся|ась)|неправильно (?:написала?|выразил(?:ся|ась)))",
        "wrong": r"это (?:не то|неправильно|неверно|не так|неправда|ошибка)|(?:совсем )?не то"
        r"|неправильно|неверно|не так(?=[,.!]|$)|(?:ты|вы) (?:ошиб\w+|не прав\w*|забыл\w*|пропустил\w*|не понял\w*)"
        r"|прекрати(?:те)?|перестань(?:те)?|я (?:не это|не то|не об этом|этого не) \w+|нет, (?:я|это|не|так|ты|вы) ?\w+"
        r"|стоп(?=[,.!]|$)|ерунда|чушь|бред|хватит"
        r"|(?:я )?(?:этого|такого) (?:я )?не (?:просила?|хотела?)|никто не просил"
        r"|(?:зачем|почему) (?:же )?(?:ты|вы)|верни(?:те)? (?:вс[её]|как|обратно|назад|старую?)"
        r"|откати(?:те)?|отмени(?:те)? (?:это|вс[её]|последн\w+|изменени\w+)"
        r"|(?:ты|вы) (?:\w+ )?(?:сломал|удалил|потерял|перепутал|изменил)\w*"
        r"|не тот (?:файл|\w+)",
        "fails": r"не (?:работает|сработало|помогло)|(?:вс[её] ещ[её]|по-прежнему) (?:не \w+|ошибка|падает)"
        r"|(?:опять|снова) (?:та же|то же|не|ошибк\w+|падает|сломал\w+)"
        r"|(?:та|эта) же (?:самая )?ошибка|вс[её] равно (?:не|ошибка|падает)"
        r"|ничего не (?:изменилось|происходит|поменялось|работает)|слишком \w+(?=[,.!]|$)"
        r"|не (?:запускается|компилируется|собирается|открывается|помогает)"
        r"|теперь (?:не|ошибка|падает)|(?:пропал|исчез|сломал)(?:а|о|и|ось|ся|ась|ись)?",
        "forbidden": r"(?:больше )?не (?:делай|используй|надо|нужно|меняй|трогай)(?:те)?",
        "fact": r"на самом деле"
        r"|не [\w-]+, а [\w-]+|правильно(?: будет| —| -|:)|(?:это|он|она|оно) называется"
        r"|должно быть",
        "otherwise": r"вместо этого|лучше (?:используй|сделай|попробуй|возьми)(?:те)?|(?:давай(?:те)?|попробуй(?:те)?) "
        r"(?:по-другому|иначе|другой|другое|другую)|(?:другой|иной) (?:способ|подход|вариант|метод)"
        r"|вместо \w+ (?:используй|возьми|сделай|поставь|напиши)(?:те)?"
        r"|(?:используй|сделай|возьми|поставь|напиши)(?:те)? (?:лучше|короче|проще|длиннее|иначе|по-другому|это|его|е[её])"
        r"|(?:покороче|попроще|короче|проще)(?=[,.!]|$)"
        r"|я (?:бы )?(?:предпоч[её]л|предпочла|предпочитаю|хотела? бы)|лучше бы",
        "again": r"я (?:уже|же) (?:говорил|сказал|писал|просил)а?|сколько раз"
        r"|сколько можно|в (?:который|третий|второй|сотый|десятый) раз|ещ[её] раз[,:]"
        r"|как я (?:уже )?(?:говорил|сказал|писал|просил)а?|мы же договорились|я просила?",
    },
    "es": {
        "self": r"(?:me equivoqu[eé]|quise decir|quer[ií]a decir|mi error|perd[oó]n, quise|error m[ií]o)"
        r"|me confund[ií]|me expres[eé] mal|fallo m[ií]o|corrijo",
        "wrong": r"(?:eso|esto) (?:no (?:es|est[aá]) (?:correcto|cierto|verdad|as[ií]|bien|lo que \w+)|est[aá] mal"
        r"|es (?:incorrecto|falso))|est[aá] mal|no es (?:correcto|cierto|verdad|as[ií]|eso"
        r"|lo que)|(?:te equivocas|te has equivocado|te equivocaste|est[aá]s equivocado|se equivoca)|incorrecto|as[ií] no"
        r"|no, (?:eso|esto|no|yo|est[aá]|quiero|quer[ií]a|me refer[ií]a) ?\w*|yo no (?:dije|ped[ií]|quer[ií]a)"
        r"|(?:te|se) (?:te |le )?olvid(?:aste|[oó])|te falt[oó]"
        r"|has (?:olvidado|borrado|roto|cambiado|quitado)|(?:borraste|rompiste|cambiaste|quitaste)"
        r"|por qu[eé] (?:has|borraste|cambiaste|quitaste|hiciste|usaste|sigues|lo hiciste)"
        r"|desha(?:z|ga)\w*|revierte\w*|no tiene sentido|nadie (?:te )?pidi[oó]"
        r"|(?:basta|alto|para ya)(?=[,.!]|$)|(?:archivo|fichero|rama|l[ií]nea) equivocad[oa]",
        "fails": r"no (?:funciona|funcion[oó]|sirve|compila)|sigue (?:sin|igual|fallando|mal|dando)|todav[ií]a falla"
        r"|(?:el |la |lo )?mism[oa] (?:error|problema|fallo|resultado)"
        r"|otra vez (?:el|la|lo|igual|mal)|a[uú]n (?:no|falla)|ahora (?:falla|me da|no \w+)"
        r"|se (?:cuelga|rompi[oó]|rompe|cae)"
        r"|no (?:pasa nada|arranca|carga|aparece|ha cambiado|cambi[oó]|ayud[oó])|desapareci[oó]"
        r"|falta[n]? (?:el|la|los|las|un)|demasiad[oa]s? \w+(?=[,.!]|$)",
        "forbidden": r"no (?:hagas|uses|utilices|cambies|toques|a[nñ]adas|borres) \w+|deja de \w+",
        "fact": r"en realidad|de hecho, (?:no|es|el|la)"
        r"|no (?:son|es|era|fue) \w+,? (?:sino|son|es|era|fue)|se (?:llama|escribe)"
        r"|deber[ií]a (?:ser|decir|devolver|estar)",
        "otherwise": r"en (?:lugar|vez) de eso|mejor (?:usa|haz|prueba|utiliza)|(?:prueba|intenta|usa) (?:de otra|con otr[oa]"
        r"|otr[oa])|otr[oa] (?:enfoque|manera|forma|m[eé]todo|soluci[oó]n)"
        r"|hazl[oa] (?:m[aá]s|en|de|con|otra)"
        r"|m[aá]s (?:corto|simple|sencillo|largo|formal|breve)(?=[,.!]|$)"
        r"|(?:prefiero|preferir[ií]a)"
        r"|(?:usa|haz|pon|utiliza|escribe) [^.!?]{1,40}(?:en (?:vez|lugar) de)"
        r"|(?:c[aá]mbi|ll[aá]m)al[oa]|ponlo (?:en|como)",
        "again": r"ya (?:te )?(?:lo )?(?:dije|he dicho|ped[ií])|cu[aá]ntas veces"
        r"|te lo (?:he dicho|dije|ped[ií])|como (?:te |ya )*(?:dije|he dicho)"
        r"|por (?:tercera|en[eé]sima|segunda|[uú]ltima) vez|te ped[ií]|ya lo (?:dije|he dicho)",
    },
    "de": {
        "self": r"(?:ich habe mich (?:geirrt|vertan|vertippt|versprochen)|ich meinte|ich hab mich (?:geirrt|vertan|vertippt)"
        r"|mein fehler|ich lag falsch|entschuldigung, ich meinte|moment, ich meinte)"
        r"|korrektur(?=:)|vertippt|ich (?:habe|hab) (?:das |es |die |den )?verwechselt"
        r"|ich nehme das zurück|streich das",
        "wrong": r"(?:das|dies|es) (?:ist|war|stimmt) (?:so )?(?:falsch|nicht (?:richtig|korrekt|wahr|das,? was|was)"
        r"|verkehrt|quatsch|unsinn)|das stimmt (?:so )?nicht|stimmt nicht"
        r"|falsch|du (?:irrst dich|hast (?:\w+ ){0,3}(?:vergessen|übersehen|falsch|missverstanden))"
        r"|so nicht|nein, (?:das|ich|nicht|so|es|du|die|der) ?\w*"
        r"|das (?:meinte|wollte) ich nicht|ich (?:wollte|meinte) (?:das nicht|etwas anderes)"
        r"|falsche[rsn]? (?:datei|ordner|zeile|branch|zweig|funktion|seite|antwort)"
        r"|(?:völlig|total|komplett|ganz) (?:falsch|daneben)"
        r"|du hast (?:\w+ ){0,4}(?:gelöscht|entfernt|kaputt\w*|verändert|geändert|vertauscht|verwechselt|überschrieben)"
        r"|warum (?:hast du|löschst du|machst du|änderst du|ist das immer noch)"
        r"|(?:mach|machen sie) (?:das |es |alles )?(?:bitte )?(?:wieder )?rückgängig"
        r"|nimm (?:das|es) (?:bitte )?zurück|finger weg|lass (?:das(?=[,.!]|$)|die finger)"
        r"|das (?:wollte|meinte|sollte) (?:ich|es) (?:so )?nicht|niemand hat"
        r"|(?:das )?(?:ergibt|macht) keinen sinn"
        r"|(?:unsinn|quatsch|blödsinn|stopp?|halt)(?=[,.!]|$)|auf keinen fall",
        "fails": r"(?:funktioniert|geht|klappt|hilft) (?:so |immer noch )?nicht|immer noch (?:nicht|kein\w*|falsch|ein fehler)"
        r"|(?:schon |immer )?(?:wieder|noch) (?:der|die|das|den) (?:gleiche|selbe|alte)\w*"
        r"|(?:der |die |das )?(?:gleicher?|dieselbe|derselbe|selber) (?:fehler|problem|meldung)"
        r"|(?:stürzt|bricht|hängt) (?:\w+ ){0,3}(?:ab|sich)"
        r"|(?:ist|sind) (?:jetzt |nun |immer noch )?(?:weg|leer|kaputt|verschwunden)"
        r"|(?:viel |etwas |deutlich )?zu (?:lang|kurz|kompliziert|groß|klein|langsam|viel|wenig|technisch|förmlich|umständlich)"
        r"|(?:es )?passiert nichts|nichts (?:passiert|hat sich)"
        r"|(?:läuft|kompiliert|baut|lädt|startet) (?:so |immer noch |jetzt )?nicht"
        r"|hat nicht geholfen|es fehl(?:t|en)|da fehl(?:t|en)",
        "forbidden": r"hör auf|(?:benutze?|verwende?|mach|ändere?|nimm) (?:das |es )?(?:nicht|kein\w*)",
        "fact": r"(?:eigentlich|tatsächlich|in wirklichkeit),? (?:ist|war|sind|heißt|wohnt|liegt|das|es)"
        r"|nicht [\w-]+(?: \w+)?,? sondern|(?:es|das|er|sie) heißt|richtig (?:ist|wäre)"
        r"|(?:das|es) sollte",
        "otherwise": r"stattdessen|lieber (?:so|anders|mit|das|ein\w*|doch)|nimm (?:lieber|besser|stattdessen)|(?:versuch|probier|mach)\w* (?:es |das )?(?:anders"
        r"|mal anders|einen anderen|eine andere)|(?:anderer|anderen|andere|anderes) (?:ansatz|weg|methode|lösung|vorgehen)"
        r"|(?:mach|schreib|formulier)\w* (?:es |das |ihn |sie )?(?:bitte )?(?:kürzer|länger|einfacher|kleiner|größer|lieber|anders|förmlicher|lockerer)"
        r"|(?:kürzer|einfacher)(?=[,.!]| bitte|$)"
        r"|ich (?:hätte|möchte|will|wollte) (?:es |das |gern |gerne )*(?:lieber|anders|als)"
        r"|ich (?:bevorzuge|würde lieber)"
        r"|(?:nimm|verwende|benutze?|mach|schreib)\w* [^.!?]{1,40}(?:statt|anstelle|anstatt)",
        "again": r"(?:ich habe|ich hab|hab ich|habe ich) (?:das |es )?(?:doch |schon |bereits ){1,2}gesagt|wie oft (?:noch|soll|muss)"
        r"|wie (?:gesagt|ich schon sagte|bereits)"
        r"|zum (?:dritten|zweiten|letzten|x-ten|hundertsten) mal|noch(?: ein)?mal:"
        r"|ich sagte (?:doch|bereits|schon)|das hatten wir schon"
        r"|ich (?:hatte|habe|hab) (?:dich |dir )?(?:doch |schon |bereits ){1,2}\w+",
    },
    "fr": {
        "self": r"(?:je me suis trompée?|je voulais dire|mon erreur|au temps pour moi|autant pour moi|j'ai fait une (?:erreur|faute)"
        r"|oups|pardon, je voulais)"
        r"|je me suis (?:emmêlée?|plantée?|mal exprimée?)|faute de frappe|correction(?= ?:)"
        r"|je retire",
        "wrong": r"(?:c'est|ce n'est|c'était|ce n'était|ça n'est) (?:pas (?:ça|correct|juste|vrai|bon|ce que|la|le|du tout)"
        r"|faux|incorrect|inexact|n'importe quoi|mauvais|inutile)|faux|tu (?:te trompes|as (?:oublié|raté|tort|mal compris))|vous (?:vous trompez|avez (?:oublié|tort))"
        r"|pas comme ça"
        r"|non, (?:ce|c'est|je|pas|tu|ça|le|la) ?\w*|je n'ai pas (?:dit|demandé)|je ne (?:veux|voulais) pas"
        r"|(?:tu as|vous avez|t'as) (?:\w+ )?(?:supprimé|cassé|changé|effacé|enlevé|perdu|mal)"
        r"|pourquoi (?:tu|as-tu|avez-vous|vous|est-ce que tu|c'est (?:toujours|encore))"
        r"|annule[rz]? (?:ça|cela|tout|ta|tes|le|la)|reviens (?:à|en)|remets"
        r"|je n'ai jamais (?:dit|demandé)|ça n'a (?:aucun|pas de) sens|personne n'a"
        r"|(?:mauvais|mauvaise) (?:fichier|dossier|branche|réponse|fonction|ligne)"
        r"|(?:stop|ça suffit|pas du tout)(?=[,.!]|$)",
        "fails": r"(?:ça|cela) (?:ne )?(?:marche|fonctionne|va|compile) (?:toujours )?(?:pas|plus)|toujours pas"
        r"|(?:encore|toujours) (?:la|le|les) même\w* \w+"
        r"|(?:la |le )?même (?:erreur|problème|bug|résultat)"
        r"|(?:ça|il|elle) (?:plante|bloque|échoue)|rien (?:ne|n'a)|il manque|(?:a|ont) disparu"
        r"|(?:beaucoup |bien |un peu )?trop (?:long|court|compliqu|lourd|technique|formel|grand|petit|lent)\w*",
        "forbidden": r"arrêtez? de|n'utilise[rz]? pas|ne (?:fais|faites|change|touche|modifie|supprime)\w* pas",
        "fact": r"en (?:fait|réalité),? (?:c'est|il|elle|le|la|les|on|nous|je|non)"
        r"|pas \w+,? mais|(?:ça|il|elle) s'appelle|ça s'écrit|ça devrait",
        "otherwise": r"(?:utilise|prends|fais|essaie|mets) plutôt|plutôt \w+|à la place|au lieu de ça|(?:essaie|essayez|fais) (?:autrement|une autre|un autre)"
        r"|une? autre (?:approche|façon|manière|méthode|solution)"
        r"|fais(?:-le)? (?:plus|moins|en|sans)|plus (?:court|simple|long|formel)(?=[,.!]|$)"
        r"|je (?:préfère|préférerais)|(?:utilise|prends|fais|mets|écris) [^.!?]{1,40}au lieu d"
        r"|(?:mets|appelle|nomme)-l[ea]|je voulais (?:un|une|le|la)",
        "again": r"je (?:te |vous )?l'ai déjà dit|j'ai déjà (?:dit|demandé)|combien de fois"
        r"|je (?:te |t'|vous )(?:l')?ai (?:déjà )?(?:dit|demandé)|comme (?:je l'ai|je disais|dit)"
        r"|pour la (?:troisième|dernière|énième|deuxième) fois|faut-il (?:le )?répéter"
        r"|on avait dit",
    },
}
_UNSPACED_OTHERS: dict[str, dict[str, str]] = {
    "zh": {
        "self": r"我(?:说|讲|写|打|搞|弄)错了|我的(?:错|意思是)|我是说|口误"
        r"|(?:说|讲|写|打|搞|弄)错了|更正|笔误|手误",
        "wrong": r"(?:这|那|你)?(?:个|样)?(?:是)?(?:不对|错了|不正确|不是这样|不是我(?:要|想|说)的)|你(?:错了|搞错|弄错|理解错|忘了|漏了)|我没(?:有)?(?:说|要|让)"
        r"|不是?[,，]"
        r"|你?(?:为什么|怎么)(?:你)?(?:又|还|把|要)?(?:删|改|动|加|去掉|用)|(?<!怎么)(?<!如何)(?:撤销|回滚|还原|改回)"
        r"|恢复(?:原|到|成)|(?:我)?没(?:有)?(?:让|叫)你|谁让你|(?:没有?|毫无)意义|说不通|胡说|瞎编|停下|住手|够了|(?:文件|目录|位置|分支)错了"
        r"|停(?=[。！!,，\s]|$)",
        "fails": r"(?:还是|仍然|依然)(?:不行|不对|没有|报错|错)|没有?用(?![过到])|不起作用|不管用"
        r"|又(?:是|报错|出错|失败|错|崩)|(?:同样|一样|相同)的(?:错|问题|结果)|没(?:有)?(?:变化|反应|效果|生效|变)|不(?:能用|生效|显示)"
        r"|跑不(?:了|起来|通)|打不开|丢了|不见了|少了|缺(?:了|少)"
        r"|太(?:长|短|复杂|慢|大|小|啰嗦|多|少|丑|乱|正式|简单)了?(?=[。！!,，\s]|$)",
        "forbidden": r"(?:不要|别)(?:再|用|使用|这样|改|动|做)"
        r"|别(?:碰|删|加|写|管|乱)|不要(?:碰|删|加|写|乱)",
        "fact": r"(?:其实|实际上|事实上)(?:是|不是|他|她|它|我|这|那)?"
        r"|不是[^，,。！？\s]{1,12}[，,]\s?(?:而)?是|应该是|应为|正确的(?:是|答案)|叫做",
        "otherwise": r"(?:换|用|试试)(?:一?个|一?种|别的|另)(?:方法|方式|办法|思路|方案|外|一)?|改(?:用|成)|而不是"
        r"|(?:写|弄|做|改)?(?:得)?(?:短|简单|简洁|详细|正式)(?:一)?[点些]|改(?:为|回)|换成|不如|应该用|最好用|放到|换个",
        "again": r"我(?:已经|刚才|刚刚|都)?说过|说了(?:多少|几|很多)[次遍]|第[二三四五]次"
        r"|我(?:不是)?说(?:过|了)|都说了|第几次|重复一遍",
    },
    "ja": {
        "self": r"(?:私|僕|俺)の(?:間違い|ミス|勘違い)|言い間違|書き間違|間違えました|勘違いしてい?ました|すみません、間違"
        r"|すみません[、,][^。]{1,12}の間違い|訂正|打ち間違|誤字でした",
        "wrong": r"(?:それ|これ)?(?:は|が)?(?:違います|ちがいます|(?:違う|ちがう)(?=[。、！!？?\s]|$)|間違って(?:い|る)|間違いです|正しくな)"
        r"|(?:そう|それ)じゃ(?:ない|なくて|ありません)|そうではな|頼んで(?:い)?ない|言って(?:い)?ない|忘れて(?:い)?(?:る|ます)"
        r"|(?:なぜ|なんで|どうして)[^。？?]{0,20}(?:消し|変え|削除|勝手)|元に戻し|(?:頼んで|言って|お願いして)(?:い)?ません|余計な|意味がわから"
        r"|ストップ|止めて|間違い(?=だ|です|$)|誤りです|勝手に",
        "fails": r"(?:まだ|やっぱり|全然)(?:動か|でき|直って|だめ|ダメ|エラー)|動きません|動かない|うまくいきません|おかしい"
        r"|また(?:同じ|エラー|失敗|だめ)|同じ(?:エラー|問題|結果)|(?:長|短|大き|小さ|難し|遅|多)すぎ|複雑すぎ|エラーに(?:なり|なる)|エラーが出"
        r"|(?:開き|見え|表示され|保存され|直って(?:い)?)(?:ません|ない)|消えて(?:い|し)|(?:変わって(?:い)?|変わり)(?:ません|ない)|足りな|抜けて",
        "forbidden": r"(?:使わ|し|変え|触ら|消さ)ないで|やめて",
        "fact": r"(?:実は|実際は|実際には|本当は)"
        r"|(?:では|じゃ)なく|正しくは|正解は",
        "otherwise": r"代わりに|かわりに|(?:別|他|ほか)の(?:方法|やり方|アプローチ|案|手段)|(?:じゃ|では)なくて"
        r"|もっと(?:短|簡単|シンプル|長|詳し|丁寧|大き|小さ)|(?:別|他|ほか)の[^。]{1,6}(?:に|で)(?:して|お願い)|(?:方|ほう)がいい",
        "again": r"(?:さっき|前に|もう|既に)も?(?:言|伝え|お願い|頼)(?:い|っ|え|ん)|何度も?言"
        r"|と言いました|言ったはず|(?:何度|何回)も|[二三]回目|もう一度言い",
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

# ---- standing instructions -------------------------------------------------------------------------------------

# Where an order begins, and the end of a sentence that is no question.
_ORDER = r"(?:^|[.!?;:,\n]\s*|\b(?:please|and|but|so|then|just|also|you (?:should|must|need to|have to)|i want you to) )"
_NO_QUESTION = r"(?![^.!\n]*[?\uff1f])"

# What is to be done not only now. "He always does" and "it never fails" tell, they order nothing.
STANDING = _any_of(
    rf"{_ORDER}(?:always|never)(?! (?:mind|ever|been|knew|know|seen|heard|had|again|better|works?|fails?|i|he|she|it|we"
    rf"|they|the|an?)\b)(?! \w+(?:ed|ing)\b) \w+{_NO_QUESTION}",
    rf"\b(?:from now on|from here on|going forward|henceforth|no matter what){_NO_QUESTION}",
    r"\bin (?:the )?future,? (?:please|always|never|do|don'?t|use|ask|write|make|be|call|keep|run|check|let|just|only"
    rf"|when|you)\b{_NO_QUESTION}",
    rf"{_ORDER}(?:remember(?: to\b| that\b|,|:)|(?:keep|bear) in mind|don'?t (?:ever|forget to)\b){_NO_QUESTION}",
    rf"{_ORDER}(?:(?:every|each|any) ?time|whenever) (?:you|i|we)\b{_NO_QUESTION}",
    # Russian
    rf"(?:^|[.!?;:,\n]\s*|\b(?:пожалуйста|и|но) )(?:всегда|никогда(?: больше)? не) [\w-]*(?:й|йте|ь|ьте|и|ите)\b{_NO_QUESTION}",
    r"^\w+(?:й|йте|и|ите) всегда\b",
    r"\b(?:отныне|впредь|с этого момента|в (?:будущем|дальнейшем)|запомни(?:те)?|каждый раз,? когда (?:ты|вы))\b"
    rf"{_NO_QUESTION}",
    # Spanish
    rf"{_ORDER}(?:siempre|nunca(?: m[aá]s)?) (?!\w+[oóéí]\b|h[ae]\w*\b|fue\b|es\b|est[aá]\b|me\b|se\b|era\b)\w+{_NO_QUESTION}",
    r"^\W*(?:responde|contesta|usa|utiliza|escribe|haz|pon|pregunta|revisa|ejecuta|comprueba) siempre\b",
    r"\b(?:a partir de ahora|(?:de ahora )?en adelante|en lo sucesivo|recuerda (?:que|siempre)|cada vez que)\b"
    rf"{_NO_QUESTION}",
    # German
    r"^\W*(?:bitte )?(?:antworte?|nutze?|benutze?|verwende?|schreibe?|mache?|frage?|nimm|sprich|gib|prüfe?|nenne?|teste?"
    r"|zeige?|halte?) (?:\w+ ){0,2}(?:immer|niemals|nie|stets)\b",
    rf"{_ORDER}(?:immer|niemals|nie|stets) (?:\w+ ){{0,4}}\w+en\b{_NO_QUESTION}",
    r"\b(?:ab (?:jetzt|sofort|heute)|von (?:jetzt|nun) an|in zukunft|zukünftig|künftig|fortan|merke? dir"
    rf"|jedes ?mal,? wenn du|immer wenn du)\b{_NO_QUESTION}",
    # French
    r"^\W*(?:réponds|répondez|utilise[rz]?|écris|écrivez|fais|faites|mets|mettez|demande[rz]?|vérifie[rz]?|garde[rz]?"
    r"|cite[rz]?|parle[rz]?) toujours\b",
    rf"{_ORDER}n(?:e |')\w+ (?:plus )?jamais\b{_NO_QUESTION}",
    r"\b(?:désormais|dorénavant|à partir de maintenant|à l'avenir|souviens-toi|rappelle-toi|n'oublie (?:pas|jamais)"
    rf"|chaque fois que (?:tu|vous))\b{_NO_QUESTION}",
    # Chinese
    r"以后(?:都|请|要|别|不要|一律|每次)|今后|从现在(?:起|开始)|从今(?:天|以后|往后)|永远(?:不要|别|用|要)"
    r"|(?:^|[，。！,.!\s请])(?:总是|始终|一直|每次都?|一律|务必)(?:要|用|请|先|把|以|使用|写|回答|检查)|记住[，,：:]|请记得",
    # Japanese
    r"これからは|今後(?:は|も)[^。？?]{1,30}(?:て|ないで|こと|ください)|(?:必ず|常に|いつも)[^。？?]{1,25}(?:て|こと|ください)(?=[。！!\s]|$)"
    r"|絶対に[^。？?]{1,20}(?:ないで|しないこと)|二度と|覚えておいて",
)
STANDING_TRIGGERS = frozenset(
    """
    always never now here forward henceforth matter future remember mind ever forget time whenever
    siempre nunca partir adelante sucesivo recuerda cada immer niemals nie stets jetzt sofort heute nun zukunft fortan merk
    merke jedesmal jedes toujours jamais maintenant avenir souviens rappelle oublie chaque
    """.split()
)
