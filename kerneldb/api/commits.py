"""Which commit of a program a trace was recorded from, as notes (tags) on the trace: commit, branch, commit_time.

Git is asked by its plumbing commands only: they run no hook, no file-system monitor, no filter, no signature check and
fetch nothing, whatever the configuration of the folder says. Variables of a CI service are read only where they are
asked for.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kerneldb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

AUTO: Final = "auto"
GIT: Final = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-optional-locks")
QUIET: Final = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
LIMIT_S: Final = 20.0
SHA: Final = re.compile(r"[0-9a-fA-F]{7,64}")
COMMITTER: Final = re.compile(rb"^committer .* (\d+) [+-]\d{4}$", re.MULTILINE)

SERVICES: Final = {
    "GitHub": ("GITHUB_SHA", ("GITHUB_HEAD_REF", "GITHUB_REF_NAME"), "GITHUB_RUN_ID"),
    "GitLab": ("CI_COMMIT_SHA", ("CI_COMMIT_REF_NAME",), "CI_PIPELINE_ID"),
    "Buildkite": ("BUILDKITE_COMMIT", ("BUILDKITE_BRANCH",), "BUILDKITE_BUILD_ID"),
    "Jenkins": ("GIT_COMMIT", ("BRANCH_NAME", "GIT_BRANCH"), "BUILD_TAG"),
}
"""Service → its variables of the commit, of the branch (the first that is set counts), and of the job.

Sources: docs.github.com/actions (default environment variables), docs.gitlab.com/ci/variables/predefined_variables,
buildkite.com/docs/pipelines/environment-variables, plugins.jenkins.io/git.
"""


def notes_of(commit: str | None, branch: str | None, *, ci: bool, folder: Path | None = None) -> dict[str, str]:
    """The tags commit, branch, commit_time (ISO 8601, UTC) and ci_run of what the user stated.

    `commit` is `auto` (HEAD of the repository around `folder`, the current one by default), or a commit of at least
    seven digits, which git completes and dates where it knows it. `ci` takes what is not stated from the variables of
    the CI service. Raises UsageError where a commit cannot be found out, or is none.
    """
    here = folder or Path.cwd()
    found = _of_service(os.environ) if ci else {}
    if commit == AUTO:
        found |= _of_head(here)
    elif commit is not None:
        if not SHA.fullmatch(commit):
            raise UsageError(f"{commit!r} is no commit: give auto, or 7 to 64 hexadecimal digits")
        found["commit"] = commit.lower()
    if branch is not None:
        found["branch"] = branch
    return found | _dated(found.get("commit"), here)


def _of_service(environment: Mapping[str, str]) -> dict[str, str]:
    """What the variables of a CI service say. Raises UsageError where none is set."""
    for service, (commit, branches, job) in SERVICES.items():
        if SHA.fullmatch(environment.get(commit, "")):
            branch = next((environment[name] for name in branches if environment.get(name)), None)
            run = environment.get(job)
            given = {"commit": environment[commit], "branch": branch, "ci_run": run and f"{service} {run}"}
            return {key: value for key, value in given.items() if value}
    known = ", ".join(variables[0] for variables in SERVICES.values())
    raise UsageError(f"--ci: no CI service has set the commit ({known}); state it with --commit")


def _of_head(folder: Path) -> dict[str, str]:
    head = _git(folder, "rev-parse", "--verify", "--end-of-options", "HEAD^{commit}")
    if head is None:
        raise UsageError(f"{folder}: git knows no commit there; state it with --commit SHA, or leave --commit out")
    branch = _git(folder, "symbolic-ref", "--quiet", "--short", "HEAD")
    return {"commit": head.decode().strip()} | ({"branch": branch.decode("utf-8", "replace").strip()} if branch else {})


def _dated(commit: str | None, folder: Path) -> dict[str, str]:
    """The whole name of a commit and its time, where the repository around `folder` has it; else nothing."""
    full = commit and _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    text = full and _git(folder, "cat-file", "commit", full.decode().strip())
    when = text and COMMITTER.search(text.partition(b"\n\n")[0])
    if not full or not when:
        return {}
    time = dt.datetime.fromtimestamp(int(when[1]), dt.UTC)
    return {"commit": full.decode().strip(), "commit_time": time.strftime("%Y-%m-%dT%H:%M:%SZ")}


def _git(folder: Path, *arguments: str) -> bytes | None:
    """What git prints, or None where it fails, is not installed, or takes longer than LIMIT_S."""
    try:
        done = subprocess.run(  # noqa: S603 (a fixed program; names of commits are hexadecimal digits)
            [*GIT, *arguments], cwd=folder, env=os.environ | QUIET, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=LIMIT_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
