"""Our own language model behind the cache."""

from __future__ import annotations

from services.cache.models import CacheRequest
from services.cache.service import ResponseCache
from services.ports import ChatReply, ChatRequest, LanguageModel


class CachedModel:
    """A language model whose replies are kept for others who ask the same in the same namespace.

    Its cache must be one without semantic match: two conversations are not one because they are alike.
    """

    def __init__(self, model: LanguageModel, cache: ResponseCache) -> None:
        self._model = model
        self._cache = cache

    @property
    def identity(self) -> str:
        """That of the model behind it."""
        return self._model.identity

    def complete(self, request: ChatRequest) -> ChatReply:
        """See LanguageModel. A cached reply costs no tokens; errors and cut-off replies are never cached."""
        if request.namespace is None:
            return self._model.complete(request)
        asked = CacheRequest(
            self._model.identity,
            [{"role": "user", "content": request.user}],
            system=request.system,
            sampling={"max_tokens": request.max_tokens, "schema": request.schema},
        )
        if request.fresh:
            self._cache.invalidate(asked, namespace=request.namespace)
        replies: list[ChatReply] = []

        def ask() -> str:
            replies.append(self._model.complete(request))
            return replies[0].text

        text = self._cache.through(asked, ask, namespace=request.namespace)
        return replies[0] if replies else ChatReply(text)

    def close(self) -> None:
        """Store the counts of the cache, and close what the model holds."""
        self._cache.close()
        close = getattr(self._model, "close", None)
        if close is not None:
            close()
