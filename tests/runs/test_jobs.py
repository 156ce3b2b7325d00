"""Which ranks ran together: by what their traces hold, never by what folders and files are called.

Jobs are simulated (`ranks.py`), so what was waited in collectives is known by plain arithmetic, and only where the
right traces are joined do the sums of the database equal it.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kerneldb
from kerneldb.api import Database
from tests.collective import jobs as recordings
from tests.collective import plain
from tests.conftest import made_once, shared_folder
from tests.runs import asking, ranks
from tests.runs.asking import Files, sets
from tests.runs.ranks import Job, clock

FIXTURE = Path(__file__).parents[1] / "fixtures" / "exchanges-tp2-h200"
BARE = ("seq", "members", "groups", "sizes")
Jobs = dict[str, Job]
TWO: Jobs = {"A": Job(seed="first"), "B": Job(seed="second", start=clock(minutes=1))}
UNCLEAR: Jobs = {word: Job(has_clock=False, seed=word) for word in "AB"}
"""Nothing tells these two jobs apart."""


def written(folder: Path, jobs: Jobs, *words: str) -> Files:
    """A file per word, such as A0: rank 0 of job A. Folders and names tell nothing."""
    chance = random.Random("names")
    order = chance.sample(range(1000, 9999), len(words))
    places = zip(words, order, strict=True)
    return write(jobs, {word: folder / f"{number % 3}" / f"{number}.json" for word, number in places})


def write(jobs: Jobs, files: Files) -> Files:
    """Write the rank of each word."""
    return {word: jobs[word[0]].write(int(word[1:]), path) for word, path in files.items()}


Fill = Callable[[Database, Files], object]
Scene = tuple[Database, Files]


@pytest.fixture
def scene(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> Callable[[str, Jobs, Files, Fill], Scene]:
    """A database of one's own with the ranks of some jobs, which were read once for all tests; places are relative."""

    def made(name: str, jobs: Jobs, places: Files, fill: Fill) -> Scene:
        folder = shared_folder(tmp_path_factory) / f"runs-{name}"
        files = {word: folder / place for word, place in places.items()}
        template = made_once(
            tmp_path_factory, f"runs-{name}.duckdb", lambda path: fill(kerneldb.open(path), write(jobs, files))
        )
        return kerneldb.open(shutil.copyfile(template, tmp_path / "kernels.duckdb")), files

    return made


@pytest.fixture
def two(scene: Callable[[str, Jobs, Files, Fill], Scene]) -> Scene:
    """The jobs TWO. Their folders have one basename, and their files one name."""
    places = {f"{job}{rank}": Path(job) / "profile" / f"rank{rank}.json.gz" for job in TWO for rank in range(2)}
    return scene("two", TWO, places, lambda database, files: database.ingest(list(files.values())))


@pytest.fixture
def unclear(scene: Callable[[str, Jobs, Files, Fill], Scene]) -> Scene:
    """The jobs UNCLEAR, read one by one."""
    words = ("B1", "A0", "B0", "A1")
    places = {word: Path(str(number)) / "t.json" for number, word in enumerate(words)}
    return scene("unclear", UNCLEAR, places, lambda database, files: asking.in_calls(database, files, words))


def expected(jobs: Jobs, *groups: str) -> dict[str, dict[str, int]]:
    """What is waited where the ranks of each group, and no others, are joined."""
    found = {}
    for group in groups:
        words = group.split()
        for rank, sums in jobs[words[0][0]].waits(int(word[1:]) for word in words).items():
            found[f"{words[0][0]}{rank}"] = sums
    return found


def settled(database: Database, files: Files, jobs: Jobs, *groups: str) -> None:
    """These traces are these jobs: by name of run and job, by links, and by what their collectives waited."""
    right = sets(*groups)
    assert asking.together(database, files, "job") == right
    assert asking.together(database, files, "run") == right
    assert asking.linked(database, files, "job") == right
    assert asking.linked(database, files, "print") == sets(*files)
    assert asking.waits(database, files) == expected(jobs, *groups)


def apart(database: Database, files: Files) -> None:
    """Every trace is alone, and nothing was waited that is known."""
    assert asking.together(database, files, "job") == sets(*files)
    assert asking.together(database, files, "run") == sets(*files)
    assert {sums["matched"] for sums in asking.waits(database, files).values()} <= {0}


def names_of(database: Database, files: Files, words: str) -> list[str]:
    """What the traces of some words are called."""
    found = asking.facts(database, files)
    return [found[word]["name"] for word in words.split()]


def told(database: Database, *arguments: str | Path) -> str:
    """What the command says of an ingest."""
    return asking.command(database, "ingest", *arguments)[1]


# Unrelated jobs


@pytest.mark.thorough
def test_two_jobs_in_folders_of_one_basename_wait_inside_only(two: Scene) -> None:
    """The field report's case: each has its rank 0 in a folder called `profile`."""
    settled(*two, TWO, "A0 A1", "B0 B1")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("minutes", "world", "together"),
    [pytest.param(0.001, 3, False, id="soon"), pytest.param(30, 4, True, id="later", marks=pytest.mark.volume)],
)
def test_equal_programs_one_after_the_other_are_two_jobs(
    database: Database, tmp_path: Path, minutes: float, world: int, together: bool
) -> None:
    """The same program, sizes and sequence numbers under names that tell nothing, in any order: only time tells."""
    jobs = {
        "A": Job(world=world, seed="first").saying("seq"),
        "B": Job(world=world, seed="second", start=clock(minutes=minutes)).saying("seq"),
    }
    groups = [[f"{word}{rank}" for rank in range(world)] for word in "AB"]
    words = [word for group in groups for word in group]
    files = written(tmp_path, jobs, *words)
    order = random.Random(0).sample(words, len(words))
    if together:
        database.ingest([files[word] for word in order])
    else:
        asking.in_calls(database, files, order)
    settled(database, files, jobs, *(" ".join(group) for group in groups))


@pytest.mark.thorough
def test_profiles_of_one_job_at_three_times_are_three(database: Database, tmp_path: Path) -> None:
    """A schedule with `repeat` writes a trace per rank and window, all of the same steps."""
    jobs = {
        word: Job(seed=word, first_step=10 * number, start=clock(ms=900 * number)) for number, word in enumerate("ABC")
    }
    files = written(tmp_path, jobs, *(f"{word}{rank}" for rank in range(2) for word in jobs))
    database.ingest([tmp_path])
    settled(database, files, jobs, "A0 A1", "B0 B1", "C0 C1")


# One job


def test_four_ranks_in_four_folders_are_one_job_until_they_are_removed(database: Database, tmp_path: Path) -> None:
    """All in files of one name, each on the first GPU that its process sees."""
    jobs = {"A": Job(world=4, own_device=True)}
    places = ("monday/x", "node-b", "tmp.8fJ", "rank0")  # the last one lies
    files = write(jobs, {f"A{rank}": tmp_path / place / "t.json.gz" for rank, place in enumerate(places)})
    database.ingest([tmp_path / place for place in reversed(places)])
    settled(database, files, jobs, "A0 A1 A2 A3")
    files = remove(database, files, "A0")
    settled(database, files, jobs, "A1 A2 A3")
    files = remove(database, files, "A1 A2")
    apart(database, files)
    assert database.sql("SELECT count(*) AS n FROM trace_links").rows() == [{"n": 0}]


def remove(database: Database, files: Files, words: str) -> Files:
    """Remove traces; the others."""
    database.remove(names_of(database, files, words))
    return {word: path for word, path in files.items() if word not in words.split()}


@pytest.mark.thorough
def test_a_missing_rank_splits_nothing_and_the_last_one_joins_where_clocks_are_unknown(
    database: Database, tmp_path: Path
) -> None:
    jobs = {"A": Job(world=3, has_clock=False)}
    files = written(tmp_path, jobs, "A2", "A0", "A1")
    database.ingest([files["A2"]])
    apart(database, {"A2": files["A2"]})
    database.ingest([files["A0"]])
    settled(database, {word: files[word] for word in ("A0", "A2")}, jobs, "A0 A2")
    database.ingest([files["A1"]])
    settled(database, files, jobs, "A0 A1 A2")


@pytest.mark.thorough
def test_replacing_a_rank(two: Scene) -> None:
    database, files = two
    (outcome,) = database.ingest([files["A1"]], replace=True)
    assert outcome.status == "replaced"
    settled(database, files, TWO, "A0 A1", "B0 B1")


@pytest.mark.thorough
def test_a_profile_that_was_recorded_anew_takes_the_place_of_the_old_one(two: Scene) -> None:
    """Rank 1 of an earlier run of the job is removed, and that of this run comes."""
    database, files = two
    left = remove(database, files, "A1 B0")
    apart(database, left)
    remove(database, left, "B1")
    database.ingest([files["A1"]])
    settled(database, {word: files[word] for word in ("A0", "A1")}, TWO, "A0 A1")


def test_two_hosts_are_one_job(database: Database, tmp_path: Path) -> None:
    """Device numbers repeat, and the clocks of hosts are not quite the same."""
    jobs = {"A": Job(world=3, per_host=2, skew_ns={2: 40_000})}
    files = written(tmp_path, jobs, "A0", "A1", "A2")
    database.ingest([tmp_path])
    settled(database, files, jobs, "A0 A1 A2")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("local_names", "has_clock"),
    [pytest.param(True, False, id="local"), pytest.param(False, True, id="clock", marks=pytest.mark.volume)],
)
def test_ranks_that_share_no_group_are_joined_by_those_between(
    database: Database, tmp_path: Path, local_names: bool, has_clock: bool
) -> None:
    """Tensor × data parallel: ranks 0 and 3 never meet in a collective."""
    grid = Job(world=4, step=ranks.TENSOR_AND_DATA, groups=ranks.GRID, has_clock=has_clock, local_names=local_names)
    files = written(tmp_path, {"A": grid}, "A3", "A0", "A2", "A1")
    asking.in_calls(database, files, files)
    settled(database, files, {"A": grid}, "A0 A1 A2 A3")


@pytest.mark.thorough
def test_pairs_of_one_world_that_never_meet(database: Database, tmp_path: Path) -> None:
    """Whether the pairs are one job or two is no matter; who waits for whom is."""
    jobs = {"A": Job(world=4, step=ranks.TENSOR_AND_DATA[:2], groups=ranks.GRID)}
    files = written(tmp_path, jobs, "A0", "A1", "A2", "A3")
    database.ingest([tmp_path])
    found = asking.together(database, files)
    assert found in (sets("A0 A1 A2 A3"), sets("A0 A1", "A2 A3"))
    assert asking.waits(database, files) == expected(jobs, "A0 A1 A2 A3")


@pytest.mark.thorough
def test_a_second_print_of_a_rank_waits_once(database: Database, tmp_path: Path) -> None:
    """Rank 0 was saved again by another tool. It is no third rank, and no rank 0 of another job."""
    job = Job()
    files = written(tmp_path, {"A": job}, "A0", "A1")
    again = tmp_path / "saved again.json"
    again.write_text(json.dumps(json.loads(files["A0"].read_text()), indent=1))
    for path in (files["A0"], again, files["A1"]):
        database.ingest([path])
    rows = database.sql("SELECT rank, n, matched, wait_ns, traced_ranks FROM collective_waits('kernels')").rows()
    sums = job.waits([0, 1])
    for rank in (0, 1):
        own = [row for row in rows if row["rank"] == rank]
        assert sum(row["n"] for row in own) == sums[rank]["n"]
        assert sum(row["matched"] for row in own) == sums[rank]["matched"]
        assert sum(row["wait_ns"] for row in own) == sums[rank]["wait"]
    assert {row["traced_ranks"] for row in rows} == {2}


def test_ranks_with_equal_times_are_no_prints(database: Database, tmp_path: Path) -> None:
    """Two ranks of a toy, with times that are equal to the nanosecond: each worked."""
    first = Job(has_clock=False).write(0, tmp_path / "0.json")
    text = first.read_text().replace('"rank": 0', '"rank": 1').replace('"trace_id": "', '"trace_id": "1')
    (tmp_path / "1.json").write_text(text)
    files = {"A0": first, "A1": tmp_path / "1.json"}
    database.ingest([tmp_path])
    assert asking.linked(database, files, "print") == sets("A0", "A1")
    launched = 2 * len(Job().seen(0))
    assert database.sql("SELECT count(*) AS n FROM kernels").rows() == [{"n": launched}]


# Traces without a clock


@pytest.mark.parametrize(
    ("world", "says"), [pytest.param(2, ("seq",), id="seq"), pytest.param(4, (), marks=pytest.mark.volume)]
)
def test_equal_collectives_join_where_clocks_are_unknown(
    database: Database, tmp_path: Path, world: int, says: tuple[str, ...]
) -> None:
    jobs = {"A": Job(world=world, has_clock=False).saying(*says)}
    files = written(tmp_path, jobs, *(f"A{rank}" for rank in range(world)))
    database.ingest([tmp_path])
    settled(database, files, jobs, " ".join(files))


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(ranks.OTHER_ORDER, id="order"),
        pytest.param(ranks.OTHER_SIZES, id="size", marks=pytest.mark.thorough),
        pytest.param(ranks.LAYER[:2], id="n", marks=pytest.mark.volume),
    ],
)
def test_other_collectives_are_apart_where_clocks_are_unknown(
    database: Database, tmp_path: Path, step: tuple[ranks.Exchange, ...]
) -> None:
    jobs = {"A": Job(has_clock=False, seed="a"), "B": Job(has_clock=False, seed="b", step=step)}
    files = written(tmp_path, jobs, "A0", "B1")
    said = told(database, tmp_path)
    apart(database, files)
    assert "--run" in said


@pytest.mark.thorough
def test_two_jobs_that_nothing_tells_apart_are_not_mixed(unclear: Scene) -> None:
    not_mixed(*unclear)


def not_mixed(database: Database, files: Files) -> None:
    """The jobs A and B are right, or everybody is alone, and this is said."""
    asking.right_or_apart(database, files, sets("A0 A1", "B0 B1"))
    if asking.together(database, files) == sets("A0", "A1", "B0", "B1"):
        assert asking.hinted(database, files) == set(files)
        apart(database, files)


@pytest.mark.thorough
@pytest.mark.parametrize("order", [pytest.param("A0 A1 B0 B1", marks=pytest.mark.volume), "A0 B0 A1 B1"])
def test_two_jobs_with_equal_sequence_numbers_are_not_mixed(database: Database, tmp_path: Path, order: str) -> None:
    jobs = {word: job.saying("seq") for word, job in UNCLEAR.items()}
    files = written(tmp_path, jobs, *order.split())
    asking.in_calls(database, files, order.split())
    not_mixed(database, files)


@pytest.mark.thorough
def test_a_hint_of_ambiguous_ranks_names_the_remedy(unclear: Scene) -> None:
    database, files = unclear
    remove(database, files, "A1")
    said = told(database, files["A1"])
    if asking.together(database, files) != sets("A0 A1", "B0 B1"):
        assert "--run" in said


def test_what_was_ambiguous_is_settled_when_the_other_job_is_gone(unclear: Scene) -> None:
    """What is joined follows from what is there, not from what once was."""
    database, files = unclear
    settled(database, remove(database, files, "B0 B1"), UNCLEAR, "A0 A1")


@pytest.mark.thorough
def test_a_third_candidate_in_a_later_call_leaves_no_wrong_job(database: Database, tmp_path: Path) -> None:
    """Rank 0 of two jobs and one rank 1: whose it is, nobody knows, whoever came first."""
    files = written(tmp_path, UNCLEAR, "A0", "B1", "B0")
    asking.in_calls(database, files, files)
    asking.right_or_apart(database, files, sets("A0", "B0 B1"))


# What must not join


def test_two_rank_0_are_never_one_job(database: Database, tmp_path: Path) -> None:
    """At one time, with equal collectives: profiles of two jobs of which one rank each was kept, and then one more."""
    jobs = {word: Job(seed=word) for word in "AB"}
    files = written(tmp_path, jobs, "A0", "B0", "A1")
    first = {word: files[word] for word in ("A0", "B0")}
    database.ingest(list(first.values()))
    apart(database, first)
    check_said(database, first)
    database.ingest([files["A1"]])
    asking.right_or_apart(database, files, sets("A0 A1", "B0"))


def check_said(database: Database, files: Files) -> None:
    """They are no job in a run that is said, either."""
    names = names_of(database, files, " ".join(files))
    database.set_run(names, "mine")
    assert asking.together(database, files, "run") == sets("A0 B0")
    asking.no_two_of_a_rank(database, files)
    assert {sums["matched"] for sums in asking.waits(database, files).values()} == {0}
    database.set_run(names, None)


@pytest.mark.parametrize(
    ("less", "has_clock"),
    [pytest.param((), False, id="told"), pytest.param(BARE, True, id="bare", marks=pytest.mark.volume)],
)
def test_other_world_sizes_are_apart(
    database: Database, tmp_path: Path, less: tuple[str, ...], has_clock: bool
) -> None:
    """Equal collectives at the same time; one job has two ranks and the other has four."""
    jobs = {
        "A": Job(has_clock=has_clock, seed="a").silent(*less),
        "B": Job(has_clock=has_clock, seed="b", world=4).silent(*less),
    }
    files = written(tmp_path, jobs, "A0", "B1")
    database.ingest([tmp_path])
    apart(database, files)


def test_an_unknown_rank_joins_nothing(database: Database, tmp_path: Path) -> None:
    files = {
        "A0": Job().silent("rank").write(0, tmp_path / "A0.json"),
        "A1": Job().write(1, tmp_path / "A1.json"),
    }
    database.ingest([tmp_path])
    apart(database, files)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("step", "words"),
    [
        pytest.param(ranks.OTHER_SIZES, "A0 A1 B0 B1", id="size"),
        pytest.param(ranks.OTHER_ORDER, "A0 B1", id="order"),
        pytest.param(ranks.OTHER_ORDER, "A0 A1 B0 B1", id="order-pairs", marks=pytest.mark.volume),
    ],
)
def test_other_collectives_at_the_same_time_are_two_jobs(
    database: Database, tmp_path: Path, step: tuple[ranks.Exchange, ...], words: str
) -> None:
    """Two jobs of one world size beside each other on one host."""
    jobs = {"A": Job(seed="a"), "B": Job(seed="b", step=step, start=clock(ms=0.05))}
    files = written(tmp_path, jobs, *words.split())
    database.ingest([tmp_path])
    groups = ["A0 A1", "B0 B1"] if len(files) > 2 else list(files)
    settled(database, files, jobs, *groups)


@pytest.mark.thorough
def test_other_process_groups_at_the_same_time_are_two_jobs(database: Database, tmp_path: Path) -> None:
    """Equal collectives in groups of equal size, of other members: rank 0 talks to rank 1, or rank 2 to its rank 0."""
    step = tuple(ranks.Exchange("allreduce", 4096, "tp") for _ in range(3))
    jobs = {
        "A": Job(world=4, seed="a", step=step, groups={"tp": ((0, 1), (2, 3))}),
        "B": Job(world=4, seed="b", step=step, groups={"tp": ((0, 2), (1, 3))}),
    }
    files = written(tmp_path, jobs, "A0", "B2", "A1", "B0")
    database.ingest([files["A0"], files["B2"]])
    apart(database, {word: files[word] for word in ("A0", "B2")})
    database.ingest([files["A1"], files["B0"]])
    settled(database, files, jobs, "A0 A1", "B0 B2")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("order", "gpus"),
    [
        pytest.param("B1 A1 A0 B0", 1, id="one-model"),
        pytest.param("A0 A1 B0 B1", 2, id="two-models", marks=pytest.mark.volume),
    ],
)
def test_equal_jobs_at_the_same_time_are_not_mixed(database: Database, tmp_path: Path, order: str, gpus: int) -> None:
    """Nothing but the beat of their collectives, and maybe the GPU's name, tells them apart."""
    models = ("NVIDIA H200", "NVIDIA A100-SXM4-80GB")
    jobs = {word: Job(seed=word, gpu=models[number % gpus]) for number, word in enumerate("AB")}
    files = written(tmp_path, jobs, *order.split())
    asking.in_calls(database, files, order.split())
    asking.right_or_apart(database, files, sets("A0 A1", "B0 B1"))


# Profiles that begin at other steps


def test_sequence_numbers_tell_which_collectives_of_windows_that_begin_at_other_steps_are_one(
    database: Database, tmp_path: Path
) -> None:
    jobs = {"A": Job(world=2, steps=6, late={1: 2}).saying("seq")}
    files = written(tmp_path, jobs, "A0", "A1")
    database.ingest([tmp_path])
    settled(database, files, jobs, "A0 A1")
    assert expected(jobs, "A0 A1")["A0"]["matched"] == 12


@pytest.mark.parametrize("late", [2, pytest.param(1, marks=pytest.mark.volume)])
def test_collectives_of_other_steps_are_not_taken_for_one(database: Database, tmp_path: Path, late: int) -> None:
    """Without sequence numbers the n-th is not the n-th. What is not known is not given; what is given is right."""
    jobs = {"A": Job(world=2, steps=6, late={1: late})}
    files = written(tmp_path, jobs, "A0", "A1")
    database.ingest([tmp_path])
    assert asking.together(database, files) == sets("A0 A1")
    right, found = expected(jobs, "A0 A1"), asking.waits(database, files)
    for word, sums in found.items():
        assert sums["n"] == right[word]["n"]
        assert sums == right[word] or (sums["matched"], sums["wait"]) == (0, 0)


def test_windows_with_sequence_numbers_need_no_clock(database: Database, tmp_path: Path) -> None:
    """They share numbers 4006 to 4017, and each of these is the same collective on both."""
    jobs = {"A": Job(world=2, steps=6, late={1: 2}, has_clock=False).saying("seq")}
    files = written(tmp_path, jobs, "A0", "A1")
    database.ingest([tmp_path])
    asking.right_or_apart(database, files, sets("A0 A1"))
    if asking.together(database, files) == sets("A0 A1"):
        settled(database, files, jobs, "A0 A1")


def test_windows_with_other_sequence_numbers_are_not_mixed(database: Database, tmp_path: Path) -> None:
    """Steps 0 to 3 of rank 0, steps 10 to 13 of rank 1, no clock: no collective is in both."""
    jobs = {
        "A": Job(seed="a", has_clock=False).saying("seq"),
        "B": Job(seed="b", first_step=10, has_clock=False).saying("seq"),
    }
    files = written(tmp_path, jobs, "A0", "B1")
    database.ingest([tmp_path])
    assert {sums["matched"] for sums in asking.waits(database, files).values()} == {0}


# What users say


def test_a_run_that_is_said_joins_ranks(database: Database, tmp_path: Path) -> None:
    files = written(tmp_path, UNCLEAR, "A0", "A1", "B0", "B1")
    told(database, "--run", "first", files["A0"], files["A1"])
    told(database, "--run", "second", files["B0"], files["B1"])
    assert asking.together(database, files, "run") == sets("A0 A1", "B0 B1")
    assert {row["run"] for row in asking.facts(database, files).values()} == {"first", "second"}
    assert asking.waits(database, files) == expected(UNCLEAR, "A0 A1", "B0 B1")
    asking.no_two_of_a_rank(database, files)


def test_a_run_that_is_said_later_joins_ranks_until_it_is_taken_back(unclear: Scene) -> None:
    """Nothing tells two jobs apart, and the user knows which ranks are those of the first."""
    database, files = unclear
    before = asking.together(database, files), asking.together(database, files, "run")
    names = names_of(database, files, "A0 A1")
    asking.command(database, "traces", *names, "--run", "mine")
    assert frozenset({"A0", "A1"}) in asking.together(database, files, "run")
    found, right = asking.waits(database, files), expected(UNCLEAR, "A0 A1")
    assert {word: found[word] for word in right} == right
    database.set_run(names, None)
    assert (asking.together(database, files), asking.together(database, files, "run")) == before


def test_two_jobs_in_a_said_run_wait_inside_only_until_it_is_taken_back(two: Scene) -> None:
    """A run may hold two jobs, one after the other: a benchmark and its repetition."""
    database, files = two
    names = names_of(database, files, " ".join(files))
    database.set_run(names, "mine")
    assert asking.together(database, files, "run") == sets("A0 A1 B0 B1")
    asking.right_or_apart(database, files, sets("A0 A1", "B0 B1"))
    assert asking.waits(database, files) == expected(TWO, "A0 A1", "B0 B1")
    rows = database.sql("SELECT DISTINCT run, stated_run FROM traces").rows()
    assert rows == [{"run": "mine", "stated_run": "mine"}]
    database.set_run(names, None)
    assert database.sql("SELECT DISTINCT stated_run FROM traces").rows() == [{"stated_run": None}]
    settled(database, files, TWO, "A0 A1", "B0 B1")


@pytest.mark.thorough
def test_a_said_run_stays_when_a_trace_is_replaced(two: Scene) -> None:
    database, files = two
    left = remove(database, files, "A1 B0 B1")
    database.ingest([files["B0"]], run="mine")
    database.set_run(names_of(database, files, "A0"), "mine")
    database.ingest([files["B0"]], replace=True)
    assert database.sql("SELECT DISTINCT stated_run FROM traces").rows() == [{"stated_run": "mine"}]
    assert asking.together(database, {**left, "B0": files["B0"]}, "run") == sets("A0 B0")


def test_missing_proof_is_hinted_at(database: Database, tmp_path: Path) -> None:
    """Ranks without a clock and without sizes of collectives may be anybody's; how to join them is said."""
    files = written(tmp_path, {"A": Job(has_clock=False).silent("sizes", "members", "groups")}, "A0", "A1")
    said = told(database, tmp_path)
    if asking.together(database, files) == sets("A0", "A1"):
        assert "--run" in said
        assert asking.hinted(database, files) == {"A0", "A1"}


def test_unrelated_traces_are_no_news(database: Database, tmp_path: Path) -> None:
    """Programs of one GPU each are no ranks of anything: nothing to join, nothing to say."""
    alone = (ranks.Exchange("allreduce", 4096, "none"),)
    jobs = {
        word: Job(world=1, seed=word, step=alone, groups={"none": ()}, start=clock(minutes=number)).silent("rank")
        for number, word in enumerate("AB")
    }
    files = written(tmp_path, jobs, "A0", "B0")
    said = told(database, tmp_path)
    apart(database, files)
    assert "--run" not in said
    assert database.sql("SELECT count(*) AS n FROM trace_links").rows() == [{"n": 0}]


# Recordings


def recorded(rank: int) -> list[dict[str, Any]]:
    return plain.activities(FIXTURE / f"rank{rank}" / "script.pt.trace.json.gz")


@pytest.mark.thorough
def test_a_recorded_pair_without_its_bundle_is_one_job(database: Database, tmp_path: Path) -> None:
    """Two real ranks, of which only the traces are left, under names that tell nothing."""
    files = {}
    for rank, place in enumerate(("morning/b.json.gz", "evening/a.json.gz")):
        files[f"A{rank}"] = tmp_path / place
        files[f"A{rank}"].parent.mkdir()
        shutil.copy(FIXTURE / f"rank{rank}" / "script.pt.trace.json.gz", files[f"A{rank}"])
    asking.in_calls(database, files, ("A1", "A0"))
    assert asking.together(database, files) == sets("A0 A1")
    assert asking.together(database, files, "run") == sets("A0 A1")
    found = asking.waits(database, files)
    right = plain.waits({rank: plain.collectives(recorded(rank)) for rank in (0, 1)})
    assert {word: (sums["transfer"], sums["wait"]) for word, sums in found.items()} == {
        f"A{rank}": (sums["transfer"], sums["wait"]) for rank, sums in right.items()
    }


def slower(folder: Path, factor: float) -> None:
    """Another recording of the same: every duration and time is longer."""
    for path in folder.glob("rank*/*.json.gz"):
        content = json.loads(gzip.decompress(path.read_bytes()))
        for event in content["traceEvents"]:
            event["ts"], event["dur"] = round(event["ts"] * factor, 3), round(event["dur"] * factor, 3)
        data = gzip.compress(json.dumps(content).encode())
        path.write_bytes(data)
        bundle = json.loads((path.parent / "bundle.json").read_text())
        for part in bundle["parts"]:
            if part["trace"]["file"] == path.name:
                part["trace"]["sha256"] = hashlib.sha256(gzip.decompress(data)).hexdigest()
        (path.parent / "bundle.json").write_text(json.dumps(bundle))


@pytest.mark.thorough
def test_two_recordings_of_one_name_are_not_mixed(database: Database, tmp_path: Path) -> None:
    """`kerneldb record` was called twice with the same name; folders and workloads are called the same, too."""
    for number, factor in enumerate((1.0, 1.25)):
        slower(recordings.make(tmp_path / str(number) / "job"), factor)
    files = {
        f"{word}{workload[0]}{rank}": tmp_path / str(number) / "job" / f"rank{rank}" / f"{workload}.pt.trace.json.gz"
        for number, word in enumerate("AB")
        for workload in recordings.WORKLOADS
        for rank in range(2)
    }
    for number, rank in itertools.product(range(2), range(2)):
        database.ingest([tmp_path / str(number) / "job" / f"rank{rank}"])
    assert len(asking.facts(database, files)) == len(files)
    asking.right_or_apart(database, files, sets("Ap0 Ap1", "Ad0 Ad1", "Bp0 Bp1", "Bd0 Bd1"))


# Copies of databases


@pytest.mark.thorough
def test_a_copy_says_the_same(two: Scene, tmp_path: Path) -> None:
    """Traces that are copied into another database are judged there by the same evidence."""
    database, files = two
    remove(database, files, "A1")
    other = kerneldb.open(tmp_path / "other.duckdb")
    other.ingest([files["A1"]])
    other.copy_from(database)
    settled(other, files, TWO, "A0 A1", "B0 B1")
