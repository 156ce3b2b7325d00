"""Readers of PyTorch ATen templates: elementwise, reduction, softmax, normalisation, cat, index and foreach kernels."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from kerneldb.names.dtypes import argument_types, distinct, element_type, main_type, typed
from kerneldb.names.functors import Functor, operation_of, read_functor
from kerneldb.names.model import directed
from kerneldb.names.structure import call, number_at

if TYPE_CHECKING:
    from kerneldb.names.model import Facts
    from kerneldb.names.structure import Structure

_PLAIN = re.compile(r"-?\d+|int|long|unsigned int")
_OPTIMIZERS = re.compile(r"(Adam|SGD|Sgd|Adagrad|Lamb|LAMB|Novograd|NovoGrad|LARS|Lion|RMSprop|Rprop|Adamax|Adadelta)")
# Apex' multi-tensor kernels (csrc/multi_tensor_*.cu) share the name of those that ATen took over from it.
_APEX = re.compile(r"(?:Adam|AdamCapturable\w*|SGD|Adagrad|NovoGrad|LAMBStage[12]|DistOpt\w*|Lion)Functor")
_CONVERSIONS = {"float16_copy": "fp16", "bfloat16_copy": "bf16", "float8_copy": "fp8"}
_POINTWISE = {"mul": "addcmul", "div": "addcdiv"}


def _types(facts: Facts, types: tuple[str, ...]) -> Facts:
    """Put in the element types; ``unsigned int`` beside others is the type of the index arithmetic, not of elements."""
    types = tuple(dtype for dtype in types if dtype != "uint32") or types
    facts["dtypes"], facts["dtype"] = types, main_type(types)
    return facts


def _with_functor(functor: Functor | None, args: tuple[str, ...]) -> Facts:
    """Return what a functor says: operation, types, and details that change the call to replay."""
    if functor is None:
        return _types({}, argument_types(args))
    facts = _types({"operation": functor.operation}, functor.types)
    details: dict[str, str | int | bool] = {"functor": functor.name}
    if functor.scalar is not None:
        details["scalar_operand"] = functor.scalar
    if functor.operation == "gelu" and functor.variant is not None:
        details["approximate"] = "tanh" if functor.variant == 1 else "none"
    for rounding in ("floor", "trunc"):
        if f"div_{rounding}" in functor.name:
            details["rounding"] = rounding
    if functor.operation == "copy":
        facts["category"] = "COPY"
        output = next((dtype for key, dtype in _CONVERSIONS.items() if functor.name.startswith(key)), None)
        facts["dtypes"] = distinct([*functor.types, output])
    if functor.operation.endswith("_backward"):
        facts["direction"] = "backward"
    facts["details"] = details
    return facts


def read_elementwise(name: Structure) -> Facts:
    """Read ``vectorized_elementwise_kernel<4, F, ...>``, ``elementwise_kernel<128, 4, F>``, ``unrolled_...<F, A, 4>``.

    The vector width is the number of elements per thread: argument 1, 2 and 3 of these templates.
    """
    named = next((arg for arg in name.args if not _PLAIN.fullmatch(arg)), None)
    facts = _with_functor(read_functor(named) if named else None, name.args)
    place = {"v": 0, "e": 1, "u": 2}.get(name.base[:1], 1)
    if len(name.args) > place and name.args[place].isdecimal() and "with_index" not in name.base:
        facts["vector_width"] = int(name.args[place])
    threads = name.args[0] if name.args and name.base.startswith("elementwise_kernel") else ""
    if threads.isdecimal():
        facts.setdefault("details", {})["threads"] = int(threads)
    if "LoadWithCast" in name.canonical or "StoreWithCast" in name.canonical:
        facts.setdefault("details", {})["casts"] = True
    return facts


def read_bare_functor(name: Structure) -> Facts:
    """Read a functor that stands alone, as documents abbreviate names: ``CUDAFunctor_add``, ``FillFunctor<bool>``."""
    facts = _with_functor(read_functor(name.canonical), name.args)
    if facts.get("dtype") is None:
        _types(facts, argument_types(part for arg in name.args for part in arg.split("...")))
    return facts


def read_reduction(name: Structure) -> Facts:
    """Read ``reduce_kernel<512, 1, ReduceOp<input, Ops<...>, index, output, ...>>`` (or a bare ``ReduceOp<...>``)."""
    reduce_op = next((arg for arg in name.args if arg.startswith("ReduceOp")), None)
    if reduce_op is None and name.base == "ReduceOp":
        reduce_op = name.canonical
    if reduce_op is None:
        return {}
    _, args = call(reduce_op)
    ops = next((arg for arg in args[1:] or args if element_type(arg) is None and not _PLAIN.fullmatch(arg)), "")
    functor = read_functor(ops) if ops else None
    facts = _with_functor(functor, ())
    output = [arg for arg in args[3:4] if arg]
    _types(facts, distinct([*argument_types(args[:1]), *(functor.types if functor else ()), *argument_types(output)]))
    facts["dtype"] = element_type(args[0]) if args else None
    facts["dtype"] = facts["dtype"] or main_type(facts["dtypes"])
    if len(name.args) > 1 and name.args[0].isdecimal() and name.args[1].isdecimal():
        facts.setdefault("details", {}).update(threads=int(name.args[0]), outputs_per_thread=int(name.args[1]))
    return facts


def read_softmax(name: Structure) -> Facts:
    """Read ``softmax_warp_forward<in, out, acc, log2 elements, is_log>`` and ``cunn_SoftMaxForward<ilp, ..., E>``."""
    logarithmic = "LogSoftMax" in name.canonical or "log_softmax" in name.base
    details: dict[str, str | int | bool] = {}
    if name.base.startswith("softmax_warp") and name.args[4:]:
        logarithmic = name.args[4] == "1"
        details["log2_elements"] = number_at(name.args, 3) or 0
    operation = directed("log_softmax" if logarithmic else "softmax", backward="ackward" in name.base)
    facts = _types(operation, argument_types(name.args))
    if name.base.startswith("cunn") and name.args and name.args[0].isdecimal():
        facts["vector_width"] = int(name.args[0])
    facts["details"] = details
    return facts


def read_norm(name: Structure) -> Facts:
    """Read layer, RMS, group and batch normalisation kernels: the operation is in the function's name."""
    text = name.base.lower()
    rms = "rms" in text or (name.base == "vectorized_layer_norm_kernel" and name.args[2:3] == ("1",))
    kinds = (("group", "group_norm"), ("batch", "batch_norm"), ("bn_", "batch_norm"), ("instance", "instance_norm"))
    operation = "rms_norm" if rms else next((op for key, op in kinds if key in text), "layer_norm")
    if "l2_norm" in text:
        operation = "l2_norm"
    if "batch_norm_collect_statistics" in text:
        operation = "batch_norm_stats"
    backward = bool(re.search(r"ackward|[Gg]rad|_bw_|Internal", name.base))
    return _types(directed(operation, backward=backward), argument_types(name.args))


def read_cat(name: Structure) -> Facts:
    """Read ``CatArrayBatchedCopy[_vectorized]<OpaqueType<2>, unsigned int, dims, 64, 64>``.

    Only the size of an element is known (``details['element_bytes']``); the last numbers are batch and tile.
    """
    details: dict[str, str | int | bool] = {}
    facts: Facts = {"details": details}
    first = name.args[0] if name.args else ""
    opaque = re.search(r"OpaqueType<(\d+)>", first)
    if opaque is not None:
        details["element_bytes"] = int(opaque[1])
    elif element_type(first):
        facts.update(typed([element_type(first)]))
    numbers = [int(arg) for arg in name.args if arg.isdecimal()]
    details.update(zip(("dims", "tile", "batch"), numbers, strict=False))
    if "vectorized" in name.base and numbers[4:]:
        facts["vector_width"] = numbers[4]
    return facts


def read_index(name: Structure) -> Facts:
    """Read index, gather and scatter kernels: the operation from the host function they were made in."""
    functor = next((read_functor(arg) for arg in name.args if not _PLAIN.fullmatch(arg) and "lambda" in arg), None)
    facts: Facts = {}
    if functor is not None:
        facts["operation"] = functor.operation
        facts["details"] = {"functor": functor.name}
    opaque = re.search(r"OpaqueType<(\d+)>", name.canonical)
    if opaque is not None:
        facts.setdefault("details", {})["element_bytes"] = int(opaque[1])
    return facts


def read_gather(name: Structure) -> Facts:
    """Read ``vectorized_gather_kernel<16, long>``: bytes per access and index type; the element type is not named."""
    facts: Facts = {"dtype": None, "dtypes": ()}
    if name.args and name.args[0].isdecimal():
        facts["details"] = {"access_bytes": int(name.args[0])}
    return facts


def read_foreach(name: Structure) -> Facts:
    """Read ``multi_tensor_apply_kernel<Metadata, Functor<...>, Op<...>, ...>``."""
    functor = name.args[1] if len(name.args) > 1 else ""
    base, args = call(functor)
    optimizer = _OPTIMIZERS.search(base)
    if optimizer is not None:
        return _read_optimizer(base, args) | ({"library": "Apex"} if _APEX.fullmatch(base) else {})
    operation = _foreach_operation(base, name.args[2:3])
    facts = _types({"operation": operation}, argument_types(args))
    facts["details"] = {"functor": base}
    return facts


def _foreach_operation(base: str, op: tuple[str, ...]) -> str:
    """Return the operation: that of the op in argument 3 (``multiplies``), or of the functor where there is none."""
    if not base:
        return "foreach"
    if op and base.endswith("Functor") and ("Op" in base):
        operation = operation_of(call(op[0])[0].split("::", 1)[0])
        return _POINTWISE.get(operation, operation) if base.startswith("Pointwise") else operation
    known = {"LpNormFunctor": "norm", "L2NormFunctor": "norm", "ZeroFunctor": "zero", "CopyFunctor": "copy"}
    return known.get(base) or operation_of(base)


def _read_optimizer(base: str, args: list[str]) -> Facts:
    """Read a fused optimizer step: ``FusedAdamMathFunctor<float, 4, ADAM_MODE, ...>`` (mode 1 is AdamW)."""
    words = re.sub(r"Fused|Math|Functor|Capturable|Master|Stage\d", "", base)
    operation = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", words).lower().strip("_") or "optimizer"
    if operation == "adam" and args[2:3] == ["1"]:
        operation = "adamw"
    facts = _types({"operation": operation}, argument_types(args))
    facts["category"], facts["family"], facts["details"] = "OPTIMIZER", "fused_optimizer", {"functor": base}
    return facts


def read_types(name: Structure) -> Facts:
    """Read nothing but the element types among the template arguments."""
    return _types({}, argument_types(name.args))


def read_scan(name: Structure) -> Facts:
    """Read a CUB, rocPRIM or Thrust kernel: the element type, and what algorithm its name says."""
    inner = argument_types(re.findall(r"(?<=[<,])[A-Za-z_]\w*(?: int| long| long long)?(?=[,>])", name.canonical))
    facts = typed([dtype for dtype in inner if dtype != "uint32"] or inner)
    facts["operation"] = next((op for key, op in _ALGORITHMS if key in name.canonical), None)
    # rocPRIM starts everything by `trampoline_kernel<wrapped_reduce_config<...>>`: its configuration says what runs.
    if "educe" in name.base or re.search("wrapped_reduce_config|Reduce(?:ByKey)?Agent", name.canonical):
        facts["category"] = "REDUCTION"
    return facts


def read_random(name: Structure) -> Facts:
    """Read a kernel that draws numbers: which distribution, where the name says."""
    found = _DISTRIBUTIONS.search(name.canonical)
    facts = read_types(name)
    facts["operation"] = found[0].lower() if found else "random"
    return facts


_DISTRIBUTIONS = re.compile(
    r"uniform|log_normal|normal|[Bb]ernoulli|exponential|cauchy|geometric|multinomial|randperm|poisson|binomial"
)


_ALGORITHMS = (
    ("NonZero", "nonzero"),
    ("UniqueByKey", "unique"),
    ("RunLengthEncode", "unique"),
    ("RadixSort", "sort"),
    ("MergeSort", "sort"),
    ("radix_sort", "sort"),
    ("onesweep", "sort"),
    ("merge_sort", "sort"),
    ("SegmentedSort", "sort"),
    ("block_sort", "sort"),
    ("DeviceSelect", "select"),
    ("Compact", "select"),
    ("partition_kernel", "select"),
    ("DeviceReduce", "sum"),
    ("reduce_kernel", "sum"),
    ("Histogram", "histogram"),
    ("Scan", "cumsum"),
    ("scan", "cumsum"),
    ("transform", "copy"),
)


def read_pool(name: Structure) -> Facts:
    """Read pooling kernels: ``max_pool_forward_nchw<T, acc>``."""
    text = name.base.lower()
    kind = "max_pool" if "max" in text else "avg_pool"
    kind = "adaptive_" + kind if "adaptive" in text else kind
    return _types(directed(kind, backward="backward" in text or "grad" in text), argument_types(name.args))


def read_by_name(name: Structure) -> Facts:
    """Read kernels whose own name is the operation: ``upsample_linear1d_out_frame``, ``nll_loss_forward_...``."""
    bare = re.sub(r"_(?:out_frame|out_cuda|cuda|kernel|frame|nhwc|nchw|vec\d*|\dd|impl|template)(?=_|$)", "", name.base)
    bare = re.sub(r"_reduce$|_reduce(?=_)", "", bare)
    facts = _types({"operation": operation_of(bare)}, argument_types(name.args))
    if "backward" in bare:
        facts["direction"] = "backward"
    return facts
