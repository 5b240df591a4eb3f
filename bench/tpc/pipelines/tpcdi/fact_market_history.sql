-- Each day of a security with the highest and lowest price of 52 weeks, the first day of each, and price by earnings.
SELECT s.sk_security_id, s.sk_company_id, m.dm_s_symb AS symbol,
  CAST(date_format(m.dm_date, 'yyyyMMdd') AS INT) AS sk_date_id, try_divide(m.dm_close, e.eps) AS pe_ratio,
  try_divide(s.dividend, m.dm_close) * 100 AS yield, m.high.price AS fifty_two_week_high,
  date_add(DATE '1970-01-01', -m.high.day) AS fifty_two_week_high_date, m.low.price AS fifty_two_week_low,
  date_add(DATE '1970-01-01', m.low.day) AS fifty_two_week_low_date, m.dm_close AS close_price, m.dm_high AS day_high,
  m.dm_low AS day_low, m.dm_vol AS volume
FROM (
  SELECT dm_date, dm_s_symb, dm_close, dm_high, dm_low, dm_vol,
    max(struct(dm_high AS price, -unix_date(dm_date) AS day)) OVER (
      PARTITION BY dm_s_symb ORDER BY unix_date(dm_date) RANGE BETWEEN 364 PRECEDING AND CURRENT ROW) AS high,
    min(struct(dm_low AS price, unix_date(dm_date) AS day)) OVER (
      PARTITION BY dm_s_symb ORDER BY unix_date(dm_date) RANGE BETWEEN 364 PRECEDING AND CURRENT ROW) AS low
  FROM daily_market
) AS m
JOIN dim_security AS s ON m.dm_s_symb = s.symbol AND s.effective_date <= CAST(m.dm_date AS TIMESTAMP)
  AND (s.end_date > CAST(m.dm_date AS TIMESTAMP) OR s.end_date IS NULL)
JOIN dim_company AS c ON s.sk_company_id = c.sk_company_id
LEFT JOIN (
  SELECT company_id, fi_qtr_start_date AS since,
    lead(fi_qtr_start_date) OVER (PARTITION BY company_id ORDER BY fi_qtr_start_date) AS until,
    sum(fi_basic_eps) OVER (PARTITION BY company_id ORDER BY fi_qtr_start_date ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)
      AS eps
  FROM financial
) AS e ON c.company_id = e.company_id AND m.dm_date > e.since AND (m.dm_date <= e.until OR e.until IS NULL)
