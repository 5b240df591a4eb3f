-- Trades with when they were made and closed, and with the versions of account and security that held when they were made.
SELECT t.t_id AS trade_id, a.broker_id, CAST(date_format(h.created, 'yyyyMMdd') AS INT) AS sk_create_date_id,
  hour(h.created) * 100 + minute(h.created) AS sk_create_time_id,
  CAST(date_format(h.closed, 'yyyyMMdd') AS INT) AS sk_close_date_id,
  hour(h.closed) * 100 + minute(h.closed) AS sk_close_time_id, st.st_name AS status, tt.tt_name AS type,
  t.t_is_cash = 1 AS cash_flag, s.sk_security_id, s.sk_company_id, t.t_qty AS quantity, t.t_bid_price AS bid_price,
  a.sk_customer_id, a.sk_account_id, t.t_exec_name AS executed_by, t.t_trade_price AS trade_price, t.t_chrg AS fee,
  t.t_comm AS commission, t.t_tax AS tax
FROM trades AS t
JOIN (
  SELECT th_t_id, min(th_dts) AS created, max(CASE WHEN th_st_id IN ('CMPT', 'CNCL') THEN th_dts END) AS closed
  FROM trade_history
  GROUP BY th_t_id
) AS h ON t.t_id = h.th_t_id
JOIN status_type AS st ON t.t_st_id = st.st_id
JOIN trade_type AS tt ON t.t_tt_id = tt.tt_id
JOIN dim_security AS s ON t.t_s_symb = s.symbol AND h.created >= s.effective_date
  AND (h.created < s.end_date OR s.end_date IS NULL)
JOIN dim_account AS a ON t.t_ca_id = a.account_id AND h.created >= a.effective_date
  AND (h.created < a.end_date OR a.end_date IS NULL)
