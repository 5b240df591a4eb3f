WITH w AS (
  SELECT CAST(w_c_id AS BIGINT) AS customer_id, w_s_symb AS symbol,
    min(CAST(w_dts AS TIMESTAMP)) FILTER (w_action = 'ACTV') AS placed,
    max(CAST(w_dts AS TIMESTAMP)) FILTER (w_action = 'CNCL') AS removed
  FROM piped('watch_history') GROUP BY ALL)
SELECT c.c_id * 10000000000 + seconds(c.since) AS sk_customer_id, s.sk AS sk_security_id, customer_id, w.symbol,
  day_id(placed) AS sk_date_id_date_placed, day_id(removed) AS sk_date_id_date_removed
FROM w, customer c, security s
WHERE c.c_id = customer_id AND inside(placed, c.since, c.until) AND s.symbol = w.symbol
  AND inside(placed, s.since, s.until)
