"""Entry point: `python DIRECTORY` runs the worker."""

from llmprof_worker.server import main

if __name__ == "__main__":
    main()
