"""Explanations of error codes: ``sluicegate help SG208``, and docs/reference/errors.md.

An error's own message names the table, the file and the value. An explanation applies to every error of a code: what it
means, what usually causes it, and what to do.
"""

from __future__ import annotations

from sluicegate.cli.error_help_of_runs import OF_RUNS, Explanation

EXPLANATIONS = {
    "SG100": Explanation(
        "An error without its own code; the message explains it.",
        (
            "Another program changed or restored a table while a run was writing it.",
            "The source history of a table is gone, so the run cannot continue safely.",
            "An unexpected failure inside a job, with its first lines as the cause.",
        ),
        (
            "Follow the `help` line of the message, then run again: a run continues after the last commit.",
            "For the full stack trace set `SLUICEGATE_DEBUG=1`.",
        ),
        "howto/verifying.md",
    ),
    "SG200": Explanation(
        "The input cannot be used as it is. Nothing was written.",
        ("Options that contradict each other, an empty interval, a time that cannot be parsed.",),
        ("Correct the command line or the form. `sluicegate help COMMAND` lists the options of a command.",),
        "reference/commands.md",
    ),
    "SG201": Explanation(
        "`pipeline.yaml` or its SQL has validation errors. All of them are listed at once, with file and line.",
        (
            "A misspelled field, table or column.",
            "Fields that exclude each other, such as `sql` and `from`.",
            "SQL that Spark would refuse, or tables that read each other in a circle.",
        ),
        (
            "Correct each listed line; `sluicegate plan PIPELINE` checks again without starting Spark.",
            "Let your editor complete and validate the file with `docs/pipeline.schema.json`.",
        ),
        "reference/pipeline-yaml.md",
    ),
    "SG202": Explanation(
        "The pipeline, layer or table that was named is not defined.",
        ("A typo.", "The command reads another folder of definitions than you expect."),
        (
            "Check the name; the message lists the names that exist.",
            "Set the folder of definitions with `--pipelines` or `SLUICEGATE_PIPELINES`.",
        ),
        "howto/your-own-files.md",
    ),
    "SG203": Explanation(
        "A landing folder, a file named in a command, or a source Delta table does not exist or cannot be listed.",
        (
            "Nothing has landed yet, and nobody has created the folder.",
            "`--landing` points elsewhere, or `path` in the definition has a typo.",
            "Missing permissions or credentials.",
        ),
        ("Create the folder, or correct `path` or `--landing`.", "Check permissions, credentials and the address."),
        "howto/object-storage.md",
    ),
    "SG204": Explanation(
        "The folder of a table holds files but no Delta log that can be read, so it is not overwritten.",
        (
            "Something else was stored there.",
            "The `_delta_log` folder was deleted or not copied, or a file in it is damaged.",
        ),
        (
            "Move the files away, or choose another lake with `--lake`.",
            "Restore a damaged log from a backup. Without one, move the folder away and keep it: the next run rebuilds"
            " the table from its source, bronze from landing and archive. Data that is in neither exists only in that"
            " folder.",
        ),
    ),
    "SG205": Explanation(
        "Spark cannot be started: there is no Java 17 or newer, no PySpark, or the pinned jars are missing.",
        (
            "Java is not installed, or `JAVA_HOME` points to an old one.",
            "`make setup` was not run, or its jars were deleted.",
            "Landing or lake is on S3, and the jars for S3 were not fetched.",
        ),
        (
            "Install Java 17 or newer, or point `JAVA_HOME` to it.",
            "Run `make setup` in a checkout (`make setup S3=1` for S3), or `sluicegate jars` where it is installed.",
        ),
        "howto/existing-airflow.md",
    ),
    "SG206": Explanation(
        "Spark or `sluicegate sql` rejected a query, a condition or a rule.",
        (
            "A table, column or function does not exist.",
            "A value that Spark cannot cast implicitly, or that makes a function or operator of the query fail.",
            "A value that makes a function in a rule's condition fail.",
            "A key or a rule `unique` over a map or a variant, whose values Spark does not compare.",
            "`sluicegate sql` accepts a single SELECT, and not all of Spark's SQL.",
        ),
        (
            "Correct the query at the line that is shown.",
            "Write conversions as `CAST(… AS …)`, or with a function such as `to_date`: in silver a record whose value "
            "cannot be converted is quarantined. `try_to_date` and similar functions return NULL instead.",
            "For other expressions that can fail, such as `a / b`, test the value first: "
            "`CASE WHEN b <> 0 THEN a / b END`. Select `b`, too, and quarantine the other "
            "rows by a rule: `expect_or_quarantine: b <> 0`.",
            "In a rule, use a function that returns NULL, such as `try_parse_json` or `get`, or test the value first.",
        ),
        "howto/values-that-do-not-fit.md",
    ),
    "SG207": Explanation(
        "Files cannot be read in the format and with the options of the definition.",
        (
            "A wrong `format`, or options such as `multiLine`, `header` or `sep` that do not fit the files.",
            "A truncated file, or a compression that Spark cannot read.",
        ),
        (
            "Land the complete file again under the same name, and run again.",
            "Correct `format` and `options`; `sluicegate copy-into … --validate` shows how records would be read.",
        ),
        "autoloader.md",
    ),
    "SG208": Explanation(
        "A silver query returned several rows for one record (fan-out). The batch was not committed.",
        (
            "A lookup table that is joined has two rows for one key.",
            "The join condition does not cover the whole key of the lookup.",
            "The query is meant to return several rows, as `explode` does.",
        ),
        (
            "Make the lookup unique: give it `keys`, or fill it by `apply_changes`.",
            "If several rows for each record are intended, set `rows: many`.",
        ),
        "howto/many-rows.md",
    ),
    "SG209": Explanation(
        "The lake is on storage that cannot coordinate concurrent writers, or that cannot be used at all.",
        (
            "A network mount without shared file locks, such as NFS with `nolock`.",
            "An object store without conditional writes, or one that is not S3.",
            "A file system user without write permission on the lock of the lake.",
        ),
        (
            "Put the lake on a local disk, on a mount with locks, or on S3.",
            "If no other machine ever writes to that mount, set `SLUICEGATE_ONLY_WRITER=1`.",
            "Run as the user that created the lake, or let both users write all of it.",
        ),
        "limits.md",
    ),
    "SG210": Explanation(
        "Columns or types do not match the table: schema drift that the table is not configured to accept.",
        (
            "New fields in files, with `schemaEvolutionMode: failOnNewColumns`.",
            "A declared type that differs from the type in the table.",
            "A query or transform whose output columns changed.",
            "A changed definition of a silver table that stores lookup values as of former runs.",
        ),
        (
            "Add the field to `schemaHints`, or choose another `schemaEvolutionMode`.",
            "Keep the type of the table and CAST in silver, or re-read all files with `sluicegate reset`.",
            "Revert the change of a silver or gold definition, or run the full refresh that the message names.",
        ),
        "autoloader.md",
    ),
    "SG211": Explanation(
        "A Python transform could not be loaded, raised an error, or did not return a batch of records.",
        (
            "The file imports a package that is not installed where the job runs.",
            "The function raises for some record.",
            "The returned rows lack `_chunk` and `_pos`, which identify the record.",
        ),
        ("Correct the function; nothing was written.", "Keep `_chunk` and `_pos` in what it returns."),
        "howto/python-functions.md",
    ),
    "SG212": Explanation(
        "`apply_changes` names columns that the records do not have, or records have columns that it adds itself.",
        ("A typo in `keys`, `sequence_by` or a column list.", "A source column called `__START_AT` or `__END_AT`."),
        ("Correct the name, or exclude the column with `except_column_list`.",),
        "howto/slowly-changing-dimensions.md",
    ),
    "SG213": Explanation(
        "No usable secret key for pseudonyms of personal data.",
        ("`SLUICEGATE_PII_KEY` is not set where the job runs, or is shorter than 16 bytes.",),
        (
            "Set `SLUICEGATE_PII_KEY`; `openssl rand -hex 32` generates a key. Keep it: a different key produces"
            " different pseudonyms.",
        ),
        "howto/de-identified-access.md",
    ),
    "SG214": Explanation(
        "An object store rejected the request.",
        ("Missing, wrong or expired credentials.", "The bucket does not exist, or you have no permission for it."),
        ("Check credentials, bucket and region in the environment of the job.",),
        "howto/object-storage.md",
    ),
    "SG215": Explanation(
        "The catalog already has this name, for a table at another location.",
        ("Two pipelines use one database name.", "The lake was moved, and the old name was left in the catalog."),
        ("Drop the old name (this deletes no files), or give the pipeline another `database`.",),
        "howto/catalog.md",
    ),
    "SG216": Explanation(
        "The test cases of a pipeline have validation errors. All of them are listed at once.",
        ("A table or column that the pipeline does not have.", "A misspelled field of a case."),
        ("Correct the listed lines of `tests/*.yaml`.",),
        "howto/testing-pipelines.md",
    ),
    "SG217": Explanation(
        "The tables in this lake belong to another target, so this run does not write them.",
        ("`--target` is missing or wrong.", "Two targets share one lake."),
        ("Pass the `--target` that owns the tables, or another `--lake`.",),
        "howto/parameters-and-targets.md",
    ),
    "SG218": Explanation(
        "Records of a Kafka topic were lost before they were read, or the topic was replaced. Nothing was written.",
        (
            "Records expired by the topic's retention, or were deleted, before a run read them.",
            "The topic was deleted and recreated, so its offsets start at 0 again.",
            "`bootstrap_servers` names other brokers than before, or they lost records.",
        ),
        (
            "Run more often, or increase the topic's retention.",
            "`data_loss: skip` continues after lost records, and records the skipped offsets in the ledger.",
            "Read a recreated topic into a new table, and combine both in silver with flows.",
        ),
        "howto/kafka.md",
    ),
    "SG219": Explanation(
        "Kafka's brokers denied access, or no connection is possible with the options under `kafka.security`.",
        (
            "Missing or wrong `SLUICEGATE_KAFKA_…` variables where the job runs.",
            "A user without permission to describe or read the topic.",
            "A `security.protocol` or `sasl.mechanism` that the brokers do not support, or a missing truststore.",
        ),
        (
            "Check `kafka.security`, and the variables in the environment of the job.",
            "Grant the user DESCRIBE and READ on the topics; no consumer group is needed.",
        ),
        "howto/kafka.md",
    ),
    "SG220": Explanation(
        "The new name of a pipeline is invalid or in use. Nothing was renamed.",
        (
            "The name is used by another pipeline, its tables in the lake, or its maintenance or verification DAG.",
            "The name has characters other than lowercase letters, digits and `_`, or does not start with a letter.",
            "An interrupted rename must be completed first.",
        ),
        ("Choose another name, or follow the `help` line of the message.",),
        "howto/renaming.md",
    ),
    "SG221": Explanation(
        "A run used a name that does not belong to this pipeline. Nothing was written.",
        (
            "The definition with the former name is still deployed, or a task was queued before the rename.",
            "A rename was interrupted.",
            "A new pipeline reuses the former name of another one.",
        ),
        (
            "Run the pipeline under its new name, and remove the former definition.",
            "Run `sluicegate rename OLD NEW` again: it completes an interrupted rename.",
            "For a new pipeline that reuses the name, delete the file that the message names.",
        ),
        "howto/renaming.md",
    ),
    "SG222": Explanation(
        "Unknown column of a table.",
        ("A misspelled name.", "A column that the next run will add."),
        ("Use the name that the message suggests; `sluicegate sql` shows a table's columns.",),
        "howto/lineage.md",
    ),
    "SG223": Explanation(
        "The project's `sluicegate.toml` has mistakes, or no target of the chosen name.",
        ("A misspelled setting or target.", "A value of another type.", "A secret in the file."),
        ("Correct each listed line.", "Put secrets into environment variables."),
        "howto/project.md",
    ),
    "SG300": Explanation(
        "Rows violate an `expect_or_fail`, or more rows violate a rule than `fail_above` allows. The batch was not"
        " committed.",
        ("Bad input data.", "A rule or a threshold that is too strict."),
        (
            "Inspect the rows in `{table}_rejected`.",
            "Correct the source or the rule, and run again.",
            "To continue without such rows, use `expect_or_quarantine` or `expect_or_drop`.",
        ),
        "howto/quality-rules.md",
    ),
    "SG301": Explanation(
        "`sluicegate test` found tables that differ from what the cases expect.",
        ("The query or a rule changed.", "The expectation in the case is outdated."),
        ("Compare the rows in the output, and correct the query or the case.",),
        "howto/testing-pipelines.md",
    ),
    "SG302": Explanation(
        "A verification found records that are lost, duplicated or different.",
        ("Another program wrote to the tables.", "A table was restored to an older version, or files were deleted."),
        ("Run the commands that the message names: they repair what can be repaired.",),
        "howto/verifying.md",
    ),
    "SG303": Explanation(
        "The table as a whole would violate a rule: a row count, uniqueness, a foreign key or an SQL check. The batch"
        " was not committed.",
        ("Incomplete or duplicate input.", "A referenced row that has not arrived yet."),
        ("Inspect the rows in `{table}_rejected`, correct the source or the rule, and run again.",),
        "howto/quality-rules.md",
    ),
    "SG304": Explanation(
        "No new file arrived within the duration that a bronze table expects (`expect_files_within`). The tables are"
        " intact.",
        ("The files are delivered late.", "The files are delivered to another folder."),
        ("Ask the supplier of the files.", "Change the duration of `expect_files_within`."),
        "howto/starting-runs.md",
    ),
    "SG305": Explanation(
        "Freshness, volume, backlog or the rate of a rule is beyond a limit `fail` under `alerts` of the definition.",
        (
            "The files are delivered late, or have too few rows.",
            "Runs are too slow, fail, or do not start.",
            "The data has changed: more rows break a rule.",
        ),
        (
            "`sluicegate alerts PIPELINE` shows all limits and current values; `sluicegate history` the last runs.",
            "Adjust the limit if the current values are acceptable.",
        ),
        "howto/alerts.md",
    ),
    **OF_RUNS,
}


def explain_code(code: str, name: str, exit_code: int) -> str:
    """Return the explanation of a code as lines for a terminal."""
    explanation = EXPLANATIONS[code]
    lines = [f"{code} {name}, exit code {exit_code}", "", explanation.means, "", "Usual causes"]
    lines += [f"  - {cause}" for cause in explanation.causes]
    lines += ["", "What to do", *(f"  - {remedy}" for remedy in explanation.remedies)]
    if explanation.page:
        lines += ["", f"More: docs/{explanation.page}"]
    return "\n".join(lines)
