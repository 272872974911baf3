"""Random Hydra applications: a config directory, a command line, and the names of the features in them.

Most of what is made is valid, so that Hydra accepts well over half; mistakes come in on purpose, a few at a time.
"""

import json
import random

import scalars

GROUPS = ["db", "model", "model/arch", "server", "opt", "a-b", "g/h/k", "Data"]
OPTIONS = ["x", "y", "big.v2", "fast-1", "small_2", "z3"]
KEYS = ["a", "b", "c", "lr", "size", "name", "path", "n_1", "k-e", "on", "Zed", "opts", "inner", "$d"]
PACKAGES = ["pkg", "out.inner", "a", "_global_", "_here_", "_group_", "_name_", "_group_._name_", "_global_.top"]
HEADERS = ["_global_", "_group_", "foo", "foo.bar", "_name_", "_group_._name_", "db"]


def case(seed, number):
    """Case `number` of a seed: (case, features)."""
    maker = Maker(random.Random(f"{seed}/{number}"))
    made = maker.make()
    return made, sorted(maker.features)


class Maker:
    def __init__(self, rng):
        self.rng = rng
        self.features = set()
        self.files = {}
        # Keys that the composed config most likely has, and those of the option files by (group, option).
        self.paths = []
        self.option_paths = {}
        self.groups = {}
        self.subgroups = {}
        self.defaults = []
        self.args = []
        self.env = {}

    def chance(self, probability):
        return self.rng.random() < probability

    def use(self, feature):
        self.features.add(feature)

    def make(self):
        self.mistakes = self.chance(0.22)
        body = self.body("", self.rng.randint(2, 6))
        for group in self.rng.sample(GROUPS, self.rng.choice([0, 1, 1, 2, 2, 3, 4])):
            self.group(group)
        self.primary(body)
        if self.chance(0.12):
            self.search_path()
        kind = self.command()
        return {
            "files": self.files,
            "args": self.args,
            "env": self.env,
            "kind": kind,
        }

    # --- the config directory

    def group(self, group):
        options = self.rng.sample(OPTIONS, self.rng.randint(1, 3))
        self.groups[group] = options
        for option in options:
            header, package = "", group.replace("/", ".")
            if self.chance(0.15):
                chosen = self.rng.choice(HEADERS)
                header = f"# @package {chosen}\n"
                self.use("package header")
                if not chosen.startswith("_"):
                    package = chosen
                elif chosen == "_global_":
                    package = ""
            lines = self.nested_defaults(group) if self.chance(0.3) else ""
            body, self.option_paths[group, option] = self.file_body(package)
            self.files[f"conf/{group}/{option}.yaml"] = header + lines + body

    def file_body(self, package):
        """The text of a config that is perhaps not chosen, and its keys."""
        known = len(self.paths)
        text = self.body(package, 1)
        own = self.paths[known:]
        del self.paths[known:]
        return text, own

    def nested_defaults(self, group):
        self.use("nested defaults")
        items = []
        draw = self.rng.random()
        if draw < 0.35:
            self.files[f"conf/{group}/base.yaml"] = self.file_body(group.replace("/", "."))[0]
            items.append("- base")
            self.use("config by name")
        elif draw < 0.65:
            sub = self.rng.choice(["sub", "part"])
            for option in ("one", "two"):
                self.files[f"conf/{group}/{sub}/{option}.yaml"] = self.file_body(f"{group}.{sub}".replace("/", "."))[0]
            self.subgroups[f"{group}/{sub}"] = ["one", "two"]
            at = self.at_package()
            items.append(f"- {sub}{at}: one")
            self.use("relative group")
        elif draw < 0.9:
            other = self.rng.choice(list(self.groups))
            if other != group:
                at = "@" + self.rng.choice(["nested", "_here_", "_global_.deep", "_here_.x"])
                items.append(f"- /{other}{at}: {self.rng.choice(self.groups[other])}")
                self.use("absolute group")
        if not items:
            items.append("- _self_")
            self.use("_self_")
        elif self.chance(0.5):
            items.insert(self.rng.randint(0, len(items)), "- _self_")
            self.use("_self_")
        return "defaults:\n" + "".join(f"  {item}\n" for item in items)

    def at_package(self):
        if not self.chance(0.25):
            return ""
        self.use("@package")
        return "@" + self.rng.choice(PACKAGES)

    def primary(self, body):
        items, chosen = [], []
        for group, options in list(self.groups.items()):
            if self.chance(0.15):
                continue
            at = self.at_package()
            option = self.rng.choice(options)
            draw = self.rng.random()
            if draw < 0.07:
                option = f"[{', '.join(options)}]"
                self.use("list of options")
            elif draw < 0.1:
                option = "null"
                self.use("null option")
            elif draw < 0.13:
                option = "???"
                self.use("missing option")
            elif draw < 0.18 and chosen and not at:
                other = self.rng.choice(chosen)
                option = "${" + other + "}"
                for name in OPTIONS:
                    self.files.setdefault(f"conf/{group}/{name}.yaml", self.file_body(group.replace("/", "."))[0])
                self.use("interpolated option")
            prefix = ""
            if self.chance(0.1):
                prefix = "optional "
                self.use("optional")
                if self.chance(0.4):
                    option = "absent"
            slash = "/" if self.chance(0.05) else ""
            items.append(f"- {prefix}{slash}{group}{at}: {option}")
            if not at and option in options:
                self.paths += self.option_paths.get((group, option), [])
                chosen.append(group)
            self.defaults.append((f"{group}{at}", group))
        if self.chance(0.1):
            self.files["conf/common.yaml"] = self.file_body("")[0]
            items.append("- common" + self.rng.choice(["", "@shared", ".yaml"]))
            self.use("config by name")
        if items and self.chance(0.7):
            items.insert(self.rng.randint(0, len(items)), "- _self_")
            self.use("_self_")
        if self.defaults and self.chance(0.08):
            key, group = self.rng.choice(self.defaults)
            items.append(f"- override {key}: {self.rng.choice(self.groups[group])}")
            self.use("override keyword")
        if self.chance(0.06):
            items.append("- override hydra/job_logging: " + self.rng.choice(["none", "disabled", "stdout"]))
            self.use("hydra group")
        if self.mistakes and items and self.chance(0.15):
            items.append(self.rng.choice(["- nothing: here", "- _self_", "- db: x", "- absent", "- 5"]))
            self.use("mistake in defaults")
        defaults = "defaults:\n" + "".join(f"  {item}\n" for item in items) if items else ""
        if self.chance(0.12):
            body += self.hydra_body()
        if self.mistakes and self.chance(0.1):
            body += self.rng.choice(["a: [1\n", "dup: 1\ndup: 2\n", "q: @x\n", "bad: ${\n", "t:\n\tx: 1\n", "w: {a: 1, a: 2}\n"])
            self.use("mistake in YAML")
        self.files["conf/config.yaml"] = defaults + body

    def hydra_body(self):
        self.use("hydra in primary")
        return self.rng.choice(
            [
                "hydra:\n  job:\n    name: mine\n",
                "hydra:\n  run:\n    dir: out/${now:%Y-%m-%d}\n",
                "hydra:\n  sweep: {dir: s, subdir: '${hydra.job.num}'}\n",
                "hydra:\n  output_subdir: null\n  verbose: [a, b]\n",
                "hydra:\n  job:\n    env_set: {A: 1}\n    chdir: yes\n",
                "hydra:\n  job: {config: {override_dirname: {exclude_keys: [a], kv_sep: '-'}}}\n",
            ]
        )

    def body(self, package, count):
        """YAML for one config; its keys are remembered as paths from the root."""
        text = ""
        for key in self.rng.sample(KEYS, count + self.rng.randint(0, 2)):
            path = f"{package}.{key}" if package else key
            text += f"{self.key_text(key)}: " + self.value(path, 0)
        if self.chance(0.06):
            text += self.anchors(package)
        return text

    def key_text(self, key):
        if key == "on":
            self.use("boolean key")
        return f"'{key}'" if self.chance(0.05) else key

    def value(self, path, depth):
        """A value and its line end; block collections are indented for `depth`."""
        draw = self.rng.random()
        pad = "  " * (depth + 1)
        if draw < 0.14 and depth < 3:
            self.use("nested mapping")
            text = "\n"
            for key in self.rng.sample(KEYS, self.rng.randint(1, 3)):
                text += f"{pad}{self.key_text(key)}: " + self.value(f"{path}.{key}", depth + 1)
            return text
        if draw < 0.2 and depth < 3:
            self.use("block list")
            items = [self.flow(1) for _ in range(self.rng.randint(1, 3))]
            self.remember(path)
            return "\n" + "".join(f"{pad}- {item}\n" for item in items)
        if draw < 0.28:
            self.use("flow collection")
            self.remember(path)
            return self.flow(2) + "\n"
        if draw < 0.42 and self.paths:
            text = self.interpolation(path)
            self.remember(path)
            return text + "\n"
        if draw < 0.45:
            self.use("??? value")
            self.remember(path)
            return self.rng.choice(["???", "'???'"]) + "\n"
        if draw < 0.48:
            self.use("block scalar")
            self.remember(path)
            style = self.rng.choice(["|", ">", "|-", ">-", "|+"])
            lines = "".join(f"{pad}{self.rng.choice(['one', 'two words', '# three', 'x: y', '  deeper'])}\n" for _ in range(2))
            return f"{style}\n{pad}first\n{lines}"
        self.remember(path)
        return self.scalar() + "\n"

    def remember(self, path):
        # A key `on` is the boolean true, which no path can name.
        if "on" not in path.split("."):
            self.paths.append(path)

    def scalar(self):
        kind, text = scalars.yaml(self.rng)
        self.use(kind)
        return text

    def flow(self, depth):
        draw = self.rng.random()
        if depth == 0 or draw < 0.5:
            _, text = scalars.yaml_flow(self.rng)
            return text
        if draw < 0.75:
            return "[" + ", ".join(self.flow(depth - 1) for _ in range(self.rng.randint(0, 3))) + "]"
        keys = self.rng.sample(["p", "q", "r", "1", "s t"], self.rng.randint(0, 3))
        return "{" + ", ".join(f"{key}: {self.flow(depth - 1)}" for key in keys) + "}"

    def anchors(self, package):
        self.use("anchors and merge keys")
        prefix = f"{package}." if package else ""
        self.paths += [f"{prefix}base1.p", f"{prefix}use1.p"]
        return self.rng.choice(
            [
                "base1: &b1 {p: 1, q: two}\nuse1:\n  <<: *b1\n  q: 3\n",
                "base1: &b1 {p: 1}\nuse1: *b1\n",
                "base1: &b1 {p: 1}\nbase2: &b2 {p: 2, z: 0}\nuse1:\n  r: 1\n  <<: [*b1, *b2]\n",
                "base1: &s text\nuse1: [*s, *s]\n",
            ]
        )

    def interpolation(self, path):
        target = self.rng.choice(self.paths)
        if self.mistakes and self.chance(0.1):
            target = self.rng.choice(["nothing", "a.b.c.d", path])
            self.use("broken interpolation")
        draw = self.rng.random()
        if draw < 0.4:
            self.use("interpolation")
            return "${" + target + "}"
        if draw < 0.6:
            self.use("interpolation in text")
            return self.rng.choice(["pre-${%s}-post", "'${%s} ${%s}'", "\"q ${%s}\"", "x${%s}${oc.env:USER}"]).replace("%s", target)
        if draw < 0.72:
            common = [p for p in self.paths if p.rpartition(".")[0] == path.rpartition(".")[0] and p != path]
            if common:
                self.use("relative interpolation")
                return "${." + self.rng.choice(common).rpartition(".")[2] + "}"
            up = "." * (path.count(".") + 1)
            self.use("relative interpolation")
            return "${" + up + target + "}"
        if draw < 0.78:
            self.use("escaped interpolation")
            return self.rng.choice(["'\\${%s}'", "'\\\\${%s}'", "'x \\${y} ${%s}'"]).replace("%s", target)
        if draw < 0.82:
            self.use("nested interpolation")
            return "${oc.select:${oc.env:NOPE,%s},7}" % target
        self.use("resolver")
        return self.rng.choice(
            [
                "${oc.env:USER}", "${oc.env:NOPE,3}", "${oc.env:NOPE,'a, b'}", "${oc.env:NOPE,null}",
                "${oc.decode:'5'}", "${oc.decode:${oc.env:NOPE,'1.5'}}", f"${{oc.select:{target}}}", f"${{oc.select:{target},d}}",
                "${oc.select:nothing,9}", "\"${oc.create:{p: 1, q: [x]}}\"", "'${oc.create:[1, 2]}'",
                f"${{oc.deprecated:{target}}}", "${hydra:job.name}", "${hydra:runtime.cwd}", "${hydra:job.override_dirname}",
                "${now:%Y-%m-%d_%H-%M-%S}", "${now:%f}", "dir/${now:%j}", "${oc.env:HOME}/data",
            ]
        )

    def search_path(self):
        """A second directory on the search path."""
        self.use("search path")
        group = self.rng.choice(list(self.groups) or ["db"])
        self.files[f"extra/{group}/more.yaml"] = self.file_body(group.replace("/", "."))[0]
        self.groups.setdefault(group, []).append("more")
        draw = self.rng.random()
        if draw < 0.4:
            self.args += ["--config-dir", "extra"]
        elif draw < 0.7:
            self.args += ["hydra.searchpath=[" + self.rng.choice(["extra", "file://extra"]) + "]"]
        elif "hydra:" not in self.files["conf/config.yaml"]:
            self.files["conf/config.yaml"] += "hydra:\n  searchpath: [extra]\n"

    # --- the command line

    def command(self):
        draw = self.rng.random()
        flags = [flag for flag in self.args if not flag.startswith("hydra.")]
        overrides = [flag for flag in self.args if flag.startswith("hydra.")]
        overrides += [self.override() for _ in range(self.rng.choice([0, 1, 1, 2, 2, 3, 4]))]
        kind = None
        if draw < 0.14:
            self.use("sweep")
            kind = "jobs"
            flags += ["-m"]
            overrides += [self.sweep() for _ in range(self.rng.choice([1, 1, 2]))]
            self.rng.shuffle(overrides)
        elif draw < 0.2:
            self.use("--info")
            flags += ["--info", self.rng.choice(["defaults", "defaults-tree", "config", "searchpath"])]
        elif draw < 0.28:
            self.use("--cfg hydra")
            flags += ["--cfg", "hydra", "-p", self.rng.choice(["hydra.job", "hydra.runtime", "hydra.run", "hydra.overrides", "hydra"])]
        elif draw < 0.34:
            self.use("files of a run")
            if self.chance(0.4):
                self.use("files of a multirun")
                flags += ["-m"]
                # Files of jobs in a random order cannot be compared.
                overrides += [self.sweep(without="shuffle")]
        elif draw < 0.37:
            self.use("--cfg all")
            flags += ["--cfg", "all"]
        else:
            flags += ["--cfg", "job"]
            if self.chance(0.35):
                self.use("--resolve")
                flags += ["--resolve"]
            if self.paths and self.chance(0.1):
                self.use("--package")
                path = self.rng.choice(self.paths)
                flags += ["--package", path.rpartition(".")[0] or path]
        self.args = flags + overrides
        return kind

    def override(self):
        draw = self.rng.random()
        path = self.rng.choice(self.paths) if self.paths else "a"
        if self.mistakes and self.chance(0.15):
            self.use("mistake in override")
            return self.rng.choice([f"{path}", f"{path}=a;b", f"{path}=[1", f"{path}='x", f"nothing.{path}=1", f"~nothing", f"{path}=1,2", f"{path}=f(1)", f"{path}={{a}}", f"++db=x", f"+{path}=1", "=", f"{path}=é"])
        if draw < 0.18 and self.defaults:
            key, group = self.rng.choice(self.defaults)
            self.use("group override")
            return f"{key}={self.rng.choice(self.groups[group])}"
        if draw < 0.2 and self.subgroups:
            group = self.rng.choice(list(self.subgroups))
            self.use("nested group override")
            return f"{group}={self.rng.choice(self.subgroups[group])}"
        if draw < 0.24 and self.groups:
            group = self.rng.choice(list(self.groups))
            self.use("group append")
            at = "@" + self.rng.choice(["extra", "p.q", "_global_"]) if self.chance(0.8) else ""
            return f"+{group}{at}={self.rng.choice(self.groups[group])}"
        if draw < 0.26 and self.defaults:
            self.use("group deletion")
            return "~" + self.rng.choice(self.defaults)[0]
        if draw < 0.33:
            self.use("deletion")
            return f"~{path}"
        if draw < 0.38:
            self.use("hydra override")
            return self.rng.choice(["hydra.job.name=n", "hydra.verbose=true", "hydra.run.dir=d/${a}", "hydra.job.chdir=false", "hydra/job_logging=none", "+hydra.job.env_set.X=1"])
        kind, value = scalars.override(self.rng, self.paths)
        self.use(kind)
        if draw < 0.5:
            self.use("append")
            return f"+{self.rng.choice([f'new{self.rng.randint(0, 9)}', 'new.deep.er', path + '.new', 'x1.y'])}={value}"
        if draw < 0.65:
            self.use("force append")
            return f"++{self.rng.choice([path, 'fresh', path + '.sub'])}={value}"
        self.use("value override")
        return f"{path}={value}"

    def sweep(self, without=None):
        path = self.rng.choice(self.paths) if self.paths else "+a"
        if self.chance(0.5):
            path = "+s" + str(self.rng.randint(0, 1))
        if self.defaults and self.chance(0.3):
            key, group = self.rng.choice(self.defaults)
            self.use("group sweep")
            return f"{key}=" + self.rng.choice(["glob(*)", "glob([x,y],exclude=y)", ",".join(self.groups[group]), "glob(*,exclude=b*)"])
        values = [scalars.override(self.rng, self.paths)[1] for _ in range(2)]
        plain = [str(self.rng.randint(-5, 20)) for _ in range(3)]
        forms = ["simple", "choice", "range", "sort", "shuffle", "tag", "cast", "float range"]
        form = self.rng.choice([form for form in forms if form != without])
        self.use(f"{form} sweep")
        text = {
            "simple": ",".join(values),
            "choice": f"choice({','.join(values)})",
            "range": self.rng.choice(["range(3)", "range(1,4)", "range(5,0,-2)", "range(start=0,stop=4,step=2)"]),
            "float range": self.rng.choice(["range(0,1,0.3)", "range(0.5,2.5)", "range(1.0,0,-0.4)", "range(0,0.5,0.1)"]),
            "sort": self.rng.choice([f"sort({','.join(plain)})", f"sort({','.join(plain)},reverse=true)", "sort(c,a,b)", "sort(range(3,0,-1))", "sort(choice(2,1))"]),
            "shuffle": self.rng.choice([f"shuffle({','.join(plain)})", "shuffle(range(1,4))", "shuffle(choice(a,b))"]),
            "tag": self.rng.choice(["tag(t,choice(1,2))", "tag(a,b,range(2))"]),
            "cast": self.rng.choice(["int(choice(1.5,'2'))", "float(1,2)", "str(1,a)", "float(range(1,3))", "bool(0,1)"]),
        }[form]
        return f"{path}={text}"


if __name__ == "__main__":
    import sys

    print(json.dumps(case(sys.argv[1], int(sys.argv[2])), indent=1))
