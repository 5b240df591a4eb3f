"""Explanations of error codes: ``sluicegate help SG208``, and docs/reference/errors.md.

An error's own message names the table, the file and the value. What is here holds for every error of a code: what it
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
            "SQL that does not parse, or tables that read each other in a circle.",
        ),
        (
            "Correct each listed line; `sluicegate plan PIPELINE` checks again without starting Spark.",
            "Let an editor complete and check the file by `docs/pipeline.schema.json`.",
        ),
        "reference/pipeline-yaml.md",
    ),
    "SG202": Explanation(
        "The pipeline, layer or table that was named is not defined.",
        ("A typing error.", "The command reads another folder of definitions than you expect."),
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
            "`--landing` points elsewhere, or `path` in the definition has a typing error.",
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
        "A query, a condition or a rule was refused, by Spark in a pipeline or by `sluicegate sql`.",
        (
            "A table, column or function does not exist.",
            "A value that Spark cannot convert implicitly, or that makes a function or operator of the query fail.",
            "A value that makes a function in a rule's condition fail.",
            "A key or a rule `unique` over a map or a variant, whose values Spark does not compare.",
            "`sluicegate sql` takes one SELECT, and not everything that Spark can do.",
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
        "Columns or types do not fit the table: schema drift that the table is not configured to accept.",
        (
            "New fields in files, with `schemaEvolutionMode: failOnNewColumns`.",
            "A declared type that differs from the type the table has.",
            "A query or transform that returns other columns than before.",
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
        (
            "A typing error in `keys`, `sequence_by` or a column list.",
            "A source column called `__START_AT` or `__END_AT`.",
        ),
        ("Correct the name, or exclude the column with `except_column_list`.",),
        "howto/slowly-changing-dimensions.md",
    ),
    "SG213": Explanation(
        "No usable secret key for pseudonyms of personal data.",
        ("`SLUICEGATE_PII_KEY` is not set where the job runs, or is shorter than 16 bytes.",),
        ("Set `SLUICEGATE_PII_KEY`; `openssl rand -hex 32` makes a key. Keep it: another key gives other pseudonyms.",),
        "howto/de-identified-access.md",
    ),
    "SG214": Explanation(
        "An object store refused the request.",
        ("Missing, wrong or expired credentials.", "No such bucket, or no permission for it."),
        ("Check credentials, bucket and region as the job sees them.",),
        "howto/object-storage.md",
    ),
    "SG215": Explanation(
        "The catalog already has this name, for a table at another location.",
        ("Two pipelines use one database name.", "The lake was moved, and the old name was left in the catalog."),
        ("Drop the old name (no file is deleted by that), or give the pipeline another `database`.",),
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
        ("Give the target that owns the tables, or another `--lake`.",),
        "howto/parameters-and-targets.md",
    ),
    "SG218": Explanation(
        "Records of a Kafka topic were lost before they were read, or the topic was replaced. Nothing was written.",
        (
            "The topic's retention passed, or somebody deleted records, before a run read them.",
            "The topic was deleted and recreated, so its offsets start at 0 again.",
            "`bootstrap_servers` names other brokers than before, or they lost records.",
        ),
        (
            "Run more often, or lengthen the topic's retention.",
            "`data_loss: skip` continues after lost records, and records the skipped offsets in the ledger.",
            "Read a recreated topic into a new table, and combine both in silver with flows.",
        ),
        "howto/kafka.md",
    ),
    "SG219": Explanation(
        "Kafka's brokers refused access, or the options under `kafka.security` do not lead to a connection.",
        (
            "Missing or wrong `SLUICEGATE_KAFKA_…` variables where the job runs.",
            "A user without permission to describe or read the topic.",
            "A `security.protocol` or `sasl.mechanism` that the brokers do not have, or a missing truststore.",
        ),
        (
            "Check the variables and `kafka.security`, as the job sees them.",
            "Grant the user DESCRIBE and READ on the topics; no consumer group is needed.",
        ),
        "howto/kafka.md",
    ),
    "SG220": Explanation(
        "A pipeline cannot have this name. Nothing was renamed.",
        (
            "Another pipeline, its tables in the lake, or a DAG of its maintenance or verification has the name.",
            "The name has characters other than lowercase letters, digits and `_`, or does not start with a letter.",
            "Another rename was stopped, and has to be completed first.",
        ),
        ("Choose another name, or do what the `help` line says.",),
        "howto/renaming.md",
    ),
    "SG221": Explanation(
        "A run was started under a name that the pipeline does not have. Nothing was written.",
        (
            "A definition of the former name is still deployed, or a task of it was queued when it was renamed.",
            "A rename was stopped before it finished.",
            "A new pipeline has the name that another one had before.",
        ),
        (
            "Run the pipeline under its new name, and remove the former definition.",
            "Run `sluicegate rename OLD NEW` again: it completes a rename that was stopped.",
            "For a new pipeline of that name delete the file that the message names.",
        ),
        "howto/renaming.md",
    ),
    "SG222": Explanation(
        "A table has no column of this name.",
        ("A misspelled name.", "A column that the table gets only with its next run."),
        ("Use the name that the message suggests; `sluicegate sql` shows a table's columns.",),
        "howto/lineage.md",
    ),
    "SG300": Explanation(
        "Rows violate an `expect_or_fail`, or more rows violate a rule than `fail_above` allows. The batch was not"
        " committed.",
        ("Bad input data.", "A rule or a threshold that is too strict."),
        (
            "Look at the rows in `{table}_rejected`.",
            "Correct the source or the rule, and run again.",
            "To continue without such rows, use `expect_or_quarantine` or `expect_or_drop`.",
        ),
        "howto/quality-rules.md",
    ),
    "SG301": Explanation(
        "`sluicegate test` found tables that differ from what the cases expect.",
        ("The query or a rule changed.", "The expectation in the case is outdated."),
        ("Compare the rows that are shown, and correct the query or the case.",),
        "howto/testing-pipelines.md",
    ),
    "SG302": Explanation(
        "A verification found records that are lost, duplicated or different.",
        (
            "Somebody wrote to the tables by other means.",
            "A table was restored to an older version, or files were deleted.",
        ),
        ("Run the commands that the message names: they repair what can be repaired.",),
        "howto/verifying.md",
    ),
    "SG303": Explanation(
        "The table as a whole would violate a rule: a row count, uniqueness, a foreign key or an SQL check. The batch"
        " was not committed.",
        ("Incomplete or duplicate input.", "A referenced row that has not arrived yet."),
        ("Look at the rows in `{table}_rejected`, correct the source or the rule, and run again.",),
        "howto/quality-rules.md",
    ),
    "SG304": Explanation(
        "No new file has arrived within the time span that a bronze table expects (`expect_files_within`). Nothing is"
        " wrong with the tables.",
        ("Whoever delivers the files is late.", "Files are delivered to another folder."),
        ("Ask whoever delivers the files, or look for the files.", "Expect files within another duration."),
        "howto/starting-runs.md",
    ),
    "SG305": Explanation(
        "Freshness, volume, backlog or the rate of a rule is beyond a limit `fail` under `alerts` of the definition.",
        (
            "Whoever delivers the files is late, or delivers too little.",
            "Runs do not keep up, fail, or do not start at all.",
            "The data has changed: more rows break a rule.",
        ),
        (
            "`sluicegate alerts PIPELINE` shows all limits and current values; `sluicegate history` the last runs.",
            "Adjust the limit, if the current values are right.",
        ),
        "howto/alerts.md",
    ),
    **OF_RUNS,
}


def in_text(code: str, name: str, exit_code: int) -> str:
    """Explanation of a code as lines for a terminal."""
    explanation = EXPLANATIONS[code]
    lines = [f"{code} {name}, exit code {exit_code}", "", explanation.means, "", "Usual causes"]
    lines += [f"  - {cause}" for cause in explanation.causes]
    lines += ["", "What to do", *(f"  - {remedy}" for remedy in explanation.remedies)]
    if explanation.page:
        lines += ["", f"More: docs/{explanation.page}"]
    return "\n".join(lines)
