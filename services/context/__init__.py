"""The context that an agent is given for a question: quotations from everything remembered, within a token budget."""
