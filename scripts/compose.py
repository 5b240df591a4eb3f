"""The stack of docker-compose.yaml: ``make up`` and ``make down``.

``start_stack`` generates the secrets that are missing into ``.env``, builds the image, starts the services and waits
until all are healthy. ``down`` stops them and keeps their data. ``volumes`` names what they keep, and ``clean`` deletes
it.

Needs the standard library and Docker with Compose, either as its plugin or as docker-compose 1.29. Exit 0: done; 2:
something is missing on this machine; 1: Docker or a service failed. All messages say what to do.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.compose_env import (
    KEYS,
    PORTS,
    SECRETS,
    Stop,
    complete_settings,
    demand_warm_spark,
    demand_well_formed,
    project,
    settings,
)

ROOT = Path(__file__).resolve().parent.parent
RESTARTS = 5  # of a service, which Docker starts again for ever: after so many it does not start
STARTS_WITHIN = 900  # seconds; some 60 where the image is built

WITH_PROFILE = {"SPARK_PORT": "cluster", "HISTORY_PORT": "history", "PROMETHEUS_PORT": "metrics", "S3_PORT": "s3"}

# File of the token by which jobs use the stack's Spark Connect server.
TOKEN = ".connect-token"  # noqa: S105  (the name of a file)

# Services of all profiles are stopped, whoever started them.
PROFILES = [word for profile in (*WITH_PROFILE.values(), "warm") for word in ("--profile", profile)]


def environment(said: Mapping[str, str], lacking: str = "") -> dict[str, str]:
    """Environment for Compose: ``.env`` goes before a shell's variables, which Compose by itself does the other way.

    Else the keys that a shell has for a store of its person's would get into containers with code of anybody's.

    Args:
        said: what ``.env`` says.
        lacking: value of secrets that it lacks, by which Compose can end a stack whose ``.env`` is gone.
    """
    known = {name: value for name, value in os.environ.items() if name not in {*said, *KEYS}}
    secrets_then = {name: lacking for name in SECRETS if lacking and not said.get(name)}
    return known | secrets_then | {"COMPOSE_PROJECT_NAME": project(said)}


def demand_same_places(said: Mapping[str, str], lake: str | None, s3: bool) -> None:
    """Demands that a stack which has data keeps them where they are.

    Args:
        said: what ``.env`` says.
        lake: see ``complete_settings``.
        s3: see ``complete_settings``.

    Raises:
        Stop: landing or lake are asked for elsewhere; the tables would be left behind unseen.
    """
    if not said.get("SLUICEGATE_LANDING"):
        return
    command = "make up S3=1" if s3 else f"make up LAKE={lake}"
    elsewhere = (s3 and "S3" not in said) or (lake and said.get("SLUICEGATE_LAKE") != os.path.abspath(lake))
    if elsewhere:
        place = said.get("SLUICEGATE_LAKE", "a volume of Docker's")
        raise Stop(f"This stack keeps its tables in {place}, as .env says, and they would not move by themselves:"
                   f" `make clean`, remove .env, and `{command}` begins anew.")  # fmt: skip


def has_its_passwords(said: Mapping[str, str], there: Sequence[str]) -> None:
    """Demands that the passwords are known where the databases have some already.

    Args:
        said: what ``.env`` says.
        there: names of the volumes of the stack.

    Raises:
        Stop: ``.env`` has none of them, as in another clone; the databases would refuse new ones.
    """
    database = f"{project(said)}_postgres"
    if database in there and not said.get("POSTGRES_PASSWORD"):
        raise Stop(f"The volume {database} holds the databases of a stack that was started with another .env, and"
                   " this .env has no passwords for them. Copy .env from the folder where that stack was started;"
                   " or set COMPOSE_PROJECT_NAME to another name in .env, for a second stack beside it;"
                   " or delete that stack with all its data by `make clean`.")  # fmt: skip


def compose() -> list[str]:
    """The command of Compose on this machine.

    Raises:
        Stop: there is none, or Docker does not answer.
    """
    for command in (["docker", "compose"], ["docker-compose"]):
        if _is_successful([*command, "version"]):
            break
    else:
        raise Stop("Docker with Compose is needed, and there is none on PATH: install Docker Desktop, or the packages"
                   " docker.io and docker-compose of Debian and Ubuntu.")  # fmt: skip
    if not _is_successful(["docker", "info"]):
        raise Stop("Docker does not answer: start it, or let this user talk to it (`docker info` says why not).")
    return command


def _is_successful(command: Sequence[str]) -> bool:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _run(command: Sequence[str], purpose: str, env: Mapping[str, str]) -> None:
    if subprocess.run(command, cwd=ROOT, env=env, check=False).returncode:
        raise Stop(f"Could not {purpose}: what Docker said is above.", exit_code=1)


def start_stack(lake: str | None, s3: bool, warm: bool = False) -> None:
    """Starts the stack, and waits for it.

    Args:
        lake: see ``complete_settings``.
        s3: see ``complete_settings``.
        warm: see ``complete_settings``.

    Raises:
        Stop: Docker is missing, or a service does not become healthy.
    """
    command = compose()
    said = settings(ROOT)
    demand_well_formed(said, settings(ROOT, as_written=True))
    demand_same_places(said, lake, s3)
    has_its_passwords(said, volumes())
    if not _states():  # before minutes of building, and before .env says where the tables are
        demand_free_ports(said, s3)
    if added := complete_settings(ROOT, lake, s3, warm):
        print(f"generated into .env: {', '.join(added)}", flush=True)
    said = settings(ROOT)
    demand_warm_spark(said)
    for folder in (said["SLUICEGATE_LANDING_FOLDER"], said.get("SLUICEGATE_LAKE_VOLUME", "")):
        if os.path.isabs(folder):  # Docker would make it root's
            _make_owned_folder(Path(folder), int(said["SLUICEGATE_UID"]))
    write_token(ROOT, int(said["SLUICEGATE_UID"]))
    started = time.monotonic()
    _run([*command, "up", "-d", "--build"], "start the stack", environment(said))
    _wait(command, started)
    print(f"All services are healthy, {time.monotonic() - started:.0f} s after the start.")
    port = said.get("AIRFLOW_PORT") or PORTS["AIRFLOW_PORT"]
    print(f"Airflow: http://localhost:{port}, user admin, password: AIRFLOW_PASSWORD in .env")
    print(f"Put files below {said['SLUICEGATE_LANDING']} and unpause a DAG; `make down` stops, and keeps all.")


def write_token(root: Path, user: int) -> None:
    """Makes the file of the server's token, which the containers' user alone can read, unless there is one in it."""
    file = root / TOKEN
    if file.is_dir():  # made by Docker where the stack was started without `make up`
        file.rmdir()
    if file.exists() and file.stat().st_size:  # it has none if the disk was full
        return
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600), "w") as made:
        made.write(secrets.token_urlsafe(32) + "\n")
    if os.getuid() == 0:
        os.chown(file, user, 0)


def demand_free_ports(said: Mapping[str, str], s3: bool = False) -> None:
    """Demands that nobody has the ports that the stack is to have.

    Args:
        said: what ``.env`` says.
        s3: see ``complete_settings``.

    Raises:
        Stop: somebody has one.
    """
    profiles = ["", *said.get("COMPOSE_PROFILES", "").split(","), *(["s3"] if s3 else [])]
    for name, usual in PORTS.items():
        if WITH_PROFILE.get(name, "") not in profiles:
            continue
        port = said.get(name) or usual
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                raise Stop(f"Port {port} is in use by another program: end that, or set {name} in .env to another one.")


def _make_owned_folder(folder: Path, user: int) -> None:
    """Makes a folder that the containers' user may write to."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.getuid() == 0 and folder.stat().st_uid == 0:
        os.chown(folder, user, 0)


def _wait(command: Sequence[str], started: float) -> None:
    """Waits until every service is healthy, and tells of each once."""
    reported: set[str] = set()
    while True:
        states = _states()
        if not states and not _is_successful(["docker", "info"]):
            raise Stop("Docker does not answer any more: start it again, and then `make up`.", exit_code=1)
        for name in sorted(name for name, state in states.items() if state == "healthy" and name not in reported):
            print(f"  {name:<40} healthy after {time.monotonic() - started:4.0f} s", flush=True)
            reported.add(name)
        late = {name: state for name, state in states.items() if state not in ("healthy", "done")}
        if states and not late:
            return
        ended = {name: state for name, state in late.items() if state.startswith("exited")}
        if ended or time.monotonic() - started > STARTS_WITHIN:
            said = ", ".join(f"{name} is {state}" for name, state in (ended or late).items())
            raise Stop(f"{said}: `{' '.join(command)} logs` tells why.", exit_code=1)
        time.sleep(1)


def _states() -> dict[str, str]:
    """healthy, done, or what else a container is, by its name."""
    if not (found := _project_items(["docker", "ps", "-a", "-q", "--filter", "label=com.docker.compose.oneoff=False"])):
        return {}
    inspected = subprocess.run(["docker", "inspect", *found], capture_output=True, text=True, check=False)
    states = {}
    for one in json.loads(inspected.stdout or "[]"):  # nothing where Docker ended in between
        state = one["State"]
        said = state.get("Health", {}).get("Status") or state["Status"]
        if said != "healthy" and one.get("RestartCount", 0) >= RESTARTS:
            said = f"exited with {state['ExitCode']}, again and again"
        elif state["Status"] == "exited":
            said = "done" if state["ExitCode"] == 0 else f"exited with {state['ExitCode']}"
        states[one["Name"].lstrip("/")] = said
    return states


def volumes() -> list[str]:
    """The volumes that the stack keeps its data in; none where there is no Docker."""
    try:
        return sorted(_project_items(["docker", "volume", "ls", "-q"]))
    except OSError:
        return []


def _project_items(command: Sequence[str]) -> list[str]:
    """What Docker lists of the stack, by the label that Compose gives to all of it: for that .env may be incomplete."""
    by = ["--filter", f"label=com.docker.compose.project={project(settings(ROOT))}"]
    return subprocess.run([*command, *by], capture_output=True, text=True, check=False).stdout.split()


def main(arguments: Sequence[str] | None = None) -> int:
    """Does what the command line asks for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="scripts.compose", description="Starts and stops the compose stack.")
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("up", help="generate what .env lacks, build the image, start, wait for health")
    start.add_argument("--lake", help="a folder of this machine for the tables (default: a volume of Docker's)")
    start.add_argument("--s3", action="store_true", help="landing and lake on a store of objects in the stack")
    start.add_argument("--warm", action="store_true", help="a Spark that stays warm runs all jobs")
    commands.add_parser("down", help="stop; the data stay")
    commands.add_parser("volumes", help="name the volumes with data")
    commands.add_parser("clean", help="stop, and delete the volumes")
    given = parser.parse_args(arguments)
    try:
        if given.command == "up":
            start_stack(given.lake, given.s3, given.warm)
        elif given.command == "volumes":
            print("\n".join(volumes()))
        else:
            deleted = ["--volumes"] if given.command == "clean" else []
            command = [*compose(), *PROFILES]
            env = environment(settings(ROOT), lacking="none")
            # With -v, since `down` leaves the scratch folders of containers behind, as volumes without a name.
            _run([*command, "rm", "--stop", "--force", "-v"], "stop the stack", env)
            _run([*command, "down", "--remove-orphans", *deleted], "stop the stack", env)
    except Stop as stop:
        print(f"{given.command}: {stop}", file=sys.stderr)
        return stop.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
