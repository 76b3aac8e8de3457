"""Scores the detection of corrections on labelled messages.

A set is a file of gzipped JSON lines. A row has a `message` with the turn before it as `previous`, and as `correction`
true, false or null where nobody can say; or it has a `disfluent` question, whose asker corrects himself and nobody else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from services import errors
from services.corrections.detector import FeedbackDetector
from services.corrections.models import CorrectionKind
from services.evaluation.datasets import rows


@dataclass(frozen=True, slots=True)
class DetectionScores:
    """What was found in a set. Shares are in [0, 1], None where there is nothing to divide by.

    `kinds` maps the kinds of the labels to (found, all), `detected` counts what was found by the detector's kinds.
    """

    name: str
    messages: int
    corrections: int
    found: int
    false_alarms: int
    precision: float | None
    recall: float | None
    false_alarm_rate: float | None
    kinds: dict[str, tuple[int, int]]
    detected: dict[str, int]


def evaluate(detector: FeedbackDetector, folder: Path) -> list[DetectionScores]:
    """The scores of every set in a folder. Raises InputError when there is none."""
    files = sorted(folder.glob("*.jsonl.gz"))
    if not files:
        raise errors.InputError(f"{folder} has no *.jsonl.gz: name a folder with sets of labelled messages")
    return [_evaluate(detector, path) for path in files]


def _evaluate(detector: FeedbackDetector, path: Path) -> DetectionScores:
    kinds: Counter[tuple[str, bool]] = Counter()
    detected: Counter[str] = Counter()
    counts: Counter[tuple[bool, bool]] = Counter()
    for message, previous, label, kind in _labelled(path):
        signal = detector.detect(message, answer=previous)
        # In a question the asker puts himself right, which is no correction of anybody's answer.
        hit = signal is not None and (
            kind != "disfluent" or signal.kind is not CorrectionKind.SELF_CORRECTION
        )
        counts[label, hit] += 1
        detected.update([] if signal is None else [signal.kind.value])
        if label:
            kinds[kind, hit] += 1
    found, missed = counts[True, True], counts[True, False]
    alarms, silent = counts[False, True], counts[False, False]
    return DetectionScores(
        path.name.partition(".")[0],
        messages=counts.total(),
        corrections=found + missed,
        found=found,
        false_alarms=alarms,
        precision=_share(found, found + alarms),
        recall=_share(found, found + missed),
        false_alarm_rate=_share(alarms, alarms + silent),
        kinds={
            name: (kinds[name, True], kinds[name, True] + kinds[name, False])
            for name in sorted({name for name, _ in kinds})
        },
        detected=dict(sorted(detected.items())),
    )


def _labelled(path: Path) -> Iterator[tuple[str, str, bool, str]]:
    """(message, turn before, whether it is a correction, kind) of the rows that somebody could label."""
    for row in rows(path):
        try:
            yield from _read(row)
        except KeyError as error:
            raise errors.InputError(f"{path} is no set of labelled messages: a row lacks {error}") from error


def _read(row: dict[str, Any]) -> Iterator[tuple[str, str, bool, str]]:
    if "disfluent" in row:
        yield row["disfluent"], "", False, "disfluent"
    elif row["correction"] is not None:
        yield row["message"], row["previous"], row["correction"], str(row.get("kind") or "correction")


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
