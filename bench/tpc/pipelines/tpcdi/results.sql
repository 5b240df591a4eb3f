SELECT CAST(substring(w.value, 19, 4) AS INT) AS fi_year, CAST(substring(w.value, 23, 1) AS INT) AS fi_qtr,
  to_date(substring(w.value, 24, 8), 'yyyyMMdd') AS fi_qtr_start_date,
  CAST(trim(substring(w.value, 40, 17)) AS BIGINT) AS fi_revenue,
  CAST(trim(substring(w.value, 57, 17)) AS BIGINT) AS fi_net_earn,
  CAST(trim(substring(w.value, 74, 12)) AS DECIMAL(10, 2)) AS fi_basic_eps,
  CAST(trim(substring(w.value, 86, 12)) AS DECIMAL(10, 2)) AS fi_dilut_eps,
  CAST(trim(substring(w.value, 98, 12)) AS DECIMAL(10, 2)) AS fi_margin,
  CAST(trim(substring(w.value, 110, 17)) AS BIGINT) AS fi_inventory,
  CAST(trim(substring(w.value, 127, 17)) AS BIGINT) AS fi_assets,
  CAST(trim(substring(w.value, 144, 17)) AS BIGINT) AS fi_liability,
  CAST(trim(substring(w.value, 161, 13)) AS BIGINT) AS fi_out_basic,
  CAST(trim(substring(w.value, 174, 13)) AS BIGINT) AS fi_out_dilut,
  coalesce(try_cast(trim(substring(w.value, 187, 60)) AS BIGINT), 0) AS company_id,
  trim(substring(w.value, 187, 60)) AS company_name,
  to_timestamp(substring(w.value, 1, 15), 'yyyyMMdd-HHmmss') AS pts
FROM STREAM(finwire_landed) AS w
WHERE substring(w.value, 16, 3) = 'FIN'
