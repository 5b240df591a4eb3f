WITH extremes AS (
  SELECT m.dm_s_symb, m.dm_date, max(y.dm_high) AS high, min(y.dm_low) AS low,
    arg_max(y.dm_date, (y.dm_high, -epoch(y.dm_date))) AS high_day,
    arg_min(y.dm_date, (y.dm_low, epoch(y.dm_date))) AS low_day
  FROM market m JOIN market y ON y.dm_s_symb = m.dm_s_symb AND y.dm_date <= m.dm_date AND y.dm_date >= m.dm_date - 364
  GROUP BY ALL
)
SELECT s.sk AS sk_security_id, s.company_sk AS sk_company_id, m.dm_s_symb AS symbol, day_id(m.dm_date) AS sk_date_id,
  m.dm_close / (SELECT sum(e) FROM (
    SELECT ratios[1] AS e FROM result r WHERE r.company_id = s.company_id AND r.begins < m.dm_date
    ORDER BY begins DESC LIMIT 4)) AS pe_ratio,
  100 * s.dividend / m.dm_close AS yield, high AS fifty_two_week_high, high_day AS fifty_two_week_high_date,
  low AS fifty_two_week_low, low_day AS fifty_two_week_low_date, m.dm_close AS close_price, m.dm_high AS day_high,
  m.dm_low AS day_low, m.dm_vol AS volume
FROM market m JOIN extremes USING (dm_s_symb, dm_date), security s
WHERE s.symbol = m.dm_s_symb AND inside(m.dm_date::TIMESTAMP, s.since, s.until)
