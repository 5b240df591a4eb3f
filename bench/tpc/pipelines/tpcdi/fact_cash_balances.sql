-- The balance of an account at the end of each day that changed it.
SELECT a.sk_customer_id, a.sk_account_id, b.account_id, CAST(date_format(b.day, 'yyyyMMdd') AS INT) AS sk_date_id, b.cash
FROM (
  SELECT account_id, day, sum(amount) OVER (PARTITION BY account_id ORDER BY day) AS cash
  FROM (
    SELECT ct_ca_id AS account_id, to_date(ct_dts) AS day, sum(ct_amt) AS amount
    FROM cash_transactions
    GROUP BY ct_ca_id, to_date(ct_dts)
  ) AS days
) AS b
JOIN dim_account AS a ON b.account_id = a.account_id
  AND a.effective_date < CAST(date_add(b.day, 1) AS TIMESTAMP)
  AND (a.end_date >= CAST(date_add(b.day, 1) AS TIMESTAMP) OR a.end_date IS NULL)
