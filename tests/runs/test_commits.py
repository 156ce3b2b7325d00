"""Which commit a trace is of: what git says of a folder, and what is never run for it."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from kerneldb.api import commits
from kerneldb.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

AT = "2026-03-01T08:00:00+01:00"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One commit on a branch, in a folder whose configuration starts a program wherever git lets it."""
    folder = tmp_path_factory.mktemp("repository")
    trap = folder / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {folder}/trapped\n")
    trap.chmod(0o755)

    def git(*arguments: str) -> None:
        named = {"GIT_AUTHOR_DATE": AT, "GIT_COMMITTER_DATE": AT, "GIT_CONFIG_GLOBAL": os.devnull}
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, env=os.environ | named)

    git("init", "--initial-branch", "kernels")
    (folder / "file").write_text("text")
    git("add", "file")
    git("commit", "-m", "committer Nobody <n@example.org> 1 +0000")
    for key in ("core.fsmonitor", "gpg.program", "core.pager", "diff.external"):
        git("config", key, str(trap))
    git("config", "log.showSignature", "true")
    for hook in ("post-index-change", "reference-transaction"):
        (folder / ".git" / "hooks" / hook).write_bytes(trap.read_bytes())
        (folder / ".git" / "hooks" / hook).chmod(0o755)
    return folder


def head(folder: Path) -> str:
    return (folder / ".git" / "refs" / "heads" / "kernels").read_text().strip()


def test_auto_is_the_head_of_the_folder_and_starts_nothing_else(repository: Path) -> None:
    found = commits.notes_of("auto", None, ci=False, folder=repository)
    expected = {"commit": head(repository), "branch": "kernels", "commit_time": "2026-03-01T07:00:00Z"}
    assert found == expected
    assert not (repository / "trapped").exists()


def test_a_short_commit_is_completed_and_dated_where_git_knows_it(repository: Path) -> None:
    found = commits.notes_of(head(repository)[:9].upper(), "release", ci=False, folder=repository)
    assert found == {"commit": head(repository), "commit_time": "2026-03-01T07:00:00Z", "branch": "release"}
    assert commits.notes_of("abcdef1234567", None, ci=False, folder=repository) == {"commit": "abcdef1234567"}


@pytest.mark.parametrize("wrong", ["", "HEAD", "--help", "123", "z" * 40, "a" * 65])
def test_what_is_no_commit_is_refused(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no commit"):
        commits.notes_of(wrong, None, ci=False, folder=tmp_path)


def test_auto_says_where_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UsageError, match="git knows no commit there"):
        commits.notes_of("auto", None, ci=False, folder=tmp_path)


def test_variables_of_a_service_count_only_where_they_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variables in commits.SERVICES.values():
        monkeypatch.delenv(variables[0], raising=False)
    with pytest.raises(UsageError, match="no CI service has set the commit"):
        commits.notes_of(None, None, ci=True, folder=tmp_path)
    monkeypatch.setenv("GITHUB_SHA", "a" * 40)
    monkeypatch.setenv("GITHUB_HEAD_REF", "")
    monkeypatch.setenv("GITHUB_REF_NAME", "main")
    monkeypatch.setenv("GITHUB_RUN_ID", "17")
    assert commits.notes_of(None, None, ci=False, folder=tmp_path) == {}
    found = commits.notes_of(None, "mine", ci=True, folder=tmp_path)
    assert found == {"commit": "a" * 40, "branch": "mine", "ci_run": "GitHub 17"}
