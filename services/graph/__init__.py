"""Graph memory: entities, the facts between them on two clocks, and the communities they form."""
