-- Sources as they landed; histories are made of them here, by windows over all records.
CREATE MACRO cents(x) AS CAST(x AS DECIMAL(15, 2));
CREATE MACRO seconds(t) AS CAST(epoch(t) AS BIGINT);
CREATE MACRO day_id(t) AS CAST(strftime(t, '%Y%m%d') AS INTEGER);
CREATE MACRO inside(t, since, until) AS t >= since AND t < coalesce(until, TIMESTAMP '9999-12-31');
CREATE MACRO piped(name) AS TABLE
SELECT * FROM read_csv('LANDING/' || name || '/*.csv', header = true, delim = '|', all_varchar = true);
CREATE TABLE industry AS FROM piped('industry');
CREATE TABLE status_type AS FROM piped('status_type');
CREATE TABLE trade_type AS FROM piped('trade_type');
CREATE TABLE tax_rate AS SELECT * REPLACE (CAST(tx_rate AS DECIMAL(6, 5)) AS tx_rate) FROM piped('tax_rate');
CREATE TABLE employee AS
SELECT * FROM read_csv('LANDING/hr/*.csv', header = true, all_varchar = true)
QUALIFY row_number() OVER (PARTITION BY employee_id ORDER BY CAST(hr_seq AS INT) DESC) = 1;
CREATE TABLE managed AS
SELECT action, CAST(action_ts AS TIMESTAMP) AS ts, CAST(c_id AS BIGINT) AS c_id, c_tax_id, c_gndr, c_tier, c_dob, name, address, email,
  phone, c_lcl_tx, c_nat_tx, CAST(ca_id AS BIGINT) AS ca_id, CAST(ca_b_id AS BIGINT) AS ca_b_id, ca_tax_st, ca_name
FROM read_json('LANDING/customer_mgmt/*.json', columns = {
  action: 'VARCHAR', action_ts: 'VARCHAR', c_id: 'BIGINT', c_tax_id: 'VARCHAR', c_gndr: 'VARCHAR', c_tier: 'INT',
  c_dob: 'DATE', name: 'STRUCT("last" VARCHAR, "first" VARCHAR, "middle" VARCHAR)',
  address: 'STRUCT(line VARCHAR, zip VARCHAR, city VARCHAR, state VARCHAR, country VARCHAR)', email: 'VARCHAR',
  phone: 'VARCHAR', c_lcl_tx: 'VARCHAR', c_nat_tx: 'VARCHAR', ca_id: 'BIGINT', ca_b_id: 'BIGINT', ca_tax_st: 'INT',
  ca_name: 'VARCHAR'});
CREATE TABLE customer AS
WITH known AS (
  SELECT c_id, ts, last_value({
      tax: c_tax_id, gender: upper(c_gndr), dob: c_dob, "last": name."last", "first": name."first", middle: name."middle",
      email: email, phone: phone, nat: c_nat_tx, lcl: c_lcl_tx} ORDER BY action = 'NEW') OVER w AS fixed,
    last_value(c_tier IGNORE NULLS) OVER w AS tier, last_value(address IGNORE NULLS) OVER w AS address,
    last_value(CASE action WHEN 'NEW' THEN 'Active' WHEN 'INACT' THEN 'Inactive' END IGNORE NULLS) OVER w AS status
  FROM managed WHERE action IN ('NEW', 'UPDCUST', 'INACT')
  WINDOW w AS (PARTITION BY c_id ORDER BY ts)
), begun AS (
  SELECT * FROM known
  QUALIFY row_number() OVER (PARTITION BY c_id ORDER BY ts) = 1
    OR (tier, address, status) IS DISTINCT FROM lag((tier, address, status)) OVER (PARTITION BY c_id ORDER BY ts)
)
SELECT *, ts AS since, lead(ts) OVER (PARTITION BY c_id ORDER BY ts) AS until FROM begun;
CREATE TABLE account AS
WITH known AS (
  SELECT ca_id, ts, c_id, last_value(ca_b_id IGNORE NULLS) OVER w AS broker,
    last_value(ca_name IGNORE NULLS) OVER w AS name, last_value(ca_tax_st IGNORE NULLS) OVER w AS tax,
    last_value(CASE action WHEN 'CLOSEACCT' THEN 'Inactive' WHEN 'UPDACCT' THEN NULL ELSE 'Active' END IGNORE NULLS)
      OVER w AS status
  FROM managed WHERE action IN ('NEW', 'ADDACCT', 'UPDACCT', 'CLOSEACCT')
  WINDOW w AS (PARTITION BY ca_id ORDER BY ts)
), begun AS (
  SELECT * FROM known
  QUALIFY row_number() OVER (PARTITION BY ca_id ORDER BY ts) = 1
    OR (broker, name, tax, status) IS DISTINCT FROM lag((broker, name, tax, status)) OVER (PARTITION BY ca_id ORDER BY ts)
)
SELECT *, ts AS since, lead(ts) OVER (PARTITION BY ca_id ORDER BY ts) AS until FROM begun;
CREATE TABLE wire AS
SELECT line, strptime(line[1:15], '%Y%m%d-%H%M%S') AS pts, line[16:18] AS kind
FROM (SELECT unnest(string_split(trim(content, chr(10)), chr(10))) AS line FROM read_text('LANDING/finwire/*.txt'));
CREATE TABLE company AS
SELECT CAST(line[79:88] AS BIGINT) AS company_id, rtrim(line[19:78]) AS name, rtrim(line[89:92]) AS status,
  line[93:94] AS industry, rtrim(line[95:98]) AS rating, strptime(line[99:106], '%Y%m%d')::DATE AS founded,
  rtrim(line[107:186]) AS address, rtrim(line[187:198]) AS zip, rtrim(line[199:223]) AS city,
  rtrim(line[224:243]) AS state, rtrim(line[244:267]) AS country, rtrim(line[268:313]) AS ceo,
  rtrim(line[314:463]) AS about, pts AS since, lead(pts) OVER (PARTITION BY line[79:88] ORDER BY pts) AS until,
  CAST(line[79:88] AS BIGINT) * 10000000000 + seconds(pts) AS sk
FROM wire WHERE kind = 'CMP';
CREATE TABLE security AS
WITH versions AS (
  SELECT rtrim(line[19:33]) AS symbol, rtrim(line[34:39]) AS issue, rtrim(line[44:113]) AS name,
    rtrim(line[114:119]) AS exchange, CAST(rtrim(line[120:132]) AS BIGINT) AS shares,
    strptime(line[133:140], '%Y%m%d')::DATE AS first_trade, strptime(line[141:148], '%Y%m%d')::DATE AS first_there,
    CAST(rtrim(line[149:160]) AS DECIMAL(10, 2)) AS dividend, rtrim(line[161:220]) AS of, pts AS since,
    lead(pts) OVER (PARTITION BY line[19:33] ORDER BY pts) AS until
  FROM wire WHERE kind = 'SEC')
SELECT v.* EXCLUDE (since, until), c.sk AS company_sk, c.company_id, greatest(v.since, c.since) AS since,
  nullif(least(coalesce(v.until, '9999-12-31'), coalesce(c.until, '9999-12-31')), TIMESTAMP '9999-12-31') AS until,
  CAST(symbol[4:] AS BIGINT) * 10000000000 + seconds(greatest(v.since, c.since)) AS sk
FROM versions v, company c
WHERE (try_cast(v.of AS BIGINT) = c.company_id OR v.of = c.name) AND v.since < coalesce(c.until, '9999-12-31')
  AND c.since < coalesce(v.until, '9999-12-31');
CREATE TABLE result AS
SELECT CAST(line[19:22] AS INT) AS year, CAST(line[23:23] AS INT) AS quarter,
  strptime(line[24:31], '%Y%m%d')::DATE AS begins, [CAST(rtrim(x) AS BIGINT) FOR x IN
    [line[40:56], line[57:73], line[110:126], line[127:143], line[144:160], line[161:173], line[174:186]]] AS amounts,
  [CAST(rtrim(x) AS DECIMAL(10, 2)) FOR x IN [line[74:85], line[86:97], line[98:109]]] AS ratios,
  rtrim(line[187:246]) AS of,
  (SELECT min(company_id) FROM company WHERE name = rtrim(line[187:246]) OR company_id = try_cast(line[187:246] AS BIGINT))
    AS company_id
FROM wire WHERE kind = 'FIN'
QUALIFY row_number() OVER (PARTITION BY line[19:23], line[187:246] ORDER BY pts DESC) = 1;
CREATE TABLE prospected AS SELECT *, snapshot AS day FROM read_csv('LANDING/prospect/*.csv', header = true, types = {
  'zip': 'VARCHAR', 'snapshot': 'DATE'});
CREATE TABLE trade AS
SELECT * FROM piped('trade') QUALIFY row_number() OVER (PARTITION BY t_id ORDER BY CAST(t_seq AS INT) DESC) = 1;
DELETE FROM trade WHERE t_op = 'D';
CREATE TABLE trade_moments AS
SELECT th_t_id, min(CAST(th_dts AS TIMESTAMP)) AS created,
  max(CAST(th_dts AS TIMESTAMP)) FILTER (th_st_id IN ('CMPT', 'CNCL')) AS closed
FROM piped('trade_history') GROUP BY 1;
CREATE TABLE cash AS
SELECT * FROM piped('cash_transaction')
QUALIFY row_number() OVER (PARTITION BY ct_id ORDER BY CAST(ct_seq AS INT) DESC) = 1;
DELETE FROM cash WHERE ct_op = 'D';
CREATE TABLE market AS
SELECT * FROM read_parquet('LANDING/daily_market/*.parquet')
QUALIFY row_number() OVER (PARTITION BY dm_s_symb, dm_date ORDER BY dm_seq DESC) = 1;
CREATE TABLE account_version AS
SELECT a.*, c.c_id * 10000000000 + seconds(c.since) AS customer_sk, greatest(a.since, c.since) AS begins,
  nullif(least(coalesce(a.until, '9999-12-31'), coalesce(c.until, '9999-12-31')), TIMESTAMP '9999-12-31') AS ends,
  a.ca_id * 10000000000 + seconds(greatest(a.since, c.since)) AS sk, c.status AS customer_status,
  (SELECT CAST(employee_id AS BIGINT) FROM employee
   WHERE CAST(employee_id AS BIGINT) = a.broker AND job_code = '314') AS known_broker
FROM account a, customer c
WHERE a.c_id = c.c_id AND a.since < coalesce(c.until, '9999-12-31') AND c.since < coalesce(a.until, '9999-12-31');
CREATE TABLE made AS
SELECT CAST(t.t_id AS BIGINT) AS trade_id, v.known_broker AS broker_id, day_id(m.created) AS sk_create_date_id,
  hour(m.created) * 100 + minute(m.created) AS sk_create_time_id, day_id(m.closed) AS sk_close_date_id,
  hour(m.closed) * 100 + minute(m.closed) AS sk_close_time_id, st_name AS status, tt_name AS type,
  t_is_cash = '1' AS cash_flag, s.sk AS sk_security_id, s.company_sk AS sk_company_id, CAST(t_qty AS INT) AS quantity,
  cents(t_bid_price) AS bid_price, v.customer_sk AS sk_customer_id, v.sk AS sk_account_id, t_exec_name AS executed_by,
  cents(t_trade_price) AS trade_price, cents(t_chrg) AS fee, cents(t_comm) AS commission, cents(t_tax) AS tax
FROM trade t, trade_moments m, status_type, trade_type, security s, account_version v
WHERE t.t_id = m.th_t_id AND t_st_id = st_id AND t_tt_id = tt_id AND t_s_symb = s.symbol
  AND inside(m.created, s.since, s.until) AND CAST(t_ca_id AS BIGINT) = v.ca_id AND inside(m.created, v.begins, v.ends);
