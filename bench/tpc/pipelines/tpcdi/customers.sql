-- What a record says of a customer; what it does not say is NULL, and stays as it was.
SELECT m.c_id, m.c_tax_id AS tax_id, upper(m.c_gndr) AS gender, m.c_tier AS tier, m.c_dob AS dob,
  m.name.last AS last_name, m.name.first AS first_name, m.name.middle AS middle_initial,
  m.address.line AS address_line, m.address.zip AS postal_code, m.address.city AS city, m.address.state AS state_prov,
  m.address.country AS country, m.email, m.phone, m.c_nat_tx AS nat_tx_id, m.c_lcl_tx AS lcl_tx_id,
  CASE m.action WHEN 'NEW' THEN 'ACTV' WHEN 'INACT' THEN 'INAC' END AS status, m.action_ts
FROM STREAM(customer_mgmt_landed) AS m
WHERE m.action IN ('NEW', 'UPDCUST', 'INACT')
