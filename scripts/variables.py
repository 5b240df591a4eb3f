"""Environment variables that jobs and commands read, for ``docs/reference/environment.md``."""

from __future__ import annotations

from sluicegate import _faults

# The variables that no option stands for: meaning and default. A test compares them with those that the code reads.
VARIABLES = {
    "SLUICEGATE_JARS": ("Folder with the pinned Delta jars.", "`.jars` in the checkout, or in the installed package"),
    "SLUICEGATE_WARM": (
        "Minutes for which `sluicegate run` leaves its Spark ready for the next run; 0 for none.",
        "10; in CI and in tasks of Airflow 0",
    ),
    "SLUICEGATE_DEBUG": ("Set to anything: a job that fails shows the whole trace.", ""),
    "SLUICEGATE_PII_KEY": ("Secret key of pseudonyms, at least 16 bytes; jobs of tables with `hmac` need it.", ""),
    "SLUICEGATE_HISTORY_SERVER": ("Address of Spark's history server, which tasks in Airflow then link to.", "none"),
    "SLUICEGATE_SPARK_UI": (
        "Address of a standalone master's page with `spark.ui.reverseProxy`; tasks link to jobs behind it.",
        "the driver's own page, outside of containers",
    ),
    "SPARK_PUBLIC_DNS": ("Spark's own variable: name of this machine for others, in the link to a driver's page.", ""),
    "SLUICEGATE_SPARK_SLOTS": ("Slots of Airflow's pool `spark`, with which it is made where there is none.", "4"),
    "SLUICEGATE_STORE_CONN_ID": ("Connection of Airflow with the credentials of S3, for landing and lake.", "none"),
    "SLUICEGATE_CONNECT_TOKEN_FILE": (
        "File with the token of a Spark Connect server.",
        "`~/.sluicegate/connect-token`, if there is one",
    ),
    "SPARK_CONNECT_AUTHENTICATE_TOKEN": ("Spark's own variable for that token; a file is better.", "not set"),
    "SPARK_REMOTE": ("Address of a Spark Connect server, as master where none is named.", "not set"),
    "SLUICEGATE_MAVEN": ("Maven repository that the jars are fetched from.", "Maven Central"),
    "SLUICEGATE_METASTORE": ("JDBC address of the PostgreSQL database that is the catalog.", "no catalog"),
    "SLUICEGATE_METASTORE_USER": ("Its user.", ""),
    "SLUICEGATE_METASTORE_PASSWORD": ("Its password.", ""),
    "SLUICEGATE_KAFKA_USERNAME": ("User for Kafka's brokers, with the mechanism PLAIN or SCRAM.", "none"),
    "SLUICEGATE_KAFKA_PASSWORD": ("Its password.", ""),
    "SLUICEGATE_KAFKA_SASL_JAAS_CONFIG": ("Login of another mechanism, as Kafka's `sasl.jaas.config` has it.", "none"),
    "SLUICEGATE_KAFKA_SSL_TRUSTSTORE_PASSWORD": ("Password of the store of certificates that are trusted.", "none"),
    "SLUICEGATE_KAFKA_SSL_KEYSTORE_PASSWORD": ("Password of the store with the client's certificate.", "none"),
    "SLUICEGATE_KAFKA_SSL_KEYSTORE_KEY": ("The client's private key in PEM.", "none"),
    "SLUICEGATE_KAFKA_SSL_KEY_PASSWORD": ("Password of the client's private key.", "none"),
    "SLUICEGATE_ONLY_WRITER": (
        "Set to 1 to use a lake on a mount whose file locks other machines may not see: none of them writes to it.",
        "such a lake is refused",
    ),
    "SLUICEGATE_FAULT": (f"For tests: kills the job at this point, one of `{'`, `'.join(_faults.POINTS)}`.", ""),
    "JAVA_HOME": ("The Java that Spark runs on.", "`java` on `PATH`"),
    "SPARK_CONF_DIR": ("Folder of Spark's settings; they win over most of ours.", "none"),
}
