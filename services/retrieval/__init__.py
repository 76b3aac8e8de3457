"""Pure ranking: query analysis, score fusion."""
