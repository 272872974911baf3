#!/bin/sh
# Links of models and datasets, as their bootstrap.yaml files declare them: ./bootstrap.sh --yes
cd "$(dirname "$0")" && exec llmprof bootstrap all "$@"
