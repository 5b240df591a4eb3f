"""Builds the source distribution and the wheel into dist/, and tries both: ``make packages``.

The wheel is built from the unpacked source distribution, as an installer without a wheel would do it. It has to have
every module of this checkout. Then it is installed into an environment of its own beside the versions of uv.lock,
and its command line makes a pipeline of a CSV and plans it, with no repository around.

Exit 0: both work; 1: one of them does not, and the last line says why.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from scripts.setup import installer_environment

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
UV = str(Path(sys.executable).with_name("uv"))

# Variables by which a command would find this checkout, its environment or somebody's settings.
STRANGERS = ("AIRFLOW", "PYTHON", "SLUICEGATE", "SPARK", "VIRTUAL_ENV")

ORDERS = "order_id,ordered_at,amount\n1,2026-01-01T10:00:00Z,12.50\n2,2026-01-01T11:30:00Z,7.25\n"


class PackageError(Exception):
    """A package that cannot be released, with the reason."""


def main() -> int:
    """Build and try both packages; return the exit code."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    try:
        wheel = build(version)
        missing = missing_modules(ROOT, members(wheel))
        if missing:
            raise PackageError(f"{wheel.name} lacks {len(missing)} modules, such as {missing[0]}")
        with tempfile.TemporaryDirectory(prefix="sluicegate-packages-") as folder:
            try_wheel(wheel, version, Path(folder))
    except PackageError as error:
        print(f"packages: {error}", file=sys.stderr)
        return 1
    print(f"packages: {wheel.name} and its source distribution are in {DIST.name}/, and work")
    return 0


def build(version: str) -> Path:
    """Build the source distribution and, from it, the wheel; return the wheel.

    Raises:
        PackageError: one of them is not made.
    """
    shutil.rmtree(DIST, ignore_errors=True)
    # Without --wheel or --sdist uv builds the wheel from the source distribution, and not from this folder.
    run([UV, "build", "--quiet", "--out-dir", str(DIST), str(ROOT)])
    wheel = DIST / f"sluicegate-{version}-py3-none-any.whl"
    for package in (wheel, DIST / f"sluicegate-{version}.tar.gz"):
        if not package.is_file():
            raise PackageError(f"{package.name} was not made")
    return wheel


def members(wheel: Path) -> set[str]:
    """Paths of the files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def missing_modules(root: Path, packaged: Iterable[str]) -> list[str]:
    """Modules and job scripts of a checkout that a wheel lacks, as their paths in it."""
    modules = {file.relative_to(root).as_posix() for file in (root / "sluicegate").rglob("*.py")}
    scripts = {f"sluicegate/{file.relative_to(root).as_posix()}" for file in (root / "spark_jobs").rglob("*.py")}
    return sorted((modules | scripts) - set(packaged))


def try_wheel(wheel: Path, version: str, folder: Path) -> None:
    """Install a wheel in an empty folder, and make and plan a pipeline with it.

    Raises:
        PackageError: the installation or one of the commands fails.
    """
    environment = folder / "venv"
    python = environment / "bin" / "python"
    run([UV, "venv", "--quiet", "--python", sys.executable, str(environment)])
    pinned = [UV, "sync", "--quiet", "--frozen", "--no-dev", "--no-install-project", "--project", str(ROOT)]
    run(pinned, UV_PROJECT_ENVIRONMENT=str(environment))
    # No index: this fails unless uv.lock has all that the wheel requires.
    run([UV, "pip", "install", "--quiet", "--no-index", "--python", str(python), str(wheel)])
    command = str(environment / "bin" / "sluicegate")
    answer = run([command, "--version"], folder)
    if answer.split() != ["sluicegate", version]:
        raise PackageError(f"`sluicegate --version` of the wheel says {answer.strip()!r}, and not {version}")
    (folder / "orders.csv").write_text(ORDERS)
    run([command, "new", "sales", "--from", "orders.csv", "--land"], folder)
    plan = run([command, "plan", "sales"], folder)
    if "orders" not in plan:
        raise PackageError(f"`sluicegate plan` of the wheel does not name the table of orders: {plan.strip()!r}")
    try_project(command, folder)


def try_project(command: str, folder: Path) -> None:
    """Begin a project with the command line of a wheel, of the sample and of a file, and plan both.

    Raises:
        PackageError: one of the commands fails, or names another folder than the project's.
    """
    for options, pipeline in (([], "sales"), (["--from", "orders.csv"], "of_files")):
        run([command, "init", pipeline, *options], folder)
        project = folder / pipeline
        run([command, "plan", pipeline], project)
        settings = run([command, "settings", "--json"], project)
        if str(project / "lake") not in settings:
            raise PackageError(f"`sluicegate settings` of the wheel names another lake: {settings.strip()!r}")


def run(command: Sequence[str], folder: Path | None = None, **environment: str) -> str:
    """Run a command in a folder, without variables that lead to this checkout; return its output.

    Raises:
        PackageError: it ends with another exit code than 0.
    """
    done = subprocess.run(
        command,
        cwd=folder or tempfile.gettempdir(),
        env=clean(installer_environment(ROOT)) | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise PackageError(f"{' '.join(command)} ended with exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without the variables by which a command would find this checkout."""
    return {name: value for name, value in environment.items() if not name.startswith(STRANGERS)}


if __name__ == "__main__":
    sys.exit(main())
