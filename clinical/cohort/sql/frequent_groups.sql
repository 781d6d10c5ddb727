-- The groups with enough stays on the train side, as the column `diagnoses` of the cohort. Stays
-- without any code keep NULL: what they have is not known.
-- In:  cohort, stay_groups, and the value minimum_stays.  Out: group_counts.

ALTER TABLE cohort ADD COLUMN diagnoses VARCHAR[];

UPDATE cohort SET diagnoses = stay_groups.diagnoses
FROM stay_groups
WHERE stay_groups.stay_no = cohort.stay_no AND cohort.exclusion IS NULL AND cohort.split IS NOT NULL;

CREATE TABLE group_counts AS
WITH pairs AS (SELECT unnest(diagnoses) AS group_name, split FROM cohort)
SELECT group_name,
    count(*) FILTER (split = 'train') AS train,
    count(*) FILTER (split = 'val') AS val,
    count(*) FILTER (split = 'test') AS test
FROM pairs
GROUP BY group_name
HAVING train >= $minimum_stays
ORDER BY group_name;

UPDATE cohort SET diagnoses = list_intersect(
    diagnoses, coalesce((SELECT list(group_name) FROM group_counts), []))
WHERE diagnoses IS NOT NULL;

UPDATE cohort SET diagnoses = list_sort(diagnoses) WHERE diagnoses IS NOT NULL;
