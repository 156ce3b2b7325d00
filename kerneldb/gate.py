"""A plugin of pytest: the fixture `kerneldb_gate` fails a test whose trace is slower than before.

>>> def test_decode(kerneldb_gate, tmp_path):  # doctest: +SKIP
...     trace = profile_decode(tmp_path / "decode.json")
...     kerneldb_gate(trace, workload="decode", baseline="decode-main", fail_on=3.0)
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from kerneldb.api import Database

NAME = "kerneldb"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of a run: which database traces go into, and the commit that they are of."""
    group = parser.getgroup(NAME)
    group.addoption("--kerneldb-db", metavar="FILE", help="Database of kerneldb_gate (default: KERNELDB_DB).")
    group.addoption("--kerneldb-commit", metavar="auto|SHA", help="Note the commit of traces, for their history.")


class Gate:
    """Takes traces into the database, and fails the test where they are slower than a baseline or their history."""

    def __init__(self, database: Database, commit: str | None) -> None:
        self.database = database
        self._notes = {} if commit is None else _notes(commit)

    def __call__(
        self, trace: str | Path, *, workload: str | None = None, baseline: str | None = None, fail_on: float = 3.0
    ) -> str:
        """The name under which a trace is stored, after it passed.

        `baseline` names a trace, run or label, as `kerneldb diff` takes it; `fail_on` is in percent. With a commit, the
        history of `workload` must not hold a change for the worse by as much.
        """
        from kerneldb.errors import GateError

        notes = self._notes | ({} if workload is None else {"workload": workload})
        (stored,) = (outcome.trace for outcome in self.database.ingest(trace, tags=notes))
        name = stored or ""
        try:
            if baseline is not None:
                self.database.diff(baseline, name).check(fail_on)
            found = self.database.history(workload) if self._notes else None
            if found is not None and any(row["runs"] > 1 for row in found.series):
                found.check(fail_on)
        except GateError as error:
            pytest.fail(str(error), pytrace=False)
        return name


def _notes(commit: str) -> dict[str, str]:
    from kerneldb.api.commits import notes_of

    return notes_of(commit, None, ci=False)


@pytest.fixture
def kerneldb_gate(request: pytest.FixtureRequest) -> Gate:
    """Fails the test where a trace is slower than a baseline, or than its history; see `Gate`."""
    import kerneldb

    options = request.config
    return Gate(kerneldb.open(options.getoption("--kerneldb-db")), options.getoption("--kerneldb-commit"))
