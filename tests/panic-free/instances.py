#!/usr/bin/env python3
"""Writes the Rust source that takes the address of every public function of a crate.

Usage: instances.py RUSTDOC_JSON... > instances.rs

Reads what rustdoc says is public (`--output-format json`): functions, inherent methods, and the
methods of every trait impl on a public type, with the provided ones of the crate's own traits.
A generic function is instantiated once for each row of FOR_BOUND; one whose arguments cannot be
named by type alone stands in BY_HAND. What fits neither ends the run with its name, so nothing
public is left out unsaid.

Left out on purpose: `core::fmt` and `defmt` (formatting machinery is not ours to prove),
`core::error::Error` (provided methods only), and blanket impls of other crates.
"""

import itertools
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", ".ci"))
from rustdoc import Crate  # noqa: E402

# What a type parameter with that bound is instantiated with.
FOR_BOUND = {
    "Crc32": ["roce_crc::Crc", "roce_crc::SmallTable", "roce_crc::NibbleTable"],
    "Hasher": ["crate::Sum"],
}
# Functions that take a closure: {C} is a type of FOR_BOUND["Crc32"].
BY_HAND = {
    "roce_codec::FrameBuilder::emit_with": """
        (|builder: &roce_codec::FrameBuilder, len: usize, out: &mut [u8]| {{
            builder.emit_with::<{C}, usize>(len, out, |room, icrc| {{
                icrc.update(room);
                room.len()
            }})
        }}) as fn(&roce_codec::FrameBuilder, usize, &mut [u8]) -> _ as *const ()""",
    "roce_codec::TransportBuilder::emit": """
        (|builder: &roce_codec::TransportBuilder<'_>, network, out: &mut [u8]| {{
            builder.emit::<{C}, usize>(network, out, |room, icrc| {{
                icrc.update(room);
                room.len()
            }})
        }}) as fn(&roce_codec::TransportBuilder<'_>, roce_codec::icrc::Network, &mut [u8]) -> _
            as *const ()""",
}
# Traits whose methods are not instantiated: by the first two parts of their path, or whole.
EXCLUDED_TRAITS = {"core::fmt", "core::error", "core::marker"}
OUR_CRATES = {"roce_crc", "roce_codec"}


class Unnamed(Exception):
    """What the tables above say nothing about."""


class Names(Crate):
    """A crate whose types can be written down."""

    def type_path(self, identifier, written):
        """A path to a type or trait, of this crate or another."""
        if identifier in self.public:
            return self.public[identifier]
        summary = self.doc["paths"].get(str(identifier))
        if summary is None or summary["crate_id"] == 0:
            raise Unnamed(f"{written}, a type that no public path leads to")
        parts = summary["path"]
        # Re-exported there: core::hash::Hash, core::ops::arith::Add, core::net::ip_addr::IpAddr.
        return "::".join(parts if len(parts) < 3 else [parts[0], parts[1], parts[-1]])

    def render(self, type_, generics):
        """A type as Rust writes it, its parameters replaced, its lifetimes left to rustc."""
        kind, inner = next(iter(type_.items()))
        if kind == "primitive":
            return "!" if inner == "never" else inner
        if kind == "generic":
            return generics[inner]
        if kind == "tuple":
            return "(" + "".join(self.render(part, generics) + ", " for part in inner) + ")"
        if kind == "slice":
            return f"[{self.render(inner, generics)}]"
        if kind == "array":
            return f"[{self.render(inner['type'], generics)}; {inner['len']}]"
        if kind == "borrowed_ref":
            mutable = "mut " if inner["is_mutable"] else ""
            return f"&{mutable}{self.render(inner['type'], generics)}"
        if kind == "resolved_path":
            path = self.type_path(inner["id"], inner["path"])
            return path + self.render_args(inner["args"], generics)
        raise Unnamed(f"a type of kind {kind}")

    def render_args(self, args, generics):
        if not args or "angle_bracketed" not in args:
            return ""
        words = []
        for arg in args["angle_bracketed"]["args"]:
            if "lifetime" in arg:
                words.append("'_")
            elif "type" in arg:
                words.append(self.render(arg["type"], generics))
            else:
                raise Unnamed("a constant parameter")
        return f"<{', '.join(words)}>" if words else ""

    def choices(self, generics):
        """Every way to fill the type parameters: [{name: type}]. And the names, in order."""
        wanted = {}
        for param in generics["params"]:
            if "lifetime" in param["kind"]:
                continue
            if "const" in param["kind"]:
                raise Unnamed(f"the constant parameter {param['name']}")
            wanted[param["name"]] = list(param["kind"]["type"]["bounds"])
        for predicate in generics["where_predicates"]:
            bound = predicate.get("bound_predicate")
            if bound and "generic" in bound["type"] and bound["type"]["generic"] in wanted:
                wanted[bound["type"]["generic"]] += bound["bounds"]
        rows = []
        for name, bounds in wanted.items():
            traits = [bound["trait_bound"]["trait"]["path"].split("::")[-1]
                      for bound in bounds if "trait_bound" in bound]
            known = [FOR_BOUND[trait] for trait in traits if trait in FOR_BOUND]
            if not known:
                raise Unnamed(f"the parameter {name}: {' + '.join(traits) or 'no bound'}")
            rows.append([(name, type_) for type_ in known[0]])
        return [dict(row) for row in itertools.product(*rows)], list(wanted)


def returns_iterator(function):
    """Whether it returns `impl Iterator`, whose `next` is then to be instantiated too."""
    output = function["sig"]["output"] or {}
    if "impl_trait" not in output:
        return False
    for bound in output["impl_trait"]:
        if bound.get("trait_bound", {}).get("trait", {}).get("path", "").endswith("Iterator"):
            return True
    raise Unnamed("what it returns")


def instances(function, crate, path, prefix):
    """Expressions of type `*const ()`, one for each choice of the function's own parameters."""
    if path in BY_HAND:
        return [BY_HAND[path].format(C=type_) for type_ in FOR_BOUND["Crc32"]]
    choices, names = crate.choices(function["generics"])
    found = []
    for choice in choices:
        turbofish = f"::<{', '.join(choice[name] for name in names)}>" if names else ""
        value = prefix + turbofish
        if returns_iterator(function):
            found.append(f"crate::drain{len(function['sig']['inputs'])}({value})")
        else:
            found.append(f"{value} as *const ()")
    return found


def check_named(crate, type_):
    """Ends the run if a signature has a type of ours that no public path leads to: its methods
    would be left out."""
    if isinstance(type_, list):
        for part in type_:
            check_named(crate, part)
    elif isinstance(type_, dict):
        if "id" in type_ and "path" in type_:
            crate.type_path(type_["id"], type_["path"])
        for part in type_.values():
            check_named(crate, part)


def functions_of(crate):
    """(path for people, prefix for Rust, function) of everything public."""
    for identifier, path in sorted(crate.public.items()):
        item = crate.item(identifier)
        if "function" in item["inner"]:
            yield path, [path], item["inner"]["function"]
    for impl in crate.impls():
        yield from functions_of_impl(crate, impl)


def functions_of_impl(crate, impl):
    local = impl["for"].get("resolved_path")
    if local and crate.doc["paths"].get(str(local["id"]), {}).get("crate_id") == 0 \
            and local["id"] not in crate.public:
        return  # a private type
    trait = impl["trait"]
    methods = [crate.item(method) for method in impl["items"]]
    if trait:
        trait_path = crate.type_path(trait["id"], trait["path"])
        if trait_path in EXCLUDED_TRAITS or "::".join(trait_path.split("::")[:2]) in EXCLUDED_TRAITS:
            return
        own = crate.item(trait["id"])
        if own:
            methods = [crate.item(method) for method in own["inner"]["trait"]["items"]]
    methods = [method for method in methods if method and "function" in method["inner"]]
    if not trait:
        methods = [method for method in methods if method["visibility"] == "public"]
    if not methods:
        return
    if trait and trait_path.split("::")[0] not in OUR_CRATES | {"core", "alloc", "std"}:
        raise Unnamed(f"{trait_path} is a trait of a crate that is not ours")
    choices, _ = crate.choices(impl["generics"])
    for method in methods:
        prefixes = []
        for choice in choices:
            type_ = crate.render(impl["for"], choice)
            if trait:
                args = crate.render_args(trait["args"], choice)
                prefixes.append(f"<{type_} as {trait_path}{args}>::{method['name']}")
            else:
                prefixes.append(f"<{type_}>::{method['name']}")
        if trait:
            path = prefixes[0]
        else:
            path = f"{crate.public.get(local['id']) if local else type_}::{method['name']}"
        yield path, prefixes, method["inner"]["function"]


def main():
    arms, paths, unnamed = [], [], []
    for argument in sys.argv[1:]:
        crate = Names(argument)
        for path, prefixes, function in functions_of(crate):
            try:
                check_named(crate, function["sig"])
                found = [expression for prefix in prefixes
                         for expression in instances(function, crate, path, prefix)]
            except Unnamed as what:
                unnamed.append(f"{path}: {what}")
                continue
            paths.append(path)
            arms += [(path, expression) for expression in found]
    if unnamed:
        sys.exit("\n".join(unnamed + ["instances.py: add a row to FOR_BOUND or BY_HAND"]))
    print(f"// {len(paths)} public functions, {len(arms)} instances.")
    print("fn instance(index: usize) -> *const () {\n    match index {")
    for index, (path, expression) in enumerate(arms):
        print(f"        // {path}\n        {index} => {expression.strip()},")
    print("        _ => crate::planted(),\n    }\n}")


main()
