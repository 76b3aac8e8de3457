"""Conversation data sets, and scoring recall on them by the same calls that users make.

Each set keeps its own layout; all are gzipped JSON lines. Search is limited to what the set demands: one conversation,
and in RealMem only what was said before the question.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean, median
from typing import Any

from services import errors
from services.evaluation.datasets import rows
from services.evaluation.metrics import ndcg_at, recall_at, reciprocal_rank
from services.ids import ConversationId
from services.memory.models import MessageFilter, NewMessage, Role
from services.memory.recall import Recall
from services.memory.service import SemanticMemory
from services.times import stored

CUTOFFS = (5, 10, 20, 50)
SESSION_CUTOFFS = (5, 10)
# Hits of one session are many: so deep, ten sessions are surely among them.
_DEPTH = 100


@dataclass(frozen=True, slots=True)
class Turn:
    """A message with the names that the set's judgements use."""

    label: str
    session: str
    message: NewMessage


@dataclass(frozen=True, slots=True)
class Question:
    """A query, and what must come: turns, sessions or both. `now` is when it is asked, microseconds."""

    conversation: str
    text: str
    category: str
    turns: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()
    now: int | None = None


@dataclass(frozen=True, slots=True)
class ConversationSet:
    """Turns by conversation, in order, and the questions about them."""

    turns: Mapping[str, Sequence[Turn]]
    questions: Sequence[Question]


@dataclass(frozen=True, slots=True)
class RecallScores:
    """Means over all questions, and over those of each category. `milliseconds` is the median time of one recall."""

    mode: str
    questions: int
    metrics: dict[str, float]
    categories: dict[str, dict[str, float]]
    milliseconds: float


def load_conversation_set(name: str, folder: Path) -> ConversationSet:
    """Read a set of one of the known layouts. Raises InputError when the folder is not such a set."""
    try:
        return SETS[name](folder)
    except FileNotFoundError as error:
        raise errors.InputError(
            f"{folder} is no {name} data set: {Path(error.filename).name} is missing"
        ) from error
    except KeyError as error:
        raise errors.InputError(f"{folder} is no {name} data set: a row lacks {error}") from error


def store(memory: SemanticMemory, data: ConversationSet, *, namespace: str) -> dict[int, Turn]:
    """Remember every turn that is not remembered yet; message id -> turn. Vectors are made by the job ledger."""
    by_id: dict[int, Turn] = {}
    for key, turns in data.turns.items():
        messages = [replace(turn.message, import_key=turn.label) for turn in turns]
        memory.remember_many(key, messages, namespace=namespace)
        stored = memory.history(key, limit=len(turns), namespace=namespace)
        by_id |= {message.id: turn for message, turn in zip(stored, turns, strict=True)}
    return by_id


def evaluate(
    recall: Recall,
    data: ConversationSet,
    turns: Mapping[int, Turn],
    conversations: Mapping[str, ConversationId],
    modes: Sequence[str],
    *,
    namespace: str,
) -> list[RecallScores]:
    """Ask every question in every mode; `routed` lets the router choose."""
    return [_evaluate(recall, data, turns, conversations, mode, namespace) for mode in modes]


def _evaluate(
    recall: Recall,
    data: ConversationSet,
    turns: Mapping[int, Turn],
    conversations: Mapping[str, ConversationId],
    mode: str,
    namespace: str,
) -> RecallScores:
    found: list[tuple[str, dict[str, float]]] = []
    times: list[float] = []
    for question in data.questions:
        where = MessageFilter(conversations[question.conversation], before=question.now)
        last = data.turns[question.conversation][-1].message.created_at or 0
        started = time.perf_counter()
        answer = recall.recall(
            question.text,
            namespace=namespace,
            limit=_DEPTH,
            where=where,
            mode=None if mode == "routed" else mode,
            now=question.now or last + 1,
        )
        times.append(time.perf_counter() - started)
        found.append((question.category, _metrics([turns[hit.message.id] for hit in answer.hits], question)))
    every = [metrics for _, metrics in found]
    categories = {
        name: _means([metrics for category, metrics in found if category == name])
        for name in sorted({category for category, _ in found})
    }
    return RecallScores(mode, len(found), _means(every), categories, 1_000 * median(times))


def _metrics(hits: Sequence[Turn], question: Question) -> dict[str, float]:
    metrics: dict[str, float] = {}
    if question.turns:
        ranked, graded = [turn.label for turn in hits], dict.fromkeys(question.turns, 1)
        metrics |= {f"recall@{k}": recall_at(ranked, graded, k) for k in CUTOFFS}
        metrics |= {"ndcg@10": ndcg_at(ranked, graded, 10), "mrr": reciprocal_rank(ranked, graded)}
    if question.sessions:
        ranked, graded = (
            list(dict.fromkeys(turn.session for turn in hits)),
            dict.fromkeys(question.sessions, 1),
        )
        metrics |= {f"session@{k}": recall_at(ranked, graded, k) for k in SESSION_CUTOFFS}
    return metrics


def _means(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for metrics in found for name in metrics)
    return {name: fmean(metrics[name] for metrics in found if name in metrics) for name in names}


# ---- layouts ---------------------------------------------------------------------------------------------------


def _locomo(folder: Path) -> ConversationSet:
    """Two people, dated sessions; evidence is turns."""
    turns: dict[str, list[Turn]] = {}
    for row in rows(folder / "turns.jsonl.gz"):
        listed = turns.setdefault(row["conv_id"], [])
        start = datetime.strptime(row["session_datetime"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
        text = row["text"] + (f" [shares {row['blip_caption']}]" if row.get("blip_caption") else "")
        at = _microseconds(start, seconds=len(listed))
        message = NewMessage(Role.USER, text, speaker=row["speaker"], created_at=at)
        listed.append(Turn(row["dia_id"], str(row["session"]), message))
    questions = []
    for row in rows(folder / "questions.jsonl.gz"):
        known = {turn.label: turn for turn in turns[row["conv_id"]]}
        # Some evidence is written as "D8:6; D9:17", and some names no turn.
        named = [label for text in row["evidence"] for label in re.findall(r"D\d+:\d+", text)]
        evidence = frozenset(label for label in named if label in known)
        if evidence:
            sessions = frozenset(known[label].session for label in evidence)
            questions.append(
                Question(row["conv_id"], row["question"], str(row["category"]), evidence, sessions)
            )
    return ConversationSet(turns, questions)


def _realmem(folder: Path) -> ConversationSet:
    """A user and an assistant, dated sessions; evidence is sessions before the question's own."""
    turns: dict[str, list[Turn]] = {}
    starts: dict[tuple[str, int], int] = {}
    for row in rows(folder / "turns.jsonl.gz"):
        person, session = row["conv_id"], row["session"]
        day = datetime.strptime(row["date"][:10], "%Y-%m-%d").replace(tzinfo=UTC)
        same_day = [
            start for (who, _), start in starts.items() if who == person and start >= _microseconds(day)
        ]
        # Sessions have no time of day: those of one day follow each other with two hours between.
        start = starts.setdefault(
            (person, session), max(same_day, default=_microseconds(day)) + _microseconds_of(hours=2)
        )
        role = Role(row["role"])
        speaker = person.partition("_")[0] if role is Role.USER else None
        at = start + _microseconds_of(seconds=row["turn"])
        message = NewMessage(role, row["text"], speaker=speaker, created_at=at)
        turns.setdefault(person, []).append(
            Turn(f"{row['session_uuid']}:{row['turn']}", row["session_uuid"], message)
        )
    questions = [
        Question(
            row["conv_id"],
            row["question"],
            "all",
            sessions=frozenset(row["evidence_sessions"]),
            now=starts[row["conv_id"], row["session"]],
        )
        for row in rows(folder / "questions.jsonl.gz")
        if row["evidence_sessions"]
    ]
    return ConversationSet(turns, questions)


def _beam(folder: Path) -> ConversationSet:
    """A user and an assistant, long answers; evidence is messages."""
    turns: dict[str, list[Turn]] = {}
    anchors: dict[str, datetime] = {}
    for row in rows(folder / "turns.jsonl.gz"):
        chat = row["conv_id"]
        if row["time_anchor"]:
            anchors[chat] = datetime.strptime(row["time_anchor"], "%B-%d-%Y").replace(tzinfo=UTC)
        listed = turns.setdefault(chat, [])
        at = _microseconds(anchors[chat], seconds=60 * len(listed))
        message = NewMessage(Role(row["role"]), row["text"], created_at=at)
        listed.append(Turn(str(row["turn_id"]), str(row["batch"]), message))
    questions = []
    for row in rows(folder / "questions.jsonl.gz"):
        known = {turn.label for turn in turns[row["conv_id"]]}
        evidence = known.intersection(map(str, _flat(row["evidence"])))
        if evidence:
            questions.append(Question(row["conv_id"], row["question"], row["type"], frozenset(evidence)))
    return ConversationSet(turns, questions)


def _madial(folder: Path) -> ConversationSet:
    """Dated memories; the query is the dialogue so far."""
    turns = []
    for row in rows(folder / "memories_en.jsonl.gz"):
        day = datetime.strptime(row["time"], "%Y-%m-%d").replace(tzinfo=UTC)
        message = NewMessage(Role.USER, row["event"], created_at=_microseconds(day))
        turns.append(Turn(str(row["memory_id"]), str(row["memory_id"]), message))
    questions = [
        Question(
            "memories",
            " ".join(re.sub(r'^<[^>]*>: ?"?|"$', "", said) for said in row["context"]),
            "all",
            frozenset(map(str, row["relevant"])),
        )
        for row in rows(folder / "queries_en.jsonl.gz")
    ]
    return ConversationSet({"memories": turns}, questions)


SETS: Mapping[str, Callable[[Path], ConversationSet]] = {
    "locomo": _locomo,
    "realmem": _realmem,
    "beam": _beam,
    "madial": _madial,
}


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _flat(part)
    else:
        yield value


def _microseconds(moment: datetime, *, seconds: int = 0) -> int:
    return stored(moment) + _microseconds_of(seconds=seconds)


def _microseconds_of(**units: float) -> int:
    return timedelta(**units) // timedelta(microseconds=1)
