#!/bin/sh
# Links of models: models/bootstrap.sh --yes
cd "$(dirname "$0")/.." && exec llmprof bootstrap models "$@"
