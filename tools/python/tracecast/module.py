"""Networks of PyTorch: an nn.Module's forward pass, written down op by op without running it.

PyTorch calls the module on tensors without contents (fake tensors), on a CPU or none; what it dispatches is recorded with shapes, and
parameters by name. What the text means stands in models/aten/README.md.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import re
import tempfile
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

from tracecast import _core
from tracecast.hardware import File
from tracecast.predictor import Flag, predict
from tracecast.results import Forecast

#: First line of a graph file.
_HEADER = "tracecast graph 1"
#: Element types as the file spells them.
_TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "int64": "i64", "int32": "i32", "int16": "i16",
          "int8": "i8", "uint8": "u8", "bool": "bool", "complex64": "c64", "complex128": "c128", "float8_e4m3fn": "f8",
          "float8_e5m2": "f8"}
#: Arguments that say where or how a tensor is made, which is no part of the network.
_LEFT_OUT = ("device", "layout", "pin_memory", "generator", "non_blocking", "requires_grad")
#: Functions that are one op here: PyTorch takes them apart before it dispatches, on a CPU otherwise than on a GPU. Their parameters.
_WHOLE = {
    "linear": ("input", "weight", "bias"),
    "matmul": ("self", "other"),
    "cross_entropy": ("self", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing"),
    "scaled_dot_product_attention": ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"),
    "lstm": ("input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first"),
    "gru": ("input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first"),
    "rnn_tanh": ("input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first"),
    "rnn_relu": ("input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first"),
    "_native_multi_head_attention": ("query", "key", "value", "embed_dim", "num_head", "qkv_weight", "qkv_bias", "proj_weight",
                                     "proj_bias", "mask", "need_weights", "average_attn_weights", "mask_type"),
}
#: Operators whose results have sizes that the data decide.
_DATA_DEPENDENT = ("nonzero", "masked_select", "unique_dim", "_unique", "_unique2", "unique_consecutive", "bincount", "equal")
#: What they are called where they are dispatched whole.
_TARGETS = {"cross_entropy": "cross_entropy_loss"}


class Graph:
    """A module's forward pass as text: what ``tracecast predict FILE.graph`` reads."""

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text

    def save(self, file: File) -> None:
        """Writes the file; its name should end in ``.graph``."""
        pathlib.Path(file).write_text(self.text, encoding="utf-8")

    def __repr__(self) -> str:
        return f"Graph({self.name!r}, {self.text.count(' = ')} ops)"


def _torch() -> Any:
    try:
        import torch  # only here: the rest of the module does without
    except ImportError as error:
        raise _core.InputError(f"PyTorch: {error}; expected a Python that has it, or an ONNX file of the network") from error
    return torch


class _Writer:
    """Names tensors and writes calls."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.declared: list[str] = []
        self.calls: list[str] = []
        self.names: dict[int, str] = {}
        self.used: set[str] = set()
        self.alive: list[Any] = []  # an id is a tensor's only while that lives
        self.scopes: list[str] = []
        self.quiet = 0
        self.without_contents: Any = None  # tensors of any structure of arguments, as tensors that have none

    def type_of(self, tensor: Any) -> str:
        kind = str(tensor.dtype).rpartition(".")[2]
        shape = [int(size) for size in tensor.shape]
        text = f"{_TYPES.get(kind, kind)}[{','.join(map(str, shape))}]"
        if tensor.layout == self.torch.strided and not tensor.is_contiguous():
            text += "{" + ",".join(str(int(step)) for step in tensor.stride()) + "}"
        return text

    def name(self, tensor: Any, wanted: str) -> str:
        wanted = re.sub(r"[^A-Za-z0-9_.:/-]", "_", wanted) or "_"
        name, count = wanted, itertools.count(2)
        while name in self.used:
            name = f"{wanted}:{next(count)}"
        self.used.add(name)
        self.names[id(tensor)] = name
        self.alive.append(tensor)
        return name

    def declare(self, role: str, tensor: Any, wanted: str) -> None:
        if id(tensor) not in self.names:
            self.declared.append(f"{role} %{self.name(tensor, wanted)} {self.type_of(tensor)}")

    def value(self, value: Any) -> Optional[str]:
        """As the file spells an argument; None where it has no word for it."""
        torch = self.torch
        if value is None:
            return "none"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, torch.Tensor):
            if id(value) not in self.names:
                self.declare("constant", value, f"constant.{len(self.declared)}")
            return "%" + self.names[id(value)]
        if isinstance(value, torch.dtype):
            kind = str(value).rpartition(".")[2]
            return _TYPES.get(kind, kind)
        if isinstance(value, torch.memory_format):
            return str(value).rpartition(".")[2]
        if isinstance(value, str):
            return '"' + re.sub(r'[^ -~]|["\\]', "?", value) + '"'
        if isinstance(value, (list, tuple)):
            parts = [self.value(part) for part in value]
            return None if None in parts else "[" + ", ".join(str(part) for part in parts) + "]"
        try:
            return repr(int(value)) if isinstance(value, int) or hasattr(value, "node") else repr(float(value))
        except (TypeError, ValueError):
            return None

    def call(self, target: str, arguments: Mapping[str, Any], results: Any) -> None:
        spelled = {name: self.value(value) for name, value in arguments.items() if name not in _LEFT_OUT}
        words = ", ".join(f"{name}={value}" for name, value in spelled.items() if value is not None)
        outputs = []
        for result in results if isinstance(results, (list, tuple)) else [results]:
            if isinstance(result, self.torch.Tensor):
                outputs.append(f"%{self.name(result, str(len(self.alive)))} {self.type_of(result)}")
            else:
                outputs.append("_")
        scope = f" in {re.sub(r'[^A-Za-z0-9_.:/-]', '_', self.scopes[-1])}" if self.scopes and self.scopes[-1] else ""
        self.calls.append(f"{', '.join(outputs)} = {target}({words}){scope}")


def _recorder(torch: Any, writer: _Writer, as_fake: Any) -> Any:
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    class Recorder(TorchDispatchMode):  # type: ignore[misc]
        """Writes every op that is dispatched, then lets it make its tensors without contents."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            space, _, target = func._schema.name.partition("::")
            if target.startswith("lift"):  # a number that becomes a tensor: a constant, once it is read
                return func(*args, **(kwargs or {}))
            args, kwargs = tree_map(as_fake, args), tree_map(as_fake, kwargs or {})
            is_value = target == "_local_scalar_dense" and getattr(args[0], "constant", None) is None
            if is_value or target in _DATA_DEPENDENT or (target == "index" and any(
                    part is not None and part.dtype in (torch.bool, torch.uint8) for part in args[1])):
                raise TypeError(f"{space}::{target} needs the values of a tensor")
            results = func(*args, **kwargs)
            if writer.quiet or space == "prim":
                return results
            has_tensor = any(isinstance(result, torch.Tensor) for result in (
                results if isinstance(results, (list, tuple)) else [results]))
            if not has_tensor:
                return results
            if target in ("detach", "alias") and id(args[0]) in writer.names:
                writer.names[id(results)] = writer.names[id(args[0])]
                writer.alive.append(results)
                return results
            named = {argument.name: value for argument, value in zip(func._schema.arguments, args)}
            writer.call(f"{space}.{target}.{func._overloadname}", {**named, **kwargs}, results)
            return results

    return Recorder()


def _whole(torch: Any, writer: _Writer, name: str, function: Any) -> Any:
    """The function, written as one op instead of what it dispatches."""
    def empty_like(query: Any, *others: Any, **flags: Any) -> Any:
        return torch.empty_like(query), None

    run = empty_like if name == "_native_multi_head_attention" else function

    def call(*args: Any, **kwargs: Any) -> Any:
        tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
        is_known = len(args) <= len(_WHOLE[name]) and set(kwargs) <= {*_WHOLE[name], "input"}
        if writer.quiet or not tensors or not is_known:
            return function(*args, **kwargs)
        args, kwargs = writer.without_contents(args), writer.without_contents(kwargs)
        writer.quiet += 1
        try:
            results = run(*args, **kwargs)
        finally:
            writer.quiet -= 1
        if not (args and results is args[0]):
            target = _TARGETS.get(name, name)
            named = {"self" if key == "input" and name == "cross_entropy" else key: value for key, value in kwargs.items()}
            writer.call(f"aten.{target}.default", {**dict(zip(_WHOLE[name], args)), **named}, results)
        return results

    return call


def _dropout(torch: Any, writer: _Writer, function: Any) -> Any:
    def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
        if not training or p == 0 or writer.quiet:
            return input if not writer.quiet else function(input, p, training, inplace)
        writer.quiet += 1
        try:
            result = torch.empty_like(input)
        finally:
            writer.quiet -= 1
        writer.call("aten.dropout" + ("_" if inplace else "") + ".default", {"input": input, "p": float(p), "train": True}, result)
        return result
    return dropout


def _multi_head_attention(torch: Any, writer: _Writer, function: Any) -> Any:
    """nn.MultiheadAttention as PyTorch 2 runs it, for a PyTorch 1 that has no scaled_dot_product_attention: the framework that is
    predicted has. Tokens stand first, samples second."""
    def attention(query: Any, key: Any, value: Any, width: int, heads: int, weight: Any, bias: Any, bias_k: Any, bias_v: Any,
                  add_zero_attn: bool, dropout: float, out_weight: Any, out_bias: Any, training: bool = True,
                  key_padding_mask: Any = None, need_weights: bool = True, attn_mask: Any = None, **flags: Any) -> Any:
        special = (need_weights or bias_k is not None or add_zero_attn or key_padding_mask is not None or query.dim() != 3
                   or key is not value or any(flag is not None for name, flag in flags.items() if name != "average_attn_weights"
                                              and not isinstance(flag, bool)) or flags.get("use_separate_proj_weight"))
        if special or (attn_mask is not None and attn_mask.dim() == 3):
            return function(query, key, value, width, heads, weight, bias, bias_k, bias_v, add_zero_attn, dropout, out_weight,
                            out_bias, training=training, key_padding_mask=key_padding_mask, need_weights=need_weights,
                            attn_mask=attn_mask, **flags)
        linear = torch.nn.functional.linear

        def parts(x: Any, rows: Any, offset: Any, count: int) -> Any:
            x = linear(x, rows, offset)
            x = x.unflatten(-1, (count, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
            return [x[i] for i in range(count)]

        if query is key:
            q, k, v = parts(query, weight, bias, 3)
        else:
            rows, offsets = weight.split([width, 2 * width]), bias.split([width, 2 * width]) if bias is not None else (None, None)
            q, (k, v) = linear(query, rows[0], offsets[0]), parts(key, rows[1], offsets[1], 2)
        steps, samples = query.shape[0], query.shape[1]

        def by_head(x: Any) -> Any:
            x = x.view(x.shape[0], samples * heads, width // heads).transpose(0, 1)
            return x.view(samples, heads, x.shape[1], width // heads)

        q, k, v = by_head(q), by_head(k), by_head(v)
        writer.quiet += 1
        try:
            y = torch.empty_like(q)
        finally:
            writer.quiet -= 1
        writer.call("aten.scaled_dot_product_attention.default", {
            "query": q, "key": k, "value": v, "attn_mask": attn_mask, "dropout_p": float(dropout) if training else 0.0}, y)
        y = y.permute(2, 0, 1, 3).contiguous().view(samples * steps, width)
        return linear(y, out_weight, out_bias).view(steps, samples, width), None

    return attention


@contextlib.contextmanager
def _functions_whole(torch: Any, writer: _Writer) -> Iterator[None]:
    places = [(torch.nn.functional, name, name) for name in ("linear", "scaled_dot_product_attention", "cross_entropy")]
    places += [(torch, "matmul", "matmul"), (torch.Tensor, "matmul", "matmul"), (torch.Tensor, "__matmul__", "matmul"),
               (torch, "_native_multi_head_attention", "_native_multi_head_attention")]
    places += [(torch._VF, name, name) for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")]
    undo = []
    try:
        for owner, attribute, name in places:
            function = getattr(owner, attribute, None)
            if function is None:
                continue
            undo.append((owner, attribute, vars(owner).get(attribute)))
            setattr(owner, attribute, _whole(torch, writer, name, function))
        functional = torch.nn.functional
        undo.append((functional, "dropout", functional.dropout))
        functional.dropout = _dropout(torch, writer, functional.dropout)
        if not hasattr(functional, "scaled_dot_product_attention"):
            undo.append((functional, "multi_head_attention_forward", functional.multi_head_attention_forward))
            functional.multi_head_attention_forward = _multi_head_attention(torch, writer, functional.multi_head_attention_forward)
        yield
    finally:
        for owner, attribute, function in reversed(undo):
            if function is None:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, function)


@contextlib.contextmanager
def _without_contents(torch: Any, model: Any, writer: _Writer, as_fake: Any, mode: Optional[bool]) -> Iterator[None]:
    """The module with tensors that have no contents in place of its own, its ops named after its parts; afterwards as it was."""
    undo, handles = [], []
    was_training = [(module, module.training) for module in model.modules()]
    try:
        if mode is not None:
            model.train(mode)
        for path, module in model.named_modules():
            for role, tensors in (("parameter", module._parameters), ("buffer", module._buffers), ("constant", vars(module))):
                for key, tensor in list(tensors.items()):
                    if not isinstance(tensor, torch.Tensor):
                        continue
                    fake = as_fake(tensor)
                    kind = "frozen" if role == "parameter" and not tensor.requires_grad else role
                    writer.declare(kind, fake, f"{path}.{key}" if path else key)
                    undo.append((tensors, key, tensor))
                    tensors[key] = fake
            handles.append(module.register_forward_pre_hook(lambda *_, path=path: writer.scopes.append(path)))
            handles.append(module.register_forward_hook(lambda *_: (writer.scopes.pop(), None)[1]))
        yield
    finally:
        for handle in handles:
            handle.remove()
        for tensors, key, tensor in reversed(undo):
            tensors[key] = tensor
        for module, training in was_training:
            module.training = training


def _outputs(torch: Any, result: Any) -> list[Any]:
    """Tensors that a forward pass gives back: itself, or those of a tuple, list, dict or dataclass; nested ones (caches) only where
    nothing else is."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, Mapping):
        parts: Sequence[Any] = list(result.values())
    elif isinstance(result, (list, tuple)):
        parts = result
    elif hasattr(result, "__dataclass_fields__"):
        parts = [getattr(result, name) for name in result.__dataclass_fields__]
    else:
        return []
    tensors = [part for part in parts if isinstance(part, torch.Tensor)]
    return tensors or [tensor for part in parts for tensor in _outputs(torch, part)]


def graph(model: Any, inputs: Any, phase: str = "train", name: Optional[str] = None) -> Graph:
    """The forward pass of an ``nn.Module`` at these inputs: a tensor, a sequence of positional ones, or a mapping of keyword ones.

    Nothing is computed: neither a GPU nor memory for the network's tensors is needed. The module may lie on any device, ``meta`` too.
    ``phase``: "train" and "forward_backward" write it as it trains (dropout and auxiliary heads work), "infer" as it answers.
    What a forward pass decides by the values of tensors cannot be known without running it: InputError.
    """
    torch = _torch()
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
    from torch.utils._mode_utils import no_dispatch
    from torch.utils._pytree import tree_map

    if not isinstance(model, torch.nn.Module):
        raise _core.InputError(f"model: {type(model).__name__}; expected a torch.nn.Module")
    fake_mode, writer = FakeTensorMode(), _Writer(torch)
    known: dict[int, Any] = {}

    def as_fake(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
            return value
        if id(value) not in known:
            with no_dispatch():
                meta = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
                known[id(value)] = (value, FakeTensor(fake_mode, meta, torch.device("cpu")))
        return known[id(value)][1]

    writer.without_contents = lambda values: tree_map(as_fake, values)
    writer_mode = _recorder(torch, writer, as_fake)
    keywords = dict(inputs) if isinstance(inputs, Mapping) else {}
    positional = () if keywords else tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
    trains = phase in ("train", "forward_backward")
    with torch.no_grad(), _without_contents(torch, model, writer, as_fake, trains):
        positional, keywords = tree_map(as_fake, positional), tree_map(as_fake, keywords)
        for index, value in enumerate(positional):
            for part, tensor in enumerate(_outputs(torch, value)):
                writer.declare("input", tensor, f"input{index}" if part == 0 else f"input{index}.{part}")
        for key, value in keywords.items():
            for tensor in _outputs(torch, value):
                writer.declare("input", tensor, key)
        try:
            with _functions_whole(torch, writer), fake_mode, writer_mode:
                result = model(*positional, **keywords)
        except Exception as error:
            where = writer.scopes[-1] if writer.scopes else ""
            line = str(error).strip().splitlines()[0] if str(error).strip() else ""
            raise _core.InputError(
                f"{type(model).__name__}{'.' + where if where else ''}: {type(error).__name__}: {line}; expected a forward pass that "
                "needs the shapes of its inputs, not their values") from error
    outputs = [tensor for tensor in _outputs(torch, result) if id(tensor) in writer.names]
    if not outputs:
        raise _core.InputError(f"{type(model).__name__}: a forward pass that gives back no tensor; expected one")
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", name or type(model).__name__)
    head = [_HEADER, f"network {name}", f"traced pytorch {torch.__version__}", f"mode {'train' if trains else 'infer'}"]
    ends = [f"output %{writer.names[id(tensor)]}" for tensor in outputs]
    return Graph(name, "\n".join([*head, *writer.declared, *writer.calls, *ends]) + "\n")


def estimate(model: Any, inputs: Any, gpu: str, phase: str = "train", **flags: Flag) -> Forecast:
    """How an ``nn.Module`` trains or infers on a GPU that need not be there: ``predict`` of its graph.

    ``inputs`` as in ``graph``; their first dimension is the batch. Flags are those of ``tracecast predict``: precision ("bf16"),
    optimizer ("adamw"), gpus, strategy ... Without a precision a module in 16 bits is predicted in those."""
    traced = graph(model, inputs, phase)
    if "precision" not in flags:
        kinds = {str(parameter.dtype).rpartition(".")[2] for parameter in model.parameters() if parameter.dtype.is_floating_point}
        if len(kinds) == 1 and kinds <= {"bfloat16", "float16"}:
            flags["precision"] = "bf16" if "bfloat16" in kinds else "fp16"
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, traced.name + ".graph")
        traced.save(file)
        return predict(file, gpu, phase=phase, **flags)
