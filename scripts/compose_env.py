"""``.env`` of the compose stack: what it says, what ``make up`` adds, and the form that edited values must have."""

from __future__ import annotations

import base64
import os
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

# Only letters, digits, - and _: they stand in addresses and in JSON.
SECRETS: dict[str, Callable[[], str]] = {
    "POSTGRES_PASSWORD": lambda: secrets.token_urlsafe(24),
    "AIRFLOW_DATABASE_PASSWORD": lambda: secrets.token_urlsafe(24),
    "METASTORE_PASSWORD": lambda: secrets.token_urlsafe(24),
    "AIRFLOW_PASSWORD": lambda: secrets.token_urlsafe(12),
    "AIRFLOW_FERNET_KEY": lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
    "AIRFLOW_SECRET_KEY": lambda: secrets.token_urlsafe(32),
    "AIRFLOW_JWT_SECRET": lambda: secrets.token_urlsafe(48),
    "SPARK_SECRET": lambda: secrets.token_urlsafe(32),
}

# Ports that are published, and where they are set; some with a profile alone.
PORTS = {
    "AIRFLOW_PORT": "8080", "SPARK_PORT": "8081", "HISTORY_PORT": "18080", "PROMETHEUS_PORT": "9090", "S3_PORT": "9000"
}  # fmt: skip
PROJECT = "sluicegate"

# Address of the stack's warm Spark, which the profile `warm` starts.
SERVER = "sc://connect:15002/;use_ssl=false"

HEAD = """# Made by `make up`: the secrets of the stack on this machine, and where its data lie. Not for the repository.
# Passwords of the databases are in the volume `postgres` from its first start on; to change one, change it there, too.
"""


class Stop(Exception):
    """It cannot go on; the message says why, and what to do. Exit code 2 where something is missing, 1 else."""

    def __init__(self, message: str, exit_code: int = 2) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def settings(root: Path, *, as_written: bool = False) -> dict[str, str]:
    """What ``.env`` says, as Compose reads it, without quotation marks and remarks behind a value; or as written."""
    file = root / ".env"
    lines = file.read_text(encoding="utf-8-sig").splitlines() if file.exists() else []
    found = {}
    for line in lines:
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        if equals and not name.startswith("#"):
            quoted = re.match(r"""(['"])(.*?)\1\s*(?:#.*)?$""", value.strip())
            said = quoted[2] if quoted else re.sub(r"\s+#.*", "", value).strip()
            found[name.strip()] = value.strip() if as_written else said
    return found


# Where landing and lake are on the stack's own store; its address is another one outside. The first keys are those of a
# user who may read and write the two buckets, the next those of one who may read them; root's are with the store alone.
ON_S3: dict[str, Callable[[], str]] = {
    "AWS_ACCESS_KEY_ID": lambda: secrets.token_hex(10),
    "AWS_SECRET_ACCESS_KEY": lambda: secrets.token_urlsafe(30),
    "S3_READER_KEY": lambda: secrets.token_hex(10),
    "S3_READER_SECRET_KEY": lambda: secrets.token_urlsafe(30),
    "S3_ROOT_USER": lambda: secrets.token_hex(10),
    "S3_ROOT_PASSWORD": lambda: secrets.token_urlsafe(30),
    "AWS_ENDPOINT_URL": lambda: "http://s3:9000",
    "AWS_REGION": lambda: "us-east-1",
    "SLUICEGATE_LAKE": lambda: "s3a://lake",
    "SLUICEGATE_LANDING": lambda: "s3a://landing",
    "COMPOSE_PROFILES": lambda: "s3",
    "S3": lambda: "1",
}
KEYS = {*SECRETS, *(name for name in ON_S3 if name.startswith(("AWS_", "S3_")))}


def complete_settings(root: Path, lake: str | None, s3: bool = False, warm: bool = False) -> list[str]:
    """Adds to ``.env`` what is missing there, and returns the names of what was added; nobody else can read the file.

    Args:
        root: the repository.
        lake: a folder of this machine for the tables; a volume of Docker's where it is not given.
        s3: whether landing and lake are to be on the stack's store of objects.
        warm: whether a Spark that stays warm is to run all jobs.
    """
    known = settings(root)
    wanted: dict[str, str] = {name: make() for name, make in SECRETS.items()}
    # Files in the landing folder are the person's, and so is whoever reads them; root would be so in there, too.
    wanted["SLUICEGATE_UID"] = str(os.getuid() or 50000)
    wanted["COMPOSE_PROJECT_NAME"] = project(known)
    # Of this stack alone: two clones may differ, and one may have been built with jars that the other is without.
    wanted["SLUICEGATE_IMAGE"] = f"{project(known)}:local"
    # The same path inside and outside: the ledger knows a file by its path.
    wanted["SLUICEGATE_LANDING"] = wanted["SLUICEGATE_LANDING_FOLDER"] = str(root / "landing")
    if lake:
        for name in ("SLUICEGATE_LAKE", "SLUICEGATE_LAKE_FOLDER", "SLUICEGATE_LAKE_VOLUME"):
            wanted[name] = os.path.abspath(lake)
    wanted |= {name: make() for name, make in ON_S3.items()} if s3 or known.get("S3") else {}
    missing = {name: value for name, value in wanted.items() if not known.get(name)}
    missing |= _warm_spark_settings(known | missing) if warm else {}
    file = root / ".env"
    if not file.exists():
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, 0o600))
        file.write_text(HEAD)
    with file.open("a") as env:
        if not file.read_text().endswith("\n"):  # as editors may leave it, or a write that was cut off
            env.write("\n")
        env.writelines(f"{name}={value}\n" for name, value in missing.items())
    return list(missing)


def _warm_spark_settings(said: Mapping[str, str]) -> dict[str, str]:
    """Settings by which the warm Spark runs all jobs; of two lines with one name, the later counts."""
    profiles = [profile for profile in said.get("COMPOSE_PROFILES", "").split(",") if profile]
    wanted = {"SLUICEGATE_MASTER": SERVER, "COMPOSE_PROFILES": ",".join(dict.fromkeys([*profiles, "warm"]))}
    return {name: value for name, value in wanted.items() if said.get(name) != value}


def project(said: Mapping[str, str]) -> str:
    """Name of the stack, by which Docker knows what belongs to it."""
    return said.get("COMPOSE_PROJECT_NAME") or PROJECT


# What is edited by hand: the form that it must have, and how to say so.
_OF_THE_STORE = (r"[^\s@/:?#%]*", "have no space and none of @ / : ? # %, since it stands in an address")
FORMS = {
    "AIRFLOW_DATABASE_PASSWORD": (r"[^@%]*", "have neither @ nor %, since it stands in an address"),
    "AIRFLOW_PASSWORD": (r'[^"\\]*', 'have neither " nor \\, since it stands in JSON'),
    **dict.fromkeys(["S3_ROOT_USER", "S3_ROOT_PASSWORD"], _OF_THE_STORE),
    **dict.fromkeys(PORTS, (r"|[1-9]\d{0,4}", "be a number below 65536")),
    "SLUICEGATE_UID": (r"|\d+", "be the number of a user"),
    "COMPOSE_PROJECT_NAME": (r"|[a-z0-9][a-z0-9_-]*", "have small letters, digits, _ and - alone, as Compose wants it"),
}


def demand_well_formed(said: Mapping[str, str], written: Mapping[str, str]) -> None:
    """Demands that values of ``.env``, read and as written, work where they are used; else ``Stop`` without them."""
    for name in sorted(KEYS):
        if "$" in said.get(name, "") and not written.get(name, "").startswith("'"):
            raise Stop(f"{name} in .env has a $, by which Compose means a variable: put '…' around the value.")
    for name, (form, words) in FORMS.items():
        value = said.get(name, "")
        if not re.fullmatch(form, value, re.ASCII) or (name in PORTS and int(value or 0) > 65535):
            raise Stop(f"{name} in .env must {words}. Correct it; a password that a database has already, there, too.")


def demand_warm_spark(said: Mapping[str, str]) -> None:
    """Demands that the warm Spark is started where jobs go to it, and used where it has settings.

    Args:
        said: what ``.env`` says, completed.

    Raises:
        Stop: it is used and not started, or the other way round.
    """
    is_used = said.get("SLUICEGATE_MASTER") == SERVER
    if is_used and "warm" not in said.get("COMPOSE_PROFILES", "").split(","):
        raise Stop("SLUICEGATE_MASTER in .env is the warm Spark, which nothing starts: `make up WARM=1` does.")
    if said.get("SLUICEGATE_CONNECT_MASTER") and not is_used:
        raise Stop("SLUICEGATE_CONNECT_MASTER in .env is the master of the warm Spark, to which no job goes:"
                   " `make up WARM=1` uses it; or rename it to SLUICEGATE_MASTER, the master of each job.")  # fmt: skip
