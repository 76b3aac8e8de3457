"""The `zeph` command."""
