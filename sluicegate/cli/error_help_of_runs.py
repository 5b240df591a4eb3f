"""Explanations of the error codes from SG400 on: failures of a run whose definition and data are valid."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Explanation:
    """Explanation of an error code for ``sluicegate help`` and the reference.

    Attributes:
        means: what happened, in one sentence.
        causes: what usually causes it.
        remedies: what to do, most likely first.
        page: path below ``docs`` of the page with details; may be empty.
    """

    means: str
    causes: tuple[str, ...]
    remedies: tuple[str, ...]
    page: str = ""


OF_RUNS = {
    "SG400": Explanation(
        "Reconciliation failed: the number of records read differs from the number written, quarantined, dropped and"
        " deduplicated. Nothing was written.",
        ("Spark returned other rows than the log of the source records.", "An error in Sluicegate."),
        ("Run again. If it happens again, please report it with the message.",),
        "howto/verifying.md",
    ),
    "SG401": Explanation(
        "Another run is writing this pipeline, or took over the lock of this run.",
        (
            "A scheduled run and a manual run at the same time.",
            "On S3, a machine that was suspended for longer than its lease.",
        ),
        ("Wait for the other run to end, or stop it; then run again. Nothing is lost.",),
        "howto/continuous-runs.md",
    ),
    "SG402": Explanation(
        "A Spark job or server ended without a report.",
        ("It was killed, often for lack of memory.", "The JVM crashed."),
        (
            "Read the last lines of its output in the message, and the log of the job.",
            "Give Spark more memory or less work at once, and run again: a run continues after the last commit.",
        ),
        "sizing.md",
    ),
    "SG403": Explanation(
        "An object store did not respond, or failed until all retries were used up.",
        ("A wrong endpoint or region.", "The network or the store is down."),
        ("Check the endpoint, then run again: a run continues after the last commit.",),
        "howto/object-storage.md",
    ),
    "SG404": Explanation(
        "A Spark Connect server did not respond, or rejected the token.",
        ("The server is not running, or was restarted.", "The token in the file is not that of the server."),
        (
            "Start one with `sluicegate serve`, or run without `--remote`.",
            "Set `SLUICEGATE_CONNECT_TOKEN_FILE` to a file with the server's token.",
        ),
        "howto/spark-connect.md",
    ),
    "SG405": Explanation(
        "Kafka's brokers did not respond in time.",
        (
            "A wrong address in `bootstrap_servers`, or a broker that advertises a name this machine cannot resolve.",
            "Only one side uses TLS: see `security.protocol`.",
            "The network or the brokers are down.",
        ),
        ("Check the address, then run again: a run continues after the last commit.",),
        "howto/kafka.md",
    ),
    "SG406": Explanation(
        "A log entry or a data file of a table is damaged: it is empty, truncated or missing.",
        (
            "A power cut, or a crash of the machine, within seconds of writing the file.",
            "A full or failing disk, or an interrupted copy of the lake.",
        ),
        (
            "Run the pipeline: where the newest commits of a table are damaged, a run sets them aside and repeats"
            " them from the sources of the table.",
            "Otherwise restore the file from a backup of the lake. Keep the table's folder and the archive of landed"
            " files: data without a backup may exist only there.",
            "`sluicegate status PIPELINE --verify` names all damaged files.",
        ),
        "howto/recovery.md",
    ),
}
