"""The job ledger: why nothing that was accepted is lost."""
