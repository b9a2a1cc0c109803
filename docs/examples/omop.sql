-- One row per person from the tables person, condition_occurrence and measurement of the OMOP common data
-- model (version 5.4). It runs on PostgreSQL and on SQLite. Predicted is whether type 2 diabetes was recorded
-- in 2024, from what was recorded in 2023. Measurements in other units than those named are left out.
SELECT
  p.person_id,
  2024 - p.year_of_birth AS age,
  CASE p.gender_concept_id WHEN 8507 THEN 'male' WHEN 8532 THEN 'female' END AS sex,
  m.systolic,                                           -- mean of the year, mm Hg
  m.hba1c,                                              -- mean of the year, per cent
  COALESCE(c.hypertension, 0) AS hypertension,
  CASE WHEN COALESCE(c.diabetes, 0) = 1 THEN 'yes' ELSE 'no' END AS diabetes
FROM person AS p
LEFT JOIN (
  SELECT
    person_id,
    AVG(CASE WHEN measurement_concept_id = 3004249 AND unit_concept_id = 8876 THEN value_as_number END)
      AS systolic,
    AVG(CASE WHEN measurement_concept_id = 3004410 AND unit_concept_id = 8554 THEN value_as_number END)
      AS hba1c
  FROM measurement
  WHERE measurement_date >= '2023-01-01' AND measurement_date < '2024-01-01'
  GROUP BY person_id
) AS m ON m.person_id = p.person_id
LEFT JOIN (
  SELECT
    person_id,
    MAX(CASE WHEN condition_concept_id = 320128 AND condition_start_date < '2024-01-01' THEN 1 ELSE 0 END)
      AS hypertension,
    MAX(CASE WHEN condition_concept_id = 201826 AND condition_start_date >= '2024-01-01' THEN 1 ELSE 0 END)
      AS diabetes
  FROM condition_occurrence
  WHERE condition_start_date >= '2023-01-01' AND condition_start_date < '2025-01-01'
  GROUP BY person_id
) AS c ON c.person_id = p.person_id
ORDER BY p.person_id;
