"""Times Hydra's `compose` on a config directory: prints one JSON line with the seconds of each call.

    python hydra_compose.py CONFIG_DIR CONFIG_NAME CALLS
"""

import json
import sys
import time

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

directory, name, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
seconds = []
with initialize_config_dir(version_base="1.3", config_dir=directory):
    for _ in range(calls):
        start = time.perf_counter()
        text = OmegaConf.to_yaml(compose(config_name=name))
        seconds.append(time.perf_counter() - start)
print(json.dumps({"seconds": seconds, "bytes": len(text.encode())}))
