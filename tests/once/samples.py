"""The sample files: of this repository, and of the collection that it does not carry."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from tests.conftest import ROOT, SHARED_DATA
from tests.once import plain

LOSSY = "seconds_cuda_gpu_trace.csv"
"""Printed with `--timeunit sec`: starts and durations of 0.1 ms, by which nothing proves that it is another print."""


@dataclasses.dataclass(frozen=True)
class Collection:
    """Files below `home`, and which of them are prints of one report (patterns relative to `home`, by name)."""

    name: str
    home: Path
    folders: tuple[str, ...]
    groups: dict[str, tuple[str, ...]]

    def files(self) -> list[Path]:
        """Everything that has a plain reader, which is everything that holds launches or could."""
        found = (path for folder in self.folders for path in sorted((self.home / folder).rglob("*")))
        return [path for path in found if path.is_file() and plain.knows(path)]

    def group(self, name: str) -> list[Path]:
        return [path for pattern in self.groups[name] for path in sorted(self.home.glob(pattern))]

    def label(self, path: Path) -> str:
        return str(path.relative_to(self.home))


REPOSITORY = Collection(
    "repository",
    ROOT,
    ("examples", "tests/fixtures", "tests/ncu/data"),
    {
        "nsys-prints": (
            "tests/fixtures/nsys/r23_cuda_gpu_trace*",
            "tests/fixtures/nsys/console_20*.csv",
            "tests/fixtures/nsys/microseconds*",
            "tests/fixtures/nsys/units*",
        ),
        "ncu-pages": (
            *(f"tests/ncu/data/{locale}.*" for locale in ("C", "de_CH", "de_DE", "en_IN", "en_US", "fr_FR")),
            "tests/ncu/data/all.details*",
            "tests/ncu/data/base*",
            "tests/ncu/data/fp.*",
            "tests/ncu/data/instances*",
            "tests/ncu/data/*name.details*",
        ),
        "h200-roofline": ("tests/ncu/data/h200-roofline*",),
    },
)
SHARED = Collection(
    "shared",
    SHARED_DATA.parent,
    (
        *(f"{SHARED_DATA.name}/{name}" for name in ("ncu", "nsys", "pytorch", "rocprof")),
        *(f"field/{name}" for name in ("ncu_folder", "nsight", "pytorch", "rocprof")),
    ),
    {
        "nsightful": (f"{SHARED_DATA.name}/nsys/nsightful_*",),
        "mojo": (f"{SHARED_DATA.name}/ncu/mojo_profile*",),
        "h200-decoder": (f"{SHARED_DATA.name}/ncu/h200-decoder*",),
        "gfx1151": (f"{SHARED_DATA.name}/rocprof/synthetic_*.db",),
        "silu": ("field/nsight/ncu-details-*",),
        "gemv": ("field/ncu_folder/kernel_0001*", f"{SHARED_DATA.name}/ncu/deepseek-ocr-v2/kernel_0001*"),
        "gemm": ("field/ncu_folder/kernel_0005*", f"{SHARED_DATA.name}/ncu/deepseek-ocr-v2/kernel_0005*"),
        "attention": ("field/ncu_folder/kernel_0013*", f"{SHARED_DATA.name}/ncu/deepseek-ocr-v2/kernel_0013*"),
    },
)
IN_EVERY_RUN = "gfx1151"
TELLING = (
    "tests/fixtures/nsys/r23_cuda_gpu_trace.csv",
    "tests/fixtures/train-step-h200.json.gz",
    "tests/fixtures/nsys/r23_cuda_gpu_kern_sum.tsv",
    "tests/ncu/data/C.details.csv.gz",
)
"""Kernels and copies, the launches of an eager step, sums without launches, and launches without a timeline."""
NOT_READ_BY_0_1_0 = frozenset(
    {
        "field/nsight/ncu-details-fr.csv",
        "field/nsight/nvprof-no-last-newline.csv",
        "field/rocprof/empty-size.rpd",
        "tests/fixtures/nsys/console_nohdr_2023.4.csv",
        "tests/fixtures/nsys/empty_osrt_sum.csv",
        "tests/fixtures/nsys/nohdr_cuda_gpu_kern_sum.csv",
    }
)
"""What may be refused. Once a version reads one of them, its launches are held to the file like all others."""


def available(collection: Collection) -> bool:
    return all((collection.home / folder).is_dir() for folder in collection.folders)


def each_collection() -> list[object]:
    """The collection that the repository does not carry is read where time does not matter."""
    return [pytest.param(REPOSITORY, id=REPOSITORY.name), pytest.param(SHARED, marks=_thorough(SHARED), id=SHARED.name)]


def each_group() -> list[object]:
    return [
        pytest.param(
            collection,
            name,
            marks=[_needs(collection), *([] if name == IN_EVERY_RUN else [pytest.mark.volume])],
            id=name,
        )
        for collection in ALL
        for name in collection.groups
    ]


def _thorough(collection: Collection) -> list[pytest.MarkDecorator]:
    marks = [_needs(collection), pytest.mark.thorough]
    return [*marks, pytest.mark.collection] if collection is SHARED else marks


def _needs(collection: Collection) -> pytest.MarkDecorator:
    reason = f"no collection of traces at {collection.home} (KERNELDB_TEST_DATA names another place)"
    return pytest.mark.skipif(not available(collection), reason=reason)


ALL = (REPOSITORY, SHARED)
