WITH lasting AS (
  SELECT agency_id, row("last", "first", "middle", gender, line, zip, city, state, country, income, cars, children,
                        marital, age, credit_rating, home, employer, cards, net_worth) AS said, day FROM prospected
), changed AS (
  SELECT agency_id, max(day) AS update_date FROM (
    SELECT *, said IS DISTINCT FROM lag(said) OVER (PARTITION BY agency_id ORDER BY day) AS is_new FROM lasting)
  WHERE is_new GROUP BY 1)
SELECT agency_id, update_date, "last", "first", "middle", gender, line, zip, city, state, country, income, cars, children,
  marital, age, credit_rating, home, employer, cards, net_worth,
  EXISTS (FROM customer c WHERE until IS NULL AND c.fixed."last" = p."last" AND c.fixed."first" = p."first"
          AND c.address.line = p.line AND c.address.zip = p.zip) AS is_customer,
  array_to_string(list_filter([
    CASE WHEN net_worth > 1000000 OR income > 200000 THEN 'HighValue' END,
    CASE WHEN children > 3 OR cards > 5 THEN 'Expenses' END, CASE WHEN age > 45 THEN 'Boomer' END,
    CASE WHEN income < 50000 OR credit_rating < 600 OR net_worth < 100000 THEN 'MoneyAlert' END,
    CASE WHEN cars > 3 OR cards > 7 THEN 'Spender' END,
    CASE WHEN age < 25 AND net_worth > 1000000 THEN 'Inherited' END], lambda x: x IS NOT NULL), '+') AS marketing_nameplate
FROM prospected p JOIN changed USING (agency_id)
WHERE day = (SELECT max(day) FROM prospected)
