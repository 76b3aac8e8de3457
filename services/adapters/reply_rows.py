"""The SQL of kept model replies."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

from services.adapters.tables import model_replies as r
from services.ports import ChatReply, Clock


class SqlReplyRows:
    """Implements `services.language.recorded.ReplyRows` on one connection."""

    def __init__(self, connection: sa.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    def find(self, namespace: str, key: str) -> ChatReply | None:
        """See ReplyRows."""
        row = self._connection.execute(
            sa.select(r).where(r.c.namespace == namespace, r.c.key == key, r.c.reply != "")
        ).first()
        return ChatReply(row.reply, row.prompt_tokens, row.completion_tokens) if row else None

    def keep(self, namespace: str, key: str, model: str, reply: ChatReply) -> None:
        """See ReplyRows."""
        # No column takes halves of surrogate pairs, and no reader needs them.
        text = reply.text.encode("utf-8", "replace").decode()
        self._put(
            namespace,
            key,
            model=model,
            reply=text,
            prompt_tokens=reply.prompt_tokens,
            completion_tokens=reply.completion_tokens,
            unusable=0,
        )

    def reject(self, namespace: str, key: str, model: str, replies: int = 1) -> None:
        """See ReplyRows. The text goes: what there is to know of it is in the job's error."""
        self._put(
            namespace, key, model=model, reply="", prompt_tokens=0, completion_tokens=0, unusable=replies
        )

    def unusable(self, namespace: str, keys: Sequence[str]) -> int:
        """See ReplyRows."""
        mine = (r.c.namespace == namespace, r.c.key.in_(list(keys)), r.c.reply == "")
        found = sa.select(sa.func.coalesce(sa.func.sum(r.c.unusable), 0)).where(*mine)
        return int(self._connection.execute(found).scalar_one())

    def forget(self, namespace: str, key: str) -> None:
        """See ReplyRows."""
        self._connection.execute(sa.delete(r).where(r.c.namespace == namespace, r.c.key == key))

    def purge(self, *, before: int) -> int:
        """See ReplyRows."""
        return self._connection.execute(sa.delete(r).where(r.c.created_at < before)).rowcount

    def _put(self, namespace: str, key: str, *, unusable: int, **values: str | int) -> None:
        row = {"namespace": namespace, "key": key, "created_at": self._clock.now(), **values}
        counted = {**values, "created_at": row["created_at"], "unusable": r.c.unusable + unusable}
        self._connection.execute(
            insert(r)
            .values(**row, unusable=unusable)
            .on_conflict_do_update(index_elements=["namespace", "key"], set_=counted)
        )
