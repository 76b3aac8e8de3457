"""Language models, for whoever asks them: how untrusted text goes in, and how unreliable text comes out."""
