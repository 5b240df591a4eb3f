-- The company is named by its number or by its name.
SELECT trim(substring(w.value, 19, 15)) AS symbol, trim(substring(w.value, 34, 6)) AS issue,
  trim(substring(w.value, 40, 4)) AS status, trim(substring(w.value, 44, 70)) AS name,
  trim(substring(w.value, 114, 6)) AS exchange_id, CAST(trim(substring(w.value, 120, 13)) AS BIGINT) AS shares_outstanding,
  to_date(substring(w.value, 133, 8), 'yyyyMMdd') AS first_trade,
  to_date(substring(w.value, 141, 8), 'yyyyMMdd') AS first_trade_on_exchange,
  CAST(trim(substring(w.value, 149, 12)) AS DECIMAL(10, 2)) AS dividend,
  try_cast(trim(substring(w.value, 161, 60)) AS BIGINT) AS company_id, trim(substring(w.value, 161, 60)) AS company_name,
  to_timestamp(substring(w.value, 1, 15), 'yyyyMMdd-HHmmss') AS pts
FROM STREAM(finwire_landed) AS w
WHERE substring(w.value, 16, 3) = 'SEC'
