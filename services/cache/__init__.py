"""The response cache: language model calls that were made before are answered from the database."""
