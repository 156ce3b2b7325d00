"""Facts of GPUs: which device a name means, its architecture, peaks, bandwidth and per-multiprocessor limits.

The figures are in schemas/reference/gpu_specs.csv, each with the document that it comes from, and with its unit. They
are those of a GPU as a program sees it: one device, so one of the two dies of an MI250X. Peaks are dense rates (data
sheets that print rates "with sparsity" are halved) at boost clock, in units of 1e12 operations per second, a
multiply-add as two, accumulating in fp32 (int32 for int8): the fastest unit for the type counts, matrix units included;
`fp32_tflops` of NVIDIA GPUs is that of the CUDA cores, because TF32 rounds its inputs. `memory_gib` is the nominal
capacity. Figures per multiprocessor are per SM (NVIDIA) or compute unit (AMD); registers are 32 bits wide. ROCm prints
LDS and register file of RDNA per workgroup processor, of two compute units. Threads per compute unit are waves per SIMD
x SIMDs x 64; RDNA depends on the size of a wave and has none. Rows whose name is an architecture hold for all of it and
are those of `kerneldb.gpus.limits`.

Device names are those that profilers print ("NVIDIA H100 80GB HBM3", "Tesla V100-SXM2-32GB", "AMD Instinct MI300X
VF"). Matching ignores vendor words, case and punctuation, but never drops a word that means another product: "A10G" is
no A10, an "RTX 4090 Laptop GPU" no RTX 4090, and "A100" alone, which may have 40 or 80 GB, is none of them.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import TYPE_CHECKING, Any

from kerneldb.schemas import loader

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU and its figures by fact, such as `fp16_tflops`; None where a source says that there is none."""

    name: str
    vendor: str
    arch: str
    figures: dict[str, float | None] = dataclasses.field(default_factory=dict, hash=False)


@functools.cache
def known() -> tuple[Gpu, ...]:
    """All GPUs: NVIDIA's, then AMD's, oldest architecture first. Rows of gpu_specs.csv that are of a product."""
    gpus: dict[str, Gpu] = {}
    for row in loader.reference_rows("gpu_specs"):
        if row["name"] != row["arch"]:
            gpu = gpus.setdefault(row["name"], Gpu(row["name"], row["vendor"], row["arch"]))
            gpu.figures[row["fact"]] = float(row["value"]) if row["value"] else None
    return tuple(gpus.values())


_VENDOR_WORDS = re.compile(r"\b(?:nvidia|tesla|geforce|quadro|amd|ati|instinct|radeon|graphics|gpu|accelerator|tm|r)\b")
_EXTRA_WORDS = re.compile(r"\b(?:oam|vf|hf|founders edition)\b")
_AMD_NAME = re.compile(r"\bamd\b|\binstinct\b|\bradeon\b|\bmi\d{2,3}[a-z]?\b|\bgfx\d+[0-9a-f]*\b")
_NVIDIA_NAME = re.compile(r"\bnvidia\b|\btesla\b|\bgeforce\b|\bquadro\b|\btitan\b|\bgrid\b|\bg?[hb][123]00\b")
_INTEL_NAME = re.compile(r"\bintel\b|\bdata center gpu (?:max|flex)\b|\barc [ab]\d+")

_ALIASES: dict[str, str] = {
    "h100 80gb hbm3": "h100 sxm",
    "h100 sxm5": "h100 sxm",
    "h100 sxm5 80gb": "h100 sxm",
    "h100 sxm 80gb": "h100 sxm",
    "h100 pcie 80gb": "h100 pcie",
    "h200": "h200 sxm",
    "h200 sxm5": "h200 sxm",
    "h200 sxm 141gb": "h200 sxm",
    "h200 141gb hbm3e": "h200 sxm",
    "gh200": "gh200 480gb",
    "a100 sxm 40gb": "a100 sxm4 40gb",
    "a100 sxm 80gb": "a100 sxm4 80gb",
    "a100 80gb sxm4": "a100 sxm4 80gb",
    "a100 40gb sxm4": "a100 sxm4 40gb",
    "a100 pcie 80gb": "a100 80gb pcie",
    "a100 40gb pcie": "a100 pcie 40gb",
    "v100 sxm 16gb": "v100 sxm2 16gb",
    "v100 sxm 32gb": "v100 sxm2 32gb",
    "7900 xtx": "rx 7900 xtx",
    "ryzen ai max 395 w 8060s": "8060s",
    "ryzen ai max pro 395 w 8060s": "8060s",
    "ryzen ai max 390 w 8050s": "8050s",
    "ryzen ai max pro 390 w 8050s": "8050s",
}

_ONLY_PRODUCT: dict[tuple[str, int], str] = {
    ("gfx908", 120): "mi100",
    ("gfx90a", 110): "mi250x",
    ("gfx1151", 32): "8050s",
    ("gfx1151", 40): "8060s",
}
"""Where ROCm prints a name that says nothing ("AMD Radeon Graphics"): target and compute units that one product has."""

_TARGETS: tuple[tuple[str, str], ...] = (
    (r"mi3(?:00[xac]?|08x|25x)", "gfx942"),
    (r"mi35[05]x", "gfx950"),
    (r"mi2(?:10|50x?)", "gfx90a"),
    (r"mi100", "gfx908"),
    (r"mi(?:50|60)", "gfx906"),
    (r"80[56]0s|strix halo", "gfx1151"),
    (r"890m", "gfx1150"),
    (r"860m", "gfx1152"),
    (r"rx 7900 (?:xtx|xt|gre)|w7[89]00", "gfx1100"),
    (r"rx 7(?:800|700) xt", "gfx1101"),
    (r"rx 7600(?: xt)?", "gfx1102"),
    (r"rx 9070(?: xt| gre)?", "gfx1201"),
    (r"rx 9060(?: xt)?", "gfx1200"),
    (r"rx 6(?:800|800 xt|900 xt|950 xt)", "gfx1030"),
)
_LITERAL = re.compile(r"\bgfx[0-9]{1,2}[0-9a-f]{2}\b")


def _words(name: str) -> str:
    """Lower case, punctuation and runs of spaces to one space, '80 GB' to '80gb'."""
    spaced = " ".join(re.sub(r"[^a-z0-9]+", " ", name.lower()).split())
    return re.sub(r"\b(\d+) g(?:i?b)?\b", r"\1gb", spaced)


def _product(name: str) -> str:
    """The words that tell one product from another."""
    return " ".join(_EXTRA_WORDS.sub(" ", _VENDOR_WORDS.sub(" ", _words(name))).split())


@functools.cache
def _by_product() -> dict[str, Gpu]:
    return {_product(gpu.name): gpu for gpu in known()}


@functools.lru_cache(maxsize=256)
def find(name: str, major: int | None = None, minor: int | None = None) -> Gpu | None:
    """The GPU that a device name means, or None where it is unknown or could be several.

    `major` and `minor`, the compute capability that a trace prints beside the name, must agree with the row where
    given.
    """
    product = _product(name)
    gpu = _by_product().get(_ALIASES.get(product, product))
    if gpu is None or major is None:
        return gpu
    return gpu if _capability(gpu.arch) == (major, minor if minor is not None else _capability(gpu.arch)[1]) else None


def find_device(name: str | None = None, arch: str | None = None, multiprocessors: int | None = None) -> Gpu | None:
    """The GPU that a recorded device is, or None where it is unknown or could be several.

    The name decides, and must agree with the architecture where that is given; where it says nothing ("AMD Radeon
    Graphics", the architecture), architecture and number of multiprocessors do.
    """
    words = _product(name or "")
    if words not in {"", arch}:
        gpu = find(name or "")
    else:
        product = _ONLY_PRODUCT.get((arch or "", multiprocessors or 0))
        gpu = _by_product()[product] if product else None
    return gpu if gpu is not None and arch in {None, gpu.arch} else None


def _capability(arch: str) -> tuple[int, int]:
    """(major, minor) as the runtimes report it: 'sm_90' -> (9, 0), 'gfx942' -> (9, 4), 'gfx1151' -> (11, 5)."""
    if arch.startswith("sm_"):
        return int(arch[3:-1]), int(arch[-1])
    return int(arch[3:-2]), int(arch[-2])


def arch_of(vendor: str | None, name: str, major: int | None = None, minor: int | None = None) -> str | None:
    """Architecture of a device: 'sm_90' from NVIDIA's compute capability, 'gfx942' from an AMD product name.

    ROCm also prints a compute capability (9.4 for an MI300X), but it lacks the stepping and names no target by itself.
    `vendor` None: the name says. None where the name is vague ("AMD Radeon Graphics").
    """
    maker = vendor or _vendor_of_name(name)
    if maker == "NVIDIA" and major is not None and minor is not None:
        return f"sm_{major}{minor}"
    if maker == "AMD":
        return _target_of(_words(name))
    gpu = find(name)
    return gpu.arch if gpu is not None and maker in (None, gpu.vendor) else None


def _target_of(words: str) -> str | None:
    """LLVM target ('gfx942') of a lower-case product name with single spaces; None where the name fits none or several.

    A vague name such as "radeon graphics", which ROCm prints for quite different GPUs, has none.
    """
    literal = _LITERAL.search(words)
    if literal:
        return literal.group()
    found = {target for pattern, target in _TARGETS if re.search(rf"\b(?:{pattern})\b", words)}
    return found.pop() if len(found) == 1 else None


def vendor_of(device_properties: Mapping[str, Any]) -> str | None:
    """'NVIDIA', 'AMD' or 'Intel' from one entry of a trace's `deviceProperties`; None where unknown.

    The name decides; where it is empty or says nothing, properties that only one runtime reports do: a wavefront of 64
    or `maxSharedMemoryPerMultiProcessor` (HIP), `sharedMemPerBlockOptin` (CUDA), `maxComputeUnits` (SYCL).
    """
    named = _vendor_of_name(f"{device_properties.get('vendor') or ''} {device_properties.get('name') or ''}")
    if named is not None:
        return named
    if device_properties.get("warpSize") == 64 or "maxSharedMemoryPerMultiProcessor" in device_properties:  # noqa: PLR2004
        return "AMD"
    if "sharedMemPerBlockOptin" in device_properties or "regsPerMultiprocessor" in device_properties:
        return "NVIDIA"
    return "Intel" if "maxComputeUnits" in device_properties else None


def _vendor_of_name(name: str) -> str | None:
    words = _words(name)
    for vendor, pattern in (("NVIDIA", _NVIDIA_NAME), ("AMD", _AMD_NAME), ("Intel", _INTEL_NAME)):
        if pattern.search(words):
            return vendor
    known = find(name)
    return known.vendor if known else None
