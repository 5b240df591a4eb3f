SELECT CAST(employee_id AS BIGINT) AS employee_id, CAST(manager_id AS BIGINT) AS manager_id, "last", "first", "middle",
  branch, office, phone
FROM employee WHERE job_code = '314'
