"""Keep every summary that tells a key fact, so that the fact goes with the last of them and not with the first.

Revision ID: 0002
Revises: 0001

Of facts that were told again before, only the first is known.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: None = None
depends_on: None = None


def upgrade() -> None:
    op.create_table(
        "key_fact_sources",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key_fact_id", sa.Integer(), nullable=False),
        sa.Column("summary_id", sa.Integer(), nullable=False),
        sa.Column("fact", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["key_fact_id"],
            ["key_facts.id"],
            name=op.f("fk_key_fact_sources_key_fact_id_key_facts"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["summary_id"],
            ["summaries.id"],
            name=op.f("fk_key_fact_sources_summary_id_summaries"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_key_fact_sources")),
        sa.UniqueConstraint(
            "key_fact_id", "summary_id", name=op.f("uq_key_fact_sources_key_fact_id_summary_id")
        ),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_key_fact_sources_summary_id"), "key_fact_sources", ["summary_id"])
    op.execute(
        "INSERT INTO key_fact_sources(key_fact_id, summary_id, fact) "
        "SELECT id, summary_id, fact FROM key_facts ORDER BY id"
    )


def downgrade() -> None:
    op.drop_table("key_fact_sources")
