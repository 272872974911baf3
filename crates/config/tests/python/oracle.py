"""Runs one command line of a Hydra application inside this process and says what came of it.

The real `hydra-core` does all the work: the argument parser, `_run_hydra`, the sweeper and the launcher are its own.
Only what would make two runs differ is replaced: the clock, the environment and the place of the application file.
An application here is `<root>/app.py` with `@hydra.main(version_base="1.3", config_path="conf", config_name="config")`,
started in `<root>`.
"""

import contextlib
import copy
import datetime
import io
import json
import logging
import os
import random
import sys
import warnings
from pathlib import Path

import hydra.core.utils as core_utils
from hydra import version
from hydra._internal import hydra as hydra_module
from hydra._internal import utils as hydra_utils
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins

# What every case sees of the world, unless it says otherwise.
NOW = datetime.datetime(2026, 3, 5, 14, 7, 9, 123456)
ENVIRONMENT = {"HOME": "/srv/home", "USER": "user", "PROJECT_ROOT": "/srv/project"}
ROOT_TOKEN = "{ROOT}"
# Tables are as wide as the paths in them, and long texts fold: every application has a path of the same length.
ROOT_LENGTH = 96


class FrozenDatetime(datetime.datetime):
    """`datetime.datetime` whose present never moves."""

    @classmethod
    def now(cls, tz=None):
        return NOW


def install():
    """Makes Hydra repeatable; call once, before `run`."""
    core_utils.datetime = FrozenDatetime
    version.setbase("1.3")
    # Hydra prints a report and exits where the exception itself is wanted.
    raise_as_is = lambda function: function()  # noqa: E731
    hydra_utils.run_and_report = raise_as_is
    hydra_module.run_and_report = raise_as_is
    warnings.simplefilter("ignore")
    keep_packaged_configs()


def keep_packaged_configs():
    """Reads the files in Hydra's own package once; every application gets copies. A third of the time goes there."""
    Plugins.instance()
    source = sys.modules["hydra._internal.core_plugins.importlib_resources_config_source"]
    load, kept = source.ImportlibResourcesConfigSource.load_config, {}

    def load_config(self, config_path):
        if (self.path, config_path) not in kept:
            kept[self.path, config_path] = load(self, config_path)
        return copy.deepcopy(kept[self.path, config_path])

    source.ImportlibResourcesConfigSource.load_config = load_config


def root_in(parent):
    """A path below `parent` that is `ROOT_LENGTH` characters long."""
    parent = os.path.realpath(parent)
    return Path(parent) / ("r" * (ROOT_LENGTH - len(parent) - 1))


def task(_config):
    """The application: it does nothing."""


def run(root, args, env=None, kind=None):
    """The outcome of `python app.py ARGS` in `root`.

    One of `{"stdout": text}`, `{"files": {path: text}}` (a run or a multirun), `{"jobs": [[override]]}` (kind `jobs`)
    or `{"error": {"chain": [class names], "message": text}}`. The path of `root` reads `{ROOT}` everywhere.
    """
    root = os.path.realpath(root)
    before = {path for path in Path(root).rglob("*")}
    saved_cwd, saved_env = os.getcwd(), dict(os.environ)
    jobs = []
    try:
        os.chdir(root)
        os.environ.clear()
        os.environ.update(ENVIRONMENT)
        os.environ.update(env or {})
        stdout = io.StringIO()
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(io.StringIO()):
            if kind == "jobs":
                with recorded_jobs(jobs):
                    call_hydra(root, args)
            else:
                call_hydra(root, args)
    except BaseException as error:  # noqa: BLE001 - a rejection of any class is the result
        if isinstance(error, (KeyboardInterrupt, MemoryError)):
            raise
        return {"error": describe(error, root)}
    finally:
        os.chdir(saved_cwd)
        os.environ.clear()
        os.environ.update(saved_env)
        forget()
    if kind == "jobs":
        return {"jobs": jobs}
    if any(arg.split("=")[0] in ("--cfg", "-c", "--info", "-i") for arg in args):
        return {"stdout": stdout.getvalue().replace(root, ROOT_TOKEN)}
    return {"files": written_files(root, before)}


def call_hydra(root, args):
    parser = hydra_utils.get_args_parser()
    hydra_utils.detect_calling_file_or_module_from_task_function = lambda _: (os.path.join(root, "app.py"), None)
    random.seed(0)
    hydra_utils._run_hydra(
        args=parser.parse_args(args),
        args_parser=parser,
        task_function=task,
        config_path="conf",
        config_name="config",
    )


@contextlib.contextmanager
def recorded_jobs(jobs):
    """Keeps the override lists of the jobs instead of running them."""
    # The search for plugins imports the module anew, so the class in use is not the one imported at the top of a file.
    Plugins.instance()
    launcher = sys.modules["hydra._internal.core_plugins.basic_launcher"].BasicLauncher
    original = launcher.launch

    def launch(self, job_overrides, initial_job_idx):
        jobs.extend(list(overrides) for overrides in job_overrides)
        return []

    launcher.launch = launch
    try:
        yield
    finally:
        launcher.launch = original


def forget():
    """Removes what one application leaves in this process for the next."""
    GlobalHydra.instance().clear()
    HydraConfig.instance().cfg = None
    for handler in list(logging.getLogger().handlers):
        logging.getLogger().removeHandler(handler)
        handler.close()
    # A run may have set levels and, by `disable_existing_loggers`, silenced the logger that `--info` writes to.
    logging.getLogger().setLevel(logging.WARNING)
    for logger in logging.getLogger().manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.disabled = False
            logger.setLevel(logging.NOTSET)


def describe(error, root):
    """The classes of an exception and of its causes, and the first message among them."""
    chain, message, current = [], "", error
    while current is not None:
        chain.append(type(current).__name__)
        message = message or str(current).strip()
        current = current.__cause__
    return {"chain": chain, "message": message.replace(root, ROOT_TOKEN)}


def written_files(root, before):
    """Texts of the files that a run left behind; logs are not part of the contract."""
    files = {}
    for path in sorted(Path(root).rglob("*")):
        if path.is_file() and path not in before and path.suffix != ".log":
            files[str(path.relative_to(root))] = path.read_text().replace(root, ROOT_TOKEN)
    return files


def read_case(folder):
    """The arguments, environment and kind of a case."""
    case = json.loads((Path(folder) / "case.json").read_text())
    return case["args"], case.get("env", {}), case.get("kind")


if __name__ == "__main__":
    install()
    print(json.dumps(run(os.getcwd(), sys.argv[1:]), indent=1))
