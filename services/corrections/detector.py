"""Telling whether a message corrects what was said before it. Pure, without a model, bounded in time.

Phrases say what a message may be; the turn before decides where they alone cannot: a "no" that follows a question is
an answer, and "actually, it is Bergen" corrects only where something was stated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from itertools import islice

from services.corrections.cues import (
    ANYWHERE,
    MARKERS,
    MIDDLE,
    NO_ALONE,
    SELF,
    SELF_START,
    SELF_TRIGGERS,
    SPACED,
    STANDING,
    STANDING_TRIGGERS,
    START,
    TRIGGERS,
    UNSPACED,
    Cue,
    Needs,
)
from services.corrections.models import CorrectionKind, FeedbackSignal

# People correct at the beginning; what follows further down is most likely pasted.
_SCANNED = 600
_MOST_CUES = 10
_COMPARED = 4_000
_TAIL = 160
_PREVIOUS = 3
_SIMILAR = 0.8
_REPEATED = 0.75
# Fewer words, such as "go on", are said again without complaint.
_LEAST_WORDS = 3
# Where a phrase lacks what it needs it is left open, which a judge may settle.
_OPEN = 0.55
# What confidence loses: when the user is pleased, when the phrase stands further down than at the beginning, when it is
# only feared or supposed within that many characters before it.
_GLADNESS = 0.15
_ASIDE, _BEGINNING = 0.10, 120
_HEDGED, _HEDGE_REACH = 0.2, 80
# From here on a "no" in front of a phrase breaks off what the user is saying.
_OWN_WORDS = 20
# A greeting or a sigh may stand before the phrase that opens a message.
_OPENING = 8

_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_QUOTED_LINE = re.compile(r"^\s*>.*$", re.MULTILINE)
_QUOTED = re.compile(r'"[^"\n]*"|\u201c[^\u201d\n]*\u201d|`[^`\n]*`')
_BLANKS = re.compile(r"[ \t]{2,}|\t")
_WORD = re.compile(r"\w+")
_FILLER = re.compile(
    r"(?:(?:hm+|mm+k?|um+|uh+|er+|ah+|oh|ok(?:ay)?|k|well|so|hey|dude|man|bro|please|and|but|then|yeah|yes|yup|yep)"
    r"(?![\w'])[\s,.!:;\u2026-]*)+"
)
# Who is pleased or agrees hardly complains in the same breath, unless a "but" follows.
_PLEASED = re.compile(
    r"\W*(?:yes|yup|yep|sure|agreed|exactly|correct)\b(?!,? but)"
    r"|[^.?\n]{0,60}\b(?<!not )(?:thanks|thank you|great|perfect|good|nice|fine|awesome|impressive|love|cool|lol)\b(?!,? but)"
)
_EMPHATIC = re.compile(r"\W*(?:NO\b|NOPE\b|[Nn]o!|(?:[Nn]o\W+){2,})")
_OFFER = re.compile(
    r"what do you think|anything else|would you (?:like|prefer|want)|do you (?:want|have|prefer|need)|want me to"
    r"|(?:shall|should|can|may) i\b|(?:how|what) about|any preference|where should|how many|what (?:genre|price|kind|time|day)"
)
_ANNOUNCEMENT = re.compile(
    r"(?:ok|okay|sure|alright|got it|great)?[ ,.!]*(?:let me|i'll|i will|i'm going to|one moment)\b"
)
# What is feared, hoped, prevented or only supposed has not happened.
_HEDGE = re.compile(
    r"\b(?:if|hope|whether|worried|make sure|not sure|ensure|unless|in case|avoid|afraid|so that(?!'))\b[^.!?\n]*$"
    # What others said is a story.
    r"|(?<!\bi )(?<!\byou )(?<!\bit )\b(?:said|claim(?:s|ed)|told (?:me|us|him|her)|insist(?:s|ed)|complain(?:s|ed)"
    r"|сказал[аи]?|dijo|sagten?|a dit)\b[^.!?\n]*$|[他她]们?说[^。！？\n]*$"
)
_UNSPACED = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
_MISUNDERSTOOD = re.compile(r"\W*(?:no|nope)[\s,.!-]+i (?:actually )?mea?nt\b")
_MISUNDERSTANDING = 0.85
_STANDING = re.compile(STANDING)
_NO_ALONE = re.compile(rf"\W*{NO_ALONE}\W*$")
_PLAIN_NO = Cue(CorrectionKind.EXPLICIT_REJECTION, Needs.NO_QUESTION, 0.85, NO_ALONE)


class _Answer(Enum):
    """What kind of turn a message answers."""

    UNKNOWN = auto()
    # A question or an offer: a "no" is one of its answers.
    ASKED = auto()
    # "Let me look": nothing is there yet that could be otherwise.
    ANNOUNCED = auto()
    DELIVERED = auto()


class _Phrases:
    """Cues as one pattern, so that a text is gone through once."""

    def __init__(self, cues: Sequence[Cue], *, spaced: bool = True) -> None:
        self._cues = {f"c{number}": cue for number, cue in enumerate(cues)}
        either = "|".join(f"(?P<{name}>{cue.pattern})" for name, cue in self._cues.items())
        plain = "|".join(cue.pattern for cue in cues)
        # Scripts without blanks have no beginnings of words.
        begin, end = (r"\b(?=\w)", r"(?!\w|-\w)") if spaced else ("", "")
        self._pattern = re.compile(rf"{begin}(?:{either}){end}")
        # The same without saying which, so that what holds none is gone through faster.
        self._any = re.compile(rf"{begin}(?:{plain}){end}")

    def at(self, text: str, position: int) -> Cue | None:
        """The first cue whose phrase stands here."""
        found = self._pattern.match(text, position)
        return None if found is None else self._cues[found.lastgroup or ""]

    def within(self, text: str) -> Iterator[tuple[Cue, int]]:
        """Each cue with the place of its phrase, in order."""
        for found in self._any.finditer(text):
            cue = self.at(text, found.start())
            if cue is not None:
                yield cue, found.start()


_START, _ANYWHERE, _SELF, _SELF_START = map(_Phrases, (START, ANYWHERE, SELF, SELF_START))
_OTHER_SPACED, _OTHER_UNSPACED = _Phrases(SPACED), _Phrases(UNSPACED, spaced=False)


class FeedbackDetector:
    """Finds corrections in user messages. Safe between threads."""

    def __init__(self, threshold: float = 0.7) -> None:
        self._threshold = threshold

    def detect(
        self, message: str, previous: Sequence[str] = (), *, answer: str = ""
    ) -> FeedbackSignal | None:
        """The correction that this message is, or None: the signal of `assess` if it reaches the threshold.

        `answer` is the assistant's turn that the message answers, "" where there is none or it is not known;
        `previous` are the user's own messages before this one, oldest first.
        """
        return self.confident(self.assess(message, previous, answer=answer))

    def confident(self, signal: FeedbackSignal | None) -> FeedbackSignal | None:
        """The signal if it reaches the threshold, which counts as reached when it is met exactly."""
        return signal if signal is not None and signal.confidence >= self._threshold else None

    def assess(
        self, message: str, previous: Sequence[str] = (), *, answer: str = ""
    ) -> FeedbackSignal | None:
        """The strongest signal, however weak, or None. A self-correction goes before all others."""
        raw = _prose(message)
        text = raw.lower()
        words = _WORD.findall(text)
        state = _state(answer)
        spoke_before = bool(previous)
        found = _self_correction(text, words, state, spoke_before=spoke_before)
        if found is None:
            signals = [
                *_signals(raw, text, words, state, spoke_before=spoke_before),
                *_repetition(message, previous, state),
            ]
            found = max(signals, key=lambda signal: signal.confidence, default=None)
        return found


def is_standing(message: str) -> bool:
    """Whether a message says what is to be done from now on, and not only this time."""
    text = _prose(message).lower()
    if text.isascii() and STANDING_TRIGGERS.isdisjoint(_WORD.findall(text)):
        return False
    return _STANDING.search(text) is not None


def _self_correction(
    text: str, words: list[str], state: _Answer, *, spoke_before: bool
) -> FeedbackSignal | None:
    """The user puts his own words right: those before, when he opens with it, or those of the same message."""
    filler = _FILLER.match(text)
    opening = _SELF_START.at(text, 0) or (_SELF_START.at(text, filler.end()) if filler else None)
    if opening is not None:
        return FeedbackSignal(opening.kind, opening.confidence, targets_turn=spoke_before)
    inside = None if SELF_TRIGGERS.isdisjoint(words) else next(_SELF.within(text), None)
    if inside is None:
        return None
    if _MISUNDERSTOOD.match(text):
        # "No, I meant ...": of one's own words if nobody has answered them, else of what was made of them.
        if spoke_before and state is _Answer.UNKNOWN:
            return FeedbackSignal(inside[0].kind, inside[0].confidence, targets_turn=True)
        known = state is not _Answer.UNKNOWN
        return FeedbackSignal(CorrectionKind.EXPLICIT_REJECTION, _MISUNDERSTANDING, targets_turn=known)
    return FeedbackSignal(inside[0].kind, inside[0].confidence)


def _signals(
    raw: str, text: str, words: list[str], state: _Answer, *, spoke_before: bool
) -> Iterator[FeedbackSignal]:
    """What the phrases of a message say after such an answer."""
    cues = [*_english(text, words), *_other(text, words)]
    if not cues:
        return
    emphatic = _EMPHATIC.match(raw) is not None
    pleased = _PLEASED.match(text) is not None
    for cue, certainty, place in cues:
        confidence = min(certainty, _OPEN) if _lacks(cue, state, emphatic=emphatic) else certainty
        if _HEDGE.search(text, max(0, place - _HEDGE_REACH), place):
            confidence -= _HEDGED
        if cue.needs is not Needs.NOTHING:
            confidence -= (_GLADNESS if pleased else 0.0) + (_ASIDE if place > _BEGINNING else 0.0)
        own = cue.kind is CorrectionKind.SELF_CORRECTION
        targets = (spoke_before and place <= _OPENING) if own else state is not _Answer.UNKNOWN
        yield FeedbackSignal(cue.kind, confidence, targets_turn=targets)


def _english(text: str, words: list[str]) -> Iterator[tuple[Cue, float, int]]:
    """The cues of a text with their confidence and place."""
    filler = _FILLER.match(text)
    opening = (_START.at(text, filler.end()) if filler else None) or _START.at(text, 0)
    if opening is not None:
        yield opening, opening.confidence, 0
    if TRIGGERS.isdisjoint(words):
        return
    for cue, place in islice(_ANYWHERE.within(text), _MOST_CUES):
        # "Solved by P, no that is wrong, by Q": he takes back what he is just saying.
        if place < _OWN_WORDS or not text.endswith(("no ", "no, "), 0, place):
            yield cue, cue.confidence, place


def _other(text: str, words: list[str]) -> Iterator[tuple[Cue, float, int]]:
    """The same for the other languages, whose phrases count less in the middle of a message."""
    if _NO_ALONE.match(text):
        yield _PLAIN_NO, _PLAIN_NO.confidence, 0
    if not text.isascii() and _UNSPACED.search(text):
        phrases = _OTHER_UNSPACED
    elif text.isascii() and MARKERS.isdisjoint(words):
        return
    else:
        phrases = _OTHER_SPACED
    for cue, place in islice(phrases.within(text), _MOST_CUES):
        yield cue, cue.confidence - (0.0 if place <= _OPENING else MIDDLE), place


def _lacks(cue: Cue, state: _Answer, *, emphatic: bool) -> bool:
    """Whether the turn before is not what the phrase needs."""
    if cue.needs is Needs.ANSWER:
        return state is not _Answer.DELIVERED
    if cue.needs is Needs.TURN:
        return state is _Answer.UNKNOWN
    if cue.needs is Needs.NO_QUESTION and not emphatic:
        wish = cue.kind is CorrectionKind.ALTERNATIVE_REQUEST
        return state is _Answer.ASKED or (wish and state is _Answer.ANNOUNCED)
    return False


def _repetition(message: str, previous: Sequence[str], state: _Answer) -> Iterator[FeedbackSignal]:
    """The user asks again in nearly the same words."""
    # Of texts too long to be compared as a whole, only those of one length can be the same.
    recent = [
        earlier
        for earlier in previous[-_PREVIOUS:]
        if len(message) == len(earlier) or max(len(message), len(earlier)) <= _COMPARED
    ]
    words = _words(message) if recent else frozenset()
    if len(words) >= _LEAST_WORDS and any(_overlap(words, _words(earlier)) > _SIMILAR for earlier in recent):
        yield FeedbackSignal(CorrectionKind.REPETITION, _REPEATED, targets_turn=state is not _Answer.UNKNOWN)


def _prose(message: str) -> str:
    """The beginning of what the user says himself: without code, quotations, and doubled blanks."""
    text = message[:_SCANNED]
    if "```" in text:
        text = _FENCED.sub(" ", text)
    if ">" in text:
        text = _QUOTED_LINE.sub("", text)
    if '"' in text or "`" in text or "\u201c" in text:
        text = _QUOTED.sub('""', text)
    return _BLANKS.sub(" ", text.replace("\u2019", "'")).strip()


def _state(answer: str) -> _Answer:
    tail = answer[-_TAIL:].rstrip().lower()
    if not tail:
        return _Answer.UNKNOWN
    if tail.endswith(("?", "\uff1f")) or _OFFER.search(tail):
        return _Answer.ASKED
    announced = len(answer) <= _TAIL and _ANNOUNCEMENT.match(tail) is not None
    return _Answer.ANNOUNCED if announced else _Answer.DELIVERED


def _words(text: str) -> frozenset[str]:
    """The words of the beginning; pairs of characters where nothing divides the words."""
    words = _WORD.findall(text[:_COMPARED].lower())
    if words and not text.isascii() and max(map(len, words)) > 1 and _UNSPACED.search(text):
        return frozenset(word[at : at + 2] for word in words for at in range(max(1, len(word) - 1)))
    return frozenset(words)


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """Jaccard's index."""
    return len(one & other) / len(one | other) if one and other else 0.0
