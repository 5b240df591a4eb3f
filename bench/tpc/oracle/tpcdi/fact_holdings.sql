SELECT CAST(hh_h_t_id AS BIGINT) AS trade_id, trade_id AS current_trade_id, sk_customer_id, sk_account_id,
  sk_security_id, sk_company_id, sk_close_date_id AS sk_date_id, sk_close_time_id AS sk_time_id,
  trade_price AS current_price, CAST(hh_after_qty AS INT) AS current_holding
FROM (SELECT DISTINCT * FROM piped('holding_history')), made WHERE trade_id = CAST(hh_t_id AS BIGINT)
