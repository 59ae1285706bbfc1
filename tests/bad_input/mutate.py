#!/usr/bin/env python3
"""Feeds the program mutated inputs: mutate.py PROGRAM [--count N] [--seed S] [--only WORD] [--keep FOLDER].

Every reader has a case: a command and the files it reads, all of which are whole. A mutation changes one of the files, or the words of the
command: bytes turned over, cut, doubled or put in; numbers in the place of others, the ends of every type's range among them; lines and words
moved. Whatever comes of it, the program must answer (exit code 0 or 1) or refuse (2, one line on stderr), within 10 s of CPU and 512 MB of
memory, and what it answers in CSV or JSON holds no infinity and no NaN. Prints a line per fault with what repeats it; exit code 1 when there
is any. The same seed gives the same inputs.
"""
import argparse
import collections
import contextlib
import gzip
import io
import json
import os
import pathlib
import random
import re
import resource
import shlex
import signal
import sqlite3
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

CPU_S, WALL_S, RSS_MB = 10, 120, 512
ADDRESS_SPACE = 4 << 30  # of one run: what goes far beyond the limit ends there and not the machine
ROOT = pathlib.Path(__file__).resolve().parents[2]
NUMBERS = ["0", "-1", "1", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "4294967296", "2147483648", "1e308", "1e-308",
           "1e-320", "nan", "inf", "-inf", "1e18", "1e12", "1e-12", "0.5", "1000000", "-0", "007", "1,5", "0x10", "", "1e", "NaN", "999999999999999999999"]
WORDS = ["", "=1+1", "\u202eabc", "a" * 5000, "\x1b[31m", "../../etc/passwd", "/dev/zero", "/dev/null", "-", "--", "null", "true", "{}", "[]", "\"",
         "résumé", "\ufeff", "%s%n", "NaN", "*"]


# ---- Files that are whole.

def varint(value):
    out = b""
    value &= (1 << 64) - 1
    while value >= 0x80:
        out += bytes([value & 0x7f | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx():
    """A convolution, an activation and a linear layer, as tests/support/onnx_bytes.cpp has them."""
    def tensor_type(name, dims):
        shape = b"".join(field(1, field(1, d)) for d in dims)
        return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))

    def weight(name, dims):
        count = 1
        for d in dims:
            count *= d
        return b"".join(field(1, d) for d in dims) + field(2, 1) + field(8, name) + field(9, bytes(4 * count))

    def ints(name, values):
        return field(1, name) + b"".join(field(8, v) for v in values) + field(20, 7)

    def node(kind, inputs, output, *attributes):
        return (b"".join(field(1, i) for i in inputs) + field(2, output) + field(4, kind) + b"".join(field(5, a) for a in attributes))

    graph = b"".join([
        field(1, node("Conv", ["image", "filter"], "conv", ints("pads", [1, 1, 1, 1]), ints("strides", [2, 2]))),
        field(1, node("Relu", ["conv"], "relu")),
        field(1, node("GlobalAveragePool", ["relu"], "pool")),
        field(1, node("Flatten", ["pool"], "flat")),
        field(1, node("Gemm", ["flat", "matrix", "bias"], "logits", field(1, "transB") + field(3, 1) + field(20, 2))),
        field(2, "small"), field(5, weight("filter", [8, 3, 3, 3])), field(5, weight("matrix", [10, 8])), field(5, weight("bias", [10])),
        field(11, tensor_type("image", [1, 3, 32, 32])), field(12, tensor_type("logits", [1, 10]))])
    return field(1, 7) + field(7, graph) + field(8, field(1, "") + field(2, 13))


def database(statements):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.sqlite")
        with sqlite3.connect(path) as file:
            file.executescript(statements)
        file.close()
        return path.read_bytes()


NSYS = """CREATE TABLE StringIds (id INTEGER, value TEXT); INSERT INTO StringIds VALUES (1, 'volta_sgemm_128x64_nn'), (2, 'cudaLaunchKernel');
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, demangledName
INTEGER, shortName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, registersPerThread
INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 3500, 0, 7, 11, 1, 1, 252, 128, 96, 128, 1, 1, 40, 64, 32768),
(4000, 4500, 0, 7, 12, 1, 1, 25, 12, 9, 128, 1, 1, 40, 64, 0);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 950, 5, 11, 2);
CREATE TABLE TARGET_INFO_GPU (id INTEGER, cuDevice INTEGER, name TEXT, totalMemory INTEGER);
INSERT INTO TARGET_INFO_GPU VALUES (0, 0, 'Tesla V100-SXM2-16GB', 16945512448);"""


def kineto():
    def event(category, name, begin, duration, **arguments):
        return {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": 1, "ts": begin, "dur": duration, "args": arguments}
    return json.dumps({"deviceProperties": [{"id": 0, "name": "Tesla V100-SXM2-16GB"}], "traceEvents": [
        event("cpu_op", "aten::mm", 0, 90, **{"External id": 5, "Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}),
        event("user_annotation", "ProfilerStep#1", 0, 500), event("user_annotation", "ProfilerStep#2", 500, 500),
        event("cuda_runtime", "cudaLaunchKernel", 10, 5, **{"correlation": 1, "External id": 5}),
        event("kernel", "volta_sgemm_128x64_nn", 100, 50, **{"device": 0, "stream": 7, "correlation": 1, "External id": 5, "grid": [8, 1, 1],
                                                            "block": [128, 1, 1]}),
        event("gpu_memcpy", "Memcpy HtoD", 200, 50, **{"device": 0, "stream": 7, "correlation": 2, "bytes": 64}),
        event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 600, 50, **{
            "device": 0, "stream": 20, "correlation": 3, "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 8,
            "Out msg nelems": 8, "Group size": 2})]}).encode()


def chakra():
    return json.dumps({"schema": "1.0.1", "nodes": [
        {"name": "aten::mm", "id": 3, "parent": 1, "inputs": [[1, 0, 0, 6, 4, "cuda:0"]], "input_types": ["Tensor(float)"], "input_shapes": [[2, 3]]},
        {"name": "b", "id": 4, "parent": 3, "inputs": []}]}).encode()


def tar(name, content):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def source(path):
    return (ROOT / path).read_bytes()


NVPROF = b"""==1== NVPROF is profiling process 1, command: python train.py
==1== Profiling result:
"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z","Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","Device","Context","Stream","Name","Correlation_ID"
s,ms,,,,,,,,B,B,MB,GB/s,,,,,
1.5,0.25,8,1,1,128,1,1,40,64,0,,,"Tesla V100-SXM2-16GB (0)","1","7","volta_sgemm_128x64_nn",105
1.6,0.1,,,,,,,,,,1.5,10.2,"Tesla V100-SXM2-16GB (0)","1","7","[CUDA memcpy HtoD]",106
"""
KERNELS = b"Name,Duration\nvolta_sgemm_128x64_nn,3000\nvoid cudnn::bn_fw_tr_1C11_kernel_NCHW,1200\n"
CORE = b"""id,source,date,gpu,gpus,nodes,interconnect,framework,framework_name,framework_version,precision,xla,network,data,phase,batch_per_gpu,samples_per_s,notes
r1,paper,2018-01,v100_sxm2_16gb,1,1,,tensorflow,TensorFlow,1.8,fp32,no,alexnet,synthetic,train,64,1000,
r2,paper,2018-01,v100_sxm2_16gb,4,1,nvlink,tensorflow,TensorFlow,1.8,fp32,no,resnet50,synthetic,train,64,1400,spread
"""
GEMM = b"source,gpu,dtype,op,pass,batch,m,n,k,trans_a,trans_b,layout,kernel,time_us,timing,framework,clock_mhz,tflops,gbps,suspect,split,note\n" + b"".join(
    b"a,t4,fp32,gemm,forward,1,512,512,%d,N,N,row,sgemm,%d,events,cuda,,,,,,\n" % (64 * i, 50 * i) for i in range(1, 41))
JOBS = b"""job_id,submit_s,num_gpu,min_gpus,max_gpus,model,batch,steps,duration_s,deadline_s,weight,resize_s
a,0,1,,,net,64,100,,400,1,
b,10,2,1,4,net,64,200,,500,2,10
c,20,1,,,,,,30,900,1,
"""
PLAIN_JOBS = b"job_id,submit_s,num_gpu,duration_s\na,0,1,100\nb,10,2,100\nc,20,1,30\nd,25,4,3600\n"
MURI = b"job_id,num_gpu,submit_s,iterations,model,batch,iteration_s\n1,1,0,100,vgg16,16,0.5\n2,2,30,50,bert,4,1.25\n"
RATES = b"model,gpu,batch,gpus,steps_per_s\nnet,v100,64,1,1\nnet,v100,64,2,1.9\nnet,v100,64,4,3.6\n"
PAIRS = b"job_a,batch_a,job_b,batch_b,gpu,steps_per_s_a,steps_per_s_b\nnet,64,net,64,v100,0.6,0.6\n"
COSTS = b"model,num_gpu,start_s\nnet,1,12\nnet,2,20\n"
FLEET = b"""group { name: "a" count: 2 gpus: 4 gpu: "v100_sxm2_16gb" usd_per_gpu_hour: 2.5 busy_w: 300 idle_w: 50 machine_load_w: 1500 machine_idle_w: 400 rack_units: 2 }
failures { node_mtbf_hours: 5000 gpu_mtbf_hours: 50000 checkpoint_interval_s: 600 restart_s: 60 }
"""
RULES = b"""id: "mine" source: "made up" round_s: 60 shares_round_s: 60 least_between_decisions_s: 10 decides_ahead: 0.1 start_charge: WHEN_STARTED start_s: 5
run_time_factor: 1.1 placement: MACHINES scattered_run_time_factor: 1.5 queue_limit_gpu_s: 100 queue_limit_gpu_s: 1000 allox_reach: 0.5
"""
CLUSTER = b"""id: "c" group { name: "g" count: 2 machine: "dgx1_v100" gpus: 4 compute_time_factor: 1.1 start_jitter_us: 5 switch: "s"
slow_link { a: "gpu0" b: "gpu1" bandwidth_factor: 0.5 } }
network { link: "infiniband_edr" switch { name: "r" } switch { name: "s" parent: "r" link: "infiniband_edr" count: 2 } }
failures { node_mtbf_hours: 5000 checkpoint_s: 30 restart_s: 60 }
"""
REQUESTS = b"arrival_s,input_tokens,output_tokens,prefix,shared_tokens\n0,100,20,1,50\n0.5,200,30,1,50\n1,50,10,2,0\n"
RESULT = json.dumps({"model_id": "m", "num_prompts": 200, "completed": 200, "request_rate": "inf", "max_concurrency": 16, "total_input_tokens":
                     20000, "total_output_tokens": 4000, "mean_ttft_ms": 100.0, "median_ttft_ms": 90.0, "p99_ttft_ms": 200.0, "mean_tpot_ms": 10.0,
                     "output_throughput": 1000.0}).encode()
GENAI = json.dumps({"time_to_first_token": {"unit": "ms", "avg": 50, "p50": 45, "p90": 60, "p99": 90}, "inter_token_latency": {"unit": "ms",
                    "avg": 9}, "request_latency": {"unit": "ms", "avg": 900}, "output_token_throughput": {"unit": "tokens/sec", "avg": 1000},
                    "input_sequence_length": {"avg": 100}, "output_sequence_length": {"avg": 50}, "request_count": {"avg": 100},
                    "input_config": {"concurrency": 4}}).encode()
GRAPH = b"""tracecast graph 1
network small
traced pytorch 2
mode train
parameter %conv.weight f32[8,3,3,3]
parameter %bn.weight f32[8]
parameter %bn.bias f32[8]
buffer %bn.mean f32[8]
buffer %bn.var f32[8]
parameter %fc.weight f32[24,8]
frozen %fc.bias f32[24]
input %image f32[2,3,16,16]
%1 f32[2,8,8,8] = aten.convolution.default(input=%image, weight=%conv.weight, bias=none, stride=[2, 2], padding=[1, 1], dilation=[1, 1], transposed=false, output_padding=[0, 0], groups=1) in conv
%2 f32[2,8,8,8], %3 f32[8], %4 f32[8] = aten.native_batch_norm.default(input=%1, weight=%bn.weight, bias=%bn.bias, running_mean=%bn.mean, running_var=%bn.var, training=true, momentum=0.1, eps=1e-05) in bn
%5 f32[2,8,8,8] = aten.relu_.default(self=%2)
%6 f32[2,8,64] = aten.view.default(self=%5, size=[2, 8, 64])
%7 f32[2,64,8]{512,1,64} = aten.permute.default(self=%6, dims=[0, 2, 1])
%8 f32[2,64,24] = aten.linear.default(input=%7, weight=%fc.weight, bias=%fc.bias) in fc
%9 f32[2,64,8]{1536,24,1}, %10 f32[2,64,8]{1536,24,1}, %11 f32[2,64,8]{1536,24,1} = aten.split.Tensor(self=%8, split_size=8, dim=-1)
%12 f32[2,64,8] = aten.scaled_dot_product_attention.default(query=%9, key=%10, value=%11, attn_mask=none, dropout_p=0.1, is_causal=true)
%13 f32[2,8,64]{512,1,8} = aten.transpose.int(self=%12, dim0=-2, dim1=-1)
%14 f32[2,64,64] = aten.matmul.default(self=%12, other=%13)
%15 f32[2,64,64] = aten._softmax.default(self=%14, dim=-1, half_to_float=false)
%16 f32[2,64] = aten.mean.dim(self=%15, dim=[1])
%17 f32[2,128] = aten.cat.default(tensors=[%16, %16], dim=1)
output %17
"""


def exported():
    """A program as torch.export has it: the same ops as GRAPH's first, in JSON."""
    def tensor(name):
        return {"as_tensor": {"name": name}}

    def meta(*sizes):
        steps, step = [], 1
        for size in reversed(sizes):
            steps, step = [{"as_int": step}, *steps], step * size
        return {"dtype": 7, "sizes": [{"as_int": size} for size in sizes], "requires_grad": True, "strides": steps}

    def node(target, output, **inputs):
        return {"target": "torch.ops.aten." + target, "outputs": [tensor(output)], "metadata": {"nn_module_stack": "a,,Net;b,layer,Linear"},
                "inputs": [{"name": name, "arg": arg} for name, arg in inputs.items()]}
    open_size = {"as_expr": {"expr_str": "s0", "hint": {"as_int": 2}}}
    values = {"w": meta(8, 3, 3, 3), "l": meta(10, 512), "x": meta(2, 3, 8, 8), "c": meta(2, 8, 8, 8), "r": meta(2, 8, 8, 8), "v": meta(2, 512),
              "y": meta(2, 10)}
    values["x"]["sizes"][0] = open_size
    graph = {"inputs": [tensor(name) for name in "wlx"], "outputs": [tensor("y")], "tensor_values": values, "sym_int_values": {"s0": open_size}, "nodes": [
        node("conv2d.default", "c", input=tensor("x"), weight=tensor("w"), padding={"as_ints": [1, 1]}), node("relu.default", "r", self=tensor("c")),
        node("view.default", "v", self=tensor("r"), size={"as_sym_ints": [{"as_name": "s0"}, {"as_int": 512}]}),
        node("linear.default", "y", input=tensor("v"), weight=tensor("l"))]}
    signature = {"input_specs": [{"parameter": {"arg": {"name": name}, "parameter_name": name}} for name in "wl"],
                 "output_specs": [{"user_output": {"arg": tensor("y")}}]}
    return json.dumps({"graph_module": {"graph": graph, "signature": signature}, "schema_version": {"major": 8, "minor": 1}}).encode()


def archive(program):
    """The archive that torch.export.save writes around a program."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("version", "7.1")
        packed.writestr("serialized_exported_program.json", program)
    return file.getvalue()


CONFIG = json.dumps({"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 688,
                     "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "vocab_size": 1000, "max_position_embeddings":
                     2048, "tie_word_embeddings": False, "head_dim": 64, "torch_dtype": "bfloat16", "sliding_window": 512,
                     "rope_scaling": {"factor": 8.0, "rope_type": "llama3"}}).encode()
MOE = json.dumps({"model_type": "mixtral", "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2,
                  "num_hidden_layers": 2, "vocab_size": 1000, "max_position_embeddings": 2048, "num_local_experts": 8, "num_experts_per_tok":
                  2}).encode()
PLAN_JOBS = b"""job { id: "a" network: "alexnet" batch: 64 samples: 1e8 gpus: 1 gpus: 2 deadline_hours: 900 priority: 2 measured { gpu: "t4" samples_per_s: 1500 log_sd: 0.05 } }
job { id: "b" network: "alexnet" batch: 32 epochs: 2 epoch_samples: 1281167 count: 2 after: "a" arrival_hours: 1 image_size: 224 }
"""
CATALOGUE = b"""id: "mine" date: "2026-01" offer { id: "box" gpu: "t4" gpus: 2 price_usd: 9000 load_w: 400 idle_w: 100 rack_units: 2 most: 10 delivery_days: 20 }
offer { id: "cloud" gpu: "v100_sxm2_16gb" usd_per_hour: 3 spot_usd_per_hour: 1 spot_extra_time: 0.1 }
energy_usd_per_kwh: 0.15 pue: 1.3 rack_unit_usd_per_month: 50 amortisation_years: 3
"""
RUNS = b"network,gpu,batch,gpus,samples_per_s\nalexnet,t4,64,1,1500\n"
GRID = b"""predict { network: ["alexnet", "resnet50"] gpu: ["t4"] gpus: [1, 2] batch: [1, 16] precision: ["fp32", "amp"] power_limit: [60] }
serve { network: "llama3_8b" gpu: "h100_sxm5_80gb" gpus: 1 input: 64 output: 8 requests: 10 concurrency: [1, 2] }
"""
ONE = b'predict { network: "alexnet" gpu: "t4" }'
RESULTS = """CREATE TABLE t (a INTEGER, b REAL, c TEXT); INSERT INTO t VALUES (1, 0.5, 'x'), (2, 1e300, '=1+1'), (3, NULL, char(8238));"""
SQL = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9) SELECT i, t.a, b, c, printf('%.3f', b) FROM n JOIN t ORDER BY 1 LIMIT 5"
T4 = ["--gpu", "t4", "--batch", "4"]
PREDICT = ["predict", "alexnet", *T4]
FOLDER = ["--hwspecs", "FOLDER"]
MANY = ["--gpu", "v100_sxm2_16gb", "--gpus", "4", "--machine", "dgx1_v100", "--batch", "4"]


class Case:
    """A command in which FILE is the first of the files, FOLDER where all lie; `files` by name, the first is the one that is changed."""

    def __init__(self, name, command, files=(), weight=1, formats=("text", "json", "csv")):
        self.name, self.command, self.files, self.weight, self.formats = name, command, dict(files), weight, formats


def spec(kind, name, command):
    return Case(f"{kind} spec", [*command, *FOLDER], [(f"{kind}/{name}.textproto", source(f"hwspecs/{kind}/{name}.textproto"))])


def rasterized(program):
    """A file of results, as `sweep` makes it."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "grid").write_bytes(ONE)
        subprocess.run([program, "sweep", folder / "grid", "-o", folder / "out.db"], check=True, capture_output=True)
        return (folder / "out.db").read_bytes()


def cases(program):
    first = {kind: sorted((ROOT / "hwspecs" / kind).glob("*.textproto")) for kind in (
        "channel", "dataset", "pipeline", "framework", "collective", "job", "engine", "training_software", "strategy", "launcher", "mlperf",
        "published", "release", "disk", "sharing", "efficiency", "calls", "host")}
    serve = ["serve", "llama3_8b", "--gpu", "h100_sxm5_80gb", "--input", "64", "--output", "8", "--requests", "20", "--concurrency", "2"]
    sharded = ["predict", "gpt2", "--gpu", "a100", "--gpus", "4", "--tp", "2", "--micro-batch", "1", "--global-batch", "8"]
    servers = ["predict", "vgg16", "--gpu", "v100", "--nodes", "3", "--servers", "1", "--framework", "tensorflow", "--batch", "8"]
    schedule = ["schedule", "FILE", "--gpus", "8", "--gpus-per-node", "4", "--gpu", "v100_sxm2_16gb"]
    plan = ["plan", "FOLDER/jobs", "--catalogue", "FOLDER/catalogue", "--deadline", "60d", "--worlds", "10"]
    plan_files = {"jobs": PLAN_JOBS, "catalogue": CATALOGUE, "fleet": FLEET, "runs": RUNS}

    def changed(name, files):
        return [(name, files[name]), *((n, c) for n, c in files.items() if n != name)]

    yield Case("onnx", ["predict", "FILE", *T4], [("net.onnx", onnx())], weight=3)
    yield Case("graph file", ["predict", "FILE", *T4], [("net.graph", GRAPH)], weight=3)
    yield Case("graph file, resized", ["predict", "FILE", "--gpu", "t4", "--batch", "6", "--phase", "infer"], [("net.graph", GRAPH)])
    yield Case("exported program", ["predict", "FILE", *T4], [("net.json.pt2", exported())], weight=2)
    yield Case("archive of an exported program", ["predict", "FILE", *T4], [("net.pt2", archive(exported()))])
    yield Case("config.json", ["predict", "FILE", "--gpu", "a100", "--batch", "1", "--seq-len", "64"], [("config.json", CONFIG)])
    yield Case("config.json served", ["serve", "FILE", "--gpu", "h100", "--input", "64", "--output", "8", "--batch", "2"], [("config.json", CONFIG)])
    yield Case("config.json of experts", ["serve", "FILE", "--gpu", "h100", "--input", "64", "--output", "8", "--batch", "2"],
               [("config.json", MOE)])
    yield spec("gpu", "t4", PREDICT)
    yield spec("cpu", "e5_2698_v4", [*PREDICT, "--host-cpu", "e5_2698_v4", "--data", "imagenet", "--cpu-threads", "4"])
    yield spec("machine", "dgx1_v100", ["predict", "alexnet", *MANY])
    yield spec("link", "pcie3_x16", ["predict", "alexnet", *MANY])
    for kind, command in {
            "framework": [*PREDICT, "--framework", "STEM"], "pipeline": [*PREDICT, "--data", "imagenet", "--pipeline", "STEM"],
            "dataset": [*PREDICT, "--data", "STEM"], "disk": [*PREDICT, "--data", "imagenet", "--disk", "STEM"],
            "channel": [*servers, "--channel", "STEM"], "collective": ["predict", "alexnet", *MANY], "strategy": ["predict", "alexnet", *MANY],
            "engine": serve, "training_software": sharded, "job": ["predict", "job:STEM", "--gpu", "t4"], "efficiency": ["collectives", "--gpu",
            "v100_sxm2_16gb", "--machine", "dgx1_v100"], "sharing": ["colocate", "alexnet:4", "alexnet:8", "--gpu", "t4"],
            "host": ["predict", "alexnet", *MANY], "launcher": servers, "release": PREDICT, "calls": PREDICT,
            "mlperf": ["validate", "FOLDER/core.csv"], "published": ["validate", "FOLDER/core.csv"]}.items():
        for path in first[kind][:: max(1, len(first[kind]) // 2)]:
            yield Case(f"{kind} profile", [*(w.replace("STEM", path.stem) for w in command), *FOLDER],
                       [(f"{kind}/{path.name}", path.read_bytes()), ("core.csv", CORE)])
    yield Case("cost profile", [*PREDICT, "--profile", "FILE"], [("profile.textproto", source("hwspecs/cost/default.textproto"))], weight=2)
    yield Case("cluster", ["predict", "alexnet", "--gpu", "v100_sxm2_16gb", "--batch", "4", "--cluster", "FILE"], [("c.textproto", CLUSTER)])
    yield Case("cluster shown", ["cluster", "--cluster", "FILE"], [("c.textproto", CLUSTER)])
    yield Case("fleet", ["schedule", "FOLDER/jobs.csv", "--fleet", "FILE", "--policy", "POLICY"], [("f.textproto", FLEET), ("jobs.csv", PLAIN_JOBS)], 3)
    yield Case("rules", ["schedule", "FOLDER/jobs.csv", *schedule[2:], "--rules-file", "FOLDER/r.textproto", "--policy", "POLICY"], changed("r.textproto", {"r.textproto": RULES, "jobs.csv":
               PLAIN_JOBS}), 2)
    yield Case("jobs", [*schedule, "--policy", "POLICY"], [("jobs.csv", PLAIN_JOBS)], 3)
    yield Case("elastic jobs", [*schedule, "--throughputs", "FOLDER/rates.csv", "--start-costs", "FOLDER/costs.csv", "--policy", "POLICY"],
               [("jobs.csv", JOBS), ("rates.csv", RATES), ("costs.csv", COSTS)], 2)
    yield Case("throughputs", ["schedule", "FOLDER/jobs.csv", "--gpus", "8", "--gpu", "v100_sxm2_16gb", "--throughputs", "FILE", "--throughputs",
               "FOLDER/pairs.csv", "--policy", "POLICY"], [("rates.csv", RATES), ("jobs.csv", JOBS), ("pairs.csv", PAIRS)])
    yield Case("Muri's jobs", [*schedule, "--policy", "POLICY"], [("jobs.csv", MURI)])
    for name in plan_files:
        yield Case(f"plan: {name}", [*plan, "--fleet", "FOLDER/fleet", "--measured", "FOLDER/runs"], changed(name, plan_files), 2)
    yield Case("requests", ["serve", "llama3_8b", "--gpu", "h100", "--trace", "FILE"], [("requests.csv", REQUESTS)], 2)
    yield Case("benchmark result", ["serve", "llama3_8b", "--gpu", "h100", "--measured", "FILE"], [("result.json", RESULT)], 2)
    yield Case("genai-perf result", ["serve", "llama3_8b", "--gpu", "h100", "--measured", "FILE"], [("result.json", GENAI)])
    yield Case("grid", ["sweep", "FILE", "-o", "FOLDER/out.db", "--threads", "1"], [("grid.textproto", GRID)], 2)
    yield Case("store", ["sweep", "FOLDER/grid.textproto", "-o", "FILE", "--threads", "1"], [("out.db", rasterized(program)), ("grid.textproto", ONE)])
    yield Case("results", ["query", "FILE", "SELECT * FROM t"], [("results.db", database(RESULTS))], formats=("table", "json", "csv"))
    yield Case("SQL", ["query", "FOLDER/results.db", SQL], [("results.db", database(RESULTS))], 3, formats=("table", "json", "csv"))
    for name, content, weight in (("k.json", kineto(), 2), ("k.json.gz", gzip.compress(kineto(), mtime=0), 1), ("n.csv", NVPROF, 2), ("l.csv",
                                  KERNELS, 1), ("c.json", chakra(), 1), ("s.sqlite", database(NSYS), 2), ("t.tar.gz", tar("k.json", kineto()), 1)):
        yield Case(f"trace {name}", ["trace", "summary", "FILE"], [(name, content)], weight)
        if name != "c.json":  # an execution trace has no times
            yield Case(f"trace {name} replayed", ["trace", "replay", "FILE", "--gpu", "t4", "--from", "v100"], [(name, content)],
                       formats=("text", "json"))
    yield Case("trace compared", ["trace", "diff", "FILE", "FOLDER/b.json"], [("a.json", kineto()), ("b.json", kineto())])
    yield Case("table", ["validate", "FILE"], [("table.csv", CORE)], 2)
    yield Case("kernel table", ["validate", "FILE"], [("gemm.csv", GEMM)])
    yield Case("kernels", ["calibrate", "--from", "FILE", "--no-uncertainty"], [("gemm.csv", GEMM)], formats=("text", "json"))
    # Words of the command line alone.
    for command in (PREDICT, ["predict", "alexnet", *MANY], sharded, servers, serve, [*serve[:-2], "--rate", "4/s", "--arrivals", "bursty"],
                    ["serve", "llama3_8b", "--gpu", "h100", "--batch", "4", "--context", "4096", "--memory-share", "0.9"],
                    ["serve", "llama3_8b", "--disaggregate", "prefill=1xh100,decode=1xh100", "--gpu", "h100", "--rate", "1/s", "--requests", "20"],
                    [*PREDICT, "--data", "imagenet", "--workers", "2", "--power-limit", "60", "--clock", "900", "--image-size", "224", "--set",
                     "gpu.memory_bandwidth=2x", "--optimizer", "adam", "--accumulate", "2"],
                    ["predict", "bert_base", "--gpu", "a100", "--batch", "2", "--seq-len", "128", "--precision", "amp", "--lora", "8"],
                    ["compare", "alexnet", "--gpu", "t4,v100", "--batch", "4"], ["colocate", "alexnet:4", "resnet50:8@0", "--gpu", "t4"],
                    ["compare", "llama3_8b", "--serve", "--gpu", "h100,a100", "--concurrency", "4", "--input", "64", "--output", "8"],
                    ["collectives", "--gpu", "v100_sxm2_16gb", "--machine", "dgx1_v100", "--sizes", "1KiB,1MiB", "--collective", "all-reduce"],
                    ["networks", "resnet50", "--image-size", "224"], ["gpus", "t4"], ["net"], ["hardware", "links"], ["study", "list"]):
        yield Case(f"flags of {command[0]}", command, weight=2)


POLICIES = ["fifo", "fifo_perf", "srtf", "srsf", "las", "even", "priority", "max_min", "max_min_blind", "min_makespan", "max_throughput",
            "finish_time_fairness", "allox", "deadline", "cost", "all"]


# ---- Mutations.

def number_for(rng, old):
    way = rng.randrange(4)
    if way < 2:
        return rng.choice(NUMBERS)
    try:
        value = float(old)
    except ValueError:
        return rng.choice(NUMBERS)
    scaled = value * 10 ** rng.randint(-12, 12)
    return repr(int(scaled)) if way == 2 and abs(scaled) < 1e18 else repr(scaled)


TOKEN = re.compile(rb"[-+]?\d[\d.]*(?:[eE][-+]?\d+)?")
WORD = re.compile(rb"[A-Za-z_\x80-\xff][\w\x80-\xff]*|\"[^\"\n]*\"")


def replace_token(rng, data, pattern, make):
    found = list(pattern.finditer(data))
    if not found:
        return data
    hit = rng.choice(found)
    return data[:hit.start()] + make(hit.group()) + data[hit.end():]


def mutate_text(rng, data):
    way = rng.randrange(10)
    if way < 5:
        return replace_token(rng, data, TOKEN, lambda old: number_for(rng, old.decode()).encode())
    if way == 5:
        return replace_token(rng, data, WORD, lambda old: rng.choice(WORDS).encode())
    words = [m.group() for m in WORD.finditer(data)]
    if way == 6 and words:
        return replace_token(rng, data, WORD, lambda old: rng.choice(words))
    lines = data.split(b"\n")
    i = rng.randrange(len(lines))
    if way == 7:
        lines.insert(i, rng.choice(lines))
    elif way == 8:
        del lines[i]
    else:
        return mutate_bytes(rng, data)
    return b"\n".join(lines)


def mutate_bytes(rng, data):
    data = bytearray(data)
    way = rng.randrange(6)
    if not data:
        return bytes(rng.randrange(256) for _ in range(rng.randrange(64)))
    at = rng.randrange(len(data))
    if way == 0:
        del data[at:]
    elif way == 1:
        del data[at:at + 1 + rng.randrange(16)]
    elif way == 2:
        data[at:at] = bytes(rng.randrange(256) for _ in range(1 + rng.randrange(8)))
    elif way == 3:
        size = 1 + rng.randrange(64)
        data[at:at] = data[at:at + size] * rng.choice((1, 2, 100))
    elif way == 4:
        data[at:at + 8] = struct.pack("<q", rng.choice((0, -1, 2 ** 63 - 1, -2 ** 63, 2 ** 31, 2 ** 32)))
    else:
        for _ in range(1 + rng.randrange(8)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def is_text(data):
    return b"\0" not in data and not data.startswith(b"\x1f\x8b")


def mutate_words(rng, command):
    words = list(command)
    for _ in range(rng.choice((1, 1, 2))):
        way = rng.randrange(8)
        i = rng.randrange(1, len(words)) if len(words) > 1 else 0
        if way < 4:
            numeric = [k for k, w in enumerate(words) if k > 0 and TOKEN.search(os.fsencode(w))]
            if numeric:
                k = rng.choice(numeric)
                changed = replace_token(rng, os.fsencode(words[k]), TOKEN, lambda old: number_for(rng, old.decode()).encode())
                words[k] = os.fsdecode(changed)
        elif way == 4:
            words[i] = rng.choice(WORDS)
        elif way == 5:
            words[i] = os.fsdecode(mutate_text(rng, os.fsencode(words[i]))).replace("\0", "")
        elif way == 6:
            words.insert(i, rng.choice(words[1:] or words))
        elif len(words) > 2:
            del words[i]
    return [w.replace("\0", "") for w in words]


# ---- One run.

NOT_FINITE = re.compile(r"(?:^|[,:\s])[-+]?(?:inf|nan)(?:$|[,\s}\]])", re.IGNORECASE | re.MULTILINE)


class Runner:
    def __init__(self, program):
        self.program, self.worst_cpu, self.worst_mb, self.codes = program, 0.0, 0.0, collections.Counter()

    def run(self, words, folder):
        """Exit code or negative signal, stdout, stderr, CPU seconds, MB."""
        out, err = folder / ".out", folder / ".err"
        with out.open("wb") as o, err.open("wb") as e, subprocess.Popen([self.program, *words], stdin=subprocess.DEVNULL, stdout=o, stderr=e,
                                                                        cwd=folder) as process:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                for what, most in ((resource.RLIMIT_AS, ADDRESS_SPACE), (resource.RLIMIT_CPU, CPU_S + 2), (resource.RLIMIT_FSIZE, 1 << 28)):
                    resource.prlimit(process.pid, what, (most, most))
            end = time.monotonic() + WALL_S
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                if time.monotonic() > end:
                    process.send_signal(signal.SIGKILL)
                    _, status, usage = os.wait4(process.pid, 0)
                    break
                time.sleep(0.002)
            process.returncode = os.waitstatus_to_exitcode(status)
        return (process.returncode, out.read_bytes().decode(errors="replace"), err.read_bytes().decode(errors="replace"),
                usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)

    def faults(self, words, folder, output_format, streams):
        code, out, err, cpu, mb = self.run(words, folder)
        self.codes[code] += 1
        self.worst_cpu, self.worst_mb = max(self.worst_cpu, cpu), max(self.worst_mb, mb)
        found = []
        if code not in (0, 1, 2):
            found.append(f"exit code {code}: {err.strip()[:200]}")
        if cpu > CPU_S:
            found.append(f"{cpu:.1f} s")
        if mb > RSS_MB:
            found.append(f"{mb:.0f} MB")
        if code == 2 and (err.count("\n") != 1 or (out and not streams)):
            found.append(f"a refusal of {err.count(chr(10))} lines, {len(out)} bytes of answer: {err[:200]}")
        if code in (0, 1):
            if not out and output_format != "csv":
                found.append("an empty result")
            if output_format == "json":
                try:
                    json.loads(out, parse_constant=lambda word: found.append(f"{word} in JSON"))
                except ValueError as error:
                    found.append(f"no JSON: {error}")
            elif output_format == "csv" and (hit := NOT_FINITE.search(re.sub(r'"[^"]*"', "", out))):
                found.append(f"{hit.group().strip()} in CSV")
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=20261129)
    parser.add_argument("--only", default="", help="cases whose name holds this word")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the inputs that found a fault")
    options = parser.parse_args()
    runner = Runner(os.path.abspath(options.program))
    known = [case for case in cases(runner.program) if options.only in case.name]
    if not known:
        sys.exit(f"no case holds {options.only!r}")
    turns = [case for case in known for _ in range(case.weight)]
    faults = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for number in range(-len(known), options.count):
            whole = number < 0  # every case as it stands first: a mutation is to be refused for its own fault
            case = known[number] if whole else turns[number % len(turns)]
            rng = random.Random(f"{options.seed} {case.name} {number}")
            for path in sorted(folder.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink()
            for place, (path, content) in enumerate(case.files.items()):
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                changes = not whole and place == 0 and not (case.name == "SQL")
                if changes:
                    for _ in range(rng.choice((1, 1, 1, 2, 5))):
                        content = mutate_text(rng, content) if is_text(content) and rng.random() < 0.8 else mutate_bytes(rng, content)
                (folder / path).write_bytes(archive(content) if path.endswith(".json.pt2") else content)
            words = list(case.command)
            if not whole and (not case.files or case.name == "SQL"):
                words = mutate_words(rng, words)
            first = next(iter(case.files), "")
            policy = rng.choice(POLICIES[:2] if whole else POLICIES)
            words = [w.replace("FOLDER", str(folder)).replace("POLICY", policy) if w != "FILE" else str(folder / first) for w in words]
            output_format = rng.choice(case.formats)
            words += ["--format", output_format]
            found = runner.faults(words, folder, output_format, case.command[0] == "query")
            if whole and not found and runner.codes[0] + runner.codes[1] < number + len(known) + 1:
                found.append("refused as it stands: " + runner.run(words, folder)[2].strip())
                runner.codes[0] += 1
            if not found:
                continue
            faults += 1
            print(f"fault: {case.name}, number {number}: {'; '.join(found)}\n  {shlex.join(['tracecast', *words])}", flush=True)
            if options.keep:
                kept = options.keep / f"{faults:04}"
                for path in folder.rglob("*"):
                    if path.is_file():
                        (kept / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
                        (kept / path.relative_to(folder)).write_bytes(path.read_bytes())
    codes = ", ".join(f"{code}: {count}" for code, count in sorted(runner.codes.items()))
    print(f"{options.count} mutated inputs over {len(known)} cases: exit codes {codes}; most {runner.worst_cpu:.1f} s of CPU, "
          f"{runner.worst_mb:.0f} MB; {faults} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
