"""A worker of llmprof on torch and transformers. `docs/worker-protocol.md` says what it is asked and what it answers."""
