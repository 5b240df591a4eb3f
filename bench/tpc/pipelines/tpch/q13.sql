-- How many customers have how many orders.
SELECT c_count, count(*) AS custdist
FROM q13_customers
GROUP BY c_count
ORDER BY custdist DESC, c_count DESC
