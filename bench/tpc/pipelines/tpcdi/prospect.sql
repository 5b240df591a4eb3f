-- Prospects as the last file has them, whether they are customers, and what they may be interested in. Customers stand
-- first, since a table of snapshots is replaced by each: a first table that is replaced makes all of this again.
SELECT p.agency_id, p.__START_AT AS update_date, p.last, p.first, p.middle, p.gender, p.line, p.zip, p.city, p.state,
  p.country, p.income, p.cars, p.children, p.marital, p.age, p.credit_rating, p.home, p.employer, p.cards, p.net_worth,
  k.last_name IS NOT NULL AS is_customer,
  concat_ws('+',
    CASE WHEN p.net_worth > 1000000 OR p.income > 200000 THEN 'HighValue' END,
    CASE WHEN p.children > 3 OR p.cards > 5 THEN 'Expenses' END,
    CASE WHEN p.age > 45 THEN 'Boomer' END,
    CASE WHEN p.income < 50000 OR p.credit_rating < 600 OR p.net_worth < 100000 THEN 'MoneyAlert' END,
    CASE WHEN p.cars > 3 OR p.cards > 7 THEN 'Spender' END,
    CASE WHEN p.age < 25 AND p.net_worth > 1000000 THEN 'Inherited' END) AS marketing_nameplate
FROM (
  SELECT DISTINCT upper(last_name) AS last_name, upper(first_name) AS first_name, upper(address_line) AS line,
    upper(postal_code) AS zip
  FROM customers
  WHERE __END_AT IS NULL
) AS k
RIGHT JOIN prospects AS p ON upper(p.last) = k.last_name AND upper(p.first) = k.first_name AND upper(p.line) = k.line
  AND upper(p.zip) = k.zip
WHERE p.__END_AT IS NULL
