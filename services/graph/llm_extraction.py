"""Reading a text for the graph by a language model: asked once, structured if possible, each reply kept until it is used."""

from __future__ import annotations

from dataclasses import dataclass, replace

from services import errors
from services.graph.gate import Limits
from services.graph.models import Extraction
from services.graph.parser import read_extraction
from services.graph.prompt import extraction_request
from services.graph.texts import Reading
from services.language.recorded import Form, RecordedModel, ReplyDatabase
from services.ports import Clock, LanguageModel

# Keys, permissions, addresses: the same for every text.
_HOPELESS = frozenset({401, 403, 404})


@dataclass(frozen=True, slots=True)
class Found:
    """What was read from a text, the kept replies it came from, and what was paid for it in this run."""

    extraction: Extraction
    reply_keys: tuple[str, ...] = ()
    prompt_tokens: int = 0
    completion_tokens: int = 0


class LlmExtractor:
    """Asks a language model what a text states."""

    def __init__(
        self,
        database: ReplyDatabase,
        model: LanguageModel,
        clock: Clock,
        *,
        limits: Limits | None = None,
        timeout_seconds: float = 15.0,
    ) -> None:
        self.label = f"llm:{model.identity}"
        self._model = RecordedModel(database, model)
        self._clock = clock
        self._limits = limits or Limits()
        self._timeout = timeout_seconds

    def extract(self, reading: Reading, *, namespace: str) -> Found:
        """What the text states, not yet admitted. Both questions together take no longer than the configured time.

        Raises what the model raises, and ReplyUnusable for a reply that nobody can read.
        """
        request = extraction_request(reading, self._limits, timeout_seconds=self._timeout)

        def read(reply: str) -> Extraction:
            return read_extraction(reply, extractor=self.label, said_at=reading.said_at)

        answer, keys = self._model.ask_both_ways(
            Form(request, read),
            Form(replace(request, schema=None), read),
            namespace=namespace,
            seconds=self._timeout,
            clock=self._clock,
        )
        return Found(answer.value, keys, answer.prompt_tokens, answer.completion_tokens)


def is_hopeless(error: errors.MemoryError) -> bool:
    """Whether the model refuses for a reason that no other text changes."""
    return isinstance(error, errors.ModelRejected) and error.status in _HOPELESS
