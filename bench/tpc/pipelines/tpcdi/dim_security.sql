-- Versions of securities, cut where a version of their company ends.
WITH of_companies AS (
  SELECT s.*, c.sk_company_id, greatest(s.__START_AT, c.effective_date) AS effective_date,
    least(s.__END_AT, c.end_date) AS end_date
  FROM securities AS s
  JOIN dim_company AS c ON s.company_id = c.company_id
    AND s.__START_AT < coalesce(c.end_date, TIMESTAMP '9999-12-31')
    AND c.effective_date < coalesce(s.__END_AT, TIMESTAMP '9999-12-31')
  UNION ALL
  SELECT s.*, c.sk_company_id, greatest(s.__START_AT, c.effective_date) AS effective_date,
    least(s.__END_AT, c.end_date) AS end_date
  FROM securities AS s
  JOIN dim_company AS c ON s.company_name = c.name
    AND s.__START_AT < coalesce(c.end_date, TIMESTAMP '9999-12-31')
    AND c.effective_date < coalesce(s.__END_AT, TIMESTAMP '9999-12-31')
)
SELECT CAST(substring(o.symbol, 4) AS BIGINT) * 10000000000 + unix_seconds(o.effective_date) AS sk_security_id,
  o.symbol, o.issue, t.st_name AS status, o.name, o.exchange_id, o.sk_company_id, o.shares_outstanding, o.first_trade,
  o.first_trade_on_exchange, o.dividend, o.end_date IS NULL AS is_current, o.effective_date, o.end_date
FROM of_companies AS o
JOIN status_type AS t ON o.status = t.st_id
