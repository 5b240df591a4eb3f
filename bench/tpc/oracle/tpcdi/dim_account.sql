SELECT sk AS sk_account_id, ca_id AS account_id, known_broker AS broker_id, customer_sk AS sk_customer_id,
  CASE WHEN 'Inactive' IN (status, customer_status) THEN 'Inactive' ELSE 'Active' END AS status, name AS account_desc,
  tax AS tax_status, ends IS NULL AS is_current, begins AS effective_date, ends AS end_date
FROM account_version
