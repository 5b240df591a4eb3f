-- The average balance of customers of some countries who have any.
SELECT avg(c_acctbal) AS average
FROM customer
WHERE c_acctbal > 0.00 AND substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17')
