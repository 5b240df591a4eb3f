SELECT sk AS sk_security_id, symbol, issue, 'Active' AS status, name, exchange AS exchange_id, company_sk AS sk_company_id,
  shares AS shares_outstanding, first_trade, first_there AS first_trade_on_exchange, dividend,
  until IS NULL AS is_current, since AS effective_date, until AS end_date
FROM security
