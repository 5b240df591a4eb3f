-- What an account held after each trade.
SELECT h.hh_h_t_id AS trade_id, h.hh_t_id AS current_trade_id, t.sk_customer_id, t.sk_account_id, t.sk_security_id,
  t.sk_company_id, t.sk_close_date_id AS sk_date_id, t.sk_close_time_id AS sk_time_id, t.trade_price AS current_price,
  h.hh_after_qty AS current_holding
FROM holdings AS h
JOIN dim_trade AS t ON h.hh_t_id = t.trade_id
