#!/usr/bin/env python3
"""Runs every command that the README and the manual show: manual_test.py PROGRAM ROOT.

A command is a line that begins with four blanks and `tracecast`, or with `$ tracecast` in a block of code. The first
must end as it should; of the second the lines below are what it prints, where `...` stands for any lines. What stands
behind ` #` is a remark.

A number in the running text of a page is one that a command of the page prints, or that stands, with the same digits, in a
block of code of the page or in a file of tools/manual that the page names. What is no result of a run (a version, an exit
code, a limit of the program) stands in backquotes; what was found elsewhere stands in a table, with its place.
 The files that commands name are those of tools/manual, or invented here. The README's other commands are for
tests/install/readme_path.sh. Prints a line per fault; exit code 1 when there
is any.
"""
import gzip
import io
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile

LIMIT_S = 120
# What cannot be done where tests run, by what it begins with: without a GPU nothing is measured or recorded.
EXIT_CODES = {"tracecast calibrate --quick": 3, "tracecast calibrate --budget": 3, "tracecast trace record": 3}
# Fits over all tables of kernels take minutes; tests of `calibrate` have smaller ones.
NOT_RUN = ("tracecast calibrate --from", "tracecast calibrate check")


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """A field of a Protobuf message: bytes, text or a whole number."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def onnx_network():
    """Relu of an image, as ONNX."""
    def info(name):
        shape = b"".join(field(1, field(1, size)) for size in (1, 3, 224, 224))
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))
    node = field(1, "x") + field(2, "y") + field(3, "relu") + field(4, "Relu")
    graph = field(1, node) + field(2, "tiny") + field(11, info("x")) + field(12, info("y"))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def kineto(rank):
    """Two steps of a profile as PyTorch's profiler writes it; of two ranks."""
    events = []
    for step in range(2):
        start = 1000 + 1_000_000 * step
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 9, "tid": 9,
                       "ts": start, "dur": 1_000_000})
        for i in range(8):
            at, link = start + 100_000 * i, 100 * step + i + 1
            name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)" if i == 7 else \
                "volta_sgemm_128x64_nn"
            events.append({"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 9, "ts": at, "dur": 40})
            events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9,
                           "ts": at + 5, "dur": 10, "args": {"correlation": link}})
            args = {"device": rank, "stream": 7, "correlation": link}
            if i == 7:
                args |= {"Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024,
                         "Group size": 2, "dtype": "Float", "Process Group Name": "0"}
            events.append({"ph": "X", "cat": "kernel", "name": name, "pid": rank, "tid": 7, "ts": at + 20,
                           "dur": 60, "args": args})
    return {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
            "deviceProperties": [{"id": rank, "name": "Tesla V100-SXM2-16GB"}], "traceEvents": events}


def nsight(path):
    """A database as `nsys export --type sqlite` writes it."""
    base = sqlite3.connect(path)
    base.executescript("""
        CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
          streamId INTEGER, correlationId INTEGER, demangledName INTEGER, shortName INTEGER,
          gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER,
          correlationId INTEGER, nameId INTEGER);
        INSERT INTO StringIds VALUES (1, 'volta_sgemm_128x64_nn'), (2, 'cudaLaunchKernel');
    """)
    for i in range(10):
        base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,0,1,7,?,1,1,8,8,1,128,1,1)",
                     (1000 * i + 300, 1000 * i + 900, i + 1))
        base.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,1,?,2)", (1000 * i, 1000 * i + 200, i + 1))
    base.commit()
    base.close()


GRAPH = """tracecast graph 1
network mine
mode train
parameter %conv.weight f32[64,3,7,7]
parameter %fc.weight f32[1000,64]
input %images f32[32,3,224,224]
%1 f32[32,64,112,112] = aten.convolution.default(input=%images, weight=%conv.weight, bias=none, stride=[2, 2], padding=[3, 3], dilation=[1, 1]) in conv
%2 f32[32,64,112,112] = aten.relu_.default(self=%1)
%3 f32[32,64] = aten.mean.dim(self=%2, dim=[2, 3])
%4 f32[32,1000] = aten.linear.default(input=%3, weight=%fc.weight) in fc
output %4
"""
FACTORY = """import torch
def factory():
    return torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU()), torch.empty(32, 256)
"""


def exported():
    """A linear layer as torch.export.save writes it."""
    def meta(*sizes):
        return {"dtype": 7, "sizes": [{"as_int": size} for size in sizes], "requires_grad": True}

    def tensor(name):
        return {"as_tensor": {"name": name}}
    node = {"target": "torch.ops.aten.linear.default", "outputs": [tensor("y")], "metadata": {},
            "inputs": [{"name": "input", "arg": tensor("x")}, {"name": "weight", "arg": tensor("w")}]}
    graph = {"inputs": [tensor("w"), tensor("x")], "outputs": [tensor("y")], "nodes": [node], "sym_int_values": {},
             "tensor_values": {"w": meta(512, 256), "x": meta(8, 256), "y": meta(8, 512)}}
    signature = {"input_specs": [{"parameter": {"arg": {"name": "w"}, "parameter_name": "weight"}}],
                 "output_specs": [{"user_output": {"arg": tensor("y")}}]}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("serialized_exported_program.json", json.dumps({"graph_module": {"graph": graph, "signature": signature}}))
    return file.getvalue()


NVPROF = """==1== Profiling result:
"Type","Time(%)","Time","Calls","Avg","Min","Max","Name"
,%,ms,,us,us,us,
"GPU activities",80.0,8.0,10,800.0,700.0,900.0,"volta_sgemm_128x64_nn"
"GPU activities",20.0,2.0,10,200.0,100.0,300.0,"[CUDA memcpy HtoD]"
"""
FILES = {
    "mine.graph": GRAPH,
    "mine.py": FACTORY,
    "nvprof.csv": NVPROF,
    "kernels.csv": "Name,Duration\nvolta_sgemm_128x64_nn,1000\nrelu_kernel,200\n",
    "jobs.csv": "job_id,submit_s,num_gpu,duration_s,model\n" + "".join(
        f"{j},{60 * j},{2 ** (j % 3)},{600 + 100 * j},resnet50\n" for j in range(12)),
    "elastic.csv": "job_id,submit_s,num_gpu,min_gpus,max_gpus,resize_s,model,global_batch,steps\n"
                   "a,0,4,1,8,30,resnet50,256,20000\nb,600,2,2,2,,resnet50,128,9000\n",
    "fleet.textproto": 'group { count: 4 gpus: 8 gpu: "v100" usd_per_gpu_hour: 3 }\n'
                       'group { count: 8 gpus: 4 gpu: "p100" usd_per_gpu_hour: 1.5 }\n',
    "requests.csv": "arrival_s,input_tokens,output_tokens\n" + "".join(
        f"{r * 0.5},{100 + 50 * (r % 4)},{20 + r % 7}\n" for r in range(40)),
    "lab.textproto": 'group { name: "new" count: 2 machine: "dgx1_v100" }\n'
                     'network { link: "infiniband_edr" nodes_per_leaf: 8 oversubscription: 2 }\n',
}


def invent(folder, program, root):
    for name, text in FILES.items():
        (folder / name).write_text(text)
    shutil.copytree(root / "tools/manual", folder / "tools/manual")
    shutil.copytree(root / "tools/manual/purchase", folder / "purchase")
    for name in ("runs.csv", "serving_jobs.textproto", "bench.json", "measurements.csv"):
        (folder / name).write_bytes((root / "tools/manual" / name).read_bytes())
    (folder / "ranks").mkdir()
    for rank in (0, 1):
        packed = gzip.compress(json.dumps(kineto(rank)).encode())
        (folder / f"rank{rank}.json.gz").write_bytes(packed)
        (folder / "ranks" / f"rank{rank}.json.gz").write_bytes(packed)
    for name in ("profile.pt.trace.json.gz", "before.json.gz"):
        (folder / name).write_bytes(gzip.compress(json.dumps(kineto(0)).encode()))
    for name in ("report1.sqlite", "after.sqlite"):
        nsight(folder / name)
    (folder / "network.onnx").write_bytes(onnx_network())
    (folder / "mine.pt2").write_bytes(exported())
    (folder / "mine").mkdir()
    (folder / "mine/profile.textproto").write_bytes((root / "hwspecs/cost/default.textproto").read_bytes())
    configs = root / "tests/models/language/configs"
    (folder / "config.json").write_bytes((configs / "llama3_8b.json").read_bytes())
    (folder / "llama2_7b.json").write_bytes((configs / "llama2_7b.json").read_bytes())
    subprocess.run([program, "trace", "convert", "profile.pt.trace.json.gz", "--to", "chakra", "-o", "chakra.0.et"],
                   cwd=folder, check=True, capture_output=True)
    # The specs that the manual shows are the files that it says to write.
    for page in (root / "tools/manual").glob("*.md"):
        for path, text in re.findall(r"with `(own/[\w./]+)`:\n\n((?:    .*\n)+)", page.read_text()):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(re.sub(r"(?m)^    ", "", text))
            example = root / "tools/manual" / path
            if example.exists() and example.read_text() != (folder / path).read_text():
                sys.exit(f"{example}: not as {page} shows it")


def commands(page):
    """Line number, command, and the lines it shows; None where it shows none."""
    lines = page.read_text().split("\n")
    in_code = False
    for i, line in enumerate(lines):
        in_code ^= line.startswith("```")
        if not in_code and re.match(r"    ((\S.* \| )?tracecast|python3 -m tracecast) ", line):
            yield i + 1, line.split(" #")[0].strip(), None
        elif in_code and line.startswith("$ tracecast "):
            end = next(j for j in range(i + 1, len(lines)) if lines[j].startswith(("```", "$ ")))
            yield i + 1, line[2:].split(" #")[0].strip(), lines[i + 1:end]


PYTHON = "/usr/bin/python3"  # for which the module is built


def has_torch(program):
    """Whether the module is built beside the program, and there is a PyTorch to trace with."""
    there = subprocess.run([PYTHON, "-c", "import torch, tracecast"], env=python_environment(program), capture_output=True, check=False)
    return there.returncode == 0


def python_environment(program):
    return {**os.environ, "PYTHONPATH": str(program.parent.parent / "python")}


def examples(page):
    """Line number and text of the pages' programs that stand alone."""
    for block in re.finditer(r"(?m)^```python\n((?:.*\n)*?)```", page.read_text()):
        if block.group(1).startswith("import "):
            yield page.read_text().count("\n", 0, block.start()) + 1, block.group(1)


NUMBER = r"\d[\d,]*(?:\.\d+)?"
# A number by itself: no part of a name (V100, notes/0003), of a version or of a date.
FIGURE = re.compile(rf"(?<![\w.,:/^+-])[+-]?({NUMBER})(?![\w^/.]*\w)(?!-)")


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def running_text(page):
    """The page line by line, with blanks for code, tables, headings, pictures, what stands in backquotes, and targets of links."""
    lines, in_code = page.split("\n"), False
    for i, line in enumerate(lines):
        is_fence = line.startswith("```")
        in_code ^= is_fence
        if in_code or is_fence or line.startswith(("    ", "|", "#", "![")):
            lines[i] = ""
        else:
            lines[i] = re.sub(r"^\d+\. ", "   ", line)  # of a list
    text = re.sub(r"`[^`]*`", blank, "\n".join(lines))
    return re.sub(r"\]\([^)]*\)", blank, text)


def numbers(text):
    return {number.rstrip(",").replace(",", "") for number in re.findall(NUMBER, text)}


def unfounded(page, known):
    """Line and words of the numbers in the page's running text that are not among those of `known`, a list of texts."""
    known = set().union(*map(numbers, known))
    text = running_text(page)
    for match in FIGURE.finditer(text):
        if match.group(1).rstrip(",").replace(",", "") not in known:
            begin, end = max(0, match.start() - 20), match.end() + 16
            yield text.count("\n", 0, match.start()) + 1, " ".join(text[begin:end].split())


def shown_text(page, folders):
    """What a page shows of its own input: blocks of code, and the files in the folders that it names."""
    code, in_code = [], False
    for line in page.split("\n"):
        in_code ^= line.startswith("```")
        if in_code or line.startswith("    "):
            code.append(line)
    named = set(re.findall(r"[\w./]+\.(?:textproto|csv|json)", page))
    files = [folder / name for name in sorted(named) for folder in folders]
    return ["\n".join(code)] + [file.read_text() for file in files if file.is_file()]


def differs(shown, printed):
    """The first shown line that is not printed where it should be; None when all are."""
    at, may_skip = 0, False
    for line in shown:
        if line.strip() == "...":
            may_skip = True
            continue
        if may_skip:
            while at < len(printed) and printed[at].rstrip() != line.rstrip():
                at += 1
        if at >= len(printed) or printed[at].rstrip() != line.rstrip():
            return line
        at, may_skip = at + 1, False
    return None


def check(number, command, shown, page, program, folder, printed):
    """A fault of the command, or None; what it prints joins `printed`."""
    expected = next((code for begin, code in EXIT_CODES.items() if command.startswith(begin)), 0)
    shell = f'tracecast() {{ "{program}" "$@"; }}\n{command}'
    try:
        result = subprocess.run(["sh", "-c", shell.replace("python3 -m", PYTHON + " -m")], cwd=folder, capture_output=True, text=True, check=False,
                                env=python_environment(program), timeout=LIMIT_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return f"{page}:{number}: {command}: not done after {LIMIT_S} s"
    printed.append(result.stdout)
    if result.returncode == 2 and "this build has no page" in result.stderr and not os.environ.get("CI"):
        return None
    if result.returncode != expected:
        return f"{page}:{number}: {command}: exit code {result.returncode}, expected {expected}: {result.stderr.strip()}"
    line = differs(shown, result.stdout.split("\n")) if shown else None
    return f"{page}:{number}: {command}: does not print: {line}" if line is not None else None


def check_itself():
    """The rule for numbers on a page that breaks it in every way, and on one that does not."""
    page = """# 1 heading
A command prints 1,234.5 here; V100, notes/0003 and 2026-11-29 are names, `77` is quoted, [this](a/99) a link.

    tracecast predict resnet50 --batch 64

1. A list with 64 and 5 %. It is wrong by +41 %
   and 9, not 2,000.
| a table | 12 |
"""
    found = [words for _, words in unfounded(page, ["throughput 1234.5 samples/s", *shown_text(page, [])])]
    wrong = [words for words, number in zip(found, ("5 %", "41 %", "9,", "2,000")) if number not in words]
    return [f"manual_test: its own page: {found}"] if len(found) != 4 or wrong else []


def measured_gpus(root):
    """Faults of pages that know less than calibrate/measured, where each folder is a GPU and month that the tool measured."""
    gpus = {folder.name.split("_")[0] for folder in (root / "calibrate/measured").iterdir() if folder.is_dir()}
    text = (root / "tools/manual/calibrate.md").read_text().lower()
    faults = [f"tools/manual/calibrate.md: does not say that it ran on {gpu}" for gpu in sorted(gpus) if gpu not in text]
    for page in (root / "tools/manual").glob("*.md"):
        if gpus and re.search(r"not\s+(yet\s+)?run\s+on\s+a\s+real\s+GPU", page.read_text(), re.IGNORECASE):
            faults.append(f"{page.relative_to(root)}: says that no real GPU was measured; calibrate/measured has {sorted(gpus)}")
    return faults


def main():
    program, root = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    faults, count = check_itself() + measured_gpus(root), 0
    traces = has_torch(program)
    if not traces:
        print("manual_test: no PyTorch or no module: what needs it is not run")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        invent(folder, program, root)
        for page in [root / "README.md", *sorted((root / "tools/manual").glob("*.md"))]:
            name, printed = page.relative_to(root), []
            for number, command, shown in commands(page):
                if command.startswith(NOT_RUN) or (command.startswith("python3") and not traces):
                    continue
                count += 1
                fault = check(number, command, shown, name, program, folder, printed)
                if fault:
                    faults.append(fault)
            for number, text in examples(page) if traces and page.name == "network.md" else ():
                count += 1
                done = subprocess.run([PYTHON, "-c", text], cwd=folder, env=python_environment(program), capture_output=True, text=True, check=False,
                                      timeout=LIMIT_S)
                if done.returncode != 0:
                    faults.append(f"{name}:{number}: {done.stderr.strip().splitlines()[-1]}")
            known = printed + shown_text(page.read_text(), [root, root / "tools/manual"])
            faults += [f"{name}:{line}: no command here prints the number of: {words}"
                       for line, words in unfounded(page.read_text(), known)]
    print("\n".join(faults + [f"manual_test: {count} commands, {len(faults)} faults"]))
    return 1 if faults or count < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
