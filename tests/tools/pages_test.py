#!/usr/bin/env python3
"""Whether a reader of the pages finds what they point to: pages_test.py [ROOT].

1. Who reads only the README and the three pages of tools/manual below can name the file to change for each question of
   DECIDES: a row of the table in architecture.md says so, and the file has what it is said to have.
2. Every page, file and folder that the README, the manual, CONTRIBUTING, the templates of .github and all READMEs link, or name by
   its path from the root or from the page's folder, is there. In such a path ID, NAME, FORMAT and the like stand for a name: what is before them is there.
3. The version is the same wherever it stands.
4. Each kind of fault is found in a copy of the tree that has just that one.

Prints a line per fault; exit code 1 when there is any.
"""
import contextlib
import fnmatch
import importlib.machinery
import importlib.util
import pathlib
import posixpath
import re
import shutil
import sys
import tempfile

TABLE, WALKS, FORMULAS = (f"tools/manual/{name}.md" for name in ("architecture", "adding", "kernel_time"))
# Question, the file that decides, and a word that such a file has.
DECIDES = {
    "a new activation": ("models/lowering/streaming.cpp", '"relu"'),
    "a new GPU": ("hwspecs/gpu", ".textproto"),
    "a new collective": ("sim/network/collective.cpp", "Collective::AllReduce"),
    "a wrong power": ("sim/step/power.cpp", "Watts"),
    "a new trace format": ("traces/open.cpp", "Format::Kineto"),
}
VERSIONS = {"CMakeLists.txt": r"^project\(tracecast VERSION ([\d.]+)", "CITATION.cff": r"^version: ([\d.]+)$",
            "tools/python/pyproject.toml": r'^version = "([\d.]+)"$', "CHANGELOG.md": r"^## ([\d.]+)",
            "tests/install/consumer/CMakeLists.txt": r"find_package\(tracecast ([\d.]+)"}
ALSO_READ = ("README.md", "CONTRIBUTING.md", "SECURITY.md", ".github/*.md", ".github/*/*.md", "tools/manual/*.md")
LINK = re.compile(r"\]\(([^)\s]+)\)")
PLACEHOLDER = re.compile(r"(?:^|[/_.])(?:[A-Z][A-Z_]*|x|<[^>]*>)(?:[/_.]|$)|\.\.\.")
NOT_OURS = re.compile(r"https?://\S+|`[^`]*(?::|@)//[^`]*`")


def load_check_readmes(root):
    loader = importlib.machinery.SourceFileLoader("check_readmes", str(root / "tools/check_readmes"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_readmes", loader))
    loader.exec_module(module)
    return module


def expand(path):
    """`x.{hpp,cpp}` as two paths."""
    before, brace, rest = path.partition("{")
    inside, closed, after = rest.partition("}")
    return [before + choice + after for choice in inside.split(",")] if brace and closed else [path]


class Pages:
    def __init__(self, root, tree):
        self.root, self.tree = root, tree
        self.top = sorted({name.split("/")[0] for name in tree.files if "/" in name})
        self.path = re.compile(r"(?<![\w./~-])((?:" + "|".join(map(re.escape, self.top)) + r")/[\w./*{},<>-]*)")
        self.pages = [name for name in tree.files if posixpath.basename(name) == "README.md"
                      or any(fnmatch.fnmatchcase(name, pattern) for pattern in ALSO_READ)]

    def is_there(self, path):
        path = posixpath.normpath(path)
        if path in self.tree.folders or path in self.tree.inside.get(posixpath.dirname(path) or ".", ()):
            return True
        if "*" in path:
            return bool(fnmatch.filter(self.tree.files, path))
        near = self.tree.inside.get(posixpath.dirname(path) or ".", ())
        return bool(fnmatch.filter(near, path + ".*") or fnmatch.filter(near, path + "-*.md"))

    def faults_of(self, page):
        text = "\n".join(self.tree.lines(page))
        for number, line in enumerate(text.split("\n"), 1):
            for target in LINK.findall(line):
                if re.match(r"[a-z]+:|#", target):
                    continue
                path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target.partition("#")[0]))
                if path.startswith("..") or not (path in self.tree.folders or (self.root / path).is_file()):
                    yield f"{page}:{number}: links {target}: no such page, file or folder"
            for match in self.path.finditer(NOT_OURS.sub(" ", LINK.sub("] ", line))):
                for path in expand(match[1]):
                    path = path.rstrip(".,-").removesuffix("/")
                    if not self.is_there(path) and (placeholder := PLACEHOLDER.search(path)):
                        path = posixpath.dirname(path[:placeholder.end()].rstrip("/_."))
                    if not (path == "" or self.is_there(path) or self.is_there(posixpath.join(posixpath.dirname(page), path))):
                        yield f"{page}:{number}: names {path}: nothing of that name"

    def faults(self):
        for page in self.pages:
            yield from self.faults_of(page)

    def question_faults(self):
        """Questions that the pages do not answer, and files that do not have what they should."""
        missing = [page for page in (TABLE, WALKS, FORMULAS) if page not in self.tree.files]
        if missing:
            yield from (f"{page}: no such page" for page in missing)
            return
        rows = {}
        for line in self.tree.lines(TABLE):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if line.startswith("|") and len(cells) > 1:
                rows[cells[0]] = cells[1]
        walks = "\n".join(self.tree.lines(WALKS))
        for question, (path, word) in DECIDES.items():
            if f"`{path}`" not in rows.get(question, ""):
                yield f"{TABLE}: {question}: {rows.get(question, 'no row')}; expected `{path}`"
            if path not in walks:
                yield f"{WALKS}: {question}: does not name {path}"
            if path in self.tree.folders:
                found = any(name.endswith(word) for name in self.tree.inside.get(path, ()))
            else:
                found = self.is_there(path) and word in "\n".join(self.tree.lines(path))
            if not found:
                yield f"{path}: has no {word}: is it still what decides about {question}?"
        linked = set(LINK.findall("\n".join(self.tree.lines("README.md"))))
        yield from (f"README.md: does not link {page}" for page in (TABLE, WALKS, FORMULAS) if page not in linked)


def version_faults(root):
    """Where the first version of a file is another than that of the build, or than its beginning."""
    found = {name: re.search(pattern, (root / name).read_text(), re.MULTILINE) for name, pattern in VERSIONS.items()}
    stated = {name: match[1] if match else "no version" for name, match in found.items()}
    return [f"{name}: {version}; expected {stated['CMakeLists.txt']}, the version in CMakeLists.txt"
            for name, version in stated.items() if not f"{stated['CMakeLists.txt']}.".startswith(version + ".")]


def all_faults(root, check_readmes):
    pages = Pages(root, check_readmes.Tree(root))
    return [*pages.question_faults(), *pages.faults(), *version_faults(root)], len(pages.pages)


def copy(root, to, files):
    """The tree with its pages and what decides; of everything else the names."""
    whole = {path for path, _ in DECIDES.values()} | set(VERSIONS)
    for name in files:
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md") or name in whole:
            shutil.copyfile(root / name, to / name)
        else:
            (to / name).touch()


@contextlib.contextmanager
def changed(path, text):
    before = path.read_text()
    path.write_text(text(before))
    yield
    path.write_text(before)


def check_itself(root, check_readmes):
    """Plants each fault in a copy of a tree that has none."""
    decides = DECIDES["a new activation"][0]
    plants = [
        ("README.md", lambda t: t + "\n[gone](tools/manual/gone.md)\n", "links tools/manual/gone.md"),
        ("README.md", lambda t: t + "\n[folder](sim/gone)\n", "links sim/gone"),
        ("README.md", lambda t: t.replace(TABLE, "tools/manual"), f"does not link {TABLE}"),
        ("CONTRIBUTING.md", lambda t: t + "\nSee `tools/gone/`.\n", "names tools/gone"),
        (WALKS, lambda t: t + "\n1. `models/gone.cpp`: nothing.\n", "names models/gone.cpp"),
        (WALKS, lambda t: t + "\n    tools/gone --now\n", "names tools/gone"),
        (WALKS, lambda t: t + "\n`traces/gone/FORMAT_test.cpp`\n", "names traces/gone"),
        (WALKS, lambda t: t.replace(decides, "models/lowering"), f"does not name {decides}"),
        (TABLE, lambda t: t.replace(f"| a new activation | `{decides}`", "| a new activation | `models/graph.hpp`"), "a new activation: `models/graph.hpp`"),
        (TABLE, lambda t: t.replace("| a wrong power |", "| power |"), "a wrong power: no row"),
        ("sim/cost/README.md", lambda t: t + "\nAs sim/cost/gone.hpp has it.\n", "names sim/cost/gone.hpp"),
        (decides, lambda t: t.replace('"relu"', ""), f"{decides}: has no"),
        ("CITATION.cff", lambda t: re.sub(r"(?m)^version: .*", "version: 9.9.9", t), "CITATION.cff: 9.9.9"),
    ]
    with tempfile.TemporaryDirectory() as name:
        to = pathlib.Path(name)
        copy(root, to, check_readmes.Tree(root).files)
        faults, _ = all_faults(to, check_readmes)
        if faults:
            yield f"pages_test: a copy has faults that the tree has not: {faults}"
            return
        for page, text, expected in plants:
            with changed(to / page, text):
                found, _ = all_faults(to, check_readmes)
            if len(found) != 1 or expected not in found[0]:
                yield f"pages_test: {page}: planted a fault for \"{expected}\", found {found}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    check_readmes = load_check_readmes(root)
    faults, count = all_faults(root, check_readmes)
    faults += [] if faults else check_itself(root, check_readmes)
    print("\n".join([*faults, f"pages_test: {count} pages, {len(faults)} faults"]))
    return 1 if faults or count < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
