SELECT customer_sk AS sk_customer_id, sk AS sk_account_id, d.account_id, day_id(d.day) AS sk_date_id,
  (SELECT sum(cents(ct_amt)) FROM cash WHERE CAST(ct_ca_id AS BIGINT) = d.account_id
   AND CAST(ct_dts AS TIMESTAMP)::DATE <= d.day) AS cash
FROM (SELECT DISTINCT CAST(ct_ca_id AS BIGINT) AS account_id, CAST(ct_dts AS TIMESTAMP)::DATE AS day FROM cash) d,
  account_version
WHERE ca_id = d.account_id AND begins < d.day + 1 AND coalesce(ends, '9999-12-31') >= d.day + 1
