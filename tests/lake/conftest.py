"""Real servers on this machine: PostgreSQL for catalogs, moto for S3. Where one is missing, its tests skip."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from kerneldb.errors import WarehouseError
from kerneldb.warehouse import Warehouse, lakes, upkeep
from kerneldb.warehouse.place import Place
from tests.conftest import made_once, shared_folder

NUMBERS = itertools.count()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def postgres_folder() -> Path | None:
    """Where initdb and pg_ctl are: in the search path, or where Debian puts them."""
    found = shutil.which("pg_ctl")
    folders = (
        [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    )
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


class Postgres:
    """A server of its own, on loopback, with its data in a new folder. As root it runs as the user `postgres`.

    The data of a server that was stopped may be copied: to make them anew takes seconds.
    """

    def __init__(self, binaries: Path, made: Path | None = None) -> None:
        self.binaries, self.port = binaries, free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="kerneldb-postgres-"))
        self.user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        if made is not None:
            shutil.copytree(made, self.folder / "data")
        if self.user:
            subprocess.run(["chown", "-R", "postgres", str(self.folder)], check=True)
        if made is None:
            self.run("initdb", "-D", str(self.folder / "data"), "-A", "trust", "-U", "lake")
        settings = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        log = str(self.folder / "log")
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-w", "-l", log, "-o", settings, "start")

    def run(self, program: str, *arguments: str) -> None:
        command = [*self.user, str(self.binaries / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")

    def ask(self, sql: str, database: str = "postgres") -> str:
        address = ["-h", "127.0.0.1", "-p", str(self.port), "-U", "lake", "-d", database]
        done = subprocess.run(
            [str(self.binaries / "psql"), *address, "-Atqc", sql], check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def address(self, database: str) -> str:
        return f"dbname={database} host=127.0.0.1 port={self.port} user=lake"

    def stop(self, keep: Path | None = None) -> None:
        """End it; its data go, or to `keep`."""
        self.run("pg_ctl", "-D", str(self.folder / "data"), "-m", "fast" if keep else "immediate", "stop")
        if keep is not None:
            shutil.copytree(self.folder / "data", keep)
        shutil.rmtree(self.folder)


@pytest.fixture(scope="session")
def lake_extensions() -> None:
    """Skips without DuckDB's extensions for lakes, before any server is started."""
    with duckdb.connect() as con:
        for name in ("ducklake", "postgres_scanner", "sqlite_scanner", "httpfs"):
            try:
                lakes.load_extension(con, name)
            except WarehouseError as error:
                pytest.skip(str(error))


@pytest.fixture(scope="session")
def base_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the rows of the empty lake in PostgreSQL are."""
    return shared_folder(tmp_path_factory) / "base-files"


@pytest.fixture(scope="session")
def postgres(lake_extensions: None, base_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """A server with an empty lake, `base`."""
    binaries = postgres_folder()
    if binaries is None:
        pytest.skip("no PostgreSQL on this machine (Debian: apt install postgresql)")

    def make(path: Path) -> None:
        first = Postgres(binaries)
        first.ask("CREATE DATABASE base")
        upkeep.init(Place.of(f"ducklake:postgres:{first.address('base')}"), str(base_files), 30)
        lakes.close_all()
        first.stop(keep=path)

    server = Postgres(binaries, made_once(tmp_path_factory, "postgres", make))
    yield server
    lakes.close_all()
    server.stop()


@pytest.fixture(scope="session")
def s3(lake_extensions: None) -> Iterator[str]:
    """The URL of a bucket on a server of this process; the AWS variables lead there."""
    server = pytest.importorskip("moto.server", reason="no S3 server (pip install 'moto[server]')")
    import boto3

    with pytest.MonkeyPatch.context() as patch:
        port = free_port()
        patch.setenv("AWS_ACCESS_KEY_ID", "key")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        threaded = server.ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
        threaded.start()
        boto3.client("s3").create_bucket(Bucket="lake")
        yield "s3://lake"
        lakes.close_all()
        threaded.stop()


class Lakes:
    """Makes lakes with their catalogs in PostgreSQL, as copies of an empty one: that takes a fraction of the time."""

    def __init__(self, postgres: Postgres, folder: Path) -> None:
        self.postgres, self.folder = postgres, folder

    def __call__(self, data: str) -> Place:
        """A new lake with its files in `data`, a folder or a prefix in S3."""
        name = f"lake{next(NUMBERS)}"
        self.postgres.ask(f"CREATE DATABASE {name} TEMPLATE base")
        self.postgres.ask(f"UPDATE ducklake_metadata SET value = '{data}/' WHERE key = 'data_path'", name)
        if data.startswith("s3://"):
            self._upload(data)
        else:
            shutil.copytree(self.folder, data, dirs_exist_ok=True)
        return Place.of(f"ducklake:postgres:{self.postgres.address(name)}")

    def _upload(self, data: str) -> None:
        import boto3

        bucket, _, prefix = data.removeprefix("s3://").partition("/")
        for file in self.folder.rglob("*.parquet"):
            boto3.client("s3").upload_file(file, bucket, f"{prefix}/{file.relative_to(self.folder)}")


@pytest.fixture(scope="session")
def new_lake(postgres: Postgres, base_files: Path) -> Lakes:
    return Lakes(postgres, base_files)


@pytest.fixture
def postgres_lake(new_lake: Lakes, tmp_path: Path) -> Iterator[Place]:
    """A new lake with its catalog in PostgreSQL and its rows in a folder of its own."""
    yield new_lake(str(tmp_path / "data"))
    lakes.close_all()


@pytest.fixture(scope="session")
def base_sqlite(lake_extensions: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(path: Path) -> None:
        upkeep.init(Place.of(f"ducklake:sqlite:{path}"), str(path.with_name("base.sqlite-files")), 30)
        lakes.close_all()

    return made_once(tmp_path_factory, "base.sqlite", make)


@pytest.fixture
def sqlite_lake(base_sqlite: Path, tmp_path: Path) -> Iterator[Place]:
    """A new lake with its catalog in a SQLite file."""
    yield Place.of(f"ducklake:sqlite:{shutil.copy(base_sqlite, tmp_path / 'lake.sqlite')}")
    lakes.close_all()


@pytest.fixture
def s3_lake(new_lake: Lakes, s3: str) -> Iterator[Place]:
    """A new lake with its catalog in PostgreSQL and its rows in S3."""
    yield new_lake(f"{s3}/{next(NUMBERS)}")
    lakes.close_all()


@pytest.fixture(params=["postgres", "sqlite", "s3"])
def lake(request: pytest.FixtureRequest) -> Place:
    """A new lake of each kind in turn."""
    found = request.getfixturevalue(f"{request.param}_lake")
    assert isinstance(found, Place)
    return found


@pytest.fixture(scope="session")
def many_traces(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with 120 small traces, named t0 … t119, in runs of eight: the example with other ids and times."""

    def make(path: Path) -> None:
        warehouse = Warehouse.create_or_open(path)
        with warehouse.connection(read_only=False) as con, contextlib.closing(con):
            for statement in (Path(__file__).parent / "many_traces.sql").read_text(encoding="utf-8").split(";\n"):
                con.execute(statement)

    return made_once(tmp_path_factory, "many.duckdb", make)
