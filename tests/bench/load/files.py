"""L5: 1,000 files of 50 MB (700 of text, 200 of Markdown, 100 PDF), read by two worker processes."""

from __future__ import annotations

import io
import random
import time
from collections.abc import Callable
from pathlib import Path

from services.documents.models import Outcome
from services.documents.report import batch_progress
from tests.bench.bench_recall import speaker
from tests.bench.load.installation import drained, installation, outcome, working
from tests.bench.load.measuring import MIB, Figure, Sampler, children, command, count, resident
from tests.builders import rows, submit
from tests.services.harness import Stack, wait_until

TEXTS, MARKDOWNS, PDFS = 700, 200, 100
BYTES_PER_FILE, _BYTES_PER_WORD, _LINES_PER_PAGE = 50_000, 8, 50
_WINDOWS = "SELECT coalesce(sum(windows), 0) FROM chunk_embeddings"
_BARE = "SELECT count(*) FROM chunks WHERE id NOT IN (SELECT chunk_id FROM chunk_embeddings)"


def run(scale: float, folder: Path) -> list[Figure]:
    files = folder / "files"
    number, size = write(files, scale)
    with installation(folder / "stack") as stack:
        container = stack.container
        working(stack)
        peaks: dict[str, int] = {}
        began = time.monotonic()
        with Sampler({"memory": lambda: _note_peaks(stack, peaks)}, every_seconds=0.5):
            batch = submit(container, files)

            def done() -> bool:
                return batch_progress(container.database, batch, "default").finished

            wait_until(done, "every file is stored with its vectors", seconds=1_800, pause=0.2)
        seconds = time.monotonic() - began
        drained(stack, seconds=300)
        outcomes = batch_progress(container.database, batch, "default").outcomes
        with container.database.read() as unit:
            spaces = [each.physical for each in unit.collections.all()]
        return [
            Figure(f"{number:,} files of {size / 1e6:.1f} MB", seconds, "s", 360),
            *(Figure(f"memory of one {kind}, most", most / MIB, "MiB", 700) for kind, most in peaks.items()),
            *count("files stored", outcomes.get(Outcome.STORED, 0), number),
            Figure("chunks", rows(container, "SELECT count(*) FROM chunks")[0][0]),
            *count("chunks without a vector", rows(container, _BARE)[0][0]),
            *count("vectors", sum(map(container.vectors.count, spaces)), rows(container, _WINDOWS)[0][0]),
            *outcome(stack),
        ]


def _note_peaks(stack: Stack, peaks: dict[str, int]) -> float:
    """The largest memory so far of each kind of process, whether it still runs or not."""
    for pid in (each for parent in stack.left_behind() for each in (parent, *children(parent))):
        kind = "parser" if "parsing" in command(pid) else "worker"
        peaks[kind] = max(peaks.get(kind, 0), resident(pid, "VmHWM"))
    return max(peaks.values(), default=0)


# ---- the files ---------------------------------------------------------------------------------------------------


def write(folder: Path, scale: float) -> tuple[int, int]:
    """Make the files, the same each time; how many, and their bytes."""
    folder.mkdir(parents=True)
    say = speaker(random.Random(5))
    kinds: dict[str, tuple[Callable[[str], bytes], int]] = {
        "txt": (_text, TEXTS),
        "md": (_markdown, MARKDOWNS),
        "pdf": (_pdf, PDFS),
    }
    for suffix, (form, number) in kinds.items():
        for each in range(max(2, round(number * scale))):
            words = say(BYTES_PER_FILE // _BYTES_PER_WORD)
            (folder / f"{each:04}.{suffix}").write_bytes(form(words))
    sizes = [path.stat().st_size for path in folder.iterdir()]
    return len(sizes), sum(sizes)


def _lines(words: str, per_line: int) -> list[str]:
    each = words.split()
    return [" ".join(each[at : at + per_line]).capitalize() + "." for at in range(0, len(each), per_line)]


def _text(words: str) -> bytes:
    return "\n\n".join(_lines(words, 60)).encode()


def _markdown(words: str) -> bytes:
    """A section every twenty lines: a heading, paragraphs, a list, a fence."""
    parts = []
    for number, line in enumerate(_lines(words, 12)):
        form = ("\n## {}\n", "\n```\n{}\n```\n", "\n{}")[
            0 if number % 20 == 0 else 1 if number % 20 == 10 else 2
        ]
        parts.append(form.format(line) if number % 20 < 15 else f"\n- {line}")
    return "".join(parts).encode()


def _pdf(words: str) -> bytes:
    from reportlab.pdfgen.canvas import Canvas

    buffer = io.BytesIO()
    canvas = Canvas(buffer, invariant=1, pageCompression=0)
    for number, line in enumerate(_lines(words, 10)):
        if number and number % _LINES_PER_PAGE == 0:
            canvas.showPage()
        canvas.drawString(50, 800 - 15 * (number % _LINES_PER_PAGE), line)
    canvas.save()
    return buffer.getvalue()
