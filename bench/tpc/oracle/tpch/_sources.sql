-- The eight tables: of each key the record that landed last, unless it is a delete.
CREATE MACRO cents(x) AS CAST(x AS DECIMAL(15, 2));
CREATE TABLE region AS SELECT * FROM read_csv('LANDING/region/*.csv', header = true, all_varchar = true);
CREATE TABLE nation AS
SELECT CAST(n_nationkey AS BIGINT) AS n_nationkey, n_name, n_regionkey
FROM read_csv('LANDING/nation/*.csv', header = true, all_varchar = true);
CREATE TABLE part AS
SELECT * EXCLUDE (newest) REPLACE (cents(p_retailprice) AS p_retailprice) FROM (
  SELECT *, row_number() OVER (PARTITION BY p_partkey ORDER BY seq DESC) AS newest
  FROM read_csv('LANDING/part/*.csv', header = true, delim = '|')) WHERE newest = 1 AND op <> 'D';
CREATE TABLE supplier AS
SELECT * EXCLUDE (newest) REPLACE (cents(s_acctbal) AS s_acctbal) FROM (
  SELECT *, row_number() OVER (PARTITION BY s_suppkey ORDER BY seq DESC) AS newest
  FROM read_json('LANDING/supplier/*.json')) WHERE newest = 1 AND op <> 'D';
CREATE TABLE customer AS
SELECT * EXCLUDE (newest) REPLACE (cents(c_acctbal) AS c_acctbal) FROM (
  SELECT *, row_number() OVER (PARTITION BY c_custkey ORDER BY seq DESC) AS newest
  FROM read_json('LANDING/customer/*.json')) WHERE newest = 1 AND op <> 'D';
CREATE TABLE partsupp AS
SELECT * EXCLUDE (newest) FROM (
  SELECT *, row_number() OVER (PARTITION BY ps_partkey, ps_suppkey ORDER BY seq DESC) AS newest
  FROM read_parquet('LANDING/partsupp/*.parquet')) WHERE newest = 1 AND op <> 'D';
CREATE TABLE orders AS
SELECT * EXCLUDE (newest) FROM (
  SELECT *, row_number() OVER (PARTITION BY o_orderkey ORDER BY seq DESC) AS newest
  FROM read_parquet('LANDING/orders/*.parquet')) WHERE newest = 1 AND op <> 'D';
CREATE TABLE lineitem AS
SELECT * EXCLUDE (newest), l_extendedprice * (1 - l_discount) AS paid FROM (
  SELECT *, row_number() OVER (PARTITION BY l_orderkey, l_linenumber ORDER BY seq DESC) AS newest
  FROM read_parquet('LANDING/lineitem/*.parquet')) WHERE newest = 1 AND op <> 'D';
