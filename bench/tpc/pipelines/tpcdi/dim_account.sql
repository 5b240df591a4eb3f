-- Versions of accounts, cut where a version of their customer ends: an account of a customer who left is inactive.
SELECT a.ca_id * 10000000000 + unix_seconds(greatest(a.__START_AT, c.effective_date)) AS sk_account_id,
  a.ca_id AS account_id, b.employee_id AS broker_id, c.sk_customer_id,
  CASE WHEN c.status = 'Inactive' THEN c.status ELSE t.st_name END AS status, a.account_desc, a.tax_status,
  a.__END_AT IS NULL AND c.end_date IS NULL AS is_current, greatest(a.__START_AT, c.effective_date) AS effective_date,
  least(a.__END_AT, c.end_date) AS end_date
FROM accounts AS a
JOIN dim_customer AS c ON a.c_id = c.customer_id
  AND a.__START_AT < coalesce(c.end_date, TIMESTAMP '9999-12-31')
  AND c.effective_date < coalesce(a.__END_AT, TIMESTAMP '9999-12-31')
JOIN status_type AS t ON a.status = t.st_id
LEFT JOIN dim_broker AS b ON a.broker_id = b.employee_id
