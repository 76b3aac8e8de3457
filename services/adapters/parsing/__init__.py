"""Reading hostile files in a child process with hard limits."""
