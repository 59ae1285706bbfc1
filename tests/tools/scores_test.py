#!/usr/bin/env python3
"""Whether tools/scores counts and writes what a program answers, and whether its check bites: scores_test.py [ROOT].

The program is a script here that answers with invented rows. The tree's own pages are checked last. Prints a line per fault;
exit code 1 when there is any.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = '''#!/usr/bin/env python3
import json, sys
command, table = sys.argv[1], sys.argv[2]
if command == "study":
    print(json.dumps({"rows": [{"row": "a", "predicted": 1, "agrees": True}, {"row": "b", "predicted": 2, "agrees": False}]}))
elif table.endswith("unknown.csv"):
    print("unknown.csv:1: found a header without gpu; expected columns gpu", file=sys.stderr)
    sys.exit(2)
else:
    uses = {"timm.csv.gz": ["none"] * 4, "nobody.csv": ["none"] * 4, "today.csv": ["training", "held_out", "held_out", "held_out"]}
    use = next((words for name, words in uses.items() if table.endswith(name)), ["fit", "choice", "choice", "none"])
    def row(i, low, high, flag=None, predicted=100.0):
        return {"id": str(i), "predicted": predicted, "low": low, "high": high, "flag": flag, "used_for": None}
    rows = [row(0, 90, 110), row(1, 80, 140), row(2, 50, 130, "spread"), row(3, 60, 160),
            row(4, 0, 900, "eager"), row(5, None, None, None, None)]
    of = {"n": 4, "mape": 0.123, "median_ape": 0.1, "bias": -0.0512, "coverage90": 0.75}
    none = {"n": sum(word in ("none", "held_out") for word in use), "mape": 0.25, "median_ape": 0.2, "bias": 0.0, "coverage90": 1.0}
    by = {word: none if word in ("none", "held_out") else dict(of, n=use.count(word)) for word in use}
    print(json.dumps({"version": "1.2.3", "table": "invented rows", "rows": rows, "total": dict(of, by_used_for=by)}))
'''
TABLES = ("published/core.csv", "published/mlperf.csv", "published/llm_scaling.csv", "serving/aic_silicon.csv", "market/timm.csv.gz",
          "own/nobody.csv", "own/today.csv", "own/unknown.csv", "traces/recording.csv")
README = "# r\n\n<!-- tools/scores write: begin -->\nold\n<!-- tools/scores write: end -->\n\nEnd.\n"
# 4 rows: of (20, 60, 80, 100) / 200 the median is 35 %.
CORE = "| published/core.csv | invented rows | 4 | 1 | 2 | 1 | 12.3 % | 10.0 % | -5.1 % | 75.0 % | 35.0 % |"
SHORT = CORE.replace("published/core.csv | invented rows", "whole networks, one GPU and several (`published/core.csv`)")


def scores(root, *words):
    done = subprocess.run([sys.executable, "-B", str(root / "tools/scores"), *map(str, words)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def writes(root, folder):
    """Faults of `run`, `table`, `compare` and `write`, with the pages in a folder."""
    program, data, out = folder / "program", folder / "data", folder / "out.json"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    for table in TABLES:
        (data / table).parent.mkdir(parents=True, exist_ok=True)
        (data / table).touch()
    (folder / "tools/manual").mkdir(parents=True)
    (folder / "README.md").write_text(README)
    code, said = scores(root, "run", program, data, out)
    known = json.loads(out.read_text())["tables"] if out.exists() else {}
    if code or sorted(known) != sorted(TABLES[:-2]):
        yield f"run: exit code {code}, tables {sorted(known)}: {said}"
        return
    code, said = scores(root, "write", out, folder)
    page, readme = (folder / "tools/manual/accuracy_table.md").read_text(), (folder / "README.md").read_text()
    for text, line in ((page, CORE), (readme, SHORT), (page, "of tracecast 1.2.3"), (page, CORE.replace("published/core.csv", "own/today.csv").replace("1 | 2 | 1", "1 | 0 | 3")),
                       (page, "| own/nobody.csv | invented rows | 4 | 0 | 0 | - |"), (page, "| market/timm.csv.gz | 4 | 25.0 % | 20.0 % | +0.0 % | 100.0 % |")):
        if line not in text:
            yield f"write: lacks {line}: {said}{text}"
    if "| own/nobody.csv | 4 | " in page:
        yield "write: rows that no record names are not held-out"
    if not readme.startswith("# r\n\n") or not readme.endswith("\n\nEnd.\n") or "\nold\n" in readme:
        yield f"write: what stands round the markers: {readme}"
    code, said = scores(root, "compare", out, out)
    if "| published/core.csv | 4 | 12.3 % | 10.0 % | -5.1 % | 75.0 % | 0 |" not in said or "s_ibm: 1 of 2 -> 1 of 2 agree" not in said:
        yield f"compare: {said}"
    if CORE not in scores(root, "table", out)[1]:
        yield f"table: {scores(root, 'table', out)[1]}"
    scores(root, "run", program, data, folder / "part.json", "timm")
    code, said = scores(root, "write", folder / "part.json", folder)
    if code != 1 or "lacks published/core.csv" not in said:
        yield f"write of a part: exit code {code}: {said}"


def bites(root, folder):
    """Faults that the check does not find in pages that were right."""
    page, readme, other = folder / "tools/manual/accuracy_table.md", folder / "README.md", folder / "tools/manual/other.md"
    other.write_text("`validate` prints the mean error.\nOf the time a fifth, 20 %, is ours.\n\n| n | share |\n| --- | --- |\n| 1 | 5 % |\n")
    note = folder / "sim" / "notes" / "0001-a.md"
    note.parent.mkdir(parents=True)
    note.write_text("# 0001: A\n")
    code, said = scores(root, "check", folder)
    if code:
        yield f"check: of what `write` wrote: {said}"
    plants = [
        (page, "12.3 %", "12 %", "not as tools/scores writes it"),
        (page, "By hand", None, "its text was edited"),
        (page, "| table | of |", "| table | what |", "not the columns"),
        (page, "| market/timm.csv.gz | 4 | 25.0 %", "| market/timm.csv.gz | 3 | 25.0 %", "3 held-out rows in one table, 4 in the other"),
        (readme, "| 12.3 % |", "| 11.3 % |", "not the figures of"),
        (readme, SHORT + "\n", "", "published/core.csv: no such row"),
        (readme, "<!-- tools/scores write: end -->", "", "found 1 of the two lines"),
        (readme, "The mean error is 9 %.", None, "README.md:15: states accuracy by hand"),
        (note, "It is right, with a bias of 3 %.", None, "0001-a.md:3: states accuracy by hand"),
        (other, "| table | median |\n| --- | --- |\n| ours | 4 % |", None, "other.md:10: states accuracy by hand"),
    ]
    for path, old, new, expected in plants:
        before = path.read_text()
        path.write_text(before + "\n" + old + "\n" if new is None else before.replace(old, new, 1))
        code, said = scores(root, "check", folder)
        if code != 1 or expected not in said:
            yield f"check: planted \"{expected}\" in {path.name}: exit code {code}: {said}"
        path.write_text(before)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        faults = list(writes(root, folder))
        faults += [] if faults else bites(root, folder)
    code, said = scores(root, "check", root)
    faults += [f"this tree: {said}"] if code else []
    print("\n".join([*faults, f"scores_test: {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
