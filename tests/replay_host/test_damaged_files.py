"""Damaged plans and journals end in one line that names the file and the place, or are still valid; nothing breaks.

Every damage is drawn by a seed, which stands in the message of the test that fails.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Self

import pytest
from click.testing import CliRunner, Result

import kerneldb
from kerneldb.api.planning import Request
from kerneldb.cli import cli
from kerneldb.ids import code_hash
from kerneldb.recordings import Reading
from kerneldb.replay import __main__ as module
from kerneldb.replay.host import run as host
from kerneldb.replay.measure.loops import spread
from kerneldb.replay.wire import messages, plan
from kerneldb.replay.wire.energy import CallEnergy, EnergyFacts, Window
from kerneldb.replay.wire.journal import Writer
from kerneldb.replay.wire.plan import Item, Plan
from kerneldb.replay.wire.results import (
    Activity,
    AttemptResult,
    CallResult,
    DeviceState,
    KernelResult,
    LoopCost,
    RunFacts,
    failure,
)  # fmt: skip
from kerneldb.warehouse import session
from tests.fuzz import mutations

FIXTURES = Path(__file__).parents[1] / "fixtures"
TRACES = (FIXTURES / "stacks-memory-h200.json.gz", FIXTURES / "compiled-graph-h200.json.gz")
QUIET = ("--device", "cpu", "--no-energy")
TABLES = (
    "replay_runs", "replay_calls", "replays", "replay_attempts", "power_samples", "inferred_calls", "op_calls",
    "signatures",
)  # fmt: skip
MOST: Final = 5
VIEWS = ("replays", "kernels", "reconciliation")

Lines = list[bytes]


def odd_header(dice: random.Random, _spot: mutations.Spot, all_spots: Sequence[mutations.Spot]) -> None:
    """Another version or format, where it is a header; else something that it does not know."""
    top = all_spots[0][0]
    name = dice.choice(("version", "format", "kind", "unknown"))
    top[name] = dice.choice(
        (0, 2, -1, 1.0, "1", 1 << 40, "kerneldb-replay-plan", "kerneldb-replay-journal", "run", "end")
    )


CHANGES: Final = (*mutations.CHANGES, odd_header)


def change_value(dice: random.Random, lines: Lines) -> None:
    """Change one value of one line."""
    number = dice.randrange(len(lines))
    lines[number] = mutations.json_value(dice, lines[number], CHANGES)


def change_lines(dice: random.Random, lines: Lines) -> None:
    """Lose, repeat or move a line, or put a strange one in."""
    number, to = dice.randrange(len(lines)), dice.randrange(len(lines))
    strange = (b"", b"null", b"[]", b"{}", b'"x"', b"\xff\xfe", b"\xef\xbb\xbf{}", b'{"kind": "run"}', b"{" * 10_000)
    match dice.randrange(4):
        case 0 if len(lines) > 1:
            del lines[number]
        case 1:
            lines.insert(to, lines[number])
        case 2:
            lines[number], lines[to] = lines[to], lines[number]
        case _:
            lines.insert(to, dice.choice(strange))


def change_bytes(dice: random.Random, lines: Lines) -> None:
    """Cut a line, or change some of its bytes."""
    number = dice.randrange(len(lines))
    line = lines[number]
    at = dice.randint(0, len(line))
    odd = bytes(dice.randrange(256) for _ in range(dice.randint(0, 3)))
    lines[number] = (line[:at], line[at:], line[:at] + odd + line[at + len(odd) :], line[:at] + odd + line[at:])[
        dice.randrange(4)
    ]


def damaged(whole: bytes, seed: int) -> bytes:
    """The file with one to four changes, and sometimes without its end."""
    dice = random.Random(seed)
    lines = whole.removesuffix(b"\n").split(b"\n")
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        dice.choices((change_value, change_lines, change_bytes), (8, 1, 1))[0](dice, lines)
    made = b"\n".join(lines) + b"\n"
    return made[: dice.randint(0, len(made))] if dice.random() < 0.05 else made


@dataclasses.dataclass(frozen=True, slots=True)
class Damage:
    """What becomes of the plan, or else of the journal."""

    of_plan: bool
    change: Callable[[bytes], bytes]


def drawn(seed: int) -> Damage:
    """The damage of a seed: even ones are of plans."""
    return Damage(seed % 2 == 0, functools.partial(damaged, seed=seed))


@dataclasses.dataclass(frozen=True, slots=True)
class Healthy:
    """A database with the traces of a plan, and the plan and a journal of it as they should be."""

    database: Path
    plan: bytes
    journal: bytes


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Healthy:
    return make_healthy(tmp_path_factory.mktemp("healthy"))


def make_healthy(folder: Path) -> Healthy:
    """The same in a folder that is given."""
    database = kerneldb.open(folder / "k.duckdb")
    database.ingest(TRACES)
    database.sql(
        """
        INSERT INTO measurements BY NAME
        SELECT trace_id, 'small' AS model, 'script' AS workload, 'eager' AS mode, 'clock' AS method, quantity, value
        FROM traces, (VALUES ('wall_ns', 1e6), ('energy_mj', 300.0), ('busy_ns', 9e5)) AS m (quantity, value)
        WHERE name = 'stacks-memory-h200'
        """,
        write=True,
    )
    planned = database.plan_replay(Request())
    made = planned_of(planned.plan)
    plan.write(made, folder / "p")
    write_journal(made, folder / "j")
    assert "inferred" in {one.route for one in made.items}
    database.read_journal(folder / "p", folder / "j")
    for table in (*TABLES, *VIEWS):
        assert database.sql(f"SELECT count(*) AS n FROM {table}").rows()[0]["n"] > 0, table
    session.release_all()
    return Healthy(database.path, (folder / "p").read_bytes(), (folder / "j").read_bytes())


def planned_of(known: Plan) -> Plan:
    """The plan with one of each: a call to be found by trying, a collective, and the source of a kernel."""
    plain = [one for one in known.items if one.route == "aten"]
    items = [one for one in known.items if one not in plain[MOST:]]
    place, inherited = next((at, one) for at, one in enumerate(items) if one.route == "inherited")
    items[place] = dataclasses.replace(inherited, route="inferred", spec=None)
    copied = next(one for one in items if one.route == "aten")
    extra = json.dumps({"Collective name": "allreduce", "dtype": "Float", "Group size": 2,
                        "In msg nelems": 64, "Out msg nelems": 64})  # fmt: skip
    call = plan.OpCall("record_param_comms", extra=extra)
    items.append(dataclasses.replace(copied, id="exchange", route="collective", spec=plan.CallSpec(call)))
    text = "def triton_poi_fused_0(): pass"
    facts = {"kernel_hash": code_hash(text), "kernel_kwargs": "XBLOCK=2", "num_warps": "16", "grid": "grid(8,)"}
    launched = plan.OpCall("triton_poi_fused_0", "[[8]]", "[[1]]", '["float"]', extra=json.dumps(facts))
    launch = plan.CallSpec(launched, (plan.ChildCall(call, 1, 2),), call)
    items.append(dataclasses.replace(copied, id="kernel", route="triton", spec=launch))
    source = {"language": "triton", "name": "triton_poi_fused_0", "text": text, "file": "k.py", "origin": "user"}
    return Plan(tuple(items), known.notes, {code_hash(text): source})


def write_journal(planned: Plan, path: Path) -> None:
    """A journal with all that one may hold."""
    window = Window(1.7e9, 1.4, 515.2, 1.7, 2000.0, 14, temperature_c=48.5, throttle="software power cap")
    arguments = {"energy": True, "modules": [], "cache": "mixed"}
    facts = RunFacts("r1", "2026-01-01T00:00:00+00:00", "mixed", "cuda:0", 0, "NVIDIA H200", sm_count=132,
                     arguments=arguments, plan_notes=planned.notes)  # fmt: skip
    energy = EnergyFacts("nvml", None, 100.0, 0.001, 0.5, 83.5, 0.2, 124.5, 0.4, 126.9, 0.2, gap_ns=565.0, drift=0.001,
                         gaps=(window,), flush=window)  # fmt: skip
    with Writer(path) as writer:
        writer.run(facts)
        for item in planned.items[:-1]:
            writer.call(ran(item, window))
        writer.call(failure(planned.items[-1], "mixed", "no"))
        writer.energy(energy)
        writer.power(
            [Reading("gap", 1_700_000_000_000_000_000, energy_mj=1.0), Reading("i", 2, energy_mj=3.0, power_w=127.0)]
        )
        writer.run(dataclasses.replace(facts, host="other"))
        writer.call(failure(planned.items[-1], "mixed", "again", "skipped"))
        writer.end(finished=True, remaining=0, wall_s=1.0)


def ran(item: Item, window: Window) -> CallResult:
    """The result of an item of which all kernels came out the same."""
    time = spread([2000.0] * 12)
    assert time is not None
    kernels = tuple(
        KernelResult(one.ordinal, one.signature_id, one.name, "L0", None, Activity(one.kind, one.name, 5.0, one.grid),
                     ("block",), 1 / len(item.kernels), time)
        for one in item.kernels
    )  # fmt: skip
    energy = CallEnergy(8.0, 7.9, 8.1, 6.0, 5.8, 6.2, 515.2, 0.9, 4.2, "CUDA-graph loop", windows=(window,))
    result = CallResult(
        item.id, item.route, "mixed", "ok", "L0", overload="aten::mm", notes=("a note",), tries=1, warmup=3, runs=12,
        wall_s=0.25, kernels=kernels, extra=(Activity("kernel", "more"),), missing=("less",), time=time,
        loop=LoopCost(time, 4, 2), inputs={"cold_bytes": 4}, state=DeviceState(1980, 3201, 50, 515.5, ("idle",)),
        attempt=0, energy=energy,
    )  # fmt: skip
    if item.route != "inferred":
        return result
    first = item.candidates[0]
    trail = (
        AttemptResult(
            first.spec.call, "a guess", "L2", 0, "aten::mm", same_name=False, time_ns=5.0, reason="other kernel"
        ),
        AttemptResult(
            first.spec.call, "refined", "L0", None, "aten::mm", same_name=True, same_grid=True, accepted=True
        ),
    )
    return dataclasses.replace(result, trail=trail, found=dataclasses.replace(first, source="inferred", score=0.9))


class Stub:
    """Stands for the process of a worker: every item fails, in the order of the job."""

    process = None
    ended = True

    def __init__(self, _command: Sequence[str], job: messages.Job) -> None:
        items = {item.id: item for item in plan.read(Path(job.plan)).items}
        results = [messages.Result(failure(items[name], job.options.cache, "no")) for name in job.items]
        self._messages = iter([messages.Ready({"device": "cpu"}), *results, messages.Done()])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def begin(self) -> None:
        pass

    def next(self, _seconds: float) -> messages.Message:
        return next(self._messages)


@dataclasses.dataclass(slots=True)
class Case:
    """Files of which one may be damaged, beside a copy of the database."""

    healthy: Healthy
    folder: Path
    capture: pytest.CaptureFixture[str]
    said: str = ""

    @property
    def database(self) -> Path:
        return self.folder / "k.duckdb"

    def fresh(self) -> None:
        """The database as it was."""
        session.release_all()
        shutil.copyfile(self.healthy.database, self.database)

    def kerneldb(self, *arguments: object) -> Result:
        return CliRunner().invoke(cli, ["--db", str(self.database), *map(str, arguments)])

    def put(self, damage: Damage, plan_path: Path, journal_path: Path) -> Path:
        """Write both files, one of them damaged; that one."""
        for path in self.folder.glob("k.duckdb.replay*"):
            path.unlink()
        plan_path.write_bytes(self.healthy.plan)
        journal_path.write_bytes(self.healthy.journal)
        path = plan_path if damage.of_plan else journal_path
        path.write_bytes(damage.change(path.read_bytes()))
        return path

    def read(self, damage: Damage) -> str | None:
        """`--read-journal`; what is wrong with how it ends."""
        paths = self.folder / "p", self.folder / "j"
        path = self.put(damage, *paths)
        result = self.kerneldb("replay", "--write-plan", paths[0], "--read-journal", paths[1], "--json")
        return self.judged(result, path)

    def resume(self, damage: Damage) -> str | None:
        """`--resume` beside the database."""
        path = self.put(damage, self.folder / "k.duckdb.replay-plan", self.folder / "k.duckdb.replay")
        return self.judged(self.kerneldb("replay", "--resume", *QUIET, "--json"), path)

    def run(self, damage: Damage) -> str | None:
        """The module that runs where there is no database: a damaged plan, or a damaged journal to go on with."""
        plan_path, journal_path = self.folder / "p", self.folder / "j"
        path = self.put(damage, plan_path, journal_path)
        resumed = ["--resume"] if path == journal_path else []
        if not resumed:
            journal_path.unlink()
        self.capture.readouterr()
        code = module.main([str(plan_path), "--journal", str(journal_path), *QUIET, *resumed])
        self.said = self.capture.readouterr().err
        return None if code == 0 else refusal(code, self.said, path)

    def judged(self, result: Result, path: Path) -> str | None:
        self.said = result.stderr
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            return f"{type(result.exception).__name__}: {result.exception}"[:300]
        if result.exit_code == 0:
            found = self.unreadable()
            self.fresh()
            return found
        return refusal(result.exit_code, result.stderr, path) or self.harm()

    def harm(self) -> str | None:
        """What a refused file changed in the database."""
        session.release_all()
        if self.database.read_bytes() == self.healthy.database.read_bytes():
            return None
        mine, theirs = contents(self.database), contents(self.healthy.database)
        found = self.unreadable()
        self.fresh()
        changed = [table for table in TABLES if mine[table] != theirs[table]]
        return f"changed {', '.join(changed)}" if changed else found

    def unreadable(self) -> str | None:
        """What the database does not answer."""
        for view in VIEWS:
            result = self.kerneldb("query", f"FROM {view}", "--json")
            if result.exit_code:
                return f"FROM {view}: {result.stderr or result.exception!r}"[:300]
        return None


def contents(path: Path) -> dict[str, list[Any]]:
    """The rows of the tables that replays write."""
    database = kerneldb.open(path)
    return {table: list(database.sql(f"FROM {table} ORDER BY ALL").rows()) for table in TABLES}


def refusal(code: int, said: str, path: Path) -> str | None:
    """What is wrong with a refusal: one printable line that names the file, and no traceback."""
    lines = [line for line in said.splitlines() if "of Triton kernels come with the plan" not in line]
    if code not in (1, 2) or len(lines) != 1:
        return f"exit {code}, {len(lines)} lines: {said[-300:]}"
    line = lines[0].removeprefix("Error: ")
    if not line.startswith(f"{path}: "):
        return f"names no file: {line[:300]}"
    if not line.isprintable() or len(line) > len(str(path)) + 300:
        return f"not to be printed ({len(line)} characters): {line[:300]!r}"
    return None


@pytest.fixture
def case(healthy: Healthy, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr(host, "WorkerProcess", Stub)
    made = Case(healthy, tmp_path, capsys)
    made.fresh()
    return made


WAYS: Final = {"read": Case.read, "resume": Case.resume, "run": Case.run}
FEW: Final = {"read": range(4), "resume": range(2), "run": range(40)}
MANY: Final = {"read": range(4, 14), "resume": range(2, 8), "run": range(40, 300)}


def judge(case: Case, way: str, seeds: range) -> None:
    """Fail with the first seeds whose file ends otherwise than it should, and how."""
    wrong = {seed: said for seed in seeds if (said := WAYS[way](case, drawn(seed))) is not None}
    assert not wrong, f"{len(wrong)} of {len(seeds)}, by seed: {dict(itertools.islice(wrong.items(), 5))}"


@pytest.mark.parametrize("way", ["read", *(pytest.param(way, marks=pytest.mark.thorough) for way in ("resume", "run"))])
def test_a_damaged_file_is_refused_in_one_line_or_still_valid(case: Case, way: str) -> None:
    judge(case, way, FEW[way])


@pytest.mark.volume
@pytest.mark.parametrize("way", WAYS)
def test_so_it_is_with_many_damaged_files(case: Case, way: str) -> None:
    judge(case, way, MANY[way])


def put_into(whole: bytes, place: str, value: Any) -> bytes:
    """The file with `value` at a place, such as `call.tries`, in the first line that has it."""
    lines = whole.splitlines()
    *path, last = [int(step) if step.isdigit() else step for step in place.split(".")]
    for number, line in enumerate(lines):
        top = held = json.loads(line)
        try:
            for step in path:
                held = held[step]
        except (LookupError, TypeError):
            continue
        held[last] = value
        lines[number] = json.dumps(top).encode()
        return b"\n".join((*lines, b""))
    raise LookupError(place)


NESTED: Final = json.loads(mutations.RAW["@nested"])
INTEGERS: Final = (
    "run.sm_count", "call.tries", "call.loop.calls", "call.state.sm_mhz", "call.kernels.0.time.n",
    "call.trail.0.candidate",
)  # fmt: skip
ODD_PLANS: Final = (
    ("candidates.0.spec.call.extra", "[", "candidates[0].spec.call.extra: not JSON"),
    ("candidates.0.spec.call.extra", "3", "candidates[0].spec.call.extra: expected an object, found 3"),
    ("candidates.0.source", "", 'candidates[0].source: expected "inherited" or "inferred"'),
    ("notes.vendor", NESTED, "line 1: nested too deeply"),
    ("kernels.0.places", {"\n\x1b[2J": 0}, r"kernels[0].places.\n\x1b[2J: expected a list, found 0"),
    ("kernels.0.places", {"a" * 200_000: 0}, "…: expected a list, found 0"),
    ("kernels.0.ordinal", 1 << 40, "kernels[0].ordinal: expected a number from -2147483648 to 2147483647"),
    ("kernels.0.launches", 1 << 40, "kernels[0].launches: expected a number from 1 to 2147483647"),
    ("spec.children.0.times", 1 << 40, "spec.children[0].times: expected a number from 1 to 2147483647"),
    ("version", -1, "line 1: version: expected a number from 1 to 2147483647, found -1"),
)
ODD_JOURNALS: Final = (
    *((place, 1 << 40, "expected a number from -2147483648 to 2147483647, found 1099511627776") for place in INTEGERS),
    (
        "run.started",
        "2024-01-01\x1b10:00",
        r"run.started: expected a time such as 2026-01-31T12:00:00, found '2024-01-",
    ),
    ("run.arguments.modules", NESTED, "line 1: nested too deeply"),
)
ODD_ONES: Final = [(True, *one) for one in ODD_PLANS] + [(False, *one) for one in ODD_JOURNALS]


@pytest.mark.parametrize(("of_plan", "place", "value", "said"), ODD_ONES, ids=[one[1] for one in ODD_ONES])
def test_a_value_that_nothing_can_hold_is_refused_with_its_place(
    case: Case, of_plan: bool, place: str, value: Any, said: str
) -> None:
    damage = Damage(of_plan, functools.partial(put_into, place=place, value=value))
    assert case.read(damage) is None
    assert said in case.said
    assert case.run(damage) is None
    assert said in case.said


@pytest.mark.parametrize(
    "text", [b"of mine, without an end", b"of mine\nwithout an end", b'{"kind": "run"}\n{"kind": "e']
)
def test_what_is_no_journal_is_left_as_it_is(case: Case, text: bytes) -> None:
    assert case.run(Damage(of_plan=False, change=lambda _: text)) is None
    assert "line 1: " in case.said
    assert (case.folder / "j").read_bytes() == text


def test_a_header_that_a_crash_cut_is_written_anew(case: Case) -> None:
    assert case.run(Damage(of_plan=False, change=lambda whole: whole[:100])) is None
    assert (case.folder / "j").read_bytes().startswith(b'{"kind": "run", ')


def test_exchanges_of_no_known_size_are_graded(case: Case) -> None:
    """On several devices, where the plan is asked how many take part."""
    extra = {"Collective name": [], "dtype": "Float", "In msg nelems": "x", "Out msg nelems": 1, "Group size": 2}
    (exchange,) = (line for line in case.healthy.plan.splitlines() if b'"id": "exchange"' in line)
    odd = put_into(exchange, "spec.call.extra", json.dumps(extra)).strip()
    (case.folder / "p").write_bytes(case.healthy.plan.replace(exchange, odd))
    arguments = [str(case.folder / "p"), "--journal", str(case.folder / "new"), *QUIET, "--gpus", "2"]
    assert module.main(arguments) == 0
