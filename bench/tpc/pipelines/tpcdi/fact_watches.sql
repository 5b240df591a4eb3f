-- From when to when a customer watches a security.
SELECT c.sk_customer_id, s.sk_security_id, w.customer_id, w.symbol,
  CAST(date_format(w.placed, 'yyyyMMdd') AS INT) AS sk_date_id_date_placed,
  CAST(date_format(w.removed, 'yyyyMMdd') AS INT) AS sk_date_id_date_removed
FROM (
  SELECT w_c_id AS customer_id, w_s_symb AS symbol, min(CASE WHEN w_action = 'ACTV' THEN w_dts END) AS placed,
    max(CASE WHEN w_action = 'CNCL' THEN w_dts END) AS removed
  FROM watches
  GROUP BY w_c_id, w_s_symb
) AS w
JOIN dim_customer AS c ON w.customer_id = c.customer_id AND w.placed >= c.effective_date
  AND (w.placed < c.end_date OR c.end_date IS NULL)
JOIN dim_security AS s ON w.symbol = s.symbol AND w.placed >= s.effective_date
  AND (w.placed < s.end_date OR s.end_date IS NULL)
