"""Readers of kernels that graph compilers and their libraries make: TensorFlow, Eigen, XLA and TensorRT."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kerneldb.names.dtypes import element_type, inner_types, main_type, typed
from kerneldb.names.operators import operator_category

if TYPE_CHECKING:
    from kerneldb.names.model import Facts
    from kerneldb.names.structure import Structure

# Eigen (unsupported/Eigen/CXX11/src/Tensor): expressions nest; the first of these that occurs decides.
_EIGEN: Final = (
    ("TensorReductionOp", "REDUCTION", None),
    ("TensorContractionOp", "GEMM", "gemm"),
    ("TensorConvolutionOp", "CONVOLUTION", "convolution"),
    ("TensorGeneratorOp", "INDEXING", "gather"),
    ("TensorConcatenationOp", "CONCAT", "cat"),
    ("TensorPaddingOp", "INDEXING", "pad"),
    ("TensorMirrorPadOp", "INDEXING", "pad"),
    ("TensorScanOp", "SCAN_SORT", "cumsum"),
    ("TensorImagePatchOp", "INDEXING", "im2col"),
    ("TensorCwise", "ELEMENTWISE", None),
    ("TensorSelectOp", "ELEMENTWISE", "where"),
    ("scalar_", "ELEMENTWISE", None),
    ("TensorShufflingOp", "COPY", "transpose"),
    ("TensorConversionOp", "COPY", "copy"),
    ("TensorBroadcastingOp", "COPY", "broadcast"),
    ("Op<", "COPY", "copy"),
)
_EIGEN_OPERATIONS: Final = {
    "sum": "add", "product": "mul", "difference": "sub", "quotient": "div", "opposite": "neg", "max": "maximum",
    "min": "minimum", "logistic": "sigmoid", "constant": "fill", "inverse": "reciprocal",
}  # fmt: skip
_EIGEN_FUNCTOR: Final = re.compile(r"scalar_(\w+?)_(?:op|gradient_op)\b|(Sum|Mean|Max|Min|Prod|And|Or)Reducer")
_DATA_TYPES: Final = {"HALF": "fp16", "BFLOAT16": "bf16", "FLOAT": "fp32", "DOUBLE": "fp64", "BOOL": "bool"}
_TYPED_KERNEL: Final = re.compile(r"(\w+?)_GPU_DT_([A-Z0-9]+)_DT_([A-Z0-9]+)_kernel")
_XLA_KIND: Final = re.compile(r"(?:loop|input|wrapped|triton|gemm)_|_?fusion|(?:[_.]\d+)+$")
# Myelin (TensorRT's compiler) writes three letters for an operation.
_MYELIN: Final = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Mov": "copy", "Tra": "transpose", "Slc": "slice",
    "Cas": "cast", "Rep": "repeat", "Con": "cat", "Res": "reshape", "Mea": "mean", "Sum": "sum", "Max": "max",
    "Min": "min", "Exp": "exp", "Sqr": "sqrt", "Tan": "tanh", "Sig": "sigmoid", "Erf": "erf", "Pow": "pow",
    "Neg": "neg", "Sel": "where", "Fc": "gemm", "Gat": "gather", "Rel": "relu",
}  # fmt: skip


def read_eigen(name: Structure) -> Facts:
    """Read ``EigenMetaKernel<TensorEvaluator<TensorAssignOp<TensorMap<Tensor<float, …>>, TensorCwiseBinaryOp<…``."""
    text = name.canonical
    types = inner_types(text)
    facts: Facts = {"dtypes": types, "dtype": main_type(types)}
    found = next((kind for kind in _EIGEN if kind[0] in text), None)
    if "Reduc" in name.base:
        facts["category"] = "REDUCTION"
    elif found is not None:
        facts["category"], facts["operation"] = found[1], found[2]
    functor = _EIGEN_FUNCTOR.search(text)
    if functor is not None and facts.get("operation") is None:
        word = functor[1] or functor[2].lower()
        facts["operation"] = word if functor[2] else _EIGEN_OPERATIONS.get(word, word)
    if "conversion" in str(facts.get("operation")):
        facts["category"], facts["operation"] = "COPY", "copy"
    return facts


def read_typed_kernel(name: Structure) -> Facts:
    """Read TensorFlow's ``AddV2_GPU_DT_FLOAT_DT_FLOAT_kernel``: operation, element types of input and output."""
    match = _TYPED_KERNEL.match(name.base)
    if match is None:
        return {}
    word, *types = match.groups()
    facts = typed([_DATA_TYPES.get(word) or element_type(word.lower()) for word in types])
    return {**facts, "category": operator_category(word) or "ELEMENTWISE", "operation": word.lower()}


def read_xla(name: Structure) -> Facts:
    """Read an XLA kernel, named like its instruction: ``loop_add_fusion_3`` is fused, ``wrapped_add`` is one operation.

    See ``HloInstruction::name`` and FusionWrapper in XLA's sources; ``.`` of the instruction is ``_`` in a kernel.
    """
    operation = _XLA_KIND.sub("", name.base).strip("_")
    facts: Facts = {"operation": operation or None}
    if not re.search(r"fusion|^triton_|^gemm_", name.base):
        facts["category"] = operator_category(operation) or "OTHER"
    return facts


def read_myelin(name: Structure) -> Facts:
    """Read ``__myl_MulAddTra_0x1f…`` or ``__myl_bb0_3_ResMea…``: the operations that were fused."""
    words = re.findall(r"[A-Z][a-z]{1,3}", re.sub(r"_0x[0-9a-f]+.*$", "", name.base.rpartition("__my")[2]))
    operations = [_MYELIN.get(word, _MYELIN.get(word[:3], word.lower())) for word in words]
    facts: Facts = {"operation": "+".join(operations) or None, "details": {"ops": ",".join(operations)}}
    if "gemm" in operations:
        facts["category"] = "GEMM"
    return facts


def read_tensorrt(name: Structure) -> Facts:
    """Read a TensorRT template: its input's element type comes first; ``double`` only says how much moves at once."""
    types = inner_types(name.canonical)
    return typed([dtype for dtype in types if dtype != "fp64"] or types)
