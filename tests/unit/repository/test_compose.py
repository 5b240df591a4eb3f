"""How docker-compose.yaml and the Dockerfile are hardened: what the CIS Docker Benchmark asks of such files.

The numbers are those of its version 1.6. Where a control is left out, ``EXCEPTIONS`` says why.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
import yaml

from docker.defaults import STACK as STACK_DEFAULTS
from scripts import compose, compose_env
from tests.conftest import ROOT

pytestmark = pytest.mark.unit

STACK = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = STACK["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()

# Service and key, and why it is not as everywhere else.
EXCEPTIONS = {
    ("postgres", "user"): "its entry point begins as root, makes its folder its own, and goes on as postgres",
    ("postgres", "cap_add"): "for that it needs these five, which it drops with root",
    ("airflow-init", "healthcheck"): "it ends, and the others wait for its exit code",
    ("airflow-init", "restart"): "a migration that failed is for a person to look at",
    ("s3-user", "healthcheck"): "it ends, and `make up` waits for its exit code",
    ("s3-user", "restart"): "what the store refused is for a person to look at",
    (
        "all",
        "restart",
    ): "5.14 asks for on-failure:5, a budget for a container's life that ends a stack after five faults",
    ("image", "digest"): "a digest holds for one platform's build; BASE_IMAGE and POSTGRES_IMAGE take one",
}
EVERY = pytest.mark.parametrize("name", SERVICES)


def megabytes(limit: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)([mg])", limit).groups()  # type: ignore[union-attr]
    return float(number) * {"m": 1, "g": 1024}[unit]


@EVERY
def test_no_service_has_more_rights_than_it_needs(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]  # 5.3
    assert set(service.get("cap_add", [])) <= {"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"}
    assert ("cap_add" in service) == ((name, "cap_add") in EXCEPTIONS)
    assert service["security_opt"] == ["no-new-privileges:true"]  # 5.25
    assert service["read_only"] is True  # 5.12
    assert service["init"] is True
    for key in ("privileged", "network_mode", "pid", "ipc", "uts", "userns_mode", "devices", "cgroup_parent"):
        assert key not in service  # 5.4, 5.9, 5.15, 5.16, 5.17, 5.20, 5.24, 5.30
    if (name, "user") not in EXCEPTIONS:
        assert service["user"] == "${SLUICEGATE_UID:-50000}:0"  # 4.1


@EVERY
def test_every_service_has_limits(name: str) -> None:
    service = SERVICES[name]
    assert 0 < service["pids_limit"] <= 1024  # 5.28
    assert megabytes(service["mem_limit"]) > 0  # 5.10
    assert float(service["cpus"]) > 0  # 5.11
    assert service["logging"]["options"] == {"max-size": "10m", "max-file": "3"}  # 2.12
    assert service["restart"] == ("no" if (name, "restart") in EXCEPTIONS else "unless-stopped")
    assert service["stop_grace_period"] == "60s"  # jobs of a task and the database end by themselves


@EVERY
def test_every_service_says_whether_it_is_well(name: str) -> None:
    assert ("healthcheck" in SERVICES[name]) != ((name, "healthcheck") in EXCEPTIONS)  # 5.26


class Answers(grpc.GenericRpcHandler):  # type: ignore[misc]
    """A server that answers the release of a session whose caller shows the token."""

    def service(self, details: Any) -> Any:
        """Return the method that is called, if it is known."""
        if not details.method.endswith("SparkConnectService/ReleaseSession"):
            return None
        bearer = dict(details.invocation_metadata).get("authorization")

        def release(request: bytes, context: Any) -> bytes:
            if bearer != "Bearer of the stack" or len(request) != 38:
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "no")
            return b""

        return grpc.unary_unary_rpc_method_handler(release)


@pytest.mark.parametrize(("kind", "healthy"), [("answers", True), ("another token", False), ("hangs", False)])
def test_a_warm_spark_that_does_not_answer_is_not_well(tmp_path: Path, kind: str, healthy: bool) -> None:
    """A JVM that hangs keeps its port open."""
    test = SERVICES["connect"]["healthcheck"]["test"]
    token = tmp_path / "token"
    token.write_text("of another stack" if kind == "another token" else "of the stack\n")
    with socket.create_server(("127.0.0.1", 0)) as hung:
        port = hung.getsockname()[1]
        server = None
        if kind != "hangs":
            server = grpc.server(ThreadPoolExecutor(1), handlers=[Answers()])
            port = server.add_insecure_port("127.0.0.1:0")
            server.start()
        program = ROOT / Path(test[2]).relative_to("/opt/sluicegate")
        env = os.environ | {"SLUICEGATE_CONNECT_TOKEN_FILE": str(token), "http_proxy": "http://127.0.0.1:9"}
        done = subprocess.run([sys.executable, program, f"127.0.0.1:{port}"], env=env, capture_output=True, check=False)
        if server is not None:
            server.stop(0).wait()
    assert (done.returncode == 0) is healthy, done.stderr


def test_who_only_reads_landing_and_lake_cannot_write_there() -> None:
    writers = {"airflow-scheduler", "connect", "spark-worker"}
    places = ("${SLUICEGATE_LAKE_VOLUME", "${SLUICEGATE_LANDING_FOLDER")
    mounts = {
        name: [one for one in said.get("volumes", []) if one.startswith(places)] for name, said in SERVICES.items()
    }
    assert {name for name, volumes in mounts.items() if any(not one.endswith(":ro") for one in volumes)} == writers
    assert {name for name, volumes in mounts.items() if volumes} - writers == {
        "airflow-apiserver", "airflow-triggerer"
    }  # fmt: skip


def test_a_worker_deletes_what_ended_applications_left() -> None:
    options = SERVICES["spark-worker"]["environment"]["SPARK_WORKER_OPTS"]
    assert "spark.worker.cleanup.enabled=true" in options
    assert "spark.worker.cleanup.appDataTtl=86400" in options
    # Of one that runs for months, as the server is: what its executors say would grow for as long.
    said = dict(re.findall(r"-Dspark\.executor\.logs\.rolling\.(\w+)=(\S+)", options))
    assert said["strategy"] == "size"
    assert int(said["maxSize"]) * int(said["maxRetainedFiles"]) <= 64 * 1024**2


def test_what_a_worker_deletes_is_never_a_folder_that_executors_use() -> None:
    """It deletes old folders of its own whose name is none of an application; executors have theirs beside them."""
    command = SERVICES["spark-worker"]["command"][2]
    work = re.search(r"--work-dir (\S+)", command)
    assert work is not None
    local = SERVICES["spark-worker"]["environment"]["SPARK_LOCAL_DIRS"]
    assert Path(local) in Path(work[1]).parents


@pytest.mark.parametrize("name", ["airflow-scheduler", "connect", "spark-worker"])
def test_scratch_of_what_was_killed_goes_at_the_next_start(name: str, tmp_path: Path) -> None:
    command = SERVICES[name]["command"]
    assert SERVICES[name]["environment"]["SPARK_LOCAL_DIRS"] == "/scratch"
    for left in ("spark-1/file", "blockmgr-2/0c/file", "warehouse/table/file"):
        (tmp_path / left).parent.mkdir(parents=True)
        (tmp_path / left).touch()
    for _ in range(2):  # the second time there is none
        begins = re.sub(r"exec .*", "echo starts", command[2].replace("/scratch/", f"{tmp_path}/"), flags=re.DOTALL)
        done = subprocess.run([*command[:2], begins], check=True, capture_output=True, text=True)
        assert done.stdout == "starts\n"
    assert [one.name for one in tmp_path.iterdir()] == ["warehouse"]


def test_a_master_that_is_started_again_knows_its_applications() -> None:
    """Else the server, which is one for months, waits for executors for ever. Of another container it knows nothing."""
    said = SERVICES["spark-master"]
    begins = said["command"][2].replace("$$", "$").replace("exec spark-class", 'sh -c "echo \\$SPARK_MASTER_OPTS" -- ')
    env = {"PATH": os.environ["PATH"], "HOSTNAME": "0123456789ab"}
    options = subprocess.run(["sh", "-c", begins], env=env, check=True, capture_output=True, text=True).stdout
    assert "-Dspark.deploy.recoveryMode=FILESYSTEM " in options
    folder = re.search(r"recoveryDirectory=(\S+)", options)
    assert folder is not None
    assert folder[1] == f"{said['volumes'][0]}/0123456789ab"


def test_no_log_of_airflow_grows_in_memory_or_is_never_deleted() -> None:
    """All log folders of Airflow are on the volume that is cleaned; its home is in memory, and only goes with it."""
    package = find_spec("airflow")
    assert package is not None
    assert package.submodule_search_locations is not None
    file = Path(package.submodule_search_locations[0], "config_templates", "config.yml")
    options = yaml.safe_load(file.read_text())["logging"]["options"]
    folders = [name for name, one in options.items() if "{AIRFLOW_HOME}" in str(one["default"])]
    assert len(folders) > 1
    for name in folders:
        assert re.search(rf"\bAIRFLOW__LOGGING__{name.upper()}=/logs\b", DOCKERFILE)
    assert SERVICES["airflow-upkeep"]["command"][2:] == ["/logs", "/events"]
    assert all("logs:/logs" in SERVICES[name]["volumes"] for name in AIRFLOW)


def test_the_heap_of_sparks_own_processes_fits_into_their_containers() -> None:
    """By default it has 1 GB; beside it there are a hundred MB and more of other memory."""
    found = set()
    for name, service in SERVICES.items():
        if any("spark-class" in one for one in service.get("command", [])):
            found.add(name)
            heap = megabytes(service["environment"]["SPARK_DAEMON_MEMORY"])
            assert heap + 192 <= megabytes(service["mem_limit"])
    assert found == {"spark-master", "spark-worker", "history-server"}


def test_no_proxy_is_asked_for_what_is_in_the_stack() -> None:
    """Compose gives containers the proxy of Docker's own settings: Airflow's tasks would look for its API there."""
    for name, service in SERVICES.items():
        if name == "postgres":
            continue  # it calls nobody
        variables = service["environment"]
        assert variables["no_proxy"] == variables["NO_PROXY"]
        called = set(variables["NO_PROXY"].split(","))
        assert called >= {"airflow-apiserver", "connect", "postgres", "s3", "spark-master", "127.0.0.1"}
        assert called >= {one for one in SERVICES if "healthcheck" in SERVICES[one] and not one.startswith("airflow-")}
        # Of BusyBox, which knows no such variable.
        test = service.get("healthcheck", {}).get("test", [])
        assert "wget" not in test or test[test.index("-Y") + 1] == "off"


def test_a_laptop_of_8_gb_has_room() -> None:
    always = [service for service in SERVICES.values() if "profiles" not in service and service["restart"] != "no"]
    assert sum(megabytes(service["mem_limit"]) for service in always) <= 7 * 1024


@EVERY
def test_ports_are_on_loopback(name: str) -> None:
    for port in SERVICES[name].get("ports", []):  # 5.13
        assert re.fullmatch(r"127\.0\.0\.1:(\$\{\w+:-)?(\d+)\}?:\d+", port)
        assert int(re.split(r":-|:", port)[-1]) > 1023  # 5.7


@EVERY
def test_nothing_of_the_host_is_mounted_but_what_is_ours(name: str) -> None:
    ours = ("./pipelines:", "./dags:", "./.connect-token:", "./docker/", "${SLUICEGATE_LANDING_FOLDER:-./landing}:",
            "${SLUICEGATE_LAKE_VOLUME:-lake}:")  # fmt: skip
    for volume in SERVICES[name].get("volumes", []):  # 5.5, 5.31
        source = volume.split(":")[0]
        assert volume.startswith(ours) or source in STACK["volumes"] or volume in ("/scratch", "/run/postgresql")
        assert "docker.sock" not in volume
        if volume.startswith("./"):
            assert volume.endswith(":ro")


def test_volumes_of_other_images_begin_with_an_owner_of_ours() -> None:
    """Else their services, which run as a user of ours, could not write there."""
    begun = dict(volume.split(":") for volume in SERVICES["airflow-init"]["volumes"])
    made = next(line for line in DOCKERFILE.splitlines() if "install -d -o sluicegate -g 0 -m 2775" in line).split()
    for name in ("s3", "prometheus"):
        own = {source for source in (one.split(":")[0] for one in SERVICES[name]["volumes"]) if source in begun}
        assert own
        assert {begun[source] for source in own} <= set(made)
        assert SERVICES[name]["depends_on"]["airflow-init"] == {"condition": "service_completed_successfully"}


def test_all_images_have_a_version() -> None:
    images = {service["image"] for service in SERVICES.values()} - {"${SLUICEGATE_IMAGE:-sluicegate:local}"}
    for image in images:
        assert re.fullmatch(r"\$\{[A-Z0-9]+_IMAGE:-[a-z0-9/-]+:(?!latest)[\w.-]*\d[\w.-]*\}", image)
    assert SERVICES["airflow-init"]["build"]["args"]["BASE"] == "${BASE_IMAGE:-python:3.11-slim-bookworm}"
    assert "ARG BASE=python:3.11-slim-bookworm" in DOCKERFILE


def test_no_secret_has_a_default_and_all_are_generated() -> None:
    text = (ROOT / "docker-compose.yaml").read_text()
    secrets = set(re.findall(r"\$\{(\w*(?:PASSWORD|SECRET|KEY)\w*)", text))
    # Keys of a store: there may be none, and then the stack's own does not start.
    of_stores = {"S3_ROOT_PASSWORD"}
    assert secrets == set(compose_env.SECRETS) | of_stores
    assert SERVICES["s3"]["command"][0].startswith('test -n "$$MINIO_ROOT_PASSWORD" && ')
    for name, used in re.findall(r"\$\{(\w*(?:PASSWORD|SECRET|KEY)\w*)([^}]*)\}", text):
        assert used == (":-" if name in of_stores else ":?run make up, which generates it")
    # Nor is there one beside them.
    for service in SERVICES.values():
        for key, value in (service.get("environment") or {}).items():
            if re.search("PASSWORD|SECRET|FERNET|MC_HOST", key) and not key.endswith("_FILE"):
                assert value is None or value.startswith(("${", "http://${"))  # None: as the environment has it


# Who has each secret, and what for; what a container does not have, nobody in it can lose.
AIRFLOW = {"airflow-apiserver", "airflow-dag-processor", "airflow-scheduler", "airflow-triggerer"}
HOLDERS = {
    "POSTGRES_PASSWORD": {"postgres"},  # of the superuser, which makes the others
    "AIRFLOW_DATABASE_PASSWORD": {"postgres", "airflow-init", "airflow-upkeep", *AIRFLOW},
    "METASTORE_PASSWORD": {"postgres", "airflow-scheduler"},  # the catalog's job has its driver there
    "AIRFLOW_PASSWORD": {"airflow-apiserver"},
    "AIRFLOW_FERNET_KEY": {"airflow-init", *AIRFLOW},  # they read and write what is encrypted in the database
    "AIRFLOW_SECRET_KEY": {"airflow-apiserver"},  # of its sessions
    "AIRFLOW_JWT_SECRET": {"airflow-apiserver", "airflow-scheduler"},  # tokens of tasks: given here, checked there
    "SPARK_SECRET": {"airflow-scheduler", "connect", "spark-master", "spark-worker"},
    "AWS_ACCESS_KEY_ID": {"airflow-scheduler", "airflow-triggerer", "connect", "spark-worker", "s3-user"},
    "AWS_SECRET_ACCESS_KEY": {"airflow-scheduler", "airflow-triggerer", "connect", "spark-worker", "s3-user"},
    "S3_READER_KEY": {"airflow-apiserver", "s3-user"},  # of the Lakehouse page, which only reads
    "S3_READER_SECRET_KEY": {"airflow-apiserver", "s3-user"},
    "S3_ROOT_USER": {"s3", "s3-user"},
    "S3_ROOT_PASSWORD": {"s3", "s3-user"},
}


def test_a_secret_is_only_where_it_is_used() -> None:
    found: dict[str, set[str]] = {name: set() for name in HOLDERS}
    for service, said in SERVICES.items():
        for key, value in (said.get("environment") or {}).items():
            named = [key] if value is None else re.findall(r"\$\{(\w+)", str(value))  # None: as .env has it
            for name in named:
                if name in HOLDERS or re.search("PASSWORD|SECRET|KEY|TOKEN", name):
                    found.setdefault(name, set()).add(service)
    assert found == HOLDERS
    assert set(HOLDERS) == {*compose_env.SECRETS, *(name for name in compose_env.ON_S3 if re.search("KEY|ROOT", name))}


# Which services can reach each other: those of one network.
NETWORKS = {
    "front": {*AIRFLOW, "statsd-exporter", "prometheus"},
    "back": {"airflow-scheduler", "airflow-triggerer", "connect", "spark-master", "spark-worker", "history-server",
             "prometheus", "s3", "s3-user"},
    "store": {"airflow-apiserver", "s3"},
    "database": {"postgres", "airflow-init", "airflow-upkeep", *AIRFLOW},
}  # fmt: skip


def test_who_has_nothing_to_say_to_each_other_shares_no_network() -> None:
    found: dict[str, set[str]] = {name: set() for name in STACK["networks"]}
    for service, said in SERVICES.items():
        for name in said["networks"]:
            found[name].add(service)
    assert found == NETWORKS
    assert STACK["networks"]["database"] == {"internal": True}
    # A port of a container without a path out would be published to nobody.
    assert {name for name, said in SERVICES.items() if said.get("ports")} <= found["front"] | found["back"]
    # User code runs in these: no password, or token, is of use to it there.
    assert {"connect", "spark-worker"}.isdisjoint(found["front"] | found["database"] | found["store"])
    assert STACK["networks"]["store"] == {"internal": True}
    # Paths out, and where drivers are found, do not hang on an order of networks that some versions of Docker ignore.
    assert STACK_DEFAULTS["spark.driver.bindAddress"] == "0.0.0.0"
    order = SERVICES["airflow-scheduler"]["networks"]
    assert max(order, key=lambda name: order[name]["priority"]) == "back"


def test_only_a_jvm_runs_code_from_a_folder_that_can_be_written() -> None:
    runs = {name for name, said in SERVICES.items() if any("exec" in one for one in said.get("tmpfs", []))}
    assert runs == {"airflow-scheduler", "connect", "spark-master", "spark-worker", "history-server"}


def test_the_stores_user_may_do_what_the_jobs_do_and_no_more() -> None:
    policy = json.loads((ROOT / "docker" / "store" / "policy.json").read_text())
    allowed = {(action, place) for one in policy["Statement"] for action in one["Action"] for place in one["Resource"]}
    assert {one["Effect"] for one in policy["Statement"]} == {"Allow"}
    assert {place.split(":::")[1].split("/")[0] for _, place in allowed} == {"lake", "landing"}
    assert not any("*" in action for action, _ in allowed)
    buckets = SERVICES["s3"]["command"][0]
    assert "mkdir -p /data/lake /data/landing " in buckets


def test_the_page_reads_the_store_by_a_user_who_may_write_nothing() -> None:
    policy = json.loads((ROOT / "docker" / "store" / "reader.json").read_text())
    assert {one["Effect"] for one in policy["Statement"]} == {"Allow"}
    allowed = {action for one in policy["Statement"] for action in one["Action"]}
    assert allowed == {"s3:GetBucketLocation", "s3:GetObject", "s3:ListBucket"}
    said = SERVICES["airflow-apiserver"]
    assert {"AWS_REGION", "AWS_ENDPOINT_URL"} < set(said["environment"])
    begins = said["command"][2].replace("$$", "$").replace("/tmp/passwords.json", "/dev/null")
    begins = begins.replace("exec airflow api-server", 'echo "$AWS_ACCESS_KEY_ID $AWS_SECRET_ACCESS_KEY"')
    env = {"PATH": os.environ["PATH"], "AIRFLOW_PASSWORD": "x"}
    for more, keys in (({"S3_READER_KEY": "k", "S3_READER_SECRET_KEY": "s"}, "k s"), ({}, "")):
        done = subprocess.run(["sh", "-c", begins], env=env | more, check=True, capture_output=True, text=True)
        assert done.stdout.strip() == keys


@pytest.mark.parametrize(("attached", "code"), [("new", 0), ("before", 0), ("other", 1)])
def test_the_stores_user_is_made_any_number_of_times(tmp_path: Path, attached: str, code: int) -> None:
    """By a client that says what it was called with; secrets go by its standard input.

    Beside it there is what its image has, and no more: a shell and coreutils.
    """
    client = tmp_path / "mc"
    for program in ("cat", "dirname"):
        (tmp_path / program).symlink_to(shutil.which(program) or program)
    client.write_text(
        "#!/bin/sh\n"
        f'echo "$*" >> {tmp_path}/called\n'
        f'case "$*" in *"user add"*) cat >> {tmp_path}/read;;\n'
        f'*"policy attach"*) [ {attached} = new ];;\n'
        f'*"user info"*key*) [ {attached} = before ] && echo \'{{"policyName":"sluicegate"}}\' || echo {{}};;\n'
        f'*"user info"*) [ {attached} = before ] && echo \'{{"policyName":"sluicegate-reader"}}\' || echo {{}};;\n'
        "esac\n"
    )
    client.chmod(0o755)
    env = {"PATH": str(tmp_path), "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "s3cret",
           "S3_READER_KEY": "reader", "S3_READER_SECRET_KEY": "r3ad"}  # fmt: skip
    done = subprocess.run(
        ["/bin/sh", str(ROOT / "docker" / "store" / "user.sh")], env=env, check=False, capture_output=True
    )
    assert done.returncode == code
    assert (tmp_path / "read").read_text() == "key\ns3cret\n" + ("" if code else "reader\nr3ad\n")
    called = (tmp_path / "called").read_text()
    assert "s3cret" not in called
    assert "r3ad" not in called
    for key in ("AWS_SECRET_ACCESS_KEY", "S3_READER_SECRET_KEY"):
        without = env | {key: ""}
        made = subprocess.run(["/bin/sh", str(ROOT / "docker" / "store" / "user.sh")], env=without, check=False)
        assert made.returncode != 0


def test_generated_secrets_differ_and_stay(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        assert set(compose_env.SECRETS) < set(compose_env.complete_settings(folder, None))
    one, other = compose_env.settings(first), compose_env.settings(second)
    for name in compose_env.SECRETS:
        assert one[name] != other[name]
        assert re.fullmatch(r"[\w-]{16,}=?", one[name])
    assert compose_env.complete_settings(first, None) == []
    assert compose_env.settings(first) == one
    assert (first / ".env").stat().st_mode & 0o777 == 0o600
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()


def test_the_token_of_the_server_is_for_the_containers_user_alone(tmp_path: Path) -> None:
    (tmp_path / compose.TOKEN).mkdir()
    compose.write_token(tmp_path, 50000)
    file = tmp_path / compose.TOKEN
    first = file.read_text()
    assert re.fullmatch(r"[\w-]{32,}\n", first)
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.stat().st_uid == (os.getuid() or 50000)
    compose.write_token(tmp_path, 50000)
    assert file.read_text() == first
    file.write_text("")  # a disk that was full
    compose.write_token(tmp_path, 50000)
    assert re.fullmatch(r"[\w-]{32,}\n", file.read_text())
    assert compose.TOKEN in (ROOT / ".gitignore").read_text().splitlines()
    readers = {
        name for name, service in SERVICES.items() if any(compose.TOKEN in one for one in service.get("volumes", []))
    }
    assert readers == {"connect", "airflow-scheduler"}
    assert not SERVICES["connect"].get("ports")


def test_jobs_are_spark_submits_unless_a_warm_spark_is_asked_for(tmp_path: Path) -> None:
    assert SERVICES["airflow-scheduler"]["environment"]["SLUICEGATE_MASTER"] == "${SLUICEGATE_MASTER:-local[*]}"
    assert SERVICES["connect"]["profiles"] == ["warm"]
    compose_env.complete_settings(tmp_path, None, s3=True)
    before = compose_env.settings(tmp_path)
    assert "SLUICEGATE_MASTER" not in before
    assert compose_env.complete_settings(tmp_path, None, warm=True) == ["SLUICEGATE_MASTER", "COMPOSE_PROFILES"]
    now = compose_env.settings(tmp_path)
    assert now == before | {"SLUICEGATE_MASTER": compose_env.SERVER, "COMPOSE_PROFILES": "s3,warm"}
    assert (
        compose_env.complete_settings(tmp_path, None, warm=True) == compose_env.complete_settings(tmp_path, None) == []
    )
    compose_env.demand_warm_spark(before)
    compose_env.demand_warm_spark(now)
    of_cluster = {"SLUICEGATE_CONNECT_MASTER": "spark://spark-master:7077"}
    compose_env.demand_warm_spark(now | of_cluster)
    for said in (now | {"COMPOSE_PROFILES": "s3"}, before | of_cluster):
        with pytest.raises(compose_env.Stop, match="make up WARM=1"):
            compose_env.demand_warm_spark(said)


def test_what_env_lacks_is_added_and_the_rest_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# mine\nAIRFLOW_PASSWORD=chosen-by-hand\nAIRFLOW_PORT=9090")  # no newline
    added = compose_env.complete_settings(tmp_path, str(tmp_path / "lake"))
    known = compose_env.settings(tmp_path)
    assert known["AIRFLOW_PORT"] == "9090"
    assert known["AIRFLOW_PASSWORD"] == "chosen-by-hand"
    assert "AIRFLOW_PASSWORD" not in added
    assert known["SLUICEGATE_LAKE"] == known["SLUICEGATE_LAKE_VOLUME"] == str(tmp_path / "lake")


def test_env_is_read_as_compose_reads_it(tmp_path: Path) -> None:
    lines = ['A="a b" # mine', "B='b'", "export C=c # mine", " D = d#d ", "# E=e", "F=x=", "G="]
    (tmp_path / ".env").write_text("\r\n".join(lines), encoding="utf-8-sig")
    assert compose_env.settings(tmp_path) == {"A": "a b", "B": "b", "C": "c", "D": "d#d", "F": "x=", "G": ""}


@pytest.mark.parametrize(("name", "value"), [
    ("AIRFLOW_PASSWORD", 'a"b'), ("AIRFLOW_PASSWORD", "a\\b"), ("AIRFLOW_DATABASE_PASSWORD", "a@b"),
    ("S3_ROOT_PASSWORD", "a%b"), ("S3_ROOT_USER", "a/b"), ("AIRFLOW_PORT", "80801"), ("S3_PORT", "nine"),
    ("SLUICEGATE_UID", "me"), ("COMPOSE_PROJECT_NAME", "Mine"),
])  # fmt: skip
def test_what_cannot_stand_where_it_is_used_is_told_of_before_the_build(name: str, value: str, tmp_path: Path) -> None:
    compose_env.complete_settings(tmp_path, None, s3=True)
    said = compose_env.settings(tmp_path)
    compose_env.demand_well_formed(said, said)
    compose_env.demand_well_formed(
        said | {"AIRFLOW_PASSWORD": "Geheim! 20%", "METASTORE_PASSWORD": "a@b", "AIRFLOW_PORT": ""}, said
    )
    compose_env.demand_well_formed({}, {})
    with pytest.raises(compose_env.Stop, match=f"^{name} in .env must (have|be) ") as stop:
        compose_env.demand_well_formed(said | {name: value}, said)
    assert f" {value} " not in str(stop.value)


def test_a_secret_that_compose_would_cut_at_a_dollar_sign_is_told_of(tmp_path: Path) -> None:
    """It takes what follows for the name of a variable, mostly of none, where the value is not in single quotes."""
    (tmp_path / ".env").write_text("AIRFLOW_PASSWORD='open$sesame'\nSPARK_SECRET=open # $\nBASE_IMAGE=$HOST/image\n")
    compose_env.demand_well_formed(compose_env.settings(tmp_path), compose_env.settings(tmp_path, as_written=True))
    for value in ("open$sesame", '"open$sesame"'):
        (tmp_path / ".env").write_text(f"AIRFLOW_PASSWORD={value}\n")
        with pytest.raises(compose_env.Stop, match=r"^AIRFLOW_PASSWORD in .env has a \$") as stop:
            compose_env.demand_well_formed(
                compose_env.settings(tmp_path), compose_env.settings(tmp_path, as_written=True)
            )
        assert "sesame" not in str(stop.value)


def test_env_goes_before_the_shell_and_no_key_of_a_shell_gets_into_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = {name for said in SERVICES.values() for name, value in (said.get("environment") or {}).items()
              if value is None}  # fmt: skip
    assert "AWS_SECRET_ACCESS_KEY" in passed
    for name in (*passed, "SPARK_SECRET", "AIRFLOW_PORT", "BASE_IMAGE", "COMPOSE_PROJECT_NAME"):
        monkeypatch.setenv(name, "of a shell")
    known = compose.environment({"AIRFLOW_PORT": "8080"})
    assert {*passed, "SPARK_SECRET", "AIRFLOW_PORT"}.isdisjoint(known)
    assert (known["BASE_IMAGE"], known["COMPOSE_PROJECT_NAME"]) == ("of a shell", "sluicegate")


def test_two_stacks_on_a_machine_have_an_image_each(tmp_path: Path) -> None:
    images = set()
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / ".env").write_text(f"COMPOSE_PROJECT_NAME={name}\n")
        compose_env.complete_settings(folder, None)
        images.add(compose_env.settings(folder)["SLUICEGATE_IMAGE"])
    assert images == {"first:local", "second:local"}
    (tmp_path / ".env").write_text("SLUICEGATE_IMAGE=mine:1\n")
    compose_env.complete_settings(tmp_path, None)
    assert compose_env.settings(tmp_path)["SLUICEGATE_IMAGE"] == "mine:1"


def test_landing_and_lake_on_the_stacks_own_store(tmp_path: Path) -> None:
    compose_env.complete_settings(tmp_path, None, s3=True)
    known = compose_env.settings(tmp_path)
    assert (known["SLUICEGATE_LAKE"], known["SLUICEGATE_LANDING"]) == ("s3a://lake", "s3a://landing")
    assert known["COMPOSE_PROFILES"] in SERVICES["s3"]["profiles"]
    assert len(known["AWS_SECRET_ACCESS_KEY"]) >= 40
    assert known["S3_ROOT_PASSWORD"] != known["AWS_SECRET_ACCESS_KEY"]
    # A stack that had the keys of root before gets others for root.
    before = [line for line in (tmp_path / ".env").read_text().splitlines() if not line.startswith("S3_ROOT")]
    (tmp_path / ".env").write_text("\n".join(before))
    assert set(compose_env.complete_settings(tmp_path, None)) == {"S3_ROOT_USER", "S3_ROOT_PASSWORD"}
    # What is mounted is a path all the same.
    targets = {volume.split(":-")[-1].rstrip("}") for volume in STACK["x-volumes"][:2]}
    assert targets == {"/data/lake", "/data/landing"}


def test_tables_that_are_there_are_not_left_behind(tmp_path: Path) -> None:
    compose.demand_same_places({"AIRFLOW_PORT": "9090"}, str(tmp_path), s3=False)  # no stack was started yet
    for first, s3 in ((None, False), (str(tmp_path / "lake"), False), (None, True)):
        folder = tmp_path / f"{first is None}{s3}"
        folder.mkdir()
        compose_env.complete_settings(folder, first, s3)
        said = compose_env.settings(folder)
        compose.demand_same_places(said, None, s3=False)
        compose.demand_same_places(said, first, s3)
        with pytest.raises(compose_env.Stop, match=f"keeps its tables in .*make up LAKE={tmp_path}/other"):
            compose.demand_same_places(said, str(tmp_path / "other"), s3=False)
        if not s3:
            with pytest.raises(compose_env.Stop, match="make up S3=1"):
                compose.demand_same_places(said, None, s3=True)


def test_databases_whose_passwords_are_in_another_env_are_told_of_before_the_build() -> None:
    assert "postgres" in STACK["volumes"]
    for there, said in (([], {}), (["other_postgres"], {}), (["sluicegate_postgres"], {"POSTGRES_PASSWORD": "known"})):
        compose.has_its_passwords(said, there)
    with pytest.raises(
        compose_env.Stop, match=r"volume mine_postgres .* Copy \.env .* COMPOSE_PROJECT_NAME .*make clean"
    ):
        compose.has_its_passwords({"COMPOSE_PROJECT_NAME": "mine"}, ["mine_logs", "mine_postgres"])


def test_a_port_that_another_program_has_is_told_of_at_once() -> None:
    published = {port.split("{")[1].split("}")[0]: said.get("profiles", [""])[0] for said in SERVICES.values()
                 for port in said.get("ports", [])}  # fmt: skip
    assert published == {
        f"{name}:-{usual}": compose.WITH_PROFILE.get(name, "") for name, usual in compose_env.PORTS.items()
    }
    assert {one for said in SERVICES.values() for one in said.get("profiles", [])} <= set(compose.PROFILES)
    with socket.socket() as mine, socket.socket() as other:
        for one in (mine, other):
            one.bind(("127.0.0.1", 0))
        mine.listen()
        taken, free = mine.getsockname()[1], other.getsockname()[1]
        compose.demand_free_ports(
            {"AIRFLOW_PORT": str(free), "SPARK_PORT": str(taken)}
        )  # nobody listens there without a cluster
        both = {"COMPOSE_PROFILES": "s3,cluster"}
        compose.demand_free_ports(both | {"AIRFLOW_PORT": str(free), "SPARK_PORT": str(free), "S3_PORT": str(free)})
        with pytest.raises(compose_env.Stop, match=f"Port {taken} is in use .* set SPARK_PORT"):
            compose.demand_free_ports(
                both | {"AIRFLOW_PORT": str(free), "SPARK_PORT": str(taken), "S3_PORT": str(free)}
            )
        # Of a store that is to be started with the stack, before .env says so.
        compose.demand_free_ports({"AIRFLOW_PORT": str(free), "S3_PORT": str(taken)})
        with pytest.raises(compose_env.Stop, match=f"Port {taken} is in use .* set S3_PORT"):
            compose.demand_free_ports({"AIRFLOW_PORT": str(free), "S3_PORT": str(taken)}, s3=True)


def test_the_image_is_built_with_care() -> None:
    instructions = [line.split()[0] for line in DOCKERFILE.splitlines() if re.match("[A-Z]+ ", line)]
    assert "ADD" not in instructions  # 4.9
    assert "HEALTHCHECK" in instructions  # 4.6
    users = re.findall(r"^USER (\S+)", DOCKERFILE, re.M)
    assert users == ["50000:0"]  # 4.1: as a number, so that Kubernetes can tell that it is not root
    final = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    assert "apt-get" not in final
    assert "--no-install-recommends" in DOCKERFILE
    # Docker's init is the first process of each service: without -s each log begins with a warning.
    assert '\nENTRYPOINT ["tini", "-s", "-g", "--"]\n' in final
    assert not re.search(r"(?i)(ARG|ENV) .*(password|secret|token)", DOCKERFILE)  # 4.10
    # Only what is named is sent to the build: neither .env nor a lake gets into a layer.
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert ignored[1] == "*"
    sent = {line[1:] for line in ignored if line.startswith("!")}
    copies = [line.split()[1:-1] for line in DOCKERFILE.splitlines() if re.match("COPY (?!--from)", line)]
    assert sent == {part.split("/")[0] for parts in copies for part in parts}


def test_set_up_starts_from_what_the_image_copies_before_it(tmp_path: Path) -> None:
    """Of the package it has a few modules alone, so that a change of another one installs nothing anew."""
    before, setup, _ = DOCKERFILE.partition("\nRUN python -m scripts.setup")
    assert setup
    for line in re.findall("^COPY (?!--from)(.+)$", before, re.MULTILINE):
        *sources, target = line.split()
        (tmp_path / target).mkdir(parents=True, exist_ok=True)
        for source in sources:
            shutil.copy(ROOT / source, tmp_path / target)
    command = [sys.executable, "-E", "-S", "-m", "scripts.setup", "--help"]  # with the standard library alone
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("restarts", "health", "ended"), [(4, "starting", False), (5, "starting", True), (9, "healthy", False)]
)
def test_a_service_that_ends_again_and_again_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, restarts: int, health: str, ended: bool
) -> None:
    state = {"Status": "restarting", "ExitCode": 1, "Health": {"Status": health}}
    (tmp_path / "inspected").write_text(json.dumps([{"Name": "/connect", "State": state, "RestartCount": restarts}]))
    docker = tmp_path / "docker"
    docker.write_text(f'#!/bin/sh\n[ "$1" = ps ] && echo 1 || /bin/cat {tmp_path}/inspected\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert compose._states()["connect"].startswith("exited with 1") is ended


def test_that_docker_has_ended_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\necho Cannot connect to the Docker daemon >&2\nexit 1\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(compose_env.Stop, match="Docker does not answer any more"):
        compose._wait(["docker", "compose"], time.monotonic())


def test_clean_deletes_no_folder_below_a_service_that_is_at_work(tmp_path: Path) -> None:
    words = ["make", "--dry-run", "-f", str(ROOT / "Makefile"), "clean", "YES=1", "LEFT=lake", "VOLUMES=v"]
    done = subprocess.run(words, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert 0 < done.index("scripts.compose clean") < done.index("rm -rf lake")


def test_down_deletes_the_scratch_of_containers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a Docker that says what it was called with; `down` alone leaves volumes without a name behind, each time."""
    docker = tmp_path / "docker"
    docker.write_text(
        f'#!/bin/sh\necho "$*" >> {tmp_path}/called\necho "$COMPOSE_PROJECT_NAME $SPARK_SECRET" >> {tmp_path}/env\n'
    )
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(compose, "ROOT", tmp_path)  # without .env: Compose demands its secrets all the same
    assert compose.main(["down"]) == 0
    assert (tmp_path / "env").read_text().splitlines()[-2:] == ["sluicegate none"] * 2
    profiles = " ".join(["compose", *compose.PROFILES])
    called = (tmp_path / "called").read_text().splitlines()
    assert called[-2:] == [f"{profiles} rm --stop --force -v", f"{profiles} down --remove-orphans"]
