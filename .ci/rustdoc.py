"""What is public in a crate, as rustdoc says it (`--output-format json`)."""

import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# The format is not stable; these have all that is read here.
FORMAT_VERSIONS = range(45, 100)
# What a path can lead to, but for modules.
NAMED = ("struct", "enum", "union", "trait", "function", "type_alias")


def document(package, target_dir, *words):
    """The path of the crate's page, made with cargo's `words`."""
    # The compiler that builds for a target may be another, with other flags; rustdoc is this one.
    environment = {name: value for name, value in os.environ.items()
                   if name not in ("RUSTC", "RUSTFLAGS", "LD_LIBRARY_PATH")
                   and not name.startswith("CARGO_UNSTABLE")}
    environment.update(RUSTC_BOOTSTRAP="1", CARGO_TARGET_DIR=target_dir)
    subprocess.run(
        ["cargo", "rustdoc", "--quiet", "--locked", "--lib", *words, "-p", package, "--", "-Z",
         "unstable-options", "--output-format", "json", "--cap-lints", "allow"],
        cwd=ROOT, env=environment, check=True)
    return os.path.join(target_dir, "doc", package.replace("-", "_") + ".json")


class Crate:
    """`public` is every item that a user can name: identifier -> path."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.doc = json.load(file)
        if self.doc["format_version"] not in FORMAT_VERSIONS:
            sys.exit(f"{path}: rustdoc's format {self.doc['format_version']} is not known here")
        self.index = self.doc["index"]
        self.name = self.index[str(self.doc["root"])]["name"]
        self.public = {}
        self.walk(self.doc["root"], self.name)

    def item(self, identifier):
        return self.index.get(str(identifier))

    def walk(self, identifier, path):
        """Names what a module makes public, through re-exports."""
        for child in self.item(identifier)["inner"]["module"]["items"]:
            item = self.item(child)
            if item is None or item["visibility"] != "public":
                continue
            kind, inner = next(iter(item["inner"].items()))
            name = item["name"]
            if kind == "use":
                child, name = inner["id"], inner["name"]
                item = self.item(child)
                if item is None or item["crate_id"] != 0:
                    continue  # another crate's, which has a page of its own
                kind = next(iter(item["inner"]))
                if inner["is_glob"]:
                    if kind == "module":
                        self.walk(child, path)
                    continue
            full = f"{path}::{name}"
            if child in self.public:
                continue
            if kind == "module":
                self.walk(child, full)
            elif kind in NAMED:
                self.public[child] = full

    def impls(self):
        """Every impl written or derived in the crate."""
        for identifier in sorted(self.index, key=int):
            item = self.index[identifier]
            impl = item["inner"].get("impl")
            if item["crate_id"] == 0 and impl is not None and not impl["is_synthetic"] \
                    and not impl["blanket_impl"]:
                yield impl
