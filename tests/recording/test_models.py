"""The bundled models: each is built and run, in every workload, with the same work in every iteration."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch

from kerneldb.errors import UsageError
from kerneldb.recordings import EAGER
from kerneldb.replay.recording import build, settings, workloads
from kerneldb.replay.recording.settings import (
    MODELS,
    WORKLOADS,
    Model,
    Settings,
    UnknownModelError,
    find,
    resolved,
    workloads_of,
)
from tests.recording.conftest import tiny

CASES = [(model.name, workload) for model in MODELS for workload in WORKLOADS[model.kind]]


@pytest.mark.parametrize(("name", "workload"), CASES, ids=lambda one: one)
def test_every_workload_runs(name: str, workload: str) -> None:
    wanted = tiny(name, batch=2, workloads=(workload,))
    work = workloads.make(workload, EAGER, wanted, workloads.Models(wanted))
    work()
    images = {"deepseek-vl2-tiny": 2 * 16}.get(name, 0)
    expected = {"prefill": 16 + images, "decode": 6, "forward": 16, "train_step": 16 + images}[workload]
    assert work.tokens == (None if name == "vit-large" else expected)


def calls_of(model: Any, work: Any) -> list[tuple[int, int]]:
    """(new tokens, tokens before them) of each call of the model in one iteration."""
    seen: list[tuple[int, int]] = []

    def note(module: Any, args: Any, kwargs: Any) -> None:
        cache = kwargs["past_key_values"]
        seen.append((kwargs["input_ids"].shape[1], int(cache.get_seq_length())))

    hook = model.register_forward_pre_hook(note, with_kwargs=True)
    work()
    hook.remove()
    return seen


@pytest.mark.parametrize("name", ["gpt2", "bloom-560m", "llama-2-7b", "deepseek-vl2-tiny"])
def test_every_decode_iteration_repeats_the_same_positions(name: str) -> None:
    wanted = tiny(name)
    built = workloads.Models(wanted)
    work = workloads.make("decode", EAGER, wanted, built)
    images = 16 if name == "deepseek-vl2-tiny" else 0
    expected = [(1, images + 8), (1, images + 9), (1, images + 10)]
    assert [calls_of(built.get(training=False), work) for _ in range(2)] == [expected, expected]


def test_a_training_step_changes_weights() -> None:
    wanted = tiny(workloads=("train",))
    built = workloads.Models(wanted)
    work = workloads.make("train_step", EAGER, wanted, built)
    weight = next(built.get(training=True).parameters())
    before = weight.detach().clone()
    work()
    assert not torch.equal(before, weight)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_weights_are_random_and_never_zero(model: Model) -> None:
    made = build.build(tiny(model.name), training=False)
    for name, parameter in made.named_parameters():
        assert parameter.std() > 0.01, name
        assert (parameter == 0).float().mean() < 0.01, name


def test_the_same_seed_gives_the_same_model() -> None:
    first, second, other = (build.build(tiny(seed=seed), training=False) for seed in (1, 1, 2))
    same = [torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True)]
    assert all(same)
    assert not torch.equal(next(first.parameters()), next(other.parameters()))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_layers_can_be_set(model: Model) -> None:
    fewer = build.build(tiny(model.name, layers=1), training=False)
    usual = build.build(tiny(model.name), training=False)
    assert sum(one.numel() for one in fewer.parameters()) < sum(one.numel() for one in usual.parameters())


@pytest.mark.parametrize(("alias", "name"), [("vicuna-7b", "llama-2-7b"), ("bert", "bert-base"), ("GPT2", "gpt2")])
def test_aliases(alias: str, name: str) -> None:
    assert find(alias).name == name


def test_unknown_models_name_near_ones() -> None:
    with pytest.raises(UnknownModelError, match=r"'bloom'.*bloom-560m.*--list"):
        find("bloom")


def test_all_names_are_distinct() -> None:
    names = [name for model in MODELS for name in (model.name, *model.aliases)]
    assert len(names) == len(set(names))


def test_workloads_come_in_order_and_training_is_asked_for() -> None:
    assert workloads_of("decoder", ()) == ("prefill", "decode")
    assert workloads_of("decoder", ("train", "prefill")) == ("prefill", "train_step")
    assert workloads_of("image_encoder", ()) == ("forward",)
    assert workloads_of("image_encoder", ("prefill", "decode")) == ("forward",)
    with pytest.raises(UsageError, match="no workload dance: this model has prefill, decode, train_step"):
        workloads_of("decoder", ("dance",))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"prompt": 1022}, "1025 tokens are more than the model's 1024"),
        ({"cuda_graphs": True}, "--cuda-graphs needs a GPU"),
        ({"workloads": ("train",), "dtype": "float16"}, "bfloat16"),
    ],
    ids=("long", "graphs", "float16"),
)
def test_what_cannot_work_is_refused_before_it_begins(more: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tiny(**more)


def test_the_usual_dtype_is_that_of_model_and_device() -> None:
    assert resolved(Settings("gpt2")).dtype == "float16"
    assert resolved(Settings("qwen")).dtype == "bfloat16"
    assert resolved(Settings("gpt2", workloads=("train",))).dtype == "bfloat16"
    assert resolved(Settings("gpt2", device="cpu")).dtype == "float32"


def test_a_model_that_is_not_needed_any_more_is_given_back() -> None:
    wanted = tiny(workloads=("prefill", "train"))
    built = workloads.Models(wanted)
    gone = weakref.ref(next(built.get(training=False).parameters()))
    gc.freeze()  # as the recorder does before it measures
    built.get(training=True)
    assert gone() is None


def test_a_local_checkpoint_is_loaded(tmp_path: Any) -> None:
    saved = build.build(tiny(seed=3), training=False)
    saved.save_pretrained(tmp_path)
    wanted = tiny("mine", checkpoint=str(tmp_path))
    loaded = build.build(wanted, training=False)
    assert torch.equal(next(saved.parameters()), next(loaded.parameters()))
    assert wanted.kept()["weights"] == tmp_path.name
    assert str(tmp_path.parent) not in str(wanted.kept())


def test_a_folder_without_checkpoint_is_refused(tmp_path: Any) -> None:
    with pytest.raises(UsageError, match=r"config\.json: no checkpoint"):
        tiny("mine", checkpoint=str(tmp_path))


def test_models_are_built_by_kind() -> None:
    assert {model.kind for model in MODELS} == set(settings.WORKLOADS)
