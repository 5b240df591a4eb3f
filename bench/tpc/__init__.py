"""TPC-H and TPC-DI as pipelines: data, definitions, an oracle, and what keeping each table up to date costs."""
