"""Entities without a language model: offline, deterministic, precise rather than complete. Pure.

Names are what is written like a name: proper nouns where capitals tell them, code-like tokens, titles in brackets, names
that are stored already, and who speaks. What stands in one sentence is related by `CO_OCCURRENCE`, with the sentence as
evidence and low confidence; that is no fact, and nobody is to take it for one. Typed relations are an opt-in, from a few
sentences that can hardly mean anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from services.graph.hints import Period, read_hint
from services.graph.models import (
    CO_OCCURRENCE,
    LOCAL_EXTRACTOR,
    EntityType,
    Extraction,
    FoundEdge,
    FoundEntity,
)
from services.graph.names import canonical
from services.graph.sentences import sentences
from services.graph.texts import Reading
from services.graph.vocabulary import (
    ABBREVIATED_SPEECH,
    CALENDAR,
    CONNECTORS,
    GERMAN,
    GROUP_HEADS,
    GROUP_WORDS,
    LANGUAGES,
    OPENERS,
    STOP_WORDS,
    TITLES,
)

CO_OCCURRENCE_CONFIDENCE = 0.3
TYPED_CONFIDENCE = 0.6
# Names in a sentence up to which each is related to each; in a longer list neighbours only.
_ALL_PAIRS = 4
_LONGEST_KNOWN_WORDS = 4
_LONGEST_KNOWN_SIGNS = 8
_MAX_CANDIDATES = 2_000
_PAIR = 2
# So many words can be shouted, most of them in capitals; so many with nothing small between them are a heading.
_SHOUTED = 3
_SHARE_OF_CAPITALS = 0.75
_LEAST_HEADING = 4

# Scripts written without blanks have no capitals either.
_UNSPACED = (
    "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff"
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_LETTER = rf"[^\W\d_{_UNSPACED}]"
_WORD = re.compile(
    rf"(?:{_LETTER}\.){{2,5}}|(?:{_LETTER}|St|Mt|Ft|Dr|Mr|Mrs|Ms|Prof)\.(?=\s?{_LETTER})"
    rf"|{_LETTER}[^\W_{_UNSPACED}]*(?:[-'\u2019&]{_LETTER}[^\W_{_UNSPACED}]*)*"
)
_SPACED = re.compile(r"[^\s,;:!?()\[\]{}\"\u201c\u201d]+")
_I = re.compile(r"I(?:['\u2019](?:m|d|ll|ve|s))?")
_DOTTED = re.compile(rf"(?:{_LETTER}\.)+")
_POSSESSIVE = re.compile(r"['\u2019]s?$")
# "UK-based" names the UK.
_COMPOUND = re.compile(
    r"-(?:based|themed|related|style|like|level|nominated|winning|born|led|owned|wide|backed|specific)$"
)
_CODE_LIKE = re.compile(
    r"(?<![\w./\\@-])(?:"
    r"(?P<file>[\w-]{1,60}\.(?:py|rs|js|ts|tsx|go|java|c|cpp|h|cs|rb|php|swift|kt|sh|sql|ipynb"
    r"|md|txt|pdf|docx?|csv|xlsx?|html|css))"
    r"|(?P<config>[\w.-]{0,60}\.(?:toml|ya?ml|ini|cfg|conf|env|json|lock)|Dockerfile|Makefile)"
    r"|(?P<dotted>[A-Z][A-Za-z]{1,20}\.(?:js|io|ai|net|NET))"
    r"|(?P<mixed>[a-z]?[A-Z][a-z0-9]{1,20}[A-Z][A-Za-z0-9]{0,20}|[a-z][A-Z][A-Za-z]{1,20}"
    r"|[A-Z]{2,}[a-z][A-Za-z0-9]{1,20}|[A-Z][A-Za-z]{0,15}[+#]{1,2}(?!\w))"
    r"|(?P<numbered>[A-Z][A-Za-z]{0,15}-?\d{1,4}[A-Za-z]?(?!\d))"
    r")(?![\w@/\\-]|\.\w)"
)
# Packages and programs, not the identifiers of a program.
_TICKED = re.compile(r"`([A-Za-z][A-Za-z0-9+#]*(?:-[A-Za-z0-9+#]+)*)`")
# Book titles, and what stands in corner brackets unless somebody says it there or it is a sentence.
_TITLED = re.compile(
    "[\u300a\u3008]([^\u300a\u300b\u3008\u3009\n]{1,30})[\u300b\u3009]"
    "|(?<![\uff1a:,\uff0c\u8aaa\u8bf4\u9053\u554f\u95ee\u7b54\u8a00])[\u300c\u300e]"
    "([^\u300c\u300d\u300e\u300f\u3001\u3002\uff0c\uff01\uff1f\u3041-\u309f\n]{1,12})[\u300d\u300f]"
)
_NOT_NAMES = TITLES | STOP_WORDS
_NEVER = CALENDAR | STOP_WORDS | ABBREVIATED_SPEECH
_NOT_OPENING = OPENERS | STOP_WORDS
_SPEECH_WORDS = frozenset(
    {"user", "human", "assistant", "ai", "bot", "me", "i", "you", "system", "customer", "speaker"}
)

_FIRST_PERSON = re.compile(
    r"(?:(?:and|so|yes|well|oh),? )?I(?='m |'ve |\u2019m |\u2019ve | )(?:['\u2019](?:m|ve))?", re.IGNORECASE
)
_VERBS = (
    (re.compile(r" (?:now |currently )?works? (?:at|for) (?:the )?"), "works_at"),
    (re.compile(r" (?:now |currently )?lives? in (?:the )?"), "lives_in"),
    (re.compile(r" (?:has |have )?moved to (?:the )?"), "lives_in"),
    (re.compile(r" (?:was|is) born in (?:the )?"), "born_in"),
    (re.compile(r" (?:is |am |was )?married(?: to)? "), "married_to"),
    (re.compile(r" (?:co-?)?founded (?:the )?"), "founded"),
)
# Behind one word: a rank or a part of something, as in "Director of" and "Week 3".
_PART = re.compile(r" of | ?#?\d")
_HINT_BEHIND = re.compile(r" ((?:since|from|until|in|on) [^,;.!?]{1,40})")
_NOT_STATED = re.compile(
    r"\b(?:if|would|could|might|may|whether|wish|hope|not|never)\b|\?\s*$", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class KnownName:
    """An entity that is stored already: how it is shown and what it is."""

    name: str
    type: EntityType


@dataclass(frozen=True, slots=True)
class _Mention:
    start: int
    end: int
    name: str
    type: EntityType = EntityType.CONCEPT

    @property
    def key(self) -> str:
        return canonical(self.name)


def candidate_names(text: str) -> list[str]:
    """The canonical forms of whatever in this text may be the name of a stored entity, for looking them up."""
    found: dict[str, None] = {}
    for sentence in sentences(text):
        for _, _, written in _candidates(sentence):
            found.setdefault(canonical(written))
            if len(found) >= _MAX_CANDIDATES:
                return list(found)
    return list(found)


def extract(
    reading: Reading, *, known: Mapping[str, KnownName] | None = None, typed_relations: bool = False
) -> Extraction:
    """The names in a text and what stands together in it; `known` are stored names by canonical form."""
    seen, speaker = _seen_inside(reading), _speaker(reading)
    entities: dict[str, FoundEntity] = {}
    edges: list[FoundEdge] = []
    for sentence in sentences(reading.text):
        mentions = _mentions(sentence, known or {}, seen)
        named = {mention.key: mention for mention in mentions}
        for key, mention in named.items():
            entities.setdefault(key, FoundEntity(mention.name, mention.type))
        evidence = f"{speaker}: {sentence}" if speaker else sentence
        if typed_relations:
            edges += _typed(sentence, mentions, speaker, evidence, reading.said_at)
        edges += _together(list(named.values()), speaker, evidence)
    if speaker and entities:
        # First, so that no limit cuts off whom everything here is related to.
        entities = {canonical(speaker): FoundEntity(speaker, EntityType.PERSON)} | {
            key: entity for key, entity in entities.items() if key != canonical(speaker)
        }
    return Extraction(LOCAL_EXTRACTOR, tuple(entities.values()), tuple(edges))


# ---- names -----------------------------------------------------------------------------------------------------


def _mentions(sentence: str, known: Mapping[str, KnownName], seen: frozenset[str]) -> list[_Mention]:
    """The names in a sentence in order, the longer of two that overlap."""
    found = [*_known(sentence, known), *_code_like(sentence), *_titled(sentence), *_proper(sentence, seen)]
    chosen: list[_Mention] = []
    for mention in sorted(found, key=lambda it: (it.start - it.end, it.start)):
        if all(mention.end <= other.start or mention.start >= other.end for other in chosen):
            chosen.append(mention)
    return sorted(chosen, key=lambda it: it.start)


def _known(sentence: str, known: Mapping[str, KnownName]) -> Iterator[_Mention]:
    if not known:
        return
    for start, end, written in _candidates(sentence):
        entity = known.get(canonical(written))
        if entity is not None and _same_form(written, entity.name):
            yield _Mention(start, end, entity.name, entity.type)


def _same_form(written: str, stored: str) -> bool:
    """Whether a stored name is meant: one word that is a name by its capital must be written with it (Mark, mark)."""
    return " " in written or written != written.lower() or stored == stored.lower() or not written.isalpha()


def _candidates(sentence: str) -> Iterator[tuple[int, int, str]]:
    """Runs of up to four words that neither begin nor end with a stop word, and all parts of unspaced runs."""
    words = list(_SPACED.finditer(_spaced(sentence)))
    spans = [(word.start(), word.end() - len(word[0]) + len(_trimmed(word[0]))) for word in words]
    empty = [word[0].lower() in STOP_WORDS or not _trimmed(word[0]) for word in words]
    for at in range(len(words)):
        for last in range(at, min(at + _LONGEST_KNOWN_WORDS, len(words))):
            if not empty[at] and not empty[last]:
                yield spans[at][0], spans[last][1], sentence[spans[at][0] : spans[last][1]]
    for run in _UNSPACED_RUN.finditer(sentence):
        for size in range(2, _LONGEST_KNOWN_SIGNS + 1):
            for start in range(run.start(), run.end() - size + 1):
                yield start, start + size, sentence[start : start + size]


def _spaced(sentence: str) -> str:
    """The sentence with blanks in place of scripts that are written without them."""
    return _UNSPACED_RUN.sub(lambda run: " " * len(run[0]), sentence)


def _trimmed(word: str) -> str:
    if _DOTTED.fullmatch(word):
        return word
    return _COMPOUND.sub("", _POSSESSIVE.sub("", word.rstrip(".'\u2019*_`")))


def _code_like(sentence: str) -> Iterator[_Mention]:
    kinds = {"file": EntityType.FILE, "config": EntityType.CONFIG, "dotted": EntityType.TOOL}
    for found in _CODE_LIKE.finditer(sentence):
        kind = kinds.get(found.lastgroup or "", EntityType.CONCEPT)
        yield _Mention(found.start(), found.end(), found[0], _language(found[0]) or kind)
    for found in _TICKED.finditer(sentence):
        if any(char in "-+#" or char.isdigit() or char.isupper() for char in found[1]):
            yield _Mention(found.start(), found.end(), found[1], _language(found[1]) or EntityType.TOOL)


def _titled(sentence: str) -> Iterator[_Mention]:
    for found in _TITLED.finditer(sentence):
        yield _Mention(found.start(), found.end(), (found[1] or found[2]).strip())


def _proper(sentence: str, seen: frozenset[str]) -> Iterator[_Mention]:
    """The names that capitals tell, where capitals tell names."""
    spaced = _spaced(sentence)
    words = list(_WORD.finditer(spaced))
    if _is_heading(spaced, words):
        return
    # The first word has its capital anyway, unless the sentence is of a script that has none.
    first = words[0].start() if words and spaced == sentence else -1
    german = _share(words, GERMAN) > _share(words, STOP_WORDS)
    for run in _runs(spaced, words):
        kept = run[_without_opener(run, seen) :] if run[0].start() == first else run
        yield from _names(spaced, kept, at_least=2 if german else 1)


def _runs(text: str, words: Sequence[re.Match[str]]) -> Iterator[list[re.Match[str]]]:
    """Capitalised words with one blank between them, and the small words of names between two of them."""
    run: list[re.Match[str]] = []
    small: list[re.Match[str]] = []
    for word in words:
        last = (small or run or [word])[-1]
        if run and text[last.end() : word.start()] not in {" ", " & "}:
            yield run
            run, small = [], []
        # After two words of a name it is the first of several: World War I.
        if _is_capitalised(word[0]) or (word[0] == "I" and len(run) > 1 and not small):
            run, small = [*run, *small, word], []
        elif run and _joins([*run, *small], word[0]):
            small.append(word)
        elif run:
            yield run
            run, small = [], []
    if run:
        yield run


def _joins(run: Sequence[re.Match[str]], word: str) -> bool:
    """Whether this small word may go on with a name."""
    if word in CONNECTORS:
        return True
    last = run[-1][0].lower()
    return last in {"of", "for"} if word == "the" else word in {"of", "for"} and last in GROUP_HEADS


def _without_opener(run: Sequence[re.Match[str]], seen: frozenset[str]) -> int:
    """How many words at the beginning of a sentence are capitalised for that alone."""
    word = _trimmed(run[0][0])
    if _folded(run[0][0]) in _NOT_OPENING or word.lower() in OPENERS:
        return 1
    if len(run) == _PAIR and word.endswith("ing") and word.lower() not in seen:
        # "Learning German" is about German.
        return 1
    certain = len(run) > 1 or word.lower() in seen or (word.isupper() and len(word) > 1)
    return 0 if certain else 1


def _names(text: str, run: Sequence[re.Match[str]], *, at_least: int) -> Iterator[_Mention]:
    words = list(run)
    titled = False
    while words and (_folded(words[0][0]).rstrip(".") in _NOT_NAMES or not _is_capitalised(words[0][0])):
        titled = titled or words[0][0].lower().rstrip(".") in TITLES
        words = words[1:]
    if len(words) < at_least or all(_trimmed(word[0]).lower() in _NEVER for word in words):
        return
    start, end = words[0].start(), words[-1].end() - len(words[-1][0]) + len(_trimmed(words[-1][0]))
    name = text[start:end]
    if len(name) == 1 or (len(words) == 1 and (name.lower() in OPENERS or _PART.match(text, end))):
        return
    yield _Mention(start, end, name, EntityType.PERSON if titled else _type(name))


def _type(name: str) -> EntityType:
    words = name.lower().split()
    is_group = words[-1].rstrip(".") in GROUP_WORDS or (len(words) > 2 and words[0] in GROUP_WORDS)
    return EntityType.ORGANIZATION if is_group else _language(name) or EntityType.CONCEPT


def _folded(word: str) -> str:
    return word.lower().replace("\u2019", "'")


def _language(name: str) -> EntityType | None:
    return EntityType.LANGUAGE if name.lower() in LANGUAGES else None


def _is_capitalised(word: str) -> bool:
    """Whether this may be a word of a name. "I" and what is made of it is not."""
    return word[0].isupper() and not _I.fullmatch(word)


def _is_heading(text: str, words: Sequence[re.Match[str]]) -> bool:
    """Whether capitals tell nothing here: shouted sentences, and titles in which every word has one."""
    telling = [word[0] for word in words if _folded(word[0]) not in STOP_WORDS]
    if len(words) >= _SHOUTED and sum(word[0].isupper() for word in words) > _SHARE_OF_CAPITALS * len(words):
        return True
    return (
        len(telling) >= _LEAST_HEADING
        and all(_is_capitalised(word) for word in telling)
        and not re.search(r"[,;.!?]", text)
    )


def _share(words: Sequence[re.Match[str]], listed: frozenset[str]) -> int:
    return sum(_folded(word[0]) in listed for word in words)


def _seen_inside(reading: Reading) -> frozenset[str]:
    """Words with a capital in the middle of a sentence, here or just before: names at the beginning of one as well."""
    seen: set[str] = set(_words_of(reading.speaker or ""))
    for text in (reading.text, *reading.context):
        for sentence in sentences(text):
            words = list(_WORD.finditer(_spaced(sentence)))
            if not _is_heading(sentence, words) and _share(words, GERMAN) <= _share(words, STOP_WORDS):
                seen.update(_trimmed(word[0]).lower() for word in words[1:] if _is_capitalised(word[0]))
    return frozenset(seen - STOP_WORDS - OPENERS)


def _words_of(name: str) -> list[str]:
    return [word[0].lower() for word in _WORD.finditer(name)]


def _speaker(reading: Reading) -> str | None:
    name = " ".join((reading.speaker or "").split())
    return name if name and canonical(name) not in _SPEECH_WORDS else None


# ---- relations -------------------------------------------------------------------------------------------------


def _together(mentions: Sequence[_Mention], speaker: str | None, evidence: str) -> Iterator[FoundEdge]:
    """What stands in one sentence, and who says it. Names in alphabetical order: the relation has no direction."""
    every = combinations(mentions, 2) if len(mentions) <= _ALL_PAIRS else pairwise(mentions)
    pairs = [(one.name, other.name) for one, other in every]
    if speaker:
        pairs += [(speaker, mention.name) for mention in mentions if mention.key != canonical(speaker)]
    for pair in pairs:
        source, target = sorted(pair, key=canonical)
        yield FoundEdge(source, target, CO_OCCURRENCE, evidence, CO_OCCURRENCE_CONFIDENCE)


def _typed(
    sentence: str, mentions: Sequence[_Mention], speaker: str | None, evidence: str, said_at: int
) -> Iterator[FoundEdge]:
    """Relations of sentences that say nothing else, such as "Ann works at Acme"."""
    if _NOT_STATED.search(sentence):
        return
    for target in mentions:
        before = sentence[: target.start]
        subjects = [(mention.name, mention.end) for mention in mentions if mention.end < target.start]
        first_person = _FIRST_PERSON.match(before)
        if speaker and first_person:
            subjects.append((speaker, first_person.end()))
        for name, end in subjects:
            relation = next((key for verb, key in _VERBS if verb.fullmatch(before, end)), None)
            if relation is not None:
                hint = _HINT_BEHIND.match(sentence, target.end)
                period = (read_hint(hint[1], said_at) if hint else None) or Period()
                dates = (period.valid_from, period.valid_to)
                yield FoundEdge(name, target.name, relation, evidence, TYPED_CONFIDENCE, *dates)
