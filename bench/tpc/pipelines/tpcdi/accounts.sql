-- What a record says of an account.
SELECT m.ca_id, m.c_id, m.ca_b_id AS broker_id, m.ca_name AS account_desc, m.ca_tax_st AS tax_status,
  CASE m.action WHEN 'CLOSEACCT' THEN 'INAC' WHEN 'UPDACCT' THEN NULL ELSE 'ACTV' END AS status, m.action_ts
FROM STREAM(customer_mgmt_landed) AS m
WHERE m.ca_id IS NOT NULL
